"""Continuous mode: queued jobs are matched in rounds, by number or by age. All state is in rows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, bindparam, case, func, select, update

from jobsight_scheduler.matching.answer import Match, Unmatched
from jobsight_scheduler.matching.problem import MatchJob, Problem
from jobsight_scheduler.matching.rounds import WaitingJob
from jobsight_server.matching.changes import begin_change
from jobsight_server.matching.end_matches import LONGEST_HOLD_S
from jobsight_server.matching.resource_types import ResourceError
from jobsight_server.matching.service import Matcher
from jobsight_server.matching.store_matches import CONFLICTS, Seen, add_holds, still_fitting, until_of
from jobsight_server.periodic import Periodic
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.storage.schema import matches

log = logging.getLogger(__name__)

_LOOK_S = 0.05
AT_ONCE = 10
"""Times ``round_jobs``: how many jobs a round takes on at most, the longest passed over first."""

_QUEUED = matches.c.state == "queued"
HOPELESS = ("type", "predicate", "never-fits")
"""Tiers of jobs that wait for a resource that is not there; they keep no one else out of a round."""

_IS_HOPELESS = case((matches.c.tier.in_(HOPELESS), 1), else_=0)


@dataclass(frozen=True, slots=True)
class RoundDone:
    """What a round did."""

    jobs: int
    matched: int
    passed_over: int
    took_s: float


class MatchingRounds:
    """One process's rounds; ``clock`` is that of submissions."""

    def __init__(self, matcher: Matcher, engine: Engine, clock: Callable[[], float]) -> None:
        self._matcher, self._engine, self._clock = matcher, engine, clock
        self._jobs: dict[int, MatchJob | ResourceError] = {}
        self._last_round = 0.0
        self._last_seen = 0

    def run_until(self, stop: threading.Event) -> None:
        """Rounds whenever one is due, until ``stop`` is set."""
        look = Periodic("matching", self.run_if_due)
        while not stop.wait(_LOOK_S):
            look()

    def run_if_due(self) -> RoundDone | None:
        """A round, if enough jobs wait or one has waited long enough."""
        now, config = self._clock(), self._matcher.config
        with self._engine.connect().execution_options(reading=True) as connection:
            query = select(func.count(), func.min(matches.c.submitted_at)).where(_QUEUED)
            fresh, oldest = connection.execute(query.where(matches.c.id > self._last_seen)).one()
            if not fresh and connection.execute(select(matches.c.id).where(_QUEUED).limit(1)).first() is None:
                self._jobs.clear()
                return None
        since = oldest if fresh else self._last_round
        if fresh < config.round_jobs and 0 <= now - since < config.round_s:
            return None
        return self.run()

    def run(self) -> RoundDone | None:
        """A round of the queued jobs that were passed over longest; None where none waits."""
        begin = time.perf_counter()
        rows = self._queued_rows()
        self._last_round = self._clock()
        if not rows:
            return None
        self._last_seen = max(self._last_seen, *(row.id for row in rows))
        jobs, broken = self._read(rows)
        matched = self._matcher.match_round(jobs, self._store)
        if broken:
            self._pass_over([Unmatched(str(number), "type", str(error)) for number, error in broken.items()])
        took_s = time.perf_counter() - begin
        return RoundDone(len(rows), matched, len(rows) - matched, took_s)

    def _queued_rows(self) -> Sequence[Any]:
        limit = AT_ONCE * self._matcher.config.round_jobs
        query = select(matches.c.id, matches.c.name, matches.c.job, matches.c.rounds, matches.c.tier)
        query = query.where(_QUEUED).order_by(_IS_HOPELESS, matches.c.rounds.desc(), matches.c.id).limit(limit)
        with self._engine.connect().execution_options(reading=True) as connection:
            return connection.execute(query).all()

    def _read(self, rows: Sequence[Any]) -> tuple[list[WaitingJob], dict[int, ResourceError]]:
        """The jobs of a round, under names that differ: their numbers."""
        known, self._jobs = self._jobs, {}
        jobs, broken = [], {}
        for row in rows:
            found = known.get(row.id) or self._read_one(row)
            self._jobs[row.id] = found
            if isinstance(found, ResourceError):
                broken[row.id] = found
            else:
                # One that waits for what is not there ages, but takes no other job's place among the oldest.
                jobs.append(WaitingJob(found, 0 if row.tier in HOPELESS else row.rounds))
        return jobs, broken

    def _read_one(self, row: Any) -> MatchJob | ResourceError:
        try:
            batch = self._matcher.read([msgspec.json.decode(row.job)])
        except ResourceError as error:
            return error
        if batch.refused:  # its type was deleted meanwhile
            return ResourceError(batch.refused[0].reason)
        job = batch.jobs[0]
        duration_s = self._matcher.config.hold_s if job.duration_s is None else job.duration_s
        return replace(job, name=str(row.id), duration_s=duration_s)

    def _store(self, problem: Problem, found: Sequence[Match], unmatched: Sequence[Unmatched], seen: Seen) -> int:
        """Holds what still fits, for jobs that still wait; the others are passed over. Returns how many it held."""
        catalogue, hold_s = self._matcher.catalogue, self._matcher.config.hold_s
        jobs = {job.name: job for job in problem.jobs}
        passed = list(unmatched)
        numbered: list[tuple[int, Match]] = []
        if found:
            with self._engine.begin() as connection:
                change = begin_change(connection)
                fitting = list(found)
                if change.version - 1 != catalogue.version:
                    catalogue.refresh(connection, change.version - 1)
                    fitting = still_fitting(catalogue, problem, found, seen, problem.now_s)
                waiting = _still_queued(connection, [int(match.job) for match in fitting])
                numbered = [(int(match.job), match) for match in fitting if int(match.job) in waiting]
                rows = [
                    {
                        "number": number,
                        "since": problem.now_s,
                        "end": until_of(jobs[match.job], hold_s, LONGEST_HOLD_S, problem.now_s),
                        "of": change.version,
                    }
                    for number, match in numbered
                ]
                if rows:
                    connection.execute(_HOLD, rows)
                    add_holds(connection, catalogue, problem, numbered)
                add_event_counts(connection, {(CONFLICTS, ""): len(found) - len(fitting)})
            kept = {match.job for match in fitting}
            passed += [
                Unmatched(match.job, "held", "another request took it meanwhile")
                for match in found
                if match.job not in kept
            ]
        self._pass_over(passed)
        return len(numbered)

    def _pass_over(self, unmatched: Sequence[Unmatched]) -> None:
        rows = [{"number": int(entry.job), "why": entry.tier, "because": entry.reason} for entry in unmatched]
        if rows:
            with self._engine.begin() as connection:
                connection.execute(_PASS_OVER, rows)


def _still_queued(connection: Connection, numbers: Sequence[int]) -> set[int]:
    return set(connection.scalars(select(matches.c.id).where(matches.c.id.in_(numbers), _QUEUED)))


_HOLD = (
    update(matches)
    .where(matches.c.id == bindparam("number"))
    .values(
        state="held",
        matched_at=bindparam("since"),
        until=bindparam("end"),
        version=bindparam("of"),
        tier=None,
        reason=None,
    )
)
_PASS_OVER = (
    update(matches)
    .where(matches.c.id == bindparam("number"), _QUEUED)
    .values(rounds=matches.c.rounds + 1, tier=bindparam("why"), reason=bindparam("because"))
)
