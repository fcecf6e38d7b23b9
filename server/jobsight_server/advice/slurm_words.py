"""A request in Slurm's words, and a recommendation in them.

Memory is per node or per processor there, in MiB unless a unit is given; a bare time limit is in minutes.
"""

from __future__ import annotations

import math
import re
from typing import Annotated

import msgspec
from msgspec import Meta

from jobsight_server.advice.job_request import PROCESSORS_AT_MOST, JobRequest, RequestError, checked, whole
from jobsight_server.amounts import MIB, memory_bytes, time_s
from jobsight_server.record import Record

MINUTE_S = 60.0
_MEMORY_AT_MOST = 2.0**50
_MIB_AT_MOST = 2**30
_MINUTES_AT_MOST = 1e9
_UNLIMITED = frozenset({"unlimited", "infinite"})
_BARE = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?").fullmatch
_MINUTES_SECONDS = re.compile(r"[0-9]{1,9}:[0-9]{1,9}(?::[0-9]{1,9})?").fullmatch
_DAYS = re.compile(r"[0-9]{1,9}-[0-9]{1,9}(?::[0-9]{1,9}){0,2}").fullmatch

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
    """What ``sbatch`` was given, and null for the rest; ``cpus`` counts where it is more than the tasks need."""

    num_tasks: Count | None = None
    cpus_per_task: Count | None = None
    ntasks_per_node: Count | None = None
    nodes: Count | None = None
    cpus: Count | None = None
    mem: Memory | None = None
    mem_per_cpu: Memory | None = None
    time_limit: TimeLimit | None = None


class SlurmAdvice(Record):
    """What to ask Slurm for: MiB per node, or per processor, and minutes, rounded up."""

    mem: int | None
    mem_per_cpu: int | None
    time_limit: int | None


def slurm_request(asked: SlurmRequest) -> JobRequest:
    """The request of the whole job; all memory of a node and no time limit are not requested amounts.

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
    """``memory_bytes`` and ``runtime_s``, of the whole job, as Slurm takes them."""
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
    """A number without the fraction that JSON did not have."""
    return repr(value[:60] if isinstance(value, str) else int(value) if value.is_integer() else value)


def _limit_s(value: float | str | None) -> float | None:
    """0 is none, as in Slurm."""
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
