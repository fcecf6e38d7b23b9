"""Arguments that several commands share: the settings file, and flags derived from the declared settings."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from jobsight_server.command_line.help_text import INSTALLED
from jobsight_server.settings.declared import Section, Settings
from jobsight_server.settings.load import SETTINGS, Setting, load_settings, settings_in
from jobsight_server.storage.engine import Access, DatabaseError, database_file, open_engine
from jobsight_server.storage.schema_version import NEWEST, UPGRADED, present_version

_UNITS = {
    "bytes": "BYTES",
    "s": "SECONDS",
    "hours": "HOURS",
    "days": "DAYS",
    "bps": "BITS/S",
}


def add_settings(parser: argparse.ArgumentParser, *names: str, sections: Sequence[type[Section]] = ()) -> None:
    """Add ``--config`` and a flag for each named setting of the core (all if none is named) and of ``sections``."""
    where = f"settings file (default: {INSTALLED} where it exists, unless a database is given)"
    parser.add_argument("--config", type=Path, metavar="FILE", help=where)
    for setting in (*SETTINGS, *(one for kind in sections for one in settings_in(kind, kind.SECTION))):
        if not names or setting.section or setting.name in names:
            default = setting.default_text
            if isinstance(setting.default, tuple) and len(setting.default) > 1:
                default = f"{len(setting.default)} entries, see docs/operate/operations.md"
            help_text = f"{setting.help} (default: {default}; {setting.environment})"
            parser.add_argument(setting.flag, dest=setting.name, metavar=_metavar(setting), help=help_text)


def _metavar(setting: Setting) -> str:
    """Return the metavar: the kind of the value, or its unit."""
    if setting.metavar or setting.choices:
        return setting.metavar or "|".join(setting.choices)
    last = setting.name.rpartition("_")[2]
    return _UNITS.get(last) or {int: "COUNT", float: "NUMBER", tuple: "LIST"}.get(type(setting.default), "TEXT")


def settings_of(args: argparse.Namespace, sections: Sequence[type[Section]] | None = None) -> Settings:
    """Return the settings from defaults, file, environment and flags; of placing systems those of ``sections``."""
    return load_settings(settings_file(args, os.environ), os.environ, vars(args), sections)


def settings_file(args: argparse.Namespace, environ: Mapping[str, str]) -> Path | None:
    """Return the settings file of a command: ``--config``, else this host's, unless another database is given.

    A command with its own database must not use the logs and clusters of the installed server.
    """
    if args.config is not None:
        return Path(args.config)
    has_database = getattr(args, "database", None) or "JOBSIGHT_DATABASE" in environ
    return INSTALLED if INSTALLED.exists() and not has_database else None


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
    todo = "start `jobsight serve` once to upgrade it" if version in UPGRADED else "use the release that wrote it"
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
