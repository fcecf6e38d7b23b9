"""A job in the JSON of ``sacct``, as every release since 21.08 writes it.

A number is a number or null, or, from 23.02 on, ``{"set": true, "infinite": false, "number": 5}``; a state or status is
a text or a list of texts. Unneeded fields are ignored, so that a later release may change them.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from jobsight_server.accounting.parsers.slurm.gpus import gpus_of, used_of_gpus
from jobsight_server.accounting.parsers.slurm.job import (
    ExitCode,
    SlurmJob,
    checked_bytes,
    checked_count,
    checked_seconds,
    checked_time,
)
from jobsight_server.accounting.parsers.slurm.steps import OF_SLURM, SlurmStep
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.accounting.text import text_of

_MIB = 2**20
# Slurm's NO_VAL and INFINITE of 16, 32 and 64 bits, which some releases write as plain numbers.
_NOT_A_NUMBER = frozenset({2**16 - 2, 2**16 - 1, 2**32 - 2, 2**32 - 1, 2**64 - 2, 2**64 - 1})


class _Times(Struct):
    start: Any = None
    end: Any = None
    submission: Any = None
    eligible: Any = None
    elapsed: Any = None
    suspended: Any = None
    limit: Any = None
    total: Any = None


class _Tres(Struct):
    type: str | None = None
    name: str | None = None
    count: Any = None


class _Requested(Struct):
    total: list[_Tres] = []
    min: list[_Tres] = []
    max: list[_Tres] = []


class _StepTres(Struct):
    requested: _Requested | None = None


class _Step(Struct):
    time: _Times
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
    time: _Times
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
    exit_code: Any = None
    derived_exit_code: Any = None
    steps: list[_Step] = []
    tres: _JobTres | None = None


_decode_sacct = msgspec.json.Decoder(_Sacct).decode


def parse_sacct(data: bytes) -> SlurmJob:
    """Return the job in a record of ``sacct --json``.

    Raises:
        AccountingError: it cannot be used; the reason says why.
    """
    record = _decoded(data)
    time, of_tres = record.time, record.tres or _JobTres()
    allocated, requested = _by_type("tres", of_tres.allocated), _by_type("tres", of_tres.requested)
    of_association = record.association or _Association()
    memory_mib = requested.get("mem")
    return SlurmJob(
        job_id=str(record.job_id),
        user=record.user or of_association.user,
        cluster=of_association.cluster or record.cluster,
        states=_texts("state.current", record.state.get("current")),
        submitted=_time("time.submission", time.submission),
        eligible=_time("time.eligible", time.eligible),
        start=_time("time.start", time.start),
        end=_time("time.end", time.end),
        elapsed_s=_seconds("time.elapsed", time.elapsed),
        suspended_s=_seconds("time.suspended", time.suspended) or 0.0,
        limit_s=_limit_s("time.limit", time.limit),
        group=record.group,
        account=record.account or of_association.account,
        name=record.name,
        partition=record.partition,
        nodes=record.nodes or "",
        node_count=checked_count("tres node", allocated.get("node") or requested.get("node")),
        processors=checked_count(
            "tres cpu", allocated.get("cpu") or requested.get("cpu") or _count("required", record.required.get("CPUs"))
        ),
        asked_processors=checked_count("tres cpu", requested.get("cpu")),
        requested_memory_bytes=checked_bytes("tres mem", memory_mib and memory_mib * _MIB),
        exit=_exit_code("exit_code", record.exit_code),
        derived_exit=_exit_code("derived_exit_code", record.derived_exit_code),
        used_cpu_s=_clock_s("time.total", time.total),
        comment=_comment(record.comment, "administrator"),
        user_comment=_comment(record.comment, "job"),
        array_task=_array_task(record.array),
        gpus=checked_count("tres gres/gpu", gpus_of(allocated) or gpus_of(requested)),
        steps=tuple(_step(step) for step in record.steps),
    )


def _decoded(data: bytes) -> _Sacct:
    try:
        try:
            return _decode_sacct(data)
        except UnicodeDecodeError:
            return _decode_sacct(text_of(data))
    except msgspec.ValidationError as error:
        if b'"job_state"' in data:
            raise AccountingError("a record of squeue: import the output of sacct") from None
        raise AccountingError("a field of another type than Slurm writes", f"{error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AccountingError("not JSON", f"{error}") from None


def _step(step: _Step) -> SlurmStep:
    requested = step.tres.requested if step.tres is not None else None
    of_step = requested or _Requested()
    used, least, largest = (_by_type("steps.tres", of) for of in (of_step.total, of_step.min, of_step.max))
    step_id = _step_id(step.step)
    tasks = 1 if step_id in OF_SLURM else _count("steps.tasks.count", step.tasks.get("count"))
    code = _exit_code("steps.exit_code", step.exit_code)
    states = _texts("steps.state", step.state)
    return SlurmStep(
        step_id=step_id,
        start=_time("steps.time.start", step.time.start),
        end=_time("steps.time.end", step.time.end),
        memory_bytes=checked_bytes("steps.tres mem", used.get("mem", 0)) or 0,
        # A task without any memory was not measured, so the sum lacks it.
        incomplete=tasks != 1 and not least.get("mem"),
        # Killed processes have only samples, in milliseconds: no parent waited for them.
        cpu_s=max(_clock_s("steps.time.total", step.time.total), used.get("cpu", 0) / 1000.0),
        out_of_memory="OUT_OF_MEMORY" in states or (code is not None and code.signal == 125),
        exit_status=None if code is None else code.status,
        used_gpus=used_of_gpus(used, largest, least, tasks),
    )


def _comment(comment: Any, whose: str = "") -> str | None:
    text = comment.get(whose) if isinstance(comment, dict) else comment
    return text if isinstance(text, str) else None


def _array_task(array: dict[str, Any]) -> str | None:
    number, task = _count("array.job_id", array.get("job_id")), _count("array.task_id", array.get("task_id"))
    return f"{number}_{task}" if number and task is not None else None


def _by_type(what: str, tres: list[_Tres]) -> dict[str, int]:
    """Return resources by type, and by type and name where there is one: ``mem``, ``gres/gpu``."""
    return {
        f"{one.type}/{one.name}" if one.name else str(one.type): max(_count(what, one.count) or 0, 0) for one in tres
    }


def _step_id(step: dict[str, Any]) -> str:
    """Return ``batch`` for ``batch``, ``0`` for 0, ``7.0`` or ``{"job_id": 7, "step_id": "0"}``."""
    found = step.get("id")
    if isinstance(found, dict):
        found = found.get("step_id")
    return str(found).rpartition(".")[2].lower()


def _count(what: str, value: Any) -> int | None:
    """Return a number in any form; None if it is not set or unlimited."""
    if isinstance(value, dict):
        if value.get("infinite") or not value.get("set"):
            return None
        value = value.get("number")
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise AccountingError(f"{what} is not a number", f"{value}")
    return None if value in _NOT_A_NUMBER else int(value)


def _time(what: str, value: Any) -> float | None:
    return checked_time(what, _count(what, value))


def _seconds(what: str, value: Any) -> float | None:
    return checked_seconds(what, _count(what, value))


def _limit_s(what: str, value: Any) -> float | None:
    """Return the seconds of a limit in minutes; None if there is none."""
    minutes = _count(what, value)
    return checked_seconds(what, minutes * 60.0 if minutes else None)


def _clock_s(what: str, value: Any) -> float:
    """Return the seconds of ``{"seconds": 3, "microseconds": 1043244}``; 0 without it."""
    if value is None:
        return 0.0
    if not isinstance(value, dict):
        raise AccountingError(f"{what} is not a duration", f"{value}")
    seconds = (_count(what, value.get("seconds")) or 0) + (_count(what, value.get("microseconds")) or 0) / 1e6
    return checked_seconds(what, seconds) or 0.0


def _texts(what: str, value: Any) -> tuple[str, ...]:
    """Return the texts of a text or a list, in capitals; for ``CANCELLED by 1002``, the first word."""
    found = [value] if isinstance(value, str) else value
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise AccountingError(f"{what} is not a text", f"{value}")
    return tuple(text.split()[0].upper() for text in found if text.split())


def _exit_code(what: str, value: Any) -> ExitCode | None:
    """Parse ``{"status": ["SIGNALED"], "return_code": ..., "signal": {"id": ...}}``; ``signal_id`` before 23.11."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise AccountingError(f"{what} is not an exit code", f"{value}")
    signal = value.get("signal")
    number = None
    if isinstance(signal, dict):
        number = _count(what, signal.get("id", signal.get("signal_id")))
    code = _count(what, value.get("return_code")) or 0
    if not -(2**31) <= code < 2**31 or not 0 <= (number or 0) < 2**16:
        raise AccountingError(f"{what} is not an exit code", f"{code}:{number}")
    return ExitCode(code, number or 0)
