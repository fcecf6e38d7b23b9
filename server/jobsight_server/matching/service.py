"""Matches a batch at once: reads the state, decides, and holds what was decided if it still fits by then."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection, Engine, insert

from jobsight_scheduler.matching import match
from jobsight_scheduler.matching.answer import Answer, Match, Unmatched
from jobsight_scheduler.matching.problem import MatchJob, Problem, Resource
from jobsight_scheduler.matching.rounds import WaitingJob, match_round
from jobsight_server.forecasts import AnswerReader
from jobsight_server.matching.answers import (
    BatchAnswer,
    EligibleResources,
    MadeMatch,
    TimeSpent,
    batch_answer,
    eligible_resources,
)
from jobsight_server.matching.batch import (
    CheckedBatch,
    present_problem,
    problem_of,
    read_batch,
    read_chosen_objectives,
    types_of,
)
from jobsight_server.matching.catalogue import DEFAULT_OBJECTIVES, Catalogue
from jobsight_server.matching.changes import begin_change
from jobsight_server.matching.config import MatchConfig
from jobsight_server.matching.end_matches import LONGEST_HOLD_S, expire_matches, some_expired
from jobsight_server.matching.read_by_dependency import resources_by_dependency
from jobsight_server.matching.resource_types import ResourceError
from jobsight_server.matching.store_matches import CONFLICTS, Seen, add_holds, match_row, still_fitting, until_of
from jobsight_server.matching.submissions import Earlier, earlier
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.storage.schema import matches

StateReading = Literal["cached", "batch", "dependency"]
"""How the state is read: what changed since the last batch, all of it once, or once for each dependency."""

T = TypeVar("T")

RUNGS_FAILED = "match_rungs_failed"
"""Counted by rung."""

_ATTEMPTS = 3
FORESTALLED = "other requests took what it was matched to, three times in a row; send it again"


StoreRound = Callable[[Problem, Sequence[Match], Sequence[Unmatched], Seen], int]


class Matcher:
    """One process's way to matches. Several processes, or servers on one PostgreSQL, may match at the same time."""

    def __init__(
        self,
        read_engine: Engine,
        write_engine: Engine,
        config: MatchConfig,
        answers: AnswerReader,
        clock: Callable[[], float],
    ) -> None:
        self.config = config
        self._read_engine, self._write_engine = read_engine, write_engine
        self._answers, self._clock = answers, clock
        self._catalogue, self._shown = Catalogue(config.expiry_s), Catalogue(config.expiry_s)
        self._turn, self._looking = threading.Lock(), threading.Lock()

    def match(
        self,
        jobs: Sequence[Any],
        objectives: object | None = None,
        is_dry: bool = False,
        reading: StateReading = "cached",
        key: str | None = None,
    ) -> BatchAnswer:
        """A whole match or none for each job, held unless ``is_dry``; jobs that were matched with the same ``key``

        before are answered with that match.

        Raises:
            ResourceError: the batch is invalid; nothing is held then.
        """
        with self._turn:
            return self._match(jobs, objectives, is_dry, reading, None if is_dry else key)

    @property
    def catalogue(self) -> Catalogue:
        """The state as of the last batch; for the ``store`` of a round only."""
        return self._catalogue

    def match_round(self, waiting: Sequence[WaitingJob], store: StoreRound) -> int:
        """Matches queued jobs and has ``store`` hold what is matched; returns what that returns."""
        if not waiting:
            return 0
        jobs = [entry.job for entry in waiting]
        with self._turn:
            with self._read_engine.connect().execution_options(reading=True) as connection:
                self._catalogue.refresh(connection)
            objectives = read_chosen_objectives(self._catalogue.objectives)
            now = self._clock()
            problem = present_problem(jobs, self._catalogue.resources_of(types_of(jobs), now), objectives, now)
            answer = match_round(
                problem.resources,
                waiting,
                now_s=now,
                clock=time.monotonic,
                deadline_s=self.config.deadline_s,
                objectives=objectives,
                hour=problem.hour,
            ).answer
            self._count_failed(answer)
            return store(problem, answer.matches, answer.unmatched, Seen.of(self._catalogue, problem))

    def look(self, read: Callable[[Catalogue, float], T]) -> T:
        """``read`` of the present state; not held up by a batch that is being matched."""
        with self._looking, self._read_engine.connect().execution_options(reading=True) as connection:
            self._shown.refresh(connection)
            return read(self._shown, self._clock())

    def read(self, jobs: Sequence[Any], key: str | None = None) -> CheckedBatch:
        """A batch as it would be matched.

        Raises:
            ResourceError: it is invalid.
        """
        with self._read_engine.connect().execution_options(reading=True) as connection:
            types = self.look(lambda catalogue, _: catalogue.types)
            batch = read_batch(jobs, types, self._answers, connection, key)
        problem_of(batch.jobs, (), read_chosen_objectives(list(DEFAULT_OBJECTIVES)), self._clock())
        return batch

    def eligible(self, document: Any) -> list[EligibleResources] | None:
        """E(j, d) of a stored job now; None where its types are not there any more."""
        try:
            jobs = self.read([document]).jobs
        except ResourceError:
            return None
        if not jobs:
            return None
        chosen = read_chosen_objectives(list(DEFAULT_OBJECTIVES))

        def found(catalogue: Catalogue, now: float) -> list[EligibleResources]:
            return eligible_resources(problem_of(jobs, catalogue.resources_of(types_of(jobs), now), chosen, now))

        return self.look(found)

    def _match(
        self, jobs: Sequence[Any], objectives: object | None, is_dry: bool, reading: StateReading, key: str | None
    ) -> BatchAnswer:
        spent = TimeSpent(0.0, 0.0, 0.0, 0)
        batch, problem, seen, before = self._read(jobs, objectives, reading, key, spent)
        answer = self._decide(problem, spent)
        first, conflicts, made, pending = answer, 0, list(before.made), problem
        unmatched: list[Unmatched] = list(answer.unmatched)
        if is_dry:
            made = [MadeMatch(m.job, {d: list(names) for d, names in m.resources.items()}) for m in answer.matches]
        for attempt in range(0 if is_dry else _ATTEMPTS):
            stored, lost = self._store(pending, answer.matches, seen, batch, key, spent)
            made += stored
            if not lost:
                break
            conflicts += len(lost)
            if attempt == _ATTEMPTS - 1:
                unmatched += [Unmatched(job.name, "held", FORESTALLED) for job in lost]
                break
            pending, seen = self._read_again(lost, problem, spent)
            answer = self._decide(pending, spent)
            unmatched += answer.unmatched
        refused = [*batch.refused, *before.waiting]
        found = batch_answer(first, made, unmatched, refused, batch.predicted, conflicts, spent)
        if is_dry:
            found.eligible = eligible_resources(problem)
        return found

    def _read(
        self, jobs: Sequence[Any], objectives: object | None, reading: StateReading, key: str | None, spent: TimeSpent
    ) -> tuple[CheckedBatch, Problem, Seen, Earlier]:
        begin = time.perf_counter()
        with self._read_engine.connect().execution_options(reading=True) as connection:
            if reading == "batch":
                self._catalogue = Catalogue(self.config.expiry_s)
            self._catalogue.refresh(connection)
            spent.queries += self._catalogue.queries
            batch = read_batch(jobs, self._catalogue.types, self._answers, connection, key)
            before = earlier(connection, key)
            chosen = read_chosen_objectives(self._catalogue.objectives if objectives is None else objectives)
            now = self._clock()
            if reading == "dependency":
                resources = self._by_dependency(connection, batch.jobs, now, spent)
            else:
                resources = self._catalogue.resources_of(types_of(batch.jobs), now)
        new = [job for job in batch.jobs if job.name not in before.numbers]
        problem = problem_of(new, resources, chosen, now)
        spent.query_s += time.perf_counter() - begin
        return batch, problem, Seen.of(self._catalogue, problem), before

    def _by_dependency(
        self, connection: Connection, jobs: Sequence[MatchJob], now: float, spent: TimeSpent
    ) -> tuple[Resource, ...]:
        found: dict[str, Resource] = {}
        for job in jobs:
            for dependency in job.dependencies:
                read, queries = resources_by_dependency(
                    connection, dependency.type, self._catalogue.policies, now, self.config.expiry_s
                )
                found |= {resource.name: resource for resource in read if resource.name in self._catalogue.id_of}
                spent.queries += queries
        return tuple(found.values())

    def _read_again(self, lost: Sequence[MatchJob], problem: Problem, spent: TimeSpent) -> tuple[Problem, Seen]:
        begin = time.perf_counter()
        with self._read_engine.connect().execution_options(reading=True) as connection:
            self._catalogue.refresh(connection)
        spent.queries += self._catalogue.queries
        now = self._clock()
        resources = self._catalogue.resources_of(types_of(lost), now)
        again = problem_of(lost, resources, problem.objectives, now)
        spent.query_s += time.perf_counter() - begin
        return again, Seen.of(self._catalogue, again)

    def _decide(self, problem: Problem, spent: TimeSpent) -> Answer:
        begin = time.perf_counter()
        answer = match(problem, clock=time.monotonic, deadline_s=self.config.deadline_s)
        spent.solve_s += time.perf_counter() - begin
        self._count_failed(answer)
        return answer

    def _count_failed(self, answer: Answer) -> None:
        counts = Counter((RUNGS_FAILED, rung.split(":")[0]) for rung in answer.failed)
        if counts:
            with self._write_engine.begin() as connection:
                add_event_counts(connection, counts)

    def _store(
        self,
        problem: Problem,
        found: Sequence[Match],
        seen: Seen,
        batch: CheckedBatch,
        key: str | None,
        spent: TimeSpent,
    ) -> tuple[list[MadeMatch], list[MatchJob]]:
        """Holds the matches that still fit; the jobs of the others are returned."""
        if not found:
            return [], []
        begin = time.perf_counter()
        jobs = {job.name: job for job in problem.jobs}
        with self._write_engine.begin() as connection:
            change = begin_change(connection, len(found))
            fitting = list(found)
            if change.version - 1 != self._catalogue.version:
                self._catalogue.refresh(connection, change.version - 1)
                spent.queries += self._catalogue.queries
                fitting = still_fitting(self._catalogue, problem, found, seen, problem.now_s)
                before = earlier(connection, key)  # the same submission, by another process meanwhile
            else:
                before = Earlier()
            fitting = [one for one in fitting if one.job not in before.numbers]
            numbered = list(enumerate(fitting, change.first_match))
            made = [one for one in before.made if one.job in {match.job for match in found}]
            rows = []
            for number, entry in numbered:
                job = jobs[entry.job]
                until = until_of(job, self.config.hold_s, LONGEST_HOLD_S, problem.now_s)
                rows.append(
                    match_row(job, batch.documents[job.name])
                    | {"id": number, "state": "held", "submitted_at": problem.now_s, "matched_at": problem.now_s}
                    | {"until": until, "rounds": 0, "version": change.version}
                )
                resources = {dependency: list(names) for dependency, names in entry.resources.items()}
                made.append(MadeMatch(entry.job, resources, number, until))
            if rows:
                connection.execute(insert(matches), rows)
                add_holds(connection, self._catalogue, problem, numbered)
            if some_expired(connection, problem.now_s):
                expire_matches(connection, problem.now_s, change.version)
            add_event_counts(connection, {(CONFLICTS, ""): len(found) - len(fitting)})
        spent.store_s += time.perf_counter() - begin
        kept = {entry.job for entry in fitting} | before.numbers.keys()
        return made, [jobs[entry.job] for entry in found if entry.job not in kept]
