"""Settings from their sources; later sources override earlier ones.

Default, TOML file, environment (``JOBSIGHT_`` and the name in capitals), command line flag. Those of a placing system
are in a table of the file, and start with its name elsewhere: ``hold_s`` of ``[matching]`` is
``JOBSIGHT_MATCHING_HOLD_S`` and ``--matching-hold-s``.
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from jobsight_server.ground.errors import UserError
from jobsight_server.settings.declared import (
    ACCOUNTING_FORMATS,
    AccountingSource,
    Section,
    Settings,
    from_text,
)
from jobsight_server.settings.measurements import PRESETS, MeasurementSource
from jobsight_server.settings.tables import Access, AdjustLimits, Mail, WeeklyMail
from jobsight_server.storage.named_files import opened

log = logging.getLogger(__name__)


class SettingsError(UserError):
    """An unusable setting; the message names it, its value and its source."""


class Setting(Struct, frozen=True):
    """A declared setting, as used in help, documents and the environment; ``section`` is empty for the core's."""

    section: str
    field: str
    type: Any
    default: Any
    help: str
    metavar: str | None
    check: Callable[[str], object] | None

    @property
    def name(self) -> str:
        """The setting's unique name, which starts with its section."""
        return f"{self.section}_{self.field}" if self.section else self.field

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def environment(self) -> str:
        return "JOBSIGHT_" + self.name.upper()

    @property
    def choices(self) -> tuple[str, ...]:
        """All values, if there are few."""
        kind = get_args(self.type)[0]
        return ("true", "false") if kind is bool else get_args(kind) if get_origin(kind) is Literal else ()

    @property
    def default_text(self) -> str:
        """The default in help and documents."""
        if isinstance(self.default, bool):
            return str(self.default).lower()
        return (" ".join(self.default) or "none") if isinstance(self.default, tuple) else str(self.default)

    def parse(self, value: Any, source: str) -> Any:
        """Convert ``value`` to the setting's type; a list is several texts, or one text separated by spaces.

        Raises:
            SettingsError: wrong type, out of bounds, or invalid.
        """
        parts = value.split() if isinstance(self.default, tuple) and isinstance(value, str) else value
        try:
            parsed = msgspec.convert(parts, self.type, strict=False)
            if self.check is not None:
                for text in [parsed] if isinstance(parsed, str) else parsed:
                    self.check(text)
        except ValueError as error:
            if self.metavar == "FRACTION" and source == self.flag:
                raise SettingsError(
                    f"{source} {value}: give a fraction between 0 and 1, such as {self.default:g}"
                ) from error
            choices = f"; choose from {', '.join(self.choices)}" if self.choices else ""
            raise SettingsError(f"{source}: {self.name} = {value!r}: {_lower(error)}{choices}") from error
        return parsed


_GONE = frozenset(
    {
        "ingest_threads",
        "max_body_bytes",
        "max_unpacked_bytes",
        "max_future_s",
        "assumed_speed_bps",
        "quarantine_keep",
        "upkeep_interval_s",
        "profile_interval_s",
        "session_hours",
        "job_groups",
        "window",
        "bins",
        "alpha",
        "socket_mode",
        "bound_objective",
        "walltime_limit",
        "learn_apportioned",
        "from_agents",
    }
)
"""Removed settings of earlier releases."""


def settings_in(kind: type[Struct], section: str = "") -> tuple[Setting, ...]:
    """Return the settings that ``kind`` declares."""
    kinds = get_type_hints(kind, include_extras=True)
    found = []
    for field in msgspec.structs.fields(kind):
        (meta,) = getattr(kinds[field.name], "__metadata__", (None,))
        if meta is not None:
            found.append(Setting(section, field.name, kinds[field.name], field.default, meta.description, **meta.extra))
    return tuple(found)


SETTINGS = settings_in(Settings)
"""Settings of the core."""


def load_settings(
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
    sections: Sequence[type[Section]] | None = None,
) -> Settings:
    """Return settings from defaults, then ``file``, then ``environ``, then ``flags`` (None there means not given).

    ``flags["accounting"]`` is a list of ``CLUSTER=DIRECTORY`` texts that are added to the file's. ``sections`` are
    those of the placing systems; without them, tables of the file are left unread.

    Raises:
        SettingsError: an unknown name, or an invalid value; the message gives its place.
    """
    known = [*SETTINGS, *(one for kind in sections or () for one in settings_in(kind, kind.SECTION))]
    values: dict[tuple[str, str], Any] = {}
    records: dict[str, Any] = {"accounting": ()}
    for name, value in ({} if file is None else _read_toml(file)).items():
        if name in _RECORDS:
            records[name] = _record(name, _chosen(name, value, file), str(file))
        elif isinstance(value, dict) and sections is None:
            continue
        else:
            values |= _parsed(known, name, value, str(file))
    for one in known:
        text = (environ or {}).get(one.environment)
        if text is not None:
            values[one.section, one.field] = one.parse(text, one.environment)
        flag = (flags or {}).get(one.name)
        if flag is not None:
            values[one.section, one.field] = one.parse(flag, one.flag)
    for flag in (flags or {}).get("accounting") or ():
        cluster, equals, directory = flag.partition("=")
        if not equals:
            raise SettingsError(f"--accounting {flag!r}: write CLUSTER=DIRECTORY")
        records["accounting"] += _record("accounting", [{"cluster": cluster, "directory": directory}], "--accounting")
    core = {field: value for (section, field), value in values.items() if not section}
    tables: dict[str, dict[str, Any]] = {}
    for (section, field), value in values.items():
        if section:
            tables.setdefault(section, {})[field] = value
    return Settings(**core, **records, sections=tables)


def _chosen(name: str, tables: Any, file: Path | None) -> Any:
    """Return the tables of this name without removed settings."""
    fixed = _FIXED.get(name, frozenset())
    if not isinstance(tables, list):
        return tables
    for field in sorted({field for table in tables if isinstance(table, dict) for field in table.keys() & fixed}):
        log.warning("%s: setting %r of [[%s]] no longer exists; remove it", file, field, name)
    return [
        {field: value for field, value in table.items() if field not in fixed} if isinstance(table, dict) else table
        for table in tables
    ]


def _parsed(known: Sequence[Setting], name: str, value: Any, source: str) -> dict[tuple[str, str], Any]:
    """Return a line or a table of the file."""
    section, fields = (name, value) if isinstance(value, dict) else ("", {name: value})
    here = {one.field: one for one in known if one.section == section}
    for field in fields:
        if field in _GONE:
            log.warning("%s: setting %r no longer exists; remove it", source, field)
        elif field not in here:
            among = ", ".join(sorted(here)) or ", ".join(sorted({one.section for one in known} - {""}))
            place = f"[{section}] " if section else ""
            raise SettingsError(f"{source}: unknown setting {place}{field!r}; known: {among}")
    return {(section, field): here[field].parse(one, source) for field, one in fields.items() if field in here}


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        with opened(file) as content:
            return tomllib.loads(content.read().decode())
    except OSError as error:
        others = "; run this as the server's user, or give --config or --database"
        hint = others if isinstance(error, PermissionError) else ""
        raise SettingsError(f"settings file {file}: {error.strerror}{hint}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"settings file {file}: {error}") from error


_RECORDS: Mapping[str, tuple[Any, str]] = {
    "accounting": (
        tuple[AccountingSource, ...],
        "write [[accounting]] tables with cluster, directory, file or sacct, and format: "
        + ", ".join(ACCOUNTING_FORMATS),
    ),
    "measurements": (
        tuple[MeasurementSource, ...],
        f"write [[measurements]] tables with cluster, url, and presets ({', '.join(PRESETS)}) or queries",
    ),
    "adjust": (
        tuple[AdjustLimits, ...],
        f"write [[adjust]] tables with cluster and any of {', '.join(AdjustLimits.__struct_fields__[1:8])}",
    ),
    "access": (Access, "write a table [access] with login_header, admins and staff"),
    "mail": (Mail, "write a table [mail] with relay and sender"),
    "weekly_mail": (WeeklyMail, "write a table [weekly_mail] with domain, share, unsubscribed and admins"),
}
"""Tables of the file that are settings as a whole, and how to write them."""

_FIXED = {"accounting": AccountingSource.FIXED, "measurements": MeasurementSource.FIXED, "adjust": AdjustLimits.FIXED}


def _record(name: str, value: Any, place: str) -> Any:
    kind, how = _RECORDS[name]
    try:
        return msgspec.convert(value, kind, dec_hook=from_text)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{place}: {name}: {_lower(error)}; {how}") from error


def _lower(error: Exception) -> str:
    """Return msgspec's message in lower case, to end a sentence."""
    text = str(error)
    return text[:1].lower() + text[1:]
