"""Shows a plan: the findings, the actions, and the differences."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from jobsight_server.setup.manifest import Manifest
from jobsight_server.setup.plan import CHANGE, EDITED, SAME, File, Item, Placed, PlannedToken, state

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def show(
    plan: Sequence[Item], found: dict[str, str], notes: Sequence[str], manifest: Manifest, console: Console
) -> int:
    """Print everything; return the number of items left to do."""
    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in found.items():
        facts.add_row(name, escape(value))
    console.print(facts)
    table = Table("", "what", "mode", "owner", box=SIMPLE, padding=(0, 1, 0, 0))
    states = [(item, state(item, manifest)) for item in plan]
    for item, doing in states:
        if isinstance(item, Placed):
            what = f"{item.path} (token, role {item.role})" if isinstance(item, PlannedToken) else str(item.path)
            table.add_row(doing, escape(what), f"{item.mode:04o}", item.owner)
        else:
            table.add_row("done" if doing == SAME else "run", escape(" ".join(item.argv)), "", "")
    console.print(table)
    for item, doing in states:
        if isinstance(item, File) and item.is_text and doing in (CHANGE, EDITED):
            show_difference(item, console)
    for note in notes:
        console.print(Text(f"* {note}"), soft_wrap=True)
    return sum(doing != SAME for _, doing in states)


def show_difference(item: File, console: Console) -> None:
    """Show the changes that writing a file would make, as a unified diff."""
    present, wanted = item.path.read_text(errors="replace").splitlines(), item.wanted().decode().splitlines()
    for line in unified_diff(present, wanted, str(item.path), str(item.path), lineterm=""):
        console.print(Text(line, style=_COLOURS.get(line[:1], "")), soft_wrap=True)
