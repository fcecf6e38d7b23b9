"""Jobs, users, applications, accounts and nodes of a name, or of names that begin with it."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import Connection, select

from jobsight_server.ground.answers import Record
from jobsight_server.queries.job_named import named_or_task
from jobsight_server.storage.engine import begins
from jobsight_server.storage.schema import jobs, nodes, savings_groups

LISTED = 20

Kind = Literal["job", "user", "application", "account", "node"]


class Found(Record):
    """Something of this name; applications and accounts may be on several clusters."""

    kind: Kind
    name: str
    cluster: str | None


class FoundList(Record):
    """What is called ``text``, or else begins with it: at most 20 of each kind."""

    text: str
    found: list[Found]


def find(connection: Connection, text: str, user: str | None = None) -> FoundList:
    """Look for a job's id or array, and for names; of ``user`` only that user's jobs, applications and accounts."""
    if not text:
        return FoundList(text, [])
    own = [] if user is None else [jobs.c.user == user]
    of_job = select(jobs.c.cluster).where(named_or_task(connection, text), *own).distinct().order_by(jobs.c.cluster)
    found = [Found("job", text, cluster) for cluster in connection.scalars(of_job)]
    groups = savings_groups.c
    own = [] if user is None else [groups.user == user]
    kinds: tuple[Kind, ...] = ("application", "account") if user is not None else ("user", "application", "account")
    for kind in kinds:
        columns = (groups[kind], groups.cluster) if kind == "user" else (groups[kind],)
        names = select(*columns).where(begins(connection, groups[kind], text), *own).distinct().order_by(*columns)
        found += [
            Found(kind, row[0], row[1] if kind == "user" else None) for row in connection.execute(names.limit(LISTED))
        ]
    if user is None:
        names = (
            select(nodes.c.name, nodes.c.cluster).where(begins(connection, nodes.c.name, text)).order_by(nodes.c.name)
        )
        found += [Found("node", name, cluster) for name, cluster in connection.execute(names.limit(LISTED))]
    exact = [each for each in found if each.name == text]
    return FoundList(text, exact or found)
