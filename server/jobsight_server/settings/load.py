"""Settings from their sources; later sources override earlier ones.

Default, TOML file, environment (``JOBSIGHT_`` and the name in capitals), command line flag.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from jobsight_predictor.choices import BINS_AT_MOST, WINDOW_AT_MOST
from jobsight_predictor.job_groups import parse_job_group
from jobsight_predictor.question import FIELDS
from jobsight_server.amounts import memory_bytes
from jobsight_server.auth.client_address import trusted_proxy
from jobsight_server.errors import UserError
from jobsight_server.settings.by_metric import parse_alphas, parse_counts
from jobsight_server.settings.declared import ACCOUNTING_FORMATS, AccountingSource, Settings, from_text

LONGEST_NAME = 255
MOST_NODES = 100_000
GROUP_FIELDS = tuple(field for field in FIELDS if field != "requested_memory_bytes")


class SettingsError(UserError):
    """A setting that cannot be used; the message names it, its value and its source."""


class Setting(Struct, frozen=True):
    """One field of ``Settings``, as used in help, documents and the environment."""

    name: str
    type: Any
    default: Any
    help: str
    metavar: str | None

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
        """The default as written in help and documents."""
        if isinstance(self.default, bool):
            return str(self.default).lower()
        return (" ".join(self.default) or "none") if isinstance(self.default, tuple) else str(self.default)

    def parse(self, value: Any, source: str) -> Any:
        """``value`` converted to the setting's type; several texts are a list, or one text separated by spaces.

        Raises:
            SettingsError: wrong type, out of bounds, or invalid.
        """
        parts = value.split() if isinstance(self.default, tuple) and isinstance(value, str) else value
        if self.name in _BY_METRIC and _is_number(parts):  # a file may have bare numbers
            parts = [parts]
        if self.name in _BY_METRIC and isinstance(parts, list):
            parts = [str(one) if _is_number(one) else one for one in parts]
        try:
            parsed = msgspec.convert(parts, self.type, strict=False)
            for text in parsed if self.name in _CHECKS else ():
                _CHECKS[self.name](text)
            if self.name in _BY_METRIC:
                _BY_METRIC[self.name](parsed)
        except ValueError as error:
            if self.metavar == "FRACTION" and source == self.flag:
                raise SettingsError(
                    f"{source} {value}: give a fraction between 0 and 1, such as {self.default:g}"
                ) from error
            choices = f"; choose from {', '.join(self.choices)}" if self.choices else ""
            raise SettingsError(f"{source}: {self.name} = {value!r}: {_lower(error)}{choices}") from error
        return parsed


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cluster_name(value: str) -> None:
    if not value.isprintable() or not 0 < len(value) <= LONGEST_NAME:
        raise ValueError(f"a cluster's name has 1 to {LONGEST_NAME} printable characters")


def _group_field(value: str) -> None:
    if value not in GROUP_FIELDS:
        raise ValueError(f"no field {value!r}; choose from {', '.join(GROUP_FIELDS)}")


def _capacity(value: str) -> None:
    if not memory_bytes(value) >= 1.0:
        raise ValueError(f"{value!r} is less than a byte")


def plan_nodes(value: str) -> tuple[str, int]:
    """The cluster and its number of nodes in ``CLUSTER=NODES``.

    Raises:
        ValueError: it has another form.
    """
    cluster, equals, nodes = value.rpartition("=")
    if not (equals and nodes.isascii() and nodes.isdigit() and 1 <= int(nodes[:9]) <= MOST_NODES and len(nodes) < 9):
        raise ValueError(f"{value!r} is not CLUSTER=NODES with 1 to {MOST_NODES} nodes")
    _cluster_name(cluster)
    return cluster, int(nodes)


# Checks of each text of a list beyond its type; they raise ValueError.
_CHECKS: Mapping[str, Callable[[str], object]] = {
    "clusters": _cluster_name,
    "job_groups": parse_job_group,
    "memory_capacities": _capacity,
    "plan_nodes": plan_nodes,
    "requirements_group": _group_field,
    "trusted_proxies": trusted_proxy,
}
_BY_METRIC: Mapping[str, Callable[[tuple[str, ...]], object]] = {
    "window": partial(parse_counts, most=WINDOW_AT_MOST),
    "bins": partial(parse_counts, most=BINS_AT_MOST),
    "alpha": parse_alphas,
}
_RENAMED = {"templates": "job_groups"}


def _declared() -> tuple[Setting, ...]:
    kinds = get_type_hints(Settings, include_extras=True)
    found = []
    for field in msgspec.structs.fields(Settings):
        if field.name != "accounting":
            (meta,) = kinds[field.name].__metadata__
            found.append(Setting(field.name, kinds[field.name], field.default, meta.description, meta.extra["metavar"]))
    return tuple(found)


SETTINGS = _declared()


def load_settings(
    file: Path | None = None, environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> Settings:
    """Settings from defaults, then ``file``, then ``environ``, then ``flags`` (None there means not given).

    ``flags["accounting"]`` is a list of ``CLUSTER=DIRECTORY`` texts that are added to the file's.

    Raises:
        SettingsError: an unknown name, or an invalid value; the message gives its place.
    """
    known = {setting.name: setting for setting in SETTINGS}
    values: dict[str, Any] = {}
    sources: tuple[AccountingSource, ...] = ()
    if file is not None:
        for name, value in _read_toml(file).items():
            if name == "accounting":
                sources += _accounting(value, str(file))
            elif name in known:
                values[name] = known[name].parse(value, str(file))
            elif name in _RENAMED:
                raise SettingsError(f"{file}: setting {name!r} is now called {_RENAMED[name]!r}; rename it there")
            else:
                raise SettingsError(f"{file}: unknown setting {name!r}; known: {', '.join(sorted(known))}")
    for old, new in _RENAMED.items():
        if f"JOBSIGHT_{old.upper()}" in (environ or {}):
            raise SettingsError(f"JOBSIGHT_{old.upper()} is now called JOBSIGHT_{new.upper()}; rename it")
    for setting in SETTINGS:
        text = (environ or {}).get(setting.environment)
        if text is not None:
            values[setting.name] = setting.parse(text, setting.environment)
        flag = (flags or {}).get(setting.name)
        if flag is not None:
            values[setting.name] = setting.parse(flag, setting.flag)
    for flag in (flags or {}).get("accounting") or ():
        cluster, equals, directory = flag.partition("=")
        if not equals:
            raise SettingsError(f"--accounting {flag!r}: write CLUSTER=DIRECTORY")
        sources += _accounting([{"cluster": cluster, "directory": directory}], "--accounting")
    return Settings(**values, accounting=sources)


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"settings file {file}: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"settings file {file}: {error}") from error


def _accounting(tables: Any, place: str) -> tuple[AccountingSource, ...]:
    try:
        return msgspec.convert(tables, tuple[AccountingSource, ...], dec_hook=from_text)
    except msgspec.ValidationError as error:
        raise SettingsError(
            f"{place}: accounting = {tables!r}: {_lower(error)}; write [[accounting]] tables with cluster, "
            f"directory, file or sacct, and format ({', '.join(ACCOUNTING_FORMATS)})"
        ) from error


def _lower(error: Exception) -> str:
    """msgspec's message in lower case, to end a sentence."""
    text = str(error)
    return text[:1].lower() + text[1:]
