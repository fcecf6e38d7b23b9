"""Learns the events of jobs and reports in rounds, in order of time; retrains an outdated model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress

from sqlalchemy import Connection, Engine, delete, exists, select

from jobsight_predictor.question import Moment, Question
from jobsight_server.forecasts.events import (
    MOMENTS,
    Finished,
    ForecastDue,
    LearnedUntil,
    Observation,
    Observations,
    last_event,
    last_learn_seq,
    learned_events,
    observed,
    read_learned_until,
    read_unasked,
    when,
)
from jobsight_server.forecasts.learner import AllJudged, Learner, no_collection
from jobsight_server.forecasts.learners import Learners, store_changes
from jobsight_server.forecasts.outcomes import NeedReport, Taken, claim, store
from jobsight_server.forecasts.prediction import AnswerReader
from jobsight_server.forecasts.request import WHOLE, ForecastConfig, ForecastJob, ForecastRequest, read_jobs
from jobsight_server.forecasts.stored_model import StateKey, state_of, stored_states
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.clusters import memory_of_largest_nodes
from jobsight_server.storage.engine import lock_until_commit, updating, write_many
from jobsight_server.storage.schema import jobs, model_state, pending_at_start, pending_forecasts, profiles, series

log = logging.getLogger(__name__)

_SET_SEQ: Mapping[Moment, str] = {
    "submission": updating(jobs, "forecast_seq"),
    "start": updating(jobs, "start_seq"),
}
_ASKED_IN: Mapping[Moment, Sequence[str]] = {
    "submission": ("queued", "running", "ended"),
    "start": ("running", "ended"),
}


def lock_learning(connection: Connection) -> None:
    """Keep others from learning until the transaction ends."""
    lock_until_commit(connection, "jobsight learning")


class Learning:
    """Learns rounds of runs, and writes the model once for many rounds.

    Each round stores its events, so a process that ends before it writes the model loses nothing: ``catch_up`` learns
    them again.
    """

    def __init__(self, config: ForecastConfig, processes: int = 1) -> None:
        self._config = config
        self._learners = Learners(config, processes)
        self._has_begun = False
        self._written = self._until = LearnedUntil(0, 0)
        self.unwritten = 0
        """Runs learned since the model was written."""

    def begin(self, connection: Connection) -> int:
        """Catch up with other processes; return the ``learn_seq`` of the last learned run.

        Raises:
            ValueError: the stored model is of other settings or another version.
        """
        if not (self._has_begun and self._is_alone(connection)):
            catch_up(connection, self._config)
            self._learners.begin()
            self._has_begun, self.unwritten = True, 0
            self._written = self._until = last_event(connection)
        return self._until.learn_seq

    def learn_round(self, connection: Connection, measured: Mapping[int, Observations]) -> AllJudged:
        """Learn runs (by id) in order of their ends, after ``begin``; return the forecasts for each.

        Raises:
            ValueError: the stored model is of other settings or another version.
        """
        assert self._has_begun
        before = self._until.learn_seq
        known = read_jobs(connection, list(measured))
        finished = [known[run_id] for run_id in measured]
        last_end = max(job.end or 0.0 for job in finished)
        moments = MOMENTS[:1] if self._config.requests_only else MOMENTS
        unasked = {moment: read_unasked(connection, moment, last_end) for moment in moments}
        found = {run_id: observed(known[run_id], of_run) for run_id, of_run in measured.items()}
        claim(connection, known, found)
        events = _events_by_time(finished, unasked, found)
        judged, asked_before = self._learners.learn(connection, events)
        for moment, waiting in unasked.items():
            # Those that will never be scored are marked too, or every round would find them.
            seq = dict.fromkeys([job.run_id for job in waiting], before)
            seq |= _asked_among(events, moment, asked_before[moment], before)
            write_many(connection, _SET_SEQ[moment], [(position, run_id) for run_id, position in seq.items()])
        self._until = self._until._replace(learn_seq=before + len(measured))
        self.unwritten += len(measured)
        return judged

    def write(self, connection: Connection) -> None:
        """Write the model, unless another process has learned since the last round: ``begin`` catches up with both."""
        if self._has_begun and self._is_alone(connection):
            self._learners.store(connection, self._until)
        self._has_begun, self.unwritten = False, 0

    def close(self) -> None:
        """End the processes that learn."""
        self._learners.close()

    def _is_alone(self, connection: Connection) -> bool:
        return (read_learned_until(connection), last_event(connection)) == (self._written, self._until)


def catch_up(connection: Connection, config: ForecastConfig) -> bool:
    """Learn events stored since the model was written; return whether there were any.

    These are single events, such as a report or a late value, and rounds of another process that was interrupted or is
    still learning. The caller holds the lock of learning.

    Raises:
        ValueError: the stored model is of other settings or another version.
    """
    written, until = read_learned_until(connection), last_event(connection)
    if written == until:
        return False
    if written is None:
        raise ValueError("the stored model is outdated: retrain on all jobs")
    events = learned_events(connection, written, None, {})
    learners = Learners(config)
    learners.learn(connection, events)
    learners.store(connection, until)
    return True


def _events_by_time(
    finished: Sequence[ForecastJob],
    unasked: Mapping[Moment, Sequence[ForecastJob]],
    found: Mapping[int, Observations],
) -> list[ForecastDue | Finished]:
    """Yield the ends of ``finished`` runs with their use, and submissions and starts without a forecast.

    Leaves out jobs whose forecast can never be scored, as they were removed or ended before, and starts of jobs that
    did not wait.
    """
    ends = {job.run_id: job.end or 0.0 for job in finished}
    events: list[ForecastDue | Finished] = [
        Finished(job, dict.fromkeys(job.metrics) | found[job.run_id]) for job in finished
    ]
    for moment, waiting in unasked.items():
        for job in waiting:
            is_open = job.state in _ASKED_IN[moment]
            is_judged = (job.at(moment) or 0.0) < ends[job.run_id] if job.run_id in ends else is_open
            if is_judged and (moment == "submission" or job.has_waited):
                events.append(ForecastDue(job, job.metrics, moment))
    return sorted(events, key=when)


def _asked_among(
    events: Sequence[ForecastDue | Finished], moment: Moment, asked_before: Set[int], before: int
) -> dict[int, int]:
    """Return, for each run forecast among the events, ``learn_seq`` of the last run learned before.

    A run that ends without a forecast at this moment is forecast and scored when it is learned.
    """
    found: dict[int, int] = {}
    for event in events:
        if isinstance(event, Finished):
            job = event.job
            if job.run_id not in asked_before and (moment == "submission" or job.has_waited):
                found.setdefault(job.run_id, before)
            before += 1
        elif event.moment == moment:
            found[event.job.run_id] = before
    return found


_LEARNED = select(exists().where(profiles.c.value.is_not(None), ~profiles.c.shown_only))


def is_outdated(connection: Connection, config: ForecastConfig) -> bool:
    """Return whether the stored model has another configuration or version, and must be retrained on all jobs."""
    learned = connection.execute(select(series.c.cluster, series.c.metric).distinct()).all()
    if not learned:  # perhaps migrated from an older version
        return bool(connection.scalar(_LEARNED))
    (site, *_) = config.profile("runtime").state_keys(Question())
    stored = stored_states(connection, [StateKey(cluster, metric, site) for cluster, metric in learned])
    for cluster, metric in learned:
        if (cluster, metric) not in stored:
            return True
        try:
            config.profile(metric).load(state_of(stored[cluster, metric]))
        except ValueError:
            return True
    return False


_STEP = 5000

RunsRebuilt = Callable[[int, int], None]


def rebuild(engine: Engine, config: ForecastConfig | None = None, progress: RunsRebuilt | None = None) -> int:
    """Retrain every profile and series; the rows are the same as from learning run by run.

    Reads and learns without blocking others. One transaction, for which others wait, adds the events since then and
    writes the new rows. ``progress(done, all)`` counts runs. Returns the number of series.
    """
    config = config or ForecastConfig()
    learner, under_way = Learner(config, config.metrics), dict[int, ForecastJob]()
    with no_collection():
        with engine.connect().execution_options(reading=True) as connection:
            top, largest = last_learn_seq(connection), memory_of_largest_nodes(connection)
            for begin in range(0, top, _STEP):
                end = min(begin + _STEP, top)
                learner.learn(learned_events(connection, LearnedUntil(begin, 0), end, under_way), largest)
                if progress is not None:
                    progress(end, top)
        learner.encode_state()
        with engine.begin() as connection:
            lock_learning(connection)
            learner.learn(learned_events(connection, LearnedUntil(top, 0), None, under_way), largest)
            for table in (series, model_state, pending_forecasts, pending_at_start):
                connection.execute(delete(table))
            return store_changes(connection, [learner.changes()], last_event(connection))


def rebuild_if_outdated(engine: Engine, config: ForecastConfig) -> bool:
    """Retrain if the stored model has other settings or an older version; return whether it did."""
    with engine.connect().execution_options(reading=True) as connection:
        if not is_outdated(connection, config):
            return False
    log.info("the stored model was trained with other settings or by another version: retraining on all finished jobs")
    count = rebuild(engine, config, lambda done, total: log.info("retrained on %d of %d jobs", done, total))
    log.info("retrained %d series", count)
    return True


SLIP = 100.0
"""Factor; an amount so far above the recommendation counts as a wrong unit, as does an insufficient one so far
below."""


def report(
    connection: Connection,
    reader: AnswerReader,
    request: ForecastRequest,
    observation: Observation,
    job_id: str | None,
    now: float,
) -> Taken:
    """Store and learn the observation in the caller's transaction; return whether it was new.

    ``request`` names a cluster and a metric; the observation is in the unit of its answer. A report that repeats the
    log or another report about ``job_id`` changes nothing.

    Raises:
        UserError: far from the recommendation: one wrong unit would spoil later recommendations.
    """
    cluster, question, metric = request.cluster, request.question, request.metric
    assert cluster is not None
    assert metric is not None
    lock_learning(connection)
    (answer,) = reader.answers(connection, [request])
    value, is_lower_bound = observation
    if (bound := answer.bound) and (value > SLIP * bound or (is_lower_bound and SLIP * value < bound)):
        raise UserError(
            f"value is {value:g}, where {bound:g} {answer.unit} is recommended: "
            "check the unit, and whether the value is per processor or per job"
        )
    if request.scale is not None and metric not in WHOLE:
        value /= request.scale
    outcome = NeedReport(cluster, metric, question, Observation(value, is_lower_bound), job_id)
    is_current = read_learned_until(connection) == last_event(connection)
    taken = store(connection, outcome, last_learn_seq(connection), now)
    if taken == "stored" and is_current:  # otherwise it is learned in its turn, with the backlog
        with suppress(ValueError):  # an outdated model will be retrained with this report
            catch_up(connection, reader.config)
    return taken
