"""The jobs of a Jobsight database as a workload that can be replayed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from sqlalchemy import Connection, and_, select

from jobsight_predictor.evaluation.jobs import Jobs
from jobsight_predictor.forecasters.base import LARGEST
from jobsight_predictor.metrics import METRICS
from jobsight_predictor.question import Question
from jobsight_server.accounting.runs import ENDED
from jobsight_server.forecasts.request import question_of
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.clusters import Part
from jobsight_server.storage.schema import job_nodes, jobs, profiles

_OF_METRIC = ("value", "reason", "attribution", "shown_only", "lower_bound")


def jobs_of_database(connection: Connection, metric: str, part: Part, name: str) -> Jobs:
    """Read the ended runs of a part with a value of ``metric``, all clusters as one site.

    With all clusters, a user's name is ``cluster/user``, since one name may belong to different people. Omitted runs
    are counted by reason.

    Raises:
        UserError: unknown metric.
    """
    if metric not in METRICS:
        raise UserError(f"unknown metric {metric!r}; choose one of {', '.join(METRICS)}")
    names = set(connection.scalars(select(job_nodes.c.node).distinct()))
    skipped: Counter[str] = Counter()
    kept: list[tuple[float, Any]] = []
    for row in connection.execute(_query(metric, part)):
        submitted = row.start if row.submitted is None else row.submitted
        reason = _unusable(row, submitted, metric)
        if reason is None:
            kept.append((submitted, row))
        else:
            # Without the node's name, so that similar reasons are counted as one.
            skipped[" ".join("a node" if word in names else word for word in reason.split(" "))] += 1
    kept.sort(key=lambda pair: pair[0])
    rows = [row for _, row in kept]
    several = len({row.cluster for row in rows}) > 1
    questions = [question_of(row) for row in rows]
    if several:
        questions = [one._replace(user=f"{row.cluster}/{row.user}") for one, row in zip(questions, rows, strict=True)]
    return Jobs(
        name=name,
        metric=metric,
        questions=questions,
        submitted=np.array([submitted for submitted, _ in kept], dtype=np.float64),
        ended=np.array([row.end for row in rows], dtype=np.float64),
        values=np.array([row.value for row in rows], dtype=np.float64),
        seconds=np.array([max(row.end - row.start, 1.0) for row in rows], dtype=np.float64),
        requested=np.array([_requested(question, metric) for question in questions], dtype=np.float64),
        skipped=dict(skipped),
    )


def _query(metric: str, part: Part) -> Any:
    is_measured = and_(profiles.c.run_id == jobs.c.id, profiles.c.metric == metric)
    return (
        select(jobs, *(profiles.c[name] for name in _OF_METRIC))
        .outerjoin(profiles, is_measured)
        .where(*part.conditions)
        .order_by(jobs.c.id)
    )


def _unusable(row: Any, submitted: float, metric: str) -> str | None:
    if row.end is None:
        return f"not ended: {row.state}"
    if row.end < row.start:
        return "ends before it starts"
    if row.end < submitted:
        return "ends before it was submitted"
    if row.value is None:
        unprofiled = "not profiled yet" if row.state == ENDED else f"a run that is {row.state} is not profiled"
        return f"no {metric} value: {row.reason or unprofiled}"
    if row.lower_bound:
        return f"{metric} value is a lower bound: the job ran out of it"
    if row.shown_only:
        return f"{metric} value is {row.attribution}: shown, not learned"
    return None if 0.0 <= row.value <= LARGEST else f"{metric} value is not a measurement"


def _requested(question: Question, metric: str) -> float:
    asked = {"memory": question.requested_memory_bytes, "runtime": question.requested_time_s}.get(metric)
    return np.nan if asked is None else asked
