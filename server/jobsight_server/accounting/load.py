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

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from jobsight_server.accounting.clock_offset import REMEMBERED, ClockOffset, offset_s
from jobsight_server.accounting.files import Chunk, RawRecord, RecordReader
from jobsight_server.accounting.runs import AccountingError, JobEvent
from jobsight_server.accounting.store import Reject, apply_events, keep_rejects
from jobsight_server.storage.event_counts import add_event_counts


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
    """The records and the rejects of a chunk, each in order."""

    events: Sequence[JobEvent]
    rejects: Sequence[Reject]


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
    return ParsedChunk([clock_offset.stamped(event) for event in events], rejects)


def learn_zone(before: bytes, reader: RecordReader, clock_offset: ClockOffset) -> None:
    """Let the clock learn from lines read earlier: the last few that show the zone."""
    showing: list[JobEvent] = []
    for data in reversed(before.splitlines()):
        try:
            event = reader.event(RawRecord(data, len(data)))
        except AccountingError:
            continue  # counted when it is read, or only the end of a line
        if offset_s(event) is not None:
            showing.append(event)
            if len(showing) == REMEMBERED:
                break
    for event in reversed(showing):
        clock_offset.learn(event)


def store_chunk(
    connection: Connection, cluster: str, path: str, parsed: ParsedChunk, now: float, report: LoadReport
) -> dict[tuple[str, str], int]:
    """Store a chunk and its event counts in the caller's transaction, and add it to ``report``; return the counts."""
    kinds = Counter(event.kind for event in parsed.events)
    reasons = Counter(reject.label for reject in parsed.rejects)
    outcomes = apply_events(connection, cluster, parsed.events, now)
    keep_rejects(connection, cluster, path, parsed.rejects)
    counts = {("accounting_lines", kind): n for kind, n in kinds.items()}
    counts["accounting_lines", "rejected"] = len(parsed.rejects)
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
