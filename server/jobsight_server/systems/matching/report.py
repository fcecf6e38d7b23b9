"""Shows the answer to a batch of jobs on a terminal of 80 columns."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobsight_scheduler.matching import Answer
from jobsight_server.amounts import percent


def show(answer: Answer, console: Console) -> None:
    """Who gets what, who does not and why, and how good the answer is."""
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
