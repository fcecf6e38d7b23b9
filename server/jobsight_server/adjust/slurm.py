"""Slurm: ``squeue`` shows the requests of jobs, ``scontrol update`` changes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from jobsight_server.accounting.command_output import CommandError, CommandOutput
from jobsight_server.accounting.follow_queue import squeue_rows
from jobsight_server.accounting.parsers.slurm.quantities import amount, clock_s, moment, tres
from jobsight_server.accounting.parsers.slurm.squeue import row_of
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.accounting.text import text_of
from jobsight_server.adjust.present import Amount, PresentJob, run_command
from jobsight_server.decision.evidence import Resource
from jobsight_server.ground.amounts import MIB

_JOB_ID = re.compile(r"[0-9]{1,10}", re.ASCII)
_MEMORY = re.compile(r"\bMinMemory(Node|CPU)=([0-9]+(?:\.[0-9]+)?[KMGTPE]?)(?=\s|$)", re.ASCII)
_MINUTE_S = 60


@dataclass(frozen=True, slots=True)
class Slurm:
    """``squeue`` and ``scontrol`` are argument lists."""

    squeue: Sequence[str]
    scontrol: Sequence[str]
    timeout_s: float

    def look(self) -> dict[str, PresentJob]:
        """Return the jobs without arrays: a change of one would reach its running tasks, too."""
        run = partial(CommandOutput, timeout_s=self.timeout_s)
        found = (_job_of(row_of(values)) for values in squeue_rows(run, self.squeue))
        return {job.job_id: job for job in found if job is not None}

    def exact(self, job: PresentJob, resource: Resource) -> Amount | None:
        """Return the request. ``scontrol show`` has memory per node or per processor; a job's name may imitate that."""
        known = job.amounts[resource]
        if resource != "memory":
            return known
        shown = text_of(run_command((*self.scontrol, "show", "job", _checked(job.job_id)), self.timeout_s))
        requested = {(kind, amount("MinMemory", size)) for kind, size in _MEMORY.findall(shown)}
        if len(requested) != 1:
            return None
        ((kind, value),) = requested
        return Amount(f"MinMemory{kind}", known.value, known.times, MIB) if value == known.value else None

    def change(self, job: PresentJob, amount: Amount) -> None:
        value = amount.value // (_MINUTE_S if amount.parameter == "TimeLimit" else MIB)
        run_command(
            (*self.scontrol, "update", f"JobId={_checked(job.job_id)}", f"{amount.parameter}={value}"), self.timeout_s
        )


def _checked(job_id: str) -> str:
    if not _JOB_ID.fullmatch(job_id):
        raise CommandError("not the id of a job", job_id[:80])
    return job_id


def _job_of(row: Mapping[str, str]) -> PresentJob | None:
    """Return the job; None if it neither waits nor runs, is part of an array, or cannot be read."""
    state = row["State"].upper()
    if state not in ("PENDING", "RUNNING") or row["ArrayTaskID"] or not _JOB_ID.fullmatch(row["JobID"]):
        return None
    try:
        submitted = moment("SubmitTime", row["SubmitTime"])
        start = moment("StartTime", row["StartTime"]) if state == "RUNNING" else None
        if submitted is None or not row["UserName"] or (state == "RUNNING" and start is None):
            return None
        amounts: dict[Resource, Amount] = {}
        each = amount("MinMemory", row["MinMemory"] or "0")
        whole = tres("tres-alloc", row["tres-alloc"]).get("mem", 0.0)
        # 0 is all memory of the nodes, which cannot be changed.
        if each >= MIB and whole % each == 0:
            amounts["memory"] = Amount("MinMemory", int(each), int(whole // each), MIB)
        limit_s = clock_s("TimeLimit", row["TimeLimit"])
        if limit_s and limit_s % _MINUTE_S == 0:
            amounts["runtime"] = Amount("TimeLimit", int(limit_s), 1, _MINUTE_S)
    except AccountingError:
        return None  # listed as rejected where the queue is followed
    return PresentJob(row["JobID"], row["UserName"], submitted, start, amounts)
