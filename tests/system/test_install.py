"""What `pip install` brings: on a node the agent and psutil, nothing else."""

from __future__ import annotations

import json
import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_node_gets_the_agent_and_psutil_alone(tmp_path: Path) -> None:
    venv.create(tmp_path / "node", with_pip=True)
    scripts = tmp_path / "node" / "bin"
    pip = [str(scripts / "python"), "-m", "pip", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "install", "--quiet", str(ROOT)], capture_output=True, text=True, check=False)
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip("no package registry can be reached")
    assert done.returncode == 0, done.stderr
    listed = subprocess.run([*pip, "list", "--format", "json"], capture_output=True, text=True, check=True)
    names = {package["name"] for package in json.loads(listed.stdout)}
    assert names - {"pip", "setuptools"} == {"jobsight", "psutil"}
    version = subprocess.run([scripts / "jobsight-agent", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.strip() == "0.2.0.dev0"
    shipped = "from jobsight_server.setup.shipped import shipped; import sys; sys.stdout.write(shipped(sys.argv[1]))"
    for name in (
        "slurm/job_submit.lua",
        "slurm/prolog",
        "hooks/mark-job",
        "node/install.sh",
        "jobsight.toml",
        "workflows/nextflow/jobsight.config",
    ):
        printed = subprocess.run([scripts / "python", "-c", shipped, name], capture_output=True, text=True, check=True)
        assert printed.stdout == (ROOT / "deploy" / name).read_text()
    serve = subprocess.run([scripts / "jobsight", "serve"], capture_output=True, text=True, check=False)
    assert serve.returncode == 1
    assert "is not installed: pip install 'jobsight[server]'" in serve.stderr
