"""Groups of similar jobs with their outcomes, and the estimators that learn from these."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, case, func, insert, update

from jobsight_predictor.estimators.base import Estimator, JobOutcome
from jobsight_predictor.question import Question
from jobsight_server.forecasts.reader import short_key
from jobsight_server.forecasts.request import question_text
from jobsight_server.requirements.config import REQUEST, RequirementConfig
from jobsight_server.requirements.stored import Parts, read_parts
from jobsight_server.storage.schema import requirement_groups

_KNOWN = (
    requirement_groups.c.id,
    requirement_groups.c.finished,
    requirement_groups.c.failed,
    requirement_groups.c.used_bytes,
    requirement_groups.c.enough_bytes,
)


def count_asked(
    connection: Connection, config: RequirementConfig, cluster: str, job: Question, requested_bytes: int, now: float
) -> Row[Any]:
    """Counts one more job of its group; returns what is known about the group."""
    fields = [*((field, getattr(job, field)) for field in config.group), (REQUEST, requested_bytes)]
    key = short_key(msgspec.json.encode(fields).decode())
    latest = {"question": question_text(job), "last_asked": now}
    place = (requirement_groups.c.cluster == cluster) & (requirement_groups.c.key == key)
    one_more = update(requirement_groups).where(place).values(asked=requirement_groups.c.asked + 1, **latest)
    known = connection.execute(one_more.returning(*_KNOWN)).first()
    if known is None:
        none = {"asked": 1, "finished": 0, "failed": 0, "freed_bytes": 0.0}
        row = {"cluster": cluster, "key": key, "requested_bytes": requested_bytes, **none, **latest}
        known = connection.execute(insert(requirement_groups).values(row).returning(*_KNOWN)).one()
    return known


def count_ended(connection: Connection, tried: Row[Any], *, failed: bool, used_bytes: int | None) -> None:
    """Counts how a try of the group ended. A finished one frees what it requested and was not given."""
    counted = requirement_groups.c
    changed: dict[str, Any] = {}
    if used_bytes is not None:
        changed["used_bytes"] = _extreme(counted.used_bytes, used_bytes, largest=True)
    if failed:
        changed["failed"] = counted.failed + 1
    else:
        enough = tried.memory_bytes if used_bytes is None else used_bytes
        changed["finished"] = counted.finished + 1
        changed["freed_bytes"] = counted.freed_bytes + float(tried.requested_bytes - tried.memory_bytes)
        changed["enough_bytes"] = _extreme(counted.enough_bytes, enough, largest=False)
    connection.execute(update(requirement_groups).where(counted.id == tried.group_id).values(changed))


def _extreme(column: Any, value: int, *, largest: bool) -> Any:
    """The larger, or the smaller, of a column and a value; the value where there is none yet."""
    known = func.coalesce(column, value)
    return case((known > value if largest else known < value, known), else_=value)


MIB = 2**20  # the finest that every scheduler takes


def estimate(connection: Connection, config: RequirementConfig, cluster: str, job: Question, requested: int) -> int:
    """The memory to ask for, in bytes: at most the request; one of the site's capacities if these are known, else whole
    MiB."""
    estimator, job = _estimator(config, job, requested)
    estimator.load(read_parts(connection, cluster, config.method, estimator.keys(job, requested)))
    found = estimator.estimate(job, float(requested))
    found = estimator.rounded(found) if config.capacities else ceil(found / MIB) * MIB
    return min(ceil(found), requested)


def learn(
    config: RequirementConfig,
    parts: Parts,
    job: Question,
    requested: int,
    given: int,
    *,
    failed: bool,
    used_bytes: int | None,
) -> Parts:
    """The changed parts, after a job that requested and was given so many bytes has ended."""
    estimator, job = _estimator(config, job, requested)
    estimator.load(parts)
    if failed and used_bytes is not None and used_bytes <= given:
        used_bytes = None  # it was stopped there; its need is unknown
    used = None if used_bytes is None else float(used_bytes)
    estimator.learn(job, float(requested), JobOutcome(float(given), float(given), failed, used))
    return estimator.state()


def learned_keys(config: RequirementConfig, job: Question, requested: int) -> list[str]:
    """The parts that learning depends on and changes."""
    estimator, job = _estimator(config, job, requested)
    return estimator.learned_keys(job, requested)


def _estimator(config: RequirementConfig, job: Question, requested: int) -> tuple[Estimator, Question]:
    """It takes the request as it was made, whole."""
    return config.estimator(float(requested)), replace(job, requested_memory_bytes=float(requested))
