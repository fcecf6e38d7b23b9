"""A changed setting does not lose what was reported."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import Engine, select

from jobsight_predictor.question import Question
from jobsight_server.forecasts import AnswerReader, ForecastConfig
from jobsight_server.requirements import Feedback, RequirementConfig, SubmittedJob, ask, take_feedback
from jobsight_server.requirements.relearn import relearn_if_changed
from jobsight_server.storage.schema import requirement_state

MIB = 2**20
JOB = SubmittedJob("alpha", Question("ada", "cfd"), 32 * MIB)


def run(engine: Engine, config: RequirementConfig, used: int | None, now: float, job: SubmittedJob = JOB) -> int:
    """One job, which finishes; returns what it was given."""
    with engine.begin() as connection:
        given = ask(connection, config, AnswerReader(engine, ForecastConfig()), job, now)
        used_bytes = None if used is None else used * MIB
        assert take_feedback(connection, config, Feedback(given.id, False, used_bytes), now) == "stored"
    return given.memory_bytes // MIB


def state(engine: Engine) -> set[tuple[str, str, str, str]]:
    with engine.connect() as connection:
        return {tuple(row) for row in connection.execute(select(requirement_state))}


@pytest.mark.parametrize("name", ["successive-approximation", "last-instance", "regression"])
def test_other_capacities_learn_the_same_jobs_again(engine: Engine, name: str) -> None:
    before = RequirementConfig(name)
    after = replace(before, capacities=(8.0 * MIB, 24.0 * MIB, 32.0 * MIB))
    for i in range(5):
        run(engine, before, 10 + i, float(i))
        run(engine, before, None, float(i), replace(JOB, job=Question("bob", None, "q", 4), requested_bytes=64 * MIB))
    assert relearn_if_changed(engine, before) is False
    assert relearn_if_changed(engine, after) is True
    assert relearn_if_changed(engine, after) is False
    again = state(engine)
    assert {row[1] for row in again} == {after.method}
    if name == "last-instance":
        with engine.begin() as connection:
            assert ask(connection, after, AnswerReader(engine, ForecastConfig()), JOB, 9.0).memory_bytes == 24 * MIB
    assert relearn_if_changed(engine, before) is True
    assert relearn_if_changed(engine, after) is True
    assert state(engine) == again


@pytest.mark.storage
def test_what_was_reported_under_the_new_settings_is_kept(engine: Engine) -> None:
    before = RequirementConfig("last-instance")
    after = RequirementConfig("last-instance", ("user",))
    run(engine, before, 10, 1.0)
    assert run(engine, after, 20, 2.0) == 32  # nothing is known under these settings yet
    assert relearn_if_changed(engine, after) is True
    assert run(engine, after, 5, 3.0) == 20
    assert run(engine, after, 5, 4.0) == 5
