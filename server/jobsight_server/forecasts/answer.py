"""An answer as it is stored and sent: what a job will need, how sure that is, and on what it rests."""

from __future__ import annotations

from typing import Any

from jobsight_predictor.answer import Answer
from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile import Profile
from jobsight_predictor.series import Answer as OfFive
from jobsight_predictor.templates import Question


def answer_fields(profile: Profile, question: Question) -> dict[str, Any]:
    """What the profile answers: ``value``, how much to reserve, and where that comes from."""
    return {**_said(profile.answer(question)), "regret": _regret(profile, question.user)}


def no_answer(metric: str, coverage: float, reason: str) -> dict[str, Any]:
    """The same fields where there is no answer."""
    nothing = Answer(
        value=None,
        unit=METRICS[metric],
        forecaster=None,
        level=None,
        n=0,
        probability=None,
        bound=None,
        bound_basis=None,
        exceeds=None,
        coverage=coverage,
        observed_coverage=None,
        observed_cost_coverage=None,
        runner_up=None,
        last_values=(),
        reason=reason,
    )
    return {**_said(nothing), "regret": None}


def five_fields(five: OfFive, updated: float | None) -> dict[str, Any]:
    """What the published five say of the user's own jobs; ``updated``: end of the last one learned."""
    return {
        "user_jobs": five.n,
        "forecasts": five.forecasts,
        "accuracy": five.accuracies,
        "pqm": five.pqm,
        "recent_pqm": five.recent_pqm,
        "updated": updated,
    }


def _said(answer: Answer) -> dict[str, Any]:
    other = answer.runner_up
    return {
        "unit": answer.unit,
        "value": answer.value,
        "forecaster": answer.forecaster,
        "level": answer.level,
        "n": answer.n,
        "probability": answer.probability,
        "bound": answer.bound,
        "bound_basis": answer.bound_basis,
        "exceed_probability": answer.exceeds,
        "coverage": answer.coverage,
        "observed_coverage": answer.observed_coverage,
        "observed_cost_coverage": answer.observed_cost_coverage,
        "runner_up": other and {"value": other.value, "forecaster": other.forecaster, "level": other.level},
        "last_values": list(answer.last_values),
        "reason": answer.reason,
    }


def _regret(profile: Profile, user: str | None) -> dict[str, Any] | None:
    """Mean capped relative errors over the user's jobs: of the answers, and of the best candidate in hindsight."""
    found = profile.regret(user)
    if found is None:
        return None
    regret, name = found
    return {
        "jobs": regret.jobs,
        "answered": regret.answered / regret.jobs,
        "best": regret.best / regret.jobs,
        "best_candidate": name,
    }
