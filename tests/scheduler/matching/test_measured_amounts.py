"""Amounts as sites have them, measured floats and bytes: the answer is as good, and no memory goes by their size."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jobsight_scheduler.matching.eligibility import in_units

AMOUNTS = st.floats(1e-3, 1.0, exclude_min=True).map(lambda share: share * 100.0)


@given(
    amounts=st.lists(AMOUNTS, min_size=1, max_size=4, unique=True),
    capacities=st.lists(st.tuples(AMOUNTS, st.floats(0.0, 1.0)), min_size=1, max_size=4),
    chosen=st.integers(1, 15),
)
def test_what_fits_exactly_fits_in_units(
    amounts: list[float], capacities: list[tuple[float, float]], chosen: int
) -> None:
    """Also where a job needs all that there is, to the last bit: a capacity is the sum of the chosen amounts."""
    is_chosen = [bool(chosen >> index & 1) for index in range(len(amounts))]
    some = [amount for amount, flag in zip(amounts, is_chosen, strict=True) if flag]
    totals = np.array([math.fsum(some), *(total for total, _ in capacities)])
    used = np.array([0.0, *(total * share for total, share in capacities)])
    needs, free = in_units(np.array(amounts), totals, used, np.ones(len(amounts), dtype=np.int64))
    needed = int(needs[is_chosen].sum())
    for total, taken, has in zip(totals.tolist(), used.tolist(), free.tolist(), strict=True):
        if sum(map(Fraction, some)) <= Fraction(total) - Fraction(taken):
            assert needed <= has
        for need, amount in zip(needs.tolist(), amounts, strict=True):
            if Fraction(amount) > (Fraction(total) - Fraction(taken)) * (1 + Fraction(1, 10**12)):
                assert need > has
