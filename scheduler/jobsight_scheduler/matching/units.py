"""Amounts as whole numbers, so that what fits is decided without rounding errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_EXACT = 2.0**53
_BITS = 60
_DECIMALS = 15


def in_units(amounts: Floats, totals: Floats, used: Floats, counts: Integers) -> tuple[Integers, Integers]:
    """``amounts`` of ``counts`` instances each and the free capacities (``totals - used``) in one unit, as integers.

    The unit is the largest power of ten of which all are multiples, as they are written: 0.1 + 0.2 fits into 0.3. Where
    there is none (numbers of 17 digits), it is a power of two small enough for errors of 2^-53 of the largest; amounts
    are then rounded up and capacities down, so that nothing is overfilled. An amount above every capacity is given as
    one more than the largest of them, a capacity that no sum of amounts fills as that sum.
    """
    used = np.minimum(used, totals)
    wanted = float((amounts * counts).sum()) if len(amounts) else 0.0
    largest = float(totals.max(initial=0.0))
    ceiling = min(wanted, largest) if np.isfinite(wanted) else largest
    asked = np.minimum(amounts, largest * 2.0 + 1.0) if largest < 1e300 else amounts
    for decimals in range(_DECIMALS + 1):
        scale = 10.0**decimals
        if max(largest, float(asked.max(initial=0.0))) * scale >= _EXACT:
            break
        whole = [np.rint(values * scale) for values in (asked, totals, used)]
        given = (asked, totals, used)
        if all(np.array_equal(found / scale, values) for found, values in zip(whole, given, strict=True)):
            free = np.maximum(whole[1] - whole[2], 0.0)
            return _clamped(whole[0].astype(np.int64), free.astype(np.int64), counts)
    unit = 2.0 ** (np.ceil(np.log2(max(ceiling, 1e-290))) - _BITS)
    free = np.clip(np.nextafter(totals - used, -np.inf), 0.0, None)
    free = np.where(_is_exact(totals, used), totals - used, free)
    most = 2.0**_BITS
    with np.errstate(over="ignore"):
        needs = np.where(amounts > 0.0, np.maximum(np.ceil(np.minimum(amounts / unit, 2.0 * most)), 1.0), 0.0)
        has = np.floor(np.minimum(free / unit, most))
    return _clamped(needs.astype(np.int64), has.astype(np.int64), counts)


def _is_exact(totals: Floats, used: Floats) -> NDArray[np.bool_]:
    """Where ``totals - used`` is what it is in decimals: of whole numbers of which it loses no bit, and of nothing."""
    left = totals - used
    whole = (totals == np.rint(totals)) & (used == np.rint(used))
    found: NDArray[np.bool_] = (used == 0.0) | (
        whole & (totals >= used) & (left + used == totals) & (totals - left == used)
    )
    return found


def _clamped(needs: Integers, free: Integers, counts: Integers) -> tuple[Integers, Integers]:
    return np.minimum(needs, free.max(initial=0) + 1), free
