"""Rules for every schedule: jobs start after submission, take their run time, and fit into the machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobsight_scheduler.table import JobTable

NEAR_S = 1e-6
"""Times that differ by less are the same; sums of fractional seconds round."""


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that ``job`` (its number) broke, with the values."""

    rule: str
    job: int
    message: str

    def __str__(self) -> str:
        return f"job {self.job}: {self.message}"


def check_jobs(table: JobTable, capacity: int) -> list[BrokenRule]:
    """Check that jobs start after submission, end after their run time, and fit into the machine."""
    found = [
        BrokenRule("submit", job, f"starts at {start:g}, before it was submitted at {submit:g}")
        for job, start, submit in _rows(table, table.start_s < table.submit_s, table.start_s, table.submit_s)
    ]
    wrong = np.abs(table.end_s - table.start_s - table.run_s) > NEAR_S
    found += [
        BrokenRule("run time", job, f"ends {end - start:g} s after its start, but runs {run:g} s")
        for job, start, end, run in _rows(table, wrong, table.start_s, table.end_s, table.run_s)
    ]
    found += [
        BrokenRule("size", job, f"takes {count:g} processors of a machine of {capacity}")
        for job, count in _rows(table, table.processors > capacity, table.processors)
    ]
    return found


def check_capacity(table: JobTable, capacity: int) -> list[BrokenRule]:
    """Check that running jobs never hold more processors than the machine has. A job frees its own at its end."""
    times = np.concatenate([table.end_s, table.start_s])
    change = np.concatenate([-table.processors, table.processors])
    order = np.argsort(times, kind="stable")  # ends first
    used = np.cumsum(change[order])
    over = np.flatnonzero(used > capacity)
    found = []
    for i in over.tolist():
        job = order[i] - len(table)
        if job >= 0:
            message = f"{used[i]} processors in use when it starts at {times[order[i]]:g}, there are {capacity}"
            found.append(BrokenRule("capacity", int(table.job[job]), message))
    return found


def free_steps(table: JobTable, capacity: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the instants at which something starts or ends, and the free processors after each, shape (instants,)."""
    times = np.concatenate([table.end_s, table.start_s])
    change = np.concatenate([table.processors, -table.processors])
    instants, place = np.unique(times, return_inverse=True)
    freed = np.zeros(len(instants), dtype=np.int64)
    np.add.at(freed, place, change)
    return instants, capacity + np.cumsum(freed)


def _rows(
    table: JobTable, wrong: NDArray[np.bool_], *columns: NDArray[np.float64] | NDArray[np.int64]
) -> list[tuple[int, ...]]:
    chosen = np.flatnonzero(wrong)
    return list(zip(table.job[chosen].tolist(), *(column[chosen].tolist() for column in columns), strict=True))
