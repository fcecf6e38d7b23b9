"""Reports of resources on their machines' owners, until ranks take them in: all that the two systems share."""

from __future__ import annotations

from sqlalchemy import Connection, insert

from jobsight_server.storage.schema import owner_reports


def report_owner(connection: Connection, cluster: str | None, name: str, present: bool, time: float) -> None:
    """Keep a report that the machine's owner came or left at ``time`` for the next round of ranks.

    ``cluster`` None: the cluster of the one machine with this name.
    """
    connection.execute(insert(owner_reports).values(cluster=cluster or "", name=name, present=present, time=time))
