"""What nothing was learned of for a year goes; a few records with a wrong year change nothing."""

from __future__ import annotations

import json
import random
from typing import Any

from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.groups import AGREEING, PERIOD_S, STAYS
from jobsight_predictor.question import Question

OLD, NEW = Question(user="x", application="old"), Question(user="x", application="new")


def learned(profile: Profile, question: Question, count: int, month: float, value: float = 100.0) -> None:
    for _ in range(count):
        profile.learn(question, value, at=month * PERIOD_S)


def applications(profile: Profile) -> set[str]:
    """Names of applications in the state."""
    return {name for name in ("old", "new") if any(f'"{name}"' in key for key in profile.state())}


def test_what_was_learned_within_a_year_stays_and_then_goes() -> None:
    profile = Profile("bytes")
    learned(profile, OLD, STAYS, 600.0, 7.0)
    learned(profile, NEW, AGREEING, 600.0 + STAYS)
    assert applications(profile) == {"old", "new"}
    assert profile.answer(OLD).level != "user"
    learned(profile, NEW, AGREEING, 601.0 + STAYS)
    assert applications(profile) == {"new"}
    assert profile.answer(OLD).level == "user"
    assert profile.answer(Question(user="x")).n == STAYS + 2 * AGREEING, "the user's group has learned all of them"


def test_a_group_of_few_jobs_stays_as_many_months() -> None:
    profile = Profile("bytes")
    learned(profile, NEW, AGREEING, 600.0)
    learned(profile, OLD, 3, 600.0)
    learned(profile, NEW, AGREEING, 603.0)
    assert profile.answer(OLD).level != "user"
    learned(profile, NEW, AGREEING, 604.0)
    assert profile.answer(OLD).level == "user"


def test_an_application_that_comes_back_begins_again() -> None:
    profile, fresh = Profile("bytes"), Profile("bytes")
    learned(profile, OLD, AGREEING, 600.0, 7.0)
    learned(profile, NEW, AGREEING, 640.0)
    learned(profile, OLD, 1, 640.0, 9.0)
    learned(fresh, OLD, 1, 640.0, 9.0)
    assert profile.answer(OLD).last_values == fresh.answer(OLD).last_values == (9.0,)


def test_a_few_records_with_a_wrong_year_make_nothing_go() -> None:
    profile = Profile("bytes")
    learned(profile, OLD, AGREEING, 600.0)
    for month in (99_999.0, 0.0, 99_999.0):
        learned(profile, NEW, AGREEING - 1, month)
        learned(profile, NEW, 1, 600.0)
    assert applications(profile) == {"old", "new"}
    learned(profile, NEW, AGREEING, 640.0)
    assert applications(profile) == {"new"}, "it goes on afterwards"


def test_without_times_nothing_goes() -> None:
    profile = Profile("bytes")
    for number in range(100):
        profile.learn(Question(user="x", application=f"a{number}"), 1.0)
    assert len([key for key in profile.state() if key.startswith('["kind"')]) == 100


def test_learned_from_its_parts_it_drops_the_same() -> None:
    """As a server does: a job at a time, from the stored parts that it needs, deleting those that are too old."""
    rng = random.Random(3)
    whole, stored = Profile("bytes", metric="memory"), dict[str, str]()
    for number in range(600):
        application = f"a{rng.randrange(number // 10 + 1)}"
        question = Question(rng.choice("uvw"), application, None, 4, 1e9)
        value, at = float(rng.choice([1e8, 2e8, rng.randrange(1, 10**9)])), (600.0 + number / 12.0) * PERIOD_S
        is_bound = rng.random() < 0.1
        part = Profile("bytes", metric="memory")
        part.load({key: json.loads(stored[key]) for key in part.state_keys(question) if key in stored})
        for profile in (whole, part):
            profile.learn(question, value, lower_bound=is_bound, at=at)
        stored |= {key: json.dumps(state) for key, state in part.changed_state().items()}
        if (before := part.too_old()) is not None:
            stored = {key: text for key, text in stored.items() if not is_older(json.loads(text), before)}
    assert whole.too_old() is not None
    assert {key: json.loads(text) for key, text in stored.items()} == json.loads(json.dumps(whole.state()))
    kinds = [key for key in stored if key.startswith('["kind"')]
    assert 10 < len(kinds) < 160


def is_older(part: Any, before: int) -> bool:
    _, until = part
    return until is not None and until < before
