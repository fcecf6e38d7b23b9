"""A file's origin, for formats whose records lack the user or the end of their runs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from jobsight_server.accounting.files import UnreadableError


class Given(NamedTuple):
    """Values that an import sets for all runs of its files, where the files lack them."""

    user: str | None = None
    application: str | None = None


NOTHING = Given()


class Origin(NamedTuple):
    """A file's name and folder, its owner or the user given instead, and its time of writing, UTC."""

    user: str = "unknown"
    application: str | None = None
    folder: str = ""
    name: str = "file"
    written: float = 0.0


NOWHERE = Origin()


def origin_of(path: Path, given: Given) -> Origin:
    """Return the origin of the file at ``path``, which may have been compressed since.

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
