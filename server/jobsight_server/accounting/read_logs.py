"""Reads accounting logs: files once, or a directory, one file a day, followed across rotation."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path

from sqlalchemy import Engine, func, select

from jobsight_server.accounting.clock_offset import ClockOffset
from jobsight_server.accounting.figures import Figures
from jobsight_server.accounting.files import UnreadableError
from jobsight_server.accounting.load import LoadReport
from jobsight_server.accounting.log_reader import BytesRead, LogReader
from jobsight_server.seldom import Seldom
from jobsight_server.settings import AccountingSource
from jobsight_server.storage.schema import jobs

_DAY = re.compile(r"[0-9]{8}(\.gz)?", re.ASCII)


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
    progress: BytesRead | None = None,
) -> ImportReport:
    """Imports ``files``, plain or gzip, in the order given. Files read before change nothing."""
    figures = Figures()
    reader = LogReader(engine, cluster, clock, log_format, progress=progress)
    before = _runs(engine, cluster)
    for position, file in enumerate(files):
        reader.read(file, final=True, previous=files[position - 1] if position else None, figures=figures)
    return ImportReport(figures, reader.report, _runs(engine, cluster) - before)


def follow_once(
    engine: Engine,
    source: AccountingSource,
    clock: Callable[[], float],
    stop: threading.Event | None = None,
    zone: tzinfo | None = None,
    links_seen: set[Path] | None = None,
    said: Seldom | None = None,
) -> LoadReport:
    """Imports whatever is new in the source's files; ends early, between two transactions, when ``stop`` is set.

    ``zone`` is the scheduler's, in case its log does not show it; None is this machine's. Unreadable files are
    counted and reported, and the rest is read. A symbolic link that leads out of the directory is not
    followed; one in ``links_seen``, to which new ones are added, was counted and reported before.
    ``said`` keeps the log from repeating the same about a file in each round.
    """
    reader = LogReader(engine, source.cluster, clock, source.format, ClockOffset(zone), stop, said=said)
    try:
        files = _inside(reader, source.directory, set() if links_seen is None else links_seen)
    except UnreadableError as error:
        reader.unreadable(str(source.directory), str(error))
        return reader.report
    days = [file.name[:8] for file in files]
    for position, file in enumerate(files):
        if stop is not None and stop.is_set():
            break
        previous = files[position - 1] if position else None
        reader.read(file, final=days[position] < days[-1], previous=previous)
    return reader.report


def _inside(reader: LogReader, directory: Path, links_seen: set[Path]) -> list[Path]:
    """The day files that do not lead out of the directory."""
    found = []
    for file in _day_files(directory):
        try:
            leaves = _leads_out(file, directory)
        except UnreadableError as error:
            reader.unreadable(str(file), str(error))
            continue
        if not leaves:
            found.append(file)
        elif file not in links_seen:
            links_seen.add(file)
            reader.unreadable(str(file), "a symbolic link out of the directory: not followed")
    return found


def _day_files(directory: Path) -> list[Path]:
    """The accounting files ``YYYYMMDD`` and ``YYYYMMDD.gz``, oldest first; other names are ignored.

    Raises:
        UnreadableError: the directory cannot be listed.
    """
    try:
        names = [entry.name for entry in os.scandir(directory)]
    except OSError as error:
        raise UnreadableError(f"directory: {error.strerror}") from error
    return [directory / name for name in sorted(names) if _DAY.fullmatch(name)]


def _leads_out(path: Path, directory: Path) -> bool:
    """Whether ``path``, an entry of ``directory``, is a symbolic link that leads outside.

    The server may read files that the writer of the log may not: such a link would expose their lines.

    Raises:
        UnreadableError: the links form a loop.
    """
    try:
        return path.is_symlink() and not path.resolve().is_relative_to(directory.resolve())
    except (OSError, RuntimeError) as error:
        raise UnreadableError("file: symbolic links in a circle") from error


def _runs(engine: Engine, cluster: str) -> int:
    with engine.connect().execution_options(reading=True) as connection:
        count = connection.scalar(select(func.count()).select_from(jobs).where(jobs.c.cluster == cluster))
    return count or 0
