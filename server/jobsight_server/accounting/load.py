"""Loads a chunk of lines: parses it, and stores records, rejects and event counts in one transaction.

Event counts, each committed with its rows:

- ``accounting_lines``: lines read, by kind of record, or ``rejected``; the sum over all labels is the lines read
- ``accounting_rejected_because``: the rejected lines again, by reason
- ``accounting_outcomes``: outcomes of S, E, R, D and A records, as ``KIND outcome``; for each kind the sum over its
  outcomes is its ``accounting_lines``
- ``accounting_facts_dropped``: facts of jobs that are not usable numbers, or too many
- ``accounting_files``: ``read again`` if a file's content had changed since it was read
- ``accounting_unreadable``: failed attempts to read a file or directory, by cause

A file that is read again is counted again; its rows stay as they are.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from jobsight_server.accounting.clock_offset import ClockOffset
from jobsight_server.accounting.files import Chunk, RecordReader
from jobsight_server.accounting.runs import AccountingError, JobEvent
from jobsight_server.accounting.store import Reject, apply_each, keep_rejects
from jobsight_server.ground.event_counts import add_event_counts

UNSTORABLE = "the database cannot store it"
"""Reason of a record that was parsed, but that the database refuses."""


@dataclass(slots=True)
class LoadReport:
    """The result of reading: lines by kind, rejected lines by reason, outcomes by (kind, outcome), unreadable paths.

    ``files`` counts the opened ones; the sum of ``kinds`` and ``rejected`` is ``lines``.
    """

    files: int = 0
    lines: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    unreadable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParsedChunk:
    """The records and the rejects of a chunk, each in order; ``first`` is the number of the first of them."""

    events: Sequence[JobEvent]
    rejects: Sequence[Reject]
    first: int = 1


def parse_chunk(chunk: Chunk, records_before: int, reader: RecordReader, clock_offset: ClockOffset) -> ParsedChunk:
    """Parse a chunk whose first record is number ``records_before`` + 1 of its file."""
    events: list[JobEvent] = []
    rejects: list[Reject] = []
    for number, record in enumerate(chunk.records, records_before + 1):
        try:
            events.append(reader.event(record))
        except AccountingError as error:
            rejects.append(Reject(number, error.reason, str(error), record.data))
    for event in events:  # the first that shows the offset gives that of earlier ones, too
        if not clock_offset.known:
            clock_offset.learn(event)
    return ParsedChunk([clock_offset.stamped(event) for event in events], rejects, records_before + 1)


def store_chunk(
    connection: Connection, cluster: str, path: str, parsed: ParsedChunk, now: float, report: LoadReport
) -> dict[tuple[str, str], int]:
    """Store a chunk and its event counts in the caller's transaction, and add it to ``report``; return the counts."""
    outcomes, refused = apply_each(connection, cluster, parsed.events, now)
    rejects = [*parsed.rejects, *_unstorable(parsed, refused)]
    kinds = Counter(event.kind for event in parsed.events) - Counter(event.kind for event in refused)
    reasons = Counter(reject.label for reject in rejects)
    keep_rejects(connection, cluster, path, rejects)
    counts = {("accounting_lines", kind): n for kind, n in kinds.items()}
    counts["accounting_lines", "rejected"] = len(rejects)
    counts |= {("accounting_rejected_because", reason): n for reason, n in reasons.items()}
    counts |= {("accounting_outcomes", f"{kind} {outcome}"): n for (kind, outcome), n in outcomes.items()}
    if dropped := sum(event.run.dropped_facts for event in parsed.events if event.run is not None):
        counts["accounting_facts_dropped", ""] = dropped
    add_event_counts(connection, counts)
    report.lines += len(parsed.events) + len(parsed.rejects)
    report.kinds += kinds
    report.rejected += reasons
    report.outcomes += outcomes
    return counts


def _unstorable(parsed: ParsedChunk, refused: Sequence[JobEvent]) -> list[Reject]:
    """Return a reject for each refused record, by the numbers that the others of the chunk leave free."""
    if not refused:
        return []
    taken = {reject.line for reject in parsed.rejects}
    free = (number for number in itertools.count(parsed.first) if number not in taken)
    numbers = {id(event): number for event, number in zip(parsed.events, free, strict=False)}
    return [
        Reject(numbers[id(event)], UNSTORABLE, f"job {event.job_id[:80]}: {UNSTORABLE}", repr(event.run).encode())
        for event in refused
    ]
