"""Arguments that several commands share: the settings file, and flags derived from the declared settings."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from jobsight_server.command_line.help_text import INSTALLED
from jobsight_server.settings.declared import Section, Settings
from jobsight_server.settings.load import SETTINGS, Setting, load_settings, settings_in

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
