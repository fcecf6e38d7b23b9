"""Whether a job fits a gap: the probability that it succeeds there, and what that is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from jobsight_predictor.question import Question
from jobsight_predictor.runtime.accuracy import RuntimeAccuracy
from jobsight_predictor.runtime.success import Correct, SuccessProbability, machine_factors
from jobsight_server.record import Record, Share
from jobsight_server.systems.offers.config import PlanConfig

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Gap:
    """A job of ``requested_s`` on ``nodes`` nodes that would start at ``start`` and be stopped at ``end``.

    ``elapsed_s``: how long it has run already.
    """

    cluster: str
    job: Question
    nodes: int
    requested_s: float
    start: float
    end: float
    elapsed_s: float = 0.0


class RunTimeSource(Record):
    """The finished jobs that a run time is judged by.

    ``group`` names the most specific group with any of them, ``jobs`` is their number, recent ones counting more.
    ``known_user``: whether the user's own jobs are among them. ``median`` and ``p90``: shares of the requested time
    within which half and nine tenths of such jobs end.
    """

    group: str
    jobs: float
    known_user: bool
    median: Share
    p90: Share


class Risk(Record):
    """What is at stake with a job in a gap. Charge and penalty are in hours, those of the requested time.

    ``pos`` = ``p_available`` (its nodes are up at the start) * ``p_executable`` (it ends within the gap) *
    ``p_success`` (no node fails meanwhile), ``pof`` = 1 - ``pos``. Nodes fail in any plan; ``accept`` where 1 -
    ``p_executable`` is below ``max_failure``. ``p_executable`` is corrected by how earlier jobs of this cluster's plan
    kept to theirs; ``p_executable_predicted`` is the same before.
    """

    cluster: str
    user: str | None
    application: str | None
    queue: str | None
    nodes: int
    requested_s: float
    start: float
    end: float
    p_available: Share
    p_executable: Share
    p_success: Share
    p_executable_predicted: Share
    pos: Share
    pof: Share
    max_failure: Share
    charge_h: float
    penalty_h: float
    expected_charge_h: float
    expected_penalty_h: float
    verdict: Literal["accept", "reject"]
    reason: str
    run_times: RunTimeSource


def risk_of(config: PlanConfig, gap: Gap, accuracy: RuntimeAccuracy, correct: Correct) -> Risk:
    """The risk of the job in the gap, with no job before it that could delay its start."""
    requested_h, elapsed = gap.requested_s / HOUR_S, gap.elapsed_s / gap.requested_s
    left = accuracy if elapsed == 0.0 else None  # how much of a running job's time is left is not known by such jobs
    available, survives = machine_factors(config.machine, gap.nodes, requested_h * max(1.0 - elapsed, 0.0), left)
    if elapsed > 0.0:
        available = 1.0  # its nodes are up
    predicted = float(accuracy.after(elapsed).within(elapsed + (gap.end - gap.start) / gap.requested_s))
    success = SuccessProbability(available, 1.0 - correct(1.0 - predicted), survives)
    charge_h, penalty_h = stakes(config, gap.requested_s)
    return Risk(
        cluster=gap.cluster,
        user=gap.job.user,
        application=gap.job.application,
        queue=gap.job.queue,
        nodes=gap.nodes,
        requested_s=gap.requested_s,
        start=gap.start,
        end=gap.end,
        p_available=success.available,
        p_executable=success.executable,
        p_success=success.survives,
        p_executable_predicted=predicted,
        pos=success.pos,
        pof=success.pof,
        max_failure=config.max_failure,
        charge_h=charge_h,
        penalty_h=penalty_h,
        expected_charge_h=success.opportunity(charge_h),
        expected_penalty_h=success.risk(penalty_h),
        verdict="accept" if 1.0 - success.executable < config.max_failure else "reject",
        reason=risk_reason(success.executable, config.max_failure),
        run_times=source_of(accuracy),
    )


def stakes(config: PlanConfig, requested_s: float) -> tuple[float, float]:
    """Charge and penalty in hours: those of the requested time, and ``penalty_ratio`` times as many."""
    return requested_s / HOUR_S, config.penalty_ratio * requested_s / HOUR_S


def source_of(accuracy: RuntimeAccuracy) -> RunTimeSource:
    """What an answer says of the distribution that it rests on."""
    median, p90 = accuracy.quantiles(np.array([0.5, 0.9])).tolist()
    known_user = "user" in accuracy.source.split(" + ")
    return RunTimeSource(accuracy.source, accuracy.jobs, known_user, median, p90)


def risk_reason(executable: float, max_failure: float) -> str:
    """Why such a risk is taken or not, in a sentence."""
    fits = 1.0 - executable < max_failure
    return (
        f"{'It fits' if fits else 'Too risky'}: the estimated probability that it does not end in time is "
        f"{percent(1.0 - executable)}, the limit {percent(max_failure)}."
    )


def percent(share: float) -> str:
    """
    >>> percent(0.0525)
    '5.2 %'
    """
    return f"{share * 100:.1f} %"
