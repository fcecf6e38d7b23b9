"""Fills the text of docs/coallocation.md with what the experiment gave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from jobsight_scheduler.experiments.coallocation_runs import BIASES, COMPARED, NOISES, SENSITIVITY

Row = Mapping[str, Any]

TEXT = Path(__file__).with_name("coallocation_text.md.in")
HEADLINE = 0.8
FIGURES: dict[str, Callable[[Row], str]] = {
    "turnaround": lambda row: _change(row),
    "saturated": lambda row: f"{row['saturated']:.1%}",
    "spread": lambda row: f"{row['spread']:.1%}",
    "stretch": lambda row: f"{row['mean_stretch']:.2f}",
    "bounded slowdown": lambda row: f"{row['mean_bounded_slowdown']:,.0f}",
}


def document(sweep: Mapping[str, Any], whole: Mapping[str, Any]) -> str:
    """The whole document, from the sweep and from the runs of whole traces."""
    rows, errors = sweep["rows"], [*(f"bias x{b:g}" for b in BIASES), *(f"noise {n:g}" for n in NOISES)]
    learners = [name for name in SENSITIVITY if name not in errors]
    return Template(TEXT.read_text(encoding="utf-8")).substitute(
        runs=f"{sweep['runs']:,}",
        jobs=f"{sweep['jobs']:,}",
        policies=_policies(rows),
        claims=_claims(sweep["claims"]),
        whole=_beside(whole["rows"], list(COMPARED)[1:]),
        loads=_loads(rows),
        errors=_beside(rows, ["aware oracle", *errors, "aware user"]),
        learners=_beside(rows, ["aware oracle", "aware predicted", *learners]),
    )


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
        (_bold(policy), *(f"{_change(row)}; {row['saturated']:.1%}" for row in (found[policy, *p] for p in panels)))
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


def _change(row: Row) -> str:
    mean, low, high = (
        f"{value:+,.0f}" if abs(value) >= 99.95 else f"{value:+.1f}" for value in row["turnaround_percent"]
    )
    return f"{mean} % ({low} to {high})"


def _name(trace: str) -> str:
    return "-".join(trace.split("-")[:2])


def _bold(policy: str) -> str:
    return f"**{policy}**" if policy == "aware predicted" else policy


def _table(header: Sequence[str], lines: Iterable[Sequence[str]], left: int) -> str:
    marks = ["---"] * left + ["--:"] * (len(header) - left)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, marks, *lines))
