"""Greedy matching by density: the jobs that are worth most for what they take, first."""

from __future__ import annotations

import numpy as np

from .arrays import Floats, Integers
from .eligibility import Eligibility
from .packing import Packing, Score


def shares(eligibility: Eligibility) -> Floats:
    """For each dependency the share that all its instances take of what is free of their type, summed over kinds."""
    found = np.zeros(len(eligibility.dependencies))
    for name, of in eligibility.types.items():
        totals = np.maximum(np.maximum(of.free, 0).sum(axis=0, dtype=np.float64), 1.0)
        counts = np.array([eligibility.dependencies[number].of.count for number in eligibility.rows[name]])
        found[eligibility.rows[name]] = counts * (of.needs / totals).sum(axis=1)
    return found


def by_density(eligibility: Eligibility, weights: Floats) -> list[int]:
    """Positions of the jobs, the highest of weight over share first."""
    jobs = np.array([at.job for at in eligibility.dependencies], dtype=np.int64)
    taken = np.bincount(jobs, shares(eligibility), len(eligibility.problem.jobs))
    order: list[int] = np.argsort(-weights / np.maximum(taken, 1e-12), kind="stable").tolist()
    return order


def best_fit(packing: Packing) -> Score:
    """The resources on which the least is left, as a share of what was free at first."""
    eligibility = packing.eligibility
    share = {name: 1.0 / np.maximum(of.free.T, 1) for name, of in eligibility.types.items()}

    def score(number: int, resources: Integers) -> Floats:
        of_type = eligibility.dependencies[number].of.type
        left: Floats = (packing.left[of_type][:, resources] * share[of_type][:, resources]).sum(axis=0)
        return left

    return score


def greedy(packing: Packing, order: list[int], score: Score) -> None:
    """Places the jobs of ``order`` that fit, in turn."""
    for job in order:
        packing.place(job, score)
