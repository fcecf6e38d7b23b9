"""Learns the runs that have just been profiled, between them what was submitted: the events of a round, by time.

A forecast is judged as it stood when the job was submitted. A round goes up to the last end among its runs; what was
submitted before that and had no forecast yet gets its tickets on the way, so that running along and importing a
year's log do the same. What was submitted later has to wait for the next round: until then nothing is learned that
could change its forecast.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, func, select, text

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.ticket import Ticket
from jobsight_server.forecasts.job import Job, read_jobs, read_waiting
from jobsight_server.forecasts.learn import Event, Finished, Learner, Submitted
from jobsight_server.forecasts.method import Method
from jobsight_server.forecasts.tickets import TicketKey, delete_tickets, read_tickets
from jobsight_server.storage.fetch import write_many
from jobsight_server.storage.schema import profiles

_MARK = "UPDATE jobs SET foretold = ? WHERE id = ?"
_FORECAST_FOR = ("running", "ended")


def hold_learning(connection: Connection) -> None:
    """Lets nobody else learn until the transaction ends. SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": zlib.crc32(b"jobsight learning")})


def last_position(connection: Connection) -> int:
    """The position of the run that was learned last; 0 before any."""
    return connection.scalar(select(func.max(profiles.c.position))) or 0


def learn_round(
    connection: Connection, method: Method, learned: Mapping[int, Mapping[str, float | None]], before: int
) -> dict[TicketKey, Ticket]:
    """Learns runs (id -> metric -> value), given in order of their end, at the positions that follow ``before``.

    Returns what had been forecast for each of them. ValueError where other templates had learned what is stored.
    """
    known = read_jobs(connection, list(learned))
    finished = [known[run_id] for run_id in learned]
    waiting = read_waiting(connection, max(job.end or 0.0 for job in finished))
    expected = [job for job in waiting if _is_expected(job, known)]
    events = _by_time(finished, expected, learned)
    learner = Learner(method)
    learner.load(connection, [(job.cluster, job.question) for job in (*finished, *expected)], METRICS)
    learner.tickets = read_tickets(connection, [job.run_id for job in finished if job.foretold is not None])
    without = set(learned) - {run_id for run_id, _ in learner.tickets}
    told = learner.replay(events)
    delete_tickets(connection, list(learned))
    learner.store(connection)
    _mark(connection, _positions(events, before) | _on_the_spot(events, without, before), waiting, before)
    return told


def learn_late(connection: Connection, method: Method, learned: Mapping[int, Mapping[str, float | None]]) -> None:
    """Learns further metrics of runs that were learned before, whose samples arrived late, in this order.

    Their tickets are gone: they are judged as the forecast stands now. ValueError where other templates had learned
    what is stored.
    """
    if not learned:
        return
    known = read_jobs(connection, list(learned))
    learner = Learner(method)
    learner.load(connection, [(job.cluster, job.question) for job in known.values()], METRICS)
    learner.replay([Finished(known[run_id], values) for run_id, values in learned.items()])
    learner.store(connection)


def _is_expected(job: Job, finished: Mapping[int, Job]) -> bool:
    """Whether a forecast at its submission can be judged one day."""
    if job.run_id in finished:
        assert job.submitted is not None
        return job.submitted < (finished[job.run_id].end or 0.0)
    return job.state in _FORECAST_FOR


def _by_time(
    finished: Sequence[Job], expected: Sequence[Job], learned: Mapping[int, Mapping[str, float | None]]
) -> list[Event]:
    """At one instant jobs end before others are submitted."""
    events: list[tuple[float, int, Event]] = [
        (job.end or 0.0, 0, Finished(job, {metric: learned[job.run_id].get(metric) for metric in METRICS}))
        for job in finished
    ]
    events += [(job.submitted or 0.0, 1, Submitted(job, tuple(METRICS))) for job in expected]
    events.sort(key=lambda entry: entry[:2])
    return [event for _, _, event in events]


def _positions(events: Sequence[Event], before: int) -> dict[int, int]:
    """Per run that was submitted among the events: the position learned last before it."""
    found: dict[int, int] = {}
    for event in events:
        if isinstance(event, Submitted):
            found[event.job.run_id] = before
        else:
            before += 1
    return found


def _on_the_spot(events: Sequence[Event], without: set[int], before: int) -> dict[int, int]:
    """The same for runs that ended without any ticket: these are judged when they are learned."""
    submitted = {event.job.run_id for event in events if isinstance(event, Submitted)}
    finished = [event.job.run_id for event in events if isinstance(event, Finished)]
    return {run: before + i for i, run in enumerate(finished) if run in without and run not in submitted}


def _mark(connection: Connection, foretold: dict[int, int], waiting: Sequence[Job], before: int) -> None:
    # Those that nobody will judge are marked too, or every round would meet them again.
    rows = {job.run_id: before for job in waiting} | foretold
    write_many(connection, _MARK, [(position, run_id) for run_id, position in rows.items()])
