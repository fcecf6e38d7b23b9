"""A database that an older release has written opens, is migrated, and answers what that release answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Engine, select, text

from jobsight_server.forecasts import AnswerReader, ForecastConfig, ForecastRequest, rebuild_if_outdated
from jobsight_server.forecasts.request import job_question
from jobsight_server.profiler.run import profile_finished
from jobsight_server.savings.totals import count_marked
from jobsight_server.storage.engine import DatabaseError, open_engine
from jobsight_server.storage.migrate import alembic_config, upgrade
from jobsight_server.storage.schema import jobs, profiles
from jobsight_server.storage.schema_version import NEWEST, present_version

RELEASED = Path(__file__).parent / "released"
ADD_FAILURE = (
    "INSERT INTO failures (cluster, metric, question, reserved, position) "
    "VALUES ('alpha', 'memory', :question, 201326592, :position)"
)
ADD_FILE = (
    'INSERT INTO accounting_files (cluster, path, fingerprint, "offset", lines, updated) '
    "VALUES ('c', :path, :fingerprint, :offset, 7, 0)"
)

# The rows of ``schema_0003.sql`` are what release 0.1 made of sixteen jobs of two users; this is what it forecast,
# how sure it was, and from how many jobs.
ASKED: dict[ForecastRequest, tuple[float | None, float | None, int]] = {
    ForecastRequest("alpha", job_question("ann"), "memory"): (100663296.0, 0.339, 9),
    ForecastRequest("alpha", job_question("ann"), "runtime"): (600.0, 0.417, 9),
    ForecastRequest("alpha", job_question("ann"), "bandwidth"): (None, None, 0),
    ForecastRequest("alpha", job_question("bob", "cfd_9", "batch", 1, 2**31, 3600.0), "runtime"): (60.0, 0.373, 3),
    ForecastRequest("alpha", job_question("ann", "mesh", "batch", 8, 2**31, 3600.0), "memory"): (100663296.0, 0.292, 2),
    ForecastRequest("alpha", job_question("cyd", queue="batch"), "runtime"): (600.0, 0.315, 14),
}
QUESTION = '["ann", null, "batch", 8, null, null]'
FAILED = (ForecastRequest("alpha", job_question("ann", queue="batch", processors=8), "memory"), 1.5 * 2**27)
"""A reservation that had been reported to be too small."""

# What is forecast, and recommended to reserve, for job 15.s, which was still running, as of its submission.
PENDING = {
    "bandwidth": (None, None),
    "cpu": (0.1125, 0.918),
    "memory": (100663296.0, 268435456.0),
    "runtime": (600.0, 918.0),
}


@pytest.fixture
def released(database_url: str) -> Iterator[Engine]:
    """The database as release 0.1 left it, with a reported failure and two accounting files that were read."""
    engine = open_engine(database_url)
    config = alembic_config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0003")
        for statement in (RELEASED / "schema_0003.sql").read_text().split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
        connection.execute(text(ADD_FAILURE), {"question": QUESTION, "position": 14})
        for path, fingerprint, offset in (("/a", "4096:aa:bb@9000:17:3", 9000), ("/b", "12:cc:dd@", 12)):
            connection.execute(text(ADD_FILE), {"path": path, "fingerprint": fingerprint, "offset": offset})
    yield engine
    engine.dispose()


@pytest.mark.storage
def test_it_migrates_and_keeps_what_was_measured(released: Engine) -> None:
    columns = {
        "jobs": 'job_id, state, "user", name, queue, processors, start, "end", requested_walltime_s, profiled',
        "nodes": "name, boot_id, cpus, memory_total_bytes, samples, wraps, resets",
        "samples": "time, net_in_bytes, net_out_bytes, cpu_busy_s, memory_used_bytes, gap_s",
        "marks": "job_id, event, time",
    }
    queries = {table: f"SELECT {names} FROM {table}" for table, names in columns.items()}
    before = {table: _sorted(released, query) for table, query in queries.items()}
    assert {table: len(rows) for table, rows in before.items()} == {"jobs": 16, "nodes": 1, "samples": 9, "marks": 1}
    upgrade(released)
    assert present_version(released) == NEWEST
    assert {table: _sorted(released, query) for table, query in queries.items()} == before
    rebuild_if_outdated(released, ForecastConfig())
    with released.connect() as connection:
        found = AnswerReader(released, ForecastConfig()).answers(connection, list(ASKED))
    assert [(answer.value, answer.n) for answer in found] == [
        (value if value is None else pytest.approx(value), n) for value, _, n in ASKED.values()
    ]


def test_a_job_that_ran_when_it_was_stopped_is_profiled_after_the_upgrade(released: Engine) -> None:
    upgrade(released)
    with released.begin() as connection:
        ended = "UPDATE jobs SET state = 'ended', \"end\" = start + 60, used_memory_bytes = 1342177280 "
        connection.execute(text(ended + "WHERE job_id = '15.s'"))
    assert profile_finished(released, 0.0, lambda: 2e9) == 1
    query = select(profiles.c.metric, profiles.c.value).join(jobs).where(jobs.c.job_id == "15.s")
    with released.connect() as connection:
        found = {row.metric: row.value for row in connection.execute(query)}
    assert found["runtime"] == 60.0
    assert found["memory"] == 1342177280 / 8


@pytest.mark.storage
def test_savings_are_counted_from_the_jobs_that_were_learned(released: Engine) -> None:
    with released.begin() as connection:
        connection.execute(text("UPDATE jobs SET name = 'nf-bwa_(' || job_id || ')' WHERE \"user\" = 'ann'"))
    upgrade(released)
    assert count_marked(released) > 0
    names = "SELECT DISTINCT application FROM savings_groups WHERE application <> '' AND \"user\" = 'ann'"
    assert _sorted(released, names) == [("bwa",)]
    assert _sorted(released, "SELECT DISTINCT application FROM jobs WHERE \"user\" = 'ann'") == [("bwa",)]


def _sorted(engine: Engine, query: str) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return sorted((tuple(row) for row in connection.execute(text(query))), key=repr)


def test_it_opens_migrates_and_answers_the_same(released: Engine) -> None:
    """How much to reserve is worked out otherwise since, but never below what is known to be too little; probabilities
    are corrected by the few jobs that have ended."""
    upgrade(released)
    assert present_version(released) == NEWEST
    with released.connect() as connection:
        assert all(AnswerReader(released, ForecastConfig()).answers(connection, list(ASKED))), (
            "before it is rebuilt, too"
        )
    rebuild_if_outdated(released, ForecastConfig())
    request, too_small = FAILED
    with released.connect() as connection:
        *found, failed = AnswerReader(released, ForecastConfig()).answers(connection, [*ASKED, request])
    assert {request: (answer.value, answer.n) for request, answer in zip(ASKED, found, strict=True)} == {
        request: (pytest.approx(value), n) for request, (value, _, n) in ASKED.items()
    }
    for answer, (_, probability, _) in zip(found, ASKED.values(), strict=True):
        assert answer.probability == pytest.approx(probability, abs=0.03)
    assert failed.bound is not None
    assert failed.bound > too_small


@pytest.mark.storage
def test_its_pending_forecasts_stand(released: Engine) -> None:
    """A job that was running then is judged as of its submission, by what today's model makes of the jobs before it."""
    upgrade(released)
    with released.begin() as connection:
        connection.execute(text("UPDATE jobs SET state = 'ended', \"end\" = start + 60 WHERE job_id = '15.s'"))
    assert profile_finished(released, 0.0, lambda: 2e9) == 1
    query = select(profiles.c.metric, profiles.c.forecast, profiles.c.bound).join(jobs).where(jobs.c.job_id == "15.s")
    with released.connect() as connection:
        found = {metric: tuple(row) for metric, *row in connection.execute(query)}
    assert found == PENDING


@pytest.mark.storage
def test_fingerprints_of_accounting_files_stay(released: Engine) -> None:
    upgrade(released)
    query = "SELECT path, head_digest, content_digest, stat FROM accounting_files WHERE path IN ('/a', '/b')"
    assert _sorted(released, query) == [("/a", "aa", "bb", "9000:17:3"), ("/b", "cc", "dd", "")]


@pytest.mark.storage
def test_the_last_development_version_keeps_its_rows(released: Engine) -> None:
    columns = "id, version, batches_until, jobs_until, hazard, hazard_version, faded_at"
    state = f"INSERT INTO reliability_state ({columns}) VALUES (1, 7, 1.0, 2.0, '{{}}', 6, 3.0)"
    config = alembic_config()
    with released.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0032")
        connection.execute(text("DELETE FROM reliability_state"))
        connection.execute(text(state))
    upgrade(released)
    assert present_version(released) == NEWEST
    query = "SELECT version, batches_until, jobs_until, hazard, faded_at FROM reliability_state"
    assert _sorted(released, query) == [(7, 1.0, 2.0, "{}", 3.0)]


@pytest.mark.storage
@pytest.mark.parametrize("version", ["0011", "0024", "9999"])
def test_a_schema_of_no_release_is_refused_with_what_to_do(released: Engine, version: str) -> None:
    with released.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :version"), {"version": version})
    with pytest.raises(DatabaseError, match=f"schema version {version}, which is of no release that this one knows"):
        upgrade(released)
    with released.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM jobs")) == 16
