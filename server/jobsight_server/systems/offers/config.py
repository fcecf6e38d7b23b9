"""How a site sells places: on which nodes, by which rule, at which risk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlalchemy import Connection, func, select

from jobsight_predictor.runtime.success import MachineFailure
from jobsight_scheduler.overbooking.accept import RULES, AcceptanceRule
from jobsight_server.settings import Settings
from jobsight_server.storage.schema import nodes
from jobsight_server.systems.offers.settings import MOST_NODES, OffersSettings, PlanStrategy, cluster_and_nodes


@dataclass(frozen=True, slots=True)
class PlanConfig:
    """``nodes`` are those of the clusters for which they are set.

    A place is offered if the job is less likely than ``max_failure`` not to end in it; ``hold_s`` is how long an offer
    waits to be confirmed. The penalty is ``penalty_ratio`` times the charge.
    """

    strategy: PlanStrategy = "jobsight"
    max_failure: float = 0.1
    penalty_ratio: float = 1.0
    machine: MachineFailure = field(default_factory=MachineFailure)
    hold_s: float = 600.0
    kept: int = 100_000
    nodes: Mapping[str, int] = field(default_factory=dict)

    @property
    def overbooks(self) -> bool:
        """Whether places may be shorter than what jobs request."""
        return self.strategy != "conservative"

    @property
    def rule(self) -> AcceptanceRule:
        """The rule of the strategy, as the experiments tested it."""
        return replace(RULES[self.strategy], pmax=self.max_failure)


def plan_config(settings: Settings) -> PlanConfig:
    """The configuration from the settings."""
    offers = settings.section(OffersSettings)
    return PlanConfig(
        strategy=offers.strategy,
        max_failure=offers.max_failure,
        penalty_ratio=offers.penalty_ratio,
        machine=MachineFailure(offers.failures_per_hour, offers.repairs_per_hour),
        hold_s=offers.hold_s,
        kept=offers.kept,
        nodes=dict(map(cluster_and_nodes, offers.nodes)),
    )


NodesFrom = Literal["setting", "agents"]


def cluster_nodes(connection: Connection, config: PlanConfig, cluster: str) -> tuple[int, NodesFrom]:
    """The number, by the settings or else that of nodes known from agents, and which of the two it is."""
    if (known := config.nodes.get(cluster)) is not None:
        return known, "setting"
    found = connection.scalar(select(func.count()).select_from(nodes).where(nodes.c.cluster == cluster)) or 0
    return min(found, MOST_NODES), "agents"
