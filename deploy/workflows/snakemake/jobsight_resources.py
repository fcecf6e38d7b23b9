"""Asks Jobsight for the recommended memory and time of a Snakemake job (docs/use/workflows.md).

In a Snakefile, with this file beside it or in PYTHONPATH:

    from jobsight_resources import jobsight

    rule align:
        resources: **jobsight(mem_mb=8000, runtime=240)

Asks with the rule, its threads, the size of its input files and the attempt. Answers with what Jobsight recommends for
this attempt, or with the workflow's own value after ``LIMIT_S`` at the latest, whatever the server does. After three
questions in a row without an answer, none is asked for as long as there has been none, a minute at most. Python 3.8 or
later, nothing else.
"""

from __future__ import annotations

import contextlib
import getpass
import http.client
import inspect
import json
import logging
import math
import os
import threading
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT_S = float(os.environ.get("JOBSIGHT_LIMIT_MS", "200")) / 1000
FAILURES = 3
SHORTEST_PAUSE_S, PAUSE_S = 2, 60
SUCH_JOBS = 5  # measured ones of the user; with fewer, the workflow's own value counts
ANSWER_BYTES = 64 * 1024

# Snakemake's resource -> the metric, the field of a question for the request, and the unit.
RESOURCES = {
    "mem_mb": ("memory", "memory_bytes", 10**6),
    "mem_mib": ("memory", "memory_bytes", 2**20),
    "runtime": ("runtime", "walltime_s", 60),
}

log = logging.getLogger("jobsight")
_state = {"failed": 0, "failed_since": 0.0, "pause_until": 0.0}
_last: dict[str, dict[str, Any]] = {}  # the last question and its answer: mem_mb and runtime ask the same


def jobsight(**own: Any) -> dict[str, Callable[..., Any]]:
    """Functions for ``resources:`` by name, ``mem_mb`` or ``mem_mib``, and ``runtime`` in minutes.

    ``own`` are the workflow's own values: numbers, or functions as Snakemake takes them.

    Raises:
        ValueError: another resource.
    """
    if other := sorted(set(own) - set(RESOURCES)):
        raise ValueError(f"{other[0]}: Jobsight knows {', '.join(RESOURCES)}; give others beside jobsight(...)")
    return {name: _resource(name, own) for name in own}


def _resource(name: str, own: dict[str, Any]) -> Callable[..., Any]:
    metric, _, unit = RESOURCES[name]

    def resource(wildcards: Any, input: Any, threads: int, attempt: int, rulename: str) -> Any:  # noqa: A002
        known = {"input": input, "threads": threads, "attempt": attempt, "rulename": rulename}
        value_here = _value(own[name], wildcards, known)
        try:
            size = input.size
        except Exception:  # noqa: BLE001 - releases raise different ones while a file is not there, and ask again later
            return value_here
        question: dict[str, Any] = {"application": rulename, "processors": threads}
        if size:
            question["facts"] = {"input_bytes": size}
        for each, first in own.items():  # an answer has the amounts of all attempts
            _, field, factor = RESOURCES[each]
            value = _value(first, wildcards, {**known, "attempt": 1})
            if isinstance(value, (int, float)) and value > 0:
                question[field] = value * factor
        amount = _amount(ask(question), metric, attempt)
        return value_here if amount is None else math.ceil(amount / unit)

    return resource


def _value(value: Any, wildcards: Any, known: dict[str, Any]) -> Any:
    """Return the workflow's own value; a function's first parameter is the wildcards, under any name."""
    if not callable(value):
        return value
    return value(wildcards, **{name: known[name] for name in list(inspect.signature(value).parameters)[1:]})


def _amount(answer: dict[str, Any] | None, metric: str, attempt: int) -> float | None:
    """Return the request of this attempt, in bytes or seconds; None if the answer has none, or rests on too little."""
    if answer is None or not (_number(answer.get("such_jobs")) or 0) >= SUCH_JOBS:
        return None
    forecasts = answer.get("forecasts")
    for found in forecasts if isinstance(forecasts, list) else ():
        if isinstance(found, dict) and found.get("metric") == metric:
            attempts = found.get("attempts") or [found.get("reserve")]
            value = attempts[attempt - 1] if isinstance(attempts, list) and attempt <= len(attempts) else None
            return _number(value)
    return None


def _number(value: Any) -> float | None:
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if numeric and 0 < value < 1e18 else None


def ask(question: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer of ``POST /api/v1/advice``; None if there is none within ``LIMIT_S``."""
    text = json.dumps(question, sort_keys=True)
    if text in _last:
        return _last.pop(text)
    if time.monotonic() < _state["pause_until"]:
        return None
    found: list[Any] = []
    link: list[http.client.HTTPConnection] = []
    # In a thread of its own: looking up a name, TLS and a server that sends a byte now and then have no time limit.
    thread = threading.Thread(target=_exchange, args=(question, found, link), name="jobsight", daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    if found and isinstance(found[0], dict):
        if _state["failed"] >= FAILURES:
            log.warning("jobsight: the server answers again; its resources are used")
        _state["failed"] = 0
        _last.clear()
        _last[text] = found[0]
        return found[0]
    for opened in filter(None, [connection.sock for connection in link]):
        with contextlib.suppress(OSError):  # closed by now
            opened.settimeout(0)  # ends the thread at its next read
    now = time.monotonic()
    _state["failed_since"] = _state["failed_since"] if _state["failed"] else now
    _state["failed"] += 1
    if _state["failed"] >= FAILURES:
        pause_s = min(PAUSE_S, max(SHORTEST_PAUSE_S, now - _state["failed_since"]))
        _state["pause_until"] = now + pause_s
        why = found[0] if found else f"no answer within {LIMIT_S * 1000:.0f} ms"
        log.warning("jobsight: %s; the workflow's own resources are used for %d s", str(why)[:200], pause_s)
    return None


def _exchange(question: dict[str, Any], found: list[Any], link: list[http.client.HTTPConnection]) -> None:
    """Put the answer into ``found``, or why there is none."""
    try:
        server = urllib.parse.urlsplit(os.environ.get("JOBSIGHT_SERVER", "http://127.0.0.1:8470"))
        token = Path(os.environ.get("JOBSIGHT_TOKEN_FILE", "/etc/jobsight/submitter-token")).read_text("ascii").strip()
        about = {"cluster": os.environ.get("JOBSIGHT_CLUSTER", "default"), "user": getpass.getuser()}
        connect = http.client.HTTPSConnection if server.scheme == "https" else http.client.HTTPConnection
        connection = connect(server.hostname or "", server.port, timeout=LIMIT_S)
        link.append(connection)
        try:
            found.append(_answer(connection, server.path, token, {**about, **question}))
        finally:
            connection.close()
    except (OSError, ValueError, KeyError, RecursionError, http.client.HTTPException) as error:
        found.append(error)


def _answer(connection: http.client.HTTPConnection, path: str, token: str, question: dict[str, Any]) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request("POST", f"{path.rstrip('/')}/api/v1/advice", json.dumps(question), headers)
    with connection.getresponse() as answer:
        end, body = time.monotonic() + LIMIT_S, b""
        while len(body) < ANSWER_BYTES and time.monotonic() < end and (part := answer.read1(8192)):
            body += part
        if answer.status != 200:
            raise ValueError(f"the server answered {answer.status}")
    decoded = json.loads(body)
    if not isinstance(decoded, dict):
        raise ValueError("the server answered with no JSON object")
    return decoded
