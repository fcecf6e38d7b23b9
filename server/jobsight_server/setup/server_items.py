"""The items of every scheduler's setup: settings, tokens, unit, and the archive for the nodes."""

from __future__ import annotations

import sys
import tomllib
from functools import partial
from pathlib import Path

from jobsight_server.auth.node_names import NodeNamesError, node_names
from jobsight_server.front.addresses import tcp_address
from jobsight_server.ground.errors import UserError
from jobsight_server.settings.load import load_settings
from jobsight_server.setup.node_archive import node_archive
from jobsight_server.setup.places import USER, Places
from jobsight_server.setup.plan import Command, File, Folder, Item, PlannedToken
from jobsight_server.setup.run import succeeds
from jobsight_server.setup.schedulers.scheduler import SchedulerSetup
from jobsight_server.setup.shipped import shipped, with_shell_settings, with_toml_settings

_UNIT = "jobsight-server"
_OF_QUEUE = ("squeue", "qstat")
"""Settings without these commands still follow the same scheduler."""


def plan_of(scheduler: SchedulerSetup, places: Places) -> list[Item]:
    """Return everything to create, in order.

    Raises:
        UserError: the settings follow this scheduler already, under another name.
    """
    return [
        *_user(places),
        Folder(places.at("etc/jobsight"), 0o755),
        Folder(places.at("var/lib/jobsight"), 0o750, places.owner, places.group),
        File(places.settings, 0o640, "root", places.group, settings_text(scheduler, places), merged=True),
        PlannedToken(places.node_token, 0o400, role="agent", name=f"nodes of {scheduler.cluster}",
                     cluster=scheduler.cluster, nodes=_nodes(scheduler.nodes)),
        File(places.archive, 0o600, content=partial(node_archive, scheduler, places)),
        *([scheduler.submitter] if scheduler.submitter else []),
        *_service(places),
        *scheduler.items,
    ]  # fmt: skip


def settings_text(scheduler: SchedulerSetup, places: Places) -> str:
    """Return the present settings, with a table for this cluster if they lack it."""
    table = f'\n[[accounting]]\ncluster = "{scheduler.cluster}"\n{scheduler.source}'
    munge = {"munge_socket": scheduler.munge_socket} if scheduler.munge_socket else {}
    if not places.settings.exists():
        open_to = "127.0.0.1" if places.agents_url else "0.0.0.0"
        values: dict[str, object] = {
            "database": f"sqlite:///{places.at('var/lib/jobsight/jobsight.db')}",
            "listen": [places.listen or f"{places.address}:{places.port}"],
            "ingest_listen": f"{open_to}:{places.port + 1}",
        }
        return with_toml_settings(shipped("jobsight.toml"), values | munge) + table
    text = places.settings.read_text()
    present = tomllib.loads(text)
    changes: dict[str, object] = {name: value for name, value in munge.items() if name not in present}
    if places.listen:
        listen = load_settings(places.settings).listen
        first = tcp_address(listen)
        changes["listen"] = [places.listen, *(address for address in listen if address != first)]
    text = with_toml_settings(text, changes)
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:  # a list over several lines
        raise UserError(f"{places.settings}: change `listen` there: put {places.listen} first") from error
    wanted = tomllib.loads(scheduler.source)
    for source in present.get("accounting", []):
        if source.get("cluster") == scheduler.cluster:
            if source.get("format", "torque") != wanted["format"]:
                raise UserError(
                    f"{places.settings}: cluster {scheduler.cluster!r} is followed as "
                    f"{source.get('format', 'torque')}, not {wanted['format']}: choose another name with --cluster"
                )
            return text
        if all(source.get(name) == value for name, value in wanted.items() if name not in _OF_QUEUE):
            raise UserError(
                f"{places.settings} follows this scheduler as cluster {source.get('cluster')!r} already, not as "
                f"{scheduler.cluster!r}: give --cluster {source.get('cluster')}"
            )
    return text.rstrip("\n") + "\n" + table


def _nodes(names: tuple[str, ...]) -> str | None:
    """Return the nodes in the form of tokens; None, which means all, if one of them has an unusual name."""
    try:
        node_names(",".join(names))
    except NodeNamesError:
        return None
    return ",".join(names)


def _user(places: Places) -> list[Item]:
    if not places.is_system or places.owner != USER:
        return []
    if {Path(sys.prefix).parts[1], Path(sys.base_prefix).parts[1]} & {"home", "root"}:
        raise UserError(f"{sys.prefix}: the user {USER} cannot read it there; install Jobsight in /opt/jobsight")
    home = places.at("var/lib/jobsight")
    add = f"useradd --system --user-group --no-create-home --home-dir {home} --shell /usr/sbin/nologin {USER}"
    return [Command(tuple(add.split()), lambda: succeeds(("id", USER)))]


def _service(places: Places) -> list[Item]:
    if not places.has_services:
        return []
    unit = with_shell_settings(
        shipped(f"systemd/{_UNIT}.service"), {"User": places.owner, "Group": places.owner}
    ).replace("/opt/jobsight/bin/jobsight ", f"{places.program} ")
    return [
        File(Path(f"/etc/systemd/system/{_UNIT}.service"), 0o644, content=unit),
        Command(
            ("systemctl", "enable", "--now", _UNIT),
            lambda: succeeds(("systemctl", "is-active", "--quiet", _UNIT)),
            undo=("systemctl", "disable", "--now", _UNIT),
        ),
    ]
