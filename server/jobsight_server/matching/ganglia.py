"""Reads the XML of Ganglia's gmond or gmetad (port 8649 or 8651) into reports of compute servers.

Source: Massie, Chun and Culler, The Ganglia distributed monitoring system (Parallel Computing 30, 2004). The document
type that Ganglia sends declares elements and attributes only. Entities are refused: they are the way to make a small
document large, or have it name files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from jobsight_server.errors import UserError

LARGEST_BYTES = 256 * 2**20
_DEEPEST = 16
_KIB_IN_GIB = 2.0**20
_SHOWN = 60


@dataclass(slots=True)
class _Host:
    cluster: str
    name: str
    location: str
    reported: float | None
    age_s: float
    metrics: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GangliaHosts:
    """``reports`` as ``POST /api/v1/resources/state`` takes them; ``skipped`` hosts have no ``cpu_num``."""

    reports: list[dict[str, Any]]
    skipped: int


def read_ganglia(content: bytes, now: float) -> GangliaHosts:
    """A compute server ``CLUSTER/HOST`` for each host that reports its processors.

    Slots in use are the load of one minute; memory in use is what is neither free nor buffers nor cache. The time is
    that of the host's last report, by the age that Ganglia gives it (TN), else by its clock (REPORTED).

    Raises:
        UserError: not XML, truncated, with entities, too deep, or too large; the message has the line.
    """
    if len(content) > LARGEST_BYTES:
        raise UserError(f"{len(content)} bytes; at most {LARGEST_BYTES} are read")
    hosts: list[_Host] = []
    stack: list[str] = []
    cluster = ["", ""]
    parser = expat.ParserCreate()

    def start(name: str, attributes: dict[str, str]) -> None:
        stack.append(name)
        if len(stack) > _DEEPEST:
            raise UserError(f"line {parser.CurrentLineNumber}: nested more than {_DEEPEST} deep")
        if name == "CLUSTER":
            cluster[:] = [attributes.get("NAME", ""), attributes.get("LOCATION", "")]
        elif name == "HOST":
            hosts.append(
                _Host(
                    cluster[0],
                    attributes.get("NAME", ""),
                    attributes.get("LOCATION") or cluster[1],
                    _number(attributes.get("REPORTED")),
                    _number(attributes.get("TN")) or 0.0,
                )
            )
        elif name == "METRIC" and hosts and "HOST" in stack:
            hosts[-1].metrics[attributes.get("NAME", "")] = attributes.get("VAL", "")

    def end(_name: str) -> None:
        stack.pop()

    def entity(*_declared: Any) -> None:
        raise UserError(f"line {parser.CurrentLineNumber}: declares an entity, which Ganglia never does; refused")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.EntityDeclHandler = entity
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise UserError(f"not Ganglia's XML: {error}") from error
    if not hosts and b"GANGLIA_XML" not in content[:4096] and b"HOST" not in content:
        raise UserError("no GANGLIA_XML in it; read gmond's port 8649 or gmetad's 8651")
    reports = [report for host in hosts for report in _report(host, now)]
    return GangliaHosts(reports, len(hosts) - len(reports))


def _report(host: _Host, now: float) -> Iterator[dict[str, Any]]:
    processors = _metric(host, "cpu_num")
    if not host.name or not processors:
        return
    capacities = {"slots": {"total": processors, "used": _metric(host, "load_one") or 0.0}}
    total = _metric(host, "mem_total")
    if total:
        free = sum(_metric(host, name) or 0.0 for name in ("mem_free", "mem_buffers", "mem_cached"))
        capacities["memory_gib"] = {"total": total / _KIB_IN_GIB, "used": max(0.0, total - free) / _KIB_IN_GIB}
    attributes: dict[str, Any] = {"cluster": host.cluster, "node": host.name}
    for name, metric in (("os", "os_name"), ("os_version", "os_release"), ("cpu_type", "machine_type")):
        if host.metrics.get(metric):
            attributes[name] = host.metrics[metric].lower() if name == "os" else host.metrics[metric]
    if host.location not in ("", "unspecified"):
        attributes["location"] = host.location
    speed = _metric(host, "cpu_speed")
    if speed:
        attributes["cpu_mhz"] = speed
    measured = now - host.age_s if host.reported is None or host.age_s else min(host.reported, now)
    name = "/".join(part for part in (host.cluster, host.name) if part)
    yield {
        "name": name,
        "type": "compute",
        "time": max(0.0, measured),
        "attributes": attributes,
        "capacities": capacities,
    }


def _metric(host: _Host, name: str) -> float | None:
    return _number(host.metrics.get(name))


def _number(text: str | None) -> float | None:
    """A number from 0 on; None where it is none."""
    try:
        value = float(text) if text is not None and len(text) <= _SHOWN else math.nan
    except ValueError:
        return None
    return value if 0.0 <= value <= 1e15 else None
