"""The agent's options, each declared once; read from a TOML file, then flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from jobsight_agent.cgroups import PATTERNS, check_pattern
from jobsight_agent.reading import sendable_name

SIGNS = ("logins", "load")  # of the machine's owner
_RETIRED = ("compilers", "libraries")  # options of 0.2 without effect; a file that sets them stays valid


class ConfigError(ValueError):
    """An option that cannot be used; the message has its name, value and place."""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    """From a list in the file, or a flag with commas."""
    if isinstance(value, str):
        return tuple(filter(None, map(str.strip, value.split(","))))
    if not isinstance(value, list | tuple):
        raise TypeError
    return tuple(map(_text, value))


def _whole_number(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise TypeError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isfinite(number := float(value)):
        raise TypeError
    return number


_PARSERS: dict[type, Callable[[Any], Any]] = {tuple: _texts, str: _text, int: _whole_number, float: _number}
_WANTED = {tuple: "a list of texts", str: "text", int: "a whole number", float: "a number"}
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Option:
    """One option; its type is that of its default, a tuple is a list of texts."""

    name: str
    default: str | int | float | tuple[str, ...]
    help: str
    least: float | None = None
    most: float | None = None

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    def parse(self, value: Any, place: str) -> Any:
        """``value`` in the option's type.

        Raises:
            ConfigError: it is not of that type, or too small or large.
        """
        try:
            parsed = _PARSERS[type(self.default)](value)
        except (TypeError, ValueError, OverflowError):
            wanted = _WANTED[type(self.default)]
            raise ConfigError(f"{place}: {self.name} = {value!r} is not {wanted}") from None
        if self.least is not None and not parsed >= self.least:
            raise ConfigError(f"{place}: {self.name} = {value!r} must be at least {self.least:g}")
        if self.most is not None and not parsed <= self.most:
            raise ConfigError(f"{place}: {self.name} = {value!r} must be at most {self.most:g}")
        return parsed


OPTIONS = (
    Option("server", "", "address of the collector, such as https://collector:8470"),
    Option("token_file", "", "file with a token of role agent"),
    Option("ca_file", "", "certificates to trust instead of the system's"),
    Option("cluster", "default", "cluster of this node, as the server's accounting source names it"),
    Option("node", "", "this node's name, as the scheduler writes it (default: the short host name)"),
    Option("interval", 10.0, "seconds between readings", 0.1, _DAY_S),
    Option("batch", 60, "readings per batch", 1, 5000),
    Option("batch_age_s", 30.0, "send a batch after at most this many seconds", 0, _DAY_S),
    Option("spool", "/var/spool/jobsight", "directory for batches that are not yet acknowledged"),
    Option("spool_megabytes", 100.0, "size limit of the spool; beyond it the oldest batches are dropped", 0.1, 1e9),
    Option("spool_hours", 72.0, "longest time that a batch may stay in the spool", 0.01, 1e6),
    Option("backoff_most_s", 300.0, "longest pause between two attempts", 1, _DAY_S),
    Option("gzip_level", 1, "compression, 1 (fastest) to 9", 1, 9),
    Option("host_root", "/", "directory that holds the node's proc/ and sys/"),
    Option("exclude", (), "interfaces to leave out"),
    Option("counters_32bit", (), "interfaces whose driver has 32-bit counters"),
    Option(
        "cgroups", PATTERNS, "paths of the jobs' cgroups, with {job} for the id (default: of Slurm, PBS and TORQUE)"
    ),
    Option("scratch", "/tmp", "directory of the jobs' files, whose size is the node's storage"),
    Option("owner", (), "signs that the machine's owner is using it: logins, load (default: it has no owner)"),
    Option("owner_load", 0.5, "busy processors that count as the owner's load while no job runs here", 0, 1e6),
)


@dataclass(frozen=True, slots=True)
class Config:
    """Every option with its value."""

    server: str
    token_file: str
    ca_file: str
    cluster: str
    node: str
    interval: float
    batch: int
    batch_age_s: float
    spool: str
    spool_megabytes: float
    spool_hours: float
    backoff_most_s: float
    gzip_level: int
    host_root: str
    exclude: tuple[str, ...]
    counters_32bit: tuple[str, ...]
    cgroups: tuple[str, ...]
    scratch: str
    owner: tuple[str, ...]
    owner_load: float


def load_config(file: Path | None, flags: Mapping[str, Any]) -> Config:
    """The options from defaults, then ``file``, then ``flags`` (None there: not given).

    Raises:
        ConfigError: an unknown name, or a value that cannot be used.
    """
    known = {option.name: option for option in OPTIONS}
    values: dict[str, Any] = {option.name: option.default for option in OPTIONS}
    if file is not None:
        for name, value in _read(file).items():
            if name in _RETIRED:
                continue
            if name not in known:
                raise ConfigError(f"{file}: unknown option {name!r}; known: {', '.join(sorted(known))}")
            values[name] = known[name].parse(value, str(file))
    for option in OPTIONS:
        value = flags.get(option.name)
        if value is not None:
            values[option.name] = option.parse(value, option.flag)
    for name in ("cluster", "node"):
        if (values[name] and not sendable_name(values[name], 255)) or not values["cluster"]:
            raise ConfigError(f"{name} = {values[name]!r:.80}: the server takes 1 to 255 printable characters")
    for pattern in values["cgroups"]:
        try:
            check_pattern(pattern)
        except ValueError as error:
            raise ConfigError(f"cgroups: {error}") from None
    for sign in values["owner"]:
        if sign not in SIGNS:
            raise ConfigError(f"owner = {sign!r:.80} is unknown; use any of: {', '.join(SIGNS)}")
    return Config(**values)


def _read(file: Path) -> dict[str, Any]:
    import tomllib  # loaded only if there is a file

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"configuration {file}: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"configuration {file}: {error}") from error
