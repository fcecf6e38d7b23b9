"""The database of a command, opened; apart from its arguments, so that ``--help`` does not load SQLAlchemy."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from jobsight_server.command_line.arguments import settings_of
from jobsight_server.storage.engine import Access, DatabaseError, database_file, open_engine
from jobsight_server.storage.schema_version import NEWEST, UPGRADED, present_version


def open_existing(args: argparse.Namespace, access: Access = "write", *, acts_elsewhere: bool = False) -> Engine:
    """Return an engine on an existing database with the current schema.

    ``acts_elsewhere``: the command writes files of the caller or runs a scheduler's commands, so root stays root.

    Raises:
        DatabaseError: it does not exist or has another version.
    """
    url = settings_of(args).database
    engine = open_engine(url, access) if acts_elsewhere else engine_of(url, access)
    file = database_file(engine)
    if acts_elsewhere and file is not None and file.is_symlink():
        raise DatabaseError(f"database {url!r} is a link; name the file that it leads to")
    if file is not None and not os.access(file, os.F_OK):
        raise DatabaseError(f"database {url!r}: no such file; `jobsight import` and `jobsight serve` create it")
    if file is not None and not (file.is_file() and os.access(file, os.R_OK)):
        problem = f"cannot be read by user {os.geteuid()}" if file.is_file() else "is not a file"
        raise DatabaseError(f"database {url!r}: {file} {problem}")
    with own_words(url):
        present = present_version(engine)
    if present != NEWEST:
        engine.dispose()
        raise DatabaseError(f"database {url!r} {_why_not(present)}")
    return engine


def _why_not(version: str | None) -> str:
    if version is None:
        return "is not a Jobsight database: it has no schema version"
    todo = "start `jobsight serve` once to upgrade it" if version == UPGRADED else "use the release that wrote it"
    return f"has schema version {version}, but this program needs {NEWEST}: {todo}"


def engine_of(url: str, access: Access = "write") -> Engine:
    """Return an engine. Root becomes the owner of an SQLite file's directory: that owner may have left links there, and
    files that SQLite makes beside it must belong to the server's user.
    """
    engine = open_engine(url, access)
    file = database_file(engine)
    if os.geteuid() == 0 and file is not None and file.parent.exists() and (owner := file.parent.stat()).st_uid != 0:
        os.setgroups([])
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)
    return engine


def shown_database(engine: Engine) -> str:
    """Return the database's location for messages, without a password."""
    file = database_file(engine)
    return str(file.resolve()) if file is not None else engine.url.render_as_string()


@contextmanager
def own_words(url: str) -> Iterator[None]:
    """Raise the database's own errors as ``DatabaseError``."""
    try:
        yield
    except DBAPIError as error:
        words = " ".join(str(error.orig).split())
        raise DatabaseError(f"database {url!r}: {words}") from error
    except OSError as error:
        raise DatabaseError(f"database {url!r}: {error.filename}: {error.strerror}") from error
