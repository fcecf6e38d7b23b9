"""Output of commands. Names of jobs, users and files come from outside, and must not command a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
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


def with_output(program: str, run: Callable[[], int]) -> int:
    """Run a command whose output is escaped; return its status, 1 if its output fails, 141 if its reader has gone."""
    try:
        with _escaping_output():
            try:
                return run()
            finally:
                sys.stdout.flush()
    except OutputError as error:
        # The buffered rest has nowhere to go; the interpreter would complain about it while shutting down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), error.stream.fileno())
        if isinstance(error.cause, BrokenPipeError):
            return 141  # as shells report a program ended by SIGPIPE
        print(f"{program}: standard output cannot be written: {error.cause.strerror}", file=sys.stderr)
        return 1


@contextmanager
def _escaping_output() -> Iterator[None]:
    """Escape names in everything that is printed within the block, which raises ``OutputError`` where that fails."""
    with Path(os.devnull).open("w") as nowhere:  # for closed streams, which are None
        out, err = (cast(TextIO, _Escaping(stream or nowhere)) for stream in (sys.stdout, sys.stderr))
        with redirect_stdout(out), redirect_stderr(err):
            yield
