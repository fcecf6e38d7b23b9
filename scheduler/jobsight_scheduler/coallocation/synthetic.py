"""A recorded workload with communication drawn for its jobs, and what may be known about them at submission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.question import Question
from jobsight_scheduler.workload.canonical import Workload
from jobsight_scheduler.workload.communicating_jobs import CommunicatingJobs
from jobsight_scheduler.workload.communication import Habits, communication
from jobsight_scheduler.workload.questions import questions_of
from jobsight_scheduler.workload.swf import Trace

from .labels import RIGHT, LabelFaults, labels_of


@dataclass(frozen=True, slots=True)
class SyntheticWorkload:
    """The jobs as they are, their users' statements, and what a predictor may know about them."""

    work: CommunicatingJobs
    stated_bps: NDArray[np.float64]
    questions: Sequence[Question]


def draw_communication(
    trace: Trace, jobs: Workload, seed: int, habits: Habits | None = None, faults: LabelFaults = RIGHT
) -> SyntheticWorkload:
    """Draws the communication of ``jobs`` of ``trace``, per user and application, and the names that jobs carry.

    Applications are assigned to users even if the trace has some: those of SDSC-SP2 are 44,722 in 49,943 jobs, names
    of single runs.
    """
    habits = habits or Habits()
    users = trace["user"][jobs.row].astype(np.int64)
    drawn = communication(users, np.full(len(jobs), -1), seed, habits)
    names = labels_of(drawn.application, habits.applications, seed, faults)
    questions = [
        replace(question, application=name) for question, name in zip(questions_of(trace, jobs.row), names, strict=True)
    ]
    return SyntheticWorkload(CommunicatingJobs(jobs, drawn.bandwidth_bps, drawn.share), drawn.stated_bps, questions)
