from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_predictor.series import Pqm, accuracy, pqm, recent_pqm, within20

values_strategy = st.lists(st.sampled_from([0.0, 80.0, 81.0, 100.0, 119.0, 120.0, 500.0]), max_size=60)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([5.0], None),
        ([100.0, 100.0], 1.0),
        ([100.0, 119.9, 120.0, 80.0], 0.5),  # exactly 20 % off does not count
        ([0.0, 0.0, 1e-300, 4.0], 0.5),
        ([4.0, 0.0], 0.5),
    ],
)
def test_pqm(values: list[float], expected: float | None) -> None:
    assert pqm(values) == expected


def test_recent_pqm_forgets_and_looks_from_the_last() -> None:
    values = [10.0] * 100 + [500.0] * 20
    assert recent_pqm(values) == 1.0
    assert pqm(values) == pytest.approx(100 / 120)
    assert recent_pqm([*values, 10.0]) == pytest.approx(1 / 20)


@settings(deadline=None, max_examples=80)
@given(values=values_strategy)
def test_growing_pqm_equals_the_one_of_the_list(values: list[float]) -> None:
    growing = Pqm()
    for i, value in enumerate(values):
        growing.learn(value)
        assert growing.pqm() == pqm(values[: i + 1])
        assert growing.recent_pqm() == recent_pqm(values[: i + 1])
    restored = Pqm.from_state(json.loads(json.dumps(growing.state())))
    assert restored.state() == growing.state()
    assert growing.n == len(values)
    assert growing.last_values == tuple(values[-20:])
    series = np.array(values)
    if len(values) >= 2 and series[0] > 0:
        assert pqm(values) == np.mean(np.abs(series - series[0]) < 0.2 * series[0])


def test_accuracy_of_one_forecast() -> None:
    assert accuracy(100.0, 100.0) == 1.0
    assert accuracy(150.0, 100.0) == 0.5
    assert accuracy(0.0, 100.0) == 0.0
    assert accuracy(1e9, 100.0) == 0.0
    assert accuracy(0.0, 0.0) == 1.0
    assert accuracy(1e-300, 0.0) == 0.0
    assert accuracy(1e300, 1e-300) == 0.0


def test_within20() -> None:
    assert within20(120.0, 100.0)
    assert not within20(121.0, 100.0)
    assert within20(0.0, 0.0)
    assert not within20(1.0, 0.0)
