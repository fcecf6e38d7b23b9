"""The records in ``"jobs": [...]`` of the JSON of ``sacct``, one by one, without holding the document.

Two records are separated by ``}, {`` and the name of a record's first field. Within a text, JSON escapes the quotes of
such a name, so users' texts cannot look like that. The bytes in between must be one whole JSON object; if not, the
whole objects among them are kept, and only the rest is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from jobsight_server.accounting.files import HEAD_BYTES, LONGEST_RECORD, PIECE_BYTES, Chunk, ChunkBuilder, RawRecord
from jobsight_server.accounting.parsers.slurm.steps import Row
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.accounting.text import text_of

_FIRST_FIELD = re.compile(rb'"jobs"\s*:\s*\[\s*\{\s*("[A-Za-z_]{1,60}")\s*:')
_CLUSTER = re.compile(rb'"cluster"\s*:\s*"([^"\\]+)"')
_END_OF_LIST = re.compile(rb"\s*\]")
# The end of a complete document.
_END = re.compile(rb"\]\s*(?:,\s*\"[a-z]+\".*)?\}\s*\Z", re.DOTALL)
_SEPARATOR = re.compile(rb"\s*,?\s*")
_SEPARATOR_BYTES = 256
_MOST_ATTEMPTS = 1000

_is_object = msgspec.json.Decoder(msgspec.Raw).decode
_whole = json.JSONDecoder().raw_decode


def first_field(beginning: bytes) -> bytes:
    """Return the name of the first field of a record, in quotes, from the beginning of the file."""
    match = _FIRST_FIELD.search(beginning)
    return b'"account"' if match is None else match[1]


def cluster_of_first(beginning: bytes) -> str | None:
    """Return Slurm's name of the cluster of the first record; None if it has none.

    The document around the records may name another: the one where sacct ran.
    """
    match = _FIRST_FIELD.search(beginning)
    named = None if match is None else _CLUSTER.search(beginning, match.end())
    return None if named is None else text_of(named[1])


class JsonRecords:
    """Splits documents whose records begin with the field ``name``, also several documents in a row."""

    def __init__(self, name: bytes) -> None:
        begin = rb"\{\s*" + re.escape(name) + rb"\s*:"
        self._begin = re.compile(begin)
        self._between = re.compile(rb"\}(\s*,\s*)(?=" + begin + rb")")
        # The list, or its first record if the text before it is damaged.
        self._list = re.compile(rb'"jobs"\s*:\s*\[\s*|\[\s*(?=' + begin + rb")")

    def split(self, read: Callable[[int], bytes], tail: bytes, most_records: int) -> Iterator[Chunk]:
        """Yield chunks of records; see ``RecordReader``."""
        built = ChunkBuilder(tail, most_records)
        held, head = b"", b""
        scanned = dropped = 0  # bytes of ``held`` without a separator, and of a record that is too long, before them
        in_list = bool(tail)
        while piece := _read(read, max(PIECE_BYTES, len(held))):
            held += piece
            if not in_list:
                match = self._list.search(held)
                keep = len(held) - _SEPARATOR_BYTES if match is None else match.end()
                built.skip(held[: max(keep, 0)])
                held, in_list = held[max(keep, 0) :], match is not None
                if not in_list:
                    continue
            begin = 0
            for match in self._between.finditer(held, scanned):
                data, length = held[begin : match.start() + 1], match.end() - begin
                if head:
                    built.add(RawRecord(head, dropped + length, too_long=True), held[begin : match.end()])
                else:
                    self._add(data, held[begin : match.end()], built)
                begin, head, dropped = match.end(), b"", 0
                yield from built.full()
            held = held[begin:]
            if len(held) > LONGEST_RECORD:
                yield from built.rest()
                excess = len(held) - _SEPARATOR_BYTES
                head = head or held[:HEAD_BYTES]
                dropped += excess
                built.drop(held[:excess])
                held = held[excess:]
            scanned = max(0, len(held) - _SEPARATOR_BYTES)
        if head:
            built.add(RawRecord(head, dropped + len(held), too_long=True), held)
        elif not in_list:
            built.skip(held)
        else:
            self._salvage(held, built, at_end=True)
        yield from built.rest()

    def _add(self, data: bytes, with_separator: bytes, built: ChunkBuilder) -> None:
        try:
            _is_object(data)
        except msgspec.DecodeError:
            self._salvage(with_separator, built, at_end=False)
        else:
            built.add(RawRecord(data, len(with_separator)), with_separator)

    def _salvage(self, data: bytes, built: ChunkBuilder, at_end: bool) -> None:
        """Add the complete records in ``data``, and the bytes between them as damaged ones."""
        text = data.decode("latin-1")  # a character is a byte
        done = 0
        for attempt, match in enumerate(self._begin.finditer(data)):
            start = match.start()
            if attempt == _MOST_ATTEMPTS:
                break
            if start < done:
                continue
            try:
                found, end = _whole(text, start)
            except (ValueError, RecursionError):
                continue
            if "job_id" in found:
                self._leave(data[done:start], built)
                after = _SEPARATOR.match(data, end)
                done = end if after is None else after.end()
                built.add(RawRecord(data[start:end], done - start), data[start:done])
        self._leave(data[done:], built, at_end)

    def _leave(self, data: bytes, built: ChunkBuilder, at_end: bool = False) -> None:
        """Add bytes that are not a complete record: the end of a document, or a damaged record."""
        if not data.strip(b" \t\r\n,") or (_END_OF_LIST.match(data) and self._between.search(data) is None):
            built.skip(data)
            return
        cut = at_end and _END.search(data) is None
        built.add(RawRecord(data, len(data), complete=not cut, damage="not JSON"), data)


def _read(read: Callable[[int], bytes], size: int) -> bytes:
    """Return ``size`` bytes, or those left; the buffer grows by doubling, even if pieces are small."""
    found: list[bytes] = []
    while size > 0 and (piece := read(min(size, PIECE_BYTES))):
        found.append(piece)
        size -= len(piece)
    return b"".join(found)


# Slurm's NO_VAL and INFINITE of 16, 32 and 64 bits, which some releases write as plain numbers.
_NOT_A_NUMBER = frozenset({2**16 - 2, 2**16 - 1, 2**32 - 2, 2**32 - 1, 2**64 - 2, 2**64 - 1})


class _Tres(Struct):
    type: str | None = None
    name: str | None = None
    count: Any = None


_USES = ("total", "min", "max")


class _Requested(Struct):
    total: list[_Tres] = []
    min: list[_Tres] = []
    max: list[_Tres] = []


class _StepTres(Struct):
    requested: _Requested | None = None


class _Step(Struct):
    time: dict[str, Any]
    step: dict[str, Any] = {}
    state: Any = None
    exit_code: Any = None
    tres: _StepTres | None = None
    tasks: dict[str, Any] = {}


class _JobTres(Struct):
    allocated: list[_Tres] = []
    requested: list[_Tres] = []


class _Association(Struct):
    user: str | None = None
    account: str | None = None
    cluster: str | None = None


class _Sacct(Struct):
    """A record of ``sacct``."""

    job_id: int
    time: dict[str, Any]
    state: dict[str, Any]
    cluster: str | None = None
    user: str | None = None
    group: str | None = None
    account: str | None = None
    name: str | None = None
    partition: str | None = None
    nodes: str | None = None
    association: _Association | None = None
    required: dict[str, Any] = {}
    comment: Any = None
    array: dict[str, Any] = {}
    het: dict[str, Any] = {}
    exit_code: Any = None
    derived_exit_code: Any = None
    steps: list[_Step] = []
    tres: _JobTres | None = None
    sluid: str | None = None
    submit_line: str | None = None


_decode = msgspec.json.Decoder(_Sacct).decode
# Column of the text -> its name in JSON.
_TEXTS = {"SLUID": "sluid", "Group": "group", "JobName": "name", "Partition": "partition", "NodeList": "nodes"}
_TEXTS |= {"SubmitLine": "submit_line"}
_TIMES = {"Submit": "submission", "Eligible": "eligible", "Start": "start", "End": "end"}
_TIMES |= {"ElapsedRaw": "elapsed", "TimelimitRaw": "limit"}


def rows_of(data: bytes) -> list[Row]:
    """Return the rows that the text of sacct has for a record: the job's, and then its steps'.

    A number is a number or null, or, from 23.02 on, ``{"set": true, "infinite": false, "number": 5}``; a state or
    status is a text or a list of texts. Unneeded fields are ignored, so that a later release may change them.

    Raises:
        AccountingError: it cannot be used; the reason says why.
    """
    record = _decoded(data)
    time, of_tres, of_association = record.time, record.tres or _JobTres(), record.association or _Association()
    array, task = (_number(f"array.{name}", record.array.get(name)) for name in ("job_id", "task_id"))
    whole, part = (_number(f"het.{name}", record.het.get(name)) for name in ("job_id", "job_offset"))
    of_het = f"{whole}+{part}" if whole not in ("", "0") else ""
    job = {
        "JobIDRaw": f"{record.job_id}",
        "JobID": f"{array}_{task}" if array not in ("", "0") and task else of_het,
        **{column: getattr(record, name) or "" for column, name in _TEXTS.items()},
        "User": record.user or of_association.user or "",
        "Cluster": of_association.cluster or record.cluster or "",
        "State": _words("state.current", record.state.get("current")),
        **{column: _number(f"time.{name}", time.get(name)) for column, name in _TIMES.items()},
        "Suspended": _clock(float(_number("time.suspended", time.get("suspended")) or 0)),
        "Account": record.account or of_association.account or "",
        "AllocTRES": _tres(of_tres.allocated, ("cpu", "mem", "node", "gres"), "M"),
        "ReqTRES": _tres(of_tres.requested, ("cpu", "mem", "node", "gres"), "M"),
        "ReqMem": _per(record.required),
        "ReqCPUS": _number("required", record.required.get("CPUs")),
        "ExitCode": _exit("exit_code", record.exit_code),
        "DerivedExitCode": _exit("derived_exit_code", record.derived_exit_code),
        "TotalCPU": _clock(_seconds("time.total", time.get("total"))),
        "AdminComment": _comment(record.comment, "administrator"),
        "Comment": _comment(record.comment, "job"),
    }
    return [job, *(_step(record.job_id, step) for step in record.steps)]


def _decoded(data: bytes) -> _Sacct:
    try:
        try:
            return _decode(data)
        except UnicodeDecodeError:
            return _decode(text_of(data))
    except msgspec.ValidationError as error:
        if b'"job_state"' in data:
            raise AccountingError("a record of squeue: import the output of sacct") from None
        raise AccountingError("a field of another type than Slurm writes", f"{error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AccountingError("not JSON", f"{error}") from None


def _per(required: Mapping[str, Any]) -> str:
    """Return the requested MiB, marked as in the text of older releases: c per CPU, n per node."""
    for name, mark in (("memory_per_cpu", "c"), ("memory_per_node", "n")):
        if (number := _number(f"required.{name}", required.get(name))) not in ("", "0"):
            return f"{number}M{mark}"
    return ""


def _step(job_id: int, step: _Step) -> Row:
    used = step.tres.requested if step.tres is not None and step.tres.requested is not None else _Requested()
    # Killed processes have only samples, in milliseconds: no parent waited for them.
    sampled = [_number("steps.tres", each.count) for each in used.total if each.type == "cpu"]
    cpu_s = max(
        _seconds("steps.time.total", step.time.get("total")), *(float(each or 0) / 1000 for each in sampled), 0.0
    )
    return {
        "JobIDRaw": f"{job_id}.{_step_id(step.step)}",
        "State": _words("steps.state", step.state),
        "Start": _number("steps.time.start", step.time.get("start")),
        "End": _number("steps.time.end", step.time.get("end")),
        "ExitCode": _exit("steps.exit_code", step.exit_code),
        "NTasks": _number("steps.tasks.count", step.tasks.get("count")),
        "TotalCPU": _clock(cpu_s),
        **{f"TRESUsageIn{kind[:3].title()}": _tres(getattr(used, kind), ("mem", "gres")) for kind in _USES},
    }


def _step_id(step: dict[str, Any]) -> str:
    """Return ``batch`` for ``batch``, ``0`` for 0, ``7.0`` or ``{"job_id": 7, "step_id": "0"}``."""
    found = step.get("id")
    if isinstance(found, dict):
        found = found.get("step_id")
    return str(found).rpartition(".")[2]


def _comment(comment: Any, whose: str) -> str:
    text = comment.get(whose) if isinstance(comment, dict) else comment
    return text if isinstance(text, str) else ""


def _tres(tres: list[_Tres], types: Collection[str], memory_unit: str = "") -> str:
    """Return resources of these types, of ``gres`` only GPUs: ``cpu=4,mem=1200M,gres/gpu:a100=2``."""
    return ",".join(
        f"{one.type}{f'/{one.name}' if one.name else ''}={_amount(one)}{memory_unit if one.type == 'mem' else ''}"
        for one in tres
        if one.type in types and (one.type != "gres" or (one.name or "").startswith("gpu"))
    )


def _amount(tres: _Tres) -> str:
    number = _number("tres", tres.count)
    return "0" if number.startswith("-") or not number else number


def _number(what: str, value: Any) -> str:
    """Return a number in any form; empty if it is not set or unlimited."""
    if isinstance(value, dict):
        if value.get("infinite") or not value.get("set"):
            return ""
        value = value.get("number")
    if value is None or value == "":
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise AccountingError(f"{what} is not a number", f"{value}")
    return "" if value in _NOT_A_NUMBER else f"{int(value)}"


def _seconds(what: str, value: Any) -> float:
    """Return the seconds of ``{"seconds": 3, "microseconds": 1043244}``; 0 without it."""
    if value is None:
        return 0.0
    if not isinstance(value, dict):
        raise AccountingError(f"{what} is not a duration", f"{value}")
    seconds, microseconds = (float(_number(what, value.get(name)) or 0) for name in ("seconds", "microseconds"))
    return seconds + microseconds / 1e6


def _clock(seconds: float) -> str:
    return f"{seconds // 60:.0f}:{seconds % 60:09.6f}"


def _words(what: str, value: Any) -> str:
    """Return a state and its flags from a text or a list: ``COMPLETED+COMPLETING``."""
    found = [value] if isinstance(value, str) else value or []
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise AccountingError(f"{what} is not a text", f"{value}")
    return "+".join(text.split()[0] for text in found if text.split())


def _exit(what: str, value: Any) -> str:
    """Return ``0:125`` of ``{"return_code": ..., "signal": {"id": 125}}``; ``signal_id`` before 23.11."""
    if value is None:
        return ""
    if not isinstance(value, dict):
        raise AccountingError(f"{what} is not an exit code", f"{value}")
    signal = value.get("signal")
    number = _number(what, signal.get("id", signal.get("signal_id"))) if isinstance(signal, dict) else ""
    return f"{_number(what, value.get('return_code')) or 0}:{number or 0}"
