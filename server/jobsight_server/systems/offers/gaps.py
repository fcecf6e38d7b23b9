"""The gaps of a plan: free nodes before the next job on them, and what they are worth."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jobsight_predictor.runtime.accuracy import RuntimeAccuracy
from jobsight_predictor.runtime.success import Correct, SuccessProbability, machine_factors
from jobsight_scheduler.overbooking.plan import BookingPlan
from jobsight_server.record import Record, Share
from jobsight_server.systems.offers.config import PlanConfig
from jobsight_server.systems.offers.standing_plan import HOUR_S, stakes
from jobsight_server.systems.offers.stored import places_of, places_text

LISTED = 20
"""Gaps that are listed, those of most node-hours."""

_LONGER = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0)
_SHORTEST_H = 1.0 / 60.0

AccuracyOf = Callable[[float], RuntimeAccuracy]
"""The distribution of a job by its requested seconds."""


class PlanGap(Record):
    """Nodes that are free from ``start`` until the next job on them, at ``end``.

    Of the jobs that could be offered all of it, the one that brings most requests ``sold_s`` and succeeds with ``pos``:
    ``worth_h`` = PoS charge - PoF penalty, in hours of the request. It requests more than the gap where overbooking
    pays. Null where no job would be worth it.
    """

    start: float
    end: float
    nodes: int
    places: list[tuple[int, int]]
    node_hours: float
    sold_s: float | None
    pos: Share | None
    worth_h: float | None


class Gaps(NamedTuple):
    """The largest gaps, and how many smaller ones there are."""

    listed: list[PlanGap]
    left_out: int


class _Free(NamedTuple):
    start_h: float
    end_h: float
    nodes: list[int]

    @property
    def node_hours(self) -> float:
        return (self.end_h - self.start_h) * len(self.nodes)


def gaps_of(plan: BookingPlan, config: PlanConfig, accuracy_of: AccuracyOf, correct: Correct, now: float) -> Gaps:
    """The gaps from ``now`` on, each with the nodes that are free together; those under a minute are left out."""
    free = sorted(_free(plan, now / HOUR_S), key=lambda gap: (-gap.node_hours, gap.start_h, gap.nodes))
    listed = [_valued(gap, config, accuracy_of, correct) for gap in free[:LISTED]]
    listed.sort(key=lambda gap: (gap.start, gap.places))
    return Gaps(listed, max(len(free) - LISTED, 0))


def _free(plan: BookingPlan, now_h: float) -> list[_Free]:
    bookings = list(plan.bookings.values())
    if not bookings:
        return []
    counts = [len(booking.place.processors) for booking in bookings]
    nodes = np.concatenate([booking.place.processors for booking in bookings])
    froms = np.repeat([booking.from_h for booking in bookings], counts)
    untils = np.repeat([booking.until_h for booking in bookings], counts)
    order = np.lexsort((froms, nodes))
    nodes, froms, untils = nodes[order], froms[order], untils[order]
    is_first = np.append(True, nodes[1:] != nodes[:-1])
    starts = np.where(is_first, now_h, np.append(now_h, untils[:-1]))
    starts = np.maximum(starts, now_h)
    is_gap = froms - starts >= _SHORTEST_H
    found: dict[tuple[float, float], list[int]] = {}
    for start, end, node in zip(starts[is_gap].tolist(), froms[is_gap].tolist(), nodes[is_gap].tolist(), strict=True):
        found.setdefault((start, end), []).append(node)
    return [_Free(start, end, free) for (start, end), free in found.items()]


def _valued(gap: _Free, config: PlanConfig, accuracy_of: AccuracyOf, correct: Correct) -> PlanGap:
    length_h, nodes = gap.end_h - gap.start_h, len(gap.nodes)
    best: tuple[float, float, float] | None = None
    for factor in _LONGER if config.overbooks else _LONGER[:1]:
        requested_h = length_h * factor
        accuracy = accuracy_of(requested_h * HOUR_S)
        available, survives = machine_factors(config.machine, nodes, requested_h, accuracy)
        success = SuccessProbability(available, 1.0 - correct(1.0 - float(accuracy.within(1.0 / factor))), survives)
        charge_h, penalty_h = stakes(config, requested_h * HOUR_S)
        worth_h = success.opportunity(charge_h) - success.risk(penalty_h)
        if 1.0 - success.executable < config.max_failure and worth_h > 0.0 and (best is None or worth_h > best[0]):
            best = worth_h, requested_h, success.pos
    return PlanGap(
        start=gap.start_h * HOUR_S,
        end=gap.end_h * HOUR_S,
        nodes=nodes,
        places=places_of(places_text(gap.nodes)),
        node_hours=gap.node_hours,
        sold_s=None if best is None else best[1] * HOUR_S,
        pos=None if best is None else best[2],
        worth_h=None if best is None else best[0],
    )
