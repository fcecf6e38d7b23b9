"""Grid Engine: its configuration in ``qconf``, and the prolog and epilog of its queues."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from jobsight_server.ground.errors import UserError
from jobsight_server.setup.manifest import Manifest
from jobsight_server.setup.places import Places
from jobsight_server.setup.plan import Command, Item
from jobsight_server.setup.reporting import reporting_nodes
from jobsight_server.setup.run import run, undo
from jobsight_server.setup.schedulers.scheduler import SchedulerSetup, answer, safe_call, still_called
from jobsight_server.setup.site_scripts import Script, calls, queues

_HOOKS = ("prolog", "epilog")


def read(places: Places) -> SchedulerSetup:
    """Return the cell of the environment (``SGE_ROOT``, ``SGE_CELL``).

    Raises:
        UserError: its variables or commands are missing, or sge_qmaster does not answer.
    """
    if "SGE_ROOT" not in os.environ:
        raise UserError("SGE_ROOT is not set: load the settings of the cell first (. .../common/settings.sh)")
    cell = os.environ.get("SGE_CELL", "default")
    file = Path(os.environ["SGE_ROOT"]) / cell / "common" / "accounting"
    listed = answer(["qconf", "-sel"], "no Grid Engine answers: run this on a host of the cell while sge_qmaster runs")
    nodes = tuple(sorted(name.partition(".")[0] for name in listed.split()))
    cluster = places.cluster or cell
    silent = sorted(set(nodes) - reporting_nodes(places, cluster))
    items: list[Item] = []
    notes, shown, unmarked, started = [], {}, [], []
    for queue in run(["qconf", "-sql"]).split():
        present = {hook: _value(queue, hook) for hook in _HOOKS}
        shown[f"queue {queue}"] = ", ".join(f"{hook} {value}" for hook, value in present.items())
        started += [word.rpartition("@")[2] for value in present.values() for word in value.split() if "/" in word]
        for hook, value in present.items():
            wanted = f"root@{places.hooks / hook}"
            change = ("qconf", "-mattr", "queue", hook, wanted, queue)
            if value == wanted:
                continue
            todo = " ".join(change)
            if value.upper() != "NONE":
                if calls([Script(queue, value)], [places.hooks]).found:
                    continue
                todo = f"{hook} of {queue} is {value}: keep it, and add to it: {safe_call(places.hooks / hook)}"
                notes.append(todo)
            elif silent or not places.configure:
                notes.append(todo)
            else:
                undo = ("qconf", "-mattr", "queue", hook, "NONE", queue)
                items.append(Command(change, partial(_is, queue, hook, wanted), undo))
            unmarked.append(todo)
    if silent:
        notes.insert(0, f"install the agents: sh {places.archive} as root on each node; then give queues the hooks:")
    return SchedulerSetup(
        "gridengine", cluster, nodes, f'format = "gridengine"\nfile = "{file}"\n',
        {"Grid Engine": f"cell {cell}, {file}", "nodes": ", ".join(nodes), **shown}, _submit, None, items, notes,
        unmarked=lambda: "; ".join(unmarked), started=tuple(dict.fromkeys(started)),
    )  # fmt: skip


def leave(places: Places, manifest: Manifest, say: Callable[[str], None]) -> list[str]:
    """Take our hooks from the queues that got them from a setup, and return the queues that still call them.

    Raises:
        UserError: sge_qmaster does not answer.
    """
    if shutil.which("qconf") is None:
        return []
    ours = re.compile(rf"(?m)^(?:{'|'.join(_HOOKS)})\s+root@{re.escape(str(places.hooks))}/\w+\s*$")
    requests = map(str, Path(os.environ.get("SGE_ROOT", "/")).glob("*/common/sge_request"))
    site = [Script(script.name, ours.sub("", script.text)) for script in queues(_ask)]
    if called := still_called(places, manifest, [*site, *requests], say):
        return called
    undo(manifest, "qconf", lambda command: _is(command[5], command[3], f"root@{places.hooks / command[3]}"), say)
    return still_called(places, manifest, queues(_ask), say)


def _ask(*words: str) -> str:
    """Return the output of qconf; empty where there is nothing to list, which it reports as a failure."""
    try:
        return run(["qconf", *words])
    except UserError as error:
        if re.search(r"\bno\b.*\b(?:defined|list|found)", str(error)):
            return ""
        raise


def _value(queue: str, name: str) -> str:
    found = re.search(rf"^{name}\s+(.*?)\s*$", run(["qconf", "-sq", queue]), re.MULTILINE)
    return found[1] if found else "NONE"


def _is(queue: str, name: str, value: str) -> bool:
    return _value(queue, name) == value


def _submit(user: str, script: str) -> str:
    command = ["qsub", "-terse", "-b", "y", "-N", "jobsight-check", "-o", "/dev/null", "-j", "y", "-wd", "/tmp"]
    return run([*command, "/bin/sh", "-c", f"'{script}'"], user).strip().partition(".")[0]
