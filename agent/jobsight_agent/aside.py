"""Batches that the server rejected, set aside: perhaps the server was wrong, or its clock.

SPOOL/refused/SEQUENCE.gz     the batch as it was sent
SPOOL/refused/SEQUENCE.txt    why it was rejected
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class Aside:
    """At most ``max_bytes`` of batches; the oldest are deleted for newer ones."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self.directory = directory
        self._max_bytes = max_bytes
        self._sizes = {int(file.stem): file.stat().st_size for file in _batches(directory)}

    def __len__(self) -> int:
        return len(self._sizes)

    def keep(self, number: int, file: Path, reason: str) -> int:
        """Moves the batch in ``file`` here and returns how many were deleted for it.

        Raises:
            OSError: it cannot be moved.
        """
        self.directory.mkdir(mode=0o750, exist_ok=True)
        size = file.stat().st_size
        file.replace(self.directory / f"{number}.gz")
        self._sizes[number] = size
        with contextlib.suppress(OSError):  # on a full disk the batch matters, not the reason
            (self.directory / f"{number}.txt").write_text(reason + "\n")
        excess = 0
        while sum(self._sizes.values()) > self._max_bytes and len(self._sizes) > 1:
            oldest = min(self._sizes)
            (self.directory / f"{oldest}.gz").unlink(missing_ok=True)
            self._forget(oldest)
            excess += 1
        return excess

    def give_back(self, folder: Path) -> dict[int, int]:
        """Moves all batches that can be moved to ``folder``, as if closed now: their numbers and sizes."""
        given: dict[int, int] = {}
        for number, size in sorted(self._sizes.items()):
            file = self.directory / f"{number}.gz"
            try:
                os.utime(file)
                file.replace(folder / file.name)
            except FileNotFoundError:  # removed by hand
                self._forget(number)
                continue
            except OSError:
                continue
            self._forget(number)
            given[number] = size
        return given

    def _forget(self, number: int) -> None:
        (self.directory / f"{number}.txt").unlink(missing_ok=True)
        del self._sizes[number]


def _batches(directory: Path) -> list[Path]:
    try:
        return [file for file in directory.iterdir() if file.suffix == ".gz" and file.stem.isdecimal()]
    except OSError:
        return []
