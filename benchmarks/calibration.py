"""Compares Jobsight's probabilities with outcomes, on the traces at hand.

    python benchmarks/calibration.py [--jobs 20000] [--output docs]
    python benchmarks/calibration.py --running > benchmarks/results/calibration.md

Every job is forecast at its submission and learned at its end, with and without correction of the probabilities. Writes
the tables between the markers of docs/use/accuracy.md and the reliability diagrams. --running prints the
chances of running jobs to reach their time limits, of whole traces. Traces are looked for in JOBSIGHT_TRACES, by
default traces.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from calibration_document import PROBABILITIES, draw, put, table
from calibration_measures import Statements, differences, summary
from calibration_running import HEADS, INTRODUCTION
from calibration_running import table as table_of_running
from recorded_accuracy import FOLDER, ROOT, TRACES, first_jobs, workload
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from jobsight_predictor.evaluation.jobs import Jobs, in_time
from jobsight_predictor.profile import Profile, calibration
from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_predictor.question import GroupKey
from jobsight_predictor.series import NEAR

TASKS = (
    *(("LANL-CM5", metric) for metric in ("memory", "runtime", "cpu")),
    *(("METACENTRUM", metric) for metric in ("memory", "runtime")),
    *(("UniLu-Gaia", metric) for metric in ("memory", "runtime")),
    ("KTH-SP2", "runtime"),
    ("SDSC-SP2", "runtime"),
    *(("Bitbrains", metric) for metric in ("memory", "bandwidth", "cpu")),
    ("eager", "memory"),
    ("mag", "memory"),
)
UNCORRECTED = 1e30
"""Weight of a predicted probability beside which outcomes are negligible."""

REPORTED = 500
"""Events between two progress reports."""


@contextmanager
def replaced(module: ModuleType, name: str, value: Any) -> Iterator[None]:
    """Replace the value of a module's constant."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def replay(jobs: Jobs, progress: Callable[[int], None] = lambda _done: None) -> dict[str, Statements]:
    """Replay the jobs; return predicted probabilities at submission and outcomes, by kind of probability.

    A burst is the jobs of one user's application that were submitted before the first of them had ended.
    """
    profile = Profile("", metric=jobs.metric)
    pending: dict[int, PendingForecast] = {}
    opened: dict[GroupKey, tuple[int, int]] = {}  # the last burst: its number, and when it began
    bursts = 0
    rows: dict[str, list[tuple[float, bool, int]]] = {name: [] for name in PROBABILITIES}
    for k, (event, i) in enumerate(in_time(jobs, "completion")):
        if k % REPORTED == 0:
            progress(k // 2)
        question, value = jobs.questions[i], float(jobs.values[i])
        if event == "submit":
            pending[i] = profile.forecast_job(question)
            continue
        forecast = pending.pop(i)
        profile.learn(question, value, forecast, float(jobs.seconds[i]))
        assert forecast.keys is not None
        application = forecast.keys.application
        if forecast.known >= opened.get(application, (0, 0))[1]:
            bursts += 1
            opened[application] = bursts, profile.n
        burst = opened[application][0]
        if forecast.value is not None:
            rows["sure"].append((forecast.probability, abs(forecast.value - value) <= NEAR * value, burst))
        if forecast.bound is not None and forecast.exceed_probability is not None:
            rows["exceeds"].append((forecast.exceed_probability, value > forecast.bound, burst))
    progress(len(jobs))
    return {name: Statements(*map(np.array, zip(*found, strict=True))) for name, found in rows.items() if found}


def measure(folder: Path, n: int) -> Iterator[dict[str, Any]]:
    """Return a row for each workload and probability."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        every = progress.add_task("workloads", total=len(TASKS))
        for trace, metric in TASKS:
            jobs = workload(folder, trace, metric)
            jobs = first_jobs(jobs, min(n, len(jobs)))
            bar = progress.add_task(f"{trace} {metric}", total=2 * len(jobs))
            with replaced(calibration, "STATED", UNCORRECTED):
                plain = replay(jobs, partial(_report, progress, bar, 0))
            found = replay(jobs, partial(_report, progress, bar, len(jobs)))
            progress.remove_task(bar)
            for name, statements in found.items():
                row = {"trace": trace, "metric": metric, "probability": name, **summary(statements)}
                yield row | {"plain": differences(plain[name])}
            progress.advance(every)


def _report(progress: Progress, bar: TaskID, before: int, done: int) -> None:
    progress.update(bar, completed=before + done)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20_000, metavar="N", help="of each trace, the first (20000)")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/use", metavar="DIR", help="default: docs/use")
    parser.add_argument("--running", action="store_true", help="print the chances of running jobs")
    args = parser.parse_args()
    if missing := dict.fromkeys(TRACES[trace] for trace, _ in TASKS if not (FOLDER / TRACES[trace]).exists()):
        print(f"not in {FOLDER}: {', '.join(missing)}. Set JOBSIGHT_TRACES to their folder.", file=sys.stderr)
        return 1
    if args.running:
        print(f"{INTRODUCTION}\n\n| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
        for trace, metric in TASKS:
            if metric == "runtime":
                for line in table_of_running(trace, workload(FOLDER, trace, metric)):
                    print(f"| {line} |", flush=True)
        return 0
    rows = list(measure(FOLDER, args.jobs))
    print(table(rows))
    put(args.output / "accuracy.md", rows, args.jobs)
    for name in PROBABILITIES:
        draw(name, rows, args.output / "accuracy" / f"calibration-{name}.svg")
    print(f"wrote {args.output / 'accuracy.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
