"""Reservations that jobs ran out of, by what was known of these jobs."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any

from jobsight_predictor.question import FIELDS, Question

KEPT = 100  # reports; the last different ones of each application of a user and each set of fields are kept

ReportPlace = tuple[str | None, str | None]
"""User and application of a report; None where the report names none."""

_known = attrgetter(*FIELDS)


class FailedReservations:
    """The highest reservation that is known to have failed, of all reports that match a job.

    A report matches a job that has the same value in every field of the report; the job may have more fields.
    """

    def __init__(self) -> None:
        # Of each place: which fields a report has -> their values -> what ran out. A job is looked up by its values
        # in these fields, so reports cost nothing where there are none and a look-up for each set of fields otherwise.
        self._reports: dict[ReportPlace, dict[tuple[int, ...], dict[tuple[Any, ...], float]]] = {}
        self._changed: set[ReportPlace] = set()

    def add(self, question: Question, reserved: float) -> None:
        """Take in that ``reserved`` was too little for such a job."""
        known = _known(question)
        fields = tuple([field for field, value in enumerate(known) if value is not None])
        values = tuple([known[field] for field in fields])
        place = _places(question)[0]
        reports = self._reports.setdefault(place, {}).setdefault(fields, {})
        reports[values] = max(reserved, reports.pop(values, 0.0))  # the last one reported comes last
        if len(reports) > KEPT:
            del reports[next(iter(reports))]
        self._changed.add(place)

    def above(self, question: Question) -> float:
        """What the bound of such a job has to exceed; 0 where nothing failed."""
        if not self._reports:
            return 0.0
        highest = 0.0
        known = _known(question)
        for place in _places(question):
            for fields, reports in self._reports.get(place, {}).items():
                highest = max(highest, reports.get(tuple([known[field] for field in fields]), 0.0))
        return highest

    @staticmethod
    def state_keys(question: Question) -> list[str]:
        """Keys of the state that holds the reports that may match such a job."""
        return [_name(place) for place in _places(question)]

    def changed_state(self) -> dict[str, Any]:
        """By key the state that has changed since this was last asked."""
        found = {
            _name(place): [
                [fields, values, reserved]
                for fields, reports in self._reports[place].items()
                for values, reserved in reports.items()
            ]
            for place in self._changed
        }
        self._changed.clear()
        return found

    def state(self) -> dict[str, Any]:
        """By key all the state."""
        self._changed.update(self._reports)
        return self.changed_state()

    def load(self, place: ReportPlace, state: list[Any]) -> None:
        """Take over the state of ``place``."""
        found: dict[tuple[int, ...], dict[tuple[Any, ...], float]] = {}
        for fields, values, reserved in state:
            found.setdefault(tuple(fields), {})[tuple(values)] = reserved
        self._reports[place] = found


def _places(question: Question) -> list[ReportPlace]:
    """Where the reports may be that match the job, its own place first."""
    user, application = question.user, question.application
    if user is None:
        return [(None, None)]
    if application is None:
        return [(user, None), (None, None)]
    return [(user, application), (user, None), (None, None)]


def _name(place: ReportPlace) -> str:
    return json.dumps(["failed", *place], separators=(",", ":"))
