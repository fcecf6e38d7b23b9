"""One simulation from beginning to end, in slices between which it can be watched, saved and stopped."""

from __future__ import annotations

import time
from collections.abc import Callable

from .engine import Simulation

SLICE = 2_000
"""Events between two looks at what else is to be done."""

Watch = Callable[[Simulation], bool]
"""Called between slices; true stops the simulation."""


def run(simulation: Simulation, watch: Watch | None = None) -> float:
    """Advances ``simulation`` until it is done, or ``watch`` says to stop; returns the CPU seconds that it took."""
    spent = 0.0
    while True:
        began = time.process_time()
        done = simulation.advance(SLICE)
        spent += time.process_time() - began
        if done or (watch is not None and watch(simulation)):
            return spent
