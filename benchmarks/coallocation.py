"""Makes docs/coallocation.md and its figures: the co-allocation experiment on KTH-SP2 and SDSC-SP2.

    python benchmarks/coallocation.py [--output docs] [--runs coallocation.jsonl] [--workers N] [--speed]

Traces are looked for in JOBSIGHT_TRACES, by default ../shared/traces. The same traces give the same document. What
is finished is kept in the file of runs, from which the same command goes on. ``--speed`` measures the simulator
instead, on the whole of both traces, and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from coallocation_document import document

from jobsight_scheduler.coallocation.bandwidth_sources import bandwidth_source
from jobsight_scheduler.coallocation.clusters import Clusters
from jobsight_scheduler.coallocation.cosimulation import CoSimulation
from jobsight_scheduler.coallocation.placement import PLACEMENTS
from jobsight_scheduler.coallocation.scheduler import Scheduler
from jobsight_scheduler.coallocation.sharing import SHARINGS
from jobsight_scheduler.coallocation.synthetic import draw_communication
from jobsight_scheduler.experiments.coallocation_runs import CLUSTERS
from jobsight_scheduler.experiments.coallocation_variants import COMPARED
from jobsight_scheduler.workload.canonical import canonical
from jobsight_scheduler.workload.load import scaled_to
from jobsight_scheduler.workload.swf import read_swf
from jobsight_server.commands.experiment_coallocation import TRACES
from jobsight_server.plots.coallocation import draw

ROOT = Path(__file__).parents[1]

SEEDS = "10"
"""All blocks: twenty-three minutes of CPU."""

WHOLE = (
    *("--jobs", "0", "--seeds", "1", "--loads", "0.8", "--uplinks", "100", "--no-sensitivity", "--policies"),
    *("constant", "aware user", "application means", "aware predicted", "aware oracle"),
)
"""Without the policies that collapse: hours of queueing say nothing new."""
MACHINES = {"4x84": "336 processors, as many as CTC's SP2", "4x288": "1,152 processors, as many as SDSC's Blue Horizon"}
LARGER = (
    *("--seeds", "5", "--loads", "0.8", "--uplinks", "300", "1000", "--no-sensitivity", "--policies"),
    *("naive", "constant", "application means", "aware predicted", "aware oracle"),
)
"""At 100 Mb/s the links of so large a site are full with hardly any job spread."""
TARGET = 20_000
"""Jobs per CPU second of the engine."""


def experiment(*options: str) -> dict[str, Any]:
    """What ``jobsight experiment coallocation`` prints; SystemExit where it fails or is interrupted."""
    command = [sys.executable, "-m", "jobsight_server.cli", "experiment", "coallocation", "--json", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def speed(folder: Path) -> None:
    """Prints jobs per CPU second of each policy, on whole traces at a load of 0.8."""
    for name in TRACES:
        trace = read_swf(folder / name)
        jobs = scaled_to(canonical(trace, max(CLUSTERS)), sum(CLUSTERS), 0.8)
        drawn = draw_communication(trace, jobs, seed=0)
        for uplink in (100e6, 1000e6):
            clusters = Clusters(CLUSTERS, (uplink,) * len(CLUSTERS))
            for policy, variant in COMPARED.items():
                source = bandwidth_source(variant.bandwidth, drawn, constant_bps=variant.constant_bps)
                place, sharing = PLACEMENTS[variant.placement], SHARINGS[variant.sharing]
                began = time.process_time()
                simulation = CoSimulation(
                    drawn.work,
                    clusters,
                    lambda clusters, place=place, source=source: Scheduler(clusters, place, source),
                    sharing,
                )
                simulation.advance(2 * len(jobs))
                rate = len(jobs) / (time.process_time() - began)
                short = "" if rate >= TARGET else "  (below the target)"
                print(f"{name}, {uplink / 1e6:g} Mb/s, {policy}: {rate:,.0f} jobs per CPU second{short}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "docs", metavar="DIR", help="where to write (docs)")
    parser.add_argument("--runs", type=Path, default=ROOT / "coallocation.jsonl", metavar="FILE", help="finished runs")
    parser.add_argument("--workers", default=str(os.cpu_count() or 1), metavar="N", help="processes (one a core)")
    parser.add_argument("--speed", action="store_true", help="measure the simulator instead")
    args = parser.parse_args()
    folder = Path(os.environ.get("JOBSIGHT_TRACES", ROOT.parent / "shared" / "traces"))
    if missing := [name for name in TRACES if not (folder / name).exists()]:
        print(
            f"not in {folder}: {', '.join(missing)}. Set JOBSIGHT_TRACES to the folder of the traces.", file=sys.stderr
        )
        return 1
    if args.speed:
        speed(folder)
        return 0
    files = [str(folder / name) for name in TRACES]
    common = ("--traces", *files, "--out", str(args.runs), "--workers", args.workers)
    sweep = experiment(*common, "--seeds", SEEDS)
    whole = experiment(*common, *WHOLE)
    machines = {text: experiment(*common, "--clusters", sizes, *LARGER) for sizes, text in MACHINES.items()}
    pictures = args.output / "coallocation"
    draw(sweep, pictures)
    (args.output / "coallocation.md").write_text(document(sweep, whole, machines), encoding="utf-8")
    print(f"written: {args.output / 'coallocation.md'}, {pictures}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
