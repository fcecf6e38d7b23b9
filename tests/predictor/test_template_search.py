from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from jobsight_predictor.evaluation.jobs import Jobs, first_jobs
from jobsight_predictor.evaluation.template_search import candidates, ordered, search
from jobsight_predictor.template_text import parse_template, template_text
from jobsight_predictor.templates import DEFAULT_TEMPLATES, Question, Template, Templates


@pytest.mark.parametrize("template", DEFAULT_TEMPLATES)
def test_text_and_template_say_the_same(template: Template) -> None:
    assert parse_template(template_text(template)) == template


def test_what_people_write_is_read() -> None:
    assert parse_template(" queue + user ") == ("user", "queue")
    assert parse_template("site") == ()
    with pytest.raises(ValueError, match="no field 'colour'"):
        parse_template("user+colour")
    with pytest.raises(ValueError, match="twice"):
        parse_template("user+user")
    with pytest.raises(ValueError, match="no field ''"):
        parse_template("")


def test_order_is_from_specific_to_general() -> None:
    mixed: list[Template] = [(), ("queue",), ("user",), ("user", "queue"), ("application", "queue")]
    assert ordered(mixed) == (("user", "queue"), ("user",), ("application", "queue"), ("queue",), ())


def test_candidates_group_by_what_differs() -> None:
    questions = [Question(user=u, application=a, queue="only") for u in "ab" for a in "xy"]
    assert candidates(questions) == [("user", "application"), ("application",)]
    assert candidates([Question()]) == []
    many = [Question(str(i), str(i), str(i), i, float(i), float(i)) for i in range(2)]
    pool = candidates(many)
    assert len(pool) == len(set(pool)) == 31 + 5 + 10 + 1
    Templates(pool)


def test_the_search_finds_what_a_full_search_would() -> None:
    """Each template is worth something, pairs overlap; greedy is exact where gains add up."""
    worth: dict[Template, float] = {("user", "queue"): 0.2, ("queue",): 0.1, ("user", "processors"): 0.05}
    tried: list[frozenset[Template]] = []

    def score(templates: Sequence[Template]) -> float:
        tried.append(frozenset(templates))
        assert {("user",), ()} <= set(templates)
        return 0.3 + sum(worth.get(template, -0.01) for template in templates)

    pool: list[Template] = [*worth, ("application",), ("user", "application")]
    steps = list(search(pool, score))
    assert steps[-1].templates == (("user", "queue"), ("user", "processors"), ("user",), ("queue",), ())
    assert steps[-1].score == pytest.approx(score(steps[-1].templates))
    assert [step.score for step in steps] == sorted(step.score for step in steps)
    assert steps[-1].tried <= 1 + 5 + 2 + 1 + 3 + 2
    assert len(tried) - 1 == steps[-1].tried


def test_what_became_useless_is_dropped() -> None:
    """The first template found is worth the most alone, and nothing beside the two others."""

    told = {("queue",): "abcd", ("processors",): "abe", ("application",): "cdf"}

    def score(templates: Sequence[Template]) -> float:
        return len(set("".join(told.get(template, "") for template in templates))) / 10

    steps = list(search(list(told), score))
    assert set(steps[0].templates) == {("user",), ()}
    assert any(("queue",) in step.templates for step in steps)
    assert set(steps[-1].templates) == {("user",), (), ("processors",), ("application",)}
    assert steps[-1].score == pytest.approx(0.6)


def test_nothing_to_add_leaves_the_start() -> None:
    assert [step.templates for step in search([], lambda _: 0.5)] == [(("user",), ())]


def test_first_jobs_are_the_earliest() -> None:
    submitted = np.array([3.0, 1.0, 2.0])
    jobs = Jobs(
        "made", "memory", [Question(user=u) for u in "cab"], submitted, submitted + 1, submitted, submitted, submitted
    )
    first = first_jobs(jobs, 2)
    assert first.values.tolist() == first.requested.tolist() == [1.0, 2.0]
    assert [question.user for question in first.questions] == ["a", "b"]
    assert len(jobs) == 3
