"""Fills the text of docs/coallocation.md with what the experiment gave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from jobsight_scheduler.experiments.coallocation_variants import COMPARED, CONSTANTS, ERRORS, LEARNERS, LIKENESS
from jobsight_server.amounts import percent

Row = Mapping[str, Any]

TEXT = Path(__file__).with_name("coallocation_text.md.in")
HEADLINE = 0.8
FIGURES: dict[str, Callable[[Row], str]] = {
    "turnaround": lambda row: _change(row),
    "queue wait": lambda row: _mean(row["wait_percent"]),
    "throughput": lambda row: _mean(row["throughput_percent"]),
    "makespan": lambda row: _mean(row["makespan_percent"]),
    "saturated": lambda row: f"{percent(row['saturated'], 1)}",
    "spread": lambda row: f"{percent(row['spread'], 1)}",
    "bounded slowdown": lambda row: f"{row['mean_bounded_slowdown']:,.0f}",
}


def document(sweep: Mapping[str, Any], whole: Mapping[str, Any], machines: Mapping[str, Mapping[str, Any]]) -> str:
    """The whole document, from the sweep, the runs of whole traces, and those on larger machines by description."""
    rows = sweep["rows"]
    blocks = max(row["seeds"] for row in rows)
    return Template(TEXT.read_text(encoding="utf-8")).substitute(
        runs=f"{sweep['runs']:,}",
        jobs=f"{sweep['jobs']:,}",
        blocks=str(blocks),
        policies=_policies(rows),
        worth=_worth(sweep["worth"]),
        claims=_claims(sweep["claims"]),
        whole=_beside(whole["rows"], [row["policy"] for row in whole["rows"][1:6]]),
        machines="\n\n".join(
            f"Four clusters, {text}:\n\n{_beside(found['rows'], [row['policy'] for row in found['rows'][1:6]])}"
            for text, found in machines.items()
        ),
        loads=_loads(rows),
        errors=_beside(rows, ["aware oracle", *ERRORS, "aware user", "application means", "aware predicted"]),
        constants=_beside(rows, ["reactive", *_by_rate(), "aware oracle"]),
        likeness=_beside(rows, ["constant", "application means", "aware predicted", "aware oracle", *LIKENESS]),
        learners=_beside(rows, ["aware oracle", "aware predicted", *LEARNERS]),
    )


def _by_rate() -> list[str]:
    """The constants by size; the one that is compared everywhere is 40 Mb/s."""
    rates = {"constant": 40} | {name: int(name.split()[1]) for name in CONSTANTS}
    return sorted(rates, key=rates.__getitem__)


def _worth(rows: Iterable[Row]) -> str:
    """Points of turnaround that forecasts save or cost, a column for each simpler policy."""
    cells: dict[tuple[str, float, float], dict[str, str]] = {}
    for row in rows:
        mark = {"better": "**", "worse": "*", "no difference": ""}[row["verdict"]]
        cell = f"{mark}{_number(row['points'][0])}{mark}"
        cells.setdefault((row["trace"], row["uplink_mbps"], row["load"]), {})[row["against"]] = cell
    others = list(dict.fromkeys(other for found in cells.values() for other in found))
    lines = [
        (_name(trace), f"{uplink:g}", f"{load:g}", *(found[other] for other in others))
        for (trace, uplink, load), found in cells.items()
    ]
    return _table(("jobs of", "Mb/s", "load", *others), lines, left=1)


def _at(rows: Iterable[Row], load: float = HEADLINE) -> list[Row]:
    return [row for row in rows if row["load"] == load]


def _panels(rows: Iterable[Row]) -> list[tuple[str, float]]:
    return list(dict.fromkeys((row["trace"], row["uplink_mbps"]) for row in rows))


def _policies(rows: Sequence[Row]) -> str:
    """All figures of the six policies at the headline load."""
    lines = []
    for row in _at(rows):
        if row["policy"] in COMPARED and (row["policy"] != "none" or row["uplink_mbps"] == 100):
            uplink = "any" if row["policy"] == "none" else f"{row['uplink_mbps']:g}"
            cells = [figure(row) for figure in FIGURES.values()]
            lines.append((_name(row["trace"]), uplink, _bold(row["policy"]), *cells))
    return _table(("jobs of", "Mb/s", "policy", *FIGURES), lines, left=3)


def _beside(rows: Sequence[Row], policies: Sequence[str]) -> str:
    """Turnaround and saturated link time, a column for each trace and uplink that all policies were run on."""
    found = {(row["policy"], row["trace"], row["uplink_mbps"]): row for row in _at(rows)}
    panels = [panel for panel in _panels(_at(rows)) if all((policy, *panel) in found for policy in policies)]
    lines = [
        (
            _bold(policy),
            *(f"{_change(row)}; {percent(row['saturated'], 1)}" for row in (found[policy, *p] for p in panels)),
        )
        for policy in policies
    ]
    return _table(("", *(f"{_name(trace)}, {uplink:g} Mb/s" for trace, uplink in panels)), lines, left=1)


def _loads(rows: Sequence[Row]) -> str:
    """Turnaround with predictions by load."""
    mine = [row for row in rows if row["policy"] == "aware predicted"]
    loads = sorted({row["load"] for row in mine})
    found = {(row["trace"], row["uplink_mbps"], row["load"]): row for row in mine}
    lines = [
        (f"{_name(trace)}, {uplink:g} Mb/s", *(_change(found[trace, uplink, load]) for load in loads))
        for trace, uplink in _panels(mine)
    ]
    return _table(("", *(f"load {load:g}" for load in loads)), lines, left=1)


def _claims(claims: Iterable[Mapping[str, Any]]) -> str:
    names = ("better", "near_oracle", "links_free")
    lines = [
        (
            _name(claim["trace"]),
            f"{claim['uplink_mbps']:g}",
            f"{claim['load']:g}",
            *("yes" if claim[n] else "**no**" for n in names),
        )
        for claim in claims
    ]
    return _table(("jobs of", "Mb/s", "load", "better than none", "near the oracle", "links free"), lines, left=1)


def _change_and_saturation(row: Mapping[str, Any]) -> str:
    return f"{_change(row)}; {percent(row['saturated'], 1)}"


def _change(row: Row) -> str:
    mean, low, high = row["turnaround_percent"]
    return f"{_number(mean)} %" + ("" if low is None else f" ({_number(low)} to {_number(high)})")


def _mean(interval: Sequence[float | None]) -> str:
    return f"{_number(interval[0])} %" if interval[0] is not None else "-"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:+,.0f}" if abs(value) >= 99.95 else f"{value:+.1f}"


def _name(trace: str) -> str:
    return "-".join(trace.split("-")[:2])


def _bold(policy: str) -> str:
    return f"**{policy}**" if policy == "aware predicted" else policy


def _table(header: Sequence[str], lines: Iterable[Sequence[str]], left: int) -> str:
    marks = ["---"] * left + ["--:"] * (len(header) - left)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, marks, *lines))
