"""Jobs that needed more than they had: what the next such job may need on that account."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from jobsight_predictor.question import Question

MOST = 5  # jobs; that needed more, and were not run again or came one after the other, at most
OVER = 0.03  # share; a shortfall that is less likely than this to concern the next job is forgotten
GROWTH_LEFT = 0.25  # share; of the sign of growth that is left after a job that needed no more
BELOW = 0.99  # factor; where need grows, the next job may need a little less than the last

Place = tuple[str | None, str | None]
"""User and application of such jobs; None if a report names none."""


class Shortfall(NamedTuple):
    """``lower_bound`` was too little: for ``pending`` jobs that have not been run again with more, as far as known, in
    ``since`` jobs; and for ``grown`` jobs one after the other, of which each that needed no more leaves a share."""

    lower_bound: float = 0.0
    pending: int = 0
    since: int = 0
    grown: float = 0.0

    @property
    def share(self) -> float:
        """Probability that the next such job needs more: it is one of those, run again, or need has grown.

        Both after Laplace's rule of succession.
        """
        again = self.pending / (self.pending + self.since + 1.0)
        grown = self.grown / (self.grown + 1.0)
        return 1.0 - (1.0 - again) * (1.0 - grown)


NONE = Shortfall()


class Shortfalls:
    """What was too little lately, by user and application, of whatever the jobs asked for.

    Somebody whose job was killed for want of more runs it again, and where need has grown, it stays so. Where requests
    are lowered as recommended, the log has the lowered one, and the next question the user's.
    """

    def __init__(self) -> None:
        self._of: dict[Place, Shortfall] = {}
        self._changed: set[Place] = set()

    def add(self, question: Question, lower_bound: float) -> None:
        """Learn that such a job needed more than this. One that failed with less is taken for the same job."""
        place = (question.user, question.application)
        known = self._of.get(place, NONE)
        if known.pending and lower_bound > known.lower_bound:
            known = known._replace(lower_bound=lower_bound)
        else:
            least = known.lower_bound if known.pending else lower_bound
            known = Shortfall(least, min(known.pending + 1, MOST), 0, min(known.grown + 1.0, MOST))
        self._of[place] = known._replace(since=0)
        self._changed.add(place)

    def score(self, question: Question, value: float) -> None:
        """Learn that such a job needed ``value``, and had it."""
        for place in _places(question):
            known = self._of.get(place, NONE)
            if known == NONE:
                continue
            if value <= known.lower_bound:
                known = known._replace(since=known.since + 1, grown=GROWTH_LEFT * known.grown)
            elif known.pending:
                known = known._replace(pending=known.pending - 1)
            else:
                known = known._replace(lower_bound=BELOW * value, grown=min(known.grown + 1.0, MOST))
            self._of[place] = NONE if known.share < OVER else known
            self._changed.add(place)

    def of(self, question: Question) -> Shortfall:
        """The one that is likeliest to concern such a job; ``NONE`` if there is none."""
        return max([self._of.get(place, NONE) for place in _places(question)], key=lambda known: known.share)

    @staticmethod
    def state_keys(question: Question) -> list[str]:
        """Keys of the state that may concern such a job."""
        return [_name(place) for place in _places(question)]

    def changed_state(self) -> dict[str, Any]:
        """The state changed since the last call, by key."""
        found = {_name(place): list(self._of[place]) for place in self._changed}
        self._changed.clear()
        return found

    def state(self) -> dict[str, Any]:
        """All state, by key."""
        self._changed.update(self._of)
        return self.changed_state()

    def load(self, place: Place, state: list[Any]) -> None:
        """Take over the state of ``place``."""
        self._of[place] = Shortfall(*state)


def _places(question: Question) -> list[Place]:
    """Where such a job is counted: with the jobs of its application, and with those that no application is known of."""
    user, application = question.user, question.application
    return [(user, application)] if application is None else [(user, application), (user, None)]


def _name(place: Place) -> str:
    return json.dumps(["shortfall", *place], separators=(",", ":"))
