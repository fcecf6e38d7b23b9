"""The grid resource vector against values worked by hand; ranks of machines without history."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobsight_predictor.reliability.rank import ranked
from jobsight_predictor.reliability.resource_vector import SuccessRecord, after_job, blamed, capacities, vectors

H = 3600.0


def test_terms_by_hand() -> None:
    found = vectors(
        np.array([0.0, 6 * H, 24 * H, 100 * H]),
        np.array([0.0, 5.0, -20.0, 20.0]),
        np.array([0.0, 3.0, 99.0, 24.0]),
        np.array([1.0, 0.5, 0.25, 0.25]),
    )
    assert found.availability.tolist() == [0.0, 0.25, 1.0, 1.0]
    assert found.success.tolist() == [0.5, 0.625, 0.0, 1.0]
    assert found.score == pytest.approx([1.5 / 3, 1.375 / 3, 1.25 / 3, 2.25 / 3])
    # JS may be off by 1/2, 1/4, 1/20, 1/10, within [0, 1].
    assert found.low == pytest.approx([1.0 / 3, 1.125 / 3, 1.25 / 3, 2.15 / 3])
    assert found.high == pytest.approx([2.0 / 3, 1.625 / 3, 1.30 / 3, 2.25 / 3])


def test_the_unknown_is_the_mean_of_the_others() -> None:
    three = vectors(np.zeros(3), np.zeros(3), np.full(3, 1e9), np.array([np.nan, 1.0, 0.5]))
    assert three.capacity == pytest.approx([0.75, 1.0, 0.5])
    assert three.high[0] - three.low[0] == pytest.approx((1.0 - 0.25) / 3, abs=1e-4)


def test_success_by_hand() -> None:
    record = SuccessRecord()
    for end in ("success", "success", "evicted", "requeued", "checkpointed", "failed", "user-failed"):
        record = after_job(record, end)
    assert record == SuccessRecord(-2.0, 2, 3, 1, 1)
    for _ in range(30):
        record = after_job(record, "success")
    assert record.score == 20.0


def test_capacity_normalised_and_unknown() -> None:
    flops, cores = np.array([4e9, 2e9, np.nan, 1e9]), np.array([2.0, 2.0, 8.0, 0.0])
    assert capacities(flops, cores)[:2].tolist() == [1.0, 0.5]
    assert np.isnan(capacities(flops, cores)[2:]).all()
    assert np.isnan(capacities(np.full(2, np.nan), cores[:2])).all()


def test_whom_a_failure_follows() -> None:
    assert blamed(machine_failures=5, machine_jobs=10, group_failures=0, group_jobs=40) == "failed"
    assert blamed(machine_failures=0, machine_jobs=40, group_failures=9, group_jobs=10) == "user-failed"
    assert blamed(0, 0, 0, 0) == "failed"


def test_order_ties_and_machines_without_history() -> None:
    score = np.array([0.5, 0.9, 0.5, 0.99, np.nan, 0.7])
    known = np.array([True, True, True, False, True, True])
    found = ranked(score, score, score, known)
    assert found.order.tolist() == [1, 5, 3, 0, 2, 4], "3 has no history: it counts with the mean, .65"
    assert found.score[3] == pytest.approx(0.65)
    assert ranked(score, score, score, known, eligible=score < 0.6).order.tolist() == [0, 2]
    assert ranked(np.full(3, 0.4), score[:3], score[:3], np.array([False, True, True])).order.tolist() == [1, 2, 0]


@given(st.lists(st.tuples(st.floats(allow_nan=True), st.booleans()), min_size=1, max_size=40))
def test_a_machine_without_history_is_never_first_where_another_has_one(machines: list[tuple[float, bool]]) -> None:
    score, known = np.array([value for value, _ in machines]), np.array([flag for _, flag in machines])
    found = ranked(score, score, score, known)
    assert sorted(found.order.tolist()) == list(range(len(machines)))
    if (known & np.isfinite(score)).any():
        assert known[found.order[0]]


@given(
    st.lists(
        st.tuples(*[st.one_of(st.floats(-1e30, 1e30), st.just(float("nan")))] * 4, st.floats(0, 1e9)),
        min_size=1,
        max_size=20,
    )
)
def test_terms_stay_in_range(machines: list[tuple[float, float, float, float, float]]) -> None:
    age, score, flops, cores, jobs = np.array(machines).T
    found = vectors(age, score, jobs, capacities(flops, cores))
    for term in (found.availability, found.success, found.capacity, found.score):
        assert ((term >= 0.0) & (term <= 1.0 + 1e-12)).all()
    assert (found.low <= found.score + 1e-12).all()
    assert (found.score <= found.high + 1e-12).all()
