"""PBS Professional, OpenPBS and TORQUE: ``qmgr`` and ``pbsnodes``, their hooks and the submit filter."""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

from jobsight_server.setup.manifest import Manifest
from jobsight_server.setup.places import Places
from jobsight_server.setup.plan import Command, File, Item, PlannedToken
from jobsight_server.setup.run import run, undo
from jobsight_server.setup.schedulers.scheduler import (
    SchedulerSetup,
    answer,
    asked_there,
    still_called,
    submission_files,
)
from jobsight_server.setup.shipped import shipped
from jobsight_server.setup.site_scripts import Script

_MOM_HOOKS = ("prologue", "epilogue", "prologue.parallel", "epilogue.parallel")
_HOOKS = ("jobsight_advice", "jobsight_mark")
_QMGR = "qmgr", "-c"


def read_pbs(places: Places) -> SchedulerSetup:
    """Return PBS Professional or OpenPBS.

    Raises:
        UserError: its commands are missing, or its server does not answer.
    """
    home = _home(Path("/etc/pbs.conf"), "PBS_HOME", "/var/spool/pbs")
    token = PlannedToken(places.at("etc/jobsight/pbs-token"), 0o400, _me(places), name="pbs_server")
    scripts = places.hooks
    values = {**asked_there(places, _cluster(places), token), "breaker_file": f"{home}/server_priv/jobsight-submission"}
    choices, hook = submission_files("pbs/queuejob.py", scripts / "queuejob.py", 0o644, values, places)
    advice = hook.wanted().decode()
    mark = shipped("pbs/jobsight_hook.py").replace("/usr/local/lib/jobsight", str(scripts))
    items: list[Item] = [
        File(scripts / "jobsight_advice.py", 0o644, content=shipped("pbs/jobsight_advice.py")),
        choices,
        hook,
        File(scripts / "jobsight_hook.py", 0o644, content=mark),
    ]
    hooks = {
        "jobsight_advice": ("event=queuejob,alarm=5", scripts / "queuejob.py", advice),
        "jobsight_mark": (
            'event="execjob_begin,execjob_epilogue,execjob_end",order=1', scripts / "jobsight_hook.py", mark,
        ),
    }  # fmt: skip
    commands = []
    for name, (settings, file, text) in hooks.items():
        create, delete = f"create hook {name} {settings}", (*_QMGR, f"delete hook {name}")
        fetch = f"import hook {name} application/x-python default {file}"
        commands.append(Command((*_QMGR, create), partial(_has_hook, name), delete))
        commands.append(Command((*_QMGR, fetch), partial(_has_script, name, text)))
    notes = []
    if places.configure:
        items += commands
    else:
        notes = [f"{' '.join(_QMGR)} '{command.argv[-1]}'" for command in commands if not command.done()]
    return _scheduler("pbs", "pbspro", places, home, token, items, [*_installation(places), *notes], ())


def read_torque(places: Places) -> SchedulerSetup:
    """Return TORQUE.

    Raises:
        UserError: its commands are missing, or its server does not answer.
    """
    home = "/var/spool/torque"
    token = PlannedToken(places.at("etc/jobsight/submitter-token"), 0o444, _me(places), name="users")
    values = asked_there(places, _cluster(places), token)
    library = File(places.hooks / "jobsight_advice.py", 0o644, content=shipped("pbs/jobsight_advice.py"))
    target = places.at("usr/local/sbin/torque_submitfilter")
    choices, submit_filter = submission_files("torque/submit-filter", target, 0o755, values, places)
    copies = tuple(f"{home}/mom_priv/{name}" for name in _MOM_HOOKS)
    items: list[Item] = [library, choices, submit_filter]
    login = f"copy {submit_filter.path}, {library.path}, {choices.path} and {token.path} to login nodes on other hosts"
    return _scheduler("torque", "torque", places, home, token, items, [*_installation(places), login], copies)


def leave_pbs(places: Places, manifest: Manifest, say: Callable[[str], None]) -> list[str]:
    """Delete the hooks that a setup created, and return those that are still there, or the site's that call ours.

    Raises:
        UserError: the server does not answer.
    """
    if shutil.which(_QMGR[0]) is None:
        return []
    names = [name for name in re.findall(r"(?m)^Hook:? (\S+)", run([*_QMGR, "list hook"])) if name not in _HOOKS]
    export = "export hook {} application/x-python default"
    started = [Script(f"hook {name}", run([*_QMGR, export.format(name)])) for name in names]
    if called := still_called(places, manifest, [*started, *_site_files("/var/spool/pbs")], say):
        return called
    undo(manifest, _QMGR[0], lambda command: _has_hook(command[-1].split()[-1]), say)
    return [f"hook {name}" for name in _HOOKS if _has_hook(name)]


def leave_torque(places: Places, manifest: Manifest, say: Callable[[str], None]) -> list[str]:
    """Return the site's scripts that call ours; TORQUE itself runs without the filter and the hooks."""
    return still_called(places, manifest, _site_files("/var/spool/torque"), say)


def _site_files(home: str) -> list[str]:
    """Return the files of this host that PBS or TORQUE run or read."""
    places = ("torque.cfg", "mom_priv/prologue*", "mom_priv/epilogue*")
    return [str(file) for place in places for file in sorted(Path(home).glob(place))]


def _scheduler(
    kind: str, form: str, places: Places, home: str, token: PlannedToken, items: list[Item], notes: list[str],
    copies: tuple[str, ...],
) -> SchedulerSetup:  # fmt: skip
    name = _server_name()
    listed = run(["pbsnodes", "-a"])
    nodes = tuple(sorted(re.findall(r"^(\S+)\s*$", listed, re.MULTILINE)))
    folder = f"{home}/server_priv/accounting"
    if places.owner != "root":
        notes.append(
            f"{places.owner} must be able to read {folder}: setfacl -m u:{places.owner}:x {home}/server_priv; "
            f"setfacl -R -m u:{places.owner}:rX {folder}; setfacl -d -m u:{places.owner}:rX {folder}"
        )
    shown = {"server": name, "accounting": folder, "nodes": ", ".join(nodes)}
    # With its full path, because services have a short PATH.
    qstat = json.dumps([shutil.which("qstat") or "qstat"])
    source = f'format = "{form}"\ndirectory = "{folder}"\nqstat = {qstat}\n'
    cluster = places.cluster or name.partition(".")[0]
    setup = places.command("setup", kind)
    return SchedulerSetup(
        kind, cluster, nodes, source, shown, _submit, token, items, notes, copies, comment=_comment,
        unmarked=lambda: "" if copies or _has_hook(_HOOKS[1]) else f"no hook {_HOOKS[1]}: run `{setup} --configure`",
    )  # fmt: skip


def _server_name() -> str:
    listed = answer([*_QMGR, "list server"], "no PBS server answers: run this on its host while pbs_server runs")
    found = re.search(r"^Server:? ?(\S+)", listed, re.MULTILINE)
    return found[1] if found else socket.gethostname()


def _cluster(places: Places) -> str:
    return places.cluster or _server_name().partition(".")[0]


def _me(places: Places) -> str:
    return "root" if places.is_system else places.owner


def _home(file: Path, name: str, default: str) -> str:
    found = re.search(rf"^{name}=(\S+)", file.read_text(), re.MULTILINE) if file.exists() else None
    return found[1] if found else default


def _has_hook(name: str) -> bool:
    return re.search(rf"\b{name}\b", run([*_QMGR, "list hook"])) is not None


def _has_script(name: str, text: str) -> bool:
    export = (*_QMGR, f"export hook {name} application/x-python default")
    return _has_hook(name) and run(export).strip() == text.strip()


def _installation(places: Places) -> list[str]:
    return [f"install the agents: sh {places.archive} as root on each node"]


def _submit(user: str, script: str) -> str:
    command = ["qsub", "-N", "jobsight-check", "-l", "walltime=300", "-o", "/dev/null", "-e", "/dev/null"]
    return run(command, user, given=f"#!/bin/sh\n{script}\n").strip()


def _comment(job: str) -> str:
    found = re.search(r"^\s*comment = (.*(?:\n\t.*)*)", run(["qstat", "-f", job]), re.MULTILINE)
    return found[1].replace("\n\t", "") if found else ""
