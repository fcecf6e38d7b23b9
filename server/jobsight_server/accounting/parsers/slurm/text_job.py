"""A job in the text of ``sacct -P``: a row of the job and rows of its steps, in any columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobsight_server.accounting.parsers.slurm.gpus import gpus_of, used_of_gpus
from jobsight_server.accounting.parsers.slurm.job import (
    ExitCode,
    SlurmJob,
    checked_bytes,
    checked_count,
    checked_seconds,
)
from jobsight_server.accounting.parsers.slurm.quantities import UNKNOWN, amount, clock_s, count, life, moment, tres
from jobsight_server.accounting.parsers.slurm.steps import OF_SLURM, SlurmStep
from jobsight_server.accounting.runs import AccountingError

Row = Mapping[str, str]
"""Column -> text."""

NEEDED = ("User", "State", "Submit", "Start", "End")
"""Required columns, besides ``JobIDRaw``, or ``JobID`` without arrays."""


def job_of(rows: Sequence[Row]) -> SlurmJob:
    """Return the job in its row and the rows of its steps.

    Raises:
        AccountingError: it cannot be used, for the given reason.
    """
    row = rows[0]
    allocated, requested = tres("AllocTRES", _get(row, "AllocTRES")), tres("ReqTRES", _get(row, "ReqTRES"))
    processors = (
        count("AllocCPUS", _get(row, "AllocCPUS"))
        or int(allocated.get("cpu", 0))
        or count("NCPUS", _get(row, "NCPUS"))
        or count("ReqCPUS", _get(row, "ReqCPUS"))
    )
    asked_processors = count("ReqCPUS", _get(row, "ReqCPUS")) or int(requested.get("cpu", 0))
    node_count = (
        int(allocated.get("node", 0))
        or count("NNodes", _get(row, "NNodes"))
        or count("AllocNodes", _get(row, "AllocNodes"))
        or count("ReqNodes", _get(row, "ReqNodes"))
    )
    elapsed_s, suspended_s = _elapsed_s(row), clock_s("Suspended", _get(row, "Suspended")) or 0.0
    start, end = life(row["Start"], row["End"], None if elapsed_s is None else elapsed_s + suspended_s)
    return SlurmJob(
        job_id=row.get("JobIDRaw") or row["JobID"],
        user=row["User"] or _get(row, "UID"),  # an account that is deleted has no name
        cluster=row.get("Cluster"),
        states=tuple(row["State"].upper().split()[:1]),
        submitted=moment("Submit", row["Submit"]),
        eligible=moment("Eligible", _get(row, "Eligible")),
        start=start,
        end=end,
        elapsed_s=elapsed_s,
        suspended_s=suspended_s,
        limit_s=_limit_s(row),
        group=row.get("Group"),
        account=row.get("Account"),
        name=row.get("JobName"),
        partition=row.get("Partition"),
        nodes=_get(row, "NodeList"),
        node_count=checked_count("NNodes", node_count or None),
        processors=checked_count("AllocCPUS", processors or None),
        asked_processors=checked_count("ReqCPUS", asked_processors),
        requested_memory_bytes=_requested_memory(row, requested, processors, node_count),
        exit=_exit_code("ExitCode", row),
        derived_exit=_exit_code("DerivedExitCode", row),
        used_cpu_s=clock_s("TotalCPU", _get(row, "TotalCPU")) or 0.0,
        comment=row.get("AdminComment"),
        user_comment=row.get("Comment"),
        array_task=_array_task(row),
        gpus=checked_count("TRES", gpus_of(allocated) or gpus_of(requested)),
        steps=tuple(_step(step) for step in rows[1:]),
    )


def _array_task(row: Row) -> str | None:
    """Return the id that people see, if the raw id is there as well."""
    array, underscore, task = _get(row, "JobID").partition("_")
    return f"{array}_{task}" if "JobIDRaw" in row and underscore and array.isdigit() and task.isdigit() else None


def _get(row: Row, column: str) -> str:
    return row.get(column) or ""


def _step(row: Row) -> SlurmStep:
    code = _exit_code("ExitCode", row)
    used = tres("TRESUsageInTot", _get(row, "TRESUsageInTot"))
    least = tres("TRESUsageInMin", _get(row, "TRESUsageInMin"))
    largest = tres("TRESUsageInMax", _get(row, "TRESUsageInMax"))
    step_id = (row.get("JobIDRaw") or row["JobID"]).partition(".")[2].lower()
    tasks = 1 if step_id in OF_SLURM else count("NTasks", _get(row, "NTasks"))
    memory = int(used["mem"] if "mem" in used else _resident(row, tasks))
    states = row["State"].upper().split()[:1]
    return SlurmStep(
        step_id=step_id,
        start=moment("Start", row["Start"]),
        end=moment("End", row["End"]),
        memory_bytes=checked_bytes("TRESUsageInTot", memory) or 0,
        # A task without any memory was not measured, so the sum lacks it.
        incomplete=tasks != 1 and not least.get("mem"),
        cpu_s=max(clock_s("TotalCPU", _get(row, "TotalCPU")) or 0.0, used.get("cpu", 0.0)),
        out_of_memory="OUT_OF_MEMORY" in states or (code is not None and code.signal == 125),
        exit_status=None if code is None else code.status,
        used_gpus=used_of_gpus(used, largest, least, tasks),
    )


def _resident(row: Row, tasks: int | None) -> float:
    """Return the sum over a step's tasks if only their average or largest is a column; 0 if neither.

    The largest is a lower bound of the sum over several tasks.
    """
    average, largest = _get(row, "AveRSS"), _get(row, "MaxRSS")
    if average and tasks:
        return amount("AveRSS", average) * tasks
    return amount("MaxRSS", largest) if largest else 0.0


def _elapsed_s(row: Row) -> float | None:
    raw = count("ElapsedRaw", _get(row, "ElapsedRaw"))
    return checked_seconds("ElapsedRaw", clock_s("Elapsed", _get(row, "Elapsed")) if raw is None else float(raw))


def _limit_s(row: Row) -> float | None:
    """Return seconds of ``TimelimitRaw``, which is in minutes; None without a limit."""
    raw = _get(row, "TimelimitRaw")
    if raw.isascii() and raw.isdigit():
        return checked_seconds("TimelimitRaw", int(raw[:12]) * 60.0) or None
    return clock_s("Timelimit", _get(row, "Timelimit")) or None


def _requested_memory(
    row: Row, requested: Mapping[str, float], processors: int | None, node_count: int | None
) -> int | None:
    """Return the whole job's memory: ``ReqMem`` from 21.08 on; before, it ends in n per node, or c per CPU."""
    text = _get(row, "ReqMem")
    if text in UNKNOWN or text == "?":
        return checked_bytes("ReqTRES", int(requested["mem"])) if "mem" in requested else None
    if text[-1] in "nc":
        times = node_count if text[-1] == "n" else processors
        return checked_bytes("ReqMem", int(amount("ReqMem", text[:-1]) * times)) if times else None
    return checked_bytes("ReqMem", int(amount("ReqMem", text)))


def _exit_code(column: str, row: Row) -> ExitCode | None:
    """Return the code and the signal of ``0:125``."""
    text = _get(row, column)
    if text in UNKNOWN:
        return None
    code, colon, signal = text.partition(":")
    if not (colon and code.isascii() and code.isdigit() and signal.isascii() and signal.isdigit() and len(text) < 12):
        raise AccountingError(f"{column} is not CODE:SIGNAL", text)
    return ExitCode(int(code), int(signal))
