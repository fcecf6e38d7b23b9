"""The simulator beside others: jobs per CPU second, memory, and whether the schedules agree.

    python benchmarks/simulator.py [--rounds 3] [--jobs 30000]

Simulates KTH-SP2 on 100 processors and LANL-CM5 on 1,024, where they are among the traces in JOBSIGHT_TRACES, else
a synthetic workload. Each run is a separate process; rounds alternate, and the best of each counts. CPU seconds are
those of the simulation and, in brackets, with reading the trace. AccaSim reads while it simulates, so its figure has
both. `pip install --group bench` installs it; names removed in Python 3.10, which it needs, are added here.
"""

from __future__ import annotations

import argparse
import collections
import collections.abc
import csv
import importlib.util
import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from jobsight_papers.schedules.chosen import POLICIES, choose_policy
from jobsight_papers.schedules.lublin import lublin
from jobsight_scheduler.simulator.event_loop import Simulation
from jobsight_scheduler.workload.canonical import Workload, canonical, questions_of
from jobsight_scheduler.workload.swf import FIELDS, UNKNOWN, Trace, read_swf, write_swf

TRACES = {"KTH-SP2-1996-2.1-cln.swf.gz": 100, "LANL-CM5-1994-4.1-cln.swf.gz": 1024}
ACCASIM = {"fcfs": "FirstInFirstOut", "easy": "EASYBackfilling"}
TARGETS = {"easy": 400_000, "conservative": 30_000}


def canonical_trace(workload: Workload, trace: Trace, capacity: int) -> Trace:
    """Convert the canonical form to a trace, so that every simulator reads the same jobs."""
    columns = {name: np.full(len(workload), UNKNOWN) for name in FIELDS}
    columns |= {"job": np.arange(1.0, len(workload) + 1.0), "status": np.ones(len(workload))}
    columns |= {"submit_s": workload.submit_s, "run_s": workload.run_s, "requested_s": workload.estimate_s}
    columns |= {name: workload.processors.astype(float) for name in ("processors", "requested_processors")}
    columns |= {"user": trace["user"][workload.row], "requested_memory_kb": np.zeros(len(workload))}
    return Trace(columns, ["Version: 2.2", "UnixStartTime: 0", f"MaxProcs: {capacity}"])


def ours(file: Path, capacity: int, policy: str, starts: Path) -> dict[str, Any]:
    """Simulate, in this process."""
    began = time.process_time()
    trace = read_swf(file)
    workload = canonical(trace, capacity)
    questions = questions_of(trace, workload.row) if policy == "easy++" else ()
    reading = time.process_time() - began
    began = time.process_time()
    simulation = Simulation(workload, capacity, choose_policy(policy).make, questions)
    while not simulation.advance(100_000):
        pass
    spent = time.process_time() - began
    np.save(starts, simulation.start_s)
    return {"cpu_s": spent, "with_reading_s": spent + reading}


def accasim(file: Path, capacity: int, policy: str, starts: Path) -> dict[str, Any]:
    """Let AccaSim simulate, in this process."""
    for name in ("Mapping", "MutableMapping", "Iterable", "Sequence", "Callable", "Hashable"):
        setattr(collections, name, getattr(collections.abc, name))
    from accasim.base import scheduler_class
    from accasim.base.allocator_class import FirstFit
    from accasim.base.simulator_class import Simulator

    with tempfile.TemporaryDirectory() as directory:
        machine = Path(directory) / "machine.json"
        machine.write_text(
            json.dumps(
                {
                    "system_name": "machine",
                    "start_time": 0,
                    "groups": {"all": {"core": 1}},
                    "resources": {"all": capacity},
                    "equivalence": {"processor": {"core": 1}},
                }
            )
        )
        dispatcher = getattr(scheduler_class, ACCASIM[policy])(FirstFit())
        began = time.process_time()
        Simulator(str(file), str(machine), dispatcher, RESULTS_FOLDER_PATH=f"{directory}/").start_simulation()
        spent = time.process_time() - began
        np.save(starts, _accasim_starts(next(Path(directory).glob("sched-*"))))
    logging.shutdown()
    return {"cpu_s": spent, "with_reading_s": spent}


def _accasim_starts(file: Path) -> np.ndarray:
    """Return the start of each job by number: the first time after the assignment of processors."""
    found = {}
    with file.open() as stream:
        for row in csv.reader(stream, delimiter=";"):
            text = ";".join(row)
            job, start = int(row[0]), text.split("__")[2].split(";")[0]
            found[job] = datetime.strptime(start, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    return np.array([found.get(job, np.nan) for job in range(1, max(found) + 1)])


WORKERS = {"Jobsight": ours, "AccaSim": accasim}


def worker(who: str, policy: str, file: Path, capacity: int, starts: Path) -> dict[str, Any]:
    """Do one run, in its own process."""
    command = [sys.executable, __file__, "--worker", who, policy, str(file), str(capacity), str(starts)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{who}, {policy}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(name: str, trace: Trace, capacity: int, args: argparse.Namespace) -> dict[str, Any]:
    """Measure all simulators on one workload."""
    workload = canonical(trace, capacity)
    contenders = [("Jobsight", policy) for policy in POLICIES]
    if importlib.util.find_spec("accasim") is not None:
        contenders += [("AccaSim", policy) for policy in ACCASIM]
    best: dict[tuple[str, str], dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "trace.swf"
        write_swf(canonical_trace(workload, trace, capacity), file)
        starts = {contender: Path(directory) / f"{'-'.join(contender)}.npy" for contender in contenders}
        for _ in range(args.rounds):
            for who, policy in contenders:
                key = (who, policy)
                found = worker(who, policy, file, capacity, starts[key])
                if key not in best or found["cpu_s"] < best[key]["cpu_s"]:
                    best[key] = found
        lines = []
        for (who, policy), found in best.items():
            line = {"who": who, "policy": policy, **found, "jobs_per_cpu_s": len(workload) / found["cpu_s"]}
            if who == "AccaSim":
                theirs, mine = np.load(starts[who, policy]), np.load(starts["Jobsight", policy])
                line["jobs_that_start_at_another_time"] = int((theirs != mine).sum())
            lines.append(line)
    return {"workload": name, "jobs": len(workload), "processors": capacity, "runs": lines}


def show(result: dict[str, Any]) -> None:
    """Print one workload as a table; ratios are to Jobsight's same policy, reading included."""
    print(f"\n{result['workload']}: {result['jobs']:,} jobs on {result['processors']:,} processors")
    print(f"{'':<24}{'jobs/CPU s':>12}{'CPU s':>9}{'(reading)':>11}{'ratio':>8}{'MB':>6}  differ")
    whole = {line["policy"]: line["with_reading_s"] for line in result["runs"] if line["who"] == "Jobsight"}
    for line in result["runs"]:
        ratio = line["with_reading_s"] / whole[line["policy"]]
        target = TARGETS.get(line["policy"]) if line["who"] == "Jobsight" else None
        print(
            f"{line['who']:<10}{line['policy']:<14}{line['jobs_per_cpu_s']:>12,.0f}{line['cpu_s']:>9.2f}"
            f"{line['with_reading_s']:>11.2f}{ratio:>8.1f}{line['memory_mb']:>6.0f}"
            f"  {line.get('jobs_that_start_at_another_time', '')}{f'target {target:,}/s' if target else ''}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=30_000, help="of the synthetic workload")
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        who, policy, file, capacity, starts = args.worker
        found = WORKERS[who](Path(file), int(capacity), policy, Path(starts))
        print(json.dumps(found | {"memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
        return
    directory = Path(os.environ.get("JOBSIGHT_TRACES", "traces"))
    given = {name: (read_swf(directory / name), size) for name, size in TRACES.items() if (directory / name).exists()}
    for name, (trace, capacity) in (given or {"synthetic": (lublin(args.jobs, 128, seed=1), 128)}).items():
        show(measure(name, trace, capacity, args))


if __name__ == "__main__":
    main()
