"""What counts as evidence, and what bounds make of bursts, strangers, new kinds of jobs and young sites."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import make
from tests.make import not_none

from jobsight_predictor.evaluation.coverages import coverages
from jobsight_predictor.evaluation.jobs import Jobs
from jobsight_predictor.evaluation.replay import replay_jobsight
from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.groups import Group
from jobsight_predictor.profile.prospect import Witness, prospect
from jobsight_predictor.question import Question

MIB = 2.0**20


def workload(rows: list[tuple[float, float, Question, float]], metric: str = "memory") -> Jobs:
    """Rows of submitted, ended, question, value."""
    rows = sorted(rows, key=lambda row: row[0])
    field = {"memory": "requested_memory_bytes", "runtime": "requested_time_s"}[metric]
    submitted, ended = (np.array([row[k] for row in rows], dtype=np.float64) for k in (0, 1))
    requested = [getattr(question, field) for _, _, question, _ in rows]
    return Jobs(
        name="made",
        metric=metric,
        questions=[question for _, _, question, _ in rows],
        submitted=submitted,
        ended=ended,
        values=np.array([row[3] for row in rows]),
        seconds=np.maximum(ended - submitted, 1.0),
        requested=np.array([np.nan if asked is None else asked for asked in requested], dtype=np.float64),
    )


@settings(deadline=None, max_examples=100)
@given(spans=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), min_size=1, max_size=14))
def test_evidence_is_the_largest_number_of_jobs_one_after_the_other(spans: list[tuple[int, int]]) -> None:
    """Against a plain dynamic programme over all jobs."""
    jobs = sorted((end, start) for start, length in spans for end in [start + length])
    group = Group()
    for now, (_, start) in enumerate(jobs):
        group.learn(1.0, sum(end <= start for end, _ in jobs), now + 1)
    best: list[int] = []
    for i, (_, start) in enumerate(jobs):
        best.append(1 + max([best[k] for k in range(i) if jobs[k][0] <= start], default=0))
    assert group.evidence == max(best)


def test_a_distribution_is_one_and_leaves_room_for_a_new_largest() -> None:
    for n in (1, 5, 50):
        group = Group()
        for i in range(n):
            group.learn(100.0, i, i + 1)
        found = prospect([[Witness(group)]])
        assert sum(found.places.values()) + found.beyond == pytest.approx(1.0)
        above = found.beyond + sum(mass for place, mass in found.places.items() if place > 100.0)
        assert above == pytest.approx(0.5 / (n + 0.5))
        twice = found.beyond + sum(mass for place, mass in found.places.items() if place > 200.0)
        assert twice == pytest.approx(0.5 / (n + 0.5) / 8)
        capped = prospect([[Witness(group)]]).cut(120.0)
        assert max(capped.places) == 120.0


def test_a_burst_of_thousands_from_a_stranger_is_held_by_its_requests() -> None:
    """As on a PBS Pro server's day: a few small jobs of others, then thousands of a new user."""
    rng = np.random.default_rng(1)
    small = [
        (t, t + 50.0, Question(f"u{i % 7}", None, "q", 1, 2048 * MIB), float(rng.uniform(20, 90)) * MIB)
        for i, t in enumerate(np.arange(0.0, 40_000.0, 200.0))
    ]
    big = [
        (
            40_000.0 + i * 0.1,
            60_000.0 + i,
            Question("eve", None, "q", 1, 4096 * MIB),
            float(rng.normal(2500, 200)) * MIB,
        )
        for i in range(3000)
    ]
    jobs = workload([*small, *big])
    bounds = replay_jobsight(jobs, "completion").bounds
    of_eve = np.array([question.user == "eve" for question in jobs.questions])
    assert (bounds[of_eve] == 4096 * MIB).all()
    assert np.mean(jobs.values <= bounds) > 0.97
    # The burst is known by one piece of evidence: the next one is reserved by that, not by thousands.
    profile = Profile("bytes", metric="memory")
    question = Question("eve", None, "q", 1, 4096 * MIB)
    pending = [profile.forecast_job(question) for _ in range(1000)]
    for forecast in pending:
        profile.learn(question, 1000 * MIB, forecast)
    answer = profile.answer(question)
    assert not_none(answer.bound) >= 1250 * MIB
    assert answer.bound_basis == "largest seen"


def test_a_new_application_is_judged_by_how_new_ones_began() -> None:
    """Hundreds of small jobs of known applications say little of what the next application needs."""
    profile = Profile("bytes", metric="memory")
    shares = [0.02, 0.4, 0.01, 0.3, 0.05, 0.45]
    for k, share in enumerate(shares):
        question = Question("me", f"app{k}", None, 1, 1000 * MIB)
        for _ in range(200 if share < 0.1 else 1):
            profile.learn(question, share * 1000 * MIB)
    bound = not_none(profile.answer(Question("me", "another", None, 1, 16_000 * MIB)).bound)
    assert 0.45 * 16_000 * MIB < bound <= 16_000 * MIB
    known = not_none(profile.answer(Question("me", "app0", None, 1, 1000 * MIB)).bound)
    assert known < 50 * MIB


def test_a_request_that_such_jobs_exceed_is_no_limit_for_them() -> None:
    """On a site where requests hold, one user's application uses three times its own and runs to its end."""
    profile = Profile("bytes", metric="memory")
    for i in range(300):
        profile.learn(Question(f"u{i % 6}", "a", requested_memory_bytes=1000.0), 400.0 + i % 50)
    asked = Question("bob", "overmem", requested_memory_bytes=100.0)
    unknown = profile.answer(asked)
    assert (unknown.bound, unknown.limited_by_request) == (100.0, True), "shares are of requests of 1,000, no less"
    profile.learn(asked, 310.0)
    exceeded = profile.answer(asked)
    assert (exceeded.bound or 0.0) >= 310.0
    assert not exceeded.limited_by_request
    assert (exceeded.exceed_probability or 0.0) > 0.0
    others = profile.answer(Question("bob", "b", requested_memory_bytes=100.0)).bound
    assert others == 100.0, "an application of which nothing is known is held by its request, as those of others are"
    for _ in range(5):
        profile.learn(asked, 60.0)
    assert profile.answer(asked).bound == 100.0


def test_a_question_without_an_application_is_about_any_and_not_about_a_new_one() -> None:
    """New applications begin small here; a question that names none is answered by all jobs of the user."""
    profile = Profile("bytes")
    for user in range(40):
        for application in range(3):
            profile.learn(Question(user=f"u{user}", application=f"a{application}"), 10.0)
    question = Question(user="x", application="a")
    for i in range(200):
        profile.learn(question, 10.0 if i == 0 else 100.0 + i % 10)
    new, any_of_user = (profile.answer(Question(user="x", application=name)) for name in ("b", None))
    assert new.bound is not None
    assert not_none(any_of_user.bound) >= 109.0 > 0.5 * 109.0 > new.bound
    assert any_of_user.bound_basis == profile.answer(question).bound_basis == "quantile"


@pytest.mark.parametrize(("applications", "seed"), [(6, 1), (20, 2), (54, 3)])
def test_a_young_site_with_one_user_and_requests_is_held_from_the_start(applications: int, seed: int) -> None:
    """Workflows: each application is a wave of tasks submitted at once, most of them small beside the request."""
    rng = np.random.default_rng(seed)
    rows, start = [], 0.0
    for k in range(applications):
        request = float(rng.choice([1, 4, 16, 64])) * 1024 * MIB
        level = request * float(rng.uniform(0.002, 0.7))
        n = int(rng.integers(40, 160)) if applications < 50 else int(rng.integers(10, 60))
        for i in range(n):
            begin = start + i // 40 * 300.0
            used = min(request, level * float(rng.lognormal(0, 0.15)))
            rows.append((begin, begin + float(rng.uniform(100, 900)), Question("me", f"a{k}", "q", 1, request), used))
        start += float(rng.choice([100.0, 1500.0]))
    jobs = workload(rows)
    replayed = replay_jobsight(jobs, "completion")
    held = coverages(
        replayed.bounds, replayed.forecasts, jobs.values, jobs.seconds, np.argsort(jobs.ended, kind="stable"), []
    )
    assert held["lowest_so_far"] >= 0.91
    assert (replayed.bounds <= jobs.requested).all()
    assert np.nansum((replayed.bounds - jobs.values) * jobs.seconds) < np.sum(
        (jobs.requested - jobs.values) * jobs.seconds
    )


def test_no_run_time_beyond_an_enforced_request() -> None:
    """Neither forecast nor bound, as long as jobs keep to what they request; then both."""

    def asked(profile: Profile, request: float) -> tuple[float, float]:
        answer = profile.answer(Question("x", "a", None, 1, None, request))
        assert answer.value is not None
        return answer.value, not_none(answer.bound)

    profile = Profile("s", metric="runtime")
    for _ in range(60):
        profile.learn(Question("x", "a", None, 1, None, 4000.0), 3600.0)
    assert max(asked(profile, 600.0)) <= 600.0
    for _ in range(60):
        profile.learn(Question("x", "b", None, 1, None, 100.0), 3000.0)
    assert min(asked(profile, 600.0)) > 600.0


@pytest.mark.parametrize(("times", "followed"), [(1.05, True), (6.0, False)])
def test_users_who_know_better_are_followed_and_others_are_not(times: float, followed: bool) -> None:
    """Unpredictable run times; users request a little more, or several times as much."""
    profile = Profile("s", metric="runtime")
    for used in np.random.default_rng(7).lognormal(8.0, 2.0, 400).tolist():
        profile.learn(Question("x", "a", None, 1, None, times * used), used, seconds=used)
    answer = profile.answer(Question("x", "a", None, 1, None, 1e6))
    assert (answer.bound == 1e6) is followed
    assert (answer.bound_basis == "request") is followed
    restored = make.profile_of(profile.state(), "runtime", "s")
    assert restored.answer(Question("x", "a", None, 1, None, 1e6)) == answer


def test_the_share_of_the_request_is_a_candidate() -> None:
    """Jobs that always use a third of what they request, which is never the same twice."""
    profile = Profile("s", metric="runtime")
    rng = np.random.default_rng(5)
    missed = []
    for request in rng.uniform(100, 100_000, 300).round().tolist():
        question = Question("x", "a", None, 1, None, request)
        forecast = profile.forecast_job(question)
        if forecast.value is not None:
            missed.append(abs(forecast.value - request / 3) / (request / 3))
        profile.learn(question, request / 3, forecast)
    assert np.mean(missed[100:]) < 0.02
    answer = profile.answer(Question("x", "a", None, 1, None, 9000.0))
    assert "share of request" in not_none(answer.level)
    assert answer.last_values[-1] == pytest.approx(3000.0)
    far_below = profile.answer(Question("x", "a", None, 1, None, 10.0))
    assert (far_below.bound, far_below.limited_by_request) == (10.0, True)
    assert (far_below.need or 0.0) > 0.9 * 100 / 3, "shares of requests of 100 and more say nothing of 10"


def test_coverages_by_hand() -> None:
    n = 1000
    values, seconds = np.ones(n), np.ones(n)
    values[-10:], seconds[-10:] = 10.0, 100.0
    bounds = np.full(n, 5.0)
    bounds[:2] = np.nan
    users = [np.arange(0, 990), np.arange(990, 1000)]
    found = coverages(bounds, values, values, seconds, np.arange(n), users)
    assert found["cost_coverage"] == pytest.approx(988 / (988 + 10_000))
    assert found["lowest_so_far"] == pytest.approx(988 / 998)
    assert found["windows"] == {"windows": 1, "worst": 1.0, "p5": 1.0, "low": 0.0}
    assert found["users"] == {"users": 1, "worst": 1.0, "low": 0}
    nothing = coverages(bounds * np.nan, values, values, seconds, np.arange(n), users)
    assert nothing["lowest_so_far"] is None
    assert nothing["cost_coverage"] is None


def test_both_coverages_of_a_profile() -> None:
    profile = Profile("bytes")
    question = Question(user="x")
    for _ in range(99):
        profile.learn(question, 1.0, seconds=1.0)
    profile.learn(question, 1000.0, seconds=10.0)
    answer = profile.answer(question)
    assert answer.observed_coverage == pytest.approx(98 / 99)
    assert answer.observed_cost_coverage == pytest.approx(98 / (98 + 10_000))
