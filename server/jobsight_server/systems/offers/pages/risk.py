"""Whether a job fits a gap: its probability of success, and what that is worth."""

from __future__ import annotations

from typing import Annotated

from flask import Response
from msgspec import Meta
from werkzeug.exceptions import BadRequest

from jobsight_server.amounts import time_s
from jobsight_server.systems.offers.calibration import read_calibration
from jobsight_server.systems.offers.risk import HOUR_S, Gap, Risk, risk_of
from jobsight_server.systems.offers.seller import PlaceSeller
from jobsight_server.systems.offers.settings import MOST_NODES
from jobsight_server.web.kit.context import context, part
from jobsight_server.web.kit.inputs import LATEST_TIME_S, amount_of, parsed_body
from jobsight_server.web.kit.questions import WALLTIME_AT_MOST_S, DescribedJob, Walltime, job_in_body
from jobsight_server.web.kit.routes import TIME, Route, record_reply

PLACE_AT_MOST_S = 10 * 365 * 86400.0
"""The longest requested time, and the farthest deadline, of a job in a plan."""

_HOURS_AT_MOST = PLACE_AT_MOST_S / 3600

Moment = Annotated[float, Meta(extra_json_schema=TIME)]
Nodes = Annotated[
    float,
    Meta(description="nodes", extra_json_schema={"multipleOf": 1, "minimum": 1, "maximum": MOST_NODES}),
]
Hours = Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": _HOURS_AT_MOST})]


class PlacedJob(DescribedJob, kw_only=True):
    """A job that asks for ``nodes`` nodes for ``walltime_s``, its requested run time."""

    nodes: Nodes
    walltime_s: Walltime


class RiskQuestion(PlacedJob, kw_only=True):
    """A job and a gap.

    The gap is from ``start`` (default: now) to ``end``, or of that many ``hours``. ``elapsed_s``: how long the job has
    run already at the start of the gap.
    """

    start: Moment | None = None
    end: Moment | None = None
    hours: Hours | None = None
    elapsed_s: Walltime | None = None


def ask_risk() -> Response:
    here, seller = context(), part(PlaceSeller)
    shape = '{"cluster": C, "user": U, "nodes": N, "walltime_s": S, "hours": H}'
    asked = parsed_body(RiskQuestion, shape)
    cluster, job = job_in_body(asked, "")
    nodes, requested_s = placed(asked)
    start = here.clock() if asked.start is None else moment_of(asked.start, "start")
    gap = Gap(cluster, job, nodes, requested_s, start, _end(asked, start), _elapsed(asked))
    with here.read_engine.connect() as connection:
        accuracy = seller.run_times.of(connection, cluster, job)
        correct = read_calibration(connection, cluster).correction(here.clock() / HOUR_S)
    return record_reply(risk_of(seller.config, gap, accuracy, correct))


def placed(asked: PlacedJob) -> tuple[int, float]:
    """Number of nodes and requested seconds of a job in a body.

    Raises:
        BadRequest: naming value, place and what to do.
    """
    if not (asked.nodes.is_integer() and 1 <= asked.nodes <= MOST_NODES):
        raise BadRequest(f"nodes = {asked.nodes!r} is not a whole number from 1 to {MOST_NODES}")
    requested_s = amount_of(asked.walltime_s, "walltime_s", time_s, WALLTIME_AT_MOST_S)
    if not 1.0 <= requested_s <= PLACE_AT_MOST_S:
        raise BadRequest(f"walltime_s = {asked.walltime_s!r} is not from 1 s to {PLACE_AT_MOST_S:.0f} s (10 years)")
    return int(asked.nodes), requested_s


def moment_of(value: float, place: str) -> float:
    """A time in a body.

    Raises:
        BadRequest: it is not one.
    """
    if not 0 <= value <= LATEST_TIME_S:
        raise BadRequest(f"{place} = {value!r} is not a time; give UTC epoch seconds")
    return value


def _end(asked: RiskQuestion, start: float) -> float:
    if (asked.end is None) == (asked.hours is None):
        raise BadRequest("give either the gap's end or its length in hours")
    if asked.hours is not None:
        if not 0 < asked.hours <= _HOURS_AT_MOST:
            raise BadRequest(f"hours = {asked.hours!r} is not above 0 and at most {_HOURS_AT_MOST:.0f} (10 years)")
        return start + asked.hours * 3600.0
    assert asked.end is not None
    end = moment_of(asked.end, "end")
    if end <= start:
        raise BadRequest(f"end = {end!r} is not after the start, {start!r}")
    return end


def _elapsed(asked: RiskQuestion) -> float:
    if asked.elapsed_s is None or asked.elapsed_s == 0:
        return 0.0
    return amount_of(asked.elapsed_s, "elapsed_s", time_s, WALLTIME_AT_MOST_S)


ROUTES = (
    Route(
        "POST",
        "/api/v1/risk",
        ask_risk,
        ("scheduler",),
        "Whether a job fits a gap: its probability of success with its three factors, and what that is worth",
        answer=Risk,
        body=RiskQuestion,
        errors=(400, 404, 413, 415),
    ),
)
