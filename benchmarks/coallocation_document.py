"""Fills the text of docs/papers/coallocation.md with what the experiment gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from jobsight_papers.coallocation.results import RIVALS
from jobsight_server.amounts import percent

Row = Mapping[str, Any]

TEXT = Path(__file__).with_name("coallocation_text.md.in")
SHOWN = ("naive", "reactive", "aware user", "aware means", "aware oracle")


def document(found: Mapping[str, Any]) -> str:
    """The whole document."""
    rows = found["rows"]
    traces = list(dict.fromkeys(row["trace"] for row in rows))
    return Template(TEXT.read_text(encoding="utf-8")).substitute(
        runs=f"{found['runs']:,}",
        seeds=str(max(row["seeds"] for row in rows)),
        turnaround="\n\n".join(f"{_name(trace)}:\n\n{_turnaround(found, trace)}" for trace in traces),
        worth=_worth(found["worth"]),
    )


def _turnaround(found: Mapping[str, Any], trace: str) -> str:
    """Turnaround and saturated link time of each policy by scenario; of constants, the best in hindsight."""
    rows = {(row["scenario"], row["policy"]): row for row in found["rows"] if row["trace"] == trace}
    best = {row["scenario"]: row["constant"] for row in found["worth"] if row["trace"] == trace and "constant" in row}
    lines = []
    for scenario in dict.fromkeys(scenario for scenario, _ in rows):
        constant = best[scenario]
        cells = [_cell(rows[scenario, policy]) for policy in SHOWN]
        cells.insert(2, f"{_cell(rows[scenario, constant])} ({constant.split()[1]})")
        lines.append((scenario, *cells))
    return _table(("", *SHOWN[:2], "best constant (Mb/s)", *SHOWN[2:]), lines)


def _cell(row: Row) -> str:
    mean, low, high = row["turnaround_percent"]
    sure = "" if low is None or abs(mean) >= 99.95 else f" ({_number(low)} to {_number(high)})"
    return f"{_number(mean)}{sure}; {percent(row['saturated'])}"


def _worth(rows: Sequence[Row]) -> str:
    """Points of turnaround that means save or cost, a column for each rival."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        mark = {"better": "**", "worse": "*", "no difference": ""}[row["verdict"]]
        mean, low, high = row["points"]
        sure = "" if low is None or abs(mean) >= 99.95 else f" ({_number(low)} to {_number(high)})"
        cells.setdefault((row["trace"], row["scenario"]), {})[row["against"]] = f"{mark}{_number(mean)}{mark}{sure}"
    lines = [(_name(trace), scenario, *(of[rival] for rival in RIVALS)) for (trace, scenario), of in cells.items()]
    return _table(("jobs of", "", *RIVALS), lines, left=2)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:+,.0f}" if abs(value) >= 99.95 else f"{value:+.1f}"


def _table(header: Sequence[str], lines: Sequence[Sequence[str]], left: int = 1) -> str:
    rule = ["---" if place < left else "--:" for place in range(len(header))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *lines))


def _name(trace: str) -> str:
    return "-".join(trace.split("-")[:2])
