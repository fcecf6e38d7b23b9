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
    jobs = np.flatnonzero(np.isfinite(order))
    if not len(jobs):
        return
    spread = float(np.std(order[jobs]))
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


def _ruined(packing: Packing, rng: np.random.Generator) -> set[int]:
    """The jobs on a random resource of one that is placed, and up to three others."""
    placed, eligibility = list(packing.placed), packing.eligibility
    if not placed:
        return set()
    ruined = {placed[int(rng.integers(len(placed)))] for _ in range(1 + int(rng.integers(4)))}
    seed = next(iter(ruined))
    if numbers := eligibility.numbers[seed]:
        index = int(rng.integers(len(numbers)))
        of_type = eligibility.dependencies[numbers[index]].of.type
        resource = int(packing.placed[seed][index][0])
        for job, placement in packing.placed.items():
            for number, chosen in zip(eligibility.numbers[job], placement, strict=True):
                if eligibility.dependencies[number].of.type == of_type and resource in chosen:
                    ruined.add(job)
    return ruined
