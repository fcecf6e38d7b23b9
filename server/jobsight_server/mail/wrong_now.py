"""Present faults, a line each: the conditions of ``deploy/prometheus/jobsight.rules.yml`` in words."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, func, select

from jobsight_server.accounting.amounts import time_text
from jobsight_server.queries.node_states import node_loads
from jobsight_server.queries.running import Foreseen, running_out
from jobsight_server.queries.trust import of_clusters
from jobsight_server.storage.schema import quarantine
from jobsight_server.storage.server_states import trend

_WEEK_S = 7 * 86400.0
_FREE_AT_LEAST_BYTES = 2**30
_LISTED = 20


def wrong_now(connection: Connection, now: float) -> list[str]:
    """Return a sentence for each fault that needs an administrator; none if all is well."""
    return [*_silent(connection, now), *_rejected(connection, now), *_disk(connection, now), *_broken(connection, now),
            *(f"{soon_out(each)}." for each in running_out(connection, now)[:_LISTED])]  # fmt: skip


def soon_out(each: Foreseen) -> str:
    """Return a sentence with the job that will run out, or has, of which resource."""
    job = f"Job {each.job_id} of {each.user} on {each.cluster}"
    if each.limit is not None and each.used > each.limit:
        since = f" for {time_text(each.used - each.limit)}" if each.resource == "time" else ""
        return f"{job} is over its limit of {each.resource}{since}, which the scheduler has not enforced"
    chance = "" if each.soon is None else f" with a chance of {each.soon:.0%} within the hour"
    return f"{job} runs out of {each.resource}{chance}"


def _silent(connection: Connection, now: float) -> Iterator[str]:
    loads = node_loads(connection, now).values()
    silent = sorted((load.age_s, f"{load.cluster}/{load.name}") for load in loads if load.status == "silent")
    if silent:
        shown = ", ".join(name for _, name in silent[:_LISTED]) + (", ..." if len(silent) > _LISTED else "")
        yield f"Silent nodes: {len(silent)} of {len(loads)}, last {shown}."


def _rejected(connection: Connection, now: float) -> Iterator[str]:
    """Count batches alone: the other counts have no times."""
    recent = select(func.count()).select_from(quarantine).where(quarantine.c.received_at >= now - _WEEK_S)
    if number := connection.scalar(recent):
        yield f"Batches rejected in the last seven days: {number}; the page Rejected data says why."


def _disk(connection: Connection, now: float) -> Iterator[str]:
    found = trend(connection, now)
    free, growth = found.now.free_bytes, found.growth_bytes_s or 0.0
    if free is not None and free < _FREE_AT_LEAST_BYTES:
        yield f"The disk of the database has {free / 2**20:.0f} MiB left."
    elif free is not None and growth > 0 and free / growth < _WEEK_S:
        yield f"The disk of the database is full in {free / growth / 86400:.1f} days."


def _broken(connection: Connection, now: float) -> Iterator[str]:
    for row in of_clusters(connection, now):
        if row.first_bad_day is not None:
            yield (
                f"Forecasts of {row.metric} on {row.cluster} are less accurate since {row.first_bad_day}: "
                f"{row.accuracy_since:.2f}, before {row.accuracy_before:.2f}."
            )
