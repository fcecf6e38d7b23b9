"""On-line matching of jobs to shared, heterogeneous resources (Naik, Liu, Yang and Wagner 2005)."""

from jobsight_scheduler.matching.check import Answer
from jobsight_scheduler.matching.ladder import DEADLINE_S, match
from jobsight_scheduler.matching.problem import OBJECTIVES, Problem
from jobsight_scheduler.matching.read import read_problem
from jobsight_scheduler.matching.records import InvalidProblemError

__all__ = ["DEADLINE_S", "OBJECTIVES", "Answer", "InvalidProblemError", "Problem", "match", "read_problem"]
