"""Fair share: who used the machine lately waits longer."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class FairShare:
    """Processor seconds of each user, of which those ``half_life_s`` ago count half; users have equal shares.

    A running job is charged as time passes. Users count from their first submission on. The factor of a user with the
    part ``f`` of all usage among ``n`` users is ``2^(-n f)``: 1 for who used nothing, 1/2 for who used their share, as
    in Slurm's classic fair-share algorithm.
    """

    def __init__(self, half_life_s: float) -> None:
        self._rate = log(2.0) / half_life_s
        self._place: dict[str | None, int] = {}
        self._table: Floats = np.zeros((3, 0))  # by user: used as of ``since``, since, processors of running jobs

    def place(self, now: float, user: str | None) -> int:
        """The position of ``user`` in ``factors``."""
        if user not in self._place:
            self._place[user] = len(self._place)
            self._table = np.concatenate([self._table, [[0.0], [now], [0.0]]], axis=1)
        return self._place[user]

    def change(self, now: float, user: str | None, processors: int) -> None:
        """From ``now`` on the user's running jobs have so many ``processors`` more, or fewer if below 0."""
        place = self.place(now, user)
        used = self._at(now, self._table[:, place : place + 1])[0]
        self._table[:, place] = used, now, self._table[2, place] + processors

    def usage(self, now: float) -> Floats:
        """Processor seconds of each user, faded, shape (users,)."""
        return self._at(now, self._table)

    def factors(self, now: float) -> Floats:
        """The fair-share factor of each user, 0..1, shape (users,)."""
        used = self.usage(now)
        total = used.sum()
        if not total > 0.0:
            return np.ones(len(used))
        return np.asarray(2.0 ** (-len(used) * used / total))

    def _at(self, now: float, table: Floats) -> Floats:
        """``dU/dt = running - rate U``, solved; without a half-life, nothing fades."""
        used, since, running = table
        if not self._rate:
            return np.asarray(used + running * (now - since))
        faded = np.expm1(-self._rate * (now - since))
        return np.asarray(used * (1.0 + faded) - running * faded / self._rate)

    def state(self) -> Any:
        """Everything it remembers, as JSON values."""
        return {"users": list(self._place), "table": self._table.tolist()}

    def restore(self, state: Any) -> None:
        """Restores the result of ``state``."""
        self._place = {user: place for place, user in enumerate(state["users"])}
        self._table = np.array(state["table"]).reshape(3, -1)
