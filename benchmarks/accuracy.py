"""Makes docs/use/accuracy.md and its figures from the traces at hand.

    python benchmarks/accuracy.py [--output docs] [--partial]

Traces are looked for in JOBSIGHT_TRACES, by default ../shared/traces. The same traces give the same document.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_document import document
from accuracy_figures import draw_accuracy, draw_quality, draw_window
from accuracy_users import constructed, missed_after_jumps, real

from jobsight_predictor.evaluation.backtest import run_backtest
from jobsight_predictor.evaluation.jobs import Jobs, Protocol, grouped
from jobsight_predictor.forecasters import Floats
from jobsight_predictor.question import Objective
from jobsight_predictor.series import pqm
from jobsight_scheduler.workload.backtest_jobs import jobs_of_machines, jobs_of_trace
from jobsight_scheduler.workload.swf import read_swf
from jobsight_server.commands.backtest_plot import draw_backtest

ROOT = Path(__file__).parents[1]

TRACES = {
    "LANL-CM5": "LANL-CM5-1994-4.1-cln.swf.gz",
    "METACENTRUM": "METACENTRUM-2009-2.swf.gz",
    "UniLu-Gaia": "UniLu-Gaia-2014-2.swf.gz",
    "KTH-SP2": "KTH-SP2-1996-2.1-cln.swf.gz",
    "SDSC-SP2": "SDSC-SP2-1998-4.2-cln.swf.gz",
    "Bitbrains": "bitbrains-rnd-2013-07-6h.csv.gz",
    "eager": "nextflow/eager.swf.gz",
    "mag": "nextflow/mag.swf.gz",
}
WORKFLOWS = ("eager", "mag")


@dataclass(frozen=True, slots=True)
class Task:
    """One backtest. `baselines`: with bounds compared at each baseline's failures, which takes ten times as long."""

    trace: str
    metric: str
    protocol: Protocol = "completion"
    baselines: bool = False
    objective: Objective = "coverage"


# The longest first, so that two processes end at about the same time.
TASKS = (
    *(Task(trace, "memory", baselines=True) for trace in ("LANL-CM5", "METACENTRUM", "UniLu-Gaia")),
    Task("Bitbrains", "bandwidth", baselines=True),
    *(Task(trace, "memory", objective="waste") for trace in ("LANL-CM5", "METACENTRUM", "UniLu-Gaia", *WORKFLOWS)),
    Task("Bitbrains", "bandwidth", objective="waste"),
    *(Task(trace, "memory", baselines=True) for trace in WORKFLOWS),
    Task("LANL-CM5", "runtime"),
    Task("LANL-CM5", "cpu"),
    Task("METACENTRUM", "runtime"),
    *(Task(trace, "memory", "submission") for trace in ("LANL-CM5", "METACENTRUM", "UniLu-Gaia")),
    *(Task(trace, "runtime") for trace in ("SDSC-SP2", "UniLu-Gaia", "KTH-SP2")),
    *(Task("Bitbrains", metric) for metric in ("memory", "cpu")),
)
DRAWN = [task for task in TASKS if task.baselines]


def workload(folder: Path, trace: str, metric: str) -> Jobs:
    """The jobs of one of `TRACES`."""
    file = folder / TRACES[trace]
    if ".csv" in file.name:
        return jobs_of_machines(file, metric)
    return jobs_of_trace(read_swf(file), metric, file.name)


def account(folder: Path, task: Task) -> dict[str, Any]:
    """What one backtest gives."""
    jobs = workload(folder, task.trace, task.metric)
    return run_backtest(jobs, protocol=task.protocol, baselines=task.baselines, objective=task.objective)


def accounts(folder: Path, tasks: Sequence[Task]) -> dict[Task, dict[str, Any]]:
    """All backtests, two at a time, in the order of `tasks`."""
    found: dict[Task, dict[str, Any]] = {}
    with ProcessPoolExecutor(2) as pool:
        waiting = {pool.submit(account, folder, task): task for task in tasks}
        for done in as_completed(waiting):
            task = waiting[done]
            found[task] = done.result()
            reached = found[task]["jobsight"]["micro"]
            print(
                f"{len(found):>3}/{len(tasks)}  {task.trace} {task.metric}, {task.protocol}: {reached:.3f}", flush=True
            )
    return {task: found[task] for task in tasks}


def pqm_of_users(jobs: Jobs) -> Floats:
    """PQM of each user with two jobs or more."""
    values = [jobs.values[user[np.argsort(jobs.ended[user], kind="stable")]] for user in grouped(_users(jobs))]
    return np.array([pqm(mine.tolist()) for mine in values if len(mine) >= 2], dtype=np.float64)


def _users(jobs: Jobs) -> list[str | None]:
    return [question.user for question in jobs.questions]


def figures(folder: Path, traces: Sequence[str], output: Path) -> dict[str, Any]:
    """Draws the figures of single users; what the text says of them."""
    made = constructed()
    workloads = {trace: workload(folder, trace, "memory") for trace in traces}
    found = real(workloads.items())
    both = [*made.values(), *(found[kind] for kind in sorted(found))]
    draw_quality(both, {trace: pqm_of_users(jobs) for trace, jobs in workloads.items()}, output / "figure-2.svg")
    for number, kind, title in ((3, "Z", "switches"), (4, "Y", "drift"), (5, "X", "single spikes")):
        users = [made[kind], *([found[kind]] if kind in found else [])]
        draw_window(f"Figure {number}: {title}", users, output / f"figure-{number}.svg")
    draw_accuracy(both, output / "figure-6.svg")
    return {
        "real": {kind: user.name for kind, user in found.items()},
        "accuracy": {user.name: user.accuracy for user in both},
        "missed": {user.name: missed_after_jumps(user, "Jobsight") for user in (made["Z"], found.get("Z")) if user},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "docs/use", metavar="DIR", help="default: docs/use")
    parser.add_argument("--partial", action="store_true", help="leave out what traces are missing for")
    args = parser.parse_args()
    folder = Path(os.environ.get("JOBSIGHT_TRACES", ROOT.parent / "shared" / "traces"))
    missing = [trace for trace, name in TRACES.items() if not (folder / name).exists()]
    if missing:
        names = ", ".join(TRACES[trace] for trace in missing)
        print(f"not in {folder}: {names}. Set JOBSIGHT_TRACES to the folder of the traces.", file=sys.stderr)
        if not args.partial or len(missing) == len(TRACES):
            return 1
    pictures = args.output / "accuracy"
    pictures.mkdir(parents=True, exist_ok=True)
    tasks = [task for task in TASKS if task.trace not in missing]
    found = accounts(folder, tasks)
    for task in DRAWN:
        if task in found:
            draw_backtest(found[task], pictures / f"{task.trace.lower()}-{task.metric}.svg")
    of_users = [
        task.trace for task in tasks if task.metric == "memory" and task.baselines and task.trace not in WORKFLOWS
    ]
    user_figures = figures(folder, of_users, pictures)
    completion, submission = (
        {
            (task.trace, task.metric): result
            for task, result in found.items()
            if task.protocol == protocol and task.objective == "coverage"
        }
        for protocol in ("completion", "submission")
    )
    thrifty = {(task.trace, task.metric): result for task, result in found.items() if task.objective == "waste"}
    written = args.output / "accuracy.md"
    before = written.read_text(encoding="utf-8") if written.exists() else ""
    text = document(completion, submission, thrifty, user_figures, missing, before)
    written.write_text(text, encoding="utf-8")
    print(f"wrote {written}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
