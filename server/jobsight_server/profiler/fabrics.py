"""The networks of a job's nodes, InfiniBand apart from Ethernet, and which of them its bandwidth is of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec
from msgspec import Struct

from jobsight_server.ingest.wire import INFINIBAND
from jobsight_server.profiler.readings import Readings

FASTEST, SUM = "fastest", "sum"
# Below this in bits per second and node a network only keeps itself up: subnet manager, address resolution.
LEAST_TRAFFIC_BPS = 10_000.0

Speeds = Mapping[str, float]
"""Fabric -> speed of its fastest link in bits per second, 0 if unknown."""


class StoredLink(Struct):
    """What is stored of an interface, as far as it matters here."""

    kind: str
    speed_bps: float | None = None


_decoder = msgspec.json.Decoder(list[StoredLink])


def link_speeds(interfaces: str) -> Speeds:
    """The fabrics of a node, from its interfaces as stored (JSON)."""
    found: dict[str, float] = {}
    for interface in _decoder.decode(interfaces):
        found[interface.kind] = max(found.get(interface.kind, 0.0), interface.speed_bps or 0.0)
    return found


def by_fabric(readings: Readings, speeds: Speeds) -> dict[str, Readings]:
    """The readings of each fabric; all of them under ``SUM`` if they were stored before fabrics were kept apart."""
    fast = next((kind for kind in INFINIBAND if kind in speeds), INFINIBAND[0])
    slow = next((kind for kind in speeds if kind not in INFINIBAND), None)
    if readings.infiniband is None:
        if slow is None:
            return {SUM: readings} if speeds else {}
        return {SUM: readings} if fast in speeds else {slow: readings}
    received, sent = readings.infiniband
    parts = {fast: replace(readings, net_in_bytes=received, net_out_bytes=sent)}
    if slow is not None:
        rest = (readings.net_in_bytes - received, readings.net_out_bytes - sent)
        parts[slow] = replace(readings, net_in_bytes=rest[0], net_out_bytes=rest[1])
    return parts


def fastest(bits_per_s: Mapping[str, float], speeds: Speeds, nodes: int) -> str:
    """The fastest of the fabrics in ``bits_per_s`` that had traffic on these many nodes, else the fastest of all."""
    busy = [name for name, moved in bits_per_s.items() if moved >= LEAST_TRAFFIC_BPS * nodes]
    return max(busy or bits_per_s, key=lambda name: (speeds.get(name, 0.0), name in INFINIBAND))
