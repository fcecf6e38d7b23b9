"""Jobsight beside a real Slurm, set up as its documents say: server, two agents, job hooks, job_submit.lua."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from site_run import AGENT, Site, free_address, wait_until

from .cluster import SlurmCluster
from .workload import RealJob

DEPLOY = Path(__file__).parents[3] / "deploy"
SERVER = """
follow_interval_s = 0.5
profile_interval_s = 0.5
profile_grace_s = 5

[[accounting]]
cluster = "{cluster}"
format = "slurm"
sacct = ["sacct"]
squeue = ["squeue"]
interval_s = 1
overlap_s = 60
"""
# Where a machine is one node, its name is all that an agent needs; here two of them share one.
NODE = """
server = "{server}"
token_file = "{token}"
cluster = "{cluster}"
node = "{node}"
interval = 1
batch_age_s = 1
spool = "{spool}"
cgroups = ["slurm_{node}/uid_*/job_{{job}}"]
"""


class LiveJobsight:
    """A server that follows a cluster, and an agent for each of its nodes, while the block of ``running`` runs."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self.cluster = cluster
        self.directory = cluster.directory / "jobsight"
        self.directory.mkdir()
        settings = self.directory / "jobsight.toml"
        settings.write_text(SERVER.format(cluster=cluster.places.cluster))
        self.site = Site(self.directory, (), free_address(), ("--config", str(settings)))
        self._submitter_token = self.site.token("submitter")

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Server and agents while the block runs; the cluster, which must run, calls the job hooks."""
        with contextlib.ExitStack() as stack:
            # `jobsight serve` runs sacct and squeue, which find the cluster by this.
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setenv("SLURM_CONF", self.cluster.environment["SLURM_CONF"])
            stack.enter_context(self.site.serve())
            for node in self.cluster.nodes:
                stack.enter_context(self._agent(node))
            self._install_hooks()
            sockets = [self.directory / node / "spool" / "agent.socket" for node in self.cluster.nodes]
            wait_until(lambda: all(path.exists() for path in sockets), 30, lambda: f"{sockets}: no agents")
            yield

    @contextlib.contextmanager
    def _agent(self, node: str) -> Iterator[None]:
        folder = self.directory / node
        (folder / "spool" / "marks").mkdir(parents=True)
        settings = folder / "agent.toml"
        settings.write_text(
            NODE.format(
                server=self.site.ingest_url, token=self.site.agent_token_file, cluster=self.cluster.places.cluster,
                node=node, spool=folder / "spool",
            )
        )  # fmt: skip
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([*AGENT, "run", "--config", str(settings)], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)

    def _install_hooks(self) -> None:
        """One script for all nodes would do on as many machines; here it looks for that of its node."""
        hooks = {"PrologFlags": "Alloc"}
        for hook in ("prolog", "epilog"):
            for node in self.cluster.nodes:
                folder = self.directory / node
                file = folder / hook
                file.write_text(
                    _with_settings(
                        (DEPLOY / "slurm" / hook).read_text(),
                        PYTHON=AGENT[0],
                        CONFIG=folder / "agent.toml", SPOOL=folder / "spool", AGENT_USER="root", AGENT_GROUP="root",
                    )
                )  # fmt: skip
                file.chmod(0o755)
            chooser = self.directory / hook
            chooser.write_text(f'#!/bin/sh\nexec "{self.directory}/$SLURMD_NODENAME/{hook}"\n')
            chooser.chmod(0o755)
            hooks[hook.capitalize()] = str(chooser)
        self.cluster.reconfigure(hooks)

    def install_submission(self) -> None:
        """Puts job_submit.lua beside slurm.conf, with a token that only Slurm can read, and has it lower memory."""
        token = self.cluster.configuration / "slurm-token"
        token.touch(mode=0o400)
        shutil.chown(token, "slurm")
        token.write_text(self._submitter_token)
        host, port = self.site.url.removeprefix("http://").split(":")
        text = (DEPLOY / "slurm" / "job_submit.lua").read_text()
        for given, wanted in {
            'address = "127.0.0.1"': f'address = "{host}"',
            "port = 8470": f"port = {port}",
            'cluster = "default"': f'cluster = "{self.cluster.places.cluster}"',
            'token_file = "/etc/jobsight/slurm-token"': f'token_file = "{token}"',
            'memory = "no"': 'memory = "lower"',
        }.items():
            assert text.count(given) == 1, f"{given} must be set in one place of job_submit.lua"
            text = text.replace(given, wanted)
        (self.cluster.configuration / "job_submit.lua").write_text(text)
        shutil.copy(DEPLOY / "slurm" / "jobsight.lua", self.cluster.configuration)
        self.cluster.reconfigure({"JobSubmitPlugins": "lua"})

    def runs(self) -> list[dict[str, Any]]:
        """The runs that the server knows: one page of them is enough here."""
        listed = self.site.api("jobs", cluster=self.cluster.places.cluster)
        assert listed["pages"] <= 1
        return list(listed["jobs"])

    def used(self, job: RealJob, metric: str) -> float:
        """What the last run of a job used in all, in bytes or CPU seconds; NaN where the server has no value."""
        run = self.site.api("job", name=str(job.job_id), cluster=self.cluster.places.cluster)["runs"][-1]
        (found,) = (profile for profile in run["profile"] if profile["metric"] == metric)
        print(job.label, metric, found["value"], found["source"], found["attribution"], found["reason"])  # if it fails
        if found["value"] is None:
            return float("nan")
        seconds = run["end"] - run["start"] if metric == "cpu" else 1.0
        return float(found["value"] * run["processors"] * seconds)

    def stop(self) -> None:
        """Stops the server; nothing listens any more."""
        assert self.site.process is not None
        self.site.process.terminate()
        self.site.process.wait(30)

    @contextlib.contextmanager
    def hung(self) -> Iterator[None]:
        """Every process of the server is stopped while the block runs: connections are taken, nothing answers."""
        assert self.site.process is not None
        pids = _process_tree(self.site.process.pid)
        _signal(pids, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(pids, signal.SIGCONT)


def _with_settings(script: str, **settings: object) -> str:
    """The hook with these settings at its top."""
    lines = script.splitlines()
    for name, value in settings.items():
        (place,) = (number for number, line in enumerate(lines) if line.startswith(f"{name}="))
        lines[place] = f"{name}={shlex.quote(str(value))}"
    return "\n".join([*lines, ""])


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # a command that has just ended
            os.kill(pid, number)


def _process_tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += _process_tree(int(child))
    return found
