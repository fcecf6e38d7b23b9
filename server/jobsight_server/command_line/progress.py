"""Shows how far the runs of a command have come."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Task = TypeVar("Task")
Runs = Generator[tuple[Task, dict[str, Any]]]


def watched(name: str, runs: Runs[Task], total: int, done: int = 0) -> Runs[Task]:
    """``runs`` as they finish, with a bar on standard error; ``done`` were finished before."""
    if done == total:
        return
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with closing(runs), Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=total, completed=done)
        for task, figures in runs:
            yield task, figures
            progress.advance(bar)
