"""One line of the accounting files of the PBS family: ``MM/DD/YYYY HH:MM:SS;KIND;JOB ID;key=value key=value ...``.

TORQUE and PBS Pro write values differently, so each has its own ``fields``. Values may contain ``;``, so a line is
split only at the first three.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import inf

from jobsight_server.accounting.parsers.quantities import (
    CONTROL,
    INT32,
    LARGEST_BYTES,
    LONGEST_INDEXED,
    duration_s,
    epoch,
    read_if_given,
    requested_bytes,
    requested_s,
    signed,
    size_bytes,
    text_field,
    texts_of,
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
from jobsight_server.ground.facts import facts_in

# Kinds that concern runs of the job in their third part.
JOB_KINDS = frozenset("QSERDA")
_FIRST_YEAR, _LAST_YEAR = 1980, 2200

_STAMP = re.compile(r"([0-9]{2})/([0-9]{2})/([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2})", re.ASCII)
_JOB_ID = re.compile(r"[0-9]+(?:-[0-9]+|\[[0-9]*\])?(?:\.\S+)?", re.ASCII)
_GLUED = re.compile(r"[0-9]{2}/[0-9]{2}/[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2};[A-Za-z];", re.ASCII)

Fields = Callable[[str], dict[str, str]]
"""Splits a record's message into values by key, as one scheduler writes them."""


FailureOf = Callable[[int, float, Mapping[str, str]], Failure | None]
"""Finds the resource that a run ran out of, from its exit status, run time in seconds and fields."""


def pbs_event(line: str, fields: Fields, with_usage: str, failure_of: FailureOf) -> JobEvent:
    """Return the event in ``line``, given without its line end.

    ``with_usage``: the kinds of record with a run's end and use.

    Raises:
        AccountingError: the line cannot be used, for the given reason.
    """
    if not line.strip():
        raise AccountingError("an empty line")
    if CONTROL.search(line):
        raise AccountingError("control characters")
    parts = line.split(";", 3)
    if len(parts) < 4:
        raise AccountingError("fewer than four fields separated by semicolons")
    stamp, kind, job_id, message = parts
    local_s = _local_s(stamp)
    if not (len(kind) == 1 and kind.isascii() and kind.isalpha()):
        raise AccountingError("the kind of record is not one letter", kind)
    if _GLUED.search(message):
        raise AccountingError("another record begins within the line")
    if kind not in JOB_KINDS:
        return JobEvent(kind, job_id, local_s)
    if not is_job_id(job_id):
        raise AccountingError(NOT_AN_ID, job_id)
    parent = is_array(job_id)
    of_a_run = kind == "S" or kind in with_usage
    if not of_a_run or parent:
        return JobEvent(kind, job_id, local_s, None, parent)
    values = fields(message)
    # The record of a job requeued before it started, or by an old release, has no run.
    run = None if kind == "R" and "start" not in values else run_of(kind, values, failure_of)
    return JobEvent(kind, job_id, local_s, run)


def is_array(job_id: str) -> bool:
    """Return whether this is the id of an array, whose tasks run."""
    return job_id.partition(".")[0].endswith("[]")


def _local_s(stamp: str) -> float:
    match = _STAMP.fullmatch(stamp)
    if match is None:
        raise AccountingError("the line does not begin with a stamp MM/DD/YYYY HH:MM:SS", stamp)
    month, day, year, hour, minute, second = (int(part) for part in match.groups())
    try:
        if _FIRST_YEAR <= year <= _LAST_YEAR:
            return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        pass
    raise AccountingError("the stamp is not a date", stamp)


def run_of(kind: str, fields: Mapping[str, str], failure_of: FailureOf) -> RunRecord:
    """Return the run in the fields of a log; one of kind Q, which waits, has neither a start nor an end.

    Raises:
        AccountingError: it cannot be used, for the given reason.
    """
    user = text_field("user", fields.get("user"), LONGEST_INDEXED)
    if user is None:
        raise AccountingError("user is missing")
    start = inf if kind == "Q" else read_if_given(fields, "start", epoch)
    end = read_if_given(fields, "end", epoch) if kind in "ER" else None
    if start is None:
        raise AccountingError("start is missing")
    if kind in "ER" and end is None:
        raise AccountingError("end is missing")
    if end is not None and end < start:
        raise AccountingError("end is before start", f"start={fields['start']} end={fields['end']}")
    exec_host = fields.get("exec_host") or None
    nodes = {} if exec_host is None else processors_by_node(exec_host)
    processors = sum(nodes.values()) or processors_asked(fields)
    if len(nodes) == 1:
        nodes = dict.fromkeys(nodes, processors or 0)
    facts = facts_in(fields.get("comment"), fields.get("x"), fields.get("Variable_List", "").replace(",", " "))
    status = read_if_given(fields, "Exit_status", signed)
    return RunRecord(
        user=user,
        start=start,
        end=end,
        **texts_of(fields, group="group", account="account", name="jobname", queue="queue"),
        created=read_if_given(fields, "ctime", _epoch),
        queued=read_if_given(fields, "qtime", _epoch),
        eligible=read_if_given(fields, "etime", _epoch),
        exec_host=exec_host,
        nodes=tuple(nodes.items()),
        processors=processors,
        exit_status=status,
        requested_walltime_s=read_if_given(fields, "Resource_List.walltime", requested_s),
        requested_nodes=fields.get("Resource_List.nodes") or fields.get("Resource_List.select"),
        used_cpu_s=read_if_given(fields, "resources_used.cput", duration_s),
        used_walltime_s=read_if_given(fields, "resources_used.walltime", duration_s),
        failure=None if status is None or end is None else failure_of(status, end - start, fields),
        **memory_fields(*(_amounts(fields, processors, kind) for kind in ("mem", "vmem"))),
        facts=facts.text,
        dropped_facts=facts.dropped,
    )


def is_job_id(text: str) -> bool:
    """Return whether a text is the id of a job, an array, or a task of one."""
    return len(text) <= LONGEST_INDEXED and _JOB_ID.fullmatch(text) is not None


def _epoch(key: str, text: str) -> float | None:
    return None if text == "0" else epoch(key, text)


def _amounts(fields: Mapping[str, str], processors: int | None, kind: str) -> Amounts:
    """Return a run's memory: resident is ``mem`` and ``pmem``, virtual ``vmem`` and ``pvmem``.

    ``pmem`` and ``pvmem`` are requested for each processor.
    """
    requested, word = None, None
    for name, times in ((f"Resource_List.p{kind}", processors), (f"Resource_List.{kind}", 1)):
        size = read_if_given(fields, name, requested_bytes)
        if size is not None and times is not None:
            if size * times > LARGEST_BYTES:
                raise AccountingError(f"{name} is not a size", fields[name])
            requested, word = size * times, name.partition(".")[2]
    return Amounts(requested, read_if_given(fields, f"resources_used.{kind}", size_bytes), word)


_TIMES = re.compile(r"([0-9]{1,9})(?:[:#]|$)", re.ASCII)
_PER_NODE = re.compile(r":(?:ppn|ncpus)=([0-9]{1,9})(?:[:#]|$)", re.ASCII)


def processors_asked(fields: Mapping[str, str]) -> int | None:
    """Return the requested processors: of ``nodes`` or ``select``, or ``procs``, else ``ncpus``.

    TORQUE's server adds its default, ``ncpus=1``, to every request.

    >>> processors_asked({"Resource_List.ncpus": "1", "Resource_List.nodes": "1:ppn=16"})
    16
    """
    chunks = _of_chunks(fields.get("Resource_List.nodes") or fields.get("Resource_List.select"))
    found = max(chunks or 0, _whole(fields.get("Resource_List.procs")) or 0)
    return found if found > 1 else _whole(fields.get("Resource_List.ncpus")) or found or None


def _of_chunks(text: str | None) -> int | None:
    """Return the processors of ``2:ppn=4+host1:ppn=2`` or ``2:ncpus=4``; None for none, or more than a job can have.

    >>> _of_chunks("2:ppn=4+host1:ppn=2"), _of_chunks("3"), _of_chunks("2:ncpus=4:mem=1gb"), _of_chunks(None)
    (10, 3, 8, None)
    """
    total = 0
    for chunk in (text or "").split("+") if text else ():
        times, each = _TIMES.match(chunk), _PER_NODE.search(chunk)
        total += (int(times[1]) if times else 1) * (int(each[1]) if each else 1)
    return total if 0 < total < INT32 else None


def _whole(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= 10):
        return None
    return int(text) if 0 < int(text) < INT32 else None


# Far more than any machine has; a larger number is an error in the log.
MOST_PER_NODE = 65_536
MOST_PER_JOB = 10_000_000

_PART = re.compile(r"([^\s/+*]+)(?:/([0-9,-]+))?(?:\*([0-9]{1,9}))?", re.ASCII)
_SLOTS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


def processors_by_node(text: str) -> dict[str, int]:
    """Return node -> processors, in the order of first mention; 0 where a job asked for none.

    >>> processors_by_node("n1/1+n1/0+n2/0-1+n1/4,6-7+n3/0*8+n4")
    {'n1': 5, 'n2': 2, 'n3': 8, 'n4': 1}

    Raises:
        AccountingError: the form is unknown, or there are more processors than any machine has.
    """
    found: dict[str, int] = {}
    for part in text.split("+"):
        match = _PART.fullmatch(part)
        if match is None or len(match[1]) > LONGEST_INDEXED:
            raise AccountingError("exec_host has a part of unknown form", part)
        node, slots, times = match.groups()
        count = (1 if slots is None else _count(slots, part)) * (1 if times is None else int(times))
        found[node] = found.get(node, 0) + count
    return plausible_places("exec_host", found)


def plausible_places(what: str, found: dict[str, int]) -> dict[str, int]:
    """Return processors by node; raise AccountingError if there are more than any machine has."""
    for node, count in found.items():
        if count > MOST_PER_NODE:
            raise AccountingError(f"{what} gives a node more than {MOST_PER_NODE} processors", node)
    if sum(found.values()) > MOST_PER_JOB:
        raise AccountingError(f"{what} gives the job more than {MOST_PER_JOB} processors")
    return found


def _count(slots: str, part: str) -> int:
    """Return the number of slots in ``0``, ``0-3`` or ``0,2-3``; by arithmetic, so that a huge range costs nothing."""
    count = 0
    for piece in slots.split(","):
        match = _SLOTS.fullmatch(piece)
        if match is None:
            raise AccountingError("exec_host has a part of unknown form", part)
        low = int(match[1])
        high = low if match[2] is None else int(match[2])
        if high < low:
            raise AccountingError("exec_host has a range that falls", part)
        count += high - low + 1
    return count
