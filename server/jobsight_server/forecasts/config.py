"""How a site learns: job groups, coverage, and which values count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobsight_predictor.forecasters.parameters import DEFAULT_PARAMETERS, FiveParameters
from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile import Profile
from jobsight_predictor.question import (
    DEFAULT_JOB_GROUPS,
    LIMITS,
    OBJECTIVES,
    JobGroup,
    Limit,
    Objective,
    parse_job_group,
)
from jobsight_server.settings import Settings
from jobsight_server.settings.by_metric import five_parameters

GROUP_FIELDS = ("group", "account")
"""Fields that put several users together, and may have profiles as users have."""


@dataclass(frozen=True, slots=True)
class ForecastConfig:
    """How jobs are grouped, how bounds are set, and which values are learned.

    ``job_groups`` go from specific to general. ``coverage`` is the target fraction of jobs within their bounds,
    ``objective`` what reservations aim at, ``walltime_limit`` whether requested times are enforced. ``five`` has the
    parameters of the published five for metrics in which they are not the default, and ``fabric`` the network whose
    bandwidth is learned.
    """

    job_groups: tuple[JobGroup, ...] = DEFAULT_JOB_GROUPS
    coverage: float = 0.95
    learn_apportioned: bool = False
    objective: Objective = "coverage"
    walltime_limit: Limit = "auto"
    five: Mapping[str, FiveParameters] = field(default_factory=dict)
    fabric: str = "fastest"

    def learns(self, attribution: str | None) -> bool:
        """Whether a value of this attribution is learned; others are only shown (docs/definitions.md, Attribution)."""
        return self.learn_apportioned if attribution == "apportioned" else attribution != "unknown"

    @property
    def group_fields(self) -> tuple[str, ...]:
        """Of group and account those in a job group: of these, profiles of their own are kept."""
        used = {field for job_group in self.job_groups for field in job_group}
        return tuple(field for field in GROUP_FIELDS if field in used)

    def parameters(self, metric: str) -> FiveParameters:
        """The parameters of the published five in ``metric``."""
        return self.five.get(metric, DEFAULT_PARAMETERS)

    def profile(self, metric: str) -> Profile:
        """An empty profile of ``metric``."""
        return Profile(
            METRICS[metric].unit,
            self.job_groups,
            self.coverage,
            metric=metric,
            objective=self.objective,
            limit=self.walltime_limit if metric == "runtime" else "auto",
        )

    def made(self, stored: str) -> bool:
        """Whether the stored text of an answer agrees with this configuration and release.

        A changed ``coverage`` applies from the next question on; answers stored before are recomputed.
        """
        return f'"coverage":{self.coverage!r},' in stored and '"attempts":' in stored


def forecast_config(settings: Settings) -> ForecastConfig:
    """The configuration from the settings that concern learning."""
    job_groups = tuple(parse_job_group(text) for text in settings.job_groups)
    (objective,) = [name for name in OBJECTIVES if name == settings.bound_objective]
    (limit,) = [name for name in LIMITS if name == settings.walltime_limit]
    five = five_parameters(settings.window, settings.bins, settings.alpha)
    return ForecastConfig(
        job_groups, settings.coverage, settings.learn_apportioned, objective, limit, five, settings.fabric
    )
