"""How many nodes of a cluster places are sold on."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import Connection, func, select

from jobsight_server.storage.schema import nodes
from jobsight_server.systems.offers.config import PlanConfig
from jobsight_server.systems.offers.settings import MOST_NODES

NodesFrom = Literal["setting", "agents"]


def cluster_nodes(connection: Connection, config: PlanConfig, cluster: str) -> tuple[int, NodesFrom]:
    """The number, by the settings or else that of nodes known from agents, and which of the two it is."""
    if (known := config.nodes.get(cluster)) is not None:
        return known, "setting"
    found = connection.scalar(select(func.count()).select_from(nodes).where(nodes.c.cluster == cluster)) or 0
    return min(found, MOST_NODES), "agents"
