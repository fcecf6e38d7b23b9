"""What today's lines save if the last week's jobs come again: fitted, because they were learned from these very jobs.

Jobs of one application that request as much are one line, that of the last of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from jobsight_server.advice.words import AskLine, Scheduler, lines_to_ask, pbs_memory_text, sentence
from jobsight_server.decision.evidence import ASKED_FOR, Resource, Shape
from jobsight_server.decision.rule import Kept
from jobsight_server.forecasts.last_runs import LastRun
from jobsight_server.ground.amounts import DAY_S, memory_text, time_text
from jobsight_server.ground.answers import Record
from jobsight_server.savings.savings import Asking, Saved
from jobsight_server.savings.sums.add import sums_with
from jobsight_server.savings.sums.read import saved_amounts
from jobsight_server.storage.schema import jobs
from jobsight_server.storage.schema.jobs import ASKED_MEMORY, ASKED_PROCESSORS, ASKED_WALLTIME, is_ended

DAYS = 7

LEAST = 0.001
"""Share of what all of the week's jobs requested; an application that requests less cannot save more."""

TOOK_S = jobs.c.end - jobs.c.start
_WRITE = {"memory": memory_text, "runtime": time_text}
_ASKED = {
    "memory": (ASKED_MEMORY, TOOK_S, 2.0**30 * 3600.0),
    "runtime": (ASKED_WALLTIME, jobs.c.processors, 3600.0),
}
"""Resource -> its request, what multiplies it, and the divisor for hours."""


class Line(Record):
    """The line for the next of a user's jobs that request ``asked_for`` of ``metric``, bytes or seconds of the whole
    job, on as many ``processors``, and ``nodes`` if the log names them.

    ``ask_for`` is null if the request is ``kept`` for that reason. ``requested``: all that the job requests, and
    ``changed`` what it should request instead. ``text``: the advice in words, with the other resource; ``ask_lines``:
    what it changes, to paste. ``ran_out``: how many of the similar jobs ran out of ``metric``, as ``text`` counts them,
    by burst and request. ``held_hours``: what such jobs of the week requested. ``saved``: what this line would save of
    it, over those whose use is known.
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
    requested: dict[Resource, float]
    changed: dict[Resource, float]
    ran_out: dict[tuple[float, Shape], int]
    text: str
    ask_lines: list[AskLine]
    held_hours: float
    saved: Saved | None

    @property
    def size(self) -> str:
        """Return the processors, and nodes if there are several, in words."""
        nodes = f" of {self.nodes} nodes" if (self.nodes or 1) > 1 else ""
        return f"{self.processors:,} processor{'' if self.processors == 1 else 's'}{nodes}"

    @property
    def request(self) -> str:
        """Return the requested memory and time in words."""
        return " and ".join(_WRITE[resource](amount) for resource, amount in self.requested.items())

    @property
    def is_larger(self) -> bool:
        """Return whether the next job should request more."""
        return self.ask_for is not None and self.ask_for > self.asked_for


def together(lines: Iterable[Line]) -> list[list[Line]]:
    """Return the lines that give the same advice to the same jobs, such as on both resources, together."""
    found: defaultdict[tuple[str, str, str], list[Line]] = defaultdict(list)
    for line in lines:
        found[line.size, line.request, line.text].append(line)
    return list(found.values())


def ran_out_of(lines: Iterable[Line], metric: Resource) -> int:
    """Return how many jobs similar to those of these lines ran out of their request, each counted once."""
    return sum({key: n for line in lines if line.metric == metric for key, n in line.ran_out.items()}.values())


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
    of_week = (is_ended, jobs.c.end >= first_day * DAY_S)
    named = jobs.c["cluster", "user", "application"]
    request = (ASKED_PROCESSORS.label("processors"), asked.label("asked_for"), (asked * times).label("held"))
    each = select(*named, *request).where(*of_week, jobs.c.application.is_not(None), asked > 0).subquery()
    *same, held = each.c
    hours = func.sum(held) / unit
    query = select(*same, hours.label("held_hours")).group_by(*same).having(hours >= LEAST * total)
    for row in connection.execute(query.order_by(hours.desc())) if total else ():
        requests = WeekRequests(**row._mapping)
        like = asking.last_of(requests.cluster, requests.user, requests.application, requests.processors, metric,
                              requests.asked_for)  # fmt: skip
        if like is not None:
            values = zip((*named, ASKED_PROCESSORS, asked), requests, strict=False)
            runs = select(jobs.c.id).where(*of_week, *(column == value for column, value in values))
            yield _line(asking, requests, like, metric, scheduler, connection.scalars(runs).all())


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
    runs: Sequence[int],
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
        saved = Saved(**saved_amounts(sums_with(asking.connection, runs, metric, attempts), metric)._asdict())
    return Line(
        **{name: getattr(requests, name) for name in WeekRequests._fields},
        metric=metric,
        nodes=found.request.nodes,
        ask_for=other,
        kept=None if other is not None else decision.kept or "as requested",
        requested={resource: amount for resource in ASKED_FOR if (amount := like.requested(resource))},
        changed=changed,
        ran_out={(row.burst, row.shape): row.failed for row in decision.similar.rows if row.failed},
        text=sentence(found, pbs_memory_text if scheduler == "pbs" else memory_text),
        ask_lines=lines_to_ask(found, scheduler, like, changed) if other is not None else [],
        saved=saved,
    )
