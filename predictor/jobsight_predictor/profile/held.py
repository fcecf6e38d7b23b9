"""How many jobs stayed within their bounds: by jobs, and weighted by use."""

from __future__ import annotations

from typing import Any, Self

from jobsight_predictor.forecasters import LARGEST


class Held:
    """Both coverages of the jobs that had a bound.

    Bounds that let expensive jobs fail look good by jobs and bad by value x seconds, and both matter.
    """

    def __init__(self) -> None:
        self.jobs = 0
        self.held = 0
        self.used = 0.0  # value x seconds
        self.used_held = 0.0

    def score(self, bound: float | None, value: float, seconds: float) -> None:
        """Count what a job used for ``seconds``; one without a bound does not count."""
        if bound is None:
            return
        used = min(value * seconds, LARGEST)
        self.jobs += 1
        self.used = min(self.used + used, LARGEST)
        if value <= bound:
            self.held += 1
            self.used_held = min(self.used_held + used, LARGEST)

    @property
    def coverage(self) -> float | None:
        """Share of jobs within their bound; None before the first."""
        return self.held / self.jobs if self.jobs else None

    @property
    def cost_coverage(self) -> float | None:
        """The same weighted by value x seconds; None while nothing was used."""
        return self.used_held / self.used if self.used else None

    def state(self) -> list[Any]:
        """The whole state, as JSON values."""
        return [self.jobs, self.held, self.used, self.used_held]

    @classmethod
    def from_state(cls, state: list[Any]) -> Self:
        """Restores exactly the one whose ``state()`` this was."""
        restored = cls()
        restored.jobs, restored.held, restored.used, restored.used_held = state
        return restored
