"""From readings to the bytes that are sent: ``docs/wire-format.md``."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobsight_agent.reading import Reading

FORMAT = 1
MICROSECONDS = 1_000_000
GZIP_CONTAINER = 31


@dataclass(frozen=True, slots=True)
class Cost:
    """What the agent itself used and lost since it started; drops are counted across restarts."""

    version: str
    cpu_seconds: float
    rss_bytes: int
    readings: int
    readings_missed: int
    metrics_missed: Mapping[str, int]
    batches_spooled: int
    batches_dropped: int
    send_failures: int
    batches_refused: int = 0


def in_order(readings: Sequence[Reading]) -> tuple[list[Reading], list[float]]:
    """The readings sorted by time, and their times made strictly rising by moving equal ones a microsecond on."""
    ordered = sorted(readings, key=lambda reading: reading.time)
    times: list[int] = []
    for reading in ordered:
        instant = round(reading.time * MICROSECONDS)
        times.append(max(instant, times[-1] + 1) if times else instant)
    return ordered, [instant / MICROSECONDS for instant in times]


def to_wire(
    readings: Sequence[Reading], *, cluster: str, node: str, sequence: int, sent_at: float | None, cost: Cost
) -> dict[str, Any]:
    """The batch of these readings, which must not be empty and must all have the same ``shape``."""
    ordered, times = in_order(readings)
    last = ordered[-1]
    ports = range(len(last.interfaces))
    return {
        "format": FORMAT,
        "cluster": cluster,
        "node": node,
        "boot_id": last.boot_id,
        "sequence": sequence,
        "sent_at": sent_at,
        "cpus": last.cpus,
        "memory_total_bytes": next((r.memory_total_bytes for r in reversed(ordered) if r.memory_total_bytes), None),
        "interfaces": [
            {"name": port.name, "kind": port.kind, "width_bits": port.width_bits, "speed_bps": port.speed_bps}
            for port in last.interfaces
        ],
        "time": times,
        "bytes_in": [[reading.bytes_in[port] for reading in ordered] for port in ports],
        "bytes_out": [[reading.bytes_out[port] for reading in ordered] for port in ports],
        "memory_used_bytes": [reading.memory_used_bytes for reading in ordered],
        "cpu_busy_s": [reading.cpu_busy_s for reading in ordered],
        "marks": [
            {"index": index, "job": reading.mark.job, "event": reading.mark.event}
            for index, reading in enumerate(ordered)
            if reading.mark is not None
        ],
        "agent": {
            "version": cost.version,
            "cpu_seconds": cost.cpu_seconds,
            "rss_bytes": cost.rss_bytes,
            "readings": cost.readings,
            "readings_missed": cost.readings_missed,
            "metrics_missed": dict(cost.metrics_missed),
            "batches_spooled": cost.batches_spooled,
            "batches_dropped": cost.batches_dropped,
            "send_failures": cost.send_failures,
            "batches_refused": cost.batches_refused,
        },
    }


def pack(batch: Mapping[str, Any], gzip_level: int) -> bytes:
    """The body of the request: compact JSON, gzip. The same batch always gives the same bytes."""
    packer = zlib.compressobj(gzip_level, zlib.DEFLATED, GZIP_CONTAINER)
    text = json.dumps(batch, separators=(",", ":"), allow_nan=False)
    return packer.compress(text.encode("utf-8")) + packer.flush()
