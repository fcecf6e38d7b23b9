"""Consoles of commands."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from jobsight_server.accounting.text import escaped_lines


class Terminal(Console):
    """A console that escapes names: only its own styles and progress bars reach the terminal as sequences."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as ``Console`` does, with escapes in texts."""
        if isinstance(renderable, Text) and escaped_lines(renderable.plain) != renderable.plain:
            whole, renderable = renderable, renderable.blank_copy()  # before it is fitted into a column
            for part in whole.render(self):
                renderable.append(escaped_lines(part.text), part.style)
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escaped_lines(segment.text), segment.style)
