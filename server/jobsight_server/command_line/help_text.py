"""The layout of ``--help``: words are never split, so that values can be copied at any terminal width."""

from __future__ import annotations

import argparse
import math
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

Value = TypeVar("Value")

_SHOWN = 60
_LARGEST = 1e18  # as large as whole numbers may be
INSTALLED = Path("/etc/jobsight/jobsight.toml")
"""The settings file of this host's server, as ``jobsight setup`` writes it."""


class WholeWords(argparse.HelpFormatter):
    """Wraps between words only; a word wider than the column sticks out."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_long_words=False, break_on_hyphens=False)


class HelpParser(argparse.ArgumentParser):
    """A parser, also of subcommands, with this layout and clear messages where numbers are expected."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": WholeWords, **settings})
        self.register("type", float, _number)
        self.register("type", int, _whole)

    def error(self, message: str) -> NoReturn:
        """Say where a database belongs if it stands alone."""
        _, _, names = message.partition("unrecognized arguments: ")
        if names and not names.startswith("-") and "--database" in self.format_usage():
            message += f"; a database is an option: --database {names.split()[0]}"
        super().error(message)


def read_by(read: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return a type of arguments, whose errors are the words of ``read``'s ValueError."""

    def value(text: str) -> Value:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return value


def metric_name(text: str) -> str:
    """Return the name of a metric, written as in ``cpu``, ``gpu-memory`` or ``run-time``.

    >>> metric_name("run-time"), metric_name("GPU memory"), metric_name("cpu")
    ('runtime', 'gpu_memory', 'cpu')
    """
    name = text.lower().replace("-", "_").replace(" ", "_")
    return "runtime" if name == "run_time" else name


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not abs(found) <= _LARGEST:
        raise argparse.ArgumentTypeError(f"{text[:_SHOWN]!r} is not a number; give one such as 0.8 or 60")
    return found


def _whole(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,18}", text, re.ASCII):  # more than the database's 64 bits
        raise argparse.ArgumentTypeError(f"{text[:_SHOWN]!r} is not a whole number of at most 18 digits")
    return int(text)


def fraction(text: str) -> float:
    """Return the fraction in an argument.

    Raises:
        argparse.ArgumentTypeError: it is not above 0 and below 1.
    """
    share = _number(text)
    if not 0.0 < share < 1.0:
        raise argparse.ArgumentTypeError(f"{text} is not a fraction above 0 and below 1, such as 0.95")
    return share
