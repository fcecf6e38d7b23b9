"""The output of PBS Pro's ``qstat -f -F json``, which is not always JSON: values may hold control characters and bytes
that are not UTF-8, and values that look like numbers are not quoted, even ``007``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from jobsight_server.accounting.parsers.qstat import Qstat
from jobsight_server.accounting.parsers.quantities import epoch, seconds_of
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.accounting.text import text_of

_NOT_QUOTED = re.compile(r'(?<!\\)(":\s*)([^\s"{\[,}\]][^\s",}\]]*)(?=\s*[,}])')
_IN_NO_NAME = re.compile("[\x00\ud800-\udfff]")


def _attributes(output: bytes) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the attributes of each job, by its id.

    Raises:
        AccountingError: the output is no such document.
    """
    document = _decoded(text_of(output))
    if not isinstance(document, dict) or "pbs_server" not in document:
        raise AccountingError("its output is not a JSON document of qstat")
    jobs = document.get("Jobs", {})  # left out where there are none
    if not isinstance(jobs, dict):
        raise AccountingError("Jobs is not an object", repr(jobs))
    for job_id, of_job in jobs.items():
        yield job_id, _flat(of_job)


def _decoded(text: str) -> Any:
    # Numbers stay text: elsewhere they are names, or have units.
    def read(text: str) -> Any:
        return json.loads(text, strict=False, parse_int=str, parse_float=str, parse_constant=str)

    try:
        try:
            return read(text)
        except ValueError:
            return read(_NOT_QUOTED.sub(r'\1"\2"', text))
    except (ValueError, RecursionError) as error:
        raise AccountingError("its output is not JSON", str(error)) from None


def _flat(of_job: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in of_job.items() if isinstance(of_job, dict) else ():
        if isinstance(value, str):
            found[name] = value
        elif name == "Resource_List" and isinstance(value, dict):
            found |= {f"{name}.{key}": text for key, text in value.items() if isinstance(text, str)}
    return {name: _IN_NO_NAME.sub("?", text) for name, text in found.items()}


def _time(name: str, text: str) -> float:
    """Return UTC epoch seconds of ``Wed Nov 25 08:49:42 2026`` in this machine's zone, or as given."""
    if text.isdigit():
        return epoch(name, text)
    if found := seconds_of(lambda date: datetime.strptime(date, "%a %b %d %H:%M:%S %Y"), text):
        return found
    raise AccountingError(f"{name} is not a time", text)


QSTAT = Qstat(("-f", "-F", "json"), _attributes, _time)
