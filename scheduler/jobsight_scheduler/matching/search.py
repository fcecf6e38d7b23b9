"""Ruin and recreate: takes all jobs off some resources and fills up again, as long as there is time.

Source: G. Schrimpf, J. Schneider, H. Stamm-Wilbrandt, G. Dueck, Record breaking optimization results using the ruin and
recreate principle (Journal of Computational Physics 159, 2000).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .arrays import Floats
from .packing import Packing
from .relocation import Relocation

_TRIED = 30
"""Unmatched jobs that are tried in a round."""


def ruin_and_recreate(
    packing: Packing,
    value: Callable[[], float],
    order: Floats,
    target: float,
    is_due: Callable[[], bool],
    rng: np.random.Generator,
) -> None:
    """Changes ``packing`` where ``value`` does not get worse; ends at ``target`` or when due.

    ``order`` (jobs,) is how worthwhile each job is: those with more are tried first, but for noise.
    """
    best, relocation = value(), Relocation(packing)
    spread = float(np.std(order[np.isfinite(order)])) if len(order) else 0.0
    jobs = np.flatnonzero(np.isfinite(order))
    if not len(jobs):
        return
    while best < target and not is_due():
        before = packing.snapshot()
        for job in _ruined(packing, rng):
            packing.remove(job)
        relocation.look()
        open_jobs = np.array([job for job in jobs.tolist() if job not in packing.placed], dtype=np.int64)
        noisy = order[open_jobs] + rng.normal(0.0, 0.3 * spread + 1e-9, len(open_jobs))
        for job in open_jobs[np.argsort(-noisy, kind="stable")[:_TRIED]].tolist():
            if is_due():
                break
            relocation.insert(job)
        now = value()
        if now >= best - 1e-12:
            best = now
        else:
            packing.restore(before)
            relocation.look()


def _ruined(packing: Packing, rng: np.random.Generator) -> list[int]:
    """The jobs on a random resource of one that is placed, and up to three others."""
    placed = list(packing.placed)
    if not placed:
        return []
    seed = placed[int(rng.integers(len(placed)))]
    numbers = packing.eligibility.numbers[seed]
    if not numbers:
        return []
    index = int(rng.integers(len(numbers)))
    of_type = packing.eligibility.dependencies[numbers[index]].of.type
    resource = int(packing.placed[seed][index][0])
    ruined = {seed}
    for job in placed:
        for number, chosen in zip(packing.eligibility.numbers[job], packing.placed[job], strict=True):
            if packing.eligibility.dependencies[number].of.type == of_type and resource in chosen:
                ruined.add(job)
    for _ in range(int(rng.integers(4))):
        ruined.add(placed[int(rng.integers(len(placed)))])
    return sorted(ruined)
