"""Readings at the start and end of a job, requested by its prologue and epilogue.

The hook is a separate process that must be quick and never fail a job. It asks the running agent, which takes the
reading at once. If no agent answers, it takes the reading itself and leaves it as a file, which the agent collects at
its next interval, or when it runs again.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Collection
from pathlib import Path

from jobsight_agent.log import Log
from jobsight_agent.reading import LONGEST_JOB, Mark, Reading, from_record, to_record

_MOST_BYTES = 512 * 1024
_UNFINISHED_S = 60.0
_LATEST_S = 10.0


def leave(marks: Path, reading: Reading, most_files: int = 10_000) -> Path:
    """Write a marked reading to ``marks``, atomically and without following links.

    Raises:
        OSError: the directory cannot be written, or holds too many files because no agent takes them.
    """
    name = f"{reading.time:.6f}-{os.getpid()}"
    marks.mkdir(mode=0o750, exist_ok=True)
    directory = os.open(marks, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if len(os.listdir(directory)) >= most_files:  # noqa: PTH208 - of the directory that is held open
            raise OSError(f"{marks} holds {most_files} files that no agent has collected; is it running?")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(f".{name}", flags, 0o600, dir_fd=directory), "w", encoding="utf-8") as file:
            json.dump(to_record(reading), file)
        os.rename(f".{name}", f"{name}.json", src_dir_fd=directory, dst_dir_fd=directory)
    finally:
        os.close(directory)
    return marks / f"{name}.json"


def checked_mark(job: str, event: str) -> Mark:
    """Make the mark of a job.

    Raises:
        ValueError: not a job id of any scheduler.
    """
    if not 0 < len(job) <= LONGEST_JOB or not job.isprintable():
        raise ValueError(f"job id {job[:80]!r}: give 1 to {LONGEST_JOB} printable characters")
    return Mark(job, event)


def mark_request(mark: Mark) -> str:
    """Make the request for a reading with this mark. All processes of a node share its clock."""
    return f"{mark.event} {time.monotonic():.3f} {mark.job}"


def checked_request(event: str, request: str) -> Mark:
    """Read the mark from the rest of a ``mark_request``.

    Raises:
        ValueError: it is malformed, names no job, or is too old for a reading of that moment.
    """
    asked, _, job = request.partition(" ")
    mark = checked_mark(job, event)
    late_s = time.monotonic() - float(asked)
    if not late_s <= _LATEST_S:
        raise ValueError(f"requested {late_s:.0f} s ago; a reading taken now would not show the {event} of the job")
    return mark


def collect(marks: Path, ignore: Collection[str] = ()) -> tuple[list[tuple[Path, Reading]], list[Path]]:
    """Collect the readings that hooks left, in order of time, and the files that are not readings.

    Files in ``ignore`` were collected already and could not be removed.
    """
    found: list[tuple[Path, Reading]] = []
    damaged: list[Path] = []
    try:
        # At every interval: listing names costs a fifth of making paths.
        names = [n for n in os.listdir(marks) if n.endswith(".json") and n[0] != "." and n not in ignore]  # noqa: PTH208
    except OSError:
        return [], []
    for name in names:
        file = marks / name
        try:
            with file.open("rb") as stream:
                found.append((file, from_record(json.loads(stream.read(_MOST_BYTES)))))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError):
            damaged.append(file)
    found.sort(key=lambda pair: pair[1].time)
    return found, damaged


class MarkFiles:
    """Finds each file once, even if it cannot be removed."""

    def __init__(self, directory: Path, damaged: Path, log: Log) -> None:
        """``damaged``: the folder for files that are not readings."""
        self._directory, self._damaged, self._log = directory, damaged, log
        self._stuck: set[str] = set()
        self._seen = (0.0, 0.0)  # the directory's time, and when it was read

    def left(self) -> tuple[list[tuple[Path, Reading]], list[Path]]:
        """Return the readings left since, in order of time, and the files that are not readings."""
        return collect(self._directory, self._stuck) if self._changed() else ([], [])

    def remove(self, file: Path) -> None:
        """Remove a file, or ignore it from now on."""
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            self._stuck.add(file.name)
            self._log.say(f"cannot remove {file}: {error}; the agent must own it")

    def set_aside(self, file: Path) -> None:
        """Move a file that is not a reading to a folder for the operator."""
        try:
            self._damaged.mkdir(exist_ok=True)
            file.replace(self._damaged / file.name)
        except OSError:
            self._stuck.add(file.name)

    def forget(self, noted: Collection[Reading]) -> None:
        """Remove the files of recorded marks that a killed agent left."""
        known = set(noted)
        for file, reading in collect(self._directory, self._stuck)[0]:
            if reading in known:
                self.remove(file)

    def forget_unfinished(self) -> None:
        """Remove half-written files of hooks that were killed."""
        with contextlib.suppress(OSError):
            for file in self._directory.glob(".[0-9]*"):
                if time.time() - file.stat().st_mtime > _UNFINISHED_S:
                    file.unlink()

    def _changed(self) -> bool:
        """Return whether to list the directory, which costs half a reading: not if its time is unchanged and was well
        past at the last look; file times are coarse."""
        try:
            changed = self._directory.stat().st_mtime
        except OSError:
            return False
        before, self._seen = self._seen, (changed, time.time())
        return changed != before[0] or changed > before[1] - 1.0
