"""A scheduler's configuration, and the items that Jobsight installs there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jobsight_server.setup.places import Places
from jobsight_server.setup.plan import File, Item, PlannedToken
from jobsight_server.setup.shipped import shipped, with_script_settings


@dataclass(frozen=True, slots=True)
class SchedulerSetup:
    """A scheduler's present configuration.

    ``source`` is its table [[accounting]] without the cluster's name, ``submitter`` its token for advice, ``items``
    those of its plugins, ``hook_copies`` the paths where nodes need the script ``mark-job``, ``munge_socket`` the
    socket by which users prove their identity ("": they cannot). ``comment`` returns Jobsight's advice for a job as
    the scheduler shows it; None if it keeps none.
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
    checks: Callable[[], Iterator[Finding]] = lambda: iter(())


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. ``good`` is None for an optional item worth knowing; ``todo`` says what to do."""

    what: str
    good: bool | None
    todo: str = ""


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
