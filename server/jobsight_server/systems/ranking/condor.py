"""HTCondor's job event log: the machine of each attempt of a job, and how the attempt ended.

An event is a head line ``004 (023.000.000) 2026-11-22 14:05:12 Job was evicted.``, lines that describe it, and a line
``...``. Logs are cut off, written by several processes and edited by hand, so the reader counts and skips every line
outside an event; an event without its last line may still be incomplete.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sqlalchemy import Engine

from jobsight_predictor.reliability.resource_vector import JobEnd
from jobsight_server.storage.engine import pieces
from jobsight_server.systems.ranking.learning import learn, lock_reliability, write_reliability
from jobsight_server.systems.ranking.outcomes import JudgedRun, count_end, counted_before, ends_of
from jobsight_server.systems.ranking.rows import read_machines, write_machines

LONGEST_LINE = 64 * 1024
_MOST_LINES = 1000  # of an event
_MOST_RUNNING = 1_000_000

_HEAD = re.compile(
    r"([0-9]{3}) \(([0-9]{1,12})\.([0-9]{1,9})\.[0-9]{1,9}\) "
    r"(?:([0-9]{4})-)?([0-9]{2})[-/]([0-9]{2})[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.[0-9]{1,9})?(Z|[+-][0-9]{2}:?[0-9]{2})? ?(.*)"
)
_SLOT = re.compile(r"SlotName: *(?:[^@\s]*@)?([^\s@<>?&]+)")
_ALIAS = re.compile(r"[?&]alias=([^&>\s]+)")
_ADDRESS = re.compile(r"<\[?([0-9A-Fa-f.:]+?)\]?(?::[0-9]+)?[?>]")
_RETURNED = re.compile(r"\(1\) Normal termination \(return value (-?[0-9]{1,12})\)")
_LONGEST_HOST = 255

EXECUTING, CHECKPOINT, EVICTED, TERMINATED, SHADOW, ABORTED, HELD, LOST = 1, 3, 4, 5, 7, 9, 12, 24


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """``time`` is UTC epoch seconds; ``lines`` begin with the rest of the head line."""

    kind: int
    job_id: str
    time: float
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoggedAttempt:
    """An attempt of a job on one machine, and how it ended."""

    job_id: str
    host: str
    start: float
    end: float
    outcome: JobEnd


@dataclass(slots=True)
class CondorLog:
    """The contents of a log; ``skipped`` counts unusable lines and events by reason."""

    attempts: list[LoggedAttempt] = field(default_factory=list)
    events: int = 0
    checkpoints: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


def read_condor_log(lines: Iterable[bytes], newest: float) -> CondorLog:
    """Read the attempts in a log; ``newest``: time of the file's last change, for stamps without a year.

    Stamps without a zone are in the local time of this process.
    """
    found = CondorLog()
    running: dict[str, tuple[str, float]] = {}
    for event in _events(lines, newest, found):
        found.events += 1
        if event.kind == EXECUTING:
            host = _host(event.lines)
            if host is None:
                found.skipped["no host in an execution event"] += 1
            elif len(running) < _MOST_RUNNING:
                running[event.job_id] = (host, event.time)
            else:
                found.skipped["too many jobs at once"] += 1
            continue
        if event.kind == CHECKPOINT:
            found.checkpoints += 1
            continue
        outcome = _outcome(event)
        if outcome is None:
            if event.kind == HELD:  # it leaves its machine, but by a policy of the job
                running.pop(event.job_id, None)
            continue
        place = running.pop(event.job_id, None)
        if place is None:
            if event.kind != ABORTED:  # an idle job may be removed
                found.skipped["end of an attempt without its start"] += 1
            continue
        host, start = place
        if event.time < start:
            found.skipped["attempt ends before it starts"] += 1
            continue
        found.attempts.append(LoggedAttempt(event.job_id, host, start, event.time, outcome))
    return found


def _events(lines: Iterable[bytes], newest: float, found: CondorLog) -> Iterator[LoggedEvent]:
    head: tuple[int, str, float] | None = None
    body: list[str] = []
    for raw in lines:
        if len(raw) > LONGEST_LINE:
            found.skipped["line too long"] += 1
            continue
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        match = _HEAD.fullmatch(line)
        if match is not None:
            if head is not None:
                found.skipped["event interrupted by another"] += 1
            head, body = _stamped(match, newest), [match[11]]
            if head is None:
                found.skipped["invalid time stamp"] += 1
        elif line == "...":
            if head is not None:
                yield LoggedEvent(*head, tuple(body))
            head = None
        elif head is not None and len(body) < _MOST_LINES:
            body.append(line)
        elif line.strip():
            found.skipped["line outside an event"] += 1
    if head is not None:
        found.skipped["truncated event"] += 1


def _stamped(match: re.Match[str], newest: float) -> tuple[int, str, float] | None:
    kind, job, process, year, month, day, hour, minute, second, zone = match.groups()[:10]
    last = datetime.fromtimestamp(newest, UTC)
    wanted = last.year if year is None else int(year)
    text = f"{wanted:04}-{month}-{day}T{hour}:{minute}:{second}"
    try:
        moment = datetime.fromisoformat(text + (zone or ""))
        time = moment.timestamp()
        if year is None and time > newest + 86_400.0:  # December, in a log last written in January
            time = moment.replace(year=wanted - 1).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return int(kind), f"{int(job)}.{int(process)}", time


def _host(lines: tuple[str, ...]) -> str | None:
    """Return the short host name of the slot, or of the machine's alias; else its address."""
    text = "\n".join(lines)
    named = _SLOT.search(text) or _ALIAS.search(lines[0])
    if named is not None:
        short = named[1].partition(".")[0] if not re.fullmatch(r"[0-9.:]+", named[1]) else named[1]
        return short if short.isprintable() and 0 < len(short) <= _LONGEST_HOST else None
    address = _ADDRESS.search(lines[0])
    return None if address is None else address[1]


def _outcome(event: LoggedEvent) -> JobEnd | None:
    """Return how the attempt ended; None for an event that does not end one."""
    text = "\n".join(event.lines)
    if event.kind == EVICTED:
        return "checkpointed" if "(1) Job was checkpointed" in text else "evicted"
    if event.kind == TERMINATED:
        returned = _RETURNED.search(text)
        return "success" if returned is not None and int(returned[1]) == 0 else "failed"
    if event.kind == ABORTED:
        return "user-failed"
    return {SHADOW: "requeued", LOST: "evicted"}.get(event.kind)  # type: ignore[return-value]


_AT_ONCE = 5000


def count_attempts(engine: Engine, cluster: str, attempts: Sequence[LoggedAttempt]) -> int:
    """Count the attempts, some thousand in a transaction; return how many were not counted before.

    Events fade by their age relative to the newest, so that an old log counts.
    """
    newest = max((attempt.end for attempt in attempts), default=0.0)
    return sum(_count(engine, cluster, some, newest) for some in pieces(attempts, _AT_ONCE))


def _count(engine: Engine, cluster: str, attempts: Sequence[LoggedAttempt], now: float) -> int:
    counted = 0
    runs = [(attempt, _run(cluster, attempt)) for attempt in attempts]
    with engine.begin() as connection:
        state = lock_reliability(connection)
        found = read_machines(connection, dict.fromkeys((cluster, attempt.host) for attempt in attempts))
        known = counted_before(connection, [run for _, run in runs], found)
        for attempt, run in runs:
            key = (cluster, attempt.host, run.job_id, run.start)
            if key in known:
                continue
            known.add(key)
            end: JobEnd = attempt.outcome
            if end == "failed":
                end = (ends_of(connection, run, found, set(), may_wait=False) or {})[attempt.host]
            count_end(found[cluster, attempt.host], run, end, now)
            counted += 1
        rows = list(found.values())
        learn(connection, state, rows)
        state.version += write_machines(connection, rows)
        write_reliability(connection, state)
    return counted


def _run(cluster: str, attempt: LoggedAttempt) -> JudgedRun:
    """Return the attempt as a run of a job without a user: the log names none."""
    job_id, status = f"condor {attempt.job_id}", int(attempt.outcome == "failed")
    nodes, end = {attempt.host: 1}, attempt.end
    return JudgedRun(cluster, job_id, attempt.start, end, "", "", nodes, False, status, recorded_at=end)
