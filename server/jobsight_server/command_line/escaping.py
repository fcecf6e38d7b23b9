"""Output of commands. Names of jobs, users and files come from outside, and must not command a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TextIO, cast

from jobsight_server.accounting.text import escaped_lines


class OutputError(Exception):
    """A stream of the command takes no more output, for this ``cause``."""

    def __init__(self, stream: TextIO, cause: OSError) -> None:
        super().__init__(stream, cause)
        self.stream, self.cause = stream, cause


class _Output:
    """A text stream whose own failures are not mistaken for those of other files."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            raise OutputError(self._stream, error) from error

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise OutputError(self._stream, error) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Escaping(_Output):
    """A stream that escapes what is written to it; consoles write to ``rich_proxied_file``."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.rich_proxied_file = _Output(stream)

    def write(self, text: str) -> int:
        super().write(escaped_lines(text))
        return len(text)


@contextmanager
def escaping_output() -> Iterator[None]:
    """Escape names in everything that is printed within the block, which raises ``OutputError`` where that fails."""
    with Path(os.devnull).open("w") as nowhere:  # for closed streams, which are None
        out, err = (cast(TextIO, _Escaping(stream or nowhere)) for stream in (sys.stdout, sys.stderr))
        with redirect_stdout(out), redirect_stderr(err):
            yield
