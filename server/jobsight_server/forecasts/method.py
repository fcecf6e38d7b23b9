"""How a site learns: job groups, coverage, and which values count."""

from __future__ import annotations

from dataclasses import dataclass

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile import Profile
from jobsight_predictor.template_text import parse_template
from jobsight_predictor.templates import DEFAULT_TEMPLATES, Template
from jobsight_server.settings import Settings


@dataclass(frozen=True, slots=True)
class Method:
    """By which templates jobs are grouped, which share of jobs is to fit into the bounds, which values are learned."""

    templates: tuple[Template, ...] = DEFAULT_TEMPLATES
    coverage: float = 0.95
    learn_apportioned: bool = False

    def learns(self, attribution: str | None) -> bool:
        """Whether a value of this attribution is learned; others are shown only [DEFINITIONS 1]."""
        return self.learn_apportioned if attribution == "apportioned" else attribution != "unknown"

    def profile(self, metric: str) -> Profile:
        """An empty profile of ``metric``."""
        return Profile(METRICS[metric], self.templates, self.coverage)

    def made(self, stored: str) -> bool:
        """Whether the stored text of an answer is one that this configuration gives.

        A changed ``coverage`` holds from the next question on; what was written before it is worked out again.
        """
        return f'"coverage":{self.coverage!r},' in stored


def method_of(settings: Settings) -> Method:
    """What the settings ``templates``, ``coverage`` and ``learn_apportioned`` say."""
    templates = tuple(parse_template(text) for text in settings.templates)
    return Method(templates, settings.coverage, settings.learn_apportioned)
