"""Sources of a cluster's measurements other than Jobsight's agents: ``[[measurements]]`` tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args
from urllib.parse import urlsplit

from msgspec import Meta, Struct

Preset = Literal["cgroup_exporter", "jobstats", "slurm_job_exporter", "ceems", "node_exporter", "dcgm"]
Quantity = Literal[
    "cpu_s",
    "memory_bytes",
    "cache_bytes",
    "peak_bytes",
    "received_bytes",
    "sent_bytes",
    "gpu_memory_bytes",
    "gpus_busy",
    "gpu_memory_total_bytes",
    "node_cpu_s",
    "node_memory_bytes",
    "node_received_bytes",
    "node_sent_bytes",
    "node_infiniband_received_bytes",
    "node_infiniband_sent_bytes",
]
"""The quantity of a query: of a job's own processes, or of a whole node."""

PRESETS: tuple[Preset, ...] = get_args(Preset)
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class MeasurementSource(Struct, frozen=True, forbid_unknown_fields=True):
    """A server with Prometheus's HTTP API, and its metrics that measure jobs of ``cluster``.

    ``presets`` name exporters; ``queries`` are the site's own, by quantity, and take precedence. Every series of a
    preset must have ``labels``; ``node_label`` is the label with the node's name. ``devices`` matches the network
    devices to count; without it, known virtual ones are left out. Jobs are queried ``delay_s`` after their end, when
    their last readings have been scraped. ``FIXED`` are no settings: a query is given up after ``timeout_s``, and the
    site's own queries are evaluated every ``step_s`` of a job's life.
    """

    FIXED: ClassVar[frozenset[str]] = frozenset({"timeout_s", "step_s"})

    cluster: Annotated[str, Meta(min_length=1)]
    url: str
    presets: tuple[Preset, ...] = ()
    queries: dict[Quantity, str] = {}
    labels: dict[str, str] = {}
    devices: str = ""
    node_label: str | None = None
    headers: dict[str, str] = {}
    token_file: Path | None = None
    delay_s: Annotated[float, Meta(ge=0, le=7 * 86400)] = 120.0
    timeout_s: Annotated[float, Meta(ge=0.1, le=86400)] = 30.0
    step_s: Annotated[float, Meta(ge=1, le=86400)] = 15.0

    def __post_init__(self) -> None:
        """Check the values; msgspec reports a ValueError with its place."""
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"expected an http:// or https:// url, got {self.url!r}")
        place = urlsplit(self.url)  # an invalid port raises by itself
        if not place.hostname or place.username is not None or place.query or place.fragment or place.port == 0:
            # The url is not shown: it may have a password.
            raise ValueError("expected a url of host, port and path, without a user; headers can have credentials")
        if not self.presets and not self.queries:
            raise ValueError(f"expected presets ({', '.join(PRESETS)}) or queries")
        if wrong := [name for name in (*self.labels, self.node_label or "a") if not _LABEL.fullmatch(name)]:
            raise ValueError(f"{wrong[0]!r}is not a label name")
        try:
            re.compile(self.devices)
        except re.error as error:
            raise ValueError(f"devices {self.devices!r}: {error}") from error
        for name, value in self.headers.items():
            if not (name.isascii() and value.isascii() and (name + value).isprintable()):
                raise ValueError(f"header {name!r} is not printable ASCII")
