"""A real Slurm with a prolog, an epilog and a job_submit.lua of the site's own, which call ours as setup says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.system.slurm.cluster import SlurmCluster, missing
from tests.system.slurm.test_setup import each_node_ends_a_job, settings_of
from tests.system.trial import Trial, free_port

from site_run import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.skipif(bool(missing()), reason=missing())]

SUBMIT = """-- the site's own
{top}
function slurm_job_submit(job_desc, part_list, submit_uid)
  slurm.log_info("site: accepted")
  {accepted}
  return slurm.SUCCESS
end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end
return slurm.SUCCESS
"""


def test_a_site_with_scripts_of_its_own_is_set_up_checked_and_left(cluster: SlurmCluster) -> None:
    prefix = cluster.directory / "jobsight"
    prefix.mkdir()
    trial = Trial(cluster, prefix, free_port())
    folder, hooks = cluster.configuration, prefix / "usr/local/lib/jobsight"
    own = {name: folder / name for name in ("prolog", "epilog", "job_submit.lua")}
    for name in ("prolog", "epilog"):
        own[name].write_text(f"#!/bin/sh\n: {name} of the site\n")
        own[name].chmod(0o755)
    own["job_submit.lua"].write_text(SUBMIT.format(top="", accepted=""))
    cluster.reconfigure(
        {"Prolog": str(own["prolog"]), "Epilog": str(own["epilog"]), "PrologFlags": "Alloc", "JobSubmitPlugins": "lua"}
    )
    each_node_ends_a_job(cluster)
    before = {file: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    settings = settings_of(cluster)

    shown = trial.jobsight("setup", "slurm", "--configure", "--yes")
    assert {file: file.read_bytes() for file in before} == before
    top, accepted = re.findall(r"(?m)^  (?:at its top|in slurm_job_submit.*job): (.*)$", shown)
    lines = {"top": top, "accepted": accepted}
    roots = (prefix, cluster.directory / "second")
    for node, root in zip(cluster.nodes, roots, strict=True):
        subprocess.run(
            ["sh", hooks / "jobsight-node.sh", "--prefix", root, "--node", node], check=True, capture_output=True
        )
    with trial.serving(), trial.agent(roots[0]), trial.agent(roots[1]):
        wait_until(
            lambda: "silent" not in trial.jobsight("check", "slurm", "--no-job", status=1), 90, lambda: "no agent"
        )
        lacking = trial.jobsight("check", "slurm", "--user", cluster.users[0], status=1)
        assert re.search(rf"FAILED +{own['job_submit.lua']} calls Jobsight: add to it\n  at its top: ", lacking)
        assert re.search(
            rf"FAILED +the hooks marked its start and end: Prolog is {own['prolog']}: add to it: \[ ! -x ", lacking
        )
        calls = re.findall(r"(?:Prolog|Epilog) is \S+: add to it: ([^;\n]+)", lacking.partition("note ")[2])[:2]
        for name, call in zip(("prolog", "epilog"), calls, strict=True):
            with own[name].open("a") as script:
                script.write(f"{call}\n")
        own["job_submit.lua"].write_text(SUBMIT.format(**lines))
        checked = trial.jobsight("check", "slurm", "--user", cluster.users[0])
    print(checked)
    assert re.search(r"^ok +the hooks marked its start and end", checked, re.MULTILINE)
    assert re.search(r"^ok +its comment: jobsight: ", checked, re.MULTILINE)
    assert "jobsight_asked=" in cluster.run("sacct", "-n", "-X", "-P", "-o", "AdminComment", "-S", "now-1hour")

    uninstall = [["sh", str(hooks / "jobsight-node.sh"), "--uninstall", "--prefix", str(root)] for root in roots]
    expected = {own["prolog"]: 3, own["epilog"]: 3, own["job_submit.lua"]: 2}
    refused = trial.jobsight("setup", "slurm", "--remove", status=1)
    assert all(f"{file}:{line}: " in refused for file, line in expected.items())
    on_node = subprocess.run(uninstall[0], capture_output=True, text=True, env=trial.environment)
    assert (on_node.returncode, f"{own['prolog']}:3: " in on_node.stderr) == (1, True)
    each_node_ends_a_job(cluster)

    # Without asking: what setup had the site write survives the absence of ours.
    module = folder / "jobsight_submit.lua"
    for gone in (module, hooks / "prolog", hooks / "epilog"):
        gone.rename(gone.with_suffix(".away"))
    cluster.restart_controller()
    each_node_ends_a_job(cluster)
    for gone in (module, hooks / "prolog", hooks / "epilog"):
        gone.with_suffix(".away").rename(gone)

    for file in expected:
        file.write_bytes(before[file])
    trial.jobsight("setup", "slurm", "--remove")
    for command in uninstall:
        subprocess.run(command, check=True, capture_output=True, env=trial.environment)
    cluster.restart_controller()
    each_node_ends_a_job(cluster)
    assert {file: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before
    assert settings_of(cluster) == settings
    assert set(cluster.run("sinfo", "-h", "-N", "-o", "%T").split()) == {"idle"}
    assert not Path(hooks / "prolog").exists()
