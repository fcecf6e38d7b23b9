"""How far the instances to come can still fill what is left of the resources: the bounds of exact_fit.py.

What they cannot fill is lost, and of each kind only so much may be lost as all capacities exceed all needs. The sums
that needs can come to on a resource are the bits of a whole number: of each kind alone, which gives what is lost at
least, and of all kinds together, which says whether a resource can be filled up to what may be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

SUMS_AT_MOST = 20_000
"""Bits of a set of sums; larger ones are left out, and everything counts as a sum."""

IsLost = Callable[[int, int, float], bool]
"""Of the next level, what is left (packed) and the budget: whether the instances from it on cannot all be placed."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Where in a whole number what is left of each resource and kind is.

    It has ``width`` bits from ``shifts``, and a guard bit above, which ``guards`` has for each resource. ``prices`` are
    of one unit of each.
    """

    width: int
    shifts: list[list[int]]
    guards: list[int]
    prices: list[list[float]]

    def packed(self, resource: int, values: Sequence[int]) -> int:
        """``values`` of the kinds in the fields of a resource."""
        return sum(value << shift for value, shift in zip(values, self.shifts[resource], strict=True))


def fields_of(free: Sequence[Sequence[int]], prices: list[list[float]]) -> Fields:
    """Fields for capacities of up to ``free`` of each resource and kind."""
    width = max((value for row in free for value in row), default=0).bit_length()
    kinds = len(prices[0]) if prices else 0
    shifts = [[(resource * kinds + kind) * (width + 1) for kind in range(kinds)] for resource in range(len(prices))]
    return Fields(width, shifts, [sum(1 << shift + width for shift in row) for row in shifts], prices)


def bound(
    fields: Fields, free: list[list[int]], needs: list[list[int]], on: list[list[int]], spare: list[int]
) -> IsLost:
    """The bound for instances with ``needs``, placed in this order, each ``on`` one of these resources.

    ``free`` is what the resources have, ``spare`` how much of each kind may be lost.
    """
    by_kind, together = _by_kind(fields, needs, on, spare), _together(fields, free, needs, on, spare)
    if together is None:
        return by_kind
    return lambda level, left, budget: together(level, left) or by_kind(level, left, budget)


def _by_kind(fields: Fields, needs: list[list[int]], on: list[list[int]], spare: list[int]) -> IsLost:
    field, full, shifts = (1 << fields.width) - 1, sum(fields.guards), fields.shifts
    is_summed = field <= SUMS_AT_MOST
    every = (2 << field) - 1
    reach = [
        # Of each kind: its place, the sums (-1 has every bit), the price of a unit.
        (guard, [(kind, shift, 1 if is_summed else -1, price) for kind, (shift, price) in enumerate(places)])
        for guard, places in zip(fields.guards, map(_pairs, shifts, fields.prices), strict=True)
    ]
    lowest = [[field] * len(row) for row in shifts]
    smallest = sum(fields.packed(resource, row) for resource, row in enumerate(lowest))
    levels = []
    for need, resources in zip(reversed(needs), reversed(on), strict=True):
        reach = reach[:]
        for resource in resources:
            if is_summed:
                guard, kinds = reach[resource]
                reach[resource] = (
                    guard,
                    [
                        (kind, shift, (sums | sums << amount) & every, price)
                        for (kind, shift, sums, price), amount in zip(kinds, need, strict=True)
                    ],
                )
            for kind, (low, amount) in enumerate(zip(lowest[resource], need, strict=True)):
                if amount < low:
                    lowest[resource][kind] = amount
                    smallest -= low - amount << shifts[resource][kind]
        levels.append((smallest, reach))
    levels.reverse()

    def is_lost(level: int, left: int, budget: float) -> bool:
        smallest, reach = levels[level]
        fits = (left - smallest) & full
        may_be = spare[:]
        for guard, kinds in reach:
            is_open = fits & guard == guard  # otherwise nothing fits, and all of it is lost
            for kind, shift, sums, price in kinds:
                rest = left >> shift & field
                if is_open:
                    if sums >> rest & 1:
                        continue
                    rest += 1 - (sums & (1 << rest) - 1).bit_length()
                may_be[kind] -= rest
                budget -= rest * price
        return budget < 0.0 or min(may_be, default=0) < 0

    return is_lost


def _together(
    fields: Fields, free: list[list[int]], needs: list[list[int]], on: list[list[int]], spare: list[int]
) -> Callable[[int, int], bool] | None:
    """Sums of all kinds together: one bit each, at its amounts times the strides of their kinds.

    Below each kind there is room for the window of what may be lost, and for sums that exceed the largest capacity and
    run over into it: they are cleared.
    """
    largest = [max(column) for column in zip(*free, strict=True)]
    window = list(map(min, spare, largest))
    room = [max(lost, *column) for lost, column in zip(window, zip(*needs, strict=True), strict=True)]
    strides = [1]
    for above, below in zip(largest, room, strict=True):
        strides.append(strides[-1] * (below + above + 1))
    if len(spare) < 2 or strides[-1] > SUMS_AT_MOST:
        return None
    valid = _box(room, list(map(sum, zip(room, largest, strict=True))), strides)
    filled = _box([0] * len(spare), window, strides)
    start = sum((below - lost) * stride for below, lost, stride in zip(room, window, strides, strict=False))
    sums = [1 << sum(below * stride for below, stride in zip(room, strides, strict=False))] * len(free)
    levels = []
    for need, resources in zip(reversed(needs), reversed(on), strict=True):
        sums = sums[:]
        add = sum(amount * stride for amount, stride in zip(need, strides, strict=False))
        for resource in resources:
            sums[resource] |= sums[resource] << add & valid
        levels.append([(_pairs(shifts, strides), bits) for shifts, bits in zip(fields.shifts, sums, strict=True)])
    levels.reverse()
    field = (1 << fields.width) - 1

    def is_lost(level: int, left: int) -> bool:
        for places, bits in levels[level]:
            at = start
            for shift, stride in places:
                at += (left >> shift & field) * stride
            if not bits >> at & filled:
                return True
        return False

    return is_lost


def _box(lows: list[int], highs: list[int], strides: list[int]) -> int:
    """The bits of all sums from ``lows`` to ``highs``."""
    bits = 1
    for low, high, stride in zip(lows, highs, strides, strict=False):
        bits = sum(bits << amount * stride for amount in range(low, high + 1))
    return bits


def _pairs(places: list[int], values: Sequence[T]) -> list[tuple[int, T]]:
    return list(zip(places, values, strict=False))
