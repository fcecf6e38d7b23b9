"""Alarms begin, end and are sent: each at its beginning and at its end.

What is active and what was sent are stored. A message is sent before it is noted, so that a server that is killed
between the two sends it again: at least once, and by ``id`` the receiver knows that it is the same.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, Row, and_, delete, insert, select, tuple_, update

from jobsight_server.alarms.conditions import conditions, record_rejected
from jobsight_server.alarms.deliver import DeliveryError, call, send_mail
from jobsight_server.settings import Settings
from jobsight_server.settings.alarms import AlarmRule
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.storage.schema import alarms

log = logging.getLogger(__name__)

EVERY_S = 60.0
_IN_A_MESSAGE = 100
_AT_ONCE = 500


def check_alarms(engine: Engine, settings: Settings, now: float) -> bool:
    """One round: what began and ended, and its messages; whether everything was delivered.

    If a receiver fails, the rest of its rule waits for the next round.
    """
    with engine.begin() as connection:
        record_rejected(connection, now)
    found: dict[tuple[str, str], tuple[str, str]] = {}
    with engine.connect().execution_options(reading=True) as connection:
        for rule in settings.alarms:
            for subject, detail in conditions(connection, rule, now).items():
                found[rule.key, subject] = rule.kind, detail
    with engine.begin() as connection:
        _note(connection, found, {rule.key for rule in settings.alarms}, now)
    delivered = [_send(engine, settings, rule) for rule in settings.alarms]
    if settings.watchdog.url and all(delivered):
        try:
            call("GET", settings.watchdog.url)
        except DeliveryError as error:
            _count(engine, {("alarm_messages_failed", f"watchdog: {error}"): 1})
    return all(delivered)


def _note(connection: Connection, found: dict[tuple[str, str], tuple[str, str]], rules: set[str], now: float) -> None:
    """Stores what began and what ended; alarms of rules that are gone are forgotten."""
    connection.execute(delete(alarms).where(alarms.c.rule.not_in(rules)))
    known = {(row.rule, row.subject): row for row in connection.execute(select(alarms))}
    new = [
        {"rule": rule, "subject": subject, "kind": kind, "detail": detail, "since": now, "begin_sent": False}
        for (rule, subject), (kind, detail) in found.items()
        if (rule, subject) not in known
    ]
    if new:
        connection.execute(insert(alarms), new)
    for key, row in known.items():
        this = and_(alarms.c.rule == key[0], alarms.c.subject == key[1])
        if key not in found and row.ended is None:
            connection.execute(update(alarms).where(this).values(ended=now))
        elif key in found and (row.ended is not None or row.detail != found[key][1]):
            # Its end was not sent yet: it goes on.
            connection.execute(update(alarms).where(this).values(ended=None, detail=found[key][1]))


def _send(engine: Engine, settings: Settings, rule: AlarmRule) -> bool:
    """Sends what is due of one rule; whether nothing failed."""
    due = alarms.c.begin_sent.is_(False) | alarms.c.ended.is_not(None)
    with engine.connect().execution_options(reading=True) as connection:
        query = select(alarms).where(alarms.c.rule == rule.key, due).order_by(alarms.c.since, alarms.c.subject)
        rows = connection.execute(query.limit(_AT_ONCE)).all()
    for first in range(0, len(rows), _IN_A_MESSAGE):
        some = rows[first : first + _IN_A_MESSAGE]
        events = [event for row in some for event in _events(row)]
        try:
            _deliver(settings, rule, events)
        except DeliveryError as error:
            log.warning("alarms of rule %s were not delivered: %s; trying again", rule.key, error)
            _count(engine, {("alarm_messages_failed", f"{rule.key}: {error}"): 1})
            return False
        with engine.begin() as connection:
            _sent(connection, some)
            if rule.webhook or rule.mail:
                add_event_counts(connection, Counter({("alarm_messages_sent", rule.key): 1}))
    return True


def _events(row: Row[Any]) -> list[dict[str, Any]]:
    """The beginning, the end or both of one alarm."""
    said = {"subject": row.subject, "detail": row.detail, "since": row.since}
    begin = {"event": "begin", "id": f"{row.rule}/{row.subject}/{row.since:.0f}/begin", **said}
    end = {"event": "end", "id": f"{row.rule}/{row.subject}/{row.since:.0f}/end", **said, "ended": row.ended}
    return [*([] if row.begin_sent else [begin]), *([] if row.ended is None else [end])]


def _deliver(settings: Settings, rule: AlarmRule, events: list[dict[str, Any]]) -> None:
    if rule.webhook:
        body = {"rule": rule.key, "kind": rule.kind, "alarms": events}
        call("POST", rule.webhook, msgspec.json.encode(body))
    elif rule.mail:
        began = sum(event["event"] == "begin" for event in events)
        lines = [f"{event['event']}: {event['subject']}: {event['detail']}" for event in events]
        subject = f"Jobsight: {rule.key}: {began} began, {len(events) - began} ended"
        send_mail(settings.mail, rule.mail, subject, "\n".join(map(_one_line, lines)) + "\n")


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


def _sent(connection: Connection, rows: Sequence[Row[Any]]) -> None:
    ended = [(row.rule, row.subject) for row in rows if row.ended is not None]
    begun = [(row.rule, row.subject) for row in rows if row.ended is None]
    key = tuple_(alarms.c.rule, alarms.c.subject)
    if ended:
        connection.execute(delete(alarms).where(key.in_(ended)))
    if begun:
        connection.execute(update(alarms).where(key.in_(begun)).values(begin_sent=True))


def _count(engine: Engine, counts: dict[tuple[str, str], int]) -> None:
    with engine.begin() as connection:
        add_event_counts(connection, Counter(counts))
