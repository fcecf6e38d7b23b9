"""A simulation in a separate process, which ends with the background role and yields the CPU to the server.

    python -m jobsight_server.systems.simulations.worker MEMORY_BYTES SECONDS TRACE PARAMETERS FOLDER

It takes at most this much address space and CPU time. PARAMETERS are ``SimulationParameters`` as JSON. It prints JSON
lines: ``progress``, the share of the jobs that have ended, and finally ``figures``, when the table of jobs and the
plots are in FOLDER, or else ``error``, a message, or ``out_of_memory``. There are no figures by user: for a trace with
as many users as jobs they would be too large for the reader.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # imported once the limits are in force
    from jobsight_scheduler.simulator.run import Steps

REPORTED_EVERY_S = 0.5


def main() -> int:
    """Returns 0 if the figures were printed, 1 if an error was."""
    memory_bytes, seconds, trace, parameters, folder = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (int(memory_bytes), int(memory_bytes)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from the server's terminal; the server ends this process itself
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # on a large machine, each thread would take part of the memory
    try:
        from jobsight_server.exit_with_parent import exit_with_parent

        exit_with_parent()
        os.nice(10)
        return _simulate(Path(trace), json.loads(parameters), Path(folder))
    except MemoryError:
        _report(out_of_memory=True)
    except OSError as error:
        if error.errno == errno.ENOMEM:
            _report(out_of_memory=True)
        else:
            _report(error=str(error))
    return 1


def _simulate(trace: Path, parameters: dict[str, Any], folder: Path) -> int:
    from jobsight_scheduler.policies import QueueTooLongError, choose_policy
    from jobsight_scheduler.simulator.run import run
    from jobsight_scheduler.table import table_of, write_table
    from jobsight_server.errors import UserError
    from jobsight_server.systems.simulations.machine_workload import read_trace
    from jobsight_server.systems.simulations.one_policy import account_of, simulation_of
    from jobsight_server.systems.simulations.parameters import JOBS, SimulationParameters
    from jobsight_server.systems.simulations.plot import draw_simulation

    asked = SimulationParameters(**parameters)
    try:
        policy = choose_policy(asked.policy, asked.predictor)
        policy = policy.asking_again() if asked.ask_again else policy
        given = read_trace(trace, asked.processors, asked.load)
        began = time.process_time()
        simulation = simulation_of(given, policy)
        spent_s = time.process_time() - began + run(simulation, _ProgressReporter())
    except UserError as error:
        _report(error=str(error))
        return 1
    except QueueTooLongError as error:
        _report(error=f"{trace.name}: {error}")
        return 1
    table = table_of(given.workload, simulation.start_s, given.trace["user"])
    write_table(table, folder / JOBS)
    title = f"{given.name}: {policy.name} on {given.capacity} processors"
    draw_simulation(table, given.capacity, title, folder)
    figures = account_of(given, policy, table, spent_s)
    del figures["by_user"]
    _report(figures=figures)
    return 0


class _ProgressReporter:
    """Watches a simulation, reports progress regularly, and never stops it."""

    def __init__(self) -> None:
        self._reported_s = time.monotonic()

    def __call__(self, simulation: Steps) -> bool:
        if time.monotonic() - self._reported_s > REPORTED_EVERY_S:
            _report(progress=round(simulation.ended / len(simulation.workload), 4))
            self._reported_s = time.monotonic()
        return False


def _report(**line: object) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
