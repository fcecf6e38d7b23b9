"""The bandwidth of a run: of one of its nodes' networks, or of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jobsight_server.profiler.fabrics import FASTEST, SUM, by_fabric, fastest
from jobsight_server.profiler.measurement import Measurement, without
from jobsight_server.profiler.readings import Readings
from jobsight_server.profiler.sampled import NodeEvidence, from_samples, network_of, over_nodes
from jobsight_server.profiler.usage import Missing


def bandwidth(nodes: Sequence[NodeEvidence], how: str, processors: int, length_s: float, wanted: str) -> Measurement:
    """Of the fabric that is ``wanted``: one by name, the fastest with traffic, or all added up."""
    added = from_samples(over_nodes(nodes, network_of), how, processors, length_s)
    if added.value is None:
        return added
    parts = {node.node: by_fabric(node.readings, node.speeds) for node in nodes if node.readings is not None}
    names = list(dict.fromkeys(name for fabrics in parts.values() for name in fabrics))
    if SUM in names or not names:
        return replace(added, fabric=SUM if names else None)
    found = {names[0]: added}
    if len(names) > 1:
        found = {name: _on_fabric(name, nodes, parts, how, processors, length_s) for name in names}
    if missing := next((entry for entry in found.values() if entry.value is None), None):
        return missing
    values = {name: entry.value for name, entry in found.items() if entry.value is not None}
    several = values if len(values) > 1 else None
    if wanted == SUM:
        return replace(added, fabric=SUM if several else names[0], fabrics=several)
    name = wanted
    if wanted == FASTEST:
        speeds = {one: max(node.speeds.get(one, 0.0) for node in nodes) for one in names}
        name = fastest({one: value * processors for one, value in values.items()}, speeds, len(nodes))
    if name not in found:
        return replace(without(Missing(f"its nodes have no {name}"), how), fabrics=several)
    return replace(found[name], fabric=name, fabrics=several)


def _on_fabric(
    name: str,
    nodes: Sequence[NodeEvidence],
    parts: Mapping[str, Mapping[str, Readings]],
    how: str,
    processors: int,
    length_s: float,
) -> Measurement:
    """The bandwidth on one fabric, over the nodes that have it."""
    having = [replace(node, readings=parts[node.node][name]) for node in nodes if name in parts[node.node]]
    return from_samples(over_nodes(having, network_of), how, processors, length_s)
