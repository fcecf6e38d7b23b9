"""Need against the size of a job's input."""

from __future__ import annotations

import random

from tests.make import not_none

from jobsight_server.decision.by_size import need_by_size
from jobsight_server.decision.evidence import Evidence, RunUse, Says, Shape
from jobsight_server.decision.rule import Limits, decide

GIB = 2.0**30


def sized(gb: float) -> Shape:
    return Shape(1, 0, 64 * GIB, 3600.0, (("input_bytes", gb * 1e9),))


def learned(sizes: list[float], slope: float = 3.0, noise: float = 0.01, says: Says = "exact") -> Evidence:
    draw, found = random.Random(1), Evidence()
    for number, gb in enumerate(sizes):
        need = (1.0 + slope * gb) * GIB * (1.0 + noise * draw.random())
        found.add(RunUse(sized(gb), 1000.0 * number, 1000.0 * number + 600.0, says, need, 64 * GIB))
    return found


SIZES = [1.0 + 0.1 * number for number in range(40)]


def test_need_grows_with_the_size() -> None:
    rows = learned(SIZES).rows
    for gb in (0.2, 2.0, 5.0):
        found = not_none(need_by_size(rows, sized(gb).facts))
        assert 1.0 <= found.need / ((1.0 + 3.0 * gb) * GIB) <= 2.0 if gb < 1.0 else 1.05
        assert not found.is_beyond


def test_beyond_all_sizes_the_request_stays_unless_the_need_is_above_it() -> None:
    found, limits = learned(SIZES), Limits()
    assert decide("memory", found, sized(9.0), None, limits).kept == "larger"
    assert not_none(decide("memory", found, sized(30.0), None, limits).amount) >= 91 * GIB
    assert not_none(decide("memory", found, sized(2.0), None, limits).amount) <= 8 * GIB


def test_sizes_of_a_single_burst_raise_nothing() -> None:
    """The small ones end first, and their line says nothing of the large ones."""
    found = Evidence()
    for number, gb in enumerate(SIZES[:20]):
        found.add(RunUse(sized(gb), 1000.0, 2000.0 + number, "exact", (1.0 + 3.0 * gb) * GIB, 64 * GIB))
    assert decide("memory", found, sized(30.0), None, Limits()).amount is None
    for number, gb in enumerate(SIZES[:3]):
        found.add(RunUse(sized(gb), 3000.0, 4000.0 + number, "exact", (1.0 + 3.0 * gb) * GIB, 64 * GIB))
    assert not_none(decide("memory", found, sized(30.0), None, Limits()).amount) >= 91 * GIB


def test_a_size_that_explains_nothing_is_no_fit() -> None:
    assert need_by_size(learned(SIZES, slope=0.0, noise=0.5).rows, sized(2.0).facts) is None
    assert need_by_size(learned(SIZES).rows, (("samples", 3.0),)) is None
    assert need_by_size(learned([2.0] * 20).rows, sized(2.0).facts) is None
    assert need_by_size(learned(SIZES[:7]).rows, sized(2.0).facts) is None


def test_a_need_that_falls_with_the_size_is_not_extrapolated() -> None:
    assert need_by_size(learned(SIZES, slope=-0.2).rows, sized(2.0).facts) is None
