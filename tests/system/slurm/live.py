"""Jobsight beside a real Slurm, set up as its documents say: server, two agents, job hooks, job_submit.lua."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator

import pytest
from tests.processes import children
from tests.system.live import DEPLOY, LiveSite
from tests.system.slurm.cluster import SlurmCluster

SETTINGS = """
munge_socket = "{munge}"
least_walltime_s = 0 # jobs of tests are short

[[accounting]]
cluster = "{cluster}"
format = "slurm"
sacct = ["sacct"]
squeue = ["squeue"]
interval_s = 1
"""
AGENT_SETTINGS = 'interval = 1\ncgroups = ["slurm_{node}/uid_*/job_{{job}}"]\n'


class LiveJobsight(LiveSite):
    """A server that follows a cluster, and an agent for each of its nodes, while the block of ``running`` runs."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self.cluster = cluster
        name = cluster.places.cluster
        settings = SETTINGS.format(cluster=name, munge=cluster.places.munge_socket)
        super().__init__(cluster.directory / "jobsight", name, settings, AGENT_SETTINGS)
        self._submitter_token = self.site.token("submitter")

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Server and agents while the block runs; the cluster, which must run, calls the job hooks."""
        with contextlib.ExitStack() as stack:
            # `jobsight serve` runs sacct and squeue, which find the cluster by this.
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setenv("SLURM_CONF", self.cluster.environment["SLURM_CONF"])
            stack.enter_context(self.site.serve())
            stack.enter_context(self.agents(*self.cluster.nodes))
            self._install_hooks()
            yield

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """The server alone, without agents and hooks: all that it knows of jobs is from Slurm's commands."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLURM_CONF", self.cluster.environment["SLURM_CONF"])
            with self.site.serve():
                yield

    def _install_hooks(self) -> None:
        """One script for all nodes would do on as many machines; here it looks for that of its node."""
        hooks = {"PrologFlags": "Alloc"}
        for hook in ("prolog", "epilog"):
            for node in self.cluster.nodes:
                self.install_hook(DEPLOY / "slurm" / hook, node)
            chooser = self.directory / hook
            chooser.write_text(f'#!/bin/sh\nexec "{self.directory}/$SLURMD_NODENAME/{hook}"\n')
            chooser.chmod(0o755)
            hooks[hook.capitalize()] = str(chooser)
        self.cluster.reconfigure(hooks)

    def install_submission(self, time: str = "no", limit_s: float = 0.1) -> None:
        """Puts job_submit.lua beside slurm.conf, with a token that only Slurm can read, and has it lower memory.

        ``time``: what it does with time limits; ``limit_s``: how long it waits for an answer.
        """
        token = self.cluster.configuration / "slurm-token"
        token.touch(mode=0o400)
        shutil.chown(token, "slurm")
        token.write_text(self._submitter_token)
        host, port = self.site.url.removeprefix("http://").split(":")
        choices = self.cluster.configuration / "submit.conf"
        choices.write_text(
            f"address = {host}\nport = {port}\ncluster = {self.cluster.places.cluster}\ntoken_file = {token}\n"
            f"memory = lower\ntime = {time}\nlimit_s = {limit_s}\n"
        )
        text = (DEPLOY / "slurm" / "jobsight_submit.lua").read_text()
        assert text.count("/etc/jobsight/submit.conf") == 1
        text = text.replace("/etc/jobsight/submit.conf", str(choices))
        (self.cluster.configuration / "jobsight_submit.lua").write_text(text)
        caller = (DEPLOY / "slurm" / "job_submit.lua").read_text()
        caller = caller.replace("/etc/slurm", str(self.cluster.configuration))
        (self.cluster.configuration / "job_submit.lua").write_text(caller)
        shutil.copy(DEPLOY / "slurm" / "jobsight.lua", self.cluster.configuration)
        self.cluster.reconfigure({"JobSubmitPlugins": "lua"})

    def seff(self, user: str, job: str) -> str:
        """What `jobsight-seff` says to a user of the cluster.

        Raises:
            RuntimeError: it refuses; the message holds what it said.
        """
        client = self.cluster.directory / "jobsight-seff"
        client.write_text(
            (DEPLOY / "slurm" / "jobsight-seff").read_text()
            .replace('"http://127.0.0.1:8470"', f'"{self.site.url}"')
            .replace('"munge"', f'"munge --socket={self.cluster.places.munge_socket}"')
        )  # fmt: skip
        client.chmod(0o755)
        return self.cluster.run("/usr/bin/python3", str(client), job, user=user)

    def stop(self) -> None:
        """Stop the server; nothing listens any more."""
        assert self.site.process is not None
        self.site.process.terminate()
        self.site.process.wait(30)

    @contextlib.contextmanager
    def hung(self) -> Iterator[None]:
        """Every process of the server is stopped while the block runs: connections are taken, nothing answers."""
        assert self.site.process is not None
        pids = [self.site.process.pid, *children(self.site.process.pid, recursive=True)]
        _signal(pids, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(pids, signal.SIGCONT)


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # a command that has just ended
            os.kill(pid, number)
