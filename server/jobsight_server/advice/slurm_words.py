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
from jobsight_server.amounts import memory_bytes, time_s
from jobsight_server.record import Record

MIB = 2**20
MINUTE_S = 60.0
_UNLIMITED = frozenset({"unlimited", "infinite"})
_BARE = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?").fullmatch
_MINUTES_SECONDS = re.compile(r"[0-9]{1,9}:[0-9]{1,9}(?::[0-9]{1,9})?").fullmatch
_DAYS = re.compile(r"[0-9]{1,9}-[0-9]{1,9}(?::[0-9]{1,9}){0,2}").fullmatch

Count = Annotated[float, Meta(extra_json_schema={"multipleOf": 1, "minimum": 1, "maximum": PROCESSORS_AT_MOST})]
Memory = (
    Annotated[float, Meta(description="MiB; 0 is all of a node", extra_json_schema={"minimum": 0, "maximum": 1e12})]
    | Annotated[str, Meta(description="such as 4G or 512M", extra_json_schema={"pattern": "^[0-9]{1,12}[KMGT]?$"})]
)
TimeLimit = (
    Annotated[float, Meta(description="minutes", extra_json_schema={"exclusiveMinimum": 0, "maximum": 1e9})]
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
    nodes = whole(asked.nodes, "slurm.nodes") or 1
    per_node = whole(asked.ntasks_per_node, "slurm.ntasks_per_node") or 1
    tasks = whole(asked.num_tasks, "slurm.num_tasks") or nodes * per_node
    cpus = tasks * (whole(asked.cpus_per_task, "slurm.cpus_per_task") or 1)
    processors = max(cpus, whole(asked.cpus, "slurm.cpus") or 1, nodes)
    memory = _memory_bytes(asked.mem, "slurm.mem") * nodes
    if not memory:
        memory = _memory_bytes(asked.mem_per_cpu, "slurm.mem_per_cpu") * processors
    return checked(JobRequest(processors, nodes, memory or None, _limit_s(asked.time_limit)))


def slurm_advice(request: JobRequest, memory_bytes: float | None, runtime_s: float | None) -> SlurmAdvice:
    """``memory_bytes`` and ``runtime_s``, of the whole job, as Slurm takes them."""
    per = {name: None if memory_bytes is None else math.ceil(memory_bytes / count / MIB) for name, count in (
        ("node", request.nodes), ("cpu", request.processors)
    )}  # fmt: skip
    minutes = None if runtime_s is None else math.ceil(runtime_s / MINUTE_S)
    return SlurmAdvice(per["node"], per["cpu"], minutes)


def _memory_bytes(value: float | str | None, place: str) -> float:
    if value is None:
        return 0.0
    try:
        if isinstance(value, str):
            return memory_bytes(value) * (MIB if _BARE(value) else 1)
    except ValueError as error:
        raise RequestError(f"{place} = {error}") from error
    if not 0 <= value <= 1e12:
        raise RequestError(f"{place} = {value!r} is not an amount of memory; give MiB, or a unit such as 4G")
    return value * MIB


def _limit_s(value: float | str | None) -> float | None:
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
    return value * MINUTE_S
