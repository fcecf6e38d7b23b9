"""Simulations for the command line: with progress, saved on the way, stopped between two events."""

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

from jobsight_scheduler.policies import policy_maker
from jobsight_scheduler.policies.base import QueueTooLongError
from jobsight_scheduler.simulator.checkpoint import CheckpointError, resume, save
from jobsight_scheduler.simulator.engine import Simulation
from jobsight_scheduler.simulator.run import Steps, Watch
from jobsight_scheduler.simulator.run import run as run_simulation
from jobsight_scheduler.table import JobTable, table_of
from jobsight_scheduler.workload.questions import questions_of
from jobsight_server.commands.workload import Given
from jobsight_server.errors import UserError

SAVED_EVERY_S = 30.0
TOLD_EVERY_S = 0.5


def simulate(
    given: Given, policy: str, predictor: str | None, state: Path | None, progress: Path | None = None
) -> tuple[JobTable, float] | None:
    """The schedule and the CPU seconds that it took; None when interrupted.

    ``progress`` is a file that holds the share of the jobs that have ended, written anew twice a second.
    """
    try:
        make = policy_maker(policy, predictor)
    except ValueError as error:
        raise UserError(f"--predictor {predictor}: {error}") from error
    asks = predictor is not None or policy == "easy++"
    questions = questions_of(given.trace, given.workload.row) if asks else ()
    began = time.process_time()
    simulation = Simulation(given.workload, given.capacity, make, questions)
    spent = time.process_time() - began
    try:
        took = carry_out(simulation, policy, state, {"policy": policy, "predictor": predictor}, progress)
    except QueueTooLongError as error:
        raise UserError(f"{given.name}: {error}") from error
    return None if took is None else (table_of(given.workload, simulation.start_s, given.trace["user"]), spent + took)


def carry_out(
    simulation: Steps, name: str, state: Path | None, settings: dict[str, Any], progress: Path | None = None
) -> float | None:
    """Runs ``simulation``, from ``state`` if that is there; the CPU seconds that it took, None when interrupted."""
    if state is not None and state.exists():
        try:
            resume(simulation, state, settings)
        except (CheckpointError, OSError) as error:
            raise UserError(f"--state {state}: {error}") from error
        print(f"jobsight simulate: goes on at {simulation.now:,.0f} s, {simulation.ended:,} ended", file=sys.stderr)
    with _watching(simulation, name, state, progress, settings) as watch:
        spent = run_simulation(simulation, watch)
    if not simulation.done:
        kept = "" if state is None else f"; the same command goes on from {state}"
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
def _watching(
    simulation: Steps, name: str, state: Path | None, told: Path | None, settings: dict[str, Any]
) -> Iterator[Watch]:
    """A watch that shows and tells progress, saves now and then, and stops between two events when interrupted."""
    interrupted = False
    saved = told_at = time.monotonic()

    def interrupt(_signal: int, _frame: object) -> None:
        nonlocal interrupted
        interrupted = True

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(name, total=len(simulation.workload))

            def watch(now: Steps) -> bool:
                nonlocal saved, told_at
                progress.update(task, completed=now.ended)
                if told is not None and time.monotonic() - told_at > TOLD_EVERY_S:
                    told.write_text(f"{now.ended / len(now.workload):.4f}")
                    told_at = time.monotonic()
                if state is not None and (interrupted or time.monotonic() - saved > SAVED_EVERY_S):
                    save(now, state, settings)
                    saved = time.monotonic()
                return interrupted

            yield watch
    finally:
        signal.signal(signal.SIGINT, before)
