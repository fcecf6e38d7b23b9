"""The result of a simulation: one flat table with a row per job, the source of all figures."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Floats, Integers
from jobsight_scheduler.workload.canonical import Workload

SCHEDULE = ("job", "submit_s", "start_s", "end_s", "processors")
"""The columns of a schedule file."""


@dataclass(frozen=True, slots=True)
class JobTable:
    """Arrays of shape (jobs,), in the order of submission; times in seconds. ``run_s`` is the dedicated run time.

    ``user`` is a name, or a number as text; ``-`` if unknown.
    """

    job: Integers
    submit_s: Floats
    start_s: Floats
    end_s: Floats
    processors: Integers
    run_s: Floats
    estimate_s: Floats
    user: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.job)

    def only(self, chosen: NDArray[np.bool_]) -> JobTable:
        """Return the rows of the chosen jobs."""
        return JobTable(*(getattr(self, column.name)[chosen] for column in fields(JobTable)))

    @property
    def wait_s(self) -> Floats:
        """Time from submission to start."""
        return self.start_s - self.submit_s

    @property
    def bounded_slowdown(self) -> Floats:
        """``max(1, (wait + run) / max(run, 10 s))``, where run is the dedicated run time.

        (docs/use/definitions.md, Figures of a schedule)
        """
        return np.maximum(1.0, (self.wait_s + self.run_s) / np.maximum(self.run_s, 10.0))


def table_of(workload: Workload, start_s: Floats, users: NDArray[np.str_] | None = None) -> JobTable:
    """Return the table of jobs that all started and ran undisturbed. ``users``: of the trace's jobs, by row."""
    return JobTable(
        job=np.arange(1, len(workload) + 1),
        submit_s=workload.submit_s,
        start_s=start_s,
        end_s=start_s + workload.run_s,
        processors=workload.processors,
        run_s=workload.run_s,
        estimate_s=workload.estimate_s,
        user=np.full(len(workload), "-") if users is None else users[workload.row],
    )


def write_table(table: JobTable, file: Path, columns: tuple[str, ...] | None = None) -> None:
    """Write ``columns`` (all by default) as CSV, ``.gz`` compressed; whole numbers without a point, others exactly."""
    names = columns or tuple(field.name for field in fields(JobTable))
    rows = zip(*(_written(getattr(table, name)) for name in names), strict=True)
    with gzip.open(file, "wt", newline="") if file.suffix == ".gz" else file.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)


def _written(column: Floats | Integers | NDArray[np.str_]) -> list[str]:
    if column.dtype.kind == "U":
        return [str(value) for value in column]
    return [str(int(value)) if value == int(value) else repr(value) for value in column.tolist()]
