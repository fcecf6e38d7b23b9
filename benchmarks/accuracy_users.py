"""Single users: three constructed ones, and the users of the traces most like them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from jobsight_predictor.arrays import Floats, Indices
from jobsight_predictor.evaluation.jobs import Jobs, grouped
from jobsight_predictor.evaluation.replay import replay_jobsight
from jobsight_predictor.evaluation.scores import accuracies
from jobsight_predictor.forecasters import FIVE, FORECASTERS
from jobsight_predictor.question import Question
from jobsight_predictor.series import pqm, recent_pqm

WINDOW = 60
"""Jobs in a figure."""

SEED = 20


@dataclass(frozen=True, slots=True)
class Lifetime:
    """One user's jobs in order, (n,), the forecasts of each, and the window to show."""

    name: str
    values: Floats
    unit: str
    scale: float
    forecasts: dict[str, Floats]
    begin: int

    @property
    def accuracy(self) -> dict[str, float]:
        """Compute each forecaster's mean accuracy over all of the user's jobs but the first, which has no forecast."""
        return {name: float(accuracies(found, self.values)[1:].mean()) for name, found in self.forecasts.items()}

    @property
    def qualities(self) -> tuple[float, float]:
        """Return (PQM, recent PQM) after the last job."""
        values = self.values.tolist()
        return pqm(values) or 0.0, recent_pqm(values) or 0.0


def lived(name: str, values: Floats, questions: list[Question], unit: str, scale: float, begin: int) -> Lifetime:
    """Replay the user's jobs one by one, each known before the next is submitted; Jobsight knows no other user."""
    n = len(values)
    times = np.arange(n, dtype=np.float64)
    jobs = Jobs(name, "memory", questions, times, times, values, np.ones(n), np.full(n, np.nan))
    forecasts = {forecaster: FORECASTERS[forecaster]().replay(values) for forecaster in FIVE}
    forecasts["Jobsight"] = replay_jobsight(jobs, "submission").forecasts
    return Lifetime(name, values, unit, scale, forecasts, begin)


def constructed() -> dict[str, Lifetime]:
    """Make user X, steady with single spikes; Y, whose needs drift; Z, who switches between two applications."""
    rng = np.random.default_rng(SEED)
    n = 120
    steady = np.full(n, 200.0)
    steady[rng.choice(np.arange(10, n - 5, 9), 7, replace=False)] *= 3.0
    drifting = np.linspace(150.0, 650.0, n)
    switching = np.empty(0)
    while len(switching) < n:
        level = 150.0 if len(switching) == 0 or switching[-1] > 300.0 else 600.0
        switching = np.append(switching, np.full(rng.integers(8, 20), level))
    made = {"X": steady, "Y": drifting, "Z": switching[:n]}
    users = {}
    for name, values in made.items():
        noisy = values * rng.normal(1.0, 0.03, n)
        users[name] = lived(f"User {name}, constructed", noisy, [Question(user=name)] * n, "Mb/s", 1.0, 20)
    return users


def real(workloads: Iterable[tuple[str, Jobs]]) -> dict[str, Lifetime]:
    """Find the user with the clearest window of each behaviour; leave out behaviours that no user shows."""
    best: dict[str, tuple[float, str, Jobs, Indices, int]] = {}
    for trace, jobs in workloads:
        for user in grouped([question.user for question in jobs.questions]):
            order = user[np.argsort(jobs.ended[user], kind="stable")]
            for kind, score in _BEHAVIOURS.items():
                for begin in range(10, len(order) - WINDOW + 1, 10):
                    reached = score(jobs.values[order[begin : begin + WINDOW]])
                    if reached > best.get(kind, (0.0,))[0]:
                        best[kind] = (reached, trace, jobs, order, begin)
    users = {}
    for kind, (_, trace, jobs, order, begin) in best.items():
        questions = [jobs.questions[i] for i in order.tolist()]
        name = f"user {questions[0].user} of {trace}"
        users[kind] = lived(name, jobs.values[order], questions, "MiB", 2.0**20, begin)
    return users


def _steps(values: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return whether each value but the first is within 20 % of the one before."""
    near: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.abs(values[1:] - values[:-1]) < 0.2 * values[:-1]
    return near


def _switches(values: Floats) -> float:
    """Count jumps with four even steps before and after; 0 if most jumps are different."""
    near = _steps(values)
    clean = sum(
        near[i - 4 : i].all() and near[i + 1 : i + 5].all() for i in np.flatnonzero(~near) if 4 <= i < len(near) - 4
    )
    return float(clean) if clean >= 2 and clean >= 0.8 * (~near).sum() else 0.0


def _drift(values: Floats) -> float:
    """Measure the drift in logarithms, if the values move in one direction by steps of a quarter at most."""
    steps = np.log(values[1:] / values[:-1])
    ranks = np.argsort(np.argsort(values))
    oneway = abs(float(np.corrcoef(ranks, np.arange(len(values)))[0, 1]))
    far = abs(float(np.log(np.median(values[-8:]) / np.median(values[:8]))))
    return far if np.abs(steps).max() < 0.25 and oneway > 0.85 and far > 0.25 else 0.0


def _spikes(values: Floats) -> float:
    """Count single values far from the median, at least four jobs apart; 0 if others are far too, or half of all."""
    middle = float(np.median(values))
    away = np.flatnonzero(np.abs(values - middle) > 0.5 * middle)
    calm = np.abs(np.delete(values, away) - middle) < 0.2 * middle
    alone = len(away) >= 2 and np.diff(away).min() >= 4
    return float(len(away)) if alone and calm.mean() > 0.95 else 0.0


_BEHAVIOURS: dict[str, Callable[[Floats], float]] = {"X": _spikes, "Y": _drift, "Z": _switches}
"""Behaviours, by constructed user."""


def missed_after_jumps(user: Lifetime, forecaster: str) -> list[int]:
    """Count the wrong forecasts after each jump in the window.

    At least five similar jobs follow a jump. Wrong is a forecast off by more than 20 %, up to the next jump. The
    optimum is 1: the jump itself is unpredictable.
    """
    values = user.values[: user.begin + WINDOW]
    missed = ~(np.abs(user.forecasts[forecaster][: len(values)] - values) <= 0.2 * values)
    jumps = [*(np.flatnonzero(~_steps(values)) + 1).tolist(), len(values)]
    return [
        int(missed[jump:after].sum()) for jump, after in pairwise(jumps) if jump >= user.begin and after - jump >= 5
    ]
