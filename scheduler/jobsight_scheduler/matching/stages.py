"""The ordered objectives as stages: each is optimised while the values of those before it are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .eligibility import Eligibility
from .objectives import LinearForm, linear_form
from .packing import Placement
from .problem import Objective
from .program import PIECES, Program
from .values import squared_shares, squares_of, value_of

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

KEPT = 1e-7
"""By which share of its value an objective that is kept may be missed, because solvers compute in floating point."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One objective: its ``value`` for placements, its ``costs`` in a program; ``form`` is None for squared shares.

    ``constant`` is the part of the value that the costs leave out.
    """

    name: str
    is_max: bool
    is_whole: bool
    form: LinearForm | None
    value: Callable[[Mapping[int, Placement]], float]
    costs: Callable[[Program], Floats]
    constant: float

    def is_no_worse(self, value: float, than: float) -> bool:
        """Whether ``value`` keeps ``than``."""
        slack = KEPT * max(1.0, abs(than))
        return value >= than - slack if self.is_max else value <= than + slack


def stages_of(objectives: Sequence[Objective], eligibility: Eligibility, candidates: list[Integers]) -> list[Stage]:
    """A stage for each objective, and after ``balance`` one for the squares of the shares.

    The largest share alone leaves open how the others are used where one resource is saturated.
    """
    found: list[Stage] = []
    for objective in objectives:
        form = linear_form(objective, eligibility, candidates)
        found.append(
            Stage(
                objective.name,
                form.is_max,
                form.is_whole,
                form,
                _value(form, eligibility, candidates),
                _costs(form),
                form.constant,
            )
        )
        if objective.name == "balance":
            squared = _squared(form, eligibility)
            constant = squares_of(form.others, PIECES)
            found.append(Stage(f"{objective.name} (squares)", False, False, None, squared, _squares(form), constant))
    return found


def _value(
    form: LinearForm, eligibility: Eligibility, candidates: list[Integers]
) -> Callable[[Mapping[int, Placement]], float]:
    return lambda placed: value_of(form, eligibility, candidates, placed)


def _costs(form: LinearForm) -> Callable[[Program], Floats]:
    return lambda program: program.costs(form)


def _squared(form: LinearForm, eligibility: Eligibility) -> Callable[[Mapping[int, Placement]], float]:
    return lambda placed: squared_shares(form, eligibility, placed, PIECES)


def _squares(form: LinearForm) -> Callable[[Program], Floats]:
    return lambda program: program.squares(form)
