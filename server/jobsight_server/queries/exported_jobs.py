"""Finished jobs for other programs: the request and use of each, and its forecasts at submission."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from sqlalchemy import Engine, select

from jobsight_server.forecasts.stored_model import recommended_requests
from jobsight_server.storage.clusters import Part
from jobsight_server.storage.schema import jobs, profiles

_AT_ONCE = 1000

_OF_RUN = {
    "cluster": "text",
    "job_id": "text",
    "user": "text",
    "group": "text",
    "account": "text",
    "name": "text",
    "queue": "text",
    "submitted": "time",
    "start": "time",
    "end": "time",
    "suspended_s": "number",
    "processors": "whole",
    "gpus": "whole",
    "exit_status": "whole",
    "failure": "text",
    "requested_walltime_s": "number",
    "requested_memory_bytes": "whole",
    "memory_is_virtual": "flag",
    "requested_nodes": "text",
}
_UNITS = {
    "bandwidth": "bandwidth_bps_per_processor",
    "memory": "memory_bytes_per_processor",
    "cpu": "cpu_s_per_processor_s",
    "runtime": "runtime_s",
    "gpu_memory": "gpu_memory_bytes",
    "gpu_utilisation": "gpus_busy",
}
JOB_COLUMNS = {
    **_OF_RUN,
    **{
        f"{part}_{name}": kind
        for name in _UNITS.values()
        for part, kind in (
            ("used", "number"),
            ("used_more_than", "flag"),
            ("forecast", "number"),
            ("reserve", "number"),
        )
    },
}
"""Kind by name, as in docs/operate/operations.md."""


def finished_jobs(engine: Engine, part: Part) -> Generator[dict[str, Any]]:
    """Yield the ended runs of this part, in order of storing."""
    wanted = [jobs.c.state == "ended", jobs.c.end.is_not(None), *part.conditions]
    columns = [jobs.c.id, *(jobs.c[name] for name in _OF_RUN)]
    last = -1
    while True:
        query = select(*columns).where(*wanted, jobs.c.id > last).order_by(jobs.c.id).limit(_AT_ONCE)
        with engine.connect().execution_options(reading=True) as connection:
            rows = {row["id"]: dict(row) for row in connection.execute(query).mappings()}
            names = ("run_id", "metric", "value", "lower_bound", "forecast", "bound", "attempts")
            query = select(*(profiles.c[name] for name in names)).where(profiles.c.run_id.in_(rows))
            used = connection.execute(query).all() if rows else []
        for found in used:
            if (unit := _UNITS.get(found.metric)) is not None:
                rows[found.run_id] |= {
                    f"used_{unit}": found.value,
                    f"used_more_than_{unit}": found.lower_bound,
                    f"forecast_{unit}": found.forecast,
                    f"reserve_{unit}": next(iter(recommended_requests(found.bound, found.attempts)), None),
                }
        if not rows:
            return
        last = max(rows)
        for row in rows.values():
            yield {name: row.get(name) for name in JOB_COLUMNS}
