"""Whether one job fits by itself, exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .eligibility import Eligibility
from .objectives import LinearForm
from .program import Program

Integers = NDArray[np.int64]

_STEPS = 10_000


def fits(eligibility: Eligibility, candidates: list[Integers], job: int) -> bool:
    """Whether ``job`` fits on what is free; True where HiGHS does not decide within ``_STEPS`` looks at its clock."""
    form = LinearForm("throughput", True, np.ones(len(eligibility.problem.jobs)))
    program = Program(eligibility, candidates, [[job]], [form])
    steps = 0

    def clock() -> float:
        nonlocal steps
        steps += 1
        return float(steps)

    solved = program.solve(program.costs(form), True, clock, float(_STEPS))
    return not solved.is_optimal or (solved.values is not None and solved.values[0] > 0.5)
