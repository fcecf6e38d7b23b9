"""A site's own scripts, which call ours in every way that shells, Lua and Python know, are found by file and line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.server.setup.test_plan import QMGR, SCONTROL, Machine, machine  # noqa: F401 - a fixture

from jobsight_server.setup import site_scripts
from jobsight_server.setup.manifest import digest
from jobsight_server.setup.schedulers.scheduler import safe_call
from jobsight_server.setup.site_scripts import Script, calls, queues

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="a setup runs as root")


class Site:
    """A directory with the site's scripts, and ours in ``lib``; texts have them as ``{etc}`` and ``{lib}``."""

    def __init__(self, directory: Path) -> None:
        self.etc, self.lib = directory / "etc", directory / "lib" / "jobsight"
        self.lib.mkdir(parents=True)
        self.etc.mkdir()

    def write(self, name: str, text: str, mode: int = 0o644) -> str:
        file = self.etc / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.format(etc=self.etc, lib=self.lib, above=self.lib.parent))
        file.chmod(mode)
        return str(file)

    def calls(self, *started: str | Script) -> list[str]:
        ours = [self.lib, self.etc / "jobsight.lua", self.etc / "jobsight_submit.lua"]
        return [line.removeprefix(f"{self.etc}/").partition(": ")[0] for line in calls(started, ours).found]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("#!/bin/sh\n{lib}/prolog\n", [2]),
        ("#!/bin/sh\n# {lib}/prolog\n:\n [ ! -x {lib}/prolog ] || {lib}/prolog\n", [4]),
        ("echo a # {lib}/prolog\n", []),
        ('echo "# 1"; {lib}/prolog\n', [1]),
        ("{lib}x/prolog; /x{lib}/prolog; {lib}-old/prolog\n", []),
        ('DIR="{above}"\n"$DIR/jobsight/prolog" "$@"\n', [2]),
        ("HOOK={lib}/epilog\nexec $HOOK\n", [1, 2]),
        ("cd {above} && jobsight/prolog\n", [1]),
        ("cd {above}\nexec ./jobsight/prolog\n", [2]),
        ("env -i sh -p {lib}/prolog \\\n  1\n", [1]),
        ("if true; then . {lib}/prolog; fi\n", [1]),
    ],
)
def test_calls_in_a_shell_script(site: Site, text: str, lines: list[int]) -> None:
    assert site.calls(site.write("prolog", text)) == [f"prolog:{line}" for line in lines]


@pytest.mark.parametrize(
    "text",
    [
        ". {etc}/parts/one\n",
        "source {etc}/parts/one\n",
        "sh {etc}/parts/one\n",
        "exec env X=1 bash {etc}/parts/one\n",
        '. "$(dirname "$0")/parts/one"\n',
        '. "${{0%/*}}/parts/one"\n',
        "D={etc}/parts\n. $D/one\n",
        'HERE=$(cd "$(dirname "$0")" && pwd)\n. "$HERE"/parts/one\n',
        '. "$(dirname "$(readlink -f "$0")")/parts/one"\n',
        "for part in {etc}/parts/*; do\n . $part\ndone\n",
        "run-parts {etc}/parts\n",
        "cd {etc}/parts\n. ./one\n",
        "test -e x || {etc}/between\n",
    ],
)
def test_scripts_that_a_script_names_are_read(site: Site, text: str) -> None:
    site.write("between", "#!/bin/sh\n. {etc}/parts/one\n", 0o755)
    site.write("parts/one", "#\n{lib}/prolog\n", 0o755)
    assert site.calls(site.write("prolog", text)) == ["parts/one:2"]


def test_globs_directories_links_and_loops(site: Site) -> None:
    site.write("parts/one", ". {etc}/parts/two\n{lib}/prolog\n")
    site.write("parts/two", ". {etc}/parts/one\n")
    (site.etc / "parts/zero").symlink_to(site.lib / "prolog")
    expected = ["parts/one:2", "parts/zero"]
    assert site.calls(f"{site.etc}/parts/*") == site.calls(f"{site.etc}/parts") == expected
    (site.etc / "alias").symlink_to(site.lib)
    assert site.calls(site.write("prolog", "{etc}/alias/prolog\n")) == ["prolog:1"]
    assert calls(["/nowhere/prolog", str(site.lib / "prolog")], [site.lib]).missing == ["/nowhere/prolog"]


def test_only_scripts_are_read(site: Site) -> None:
    site.write("log", "{lib}/prolog ran\n")
    (site.etc / "program").write_bytes(f"\x7fELF\0{site.lib}/prolog".encode())
    (site.etc / "program").chmod(0o755)
    text = "sh -c true >>{etc}/log 2>&1\ncat {etc}/log\n{etc}/program\n" + "a" * 5000 + "/" + "b" * 5000 + "\n"
    assert site.calls(site.write("prolog", text)) == []
    copy = Path(__file__).parents[3] / "deploy/hooks/mark-job"
    (site.etc / "epilog").write_text(copy.read_text().replace("/opt/jobsight", str(site.lib)))
    assert site.calls(str(site.etc / "epilog")) == [], "a copy of ours works without the agent"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('local j = dofile("{etc}/jobsight.lua")\n', ["site.lua:1"]),
        ('\nlocal ok, j = pcall(dofile, "{etc}/jobsight_submit.lua")\n', ["site.lua:2"]),
        ('local j = require "jobsight"\n', ["site.lua:1"]),
        ("local j = require('jobsight_submit')\n", ["site.lua:1"]),
        ('local d = "{etc}/"\nlocal j = loadfile(d .. "jobsight.lua")\n', ["site.lua:2"]),
        ('local j = dofile(directory .. "jobsight.lua")\n', ["site.lua:1"]),
        ('-- dofile("{etc}/jobsight.lua")\n--[[\ndofile("{etc}/jobsight.lua")\n]]\nlocal t = "jobsight"\n', []),
        ('dofile("{etc}/rules/own.lua")\n', ["rules/own.lua:2"]),
        ('for file in lfs.dir("{etc}/rules") do dofile(file) end\n', ["rules/own.lua:2"]),
        ('local folder = "{etc}/rules"\n', []),
        ('local folder, other = "{etc}/rules", "/srv/popen-1/dir/x"\n', []),
        ('package.path = "{etc}/?.lua;" .. package.path\nrequire("rules.own")\n', ["rules/own.lua:2"]),
        ('local rules = "rules/own.lua"\ndofile(directory .. rules)\n', ["rules/own.lua:2"]),
    ],
)
def test_calls_in_lua(site: Site, text: str, found: list[str]) -> None:
    site.write("rules/own.lua", '\nlocal j = dofile("{etc}/jobsight.lua")\n')
    assert site.calls(site.write("site.lua", text)) == found


def test_hooks_of_pbs_and_queues_of_grid_engine(site: Site) -> None:
    hook = f"import subprocess\nsubprocess.call(['{site.lib}/execjob_begin'])\nfrom jobsight_advice import advice\n"
    assert site.calls(Script("hook own", hook)) == ["hook own:2", "hook own:3"]
    site.write("jsv.sh", "#!/bin/sh\n. {lib}/prolog\n", 0o755)
    texts = {
        ("-sconf",): f"jsv_url  script:{site.etc}/jsv.sh\nprolog  none\n", ("-sql",): "all.q\n",
        ("-sq", "all.q"): f"qname all.q\nprolog  root@{site.lib}/prolog\n", ("-spl",): "mpi\n",
        ("-sp", "mpi"): f"start_proc_args {site.lib}/prolog x\n", ("-sconfl",): "",
    }  # fmt: skip
    found = site.calls(*queues(lambda *words: texts[words]))
    assert found == ["jsv.sh:2", "qconf -sq all.q:2", "qconf -sp mpi:1"]


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_line_that_setup_prints_survives_our_absence(site: Site, shell: str) -> None:
    script = site.write("prolog", f"set -e\n{safe_call(site.lib / 'prolog')}\n")
    run = [shell, script]
    assert subprocess.run(run).returncode == 0
    (site.lib / "prolog").write_text("#!/bin/sh\nexit 3\n")
    (site.lib / "prolog").chmod(0o755)
    assert subprocess.run(run).returncode == 3


@ROOT
def test_slurm_is_not_left_while_scripts_of_the_site_call_ours(machine: Machine) -> None:  # noqa: F811
    machine.command("scontrol", SCONTROL)
    conf, script, prolog = (machine.directory / name for name in ("slurm.conf", "job_submit.lua", "prolog"))
    module = machine.directory / "jobsight_submit.lua"
    hooks = machine.prefix / "usr/local/lib/jobsight"
    module.write_text("-- ours\n")
    before = f"ClusterName=c\nSlurmUser=root\nProlog={prolog}\nEpilog=/nowhere/epilog\n"
    before += f"TaskProlog={machine.directory}/task.d/*\n"
    conf.write_text(f"{before}JobSubmitPlugins=lua\n")
    (machine.bin / "running").write_text(conf.read_text())
    script.write_text(f'-- own\nlocal j = dofile("{module}")\n')
    prolog.write_text(f"#!/bin/sh\n{hooks}/prolog\n")
    (machine.directory / "task.d").mkdir()
    (machine.directory / "task.d/own").write_text(f"#\n\n{hooks}/prolog\n")
    written = {
        str(module): {"sha256": digest(module.read_bytes())},
        str(conf): {"sha256": digest(conf.read_bytes()), "before": before},
    }
    manifest = machine.prefix / "etc/jobsight/setup-slurm.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"files": written}))
    places = [f"{prolog}:2", f"{machine.directory}/task.d/own:3", f"{script}:2"]
    while places:
        present = conf.read_bytes(), module.read_bytes(), manifest.exists()
        refused = machine.jobsight("setup", "slurm", "--remove", status=1)
        assert all(place in refused for place in places)
        assert "not read: /nowhere/epilog is not on this host" in refused
        assert present == (conf.read_bytes(), module.read_bytes(), True), "nothing is removed"
        Path(places.pop().partition(":")[0]).write_text("-- own\n")
    machine.jobsight("setup", "slurm", "--remove")
    assert conf.read_text() == before
    assert (module.exists(), script.read_text()) == (False, "-- own\n")


@ROOT
def test_pbs_is_not_left_while_a_hook_of_the_site_calls_ours(machine: Machine) -> None:  # noqa: F811
    machine.command("qmgr", QMGR)
    machine.jobsight("setup", "pbs", "--configure", "--yes")
    own = machine.bin / "hooks/own"
    own.write_text("import sys\nimport jobsight_advice\n")
    present = machine.files()
    assert "hook own:2: import jobsight_advice" in machine.jobsight("setup", "pbs", "--remove", status=1)
    assert (machine.files(), (machine.bin / "hooks/jobsight_mark").exists()) == (present, True)
    own.unlink()
    machine.jobsight("setup", "pbs", "--remove")


@ROOT
def test_a_node_keeps_what_its_scripts_call(machine: Machine) -> None:  # noqa: F811
    machine.jobsight("setup", "torque", "--yes")
    archive = machine.prefix / "usr/local/lib/jobsight/jobsight-node.sh"
    node = machine.directory / "node"
    subprocess.run(["sh", str(archive), "--prefix", str(node)], check=True, capture_output=True)
    conf, prolog = machine.directory / "slurm.conf", machine.directory / "prolog"
    hooks, mom = node / "usr/local/lib/jobsight", node / "var/spool/torque/mom_priv"
    archive.write_bytes(archive.read_bytes().replace(b"\nSTARTED=''\n", f"\nSTARTED='{conf} /nowhere'\n".encode()))
    mom.mkdir(parents=True)
    (mom / "epilogue").write_text(f"exec {hooks}/epilogue\n")
    conf.write_text(f"ClusterName=c\nProlog={prolog}\nEpilog={hooks}/epilog\n")
    prolog.write_text(f"#!/bin/sh\n{hooks}/prolog\n")
    uninstall = ["sh", str(archive), "--uninstall", "--prefix", str(node)]
    refused = subprocess.run(uninstall, capture_output=True, text=True)
    assert refused.returncode == 1
    assert f"{prolog}:2: {hooks}/prolog" in refused.stderr
    assert f"{conf}:3: Epilog={hooks}/epilog" in refused.stderr
    assert f"{mom}/epilogue:1: exec {hooks}/epilogue" in refused.stderr
    assert (hooks / "mark-job").exists()
    (mom / "epilogue").unlink()
    conf.write_text(f"ClusterName=c\nProlog={prolog}\n")
    prolog.write_text("#!/bin/sh\n")
    subprocess.run(uninstall, check=True, capture_output=True)
    assert not hooks.exists()


def test_the_search_on_nodes_needs_nothing_but_python(tmp_path: Path) -> None:
    copy = tmp_path / "site_scripts.py"
    copy.write_text(Path(site_scripts.__file__).read_text())
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", str(copy), str(tmp_path), "/nowhere", "/x"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
