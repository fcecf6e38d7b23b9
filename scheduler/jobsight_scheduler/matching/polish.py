"""Improves one objective of placements by moving single jobs, while no objective before it gets worse."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .eligibility import Eligibility
from .objectives import LinearForm, inverse_totals
from .packing import Packing, Placement, Score
from .stages import Stage

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_PASSES = 3
_KEPT_WEIGHT = 1e6


def polish(
    eligibility: Eligibility,
    candidates: list[Integers],
    placed: dict[int, Placement],
    stage: Stage,
    kept: Sequence[tuple[Stage, float]],
    clock: Callable[[], float],
    until: float,
) -> dict[int, Placement]:
    """``placed`` with jobs on other resources, where that is better for ``stage`` and no worse for those ``kept``."""
    packing = Packing(eligibility, candidates)
    for job, placement in placed.items():
        packing.put(job, placement)
    taken = {name: np.zeros(len(of.members), dtype=np.int64) for name, of in eligibility.types.items()}
    for job, placement in packing.placed.items():
        _count(eligibility, taken, job, placement, 1)
    forms = [before.form for before, _ in kept if before.form is not None and before.form.x is not None]
    score = _score(eligibility, candidates, packing, taken, stage, forms)
    best, value = dict(packing.placed), stage.value(packing.placed)
    for _ in range(_PASSES):
        for job in sorted(packing.placed, key=lambda one: _company(eligibility, taken, one, packing.placed[one])):
            if clock() >= until:
                break
            before = packing.remove(job)
            _count(eligibility, taken, job, before, -1)
            if not packing.place(job, score):
                packing.put(job, before)
            _count(eligibility, taken, job, packing.placed[job], 1)
        now = stage.value(packing.placed)
        is_better = now > value + 1e-12 if stage.is_max else now < value - 1e-12
        if not is_better or not all(one.is_no_worse(one.value(packing.placed), than) for one, than in kept):
            break
        best, value = dict(packing.placed), now
    return best


def _score(
    eligibility: Eligibility,
    candidates: list[Integers],
    packing: Packing,
    taken: dict[str, Integers],
    stage: Stage,
    kept: list[LinearForm],
) -> Score:
    inverse = {name: inverse_totals(of) for name, of in eligibility.types.items()}
    idle = {name: np.maximum(of.free.T, 1) for name, of in eligibility.types.items()}
    is_held = {
        name: np.array([eligibility.problem.resources[member].is_held for member in of.members], dtype=np.bool_)
        for name, of in eligibility.types.items()
    }
    form, sign = stage.form, -1.0 if stage.is_max else 1.0

    def score(number: int, resources: Integers) -> Floats:
        at = eligibility.dependencies[number]
        of, name = eligibility.types[at.of.type], at.of.type
        found = np.zeros(len(resources))
        where = np.searchsorted(candidates[number], resources)
        for before in kept:
            if before.x is not None:
                gains = before.x[number][where]
                found -= _KEPT_WEIGHT * (gains if before.is_max else -gains)
        if form is not None and form.x is not None:
            found += sign * form.x[number][where]
        if form is not None and form.s:
            is_used = is_held[name][resources] | (taken[name][resources] > 0)
            found += np.where(is_used, 0.0, sign * form.s[name][resources])
            # Among those in use, the fullest: the others may then become free.
            found -= 1e-3 * np.minimum(taken[name][resources], 900)
        if form is None or form.f:
            left = packing.left[name][:, resources] / idle[name][:, resources]
            share = (of.used[resources] + of.amounts[at.row]) * inverse[name][resources]
            found += (share - left.T * (of.amounts[at.row] > 0.0)).max(axis=1, initial=-1.0)
        return found

    return score


def _count(eligibility: Eligibility, taken: dict[str, Integers], job: int, placement: Placement, times: int) -> None:
    for number, chosen in zip(eligibility.numbers[job], placement, strict=True):
        taken[eligibility.dependencies[number].of.type][chosen] += times


def _company(eligibility: Eligibility, taken: dict[str, Integers], job: int, placement: Placement) -> int:
    """On how many matches the emptiest of the job's resources has."""
    return min(
        (
            int(taken[eligibility.dependencies[number].of.type][chosen].min())
            for number, chosen in zip(eligibility.numbers[job], placement, strict=True)
            if len(chosen)
        ),
        default=0,
    )
