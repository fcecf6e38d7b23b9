"""Forecasts by facts of a job, such as the size of its input, from the jobs with the nearest facts."""

from __future__ import annotations

from collections import deque
from math import asinh
from typing import Any

from jobsight_predictor.profile.groups import Aging, Parts
from jobsight_predictor.profile.prospect import GATHERED, PRIOR, TAIL, Prospect, pareto
from jobsight_predictor.profile.reserve import wasted
from jobsight_predictor.question import Facts, GroupKey

KEPT = 500  # jobs; the last ones of an application
NEAREST = 50  # jobs; nearest ones to forecast from
LEAST = 10  # jobs with the same facts needed for a forecast
WASTE_FADE = 0.98  # share of a waste's weight left one job later


class FactsHistory(Aging):
    """The last jobs of one application with facts, and the waste that reserving by facts would have had."""

    __slots__ = kept = ("_jobs", "_wasted_by_groups", "_wasted_by_facts")

    def __init__(self) -> None:
        super().__init__()
        self._jobs: deque[list[Any]] = deque(maxlen=KEPT)  # facts by name, and the need
        self._wasted_by_groups = 0.0
        self._wasted_by_facts = 0.0

    @property
    def is_better(self) -> bool:
        """Return whether facts have lately wasted less than the history of similar jobs."""
        return self._wasted_by_facts < self._wasted_by_groups

    def learn(self, facts: Facts, value: float) -> None:
        """Learn the need of a job with these facts."""
        self._jobs.append([dict(facts), value])

    def score(self, by_groups: float, by_facts: float, value: float) -> None:
        """Learn the need of a job with a recommendation by groups and one by facts."""
        self._wasted_by_groups = WASTE_FADE * self._wasted_by_groups + wasted(by_groups, value)
        self._wasted_by_facts = WASTE_FADE * self._wasted_by_facts + wasted(by_facts, value)

    def prospect(self, facts: Facts) -> Prospect | None:
        """Return the distribution of the need of a job with these facts; None if too few jobs had all of them.

        The ``NEAREST`` jobs are equally likely, and ``PRIOR`` parts lie above the largest. Distances are Euclidean, in
        the inverse hyperbolic sines of the facts in units of their standard deviations.
        """
        names = [name for name, _ in facts]
        rows = [(known, value) for known, value in self._jobs if all(name in known for name in names)]
        if len(rows) < LEAST:
            return None
        import numpy as np  # few sites send facts

        places = np.arcsinh([[known[name] for name in names] for known, _ in rows])
        deviations = places.std(axis=0)
        here = np.array([asinh(value) for _, value in facts])
        distances = (((places - here) / np.where(deviations > 0.0, deviations, 1.0)) ** 2).sum(axis=1)
        # Among equally near jobs the latest: the need for the same facts varies.
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
    """Histories of the applications whose jobs have facts."""

    def learn(
        self, application: GroupKey, facts: Facts, value: float, by_groups: float | None, by_facts: float | None
    ) -> None:
        """Learn the need of a job with ``facts``, and the waste of both recommendations."""
        history = self.to_learn(application)
        if by_groups is not None and by_facts is not None:
            history.score(by_groups, by_facts, value)
        history.learn(facts, value)
