"""One job from any form of Slurm's output, and its event."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from math import inf

from jobsight_server.accounting.parsers.pbs import LONGEST_INDEXED, LONGEST_TEXT
from jobsight_server.accounting.parsers.quantities import INT32, LARGEST_BYTES, LATEST, LONGEST_S
from jobsight_server.accounting.parsers.slurm.asked import asked_in
from jobsight_server.accounting.parsers.slurm.node_list import node_names
from jobsight_server.accounting.parsers.slurm.steps import SlurmStep, cpu_s, incomplete, memory_bytes, used_gpus
from jobsight_server.accounting.runs import AccountingError, Failure, JobEvent, RunRecord, UnsettledError
from jobsight_server.accounting.used import used_text
from jobsight_server.storage.facts import facts_in, readable_name

# Flags that Slurm adds to a job's state, and states between two others.
_RESIZED = "RESIZING"
_REQUEUED = frozenset({"REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "REVOKED"})
# Ended because of its nodes or of other jobs: its run does not show its need.
_EVICTED = frozenset({"NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL", _RESIZED})
_ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY"})
_RUNS = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "CONFIGURING", "SIGNALING", "STAGE_OUT"})
_STATES = _REQUEUED | _EVICTED | _ENDED | _RUNS | {"PENDING"}

_JOB_ID = re.compile(r"[0-9]{1,10}(?:_[0-9]{1,10}|\+[0-9]{1,6})?", re.ASCII)
_SIGNALLED = 256
"""Offset of the signal that ended a job, as in TORQUE."""
_OUT_OF_MEMORY = 125
"""Slurm's artificial signal for a job that ran out of memory."""
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class ExitCode:
    """The exit code of a job or step; ``signal`` 0 if none."""

    code: int = 0
    signal: int = 0

    @property
    def status(self) -> int:
        return _SIGNALLED + self.signal if self.signal else self.code


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One record of a job: times in UTC epoch seconds, None if unknown; memory in bytes, of the whole job.

    ``states`` are the base state and its flags. ``node_count`` and ``processors`` are allocated ones, or requested ones
    while the job waits; ``asked_processors`` always requested ones. ``cluster``: Slurm's name of it. ``comment`` is
    the administrator's, ``user_comment`` that of ``sbatch --comment``. ``gpus`` are allocated ones, or requested ones.
    """

    job_id: str
    user: str | None
    states: tuple[str, ...]
    submitted: float | None
    cluster: str | None = None
    eligible: float | None = None
    start: float | None = None
    end: float | None = None
    elapsed_s: float | None = None
    suspended_s: float = 0.0
    limit_s: float | None = None
    group: str | None = None
    account: str | None = None
    name: str | None = None
    partition: str | None = None
    nodes: str = ""
    node_count: int | None = None
    processors: int | None = None
    asked_processors: int | None = None
    requested_memory_bytes: int | None = None
    exit: ExitCode | None = None
    derived_exit: ExitCode | None = None
    used_cpu_s: float = 0.0
    comment: str | None = None
    user_comment: str | None = None
    array_task: str | None = None
    gpus: int | None = None
    steps: tuple[SlurmStep, ...] = field(default=())


def event_of(job: SlurmJob) -> JobEvent:
    """Return the record's event: Q while the job waits, S while it runs, E or R when it has ended.

    R is any early end of a run: a requeue, a preemption, a failed node, a resize. D is a job that was over before it
    ran. The submission identifies a run: a requeued job has the same id, and another submission.

    Raises:
        AccountingError: it cannot be used, for the given reason; the message names the job.
    """
    try:
        return _event_of(job)
    except AccountingError as error:
        error.job_id = job.job_id
        raise


def _event_of(job: SlurmJob) -> JobEvent:
    if "_[" in job.job_id:
        raise AccountingError("tasks of an array that wait, in one record; ask sacct for JobIDRaw", job.job_id)
    if not _JOB_ID.fullmatch(job.job_id):
        raise AccountingError("not a job id", job.job_id)
    states = frozenset(job.states)
    if unknown := states - _STATES - _FLAGS:
        raise AccountingError("an unknown state", ",".join(sorted(unknown)))
    if not states & _STATES:
        raise AccountingError("state is missing")
    nodes = node_names(job.nodes)
    if job.start is None and nodes and (began := [step.start for step in job.steps if step.start is not None]):
        # slurmdbd may forget the start of a run that was requeued within seconds; its steps have it.
        job = replace(job, start=min(began), end=None if job.end is None else max(job.end, min(began)))
    stamp = job.end or job.start or job.submitted
    if stamp is None:
        raise AccountingError("submission, start and end are missing")
    kind = _kind(job, states, bool(nodes))
    if kind == "D":
        return JobEvent("D", job.job_id, stamp, utc_s=stamp, submitted=job.submitted)
    start = inf if kind == "Q" else job.start
    if start is None:
        raise AccountingError("start is missing")
    end = job.end if kind in "ER" else None
    if kind in "ER":
        if end is None:
            raise UnsettledError("end is missing")  # slurmdbd adds missed records some time after a restart
        if end < start:
            raise AccountingError("end is before start", f"start={start:.0f} end={end:.0f}")
    return JobEvent(kind, job.job_id, stamp, _run(job, states, nodes, start, end), utc_s=stamp, submitted=job.submitted)


_FLAGS = frozenset({"POWER_UP_NODE", "UPDATE_DB", "RESV_DEL_HOLD", "EXPEDITING", "POWERING_UP_NODE", "RESERVED"})


def _kind(job: SlurmJob, states: frozenset[str], has_nodes: bool) -> str:
    ended = states & (_ENDED | _EVICTED)
    if "PENDING" in states and not ended:
        return "Q"
    if states & _RUNS and (not ended or job.end is None) and not states & _REQUEUED:
        return "S"
    if job.start is None or not (has_nodes or "COMPLETED" in states or _ran_s(job)):
        return "D"
    if states & (_REQUEUED | _EVICTED):
        return "R"
    return "E"


def _ran_s(job: SlurmJob) -> float:
    """Return the run time; sacct may have been run without its column, or that of the nodes."""
    if job.elapsed_s is not None:
        return job.elapsed_s
    return 0.0 if job.start is None or job.end is None else max(job.end - job.start - job.suspended_s, 0.0)


def _run(job: SlurmJob, states: frozenset[str], nodes: tuple[str, ...], start: float, end: float | None) -> RunRecord:
    user = _text(job.user, "user", LONGEST_INDEXED)
    if user is None:
        raise AccountingError("user is missing")
    out_of_memory = _ran_out_of_memory(job, states)
    failure: Failure | None = "memory" if out_of_memory else "time" if states & {"TIMEOUT", "DEADLINE"} else None
    asked = asked_in(job.comment, job.asked_processors or job.processors, job.node_count)
    facts = facts_in(job.user_comment, job.comment)
    memory = None if end is None else memory_bytes(job.steps, end)
    # Where GPUs are accounted, steps of jobs without any may have 0 of them.
    used = {} if end is None else {name: use for name, use in used_gpus(job.steps, end).items() if use or job.gpus}
    return RunRecord(
        user=user,
        start=start,
        end=end,
        group=_text(job.group, "group", LONGEST_TEXT),
        account=_text(job.account, "account", LONGEST_TEXT),
        name=_text(readable_name(job.name, job.user_comment, job.comment), "name", LONGEST_TEXT),
        queue=_text(job.partition, "partition", LONGEST_TEXT),
        queued=job.submitted,
        eligible=job.eligible,
        exec_host=job.nodes if nodes else None,
        nodes=_shares(nodes, job.processors),
        processors=job.processors or None,
        exit_status=None if end is None else _exit_status(job, states),
        requested_walltime_s=job.limit_s,
        requested_memory_bytes=_requested_memory(job),
        requested_nodes=None if job.node_count is None else str(job.node_count),
        # Zero means not measured: every process uses some of both.
        used_cpu_s=None if end is None else max(job.used_cpu_s, cpu_s(job.steps)) or None,
        used_memory_bytes=memory,
        used_walltime_s=None if end is None else _ran_s(job),
        suspended_s=job.suspended_s or None,
        failure=None if end is None else failure,
        asked_processors=None if job.asked_processors == job.processors else job.asked_processors or None,
        asked_memory_bytes=asked.memory_bytes,
        asked_walltime_s=asked.walltime_s,
        memory_incomplete=None if memory is None else incomplete(job.steps),
        array_task=job.array_task,
        facts=facts.text,
        dropped_facts=facts.dropped,
        ended_abnormally=None if end is None else "COMPLETED" not in states,
        gpus=job.gpus,
        used=used_text(used),
    )


def _ran_out_of_memory(job: SlurmJob, states: frozenset[str]) -> bool:
    codes = [job.exit, job.derived_exit]
    return (
        "OUT_OF_MEMORY" in states
        or any(code is not None and code.signal == _OUT_OF_MEMORY for code in codes)
        or any(step.out_of_memory for step in job.steps)
    )


def _exit_status(job: SlurmJob, states: frozenset[str]) -> int | None:
    """Return the exit status of the job, or of a failed step; None if unknown.

    A stopped job reports 0 itself, and in the JSON of 22.05 its own return code.
    """
    if job.exit is not None and (job.exit.status or "COMPLETED" in states):
        return job.exit.status
    stopped = [step.exit_status for step in job.steps if step.exit_status]
    return stopped[0] if stopped else None


def _shares(nodes: tuple[str, ...], processors: int | None) -> tuple[tuple[str, int], ...]:
    """Return each node with its processors, which Slurm does not report: as even as possible, and at least one."""
    if not nodes:
        return ()
    each, more = divmod(processors or 0, len(nodes))
    return tuple((node, max(each + (position < more), 1)) for position, node in enumerate(nodes))


def _requested_memory(job: SlurmJob) -> int | None:
    """Return the requested memory; None also for 1 MiB per node, which Slurm writes without a request or limit."""
    requested = job.requested_memory_bytes
    return None if requested in (None, 0, (job.node_count or 1) * _MIB) else requested


def _text(value: str | None, what: str, longest: int) -> str | None:
    if value is not None and len(value) > longest:
        raise AccountingError(f"{what} is longer than {longest} characters", value)
    if value is not None and ("\x00" in value or (not value.isprintable() and what == "user")):
        raise AccountingError(f"{what} has control characters", value)
    return value or None


def checked_time(what: str, value: float | None) -> float | None:
    """Return a time, None if it is 0.

    Raises:
        AccountingError: it is not a time.
    """
    if value is None or value == 0:
        return None
    if not 0 < value < LATEST:
        raise AccountingError(f"{what} is not a time", f"{value}")
    return float(value)


def checked_seconds(what: str, value: float | None) -> float | None:
    """Return a duration in seconds."""
    if value is not None and not 0 <= value <= LONGEST_S:
        raise AccountingError(f"{what} is not a duration", f"{value}")
    return None if value is None else float(value)


def checked_bytes(what: str, value: int | None) -> int | None:
    """Return a size in bytes."""
    if value is not None and not 0 <= value <= LARGEST_BYTES:
        raise AccountingError(f"{what} is not a size", f"{value}")
    return value


def checked_count(what: str, value: int | None) -> int | None:
    """Return a number of nodes or processors."""
    if value is not None and not 0 <= value < INT32:
        raise AccountingError(f"{what} is not a number of 32 bits", f"{value}")
    return value
