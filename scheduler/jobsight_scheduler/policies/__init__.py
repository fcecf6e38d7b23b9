"""Policies, which decide when jobs start: one per file, a table of them by name, and the use of custom ones."""

from __future__ import annotations

from .base import NEVER, JobRequests, Policy, PolicyError, QueueTooLongError
from .chosen import POLICIES, ChosenPolicy, PolicyEntry, choose_policy
from .easy_by_key import EasyByKey
from .multifactor import PriorityWeights, priority_weights
from .own import entry_of

__all__ = [
    "NEVER",
    "POLICIES",
    "ChosenPolicy",
    "EasyByKey",
    "JobRequests",
    "Policy",
    "PolicyEntry",
    "PolicyError",
    "PriorityWeights",
    "QueueTooLongError",
    "choose_policy",
    "entry_of",
    "priority_weights",
]
