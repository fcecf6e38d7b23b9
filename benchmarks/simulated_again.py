"""What it is worth in simulations that waiting jobs are forecast again: the figures of docs/use/simulation.md.

    python benchmarks/simulated_again.py policies placements memory [--traces KTH-SP2 ...] [--seeds 3] [--jobs 20000]

Traces are looked for in JOBSIGHT_TRACES, by default ../shared/traces. It prints a line for each comparison as soon as
it is known: without and with asking again, and the paired difference (with minus without) with its 95 % interval.
``policies`` is what ``jobsight simulate --ask-again --against`` does, ``memory`` ``jobsight simulate-memory
--ask-again``; ``placements`` takes scenarios of the co-allocation experiment (docs/papers/coallocation.md).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from jobsight_papers.coallocation.scenarios import SCENARIOS
from jobsight_papers.overprovisioning.runs import CLASSES
from jobsight_scheduler.coallocation.bandwidth_sources import bandwidth_source
from jobsight_scheduler.coallocation.clusters import Clusters
from jobsight_scheduler.coallocation.cosimulation import CoSimulation
from jobsight_scheduler.coallocation.placement import PLACEMENTS
from jobsight_scheduler.coallocation.results import figures, job_table
from jobsight_scheduler.coallocation.scheduler import Scheduler
from jobsight_scheduler.coallocation.synthetic import draw_communication
from jobsight_scheduler.comparison import Difference, compare
from jobsight_scheduler.confidence import interval
from jobsight_scheduler.memory.cases import VARIANTS, MemoryCase, run_case
from jobsight_scheduler.memory.job_source import source_for
from jobsight_scheduler.memory.simulation import Asked
from jobsight_scheduler.policies import choose_policy
from jobsight_scheduler.simulator.event_loop import Simulation
from jobsight_scheduler.simulator.run import run
from jobsight_scheduler.table import JobTable, table_of
from jobsight_scheduler.workload.canonical import canonical
from jobsight_scheduler.workload.load import scaled_to
from jobsight_scheduler.workload.questions import questions_of
from jobsight_scheduler.workload.swf import read_swf, write_swf

TRACES = {
    "KTH-SP2": ("KTH-SP2-1996-2.1-cln.swf.gz", 100),
    "SDSC-SP2": ("SDSC-SP2-1998-4.2-cln.swf.gz", 128),
    "LANL-CM5": ("LANL-CM5-1994-4.1-cln.swf.gz", 1024),
    "METACENTRUM": ("METACENTRUM-2009-2.swf.gz", 806),
    "UniLu-Gaia": ("UniLu-Gaia-2014-2.swf.gz", 2004),
}
"""File and processors. METACENTRUM's header gives no size: 806 is that of its description in the archive."""

POLICIES = (("easy++", "last-two"), ("easy++", "jobsight"), ("sjf", "last-two"), ("sjf", "jobsight"))
LOADS = (0.7, 1.0)
OF_PLACEMENTS = ("KTH-SP2", "SDSC-SP2")
ASKED: tuple[Asked, ...] = ("submission", "group", "all")
PLACED_IN = ("100 Mb/s", "jobs differ", "users state nothing", "users state a tenth")


def policies(name: str, file: Path, capacity: int) -> None:
    """Wait and mean bounded slowdown of each policy with predictions."""
    trace = read_swf(file)
    workload = canonical(trace, capacity)
    questions = questions_of(trace, workload.row)
    for policy, predictor in POLICIES:
        chosen = choose_policy(policy, predictor)
        tables: list[JobTable] = []
        began = time.process_time()
        for way in (chosen, chosen.asking_again()):
            simulation = Simulation(workload, capacity, way.make, questions)
            run(simulation)
            tables.append(table_of(workload, simulation.start_s, trace["user"]))
        once, again = tables
        found = compare(once, again)
        print(
            f"| {name} | `{policy}`, `{predictor}` "
            f"| {once.wait_s.mean():,.0f} | {again.wait_s.mean():,.0f} | {shown(found['wait_s'], 0)} "
            f"| {once.bounded_slowdown.mean():,.1f} | {again.bounded_slowdown.mean():,.1f} "
            f"| {shown(found['bounded_slowdown'], 1)} | {time.process_time() - began:,.0f} |",
            flush=True,
        )


def placements(name: str, file: Path, seeds: int) -> None:
    """Turnaround with placement ``aware`` by the means of applications, over seeds of the drawn communication."""
    trace = read_swf(file)
    for label in PLACED_IN:
        scenario = SCENARIOS[label]
        clusters = Clusters(scenario.processors, tuple(1e6 * rate for rate in scenario.uplinks_mbps))
        jobs = scaled_to(canonical(trace, clusters.largest), clusters.total, scenario.load)
        took, saturated = np.empty((seeds, 2)), np.empty((seeds, 2))
        for seed in range(seeds):
            drawn = draw_communication(trace, jobs, seed, scenario.habits, scenario.labels)
            for k, ask_again in enumerate((False, True)):
                source = bandwidth_source("application-means", drawn, scenario.error, seed)
                make = partial(Scheduler, placement=PLACEMENTS["aware"], bandwidth=source, ask_again=ask_again)
                simulation = CoSimulation(drawn.work, clusters, make)
                simulation.advance(2 * len(jobs))
                found = figures(simulation, job_table(simulation, np.empty(0)))
                took[seed, k], saturated[seed, k] = found["mean_turnaround_s"], found["saturated"]
        mean, low, high = interval(100.0 * (took[:, 1] / took[:, 0] - 1.0))
        sure = "" if low is None or high is None else f" ({low:+.1f} to {high:+.1f})"
        print(
            f"| {name} | {label} | {took[:, 0].mean():,.0f} | {took[:, 1].mean():,.0f} | {mean:+.1f}{sure} "
            f"| {100 * saturated[:, 0].mean():.2f} | {100 * saturated[:, 1].mean():.2f} |",
            flush=True,
        )


def memory(file: Path, classes: str, loads: Sequence[float]) -> None:
    """Use of the nodes, wait and failures on the machine of docs/papers/overprovisioning.md under EASY."""
    source = source_for(file, classes)
    for load in loads:
        for estimator in ("none", "successive-approximation", "jobsight", "jobsight-implicit"):
            for asked in ASKED if VARIANTS[estimator].learns else ("group",):
                began = time.process_time()
                row = run_case(MemoryCase(classes, load, "easy", estimator=estimator, asked=asked), source)
                print(
                    f"| {load:g} | `{estimator}` | {asked} | {100 * row['utilisation']:.1f} "
                    f"| {row['mean_wait_s'] / 3600:,.2f} | {100 * row['failed_share']:.3f} "
                    f"| {100 * row['lowered_share']:.1f} | {time.process_time() - began:,.0f} |",
                    flush=True,
                )


def beginning(file: Path, jobs: int, directory: Path) -> Path:
    """A trace of the first ``jobs`` lines of ``file``, in ``directory``; 0: the file itself."""
    if not jobs:
        return file
    trace = read_swf(file)
    first = directory / file.name
    write_swf(replace(trace, columns={name: column[:jobs] for name, column in trace.columns.items()}), first)
    return first


def shown(difference: Difference, digits: int) -> str:
    """Mean and interval."""
    return f"{difference.mean:+,.{digits}f} ({difference.low:+,.{digits}f} to {difference.high:+,.{digits}f})"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=("policies", "placements", "memory"))
    parser.add_argument("--traces", nargs="+", choices=tuple(TRACES), default=tuple(TRACES), metavar="NAME")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="of drawn communication (default: 3)")
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="of memory: the first of the trace only")
    args = parser.parse_args(arguments)
    folder = Path(os.environ.get("JOBSIGHT_TRACES", Path(__file__).parents[2] / "shared" / "traces"))
    for name in args.traces:
        file, capacity = TRACES[name]
        if "policies" in args.parts:
            policies(name, folder / file, capacity)
        if "placements" in args.parts and name in OF_PLACEMENTS:
            placements(name, folder / file, args.seeds)
        if "memory" in args.parts and name == "LANL-CM5":
            with TemporaryDirectory() as directory:
                memory(beginning(folder / file, args.jobs, Path(directory)), CLASSES, LOADS)


if __name__ == "__main__":
    main()
