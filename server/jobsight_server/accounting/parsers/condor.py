"""The output of ``condor_history -json`` and ``-jsonl`` of HTCondor: one ClassAd for each job that left the queue.

Attributes are those of HTCondor's manual, *Job ClassAd Attributes*; their names ignore case. An ad has the job's last
run only: times, processor time and place are of that one, ``RemoteWallClockTime`` and the ``Cumulative`` attributes of
all runs. ``ResidentSetSize`` is in KiB and rounded up to a quarter of its order of magnitude, ``MemoryUsage``
is computed from that, ``ResidentSetSize_RAW`` is exact. All are peaks over all runs.

Kinds: E a job that ran, N one that never did, ``local`` one of the access point, such as DAGMan, which has no slot.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from jobsight_server.accounting.files import LONGEST_ROW, Chunk, ChunkBuilder, RawRecord, RecordReader, lines_of
from jobsight_server.accounting.parsers.quantities import (
    INT32,
    LARGEST_BYTES,
    LATEST,
    LONGEST_INDEXED,
    LONGEST_S,
    LONGEST_TEXT,
    text_field,
)
from jobsight_server.accounting.runs import NOT_AN_ID, AccountingError, Failure, JobEvent, RunRecord
from jobsight_server.accounting.text import BYTE_ORDER_MARK, text_of

Ad = Mapping[str, Any]
"""A ClassAd: attribute in lower case -> value; expressions are texts, ``/Expr(...)/``."""

_KIB, _MIB = 2**10, 2**20
_FRAME = frozenset({b"", b"[", b"]", b",", b"[]"})
_REMOVED, _COMPLETED = 3, 4
_AT_ACCESS_POINT = frozenset({7, 12})  # scheduler and local universe
# HoldReasonCode: out of resources, or held by the machine's policy; and its subcode for memory.
_OUT_OF_RESOURCES, _HELD_BY_MACHINE, _OF_MEMORY = 34, 21, 102
_OVER_TIME = frozenset({46, 47})  # the allowed duration of the job, or of its execution
_SIGNALLED = 256  # offset of the signal that ended a job, as in TORQUE
_POLLED_S = 15.0
"""HTCondor's default ``PID_SNAPSHOT_INTERVAL``: where the kernel keeps no peak, memory is read that often."""
_QUARTERS = 4

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_HOST = re.compile(r"(?:[^@]*@)?([^@\s]{1,255})")


def condor_reader() -> RecordReader:
    """Return the reader of ads, each on lines of its own or on one line."""
    return RecordReader(lambda record: parse_ad(record.data), split, "JSON of condor_history", ends=_is_whole)


def split(read: Callable[[int], bytes], tail: bytes, most_records: int) -> Iterator[Chunk]:
    """Yield chunks of records; see ``RecordReader``.

    An ad begins with a line that begins with ``{``, and ends with that line, or with a line ``}`` of the same indent.
    A line outside of all ads that is not part of the list around them is a record of its own, which is then rejected.
    """
    built = ChunkBuilder(tail, most_records)
    held: list[bytes] = []
    indent, size = b"", 0
    for line in lines_of(read):
        if not line.endswith(b"\n"):  # the last one, which may still grow
            yield from built.rest()
        text = line.strip()
        if held and (line.startswith(indent + b"{") or size > LONGEST_ROW):
            _add(held, built)
            held = []
        if not held and (text in _FRAME or not text.removeprefix(BYTE_ORDER_MARK).startswith(b"{")):
            _add([line], built)
        else:
            if not held:
                indent, size = line[: len(line) - len(line.lstrip())], 0
            held.append(line)
            size += len(line)
            if (len(held) > 1 and line.startswith(indent + b"}")) or (len(held) == 1 and _is_closed(text)):
                _add(held, built)
                held = []
        yield from built.full()
    if held:
        yield from built.rest()
        _add(held, built)
    yield from built.rest()


def _is_closed(data: bytes) -> bool:
    return data.rstrip(b" \t\r\n,").endswith(b"}")


def _is_whole(data: bytes) -> bool:
    """Return whether it is an ad to its end, or no ad at all, such as a list on one line or XML."""
    return _is_closed(data) or not data.lstrip(BYTE_ORDER_MARK + b" \t").startswith(b"{")


def _add(lines: list[bytes], built: ChunkBuilder) -> None:
    data = b"".join(lines)
    if len(lines) == 1 and data.strip() in _FRAME:
        built.skip(data)
    else:
        built.add(RawRecord(data.strip(b" \t\r\n,"), len(data), data.endswith(b"\n")), data)


def parse_ad(data: bytes) -> JobEvent:
    """Return the event in an ad.

    Raises:
        AccountingError: it cannot be used, for the given reason; the message names the job.
    """
    if data.lstrip().startswith(b"["):
        raise AccountingError("a list on one line: write an ad a line, as `jq -c '.[]'` does")
    try:
        found = _decode(text_of(data.removeprefix(BYTE_ORDER_MARK)))
    except (msgspec.DecodeError, RecursionError) as error:
        raise AccountingError("not a ClassAd in JSON", f"{error}") from None
    ad = {name.lower(): value for name, value in found.items()}
    if "clusterid" not in ad or "procid" not in ad:
        raise AccountingError("ClusterId or ProcId is missing")
    cluster, process = _number(ad, "ClusterId", INT32), _number(ad, "ProcId", INT32)
    if not cluster or process is None or not cluster.is_integer() or not process.is_integer():
        raise AccountingError(NOT_AN_ID, f"{ad['clusterid']}.{ad['procid']}")
    job_id = f"{cluster:.0f}.{process:.0f}"
    try:
        return _event(job_id, ad)
    except AccountingError as error:
        error.job_id = job_id
        raise


def _event(job_id: str, ad: Ad) -> JobEvent:
    status = _number(ad, "JobStatus", 10)
    if status not in (_REMOVED, _COMPLETED):
        raise AccountingError("a job that has not left the queue: give what condor_history prints", str(status))
    start, queued = _time(ad, "JobCurrentStartDate") or _time(ad, "JobStartDate"), _time(ad, "QDate")
    if _number(ad, "JobUniverse", 100) in _AT_ACCESS_POINT:
        return JobEvent("local", job_id, start or queued or 0.0)
    if start is None:
        return JobEvent("N", job_id, queued or 0.0)
    end = _end(ad, start)
    if end < start:
        raise AccountingError("CompletionDate is before JobCurrentStartDate", f"{start:.0f} {end:.0f}")
    user = _text(ad, "Owner", LONGEST_INDEXED) or (_text(ad, "User", LONGEST_INDEXED) or "").partition("@")[0]
    if not user:
        raise AccountingError("Owner is missing")
    asked, held = _count(ad, "RequestCpus"), _count(ad, "CpusProvisioned")
    processors = held or asked or 1
    host = _HOST.fullmatch(_text(ad, "LastRemoteHost", LONGEST_TEXT) or "")
    node = None if host is None else host[1]
    requested, provisioned = (_bytes(ad, name, _MIB) for name in ("RequestMemory", "MemoryProvisioned"))
    failure, gpus = _failure(ad, status), _count(ad, "RequestGPUs")
    cpu = [_number(ad, name, LONGEST_S) for name in ("RemoteUserCpu", "RemoteSysCpu")]
    gpu_memory = _bytes(ad, "GPUsMemoryUsage", _MIB)
    run = RunRecord(
        user=user,
        start=start,
        end=end,
        account=_text(ad, "AcctGroup", LONGEST_TEXT) or _text(ad, "ProjectName", LONGEST_TEXT),
        name=_text(ad, "Cmd", LONGEST_TEXT),
        queued=queued,
        exec_host=node,
        nodes=() if node is None else ((node, processors),),
        processors=processors,
        asked_processors=asked if asked and asked != processors else None,
        exit_status=_exit_status(ad),
        requested_walltime_s=_limit_s(ad),
        # A request that is an expression is unknown: what the slot gave counts.
        requested_memory_bytes=requested or provisioned,
        used_cpu_s=None if cpu[0] is None else cpu[0] + (cpu[1] or 0.0) or None,
        used_memory_bytes=_memory_bytes(ad),
        memory_intervals=(end - start) / _POLLED_S,
        memory_with_cache=True,
        memory_is_virtual=False,
        used_walltime_s=end - start,
        failure=failure,
        ended_abnormally=status == _REMOVED or None,
        gpus=gpus,
        # Of several GPUs it is unknown whether this is the sum.
        used=f'{{"gpu_memory":{float(gpu_memory)}}}' if gpus == 1 and gpu_memory else None,
    )
    return JobEvent("E", job_id, end, run, utc_s=end)


def _end(ad: Ad, start: float) -> float:
    """Return the end of the last run; a removed job has no ``CompletionDate``, and may have been held before."""
    if (completed := _time(ad, "CompletionDate")) is not None:
        return completed
    left = _time(ad, "EnteredCurrentStatus")
    ran_s = _number(ad, "LastRemoteWallClockTime", LONGEST_S)
    if ran_s is None and (_number(ad, "NumJobStarts", INT32) or 1) <= 1:  # else it is of all runs
        ran_s = _number(ad, "RemoteWallClockTime", LONGEST_S)
    ends = [end for end in (left, None if not ran_s else start + ran_s) if end is not None]
    if not ends:
        raise AccountingError("CompletionDate, EnteredCurrentStatus and RemoteWallClockTime are missing")
    return max(min(ends), start)


def _memory_bytes(ad: Ad) -> int | None:
    """Return the peak of resident memory; None if it was not measured, or only a rounded value is left.

    >>> _memory_bytes({"residentsetsize": 1250000, "residentsetsize_raw": 1000100})
    1024102400
    >>> _memory_bytes({"residentsetsize": 1250000}), _memory_bytes({"residentsetsize": 1000100})
    (None, 1024102400)
    """
    exact = _bytes(ad, "ResidentSetSize_RAW", _KIB)
    rounded = _number(ad, "ResidentSetSize", LARGEST_BYTES / _KIB)
    if exact is not None or not rounded:
        return exact
    quarter = 10 ** math.floor(math.log10(rounded)) / _QUARTERS
    return None if rounded % quarter == 0 else int(rounded * _KIB)


def _failure(ad: Ad, status: float) -> Failure | None:
    """Return the resource for which a removed job was on hold; a job that completed was released since."""
    code, subcode = _number(ad, "HoldReasonCode", INT32), _number(ad, "HoldReasonSubCode", INT32)
    if status != _REMOVED:
        return None
    if code in (_OUT_OF_RESOURCES, _HELD_BY_MACHINE) and subcode == _OF_MEMORY:
        return "memory"
    if code == _OUT_OF_RESOURCES and not subcode:  # before 10.0 it was of memory only
        return "memory"
    return "time" if code in _OVER_TIME else None


def _exit_status(ad: Ad) -> int | None:
    if ad.get("exitbysignal") is True and (signal := _number(ad, "ExitSignal", 255)):
        return _SIGNALLED + int(signal)
    code = _number(ad, "ExitCode", INT32 - 1, -INT32)
    return None if code is None else int(code)


def _limit_s(ad: Ad) -> float | None:
    limits = [_number(ad, name, LONGEST_S) for name in ("AllowedJobDuration", "AllowedExecuteDuration")]
    return min([limit for limit in limits if limit], default=None)


def _number(ad: Ad, name: str, largest: float, least: float = 0.0) -> float | None:
    """Return a number; None if the ad lacks it, or has an expression."""
    value = ad.get(name.lower())
    if value is None or isinstance(value, bool) or (isinstance(value, str) and value.startswith("/Expr(")):
        return None
    if not isinstance(value, (int, float)):
        raise AccountingError(f"{name} is not a number", f"{value}")
    if not least <= value <= largest:
        raise AccountingError(f"{name} is negative or impossibly large", f"{value}")
    return float(value)


def _bytes(ad: Ad, name: str, unit: int) -> int | None:
    """Return an amount in bytes; None for 0, which is not measured, or not requested."""
    found = _number(ad, name, LARGEST_BYTES / unit)
    return None if not found else int(found * unit)


def _count(ad: Ad, name: str) -> int | None:
    found = _number(ad, name, 2**20)
    return None if not found else max(int(found), 1)


def _time(ad: Ad, name: str) -> float | None:
    return _number(ad, name, LATEST - 1) or None


def _text(ad: Ad, name: str, longest: int) -> str | None:
    value = ad.get(name.lower())
    if not isinstance(value, str) or value.startswith("/Expr("):
        return None
    if "\x00" in value or (not value.isprintable() and longest == LONGEST_INDEXED):
        raise AccountingError(f"{name} has control characters", value)
    return text_field(name, value, longest)
