"""Ruin and recreate: takes all jobs off some resources and fills up again, as long as there is time.

Source: G. Schrimpf, J. Schneider, H. Stamm-Wilbrandt, G. Dueck, Record breaking optimization results using the ruin and
recreate principle (Journal of Computational Physics 159, 2000).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jobsight_scheduler.matching.arrays import Flags, Floats, Integers
from jobsight_scheduler.matching.packing import Packing, Placement


class Relocation:
    """Places further jobs in a packing. Dependencies with a count of 1, of jobs without relations, can be moved."""

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        eligibility = packing.eligibility
        self._mask: dict[str, Flags] = {}
        self._needs: dict[str, Integers] = {}
        self._inverse: dict[str, Floats] = {}
        self._sizes: dict[str, Floats] = {}
        self._at: dict[str, Integers] = {}
        for name, of in eligibility.types.items():
            mask = np.zeros((len(of.needs), len(of.members)), dtype=np.bool_)
            for row, number in enumerate(eligibility.rows[name]):
                mask[row, packing.candidates[number]] = True
            self._mask[name] = mask
            # What is not asked for is there, even where the resource has no such capacity (-1 free).
            self._needs[name] = np.where(of.needs == 0, np.int64(-1), of.needs)
            self._inverse[name] = 1.0 / np.maximum(of.free.T, 1)
            self._sizes[name] = (of.needs / np.maximum(of.free.max(axis=0, initial=1), 1)).sum(axis=1)
        self._movable = [
            not eligibility.problem.jobs[at.job].relations and at.of.count == 1 for at in eligibility.dependencies
        ]
        self.look()

    def look(self) -> None:
        """Notes where everything is, after the packing was changed by others."""
        for name, of in self._packing.eligibility.types.items():
            self._at[name] = np.full(len(of.needs), -1, dtype=np.int64)
        for job, placement in self._packing.placed.items():
            self._note(job, placement)

    def insert(self, job: int) -> bool:
        """Places ``job``, each dependency where it fits or after one move; undoes all if one does not."""
        packing, eligibility = self._packing, self._packing.eligibility
        if eligibility.problem.jobs[job].relations:
            return False
        moves: list[tuple[int, Placement, Placement]] = []
        chosen: dict[int, Integers] = {}
        numbers = eligibility.numbers[job]
        # Those that fit nowhere as it is come first: there is most to choose from.
        for number in sorted(numbers, key=lambda one: len(packing.open_to(one))):
            at = eligibility.dependencies[number]
            fits = packing.open_to(number)
            for _ in range(2 * at.of.count):  # a move can take room that another made
                if len(fits) >= at.of.count or (move := self._move_for(number, fits)) is None:
                    break
                moves.append(move)
                fits = packing.open_to(number)
            if len(fits) < at.of.count:
                break
            share = packing.left[at.of.type][:, fits] * self._inverse[at.of.type][:, fits]
            best = np.argsort(share.sum(axis=0), kind="stable")[: at.of.count]
            chosen[number] = fits[best]
            packing.take(number, chosen[number])
        for number, resources in chosen.items():
            packing.give(number, resources)
        if len(chosen) == len(numbers):
            placement = tuple(chosen[number] for number in numbers)
            packing.put(job, placement)
            self._note(job, placement)
            return True
        for moved, before, _ in reversed(moves):
            packing.remove(moved)
            packing.put(moved, before)
            self._note(moved, before)
        return False

    def _move_for(self, number: int, fits: Integers) -> tuple[int, Placement, Placement] | None:
        """Moves one instance so that dependency ``number`` fits on one more resource than ``fits``."""
        packing, eligibility = self._packing, self._packing.eligibility
        at = eligibility.dependencies[number]
        name = at.of.type
        left, needs, where = packing.left[name], self._needs[name], self._at[name]
        rows = np.flatnonzero(where >= 0)
        on = where[rows]
        frees = self._mask[name][at.row, on]
        for kind in range(needs.shape[1]):
            frees &= left[kind, on] + np.maximum(needs[rows, kind], 0) >= needs[at.row, kind]
        if len(fits):
            frees &= ~np.isin(on, fits)
        rows = rows[frees]
        if not len(rows):
            return None
        # The smallest that frees enough is the easiest to put elsewhere.
        rows = rows[np.argsort(self._sizes[name][rows], kind="stable")]
        open_to = self._mask[name][rows].copy()
        for kind in range(needs.shape[1]):
            open_to &= left[kind] >= needs[rows, kind][:, None]
        open_to[np.arange(len(rows)), where[rows]] = False
        can = np.flatnonzero(open_to.any(axis=1))
        if not len(can):
            return None
        row = int(rows[can[0]])
        targets = np.flatnonzero(open_to[can[0]])
        target = targets[(left[:, targets] * self._inverse[name][:, targets]).sum(axis=0).argmin()]
        moved = eligibility.dependencies[eligibility.rows[name][row]].job
        before = packing.remove(moved)
        index = eligibility.numbers[moved].index(eligibility.rows[name][row])
        after = tuple(
            np.array([target], dtype=np.int64) if position == index else chosen
            for position, chosen in enumerate(before)
        )
        if not packing.put(moved, after):  # of two dependencies of one job on the same resource
            packing.put(moved, before)
            return None
        self._note(moved, after)
        return moved, before, after

    def _note(self, job: int, placement: Placement) -> None:
        eligibility = self._packing.eligibility
        for number, chosen in zip(eligibility.numbers[job], placement, strict=True):
            if self._movable[number]:
                at = eligibility.dependencies[number]
                self._at[at.of.type][at.row] = chosen[0]


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
