"""Alarms that are active, and how their messages fared."""

from __future__ import annotations

from sqlalchemy import Connection, select

from jobsight_server.queries.rejected import EventCount
from jobsight_server.record import Record
from jobsight_server.storage.event_counts import read_event_counts
from jobsight_server.storage.schema import alarms

LISTED = 1000


class ActiveAlarm(Record):
    """``subject``, such as CLUSTER/NODE, is wrong ``since``; ``is_sent``: its beginning was delivered, if to anyone."""

    rule: str
    kind: str
    subject: str
    detail: str
    since: float
    is_sent: bool


class Alarms(Record):
    """The first 1,000 active alarms, newest first, of ``active``; messages delivered and failed by rule and reason."""

    now: float
    active: int
    alarms: list[ActiveAlarm]
    sent: list[EventCount]
    failed: list[EventCount]


def active_alarms(connection: Connection, now: float) -> Alarms:
    query = select(alarms).where(alarms.c.ended.is_(None)).order_by(alarms.c.since.desc(), alarms.c.subject)
    rows = connection.execute(query).all()
    counts = read_event_counts(connection)
    sent, failed = (
        [EventCount(name, label, value) for (name, label), value in counts.items() if name == wanted]
        for wanted in ("alarm_messages_sent", "alarm_messages_failed")
    )
    listed = [
        ActiveAlarm(row.rule, row.kind, row.subject, row.detail, row.since, row.begin_sent) for row in rows[:LISTED]
    ]
    return Alarms(now, len(rows), listed, sent, failed)
