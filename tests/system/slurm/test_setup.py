"""A real Slurm, and nothing of Jobsight: ``jobsight setup``, a server, ``jobsight check``."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import time
from dataclasses import dataclass

import pytest
from tests.system.slurm.cluster import SlurmCluster, missing
from tests.system.trial import JOBSIGHT, Trial, free_port

from site_run import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.skipif(bool(missing()), reason=missing())]


@dataclass
class SlurmTrial(Trial):
    """``conf_before`` and ``settings_before`` are slurm.conf and the settings of slurmctld before any setup."""

    cluster: SlurmCluster
    conf_before: str
    settings_before: dict[str, str]


@pytest.fixture(scope="module")
def trial(cluster: SlurmCluster) -> SlurmTrial:
    prefix = cluster.directory / "jobsight"
    prefix.mkdir()
    conf = (cluster.configuration / "slurm.conf").read_text()
    each_node_ends_a_job(cluster)
    return SlurmTrial(cluster, prefix, free_port(), conf, settings_of(cluster))


def test_from_nothing_to_the_first_advice(trial: SlurmTrial) -> None:
    begin = time.monotonic()
    before = trial.snapshot(trial.cluster.configuration)
    shown = trial.jobsight("setup", "slurm", "--configure", "--dry-run")
    assert trial.snapshot(trial.cluster.configuration) == before
    assert "+JobSubmitPlugins=lua" in shown
    assert "Prolog=" not in shown, "a prolog that nodes lack drains them"

    dry_s = time.monotonic() - begin
    trial.jobsight("setup", "slurm", "--configure", "--yes")  # command 1
    token = trial.prefix / "etc/jobsight/slurm-token"
    assert (stat.S_IMODE(token.stat().st_mode), token.owner()) == (0o400, "slurm")
    assert stat.S_IMODE((trial.prefix / "usr/local/lib/jobsight/jobsight-node.sh").stat().st_mode) == 0o600
    first = trial.snapshot(trial.cluster.configuration)
    with trial.serving():  # command 2
        checked = trial.jobsight("check", "slurm", "--user", trial.cluster.users[0])  # command 3
    print(checked, f"{time.monotonic() - begin - dry_s:.0f} s for three commands")
    assert "everything works" in checked
    assert re.search(r"^ok +its comment: jobsight: ", checked, re.MULTILINE)
    assert re.search(r"^ok +the accounting log has it: ended after [5-9] s", checked, re.MULTILINE)
    assert re.search(r"^note +agents of all nodes report: silent: ", checked, re.MULTILINE)
    again = trial.jobsight("setup", "slurm", "--configure", "--yes")
    assert "nothing to change" in again
    assert trial.snapshot(trial.cluster.configuration) == first


def test_token_of_the_nodes_is_for_them_only(trial: SlurmTrial) -> None:
    settings = str(trial.prefix / "etc/jobsight/jobsight.toml")
    listed = subprocess.run(
        [*JOBSIGHT, "token", "list", "--json", "--config", settings], capture_output=True, text=True, check=True
    )
    tokens = {token["role"]: token for token in json.loads(listed.stdout)}
    assert tokens["agent"]["cluster"] == trial.cluster.places.cluster
    assert tokens["agent"]["nodes"].split(",") == sorted(trial.cluster.nodes)
    assert set(tokens) == {"agent", "submitter"}


def test_archive_installs_an_agent_that_delivers_and_hooks_that_mark(trial: SlurmTrial) -> None:
    archive = trial.prefix / "usr/local/lib/jobsight/jobsight-node.sh"
    bare = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
    # Two nodes on one machine: two installations, of which the first has the hooks that slurm.conf names.
    roots = (trial.prefix, trial.cluster.directory / "second")
    for node, root in zip(trial.cluster.nodes, roots, strict=True):
        install = ["sh", str(archive), "--prefix", str(root), "--node", node]
        subprocess.run(install, check=True, capture_output=True, env=bare)
        again = subprocess.run(install, check=True, capture_output=True, text=True, env=bare).stdout
        assert "nothing to change" in again
    with trial.serving(), trial.agent(roots[0]), trial.agent(roots[1]):
        wait_until(lambda: "silent" not in trial.jobsight("check", "slurm", "--no-job"), 90, lambda: "no agent")
        assert "PrologFlags" in trial.jobsight("setup", "slurm", "--configure", "--yes")
        checked = trial.jobsight("check", "slurm", "--user", trial.cluster.users[0])
    print(checked)
    assert re.search(r"^ok +the hooks marked its start and end", checked, re.MULTILINE)
    assert re.search(r"^ok +Prolog and Epilog mark jobs", checked, re.MULTILINE)
    assert "not profiled" not in checked


def test_a_sites_own_script_stays(trial: SlurmTrial) -> None:
    script = trial.cluster.configuration / "job_submit.lua"
    new = script.read_text()
    assert "nothing to change" in trial.jobsight("setup", "slurm", "--configure", "--yes")
    script.write_text(new + "-- ours\n")
    assert f"kept {script}" in trial.jobsight("setup", "slurm", "--configure", "--yes")
    script.write_text(new)
    conf = (trial.cluster.configuration / "slurm.conf").read_text()
    assert conf.count("JobSubmitPlugins=lua") == 1


def test_a_user_asks_for_an_own_job(trial: SlurmTrial) -> None:
    user, other = trial.cluster.users[:2]
    seff = str(trial.prefix / "usr/local/bin/jobsight-seff")
    job = str(next(row["job_id"] for row in trial.cluster.accounting() if row["user"] == user))
    with trial.serving():
        wait_until(lambda: job in trial.cluster.run(seff, job, user=user), 60, lambda: "no answer")
        with pytest.raises(RuntimeError, match=f"{job}"):
            trial.cluster.run(seff, job, user=other)


def test_what_is_missing_is_named(trial: SlurmTrial) -> None:
    failed = trial.jobsight("check", "slurm", "--no-job", status=1)
    assert re.search(r"^FAILED +the server answers within 100 ms: .*start `jobsight serve", failed, re.MULTILINE)
    other = trial.jobsight("setup", "slurm", "--yes", "--cluster", "another", status=1)
    assert f"--cluster {trial.cluster.places.cluster}" in other


def test_a_cluster_is_as_before_once_all_is_removed(trial: SlurmTrial) -> None:
    cluster, conf = trial.cluster, trial.cluster.configuration / "slurm.conf"
    each_node_ends_a_job(cluster)
    conf.write_text(conf.read_text() + "# a line that the site adds later\n")
    said = trial.jobsight("setup", "slurm", "--remove")
    assert conf.read_text() == trial.conf_before + "# a line that the site adds later\n"
    assert settings_of(cluster) == trial.settings_before
    assert said.index("ran scontrol reconfigure") < said.index("jobsight.lua")
    assert re.search(r"2\. on each node.* sh (\S+jobsight-node.sh) --uninstall", said)
    assert not (cluster.configuration / "job_submit.lua").exists()
    assert not (trial.prefix / "etc/jobsight/slurm-token").exists()
    for root in (trial.prefix, cluster.directory / "second"):
        archive = trial.prefix / "usr/local/lib/jobsight/jobsight-node.sh"
        subprocess.run(["sh", str(archive), "--uninstall", "--prefix", str(root)], check=True, capture_output=True)
    each_node_ends_a_job(cluster)
    assert "drain" not in cluster.run("sinfo", "-h", "-N", "-o", "%T %E")


def each_node_ends_a_job(cluster: SlurmCluster) -> None:
    """A job runs to its end on each node."""
    jobs = [cluster.submit(cluster.users[0], "true", f"--nodelist={node}") for node in cluster.nodes]

    def all_ended() -> bool:
        ended = {row["job_id"] for row in cluster.accounting() if row["state"]["current"] == "COMPLETED"}
        return ended.issuperset(jobs)

    wait_until(all_ended, 120, lambda: cluster.run("squeue", "-o", "%i %T %r") + cluster.run("sinfo", "-N", "-l"))


def settings_of(cluster: SlurmCluster) -> dict[str, str]:
    """What slurmctld runs with, without the times and counters that change by themselves."""
    found = dict(re.findall(r"^(\w+)\s*= ?(.*?)\s*$", cluster.run("scontrol", "show", "config"), re.MULTILINE))
    return {name: value for name, value in found.items() if name not in ("NEXT_JOB_ID", "BOOT_TIME")}
