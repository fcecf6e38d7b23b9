"""The records of a plan: folders, files, tokens and commands, in order of creation."""

from __future__ import annotations

import grp
import pwd
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jobsight_server.setup.manifest import Manifest, digest

NEW, SAME, CHANGE, EDITED, RIGHTS = "new", "unchanged", "change", "edited here", "mode or owner"


@dataclass(frozen=True, slots=True)
class Placed:
    """An item with a path; owner and group are names or numbers."""

    path: Path
    mode: int
    owner: str = "root"
    group: str = "0"

    def ids(self, missing: int | None = None) -> tuple[int, int]:
        """Return user and group as numbers; ``missing`` for those that do not exist.

        Raises:
            KeyError: one does not exist, and ``missing`` is not given.
        """
        try:
            user = pwd.getpwnam(self.owner).pw_uid
            return user, int(self.group) if self.group.isdecimal() else grp.getgrnam(self.group).gr_gid
        except KeyError:
            if missing is None:
                raise
            return missing, missing


@dataclass(frozen=True, slots=True)
class Folder(Placed):
    """A directory."""


@dataclass(frozen=True, slots=True)
class File(Placed):
    """A file. ``content`` is called once its inputs exist.

    ``merged``: it contains the site's own text too. ``kept``: never overwritten.
    """

    content: str | Callable[[], bytes] = ""
    merged: bool = False
    kept: bool = False

    def wanted(self) -> bytes:
        return self.content.encode() if isinstance(self.content, str) else self.content()

    @property
    def is_text(self) -> bool:
        return isinstance(self.content, str)


@dataclass(frozen=True, slots=True)
class PlannedToken(Placed):
    """A file with a new token, which is stored nowhere else."""

    role: str = "submitter"
    name: str = ""
    cluster: str | None = None
    nodes: str | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run unless ``done`` returns true; ``undo`` reverses it."""

    argv: tuple[str, ...]
    done: Callable[[], bool]
    undo: tuple[str, ...] = ()


Item = Placed | Command


def state(item: Item, manifest: Manifest) -> str:
    """Return the action that an item needs."""
    if isinstance(item, Command):
        return SAME if item.done() else NEW
    if not item.path.exists():
        return NEW
    found = item.path.stat()
    planned = (item.mode, *item.ids(missing=-1))  # an owner who does not exist yet owns nothing
    rights = SAME if (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == planned else RIGHTS
    if isinstance(item, PlannedToken):
        written = manifest.files.get(str(item.path))
        known = written is not None and written.scope in (None, [item.cluster, item.nodes])
        return rights if known or written is None else CHANGE
    if not isinstance(item, File) or item.kept:
        return rights
    present = item.path.read_bytes()
    try:
        if present == item.wanted():
            return rights
    except FileNotFoundError:  # an input of its content does not exist yet
        return CHANGE
    written = manifest.files.get(str(item.path))
    ours = written is not None and written.sha256 == digest(present)
    return CHANGE if ours or item.merged else EDITED
