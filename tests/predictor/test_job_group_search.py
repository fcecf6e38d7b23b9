from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from jobsight_predictor.evaluation.job_group_search import candidates, ordered, search
from jobsight_predictor.evaluation.jobs import Jobs, first_jobs
from jobsight_predictor.question import (
    DEFAULT_JOB_GROUPS,
    JobGroup,
    JobGroups,
    Question,
    job_group_text,
    parse_job_group,
)


@pytest.mark.parametrize("job_group", DEFAULT_JOB_GROUPS)
def test_text_and_job_group_say_the_same(job_group: JobGroup) -> None:
    assert parse_job_group(job_group_text(job_group)) == job_group


def test_what_people_write_is_read() -> None:
    assert parse_job_group(" queue + user ") == ("user", "queue")
    assert parse_job_group("site") == ()
    with pytest.raises(ValueError, match="unknown field 'colour'"):
        parse_job_group("user+colour")
    with pytest.raises(ValueError, match="twice"):
        parse_job_group("user+user")
    with pytest.raises(ValueError, match="unknown field ''"):
        parse_job_group("")


def test_order_is_from_specific_to_general() -> None:
    mixed: list[JobGroup] = [(), ("queue",), ("user",), ("user", "queue"), ("application", "queue")]
    assert ordered(mixed) == (("user", "queue"), ("user",), ("application", "queue"), ("queue",), ())


def test_candidates_group_by_what_differs() -> None:
    questions = [Question(user=u, application=a, queue="only") for u in "ab" for a in "xy"]
    assert candidates(questions) == [("user", "application"), ("application",)]
    assert candidates([Question()]) == []
    many = [Question(str(i), str(i), str(i), i, float(i), float(i)) for i in range(2)]
    pool = candidates(many)
    assert len(pool) == len(set(pool)) == 31 + 5 + 10 + 1
    JobGroups(pool)


def test_the_search_finds_what_a_full_search_would() -> None:
    """Each job group is worth something, pairs overlap; greedy is exact where gains add up."""
    worth: dict[JobGroup, float] = {("user", "queue"): 0.2, ("queue",): 0.1, ("user", "processors"): 0.05}
    tried: list[frozenset[JobGroup]] = []

    def score(job_groups: Sequence[JobGroup]) -> float:
        tried.append(frozenset(job_groups))
        assert {("user",), ()} <= set(job_groups)
        return 0.3 + sum(worth.get(job_group, -0.01) for job_group in job_groups)

    pool: list[JobGroup] = [*worth, ("application",), ("user", "application")]
    steps = list(search(pool, score))
    assert steps[-1].job_groups == (("user", "queue"), ("user", "processors"), ("user",), ("queue",), ())
    assert steps[-1].score == pytest.approx(score(steps[-1].job_groups))
    assert [step.score for step in steps] == sorted(step.score for step in steps)
    assert steps[-1].tried <= 1 + 5 + 2 + 1 + 3 + 2
    assert len(tried) - 1 == steps[-1].tried


def test_what_became_useless_is_dropped() -> None:
    """The first job group found is worth the most alone, and nothing beside the two others."""

    given = {("queue",): "abcd", ("processors",): "abe", ("application",): "cdf"}

    def score(job_groups: Sequence[JobGroup]) -> float:
        return len(set("".join(given.get(job_group, "") for job_group in job_groups))) / 10

    steps = list(search(list(given), score))
    assert set(steps[0].job_groups) == {("user",), ()}
    assert any(("queue",) in step.job_groups for step in steps)
    assert set(steps[-1].job_groups) == {("user",), (), ("processors",), ("application",)}
    assert steps[-1].score == pytest.approx(0.6)


def test_nothing_to_add_leaves_the_start() -> None:
    assert [step.job_groups for step in search([], lambda _: 0.5)] == [(("user",), ())]


def test_first_jobs_are_the_earliest() -> None:
    submitted = np.array([3.0, 1.0, 2.0])
    jobs = Jobs(
        "made", "memory", [Question(user=u) for u in "cab"], submitted, submitted + 1, submitted, submitted, submitted
    )
    first = first_jobs(jobs, 2)
    assert first.values.tolist() == first.requested.tolist() == [1.0, 2.0]
    assert [question.user for question in first.questions] == ["a", "b"]
    assert len(jobs) == 3
