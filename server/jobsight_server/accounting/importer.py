"""Reads accounting files once, and reports their content and the outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, func, select

from jobsight_server.accounting.figures import Figures
from jobsight_server.accounting.load import LoadReport
from jobsight_server.accounting.log_reader import LogReader, Progress
from jobsight_server.storage.schema import jobs


@dataclass(frozen=True, slots=True)
class ImportReport:
    """``figures`` of the files, ``taken_in`` of what was new in them, and the number of runs added to the database."""

    figures: Figures
    taken_in: LoadReport
    new_runs: int


def import_files(
    engine: Engine,
    files: Sequence[Path],
    cluster: str,
    clock: Callable[[], float],
    log_format: str = "torque",
    progress: Progress | None = None,
) -> ImportReport:
    """Imports ``files``, plain or gzip, in the order given. Files read before change nothing."""
    figures = Figures()
    reader = LogReader(engine, cluster, clock, log_format, progress=progress)
    before = _runs(engine, cluster)
    for position, file in enumerate(files):
        reader.read(file, final=True, previous=files[position - 1] if position else None, figures=figures)
    return ImportReport(figures, reader.report, _runs(engine, cluster) - before)


def _runs(engine: Engine, cluster: str) -> int:
    with engine.connect().execution_options(reading=True) as connection:
        count = connection.scalar(select(func.count()).select_from(jobs).where(jobs.c.cluster == cluster))
    return count or 0
