"""TORQUE's accounting files.

Nothing in them is quoted: values contain spaces, ``=`` and ``;``. So a message is split at known keys.
"""

from __future__ import annotations

import re

from jobsight_server.accounting.parsers.pbs import pbs_event
from jobsight_server.accounting.runs import JobEvent

_KEY = re.compile(
    r"(?:^| )("
    r"user|group|account|project|jobname|queue|ctime|qtime|etime|start|owner|exec_host|exec_vnode|exec_port|"
    r"login_node|session|end|Exit_status|start_count|run_count|alt_id|total_execution_slots|unique_node_count|"
    r"substate|resvname|resvID|array_indices|accounting_id|depend|requestor|x|"
    r"(?:Resource_List|resources_used|req_information)\.[^\s=]+"
    r")="
)
# Values that people choose and that may contain spaces; every other value ends at the first space.
_FREE_TEXT = frozenset({"user", "group", "account", "project", "jobname"})


def parse_line(line: str) -> JobEvent:
    """The event in ``line``, given without its line end.

    Raises:
        AccountingError: the line cannot be used; the reason says why.
    """
    return pbs_event(line, _fields, with_usage="E")


def _fields(message: str) -> dict[str, str]:
    """The message's values by key.

    The server writes user and group first, so the first of these counts, and the last of every other key: text that a
    user puts into the name of an account or a job cannot pass for what the server writes.
    """
    found: dict[str, str] = {}
    keys = list(_KEY.finditer(message))
    for position, match in enumerate(keys):
        key = match[1]
        until = keys[position + 1].start() if position + 1 < len(keys) else len(message)
        value = message[match.end() : until]
        if key not in _FREE_TEXT:
            value = value.split(" ", 1)[0]
        if not (key in {"user", "group"} and key in found):
            found[key] = value.strip()
    return found
