"""Jobsight beside a real scheduler: a server that follows it, an agent for each node, job hooks."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import make

from site_run import AGENT, wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
SERVER = """
follow_interval_s = 0.5
profile_grace_s = 5
"""
# Where a machine is one node, its name is all that an agent needs; here two of them may share one.
NODE = """
server = "{server}"
token_file = "{token}"
cluster = "{cluster}"
node = "{node}"
batch_age_s = 1
spool = "{spool}"
"""


class LiveSite:
    """A server with these settings for one cluster, and agents with theirs; all files in a new ``directory``."""

    def __init__(self, directory: Path, cluster: str, accounting: str, agent: str) -> None:
        self.directory = directory
        self.cluster_name = cluster
        self.directory.mkdir()
        settings = self.directory / "jobsight.toml"
        settings.write_text(SERVER + accounting)
        self.site = make.site(self.directory, "--config", str(settings), clusters=())
        self._agent_settings = agent

    @contextlib.contextmanager
    def agents(self, *nodes: str) -> Iterator[None]:
        """An agent for each node while the block runs."""
        with contextlib.ExitStack() as stack:
            for node in nodes:
                stack.enter_context(self._agent(node))
            sockets = [self.directory / node / "spool" / "agent.socket" for node in nodes]
            wait_until(lambda: all(path.exists() for path in sockets), 60, lambda: f"{sockets}: no agents")
            yield

    @contextlib.contextmanager
    def _agent(self, node: str) -> Iterator[None]:
        folder = self.directory / node
        (folder / "spool" / "marks").mkdir(parents=True)
        settings = folder / "agent.toml"
        settings.write_text(
            (NODE + self._agent_settings).format(
                server=self.site.ingest_url, token=self.site.agent_token_file, cluster=self.cluster_name, node=node,
                spool=folder / "spool",
            )
        )  # fmt: skip
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([*AGENT, "run", "--config", str(settings)], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)

    def install_hook(self, source: Path, node: str) -> Path:
        """The hook with the settings of this node's agent at its top."""
        folder = self.directory / node
        file = folder / source.name
        settings = {
            "PYTHON": AGENT[0], "CONFIG": folder / "agent.toml", "SPOOL": folder / "spool", "AGENT_USER": "root",
            "AGENT_GROUP": "root",
        }  # fmt: skip
        file.write_text(_with_settings(source.read_text(), settings))
        file.chmod(0o755)
        return file

    def runs(self) -> list[dict[str, Any]]:
        """The runs that the server knows."""
        return list(self.site.api("jobs", cluster=self.cluster_name, limit="1000")["jobs"])

    def run(self, job_id: object) -> dict[str, Any]:
        """A job's last run, with its profile."""
        return dict(self.site.api("job", name=str(job_id), cluster=self.cluster_name)["runs"][-1])

    def used(self, job_id: object, metric: str) -> float:
        """Total use of a job's last run, in bytes or CPU seconds; NaN if the server has no value."""
        run = self.run(job_id)
        (found,) = (profile for profile in run["profile"] if profile["metric"] == metric)
        print(run["name"], metric, *(found[key] for key in ("value", "source", "attribution", "reason")))  # if it fails
        if found["value"] is None:
            return float("nan")
        if metric == "cpu":
            return float(found["value"] * run["processors"] * (run["end"] - run["start"]))
        return float(found["value"] * (run["asked_processors"] or run["processors"]))

    def is_lower_bound(self, job_id: object, metric: str) -> bool:
        """Return whether the server marks the value of ``used`` as a lower bound."""
        return any(profile["lower_bound"] for profile in self.run(job_id)["profile"] if profile["metric"] == metric)

    def wait_until_profiled(self, jobs: dict[str, str], seconds: float) -> None:
        """Until the last run of each job has been profiled; ``jobs`` are labels by their ids."""
        missing: set[str] = set()

        def profiled() -> bool:
            missing.clear()
            missing.update(jobs.keys() - {r["job_id"] for r in self.runs() if r["state"] == "ended" and r["profiled"]})
            return not missing

        def complaint() -> str:
            return f"not profiled: {[jobs[one] for one in sorted(missing)]}\n{self.site.log.read_text()[-3000:]}"

        wait_until(profiled, seconds, complaint)


def _with_settings(script: str, settings: dict[str, object]) -> str:
    lines = script.splitlines()
    for name, value in settings.items():
        (place,) = (number for number, line in enumerate(lines) if line.startswith(f"{name}="))
        lines[place] = f"{name}={shlex.quote(str(value))}"
    return "\n".join([*lines, ""])
