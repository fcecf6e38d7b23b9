"""The accounting files of PBS Professional and OpenPBS.

A value with spaces is quoted: with double quotes, or with single ones if it contains a double quote. R records, written
when a run is requeued, have its use, like E records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from jobsight_server.accounting.parsers.pbs import pbs_event
from jobsight_server.accounting.runs import AccountingError, Failure, JobEvent

_PAIR = re.compile(r"""([A-Za-z_][^\s="']*)=("[^"]*"|'[^']*'|[^\s"'][^\s]*|)(?:\s+|$)""")
_CHUNK = re.compile(r"([^\s:()+]+)((?::[^\s:()+]+)*)")
# JOB_EXEC_KILL_MEM and JOB_EXEC_KILL_WALLTIME. -26, killed for virtual memory, does not show how much memory it needs.
_FAILURES: Mapping[int, Failure] = {-27: "memory", -29: "time"}


def parse_line(line: str) -> JobEvent:
    """Return the event in ``line``, given without its line end.

    Raises:
        AccountingError: the line cannot be used, for the given reason.
    """
    event = pbs_event(line, _fields, with_usage="ER", failure_of=lambda status, _ran_s, _fields: _FAILURES.get(status))
    if event.run is None or event.run.used_memory_bytes is None:
        return event
    return replace(event, run=replace(event.run, memory_with_cache=True))  # with PBS's cgroup hook


def _fields(message: str) -> dict[str, str]:
    """Return the message's values by key, without quotes; the first of a repeated key counts.

    >>> _fields('user=ann account="a b" comment=\\'say "x"\\' Exit_status=0 ')
    {'user': 'ann', 'account': 'a b', 'comment': 'say "x"', 'Exit_status': '0'}
    """
    found: dict[str, str] = {}
    at = 0
    message = message.strip()
    while at < len(message):
        match = _PAIR.match(message, at)
        if match is None:
            raise AccountingError("text that is not key=value", message[at:])
        value = match[2]
        found.setdefault(match[1], value[1:-1] if value[:1] in {'"', "'"} else value)
        at = match.end()
    if "exec_host" not in found and "exec_vnode" in found:
        found["exec_host"] = _hosts(found["exec_vnode"])
    return found


def _hosts(exec_vnode: str) -> str:
    """Return ``exec_vnode`` in the form of ``exec_host``.

    >>> _hosts("(n1:ncpus=2:mem=1gb)+(n2:ncpus=1+n3:ncpus=4)")
    'n1/0*2+n2/0*1+n3/0*4'
    """
    hosts = []
    for vnode, resources in _CHUNK.findall(exec_vnode):
        counts = [text.removeprefix("ncpus=") for text in resources.split(":") if text.startswith("ncpus=")]
        hosts.append(f"{vnode}/0*{counts[0] if counts else 1}")
    return "+".join(hosts)
