"""Output of commands. Names of jobs, users and files come from outside, and must not command a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from jobsight_server.accounting.text import escaped_lines


class _Escaping:
    """A text stream that escapes what is written to it; consoles write to the stream itself."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(escaped_lines(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def escaping_output() -> Iterator[None]:
    """Escape names in everything that is printed within the block."""
    out, err = (cast(TextIO, _Escaping(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield
