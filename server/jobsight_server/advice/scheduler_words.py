"""A request in Slurm's words, and a recommendation in them.

Memory is per node or per processor there, in MiB unless a unit is given; a bare time limit is in minutes.
"""

from __future__ import annotations

import math
import re
from typing import Annotated

import msgspec
from msgspec import Meta

from jobsight_server.accounting.parsers.quantities import requested_bytes
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.advice.recommendation import JobRequest
from jobsight_server.ground.amounts import MIB, memory_bytes, time_s
from jobsight_server.ground.answers import Record

MINUTE_S = 60.0
_MEMORY_AT_MOST = 2.0**50
_MIB_AT_MOST = 2**30
_MINUTES_AT_MOST = 1e9
_UNLIMITED = frozenset({"unlimited", "infinite"})
_BARE = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?").fullmatch
_MINUTES_SECONDS = re.compile(r"[0-9]{1,9}:[0-9]{1,9}(?::[0-9]{1,9})?").fullmatch
_DAYS = re.compile(r"[0-9]{1,9}-[0-9]{1,9}(?::[0-9]{1,9}){0,2}").fullmatch

PROCESSORS_AT_MOST = 10**9

Count = Annotated[float, Meta(extra_json_schema={"multipleOf": 1, "minimum": 1, "maximum": PROCESSORS_AT_MOST})]
Memory = (
    Annotated[
        float, Meta(description="MiB; 0 is all of a node", extra_json_schema={"minimum": 0, "maximum": _MIB_AT_MOST})
    ]
    | Annotated[str, Meta(description="such as 4G or 512M", extra_json_schema={"pattern": "^[0-9]{1,9}[KM]?$"})]
)
TimeLimit = (
    Annotated[
        float, Meta(description="minutes; 0 is none", extra_json_schema={"minimum": 0, "maximum": _MINUTES_AT_MOST})
    ]
    | Annotated[
        str,
        Meta(
            description="minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS or UNLIMITED",
            extra_json_schema={"pattern": "^([1-9][0-9]{0,3}-)?[1-9][0-9]?(:[0-5][0-9]){0,2}$"},
        ),
    ]
)


class SlurmRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The options of ``sbatch``, null where not given; ``cpus`` counts if it exceeds the number that the tasks need."""

    num_tasks: Count | None = None
    cpus_per_task: Count | None = None
    ntasks_per_node: Count | None = None
    nodes: Count | None = None
    cpus: Count | None = None
    mem: Memory | None = None
    mem_per_cpu: Memory | None = None
    time_limit: TimeLimit | None = None


class SlurmAdvice(Record):
    """Options for Slurm: MiB per node, or per processor, and minutes, rounded up."""

    mem: int | None
    mem_per_cpu: int | None
    time_limit: int | None


def slurm_request(asked: SlurmRequest) -> JobRequest:
    """Return the request of the whole job; "all memory of a node" and "no limit" count as no request.

    Raises:
        RequestError: a field cannot be read.
    """
    nodes = whole(asked.nodes, "slurm.nodes")
    tasks_per_node = whole(asked.ntasks_per_node, "slurm.ntasks_per_node") or 1
    tasks = whole(asked.num_tasks, "slurm.num_tasks") or (nodes or 1) * tasks_per_node
    cpus = tasks * (whole(asked.cpus_per_task, "slurm.cpus_per_task") or 1)
    processors = max(cpus, whole(asked.cpus, "slurm.cpus") or 1, nodes or 1)
    per_node, per_cpu = _memory_bytes(asked.mem, "slurm.mem"), _memory_bytes(asked.mem_per_cpu, "slurm.mem_per_cpu")
    if per_node and per_cpu:
        raise RequestError("slurm.mem and slurm.mem_per_cpu exclude each other, as in Slurm: give one of them")
    memory = per_node * (nodes or 1) or per_cpu * processors
    return checked(JobRequest(processors, nodes, memory or None, _limit_s(asked.time_limit) or None))


def slurm_advice(request: JobRequest, memory_bytes: float | None, runtime_s: float | None) -> SlurmAdvice:
    """Convert ``memory_bytes`` and ``runtime_s`` of the whole job to Slurm's options."""
    per = {name: None if memory_bytes is None else math.ceil(memory_bytes / count / MIB) for name, count in (
        ("node", request.nodes or 1), ("cpu", request.processors)
    )}  # fmt: skip
    minutes = None if runtime_s is None else math.ceil(runtime_s / MINUTE_S)
    return SlurmAdvice(per["node"], per["cpu"], minutes)


def _memory_bytes(value: float | str | None, place: str) -> float:
    if value is None:
        return 0.0
    is_in_mib = not isinstance(value, str) or _BARE(value) is not None
    try:
        found = memory_bytes(value) if isinstance(value, str) else value
    except ValueError:
        found = -1.0
    found *= MIB if is_in_mib else 1
    if not found >= 0:
        raise RequestError(f"{place} = {_as_sent(value)} is not an amount of memory; give MiB, or a unit such as 4G")
    if found > _MEMORY_AT_MOST:
        meaning = f"is in MiB, as in Slurm: {found / 2**50:g} PiB; " if is_in_mib else "is too much; "
        raise RequestError(f"{place} = {_as_sent(value)} {meaning}at most 1 PiB is taken")
    return found


def _as_sent(value: float | str) -> str:
    """Write a whole number without a fraction, as in the JSON."""
    return repr(value[:60] if isinstance(value, str) else int(value) if value.is_integer() else value)


def _limit_s(value: float | str | None) -> float | None:
    """Parse a time limit; 0 is none, as in Slurm."""
    if value is None or (isinstance(value, str) and value.lower() in _UNLIMITED):
        return None
    if isinstance(value, str):
        if _BARE(value):
            value = float(value)
        elif _MINUTES_SECONDS(value) or _DAYS(value):
            return time_s(value)
        else:
            raise RequestError(
                f"slurm.time_limit = {value[:60]!r} is not a time limit; give minutes, 01:30:00 or 1-12:00:00"
            )
    if not 0 <= value <= _MINUTES_AT_MOST:
        raise RequestError(
            f"slurm.time_limit = {_as_sent(value)} is not a number of minutes from 0, no limit, to {_MINUTES_AT_MOST:g}"
        )
    return value * MINUTE_S


_CHUNKS_AT_MOST = 1000
_UNLIMITED_IN_PBS = frozenset({"unlimited", "infinity", "infinite"})
_COUNT = re.compile(r"[1-9][0-9]{0,8}").fullmatch
_Word = Annotated[str, Meta(max_length=16_000)]


class PbsRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Values of ``Resource_List`` as text: ``select`` is PBS's, ``nodes`` is TORQUE's, both have the others."""

    select: _Word | None = None
    nodes: _Word | None = None
    ncpus: _Word | None = None
    procs: _Word | None = None
    mem: _Word | None = None
    pmem: _Word | None = None
    walltime: _Word | None = None


class PbsAdvice(Record):
    """Resources for PBS: ``mem`` of the whole job, ``pmem`` per processor, and ``select`` with memory in its chunks.

    ``select`` is null where the job has none, or where its chunks differ.
    """

    mem: str | None
    pmem: str | None
    select: str | None
    walltime: str | None


def pbs_request(asked: PbsRequest) -> JobRequest:
    """Return the request of the whole job.

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
    """Convert ``memory_bytes`` and ``runtime_s`` of the whole job to PBS's resources, rounded up."""
    walltime = None
    if runtime_s is not None:
        minutes = math.ceil(runtime_s / 60)
        walltime = f"{minutes // 60:02}:{minutes % 60:02}:00"
    if memory_bytes is None:
        return PbsAdvice(None, None, None, walltime)
    per_processor = memory_bytes / request.processors
    return PbsAdvice(_mb(memory_bytes), _mb(per_processor), _select(asked.select, per_processor), walltime)


def _select(text: str | None, bytes_per_processor: float) -> str | None:
    """Replace the memory of each chunk of a ``select``; None if its chunks differ."""
    chunks = [] if text is None else _chunks(text)
    if len(chunks) != 1:
        return None
    count, resources = chunks[0]
    memory = _mb(bytes_per_processor * _count(resources.get("ncpus", "1"), "pbs.select ncpus"))
    return ":".join([str(count), *(f"{key}={value}" for key, value in (resources | {"mem": memory}).items())])


def _chunks(text: str) -> list[tuple[int, dict[str, str]]]:
    """Parse ``2:ncpus=8:mem=8gb+1:ncpus=4``: the count of each chunk, and its resources."""
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
    """Parse a run time, which may be ``MM:SS``, unlike in accounting logs; 0 if none is requested."""
    if text is None or text.lower() in _UNLIMITED_IN_PBS:
        return 0.0
    try:
        return time_s(text)
    except ValueError as error:
        raise RequestError(f"pbs.walltime = {text[:60]!r} is not a run time; give seconds or HH:MM:SS") from error


def _memory(text: str | None, place: str) -> float:
    """Parse an amount of memory; 0 if none is requested."""
    try:
        return 0.0 if text is None else float(requested_bytes(place, text) or 0)
    except AccountingError as error:
        raise RequestError(f"{place} = {text!r:.80} is not an amount of memory; give one such as 8gb") from error


def _mb(value: float) -> str:
    return f"{math.ceil(value / MIB)}mb"


AMOUNT_AT_MOST = 1e18


class RequestError(ValueError):
    """A request that does not parse; the message names the field, its value and valid forms."""


def whole(value: float | None, place: str) -> int | None:
    """Check a count of 1 or more; None if it was not given.

    Raises:
        RequestError: it is not such a number.
    """
    if value is None:
        return None
    if not (1 <= value <= PROCESSORS_AT_MOST and float(value).is_integer()):
        raise RequestError(f"{place} = {value!r} is not a whole number from 1 to {PROCESSORS_AT_MOST}")
    return int(value)


def checked(request: JobRequest) -> JobRequest:
    """Return the request if its values are of a size that a job can have.

    Raises:
        RequestError: one is not.
    """
    whole(float(request.processors), "processors")
    whole(float(request.nodes or 1), "nodes")
    for name, value in (("memory", request.memory_bytes), ("run time", request.walltime_s)):
        if value is not None and not 0 < value <= AMOUNT_AT_MOST:
            raise RequestError(f"{name} = {value!r} is not above 0 and at most {AMOUNT_AT_MOST:g}")
    return request
