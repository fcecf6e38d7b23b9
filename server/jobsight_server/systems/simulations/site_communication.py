"""The finished jobs of a site with the bandwidth that was measured of them, to try placements on what it really ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, FromClause, and_, func, select

from jobsight_predictor.question import Question
from jobsight_scheduler.workload.canonical import Workload
from jobsight_server.errors import UserError
from jobsight_server.forecasts.request import job_question
from jobsight_server.queries.site_trace import most_at_once
from jobsight_server.storage.schema import jobs, profiles

Floats = NDArray[np.float64]
_SUBMITTED = func.coalesce(jobs.c.submitted, jobs.c.start)
_ENDED = (jobs.c.state == "ended", jobs.c.end > jobs.c.start, jobs.c.processors > 0)


@dataclass(frozen=True, slots=True)
class SiteJobs:
    """All finished jobs in the order of submission; arrays of shape (jobs,).

    ``bandwidth_bps`` per processor and ``busy`` share of the processors, NaN where not measured. ``clusters`` are the
    site's, with the most processors in use at once on each.
    """

    workload: Workload
    questions: list[Question]
    bandwidth_bps: Floats
    busy: Floats
    clusters: dict[str, int]


def site_jobs(connection: Connection) -> SiteJobs:
    """The jobs of all clusters of the database, as one site.

    Raises:
        UserError: no job has ended, or of none the bandwidth is known.
    """
    bandwidth, cpu = profiles.alias(), profiles.alias()
    columns = (
        jobs.c.cluster, _SUBMITTED.label("submitted"), jobs.c.start, jobs.c.end, jobs.c.processors, jobs.c.user,
        jobs.c.name, jobs.c.queue, jobs.c.requested_memory_bytes, jobs.c.requested_walltime_s, jobs.c.group,
        bandwidth.c.value.label("bandwidth"), cpu.c.value.label("cpu"),
    )  # fmt: skip
    measured: FromClause = jobs
    for metric, values in (("bandwidth", bandwidth), ("cpu", cpu)):
        measured = measured.outerjoin(values, and_(values.c.run_id == jobs.c.id, values.c.metric == metric))
    rows = connection.execute(select(*columns).select_from(measured).where(*_ENDED).order_by(_SUBMITTED, jobs.c.id))
    return _of_rows(rows.all(), {name: most_at_once(connection, name) for name in _clusters(connection)})


def _clusters(connection: Connection) -> list[str]:
    return sorted(connection.scalars(select(jobs.c.cluster).where(*_ENDED).distinct()))


def _of_rows(rows: Sequence[Any], clusters: dict[str, int]) -> SiteJobs:
    if not rows:
        raise UserError("the database has no finished job with a known number of processors")
    several = len(clusters) > 1
    found = SiteJobs(
        _workload(rows),
        [
            job_question(
                f"{row.cluster}/{row.user}" if several else row.user, row.name, row.queue, row.processors,
                row.requested_memory_bytes, row.requested_walltime_s, row.group,
            )
            for row in rows
        ],
        _column(rows, "bandwidth"),
        _column(rows, "cpu"),
        clusters,
    )  # fmt: skip
    if np.isnan(found.bandwidth_bps).all():
        raise UserError(f"none of the {len(rows):,} finished jobs has a measured bandwidth: are agents running?")
    return found


def _workload(rows: Sequence[Any]) -> Workload:
    submitted, start, end = (_column(rows, name) for name in ("submitted", "start", "end"))
    run, asked = end - start, _column(rows, "requested_walltime_s")
    return Workload(
        submit_s=submitted - submitted[0],
        run_s=run,
        estimate_s=np.where(asked > run, asked, run),
        processors=np.array([row.processors for row in rows], dtype=np.int64),
        row=np.arange(len(rows)),
        counts=Counter(jobs=len(rows)),
    )


def _column(rows: Sequence[Any], name: str) -> Floats:
    return np.array([getattr(row, name) for row in rows], dtype=np.float64)  # None becomes NaN
