"""A compute server for each node, from what its agent last reported: processors, memory and link in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, select

from jobsight_server.storage.engine import fetch
from jobsight_server.storage.schema import nodes
from jobsight_server.systems.matching.reports import take_reports
from jobsight_server.systems.matching.resource_types import Capacities, CapacityReport, ResourceReport, Value

SOURCE = "agents"

_LAST_TWO = (
    "SELECT time, net_in_bytes, net_out_bytes, cpu_busy_s, memory_used_bytes, gap_s FROM samples "
    "WHERE node_id = ? ORDER BY time DESC LIMIT 2"
)
_LONGEST_STEP_S = 600.0
_HOUR_S = 3600.0

Reliability = Callable[[Connection, Sequence[tuple[str, str]], float, float], Mapping[tuple[str, str], float]]
"""The score of machines, named by cluster and node, for a run time at a time."""


class _Link(msgspec.Struct):
    speed_bps: float | None = None


_decode_links = msgspec.json.Decoder(list[_Link]).decode


def report_nodes(
    engine: Engine, clock: Callable[[], float], expiry_s: float, reliability: Reliability | None = None
) -> int:
    """Reports every node whose agent sent something within ``expiry_s``; returns how many changed.

    With ``reliability``, the attribute of this name is the chance that the node stays for an hour.
    """
    now = clock()
    with engine.connect().execution_options(reading=True) as connection:
        reports = list(_reports(connection, now - expiry_s, now, reliability))
    taken = take_reports(engine, reports, SOURCE, now, future_s=expiry_s, refuse_late=False)
    return taken.stored + taken.created


def _reports(
    connection: Connection, since: float, now: float, reliability: Reliability | None
) -> Iterator[ResourceReport]:
    columns = [nodes.c.id, nodes.c.cluster, nodes.c.name, nodes.c.cpus, nodes.c.memory_total_bytes, nodes.c.interfaces]
    found = connection.execute(select(*columns).where(nodes.c.received_at >= since)).all()
    names = [(node.cluster, node.name) for node in found]
    scores = {} if reliability is None else reliability(connection, names, _HOUR_S, now)
    for node in found:
        samples = fetch(connection, _LAST_TWO, (node.id,))
        if samples:
            attributes: dict[str, Value] = {"cluster": node.cluster, "node": node.name}
            if (score := scores.get((node.cluster, node.name))) is not None:
                attributes["reliability"] = round(score, 4)
            yield ResourceReport(
                f"{node.cluster}/{node.name}",
                "compute",
                min(samples[0][0], now),
                attributes,
                _capacities(node, samples),
            )


def _capacities(node: Any, samples: list[Any]) -> Capacities:
    """Use over the time between the last two samples; what is unknown counts as unused."""
    last = samples[0]
    found: Capacities = {"slots": CapacityReport(float(node.cpus), _rate(samples, 3) or 0.0)}
    if node.memory_total_bytes:
        found["memory_gib"] = CapacityReport(node.memory_total_bytes / 2**30, (last[4] or 0) / 2**30)
    speed_bps = sum(link.speed_bps or 0.0 for link in _decode_links(node.interfaces))
    if speed_bps:
        moved = (_rate(samples, 1) or 0.0) + (_rate(samples, 2) or 0.0)
        found["bandwidth_mbps"] = CapacityReport(speed_bps / 1e6, moved * 8 / 1e6)
    return found


def _rate(samples: list[Any], column: int) -> float | None:
    """How much a second a cumulative column grew; None where it is unknown."""
    if len(samples) < 2:
        return None
    (last, before) = samples
    step_s = last[0] - before[0]
    if not 0 < step_s <= _LONGEST_STEP_S or last[column] is None or before[column] is None or last[5] != before[5]:
        return None
    return float(max(0.0, (last[column] - before[column]) / step_s))
