"""TORQUE's accounting files.

Nothing in them is quoted: values contain spaces, ``=`` and ``;``. So a message is split at known keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from jobsight_server.accounting.parsers.pbs import pbs_event
from jobsight_server.accounting.parsers.quantities import read_if_given, requested_s
from jobsight_server.accounting.runs import Failure, JobEvent

_KEY = re.compile(
    r"(?:^| )("
    r"user|group|account|project|jobname|queue|ctime|qtime|etime|start|owner|exec_host|exec_vnode|exec_port|"
    r"login_node|session|end|Exit_status|start_count|run_count|alt_id|total_execution_slots|unique_node_count|"
    r"substate|resvname|resvID|array_indices|accounting_id|depend|requestor|x|"
    r"(?:Resource_List|resources_used|req_information)\.[^\s=]+"
    r")="
)
# Values that people choose, which may contain spaces; every other value ends at the first space.
_FREE_TEXT = frozenset({"user", "group", "account", "project", "jobname"})
_OVER_LIMIT, _OVER_WALLTIME = -10, -11
# Requests for processor time; a job may be killed for it, too.
_CPU_TIME = ("Resource_List.cput", "Resource_List.pcput")


def parse_line(line: str) -> JobEvent:
    """Return the event in ``line``, given without its line end.

    Raises:
        AccountingError: the line cannot be used; the reason says why.
    """
    return pbs_event(line, _fields, with_usage="E", failure_of=_failure)


def _failure(status: int, ran_s: float, fields: Mapping[str, str]) -> Failure | None:
    """Return the resource that the job ran out of. 271, ended by a signal, is also the status of a deleted job.

    -11 is for its walltime. -10 was once for any limit and is now for memory, so with it, a job that used up its
    walltime was killed for its walltime.

    >>> [_failure(status, 60.0, {"Resource_List.walltime": "00:01:00"}) for status in (-11, -10, 271)]
    ['time', 'time', None]
    >>> _failure(-10, 59.0, {"Resource_List.walltime": "00:01:00"})
    'memory'
    """
    if status == _OVER_WALLTIME:
        return "time"
    if status != _OVER_LIMIT:
        return None
    limit_s = read_if_given(fields, "Resource_List.walltime", requested_s)
    if limit_s is not None and ran_s >= limit_s:
        return "time"
    return None if any(name in fields for name in _CPU_TIME) else "memory"


def _fields(message: str) -> dict[str, str]:
    """Return the message's values by key.

    The server writes user and group first, so the first of these counts, and the last of every other key. Thus text
    in the name of a user's account or job cannot be mistaken for the server's.
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
