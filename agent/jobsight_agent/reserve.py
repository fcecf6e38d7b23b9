"""Reserved disk space, so that what is in memory can be written when the disk is full."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class Reserve:
    """A file of ``size`` bytes; deleting it frees as much."""

    def __init__(self, file: Path, size: int) -> None:
        self._file, self._size = file, size
        self._held = False
        self.take()

    def take(self) -> None:
        """Reserves the space again if there is any; does nothing if it is reserved already."""
        if self._held:
            return
        try:
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError:
            return
        try:
            os.posix_fallocate(descriptor, 0, self._size)
            self._held = True
        except OSError:
            with contextlib.suppress(OSError):
                self._file.unlink()
        finally:
            os.close(descriptor)

    def spend(self) -> bool:
        """Frees the space; returns whether there was any."""
        if not self._held:
            return False
        self._held = False
        try:
            self._file.unlink()
        except OSError:
            return False
        return True
