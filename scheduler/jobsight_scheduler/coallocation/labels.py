"""Faults of the application names that jobs carry: what is labelled as one application may be another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LabelFaults:
    """Shares of jobs, 0..1 in all, that carry the name of another application, no name, or one never used before.

    Raises:
        ValueError: a share is not a number from 0 to 1, or they add up to more than 1.
    """

    wrong: float = 0.0
    missing: float = 0.0
    unique: float = 0.0

    def __post_init__(self) -> None:
        shares = self.wrong, self.missing, self.unique
        if not all(0.0 <= share <= 1.0 for share in shares) or sum(shares) > 1.0:
            raise ValueError(
                f"shares of jobs with wrong, missing and unique names of {', '.join(f'{share:g}' for share in shares)}:"
                " give each from 0 to 1, and at most 1 in all"
            )


RIGHT = LabelFaults()


def labels_of(applications: NDArray[np.int64], kinds: int, seed: int, faults: LabelFaults = RIGHT) -> list[str | None]:
    """The name that each job carries, of ``applications`` numbered from 0, shape (jobs,).

    A wrong name is that of another of ``kinds`` applications, drawn with equal probability, whether its user runs it or
    not. The same seed gives the same names, and more faults of a kind leave the others where they were.
    """
    rng = np.random.default_rng([seed, 3])
    drawn = rng.random(len(applications))
    others = max(kinds, 2)
    swapped = (applications + rng.integers(1, others, len(applications))) % others
    names: list[str | None] = []
    for job, (chance, right, wrong) in enumerate(
        zip(drawn.tolist(), applications.tolist(), swapped.tolist(), strict=True)
    ):
        if chance < faults.wrong:
            names.append(str(wrong if wrong != right else right + 1))
        elif chance >= 1.0 - faults.missing:
            names.append(None)
        elif chance < faults.wrong + faults.unique:
            names.append(f"run-{job}")
        else:
            names.append(str(right))
    return names
