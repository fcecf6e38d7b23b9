"""A request in the words of PBS Professional, OpenPBS and TORQUE, and a recommendation in them."""

from __future__ import annotations

import math
import re
from typing import Annotated

import msgspec
from msgspec import Meta

from jobsight_server.accounting.parsers.quantities import requested_bytes
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.advice.job_request import JobRequest, RequestError, checked
from jobsight_server.amounts import MIB, time_s
from jobsight_server.record import Record

_CHUNKS_AT_MOST = 1000
_UNLIMITED = frozenset({"unlimited", "infinity", "infinite"})
_COUNT = re.compile(r"[1-9][0-9]{0,8}").fullmatch
_Word = Annotated[str, Meta(max_length=16_000)]


class PbsRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Values of ``Resource_List`` as they are written: ``select`` of PBS, ``nodes`` of TORQUE, of the others either."""

    select: _Word | None = None
    nodes: _Word | None = None
    ncpus: _Word | None = None
    procs: _Word | None = None
    mem: _Word | None = None
    pmem: _Word | None = None
    walltime: _Word | None = None


class PbsAdvice(Record):
    """What to ask PBS for: ``mem`` of the whole job, ``pmem`` per processor, and ``select`` with memory in its chunks.

    ``select`` is null where the job has none, or where its chunks differ.
    """

    mem: str | None
    pmem: str | None
    select: str | None
    walltime: str | None


def pbs_request(asked: PbsRequest) -> JobRequest:
    """The request of the whole job.

    Raises:
        RequestError: a field cannot be read.
    """
    processors, nodes, memory = 0, 0, 0.0
    if asked.select is not None:
        for count, resources in _chunks(asked.select):
            nodes += count
            processors += count * _count(resources.get("ncpus", "1"), "pbs.select ncpus")
            memory += count * _memory(resources.get("mem"), "pbs.select mem")
    elif asked.nodes is not None:
        for part in asked.nodes.split("+"):
            first, *properties = part.strip().split(":")
            count = int(first) if _COUNT(first) else 1
            ppn = [text[4:] for text in properties if text.startswith("ppn=")]
            nodes += count
            processors += count * (_count(ppn[0], "pbs.nodes ppn") if ppn else 1)
    for name in ("procs", "ncpus"):
        text = getattr(asked, name)
        if text is not None and (asked.select is None or not processors):
            processors = max(processors, _count(text, f"pbs.{name}"))
    processors = max(processors, 1)
    memory = memory or _memory(asked.mem, "pbs.mem") or _memory(asked.pmem, "pbs.pmem") * processors
    return checked(JobRequest(processors, nodes or None, memory or None, _walltime_s(asked.walltime) or None))


def pbs_advice(
    asked: PbsRequest, request: JobRequest, memory_bytes: float | None, runtime_s: float | None
) -> PbsAdvice:
    """``memory_bytes`` and ``runtime_s``, of the whole job, as PBS takes them, rounded up."""
    walltime = None
    if runtime_s is not None:
        minutes = math.ceil(runtime_s / 60)
        walltime = f"{minutes // 60:02}:{minutes % 60:02}:00"
    if memory_bytes is None:
        return PbsAdvice(None, None, None, walltime)
    per_processor = memory_bytes / request.processors
    return PbsAdvice(_mb(memory_bytes), _mb(per_processor), _select(asked.select, per_processor), walltime)


def _select(text: str | None, bytes_per_processor: float) -> str | None:
    """The ``select`` with the memory of each chunk replaced; None if its chunks are of several kinds."""
    chunks = [] if text is None else _chunks(text)
    if len(chunks) != 1:
        return None
    count, resources = chunks[0]
    memory = _mb(bytes_per_processor * _count(resources.get("ncpus", "1"), "pbs.select ncpus"))
    return ":".join([str(count), *(f"{key}={value}" for key, value in (resources | {"mem": memory}).items())])


def _chunks(text: str) -> list[tuple[int, dict[str, str]]]:
    """Of ``2:ncpus=8:mem=8gb+1:ncpus=4``: how many of each chunk, and its resources."""
    parts = text.split("+")
    if len(parts) > _CHUNKS_AT_MOST:
        raise RequestError(f"pbs.select has {len(parts)} chunks; at most {_CHUNKS_AT_MOST} are read")
    found = []
    for part in parts:
        first, *rest = part.strip().split(":")
        count = 1
        if _COUNT(first):
            count = int(first)
        else:
            rest = [first, *rest]
        resources = dict(entry.partition("=")[::2] for entry in rest)
        if any(not key or not value for key, value in resources.items()):
            raise RequestError(f"pbs.select = {part[:60]!r} is not a chunk; give one such as 2:ncpus=8:mem=8gb")
        found.append((count, resources))
    return found


def _count(text: str, place: str) -> int:
    if not _COUNT(text):
        raise RequestError(f"{place} = {text[:60]!r} is not a whole number above 0")
    return int(text)


def _walltime_s(text: str | None) -> float:
    """0 where none is requested. Unlike in accounting logs, ``MM:SS`` is one."""
    if text is None or text.lower() in _UNLIMITED:
        return 0.0
    try:
        return time_s(text)
    except ValueError as error:
        raise RequestError(f"pbs.walltime = {text[:60]!r} is not a run time; give seconds or HH:MM:SS") from error


def _memory(text: str | None, place: str) -> float:
    """0 where none is requested."""
    try:
        return 0.0 if text is None else float(requested_bytes(place, text) or 0)
    except AccountingError as error:
        raise RequestError(f"{place} = {text!r:.80} is not an amount of memory; give one such as 8gb") from error


def _mb(value: float) -> str:
    return f"{math.ceil(value / MIB)}mb"
