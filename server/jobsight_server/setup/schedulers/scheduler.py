"""A scheduler's configuration, and the items that Jobsight installs there."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jobsight_server.ground.errors import UserError
from jobsight_server.setup.manifest import Manifest
from jobsight_server.setup.places import Places
from jobsight_server.setup.plan import File, Item, PlannedToken
from jobsight_server.setup.run import run
from jobsight_server.setup.shipped import shipped, with_script_settings
from jobsight_server.setup.site_scripts import Script, calls


@dataclass(frozen=True, slots=True)
class SchedulerSetup:
    """A scheduler's present configuration.

    ``source`` is its table [[accounting]] without the cluster's name, ``submitter`` its token for advice, ``items``
    those of its plugins, ``hook_copies`` the paths where nodes need the script ``mark-job``, ``munge_socket`` the
    socket by which users prove their identity ("": they cannot). ``comment`` returns Jobsight's advice for a job as
    the scheduler shows it; None if it keeps none. ``unmarked`` returns what to do so that hooks mark jobs; empty if
    they are called, or that cannot be known here. ``started`` are files that nodes read and scripts that they run.
    """

    kind: str
    cluster: str
    nodes: tuple[str, ...]
    source: str
    shown: dict[str, str]
    submit: Callable[[str, str], str]
    submitter: PlannedToken | None = None
    items: list[Item] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    hook_copies: tuple[str, ...] = ()
    munge_socket: str = ""
    comment: Callable[[str], str] | None = None
    checks: Callable[[], Iterator[CheckResult]] = lambda: iter(())
    unmarked: Callable[[], str] = str
    started: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check. ``good`` is None for an optional item worth knowing; ``todo`` says what to do."""

    what: str
    good: bool | None
    todo: str = ""


def answer(command: Sequence[str], cure: str) -> str:
    """Return the output of a command of a scheduler, which may be away.

    Raises:
        UserError: it is missing, or failed; the message is the cure.
    """
    try:
        return run(command)
    except UserError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise
        raise UserError(f"{cure}; `{shlex.join(command)}` shows why") from error


def safe_call(script: Path) -> str:
    """Return the line by which a site's own script calls one of ours: it does nothing once that is gone."""
    return f"[ ! -x {script} ] || {script}"


def still_called(
    places: Places, manifest: Manifest, started: Iterable[str | Script], say: Callable[[str], None]
) -> list[str]:
    """Return the lines of what a scheduler starts, and of what that calls, that call what ``--remove`` deletes."""
    goes = [name for name, file in manifest.files.items() if file.before is None and manifest.is_unedited(name)]
    found = calls(started, [places.hooks, *goes])
    for script in found.missing:
        say(f"not read: {script} is not on this host: look on a node whether it calls {places.hooks}")
    return found.found


def asked_there(places: Places, cluster: str, token: PlannedToken) -> dict[str, str | int]:
    """Return the settings with which a scheduler's plugin asks this server."""
    return {"address": places.address, "port": places.port, "cluster": cluster, "token_file": str(token.path)}


def submission_files(
    name: str, target: Path, mode: int, values: Mapping[str, str | int], places: Places
) -> tuple[File, File]:
    """Return ``submit.conf``, the site's own, and the script ``deploy/NAME`` for ``target`` with these values in it."""
    script = with_script_settings(shipped(name), {**values, "settings_file": str(places.choices)})
    return (
        File(places.choices, 0o644, content=shipped("submit.conf"), kept=True),
        File(target, mode, content=script.replace("/usr/local/lib/jobsight", str(places.hooks))),
    )
