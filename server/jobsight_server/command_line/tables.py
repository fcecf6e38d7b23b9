"""Tables of the command line: names on the left, numbers on the right."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text


def table_of(names: Sequence[str], numbers: Sequence[str], title: Text | None = None) -> Table:
    """Return a table of which nothing is cut: columns too wide for the line take several."""
    found = Table(title=title, box=SIMPLE, padding=(0, 1, 0, 0), title_justify="left")
    for name in names:
        found.add_column(name, overflow="fold", min_width=min(10, len(name) + 4))
    for name in numbers:
        found.add_column(name, justify="right", overflow="fold")
    return found
