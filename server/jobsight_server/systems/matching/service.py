"""Matches a batch at once: reads the state, decides, and stores the matches that still fit by then."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import asdict
from sqlalchemy import Engine, func, insert, select

from jobsight_scheduler.matching import match
from jobsight_scheduler.matching.check import Answer, Match, Unmatched
from jobsight_scheduler.matching.problem import MatchJob, Problem
from jobsight_scheduler.matching.read import check_size, read_objectives
from jobsight_scheduler.matching.rounds import JobInRounds, RoundAnswer, match_round
from jobsight_server.forecasts import AnswerReader
from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.queries.node_states import Machines
from jobsight_server.systems.matching.batch import CheckedBatch, problem_of, read_batch
from jobsight_server.systems.matching.catalogue import Catalogue
from jobsight_server.systems.matching.reports import LOOK_AT_NODES_S, NODES, SOURCE, report_nodes
from jobsight_server.systems.matching.resource_state import ResourceError, refused
from jobsight_server.systems.matching.settings import MatchingSettings
from jobsight_server.systems.matching.store_matches import (
    Seen,
    add_holds,
    begin_change,
    begin_storing,
    expire_matches,
    match_row,
    until_of,
)
from jobsight_server.systems.matching.submissions import (
    BatchAnswer,
    Earlier,
    MadeMatch,
    QueuedJob,
    SubmittedJobs,
    TimeSpent,
    earlier,
)
from jobsight_server.systems.matching.tables import matches

T = TypeVar("T")

RUNGS_FAILED = "match_rungs_failed"
"""Counted by rung."""

_ATTEMPTS = 3
FORESTALLED = "other requests took its resources three times in a row; send it again"

StoreRound = Callable[[Catalogue, Problem, Sequence[Match], Sequence[Unmatched], Seen], int]


class Matcher:
    """The matcher of one process. Several processes, or servers on one PostgreSQL, may match at the same time."""

    def __init__(
        self,
        read_engine: Engine,
        write_engine: Engine,
        settings: MatchingSettings,
        answers: AnswerReader,
        clock: Callable[[], float],
        machines: Machines,
    ) -> None:
        self.settings = settings
        self._read_engine, self._write_engine = read_engine, write_engine
        self._answers, self._clock, self._machines = answers, clock, machines
        self._catalogue, self._shown = Catalogue(settings.expiry_s), Catalogue(settings.expiry_s)
        self._turn, self._looking = threading.Lock(), threading.Lock()
        self._looked_at = -LOOK_AT_NODES_S

    def match(
        self, jobs: Sequence[Any], objectives: object | None = None, is_dry: bool = False, key: str | None = None
    ) -> BatchAnswer:
        """Match each job wholly or not at all, and hold the matches unless ``is_dry``.

        Jobs that were matched with the same ``key`` before keep their match.

        Raises:
            ResourceError: the batch is invalid; no match is held.
        """
        with self._turn, refused():
            return self._match(jobs, objectives, is_dry, None if is_dry else key)

    def match_round(self, waiting: Sequence[JobInRounds], store: StoreRound) -> int:
        """Match queued jobs, and pass the matches to ``store``; return its result."""
        if not waiting:
            return 0
        with self._turn:
            problem, seen = self._present([entry.job for entry in waiting])
            answer = match_round(
                problem.resources,
                waiting,
                now_s=problem.now_s,
                clock=time.monotonic,
                deadline_s=self.settings.deadline_s,
                objectives=problem.objectives,
                hour=problem.hour,
            )
            self._count_failed(answer)
            return store(self._catalogue, problem, answer.matches, answer.unmatched, seen)

    def look(self, read: Callable[[Catalogue, float], T]) -> T:
        """Return ``read`` of the present state, without waiting for a batch that is being matched."""
        with self._looking, self._read_engine.connect().execution_options(reading=True) as connection:
            self._shown.refresh(connection)
            return read(self._shown, self._clock())

    def read(self, jobs: Sequence[Any], key: str | None = None) -> CheckedBatch:
        """Check a batch without matching it.

        Raises:
            ResourceError: it is invalid.
        """
        with refused(), self._read_engine.connect().execution_options(reading=True) as connection:
            batch = read_batch(jobs, self._answers, connection, key)
            check_size((), batch.jobs)
            return batch

    def submit(self, jobs: Sequence[Any], key: str | None = None) -> SubmittedJobs:
        """Queue a batch; jobs that were submitted with the same ``key`` before keep their numbers.

        Raises:
            ResourceError: it is invalid, or too many jobs wait already; no job is queued.
        """
        batch, now, most = self.read(jobs, key), self._clock(), self.settings.queued_at_most
        with self._write_engine.begin() as connection:
            change = begin_change(connection, len(batch.jobs))
            numbers = earlier(connection, key).numbers
            new = [job for job in batch.jobs if job.name not in numbers]
            query = select(func.count()).select_from(matches).where(matches.c.state == "queued")
            waiting = connection.scalar(query) or 0
            if waiting + len(new) > most:
                raise ResourceError(f"{waiting} jobs wait already, and at most {most} may; submit these later", 409)
            rows = [
                match_row(job, batch.documents[job.name], change, number) | {"state": "queued", "submitted_at": now}
                for number, job in enumerate(new, change.first_match)
            ]
            if rows:
                connection.execute(insert(matches), rows)
        numbers |= {row["name"]: row["id"] for row in rows}
        return SubmittedJobs(
            [QueuedJob(one.name, numbers[one.name]) for one in batch.jobs], batch.refused, batch.predicted
        )

    def _match(self, jobs: Sequence[Any], objectives: object | None, is_dry: bool, key: str | None) -> BatchAnswer:
        spent, begin = TimeSpent(), time.perf_counter()
        with self._read_engine.connect().execution_options(reading=True) as connection:
            batch = read_batch(jobs, self._answers, connection, key)
            before = earlier(connection, key)
        problem, seen = self._present([job for job in batch.jobs if job.name not in before.numbers], objectives)
        check_size(problem.resources, problem.jobs)
        spent.query_s = time.perf_counter() - begin
        first = answer = self._decide(problem, spent)
        conflicts, pending, made = 0, problem, list(before.made)
        unmatched = [*batch.refused, *before.waiting, *answer.unmatched]
        if is_dry:
            made = [MadeMatch(one.job, one.resources) for one in answer.matches]
        for attempt in range(0 if is_dry else _ATTEMPTS):
            stored, lost = self._store(pending, answer.matches, seen, batch, key, spent)
            made += stored
            conflicts += len(lost)
            if not lost:
                break
            if attempt == _ATTEMPTS - 1:
                unmatched += [Unmatched(job.name, "held", FORESTALLED) for job in lost]
                break
            pending, seen = self._present(lost, objectives)
            answer = self._decide(pending, spent)
            unmatched += answer.unmatched
        whole = asdict(first) | {"matches": tuple(made), "unmatched": tuple(unmatched), "predicted": batch.predicted}
        return BatchAnswer(**whole, conflicts=conflicts, time=spent)

    def _present(self, jobs: Sequence[MatchJob], objectives: object | None = None) -> tuple[Problem, Seen]:
        """Return the problem of ``jobs`` with the present resources."""
        now, types = self._clock(), {dependency.type for job in jobs for dependency in job.dependencies}
        self._refresh()
        if NODES in types and now - self._looked_at >= LOOK_AT_NODES_S and self._has_its_nodes_from_agents():
            self._looked_at = now
            report_nodes(self._write_engine, self._clock, self.settings.expiry_s, self._machines)
            self._refresh()
        chosen = read_objectives(self._catalogue.objectives if objectives is None else objectives, "objectives")
        problem = problem_of(jobs, self._catalogue.resources_of(types, now), chosen, now)
        return problem, Seen.of(self._catalogue, problem)

    def _refresh(self) -> None:
        with self._read_engine.connect().execution_options(reading=True) as connection:
            self._catalogue.refresh(connection)

    def _has_its_nodes_from_agents(self) -> bool:
        """Return whether no administrator or monitor defines compute servers."""
        return all(one.source == SOURCE for one in self._catalogue.resources.values() if one.type == NODES)

    def _decide(self, problem: Problem, spent: TimeSpent) -> Answer:
        begin = time.perf_counter()
        answer = match(problem, clock=time.monotonic, deadline_s=self.settings.deadline_s)
        spent.solve_s += time.perf_counter() - begin
        self._count_failed(answer)
        return answer

    def _count_failed(self, answer: Answer | RoundAnswer) -> None:
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
        """Hold the matches that still fit; return the jobs of the others."""
        if not found:
            return [], []
        begin, now = time.perf_counter(), problem.now_s
        jobs = {job.name: job for job in problem.jobs}
        with self._write_engine.begin() as connection:
            known = self._catalogue.version
            change, fitting = begin_storing(connection, self._catalogue, problem, found, seen)
            # Another process matched the same submission meanwhile.
            before = Earlier() if change.version - 1 == known else earlier(connection, key)
            numbered = list(enumerate((one for one in fitting if one.job not in before.numbers), change.first_match))
            made = [one for one in before.made if one.job in jobs]
            rows = []
            for number, one in numbered:
                until = until_of(jobs[one.job], self.settings.hold_s, now)
                rows.append(
                    match_row(jobs[one.job], batch.documents[one.job], change, number)
                    | {"state": "held", "submitted_at": now, "matched_at": now, "until": until}
                )
                made.append(MadeMatch(one.job, one.resources, number, until))
            if rows:
                connection.execute(insert(matches), rows)
                add_holds(connection, self._catalogue, problem, numbered)
            expire_matches(connection, now, change.version)
        spent.store_s += time.perf_counter() - begin
        kept = {one.job for one in fitting} | before.numbers.keys()
        return made, [jobs[one.job] for one in found if one.job not in kept]
