from __future__ import annotations

import numpy as np
import pytest
from tests.make import not_none

from jobsight_predictor.evaluation.baselines import BASELINES, FirstAllocation
from jobsight_predictor.evaluation.cost import reservation_cost
from jobsight_predictor.profile.reserve import RETRIES, wasted


def test_cost_of_a_few_jobs_by_hand() -> None:
    reserved = np.array([100.0, 50.0, np.nan, 10.0])
    values = np.array([80.0, 80.0, 7.0, 35.0])
    seconds = np.array([10.0, 1.0, 1.0, 2.0])
    paid = not_none(reservation_cost(reserved, values, seconds))
    # 20 x 10 idle; 50 lost, then 20 idle; (10 + 20) x 2 lost, then 5 x 2 idle.
    assert paid.wasted == pytest.approx(200 + 70 + 70)
    assert (paid.jobs, paid.failures) == (3, 2)
    used = 800 + 80 + 70
    assert paid.maq == pytest.approx(used / (used + 340))


@pytest.mark.parametrize("reserved", [0.0, 1e-300, 3.0, 10.0, 35.0, 70.0])
@pytest.mark.parametrize("value", [0.0, 10.0, 35.0, 1e12])
def test_the_waste_of_one_job_is_its_share_of_the_cost(reserved: float, value: float) -> None:
    paid = not_none(reservation_cost(np.array([reserved, 1e9]), np.array([value, 1e9]), np.array([3.0, 1.0])))
    assert 3.0 * wasted(reserved, value) == pytest.approx(paid.wasted, rel=1e-6)


def test_a_reservation_of_nothing_ends_after_so_many_retries() -> None:
    paid = not_none(reservation_cost(np.array([0.0, 1e-300]), np.array([5.0, 1e300]), np.array([1.0, 1.0])))
    assert paid.failures == 2
    assert 0.0 < paid.maq <= 1.0
    assert RETRIES == 10


def test_no_reservation_has_no_cost() -> None:
    assert reservation_cost(np.array([np.nan]), np.array([1.0]), np.array([1.0])) is None


def test_baselines_on_a_known_history() -> None:
    history = list(range(1, 101))
    answers = {}
    for name, baseline in BASELINES.items():
        reserve = baseline()
        assert reserve.reserve() is None
        for value in history:
            reserve.learn(float(value), 1.0)
        answers[name] = reserve.reserve()
    assert answers["maximum"] == 100.0
    assert answers["p90-x-1.15"] == pytest.approx(91 * 1.15)


def test_first_allocation_is_the_least_waste_of_all_values() -> None:
    rng = np.random.default_rng(2)
    values, seconds = rng.lognormal(5, 1, 300), rng.uniform(1, 100, 300)
    rule = FirstAllocation()
    for value, lasted in zip(values.tolist(), seconds.tolist(), strict=True):
        rule.learn(value, lasted)

    def expected(a: float) -> float:
        above = values > a
        return float((a * seconds[~above]).sum() + ((a + values.max()) * seconds[above]).sum())

    answer = not_none(rule.reserve())
    assert expected(answer) <= min(expected(a) for a in values) * (1 + 1e-9)
