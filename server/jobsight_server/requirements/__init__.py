"""How much memory to ask for: answers for submitted jobs, learning from their outcomes."""

from __future__ import annotations

from jobsight_server.requirements.ask import Requirement, RetryError, SubmittedJob, ask
from jobsight_server.requirements.config import RequirementConfig, requirement_config
from jobsight_server.requirements.feedback import Feedback, Taken, take_feedback

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
