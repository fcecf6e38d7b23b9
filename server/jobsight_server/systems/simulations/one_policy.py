"""One policy on one workload: its simulation, and the figures of its schedule."""

from __future__ import annotations

from typing import Any

from jobsight_scheduler.figures import by_size, by_user, schedule_figures
from jobsight_scheduler.policies import ChosenPolicy
from jobsight_scheduler.simulator.event_loop import Simulation
from jobsight_scheduler.table import JobTable
from jobsight_scheduler.workload.questions import questions_of
from jobsight_server.systems.simulations.machine_workload import MachineWorkload, counted


def simulation_of(given: MachineWorkload, policy: ChosenPolicy) -> Simulation:
    """The simulation, before its first event."""
    questions = questions_of(given.trace, given.workload.row) if policy.asks else ()
    return Simulation(given.workload, given.capacity, policy.make, questions)


def account_of(given: MachineWorkload, policy: ChosenPolicy, table: JobTable, spent_s: float | None) -> dict[str, Any]:
    """All figures, also by user and by size; ``spent_s`` is the CPU time of the simulation, if there was one."""
    account: dict[str, Any] = {
        "trace": given.name,
        **policy.settings,
        "processors": given.capacity,
        **counted(given.trace, given.workload),
        **schedule_figures(table, given.capacity),
    }
    if spent_s is not None:
        account |= {"cpu_s": spent_s, "jobs_per_cpu_s": len(table) / spent_s if spent_s else None}
    return account | {"by_size": by_size(table), "by_user": by_user(table)}
