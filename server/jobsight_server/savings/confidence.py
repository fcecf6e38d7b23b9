"""Sums over users with their intervals, by bootstrap: what would change if other users like these ran their jobs."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from jobsight_scheduler.figures import resampled_each
from jobsight_server.ground.answers import Record

LEVEL = 0.9
FEWEST_USERS = 5
"""Fewer users give no interval, as in trials."""
_RESAMPLES = 1000  # a page draws them for thousands of users


class Freed(Record):
    """An amount over all ``users`` with counted jobs, and the ends of its 90 % interval over users (bootstrap-t).

    ``low`` and ``high`` are null with fewer than five users, or if so few differ from the others that they are unknown.
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
    """Return the sum over users with its interval, the same in every run.

    ``most``: an amount that cannot be exceeded, such as what was requested; drawing a user twice could.
    """
    (found,) = over_users_each([list(amounts)])
    return found if found.high is None else msgspec.structs.replace(found, high=min(found.high, most))


def over_users_each(amounts: ArrayLike) -> list[Freed]:
    """Return the same for each row of ``amounts``, of which a column is a user: all rows share the drawn users."""
    each = np.asarray(amounts, dtype=np.float64)
    users = each.shape[1]
    if users < FEWEST_USERS:
        return [Freed(users, float(total), None, None) for total in each.sum(axis=1)]
    return [Freed(users, *of).times(users) for of in resampled_each(each, np.ones(users), LEVEL, _RESAMPLES)]
