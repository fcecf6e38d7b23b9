"""Shows a backtest on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobsight_predictor.metrics import METRICS
from jobsight_server.accounting.amounts import percent, plain
from jobsight_server.command_line.tables import table_of

WASTED = {"bytes": "B s", "bps": "bit", "share": "CPU s", "seconds": "s s"}
"""Unit of value x time, by the metric's format."""
ASKED = {
    "completion": "forecast at submission, learned at the end",
    "start": "asked again at their start, learned at the end",
    "submission": "learned in the order of submission",
}
_PREFIXES = " kMGTPEZY"


def show(account: Mapping[str, Any], console: Console) -> None:
    """Show forecasts, bounds and quality of one backtest."""
    write = _Writer(console)
    metric = account["metric"]
    write(f"{account['trace']}: {metric}, {METRICS[metric].unit}", style="bold")
    write(f"{account['jobs']:,} jobs of {account['users']:,} users, {ASKED[account['protocol']]}.")
    for reason, count in account["skipped"].items():
        write(f"{count:>9,}  {reason}")
    console.print(_forecasts(account))
    write(f"Scored on the {account['compared']:,} jobs for which every line has a forecast.")
    write("best of them: for each user, chosen after the fact.")
    if (error := account["mean_error"])["answered"] is not None:
        more = error["answered"] - error["best"]
        better = "better" if more <= 0 else "worse"
        write(f"Jobsight errs {abs(more):.3f} per job {better} than each user's best single candidate in hindsight.")
    write("By how many of the user's jobs were known: " + _by_history(account["by_history"]))
    console.print(_bounds(account))
    write(f"On the {account['bounds_compared']['jobs']:,} jobs for which every rule has a reservation.")
    write("MAQ: the used share of all reservations; a job that runs out is run again with twice as much.")
    for line in _coverages(account["bounds"]):
        write(line)
    if any("jobsight_at_its_failures" in line for line in account["baselines"].values()):
        console.print(_matched(account["baselines"]))
        write("Jobsight's bounds, aimed so as to fail no more of the same jobs than the rule.")
    write("")
    write("How well each separates forecasts within 20 % from the others (AUC; 0.5 is chance):")
    aucs = (account["quality"]["auc"], account["quality"]["recent_pqm_auc"], account["pqm"]["auc"])
    named = zip(("Jobsight's probability", "recent PQM", "PQM"), aucs, strict=True)
    write(", ".join(f"{name} {_figure(value)}" for name, value in named))


class _Writer:
    """Plain text: names are external and may look like markup."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style))


def _forecasts(account: Mapping[str, Any]) -> Table:
    table = table_of(["forecast by"], ("micro", "macro", "within 20 %", "too low", "answered"))
    for name, line in account["forecasters"].items():
        table.add_row(name, *_scores(line))
    best = account["hindsight"]
    table.add_row("best of them", _figure(best["micro"]), _figure(best["macro"]), "", "", "")
    table.add_row("Jobsight", *_scores(account["jobsight"]), style="bold")
    return table


def _scores(line: Mapping[str, Any]) -> Sequence[str]:
    shares = (_percent(line[name]) for name in ("within20", "under_rate", "share"))
    return (_figure(line["micro"]), _figure(line["macro"]), *shares)


def _by_history(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return text such as `none .41, 1-4 .52, 5+ .61`."""
    ends = [f"-{after['from'] - 1}" for after in lines[1:]] + ["+"]
    names = ["none" if line["from"] == 0 else f"{line['from']}{end}" for line, end in zip(lines, ends, strict=True)]
    named = zip(names, lines, strict=True)
    return ", ".join(f"{name} {_figure(line['micro'])}" for name, line in named if line["jobs"])


def _bounds(account: Mapping[str, Any]) -> Table:
    table = table_of(
        ["reserve by"],
        ("covered", "failures", "MAQ", f"wasted, {WASTED[METRICS[account['metric']].format]}", "answered"),
    )
    table.add_row(f"Jobsight at {account['bounds']['target']:.4g}", *_cost(account["bounds_compared"]), style="bold")
    for name, line in account["baselines"].items():
        table.add_row(name, *_cost(line))
    return table


def _coverages(ours: Mapping[str, Any]) -> list[str]:
    """Return the coverage of the bounds over all jobs that had one, from several angles."""
    if not ours["jobs"]:
        return []
    shares = f"{_percent(ours['coverage'], 1)} of jobs, {_percent(ours['cost_coverage'], 1)} by value x seconds"
    lines = [f"Jobsight's bounds ({ours['objective']}), on all {ours['jobs']:,} jobs that had one: held {shares}."]
    if ours["lowest_so_far"] is not None:
        lines.append(
            f"The share held so far was never below {_percent(ours['lowest_so_far'], 1)} from the 200th job on."
        )
    windows, users = ours["windows"], ours["users"]
    if windows["windows"]:
        shares = f"worst {_percent(windows['worst'], 1)}, 5th percentile {_percent(windows['p5'], 1)}"
        lines.append(f"Windows of 500 jobs: {shares}, {_percent(windows['low'])} of them under 92 %.")
    deciles = [share for share in ours["deciles"] if share is not None]
    if deciles:
        of_users = f"; {users['low']} of {users['users']} users with 50 jobs under 92 %" if users["users"] else ""
        lines.append(f"By tenths of the value forecast: {_percent(min(deciles), 1)} at worst{of_users}.")
    return lines


def _matched(baselines: Mapping[str, Mapping[str, Any]]) -> Table:
    table = table_of(["rule"], ("its MAQ", "failures", "Jobsight's MAQ", "failures", "target"))
    for name, line in baselines.items():
        if matched := line["jobsight_at_its_failures"]:
            table.add_row(
                name,
                _figure(matched["baseline_maq"]),
                f"{matched['baseline_failures']:,}",
                _figure(matched["maq"]),
                f"{matched['failures']:,}",
                f"{matched['target']:.4f}",
            )
    return table


def _cost(line: Mapping[str, Any]) -> Sequence[str]:
    if not line["jobs"]:
        return ("never", "", "", "", _percent(line["share"]))
    shares = (_percent(line["coverage"], 1), f"{line['failures']:,}", _figure(line["maq"]))
    return (*shares, _prefixed(line["wasted"]), _percent(line["share"]))


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else percent(value, digits)


def _prefixed(value: float) -> str:
    """Return three digits and a prefix, such as 1.22 P."""
    power = 0
    scaled = value
    while scaled >= 999.5 and power < len(_PREFIXES) - 1:
        scaled /= 1000.0
        power += 1
    return f"{plain(scaled)} {_PREFIXES[power]}".strip()
