from __future__ import annotations

import pytest

from jobsight_predictor.templates import DEFAULT_TEMPLATES, Question, Templates, label

WHOLE = Question("x", "solver", "long", 16, 2e9, 3600.0)


def test_a_job_that_tells_everything_has_a_group_per_template() -> None:
    keys = Templates().keys(WHOLE)
    assert [index for index, _ in keys] == list(range(len(DEFAULT_TEMPLATES)))
    assert keys[0][1][1] == ("x", "solver", "long", 16, 2e9, 3600.0)
    assert keys[-1][1] == (0, ())


def test_what_is_not_told_narrows_nothing_and_counts_once() -> None:
    templates = Templates()
    keys = templates.keys(Question(user="x"))
    assert [templates.level(key) for _, key in keys] == ["user", "site"]
    # The same group as that of a job that told more, at the level of the user.
    assert keys[0][1] in [key for _, key in templates.keys(WHOLE)]


def test_levels_that_coincide_count_as_the_one_that_leaves_out_least() -> None:
    by_user, by_site = DEFAULT_TEMPLATES.index(("user",)), DEFAULT_TEMPLATES.index(())
    assert [index for index, _ in Templates().keys(Question(user="x"))] == [by_user, by_site]


def test_different_fields_of_equal_value_are_different_groups() -> None:
    templates = Templates([("user",), ("queue",)])
    (_, by_user), (_, by_queue) = templates.keys(Question(user="a", queue="a"))
    assert by_user != by_queue


def test_names_of_levels() -> None:
    assert label(()) == "site"
    assert label(("user", "queue")) == "user + queue"


def test_unknown_fields_and_no_templates_are_refused() -> None:
    with pytest.raises(ValueError, match="groups by \\['colour'\\]"):
        Templates([("user", "colour")])
    with pytest.raises(ValueError, match="no templates"):
        Templates([])
