"""The weekly mail: to users whose jobs leave most of their requested memory unused, with the line to paste and a list
of jobs that will run out; to administrators with the findings of *Start*.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf

from sqlalchemy import Connection, Engine, delete, insert, select

from jobsight_server.advice.words import lines_to_ask, scheduler_of
from jobsight_server.forecasts import AnswerReader
from jobsight_server.ground.amounts import memory_text, time_text
from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.mail.send import DeliveryError, send_mail
from jobsight_server.queries.node_states import Machines
from jobsight_server.queries.running import Foreseen, running_out
from jobsight_server.queries.start import start
from jobsight_server.savings.savings import Asking, SavingsRow
from jobsight_server.savings.sums.read import Days
from jobsight_server.savings.waste import DAYS_SHOWN, WASTE, WasteRow, newest_day, waste
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.schema import weekly_mails

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_USERS_AT_MOST = 10_000
_WARNINGS = 5  # lines about jobs that run out, in one mail


@dataclass(frozen=True, slots=True)
class DueMail:
    """One mail to a user, about one cluster, or to an administrator's address; ``week`` such as ``2026-W48``."""

    user: str
    address: str
    week: str
    subject: str
    text: str


def due_mails(
    connection: Connection, reader: AnswerReader, settings: Settings, now: float, machines: Machines | None = None
) -> Iterator[DueMail]:
    """Yield the unsent mails of this week: for each user the cluster with the most unused memory.

    Only users with a better request get one, if their name makes an address. Administrators get the findings of
    *Start*, if there are any.
    """
    wanted, week = settings.weekly_mail, _week(now)
    had = set(connection.scalars(select(weekly_mails.c.user).where(weekly_mails.c.week == week)))
    admins = [address for address in wanted.admins if address not in had]
    cards = start(connection, now, settings, machines).cards if admins else []
    lines = [
        f"- {_one_line((card.noun == 'user') * f'{card.name}: ' + each.text)}\n  {_one_line(each.action)}\n"
        for card in cards
        for each in card.findings
    ]
    for address in admins if lines else ():
        yield DueMail(address, address, week, f"Jobsight, {week}: {lines[0][2:].splitlines()[0]}", "\n".join(lines))
    if not wanted.domain:
        return
    had |= set(wanted.unsubscribed)
    for row, mail in _mails(connection, reader, settings, now):
        if row.name in had or (row.memory.unused_share or 0.0) <= wanted.share or not _NAME.fullmatch(row.name):
            continue
        had.add(row.name)
        yield mail


def preview(connection: Connection, reader: AnswerReader, settings: Settings, user: str, now: float) -> DueMail | None:
    """Return the mail that this user would get of the cluster with most to spare; None without a smaller request."""
    return next((mail for row, mail in _mails(connection, reader, settings, now) if row.name == user), None)


def _mails(
    connection: Connection, reader: AnswerReader, settings: Settings, now: float
) -> Iterator[tuple[WasteRow, DueMail]]:
    """Yield the mail about each user's jobs on each cluster where less should be requested, most unused first."""
    ending, week = running_out(connection, now), _week(now)
    asking = Asking(connection, reader)
    last = newest_day(connection) or 0
    found = waste(connection, asking, WASTE.asked(limit=_USERS_AT_MOST), Days(last - DAYS_SHOWN + 1, last))
    for row in found.rows:
        advice, share = row.memory_advice, row.memory.unused_share
        if advice is None or share is None or (advice.ask_for or inf) >= (advice.asked_for or 0.0):
            continue
        period = f"from {found.first_day} to {found.last_day}"
        now_out = [soon_out(each) for each in ending if (each.cluster, each.user) == (row.cluster, row.name)]
        text = _text(row, advice, period, _lines(asking, settings, advice), now_out)
        subject = f"Your jobs on {_one_line(row.cluster)} use {1.0 - share:.0%} of their memory"
        address = f"{row.name}@{settings.weekly_mail.domain or 'DOMAIN'}"
        yield row, DueMail(row.name, address, week, subject, text)


def _week(now: float) -> str:
    return f"{datetime.fromtimestamp(now, UTC):%G-W%V}"


def send_due(
    engine: Engine, reader: AnswerReader, settings: Settings, now: float, machines: Machines | None = None
) -> tuple[int, int]:
    """Send the mails; return how many arrived and how many failed. Failed ones are sent again next time.

    A mail is noted before sending: if the server is killed between the two, it is lost, not doubled.
    """
    with engine.connect().execution_options(reading=True) as connection:
        due = list(due_mails(connection, reader, settings, now, machines))
    failed = 0
    for mail in due:
        note = {"user": mail.user, "week": mail.week}
        with engine.begin() as connection:
            connection.execute(insert(weekly_mails).values(note))
        try:
            send_mail(settings.mail, [mail.address], mail.subject, mail.text)
        except DeliveryError as error:
            failed += 1
            with engine.begin() as connection:
                this = (weekly_mails.c.user == mail.user, weekly_mails.c.week == mail.week)
                connection.execute(delete(weekly_mails).where(*this))
                add_event_counts(connection, Counter({("mails_failed", str(error)): 1}))
    return len(due) - failed, failed


def _text(row: WasteRow, advice: SavingsRow, period: str, lines: list[str], now_out: list[str]) -> str:
    script = "".join(f"\n    {line}" for line in lines)
    warning = "".join(f"{_one_line(line)}.\n" for line in now_out[:_WARNINGS])
    if len(now_out) > _WARNINGS:
        warning += f"And {len(now_out) - _WARNINGS} more.\n"
    return (
        f"Your {row.memory.jobs} jobs on {_one_line(row.cluster)} {period} left {row.memory.unused_share:.0%} of the "
        f"memory that they requested unused ({row.memory.unused_hours:.0f} GiB-hours).\n\n"
        f"A job like {_one_line(advice.like_job or '')} requested {memory_text(advice.asked_for or 0)} and should "
        f"request {memory_text(advice.ask_for or 0)}. Paste this into its script:\n{script}\n\n"
        f"{warning}This mail comes at most once a week. To get no more, ask your administrators.\n"
    )


def _lines(asking: Asking, settings: Settings, row: SavingsRow) -> list[str]:
    """Return the memory to request in the syntax of the cluster's scheduler, or of several if it is unknown."""
    found = asking.of(row.cluster, row.user, row.application)
    if found is None:
        return []
    like, advice = found
    scheduler = scheduler_of(asking.connection, settings.accounting, row.cluster)
    lines = lines_to_ask(advice, scheduler, like, ["memory"])
    return [line for script in lines for line in script.text.splitlines()]


def soon_out(each: Foreseen) -> str:
    """Return a sentence with the job that will run out, or has, of which resource."""
    job = f"Job {each.job_id} of {each.user} on {each.cluster}"
    if each.limit is not None and each.used > each.limit:
        since = f" for {time_text(each.used - each.limit)}" if each.resource == "time" else ""
        return f"{job} is over its limit of {each.resource}{since}, which the scheduler has not enforced"
    chance = "" if each.soon is None else f" with a chance of {each.soon:.0%} within the hour"
    return f"{job} runs out of {each.resource}{chance}"


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
