"""The machine of a trace, and what Jobsight would have forecast and recommended to its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from jobsight_predictor.question import Question
from jobsight_scheduler.workload.canonical import questions_of
from jobsight_scheduler.workload.swf import Trace
from jobsight_server.decision.evidence import ASKED_FOR
from jobsight_server.forecasts.events import UNKNOWN, Finished, ForecastDue, Observation, when
from jobsight_server.forecasts.learner import Learner, no_collection
from jobsight_server.forecasts.request import ForecastConfig, ForecastJob
from jobsight_server.ground.errors import UserError
from jobsight_server.replay.machines import Machine, MachineJob, counted_nodes
from jobsight_server.replay.record import assumed_size


def trace_machine(trace: Trace, name: str) -> Machine:
    """Return the machine of a trace, whose jobs have no forecasts yet.

    Raises:
        UserError: the trace has no usable job.
    """
    is_usable = (trace["submit_s"] >= 0.0) & (trace["run_s"] > 0.0) & (trace["processors"] >= 1.0)
    rows = np.flatnonzero(is_usable)
    rows = rows[np.argsort(trace["submit_s"][rows], kind="stable")]
    if not len(rows):
        raise UserError(f"{name}: no job has a submission, a run time and processors")
    questions = questions_of(trace, rows)
    submit = trace["submit_s"] + trace.begin_s
    start = submit + np.maximum(trace["wait_s"], 0.0)
    used = np.maximum(trace["memory_kb"], 0.0) * 1024.0
    held = trace["processors"].astype(np.int64)  # which may be more than requested, such as a whole partition
    columns = (column[rows].tolist() for column in (held, submit, start, start + trace["run_s"], used, trace.ended))
    found = []
    for row, of, processors, submitted, began, end, bytes_, ended in zip(
        rows.tolist(), questions, *columns, strict=True
    ):
        same = row, "", "", of.user or "", processors, submitted, began, end
        asked = of.requested_time_s, of.requested_memory_bytes
        found.append(MachineJob(*same, *asked, bytes_ or None, counts=ended))
    stated = trace.max_processors
    size = assumed_size(*np.array([(job.start, job.end, job.processors) for job in found]).T)
    forecast, assumed = partial(_forecast, found, questions), None if stated else size
    return Machine(name, counted_nodes(stated or size.processors), found, False, assumed, forecast)


def _forecast(
    known: Sequence[MachineJob], questions: Sequence[Question], jobs: Sequence[MachineJob]
) -> list[MachineJob]:
    """Return ``jobs``, some of those ``known``, with what the server would have forecast and recommended to each."""
    events: list[ForecastDue | Finished] = []
    for job, question in zip(known, questions, strict=True):
        given, times = (job.requested_bytes, job.limit_s), (job.submitted, job.start, job.end)
        of = ForecastJob(job.id, job.cluster, question, *given, "ended", *times, None, str(job.id), None)
        events.append(ForecastDue(of, ASKED_FOR, "submission"))
        if job.counts:
            used = {"memory": job.used_bytes, "runtime": job.end - job.start}
            known_use = {metric: None if value is None else Observation(value) for metric, value in used.items()}
            events.append(Finished(of, known_use))
    events.sort(key=when)
    with no_collection():
        judged = Learner(ForecastConfig(requests_only=True), ASKED_FOR).learn(events, {})
    found = []
    for job in jobs:
        time, memory = (judged.get((job.id, metric), UNKNOWN) for metric in ("runtime", "memory"))
        found.append(job._replace(forecast_s=time.forecast, bound_s=time.bound, recommended=memory.attempts))
    return found
