"""Running a simulation: with progress, saved regularly, stopped between two events."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from jobsight_scheduler.simulator.run import CheckpointError, Steps, Watch, resume, save
from jobsight_scheduler.simulator.run import run as run_simulation
from jobsight_server.storage.errors import UserError

SAVED_EVERY_S = 30.0


def carry_out(simulation: Steps, name: str, state: Path | None, settings: dict[str, Any]) -> float | None:
    """Run ``simulation``, from ``state`` if that exists; return the CPU seconds used, None if interrupted."""
    if state is not None and state.exists():
        try:
            resume(simulation, state, settings)
        except (CheckpointError, OSError) as error:
            raise UserError(f"--state {state}: {error}") from error
        print(f"jobsight simulate: resumed at {simulation.now:,.0f} s, {simulation.ended:,} ended", file=sys.stderr)
    with _watching(simulation, name, state, settings) as watch:
        spent = run_simulation(simulation, watch)
    if not simulation.done:
        kept = "" if state is None else f"; the same command resumes from {state}"
        print(
            f"jobsight simulate: interrupted at {simulation.now:,.0f} s, {simulation.ended:,} of "
            f"{len(simulation.workload):,} jobs had ended{kept}",
            file=sys.stderr,
        )
        return None
    if state is not None:
        state.unlink(missing_ok=True)
    return spent


@contextmanager
def _watching(simulation: Steps, name: str, state: Path | None, settings: dict[str, Any]) -> Iterator[Watch]:
    """Yield a watch that shows progress, saves regularly, and stops between two events when interrupted."""
    interrupted = False
    saved = time.monotonic()

    def interrupt(_signal: int, _frame: object) -> None:
        nonlocal interrupted
        interrupted = True

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(name, total=len(simulation.workload))

            def watch(now: Steps) -> bool:
                nonlocal saved
                progress.update(task, completed=now.ended)
                if state is not None and (interrupted or time.monotonic() - saved > SAVED_EVERY_S):
                    save(now, state, settings)
                    saved = time.monotonic()
                return interrupted

            yield watch
    finally:
        signal.signal(signal.SIGINT, before)
