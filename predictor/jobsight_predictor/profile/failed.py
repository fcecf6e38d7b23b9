"""Reservations that ran out: the next jobs of that user's application get more, whatever they ask for."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from jobsight_predictor.forecasters import LARGEST
from jobsight_predictor.question import Question

HELD = 5  # reports; at most so many failures of the same jobs are held against their later successes
AFTER_FAILURE = 1.25  # factor; a job like one that ran out of its reservation gets at least this much more
STEEPEST = 1024.0  # factor; repeated failures multiply AFTER_FAILURE by at most this

ReportPlace = tuple[str | None, str | None]
"""User and application of a report; None if the report names none."""


class Shortfall(NamedTuple):
    """``reserved`` was too little; it counts for the next ``left`` such jobs that need no more.

    ``steeper`` multiplies ``AFTER_FAILURE``: 1 at first, twice as much each time that even more was too little.
    ``requested`` is what the job itself asked for, None if unknown.
    """

    reserved: float = 0.0
    left: int = 0
    steeper: float = 1.0
    requested: float | None = None

    def least(self, request: float | None) -> float:
        """What a job that asks for ``request`` gets at least: the last resort is its request, unless that failed."""
        least = min(AFTER_FAILURE * self.steeper * self.reserved, LARGEST)
        return least if request is None or self.shows_too_little(request) else min(least, request)

    def shows_too_little(self, request: float | None) -> bool:
        """Whether a job that asked for exactly this ran out of it."""
        return request is not None and request == self.requested and request <= self.reserved


NO_SHORTFALL = Shortfall()


class FailedReservations:
    """The highest reservation known to have failed, of each application of each user.

    What a job asks for does not matter: where requests are lowered as recommended, the log has the lowered one, and
    the next question the user's. A report without an application is about every job of the user.

    A report counts until as many such jobs have needed no more as make it one in those that may fail: with a coverage
    of .95, 20. A job that needed more and got it takes its place: from then on that is what such jobs need. So need
    that has grown is covered until there are as many values that show it, and no single failure holds for good.
    """

    def __init__(self, coverage: float) -> None:
        self._reports: dict[ReportPlace, Shortfall] = {}
        self._changed: set[ReportPlace] = set()
        self._holds = max(1, round(1.0 / (1.0 - coverage)))

    def add(self, question: Question, reserved: float, requested: float | None) -> None:
        """Learn that ``reserved`` was too little for such a job, which asked for ``requested``.

        Jobs of a burst that ran out of the same reservation are no repetition: none of them had more than the first.
        """
        place = (question.user, question.application)
        before = self._reports.get(place, NO_SHORTFALL)
        left = min(before.left + self._holds, HELD * self._holds)
        if not before.left:
            self._reports[place] = Shortfall(reserved, left, 1.0, requested)
        elif reserved > before.reserved:
            self._reports[place] = Shortfall(reserved, left, min(2.0 * before.steeper, STEEPEST), requested)
        else:
            self._reports[place] = before._replace(left=left)
        self._changed.add(place)

    def score(self, question: Question, value: float) -> None:
        """Learn that such a job needed ``value``, and had it."""
        for place in _places(question):
            report = self._reports.get(place, NO_SHORTFALL)
            if not report.left:
                continue
            if value > report.reserved:
                report = Shortfall(value, report.left)
            else:
                report = report._replace(left=report.left - 1) if report.left > 1 else NO_SHORTFALL
            self._reports[place] = report
            self._changed.add(place)

    def of(self, question: Question) -> Shortfall:
        """The report that asks for most of such a job; ``NO_SHORTFALL`` if nothing failed."""
        found = [self._reports.get(place, NO_SHORTFALL) for place in _places(question)]
        return max(found, key=lambda report: report.least(None))

    @staticmethod
    def state_keys(question: Question) -> list[str]:
        """Keys of the state with the reports that may match such a job."""
        return [_name(place) for place in _places(question)]

    def changed_state(self) -> dict[str, Any]:
        """The state changed since the last call, by key."""
        found = {_name(place): list(self._reports[place]) for place in self._changed}
        self._changed.clear()
        return found

    def state(self) -> dict[str, Any]:
        """All state, by key."""
        self._changed.update(self._reports)
        return self.changed_state()

    def load(self, place: ReportPlace, state: list[Any]) -> None:
        """Take over the state of ``place``."""
        self._reports[place] = Shortfall(*state)


def _places(question: Question) -> list[ReportPlace]:
    """The places of reports that match the job, its own first."""
    user, application = question.user, question.application
    return [(user, application)] if application is None else [(user, application), (user, None)]


def _name(place: ReportPlace) -> str:
    return json.dumps(["failed", *place], separators=(",", ":"))
