"""Shows the overbooking experiment on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from rich.console import Console

from jobsight_papers.overbooking.results import CONTROLS, VARIED, setting_of
from jobsight_papers.runner import Cells, show_table
from jobsight_server.ground.amounts import percent

Row = Mapping[str, Any]

CELLS: Cells = {
    "strategy": itemgetter("strategy"),
    "P_max": lambda row: f"{row['pmax']:g}",
    "jobs": lambda row: f"{row['accepted']:,.0f}",
    "net": lambda row: f"{row['net_jobs']['mean']:,.0f}",
    "hours": lambda row: f"{row['net_hours']['mean']:,.0f}",
    "+-": lambda row: _half(row["net_hours"]),
    "node-h": lambda row: f"{row['node_hours']['mean']:,.0f}",
    "pred.": lambda row: percent(row["predicted_failure"], 1),
    "obs.": lambda row: percent(row["observed_failure"], 1),
}


def show(account: Mapping[str, Any], console: Console) -> None:
    """Show the jobs, then rows by trace and set-up, and the gain of each strategy's best over the controls."""
    for note in account["jobs"]:
        _jobs(note, console)
    gain_of = {_key(gain): gain for gain in account["gains"]}
    for (trace, *_), group in groupby(account["rows"], key=setting_of):
        rows = list(group)
        setting = [f"{name.replace('_', ' ')} {rows[0][name]}" for name in VARIED if name in rows[0]]
        show_table(", ".join([trace, f"{rows[0]['seeds']} seeds", *setting]), CELLS, _distinct(rows), console)
        _best(rows, gain_of, console)
        if (known := account["published"].get(trace)) and not setting:
            behind = f", behind from {known['loses_from']:g} on" if known["loses_from"] else ""
            console.print(
                f"Published: backfilling {known['net_jobs']} jobs net, {known['net_hours']:,} hours net; time-slice at "
                f"its best {100.0 * known['time_slice_gain']:+.0f} % at P_max {known['at_pmax']:g}{behind}."
            )
    console.print(
        "net: successful minus failed jobs, their requested hours, and these times nodes; +-: 95 % confidence; pred., "
        "obs.: share of accepted jobs that fail, as predicted and as observed."
    )


def _jobs(note: Row, console: Console) -> None:
    counts = ", ".join(f"{count:,} {reason}" for reason, count in note["counts"].items())
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in note["dropped"].items())
    console.print(f"{note['trace']}: jobs: {counts}; dropped: {dropped or 'none'}.", markup=False)


def _best(rows: Sequence[Row], gain_of: Mapping[Any, Row], console: Console) -> None:
    """Show the P_max with the highest profit for each strategy, and its gain over the controls."""
    for strategy in dict.fromkeys(row["strategy"] for row in rows):
        best = max((row for row in rows if row["strategy"] == strategy), key=lambda row: row["net_hours"]["mean"])
        gain = gain_of[_key(best)]
        texts = [
            f"{_signed(gain[control], 'net_hours')} profit, {_signed(gain[control], 'node_hours')} node-hours over "
            f"{control}"
            for control in CONTROLS
            if control in gain
        ]
        if texts:
            console.print(f"{strategy}, best at P_max {best['pmax']:g}: {'; '.join(texts)}.")


def _signed(gain: Row, measure: str) -> str:
    """Return the gain in per cent; marked if its confidence interval contains zero, or one seed gives none."""
    found = gain[measure]
    text = "?" if found["ratio"] is None else f"{100.0 * (found['ratio'] - 1.0):+.1f} %"
    is_sure = found["low"] is not None and (found["low"] > 0.0 or found["high"] < 0.0)
    return text if is_sure else f"{text} (not significant)"


def _distinct(rows: Sequence[Row]) -> list[Row]:
    """Return rows, with strategies without P_max once."""
    found: dict[Any, Row] = {}
    for row in rows:
        found.setdefault((row["strategy"], *(str(value) for name, value in row.items() if name != "pmax")), row)
    return list(found.values())


def _half(found: Row) -> str:
    return "" if found["low"] is None else f"{(found['high'] - found['low']) / 2.0:,.0f}"


def _key(row: Row) -> tuple[Any, ...]:
    return *setting_of(row), row["strategy"], row["pmax"]
