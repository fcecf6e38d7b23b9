"""A minimal sender for Prometheus' remote write 1.0: protobuf by hand, snappy without compression.

Field numbers are those of the published ``prompb``: WriteRequest.timeseries = 1; TimeSeries.labels = 1, .samples = 2;
Label.name = 1, .value = 2; Sample.value = 1 (double), .timestamp = 2 (milliseconds).
"""

from __future__ import annotations

import struct


def varint(number: int) -> bytes:
    """Encode a variable-length integer of protobuf and snappy."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def message(field: int, content: bytes) -> bytes:
    """Encode a length-delimited field."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def series(labels: dict[str, str], times_ms: list[int], values: list[float]) -> bytes:
    """Encode one time series as a field of a WriteRequest."""
    body = b"".join(
        message(1, message(1, name.encode()) + message(2, value.encode())) for name, value in sorted(labels.items())
    )
    samples = (
        message(2, b"\x09" + struct.pack("<d", value) + b"\x10" + varint(time))
        for time, value in zip(times_ms, values, strict=True)
    )
    return message(1, body + b"".join(samples))


def snappy(content: bytes) -> bytes:
    """Encode a valid snappy block of literals only."""
    pieces = [varint(len(content))]
    for start in range(0, len(content), 65536):
        piece = content[start : start + 65536]
        pieces.append(bytes([61 << 2]) + struct.pack("<H", len(piece) - 1) + piece)
    return b"".join(pieces)
