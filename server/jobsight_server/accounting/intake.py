"""From a portion of lines to rows: parses them, and stores records, rejects and tallies in one transaction.

Tallies, each committed with what it counts:

- ``accounting_lines``: lines read, by kind of record, or ``rejected``; the sum over all labels is the lines read
- ``accounting_rejected_because``: the rejected lines again, by reason
- ``accounting_outcomes``: what came of S, E, R, D and A records, as ``KIND outcome``; for each kind the sum over
  its outcomes is its ``accounting_lines``
- ``accounting_files``: ``read again`` where a file was not what had been read of it before
- ``accounting_unreadable``: failed attempts to read a file or directory, by cause

A file that is read again is counted again; its rows stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection

from jobsight_server.accounting.lines import LONGEST_LINE, Portion, RawLine
from jobsight_server.accounting.record import AccountingError, JobEvent
from jobsight_server.accounting.rejects import Reject, keep_rejects
from jobsight_server.accounting.stamps import REMEMBERED, ServerClock, shows_zone
from jobsight_server.accounting.store import StampedEvent, apply_events
from jobsight_server.accounting.torque import parse_line
from jobsight_server.storage.tallies import add_tallies

Parse = Callable[[str], JobEvent]

# A parser per format of ``settings.AccountingSource``.
PARSERS: Mapping[str, Parse] = {"torque": parse_line}
CUT = "cut off: the file ends within the line"


@dataclass(slots=True)
class FollowReport:
    """What reading did: lines by kind, rejected lines by reason, outcomes by (kind, outcome), unreadable paths.

    ``files`` counts those that were opened; the sum of ``kinds`` and ``rejected`` is ``lines``.
    """

    files: int = 0
    lines: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    unreadable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The records and the rejects of a portion, each in order."""

    events: tuple[StampedEvent, ...]
    rejects: tuple[Reject, ...]


def event_of(line: RawLine, parse: Parse) -> JobEvent:
    """The event of a line.

    Raises:
        AccountingError: there is none in it.
    """
    if line.too_long:
        raise AccountingError(f"longer than {LONGEST_LINE} bytes")
    if not line.complete:
        raise AccountingError(CUT)
    try:
        text = line.data.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError:
        raise AccountingError("not UTF-8 text") from None
    return parse(text)


def parse_portion(portion: Portion, lines_before: int, parse: Parse, server_clock: ServerClock) -> Parsed:
    """Parses a portion, of which the first line is number ``lines_before`` + 1 of its file."""
    events: list[JobEvent] = []
    rejects: list[Reject] = []
    for number, line in enumerate(portion.lines, lines_before + 1):
        try:
            events.append(event_of(line, parse))
        except AccountingError as error:
            rejects.append(Reject(number, error.reason, str(error), line.data))
    server_clock.learn_first(events)
    stamped = []
    for event in events:
        server_clock.learn(event)
        stamped.append(StampedEvent(event, server_clock.utc(event.local_s), server_clock.known))
    return Parsed(tuple(stamped), tuple(rejects))


def learn_zone(before: bytes, parse: Parse, server_clock: ServerClock) -> None:
    """Lets the clock learn from lines that were taken in earlier: the last few that show the zone."""
    showing: list[JobEvent] = []
    for data in reversed(before.splitlines()):
        try:
            event = event_of(RawLine(data, len(data)), parse)
        except AccountingError:
            continue  # counted when it was its turn, or only the end of a line
        if shows_zone(event):
            showing.append(event)
            if len(showing) == REMEMBERED:
                break
    for event in reversed(showing):
        server_clock.learn(event)


def store(
    connection: Connection, cluster: str, path: str, parsed: Parsed, now: float, report: FollowReport
) -> dict[tuple[str, str], int]:
    """Stores a portion and its tallies in the caller's transaction, and adds it to ``report``; returns the tallies."""
    kinds = Counter(stamped.event.kind for stamped in parsed.events)
    reasons = Counter(reject.label for reject in parsed.rejects)
    outcomes = apply_events(connection, cluster, parsed.events, now)
    keep_rejects(connection, cluster, path, parsed.rejects)
    counts = {("accounting_lines", kind): n for kind, n in kinds.items()}
    counts["accounting_lines", "rejected"] = len(parsed.rejects)
    counts |= {("accounting_rejected_because", reason): n for reason, n in reasons.items()}
    counts |= {("accounting_outcomes", f"{kind} {outcome}"): n for (kind, outcome), n in outcomes.items()}
    add_tallies(connection, counts)
    report.lines += len(parsed.events) + len(parsed.rejects)
    report.kinds += kinds
    report.rejected += reasons
    report.outcomes += outcomes
    return counts
