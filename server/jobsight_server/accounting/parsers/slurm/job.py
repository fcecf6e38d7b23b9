"""One job from any form of Slurm's output: a row of sacct's columns for the job, and one for each step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import msgspec

from jobsight_server.accounting.parsers.quantities import (
    LARGEST_BYTES,
    LONGEST_INDEXED,
    LONGEST_S,
    LONGEST_TEXT,
    text_field,
)
from jobsight_server.accounting.parsers.slurm.quantities import (
    UNKNOWN,
    amount,
    clock_s,
    count,
    life,
    moment,
    node_names,
    tres,
)
from jobsight_server.accounting.parsers.slurm.steps import (
    GPU_TRES,
    OUT_OF_MEMORY,
    Row,
    SlurmStep,
    exit_code,
    gpus_of,
    incomplete,
    intervals,
    most_at_once,
    step_of,
)
from jobsight_server.accounting.runs import NOT_AN_ID, AccountingError, Failure, JobEvent, RunRecord, UnsettledError
from jobsight_server.ground.amounts import MIB
from jobsight_server.ground.facts import facts_in
from jobsight_server.ground.job_names import readable_name

_REQUEUED = frozenset({"REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "REVOKED"})
# Failed to start, or continues on other nodes: its run does not show its need.
_EVICTED = frozenset({"BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL", "RESIZING"})
# The end of a node or of a preempted job is a requeue only if the job is submitted again at that time (``JobRuns``).
_BY_NODE = frozenset({"NODE_FAIL", "PREEMPTED"})
_ENDED = _BY_NODE | {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY"}
_RUNS = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "CONFIGURING", "SIGNALING", "STAGE_OUT"})
_STATES = _REQUEUED | _EVICTED | _ENDED | _RUNS | {"PENDING"}
# Flags that Slurm adds to a job's state.
_FLAGS = frozenset({"POWER_UP_NODE", "UPDATE_DB", "RESV_DEL_HOLD", "EXPEDITING", "POWERING_UP_NODE", "RESERVED"})

_SLACK_S = 60.0  # a killed step ends some time after its job

_TEXTS = {"group": "Group", "account": "Account", "queue": "Partition"}
_JOB_ID = re.compile(r"[0-9]{1,10}(?:_[0-9]{1,10}|\+[0-9]{1,6})?", re.ASCII)
_SHOWN_ID = re.compile(r"[0-9]{1,10}[_+][0-9]{1,10}", re.ASCII)
_PER_CPU_FLAG = 2**31
_MEMORY_OPTION = re.compile(r"(?<!\S)--(mem|mem-per-cpu|mem-per-gpu)(?=[= ])")
_SUBMITTED_MEMORY = re.compile(r"(?<!\S)--mem(-per-cpu)?[= ]([0-9]{1,12})([KMGTkmgt]?)B?(?!\S)", re.ASCII)
_PER_CPU = re.compile(r"([0-9]{1,20})M[nc]?", re.ASCII)

# At the end of the administrator's comment: ``jobsight_asked=mem_per_node:4000M,time:60``.
_ASKED = re.compile(r"\bjobsight_asked=([a-z_]+:[0-9a-zA-Z]+(?:,[a-z_]+:[0-9a-zA-Z]+)*)", re.ASCII)
_ASKED_MIB = re.compile(r"([0-9]{1,15})M", re.ASCII)
_ASKED_MINUTES = re.compile(r"[0-9]{1,15}", re.ASCII)


def event_of(rows: Sequence[Row], cluster: str | None = None) -> JobEvent:
    """Return the event of a job in its row and the rows of its steps: Q while the job waits, S while it runs.

    E or R when it has ended: R is an early end of a run, by a requeue or a resize. D is a job that was over before it
    ran. The submission identifies a run: a requeued job has the same id, and another
    submission. ``cluster``: Slurm's name of the cluster whose jobs count, None if unknown.

    Raises:
        AccountingError: it cannot be used, for the given reason; the message names the job.
    """
    job_id = rows[0].get("JobIDRaw") or rows[0]["JobID"]
    try:
        if cluster and rows[0].get("Cluster", cluster) not in (cluster, ""):
            reason = f"of another cluster than the first record, {cluster}; ask sacct for one, with --clusters"
            raise AccountingError(reason)
        return _event(job_id, rows[0], [step_of(row) for row in rows[1:]])
    except AccountingError as error:
        error.job_id = job_id
        raise


def _event(job_id: str, row: Row, steps: Sequence[SlurmStep]) -> JobEvent:
    if "_[" in job_id:
        raise AccountingError("tasks of an array that wait, in one record; ask sacct for JobIDRaw", job_id)
    if not _JOB_ID.fullmatch(job_id):
        raise AccountingError(NOT_AN_ID, job_id)
    states = frozenset(row["State"].upper().partition(" ")[0].split("+")) - {""}
    if unknown := states - _STATES - _FLAGS:
        raise AccountingError("an unknown state", ",".join(sorted(unknown)))
    if not states & _STATES:
        raise AccountingError("state is missing")
    nodes = node_names(row.get("NodeList", ""))
    submitted = moment("Submit", row["Submit"])
    elapsed_s, suspended_s = _elapsed_s(row), clock_s("Suspended", row.get("Suspended", "")) or 0.0
    start, end = life(row["Start"], row["End"], None if elapsed_s is None else elapsed_s + suspended_s)
    if start is None and nodes and (began := [step.start for step in steps if step.start is not None]):
        # slurmdbd may forget the start of a run that was requeued within seconds; its steps have it.
        start = min(began)
        end = None if end is None else max(end, start)
    last = max((step.end for step in steps if step.end is not None), default=0.0)
    if start is not None and end is not None and end >= start and last - start > 2 * (end - start) + _SLACK_S:
        end, elapsed_s = last, None  # slurmdbd may end an allocation before its steps
    stamp = end or start or submitted
    if stamp is None:
        raise AccountingError("submission, start and end are missing")
    if elapsed_s is None and start is not None and end is not None:
        elapsed_s = max(end - start - suspended_s, 0.0)
    kind = _kind(states, start, end, bool(nodes) or bool(elapsed_s))
    if kind == "D":
        return JobEvent("D", job_id, stamp, utc_s=stamp, submitted=submitted)
    start = inf if kind == "Q" else start
    if start is None:
        raise AccountingError("start is missing")
    end = end if kind in "ER" else None
    if kind in "ER":
        if end is None:
            raise UnsettledError("end is missing")  # slurmdbd adds missed records some time after a restart
        if end < start:
            raise AccountingError("end is before start", f"start={start:.0f} end={end:.0f}")
    run = _run(row, nodes, submitted, start)
    if end is not None:
        run = _ended(run, row, states, steps, end, elapsed_s or 0.0)
    return JobEvent(kind, job_id, stamp, run, utc_s=stamp, submitted=submitted)


def _kind(states: frozenset[str], start: float | None, end: float | None, has_run: bool) -> str:
    ended = states & (_ENDED | _EVICTED)
    if "PENDING" in states and not ended:
        return "Q"
    if states & _RUNS and (not ended or end is None) and not states & _REQUEUED:
        return "S"
    if start is None or not (has_run or "COMPLETED" in states):
        return "D"
    return "R" if states & (_REQUEUED | _EVICTED) else "E"


def _run(row: Row, nodes: tuple[str, ...], submitted: float | None, start: float) -> RunRecord:
    """Return the run without what shows when it has ended."""
    user = _text(row["User"] or row.get("UID"), "user", LONGEST_INDEXED)  # an account that is deleted has no name
    if user is None:
        raise AccountingError("user is missing")
    allocated, requested = tres("AllocTRES", row.get("AllocTRES", "")), tres("ReqTRES", row.get("ReqTRES", ""))
    asked_processors = int(requested.get("cpu", 0)) or _count(row, "ReqCPUS")
    processors = _count(row, "AllocCPUS") or int(allocated.get("cpu", 0)) or _count(row, "NCPUS") or asked_processors
    # Resources first: sacct may write 1K nodes, and only the columns that are needed must be whole numbers.
    node_count = int(allocated.get("node", 0)) or _count(row, "NNodes") or _count(row, "AllocNodes")
    node_count = node_count or int(requested.get("node", 0)) or _count(row, "ReqNodes")
    comments = row.get("Comment"), row.get("AdminComment")
    facts = facts_in(*comments)
    texts: dict[str, Any] = {name: _text(row.get(of), of.lower(), LONGEST_TEXT) for name, of in _TEXTS.items()}
    asked = _asked(row.get("AdminComment") or "")
    is_noted = not asked.keys().isdisjoint(("mem_per_node", "mem_per_cpu"))
    if not is_noted:
        asked |= _submitted(row)
    per_node, per_cpu = asked.get("mem_per_node"), asked.get("mem_per_cpu")
    gpus, model = gpus_of(allocated or requested, row.get("AllocGRES") or row.get("ReqGRES", ""))
    memory = _requested_memory(row, requested, asked_processors or processors, node_count or None)
    asked_memory = (
        _asked_bytes(per_cpu, asked_processors or processors)
        if per_node is None
        else _asked_bytes(per_node, node_count)
    )
    # After a command line that asked for less, its user changed the request of the waiting job.
    if asked_memory == memory or (not is_noted and (asked_memory or 0) < (memory or 0)):
        asked_memory = None
    return RunRecord(
        user=user,
        start=start,
        **texts,
        name=_text(readable_name(row.get("JobName"), *comments), "name", LONGEST_TEXT),
        queued=submitted,
        eligible=moment("Eligible", row.get("Eligible", "")),
        exec_host=row["NodeList"] if nodes else None,
        nodes=_shares(nodes, processors),
        processors=processors or None,
        requested_walltime_s=_limit_s(row),
        requested_memory_bytes=memory,
        memory_word=_memory_word(row, asked),
        requested_nodes=str(node_count) if node_count else None,
        suspended_s=clock_s("Suspended", row.get("Suspended", "")) or None,
        asked_processors=None if asked_processors == processors else asked_processors or None,
        asked_memory_bytes=asked_memory,
        asked_walltime_s=_asked_s(asked.get("time")),
        array_task=_array_task(row),
        sluid=_text(row.get("SLUID"), "SLUID", LONGEST_INDEXED),
        facts=facts.text,
        dropped_facts=facts.dropped,
        gpus=gpus,
        gpu_model=model,
    )


def _ended(
    run: RunRecord,
    row: Row,
    states: frozenset[str],
    steps: Sequence[SlurmStep],
    end: float,
    ran_s: float,
) -> RunRecord:
    """Return the run with its end and its use."""
    memory = int(most_at_once(steps, [step.memory_bytes for step in steps], end)) or None
    cpu_s = max(clock_s("TotalCPU", row.get("TotalCPU", "")) or 0.0, sum(step.cpu_s for step in steps))
    metrics = [name for name in GPU_TRES if any(name in step.used_gpus for step in steps)]
    peaks = {name: most_at_once(steps, [step.used_gpus.get(name, 0.0) for step in steps], end) for name in metrics}
    # Where GPUs are accounted, steps of jobs without any may have 0 of them.
    of_gpus = {name: peak for name, peak in peaks.items() if peak or run.gpus}
    return replace(
        run,
        end=end,
        exit_status=_exit_status(row, states, steps),
        # Zero means not measured: every process uses some of both.
        used_cpu_s=cpu_s or None,
        used_memory_bytes=memory,
        used_walltime_s=ran_s,
        failure=_failure(row, states, steps),
        memory_incomplete=None if memory is None else incomplete(steps),
        memory_intervals=None if memory is None else intervals(steps),
        memory_with_cache=memory is not None or None,  # on nodes with cgroup v2, by jobacct_gather/cgroup
        ended_abnormally="COMPLETED" not in states,
        used=msgspec.json.encode(of_gpus, order="sorted").decode() if of_gpus else None,
    )


def _failure(row: Row, states: frozenset[str], steps: Sequence[SlurmStep]) -> Failure | None:
    codes = [exit_code("ExitCode", row), exit_code("DerivedExitCode", row)]
    if (
        "OUT_OF_MEMORY" in states
        or any(code is not None and code.signal == OUT_OF_MEMORY for code in codes)
        or any(step.out_of_memory for step in steps)
    ):
        return "memory"
    return "time" if states & {"TIMEOUT", "DEADLINE"} else None


def _exit_status(row: Row, states: frozenset[str], steps: Sequence[SlurmStep]) -> int | None:
    """Return the exit status of the job, or of a failed step; None if unknown.

    A stopped job reports 0 itself, and in the JSON of 22.05 its own return code; a failed one may report 0 there.
    """
    code = exit_code("ExitCode", row)
    if code is not None and (code.status or "COMPLETED" in states):
        return code.status
    return next((step.exit.status for step in steps if step.exit.status), None)


def _shares(nodes: tuple[str, ...], processors: int | None) -> tuple[tuple[str, int], ...]:
    """Return each node with its processors, which Slurm does not report: as even as possible, and at least one."""
    if not nodes:
        return ()
    each, more = divmod(processors or 0, len(nodes))
    return tuple((node, max(each + (position < more), 1)) for position, node in enumerate(nodes))


def _requested_memory(
    row: Row, requested: Mapping[str, float], processors: int | None, node_count: int | None
) -> int | None:
    """Return the whole job's memory: of ``ReqTRES``, else ``ReqMem``, which may end in n per node or c per CPU.

    Older releases also mark memory per CPU by 2^31 or 2^63, added to its MiB. None also for 1 MiB per node, which Slurm
    writes without a request or limit.
    """
    text = row.get("ReqMem", "")
    if "mem" in requested or text in UNKNOWN or text == "?":
        size = int(requested.get("mem", 0))
    elif (flagged := _PER_CPU.fullmatch(text)) and int(flagged[1]) >= _PER_CPU_FLAG:
        size = int(flagged[1]) % _PER_CPU_FLAG * MIB * (processors or 0)
    elif text[-1] in "nc":
        size = int(amount("ReqMem", text[:-1]) * ((node_count if text[-1] == "n" else processors) or 0))
    else:
        size = int(amount("ReqMem", text))
    if size > LARGEST_BYTES:
        raise AccountingError("ReqMem is not a size", text)
    # A flag of which only the rounded sum is left, as in 2.00P.
    is_rounded_flag = "mem" not in requested and size >= _PER_CPU_FLAG * MIB
    return None if is_rounded_flag or size in (0, (node_count or 1) * MIB) else size


def _memory_word(row: Row, asked: Mapping[str, str]) -> str | None:
    """Return the option of sbatch by which memory was requested; None if the log does not say.

    >>> _memory_word({"SubmitLine": "sbatch -n4 --mem-per-cpu 2G job.sh"}, {}), _memory_word({"ReqMem": "4Gn"}, {})
    ('mem-per-cpu', 'mem')
    """
    if found := _MEMORY_OPTION.findall(row.get("SubmitLine", "")):
        return str(found[-1])
    text = row.get("ReqMem", "")
    flagged = _PER_CPU.fullmatch(text)
    if text.endswith("c") or "mem_per_cpu" in asked or (flagged and int(flagged[1]) >= _PER_CPU_FLAG):
        return "mem-per-cpu"
    return "mem" if text.endswith("n") or "mem_per_node" in asked else None


def _elapsed_s(row: Row) -> float | None:
    raw = count("ElapsedRaw", row.get("ElapsedRaw", ""))
    return clock_s("Elapsed", row.get("Elapsed", "")) if raw is None else float(raw)


def _limit_s(row: Row) -> float | None:
    """Return seconds of ``TimelimitRaw``, which is in minutes; None without a limit."""
    raw = row.get("TimelimitRaw", "")
    if not (raw.isascii() and raw.isdigit()):
        return clock_s("Timelimit", row.get("Timelimit") or raw) or None
    found = int(raw[:12]) * 60.0
    if found > LONGEST_S:
        raise AccountingError("TimelimitRaw is not a duration", raw)
    return found or None


def _array_task(row: Row) -> str | None:
    """Return the id that people see of a task or of a heterogeneous job's part, if the raw id is there as well."""
    shown = row.get("JobID", "")
    return shown if "JobIDRaw" in row and _SHOWN_ID.fullmatch(shown) else None


def _asked(comment: str) -> dict[str, str]:
    """Return the user's request, if Jobsight's submit plugin changed it: it notes what it changed in the job's comment.

    MiB per node or per CPU, and minutes; ``none`` if the user asked for nothing.

    >>> _asked("jobsight: ... Set: ... jobsight_asked=mem_per_cpu:100M,time:none"), _asked("a note")
    ({'mem_per_cpu': '100M', 'time': 'none'}, {})
    """
    reports = _ASKED.findall(comment)
    return dict(part.split(":", 1) for part in reports[-1].split(",")) if reports else {}


def _submitted(row: Row) -> dict[str, str]:
    """Return the memory of the command line, as ``_asked``, from a release that can reduce it while a job runs.

    That is 26.05, the first with SLUIDs, by ``--mem-update`` or ``scontrol update``.

    >>> row = {"SubmitLine": "sbatch --mem=4G job.sh"}
    >>> _submitted({**row, "SLUID": "s5K1KKYAYG5D00"}), _submitted(row)
    ({'mem_per_node': '4096M'}, {})
    """
    line = row.get("SubmitLine", "")
    found = _SUBMITTED_MEMORY.findall(line) if row.get("SLUID") or "--mem-update" in line else []
    return {
        "mem_per_cpu" if per_cpu else "mem_per_node": f"{amount('SubmitLine', size + (unit or 'M').upper()) / MIB:.0f}M"
        for per_cpu, size, unit in found[-1:]
    }


def _asked_bytes(text: str | None, times: int | None) -> int | None:
    """Return bytes of the whole job, 0 if none were asked for; None if unknown."""
    if text == "none":
        return 0
    match = _ASKED_MIB.fullmatch(text or "")
    found = 0 if match is None else int(match[1]) * MIB * (times or 0)
    return found if 0 < found <= LARGEST_BYTES else None


def _asked_s(text: str | None) -> float | None:
    if text == "none":
        return 0.0
    found = float(text) * 60 if text is not None and _ASKED_MINUTES.fullmatch(text) else 0.0
    return found if 0 < found <= LONGEST_S else None


def _count(row: Row, column: str) -> int | None:
    return count(column, row.get(column, ""))


def _text(value: str | None, what: str, longest: int) -> str | None:
    found = text_field(what, value, longest)
    if found is not None and ("\x00" in found or (not found.isprintable() and what == "user")):
        raise AccountingError(f"{what} has control characters", found)
    return found
