"""Orders in which nodes are filled, besides the smallest that are large enough."""

from __future__ import annotations

from collections.abc import Sequence

from jobsight_papers.overprovisioning.cluster.nodes import Choose, Taken, in_turn, smallest_fit


def largest_first(free: Sequence[int], needed: int, count: int) -> Taken:
    """Fill the largest first."""
    return in_turn(free, range(len(free) - 1, needed - 1, -1), count)


def proportional(free: Sequence[int], needed: int, count: int) -> Taken:
    """Fill each class in proportion to its free nodes; the remainder from rounding is taken from the smallest that have
    more.
    """
    total = sum(free[needed:])
    shares = [free[place] * count // total for place in range(needed, len(free))]
    left = count - sum(shares)
    for i, share in enumerate(shares):
        more = min(left, free[needed + i] - share)
        shares[i] += more
        left -= more
    return tuple([(needed + i, share) for i, share in enumerate(shares) if share])


ORDERS: dict[str, Choose] = {
    "smallest-fit": smallest_fit,
    "largest-first": largest_first,
    "proportional": proportional,
}
