"""On-line matching of jobs to shared, heterogeneous resources (Naik, Liu, Yang and Wagner 2005)."""

from jobsight_scheduler.matching.check import Answer

from .ladder import DEADLINE_S, match
from .problem import OBJECTIVES, Problem
from .read import read_problem
from .records import InvalidProblemError

__all__ = ["DEADLINE_S", "OBJECTIVES", "Answer", "InvalidProblemError", "Problem", "match", "read_problem"]
