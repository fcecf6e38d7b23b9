"""Jobsight beside a real Grid Engine, set up as its documents say: server, agent, job hooks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.system.gridengine.cluster import GridEngineCluster
from tests.system.live import DEPLOY, LiveSite

NAME = "grid"
HOOKS = ("prolog", "epilog")
ACCOUNTING = """
[[accounting]]
cluster = "{cluster}"
format = "gridengine"
file = "{file}"
"""
# Far fewer readings than those that the hooks ask for.
INTERVAL_S = 5
AGENT_SETTINGS = f"interval = {INTERVAL_S}\n"


class LiveJobsight(LiveSite):
    """A server that follows a cluster's accounting file, and an agent, while the block of ``running`` runs."""

    def __init__(self, cluster: GridEngineCluster) -> None:
        self.cluster = cluster
        accounting = ACCOUNTING.format(cluster=NAME, file=cluster.accounting)
        super().__init__(cluster.directory / "jobsight", NAME, accounting, AGENT_SETTINGS)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Server and agent while the block runs; the cluster, which must run, calls the job hooks."""
        with self.site.serve(), self.agents(self.cluster.host):
            hooks = {name: self.install_hook(DEPLOY / "gridengine" / name, self.cluster.host) for name in HOOKS}
            self.cluster.install({name: f"root@{file}" for name, file in hooks.items()})
            yield
