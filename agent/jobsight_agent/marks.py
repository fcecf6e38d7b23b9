"""The files that job hooks leave if no agent answers, as the agent finds them at each interval."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

from jobsight_agent.hooks import collect, forget_unfinished, set_aside
from jobsight_agent.log import Log
from jobsight_agent.reading import Reading


class MarkFiles:
    """Finds each file once, also one that cannot be removed."""

    def __init__(self, directory: Path, damaged: Path, log: Log) -> None:
        """``damaged``: the folder for files that are not readings."""
        self._directory, self._damaged, self._log = directory, damaged, log
        self._stuck: set[str] = set()
        self._seen = (0.0, 0.0)  # the directory's time, and when that was

    def left(self) -> tuple[list[tuple[Path, Reading]], list[Path]]:
        """The readings left since, in the order of their times, and the files that are not readings."""
        return collect(self._directory, self._stuck) if self._changed() else ([], [])

    def remove(self, file: Path) -> None:
        """A file that cannot be removed must not be read again at every interval."""
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            self._stuck.add(file.name)
            self._log.say(f"cannot remove {file}: {error}; the agent must own it")

    def set_aside(self, file: Path) -> None:
        """Moves a file that is not a reading to where an operator can inspect it."""
        if not set_aside(file, self._damaged):
            self._stuck.add(file.name)

    def forget(self, noted: Collection[Reading]) -> None:
        """A killed agent may have recorded marks without having had the time to remove their files."""
        known = set(noted)
        for file, reading in collect(self._directory, self._stuck)[0]:
            if reading in known:
                self.remove(file)

    def forget_unfinished(self) -> None:
        """Removes half-written files of hooks that were killed."""
        forget_unfinished(self._directory)

    def _changed(self) -> bool:
        """Whether to list the directory, which costs half a reading: not if its time is unchanged and was well past
        at the last look; file times are coarse."""
        try:
            changed = self._directory.stat().st_mtime
        except OSError:
            return False
        before, self._seen = self._seen, (changed, time.time())
        return changed != before[0] or changed > before[1] - 1.0
