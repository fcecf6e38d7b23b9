"""The file ``lsb.acct`` of LSF: one record a line, ``JOB_FINISH`` for each job that left LSF.

Fields are separated by blanks, in the order of IBM's reference of ``lsb.acct``; texts are in quotes, quotes inside
doubled. Versions add fields at the end: those up to ``maxRSwap`` are in all, and later ones are read as far as they
are there. Published records of 9.11 and 10.1 have ``runLimit`` before ``options3``, and a sixth field for each host
in ``hostRusage``. Sizes are in KB, a reservation (``rusage[mem=...]``) without a unit in MB; -1 and 0 are unknown.

Kinds: E a job that ran, R one that was requeued, N one that never ran, ``comment`` other records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobsight_server.accounting.parsers.quantities import (
    CONTROL,
    INT32,
    LARGEST_BYTES,
    LONGEST_INDEXED,
    LONGEST_S,
    LONGEST_TEXT,
    epoch,
    number,
    signed,
    text_field,
)
from jobsight_server.accounting.runs import (
    NOT_AN_ID,
    AccountingError,
    Amounts,
    Failure,
    JobEvent,
    RunRecord,
    memory_fields,
)

_HEAD = (
    *("type", "version", "eventTime", "jobId", "userId", "options", "numProcessors", "submitTime", "beginTime"),
    *("termTime", "startTime", "userName", "queue", "resReq", "dependCond", "preExecCmd", "fromHost", "cwd"),
    *("inFile", "outFile", "errFile", "jobFile"),
)
_RUSAGE = 19  # fields of getrusage; the first two are user and system time
_MIDDLE = (
    *("jStatus", "hostFactor", "jobName", "command", *(f"rusage{at}" for at in range(_RUSAGE)), "mailUser"),
    *("projectName", "exitStatus", "maxNumProcessors", "loginShell", "timeEvent", "idx", "maxRMem", "maxRSwap"),
)
_TAIL = (
    *("inFileSpool", "commandSpool", "rsvId", "sla", "exceptMask", "additionalInfo", "exitInfo", "warningAction"),
    *("warningTimePeriod", "chargedSAAP", "licenseProject", "app", "postExecCmd", "runtimeEstimation"),
    *("jobGroupName", "requeueEvalues", "options2", "resizeNotifyCmd", "lastResizeTime", "longRsvId"),
    "jobDescription",
)
_END = (
    *("runLimit", "options3", "avgMem", "effectiveResReq", "srcCluster", "srcJobId", "dstCluster", "dstJobId"),
    *("forwardTime", "flowId", "acJobWaitTime", "totalProvisionTime", "outdir", "runTime"),
)
_HOST_RUSAGE = 5  # fields of a host, before the number of its further pairs
_FINISH = '"JOB_FINISH" '
_OTHER = re.compile(r'"[A-Z_]{3,40}" "[0-9]{1,3}\.[0-9]{1,4}" ')
_TOKEN = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^\s"]+))(?=\s|$)')
_COUNT = re.compile(r"[0-9]{1,6}", re.ASCII)
_ID = re.compile(r"[1-9][0-9]{0,14}", re.ASCII)
_HOSTS = re.compile(r"(?:([0-9]{1,6})\*)?(\S{1,255})")
_RESERVED = re.compile(
    r"\brusage\[[^\]]*?\bmem=([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([KMGT]?)B?(/job|/host|/task|/slot)?", re.I
)
_ELEMENT = re.compile(r"\[[^\]]*\](?:%[0-9]+)?$")
_KIB, _DEFAULT_UNIT = 2**10, "M"
_POWERS = {"K": 10, "M": 20, "G": 30, "T": 40}
_FAILURES: dict[int, Failure] = {16: "memory", 5: "time", 6: "time"}  # TERM_MEMLIMIT, TERM_RUNLIMIT, TERM_DEADLINE
_REQUEUED = frozenset({10, 11})  # by the owner, by an administrator
_DONE = "64"
_SIGNALLED = 256  # offset of the signal that ended a job, as in TORQUE
_READ_S = 30.0
"""LSF's default ``SBD_SLEEP_TIME``: memory is read that often."""


def parse_line(line: str) -> JobEvent:
    """Return the event in ``line``, given without its line end.

    Raises:
        AccountingError: the line cannot be used, for the given reason.
    """
    if CONTROL.search(line):
        raise AccountingError("control characters")
    if not line.startswith(_FINISH):
        if line.startswith("#") or not line.strip() or _OTHER.match(line):
            return JobEvent("comment", "", 0.0)
        raise AccountingError("not a record of lsb.acct")
    fields, hosts = _fields_of(_tokens(line))
    job_id = _job_id(fields)
    try:
        return _event(job_id, fields, hosts)
    except AccountingError as error:
        error.job_id = job_id
        raise


def _tokens(line: str) -> Iterator[str]:
    place, line = 0, line.rstrip()
    while place < len(line):
        match = _TOKEN.match(line, place)
        if match is None:
            raise AccountingError("a quote is missing, or is not doubled", line[place:])
        yield match[2] if match[1] is None else match[1].replace('""', '"')
        place = match.end()


def _fields_of(tokens: Iterator[str]) -> tuple[dict[str, str], tuple[tuple[str, int], ...]]:
    """Return the fields by name, and each execution host with its slots."""
    try:
        found = {name: next(tokens) for name in _HEAD}
        _list(tokens, "numAskedHosts")
        hosts: dict[str, int] = {}
        for text in _list(tokens, "numExHosts"):
            if (match := _HOSTS.fullmatch(text)) is None:
                raise AccountingError("execHosts has no name of a host", text)
            hosts[match[2]] = hosts.get(match[2], 0) + int(match[1] or 1)
        found |= {name: next(tokens) for name in _MIDDLE}
    except (StopIteration, RuntimeError):
        raise AccountingError("fewer fields than lsb.acct has") from None
    found |= zip(_TAIL, tokens, strict=False)
    return found | _end(tokens), tuple(hosts.items())


def _end(tokens: Iterator[str]) -> dict[str, str]:
    """Return the last fields, behind the lists of ``submitExt`` and ``hostRusage``; none if they differ."""
    try:
        _list(tokens, "submitExt", 2)
        for _ in range(_count(tokens, "numHostRusage")):
            for _ in range(_HOST_RUSAGE):
                next(tokens)
            _list(tokens, "hostRusage", 2)
        found = {name: next(tokens) for name in _END}
        for name in ("runLimit", "options3", "avgMem", "runTime"):
            signed(name, found[name])
    except (StopIteration, AccountingError):
        return {}
    return found


def _count(tokens: Iterator[str], name: str) -> int:
    text = next(tokens)
    if not _COUNT.fullmatch(text):
        raise AccountingError(f"{name} is not a number of fields", text)
    return int(text)


def _list(tokens: Iterator[str], name: str, each: int = 1) -> list[str]:
    return [next(tokens) for _ in range(each * _count(tokens, name))]


def _job_id(fields: dict[str, str]) -> str:
    index = fields["idx"]
    if not _ID.fullmatch(fields["jobId"]) or not _COUNT.fullmatch(index):
        raise AccountingError(NOT_AN_ID, f"{fields['jobId']}[{index}]")
    return fields["jobId"] if int(index) == 0 else f"{fields['jobId']}[{int(index)}]"


def _event(job_id: str, fields: dict[str, str], hosts: tuple[tuple[str, int], ...]) -> JobEvent:
    end = epoch("eventTime", fields["eventTime"])
    if fields["startTime"] == "0":
        return JobEvent("N", job_id, end)
    start = epoch("startTime", fields["startTime"])
    if end < start:
        raise AccountingError("eventTime is before startTime", f"{fields['startTime']} {fields['eventTime']}")
    user = text_field("userName", fields["userName"], LONGEST_INDEXED)
    if user is None:
        raise AccountingError("userName is missing")
    account, queue = (text_field(name, fields[name], LONGEST_TEXT) for name in ("projectName", "queue"))
    slots = sum(count for _, count in hosts) or int(number("numProcessors", fields["numProcessors"], INT32 - 1)) or 1
    why = signed("exitInfo", fields.get("exitInfo") or "0")
    ran_s = max(float(signed("runTime", fields.get("runTime") or "-1")), 0.0)
    limit_s = signed("runLimit", fields.get("runLimit") or "-1")
    cpu = [float(number(name, fields[name], LONGEST_S)) for name in ("rusage0", "rusage1") if fields[name][:1] != "-"]
    resident, virtual = (
        None if fields[name].startswith("-") else int(number(name, fields[name], LARGEST_BYTES / _KIB) * _KIB) or None
        for name in ("maxRMem", "maxRSwap")
    )
    requested = _reserved_bytes(fields, slots, len(hosts))
    run = RunRecord(
        user=user,
        start=start,
        end=end,
        account=None if account == "default" else account,
        name=_name(fields),
        queue=queue,
        queued=epoch("submitTime", fields["submitTime"]),
        exec_host=" ".join(host if count == 1 else f"{count}*{host}" for host, count in hosts)[:LONGEST_TEXT] or None,
        nodes=hosts,
        processors=slots,
        exit_status=_exit_status(fields),
        ended_abnormally=fields["jStatus"] != _DONE or None,
        requested_walltime_s=float(limit_s) if limit_s > 0 else None,
        used_cpu_s=sum(cpu) or None,
        memory_intervals=(end - start) / _READ_S,
        used_walltime_s=ran_s or end - start,
        suspended_s=max(end - start - ran_s, 0.0) or None if ran_s else None,
        failure=_FAILURES.get(why),
        **memory_fields(Amounts(requested, resident, "rusage" if requested else None), Amounts(None, virtual)),
    )
    return JobEvent("R" if why in _REQUEUED else "E", job_id, end, run, utc_s=end)


def _reserved_bytes(fields: dict[str, str], slots: int, hosts: int) -> int | None:
    """Return the reserved memory of the whole job; None if unknown.

    Without ``/job``, ``/host`` or ``/task``, it is for each host or each task, as LSF is configured.
    """
    match = _RESERVED.search(fields.get("effectiveResReq", "")) or _RESERVED.search(fields["resReq"])
    if match is None:
        return None
    per = (match[3] or "").lower()
    if not per and slots > 1:
        return None
    times = {"/job": 1, "/host": hosts}.get(per, slots)
    found = float(match[1]) * 2.0 ** _POWERS[match[2].upper() or _DEFAULT_UNIT] * times
    if found > LARGEST_BYTES:
        raise AccountingError("rusage reserves more memory than there is", match[0])
    return int(found) or None


def _name(fields: dict[str, str]) -> str | None:
    """Return the job's name without the array's indices, or the program of its command."""
    name = _ELEMENT.sub("", fields["jobName"])
    first = "" if fields["command"].startswith("#") else fields["command"].split(" ", 1)[0]
    return text_field("jobName", name or first.split(";", 1)[0], LONGEST_TEXT)


def _exit_status(fields: dict[str, str]) -> int:
    """Return the status of a wait status: 65280 is 255, and 9 the signal 9."""
    status = signed("exitStatus", fields["exitStatus"])
    return _SIGNALLED + (status & 127) if status & 127 > 0 else status >> 8
