"""Amounts as sites have them, measured floats and bytes: the answer is as good, and no memory goes by their size."""

from __future__ import annotations

import math
import random
import time
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobsight_papers.matching.workload import MatchingWorkload, matching_file
from jobsight_scheduler.matching import match, read_problem
from jobsight_scheduler.matching.eligibility import in_units

Batch = dict[str, Any]


def measured(rng: random.Random, amount: float) -> float:
    return amount * rng.uniform(0.9, 1.0)


def in_bytes(rng: random.Random, amount: float) -> float:
    return int(amount * 2**30 * rng.uniform(0.9, 1.0))


def published(seed: int, of: Callable[[random.Random, float], float]) -> Batch:
    """The published batch of 30 jobs, with every amount and capacity but slots changed by ``of``."""
    batch = matching_file(MatchingWorkload(jobs=30, seed=40 + seed))
    rng = random.Random(seed)
    for entry in batch["resources"]:
        for kind, capacity in entry["capacities"].items():
            if kind != "slots":
                capacity["total"] = of(rng, capacity["total"])
    for job in batch["jobs"]:
        for dependency in job["dependencies"]:
            amounts = dependency["amounts"]
            dependency["amounts"] = {kind: n if kind == "slots" else of(rng, n) for kind, n in amounts.items()}
    return batch


@pytest.mark.exhaustive
@pytest.mark.parametrize("of", [measured, in_bytes])
def test_memory_does_not_grow_with_the_size_of_amounts(of: Callable[[random.Random, float], float]) -> None:
    problem = read_problem(published(0, of))
    tracemalloc.start()
    match(problem, clock=time.process_time, deadline_s=3.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * 2**20


AMOUNTS = st.floats(1e-3, 1.0, exclude_min=True).map(lambda share: share * 100.0)


@given(
    amounts=st.lists(AMOUNTS, min_size=1, max_size=4, unique=True),
    capacities=st.lists(st.tuples(AMOUNTS, st.floats(0.0, 1.0)), min_size=1, max_size=4),
    chosen=st.integers(1, 15),
)
def test_what_fits_exactly_fits_in_units(
    amounts: list[float], capacities: list[tuple[float, float]], chosen: int
) -> None:
    """Also where a job needs all that there is, to the last bit: a capacity is the sum of the chosen amounts."""
    is_chosen = [bool(chosen >> index & 1) for index in range(len(amounts))]
    some = [amount for amount, flag in zip(amounts, is_chosen, strict=True) if flag]
    totals = np.array([math.fsum(some), *(total for total, _ in capacities)])
    used = np.array([0.0, *(total * share for total, share in capacities)])
    needs, free = in_units(np.array(amounts), totals, used, np.ones(len(amounts), dtype=np.int64))
    needed = int(needs[is_chosen].sum())
    for total, taken, has in zip(totals.tolist(), used.tolist(), free.tolist(), strict=True):
        if sum(map(Fraction, some)) <= Fraction(total) - Fraction(taken):
            assert needed <= has
        for need, amount in zip(needs.tolist(), amounts, strict=True):
            if Fraction(amount) > (Fraction(total) - Fraction(taken)) * (1 + Fraction(1, 10**12)):
                assert need > has
