"""Amounts as whole numbers, so that what fits is decided without rounding errors."""

from __future__ import annotations

import numpy as np

from .arrays import Floats, Integers

_EXACT = 2.0**53
_BITS = 61
_DECIMALS = 15


def in_units(amounts: Floats, totals: Floats, used: Floats, counts: Integers) -> tuple[Integers, Integers]:
    """``amounts`` of ``counts`` instances each and the free capacities (``totals - used``) in one unit, as integers.

    The unit is the largest power of ten of which all are multiples, as they are written: 0.1 + 0.2 fits into 0.3. Where
    there is none (numbers of 17 digits), it is the power of two of which the largest has 2^61. Amounts of which this
    cuts off a bit (below a 256th of the largest) are rounded down and capacities up: whatever fits is found to fit, and
    what does not by less than a unit is withdrawn by check.py. An amount above every capacity is given as one more than
    the largest of them, a capacity that no sum of amounts fills as that sum.
    """
    used = np.minimum(used, totals)
    wanted = float((amounts * counts).sum()) if len(amounts) else 0.0
    largest = float(totals.max(initial=0.0))
    asked = np.minimum(amounts, largest * 2.0 + 1.0) if largest < 1e300 else amounts
    for decimals in range(_DECIMALS + 1):
        scale = 10.0**decimals
        if max(largest, float(asked.max(initial=0.0))) * scale >= _EXACT:
            break
        whole = [np.rint(values * scale) for values in (asked, totals, used)]
        given = (asked, totals, used)
        if all(np.array_equal(found / scale, values) for found, values in zip(whole, given, strict=True)):
            free = np.maximum(whole[1] - whole[2], 0.0)
            return _clamped(whole[0].astype(np.int64), free.astype(np.int64))
    ceiling = min(wanted, largest) if np.isfinite(wanted) else largest
    unit = 2.0 ** (np.ceil(np.log2(max(ceiling, 1e-290))) - _BITS)
    most = 2.0**_BITS
    left = totals - used
    back = left - totals
    lost = (totals - (left - back)) - (used + back)  # what left was rounded by, exactly (Knuth's two-sum)
    with np.errstate(over="ignore"):
        needs = np.floor(np.minimum(amounts / unit, 2.0 * most))
        down = np.floor(np.minimum(left / unit, most))
        rest = np.where(down < most, np.ceil(left / unit - down + lost / unit), 0.0)
    is_least = (needs == 0.0) & (
        amounts > 0.0
    )  # 0 is for what is not asked: these are 1, and capacities more by as much
    more = int(counts[is_least].sum())
    free = np.maximum(down.astype(np.int64) + rest.astype(np.int64), 0)
    return _clamped(needs.astype(np.int64) + is_least, free + np.where(free > 0, more, 0))


def _clamped(needs: Integers, free: Integers) -> tuple[Integers, Integers]:
    return np.minimum(needs, free.max(initial=0) + 1), free
