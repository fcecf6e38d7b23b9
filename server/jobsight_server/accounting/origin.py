"""A file's origin, for formats whose records do not say whose runs they are, or when these ended."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from jobsight_server.accounting.files import UnreadableError


class Given(NamedTuple):
    """What the person who imports files says about all runs in them, where the files do not."""

    user: str | None = None
    application: str | None = None


NOTHING = Given()


class Origin(NamedTuple):
    """A file's name and folder, its owner or the user given instead, and when it was written, UTC."""

    user: str = "unknown"
    application: str | None = None
    folder: str = ""
    name: str = "file"
    written: float = 0.0


NOWHERE = Origin()


def origin_of(path: Path, given: Given) -> Origin:
    """The origin of the file at ``path``, which may have been compressed since.

    Raises:
        UnreadableError: there is no such file.
    """
    path = path.absolute()
    try:
        found = path.stat()
    except OSError as error:
        raise UnreadableError(f"file: {error.strerror}") from error
    try:
        owner = path.owner()
    except KeyError:  # a user id without a name, such as one of another machine
        owner = str(found.st_uid)
    return Origin(given.user or owner, given.application, path.parent.name, path.name, found.st_mtime)
