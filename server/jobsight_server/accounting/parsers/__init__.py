"""One parser for each scheduler: from a line of its accounting log to a ``JobEvent``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jobsight_server.accounting.parsers.torque import parse_line
from jobsight_server.accounting.runs import JobEvent

Parse = Callable[[str], JobEvent]

# By the format that the settings name; whoever adds one adds it to ``settings.AccountingFormat``.
PARSERS: Mapping[str, Parse] = {"torque": parse_line}
