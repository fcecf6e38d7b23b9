"""Sums over users with their intervals, by bootstrap: what would change if other users like these ran their jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import inf

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from jobsight_server.ground.answers import Record

LEVEL = 0.9
FEWEST_USERS = 5
"""Fewer users give no interval, as in trials."""
_RESAMPLES = 1000


class Freed(Record):
    """An amount over all ``users`` with counted jobs, and the ends of its interval, null with fewer than five users.

    ``low`` and ``high``: 5 % and 95 % of the amounts of users drawn at random, with replacement.
    """

    users: int
    amount: float
    low: float | None
    high: float | None

    def times(self, factor: float) -> Freed:
        """Return the same in another unit."""
        low, high = (None if end is None else end * factor for end in (self.low, self.high))
        return Freed(self.users, self.amount * factor, low, high)


def over_users(amounts: Iterable[float], most: float = inf) -> Freed:
    """Return the sum over users with its interval (percentile bootstrap), the same in every run.

    ``most``: an amount that cannot be exceeded, such as what was requested; drawing a user twice could.
    """
    found = over_users_each([list(amounts)])[0]
    return found if found.high is None else msgspec.structs.replace(found, high=min(found.high, most))


def over_users_each(amounts: ArrayLike, spans: Sequence[Sequence[int] | NDArray[np.int64]] = ()) -> list[Freed]:
    """Return the same for each row of ``amounts``, of which a column is a user: all rows share the drawn users.

    ``spans``: further sums of some of the rows.
    """
    each = np.asarray(amounts, dtype=np.float64)
    users, totals = each.shape[1], each.sum(axis=1)
    totals = np.concatenate([totals, [totals[span].sum() for span in spans]])
    if users < FEWEST_USERS:
        return [Freed(users, float(total), None, None) for total in totals]
    sums, counts = np.zeros((_RESAMPLES, len(each))), each.any(axis=1)
    by_user = np.ascontiguousarray(each[counts].T)
    # Few draws at a time: a product of large matrices wakes threads that cost more than it does.
    sums[:, counts] = np.concatenate([drawn @ by_user for drawn in np.split(_draws(users), _RESAMPLES // 4)])
    sums = np.column_stack([sums, *(sums[:, span].sum(axis=1) for span in spans)])
    lows, highs = np.quantile(sums, ((1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0), axis=0)
    return [Freed(users, *map(float, of)) for of in zip(totals, lows, highs, strict=True)]


@lru_cache(2)  # the same for as many users, at a byte each for a draw
def _draws(users: int) -> NDArray[np.uint8]:
    """Return how often each user is drawn in each resample."""
    random = np.random.default_rng(0)
    draws = (random.integers(0, users, users) for _ in range(_RESAMPLES))
    return np.array([np.bincount(drawn, minlength=users).astype(np.uint8) for drawn in draws])
