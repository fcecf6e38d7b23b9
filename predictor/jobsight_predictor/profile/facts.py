"""Forecasts by facts of a job, such as the size of its input: from the jobs nearest to it in these."""

from __future__ import annotations

from collections import deque
from math import asinh
from typing import TYPE_CHECKING, Any

import numpy as np

from jobsight_predictor.question import Facts

from .parts import Aging, Parts
from .prospect import GATHERED, PRIOR, TAIL, Prospect, pareto
from .reserve import wasted

if TYPE_CHECKING:
    from .forecast import FinishedJob

KEPT = 500  # jobs; of an application, the last ones
NEAREST = 50  # jobs; the nearest ones, from which the next is forecast
LEAST = 10  # jobs; with the same facts, before they are used
WASTE_FADE = 0.98  # share; of a waste that still counts one job later


class FactsHistory(Aging):
    """The last jobs of one application that had facts, and what following these would have wasted so far."""

    __slots__ = kept = ("_jobs", "_wasted_by_groups", "_wasted_by_facts")

    def __init__(self) -> None:
        super().__init__()
        self._jobs: deque[list[Any]] = deque(maxlen=KEPT)  # facts by name, and the need
        self._wasted_by_groups = 0.0
        self._wasted_by_facts = 0.0

    @property
    def is_better(self) -> bool:
        """Whether the facts have lately wasted less than the history of such jobs."""
        return self._wasted_by_facts < self._wasted_by_groups

    def learn(self, facts: Facts, value: float) -> None:
        """Learn what a job with these facts needed."""
        self._jobs.append([dict(facts), value])

    def score(self, by_groups: float, by_facts: float, value: float) -> None:
        """Learn what a job needed for which both had recommended a reservation."""
        self._wasted_by_groups = WASTE_FADE * self._wasted_by_groups + wasted(by_groups, value)
        self._wasted_by_facts = WASTE_FADE * self._wasted_by_facts + wasted(by_facts, value)

    def prospect(self, facts: Facts) -> Prospect | None:
        """The distribution of the need of a job with these facts; None if too few had all of them.

        Each of the ``NEAREST`` jobs is as likely, and ``PRIOR`` parts lie above the largest of them. Nearest by
        Euclidean distance in the inverse hyperbolic sines of the facts, each in units of its standard deviation.
        """
        names = [name for name, _ in facts]
        rows = [(known, value) for known, value in self._jobs if all(name in known for name in names)]
        if len(rows) < LEAST:
            return None
        places = np.arcsinh([[known[name] for name in names] for known, _ in rows])
        deviations = places.std(axis=0)
        here = np.array([asinh(value) for _, value in facts])
        distances = (((places - here) / np.where(deviations > 0.0, deviations, 1.0)) ** 2).sum(axis=1)
        # The latest of those as near: the same facts do not always need the same.
        nearest = np.lexsort((-np.arange(len(rows)), distances))[:NEAREST]
        values = [rows[i][1] for i in nearest.tolist()]
        tail, top = pareto(TAIL, GATHERED), max(values)
        each = 1.0 / (len(values) + PRIOR)
        masses: dict[float, float] = {}
        for value in values:
            masses[value] = masses.get(value, 0.0) + each
        for up, share in tail.places:
            place = up * top
            masses[place] = masses.get(place, 0.0) + PRIOR * each * share
        return Prospect(masses, PRIOR * each * tail.rest)


class FactsHistories(Parts[FactsHistory]):
    """The history of each application whose jobs have facts."""

    def score(self, job: FinishedJob) -> None:
        """Learn what a job with facts needed, and how far both recommendations for it were off."""
        if not job.question.facts:
            return
        forecast, history = job.forecast, self.to_learn(job.keys.application)
        if forecast.by_groups is not None and forecast.by_facts is not None:
            history.score(forecast.by_groups, forecast.by_facts, job.value)
        history.learn(job.question.facts, job.value)
