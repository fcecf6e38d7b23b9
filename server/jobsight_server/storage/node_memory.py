"""The memory of each cluster's largest node: no job has more on one of its nodes."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from jobsight_server.storage.schema import nodes


def memory_of_largest_nodes(connection: Connection) -> dict[str, int]:
    """Bytes by cluster; clusters whose agents report none are left out."""
    query = select(nodes.c.cluster, func.max(nodes.c.memory_total_bytes)).group_by(nodes.c.cluster)
    return {cluster: most for cluster, most in connection.execute(query) if most}
