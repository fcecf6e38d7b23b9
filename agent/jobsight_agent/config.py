"""The agent's options, each declared once, read from a TOML file and then from flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from jobsight_agent.cgroups import PATTERNS, check_pattern
from jobsight_agent.reading import sendable_name

SIGNS = ("logins", "load")  # signs of the machine's owner
_RETIRED = ("compilers", "libraries")  # options of 0.2 without effect; a file that sets them stays valid


_T = TypeVar("_T")


class ConfigError(ValueError):
    """An option that cannot be used; the message has its name, value and place."""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    """Read a list in the file, or a flag with commas."""
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
    """One option, of the type of its default; a tuple is a list of texts."""

    name: str
    default: Any
    help: str
    least: float | None = None
    most: float | None = None

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    def parse(self, value: Any, place: str) -> Any:
        """Convert ``value`` to the option's type.

        Raises:
            ConfigError: the type is wrong, or the value too small or too large.
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


def _option(default: _T, about: str, least: float | None = None, most: float | None = None) -> _T:
    return field(default=default, metadata={"help": about, "least": least, "most": most})


@dataclass(frozen=True, slots=True)
class Config:
    """Every option with its value."""

    server: str = _option("", "address of the collector, such as https://collector:8470")
    token_file: str = _option("", "file with a token of role agent")
    ca_file: str = _option("", "certificates to trust instead of the system's")
    cluster: str = _option("default", "cluster of this node, as the server's accounting source names it")
    node: str = _option("", "this node's name, as the scheduler writes it (default: the short host name)")
    interval: float = _option(10.0, "seconds between readings", 0.1, _DAY_S)
    batch: int = _option(60, "readings per batch", 1, 5000)
    batch_age_s: float = _option(30.0, "send a batch after at most this many seconds", 0, _DAY_S)
    spool: str = _option("/var/spool/jobsight", "directory for batches that are not yet acknowledged")
    spool_megabytes: float = _option(100.0, "size limit of the spool, beyond which the oldest are dropped", 0.1, 1e9)
    spool_hours: float = _option(72.0, "longest time that a batch may stay in the spool", 0.01, 1e6)
    backoff_most_s: float = _option(300.0, "longest pause between two attempts", 1, _DAY_S)
    gzip_level: int = _option(1, "compression, 1 (fastest) to 9", 1, 9)
    host_root: str = _option("/", "directory that holds the node's proc/ and sys/")
    exclude: tuple[str, ...] = _option((), "interfaces to leave out")
    counters_32bit: tuple[str, ...] = _option((), "interfaces whose driver has 32-bit counters")
    cgroups: tuple[str, ...] = _option(
        PATTERNS, "paths of jobs' cgroups, {job} for the id (default: Slurm, PBS, TORQUE)"
    )
    scratch: str = _option("/tmp", "directory of the jobs' files, whose size is the node's storage")
    owner: tuple[str, ...] = _option((), "signs that the machine's owner uses it: logins, load (default: no owner)")
    owner_load: float = _option(0.5, "busy processors that count as the owner's load while no job runs", 0, 1e6)


OPTIONS = tuple(Option(one.name, one.default, **one.metadata) for one in fields(Config))


def load_config(file: Path | None, flags: Mapping[str, Any]) -> Config:
    """Load the options: defaults, then ``file``, then ``flags`` (None: not given).

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
    import tomllib  # imported only if there is a file

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"configuration {file}: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"configuration {file}: {error}") from error
