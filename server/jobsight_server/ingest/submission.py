"""What the writer is given, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from jobsight_server.ingest.wire import Batch


@dataclass(frozen=True, slots=True)
class Submission:
    """A decoded batch, the checksum of its payload, and when it came."""

    batch: Batch
    checksum: int
    received_at: float


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of a submission: ``stored``, ``duplicate`` or ``conflict``."""

    status: str
    samples: int = 0
