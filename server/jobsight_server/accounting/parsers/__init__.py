"""One parser for each scheduler: from a line of its accounting log to a ``JobEvent``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jobsight_server.accounting.parsers import gridengine, pbspro, torque
from jobsight_server.accounting.runs import JobEvent

Parse = Callable[[str], JobEvent]

# Keys are formats in the settings; add new ones to ``settings.AccountingFormat`` too.
PARSERS: Mapping[str, Parse] = {
    "torque": torque.parse_line,
    "pbspro": pbspro.parse_line,
    "gridengine": gridengine.parse_line,
}
