"""Calibration of promises: predicted failures against observed ones, and the correction learned from them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Self

import msgspec
from sqlalchemy import Connection, insert, select, update

from jobsight_predictor.runtime.success import Recalibration
from jobsight_server.ground.answers import Record, Share
from jobsight_server.systems.offers.tables import plans

EDGES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Upper ends of the classes of promised probability of failure; the last class ends at 1."""

_NEW: list[float] = [0, 0.0, 0.0, 0]


class PromiseClass(Record):
    """Ended jobs with a promised probability of failure up to ``up_to``, and above the class before.

    ``promised`` is its mean, ``observed`` the share that was killed or failed, ``predicted`` the mean probability of
    being killed before recalibration; null without jobs.
    """

    up_to: Share
    jobs: int
    failed: int
    predicted: Share | None
    promised: Share | None
    observed: Share | None


class PromiseCalibration:
    """The correction of predicted probabilities of failure on one cluster, and the counts by class."""

    def __init__(self) -> None:
        self.recalibration = Recalibration()
        self._classes: list[list[float]] = [list(_NEW) for _ in range(len(EDGES) + 1)]

    def learn(self, predicted: float, promised: float, outcome: str, at_h: float) -> None:
        """Learn from the end of a job: finished, killed because its time was over, or failed for another reason.

        ``predicted`` was the probability that it is killed, before correction; ``promised`` that of any failure. The
        correction learns nothing from a job whose node failed: it might have ended in time.
        """
        if outcome != "failed" and predicted > 0.0:
            self.recalibration.learn(predicted, outcome == "killed", at_h)
        of_class = self._classes[bisect_left(EDGES, promised)]
        for place, amount in enumerate((1, predicted, promised, outcome != "finished")):
            of_class[place] += amount

    def classes(self) -> list[PromiseClass]:
        """Return promised and observed failures, the class of the smallest probability first."""
        return [_class(up_to, counts) for up_to, counts in zip((*EDGES, 1.0), self._classes, strict=True)]

    def total(self) -> PromiseClass:
        """Return the same over all classes."""
        return _class(1.0, [sum(column) for column in zip(*self._classes, strict=True)])

    def to_text(self) -> str:
        """Return the whole state."""
        return msgspec.json.encode([self.recalibration.state(), self._classes]).decode()

    @classmethod
    def from_text(cls, stored: str) -> Self:
        """Restore the output of ``to_text()``; a new one from the empty text."""
        found = cls()
        if stored:
            state, classes, *refused = msgspec.json.decode(stored)
            if "predicted" in state:  # release 0.2 kept another kind of evidence
                found.recalibration = Recalibration.from_state({"refused": sum(refused)} | state)
            found._classes = classes
        return found


def read_calibration(connection: Connection, cluster: str) -> PromiseCalibration:
    """Read the calibration of a cluster; a new one before its first offer."""
    stored = connection.scalar(select(plans.c.calibration).where(plans.c.cluster == cluster))
    return PromiseCalibration.from_text(stored or "")


def write_calibration(connection: Connection, cluster: str, calibration: PromiseCalibration) -> None:
    """Store the calibration; the caller has locked the plan."""
    text = calibration.to_text()
    if not connection.execute(update(plans).where(plans.c.cluster == cluster).values(calibration=text)).rowcount:
        connection.execute(insert(plans).values(cluster=cluster, version=0, calibration=text))


def _class(up_to: float, counts: Sequence[float]) -> PromiseClass:
    jobs, predicted, promised, failed = counts
    if not jobs:
        return PromiseClass(up_to, 0, 0, None, None, None)
    return PromiseClass(
        up_to, int(jobs), int(failed), min(predicted / jobs, 1.0), min(promised / jobs, 1.0), failed / jobs
    )
