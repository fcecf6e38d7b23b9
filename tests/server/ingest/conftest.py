"""Batches for the ingest tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobsight_server.ingest.wire import AgentReport, Batch, Interface, Mark

MakeBatch = Callable[..., Batch]


@pytest.fixture
def make_batch() -> MakeBatch:
    """Makes a batch of one interface: ``make_batch(time=[...], bytes_in=[...])``; what is not given is plain."""

    def make(**changes: Any) -> Batch:
        time = changes.pop("time", [1000.0, 1010.0, 1020.0])
        n = len(time)
        interfaces = changes.pop("interfaces", [Interface("eth0", "ethernet", changes.pop("width", 64), 1e9)])
        bytes_in = changes.pop("bytes_in", [100 * i for i in range(n)])
        bytes_out = changes.pop("bytes_out", [0] * n)
        values: dict[str, Any] = {
            "format": 1,
            "cluster": "alpha",
            "node": "n001",
            "boot_id": "boot-1",
            "sequence": 1,
            "cpus": 4,
            "interfaces": interfaces,
            "time": time,
            "bytes_in": bytes_in if bytes_in and isinstance(bytes_in[0], list) else [bytes_in],
            "bytes_out": bytes_out if bytes_out and isinstance(bytes_out[0], list) else [bytes_out],
            "memory_used_bytes": [1 << 30] * n,
            "cpu_busy_s": [float(i) for i in range(n)],
            "agent": AgentReport(),
        }
        values.update(changes)
        values["marks"] = [Mark(*mark) for mark in values.get("marks", [])]
        return Batch(**values)

    return make
