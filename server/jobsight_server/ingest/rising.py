"""Whether a batch only continues the counters of the reading before it: nearly all do, and need no closer look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub

from jobsight_server.ingest.wire import Batch
from jobsight_server.storage.readings.counters import CLOCK_STEP_S, LARGEST_BYTES_PER_S, LARGEST_CPU_STEP_S


@dataclass(frozen=True, slots=True)
class Last:
    """A node's newest reading; ``boot`` is the row with its interfaces, ``counters`` are in and out of each."""

    boot: int
    time: float
    boottime_s: float | None
    busy_s: float | None
    counters: list[int | None]


def last_of(boot: int, batch: Batch, counters: Sequence[list[int | None]]) -> Last:
    """Return the batch's last reading; ``counters``: in and out of each interface."""
    boottime_s = batch.boottime_s[-1] if batch.boottime_s else None
    return Last(boot, batch.time[-1], boottime_s, batch.cpu_busy_s[-1], [column[-1] for column in counters])


def only_rises(last: Last | None, boot: int, batch: Batch, counters: Sequence[list[int | None]]) -> bool:
    """Return whether the batch follows ``last`` without a wrap, reset or missing value: true of nearly all batches."""
    if last is None or last.boot != boot or None in batch.memory_used_bytes:
        return False
    # Below the limit of a single step, however short; larger ones are looked at one by one.
    return (
        _is_steady([last.time, *batch.time], [last.boottime_s, *(batch.boottime_s or [None])])
        and _rises(last.busy_s, batch.cpu_busy_s, LARGEST_CPU_STEP_S)
        and all(
            _rises(before, column, LARGEST_BYTES_PER_S) for before, column in zip(last.counters, counters, strict=True)
        )
    )


def _is_steady(times: list[float], boottimes: list[float | None]) -> bool:
    """Return whether no clock was set, as the times since the boot show, if there are any."""
    if boottimes == [None, None]:
        return True
    if None in boottimes:
        return False
    apart = [*map(sub, times, boottimes)]
    return bool(max(apart) - min(apart) <= CLOCK_STEP_S)


def _rises(before: float | None, column: Sequence[float | None], at_most: float) -> bool:
    try:
        # Sorting a sorted list takes a third of the time of comparing each with the next.
        is_rising = before <= column[0] and column[-1] - before < at_most and sorted(column) == column  # type: ignore
    except TypeError:  # None, a missing value, does not compare
        return False
    return bool(is_rising)
