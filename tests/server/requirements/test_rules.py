"""What holds for every estimator, whatever jobs come and however they end; asked over the application's HTTP."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from jobsight_predictor.estimators import ESTIMATORS
from jobsight_server.auth import create_token
from jobsight_server.serve.app import create_app
from jobsight_server.settings import load_settings
from jobsight_server.storage.engine import open_engine

ASK, REPORT = "/api/v1/requirements", "/api/v1/outcomes"
MIB = 2**20
JOBS = st.lists(
    st.tuples(
        st.sampled_from("ab"),  # user
        st.sampled_from([None, "x"]),  # application
        st.sampled_from([5, 24, 32, 100]),  # request, MiB
        st.floats(0.01, 1.5),  # need, of the request
        st.booleans(),  # whether the use is reported
        st.integers(0, 3),  # which of the jobs under way ends before the next is submitted
    ),
    min_size=1,
    max_size=14,
)


class Scheduler:
    """Submits jobs, runs them with what they get, reports each end twice, and submits what failed again."""

    def __init__(self, client: FlaskClient) -> None:
        self.client = client
        self._under_way: list[tuple[dict[str, Any], int, bool, dict[str, Any], list[int]]] = []
        self.finished = 0

    def submit(self, job: dict[str, Any], need: int, reports_use: bool, failed: list[int]) -> None:
        got = self._post(ASK, job)
        assert 0 < got["memory_bytes"] <= got["requested_bytes"] == job["memory_bytes"]
        assert all(got["memory_bytes"] > before for before in failed), "given again what failed"
        self._under_way.append((job, need, reports_use, got, failed))

    def end(self, place: int) -> None:
        """A job ends; one that had too little is submitted again."""
        job, need, reports_use, got, failed = self._under_way.pop(place % len(self._under_way))
        given = got["memory_bytes"]
        is_short = need > given
        feedback = {"cluster": "alpha", "user": job["user"], "requirement": got["id"], "lower_bound": is_short}
        if reports_use:
            feedback["value"] = min(need, given)
        assert [self._post(REPORT, feedback)["status"] for _ in range(2)] == ["stored", "duplicate"]
        if is_short:
            assert len(failed) < 9, "the ladder ends at the request"
            if given == job["memory_bytes"]:
                job = job | {"memory_bytes": 2 * given}
            self.submit(job | {"retry_of": got["id"]}, need, reports_use, [*failed, given])
        else:
            self.finished += 1

    def drain(self) -> None:
        """All jobs end, oldest first."""
        while self._under_way:
            self.end(0)

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        answer = self.client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json


@contextmanager
def site(engine: Engine, token: str, **flags: str) -> Iterator[FlaskClient]:
    """A fresh process over the database."""
    url = engine.url.render_as_string(hide_password=False)
    reading = open_engine(url, "read")
    app = create_app(load_settings(flags={"database": url, "clusters": "alpha", **flags}), reading, engine, lambda: 1e9)
    client = app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    yield client
    app.extensions["jobsight"].answers.close()
    reading.dispose()


@pytest.mark.slow
@pytest.mark.parametrize("estimator", list(ESTIMATORS))
@settings(deadline=None, max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=JOBS, capacities=st.sampled_from(["", "8M 24M 32M"]), restart=st.integers(0, 13))
def test_every_job_completes_with_no_more_than_its_request_and_never_what_failed(
    estimator: str,
    migrated_file: Path,
    tmp_path: Path,
    jobs: list[tuple[str, str | None, int, float, bool, int]],
    capacities: str,
    restart: int,
) -> None:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    file = shutil.copy(migrated_file, folder / "jobsight.db")
    engine = open_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        _, token = create_token(connection, "scheduler", "s", 0.0)
    flags = {"requirements_estimator": estimator, "memory_capacities": capacities}
    with site(engine, token, **flags) as first, site(engine, token, **flags) as second:
        scheduler = Scheduler(first)
        for number, (user, application, requested, share, reports_use, ends) in enumerate(jobs):
            if number == restart:
                before = first.get(ASK).json
                scheduler.client = second  # another process goes on with what the first one stored
                assert second.get(ASK).json == before
            job = {"cluster": "alpha", "user": user, "application": application, "memory_bytes": requested * MIB}
            scheduler.submit(job, max(1, int(share * requested * MIB)), reports_use, [])
            if ends:
                scheduler.end(ends)
        scheduler.drain()
        found = second.get(ASK).json
        assert scheduler.finished == found["finished"] == len(jobs)
        assert found["asked"] == found["finished"] + found["failed"]
        assert 0 <= found["freed_bytes"] <= 2 * sum(job[2] for job in jobs) * MIB
    engine.dispose()
