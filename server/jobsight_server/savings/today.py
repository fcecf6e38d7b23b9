"""What today's lines save if the last week's jobs come again: fitted, because they were learned from these very jobs.

Jobs of one application that request as much are one line, that of the last of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection

from jobsight_server.advice.words import AskLine, Scheduler, lines_to_ask, pbs_memory_text, sentence
from jobsight_server.decision.evidence import Resource
from jobsight_server.decision.rule import Kept
from jobsight_server.forecasts.last_runs import LastRun
from jobsight_server.ground.amounts import DAY_S, memory_text
from jobsight_server.ground.answers import Record
from jobsight_server.savings.savings import Asking, Saved, saved_amounts
from jobsight_server.savings.totals import sums_with
from jobsight_server.storage.engine import fetch

DAYS = 7

LEAST = 0.001
"""Share of what all of the week's jobs requested; an application that requests less cannot save more."""

MEMORY = "coalesce(asked_memory_bytes, requested_memory_bytes, 0)"
WALLTIME = "coalesce(asked_walltime_s, requested_walltime_s, 0)"
PROCESSORS = "coalesce(nullif(asked_processors, 0), processors)"
TOOK_S = '("end" - start)'

_ASKED = {"memory": (MEMORY, TOOK_S, 2.0**30 * 3600.0), "runtime": (WALLTIME, "processors", 3600.0)}
"""Resource -> SQL of its request, of what multiplies it, and the divisor for hours."""
_OF_WEEK = "FROM jobs WHERE state = 'ended' AND \"end\" >= ?"
_REQUESTS = (
    'SELECT cluster, "user", application, {processors}, {asked}, sum({asked} * {times}) / {unit} AS hours ' + _OF_WEEK
    + " AND application IS NOT NULL AND {asked} > 0 GROUP BY 1, 2, 3, 4, 5 HAVING sum({asked} * {times}) / {unit} >= ? "
    "ORDER BY hours DESC"
)  # fmt: skip
_RUNS = (
    f'SELECT id {_OF_WEEK} AND cluster = ? AND "user" = ? AND application = ? AND {PROCESSORS} = ? AND {{asked}} = ?'
)


class Line(Record):
    """The line for the next of a user's jobs that request ``asked_for`` of ``metric``, bytes or seconds of the whole
    job, on as many ``processors``, and ``nodes`` if the log names them.

    ``ask_for`` is null if the request is ``kept`` for that reason. ``text``: the advice in words, with the other
    resource; ``ask_lines``: what it changes, to paste. ``held_hours``: what such jobs of the week requested. ``saved``:
    what this line would save of it, over those whose use is known.
    """

    cluster: str
    user: str
    application: str
    metric: Resource
    processors: int
    nodes: int | None
    asked_for: float
    ask_for: float | None
    kept: Kept | None
    text: str
    ask_lines: list[AskLine]
    held_hours: float
    saved: Saved | None

    @property
    def is_larger(self) -> bool:
        """Return whether the next job should request more."""
        return self.ask_for is not None and self.ask_for > self.asked_for


class WeekRequests(NamedTuple):
    """The jobs of the week that request the same."""

    cluster: str
    user: str
    application: str
    processors: int
    asked_for: float
    held_hours: float


def lines_of_week(
    connection: Connection, asking: Asking, metric: Resource, first_day: int, total: float, scheduler: Scheduler | None
) -> Iterator[Line]:
    """Yield the lines for jobs from ``first_day`` on that requested a ``LEAST`` share of the ``total`` hours, by it."""
    asked, times, unit = _ASKED[metric]
    since = first_day * DAY_S
    query = _REQUESTS.format(asked=asked, times=times, unit=unit, processors=PROCESSORS)
    for row in fetch(connection, query, (since, LEAST * total)) if total else ():
        requests = WeekRequests(*row)
        like = asking.last_of(requests.cluster, requests.user, requests.application, requests.processors, metric,
                              requests.asked_for)  # fmt: skip
        if like is not None:
            runs = fetch(connection, _RUNS.format(asked=asked), (since, *requests[:-1]))
            yield _line(asking, requests, like, metric, scheduler, [run for (run,) in runs])


def larger_line(
    asking: Asking,
    names: tuple[str, str, str],
    processors: int,
    metric: Resource,
    scheduler: Scheduler | None,
) -> Line | None:
    """Return the line for the next job of an application (cluster, user, application) on as many processors if it
    requests more than the last one."""
    like = next((run for run in asking.runs(*names) if run.processors == processors), None)
    if like is None or not (asked_for := like.requested(metric)):
        return None
    line = _line(asking, WeekRequests(*names, processors, asked_for, 0.0), like, metric, scheduler, [])
    return line if line.is_larger else None


def _line(
    asking: Asking,
    requests: WeekRequests,
    like: LastRun,
    metric: Resource,
    scheduler: Scheduler | None,
    runs: list[int],
) -> Line:
    """Return the line for a job like this one, and what it saves on these runs."""
    found = asking.like(requests.cluster, requests.user, like)
    decision = found.decisions[metric]
    changed = {
        resource: amount
        for resource, one in found.decisions.items()
        if (amount := one.amount or one.shorter) is not None and amount != like.requested(resource)
    }
    other, saved = changed.get(metric), None
    if other is not None and runs:
        per = requests.processors if metric == "memory" else 1
        attempts = [amount / per for amount in (other, decision.then or requests.asked_for)]
        saved = Saved(**saved_amounts(sums_with(asking.connection, runs, metric, attempts), metric))
    return Line(
        **{name: getattr(requests, name) for name in WeekRequests._fields},
        metric=metric,
        nodes=found.request.nodes,
        ask_for=other,
        kept=None if other is not None else decision.kept or "as requested",
        text=sentence(found, pbs_memory_text if scheduler == "pbs" else memory_text),
        ask_lines=lines_to_ask(found, scheduler, like, changed) if other is not None else [],
        saved=saved,
    )
