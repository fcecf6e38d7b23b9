"""The accounting files of PBS Professional and OpenPBS.

A value with spaces is quoted: with double quotes, or with single ones if it contains a double quote. R records, written
when a run is requeued, have its use, like E records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jobsight_server.accounting.parsers.pbs import pbs_event
from jobsight_server.accounting.runs import AccountingError, Failure, JobEvent

_PAIR = re.compile(r"""([A-Za-z_][^\s="']*)=("[^"]*"|'[^']*'|[^\s"'][^\s]*|)(?:\s+|$)""")
_VNODE = re.compile(r"([^\s:()+]+)((?::[^\s:()+]+)*)")
_NO_PROCESSORS = re.compile(r"\*0+(?:\+|$)")
_ncpus = re.compile(r":ncpus=([^:]+)").findall
# JOB_EXEC_KILL_MEM and JOB_EXEC_KILL_WALLTIME.
_FAILURES: Mapping[int, Failure] = {-27: "memory", -29: "time"}
_OVER_VIRTUAL = -26


def parse_line(line: str) -> JobEvent:
    """Return the event in ``line``, given without its line end.

    Raises:
        AccountingError: the line cannot be used, for the given reason.
    """
    event = pbs_event(line, _fields, with_usage="ER", failure_of=_failure)
    if event.run is None or event.run.used_memory_bytes is None:
        return event
    return replace(event, run=replace(event.run, memory_with_cache=True))  # with PBS's cgroup hook


def _failure(status: int, _ran_s: float, fields: Mapping[str, str]) -> Failure | None:
    """Return the resource that the job ran out of; virtual memory only where no other memory was requested."""
    if status == _OVER_VIRTUAL:
        asked = {name.removeprefix("Resource_List.") for name in fields}
        return "memory" if asked & {"vmem", "pvmem"} and not asked & {"mem", "pmem"} else None
    return _FAILURES.get(status)


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
    hosts = found.get("exec_host", "")
    if "exec_vnode" in found and (not hosts or _NO_PROCESSORS.search(hosts)):
        found["exec_host"] = _hosts(found["exec_vnode"], [host.partition("/")[0] for host in hosts.split("+") if host])
    return found


def _hosts(exec_vnode: str, hosts: Sequence[str]) -> str:
    """Return the processors of ``exec_vnode`` in the form of ``exec_host``; each of its chunks is on one of ``hosts``.

    >>> _hosts("(n1:ncpus=2:mem=1gb)+(n2:ncpus=1+n3:ncpus=4)", [])
    'n1/0*2+n2/0*1+n3/0*4'
    >>> _hosts("(n7[1]:ngpus=2:ncpus=24+n7[0]:ncpus=24)+(n8[0]:ngpus=1)", ["n7.site", "n8.site"])
    'n7.site/0*24+n7.site/0*24+n8.site/0*0'
    """
    chunks = [_VNODE.findall(chunk) for chunk in exec_vnode.split(")+(")]
    on = hosts if len(chunks) == len(hosts) else [None] * len(chunks)
    parts = [
        f"{host or vnode.partition('[')[0]}/0*{(*_ncpus(resources), '0' if host else '1')[0]}"
        for host, chunk in zip(on, chunks, strict=True)
        for vnode, resources in chunk
    ]
    return "+".join(parts)
