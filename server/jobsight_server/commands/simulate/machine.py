"""Simulation of a scheduling policy on one machine."""

from __future__ import annotations

import argparse
import time
from typing import Any

from jobsight_scheduler.figures import schedule_figures
from jobsight_scheduler.policies.base import QueueTooLongError
from jobsight_scheduler.policies.chosen import ChosenPolicy, choose_policy
from jobsight_scheduler.simulator.event_loop import Simulation
from jobsight_scheduler.table import JobTable, table_of
from jobsight_scheduler.workload.canonical import questions_of
from jobsight_server.commands.simulate.report import carry_out, check_outputs, draw_to, give_out, of_groups
from jobsight_server.commands.simulate.workload import MachineWorkload, counted, read_workload
from jobsight_server.ground.errors import UserError
from jobsight_server.replay.compared import summary
from jobsight_server.replay.counted import BEFORE, HELD


def run(args: argparse.Namespace) -> int:
    check_outputs(args)
    try:
        chosen = choose_policy(args.policy, args.predictor)
    except ValueError as error:
        raise UserError(f"--policy {error}") from error
    given = read_workload(args, args.processors)
    table, spent = _simulated(given, chosen)
    counts = given.counts
    account: dict[str, Any] = {
        "trace": given.name,
        "policy": chosen.name,
        "predictor": chosen.predictor,
        "processors": given.capacity,
        **counted(given.trace, given.workload),
        **schedule_figures(table, given.capacity, counts),
        **of_groups(table, spent, counts),
    }
    ended = given.trace.ended[given.workload.row]
    assumed = {HELD: int((~ended).sum()), BEFORE: int((ended & ~counts).sum())}
    account["assumed"] = {reason: count for reason, count in assumed.items() if count}
    if given.machines:
        account["machines"] = [summary(machine) for machine in given.machines]
    draw_to(args, table, given.capacity, f"{given.name}: {args.policy} on {given.capacity} processors")
    give_out(args, account, table)
    return 0


def _simulated(given: MachineWorkload, policy: ChosenPolicy) -> tuple[JobTable, float]:
    """Return the schedule and the CPU seconds used."""
    began = time.process_time()
    try:
        questions = questions_of(given.trace, given.workload.row) if policy.predictor is not None else ()
        simulation = Simulation(given.workload, given.capacity, policy.make, questions)
        spent = time.process_time() - began + carry_out(simulation, policy.name, len(given.workload))
    except QueueTooLongError as error:
        raise UserError(f"{given.name}: {error}") from error
    return table_of(given.workload, simulation.start_s, given.trace.users), spent
