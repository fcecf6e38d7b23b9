"""Backtests forecasts and bounds on a recorded workload (docs/use/definitions.md, Backtest)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Floats, Indices
from jobsight_predictor.evaluation.baselines import BASELINES
from jobsight_predictor.evaluation.cost import reservation_cost
from jobsight_predictor.evaluation.coverages import coverages
from jobsight_predictor.evaluation.equal_failures import at_equal_failures
from jobsight_predictor.evaluation.jobs import Jobs, Protocol, grouped, learning_order
from jobsight_predictor.evaluation.replay import (
    UNCLIPPED,
    final_pqm,
    pqm_when_asked,
    replay_baseline,
    replay_forecaster,
    replay_jobsight,
)
from jobsight_predictor.evaluation.scores import accuracies, auc, calibration, hindsight, summary
from jobsight_predictor.forecasters import FIVE, FORECASTERS
from jobsight_predictor.profile import Profile
from jobsight_predictor.question import JobGroups
from jobsight_predictor.series import NEAR

Grouping = Literal["user", "template"]

HISTORIES = (0, 1, 5, 20, 100, 1000)  # jobs; accuracy is reported by these numbers of known jobs of a user
ALIKE = 0.8  # share; PQM above which a user's jobs count as similar


def run_backtest(
    jobs: Jobs,
    *,
    protocol: Protocol = "completion",
    group: Grouping = "user",
    forecasters: Sequence[str] = FIVE,
    coverage: float = 0.95,
    baselines: bool = False,
    progress: Callable[[str, float], None] | None = None,
) -> dict[str, Any]:
    """Backtest one workload; return the object that ``jobsight backtest --json`` prints.

    ``baselines`` compares with each baseline at its own number of failures, and replays the bounds for other targets as
    needed. ``progress`` receives the next step and the share done.

    Raises:
        ValueError: a forecaster is unknown.
    """
    if unknown := set(forecasters) - set(FORECASTERS):
        raise ValueError(f"unknown forecasters {sorted(unknown)}; choose from {', '.join(FORECASTERS)}")
    report = progress or (lambda _step, _done: None)
    users = grouped([question.user for question in jobs.questions])
    levels = JobGroups()
    groups = users if group == "user" else grouped([levels.keys(question)[0][1] for question in jobs.questions])
    forecasts_of: dict[str, Floats] = {}
    for i, name in enumerate(forecasters):
        report(name, 0.4 * i / len(forecasters))
        forecasts_of[name] = replay_forecaster(name, jobs, groups, protocol)
        if name == "exponential":
            forecasts_of[UNCLIPPED] = replay_forecaster(UNCLIPPED, jobs, groups, protocol)
    report("jobsight", 0.4)
    replayed = replay_jobsight(jobs, protocol, coverage)

    @cache
    def bounds_at(target: float) -> Floats:
        return replayed.bounds if target == coverage else replay_jobsight(jobs, protocol, target).bounds

    report("quality", 0.8)
    compared = ~np.isnan(replayed.forecasts)
    for forecasts in forecasts_of.values():
        compared &= ~np.isnan(forecasts)
    hits = accuracies(replayed.forecasts, jobs.values)
    near = np.abs(replayed.forecasts - jobs.values) <= NEAR * jobs.values
    whole, recent = pqm_when_asked(jobs, users, protocol)
    good = hits > 1.0 - NEAR
    alike = [user for user in users if len(user) >= 2 and final_pqm(jobs, user, protocol) > ALIKE]
    report("baselines", 0.9)
    return {
        "trace": jobs.name,
        "metric": jobs.metric,
        "protocol": protocol,
        "group": group,
        "jobs": len(jobs),
        "users": len(users),
        "skipped": dict(jobs.skipped),
        "compared": int(compared.sum()),
        "forecasters": {
            name: summary(forecasts, jobs.values, users, compared) for name, forecasts in forecasts_of.items()
        },
        "hindsight": hindsight([forecasts_of[name] for name in forecasters], jobs.values, users, compared),
        "jobsight": summary(replayed.forecasts, jobs.values, users, compared),
        "mean_error": _mean_error(jobs, replayed.profile),
        "by_history": _by_history(replayed.forecasts, jobs, users, protocol),
        "bounds": {
            "target": coverage,
            **_cost_line(replayed.bounds, jobs),
            **coverages(
                replayed.bounds,
                replayed.forecasts,
                jobs.values,
                jobs.seconds,
                np.argsort(jobs.submitted if protocol == "submission" else jobs.ended, kind="stable"),
                users,
            ),
        },
        **_baselines(jobs, users, coverage, replayed.bounds, bounds_at if baselines else None, protocol),
        "quality": {
            "auc": auc(replayed.probabilities, good),
            "recent_pqm_auc": auc(recent, good),
            "calibration": calibration(replayed.probabilities, near),
        },
        "pqm": {
            "auc": auc(whole, good),
            "users_above_0.8": len(alike),
            "accuracy_above_0.8": float(hits[np.concatenate(alike)].mean()) if alike else None,
        },
    }


def _baselines(
    jobs: Jobs,
    users: Sequence[Indices],
    coverage: float,
    bounds: Floats,
    bounds_at: Callable[[float], Floats] | None,
    protocol: Protocol,
) -> dict[str, Any]:
    """Compute the cost of Jobsight's bounds and of each baseline, on the jobs that all of them reserve for.

    Baselines that never reserve do not count. With ``bounds_at``, which replays Jobsight's bounds for another target,
    each baseline also gets the bounds at its own number of failures.
    """
    reservations = {"request": jobs.requested}
    reservations |= {name: replay_baseline(name, jobs, users, protocol) for name in BASELINES}
    both = ~np.isnan(bounds)
    for reserved in reservations.values():
        if not np.isnan(reserved).all():
            both &= ~np.isnan(reserved)
    lines: dict[str, dict[str, Any]] = {name: _cost_line(line, jobs, both) for name, line in reservations.items()}
    if bounds_at is not None:
        for name, reserved in reservations.items():
            lines[name]["jobsight_at_its_failures"] = at_equal_failures(
                reserved, jobs.values, jobs.seconds, bounds_at, first=coverage
            )
    return {"bounds_compared": _cost_line(bounds, jobs, both), "baselines": lines}


def _mean_error(jobs: Jobs, profile: Profile) -> dict[str, float | None]:
    """Compute the mean relative error, each capped at 1, of the answers and of each user's best candidate in
    hindsight."""
    users = dict.fromkeys(question.user for question in jobs.questions)
    errors = [error for user in users if (error := profile.mean_error(user)) is not None]
    n = sum(error.jobs for error in errors)
    return {
        "answered": sum(error.answered * error.jobs for error in errors) / n if n else None,
        "best": sum(error.best * error.jobs for error in errors) / n if n else None,
    }


def _by_history(
    forecasts: Floats, jobs: Jobs, users: Sequence[Indices], protocol: Protocol
) -> list[dict[str, float | int | None]]:
    """Compute accuracy by the number of the user's known jobs: ``from`` this number up to the next line's.

    Jobs without an answer are left out.
    """
    hits = accuracies(forecasts, jobs.values)
    known = np.zeros(len(jobs), dtype=np.intp)
    for user in users:
        known[user] = learning_order(jobs, user, protocol)[1]
    step = np.searchsorted(HISTORIES, known, side="right") - 1
    step[np.isnan(forecasts)] = -1
    counts = [int((step == k).sum()) for k in range(len(HISTORIES))]
    return [
        {"from": least, "jobs": counts[k], "micro": float(hits[step == k].mean()) if counts[k] else None}
        for k, least in enumerate(HISTORIES)
    ]


def _cost_line(reserved: Floats, jobs: Jobs, among: NDArray[np.bool_] | None = None) -> dict[str, float | int | None]:
    """Compute the cost over the compared jobs ``among``, (n,), and the share of all jobs with a reservation."""
    share = float((~np.isnan(reserved)).mean()) if len(jobs) else None
    paid = reservation_cost(reserved if among is None else np.where(among, reserved, np.nan), jobs.values, jobs.seconds)
    if paid is None:
        return {"coverage": None, "failures": None, "maq": None, "wasted": None, "jobs": 0, "share": share}
    return asdict(paid) | {"share": share}
