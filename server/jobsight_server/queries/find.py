"""Jobs, users, applications, accounts and nodes of a name, or of names that begin with it."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import Connection, func, select

from jobsight_server.ground.answers import Record
from jobsight_server.queries.job_named import named_or_task
from jobsight_server.queries.nodes import node_clusters
from jobsight_server.storage.engine import begins
from jobsight_server.storage.schema import job_nodes, jobs, nodes, savings_groups

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
        named = connection.execute(names.limit(LISTED)).mappings()
        found += [Found(kind, row[kind], row.get("cluster")) for row in named]
    if user is None:
        found += _nodes(connection, text)
    exact = [each for each in found if each.name == text]
    return FoundList(text, exact or found)


def _nodes(connection: Connection, text: str) -> list[Found]:
    """Return the nodes that sent samples or that logs name; once where the log has the full name."""
    sent = select(nodes.c.name, nodes.c.cluster).where(begins(connection, nodes.c.name, text)).order_by(nodes.c.name)
    found = {(name, cluster) for name, cluster in connection.execute(sent.limit(LISTED))}
    of_log = select(func.min(job_nodes.c.node))
    name = connection.scalar(of_log.where(job_nodes.c.node >= text))
    while name is not None and name.startswith(text) and len(found) < LISTED:  # a look-up each: runs are many
        of_run = select(jobs.c.cluster).join(job_nodes, job_nodes.c.run_id == jobs.c.id).where(job_nodes.c.node == name)
        for cluster in node_clusters(connection, name) if name == text else connection.scalars(of_run.limit(1)):
            if (name.partition(".")[0], cluster) not in found:
                found.add((name, cluster))
        name = connection.scalar(of_log.where(job_nodes.c.node > name))
    return [Found("node", name, cluster) for name, cluster in sorted(found)]
