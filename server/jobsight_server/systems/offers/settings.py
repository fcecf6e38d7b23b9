"""Settings of offers."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, get_args

from jobsight_server.settings.declared import Section, check_cluster_name, setting

MOST_NODES = 100_000
PlanStrategy = Literal["release", "jobsight"]


def cluster_and_nodes(value: str) -> tuple[str, int]:
    """Parse ``CLUSTER=NODES``, a cluster and its number of nodes.

    Raises:
        ValueError: it has another form.
    """
    cluster, equals, nodes = value.rpartition("=")
    if not (equals and nodes.isascii() and nodes.isdigit() and 1 <= int(nodes[:9]) <= MOST_NODES and len(nodes) < 9):
        raise ValueError(f"{value!r} is not CLUSTER=NODES with 1 to {MOST_NODES} nodes")
    check_cluster_name(cluster)
    return cluster, int(nodes)


class OffersSettings(Section, frozen=True, kw_only=True):
    """The table ``[offers]``."""

    SECTION: ClassVar[str] = "offers"

    nodes: Annotated[
        tuple[str, ...],
        setting(
            "nodes of each cluster's plan, as CLUSTER=NODES (default: those with agents)",
            metavar="NODES",
            check=cluster_and_nodes,
        ),
    ] = ()
    strategy: Annotated[
        PlanStrategy, setting(f"rule for offers: {', '.join(get_args(PlanStrategy))}", metavar="NAME")
    ] = "release"
    max_failure: Annotated[
        float,
        setting(
            "offer a time slot if the probability that the job does not end in it is below this",
            metavar="FRACTION",
            gt=0,
            le=1,
        ),
    ] = 0.1

    penalty_ratio: float = 1.0  # of a job that fails, as a multiple of its charge
    failures_per_hour: float = 6.8943e-5  # of one node: one in twenty within 31 days
    repairs_per_hour: float = 0.08333  # in 12 hours
    hold_s: float = 600.0  # time for which an offer waits for its confirmation
    kept: int = 100_000  # ended offers; the oldest are deleted first

    @property
    def nodes_of(self) -> dict[str, int]:
        """The nodes by cluster, where they are set."""
        return dict(map(cluster_and_nodes, self.nodes))


SETTINGS = OffersSettings
