"""What placements are worth, computed from the placements and not from what a solver claims."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from .eligibility import Eligibility
from .objectives import LinearForm, inverse_totals
from .packing import Placement

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def value_of(
    form: LinearForm, eligibility: Eligibility, candidates: list[Integers], placed: Mapping[int, Placement]
) -> float:
    """The value of an objective for given placements."""
    jobs = list(placed)
    found = float(form.z[jobs].sum()) + form.constant
    if form.x is not None:
        for job in jobs:
            for number, chosen in zip(eligibility.numbers[job], placed[job], strict=True):
                found += float(form.x[number][np.searchsorted(candidates[number], chosen)].sum())
    if form.s:
        found += sum(float(form.s[name][used].sum()) for name, used in _used(eligibility, placed).items())
    if form.f:
        found += form.f * largest_share(form, eligibility, placed)
    return found


def shares_of(form: LinearForm, eligibility: Eligibility, placed: Mapping[int, Placement]) -> Floats:
    """The share of each balanced capacity that is used, in no order that matters."""
    found = []
    for name, of in eligibility.types.items():
        used = of.used.copy()
        for job, placement in placed.items():
            for number, chosen in zip(eligibility.numbers[job], placement, strict=True):
                at = eligibility.dependencies[number]
                if at.of.type == name:
                    used[chosen] += of.amounts[at.row]
        inverse = inverse_totals(of)
        found.append((used * inverse)[form.balanced[name][:, None] & (inverse > 0.0)])
    return np.concatenate((form.others, *found))


def largest_share(form: LinearForm, eligibility: Eligibility, placed: Mapping[int, Placement]) -> float:
    """F: the largest share of a balanced capacity that is used."""
    return float(shares_of(form, eligibility, placed).max(initial=0.0))


def squared_shares(form: LinearForm, eligibility: Eligibility, placed: Mapping[int, Placement], pieces: int) -> float:
    """The sum of the squares of all shares, each by straight lines between multiples of 1 / ``pieces``."""
    return squares_of(shares_of(form, eligibility, placed), pieces)


def squares_of(shares: Floats, pieces: int) -> float:
    """The sum of their squares, by straight lines."""
    found = 0.0
    for piece in range(pieces):
        width = np.inf if piece == pieces - 1 else 1.0 / pieces
        found += float(np.clip(shares - piece / pieces, 0.0, width).sum()) * (2.0 * piece + 1.0) / pieces
    return found


def _used(eligibility: Eligibility, placed: Mapping[int, Placement]) -> dict[str, NDArray[np.bool_]]:
    resources = eligibility.problem.resources
    found = {
        name: np.array([resources[member].is_held for member in of.members], dtype=np.bool_)
        for name, of in eligibility.types.items()
    }
    for job, placement in placed.items():
        for number, chosen in zip(eligibility.numbers[job], placement, strict=True):
            found[eligibility.dependencies[number].of.type][chosen] = True
    return found
