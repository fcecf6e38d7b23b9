"""Sources of a job's expected bandwidth for a placement, by the names used in commands."""

from __future__ import annotations

from collections.abc import Sequence

from jobsight_predictor.question import Question
from jobsight_scheduler.coallocation.communication import SyntheticWorkload
from jobsight_scheduler.prediction import Predictor, Stated

CONSTANT_BPS = 40e6
"""Default of the source ``constant``, per processor: four times the median of synthetic jobs; nine in ten use less."""

SOURCES = ("application-means", "user", "oracle", "constant")


class ApplicationMeans(Predictor):
    """The mean of all finished jobs of the same user and application; None before there is one.

    Links carry sums over many jobs, so means count: neither a job's likeliest bandwidth nor a high quantile placed jobs
    better (papers/jobsight_papers/coallocation/README.md).
    """

    def __init__(self, questions: Sequence[Question]) -> None:
        self._keys = [(question.user, question.application) for question in questions]
        self._sums: dict[tuple[str | None, str | None], tuple[int, float]] = {}

    def forecast(self, job: int) -> float | None:
        count, total = self._sums.get(self._keys[job], (0, 0.0))
        return total / count if count else None

    def learn(self, job: int, value: float) -> None:
        count, total = self._sums.get(self._keys[job], (0, 0.0))
        self._sums[self._keys[job]] = count + 1, total + value


class BandwidthSource:
    """Bits per second per processor, by job index; the user's statement if a predictor has no forecast.

    A predictor learns from the best interval of a job's life, the closest to the job's bandwidth alone: other jobs on
    its links can only lower it.
    """

    def __init__(self, predictor: Predictor, stated_bps: Sequence[float]) -> None:
        self._predictor = predictor
        self._stated_bps = stated_bps

    def expected(self, job: int) -> float:
        """Return the expected bandwidth of the job, submitted now."""
        forecast = self._predictor.forecast(job)
        return self._stated_bps[job] if forecast is None else forecast

    def learn(self, job: int, peak_bps: float) -> None:
        """Learn from an ended job; ``peak_bps`` is per processor, in the best interval of its life."""
        self._predictor.learn(job, peak_bps)


def bandwidth_source(name: str, jobs: SyntheticWorkload, constant_bps: float = CONSTANT_BPS) -> BandwidthSource:
    """Return the source ``name`` for ``jobs``. ``constant_bps`` applies to ``constant``."""
    stated_bps = jobs.stated_bps.tolist()
    predictors: dict[str, Predictor] = {
        "application-means": ApplicationMeans(jobs.questions),
        "user": Stated(stated_bps),
        "oracle": Stated(jobs.work.bandwidth_bps.tolist()),
        "constant": Stated([constant_bps] * len(stated_bps)),
    }
    return BandwidthSource(predictors[name], stated_bps)
