"""What the jobs of users X, Y and Z use, as the paper on the profile-guided predictor describes them.

X is ideal: nearly all jobs alike. Y switches once, at the third job. Z is spread: most jobs are near one level, the
others are spikes. The fourth kind, users whose needs drift, is in ``applications``.
"""

from __future__ import annotations

import random
from collections.abc import Callable

# Jobs that differ by less than a fifth count as alike, so noise within this share keeps all of them alike: 1.09 / 0.91.
_NOISE_AT_MOST = 0.09
# Share of the jobs that are apart: 4 of 36, as PQM .89 has it for X; 30 % for Z.
_APART_ONE_IN = 9
_SPIKES = 0.3
# The job with which Y's needs become four times as large, counted from 1.
_SWITCHES_AT = 3
_SWITCH = 4.0


def ideal(rng: random.Random, jobs: int, level: float, noise: float) -> list[float]:
    """User X: as ``steady``, with the jobs apart in the first third of the history."""
    return steady(rng, jobs, level, noise, max(2, jobs // 3))


def steady(rng: random.Random, jobs: int, level: float, noise: float, apart_before: int | None = None) -> list[float]:
    """One job in nine, never the first, is apart, up and down in turn; before job ``apart_before``, or anywhere.

    PQM is .89 for 36 jobs and above .8 for any number of them.
    """
    values = [level * _noisy(rng, noise) for _ in range(jobs)]
    apart = rng.sample(range(1, apart_before or jobs), jobs // _APART_ONE_IN)
    for turn, job in enumerate(apart):
        values[job] = level * (rng.uniform(1.3, 1.4) if turn % 2 else rng.uniform(0.6, 0.7))
    return values


def switching_once(rng: random.Random, jobs: int, level: float, noise: float) -> list[float]:
    """User Y: four times the level from the third job on, as from 200 to 800 MB."""
    return [level * (_SWITCH if job >= _SWITCHES_AT else 1.0) * _noisy(rng, noise) for job in range(1, jobs + 1)]


def spread(rng: random.Random, jobs: int, level: float, noise: float) -> list[float]:
    """User Z: 70 % of the jobs are near the level, the others, never the first, 1.6 to 2.2 times as large."""
    spikes = set(rng.sample(range(1, jobs), round(_SPIKES * jobs)))
    return [level * (rng.uniform(1.6, 2.2) if job in spikes else _noisy(rng, noise)) for job in range(jobs)]


PUBLISHED: dict[str, Callable[[random.Random, int, float, float], list[float]]] = {
    "x": ideal,
    "y": switching_once,
    "z": spread,
}
"""By user: what each of ``jobs`` jobs uses, in the unit of ``level``."""

CAMPAIGN = PUBLISHED | {"x": steady}
"""The same for the users of the campaign: those like X are as similar as X, but not settled towards the end."""


def _noisy(rng: random.Random, noise: float) -> float:
    """A factor around 1, by ``noise`` on average squared, at most 9 % off."""
    return min(max(rng.gauss(1.0, noise), 1.0 - _NOISE_AT_MOST), 1.0 + _NOISE_AT_MOST)
