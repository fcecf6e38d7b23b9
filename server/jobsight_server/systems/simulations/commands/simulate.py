"""``jobsight simulate``: how a scheduling policy would have handled a recorded workload."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from jobsight_scheduler.comparison import differences
from jobsight_scheduler.figures import schedule_figures
from jobsight_scheduler.policies import POLICIES, ChosenPolicy, PriorityWeights, choose_policy, priority_weights
from jobsight_scheduler.policies.multifactor import Multifactor
from jobsight_scheduler.prediction import PREDICTORS
from jobsight_scheduler.table import JobTable, ScheduleError, read_schedule
from jobsight_scheduler.validator import BrokenRule, validate
from jobsight_server.errors import UserError
from jobsight_server.systems.simulations.commands.own_policies import own_policy
from jobsight_server.systems.simulations.commands.run_simulation import simulate
from jobsight_server.systems.simulations.commands.schedule_outputs import add_outputs, check_outputs, write_jobs
from jobsight_server.systems.simulations.commands.workload_arguments import add_workload, read_workload
from jobsight_server.systems.simulations.machine_workload import MachineWorkload
from jobsight_server.systems.simulations.one_policy import account_of
from jobsight_server.systems.simulations.report import show, show_findings

OF_SEVERAL_CLUSTERS = (
    *("--trace", "--clusters", "--uplink", "--placement", "--bandwidth", "--sharing", "--constant", "--theta"),
    *("--bias", "--noise", "--silent", "--job-spread", "--application-spread", "--half", "--wrong-names", "--seed"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_workload(parser)
    parser.add_argument(
        "--processors",
        type=int,
        metavar="COUNT",
        help="processors of the machine (default: MaxProcs in the header of the trace)",
    )
    parser.add_argument(
        "--policy",
        default="easy",
        metavar="NAME",
        help=f"scheduling policy: {', '.join(POLICIES)}, an installed one, or module:Class of your own (default: easy)",
    )
    parser.add_argument(
        "--priority",
        nargs="+",
        metavar="WEIGHT=NUMBER",
        help=f"weights of multifactor (default: {_defaults()})",
    )
    parser.add_argument(
        "--predictor",
        choices=tuple(PREDICTORS),
        metavar="NAME",
        help=f"run-time predictor for {_predicting()}: {', '.join(PREDICTORS)}; last-two is the mean of the user's "
        "last two jobs",
    )
    parser.add_argument(
        "--ask-again",
        action="store_true",
        help="--policy plans by the forecasts of waiting jobs as of now instead of those at submission; policies of "
        "--against keep these",
    )
    parser.add_argument(
        "--against",
        nargs="+",
        default=(),
        metavar="POLICY",
        help="compare with these policies, job by job",
    )
    parser.add_argument("--validate", action="store_true", help="check the schedule against the rules of its policy")
    parser.add_argument(
        "--check", type=Path, metavar="FILE.csv", help="check this schedule of the trace instead of simulating"
    )
    add_outputs(parser, "utilisation, queue, Gantt chart and slowdowns")
    for option in OF_SEVERAL_CLUSTERS:
        parser.add_argument(option, nargs="?", action=_Elsewhere, help=argparse.SUPPRESS)


class _Elsewhere(argparse.Action):
    """An option of ``jobsight coallocate``."""

    def __call__(
        self, parser: argparse.ArgumentParser, _names: object, _values: object, option: str | None = None
    ) -> None:
        parser.error(f"{option} is an option of `jobsight coallocate`, which simulates several clusters")


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
    given = read_workload(args, args.processors, args.load)
    if args.check is not None:
        table = _read_schedule(args.check, given)
        spent = None
    else:
        simulated = simulate(given, chosen, args.state)
        if simulated is None:
            return 130
        table, spent = simulated
    account = account_of(given, chosen, table, spent)
    findings = _validate(args, chosen, table, given.capacity, account)
    write_jobs(args, table)
    others: dict[str, JobTable] = {}
    for policy, rival in rivals.items():
        simulated = simulate(given, rival, None)
        if simulated is None:
            return 130
        others[policy] = simulated[0]
    if others:
        account["against"] = {
            policy: schedule_figures(other, given.capacity) | differences(table, other)
            for policy, other in others.items()
        }
    if args.plot is not None:
        from jobsight_server.systems.simulations.plot import draw_simulation

        title = f"{given.name}: {args.policy} on {given.capacity} processors"
        draw_simulation(table, given.capacity, title, args.plot)
        print(f"jobsight simulate: plots written to {args.plot}", file=sys.stderr)
    if args.json:
        print(json.dumps(account, indent=2))
    else:
        show(account, Console())
    show_findings("simulate", findings)
    return 1 if findings else 0


def _predicting() -> str:
    """The policies that use run-time predictors, and their defaults."""
    return " and ".join(
        f"{name} (by default {entry.default_predictor})" if entry.default_predictor else name
        for name, entry in POLICIES.items()
        if entry.takes_predictor
    )


def _defaults() -> str:
    """The weights as given."""
    weights = PriorityWeights()
    return " ".join(f"{name.replace('_', '-')}={value:g}" for name, value in asdict(weights).items())


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
    """A policy of ``--against``: with the predictor and the weights given, if it takes them."""
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
