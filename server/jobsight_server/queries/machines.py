"""The chance that a job succeeds on a node, and why.

The core knows nothing of this. A placing system that learns it adds a ``Machines`` of its own to the application.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqlalchemy import Connection

from jobsight_predictor.reliability.sessions import Ending
from jobsight_server.forecasts.record import Record, Share

NodeName = tuple[str, str]
"""Cluster and name."""


class MachineSession(Record):
    """The machine was available from ``start`` to ``end``; the present session has neither an end nor an ending."""

    start: float
    end: float | None
    ending: Ending | None


class Reliability(Record):
    """A machine's reliability for its jobs.

    ``reliability``: the chance that a job of ``run_time_s`` succeeds there, between ``low`` and ``high``: that the
    machine stays available for so long (``stays``) and does not fail it (``sound``). If not ``known``, it has no
    history. ``evictions`` and ``failures`` count against the machine, ``user_failures`` do not. ``since``: the begin
    of the present session; ``history``: sessions since ``history_since``.
    ``lost_jobs`` were evicted, requeued or failed since then, and cost ``lost_processor_hours``.
    """

    run_time_s: float
    reliability: Share
    low: Share
    high: Share
    known: bool
    stays: Share
    sound: Share
    since: float | None
    sessions: int
    successes: int
    evictions: int
    failures: int
    user_failures: int
    lost_jobs: int
    lost_processor_hours: float
    history_since: float
    history: list[MachineSession]


class MachineLoss(Record):
    """A machine's losses: its jobs evicted, requeued or failed since ``since``, and their processor-hours on all of
    their nodes."""

    cluster: str
    name: str
    jobs: int
    processor_hours: float
    since: float


class Machines:
    """A source of machines' reliability: this one knows none."""

    def chances(self, connection: Connection, run_time_s: float, now: float) -> Mapping[NodeName, float | None]:
        """Return every machine that an agent, a log or its owner ever named, with the chance that a job of
        ``run_time_s`` succeeds there; None for one without history."""
        return MappingProxyType({})

    def reliability(self, connection: Connection, name: NodeName, run_time_s: float, now: float) -> Reliability | None:
        """Return a machine's reliability; None if the machine is not known."""
        return None

    def worst(self, connection: Connection, cluster: str | None, now: float) -> MachineLoss | None:
        """Return the machine that lost most jobs, of this cluster or of all; None if none did."""
        return None
