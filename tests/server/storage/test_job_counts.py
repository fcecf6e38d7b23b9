"""The kept counts of runs equal counting, whatever changes the runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, func, select

from jobsight_server.accounting.read_logs import import_files
from jobsight_server.accounting.runs import QUEUED
from jobsight_server.commands.withdraw import withdraw
from jobsight_server.learning.finished import LearningOptions, profile_finished
from jobsight_server.storage.job_counts import NUMBER, count_all
from jobsight_server.storage.schema import job_counts, jobs

BY = ("cluster", "user", "group", "account", "state", "profiled")


def counted(connection: Connection) -> set[tuple[Any, ...]]:
    columns = [jobs.c[name] for name in BY]
    return {tuple(row) for row in connection.execute(select(*columns, func.count()).group_by(*columns))}


def kept(connection: Connection) -> set[tuple[Any, ...]]:
    columns = [job_counts.c[name] for name in BY]
    return {tuple(row) for row in connection.execute(select(*columns, NUMBER).group_by(*columns))}


def times(connection: Connection, table: Any, first: Any, last: Any) -> set[tuple[Any, ...]]:
    query = select(table.c.cluster, table.c.user, func.min(first), func.max(last)).where(table.c.state != QUEUED)
    return {tuple(row) for row in connection.execute(query.group_by(table.c.cluster, table.c.user))}


def check(engine: Engine) -> None:
    with engine.begin() as connection:
        assert kept(connection) == counted(connection)
        of_jobs = times(connection, jobs, jobs.c.start, jobs.c.end)
        of_counts = times(connection, job_counts, job_counts.c.first_start, job_counts.c.last_end)
        assert of_counts == of_jobs


def lines(rng: random.Random, count: int) -> Sequence[str]:
    """S, E, D and requeueing records of a few users, in any order of jobs, some twice."""
    found = []
    for _ in range(count):
        user, start = f"u{rng.randrange(4)}", 1_700_000_000 + rng.randrange(10**6)
        end = start + rng.randrange(1, 10**4)
        account = rng.choice(["", "account=proj ", "account=x "])
        body = f"user={user} group=g{rng.randrange(2)} {account}jobname=j queue=q ctime={start} qtime={start} "
        body += f"etime={start} start={start} exec_host=n1/0 Resource_List.walltime=01:00:00"
        job = rng.randrange(count)
        stamp = "11/19/2026 00:00:01"
        found.append(f"{stamp};S;{job}.server;{body}")
        if rng.random() < 0.8:
            used = "resources_used.cput=00:00:50 resources_used.mem=1024kb resources_used.walltime=00:01:00"
            found.append(f"{stamp};E;{job}.server;{body} session=1 end={end} Exit_status=0 {used}")
        elif rng.random() < 0.5:
            found.append(f"{stamp};{rng.choice('DRA')};{job}.server;requestor=root")
        if rng.random() < 0.1:
            found.append(rng.choice(found))
    return found


@pytest.mark.storage
@pytest.mark.parametrize("seed", range(3))
def test_counts_are_kept_with_every_change(engine: Engine, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    files = []
    for number in range(4):
        file = tmp_path / f"2026112{number}"
        file.write_text("\n".join(lines(rng, 150)) + "\n")
        files.append(file)
        import_files(engine, [file], "beta" if number == 2 else "alpha", lambda: 2e9)
        check(engine)
        profile_finished(engine, 0.0, lambda: 2e9, LearningOptions(limit=rng.choice([7, 200])))
        check(engine)
    assert withdraw(engine, files[:1], "alpha").runs > 0
    check(engine)
    with engine.begin() as connection:
        before = kept(connection)
        count_all(connection)
        assert kept(connection) == before


@pytest.mark.exhaustive
@pytest.mark.storage
def test_two_writers_at_once_keep_them_and_do_not_wait_for_each_other(engine: Engine, tmp_path: Path) -> None:
    """A log is read whose jobs are profiled at the same time, in chunks that change the same runs again."""
    rng = random.Random(9)
    files = []
    for number in range(6):
        file = tmp_path / f"2026112{number}"
        file.write_text("\n".join(lines(rng, 300)) + "\n")
        files.append(file)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(import_files, engine, files, "alpha", lambda: 2e9)
        while not reading.done():
            profile_finished(engine, 0.0, lambda: 2e9, LearningOptions(limit=20))
        reading.result()
    profile_finished(engine, 0.0, lambda: 2e9)
    check(engine)
