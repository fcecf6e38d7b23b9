"""A trial on an emulated site finds a planted effect within its interval, and none where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, insert
from tests.make import Jobsight

from jobsight_server.adjust.present import PresentJob
from jobsight_server.adjust.trial import Trial, assign, assigned
from jobsight_server.savings.changes import TrialReport, trial_report
from jobsight_server.storage.schema import jobs

NOW = 1_700_000_000.0
GIB = 2**30


def emulate(
    engine: Engine, users: int, memory_gib: float, waiting_s: float, failed: float, seed: int = 1
) -> TrialReport:
    """Emulate a site where changed jobs differ in memory, wait and failures by these factors."""
    rng, trial = np.random.default_rng(1), Trial(0.5)
    runs, number = [], 0
    with engine.begin() as connection:
        for user in range(users):
            size, patience, fails = 8.0 + rng.exponential(8.0), rng.exponential(3600.0), rng.uniform(0.0, 0.05)
            for _ in range(1 + rng.poisson(25)):
                number += 1
                submitted = NOW + number
                job = PresentJob(f"{number}", f"user{user}", submitted, None)
                changed = assign(connection, "alpha", trial, job, submitted + 1) == "advice"
                start = submitted + 1000.0 + patience * rng.uniform(0.5, 1.5) + waiting_s * changed
                memory = size * rng.uniform(0.8, 1.2) + memory_gib * changed
                failure = "memory" if rng.random() < fails + failed * changed else None
                run = {"cluster": "alpha", "job_id": job.job_id, "user": job.user, "state": "ended", "profiled": True}
                runs.append(
                    {**run, "start": start, "end": start + 60, "submitted": submitted, "recorded_at": start}
                    | {"requested_memory_bytes": int(memory * GIB), "failure": failure}
                )
        connection.execute(insert(jobs), runs)
        return trial_report(connection, trial.seed)


@pytest.mark.parametrize("planted", [(-4.0, -600.0, 0.06), (0.0, 0.0, 0.0)], ids=["effect", "none"])
def test_a_planted_effect_is_within_its_interval(sqlite_engine: Engine, planted: tuple[float, float, float]) -> None:
    report = emulate(sqlite_engine, 60, *planted)
    assert [effect.measure for effect in report.effects] == ["memory_gib", "waiting_s", "failed_share"]
    for effect, truth in zip(report.effects, planted, strict=True):
        assert effect.low is not None
        assert effect.high is not None
        assert effect.low <= truth <= effect.high, effect
        assert (effect.low <= 0.0 <= effect.high) == (truth == 0.0), effect
        assert effect.users == 60


@pytest.mark.exhaustive
@pytest.mark.storage
def test_arms_are_recorded_once_and_shown(jobsight: Jobsight, site: Any) -> None:
    for number in range(101, 141):
        site.pbs.submit(f"{number}.srv")
    site.follow()
    trial = Trial(0.5, "spring")
    shown = site.adjuster().dry_run(trial)
    with site.engine.connect() as connection:
        assert assigned(connection, "alpha", "spring") == {}
    done = site.adjuster().apply(trial)
    arms = {one.change.job.job_id: one.arm for one in done.proposed}
    assert arms == {one.change.job.job_id: one.arm for one in shown.proposed}
    assert 10 <= list(arms.values()).count("advice") <= 30
    given = site.pbs.given()
    assert {job_id for job_id, text in given.items() if text != "16gb"} == {
        j for j, arm in arms.items() if arm == "advice"
    }
    again = site.adjuster().apply(Trial(0.9, "spring"))
    assert all(one.arm == "none" for one in again.proposed), "another share changes no arm"
    assert site.pbs.given() == given
    report = jobsight("adjust", "--report", "--seed", "spring", "--json", on=site.engine).json
    assert {arm["arm"]: arm["assigned"] for arm in report["arms"]} == {
        name: list(arms.values()).count(name) for name in ("advice", "none")
    }
    assert (
        "no job was assigned by a trial with seed 'jobsight'"
        in jobsight("adjust", "--report", on=site.engine, status=1).err
    )
