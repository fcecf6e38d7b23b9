"""The hazard of machines by age of the session and hour of the week, and its integral over a run."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .exposure import HOUR_S, Ints, hour_of_week
from .resource_vector import Floats

AGES_PER_RANGE = 4


class Hazard:
    """``base`` events per second x factor by range of ages, shape (ages,), x factor by group and hour of the week,
    shape (groups, 168). It is integrated exactly for a grid of ages, and interpolated between these.
    """

    def __init__(self, base: float, age: Floats, hour: Floats, age_bounds_s: Floats, utc_offset_s: float = 0.0) -> None:
        self.base, self.age, self.hour, self.utc_offset_s = base, age, hour, utc_offset_s
        last = age_bounds_s[-1]
        self._at = np.append(age_bounds_s, last + 1e9)
        self._cumulated = np.append(0.0, np.cumsum(age * np.diff(self._at)))
        inner = [np.linspace(low, high, AGES_PER_RANGE, endpoint=False) for low, high in pairwise(age_bounds_s)]
        self._grid = np.concatenate([*inner, [last, last + HOUR_S]])
        self._width = np.diff(self._grid)

    def integral(self, group: Ints, age_s: Floats, now_s: float, run_s: Floats) -> Floats:
        """Expected events of k sessions of age ``age_s`` at ``now_s`` over the next ``run_s``, shape (1,) or (k,)."""
        times = _hours(now_s, float(run_s.max(initial=0.0)), self.utc_offset_s)
        since = times - now_s
        steps: Floats = np.diff(np.interp(self._grid[:, None] + since, self._at, self._cumulated), axis=1)
        hours = hour_of_week((times[1:] + times[:-1]) / 2.0, self.utc_offset_s)
        factors: Floats = self.base * self.hour[:, hours]
        place = np.minimum(np.searchsorted(self._grid, age_s, side="right") - 1, len(self._width) - 1)
        part = np.minimum((age_s - self._grid[place]) / self._width[place], 1.0)
        if len(run_s) == 1:
            table: Floats = steps @ factors.T
            ends: list[Floats] = [table[place, group], table[place + 1, group]]
        else:
            until = np.zeros((len(factors), len(self._grid), len(times)))
            np.cumsum(steps * factors[:, None, :], axis=2, out=until[:, :, 1:])
            step = np.minimum(np.searchsorted(since, run_s, side="right") - 1, len(steps[0]) - 1)
            share = np.minimum((run_s - since[step]) / np.maximum(since[step + 1] - since[step], 1e-9), 1.0)
            flat, width = until.ravel(), len(times)
            first = (group * len(self._grid) + place) * width + step
            ends = [flat[at] + (flat[at + 1] - flat[at]) * share for at in (first, first + width)]
        expected: Floats = np.maximum(ends[0] + (ends[1] - ends[0]) * part, 0.0)
        return expected


def _hours(now_s: float, run_s: float, utc_offset_s: float) -> NDArray[np.float64]:
    """``now_s``, every full hour after it, and the end of the run."""
    end_s = now_s + run_s
    first = (now_s + utc_offset_s) // HOUR_S + 1.0
    inner = np.arange(first, (end_s + utc_offset_s) / HOUR_S) * HOUR_S - utc_offset_s
    return np.concatenate([[now_s], inner, [end_s]])
