"""Reads accounting logs: files once, or a directory with one file a day, or one file that grows, across rotation."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Engine, func, select

from jobsight_server.accounting.clock_offset import ClockOffset
from jobsight_server.accounting.figures import ImportFigures
from jobsight_server.accounting.files import UnreadableError
from jobsight_server.accounting.load import LoadReport
from jobsight_server.accounting.log_reader import BytesRead, LogReader
from jobsight_server.accounting.origin import NOTHING, Given
from jobsight_server.ground.seldom import Seldom
from jobsight_server.settings.declared import AccountingFormat, AccountingSource
from jobsight_server.storage.schema import jobs

_About = TypeVar("_About")
# Rotated by logrotate or Grid Engine's logchecker: with a number or a date, perhaps compressed.
_ROTATED = r"[.-][0-9]{1,14}(\.gz)?"
_DAY = re.compile(r"[0-9]{8}(\.gz)?", re.ASCII)
_OTHER_NAME = "a name that is not followed: files of a directory are named YYYYMMDD or YYYYMMDD.gz"


@dataclass(frozen=True, slots=True)
class ImportReport:
    """``figures`` of the files, ``taken_in`` of their new part, and the number of runs added."""

    figures: ImportFigures
    taken_in: LoadReport
    new_runs: int


def import_files(
    engine: Engine,
    files: Sequence[Path],
    cluster: str,
    clock: Callable[[], float],
    log_format: AccountingFormat | None = None,
    progress: BytesRead | None = None,
    given: Given = NOTHING,
) -> ImportReport:
    """Import ``files``, plain or gzip, in the order given. Files read before change nothing.

    ``given``: values that files of workflow engines lack.
    """
    figures = ImportFigures()
    # The report lists unreadable files, so they are not logged.
    reader = LogReader(engine, cluster, clock, log_format, progress=progress, seldom=Seldom(0.0, 0), given=given)
    before = _runs(engine, cluster)
    for file in files:
        reader.read(file, final=True, figures=figures)
    return ImportReport(figures, reader.report, _runs(engine, cluster) - before)


def follow_once(
    engine: Engine,
    source: AccountingSource,
    clock: Callable[[], float],
    stop: threading.Event | None = None,
    clock_offset: ClockOffset | None = None,
    skipped: set[Path] | None = None,
    seldom: Seldom | None = None,
    progress: BytesRead | None = None,
) -> LoadReport:
    """Import the new part of the source's files; end early, between two transactions, when ``stop`` is set.

    ``clock_offset``: the scheduler's zone as far as its log has shown it; at first it is this machine's. Unreadable
    files are counted and reported, and the rest is read. Symbolic links out of the directory and files without a day's
    name are skipped; each is counted and reported once, and added to ``skipped``.
    ``seldom`` prevents the same log line about a file in each round.
    """
    offset = clock_offset or ClockOffset()
    reader = LogReader(engine, source.cluster, clock, source.format, offset, stop, progress, seldom=seldom)
    try:
        files = _files_of(reader, source, set() if skipped is None else skipped)
    except UnreadableError as error:
        reader.unreadable(str(source.place), str(error))
        return reader.report
    for file, final in files:
        if stop is not None and stop.is_set():
            break
        reader.read(file, final=final)
    return reader.report


def _files_of(reader: LogReader, source: AccountingSource, skipped: set[Path]) -> list[tuple[Path, bool]]:
    """Return the source's files, oldest first, and whether each is final: it no longer grows.

    Raises:
        UnreadableError: the directory cannot be listed.
    """
    if source.directory is not None:
        files = _inside(reader, _day_files(reader, source.directory, skipped), source.directory, skipped)
        return [(file, file.name[:8] < files[-1].name[:8]) for file in files]
    files = _inside(reader, [*_rotated(source.place), source.place], source.place.parent, skipped)
    return [(file, file != source.place) for file in files]


def _rotated(file: Path) -> list[Path]:
    """Return the rotated files of ``file``: ``accounting.1``, ``accounting-20261120.gz``, oldest first.

    Raises:
        UnreadableError: the directory cannot be listed.
    """
    named = re.compile(re.escape(file.name) + _ROTATED, re.ASCII)
    found = _entries(file.parent, lambda entry: named.fullmatch(entry.name) and entry.stat(follow_symlinks=False))
    times = [(stat.st_mtime_ns, file.parent / name) for name, stat in found.items() if isinstance(stat, os.stat_result)]
    return [path for _, path in sorted(times)]


def _entries(directory: Path, about: Callable[[os.DirEntry[str]], _About]) -> dict[str, _About]:
    """Return what ``about`` finds of each entry, by its name."""
    try:
        with os.scandir(directory) as entries:
            return {entry.name: about(entry) for entry in entries}
    except OSError as error:
        raise UnreadableError(f"directory: {error.strerror}") from error


def _inside(reader: LogReader, files: Iterable[Path], directory: Path, skipped: set[Path]) -> list[Path]:
    """Return those of ``files`` that do not lead out of the directory by a symbolic link.

    The server may read files that the writer of the log may not: such a link would expose their lines.
    """
    found = []
    for file in files:
        try:
            leaves = file.is_symlink() and not file.resolve().is_relative_to(directory.resolve())
        except (OSError, RuntimeError):
            reader.unreadable(str(file), "file: symbolic links form a loop")
            continue
        if not leaves:
            found.append(file)
        elif file not in skipped:
            skipped.add(file)
            reader.unreadable(str(file), "a symbolic link out of the directory: not followed")
    return found


def _day_files(reader: LogReader, directory: Path, skipped: set[Path]) -> list[Path]:
    """Return the accounting files ``YYYYMMDD`` and ``YYYYMMDD.gz``, oldest first; report files with other names.

    Directories and hidden files are passed over.

    Raises:
        UnreadableError: the directory cannot be listed.
    """
    found = _entries(directory, lambda entry: entry.is_dir(follow_symlinks=False))
    named = [name for name in sorted(found) if _DAY.fullmatch(name)]
    others = [name for name in sorted(found.keys() - set(named)) if not (found[name] or name.startswith("."))]
    if new := [directory / name for name in others if directory / name not in skipped]:
        linked = {os.path.realpath(directory / name) for name in named}
        skipped.update(new)
        for path in new:
            if os.path.realpath(path) not in linked:  # otherwise it is read under a day's name
                reader.unreadable(str(path), _OTHER_NAME)
    return [directory / name for name in named]


def _runs(engine: Engine, cluster: str) -> int:
    with engine.connect().execution_options(reading=True) as connection:
        count = connection.scalar(select(func.count()).select_from(jobs).where(jobs.c.cluster == cluster))
    return count or 0
