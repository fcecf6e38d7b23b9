"""A file of finished runs, one JSON object per line, that only grows: runs in it are not repeated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobsight_server.errors import UserError

RunKey = tuple[Any, ...]


class FinishedRuns:
    """Figures of runs by key, in ``file``. ``broken`` counts invalid lines, as after a power cut."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.figures: dict[RunKey, dict[str, Any]] = {}
        self.broken = 0
        self._whole = True
        if file.exists():
            self._read()

    def add(self, key: RunKey, figures: Mapping[str, Any]) -> None:
        """Appends the run to the file and to ``figures``."""
        self.figures[key] = dict(figures)
        line = json.dumps({"key": key, "figures": figures})
        with self.file.open("a") as stream:
            stream.write(f"{line}\n" if self._whole else f"\n{line}\n")
        self._whole = True

    def _read(self) -> None:
        try:
            text = self.file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"--out {self.file}: cannot be read ({error}); name another file") from error
        self._whole = not text or text.endswith("\n")
        for line in text.splitlines():
            try:
                run = json.loads(line)
                self.figures[tuple(run["key"])] = dict(run["figures"])
            except (ValueError, KeyError, TypeError):
                self.broken += 1
        if self.broken and not self.figures:
            raise UserError(f"--out {self.file}: none of its {self.broken} lines is a run; name another file")
