"""Shows a backtest on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobsight_predictor.metrics import METRICS
from jobsight_server.command_line.tables import table_of
from jobsight_server.ground.amounts import percent, plain

WASTED = {
    "bytes": ("GiB-hours", 2.0**30 * 3600.0),
    "bps": ("GB", 8e9),
    "share": ("CPU hours", 3600.0),
    "seconds": ("hours x hours", 3600.0**2),
}
"""Unit of value x time, by the metric's format, in the metric's unit x seconds."""
ASKED = {
    "completion": "each forecast when it was submitted, and learned when it ended",
    "start": "each forecast again when it started, and learned when it ended",
    "submission": "each forecast and learned in the order of submission",
}


def show(account: Mapping[str, Any], console: Console) -> None:
    """Show forecasts, bounds and quality of one backtest."""
    write = _Writer(console)
    metric = account["metric"]
    write(f"{account['trace']}: {metric}, {METRICS[metric].unit}", style="bold")
    write(f"{account['jobs']:,} jobs of {account['users']:,} users, {ASKED[account['protocol']]}.")
    if account["skipped"]:
        write("Left out:")
    for reason, count in account["skipped"].items():
        write(f"{count:>9,}  {reason}")
    write("\nHow close the forecasts were", style="bold")
    console.print(_forecasts(account))
    write(
        f"Accuracy on the {account['compared']:,} jobs for which every line has a forecast: 1 is exact. By job: the "
        "mean over jobs; by user: over users, each counting alike. Too low: jobs that used more than forecast. Has "
        "one: jobs with a forecast. Best per user: the line that was best for each user, known only afterwards."
    )
    if (error := account["mean_error"])["answered"] is not None:
        more = error["answered"] - error["best"]
        better = "better" if more <= 0 else "worse"
        write(f"Jobsight's mean error is {abs(more):.3f} {better} than that of the best candidate of each user.")
    write("Accuracy by the number of the user's jobs that had ended: " + _by_history(account["by_history"]))
    write("\nWhat to reserve", style="bold")
    console.print(_bounds(account))
    write(
        f"On the {account['bounds_compared']['jobs']:,} jobs for which every rule has a reservation. Enough: jobs that "
        "used no more. Used: share of all that was reserved (MAQ); a job that runs out is run again with twice as much."
    )
    for line in _coverages(account["bounds"]):
        write(line)
    if any("jobsight_at_its_failures" in line for line in account["baselines"].values()):
        console.print(_matched(account["baselines"]))
        write("Jobsight's reservations for the same jobs, aimed at no more jobs that run out than with the rule.")
    write("\nHow well each separates forecasts within 20 % from the others (AUC: 1 is always, 0.5 is chance):")
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
    table = table_of(["forecast by"], ("by job", "by user", "within 20 %", "too low", "has one"))
    for name, line in account["forecasters"].items():
        table.add_row(name, *_scores(line))
    best = account["hindsight"]
    table.add_row("best per user", _figure(best["micro"]), _figure(best["macro"]), "", "", "")
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
    unit, size = WASTED[METRICS[account["metric"]].format]
    table = table_of(["reserve by"], ("enough", "ran out", "used", f"wasted, {unit}", "has one"))
    ours = account["bounds_compared"]
    table.add_row(f"Jobsight at {account['bounds']['target']:.4g}", *_cost(ours, size), style="bold")
    for name, line in account["baselines"].items():
        table.add_row(name, *_cost(line, size))
    return table


def _coverages(ours: Mapping[str, Any]) -> list[str]:
    """Return the coverage of the bounds over all jobs that had one, from several angles."""
    if not ours["jobs"]:
        return []
    shares = f"{_percent(ours['coverage'], 1)} of jobs, {_percent(ours['cost_coverage'], 1)} by value x seconds"
    lines = [f"Jobsight's reservations were enough for {shares}, of all {ours['jobs']:,} jobs."]
    if ours["lowest_so_far"] is not None:
        lines.append(
            f"From the 200th job on, at least {_percent(ours['lowest_so_far'], 1)} of the jobs so far had enough."
        )
    windows, users = ours["windows"], ours["users"]
    if windows["windows"]:
        lines.append(
            f"Of 500 jobs in a row at least {_percent(windows['worst'], 1)} had enough, in 95 of 100 cases "
            f"{_percent(windows['p5'], 1)}; in {_percent(windows['low'])} of cases under 92 %."
        )
    deciles = [share for share in ours["deciles"] if share is not None]
    if deciles:
        lines.append(f"Of the tenth of forecasts, by their size, that held least, {_percent(min(deciles), 1)} did.")
    if users["users"]:
        lines.append(
            f"Of {users['users']} users with 50 jobs or more, {users['low']} had enough for under 92 % of theirs."
        )
    return lines


def _matched(baselines: Mapping[str, Mapping[str, Any]]) -> Table:
    table = table_of(["rule"], ("its used share", "ran out", "Jobsight's", "ran out", "target"))
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


def _cost(line: Mapping[str, Any], size: float) -> Sequence[str]:
    if not line["jobs"]:
        return ("never", "", "", "", _percent(line["share"]))
    shares = (_percent(line["coverage"], 1), f"{line['failures']:,}", _figure(line["maq"]))
    return (*shares, plain(line["wasted"] / size), _percent(line["share"]))


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else percent(value, digits)
