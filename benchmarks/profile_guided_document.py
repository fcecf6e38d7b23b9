"""The tables that benchmarks/profile_guided.py puts into docs/papers/profile-guided.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jobsight_predictor.forecasters import FIVE
from jobsight_server.amounts import percent

Row = Mapping[str, Any]
PUBLISHED = {"memory": "61 %", "bandwidth": "40 %"}


def tables(found: Sequence[Row]) -> str:
    """Shares of users, then accuracy by PQM, by history and by class, for all workloads."""
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
        "",
    ]
    for title, key, first in (
        ("Accuracy by PQM of the user so far", "by_pqm", "PQM"),
        ("Accuracy by length of the history", "by_history", "jobs known"),
        ("Accuracy by class of user", "by_class", "class"),
    ):
        parts += [f"### {title}", "", *_accuracies(found, key, first), ""]
    parts += ["### Best forecaster of each user, by class", "", *_wins(found), ""]
    return "\n".join(parts)


def _accuracies(found: Sequence[Row], key: str, first: str) -> list[str]:
    lines = [f"| workload | metric | {first} | jobs | {' | '.join(FIVE)} |", "|---|---|---|---:|" + "---:|" * len(FIVE)]
    for row in found:
        for line in row[key]:
            if not line["jobs"]:
                continue
            best = max(value for value in line["accuracy"].values())
            cells = [_cell(line["accuracy"][name], best) for name in FIVE]
            lines.append(
                f"| {row['trace']} | {row['metric']} | {line['of']} | {line['jobs']:,} | {' | '.join(cells)} |"
            )
    return lines


def _wins(found: Sequence[Row]) -> list[str]:
    lines = [f"| workload | metric | class | users | {' | '.join(FIVE)} |", "|---|---|---|---:|" + "---:|" * len(FIVE)]
    for row in found:
        for line in row["by_class"]:
            if line["users"]:
                most = max(line["wins"].values())
                cells = [f"**{n}**" if (n := line["wins"][name]) == most else f"{n}" for name in FIVE]
                lines.append(
                    f"| {row['trace']} | {row['metric']} | {line['of']} | {line['users']} | {' | '.join(cells)} |"
                )
    return lines


def _cell(value: float, best: float) -> str:
    text = f"{100.0 * value:.1f}"
    return f"**{text}**" if text == f"{100.0 * best:.1f}" else text
