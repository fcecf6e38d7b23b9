"""Carries out a plan item by item, and undoes it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from jobsight_server.ground.errors import UserError
from jobsight_server.setup.manifest import Manifest, Written, digest
from jobsight_server.setup.places import Places
from jobsight_server.setup.plan import (
    EDITED,
    NEW,
    RIGHTS,
    SAME,
    Command,
    File,
    Folder,
    Item,
    Placed,
    PlannedToken,
    state,
)
from jobsight_server.setup.run import run, until_empty
from jobsight_server.storage.named_files import whole_file

Leave = Callable[[Places, Manifest, Callable[[str], None]], list[str]]
"""Takes Jobsight's part out of the running scheduler, and returns the settings that it still uses."""


def apply(
    plan: Sequence[Item], places: Places, kind: str, replace: Callable[[File], bool], say: Callable[[str], None]
) -> None:
    """Apply the remaining items. ``replace`` decides whether to overwrite a file that was edited here.

    Raises:
        UserError: something failed; the message lists the items done before.
    """
    manifest_path = places.manifest(kind)
    manifest = Manifest.load(manifest_path)
    manifest.cluster, manifest.user = places.cluster, places.user
    manifest.agents_url, manifest.users_url = places.agents_url, places.users_url
    os.umask(0o022)
    done: list[str] = []
    for item in plan:
        name = str(item.path) if isinstance(item, Placed) else " ".join(item.argv)
        try:
            doing = state(item, manifest)
            if doing == SAME or (doing == EDITED and isinstance(item, File) and not replace(item)):
                continue
            _make(item, doing, manifest, places)
        except (OSError, KeyError, UserError, subprocess.SubprocessError) as error:
            before = f"done before: {', '.join(done)}" if done else "nothing was done before"
            raise UserError(f"{name}: {error}; {before}. After correcting this, run the same command again") from error
        manifest.save(manifest_path)
        done.append(name)
        say(f"{'ran' if isinstance(item, Command) else 'wrote'} {name}")


def remove(places: Places, kind: str, leave: Leave, say: Callable[[str], None]) -> None:
    """Undo the manifest: first in the scheduler, then files, newest first. Files edited since stay.

    The archive for the nodes also stays, for their ``--uninstall``.

    Raises:
        UserError: the scheduler still uses a part of it; nothing else was removed then.
    """
    manifest_path = places.manifest(kind)
    if not manifest_path.exists():
        raise UserError(f"{manifest_path}: no such file: `jobsight setup {kind}` wrote nothing here")
    manifest = Manifest.load(manifest_path)
    if used := leave(places, manifest, say):
        manifest.save(manifest_path)
        raise UserError(
            f"the scheduler still has {'; '.join(used)}: take that out of its configuration and scripts, then run this "
            "again. Jobsight's other files stay until then; do not uninstall the nodes before, or they drain"
        )
    for command in reversed(manifest.undo):
        try:
            run(command)
            say(f"ran {' '.join(command)}")
        except UserError as error:
            say(f"failed: {error}")
    manifest.files.pop(str(places.archive), None)
    for name, written in reversed(manifest.files.items()):
        _remove_file(name, written, manifest, places, say)
    manifest_path.unlink()
    for name in reversed(manifest.folders):
        try:
            Path(name).rmdir()
        except OSError:
            say(f"kept {name}: it is not empty")


def _remove_file(name: str, written: Written, manifest: Manifest, places: Places, say: Callable[[str], None]) -> None:
    path = Path(name)
    if written.token is not None:
        try:
            run(places.jobsight("token", "revoke", str(written.token)), places.owner)
        except (UserError, KeyError) as error:
            say(f"token {written.token} is not revoked: {error}")
    if not path.exists():
        return
    if not manifest.is_unedited(name):
        say(f"kept {path}: it was edited since")
    elif written.before is not None:
        path.write_text(written.before)
        say(f"restored {path}")
    else:
        path.unlink()
        say(f"removed {path}")


def _make(item: Item, doing: str, manifest: Manifest, places: Places) -> None:
    if isinstance(item, Command):
        run(item.argv)
        if until_empty(lambda: [] if item.done() else ["no effect"]):
            raise UserError("it succeeded, but had no effect")
        if item.undo:
            manifest.undo = [command for command in manifest.undo if command != [*item.undo]] + [[*item.undo]]
        return
    user, group = item.ids()
    if isinstance(item, Folder):
        if doing == NEW:
            item.path.mkdir(parents=True)
            manifest.folders.append(str(item.path))
    elif doing != RIGHTS:
        _write(item, manifest, places)
    os.chown(item.path, user, group)
    item.path.chmod(item.mode)


def _write(item: Placed, manifest: Manifest, places: Places) -> None:
    key, number = str(item.path), None
    before = manifest.files.get(key)
    if isinstance(item, PlannedToken):
        number, content = _new_token(item, places)
        scope = [item.cluster, item.nodes]
    else:
        assert isinstance(item, File)
        content, scope = item.wanted(), None
    original = before.before if before else None
    if before is None and item.path.exists() and isinstance(item, File) and item.is_text:
        original = item.path.read_text()
    sha256 = digest(content)
    if before and isinstance(item, File) and item.merged and not manifest.is_unedited(key):
        sha256 = before.sha256  # still edited by the site: --remove leaves it
    path = item.path.resolve()  # keeps a link, such as one to a shared directory
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, 0o600, keep=False) as other:
        other.write_bytes(content)
        os.chown(other, *item.ids())
        other.chmod(item.mode)
    manifest.files[key] = Written(sha256, original, number, scope)


def _new_token(item: PlannedToken, places: Places) -> tuple[int, bytes]:
    options = [*(["--cluster", item.cluster] if item.cluster else []), *(["--nodes", item.nodes] if item.nodes else [])]
    secret = run(places.jobsight("token", "create", "--role", item.role, "--name", item.name, *options), places.owner)
    listed = run(places.jobsight("token", "list"), places.owner)
    number = max(int(found) for found in re.findall(r"^ *(\d+) ", listed, re.MULTILINE))
    return number, secret.strip().encode() + b"\n"
