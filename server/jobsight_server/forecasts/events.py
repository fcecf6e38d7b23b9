"""Events of jobs (submitted, started, finished, reported), read back in the order of learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    and_,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
)

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile import PendingForecast
from jobsight_predictor.question import Moment, Question
from jobsight_server.accounting.runs import FAILED_METRIC
from jobsight_server.forecasts.request import COLUMNS, NOT_LEARNED, ForecastJob, job_of, question_of_text, read_jobs
from jobsight_server.forecasts.stored_model import RunAndMetric, SeriesKey, forget_learned
from jobsight_server.storage.engine import RUNS, insertion, of_runs, write_many
from jobsight_server.storage.schema import jobs, learned_until, outcomes, pending_at_start, profiles


class Observation(NamedTuple):
    """A job's known need in one metric: its ``value``, or a lower bound of it."""

    value: float
    is_lower_bound: bool = False


@dataclass(frozen=True, slots=True)
class _OfJob:
    job: ForecastJob

    @property
    def cluster(self) -> str:
        return self.job.cluster

    @property
    def question(self) -> Question:
        return self.job.question

    def changed_series(self, metric: str) -> SeriesKey | None:
        """Return the series of ``metric`` whose stored answer the event changes."""
        return None


@dataclass(frozen=True, slots=True)
class ForecastDue(_OfJob):
    """A job was submitted, or starts after it waited: its forecast now will be scored."""

    metrics: Sequence[str]
    moment: Moment


@dataclass(frozen=True, slots=True)
class Finished(_OfJob):
    """A job has ended, with an observation of each metric; None is unknown."""

    observations: Mapping[str, Observation | None]

    @property
    def metrics(self) -> Sequence[str]:
        """Return the metrics in which its forecast is scored."""
        return tuple(self.observations)

    def changed_series(self, metric: str) -> SeriesKey | None:
        """Return the series of ``metric`` whose stored answer the event changes."""
        return SeriesKey(self.job.cluster, self.job.user, metric) if self.observations.get(metric) else None


class Reported(NamedTuple):
    """A job's need was reported ``at`` this time (UTC)."""

    cluster: str
    metric: str
    question: Question
    observation: Observation
    at: float

    @property
    def metrics(self) -> Sequence[str]:
        return (self.metric,)

    def changed_series(self, metric: str) -> SeriesKey | None:
        """Return the series of ``metric`` whose stored answer the event changes."""
        return SeriesKey(self.cluster, self.question.user or "", metric) if metric == self.metric else None


Event = ForecastDue | Finished | Reported


Observations = dict[str, Observation | None]


def observed(job: ForecastJob, measured: Mapping[str, Observation | None], *, is_late: bool = False) -> Observations:
    """Return the observation of each metric; None if unknown.

    A run that ran out of something needed more than its reservation and its use so far. That needs no measurement, so
    it has been learned already when one arrives late (``is_late``).
    """
    found = dict(measured)
    if job.failure is None:
        return found
    metric = FAILED_METRIC[job.failure]
    given = (job.given_memory_bytes if metric == "memory" else job.given_time_s) or 0.0
    if is_late:
        if metric in found and given:
            found[metric] = None
        return found
    known = found.get(metric)
    used = known.value if known is not None else 0.0
    # A run time is known exactly, and may be below the limit: schedulers do not kill exactly on time.
    needed = max(used, given) if metric == "memory" else used or given
    found[metric] = Observation(needed, True) if needed else None
    return found


class LearnedUntil(NamedTuple):
    """Position of the last learned run and report: ``profiles.learn_seq`` and ``outcomes.id``; 0 for none."""

    learn_seq: int
    outcome_id: int


_FIRST: ColumnElement[int] = literal_column("0")
"""Below every ``learn_seq``, as the index has it."""


def last_learn_seq(connection: Connection) -> int:
    """Return ``learn_seq`` of the last learned run; 0 before the first."""
    return connection.scalar(select(func.max(profiles.c.learn_seq)).where(profiles.c.learn_seq > _FIRST)) or 0


def last_event(connection: Connection) -> LearnedUntil:
    """Return the position of the last stored event."""
    last_report = select(func.max(outcomes.c.id)).where(outcomes.c.learn_seq.is_not(None))
    return LearnedUntil(last_learn_seq(connection), connection.scalar(last_report) or 0)


def read_learned_until(connection: Connection) -> LearnedUntil | None:
    """Return the position up to which the stored model has learned; None if it must be retrained."""
    row = connection.execute(select(learned_until)).first()
    return None if row is None else LearnedUntil(*row)


def write_learned_until(connection: Connection, until: LearnedUntil) -> None:
    """Store the position up to which the model has learned, with the model."""
    connection.execute(delete(learned_until))
    connection.execute(insert(learned_until).values(until._asdict()))


MOMENTS: tuple[Moment, ...] = ("submission", "start")
_OF_MOMENT: Mapping[Moment, tuple[Column[Any], Column[Any]]] = {
    "submission": (jobs.c.forecast_seq, jobs.c.submitted),
    "start": (jobs.c.start_seq, jobs.c.start),
}
"""Columns with the order of the forecast and its time, for submission and start."""

WAITS = and_(jobs.c.profiled.is_(False), jobs.c.state.in_(("queued", "running", "ended")))
"""Runs that may still be learned."""


def learned_events(
    connection: Connection, begin: LearnedUntil, end: int | None, under_way: dict[int, ForecastJob]
) -> list[Event]:
    """Yield the events after ``begin``, up to and including the run with ``learn_seq`` ``end``; None: all.

    At one position in the order, a run is learned first, then reports, then other events by time.
    ``under_way`` carries the submitted, unfinished jobs from one piece to the next.
    """
    first = begin.learn_seq
    found: list[tuple[int, int, float, int, Event]] = []
    for moment in MOMENTS:
        for learn_seq, asked in _asked(connection, moment, first, end):
            found.append((learn_seq, 2, *when(asked), asked))
            if moment == "submission":
                under_way[asked.job.run_id] = asked.job
    for learn_seq, report in _reported(connection, first, end, begin.outcome_id):
        found.append((learn_seq, 1, 0.0, 0, report))
    for learn_seq, finished in _finished(connection, first, end, under_way):
        found.append((learn_seq, 0, 0.0, 0, finished))
    found.sort(key=lambda entry: entry[:4])
    return [event for *_, event in found]


def when(event: ForecastDue | Finished) -> tuple[float, int]:
    """Order events by time; at one instant ends before submissions, and submissions before starts."""
    if isinstance(event, Finished):
        return event.job.end or 0.0, 0
    return event.job.at(event.moment) or 0.0, 1 + MOMENTS.index(event.moment)


def _finished(
    connection: Connection, begin: int, end: int | None, under_way: dict[int, ForecastJob]
) -> list[tuple[int, Finished]]:
    """Yield a run's use of the metrics learned at each ``learn_seq``; late values have their own."""
    names = ("run_id", "metric", "value", "attribution", "lower_bound")
    placed = profiles.alias()  # rows with a position: of the run time, or late
    is_of_run = and_(placed.c.metric == "runtime", profiles.c.learn_seq == 0)
    is_there = and_(profiles.c.run_id == placed.c.run_id, or_(profiles.c.metric == placed.c.metric, is_of_run))
    query = select(placed.c.learn_seq, *(profiles.c[name] for name in names)).join_from(placed, profiles, is_there)
    query = query.where(placed.c.learn_seq > begin, placed.c.learn_seq > _FIRST)
    query = query.order_by(placed.c.learn_seq, profiles.c.run_id)
    if end is not None:
        query = query.where(placed.c.learn_seq <= end)
    found: dict[tuple[int, int], dict[str, Observation | None]] = {}
    for learn_seq, run_id, metric, value, attribution, lower_bound in connection.execute(query):
        of_run = found.setdefault((learn_seq, run_id), {})
        is_evidence = value is not None and attribution not in NOT_LEARNED
        of_run[metric] = Observation(value, lower_bound) if is_evidence else None
    known = read_jobs(connection, [run_id for _, run_id in found if run_id not in under_way])
    known |= {run_id: under_way.pop(run_id) for _, run_id in found if run_id in under_way}
    reported = _reported_first(connection)
    events = []
    for (learn_seq, run_id), measured in found.items():
        # The log always has the run time, so an event without it is a late value.
        all_of = observed(known[run_id], measured, is_late="runtime" not in measured)
        kept = ("runtime",) if "runtime" in measured else ()
        all_of = {metric: all_of.get(metric) for metric in METRICS if metric in kept or all_of.get(metric) is not None}
        for metric in [metric for metric in all_of if (run_id, metric) in reported]:
            all_of[metric] = None
        events.append((learn_seq, Finished(known[run_id], all_of)))
    return events


def _asked(connection: Connection, moment: Moment, begin: int, end: int | None) -> list[tuple[int, ForecastDue]]:
    """Return the runs forecast at ``moment`` (submission or start) with their positions, in order.

    Metrics without an observation can be skipped; a run that ran out of one has an observation without a value.
    """
    seq, _ = _OF_MOMENT[moment]
    ran_out = [
        and_(jobs.c.failure == failure, profiles.c.metric == metric) for failure, metric in FAILED_METRIC.items()
    ]
    is_measured = and_(profiles.c.run_id == jobs.c.id, or_(profiles.c.value.is_not(None), *ran_out))
    query = (
        select(seq, profiles.c.metric, *COLUMNS)
        .outerjoin_from(jobs, profiles, is_measured)
        .where(seq >= begin, or_(profiles.c.metric.is_not(None), WAITS))
        .order_by(seq, jobs.c.id)
    )
    if moment == "start":
        query = query.where(jobs.c.start > jobs.c.submitted)
    if end is not None:
        query = query.where(seq < end)
    found: dict[int, tuple[int, ForecastJob, list[str]]] = {}
    for position, metric, *row in connection.execute(query):
        _, job, metrics = found.setdefault(row[0], (position, job_of(row), []))
        metrics.extend(job.metrics if metric is None else (metric,))
    return [(position, ForecastDue(job, metrics, moment)) for position, job, metrics in found.values()]


def _reported(connection: Connection, begin: int, end: int | None, after: int = 0) -> list[tuple[int, Reported]]:
    """Return the reports learned after the run with ``learn_seq`` ``begin``, before the one with ``end``.

    Only those after the id ``after``.
    """
    query = select(outcomes).where(outcomes.c.learn_seq >= begin, outcomes.c.id > after).order_by(outcomes.c.id)
    if end is not None:
        query = query.where(outcomes.c.learn_seq < end)
    found = []
    for row in connection.execute(query):
        observation = Observation(row.value, row.lower_bound)
        event = Reported(row.cluster, row.metric, question_of_text(row.question), observation, row.reported)
        found.append((row.learn_seq, event))
    return found


def _reported_first(connection: Connection) -> set[tuple[int, str]]:
    """Return (run, metric) pairs whose report was learned before the log had the same."""
    query = select(outcomes.c.run_id, outcomes.c.metric)
    query = query.where(outcomes.c.run_id.is_not(None), outcomes.c.learn_seq.is_not(None))
    return {(run_id, metric) for run_id, metric in connection.execute(query)}


_encode_state, _decode_state = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode


class Judged(NamedTuple):
    """The forecasts of a run in one metric at submission and at start, as in ``profiles``; the same if it did not wait.

    ``attempts`` are what was recommended to request at submission, those after the first only if it was not enough.
    """

    forecast: float | None
    bound: float | None
    probability: float | None
    attempts: Sequence[float]
    start_forecast: float | None
    start_probability: float | None


UNKNOWN = Judged(None, None, None, (), None, None)
"""No forecast was made."""


def read_unasked(connection: Connection, moment: Moment, before: float) -> list[ForecastJob]:
    """Return runs submitted or started before ``before`` without a forecast, in that order.

    Includes removed and requeued runs.
    """
    seq, time = _OF_MOMENT[moment]
    query = select(*COLUMNS).where(seq.is_(None), time < before).order_by(time, jobs.c.id)
    return [job_of(row) for row in connection.execute(query)]


_AT_START = ("value", "bound", "probability", "stated_exceed", "out_near_limit")

AtStartRow = tuple[Any, ...]
"""Run, metric, what is kept of a forecast at its start, its ``forecasts`` as MessagePack."""


def read_at_start(connection: Connection, runs: Sequence[int]) -> dict[RunAndMetric, PendingForecast]:
    """Return the forecasts at start of these runs, if they waited, as far as they are kept."""
    found: dict[RunAndMetric, PendingForecast] = {}
    query = select(pending_at_start).where(pending_at_start.c.run_id.in_(RUNS))
    for run_id, metric, *values, forecasts in of_runs(connection, query, runs):
        again = found[run_id, metric] = PendingForecast(_decode_state(forecasts))
        for name, value in zip(_AT_START, values, strict=True):
            setattr(again, name, value)
    return found


def at_start_row(key: RunAndMetric, again: PendingForecast) -> AtStartRow:
    """Make a row of the table ``pending_at_start``."""
    return *key, *(getattr(again, name) for name in _AT_START), _encode_state(again.forecasts)


def write_at_start(connection: Connection, rows: Sequence[AtStartRow], learned_runs: Sequence[int]) -> None:
    """Store forecasts at start; delete those of ``learned_runs``, and of runs that will never be learned."""
    forget_learned(connection, pending_at_start, learned_runs, ("running", "ended"))
    write_many(connection, insertion(pending_at_start), rows)
