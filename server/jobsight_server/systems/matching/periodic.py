"""Continuous mode: queued jobs are matched in rounds, by number or by age. All state is in rows.

A round looks at every job that waits: each is matched, or has a reason of one of the last ten rounds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Connection, Engine, bindparam, func, select, update
from sqlalchemy.exc import SQLAlchemyError

from jobsight_scheduler.matching.check import Match, Unmatched
from jobsight_scheduler.matching.problem import MatchJob, Problem
from jobsight_scheduler.matching.rounds import JobInRounds
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.ground.errors import FencedError
from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.ground.periodic import BackgroundWork, Periodic
from jobsight_server.queries.node_states import Machines
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.engine import rows_of, updating, write_many
from jobsight_server.systems.matching.catalogue import Catalogue
from jobsight_server.systems.matching.resource_state import ResourceError
from jobsight_server.systems.matching.service import RUNGS_FAILED, Matcher
from jobsight_server.systems.matching.settings import MatchingSettings
from jobsight_server.systems.matching.store_matches import (
    Seen,
    add_holds,
    begin_change,
    begin_storing,
    delete_ended,
    expire_matches,
    some_expired,
    until_of,
)
from jobsight_server.systems.matching.submissions import document_of
from jobsight_server.systems.matching.tables import matches

log = logging.getLogger(__name__)

_LOOK_S = 0.05
_LOOK_IDLE_S, _IDLE_AFTER_S = 1.0, 60.0  # an idle server's looks; its jobs wait that long for their first round
_EXPLAINED_AGAIN = 10
"""Rounds after which the reason of a job that still does not fit is determined again."""

_QUEUED = matches.c.state == "queued"
_ANY = select(matches.c.id).where(_QUEUED).limit(1)
_FRESH = select(func.count(), func.min(matches.c.submitted_at)).where(_QUEUED, matches.c.id > bindparam("last"))


class MatchingRounds:
    """One process's rounds; ``clock`` is that of submissions."""

    def __init__(self, matcher: Matcher, engine: Engine, clock: Callable[[], float]) -> None:
        self._matcher, self._engine, self._clock = matcher, engine, clock
        self._jobs: dict[int, MatchJob | ResourceError] = {}
        self._reasons: dict[int, tuple[str, str]] = {}
        self._last_round = 0.0
        self._last_seen = 0
        self._queued_at = -_IDLE_AFTER_S

    def run_until(self, stop: threading.Event) -> None:
        """Run a round whenever one is due, until ``stop`` is set."""
        look = Periodic("matching", self.run_if_due)
        while not stop.wait(_LOOK_S if self._clock() - self._queued_at < _IDLE_AFTER_S else _LOOK_IDLE_S):
            look()

    def run_if_due(self) -> int | None:
        """Run a round if enough jobs wait, or one has waited long enough; try a failed one again.

        Return the number of matched jobs, None without a round.
        """
        now, settings = self._clock(), self._matcher.settings
        with self._engine.connect().execution_options(reading=True) as connection:
            if connection.execute(_ANY).first() is None:
                self._jobs, self._reasons = {}, {}
                return None
            fresh, oldest = connection.execute(_FRESH, {"last": self._last_seen}).one()
        self._queued_at = now
        since = oldest if fresh else self._last_round
        if fresh < settings.round_jobs and 0 <= now - since < settings.round_s:
            return None
        try:
            return self.run()
        except (SQLAlchemyError, FencedError):
            raise  # Periodic handles an outage of the database
        except Exception:  # a fault of a solver or of ours must not end this thread, which runs every later round
            log.exception("a round of matching failed; its jobs stay queued")
            self._last_round = self._clock()
            with self._engine.begin() as connection:
                add_event_counts(connection, {(RUNGS_FAILED, "round"): 1})
            return None

    def run(self) -> int | None:
        """Run a round of all queued jobs; return how many were matched, None if there are none."""
        with self._engine.connect().execution_options(reading=True) as connection:
            query = select(matches.c.id, matches.c.rounds).where(_QUEUED).order_by(matches.c.id)
            rows = connection.execute(query).all()
            self._read_new([row.id for row in rows], connection)
        self._last_round = self._clock()
        if not rows:
            return None
        self._last_seen = max(self._last_seen, rows[-1].id)
        waiting, broken = [], []
        for row in rows:
            job = self._jobs[row.id]
            if isinstance(job, ResourceError):
                broken.append(Unmatched(str(row.id), "type", str(job)))
            else:
                is_explained = row.id in self._reasons and (row.id + row.rounds) % _EXPLAINED_AGAIN != 0
                waiting.append(JobInRounds(job, row.rounds, is_explained))
        matched = self._matcher.match_round(waiting, self._store)
        self._pass_over(broken)
        with self._engine.begin() as connection:
            connection.execute(_AGE, {"last": self._last_seen})
        return matched

    def _read_new(self, numbers: Sequence[int], connection: Connection) -> None:
        """Read jobs that no round has seen, and forget those that no longer wait. Their names are their numbers."""
        self._jobs = {number: self._jobs[number] for number in numbers if number in self._jobs}
        self._reasons = {number: self._reasons[number] for number in numbers if number in self._reasons}
        new = [number for number in numbers if number not in self._jobs]
        for row in rows_of(connection, select(matches.c.id, matches.c.job), matches.c.id, new):
            self._jobs[row.id] = self._read_one(row)

    def _read_one(self, row: Any) -> MatchJob | ResourceError:
        try:
            (job,) = self._matcher.read([document_of(row.job)]).jobs
        except ResourceError as error:
            return error
        duration_s = self._matcher.settings.hold_s if job.duration_s is None else job.duration_s
        return replace(job, name=str(row.id), duration_s=duration_s)

    def _store(
        self,
        catalogue: Catalogue,
        problem: Problem,
        found: Sequence[Match],
        unmatched: Sequence[Unmatched],
        seen: Seen,
    ) -> int:
        """Store matches that still fit, of jobs that still wait; pass over the others. Return the number stored."""
        if not found:
            self._pass_over(unmatched)
            return 0
        now, hold_s = problem.now_s, self._matcher.settings.hold_s
        jobs = {job.name: job for job in problem.jobs}
        with self._engine.begin() as connection:
            change, fitting = begin_storing(connection, catalogue, problem, found, seen)
            numbers = [int(match.job) for match in fitting]
            waiting = set(connection.scalars(select(matches.c.id).where(matches.c.id.in_(numbers), _QUEUED)))
            numbered = [(int(match.job), match) for match in fitting if int(match.job) in waiting]
            ends = [(until_of(jobs[match.job], hold_s, now), number) for number, match in numbered]
            rows = [("held", now, end, change.version, None, None, number) for end, number in ends]
            write_many(connection, _HOLD, rows)
            add_holds(connection, catalogue, problem, numbered)
        lost = {match.job for match in found} - {match.job for match in fitting}
        taken = [Unmatched(name, "held", "another request took it meanwhile") for name in lost]
        self._pass_over([*unmatched, *taken])
        return len(numbered)

    def _pass_over(self, unmatched: Sequence[Unmatched]) -> None:
        reasons = {int(entry.job): (entry.tier, entry.reason) for entry in unmatched}
        changed = {number: why for number, why in reasons.items() if self._reasons.get(number) != why}
        self._reasons |= reasons
        if changed:
            rows = [{"number": number, "tier": tier, "reason": reason} for number, (tier, reason) in changed.items()]
            with self._engine.begin() as connection:
                connection.execute(_EXPLAIN, rows)


_HOLD = updating(matches, "state", "matched_at", "until", "version", "tier", "reason")
_EXPLAIN = update(matches).where(_QUEUED, matches.c.id == bindparam("number"))
_AGE = update(matches).where(_QUEUED, matches.c.id <= bindparam("last")).values(rounds=matches.c.rounds + 1)


_LOOK_AT_HOLDS_S = 5.0


def schedule(
    work: BackgroundWork, engine: Engine, settings: Settings, clock: Callable[[], float], machines: Machines
) -> None:
    own = settings.section(MatchingSettings)
    work.every(_LOOK_AT_HOLDS_S, "holds", _end_holds, work.stop, engine, clock)
    work.every(settings.upkeep_interval_s, "ended matches", delete_ended, engine, own.kept)
    answers = AnswerReader(forecast_config(settings))
    matcher = Matcher(engine, engine, own, answers, clock, machines)
    # A thread of its own, so that no other work delays queued jobs.
    work.beside("matching", partial(MatchingRounds(matcher, engine, clock).run_until, work.stop))


def _end_holds(stop: threading.Event, engine: Engine, clock: Callable[[], float]) -> None:
    """Mark holds that are over; their resources are free already."""
    now = clock()
    with engine.connect().execution_options(reading=True) as connection:
        if stop.is_set() or not some_expired(connection, now):
            return
    with engine.begin() as connection:
        expire_matches(connection, now, begin_change(connection).version)
