"""A real Grid Engine, and nothing of Jobsight: ``jobsight setup``, server, agent, ``jobsight check``."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest
from tests.system.gridengine.cluster import GridEngineCluster, missing
from tests.system.gridengine.settings import QUEUE
from tests.system.trial import Trial, free_port

from site_run import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.skipif(bool(missing()), reason=missing())]


@pytest.fixture(scope="module")
def trial() -> Iterator[Trial]:
    with GridEngineCluster.made() as cluster:
        cluster.start()
        prefix = cluster.directory / "jobsight"
        prefix.mkdir()
        yield Trial(cluster, prefix, free_port())


def test_from_nothing_to_marked_jobs(trial: Trial) -> None:
    queue = ("qconf", "-sq", QUEUE)
    before = trial.cluster.run(*queue)
    shown = trial.jobsight("setup", "gridengine", "--configure", "--yes")
    assert trial.cluster.run(*queue) == before, "a prolog that is missing on a node puts the queue into error"
    assert f"qconf -mattr queue prolog root@{trial.prefix}/usr/local/lib/jobsight/prolog {QUEUE}" in shown
    archive = trial.prefix / "usr/local/lib/jobsight/jobsight-node.sh"
    subprocess.run(["sh", str(archive), "--prefix", str(trial.prefix)], check=True, capture_output=True)
    with trial.serving(), trial.agent(trial.prefix):
        wait_until(lambda: "silent" not in trial.jobsight("check", "gridengine", "--no-job"), 90, lambda: "no agent")
        trial.jobsight("setup", "gridengine", "--configure", "--yes")
        checked = trial.jobsight("check", "gridengine", "--user", trial.cluster.users[0])
        assert "nothing to change" in trial.jobsight("setup", "gridengine", "--configure", "--yes")
    assert re.search(r"^ok +the hooks marked its start and end", checked, re.MULTILINE)
    assert "not profiled" not in checked
    trial.cluster.run("qconf", "-mattr", "queue", "epilog", "/site/epilog", QUEUE)
    said = trial.jobsight("setup", "gridengine", "--remove")
    assert trial.cluster.run(*queue) == re.sub(r"(?m)^(epilog +)NONE$", r"\1/site/epilog", before)
    assert said.index("prolog NONE") < said.index("jobsight.toml") < said.index("--uninstall")
