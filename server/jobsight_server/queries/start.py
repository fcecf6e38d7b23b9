"""What a week's start should decide: cards of findings, the dearest first, each about one user, node or cluster."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain

from sqlalchemy import Connection, delete, insert, select

from jobsight_server.ground.answers import Record
from jobsight_server.queries.findings import Finding, FindingsSite, Noun, Subject, site_of
from jobsight_server.queries.node_findings import node_findings
from jobsight_server.queries.node_states import Machines
from jobsight_server.queries.user_findings import user_findings
from jobsight_server.savings.sums.kept import as_date
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.schema import muted_findings

SHOWN = 7
"""Cards on the page and in the mail."""
MUTED_DAYS_AT_MOST = 365


class Card(Record):
    """The findings about one user, node or cluster, or about the site, the dearest first; known by its ``key``.

    ``node_hours``: their cost in a week, null if unknown. ``message``: a text to send to the user. Muted cards say
    until when and why.
    """

    key: str
    noun: Noun
    cluster: str
    name: str
    node_hours: float | None
    findings: list[Finding]
    message: str | None
    muted_until: float | None = None
    muted_reason: str | None = None


class Start(Record):
    """The dearest ``cards``, ``more`` others, and the muted ones. Costs are in nodes of ``node_processors`` and
    ``node_gib`` of memory: the mean of the nodes with agents, else ``assumed``."""

    now: float
    cards: list[Card]
    more: int
    muted: list[Card]
    node_processors: float
    node_gib: float
    assumed: bool


def start(connection: Connection, now: float, settings: Settings, machines: Machines | None = None) -> Start:
    """Return the cards, those with the largest cost first, unknown costs last."""
    site = site_of(connection, now)
    of_subject: dict[Subject, list[Finding]] = defaultdict(list)
    for subject, finding in chain(user_findings(site, settings), node_findings(site, machines)):
        of_subject[subject].append(finding)
    cards = sorted(
        (_card(site, subject, found) for subject, found in of_subject.items()),
        key=lambda card: (card.node_hours is None, -(card.node_hours or 0.0), card.key),
    )
    mutes = {row.key: row for row in connection.execute(select(muted_findings).where(muted_findings.c.until > now))}
    shown, muted = [card for card in cards if card.key not in mutes], [card for card in cards if card.key in mutes]
    for card in muted:
        card.muted_until, card.muted_reason = mutes[card.key].until, mutes[card.key].reason
    return Start(now, shown[:SHOWN], len(shown[SHOWN:]), muted, site.processors, site.gib, site.assumed)


def _card(site: FindingsSite, subject: Subject, found: list[Finding]) -> Card:
    noun, cluster, name = subject
    costs = [each.node_hours for each in found if each.node_hours is not None]
    found.sort(key=lambda each: -(each.node_hours or 0.0))
    return Card(
        key=" ".join(filter(None, (noun, cluster, name if name != cluster else ""))),
        noun=noun,
        cluster=cluster,
        name=name,
        node_hours=sum(costs) if costs else None,
        findings=found,
        message=_message(site, cluster, name, found),
    )


def _message(site: FindingsSite, cluster: str, user: str, found: list[Finding]) -> str | None:
    """Return what to write to the user; None without anything to ask."""
    lines = [each.to_user for each in found if each.to_user is not None]
    if not lines or site.days is None:
        return None
    days = f"from {as_date(site.days.first)} to {as_date(site.days.last)}"
    points = "\n".join(f"- {line}" for line in lines)
    return f"Dear {user},\n\nplease have a look at your jobs on {cluster} {days}:\n{points}\n"


def mute(connection: Connection, key: str, until: float, reason: str) -> None:
    """Leave out a card until a time; one in the past shows it again."""
    connection.execute(delete(muted_findings).where(muted_findings.c.key == key))
    connection.execute(insert(muted_findings).values(key=key, until=until, reason=reason))
