"""How much memory to ask for: answers for submitted jobs, learning from their outcomes."""

from __future__ import annotations

from jobsight_server.requirements.ask import Feedback, Requirement, RetryError, SubmittedJob, Taken, ask, take_feedback
from jobsight_server.requirements.config import RequirementConfig, requirement_config

__all__ = [
    "Feedback",
    "Requirement",
    "RequirementConfig",
    "RetryError",
    "SubmittedJob",
    "Taken",
    "ask",
    "requirement_config",
    "take_feedback",
]
