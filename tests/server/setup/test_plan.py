"""Plans below a temporary prefix, with stand-ins for the commands of PBS or TORQUE that record their input."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from jobsight_server.cli import main
from jobsight_server.settings.load import load_settings
from jobsight_server.setup.manifest import digest
from jobsight_server.setup.schedulers.slurm import counts_cache
from jobsight_server.setup.schedulers.slurm_conf import configured, without

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="a setup runs as root")]

QMGR = """#!/bin/sh
# Keeps hooks as files.
state=$(dirname "$0")/hooks; mkdir -p "$state"; set -- $2
case "$1 $2" in
    "list server") echo "Server pbs1.example.org" ;;
    "list hook") for hook in "$state"/*; do [ ! -e "$hook" ] || echo "Hook ${hook##*/}"; done ;;
    "create hook") : >"$state/$3" ;;
    "import hook") cp "$6" "$state/$3" ;;
    "export hook") cat "$state/$3" ;;
    "delete hook") rm "$state/$3" ;;
    *) echo "qmgr: $*" >&2; exit 1 ;;
esac
"""
KEPT = {"jobsight.db", "jobsight.db-wal", "jobsight.db-shm"}
PBSNODES = "#!/bin/sh\nprintf 'n1\\n     state = free\\n\\nn2\\n     state = free\\n'\n"


class Machine:
    """A prefix, and commands that come before those of the machine."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.directory, self.prefix, self.bin = directory, directory / "site", directory / "bin"
        self.prefix.mkdir()
        self.bin.mkdir()

    def command(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def jobsight(self, *arguments: str, status: int = 0) -> str:
        found = main([*arguments, "--prefix", str(self.prefix)])
        said = "".join(self._capsys.readouterr())
        assert found == status, said
        return said

    def files(self) -> dict[str, bytes]:
        return {str(file): file.read_bytes() for file in self.prefix.rglob("*") if file.is_file()}


@pytest.fixture
def machine(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path, capsys)
    monkeypatch.setenv("PATH", f"{made.bin}:/usr/bin:/bin")
    monkeypatch.delenv("SGE_ROOT", raising=False)
    made.command("qmgr", QMGR)
    made.command("pbsnodes", PBSNODES)
    made.command("qstat", "#!/bin/sh\n")
    return made


@pytest.mark.parametrize(
    ("gather", "plugin", "parameters", "counts"),
    [
        ("jobacct_gather/cgroup", "cgroup/v2", "(null)", True),
        ("jobacct_gather/cgroup", "autodetect", "UsePss", True),
        ("jobacct_gather/cgroup", "", "", True),
        ("jobacct_gather/cgroup", "cgroup/v2", "UsePss,no_file_cache", False),
        ("jobacct_gather/cgroup", "cgroup/v1", "(null)", False),
        ("jobacct_gather/linux", "autodetect", "(null)", False),
    ],
)
def test_slurms_configuration_says_whether_memory_has_page_cache(
    gather: str, plugin: str, parameters: str, counts: bool
) -> None:
    config = {"JobAcctGatherType": gather, "CgroupPlugin": plugin, "JobAcctGatherParams": parameters}
    assert counts_cache(config) is counts


def test_pbs_gets_settings_tokens_and_hooks_once(machine: Machine) -> None:
    assert "nothing was changed" in machine.jobsight("setup", "pbs", "--configure", "--dry-run")
    assert machine.files() == {}
    machine.jobsight("setup", "pbs", "--configure", "--yes")
    etc, hooks = machine.prefix / "etc/jobsight", machine.bin / "hooks"
    (source,) = tomllib.loads((etc / "jobsight.toml").read_text())["accounting"]
    qstat = str(machine.bin / "qstat")
    directory = "/var/spool/pbs/server_priv/accounting"
    assert source == {"cluster": "pbs1", "format": "pbspro", "directory": directory, "qstat": [qstat]}
    assert load_settings(etc / "jobsight.toml").accounting[0].queue_command == (qstat,)
    assert stat.S_IMODE((etc / "pbs-token").stat().st_mode) == 0o400
    assert f'"token_file": "{etc}/pbs-token",' in (hooks / "jobsight_advice").read_text()
    assert {hook.name for hook in hooks.iterdir()} == {"jobsight_advice", "jobsight_mark"}
    first = machine.files()
    assert "nothing to change" in machine.jobsight("setup", "pbs", "--configure", "--yes")
    assert machine.files() == first
    machine.command("qmgr", QMGR.replace('rm "$state/$3"', "exit 1"))
    assert "delete hook jobsight_advice: status 1" in machine.jobsight("setup", "pbs", "--remove", status=1)
    assert machine.files() == first, "hooks that are left need their files"
    machine.command("qmgr", QMGR)
    said = machine.jobsight("setup", "pbs", "--remove")
    assert said.index("delete hook jobsight_mark") < said.index("jobsight_advice.py") < said.index("--uninstall")
    assert not [*hooks.iterdir()]
    assert {Path(name).name for name in machine.files()} - KEPT == {"jobsight-node.sh"}


@pytest.mark.exhaustive
def test_torque_gets_a_filter_and_the_archive_its_hooks(machine: Machine) -> None:
    machine.jobsight("setup", "torque", "--yes", "--cluster", "alpha")
    script = machine.prefix / "usr/local/sbin/torque_submitfilter"
    assert '"cluster": "alpha",' in script.read_text()
    subprocess.run([sys.executable, "-m", "py_compile", str(script)], check=True, capture_output=True)
    archive = (machine.prefix / "usr/local/lib/jobsight/jobsight-node.sh").read_bytes()
    assert b"HOOK_COPIES='/var/spool/torque/mom_priv/prologue " in archive
    mom = machine.prefix / "var/spool/torque/mom_priv"
    mom.mkdir(parents=True)
    (mom / "epilogue").write_text("#!/bin/sh\n# the site's own\n")
    installer = machine.prefix / "usr/local/lib/jobsight/jobsight-node.sh"
    options = ["--prefix", str(machine.prefix)]
    done = subprocess.run(["sh", str(installer), *options], capture_output=True, text=True, check=True)
    assert "which is the site's own: add to it: [ ! -x " in done.stderr
    assert (mom / "epilogue").read_text() == "#!/bin/sh\n# the site's own\n"
    assert stat.S_IMODE((mom / "prologue.parallel").stat().st_mode) == 0o500
    subprocess.run(["sh", str(installer), "--uninstall", *options], check=True, capture_output=True)
    assert [file.name for file in mom.iterdir()] == ["epilogue"]
    assert not (machine.prefix / "opt/jobsight").exists()


@pytest.mark.exhaustive
def test_settings_of_the_site_stay_and_are_added_to(machine: Machine) -> None:
    settings = machine.prefix / "etc/jobsight/jobsight.toml"
    settings.parent.mkdir(parents=True)
    own = f'database = "sqlite:///{machine.prefix}/own.db"\ncoverage = 0.9 # ours\n'
    settings.write_text(own)
    shown = machine.jobsight("setup", "torque", "--yes")
    assert '+cluster = "pbs1"' in shown
    assert settings.read_text().startswith(own)
    assert settings.read_text().count("[[accounting]]") == 1
    earlier = [line for line in settings.read_text().splitlines() if not line.startswith("qstat")]
    settings.write_text("\n".join(earlier))  # of a release that did not look at the queue
    refused = machine.jobsight("setup", "torque", "--yes", "--cluster", "other", status=1)
    assert "follows this scheduler as cluster 'pbs1' already" in refused


@pytest.mark.exhaustive
def test_options_hold_from_then_on(machine: Machine) -> None:
    machine.jobsight(
        "setup", "torque", "--yes", "--cluster", "alpha", "--agents-url", "https://j.example", "--port", "9"
    )
    settings = tomllib.loads((machine.prefix / "etc/jobsight/jobsight.toml").read_text())
    assert (settings["listen"], settings["ingest_listen"]) == (["127.0.0.1:9"], "127.0.0.1:10")
    assert "nothing to change" in machine.jobsight("setup", "torque", "--yes")
    assert "has port 9" in machine.jobsight("setup", "torque", "--yes", "--port", "10", status=1)
    archive = machine.prefix / "usr/local/lib/jobsight/jobsight-node.sh"
    subprocess.run(["sh", str(archive), "--prefix", str(machine.directory / "node")], check=True, capture_output=True)
    agent = tomllib.loads((machine.directory / "node/etc/jobsight/agent.toml").read_text())
    assert (agent["server"], agent["cluster"]) == ("https://j.example", "alpha")


def test_an_edited_file_is_kept_and_removed_by_hand_only(machine: Machine) -> None:
    machine.jobsight("setup", "torque", "--yes")
    script = machine.prefix / "usr/local/sbin/torque_submitfilter"
    edited = script.read_text().replace("WITHOUT_VALUE = ", "WITHOUT_VALUE = OURS = ")
    script.write_text(edited)
    shown = machine.jobsight("setup", "torque", "--yes")
    assert "-WITHOUT_VALUE = OURS" in shown
    assert f"kept {script}: it was edited here" in shown
    assert f"kept {script}: it was edited since" in machine.jobsight("setup", "torque", "--remove")
    assert script.read_text() == edited


@pytest.mark.exhaustive
def test_a_failure_says_what_was_done_and_goes_on_from_there(machine: Machine) -> None:
    machine.command("qmgr", QMGR.replace('cp "$6" "$state/$3"', "echo 'no right' >&2; exit 1"))
    failed = machine.jobsight("setup", "pbs", "--configure", "--yes", status=1)
    assert "no right" in failed
    assert "done before: " in failed
    assert str(machine.prefix / "etc/jobsight/pbs-token") in failed
    machine.command("qmgr", QMGR)
    machine.jobsight("setup", "pbs", "--configure", "--yes")
    assert "queuejob" in (machine.bin / "hooks/jobsight_advice").read_text()


def test_missing_or_silent_schedulers_are_refused(machine: Machine) -> None:
    machine.command("scontrol", "#!/bin/sh\necho 'slurmctld is down' >&2; exit 1\n")
    for command in ("setup", "check"):
        (line,) = machine.jobsight(command, "slurm", status=1).splitlines()
        assert "no Slurm answers: run this on a host of the cluster" in line
        assert "slurmctld is down" not in line
    assert "SGE_ROOT is not set" in machine.jobsight("setup", "gridengine", status=1)
    (machine.bin / "qmgr").unlink()
    assert "qmgr: no such command" in machine.jobsight("setup", "torque", status=1)
    assert machine.files() == {}
    machine.command("qmgr", QMGR)
    assert "give --yes or --dry-run" in machine.jobsight("setup", "torque", status=1)


SCONTROL = """#!/bin/sh
# slurmctld: runs with what slurm.conf said when it last read it.
here=$(dirname "$0"); conf=$here/../slurm.conf
case "$*" in
    "show config") cat "$here/running"; echo "SLURM_CONF = $conf" ;;
    reconfigure) [ -e "$here/stuck" ] || cp "$conf" "$here/running" ;;
esac
"""


def test_slurm_is_left_before_files_go_and_by_a_manifest_of_the_last_release_too(machine: Machine) -> None:
    machine.command("scontrol", SCONTROL)
    conf, script = machine.directory / "slurm.conf", machine.directory / "job_submit.lua"
    before = "ClusterName=c\nSlurmUser=root\nPrologFlags=X11\n"
    hooks = machine.prefix / "usr/local/lib/jobsight"
    with_ours = f"{before}JobSubmitPlugins=lua\nProlog={hooks}/prolog\nEpilog={hooks}/epilog\n"
    conf.write_text(f"{with_ours}NodeName=later\n")
    script.write_text("-- ours\n")
    (machine.bin / "running").write_text(conf.read_text())
    written = {
        str(conf): {"sha256": digest(with_ours.encode()), "before": before},
        str(script): {"sha256": digest(script.read_bytes())},
    }
    manifest = machine.prefix / "etc/jobsight/setup-slurm.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(
        json.dumps({"user": "", "files": written, "folders": [], "undo": [["scontrol", "reconfigure"]]})
    )
    (machine.bin / "stuck").touch()
    refused = machine.jobsight("setup", "slurm", "--remove", status=1)
    assert f"the scheduler still has Prolog={hooks}/prolog; Epilog={hooks}/epilog; JobSubmitPlugins=lua: " in refused
    assert script.exists(), "slurmctld would not start without it"
    assert conf.read_text() == f"{before}NodeName=later\n"
    (machine.bin / "stuck").unlink()
    subprocess.run([machine.bin / "scontrol", "reconfigure"], check=True)  # as the message asks for
    said = machine.jobsight("setup", "slurm", "--remove")
    assert said.index("removed ") < said.index("1. where nodes have copies of slurm.conf")
    assert not script.exists()
    assert not manifest.exists()


WANTED = {"JobSubmitPlugins": "lua", "Prolog": "/j/prolog", "Epilog": "/j/epilog", "PrologFlags": "Alloc"}
EPILOG = "Epilog=/j/epilog"


@pytest.mark.parametrize(
    ("text", "added", "noted"),
    [
        ("ClusterName=a\n", ["JobSubmitPlugins=lua", "Prolog=/j/prolog", EPILOG, "PrologFlags=Alloc"], {}),
        ("jobsubmitplugins = a # x\nProlog=/j/prolog\n", ["JobSubmitPlugins=a,lua", EPILOG, "PrologFlags=Alloc"], {}),
        ("Prolog=/site\n", ["JobSubmitPlugins=lua", EPILOG, "PrologFlags=Alloc"], {"Prolog": "Prolog is /site: "}),
        ("PrologFlags=Alloc,X11\nEpilog=\nProlog=/j/prolog", ["JobSubmitPlugins=lua", EPILOG], {}),
        ("Include b.%c\nPrologFlags=X11", ["Prolog=/j/prolog", EPILOG], {"JobSubmitPlugins": "JobSubmitPlugins is"}),
        ("JobSubmitPlugins=b,lua\nPrologFlags=contain\nProlog=/j/prolog\nEpilog=/j/epilog\n", [], {}),
    ],
)  # fmt: skip
def test_slurm_conf_gets_only_what_it_lacks_and_loses_only_that(
    tmp_path: Path, text: str, added: list[str], noted: dict[str, str]
) -> None:
    file = tmp_path / "slurm.conf"
    file.write_text(text)
    (tmp_path / "b.north").write_text("JobSubmitPlugins=a\n")
    changed, lines, left = configured(file, "north", WANTED)
    assert lines == added
    assert all(changed.splitlines().count(line) == 1 for line in lines)
    assert {name: note[: len(noted[name])] for name, note in left.items()} == noted
    file.write_text(changed)
    assert configured(file, "north", WANTED)[:2] == (changed, [])
    assert without(changed, text, WANTED).rstrip("\n") == text.rstrip("\n")
    later = "NodeName=new\nPrologFlags=RunInJob # later\n"
    assert without(changed + later, text, WANTED).endswith(f"\n{later}")
    theirs = changed.replace("JobSubmitPlugins=lua", "JobSubmitPlugins=lua,own").replace("/j/prolog", "/own/prolog")
    kept = without(theirs, text, WANTED)
    assert "JobSubmitPlugins=lua,own" not in kept
    assert kept.count("/own/prolog") == theirs.count("/own/prolog")


def test_choices_of_the_site_are_never_overwritten(machine: Machine) -> None:
    machine.jobsight("setup", "torque", "--yes")
    choices = machine.prefix / "etc/jobsight/submit.conf"
    assert stat.S_IMODE(choices.stat().st_mode) == 0o644, "users' filters read it"
    assert f'"settings_file": "{choices}"' in (machine.prefix / "usr/local/sbin/torque_submitfilter").read_text()
    choices.write_text("memory = lower\n")
    assert "nothing to change" in machine.jobsight("setup", "torque", "--yes")
    machine.jobsight("setup", "torque", "--remove")
    assert choices.read_text() == "memory = lower\n"


def test_login_nodes_reach_the_server_where_the_site_says_so(machine: Machine) -> None:
    settings = machine.prefix / "etc/jobsight/jobsight.toml"
    machine.jobsight("setup", "torque", "--yes", "--port", "9")
    assert load_settings(settings).listen == ("127.0.0.1:9",)
    for wrong in ("ftp://h:1", "http://h", "http://0.0.0.0:9", "http://u@h:9", "http://h:9/x", 'http://h:9"\n'):
        assert "give https://HOST of a proxy" in machine.jobsight("setup", "torque", "--users-url", wrong, status=1)
    shown = machine.jobsight("setup", "torque", "--yes", "--users-url", "http://127.0.0.2:9")
    assert "restart it" in shown
    assert load_settings(settings).listen == ("127.0.0.2:9",)
    assert '"address": "127.0.0.2"' in (machine.prefix / "usr/local/sbin/torque_submitfilter").read_text()
    settings.write_text(settings.read_text().replace('127.0.0.2:9"', '127.0.0.3:9", "unix:/run/j"'))
    machine.jobsight("setup", "torque", "--yes")
    assert load_settings(settings).listen == ("127.0.0.3:9", "unix:/run/j"), "an address that the site gave since stays"
    machine.jobsight("setup", "torque", "--yes", "--users-url", "https://jobsight.example.org")
    assert load_settings(settings).listen == ("127.0.0.3:9", "unix:/run/j")
    machine.jobsight("setup", "torque", "--yes", "--users-url", "http://127.0.0.2:9/")
    assert load_settings(settings).listen == ("127.0.0.2:9", "unix:/run/j")


@pytest.mark.exhaustive
def test_hooks_that_were_created_by_hand_keep_their_files(machine: Machine) -> None:
    machine.jobsight("setup", "pbs", "--yes")
    first = machine.files()
    subprocess.run([machine.bin / "qmgr", "-c", "create hook jobsight_mark"], check=True)
    refused = machine.jobsight("setup", "pbs", "--remove", status=1)
    assert "the scheduler still has hook jobsight_mark: take that out" in refused
    assert machine.files() == first
    subprocess.run([machine.bin / "qmgr", "-c", "delete hook jobsight_mark"], check=True)
    machine.jobsight("setup", "pbs", "--remove")
    assert {Path(name).name for name in machine.files()} - KEPT == {"jobsight-node.sh"}
