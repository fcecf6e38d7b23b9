"""What was forecast for runs that have not ended yet, as it stood when they were submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import Connection, bindparam, delete, select, text

from jobsight_predictor.ticket import Ticket
from jobsight_server.storage.fetch import write_many
from jobsight_server.storage.schema import tickets

TicketKey = tuple[int, str]
"""Run and metric."""

_AT_ONCE = 500

# Removed, requeued, or learned by `rebuild` meanwhile: nobody will score these.
_SWEEP = text(
    "DELETE FROM tickets WHERE run_id IN (SELECT t.run_id FROM tickets t JOIN jobs j ON j.id = t.run_id "
    "WHERE j.profiled = :yes OR j.state NOT IN ('running', 'ended'))"
)
_encode = msgspec.json.Encoder().encode


def read_tickets(connection: Connection, runs: Sequence[int]) -> dict[TicketKey, Ticket]:
    """The tickets of these runs."""
    found: dict[TicketKey, Ticket] = {}
    query = select(tickets).where(tickets.c.run_id.in_(bindparam("runs", expanding=True)))
    for begin in range(0, len(runs), _AT_ONCE):
        for run_id, metric, state in connection.execute(query, {"runs": list(runs[begin : begin + _AT_ONCE])}):
            found[run_id, metric] = Ticket.from_state(msgspec.json.decode(state))
    return found


def write_tickets(connection: Connection, new: Mapping[TicketKey, Ticket]) -> None:
    """Stores tickets of runs that have none yet."""
    rows = [(run_id, metric, _encode(ticket.state()).decode()) for (run_id, metric), ticket in new.items()]
    write_many(connection, "INSERT INTO tickets (run_id, metric, state) VALUES (?, ?, ?)", rows)


def delete_tickets(connection: Connection, runs: Sequence[int]) -> None:
    """Those of runs that were learned, and of runs that will never be."""
    query = delete(tickets).where(tickets.c.run_id.in_(bindparam("runs", expanding=True)))
    for begin in range(0, len(runs), _AT_ONCE):
        connection.execute(query, {"runs": list(runs[begin : begin + _AT_ONCE])})
    connection.execute(_SWEEP, {"yes": True})
