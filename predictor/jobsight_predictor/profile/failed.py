"""Reservations that ran out, by what was known about the jobs."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any, NamedTuple

from jobsight_predictor.question import FIELDS, Question

HELD = 5  # reports; at most so many failures of the same jobs are held against their later successes
KEPT = 100  # reports; number of different ones kept for each application of a user and each set of fields

ReportPlace = tuple[str | None, str | None]
"""User and application of a report; None if the report names none."""

_known = attrgetter(*FIELDS)
_REQUESTS = frozenset({FIELDS.index("requested_memory_bytes"), FIELDS.index("requested_time_s")})


class Shortfall(NamedTuple):
    """``reserved`` was too little; it counts for the next ``left`` such jobs that need less."""

    reserved: float
    left: int


class FailedReservations:
    """The highest reservation known to have failed, of all reports that match a job.

    A report matches a job that has the same value in every field of the report; the job may have more fields. A job
    that says nothing about what it requests may be like any of them.

    A report counts until as many such jobs have needed less as make it one in those that may fail: with a coverage of
    .95, 20. So it holds as long as failures are too many, and no single one holds for good.
    """

    def __init__(self, coverage: float) -> None:
        # By place: the fields of a report -> their values -> what ran out. A job is looked up by its values
        # in these fields, so this costs nothing without reports and one look-up per set of fields otherwise.
        self._reports: dict[ReportPlace, dict[tuple[int, ...], dict[tuple[Any, ...], Shortfall]]] = {}
        self._changed: set[ReportPlace] = set()
        self._holds = max(1, round(1.0 / (1.0 - coverage)))

    def add(self, question: Question, reserved: float) -> None:
        """Learn that ``reserved`` was too little for such a job."""
        known = _known(question)
        fields = tuple([field for field, value in enumerate(known) if value is not None])
        values = tuple([known[field] for field in fields])
        place = _places(question)[0]
        reports = self._reports.setdefault(place, {}).setdefault(fields, {})
        before = reports.pop(values, Shortfall(0.0, 0))  # the latest report comes last
        left = min(before.left + self._holds, HELD * self._holds)
        reports[values] = Shortfall(max(reserved, before.reserved), left)
        if len(reports) > KEPT:
            del reports[next(iter(reports))]
        self._changed.add(place)

    def score(self, question: Question, value: float) -> None:
        """Learn that such a job needed ``value``."""
        if not self._reports:
            return
        known = _known(question)
        for place in _places(question):
            for fields, reports in self._reports.get(place, {}).items():
                values = tuple([known[field] for field in fields])
                report = reports.get(values)
                if report is None or value > report.reserved:
                    continue
                self._changed.add(place)
                if report.left > 1:
                    reports[values] = report._replace(left=report.left - 1)
                else:
                    del reports[values]

    def above(self, question: Question) -> float:
        """What the bound of such a job must exceed; 0 if nothing failed."""
        if not self._reports:
            return 0.0
        highest = 0.0
        known = _known(question)
        for place in _places(question):
            for fields, reports in self._reports.get(place, {}).items():
                values = tuple([known[field] for field in fields])
                if any(field in _REQUESTS and known[field] is None for field in fields):
                    highest = max(highest, _highest(fields, values, reports))
                elif (report := reports.get(values)) is not None:
                    highest = max(highest, report.reserved)
        return highest

    @staticmethod
    def state_keys(question: Question) -> list[str]:
        """Keys of the state with the reports that may match such a job."""
        return [_name(place) for place in _places(question)]

    def changed_state(self) -> dict[str, Any]:
        """The state changed since the last call, by key."""
        found = {
            _name(place): [
                [fields, values, *report]
                for fields, reports in self._reports[place].items()
                for values, report in reports.items()
            ]
            for place in self._changed
        }
        self._changed.clear()
        return found

    def state(self) -> dict[str, Any]:
        """All state, by key."""
        self._changed.update(self._reports)
        return self.changed_state()

    def load(self, place: ReportPlace, state: list[Any]) -> None:
        """Take over the state of ``place``."""
        found: dict[tuple[int, ...], dict[tuple[Any, ...], Shortfall]] = {}
        for fields, values, reserved, left in state:
            found.setdefault(tuple(fields), {})[tuple(values)] = Shortfall(reserved, left)
        self._reports[place] = found


def _highest(fields: tuple[int, ...], values: tuple[Any, ...], reports: dict[tuple[Any, ...], Shortfall]) -> float:
    """The highest reservation in ``reports`` that differ from ``values`` only in requests that these lack."""
    found = 0.0
    for reported, report in reports.items():
        pairs = zip(fields, values, reported, strict=True)
        if all(own == other or (own is None and field in _REQUESTS) for field, own, other in pairs):
            found = max(found, report.reserved)
    return found


def _places(question: Question) -> list[ReportPlace]:
    """The places of reports that may match the job, its own first."""
    user, application = question.user, question.application
    if user is None:
        return [(None, None)]
    if application is None:
        return [(user, None), (None, None)]
    return [(user, application), (user, None), (None, None)]


def _name(place: ReportPlace) -> str:
    return json.dumps(["failed", *place], separators=(",", ":"))
