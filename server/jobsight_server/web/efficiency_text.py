"""A job's use of its request as text for terminals. Imports no web framework, so that ``seff`` starts fast."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobsight_server.queries.efficiency import Efficiency
from jobsight_server.queries.job_detail import RunEfficiency
from jobsight_server.web.kit.units import RESOURCE_TITLES, percent, resource_value, utc

WIDTH = 100

_NOTE = (
    "Next time: the reservation recommended now for a similar job; - if unknown or the same as the request. "
    "Used processors are those busy on average, bandwidth is the mean."
)
_FAILURES = {"memory": "ran out of memory", "time": "exceeded its time limit"}


def efficiency_text(runs: Sequence[RunEfficiency]) -> str:
    """Return the text that ``show`` prints, without colours."""
    file = StringIO()
    show(runs, Console(file=file, width=WIDTH, color_system=None))
    return file.getvalue()


def show(runs: Sequence[RunEfficiency], console: Console) -> None:
    """Print what to request next, a table for each run of one job, and the reasons for gaps."""
    if advised := [run.advice for run in runs if run.advice]:
        console.print(Text(advised[-1]))
    for number, run in enumerate(runs, 1):
        # As Text, because a job may be named like one of rich's markup tags.
        console.print(Text(_title(run, number, len(runs))))
        if not run.efficiency:
            console.print(f"It has not ended ({run.state}): nothing to compare yet.")
            continue
        console.print(_table(run.efficiency))
        for entry in run.efficiency:
            for remark in remarks(entry):
                console.print(Text(f"{RESOURCE_TITLES[entry.resource]}: {remark}."))
    if any(run.efficiency for run in runs):
        console.print(_NOTE)


def _title(run: RunEfficiency, number: int, count: int) -> str:
    which = f"Job {run.job_id} on {run.cluster}" + (f", run {number} of {count}" if count > 1 else "")
    began = "not started" if run.start is None else utc(run.start)
    ended = "" if run.end is None else f" to {utc(run.end)}"
    outcome = "" if run.exit_status is None else f", exit status {run.exit_status}"
    failure = "" if run.failure is None else f" ({_FAILURES[run.failure]})"
    return f"{which}: {run.name or 'without a name'} of {run.user}, {began}{ended} UTC{outcome}{failure}"


def _table(found: Sequence[Efficiency]) -> Table:
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("whole job", no_wrap=True)
    for name in ("asked for", "used", "efficiency", "next time"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in found:
        used = "not measured" if entry.used is None else resource_value(entry.used, entry.resource)
        table.add_row(
            RESOURCE_TITLES[entry.resource],
            _dash(resource_value(entry.requested, entry.resource)),
            f"at least {used}" if entry.at_least and entry.used is not None else used,
            _dash(percent(entry.efficiency)),
            _dash(resource_value(entry.ask_next, entry.resource)),
        )
    return table


def remarks(entry: Efficiency) -> list[str]:
    """Return why values or shares are missing, and how reliable the others are."""
    found = [] if entry.reason is None else [entry.reason]
    if entry.ask_next is None and (entry.efficiency or 0.0) > 1.0:
        found.append("it used more than it asked for; the need of similar jobs is not known yet")
    if entry.resource == "gpus" and entry.reason is None:
        found.append(f"held {entry.requested:g}, busy {entry.efficiency:.2f} on average")
    return [*found, "its nodes were shared; split by the processors held"] if entry.apportioned else found


def _dash(text: str) -> str:
    """Return the text with plain dashes, for tables on terminals."""
    return "-" if text == "–" else text
