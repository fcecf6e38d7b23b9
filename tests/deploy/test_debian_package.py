"""The agent's Debian package: made by dpkg-deb alone, listed, and installed by dpkg into a root of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobsight_agent import __version__

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    run(ROOT / "deploy" / "agent-deb.sh", folder / "dist")
    (made,) = (folder / "dist").iterdir()
    assert made.name == f"jobsight-agent_{__version__}_all.deb"
    return made


def test_it_has_the_agent_and_no_more(package: Path) -> None:
    listed = run("dpkg-deb", "--contents", package).splitlines()
    assert {line.split()[1] for line in listed} == {"root/root"}
    files = {line.split()[5].removeprefix("./"): line[:10] for line in listed if line[0] == "-"}
    agent = {path.name for path in (ROOT / "agent" / "jobsight_agent").iterdir() if path.is_file()}
    assert {Path(name).name for name in files if "dist-packages" in name} == agent
    assert files["usr/bin/jobsight-agent"] == "-rwxr-xr-x"
    assert files["usr/lib/jobsight/mark-job"] == "-r-x------"  # job owners must not run it as root does
    others = {name for name in files if "dist-packages" not in name}
    assert others == {
        "etc/jobsight/agent.toml", "usr/bin/jobsight-agent", "usr/lib/jobsight/mark-job",
        "usr/lib/systemd/system/jobsight-agent.service", "usr/lib/sysusers.d/jobsight.conf",
        "usr/lib/tmpfiles.d/jobsight.conf", "usr/share/doc/jobsight-agent/copyright",
        "usr/share/man/man1/jobsight-agent.1.gz",
    }  # fmt: skip
    assert run("dpkg-deb", "--field", package, "Depends").strip() == "python3 (>= 3.11), systemd"
    assert package.stat().st_size < 100_000


@pytest.mark.skipif(os.geteuid() != 0, reason="dpkg installs as root only")
@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="systemd-sysusers is not installed")
def test_dpkg_installs_and_purges_it(package: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "var/lib/dpkg/info").mkdir(parents=True)
    (root / "var/lib/dpkg/updates").mkdir()
    (root / "var/lib/dpkg/status").touch()
    dpkg = ("dpkg", f"--root={root}", "--force-script-chrootless", "--force-depends", f"--log={tmp_path / 'log'}")
    run(*dpkg, "--install", package)
    assert "Status: install ok installed" in run(*dpkg, "--status", "jobsight-agent")
    assert run(*dpkg, "--verify", "jobsight-agent") == ""
    assert re.search(r"^jobsight:", (root / "etc/passwd").read_text(), re.MULTILINE)
    unit = (root / "usr/lib/systemd/system/jobsight-agent.service").read_text()
    [program] = re.findall(r"^ExecStart=(\S+) run --config (?:\S+)$", unit, re.MULTILINE)
    started = (root / program.lstrip("/")).read_text()
    [interpreter] = re.findall(r"^PYTHON=(\S+)$", (root / "usr/lib/jobsight/prolog").read_text(), re.MULTILINE)
    assert started.startswith(f"#!{interpreter} -I\n")
    modules = root / "usr/lib/python3/dist-packages"
    begin = f"import sys; sys.path.insert(0, {str(modules)!r}); sys.argv = ['jobsight-agent', '--version']\n"
    assert run(sys.executable, "-I", "-S", "-c", f"{begin}{started}").strip() == __version__
    (root / "var/spool/jobsight").mkdir(parents=True)
    run(*dpkg, "--purge", "jobsight-agent")
    assert [str(file.relative_to(root)) for file in root.rglob("*jobsight*")] == []
