"""Makes the tables and the figure of the profile-guided paper that come from public traces.

    python benchmarks/profile_guided.py [--output DIR]

Accuracy of each published forecaster by PQM of the user so far, by length of the history, and by class of user; the
share of users with PQM above .8; accuracy by window, bins and alpha. Traces are looked for in JOBSIGHT_TRACES.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from accuracy import TRACES, workload
from numpy.typing import NDArray

from jobsight_papers.profile_guided.tuning import FORECASTER_OF, sweep
from jobsight_predictor.arrays import Floats, Indices
from jobsight_predictor.evaluation.jobs import Jobs, grouped, learning_order
from jobsight_predictor.evaluation.replay import pqm_when_asked, replay_forecaster
from jobsight_predictor.evaluation.scores import accuracies
from jobsight_predictor.forecasters import FIVE
from jobsight_server.command_line.plot_style import drawing
from jobsight_server.ground.amounts import percent

ROOT = Path(__file__).parents[1]
PAPER = ROOT / "papers/jobsight_papers/profile_guided"
ALIKE = 0.8
PQM_EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
HISTORY_EDGES = (1, 2, 5, 10, 20, 50, 100, 1000)
CLASSES = ("stable", "switching", "spread")
PUBLISHED = {"memory": "61 %", "bandwidth": "40 %"}
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#b8a300", "#8a8f98", "#111111")
FEWEST = 5
"""Least jobs of a user with a class."""

TASKS = (
    ("LANL-CM5", "memory"), ("METACENTRUM", "memory"), ("UniLu-Gaia", "memory"), ("Bitbrains", "memory"),
    ("Bitbrains", "bandwidth"), ("eager", "memory"), ("mag", "memory"), ("KTH-SP2", "runtime"),
    ("SDSC-SP2", "runtime"),
)  # fmt: skip


def account(folder: Path, trace: str, metric: str) -> dict[str, Any]:
    """Compute all figures of one workload."""
    jobs = workload(folder, trace, metric)
    users = grouped([question.user for question in jobs.questions])
    hits = {name: _hits(jobs, users, name) for name in FIVE}
    there = ~np.isnan(hits["locality"])
    whole, _ = pqm_when_asked(jobs, users, "completion")
    known = np.zeros(len(jobs), dtype=np.intp)
    for user in users:
        known[user] = learning_order(jobs, user, "completion")[1]
    band = np.digitize(whole, PQM_EDGES[1:-1], right=True)  # .8 belongs to the band up to .8
    kinds = _classes(jobs, users)
    of_job = np.full(len(jobs), -1)
    for user, kind in zip(users, kinds, strict=True):
        of_job[user] = -1 if kind is None else CLASSES.index(kind)
    counted = [user for user in users if len(user) >= 2]
    return {
        "trace": trace,
        "metric": metric,
        "jobs": len(jobs),
        "users": len(counted),
        "share_above": float(np.mean([_final_pqm(jobs, user) > ALIKE for user in counted])),
        "by_pqm": [
            _line(f"{low:g} to {high:g}", hits, there & ~np.isnan(whole) & (band == k))
            for k, (low, high) in enumerate(pairwise(PQM_EDGES))
        ],
        "by_history": [
            _line(f"{low:,} or more" if high is None else _span(low, high), hits, there & (known >= low) & below)
            for low, high, below in (
                (low, high, known < (high or np.iinfo(np.intp).max))
                for low, high in zip(HISTORY_EDGES, (*HISTORY_EDGES[1:], None), strict=True)
            )
        ],
        "by_class": [_class_line(kind, hits, there, of_job == k, users, kinds) for k, kind in enumerate(CLASSES)],
        "sweep": {
            parameter: [(value, float(np.nanmean(of))) for value, of in sweep(jobs, users, "completion", parameter)]
            for parameter in FORECASTER_OF
        },
    }


def _hits(jobs: Jobs, users: Sequence[Indices], name: str) -> Floats:
    predicted = replay_forecaster(name, jobs, users, "completion")
    return np.where(np.isnan(predicted), np.nan, accuracies(predicted, jobs.values))


def _line(name: str, hits: dict[str, Floats], among: NDArray[np.bool_]) -> dict[str, Any]:
    n = int(among.sum())
    return {
        "of": name,
        "jobs": n,
        "accuracy": {of: float(hit[among].mean()) if n else None for of, hit in hits.items()},
    }


def _class_line(
    kind: str,
    hits: dict[str, Floats],
    there: NDArray[np.bool_],
    in_class: NDArray[np.bool_],
    users: Sequence[Indices],
    kinds: Sequence[str | None],
) -> dict[str, Any]:
    """Compute accuracy over the jobs of the class, and for how many of its users each forecaster is best."""
    wins = dict.fromkeys(FIVE, 0)
    for user, of in zip(users, kinds, strict=True):
        mine = user[there[user]]
        if of == kind and len(mine):
            # Among equals the earlier in the published order.
            wins[max(FIVE, key=lambda name: float(hits[name][mine].mean()))] += 1
    return _line(kind, hits, there & in_class) | {"users": sum(of == kind for of in kinds), "wins": wins}


def _values(jobs: Jobs, user: Indices) -> Floats:
    return jobs.values[user[np.argsort(jobs.ended[user], kind="stable")]]


def _final_pqm(jobs: Jobs, user: Indices) -> float:
    values = _values(jobs, user)
    return float((np.abs(values - values[0]) < 0.2 * values[0]).mean() if values[0] else (values == 0.0).mean())


def _classes(jobs: Jobs, users: Sequence[Indices]) -> list[str | None]:
    """Classify users. Stable: PQM above .8. Switching: otherwise, at least 80 % of the jobs within 20 % of the one
    before.

    Spread: the others. None for users with fewer than five jobs.
    """
    found: list[str | None] = []
    for user in users:
        values = _values(jobs, user)
        if len(values) < FEWEST:
            found.append(None)
            continue
        near = np.abs(np.diff(values)) < 0.2 * values[:-1]
        found.append("stable" if _final_pqm(jobs, user) > ALIKE else "switching" if near.mean() >= ALIKE else "spread")
    return found


def _span(low: int, high: int) -> str:
    return f"{low}" if high == low + 1 else f"{low} to {high - 1}"


def tables(found: Sequence[dict[str, Any]]) -> str:
    """Write the shares of users for all workloads."""
    parts = [
        "### Share of users with PQM above .8",
        "",
        "| workload | metric | jobs | users with 2 jobs or more | PQM above .8 | published |",
        "|---|---|---:|---:|---:|---:|",
        *(
            f"| {row['trace']} | {row['metric']} | {row['jobs']:,} | {row['users']:,} | {percent(row['share_above'])} "
            f"| {PUBLISHED.get(row['metric'], '')} |".replace("%", " %").replace("  %", " %")
            for row in found
        ),
    ]
    return "\n".join([*parts, ""])


def draw_sweeps(found: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Draw the accuracy of each workload by window, bins and alpha."""
    with drawing(file, "Accuracy by window, bins and alpha on the traces", 3) as axes:
        for axis, (parameter, forecaster) in zip(axes, FORECASTER_OF.items(), strict=True):
            for row, colour in zip(found, _COLOURS, strict=False):
                values, reached = zip(*row["sweep"][parameter], strict=True)
                label = f"{row['trace']} {row['metric']}"
                axis.plot(values, reached, "o-", color=colour, markersize=2.5, linewidth=1, label=label)
            axis.set(title=f"{parameter} ({forecaster})", xlabel=parameter, ylabel="accuracy")
            if parameter != "alpha":
                axis.set_xscale("log")
        axes[1].legend(fontsize=6)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=PAPER, metavar="DIR", help="where README.md is")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write all figures to this file, those by class of user included"
    )
    args = parser.parse_args()
    folder = Path(os.environ.get("JOBSIGHT_TRACES", "traces"))
    tasks = [task for task in TASKS if (folder / TRACES[task[0]]).exists()]
    if len(tasks) < len(TASKS):
        print(f"{len(TASKS) - len(tasks)} traces are not in {folder}; set JOBSIGHT_TRACES", file=sys.stderr)
        return 1
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(account, [folder] * len(tasks), *zip(*tasks, strict=True)))
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=1))
    document = args.output / "README.md"
    text = document.read_text(encoding="utf-8")
    begin, end = text.index("<!-- traces -->"), text.index("<!-- end of traces -->")
    document.write_text(text[:begin] + "<!-- traces -->\n\n" + tables(found) + "\n" + text[end:], encoding="utf-8")
    pictures = args.output / "figures"
    pictures.mkdir(parents=True, exist_ok=True)
    draw_sweeps(found, pictures / "traces.svg")
    print(f"wrote {document}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
