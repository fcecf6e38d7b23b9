"""The records in ``"jobs": [...]`` of the JSON of ``sacct``, one by one, without holding the document.

Two records are separated by ``}, {`` and the name of a record's first field. Within a text, JSON escapes the quotes of
such a name, so users' texts cannot look like that. The bytes in between must be one whole JSON object; if not, the
whole objects among them are kept, and only the rest is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

from jobsight_server.accounting.files import HEAD_BYTES, LONGEST_RECORD, PIECE_BYTES, Chunk, ChunkBuilder, RawRecord
from jobsight_server.accounting.parsers.slurm.steps import Row
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.accounting.text import text_of

Record = dict[str, Any]

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


# Slurm's NO_VAL and INFINITE of 32 and 64 bits, and of the 16 bits of a signal, which some releases write as plain
# numbers.
_NOT_A_NUMBER = frozenset({2**32 - 2, 2**32 - 1, 2**64 - 2, 2**64 - 1})
_NOT_A_SIGNAL = ("65534", "65535")


# Column of the text -> its place in JSON.
_TEXTS: dict[str, tuple[str, ...]] = {
    "SLUID": ("sluid",),
    "Group": ("group",),
    "JobName": ("name",),
    "Partition": ("partition",),
}
_TEXTS |= {"NodeList": ("nodes",), "SubmitLine": ("submit_line",), "User": ("user", "association.user")}
_TEXTS |= {"Account": ("account", "association.account"), "Cluster": ("association.cluster", "cluster")}
_TIMES = {"Submit": "submission", "Eligible": "eligible", "Start": "start", "End": "end"}
_TIMES |= {"ElapsedRaw": "elapsed", "TimelimitRaw": "limit"}
_OTHER_TYPE = "a field of another type than Slurm writes"
_USES = ("total", "min", "max")

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def rows_of(data: bytes) -> list[Row]:
    """Return the rows that the text of sacct has for a record: the job's, and then its steps'.

    A number is a number or null, or, from 23.02 on, ``{"set": true, "infinite": false, "number": 5}``; a state or
    status is a text or a list of texts. Unneeded fields are ignored, so that a later release may change them.

    Raises:
        AccountingError: it cannot be used; the reason says why.
    """
    record = _decoded(data)
    array, task, whole, part = (
        _number(record, name) for name in ("array.job_id", "array.task_id", "het.job_id", "het.job_offset")
    )
    of_het = f"{whole}+{part}" if whole not in ("", "0") else ""
    job_id = _number(record, "job_id")
    job = {
        "JobIDRaw": job_id,
        "JobID": f"{array}_{task}" if array not in ("", "0") and task else of_het,
        **{column: _text(record, *places) for column, places in _TEXTS.items()},
        "State": _words(record, "state.current"),
        **{column: _number(record, f"time.{name}") for column, name in _TIMES.items()},
        "Suspended": _clock(float(_number(record, "time.suspended") or 0)),
        "AllocTRES": _tres(record, "tres.allocated", ("cpu", "mem", "node", "gres"), "M"),
        "ReqTRES": _tres(record, "tres.requested", ("cpu", "mem", "node", "gres"), "M"),
        "ReqMem": _per(record),
        "ReqCPUS": _number(record, "required.CPUs"),
        "ExitCode": _exit(record, "exit_code"),
        "DerivedExitCode": _exit(record, "derived_exit_code"),
        "TotalCPU": _clock(_seconds(record, "time.total")),
        "AdminComment": _comment(record, "administrator"),
        "Comment": _comment(record, "job"),
    }
    return [job, *(_step(job_id, step) for step in _list(record, "steps"))]


def _decoded(data: bytes) -> Record:
    try:
        record = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # such as names in Latin-1
        try:
            record = json.loads(text_of(data), parse_constant=int)
        except (ValueError, RecursionError) as error:
            raise AccountingError("not JSON", f"{error}") from None
        if not isinstance(record, dict):
            raise AccountingError("not JSON", "no object") from None
    if "job_state" in record:
        raise AccountingError("a record of squeue: import the output of sacct")
    return record


def _step(job_id: str, step: Record) -> Row:
    # Killed processes have only samples, in milliseconds: no parent waited for them.
    sampled = (_number(each, "count") for each in _list(step, "tres.requested.total") if each.get("type") == "cpu")
    cpu_s = max(_seconds(step, "time.total"), *(float(each or 0) / 1000 for each in sampled), 0.0)
    step_id = _at(step, "step.id")  # ``batch``, 0, ``7.0`` or ``{"job_id": 7, "step_id": "0"}``
    shown = step_id.get("step_id") if isinstance(step_id, dict) else step_id
    return {
        "JobIDRaw": f"{job_id}.{str(shown).rpartition('.')[2]}",
        "State": _words(step, "state"),
        "Start": _number(step, "time.start"),
        "End": _number(step, "time.end"),
        "ExitCode": _exit(step, "exit_code"),
        "NTasks": _number(step, "tasks.count"),
        "TotalCPU": _clock(cpu_s),
        **{f"TRESUsageIn{kind[:3].title()}": _tres(step, f"tres.requested.{kind}", ("mem", "gres")) for kind in _USES},
    }


def _at(record: Record, place: str) -> Any:
    """Return the value at a place such as ``time.start``; None if there is none."""
    found: Any = record
    for name in place.split("."):
        if found is not None and not isinstance(found, dict):
            raise AccountingError(_OTHER_TYPE, f"{place}: {found}")
        found = (found or {}).get(name)
    return found


def _list(record: Record, place: str) -> list[Record]:
    found = _at(record, place) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise AccountingError(_OTHER_TYPE, f"{place}: {found}")
    return found


def _text(record: Record, *places: str) -> str:
    """Return the first of the texts that is not empty."""
    found = next(filter(None, (_at(record, place) for place in places)), "")
    if not isinstance(found, str):
        raise AccountingError(_OTHER_TYPE, f"{places[0]}: {found}")
    return found


def _per(record: Record) -> str:
    """Return the requested MiB, marked as in the text of older releases: c per CPU, n per node."""
    for name, mark in (("memory_per_cpu", "c"), ("memory_per_node", "n")):
        if (number := _number(record, f"required.{name}")) not in ("", "0"):
            return f"{number}M{mark}"
    return ""


def _comment(record: Record, whose: str) -> str:
    comment = record.get("comment")
    text = comment.get(whose) if isinstance(comment, dict) else comment
    return text if isinstance(text, str) else ""


def _tres(record: Record, place: str, types: Collection[str], memory_unit: str = "") -> str:
    """Return resources of these types, of ``gres`` only GPUs: ``cpu=4,mem=1200M,gres/gpu:a100=2``."""
    found = [(each.get("type"), each.get("name") or "", _number(each, "count")) for each in _list(record, place)]
    return ",".join(
        f"{kind}{f'/{name}' if name else ''}={number}{memory_unit if kind == 'mem' else ''}"
        for kind, name, number in found
        if kind in types and number and not number.startswith("-") and (kind != "gres" or f"{name}".startswith("gpu"))
    )


def _number(record: Record, place: str) -> str:
    """Return a number in any form; empty if it is not set or unlimited."""
    value = _at(record, place)
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    if value is None or value == "":
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise AccountingError(f"{place} is not a number", f"{value}")
    return "" if value in _NOT_A_NUMBER else f"{int(value)}"


def _seconds(record: Record, place: str) -> float:
    """Return the seconds of ``{"seconds": 3, "microseconds": 1043244}``; 0 without it."""
    seconds, microseconds = (float(_number(record, f"{place}.{name}") or 0) for name in ("seconds", "microseconds"))
    return seconds + microseconds / 1e6


def _clock(seconds: float) -> str:
    return f"{seconds // 60:.0f}:{seconds % 60:09.6f}"


def _words(record: Record, place: str) -> str:
    """Return a state and its flags from a text or a list: ``COMPLETED+COMPLETING``."""
    value = _at(record, place)
    found = [value] if isinstance(value, str) else value or []
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise AccountingError(f"{place} is not a text", f"{value}")
    return "+".join(text.split()[0] for text in found if text.split())


def _exit(record: Record, place: str) -> str:
    """Return ``0:125`` of ``{"return_code": ..., "signal": {"id": 125}}``; ``signal_id`` before 23.11."""
    if _at(record, place) is None:
        return ""
    code, *signals = (_number(record, f"{place}.{name}") for name in ("return_code", "signal.id", "signal.signal_id"))
    return f"{code or 0}:{next((each for each in signals if each and each not in _NOT_A_SIGNAL), 0)}"
