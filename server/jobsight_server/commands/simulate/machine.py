"""Simulation of a scheduling policy on one machine."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from jobsight_scheduler.figures import by_size, by_user, differences, schedule_figures
from jobsight_scheduler.policies import (
    ChosenPolicy,
    PolicyError,
    PriorityWeights,
    QueueTooLongError,
    choose_policy,
    priority_weights,
)
from jobsight_scheduler.policies.multifactor import Multifactor
from jobsight_scheduler.simulator.event_loop import Simulation
from jobsight_scheduler.table import JobTable, ScheduleError, read_schedule, table_of
from jobsight_scheduler.validator import BrokenRule, validate
from jobsight_scheduler.workload.canonical import questions_of
from jobsight_server.commands.simulate.outputs import carry_out, check_outputs, write_jobs
from jobsight_server.commands.simulate.own_policies import own_policy
from jobsight_server.commands.simulate.report import show, show_findings
from jobsight_server.commands.simulate.workload import MachineWorkload, counted, read_workload
from jobsight_server.storage.errors import UserError


def run(args: argparse.Namespace) -> int:
    check_outputs(args)
    rivals = {policy: _rival(policy, args) for policy in args.against}
    elsewhere = args.policy != Multifactor.name and any(rival.weights for rival in rivals.values())
    chosen = _choose(args.policy, args.predictor, None if elsewhere else _weights(args.priority))
    if args.ask_again:
        try:
            chosen = chosen.asking_again()
        except ValueError as error:
            raise UserError(f"--ask-again: {error}") from error
    given = read_workload(args, args.processors)
    if args.check is not None:
        table = _read_schedule(args.check, given)
        spent = None
    else:
        table, spent = _simulated(given, chosen)
    account = _account(given, chosen, table, spent)
    findings = _validate(args, chosen, table, given.capacity, account)
    write_jobs(args, table)
    others = {policy: _simulated(given, rival)[0] for policy, rival in rivals.items()}
    if others:
        account["against"] = {
            policy: schedule_figures(other, given.capacity) | differences(table, other)
            for policy, other in others.items()
        }
    if args.plot is not None:
        from jobsight_server.commands.simulate.plot import draw_simulation

        title = f"{given.name}: {args.policy} on {given.capacity} processors"
        draw_simulation(table, given.capacity, title, args.plot)
        print(f"jobsight simulate: plots written to {args.plot}", file=sys.stderr)
    if args.json:
        print(json.dumps(account, indent=2))
    else:
        show(account, Console())
    show_findings(findings)
    return 1 if findings else 0


def _simulated(given: MachineWorkload, policy: ChosenPolicy) -> tuple[JobTable, float]:
    """Return the schedule and the CPU seconds used."""
    began = time.process_time()
    try:
        questions = questions_of(given.trace, given.workload.row) if policy.asks else ()
        simulation = Simulation(given.workload, given.capacity, policy.make, questions)
        spent = time.process_time() - began + carry_out(simulation, policy.name, len(given.workload))
    except QueueTooLongError as error:
        raise UserError(f"{given.name}: {error}") from error
    except PolicyError as error:
        why = str(error)
        raise UserError(f"--policy {why if why.startswith(policy.name) else f'{policy.name}: {why}'}") from error
    return table_of(given.workload, simulation.start_s, given.trace["user"]), spent


def _account(given: MachineWorkload, policy: ChosenPolicy, table: JobTable, spent_s: float | None) -> dict[str, Any]:
    """Return all figures, also by user and by size; ``spent_s`` is the CPU time of the simulation, if any."""
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


def _weights(given: list[str] | None) -> PriorityWeights | None:
    if given is None:
        return None
    named: dict[str, float] = {}
    for text in given:
        name, equals, number = text.partition("=")
        try:
            if not equals or name in named:
                raise ValueError("give each weight once, such as age=1000")
            named[name] = float(number)
        except ValueError as error:
            raise UserError(f"--priority {text[:60]!r}: {error}") from error
    try:
        return priority_weights(named)
    except ValueError as error:
        raise UserError(f"--priority: {error}") from error


def _choose(policy: str, predictor: str | None, weights: PriorityWeights | None = None) -> ChosenPolicy:
    own = own_policy(policy)
    try:
        return choose_policy(policy, predictor, own, weights)
    except ValueError as error:
        raise UserError(f"{f'--predictor {predictor}' if predictor else '--priority'}: {error}") from error


def _rival(policy: str, args: argparse.Namespace) -> ChosenPolicy:
    """Return a policy of ``--against``, with the given predictor and weights if it takes them."""
    plain = _choose(policy, None)
    predictor = args.predictor if plain.entry.takes_predictor else None
    return _choose(policy, predictor, _weights(args.priority) if plain.weights else None)


def _validate(
    args: argparse.Namespace, policy: ChosenPolicy, table: JobTable, capacity: int, account: dict[str, Any]
) -> list[BrokenRule]:
    if not args.validate and args.check is None:
        return []
    findings = validate(table, capacity, policy.rules)
    account["broken_rules"] = len(findings)
    return findings


def _read_schedule(file: Path, given: MachineWorkload) -> JobTable:
    try:
        return read_schedule(file, given.workload, given.trace["user"])
    except ScheduleError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"--check {file}: cannot be read: {error.strerror or error}") from error
