"""One simulation from beginning to end, in slices between which it can be watched, saved and stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from jobsight_scheduler.workload.canonical import Workload

SLICE = 2_000
"""Events per slice, between calls of ``watch``."""


class Steps(Protocol):
    """A simulation, of any machine, that can be advanced, watched and saved."""

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
        """Number of jobs that have ended."""

    @property
    def done(self) -> bool:
        """Whether all jobs have ended."""

    def advance(self, events: int) -> bool:
        """Handles the next ``events`` events, or as many as there are; returns ``done``."""

    def state(self) -> dict[str, Any]:
        """The state of the simulation, as JSON values."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restores the result of ``state``."""


Watch = Callable[[Steps], bool]
"""Called between slices; true stops the simulation."""


def run(simulation: Steps, watch: Watch | None = None) -> float:
    """Advances ``simulation`` until it is done, or ``watch`` stops it; returns the CPU seconds used."""
    spent = 0.0
    while True:
        began = time.process_time()
        done = simulation.advance(SLICE)
        spent += time.process_time() - began
        if done or (watch is not None and watch(simulation)):
            return spent
