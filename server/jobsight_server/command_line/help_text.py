"""The layout of ``--help``: words are never broken, so that values can be copied at any terminal width."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any


class WholeWords(argparse.HelpFormatter):
    """Wraps between words only; a word wider than the column sticks out."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_long_words=False, break_on_hyphens=False)


class HelpParser(argparse.ArgumentParser):
    """A parser, and parsers of subcommands, with such help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": WholeWords, **settings})
