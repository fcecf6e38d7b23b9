from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_predictor.evaluation.backtest import run_backtest
from jobsight_predictor.evaluation.jobs import Jobs, Protocol, grouped, in_time, known_when_asked
from jobsight_predictor.evaluation.replay import pqm_when_asked, replay_both, replay_forecaster, replay_jobsight
from jobsight_predictor.evaluation.scores import accuracies, auc, summary
from jobsight_predictor.forecasters import FORECASTERS
from jobsight_predictor.question import Question
from jobsight_predictor.series import accuracy, pqm, recent_pqm


def workload(n: int, seed: int = 1, users: int = 4) -> Jobs:
    rng = np.random.default_rng(seed)
    submitted = np.sort(rng.uniform(0, 1e5, n)).round(-1)  # some at the very same instant
    lasted = rng.choice([0.0, 10.0, 500.0, 20_000.0], n)
    who = rng.integers(0, users, n)
    values = rng.choice([100.0, 400.0, 401.0, 0.0], n) * (who + 1)
    return Jobs(
        name="made",
        metric="memory",
        questions=[Question(user=str(u), processors=int(u) + 1) for u in who],
        submitted=submitted,
        ended=submitted + lasted,
        values=values,
        seconds=np.maximum(lasted, 1.0),
        requested=np.where(rng.uniform(size=n) < 0.5, 500.0, np.nan),
        skipped={"no value": 2},
    )


def finished_before(jobs: Jobs, i: int, group: list[int]) -> list[int]:
    """By definition: the group's jobs that had ended when job i was submitted, in order of end."""
    order = sorted(group, key=lambda k: (jobs.ended[k], group.index(k)))
    before = order[: order.index(i)]
    return [k for k in before if jobs.ended[k] <= jobs.submitted[i]]


@pytest.mark.parametrize(("name", "protocol"), [*((name, "completion") for name in FORECASTERS), ("locality", "start")])
def test_forecasts_are_those_of_the_jobs_that_had_ended(name: str, protocol: Protocol) -> None:
    jobs = waiting()
    users = grouped([question.user for question in jobs.questions])
    forecasts = replay_forecaster(name, jobs, users, protocol)
    asked = replace(jobs, submitted=jobs.started) if protocol == "start" else jobs
    for user in users:
        for i in user.tolist():
            forecaster = FORECASTERS[name]()
            for k in finished_before(asked, i, user.tolist()):
                forecaster.learn(float(jobs.values[k]))
            expected = forecaster.forecast()
            if expected is None:
                assert math.isnan(forecasts[i])
            else:
                assert forecasts[i] == pytest.approx(expected, rel=1e-9)


def test_submission_protocol_knows_every_earlier_job() -> None:
    jobs = workload(60)
    users = grouped([question.user for question in jobs.questions])
    forecasts = replay_forecaster("locality", jobs, users, "submission")
    for user in users:
        assert math.isnan(forecasts[user[0]])
        assert forecasts[user[1:]].tolist() == jobs.values[user[:-1]].tolist()


@settings(deadline=None, max_examples=60)
@given(times=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10)), max_size=25))
def test_events_come_in_time_and_never_from_the_future(times: list[tuple[int, int]]) -> None:
    n = len(times)
    times.sort()
    submitted = np.array([float(start) for start, _ in times])
    ended = submitted + np.array([float(lasted) for _, lasted in times])
    ones = np.ones(n)
    jobs = Jobs("made", "memory", [Question()] * n, submitted, ended, ones, ones, ones * np.nan)
    seen: list[tuple[str, int]] = list(in_time(jobs, "completion"))
    assert sorted(i for event, i in seen if event == "submit") == list(range(n))
    assert sorted(i for event, i in seen if event == "finish") == list(range(n))
    _, known = known_when_asked(submitted, ended)
    at: dict[int, int] = {}
    finished = 0
    for event, i in seen:
        if event == "submit":
            at[i] = finished
            assert all(
                ended[k] >= submitted[i] for k in range(n) if ("finish", k) not in seen[: seen.index((event, i))]
            )
        else:
            assert i in at
            finished += 1
    assert all(at[i] <= np.sum(ended <= submitted[i]) for i in range(n))
    assert known.shape == (n,)


def waiting(n: int = 150, seed: int = 7) -> Jobs:
    """A workload whose jobs wait before they start."""
    jobs = workload(n, seed)
    waited = np.random.default_rng(seed).choice([0.0, 100.0, 30_000.0], n)
    return replace(jobs, ended=jobs.ended + waited, seconds=np.maximum(jobs.ended - jobs.submitted, 1.0))


@settings(deadline=None, max_examples=60)
@given(times=st.lists(st.tuples(*[st.integers(0, 12)] * 3), max_size=25))
def test_a_start_sees_all_that_ended_before_it_and_nothing_else(times: list[tuple[int, int, int]]) -> None:
    n = len(times)
    submitted, waited, lasted = np.array(times, dtype=np.float64).reshape(n, 3).T
    ended = submitted + waited + lasted
    jobs = Jobs("made", "memory", [Question()] * n, submitted, ended, np.ones(n), lasted, np.full(n, np.nan))
    started = (submitted + waited).tolist()
    assert jobs.started.tolist() == started
    state: dict[int, str] = {}
    for event, i in in_time(jobs, "start"):
        assert (state.get(i), event) in ((None, "submit"), ("submit", "start"), ("start", "finish"))
        if event == "start":
            done = {k for k in range(n) if state.get(k) == "finish"}
            assert {k for k in range(n) if ended[k] <= started[i] and started[k] < ended[k]} - {i} <= done
            assert all(ended[k] <= started[i] for k in done)
        state[i] = event
    assert list(state.values()) == ["finish"] * n


def test_asking_again_leaves_the_forecasts_at_submission_as_they_are() -> None:
    jobs = waiting()
    first, again = replay_both(jobs)
    alone = replay_jobsight(jobs, "completion")
    assert np.array_equal(first.forecasts, alone.forecasts, equal_nan=True)
    assert np.array_equal(first.bounds, alone.bounds, equal_nan=True)
    learned, learned_alone = first.profile.state(), alone.profile.state()
    site, site_alone = learned.pop('["site"]').state, learned_alone.pop('["site"]').state
    [of_site], [of_site_alone] = site.pop("losses"), site_alone.pop("losses")
    assert of_site[0] == of_site_alone[0]  # of submissions; then of starts
    del site["calibration at start"], site_alone["calibration at start"]
    assert site == site_alone
    for key in [key for key in learned if key.startswith('["user"')]:
        user, user_alone = learned.pop(key).state, learned_alone.pop(key).state
        assert user[0][0] == user_alone[0][0]
        assert user[1:] == user_alone[1:]
    assert learned == learned_alone
    at_start = replay_jobsight(jobs, "start")
    assert np.array_equal(again.bounds, at_start.bounds, equal_nan=True)
    did_not_wait = jobs.started == jobs.submitted
    assert 0 < did_not_wait.sum() < len(jobs)
    assert not np.array_equal(first.forecasts[~did_not_wait], again.forecasts[~did_not_wait], equal_nan=True)


def test_pqm_is_that_of_the_jobs_that_had_ended() -> None:
    jobs = workload(120, seed=4)
    users = grouped([question.user for question in jobs.questions])
    whole, recent = pqm_when_asked(jobs, users, "completion")
    for user in users:
        for i in user.tolist():
            values = [float(jobs.values[k]) for k in finished_before(jobs, i, user.tolist())]
            for shown, expected in ((whole[i], pqm(values)), (recent[i], recent_pqm(values))):
                assert (math.isnan(shown) and expected is None) or shown == pytest.approx(expected)


def test_accuracies_and_summary_by_hand() -> None:
    forecasts = np.array([100.0, 150.0, np.nan, 0.0, 5.0])
    values = np.array([100.0, 100.0, 100.0, 0.0, 0.0])
    assert accuracies(forecasts, values).tolist() == [1.0, 0.5, 0.0, 1.0, 0.0]
    for forecast, value, shown in zip(forecasts, values, accuracies(forecasts, values), strict=True):
        if not math.isnan(forecast):
            assert shown == pytest.approx(accuracy(float(forecast), float(value)))
    users = [np.array([0, 1, 2]), np.array([3, 4])]
    line = summary(forecasts, values, users)
    assert line["micro"] == pytest.approx(2.5 / 4)
    assert line["macro"] == pytest.approx((0.75 + 0.5) / 2)
    assert line["jobs"] == 4
    assert line["share"] == pytest.approx(0.8)
    among = summary(forecasts, values, users, np.array([True, False, True, True, False]))
    assert among["micro"] == pytest.approx(2.0 / 2)
    assert among["jobs"] == 2
    assert among["share"] == pytest.approx(0.8)


def test_auc_is_the_share_of_pairs_in_order() -> None:
    rng = np.random.default_rng(5)
    scores = rng.integers(0, 6, 80).astype(float)
    positive = rng.uniform(size=80) < 0.4
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[positive] for b in scores[~positive]]
    assert auc(scores, positive) == pytest.approx(np.mean(pairs))
    assert auc(scores, np.ones(80, dtype=bool)) is None


def test_accuracy_is_reported_by_how_much_was_known() -> None:
    jobs = workload(150)
    account = run_backtest(jobs)
    lines = account["by_history"]
    answered = replay_jobsight(jobs, "completion").forecasts
    assert sum(line["jobs"] for line in lines) == np.sum(~np.isnan(answered)) < 150
    weighed = sum(line["jobs"] * line["micro"] for line in lines if line["jobs"])
    assert weighed == pytest.approx(accuracies(answered, jobs.values).sum())
    users = grouped([question.user for question in jobs.questions])
    known = [
        len(finished_before(jobs, i, user.tolist()))
        for user in users
        for i in user.tolist()
        if not math.isnan(answered[i])
    ]
    assert [line["jobs"] for line in lines[:3]] == [
        sum(k == 0 for k in known),
        sum(1 <= k < 5 for k in known),
        sum(5 <= k < 20 for k in known),
    ]


def test_every_line_is_scored_on_the_same_jobs() -> None:
    """Nothing can be known of the first job of all; of each user's first job the five know nothing."""
    users = ["a", "b", "c", "d"]
    n = 40
    times = np.arange(float(n))
    values = np.array([100.0 * (1 + i % 4) for i in range(n)])
    requested = np.where(times % 3 == 0, 1000.0, np.nan)
    questions = [Question(user=users[i % 4]) for i in range(n)]
    account = run_backtest(
        Jobs("made", "memory", questions, times, times + 0.5, values, np.ones(n), requested), baselines=True
    )
    assert account["compared"] == 36
    lines = [*account["forecasters"].values(), account["jobsight"]]
    assert {line["jobs"] for line in lines} == {36}
    assert [line["share"] for line in lines] == [36 / 40] * 6 + [39 / 40]
    assert account["hindsight"]["micro"] == 1.0
    rows = [account["bounds_compared"], *account["baselines"].values()]
    asked = sum(i % 3 == 0 for i in range(4, n))
    assert {row["jobs"] for row in rows} == {asked}
    assert [row["share"] for row in rows] == pytest.approx([39 / 40, 14 / 40, 36 / 40, 36 / 40, 36 / 40])
    assert account["bounds"]["jobs"] == 39


@settings(deadline=None, max_examples=30)
@given(values=st.lists(st.one_of(st.floats(0, 1e300), st.sampled_from([0.0, 1e-300, 1e300])), max_size=30))
def test_hostile_values_never_break_it(values: list[float]) -> None:
    n = len(values)
    times = np.arange(float(n))
    jobs = Jobs(
        "made", "memory", [Question(user="x")] * n, times, times + 1.5, np.array(values), np.ones(n), times * np.nan
    )
    account = run_backtest(jobs, forecasters=list(FORECASTERS))
    json.dumps(account, allow_nan=False)


def test_jobsight_beats_each_of_the_five_and_their_best_where_applications_differ() -> None:
    rng = np.random.default_rng(8)
    n = 1500
    application = rng.integers(0, 4, n)
    times = np.arange(n) * 100.0
    jobs = Jobs(
        name="made",
        metric="memory",
        questions=[Question(user="x", application=str(a)) for a in application],
        submitted=times,
        ended=times + rng.uniform(1, 1000, n),
        values=(application + 1.0) ** 2 * 100.0 * rng.uniform(0.95, 1.05, n),
        seconds=np.full(n, 60.0),
        requested=np.full(n, 5000.0),
    )
    account = run_backtest(jobs)
    ours = account["jobsight"]["micro"]
    assert ours > 0.9
    assert all(ours > line["micro"] + 0.2 for line in account["forecasters"].values())
    assert ours > account["hindsight"]["micro"]
    assert account["bounds"]["maq"] > account["baselines"]["maximum"]["maq"]
    assert account["quality"]["auc"] is None or account["quality"]["auc"] >= 0.5


def test_what_is_no_workload_is_refused() -> None:
    ones = np.ones(2)
    with pytest.raises(ValueError, match="ended before"):
        Jobs("made", "memory", [Question()] * 2, ones, ones - 1, ones, ones, ones)
    with pytest.raises(ValueError, match="nan"):
        Jobs("made", "memory", [Question()] * 2, ones, ones, ones * np.nan, ones, ones)
    with pytest.raises(ValueError, match="unknown forecasters"):
        run_backtest(workload(3), forecasters=["oracle"])
