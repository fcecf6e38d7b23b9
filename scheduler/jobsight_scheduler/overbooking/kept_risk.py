"""The fast form for a plan that changes job by job: what a change does not touch is kept from offer to offer."""

from __future__ import annotations

from .risk import FastRisk

STALE_H = 1.0 / 60.0
"""Hours after which the ends of jobs are computed again; a sixth of the step of the published grid."""


class KeptRisk(FastRisk):
    """``FastRisk`` that remembers when the jobs of its plan end.

    Call ``changed`` after a change of the plan; ``as_of`` moves the time on.
    """

    def as_of(self, now_h: float) -> None:
        """The time is ``now_h``; ends that are older than ``STALE_H``, or of a later time, are forgotten."""
        if not 0.0 <= now_h - self.now_h < STALE_H:
            self.now_h = now_h
            self._ends.clear()

    def changed(self, from_h: float) -> None:
        """Jobs that start at ``from_h`` or later have come, gone or moved: what depends on them is forgotten.

        A job's start depends only on jobs before it, so that all that begin earlier are as they were.
        """
        bookings = self._plan.bookings
        for job in [job for job in self._ends if job not in bookings or bookings[job].from_h >= from_h]:
            del self._ends[job]
