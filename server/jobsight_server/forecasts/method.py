"""How profiles are made at this site."""

from __future__ import annotations

from dataclasses import dataclass

from jobsight_predictor.bounds import OBJECTIVES, Objective
from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile import Profile
from jobsight_predictor.requests import LIMITS, Limit
from jobsight_predictor.template_text import parse_template
from jobsight_predictor.templates import DEFAULT_TEMPLATES, Template
from jobsight_server.settings import Settings


@dataclass(frozen=True, slots=True)
class Method:
    """By which templates jobs are grouped, which share of jobs is to fit into the bounds, in what sense, and whether

    requested times are enforced.
    """

    templates: tuple[Template, ...] = DEFAULT_TEMPLATES
    coverage: float = 0.95
    objective: Objective = "cost"
    walltime_limit: Limit = "auto"

    def profile(self, metric: str) -> Profile:
        """An empty profile of ``metric``."""
        return Profile(
            METRICS[metric],
            self.templates,
            self.coverage,
            metric=metric,
            objective=self.objective,
            limit=self.walltime_limit if metric == "runtime" else "auto",
        )


def method_of(settings: Settings) -> Method:
    """What the settings ``templates``, ``coverage``, ``bound_objective`` and ``walltime_limit`` say."""
    templates = tuple(parse_template(text) for text in settings.templates)
    (objective,) = [name for name in OBJECTIVES if name == settings.bound_objective]
    (limit,) = [name for name in LIMITS if name == settings.walltime_limit]
    return Method(templates, settings.coverage, objective, limit)
