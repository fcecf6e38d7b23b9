"""The resources that a submitted job asks for, whatever the scheduler calls them."""

from __future__ import annotations

from dataclasses import dataclass

PROCESSORS_AT_MOST = 10**9
AMOUNT_AT_MOST = 1e18


class RequestError(ValueError):
    """A request that cannot be read; the message names the field, its value and valid forms."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Of the whole job; None is not requested. ``memory_bytes`` is the sum over its ``nodes``, 1 for each processor at
    most where their number is left to the scheduler."""

    processors: int = 1
    nodes: int | None = None
    memory_bytes: float | None = None
    walltime_s: float | None = None


def whole(value: float | None, place: str) -> int | None:
    """A count of 1 or more; None if it was not given.

    Raises:
        RequestError: it is no such number.
    """
    if value is None:
        return None
    if not (1 <= value <= PROCESSORS_AT_MOST and float(value).is_integer()):
        raise RequestError(f"{place} = {value!r} is not a whole number from 1 to {PROCESSORS_AT_MOST}")
    return int(value)


def checked(request: JobRequest) -> JobRequest:
    """The request, if its amounts are of a size that a job can have.

    Raises:
        RequestError: one is not.
    """
    whole(float(request.processors), "processors")
    whole(float(request.nodes or 1), "nodes")
    for name, value in (("memory", request.memory_bytes), ("run time", request.walltime_s)):
        if value is not None and not 0 < value <= AMOUNT_AT_MOST:
            raise RequestError(f"{name} = {value!r} is not above 0 and at most {AMOUNT_AT_MOST:g}")
    return request
