"""Sources of a job's expected bandwidth for a placement, by the names used in commands."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobsight_predictor.question import Question
from jobsight_scheduler.prediction import AskedAgain, Predictor, Stated

from .communication import SyntheticWorkload

CONSTANT_BPS = 40e6
"""Default of the source ``constant``, per processor: four times the median of synthetic jobs; nine in ten use less."""

SOURCES = ("application-means", "user", "oracle", "constant")


class ApplicationMeans(Predictor):
    """The mean of all finished jobs of the same user and application; None before there is one.

    Links carry sums over many jobs, so means count: neither a job's likeliest bandwidth nor a high quantile placed jobs
    better (papers/jobsight_papers/coallocation/README.md).
    """

    def __init__(self, questions: Sequence[Question]) -> None:
        self._questions = questions
        self._sums: dict[tuple[str | None, str | None], tuple[int, float]] = {}

    def forecast(self, job: int) -> float | None:
        count, total = self._sums.get(self._key(job), (0, 0.0))
        return total / count if count else None

    def alike(self, job: int) -> Hashable:
        return self._key(job)

    def learn(self, job: int, value: float) -> None:
        count, total = self._sums.get(self._key(job), (0, 0.0))
        self._sums[self._key(job)] = count + 1, total + value

    def state(self) -> Any:
        return [(*key, *known) for key, known in self._sums.items()]

    def restore(self, state: Any) -> None:
        self._sums = {(user, application): (count, total) for user, application, count, total in state}

    def _key(self, job: int) -> tuple[str | None, str | None]:
        question = self._questions[job]
        return question.user, question.application


class BandwidthSource:
    """Bits per second per processor, by job index; the user's statement if a predictor has no forecast.

    A predictor learns from the best interval of a job's life, the closest to the job's bandwidth alone: other jobs on
    its links can only lower it.
    """

    def __init__(self, predictor: Predictor, stated_bps: Sequence[float]) -> None:
        self._predictor = AskedAgain(predictor)
        self._stated_bps = stated_bps

    def expected(self, job: int) -> float:
        """Return the expected bandwidth of the job, submitted now."""
        return self._or_stated(job, self._predictor.forecast(job))

    def again(self, job: int) -> float:
        """Return the expected bandwidth, as of now, of a waiting job."""
        return self._or_stated(job, self._predictor.again(job))

    def learn(self, job: int, peak_bps: float) -> None:
        """Learn from an ended job; ``peak_bps`` is per processor, in the best interval of its life."""
        self._predictor.learn(job, peak_bps)

    def state(self) -> Any:
        """Return everything learned, as JSON values."""
        return self._predictor.state()

    def restore(self, state: Any) -> None:
        """Restore the result of ``state``."""
        self._predictor.restore(state)

    def _or_stated(self, job: int, forecast: float | None) -> float:
        return self._stated_bps[job] if forecast is None else forecast


@dataclass(frozen=True, slots=True)
class EstimateError:
    """Errors of bandwidths: ``bias`` is a factor, ``noise`` the standard deviation of the logarithm.

    ``silent`` is the share of users who state nothing: their jobs are not spread without a forecast.

    Raises:
        ValueError: a bias that is not above 0, a noise below 0, or a share beyond 0 to 1.
    """

    bias: float = 1.0
    noise: float = 0.0
    silent: float = 0.0

    def __post_init__(self) -> None:
        if not (0.0 < self.bias < np.inf and 0.0 <= self.noise < np.inf):
            raise ValueError(f"bias {self.bias}, noise {self.noise}: give a bias above 0 and a noise of 0 or more")
        if not 0.0 <= self.silent <= 1.0:
            raise ValueError(f"a share of users who state nothing of {self.silent}: give it from 0 to 1")


NO_ERROR = EstimateError()


def bandwidth_source(
    name: str,
    jobs: SyntheticWorkload,
    error: EstimateError = NO_ERROR,
    seed: int = 0,
    constant_bps: float = CONSTANT_BPS,
) -> BandwidthSource:
    """Return the source ``name`` for ``jobs``. ``error`` applies to users' statements and to the oracle,
    ``constant_bps`` to ``constant``.

    Raises:
        ValueError: unknown source, or a constant that is not a number of 0 or more.
    """
    if name not in SOURCES:
        raise ValueError(f"unknown bandwidth source {name!r}; choose from {', '.join(SOURCES)}")
    if not 0.0 <= constant_bps < np.inf:
        raise ValueError(f"a constant bandwidth of {constant_bps} bit/s; give 0 or more")
    exact_bps = jobs.work.bandwidth_bps if name == "oracle" else jobs.stated_bps
    rng = np.random.default_rng([seed, 1])
    # A product that overflows is infinite: such a job is not spread.
    with np.errstate(over="ignore"):
        stated = exact_bps * error.bias * np.exp(error.noise * rng.standard_normal(len(exact_bps)))
    stated_bps = np.where(_silent(jobs.questions, error.silent, seed), np.inf, stated).tolist()
    if name == "constant":
        return BandwidthSource(Stated([constant_bps] * len(stated_bps)), stated_bps)
    predictor = ApplicationMeans(jobs.questions) if name == "application-means" else Stated(stated_bps)
    return BandwidthSource(predictor, stated_bps)


def _silent(questions: Sequence[Question], share: float, seed: int) -> list[bool]:
    """Return whether each job's user states nothing. Each user draws once; a larger ``share`` keeps the same users and
    adds more.
    """
    if not share:
        return [False] * len(questions)
    users = sorted({question.user or "" for question in questions})
    drawn = dict(zip(users, np.random.default_rng([seed, 2]).random(len(users)).tolist(), strict=True))
    return [drawn[question.user or ""] < share for question in questions]
