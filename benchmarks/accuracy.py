"""Makes docs/use/accuracy.md and its figures from the traces at hand.

    nice python benchmarks/accuracy.py [--output docs]

Traces are looked for in JOBSIGHT_TRACES, by default traces. The same traces give the same document. It takes
half an hour of two cores. build/accuracy keeps each backtest, so an interrupted run resumes; a changed program starts
again. docs/use/accuracy.json gets the figures that a test compares.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_document import document
from accuracy_figures import draw_accuracy, draw_quality, draw_window
from accuracy_users import constructed, missed_after_jumps, real
from recorded_accuracy import FOLDER, ROOT, TRACES, figures, workload, write

from jobsight_predictor.arrays import Floats
from jobsight_predictor.evaluation.backtest import run_backtest
from jobsight_predictor.evaluation.jobs import Jobs, Protocol, grouped
from jobsight_predictor.series import pqm
from jobsight_server.commands.backtest_plot import draw_backtest

WORKFLOWS = ("eager", "mag")


@dataclass(frozen=True, slots=True)
class BacktestTask:
    """One backtest. `baselines`: with bounds compared at each baseline's failures, which takes ten times as long."""

    trace: str
    metric: str
    protocol: Protocol = "completion"
    baselines: bool = False


# The longest first, so that both processes end at about the same time.
TASKS = (
    *(BacktestTask(trace, "memory", baselines=True) for trace in ("LANL-CM5", "METACENTRUM", "UniLu-Gaia")),
    BacktestTask("Bitbrains", "bandwidth", baselines=True),
    *(BacktestTask(trace, "memory", baselines=True) for trace in WORKFLOWS),
    BacktestTask("LANL-CM5", "runtime"),
    BacktestTask("LANL-CM5", "cpu"),
    BacktestTask("METACENTRUM", "runtime"),
    *(BacktestTask(trace, "memory", "submission") for trace in ("LANL-CM5", "METACENTRUM", "UniLu-Gaia")),
    *(BacktestTask(trace, "runtime") for trace in ("SDSC-SP2", "UniLu-Gaia", "KTH-SP2")),
    *(BacktestTask("Bitbrains", metric) for metric in ("memory", "cpu")),
)
DRAWN = [task for task in TASKS if task.baselines]


KEPT = ROOT / "build/accuracy"


def account(task: BacktestTask) -> dict[str, Any]:
    """Run one backtest, or read its result from an earlier run of this program."""
    code = hashlib.sha256()
    for file in sorted((ROOT / "predictor").rglob("*.py")):
        code.update(file.read_bytes())
    kept = KEPT / code.hexdigest()[:12] / f"{'-'.join(map(str, astuple(task)))}.json"
    if not kept.exists():
        jobs = workload(FOLDER, task.trace, task.metric)
        found = run_backtest(jobs, protocol=task.protocol, baselines=task.baselines)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found), encoding="utf-8")
    loaded: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return loaded


def accounts(tasks: Sequence[BacktestTask]) -> dict[BacktestTask, dict[str, Any]]:
    """Run all backtests, two at a time, in the order of `tasks`."""
    found: dict[BacktestTask, dict[str, Any]] = {}
    with ProcessPoolExecutor(2) as pool:
        waiting = {pool.submit(account, task): task for task in tasks}
        for done in as_completed(waiting):
            task = waiting[done]
            found[task] = done.result()
            reached = found[task]["jobsight"]["micro"]
            print(
                f"{len(found):>3}/{len(tasks)}  {task.trace} {task.metric}, {task.protocol}: {reached:.3f}", flush=True
            )
    return {task: found[task] for task in tasks}


def pqm_of_users(jobs: Jobs) -> Floats:
    """Compute the PQM of each user with two jobs or more."""
    values = [jobs.values[user[np.argsort(jobs.ended[user], kind="stable")]] for user in grouped(_users(jobs))]
    return np.array([pqm(mine.tolist()) for mine in values if len(mine) >= 2], dtype=np.float64)


def _users(jobs: Jobs) -> list[str | None]:
    return [question.user for question in jobs.questions]


def user_figures(traces: Sequence[str], output: Path) -> dict[str, Any]:
    """Draw the figures of single users; return the text about them."""
    made = constructed()
    workloads = {trace: workload(FOLDER, trace, "memory") for trace in traces}
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
    args = parser.parse_args()
    missing = [trace for trace, name in TRACES.items() if not (FOLDER / name).exists()]
    if missing:
        names = ", ".join(TRACES[trace] for trace in missing)
        print(f"not in {FOLDER}: {names}. Set JOBSIGHT_TRACES to the folder of the traces.", file=sys.stderr)
        return 1
    pictures = args.output / "accuracy"
    pictures.mkdir(parents=True, exist_ok=True)
    tasks = [BacktestTask("small", "memory"), *TASKS]
    found = accounts(tasks)
    for task in DRAWN:
        draw_backtest(found[task], pictures / f"{task.trace.lower()}-{task.metric}.svg")
    of_users = [
        task.trace for task in tasks if task.metric == "memory" and task.baselines and task.trace not in WORKFLOWS
    ]
    users = user_figures(of_users, pictures)
    made = found.pop(tasks[0])
    completion, submission = (
        {(task.trace, task.metric): result for task, result in found.items() if task.protocol == protocol}
        for protocol in ("completion", "submission")
    )
    written = args.output / "accuracy.md"
    before = written.read_text(encoding="utf-8") if written.exists() else ""
    text = document(completion, submission, users, before)
    written.write_text(text, encoding="utf-8")
    write(
        {"small memory": figures(made)}
        | {f"{trace} {metric}": figures(result) for (trace, metric), result in completion.items()}
    )
    print(f"wrote {written}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
