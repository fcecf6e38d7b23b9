"""The plan of a cluster: the jobs with a time slot, and the outcomes of promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from jobsight_server.forecasts.request import question_of_text
from jobsight_server.ground.answers import Record, Share
from jobsight_server.ground.event_counts import read_event_counts
from jobsight_server.ground.listing import Asked, Listing, ListPage
from jobsight_server.ground.parameters import NAME, Parameter
from jobsight_server.storage.clusters import stored_clusters
from jobsight_server.systems.offers.calibration import PromiseCalibration, PromiseClass, read_calibration
from jobsight_server.systems.offers.settings import OffersSettings
from jobsight_server.systems.offers.standing_plan import HOUR_S, PlaceSeller, StandingPlan
from jobsight_server.systems.offers.stored import OUTCOMES, REJECTIONS, OfferState, cluster_nodes, places_of, read_offer
from jobsight_server.systems.offers.tables import plans as plan_rows

PLAN = Listing(
    ("start",),
    lowest_first=("start",),
    steady=("start",),
    rows=300,  # also those that are drawn
    of_clusters=False,
    is_searched=False,
    filters=(Parameter("cluster", "default: the first with a plan, by name", NAME),),
)


class Offer(Record):
    """A job's time slot in the plan. Charge and penalty are in hours of requested time.

    ``places``: its nodes, numbered from 0, as ranges of first and last. It starts between ``earliest_start`` and
    ``latest_start``, its planned start, and has to end by ``latest_end``: its ``deadline``, or the next job on its
    nodes. ``pos`` = ``p_available`` * ``p_executable`` * ``p_success`` was promised; ``pos_now`` is the same by the
    present plan, null after its end. An offer holds its slot until ``expires_at``; for a confirmed one, the report of
    its end is due until then.
    """

    id: int
    cluster: str
    state: OfferState
    user: str | None
    application: str | None
    queue: str | None
    job_id: str | None
    nodes: int
    places: list[tuple[int, int]]
    requested_s: float
    release: float
    earliest_start: float | None
    latest_start: float
    latest_end: float
    deadline: float
    p_available: Share
    p_executable: Share
    p_success: Share
    pos: Share
    pof: Share
    pos_now: Share | None
    charge_h: float
    penalty_h: float
    expected_charge_h: float
    expected_penalty_h: float
    source: str
    source_jobs: float
    strategy: str
    offered_at: float
    expires_at: float
    started: float | None
    ended: float | None


class Count(Record):
    """Number of occurrences of an event."""

    label: str
    value: int


class StoredPlan(ListPage):
    """The plan of a cluster, as of ``now``.

    ``jobs`` are a page of the ``standing`` ones by start. ``promises``: ended jobs by promised probability of failure;
    ``promised``: all of them. ``outcomes`` and ``rejected`` count offers and rejections on all clusters since the
    database began.
    """

    cluster: str | None
    now: float
    nodes: int
    nodes_from: str
    strategy: str
    max_failure: Share
    penalty_ratio: float
    standing: int
    jobs: list[Offer]
    expected_charge_h: float
    expected_penalty_h: float
    promises: list[PromiseClass]
    promised: PromiseClass
    outcomes: list[Count]
    rejected: list[Count]


def one_offer(connection: Connection, seller: PlaceSeller, number: int, now: float) -> Offer | None:
    """Read one offer; None if there is none, or if it was deleted."""
    row = read_offer(connection, number)
    if row is None:
        return None
    nodes, _ = cluster_nodes(connection, seller.config, row.cluster)
    with seller.plans.lock:
        standing = seller.plans.of(connection, row.cluster, nodes, now) if nodes else None
        return _offers(standing, [row], now)[0]


def planned_clusters(connection: Connection, config: OffersSettings) -> list[str]:
    """Return the clusters with a plan, then those with nodes to plan with, each by name."""
    stored = connection.scalars(select(plan_rows.c.cluster).order_by(plan_rows.c.cluster)).all()
    return list(dict.fromkeys([*stored, *sorted(config.nodes_of), *sorted(stored_clusters(connection))]))


def plan_of(connection: Connection, seller: PlaceSeller, cluster: str | None, now: float, asked: Asked) -> StoredPlan:
    """Return the plan of a cluster; an empty one if it is None, before there is any."""
    nodes, nodes_from = (0, "agents") if cluster is None else cluster_nodes(connection, seller.config, cluster)
    rows: list[Row[Any]] = []
    position, listed = asked.position(0, None), list[Offer]()
    calibration = PromiseCalibration() if cluster is None else read_calibration(connection, cluster)
    if cluster is not None and nodes:
        with seller.plans.lock:
            standing = seller.plans.of(connection, cluster, nodes, now)
            rows = [*standing.rows.values()]
            position, shown = asked.page_of(rows, lambda row: row.planned_start, lambda row: (row.id,))
            listed = _offers(standing, shown, now)
    counts = read_event_counts(connection)
    return StoredPlan(
        *position,
        cluster=cluster,
        now=now,
        nodes=nodes,
        nodes_from=nodes_from,
        **{name: getattr(seller.config, name) for name in ("strategy", "max_failure", "penalty_ratio")},
        standing=len(rows),
        jobs=listed,
        expected_charge_h=sum((row.pos * row.charge for row in rows), 0.0),
        expected_penalty_h=sum(((1.0 - row.pos) * row.penalty for row in rows), 0.0),
        promises=calibration.classes(),
        promised=calibration.total(),
        outcomes=_counts(counts, OUTCOMES),
        rejected=_counts(counts, REJECTIONS),
    )


def _offers(standing: StandingPlan | None, rows: Sequence[Row[Any]], now: float) -> list[Offer]:
    """Return the rows as answers, with their state in the plan."""
    as_of_now = InPlan(standing, now) if standing is not None else None
    return [_offer(row, as_of_now) for row in rows]


def _offer(row: Row[Any], in_plan: InPlan | None) -> Offer:
    job = question_of_text(row.question)
    executable = None if in_plan is None else in_plan.executable(row.id)
    return Offer.of_row(
        row,
        user=job.user,
        application=job.application,
        queue=job.queue,
        places=places_of(row.places),
        earliest_start=None if in_plan is None else in_plan.earliest_start(row.id),
        latest_start=row.planned_start,
        latest_end=row.planned_end,
        pof=1.0 - row.pos,
        pos_now=None if executable is None else min(row.p_available * executable * row.p_success, 1.0),
        charge_h=row.charge,
        penalty_h=row.penalty,
        expected_charge_h=row.pos * row.charge,
        expected_penalty_h=(1.0 - row.pos) * row.penalty,
    )


def _counts(counts: Mapping[tuple[str, str], int], name: str) -> list[Count]:
    return [Count(label, value) for (of, label), value in counts.items() if of == name]


class InPlan:
    """The jobs of a plan at ``now``. The plan must not change meanwhile."""

    def __init__(self, standing: StandingPlan, now: float) -> None:
        self._standing, self._plan = standing, standing.plan
        self._now_h = now / HOUR_S

    def earliest_start(self, number: int) -> float | None:
        """Return the earliest start of the job, or its start if it runs; None if it is not in the plan.

        The job must be released, and the jobs before it on its nodes must have started. Each of these may end at once,
        so a later time is not certain. The plan keeps the times, without ``now``, until earlier jobs change.
        """
        bookings, known = self._plan.bookings, self._standing.earliest_h
        if number not in bookings:
            return None
        open_jobs = [number] if number not in known else []
        while open_jobs:
            job = open_jobs[-1]
            booking = bookings[job]
            before = self._plan.place_of(job).predecessors if booking.started_h is None else ()
            if unknown := [other for other in before if other not in known]:
                open_jobs += unknown  # first
                continue
            earliest_h = max([booking.offer.release_h, *[known[other] for other in before]])
            known[open_jobs.pop()] = min(earliest_h, booking.from_h) if booking.started_h is None else booking.started_h
        return min(max(known[number], self._now_h), bookings[number].from_h) * HOUR_S

    def executable(self, number: int) -> float | None:
        """Return the probability that the job ends in its slot; None if it is not in the plan."""
        booking = self._plan.bookings.get(number)
        if booking is None:
            return None
        offer = booking.offer
        if booking.started_h is None:
            return self._standing.risk.executable_booked(number)
        run = (self._now_h - booking.started_h) / offer.requested_h
        return float(offer.accuracy.after(run).within((booking.end_h - booking.started_h) / offer.requested_h))
