"""Follows a directory of accounting files, one a day, across rotation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import tzinfo
from pathlib import Path

from sqlalchemy import Engine

from jobsight_server.accounting.clock_offset import ClockOffset
from jobsight_server.accounting.files import UnreadableError, day_files, leads_out
from jobsight_server.accounting.load import LoadReport
from jobsight_server.accounting.log_reader import LogReader
from jobsight_server.seldom import Seldom
from jobsight_server.settings import AccountingSource


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
    for file in day_files(directory):
        try:
            leaves = leads_out(file, directory)
        except UnreadableError as error:
            reader.unreadable(str(file), str(error))
            continue
        if not leaves:
            found.append(file)
        elif file not in links_seen:
            links_seen.add(file)
            reader.unreadable(str(file), "a symbolic link out of the directory: not followed")
    return found
