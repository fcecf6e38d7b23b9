"""On-line matching of jobs to shared, heterogeneous resources (Naik, Liu, Yang and Wagner 2005)."""

from .answer import Answer, Match, ObjectiveValue, Unmatched
from .ladder import DEADLINE_S, match
from .problem import OBJECTIVES, MatchJob, Objective, Problem, Resource
from .read import read_problem
from .records import InvalidProblemError

__all__ = [
    "DEADLINE_S",
    "OBJECTIVES",
    "Answer",
    "InvalidProblemError",
    "Match",
    "MatchJob",
    "Objective",
    "ObjectiveValue",
    "Problem",
    "Resource",
    "Unmatched",
    "match",
    "read_problem",
]
