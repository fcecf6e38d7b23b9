"""Jobs as ``squeue --Format`` lists them: it quotes nothing, so each value ends with a mark that no name has."""

from __future__ import annotations

from collections.abc import Mapping

from jobsight_server.accounting.parsers.slurm.job import event_of
from jobsight_server.accounting.parsers.slurm.steps import Row
from jobsight_server.accounting.runs import AccountingError, Listed
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


def sacct_row(row: Mapping[str, str]) -> Row:
    """Return the row that sacct has for a waiting job."""
    return {
        "JobIDRaw": row["JobID"],
        "User": row["UserName"],
        "State": row["State"],
        "Submit": row["SubmitTime"],
        "Eligible": row["EligibleTime"],
        "Start": "",
        "End": "",
        "Timelimit": row["TimeLimit"],
        "Group": row["GroupName"],
        "Account": row["Account"],
        "JobName": row["Name"],
        "Partition": row["Partition"],
        "NNodes": row["NumNodes"].partition("-")[0],
        "NCPUS": row["NumCPUs"].partition("-")[0],
        "AllocTRES": row["tres-alloc"],
        "ReqTRES": row["tres-alloc"],
        "AdminComment": row["AdminComment"],
        "Comment": row["Comment"],
    }


def listed(values: list[bytes]) -> Listed:
    """Return one job of the list, with an event only if it waits."""
    row = row_of(values)
    job_id, state = row["JobID"], row["State"].upper()
    try:
        event = event_of([sacct_row(row)]) if state == "PENDING" else None
    except AccountingError as error:
        error.job_id = job_id
        return Listed(job_id, None, error, b" ".join(value.strip() for value in values))
    # squeue lists ended jobs for some minutes more.
    return Listed("" if state == "CANCELLED" else job_id, event)
