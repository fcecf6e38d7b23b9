"""A site's configuration of offers: nodes, rule and risk."""

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
    """``nodes`` by cluster, where they are set.

    A time slot is offered if the probability that the job does not end in it is below ``max_failure``. An offer waits
    ``hold_s`` for its confirmation. The penalty is ``penalty_ratio`` times the charge.
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
        """Whether time slots may be shorter than the requested time."""
        return self.strategy != "conservative"

    @property
    def rule(self) -> AcceptanceRule:
        """Return the rule of the strategy, as the experiments tested it."""
        return replace(RULES[self.strategy], pmax=self.max_failure)


def plan_config(settings: Settings) -> PlanConfig:
    """Return the configuration from the settings."""
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
    """Return the number of nodes and its source: the settings, or else the nodes with agents."""
    if (known := config.nodes.get(cluster)) is not None:
        return known, "setting"
    found = connection.scalar(select(func.count()).select_from(nodes).where(nodes.c.cluster == cluster)) or 0
    return min(found, MOST_NODES), "agents"
