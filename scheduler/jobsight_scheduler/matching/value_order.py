"""Preferences by the values of an attribute: what is better than what, as ranks."""

from __future__ import annotations

from .problem import Scalar, ValueOrder


def ranks(order: ValueOrder) -> dict[Scalar, float]:
    """For each value of ``order`` how many steps down from it the longest way to a worst value is.

    Raises:
        ValueError: a value is better than itself, by way of others; the message has them.
    """
    worse: dict[Scalar, set[Scalar]] = {}
    above: dict[Scalar, int] = {}
    for better, than in order.better:
        for value in (better, than):
            worse.setdefault(value, set())
            above.setdefault(value, 0)
        if than not in worse[better]:
            worse[better].add(than)
            above[than] += 1
    sorted_down = [value for value, count in above.items() if not count]
    for value in sorted_down:  # grows meanwhile: Kahn's topological order
        for than in worse[value]:
            above[than] -= 1
            if not above[than]:
                sorted_down.append(than)
    if len(sorted_down) < len(worse):
        left = [repr(value) for value, count in above.items() if count]
        raise ValueError(f"the preference is cyclic among {', '.join(left[:5])}; remove one of its pairs")
    found: dict[Scalar, float] = {}
    for value in reversed(sorted_down):
        found[value] = 1.0 + max((found[than] for than in worse[value]), default=-1.0)
    return found
