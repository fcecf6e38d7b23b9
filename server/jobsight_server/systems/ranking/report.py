"""Shows machines by their rank on a terminal of any width."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from rich.box import SIMPLE
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobsight_server.systems.ranking.queries import MachineRanking, RankedMachine

_HEADS = ("state", "score", "stays", "range", "up h", "failed", "evicted", "done", "boots", "RA", "JS", "CA")
"""Columns beside the machine's name, in the order in which they are shown as far as there is room."""
_LEAST, _BLANKS = 3, 2


def show(found: MachineRanking, console: Console) -> None:
    """A row for each machine, best first, with as many of the columns as fit beside the whole name."""
    if not found.machines:
        console.print("No machine has a rank: agents, accounting logs and HTCondor's event log make machines known.")
        return
    console.print(f"For a job of {found.run_time_s / 3600.0:,.2f} h, by {found.method}", highlight=False)
    rows = [(f"{row.cluster}/{row.name}", *_cells(row)) for row in found.machines]
    shown = _fitting([("machine", *_HEADS), *rows], console.width)
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("machine", overflow="fold")
    for head in _HEADS[: shown - 1]:
        table.add_column(head, justify="left" if head == "state" else "right", no_wrap=True)
    for name, *cells in rows:
        table.add_row(Text(name), *cells[: shown - 1])
    console.print(table)
    if left_out := _HEADS[shown - 1 :]:
        console.print(f"No room for {', '.join(left_out)}: --format json has all.", highlight=False)
    if more := found.ranked - len(found.machines):
        console.print(f"{more:,} more; --limit {found.ranked} prints all", highlight=False)


def _fitting(rows: Sequence[Sequence[str]], width: int) -> int:
    """How many of the first columns fit into ``width``, with two blanks after each; at least the name and its score."""
    ends = accumulate(max(map(cell_len, column)) + _BLANKS for column in zip(*rows, strict=True))
    return max(sum(end - _BLANKS < width for end in ends), _LEAST)


def _cells(row: RankedMachine) -> list[str]:
    """What stands under ``_HEADS``."""
    known = f"{row.low:.2f}-{row.high:.2f}" if row.known else "no history"
    up = "-" if row.age_s is None else f"{row.age_s / 3600.0:,.1f}"
    score = "-" if row.score is None else f"{row.score:.3f}"
    counts = [f"{count:,}" for count in (row.failures, row.evictions, row.successes, row.boots)]
    terms = [f"{term:.2f}" for term in (row.availability, row.success, row.capacity)]
    return [row.state, score, f"{row.survival:.2f}", known, up, *counts, *terms]
