"""The rule for files that a user names: a regular one is read, or replaced when the new one is complete.

A pipe is read to its end; directories, devices and sockets are refused, and nothing but a regular file is replaced.
"""

from __future__ import annotations

import os
import select
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from jobsight_server.ground.errors import UserError

_SILENT_MS = 1000
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


def other_kind(file: Path) -> str | None:
    """Return the kind of a file that is not regular, such as ``a device``; None of a regular or unknown one."""
    try:
        return _KINDS.get(stat.S_IFMT(file.stat().st_mode))
    except OSError:  # who opens it learns why
        return None


def opened(file: Path) -> BinaryIO:
    """Open a regular file, or a pipe; report that a silent one is waited for.

    Raises:
        OSError: it cannot be opened, or is of another kind.
    """
    kind = other_kind(file)
    if kind is None:
        return file.open("rb")
    if kind != "a pipe":
        raise OSError(0, f"it is {kind}; name a file")
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        ready = select.poll()
        ready.register(descriptor, select.POLLIN | select.POLLHUP)
        if not ready.poll(_SILENT_MS):
            print(f"jobsight: waiting for data from the pipe {file}", file=sys.stderr, flush=True)
            ready.poll()
        os.set_blocking(descriptor, True)
        return os.fdopen(os.dup(descriptor), "rb")
    finally:
        os.close(descriptor)


def copied(file: Path, copy: Path) -> Path:
    """Copy the content of a file or pipe to ``copy``, and return that.

    Raises:
        OSError: as of ``opened``.
    """
    with opened(file) as source, copy.open("wb") as target:
        shutil.copyfileobj(source, target)
    return copy


def check_output(file: Path, option: str = "") -> None:
    """Check before the work that ``whole_file`` can write ``file``; ``option`` names it in messages.

    Raises:
        UserError: there is no directory for it, or it can be neither written nor replaced.
    """
    named = f"{option} {file}".lstrip()
    if not file.parent.is_dir():
        raise UserError(f"{named}: there is no directory {file.parent}; create it first")
    if kind := other_kind(file):
        raise UserError(f"{named}: it cannot be written, because it is {kind}; name a file in a directory of yours")
    if not os.access(file.parent, os.W_OK):
        raise UserError(f"{named}: it cannot be written; name a file in a directory of yours")


@contextmanager
def whole_file(file: Path, mode: int = 0o666, *, keep: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside ``file``, which replaces ``file`` if the block ends without an error.

    A new file gets ``mode``; to one that it replaces it gives the same mode and, where that is allowed, owner, unless
    the block sets them itself (``keep`` is False). A link is replaced, not followed.

    Raises:
        UserError: it cannot be written; an older file of this name remains.
    """
    unfinished = file.with_name(f".unfinished.{file.name}")  # readers of directories skip names that begin with a dot
    is_ours = False
    try:
        if kind := other_kind(file):
            raise UserError(f"{file}: it cannot be written, because it is {kind}; name a file")
        before = file.lstat() if keep and file.exists() and not file.is_symlink() else None
        unfinished.unlink(missing_ok=True)  # of a process that was killed
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(unfinished, flags, mode if before is None else 0o600))
        is_ours = True
        yield unfinished
        _to_disk(unfinished)
        if before is not None:
            _set_as(unfinished, before)
        unfinished.replace(file)
        _to_disk(file.parent)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror or error}; an older file of this name is unchanged") from error
    finally:
        if is_ours:
            unfinished.unlink(missing_ok=True)


def _set_as(file: Path, before: os.stat_result) -> None:
    """Give a file the owner, if only root may that is root, and the mode of an earlier one."""
    group = before.st_gid if os.geteuid() == 0 or before.st_gid in os.getgroups() else -1
    os.chown(file, before.st_uid if os.geteuid() == 0 else -1, group, follow_symlinks=False)
    file.chmod(stat.S_IMODE(before.st_mode) & 0o777)


def _to_disk(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cannot_write(file: Path) -> bool:
    """Return whether this user may only read the database: SQLite creates files beside it even to read."""
    place = file.resolve()
    return place.exists() and not (os.access(place, os.W_OK) and os.access(place.parent, os.W_OK))
