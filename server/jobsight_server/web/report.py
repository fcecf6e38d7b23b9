"""The report on a log as a page of its own: one file, without a server or a network; and its sentences."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from jinja2 import Environment, PackageLoader

from jobsight_predictor.metrics import METRICS
from jobsight_server import web
from jobsight_server.ground.amounts import size_text
from jobsight_server.queries.report import Gain, NeedsMore, Report, Unseen
from jobsight_server.savings.confidence import Freed
from jobsight_server.savings.waste import WasteRow
from jobsight_server.web.kit.units import FILTERS, FOR_TEMPLATES, count, hours, many, percent, resource_value

UNITS = {"memory": "GiB-hours", "processors": "processor-hours", "runtime": "processor-hours", "gpus": "GPU-hours"}
"""Resource -> unit of what jobs held and used."""

FREED = {"memory": "freed", "runtime": "shorter"}
"""What recommendations do to what requests held."""

TITLES = {"memory": "Memory", "processors": "Processors", "runtime": "Time limits", "gpus": "GPUs"}


def sentences(found: Report) -> Iterator[str]:
    """Yield the answers in words: what would have been freed, what it is worth, and how many jobs would have failed."""
    memory, time = found.users.memory, found.users.runtime
    if found.unseen is not None:
        yield _unseen(found.unseen)
    if not memory.jobs and not time.jobs:
        yield "No job has a request, an exact use and a recommendation at its submission: nothing can be judged yet."
    if memory.jobs:
        yield (
            f"Recommended memory requests would have {_freed(found.freed)} of {hours(memory.requested_hours)} "
            f"GiB-hours. {count(memory.would_run_out)} of {many(memory.jobs, 'job')} "
            f"needed more than recommended; {count(memory.needed_more)} needed more than they requested, and "
            f"{count(memory.ran_out)} of these failed."
        )
        if found.freed.amount > 0:
            yield _nodes(found)
    if found.node_hour is not None and not (memory.jobs and found.freed.amount > 0):
        why = "would have freed none" if memory.jobs else "cannot be judged"
        yield f"--node-hour prices freed memory, and recommended memory requests {why}."
    if time.jobs:
        yield (
            f"{count(time.would_run_out)} of {many(time.jobs, 'job')} would have run out of time with the recommended "
            f"limits; {count(time.ran_out)} ran out of their own. Shorter limits free nothing by themselves: jobs fit "
            "into shorter gaps."
        )


def _unseen(of: Unseen) -> str:
    return (
        f"{many(of.jobs, 'run')}, most of {', '.join(of.users)}, used less than .5 % of {hours(of.processor_hours)} "
        f"processor-hours ({percent(of.share)} of all): idle, or started past the batch system. Their processors and "
        "memory are not learned, and count nowhere else."
    )


def _freed(of: Freed) -> str:
    if of.amount == 0:
        return "freed none"
    verb, sign = ("freed", 1.0) if of.amount > 0 else ("taken another", -1.0)
    return f"{verb} {_between(of.times(sign), ' by a 90 % interval over users')}"


def _nodes(found: Report) -> str:
    if found.nodes is None or found.node_bytes is None:
        return "In nodes and money: unknown, because the log names no node of a job with a memory request."
    money = "" if found.money is None else f", or {_between(found.money)} at the price of their hours"
    return (
        f"That is at most {_between(found.nodes)} nodes all the time{money}. No log says what a node has: at least "
        f"{size_text(found.node_bytes)}, the most that one job requested on one."
    )


def _between(of: Freed, kind: str = "") -> str:
    if of.low is None or of.high is None:
        return f"{hours(of.amount)} (no interval: {many(of.users, 'user')})"
    low, high = sorted((of.low, of.high))
    return f"{hours(of.amount)} ({hours(low)} to {hours(high)}{kind})"


def heading(found: Report, log: str) -> str:
    """Return which jobs of which log the report is on."""
    first, last = found.users.first_day, found.users.last_day
    return f"{log}: jobs that ended {f'on {first}' if first == last else f'from {first} to {last}'} (UTC)"


def known_today(found: Report) -> Iterator[str]:
    """Yield how well today's forecasts fit the jobs that they were learned from."""
    for of in found.known_today:
        yield (
            f"{METRICS[of.metric].title}: today's forecasts are {percent(of.accuracy)} accurate for the "
            f"{many(of.jobs, 'similar job')} behind the lines of those with most to gain, and today's amounts would "
            f"have been enough for {percent(of.held)}. They were learned from these very jobs: this shows how well "
            "they fit, not how well they will do."
        )


def counted_as(metric: str) -> str:
    """Return what the figures of those with most to gain are, in words."""
    figures = f"{FREED[metric].capitalize()}, ran out and would have run out"
    return f"{figures} are counted with the recommendation at each job's submission. The lines are today's."


def similar_jobs(gain: Gain, metric: str) -> str:
    """Return the similar jobs behind a recommendation in words."""
    if not gain.similar:
        return "No similar job has been measured."
    last = ", ".join(
        f"{job.job_id} used {resource_value(job.used, metric)} of {resource_value(job.requested, metric)}"
        for job in gain.last_jobs
    )
    of = f"{gain.advice.application or 'jobs without a name'} of {gain.advice.user}"
    known = f"{many(gain.similar, 'similar job')}, {gain.exact} known exactly"
    return f"For {of} on {many(gain.processors, 'processor')}: from {known}. {last}."


def kept_request(row: WasteRow, metric: str) -> str:
    """Return how much of a user's requests was unused, and why those of an application are kept, in words."""
    of, advice = getattr(row, metric), getattr(row, f"{metric}_advice")
    unused = f"{hours(of.unused_hours)} of {hours(of.requested_hours)} {UNITS[metric]} unused"
    return f"{row.name}: {unused}; keep the request of {advice.application or 'jobs without a name'}: {advice.kept}."


def needs_more(of: NeedsMore) -> str:
    """Return which application needs more, and why, in words."""
    what, amounts = f"{of.application or 'jobs without a name'} of {of.user}", (of.ask_for, of.asked_for)
    more, less = (resource_value(amount, of.metric) for amount in amounts)
    noun = "time" if of.metric == "runtime" else "memory"
    return f"{what}: {more} of {noun} instead of {less}; {many(of.jobs, 'job')} needed more than requested"


def page_of(found: Report, log: str, scheduler: str) -> str:
    """Return the HTML of the report on ``log``; ``scheduler``: as `jobsight setup` names it."""
    templates = Environment(loader=PackageLoader(web.__name__), autoescape=True, trim_blocks=True)
    templates.filters.update(FILTERS)
    # Nothing has an address in a file of its own.
    templates.globals.update(FOR_TEMPLATES, url_for=lambda *_, **__: "")
    place = files(web) / "static"
    return templates.get_template("report.html").render(
        data=found,
        heading=heading(found, log),
        scheduler=scheduler,
        sentences=list(sentences(found)),
        known_today=list(known_today(found)),
        counted_as=counted_as,
        similar_jobs=similar_jobs,
        kept_request=kept_request,
        needs_more=needs_more,
        units=UNITS,
        titles=TITLES,
        freed=FREED,
        style=(place / "jobsight.css").read_text(),
        script=(place / "copy.js").read_text(),
    )
