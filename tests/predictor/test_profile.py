from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import make
from tests.make import not_none

from jobsight_predictor.profile import PendingForecast, Profile
from jobsight_predictor.profile.groups import CANDIDATES
from jobsight_predictor.profile.profile import QUESTIONS_AT_MOST
from jobsight_predictor.profile.prospect import MOST
from jobsight_predictor.question import Moment, Question


def run(profile: Profile, question: Question, values: list[float]) -> list[float | None]:
    """Submit, forecast and end one job after the other; return the answers."""
    answers = []
    for value in values:
        forecast = profile.forecast_job(question)
        answers.append(forecast.value)
        profile.learn(question, value, forecast)
    return answers


def test_a_switch_of_application_is_followed_within_two_jobs() -> None:
    """As the published Figure 3: a steady user, then another level."""
    profile = Profile("bytes")
    answers = run(profile, Question(user="x"), [100.0] * 60 + [700.0] * 10 + [250.0] * 10)
    assert answers[59] == 100.0
    assert answers[62:70] == [700.0] * 8
    assert answers[72:] == [250.0] * 8


def test_a_single_spike_changes_nothing() -> None:
    """As the published Figure 5: now and then one job of another kind."""
    profile = Profile("bytes")
    values = [900.0 if i % 17 == 13 else 30.0 for i in range(200)]
    answers = run(profile, Question(user="x"), values)
    assert answers[1:] == [30.0] * 199


def test_similar_jobs_are_separated_from_the_same_users_other_jobs() -> None:
    profile = Profile("bytes")
    solver = Question(user="x", application="solver", processors=64)
    mesher = Question(user="x", application="mesher", processors=4)
    for _ in range(10):
        run(profile, solver, [8e9])
        run(profile, mesher, [1e9])
    assert profile.answer(solver).value == 8e9
    assert profile.answer(mesher).value == 1e9
    assert "application" in str(profile.answer(solver).level)


def test_a_new_application_of_a_known_user_falls_back_to_the_user() -> None:
    profile = Profile("bytes")
    run(profile, Question(user="other", application="b"), [5.0] * 8)
    run(profile, Question(user="x", application="a"), [70.0] * 8)
    answer = profile.answer(Question(user="x", application="b2"))
    assert answer.value == 70.0
    assert answer.level == "user"
    assert answer.n == 8


def test_the_level_is_the_most_specific_that_says_so() -> None:
    profile = Profile("bytes")
    question = Question(user="x", application="a", processors=2)
    for _ in range(30):
        run(profile, Question(user="other"), [70.0])
        run(profile, question, [70.0])
    assert profile.answer(question).level == "user + application + processors"
    assert profile.answer(Question(user="x")).level == "user"


def test_of_a_known_user_alone_the_answer_is_the_users_own() -> None:
    """Fully described jobs resemble each other across users; a question with only the user gains nothing from it."""
    profile = Profile("bytes")
    rng = np.random.default_rng(6)
    for _ in range(20):
        for user, level in (("alice", 1.47e9), ("bob", 6e8), ("bob", 6e8)):
            question = Question(user, "fluid" if user == "alice" else "mesh", "batch", 8, 2e9, 3600.0)
            run(profile, question, [float(level * rng.uniform(0.97, 1.03))])
    answer = profile.answer(Question(user="alice"))
    assert answer.value == pytest.approx(1.47e9, rel=0.04)
    assert answer.level == "user"


def test_the_answer_explains_itself() -> None:
    profile = Profile("bytes per processor")
    rng = np.random.default_rng(2)
    values = [float(rng.choice([100.0, 100.0, 300.0])) for _ in range(80)]
    values[-1] = 300.0
    question = Question(user="x", processors=4, requested_time_s=600.0)
    run(profile, question, values)
    answer = profile.answer(question)
    assert answer.value == 100.0
    assert answer.unit == "bytes per processor"
    assert answer.forecaster in CANDIDATES
    assert answer.n == 80
    assert answer.last_values == tuple(values[-5:])
    assert answer.runner_up is not None
    assert answer.runner_up.value == 300.0
    assert answer.runner_up.forecaster in CANDIDATES
    assert not_none(answer.bound) >= 300.0
    assert not_none(answer.exceed_probability) < 0.1
    assert answer.coverage == 0.95
    assert 0.0 < not_none(answer.probability) < 1.0


def test_probability_is_higher_for_the_steady_user() -> None:
    profile = Profile("bytes")
    rng = np.random.default_rng(4)
    for _ in range(60):
        run(profile, Question(user="steady"), [50.0])
        run(profile, Question(user="wild"), [float(rng.lognormal(4, 2))])
    steady, wild = (not_none(profile.answer(Question(user=user)).probability) for user in ("steady", "wild"))
    assert steady > 0.75 > 0.3 > wild


def test_a_burst_is_judged_as_forecast_at_submission() -> None:
    """Alternating bursts: what the last job of the previous burst used is wrong for the whole of the next."""
    profile = Profile("bytes")
    question = Question(user="x")
    answered = []
    for burst in range(40):
        level = 100.0 if burst % 2 else 500.0
        pending = [profile.forecast_job(question) for _ in range(20)]
        answered.append(max(forecast.value or 0.0 for forecast in pending))
        for forecast in pending:
            profile.learn(question, level, forecast)
    error = not_none(profile.mean_error("x"))
    assert error.jobs == 800
    assert "locality" not in error.best_candidate
    # Either level is right half of the time; the last value never.
    right = sum(answer == (100.0 if burst % 2 else 500.0) for burst, answer in enumerate(answered))
    assert right > 10


def test_a_forecast_is_repeated_until_something_changes_it() -> None:
    """The same question is answered by the last forecast; what was learned, failed or loaded since counts at once."""
    profile = Profile("bytes")
    question, other = Question(user="x"), Question(user="y")
    run(profile, question, [100.0] * 50)
    first = profile.forecast_job(question)
    assert profile.forecast_job(Question(user="x")) is first
    assert profile.forecast_job(other) is not first
    assert profile.forecast_job(question) is first
    profile.learn(question, 400.0, lower_bound=True)
    failed = profile.forecast_job(question)
    assert not_none(failed.bound) > 400.0
    run(profile, question, [700.0] * 20)
    assert profile.forecast_job(question).value == 700.0
    loaded = Profile("bytes")
    assert loaded.forecast_job(question).value is None
    loaded.load(profile.state())
    assert loaded.forecast_job(question).value == 700.0


def test_a_failure_holds_until_it_is_one_in_those_that_may_fail() -> None:
    """By Laplace's rule: with a coverage of .95, some 18 jobs that need less; with .9, some eight."""
    asked = Question(user="x", application="a", requested_memory_bytes=500.0)
    other = asked._replace(requested_memory_bytes=900.0)
    for coverage, successes in ((0.95, 18), (0.9, 8)):
        profile = Profile("bytes", coverage=coverage, metric="memory")
        run(profile, asked, [100.0] * 60)
        before = profile.answer(asked).bound or 0.0
        profile.learn(asked, 400.0, lower_bound=True)
        run(profile, asked._replace(application="b"), [100.0] * 60)
        run(profile, other, [100.0] * 5)
        run(profile, asked, [100.0] * (successes - 7))
        assert (profile.answer(asked).bound or 0.0) > 400.0
        run(profile, asked, [100.0] * 4)
        assert before < 200.0 > (profile.answer(asked).bound or 0.0)


def test_jobs_that_were_killed_and_not_run_again_count_as_long_as_they_are_likely() -> None:
    """Half of a user's jobs need more than anything seen, by an unknown amount: reservations must cover them."""
    profile = Profile("bytes")
    question = Question(user="x", application="a")
    for _ in range(60):
        profile.learn(question, 100.0)
        profile.learn(question, 400.0, lower_bound=True)
    assert (profile.answer(question).bound or 0.0) > 400.0
    run(profile, question, [100.0] * (18 * MOST))
    assert (profile.answer(question).bound or 0.0) > 400.0
    run(profile, question, [100.0] * (40 * MOST))
    assert (profile.answer(question).bound or 0.0) < 400.0


def test_a_killed_job_and_the_run_that_had_enough_are_one_job() -> None:
    """What failed counts until the run that had enough takes its place; growth, until the next jobs need no more."""
    profile, plain = Profile("bytes"), Profile("bytes")
    question = Question(user="x", application="a")
    for each in (profile, plain):
        run(each, question, [100.0] * 30)
    for lower_bound in (200.0, 300.0):  # the same job, killed twice
        profile.learn(question, lower_bound, lower_bound=True)
    for each in (profile, plain):
        run(each, question, [350.0])
    assert (profile.answer(question).bound or 0.0) > 350.0
    for each in (profile, plain):
        run(each, question, [100.0] * 4)
    assert profile.answer(question).bound == plain.answer(question).bound


def test_attempts_ascend_from_the_bound_to_the_limit_and_hold_less_than_doubling() -> None:
    profile = Profile("bytes", metric="memory")
    question = Question("x", "a", requested_memory_bytes=5000.0)
    rng = np.random.default_rng(3)
    run(profile, question, rng.choice([100.0, 400.0, 2000.0], 300, p=[0.9, 0.08, 0.02]).tolist())
    answer = profile.answer(question)
    assert answer.attempts[0] == answer.bound
    assert list(answer.attempts) == sorted(set(answer.attempts))
    assert answer.attempts[-1] == 5000.0
    assert len(answer.attempts) > 2
    # The ladder of least waste, against two obvious ones.
    needs = rng.choice([100.0, 400.0, 2000.0], 3000, p=[0.9, 0.08, 0.02])
    doubled = [answer.bound * 2.0**i for i in range(10)] if answer.bound else []
    assert held(answer.attempts, needs) < held(doubled, needs)
    assert held(answer.attempts, needs) < held([answer.bound or 0.0, 5000.0], needs)


def held(ladder: Sequence[float], needs: Iterable[float]) -> float:
    """Total reservation of the attempts of all jobs."""
    total = 0.0
    for need in needs:
        for attempt in ladder:
            total += attempt
            if attempt >= need:
                break
    return total


def test_a_failure_raises_the_bound_of_the_users_application_whatever_is_asked() -> None:
    profile = Profile("bytes", metric="memory")
    reported = Question(user="x", application="a", processors=8, requested_memory_bytes=500.0)
    alike = [
        reported,
        Question(user="x", application="a"),
        Question(user="x", application="a", processors=4, queue="long"),
        Question(user="x", application="a", processors=8, requested_memory_bytes=5000.0, requested_time_s=60.0),
    ]
    others = [
        Question(user="x"),
        Question(user="x", application="b", processors=8),
        Question(user="y", application="a", processors=8),
        Question(application="a", processors=8),
    ]
    for question in (*alike, *others):
        run(profile, question, [100.0] * 20)
    before = [profile.answer(question) for question in others]
    profile.learn(reported, 400.0, lower_bound=True)
    assert all((profile.answer(question).bound or 0.0) > 400.0 for question in alike)
    assert [profile.answer(question) for question in others] == before
    # A job that asks for no more than what failed would fail as well.
    assert (profile.answer(reported._replace(requested_memory_bytes=300.0)).bound or 0.0) > 400.0
    profile.learn(Question(user="x"), 700.0, lower_bound=True)
    bounds = [profile.answer(question).bound or 0.0 for question in (*alike[1:], *others)]
    assert [bound > 700.0 for bound in bounds] == [True] * 5 + [False] * 2


NEEDS = {
    "once, a little": [500.0] * 10 + [700.0] * 60,
    "in steps": [500.0] * 10 + [700.0] * 30 + [1000.0] * 30 + [1900.0] * 30 + [3300.0] * 30,
    "to three times as much": [500.0] * 30 + [1500.0] * 60,
    "slowly": [500.0 * 1.01**i for i in range(200)],
}


@pytest.mark.parametrize("needs", NEEDS.values(), ids=NEEDS)
@pytest.mark.parametrize("metric", ["memory", "runtime"])
@pytest.mark.parametrize("log_has_the_users_request", [True, False])
def test_need_that_grows_past_a_lowered_request_is_followed(
    needs: list[float], metric: str, log_has_the_users_request: bool
) -> None:
    """Each job is given what was recommended of the 4,000 that its user asks for; one that needs more is killed."""
    profile = Profile("bytes", metric=metric)
    asked = Question("x", "a", "batch", 1, 4000.0, 4000.0)
    for number in range(200):  # others, so that the site is not young any more
        run(profile, Question(f"u{number % 7}", "b", "batch", 1, 1000.0, 1000.0), [300.0 + number % 9])
    failures, steps, killed = 0, 1, False
    run(profile, asked, needs[:5])
    for before, need in pairwise(needs[4:]):
        steps += need > before * 1.02
        while True:  # the user submits it again until it ends
            forecast = profile.forecast_job(asked)
            given = min(forecast.bound or 4000.0, 4000.0)
            in_log = asked if log_has_the_users_request else asked._replace(
                requested_memory_bytes=given, requested_time_s=given
            )  # fmt: skip
            if given >= need:
                profile.learn(in_log, need, forecast)
                break
            failures, killed = failures + 1, True
            assert failures < 50
            profile.learn(in_log, given, lower_bound=True)
            profile = make.profile_of(profile.state(), metric)
    assert killed or max(needs) < 1000.0, "or it says nothing about lowered requests"
    assert failures <= 2 * steps
    # Afterwards it is not inflated for ever.
    run(profile, asked, [100.0] * 200)
    assert (profile.answer(asked).bound or 0.0) < 400.0


def test_a_failure_is_all_that_is_known() -> None:
    """Nothing has ended: the answer has no value, but a reservation above what ran out."""
    profile = Profile("bytes", metric="memory")
    asked = Question(user="x", application="a", requested_memory_bytes=500.0)
    profile.learn(asked, 500.0, lower_bound=True)
    for question in (asked, Question(user="x", application="a")):
        answer = profile.answer(question)
        assert (answer.value, answer.bound_basis) == (None, "largest seen")
        assert (answer.bound or 0.0) > 600.0
    assert profile.answer(asked._replace(requested_memory_bytes=900.0)).bound == 900.0


job_strategy = st.tuples(
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from([None, "p", "q"]),
    st.sampled_from([None, 1, 8]),
    st.one_of(st.floats(0, 1e12), st.sampled_from([0.0, 1e-300, 1e300, 5e-324, 7.0])),
)


@settings(deadline=None, max_examples=60)
@given(jobs=st.lists(job_strategy, max_size=50))
def test_state_goes_through_json_exactly_and_answers_stay_sane(
    jobs: list[tuple[str, str | None, int | None, float]],
) -> None:
    profile = Profile("bytes")
    running = []
    for i, (user, application, processors, value) in enumerate(jobs):
        question = Question(user=user, application=application, processors=processors, requested_time_s=60.0)
        forecast = profile.forecast_job(question)
        if i % 3:
            profile.learn(question, value, forecast)
        else:  # some are still running when the state is taken
            running.append((question, value, forecast))
        answer = profile.answer(question)
        if answer.value is not None:
            assert math.isfinite(answer.value)
            assert answer.value >= 0.0
            assert answer.bound is not None
            assert math.isfinite(answer.bound)
            assert answer.bound >= answer.value
            assert 0.0 <= not_none(answer.probability) <= 1.0
    restored = make.profile_of(profile.state())
    for question, value, forecast in running:
        assert restored.answer(question) == profile.answer(question)
        profile.learn(question, value, forecast)
        restored.learn(question, value, PendingForecast.from_state(json.loads(json.dumps(forecast.state()))))
    assert restored.answer(Question(user="a")) == profile.answer(Question(user="a"))
    assert restored.state() == profile.state()


@settings(deadline=None, max_examples=40)
@given(jobs=st.lists(job_strategy, max_size=40))
def test_the_state_keys_of_a_question_are_all_that_it_needs(
    jobs: list[tuple[str, str | None, int | None, float]],
) -> None:
    """A profile that holds everything, and one job after another learned from the stored state alone."""
    whole = Profile("bytes")
    stored: dict[str, str] = {}
    for user, application, processors, value in jobs:
        question = Question(user=user, application=application, processors=processors)
        part = Profile("bytes")
        reports = (question, question._replace(processors=None), question._replace(application=None))
        asked = [question, *(reports if value > 1e11 else ())]
        part.load(
            {name: json.loads(stored[name]) for each in asked for name in part.state_keys(each) if name in stored}
        )
        if value > 1e11:
            for reported in reports:
                whole.learn(reported, value / 2.0, lower_bound=True)
                part.learn(reported, value / 2.0, lower_bound=True)
        assert part.answer(question) == whole.answer(question)
        part.learn(question, value)
        whole.learn(question, value)
        stored |= {name: json.dumps(state) for name, state in part.changed_state().items()}
    assert {name: json.loads(state) for name, state in stored.items()} == json.loads(json.dumps(whole.state()))


def test_state_of_another_version_is_refused() -> None:
    profile = Profile("bytes")
    profile.learn(Question(user="x"), 1.0)
    site, until = profile.state()['["site"]']
    with pytest.raises(ValueError, match="another version"):
        make.profile_of({'["site"]': (site | {"shape": 1}, until)})


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_no_measurement_changes_nothing(bad: float) -> None:
    profile = Profile("bytes")
    question = Question(user="x")
    run(profile, question, [5.0, 6.0])
    before = json.dumps(profile.state())
    with pytest.raises(ValueError, match="cannot learn"):
        profile.learn(question, bad)
    assert json.dumps(profile.state()) == before
    assert profile.n == 2


def test_an_answer_does_not_depend_on_what_else_was_asked_before() -> None:
    """Both moments of one question, among more questions than are kept, as one asked alone of the same state."""
    rng = np.random.default_rng(11)
    profile = Profile("bytes", metric="memory")
    questions = [
        Question(f"u{i % 7}", f"p{i % 3}", processors=i, requested_memory_bytes=900.0, facts=(("input", float(i)),))
        for i in range(QUESTIONS_AT_MOST + 50)
    ]
    for question in questions:
        value = rng.lognormal(5.0, 0.5)
        forecast, again = profile.forecast_job(question), profile.forecast_job(question, "start")
        again.bound = 1.1 * value  # so that the moments differ
        profile.learn(question, value, forecast, at_start=again)
    state = json.dumps(profile.state())
    moments: tuple[Moment, Moment] = ("submission", "start")
    said = [[profile.forecast_job(question, moment).state() for moment in moments] for question in questions]
    assert said[0][0] != said[0][1]
    for question, both in zip(questions[::25], said[::25], strict=True):
        for moment, among_others in zip(moments, both, strict=True):
            alone = make.profile_of(json.loads(state), "memory")
            assert alone.forecast_job(question, moment).state() == among_others


def test_each_moment_is_calibrated_by_its_own_answers() -> None:
    """What failed at submission and held at the start: the one bound grows, the other shrinks."""
    question = Question(user="a", application="p")
    profile = Profile("bytes", metric="memory")
    values = np.random.default_rng(3).lognormal(5.0, 1.0, 600).tolist()
    for value in values[:300]:
        profile.learn(question, value)
    first = profile.forecast_job(question).bound, profile.forecast_job(question, "start").bound
    assert first[0] == first[1]
    for value in values[300:]:
        forecast, again = profile.forecast_job(question), profile.forecast_job(question, "start")
        forecast.bound, again.bound, again.stated_exceed = 0.5 * value, 2.0 * value, 0.05
        profile.learn(question, value, forecast, at_start=again)
    restored = make.profile_of(profile.state(), "memory")
    for known in (profile, restored):
        submitted, started = known.answer(question), known.answer(question, "start")
        assert started.bound < 0.8 * submitted.bound  # type: ignore[operator]
        assert started.value == submitted.value
        assert started.exceed_probability < submitted.exceed_probability  # type: ignore[operator]
        assert started.observed_coverage > 0.85 > submitted.observed_coverage  # type: ignore[operator]
