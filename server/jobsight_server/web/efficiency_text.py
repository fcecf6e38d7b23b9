"""A job's use of its request as text for terminals. Imports no web framework, so that ``seff`` starts fast."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from io import StringIO
from statistics import median
from textwrap import indent

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobsight_server.accounting.text import escaped_lines
from jobsight_server.queries.efficiency import Efficiency
from jobsight_server.queries.job_detail import RunEfficiency
from jobsight_server.web.kit.units import RESOURCE_TITLES, bound_value, percent, resource_value, utc
from jobsight_server.web.verdict import amount, verdict

WIDTH = 80

_NOTE = (
    "Next time: what to request for a similar job, which may be the same; - if unknown. Used: processors and GPUs busy "
    "on average, the peak of memory, the mean bandwidth."
)


def efficiency_text(runs: Sequence[RunEfficiency]) -> str:
    """Return the text that ``show`` prints, without colours."""
    file = StringIO()
    show(runs, Console(file=file, width=WIDTH, color_system=None))
    return escaped_lines(file.getvalue())


def show(runs: Sequence[RunEfficiency], console: Console) -> None:
    """Print what to request next, a table for each run of one job, or one for all tasks, and the reasons for gaps."""
    if advised := [run for run in runs if run.advice]:
        console.print(Text(advised[-1].advice or ""))
        for line in advised[-1].ask_lines:
            console.print(Text(indent(line.text, "  ")), soft_wrap=True)
    tasks = {run.task or run.job_id: run for run in runs}
    if len(tasks) > 1:
        _show_tasks(tasks, console)
    else:
        _show_runs(runs, console)
    if any(run.end is not None for run in runs):
        console.print(_NOTE)


def _show_runs(runs: Sequence[RunEfficiency], console: Console) -> None:
    for number, run in enumerate(runs, 1):
        # As Text, because a job may be named like one of rich's markup tags.
        console.print(Text(_title(run, number, len(runs))))
        if run.start is None:
            continue
        console.print(_table(run.efficiency))
        for entry in run.efficiency:
            for remark in remarks(entry):
                console.print(Text(f"{RESOURCE_TITLES[entry.resource]}: {remark}."))


def _show_tasks(tasks: Mapping[str, RunEfficiency], console: Console) -> None:
    """Print the number of tasks by state, and the least, median and largest use of the last run of each."""
    first, *_ = tasks.values()
    whole = re.split(r"[_+\[]|\.(?=[0-9])", next(iter(tasks)), maxsplit=1)[0]
    ends = Counter(run.outcome for run in tasks.values()).most_common()
    states = ", ".join(f"{count:,} {outcome}" for outcome, count in ends)
    named = f"{first.name or 'without a name'} of {first.user}"
    console.print(Text(f"Job {whole} on {first.cluster}: {named}, {len(tasks):,} tasks: {states}"))
    by_resource: dict[str, list[Efficiency]] = {}
    for run in tasks.values():
        for entry in run.efficiency if run.end is not None else ():
            by_resource.setdefault(entry.resource, []).append(entry)
    table = _columns("each task", "requested", "least used", "median", "largest", "next time")
    missing = []
    for resource, entries in by_resource.items():
        used = sorted(entry.used for entry in entries if entry.used is not None)
        if left := len(entries) - len(used):
            missing.append(f"{RESOURCE_TITLES[resource]}: not measured for {left:,} of {len(entries):,} tasks.")
        of = (used[0], median(used), used[-1]) if used else (None, None, None)
        asked, ask_next = entries[-1].requested, entries[-1].ask_next
        table.add_row(
            RESOURCE_TITLES[resource], *(_dash(resource_value(each, resource)) for each in (asked, *of, ask_next))
        )
    if by_resource:
        console.print(table)
        console.print("".join(f"{line}\n" for line in missing), end="")


def _title(run: RunEfficiency, number: int, count: int) -> str:
    shown = run.job_id if run.task is None else f"{run.task} ({run.job_id})"
    which = f"Job {shown} on {run.cluster}" + (f", run {number} of {count}" if count > 1 else "")
    ended = "" if run.end is None else f" to {utc(run.end)}"
    began = "" if run.start is None else f", {utc(run.start)}{ended} UTC"
    return f"{which}: {run.name or 'without a name'} of {run.user}{began}. {verdict(run)}"


def _columns(first: str, *amounts: str) -> Table:
    """Return an empty table, of which nothing is cut: too wide amounts take several lines."""
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    for name in amounts:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _table(found: Sequence[Efficiency]) -> Table:
    table = _columns("whole job", "requested", "used", "efficiency", "next time")
    for entry in found:
        used = "not measured" if entry.used is None else amount(entry.used, entry.resource)
        if entry.at_least and entry.used is not None:
            used = f"at least {bound_value(entry.used, entry.resource)}"
        table.add_row(
            RESOURCE_TITLES[entry.resource],
            _dash(resource_value(entry.requested, entry.resource)),
            used,
            _dash(percent(entry.efficiency)),
            _dash(resource_value(entry.ask_next, entry.resource)),
        )
    return table


def remarks(entry: Efficiency) -> list[str]:
    """Return why values or shares are missing, and how reliable the others are."""
    found = [] if entry.reason is None else [entry.reason]
    if entry.ask_next is None and (entry.efficiency or 0.0) > 1.0:
        found.append("it used more than it requested; the need of similar jobs is not known yet")
    if entry.resource == "gpus" and entry.reason is None:
        found.append(f"held {entry.requested:g}, busy {entry.efficiency:.2f} on average")
    return [*found, "its nodes were shared; split by the processors held"] if entry.apportioned else found


def _dash(text: str) -> str:
    """Return the text with plain dashes, for tables on terminals."""
    return "-" if text == "–" else text
