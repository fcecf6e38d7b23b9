"""Jobs in a scheduler's queue, from any command."""

from __future__ import annotations

from dataclasses import dataclass

from jobsight_server.accounting.runs import AccountingError, JobEvent


@dataclass(frozen=True, slots=True)
class Listed:
    """A listed job, with its event of kind Q if it waits; ``job_id`` is empty if it is over.

    ``error`` says why an entry, ``data``, cannot be used.
    """

    job_id: str
    event: JobEvent | None = None
    error: AccountingError | None = None
    data: bytes = b""


def failed(error: AccountingError, data: bytes) -> Listed:
    """Return an unusable entry."""
    return Listed(error.job_id, None, error, data)
