"""Simulations for the command line: with progress, saved regularly, stopped between two events."""

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

from jobsight_scheduler.policies import ChosenPolicy, PolicyError, QueueTooLongError
from jobsight_scheduler.simulator.checkpoint import CheckpointError, resume, save
from jobsight_scheduler.simulator.run import Steps, Watch
from jobsight_scheduler.simulator.run import run as run_simulation
from jobsight_scheduler.table import JobTable, table_of
from jobsight_server.errors import UserError
from jobsight_server.systems.simulations.machine_workload import MachineWorkload
from jobsight_server.systems.simulations.one_policy import simulation_of

SAVED_EVERY_S = 30.0


def simulate(given: MachineWorkload, policy: ChosenPolicy, state: Path | None) -> tuple[JobTable, float] | None:
    """The schedule and the CPU seconds used; None if interrupted."""
    began = time.process_time()
    try:
        simulation = simulation_of(given, policy)
        spent = time.process_time() - began
        if state is not None and not simulation.policy.keeps_state:
            raise UserError(f"--state {state}: {policy.name} has no state() and restore(); add them, or leave it out")
        took = carry_out("simulate", simulation, policy.name, state, dict(policy.settings))
    except QueueTooLongError as error:
        raise UserError(f"{given.name}: {error}") from error
    except PolicyError as error:
        said = str(error)
        raise UserError(f"--policy {said if said.startswith(policy.name) else f'{policy.name}: {said}'}") from error
    return None if took is None else (table_of(given.workload, simulation.start_s, given.trace["user"]), spent + took)


def carry_out(
    command: str,
    simulation: Steps,
    name: str,
    state: Path | None,
    settings: dict[str, Any],
) -> float | None:
    """Runs ``simulation``, from ``state`` if that exists; the CPU seconds used, None if interrupted."""
    if state is not None and state.exists():
        try:
            resume(simulation, state, settings)
        except (CheckpointError, OSError) as error:
            raise UserError(f"--state {state}: {error}") from error
        print(f"jobsight {command}: resumed at {simulation.now:,.0f} s, {simulation.ended:,} ended", file=sys.stderr)
    with _watching(simulation, name, state, settings) as watch:
        spent = run_simulation(simulation, watch)
    if not simulation.done:
        kept = "" if state is None else f"; the same command resumes from {state}"
        print(
            f"jobsight {command}: interrupted at {simulation.now:,.0f} s, {simulation.ended:,} of "
            f"{len(simulation.workload):,} jobs had ended{kept}",
            file=sys.stderr,
        )
        return None
    if state is not None:
        state.unlink(missing_ok=True)
    return spent


@contextmanager
def _watching(simulation: Steps, name: str, state: Path | None, settings: dict[str, Any]) -> Iterator[Watch]:
    """A watch that shows progress, saves regularly, and stops between two events when interrupted."""
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
