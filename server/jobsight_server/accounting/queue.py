"""What a scheduler's command says of the jobs in its queue, whatever its form."""

from __future__ import annotations

from dataclasses import dataclass

from jobsight_server.accounting.runs import AccountingError, JobEvent


@dataclass(frozen=True, slots=True)
class Listed:
    """A job that the command lists, with its event of kind Q if it waits; ``job_id`` is empty if it is over.

    ``error`` says why an entry, ``data``, cannot be used.
    """

    job_id: str
    event: JobEvent | None = None
    error: AccountingError | None = None
    data: bytes = b""


def failed(error: AccountingError, data: bytes) -> Listed:
    """An entry that cannot be used."""
    return Listed(error.job_id, None, error, data)
