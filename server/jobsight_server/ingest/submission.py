"""A batch given to the writer, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass

from jobsight_server.ingest.wire import Batch


@dataclass(frozen=True, slots=True)
class Submission:
    """A decoded batch, the checksum of its payload, and its time of arrival."""

    batch: Batch
    checksum: int
    received_at: float


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The outcome of a submission: ``stored``, ``duplicate`` or ``conflict``."""

    status: str
    samples: int = 0
