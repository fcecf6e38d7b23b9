"""One simulation from beginning to end, in slices between which it can be watched, saved and stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from jobsight_scheduler.workload.canonical import Workload

SLICE = 2_000
"""Events between two looks at what else is to be done."""


class Steps(Protocol):
    """A simulation that can be advanced, watched and saved, of whatever machine."""

    @property
    def workload(self) -> Workload:
        """The jobs."""

    @property
    def capacity(self) -> int:
        """Processors of the machine."""

    @property
    def now(self) -> float:
        """Time of the last event."""

    @property
    def ended(self) -> int:
        """How many jobs have ended."""

    @property
    def done(self) -> bool:
        """Whether all have."""

    def advance(self, events: int) -> bool:
        """Handles the next ``events`` events, or as many as there are; returns ``done``."""

    def state(self) -> dict[str, Any]:
        """Where the simulation stands, as values that JSON can carry."""

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over what ``state`` gave."""


Watch = Callable[[Steps], bool]
"""Called between slices; true stops the simulation."""


def run(simulation: Steps, watch: Watch | None = None) -> float:
    """Advances ``simulation`` until it is done, or ``watch`` says to stop; returns the CPU seconds that it took."""
    spent = 0.0
    while True:
        began = time.process_time()
        done = simulation.advance(SLICE)
        spent += time.process_time() - began
        if done or (watch is not None and watch(simulation)):
            return spent
