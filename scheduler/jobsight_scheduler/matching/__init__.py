"""On-line matching of jobs to shared, heterogeneous resources (Naik, Liu, Yang and Wagner 2005)."""

from .answer import Answer, Match, ObjectiveValue, Unmatched
from .ladder import DEADLINE_S, match
from .policies import PolicyRule, Verdict, verdict
from .predicates import PredicateError, parse
from .problem import (
    OBJECTIVES,
    Capacity,
    Dependency,
    Hold,
    InvalidProblemError,
    MatchJob,
    Objective,
    Preference,
    Problem,
    Relation,
    Resource,
)
from .read import LIMITS, BatchLimits, read_problem

__all__ = [
    "DEADLINE_S",
    "LIMITS",
    "OBJECTIVES",
    "Answer",
    "BatchLimits",
    "Capacity",
    "Dependency",
    "Hold",
    "InvalidProblemError",
    "Match",
    "MatchJob",
    "Objective",
    "ObjectiveValue",
    "PolicyRule",
    "PredicateError",
    "Preference",
    "Problem",
    "Relation",
    "Resource",
    "Unmatched",
    "Verdict",
    "match",
    "parse",
    "read_problem",
    "verdict",
]
