"""Jobs as ``squeue --Format`` lists them: it quotes nothing, so each value ends with a mark that no name has."""

from __future__ import annotations

from collections.abc import Mapping

from jobsight_server.accounting.parsers.slurm.job import event_of
from jobsight_server.accounting.parsers.slurm.quantities import amount, count, tres
from jobsight_server.accounting.parsers.slurm.steps import Row
from jobsight_server.accounting.runs import AccountingError, ListedJob
from jobsight_server.accounting.text import text_of

_COLUMNS: Mapping[str, tuple[int, str]] = {
    "JobID": (24, "JobIDRaw"),
    "ArrayTaskID": (64, ""),
    "State": (24, "State"),
    "UserName": (256, "User"),
    "GroupName": (128, "Group"),
    "Account": (128, "Account"),
    "Partition": (256, "Partition"),
    "SubmitTime": (32, "Submit"),
    "EligibleTime": (32, "Eligible"),
    "StartTime": (32, ""),
    "TimeLimit": (32, "Timelimit"),
    "NumCPUs": (16, "NCPUS"),
    "NumNodes": (24, "NNodes"),
    "MinMemory": (24, ""),
    "tres-alloc": (256, "ReqTRES"),
    "admin_comment": (2048, "AdminComment"),
    "Comment": (1024, "Comment"),
    "Name": (256, "JobName"),
}
"""Column -> the bytes after which squeue cuts a value off, and the column of sacct; programs' values are shorter."""
WIDTHS = {name: width for name, (width, _) in _COLUMNS.items()}

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
    found = {column: row[name] for name, (_, column) in _COLUMNS.items() if column}
    ranges = {column: found[column].partition("-")[0] for column in ("NCPUS", "NNodes")}
    return {**found, **ranges, "ReqMem": _marked(row, ranges), "AllocTRES": found["ReqTRES"], "Start": "", "End": ""}


def _marked(row: Mapping[str, str], counts: Mapping[str, str]) -> str:
    """Return the requested memory, marked as in older releases: c per CPU, n per node; empty if both may be meant.

    >>> row = {"MinMemory": "600M", "tres-alloc": "cpu=4,mem=1200M,node=2"}
    >>> _marked(row, {"NCPUS": "4", "NNodes": "2"}), _marked(row, {"NCPUS": "2", "NNodes": "2"})
    ('600Mn', '')
    """
    each, whole = amount("MinMemory", row["MinMemory"] or "0"), tres("tres-alloc", row["tres-alloc"]).get("mem")
    per_cpu, per_node = (each * (count(name, counts[name]) or 0) == whole for name in ("NCPUS", "NNodes"))
    return "" if per_cpu == per_node else row["MinMemory"] + ("c" if per_cpu else "n")


def listed(values: list[bytes]) -> ListedJob:
    """Return one job of the list, with an event only if it waits."""
    row = row_of(values)
    job_id, state = row["JobID"], row["State"].upper()
    try:
        event = event_of([sacct_row(row)]) if state == "PENDING" else None
    except AccountingError as error:
        error.job_id = job_id
        return ListedJob(job_id, None, error, b" ".join(value.strip() for value in values))
    # squeue lists ended jobs for some minutes more.
    return ListedJob("" if state == "CANCELLED" else job_id, event)
