"""The report on a log in words: sections of sentences and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from jobsight_predictor.metrics import METRICS
from jobsight_server.advice.words import KEPT
from jobsight_server.decision.evidence import Resource
from jobsight_server.ground.amounts import many, memory_text, plain, size_text, time_text
from jobsight_server.queries.lost import Killed
from jobsight_server.queries.report import Report, ReportFinding
from jobsight_server.savings.confidence import LEVEL
from jobsight_server.savings.today import LEAST, Line, together
from jobsight_server.web.document import Block, DocumentAnswer, DocumentSection, DocumentTable, Paste
from jobsight_server.web.kit.units import DASH, count, exceeded, hours, percent, share

DAY_ONE = "If all jobs had followed the advice from day one (replayed)"
TOMORROW = "If users adopt today's recommendations (estimated on last week's jobs)"

LISTED = 10
"""Rows of the table of changes, and users whose texts are shown."""

UNITS = {"memory": "GiB-hours", "processors": "processor-hours", "runtime": "processor-hours", "gpus": "GPU-hours"}
"""Resource -> unit of what jobs held and used."""

TITLES = {"memory": "Memory", "processors": "Processors", "runtime": "Time limits", "gpus": "GPUs"}
_WRITE = {"memory": memory_text, "runtime": time_text}
_OF = {"memory": "memory", "processors": "processors", "runtime": "limits", "gpus": "GPUs"}
_NAMES = {"memory": "memory", "runtime": "time limit"}
_GIB = 2.0**30
_WITHOUT_SETUP = ("condor", "lsf")  # formats of logs whose scheduler `jobsight setup` does not know


def sections(found: Report, scheduler: str, texts: dict[str, str]) -> list[DocumentSection]:
    """Return the whole report; ``texts``: what to write, by user; ``scheduler``: as `jobsight setup` names it."""
    return [
        DocumentSection("", [_basis(found), _day_one(found), _tomorrow(found), *_sentences(found)]),
        DocumentSection("What to change first", [*_changes(found)]),
        DocumentSection(
            "What to write", [Paste(text, f"To {user}") for user, text in list(texts.items())[:LISTED]] or ["Nothing."]
        ),
        DocumentSection("Largest requests without advice", [_kept(line) for line in found.kept] or ["None."]),
        DocumentSection("Requested and used", [_held(found)]),
        DocumentSection("How sure: forecasts and recommendations by week", [*_weeks(found)]),
        DocumentSection("Left out", [_excluded(found)]),
        DocumentSection("Next", _next(scheduler)),
    ]


def _next(scheduler: str) -> list[Block]:
    """Name the command that installs Jobsight beside the scheduler, or the settings to follow its log."""
    if scheduler in _WITHOUT_SETUP:
        settings = f'[[accounting]]\ncluster = "NAME"\nformat = "{scheduler}"\nfile = "/path/to/the/log"'
        return ["A server whose settings file has this follows the log; users then see their lines.", Paste(settings)]
    setup = (
        "On the scheduler's host, this shows what it will install, and asks; users then see their line at submission."
    )
    return [setup, Paste(f"jobsight setup {scheduler}")]


def heading(found: Report, log: str) -> str:
    """Return which jobs of which log the report is on."""
    first, last = found.waste.first_day, found.waste.last_day
    return f"{log}: jobs that ended {f'on {first}' if first == last else f'from {first} to {last}'} (UTC)"


def _basis(found: Report) -> str:
    held = found.held
    memory = f"{hours(held.memory)} GiB-hours of memory" if held.memory else "no memory"
    gpus = f" and {hours(held.gpus)} GPU-hours" if held.gpus else ""
    return (
        f"{many(held.jobs, 'job')} ended. They requested {memory}, and held {hours(held.processors)} processor-hours"
        f"{gpus}. Shares are of these totals."
    )


def _day_one(found: Report) -> DocumentAnswer:
    memory, of = found.waste.memory, found.replayed
    if not memory.jobs:
        detail = "No job has a memory request, a known use and a recommendation at its submission."
        return DocumentAnswer(DAY_ONE, "unknown", "", detail)
    of_less = "" if of.amount >= 0 else " freed"
    figure, freed = _freed(of.amount, found.held.memory, "have reserved")
    between = f"; {percent(LEVEL)} interval over users: {hours(of.low)} to {hours(of.high)}{of_less}"
    return DocumentAnswer(
        DAY_ONE,
        figure,
        f"{freed}{'' if of.low is None else between}",
        f"Each job with the recommendation at its submission. Of {many(memory.jobs, 'job')} whose use is known, "
        f"{count(memory.would_run_out)} needed more than recommended; "
        f"{exceeded(memory.needed_more, memory.ran_out)}.{_worth(found, of.amount, found.days)}",
    )


def _tomorrow(found: Report) -> DocumentAnswer:
    of, days, title = found.fitted, found.week_days, TOMORROW
    week = f"the last {many(days, 'day')}"
    if not of.jobs:
        return DocumentAnswer(
            title,
            "no change",
            "",
            f"No application with at least {share(LEAST)} of last week's requested memory needs a change.",
        )
    held = next((one for one in found.accuracy.metrics if one.metric == "memory" and one.bounds), None)
    sure = (
        "No job of the log shows how many will stay within their line."
        if held is None
        else f"How sure: {percent(held.held)} of the {many(held.bounds, 'job')} for which the replay recommended "
        "another request fitted it."
    )
    figure, freed = _freed(of.freed_hours, found.of_week.memory, "reserve")
    return DocumentAnswer(
        title,
        figure,
        f"{freed} in {week}",
        f"The lines of {many(of.users, 'user')}, on the {many(of.jobs, 'job')} of {week} from which they were learned."
        f" {sure}{_worth(found, of.freed_hours, days)}",
    )


def _freed(amount: float, requested: float, would: str) -> tuple[str, str]:
    """Return the figure with its words, and what it is a share of."""
    of = f"{_share(abs(amount), requested)} of the memory requested"
    if amount >= 0:
        return hours(amount), f"GiB-hours freed, {of}"
    return f"the advice would {would} {hours(-amount)} GiB-hours more", f"({of})"


def _worth(found: Report, freed: float, days: int) -> str:
    if found.node_bytes is None or freed <= 0:
        return ""
    node_hours = freed * _GIB / found.node_bytes
    money = "" if found.node_hour is None else f", worth {hours(node_hours * found.node_hour)}"
    return f" That equals up to {hours(node_hours / (days * 24.0))} nodes for the whole time{money}."


def _sentences(found: Report) -> Iterator[str]:
    """Yield what else a head of a computing centre asks first."""
    if found.replayed.amount > 0 or found.fitted.freed_hours > 0:
        if found.node_bytes is not None:
            size = size_text(found.node_bytes)
            yield f"Node size is not in the log; we assume {size}, the most requested on one node at once."
        elif found.node_hour is not None:
            yield "The log names no node of a job with a memory request, so there is no price of memory."
    elif found.node_hour is not None:
        yield "No memory would be freed, so there is no saving to price."
    if lost := " ".join(_lost_hours(found)):
        yield lost
    if found.held.gpus and not any(one.what == "gpus" for one in found.idle):
        yield f"GPUs: the log does not show whether {hours(found.held.gpus)} GPU-hours were used."


def _lost_hours(found: Report) -> Iterator[str]:
    """Yield how much of what jobs held brought nothing, in all; the table has who and what to do."""
    killed = Counter[str]()
    for one in found.killed:
        killed[one.metric] += one.jobs
    whys = (("runtime", "at the time limit"), ("memory", "for lack of memory"))
    how = " and ".join(f"{many(killed[metric], 'job')} killed {why}" for metric, why in whys if killed[metric])
    lost = {"processors": {f"lost by {how}": sum(one.hours for one in found.killed)}, "gpus": {}}
    for what, amounts in lost.items():
        for state, is_seen in (("idle", True), ("idle or unseen", False)):
            amounts[state] = sum(one.idle_hours for one in found.idle if (one.what, one.is_seen) == (what, is_seen))
        held = getattr(found.held, what)
        words = [f"{_share(amount, held)} {state}" for state, amount in amounts.items() if amount > 0]
        if words:
            yield f"Of all {UNITS[what]}: {', '.join(words)}."


def _changes(found: Report) -> Iterator[Block]:
    if not found.findings:
        yield f"Nothing: no change has an effect of {share(LEAST)} or more."
        return
    rows = [
        (
            one.user,
            one.application or DASH,
            "; ".join(_change(one)),
            hours(one.fitted_hours) if one.fitted_hours else DASH,
            hours(one.replayed_hours) if one.replayed_hours else DASH,
            f"{_share(one.share, 1.0)} of {_OF[one.of]}",
        )
        for one in found.findings[:LISTED]
    ]
    heads = ("User", "Application", "Change", "GiB-hours from tomorrow", "GiB-hours from day one", "Effect")
    yield DocumentTable(heads, rows, names=3)
    more = len(found.findings) - len(rows)
    left = f"{count(more)} more rows have smaller ones; those" if more > 0 else "Rows"
    unseen = (
        " Idle or unseen jobs used less than 0.5 % of their processors: they were idle, or started outside the batch "
        "system; they count nowhere else."
    )
    yield (
        f"GiB-hours from tomorrow and from day one: memory freed in {many(found.week_days, 'day')}, and in all "
        f"{many(found.days, 'day')}. Effect: the row's largest, as a share of what all jobs of these days requested or "
        f"held; hours lost are of processors. {left} below {share(LEAST)} are left out."
        f"{'' if all(idle.is_seen for one in found.findings for idle in one.idle) else unseen} Shorter limits free no "
        "resources; they let the scheduler backfill more jobs."
    )


def _change(one: ReportFinding) -> Iterator[str]:
    """Yield the changes that the letter names, with their requests if these are several."""
    advice = together(one.lines)
    for first, *_ in advice:
        of = f"jobs of {first.request} on {first.size}: " if len(advice) > 1 else ""
        yield of + ", ".join(_instead(first, metric) for metric in first.changed)
    for killed in one.killed:
        yield f"{_NAMES[killed.metric]}: {_lost(killed)}"
    for idle in one.idle:
        how = f"{percent(idle.busy)} busy in" if idle.is_seen else "idle or unseen in"
        held = f"{many(idle.jobs, 'job')}, {hours(idle.idle_hours)} h{' idle' if idle.is_seen else ''}"
        yield f"{UNITS[idle.what].partition('-')[0]}s: {how} {held}"


def _lost(one: Killed) -> str:
    """Count the kills as the letter does."""
    others = f", {count(one.others)} more earlier or with other requests" if one.similar and one.others else ""
    return f"{count(one.similar or one.jobs)} killed{others}, {hours(one.hours)} h lost{' in all' if others else ''}"


def _instead(line: Line, metric: Resource) -> str:
    write, asked = _WRITE[metric], line.requested.get(metric)
    return f"{_NAMES[metric]} {write(line.changed[metric])}{'' if asked is None else f' instead of {write(asked)}'}"


def _kept(line: Line) -> str:
    jobs = f"jobs of {memory_text(line.asked_for)} on {many(line.processors, 'processor')}"
    return (
        f"{line.application} of {line.user}: {hours(line.held_hours)} GiB-hours in {jobs}. No advice, because "
        f"{KEPT[line.kept or 'as requested']}."
    )


def _held(found: Report) -> DocumentTable:
    rows = []
    for resource, unit in UNITS.items():
        all_of, of = getattr(found.held, resource), getattr(found.waste, resource)
        known, used, jobs = of.requested_hours, of.used_hours, of.jobs
        if resource == "gpus":
            gpus = [one for one in found.idle if one.what == "gpus"]
            known, jobs = sum(one.held_hours for one in gpus), sum(one.jobs for one in gpus)
            used = known - sum(one.idle_hours for one in gpus)
        if all_of:
            unused = percent((known - used) / known) if known else DASH
            rows.append((f"{TITLES[resource]}, {unit}", hours(all_of), hours(known), hours(used), unused, count(jobs)))
    if found.unasked_jobs:
        used = hours(found.unasked_hours)
        rows.append(("Memory not requested, GiB-hours", DASH, DASH, used, DASH, count(found.unasked_jobs)))
    return DocumentTable(("Resource", "Requested", "of known use", "Used", "Unused", "Jobs"), rows)


def _weeks(found: Report) -> Iterator[Block]:
    rows = found.accuracy.rows
    if not rows:
        yield "None: no forecast has been compared with use yet."
        return
    cells = [
        [
            DASH if of is None else f"{percent(of.accuracy)}, {percent(of.held)}"
            for row in rows
            for of in [next((of for of in row.weeks if of.first_day == week), None)]
        ]
        for week in found.accuracy.week_starts
    ]
    weeks = [(week, *of) for week, of in zip(found.accuracy.week_starts, cells, strict=True) if {*of} != {DASH}]
    yield DocumentTable(("Week from", *(METRICS[row.metric].title for row in rows)), weeks)
    yield (
        "Accuracy of the forecasts, then the share of jobs that fitted the recommended request, where it differed from "
        f"theirs, which should be {percent(found.accuracy.promised)}; both as of each job's submission."
    )


def _excluded(found: Report) -> DocumentTable:
    rows = [(TITLES.get(row.what, row.what), row.reason, count(row.count)) for row in found.excluded]
    return DocumentTable(("Of", "Reason", "Count"), rows, names=2)


def _share(part: float, whole: float) -> str:
    return f"{plain(100.0 * part / whole, 2)} %" if whole else DASH
