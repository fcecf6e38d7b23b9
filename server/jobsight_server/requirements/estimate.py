"""What one of the published families of estimators asks for, from success and failure alone."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from sqlalchemy import Connection

from jobsight_predictor.estimators.base import Estimator, Outcome
from jobsight_predictor.question import Question
from jobsight_server.requirements.config import RequirementConfig
from jobsight_server.requirements.stored import Parts, read_parts

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
    estimator.learn(job, float(requested), Outcome(float(given), float(given), failed, used))
    return estimator.state()


def learned_keys(config: RequirementConfig, job: Question, requested: int) -> list[str]:
    """The parts that learning depends on and changes."""
    estimator, job = _estimator(config, job, requested)
    return estimator.learned_keys(job, requested)


def _estimator(config: RequirementConfig, job: Question, requested: int) -> tuple[Estimator, Question]:
    """It takes the request as it was made, whole."""
    return config.estimator(float(requested)), replace(job, requested_memory_bytes=float(requested))
