"""What a scheduler gets, and on what it rests."""

from __future__ import annotations

from dataclasses import dataclass

from .bounds import Basis


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The next best forecast, and who made it."""

    value: float
    forecaster: str
    level: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a job is expected to use and how much to reserve; `value` is None, with a `reason`, when nothing is known.

    `probability` is that of being within 20 %; `bound` holds what to reserve so that `coverage` of all jobs fit,
    `bound_basis` what that rests on, `exceeds` the estimated probability that this job needs more; what the site's
    bounds have held so far is `observed_coverage` by jobs and `observed_cost_coverage` by value x seconds. `level`
    names the group of earlier jobs that the forecast came from, `n` how many there are, `last_values` what the last
    of them used, oldest first.
    """

    value: float | None
    unit: str
    forecaster: str | None
    level: str | None
    n: int
    probability: float | None
    bound: float | None
    bound_basis: Basis | None
    exceeds: float | None
    coverage: float
    observed_coverage: float | None
    observed_cost_coverage: float | None
    runner_up: RunnerUp | None
    last_values: tuple[float, ...]
    reason: str | None
