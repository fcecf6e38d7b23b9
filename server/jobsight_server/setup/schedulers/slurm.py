"""Slurm: its configuration in ``scontrol`` and ``sinfo``, and the items of its plugins."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from jobsight_server.ground.errors import UserError
from jobsight_server.setup.manifest import Manifest
from jobsight_server.setup.places import Places
from jobsight_server.setup.plan import Command, File, Item, PlannedToken
from jobsight_server.setup.reporting import reporting_nodes
from jobsight_server.setup.run import run, succeeds, until_empty
from jobsight_server.setup.schedulers.scheduler import (
    CheckResult,
    SchedulerSetup,
    answer,
    asked_there,
    still_called,
    submission_files,
)
from jobsight_server.setup.schedulers.slurm_conf import configured, has, without
from jobsight_server.setup.schedulers.slurm_lua import lua_problem
from jobsight_server.setup.schedulers.slurm_scripts import (
    NONE,
    missing_lines,
    module_of,
    own_script,
    started,
    started_on_nodes,
    unmarked,
)
from jobsight_server.setup.shipped import shipped, with_toml_settings

_AWAY = "no Slurm answers: run this on a host of the cluster while slurmctld runs, or set SLURM_CONF to its slurm.conf"


def read(places: Places) -> SchedulerSetup:
    """Return the Slurm whose commands are on the path.

    Raises:
        UserError: they are missing, slurmctld or slurmdbd does not answer, or no nodes are configured.
    """
    config = _config()
    _check(config)
    cluster = places.cluster or config["ClusterName"]
    nodes = tuple(sorted(set(run(["sinfo", "-h", "-N", "-o", "%N"]).split())))
    if not nodes:
        raise UserError("sinfo lists no nodes: configure them in slurm.conf first")
    slurm_conf = Path(config["SLURM_CONF"]).resolve()
    slurm_user = config["SlurmUser"].partition("(")[0]
    token = PlannedToken(places.at("etc/jobsight/slurm-token"), 0o400, slurm_user, name="slurmctld")
    library = lua_problem(config)
    values = asked_there(places, cluster, token)
    script = own_script(slurm_conf, places)
    lacking = [] if script else missing_lines(slurm_conf)
    items: list[Item] = [
        File(slurm_conf.with_name("jobsight.lua"), 0o644, content=shipped("slurm/jobsight.lua")),
        *submission_files("slurm/jobsight_submit.lua", module_of(slurm_conf), 0o644, values, places),
        *([script] if script else []),
        *_right_to_see_all_jobs(config, places.owner, slurm_user),
    ]
    munge_socket = _munge_socket(config)
    if munge_socket:
        seff = with_toml_settings(
            shipped("slurm/jobsight-seff"), {"SERVER": places.url_of_users, "MUNGE": f"munge --socket={munge_socket}"}
        )
        items.append(File(places.at("usr/local/bin/jobsight-seff"), 0o755, content=seff))
    silent = sorted(set(nodes) - reporting_nodes(places, cluster))
    # A missing prolog drains a node.
    wanted = {
        name: value
        for name, value in _wanted(places).items()
        if (library is None and not lacking if name == "JobSubmitPlugins" else not silent)
    }
    text, lines, left = configured(slurm_conf, config["ClusterName"], wanted)
    notes = [*left.values(), *_notes(config, library, silent, places)]
    if lacking:
        notes.append(
            f"{slurm_conf.with_name('job_submit.lua')} is the site's own: keep it, and add to it\n  {_listed(lacking)}"
        )
    mine = {name: value for name, value in wanted.items() if name not in left}
    reload = Command(("scontrol", "reconfigure"), lambda: _runs_with(mine))
    if places.configure:
        if lines:
            found = slurm_conf.stat()
            owner = run(["stat", "-c", "%U", str(slurm_conf)]).strip()
            items.append(File(slurm_conf, found.st_mode & 0o7777, owner, str(found.st_gid), text, merged=True))
        items.append(reload)
    elif lines:
        shown = "\n    ".join(lines)
        notes.append(f"add to {slurm_conf}, then `scontrol reconfigure` (--configure does both):\n    {shown}")
    elif not reload.done():
        notes.append(f"slurmctld has not read {slurm_conf} as it is now: run `scontrol reconfigure`")
    setup = places.command("setup", "slurm")
    return SchedulerSetup(
        "slurm", cluster, nodes, _source(config), _shown(config, cluster, nodes), _submit, token, items, notes,
        munge_socket=munge_socket, comment=_comment,
        checks=lambda: _checks(config, slurm_conf, library, token, places),
        unmarked=lambda: unmarked(config, places, setup),
        started=(str(slurm_conf), *started_on_nodes(config, slurm_conf)),
    )  # fmt: skip


def leave(places: Places, manifest: Manifest, say: Callable[[str], None]) -> list[str]:
    """Take Jobsight's settings out of slurm.conf, have slurmctld read it, and return those that slurmctld still has.

    Raises:
        UserError: slurmctld does not answer.
    """
    if shutil.which("scontrol") is None:
        beside = (Path(name).with_name("job_submit.lua") for name in manifest.files if name.endswith("/jobsight.lua"))
        return still_called(places, manifest, [str(script) for script in beside if script.exists()], say)
    config = _config()
    slurm_conf = Path(config["SLURM_CONF"]).resolve()
    if called := still_called(places, manifest, started(config, slurm_conf), say):
        return called
    written = manifest.files.pop(str(slurm_conf), None)
    manifest.take_undo("scontrol")
    if written is not None:
        present = slurm_conf.read_text()
        text = without(present, written.before or "", _wanted(places))
        if text != present:
            slurm_conf.write_text(text)
            say(f"took Jobsight's settings out of {slurm_conf}")
        run(["scontrol", "reconfigure"])
        say("ran scontrol reconfigure")
    return until_empty(lambda: _still(places, manifest))


def _still(places: Places, manifest: Manifest) -> list[str]:
    """Return the settings of slurmctld that would drain nodes, or keep it from starting, once our files are gone."""
    config = _config()
    found = [f"{name}={config[name]}" for name in ("Prolog", "Epilog") if str(places.hooks) in config.get(name, "")]
    script = next((name for name in manifest.files if name.endswith("/job_submit.lua")), None)
    goes = script is not None and manifest.files[script].before is None and manifest.is_unedited(script)
    if goes and has("JobSubmitPlugins", "lua", config.get("JobSubmitPlugins", "")):
        found.append(f"JobSubmitPlugins={config['JobSubmitPlugins']}")
    return found


def _wanted(places: Places) -> dict[str, str]:
    hooks = {"Prolog": str(places.hooks / "prolog"), "Epilog": str(places.hooks / "epilog")}
    return {"JobSubmitPlugins": "lua", **hooks, "PrologFlags": "Alloc"}


def _runs_with(wanted: Mapping[str, str]) -> bool:
    """Return whether slurmctld has these settings."""
    config = _config()
    return all(has(name, value, config.get(name, "")) for name, value in wanted.items())


def _config() -> dict[str, str]:
    text = answer(["scontrol", "show", "config"], _AWAY)
    found = dict(re.findall(r"^(\w+(?:\[[1-9]\d*\])?)(?:\[0\])?\s*= ?(.*?)\s*$", text, re.MULTILINE))
    for name in ("ClusterName", "SLURM_CONF", "SlurmUser"):
        if not found.get(name):
            raise UserError(f"`scontrol show config` has no {name}: {text[:200]!r}")
    return found


def _check(config: dict[str, str]) -> None:
    answer(["scontrol", "ping"], _AWAY)
    if config.get("AccountingStorageType", "(null)").rpartition("/")[2].lower() in NONE:
        raise UserError(
            "Slurm keeps no accounting (AccountingStorageType): Jobsight learns from it. Set up slurmdbd, or follow "
            "jobcomp/filetxt by hand (docs/operate/sources.md)"
        )
    answer(["sacct", "-n", "-X", "-S", "now-1hour"], "slurmdbd does not answer: start it")


def _munge_socket(config: Mapping[str, str]) -> str:
    """Return the socket of munged; empty if Slurm does without."""
    if "munge" not in config.get("AuthType", ""):
        return ""
    named = re.search(r"socket=([^,]+)", config.get("AuthInfo", ""))
    return named[1] if named else "/run/munge/munge.socket.2"


def _command(name: str) -> list[str]:
    """Return a command with its full path, because services have a short PATH, and the current configuration file."""
    found = [shutil.which(name) or name]
    named = os.environ.get("SLURM_CONF")
    return ["env", f"SLURM_CONF={named}", *found] if named else found


def _source(config: Mapping[str, str]) -> str:
    commands = f"sacct = {json.dumps(_command('sacct'))}\nsqueue = {json.dumps(_command('squeue'))}\n"
    cache = "" if counts_cache(config) else "page_cache = false\n"
    return f'format = "slurm"\n{commands}{cache}'


def counts_cache(config: Mapping[str, str]) -> bool:
    """Return whether MaxRSS may contain page cache: it does where memory is read from a cgroup of version 2."""
    gather, plugin, parameters = (
        config.get(name, "").lower() for name in ("JobAcctGatherType", "CgroupPlugin", "JobAcctGatherParams")
    )
    is_version_1 = plugin.rpartition("/")[2] == "v1"
    return gather.endswith("cgroup") and not is_version_1 and "no_file_cache" not in re.split(r"[\s,]+", parameters)


def _right_to_see_all_jobs(config: dict[str, str], user: str, slurm_user: str) -> list[Item]:
    private = config.get("PrivateData", "").lower()
    if not {"jobs", "usage", "all"} & set(re.split(r"\W+", private)) or user in ("root", slurm_user):
        return []
    level = ("sacctmgr", "-nP", "show", "user", user, "format=adminlevel")
    add = ("sacctmgr", "-i", "add", "user", f"name={user}", "account=root", "adminlevel=operator")
    return [Command(add, lambda: "perator" in run(level), undo=("sacctmgr", "-i", "delete", "user", f"name={user}"))]


def _shown(config: dict[str, str], cluster: str, nodes: tuple[str, ...]) -> dict[str, str]:
    name = config["ClusterName"]
    return {
        "Slurm": f"{config.get('SLURM_VERSION', '?')}, cluster {name}"
        + (f", in Jobsight {cluster}" if cluster != name else ""),
        "nodes": f"{len(nodes)}: {', '.join(nodes[:6])}{' ...' if len(nodes) > 6 else ''}",
        "measures": f"{config.get('JobAcctGatherType', '?')}, every {config.get('JobAcctGatherFrequency', '?')}",
        "PrivateData": config.get("PrivateData", "none"),
    }


def _notes(config: dict[str, str], library: str | None, silent: list[str], places: Places) -> list[str]:
    notes = [] if library is None else [f"JobSubmitPlugins=lua is left out: {library}"]
    if config.get("JobAcctGatherType", "").rpartition("/")[2].lower() in NONE:
        notes.append("Slurm measures no memory: set JobAcctGatherType=jobacct_gather/cgroup in slurm.conf")
    hosts = {name.partition(".")[0] for name in re.split(r"[\s,()]+", config.get("SlurmctldHost", ""))}
    if socket.gethostname().partition(".")[0] not in hosts and hosts != {""}:
        notes.append(f"slurmctld is on another host ({config['SlurmctldHost']}): run this there")
    seff = places.at("usr/local/bin/jobsight-seff")
    if _munge_socket(config) and places.users_url:
        notes.append(f"copy {seff} to login nodes: users ask there for their own jobs")
    elif _munge_socket(config):
        notes.append(f"{seff} works on this host only: --users-url gives the address for login nodes")
    if silent:
        notes.append(
            f"install the agents: sh {places.archive} as root on each node. Run this again once all have reported: "
            f"a prolog that a node lacks would drain it, so Prolog and Epilog wait for them ({len(silent)} left)"
        )
    return notes


def _checks(
    config: dict[str, str], slurm_conf: Path, library: str | None, token: PlannedToken, places: Places
) -> Iterator[CheckResult]:
    setup, script = places.command("setup", "slurm"), slurm_conf.with_name("job_submit.lua")
    if socket_of_munge := _munge_socket(config):
        works = succeeds(["munge", "-n", f"--socket={socket_of_munge}"])
        yield CheckResult("munge answers", works, "start munged; `munge -n` shows what is wrong")
    yield CheckResult("Lua for job_submit.lua", library is None, library or "")
    plugins = config.get("JobSubmitPlugins", "").split(",")
    yield CheckResult("JobSubmitPlugins has lua", "lua" in plugins, f"run `{setup} --configure`")
    lacking = script.exists() and missing_lines(slurm_conf)
    todo = f"add to it\n  {_listed(lacking)}" if lacking else f"there is none: run `{setup}`"
    yield CheckResult(f"{script} calls Jobsight", lacking == [], todo)
    readable = succeeds(["test", "-r", str(token.path)], token.owner)
    yield CheckResult(f"{token.owner} can read {token.path}", readable, f"run `{setup}`; open its directory")
    cache = "set JobAcctGatherParams=no_file_cache if this Slurm knows it; else a job's cgroup counts where it is read"
    yield CheckResult("Slurm's MaxRSS has no page cache", not counts_cache(config) or None, cache)
    todo = unmarked(config, places, setup)
    yield CheckResult("Prolog and Epilog mark jobs", not todo or None, todo)


def _listed(lines: list[str]) -> str:
    return "\n  ".join(lines)


def _submit(user: str, script: str) -> str:
    command = ["sbatch", "--parsable", "--job-name=jobsight-check", "--time=5", "--output=/dev/null"]
    return run([*command, f"--wrap={script}"], user).strip().partition(";")[0]


def _comment(job: str) -> str:
    found = re.search(r"^\s*AdminComment=(.*)$", run(["scontrol", "show", "job", job]), re.MULTILINE)
    return found[1] if found else ""
