from __future__ import annotations

import numpy as np

from jobsight_predictor.profile import Profile
from jobsight_predictor.question import JOB_GROUPS, JobGroups, Question, level_name

WHOLE = Question("x", "solver", "long", 16, 2e9, 3600.0)


def test_a_fully_described_job_has_a_key_per_job_group() -> None:
    keys = JobGroups().keys(WHOLE)
    assert [index for index, _ in keys] == list(range(len(JOB_GROUPS)))
    assert keys[0][1][1] == ("x", "solver", "long", 16, 2e9, 3600.0)
    assert keys[-1][1] == (0, ())


def test_missing_fields_narrow_nothing_and_count_once() -> None:
    job_groups = JobGroups()
    keys = job_groups.keys(Question(user="x"))
    assert [level_name(key) for _, key in keys] == ["user", "site"]
    # The same group as that of a job that given more, at the level of the user.
    assert keys[0][1] in [key for _, key in job_groups.keys(WHOLE)]


def test_different_fields_of_equal_value_are_different_groups() -> None:
    job_groups = JobGroups([("user",), ("queue",)])
    (_, by_user), (_, by_queue) = job_groups.keys(Question(user="a", queue="a"))
    assert by_user != by_queue


def test_groups_of_the_same_jobs_are_one_object_and_learn_as_if_each_were_its_own() -> None:
    rng = np.random.default_rng(5)
    shared, apart = Profile("B", metric="memory"), Profile("B", metric="memory")
    for i in range(120):
        user, application, asked = int(rng.integers(1, 4)), int(rng.integers(1, 3)), float(rng.choice([4e9, 8e9]))
        question = Question(f"u{user}", f"a{application}", "q", 4, asked, 3600.0)
        value = float(rng.lognormal(20.0, 0.3))
        for profile in (shared, apart):
            profile.learn(question, value, seconds=60.0)
        if i % 7 == 0:  # groups that are read are not shared
            state = {key: tuple(part) for key, part in apart.state().items()}
            apart = Profile("B", metric="memory")
            apart.load(state)
    assert len({id(group) for group in shared.groups.values()}) < len(shared.groups)
    assert shared.state() == apart.state()
