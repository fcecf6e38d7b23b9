"""The accounting file of Grid Engine: Sun's, Son of Grid Engine, Open Grid Scheduler, Univa's and Altair's.

A record has 45 fields separated by colons, and from Univa and Altair some more. Job names and categories may contain
colons, so the fields around them are found by their numbers. Kinds: E a run that ended, R one that was scheduled again,
T a task of a parallel job, N a job that did not start, ``comment`` a line that Grid Engine's own qacct skips.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import inf

from jobsight_server.accounting.parsers.ge_requests import requests_of
from jobsight_server.accounting.parsers.quantities import (
    CONTROL,
    INT32,
    LARGEST_BYTES,
    LATEST,
    LONGEST_INDEXED,
    LONGEST_S,
    LONGEST_TEXT,
    NUMBER,
    number,
    text_field,
    texts_of,
)
from jobsight_server.accounting.runs import (
    AccountingError,
    Amounts,
    Failure,
    JobEvent,
    ParallelTask,
    RunRecord,
    memory_fields,
)

_HEAD = ("qname", "hostname", "group", "owner")
_MIDDLE = (
    *("job_number", "account", "priority", "submission_time", "start_time", "end_time", "failed", "exit_status"),
    *("ru_wallclock", "ru_utime", "ru_stime", "ru_maxrss", "ru_ixrss", "ru_ismrss", "ru_idrss", "ru_isrss"),
    *("ru_minflt", "ru_majflt", "ru_nswap", "ru_inblock", "ru_oublock", "ru_msgsnd", "ru_msgrcv", "ru_nsignals"),
    *("ru_nvcsw", "ru_nivcsw", "project", "department", "granted_pe", "slots", "task_number", "cpu", "mem", "io"),
)
_TAIL = ("iow", "pe_taskid", "maxvmem", "arid", "ar_submission_time")
_FIELDS = len(_HEAD) + 1 + len(_MIDDLE) + 1 + len(_TAIL)
# Univa's and Altair's further fields, after the 45th.
_FURTHER = ("job_class", "qdel_info", "maxrss")

_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)
_SIGNED = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_TEXTS = frozenset({"account", "project", "department", "granted_pe"})

_MILLISECONDS_FROM = 1e11  # such a time in seconds would be in the year 5138
_PER_MILLISECOND = 1e-3
_NOT_STARTED = frozenset({*range(1, 12), *range(18, 22), *range(26, 30), *range(31, 37), 38})
_AGAIN = frozenset({24, 25})  # migrating, rescheduling
_KILLED = frozenset({37, 100})  # at a limit, by the qmaster; by a signal
_SIGNALLED = 128  # added to a signal's number in an exit status
_NONE = frozenset({"NONE", ""})
_DEFAULT_ACCOUNT = "sge"
_AS_RESIDENT, _KIB = 1.05, 1024


def parse_line(line: str) -> JobEvent:
    """Return the event in ``line``, given without its line end.

    Raises:
        AccountingError: the line cannot be used, for the given reason.
    """
    if line.startswith("#") or len(line.strip()) <= 1:
        return JobEvent("comment", "", 0.0)
    if CONTROL.search(line):
        raise AccountingError("control characters")
    parts = line.split(":")
    if len(parts) < _FIELDS:
        raise AccountingError(f"fewer than {_FIELDS} fields separated by colons")
    fields = _fields_of(parts)
    job_id = _job_id(fields)
    start = _time("start_time", fields)
    failed = int(number("failed", fields["failed"], INT32 - 1))
    if start is None or failed in _NOT_STARTED:
        return JobEvent("N", job_id, _time("submission_time", fields) or 0.0)
    run = _run(fields, start, failed)
    end = start if run.end is None else run.end
    task = "" if fields["pe_taskid"] in _NONE else text_field("pe_taskid", fields["pe_taskid"], LONGEST_INDEXED) or ""
    used = None
    if task or fields["granted_pe"] not in _NONE:
        used = ParallelTask(task, start, end, run.exec_host, run.used_cpu_s, run.used_memory_bytes)
    kind = "T" if task else "R" if failed in _AGAIN else "E"
    return JobEvent(kind, job_id, end, None if task else run, task=used)


def _fields_of(parts: Sequence[str]) -> dict[str, str]:
    """Return the 45 fields by name, and further ones."""
    first = len(_HEAD) + 1
    last = len(parts) - len(_MIDDLE) - 1 - len(_TAIL)
    starts = [at for at in range(first, last + 1) if _is_middle(parts[at : at + len(_MIDDLE)])]
    if not starts:
        raise AccountingError("the fields from job_number to io are not Grid Engine's", ":".join(parts[4:]))
    if len(starts) > 1:
        raise AccountingError("colons make it ambiguous where the job's name ends", ":".join(parts[4:]))
    begin = starts[0] + len(_MIDDLE)
    # A category may contain colons, and then spans several fields.
    ends = [at for at in range(begin + 1, len(parts) - len(_TAIL) + 1) if _is_tail(parts[at : at + len(_TAIL)])]
    if not ends:
        raise AccountingError("the fields after category are not Grid Engine's", ":".join(parts[begin:]))
    end = ends[0]
    found = dict(zip(_HEAD, parts, strict=False))
    found |= zip(_MIDDLE, parts[starts[0] : begin], strict=True)
    found |= zip(_TAIL, parts[end : end + len(_TAIL)], strict=True)
    found["job_name"] = ":".join(parts[len(_HEAD) : starts[0]])
    found["category"] = ":".join(parts[begin:end])
    return found | dict(zip(_FURTHER, parts[end + len(_TAIL) :], strict=False))


def _is_middle(parts: Sequence[str]) -> bool:
    for name, text in zip(_MIDDLE, parts, strict=True):
        form = _SIGNED if name in {"priority", "failed"} else _WHOLE if name == "job_number" else NUMBER
        if name not in _TEXTS and not form.fullmatch(text):
            return False
    return True


def _is_tail(parts: Sequence[str]) -> bool:
    return all(name == "pe_taskid" or NUMBER.fullmatch(text) for name, text in zip(_TAIL, parts, strict=True))


def _job_id(fields: Mapping[str, str]) -> str:
    number, task = fields["job_number"], fields["task_number"]
    if len(number) > LONGEST_INDEXED or int(number) == 0:
        raise AccountingError("job_number is not a job's number", number)
    if not _WHOLE.fullmatch(task):
        raise AccountingError("task_number is not a task's number", task)
    return number if int(task) == 0 else f"{number}.{task}"


def _run(fields: Mapping[str, str], start: float, failed: int) -> RunRecord:
    end = _time("end_time", fields)
    if end is None:
        raise AccountingError("end_time is missing")
    if end < start:
        raise AccountingError("end_time is before start_time", f"{fields['start_time']} {fields['end_time']}")
    slots = int(number("slots", fields["slots"], INT32 - 1))
    if slots <= 0:
        raise AccountingError("slots is not a number of slots", fields["slots"])
    requests = requests_of(fields["category"])
    resident, virtual, limit_bytes = (
        None if each is None else each * slots
        for each in (requests.memory_bytes, requests.virtual_bytes, requests.limit_bytes)
    )
    if max(resident or 0, virtual or 0) > LARGEST_BYTES:
        raise AccountingError("category requests more memory than there is", fields["category"])
    # Only Univa's and Altair's records have the peak of resident memory; 0 was not measured.
    has_peak = NUMBER.fullmatch(fields.get("maxrss", ""))
    used_resident = int(number("maxrss", fields["maxrss"], LARGEST_BYTES)) or None if has_peak else None
    used_virtual = int(number("maxvmem", fields["maxvmem"], LARGEST_BYTES)) or None
    # Some builds write resident memory there: no process has as little address space.
    if used_virtual is not None and used_virtual <= _AS_RESIDENT * number("ru_maxrss", fields["ru_maxrss"], inf) * _KIB:
        used_resident, used_virtual = used_resident or used_virtual, None
    exceeded = _reached(used_virtual, limit_bytes) or _reached(used_resident, resident)
    cpu_s, user_s, system_s = (number(name, fields[name], LONGEST_S) for name in ("cpu", "ru_utime", "ru_stime"))
    cpu_s = max(cpu_s, user_s + system_s)
    user = text_field("owner", fields["owner"], LONGEST_INDEXED)
    if user is None:
        raise AccountingError("owner is missing")
    host = text_field("hostname", fields["hostname"], LONGEST_INDEXED)
    status = int(number("exit_status", fields["exit_status"], INT32 - 1))
    # Grid Engine writes whole seconds or fractions, some releases 0.
    wallclock_s = number("ru_wallclock", fields["ru_wallclock"], LONGEST_S) or end - start
    return RunRecord(
        user=user,
        start=start,
        end=end,
        account=_account(fields),
        **texts_of(fields, group="group", name="job_name", queue="qname"),
        queued=_time("submission_time", fields),
        exec_host=host,
        # The log does not have the hosts of a parallel job's slots.
        nodes=() if host is None else ((host, slots if fields["granted_pe"] in _NONE else 0),),
        processors=slots,
        exit_status=status,
        ended_abnormally=failed != 0 or None,
        requested_walltime_s=requests.walltime_s,
        requested_nodes=None if fields["category"] in _NONE else fields["category"][:LONGEST_TEXT],
        # A job that ended before execd looked has neither.
        used_cpu_s=cpu_s if cpu_s > 0.0 or used_virtual or used_resident else None,
        used_walltime_s=wallclock_s,
        failure=_failure(failed, status, exceeded, _reached(wallclock_s, requests.limit_s)),
        **memory_fields(
            Amounts(resident, used_resident, requests.memory_word),
            Amounts(virtual, used_virtual, requests.virtual_word),
            virtual_first=True,
        ),
    )


def _reached(used: float | None, limit: float | None) -> bool:
    return bool(used and limit and used >= limit)


def _failure(failed: int, status: int, over_memory: bool, over_time: bool) -> Failure | None:
    """Return the resource that a killed job ran out of: its use shows the limit that it had reached.

    >>> _failure(37, 137, False, True), _failure(100, 137, True, False), _failure(0, 1, True, True)
    ('time', 'memory', None)
    """
    if failed not in _KILLED and status < _SIGNALLED:
        return None
    return "memory" if over_memory else "time" if over_time else None


def _account(fields: Mapping[str, str]) -> str | None:
    """Return the account if given, else the project."""
    for name, nothing in (("account", {_DEFAULT_ACCOUNT, *_NONE}), ("project", _NONE)):
        if fields[name] not in nothing:
            return text_field(name, fields[name], LONGEST_TEXT)
    return None


def _time(name: str, fields: Mapping[str, str]) -> float | None:
    """Return UTC epoch seconds; None for 0. Univa and Altair write milliseconds."""
    value = number(name, fields[name], LATEST / _PER_MILLISECOND)
    seconds = round(value * _PER_MILLISECOND, 3) if value >= _MILLISECONDS_FROM else value
    if seconds >= LATEST:
        raise AccountingError(f"{name} is not a time in epoch seconds or milliseconds", fields[name])
    return seconds or None
