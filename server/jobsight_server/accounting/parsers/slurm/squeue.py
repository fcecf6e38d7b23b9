"""Jobs as ``squeue --Format`` lists them: it quotes nothing, so each value ends with a mark that no name has."""

from __future__ import annotations

from collections.abc import Mapping

from jobsight_server.accounting.parsers.slurm.gpus import gpus_of
from jobsight_server.accounting.parsers.slurm.job import SlurmJob, checked_bytes, checked_count, event_of
from jobsight_server.accounting.parsers.slurm.quantities import clock_s, moment, tres
from jobsight_server.accounting.queue import Listed, failed
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.accounting.text import text_of

WIDTHS: Mapping[str, int] = {
    "JobID": 24,
    "ArrayTaskID": 64,
    "State": 24,
    "UserName": 256,
    "GroupName": 128,
    "Account": 128,
    "Partition": 256,
    "SubmitTime": 32,
    "EligibleTime": 32,
    "StartTime": 32,
    "TimeLimit": 32,
    "NumCPUs": 16,
    "NumNodes": 24,
    "MinMemory": 24,
    "tres-alloc": 256,
    "Reason": 64,
    "AdminComment": 2048,
    "Comment": 1024,
    "Name": 256,
}
"""Column -> the bytes after which squeue cuts a value off; values written by programs are shorter."""

_NONE = frozenset({"", "(null)", "N/A"})


def arguments(mark: str) -> tuple[str, ...]:
    """Return the arguments of ``squeue``."""
    columns = ",".join(f"{name}:{width}{mark}" for name, width in WIDTHS.items())
    return ("--all", "--noheader", "--noconvert", "--Format", columns)


def row_of(values: list[bytes]) -> dict[str, str]:
    """Return the values of one job by column, empty where there is none."""
    texts = (text_of(value).strip() for value in values)
    return {name: "" if text in _NONE else text for name, text in zip(WIDTHS, texts, strict=True)}


def job_of(row: Mapping[str, str]) -> SlurmJob:
    """Return the job in a row.

    Raises:
        AccountingError: it cannot be used; the reason says why.
    """
    requested = tres("tres-alloc", row["tres-alloc"])
    return SlurmJob(
        job_id=row["JobID"],
        user=row["UserName"],
        states=(row["State"].upper(),),
        submitted=moment("SubmitTime", row["SubmitTime"]),
        eligible=moment("EligibleTime", row["EligibleTime"]),
        limit_s=clock_s("TimeLimit", row["TimeLimit"]) or None,
        group=row["GroupName"] or None,
        account=row["Account"] or None,
        name=row["Name"] or None,
        partition=row["Partition"] or None,
        node_count=checked_count("NumNodes", _least("NumNodes", row["NumNodes"])),
        processors=checked_count("NumCPUs", int(requested.get("cpu", 0)) or _least("NumCPUs", row["NumCPUs"])),
        requested_memory_bytes=checked_bytes("tres-alloc", int(requested["mem"]) if "mem" in requested else None),
        comment=row["AdminComment"] or None,
        user_comment=row["Comment"] or None,
        gpus=checked_count("tres-alloc", gpus_of({name: int(amount) for name, amount in requested.items()})),
    )


def listed(values: list[bytes]) -> Listed:
    """Return one job of the list, with an event only if it waits."""
    row = row_of(values)
    job_id, state = row["JobID"], row["State"].upper()
    try:
        event = event_of(job_of(row)) if state == "PENDING" else None
    except AccountingError as error:
        error.job_id = job_id
        return failed(error, b" ".join(value.strip() for value in values))
    # squeue lists ended jobs for some minutes more.
    return Listed("" if state == "CANCELLED" else job_id, event)


def _least(what: str, text: str) -> int | None:
    """Return the first number of ``4`` or ``2-4``."""
    first = text.partition("-")[0]
    if not first:
        return None
    if not (first.isascii() and first.isdigit() and len(first) <= 10):
        raise AccountingError(f"{what} is not a number", text)
    return int(first)
