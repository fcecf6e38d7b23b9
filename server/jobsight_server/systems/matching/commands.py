"""``jobsight match``: matches the jobs of a file to its resources, without a server."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import msgspec
from msgspec.structs import replace
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobsight_scheduler.matching import OBJECTIVES, Answer, InvalidProblemError, Problem, match, read_problem
from jobsight_scheduler.matching.ladder import DEADLINE_S
from jobsight_scheduler.matching.read import read_objectives
from jobsight_server.command_line.answers import print_json
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.ground.amounts import percent
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.fields_once import check_fields_once
from jobsight_server.storage.named_files import opened

LARGEST_FILE = 256 * 2**20
LONGEST_S = 86_400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.json", help="resources, jobs and objectives; - is standard input")
    parser.add_argument(
        "--objective",
        action="append",
        metavar="NAME",
        help=f"instead of those of the file; several are optimised in the order given: {', '.join(OBJECTIVES)}",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--deadline",
        type=float,
        default=DEADLINE_S,
        metavar="SECONDS",
        help=f"seconds of processor time after which the best matches so far are printed (default: {DEADLINE_S:g})",
    )


def run(args: argparse.Namespace) -> int:
    if not 0.0 < args.deadline <= LONGEST_S:
        raise UserError(f"--deadline {args.deadline}: must be above 0 and at most {LONGEST_S:g} seconds")
    problem = _problem(args)
    answer = match(problem, clock=time.process_time, deadline_s=args.deadline)
    if args.json:
        print_json(answer)
    else:
        show(answer, Terminal())
    return 0


def _problem(args: argparse.Namespace) -> Problem:
    try:
        problem = read_problem(_decoded(args.file))
        if args.objective is not None:
            problem = replace(problem, objectives=read_objectives(args.objective, "--objective"))
    except InvalidProblemError as error:
        raise UserError(f"{args.file}: {error}") from error
    return problem


def _decoded(file: str) -> object:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(LARGEST_FILE + 1)
        else:
            with opened(Path(file)) as stream:
                data = stream.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{file}: cannot be read: {reason}") from error
    if len(data) > LARGEST_FILE:
        raise UserError(f"{file}: more than {LARGEST_FILE // 2**20} MiB; split the batch")
    try:
        found: object = msgspec.json.decode(data)
        check_fields_once(data)
    except RecursionError as error:
        raise UserError(f"{file}: nested too deeply") from error
    except msgspec.DecodeError as error:
        raise UserError(f"{file}: not JSON: {error}") from error
    except ValueError as error:
        raise UserError(f"{file}: {error}") from error
    return found


def show(answer: Answer, console: Console) -> None:
    """Print the matches, the unmatched jobs with reasons, and the quality of the answer."""
    if answer.matches:
        table = Table("job", "dependency", "resources", box=SIMPLE, title="Matches", title_justify="left")
        for match in answer.matches:
            for index, (dependency, names) in enumerate(match.resources.items()):
                table.add_row(Text("" if index else match.job), Text(dependency), Text(", ".join(names)))
            if not match.resources:
                table.add_row(Text(match.job), "", "needs nothing")
        console.print(table)
    if answer.unmatched:
        table = Table("job", "tier", "reason", box=SIMPLE, title="Not matched", title_justify="left")
        for entry in answer.unmatched:
            table.add_row(Text(entry.job), entry.tier, Text(entry.reason))
        console.print(table)
    for objective in answer.objectives:
        bound = "" if objective.bound is None else f", bound {objective.bound:,.6g}"
        gap = "" if objective.gap is None else f", gap {percent(objective.gap, 2)}"
        console.print(Text(f"{objective.name}: {objective.value:,.6g}{bound}{gap}"))
    matched, total = len(answer.matches), len(answer.matches) + len(answer.unmatched)
    console.print(
        Text(
            f"{matched:,} of {total:,} jobs matched, {answer.status}, by {answer.rung}, in {answer.cpu_s:.3f} s of "
            f"processor time; {answer.rows:,} rows, {answer.columns:,} columns"
        )
    )
    for warning in answer.warnings:
        console.print(Text(f"Warning: {warning}"))
