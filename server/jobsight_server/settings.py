"""Settings of the server, each declared once: name, default, help.

Where a value comes from, the later wins: default, TOML file, environment (``JOBSIGHT_`` and the name in capitals),
command line flag. Help texts, flags, environment names and the table in the docs are all made from ``SETTINGS``.
"""

from __future__ import annotations

import socket
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobsight_predictor.bounds import OBJECTIVES
from jobsight_predictor.requests import LIMITS
from jobsight_predictor.template_text import parse_template, template_text
from jobsight_predictor.templates import DEFAULT_TEMPLATES
from jobsight_server.errors import UserError

ACCOUNTING_FORMATS = ("torque",)
LONGEST_NAME = 255

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class SettingsError(UserError):
    """A setting that cannot be used; the message names it, its value and its source."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. Its type is the type of its default."""

    name: str
    default: str | bool | int | float | tuple[str, ...]
    help: str
    minimum: float | None = None
    check: Callable[[Any], object] | None = None  # of the value, or of each text of several; raises ValueError

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def environment(self) -> str:
        return "JOBSIGHT_" + self.name.upper()

    @property
    def default_text(self) -> str:
        """The default as help and documents write it."""
        if isinstance(self.default, bool):
            return str(self.default).lower()
        return (" ".join(self.default) or "none") if isinstance(self.default, tuple) else str(self.default)

    def parse(self, value: Any, source: str) -> str | bool | int | float | tuple[str, ...]:
        """``value`` in the setting's type; several texts come as a list, or as one text with spaces between them.

        Raises:
            SettingsError: wrong type, below the minimum, or refused by ``check``.
        """
        parsed = self._texts(value, source) if isinstance(self.default, tuple) else self._single(value, source)
        if self.minimum is not None and not (isinstance(parsed, int | float) and parsed >= self.minimum):
            raise SettingsError(f"{source}: {self.name} = {value!r} must be at least {self.minimum:g}")
        try:
            for part in parsed if isinstance(parsed, tuple) else (parsed,):
                if self.check is not None:
                    self.check(part)
        except ValueError as error:
            raise SettingsError(f"{source}: {self.name} = {value!r}: {error}") from error
        return parsed

    def _single(self, value: Any, source: str) -> str | bool | int | float:
        kind = type(self.default)
        if kind is bool:
            if str(value).lower() not in _BOOLEANS:
                raise SettingsError(f"{source}: {self.name} = {value!r} is neither true nor false")
            return _BOOLEANS[str(value).lower()]
        wrong_type = isinstance(value, bool) or not isinstance(value, str | int | float)
        try:
            if wrong_type or (kind is str and not isinstance(value, str)):
                raise ValueError
            parsed: str | int | float = kind(value)  # type: ignore[assignment]
        except ValueError:
            names: dict[type, str] = {int: "a whole number", float: "a number", str: "text"}
            raise SettingsError(f"{source}: {self.name} = {value!r} is not {names[kind]}") from None
        return parsed

    def _texts(self, value: Any, source: str) -> tuple[str, ...]:
        texts = value.split() if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise SettingsError(f"{source}: {self.name} = {value!r} is not a list of texts")
        if self.default and not texts:
            raise SettingsError(f"{source}: {self.name} = {value!r} is not a list of texts with at least one in it")
        return tuple(texts)


def _share(value: float) -> None:
    if not 0.0 < value < 1.0:
        raise ValueError("it is a share of jobs: above 0 and below 1")


def _cluster_name(value: str) -> None:
    if not value.isprintable() or not 0 < len(value) <= LONGEST_NAME:
        raise ValueError(f"a cluster's name has 1 to {LONGEST_NAME} printable characters")


def _objective(value: str) -> None:
    if value not in OBJECTIVES:
        raise ValueError(f"choose from {', '.join(OBJECTIVES)}")


def _limit(value: str) -> None:
    if value not in LIMITS:
        raise ValueError(f"choose from {', '.join(LIMITS)}")


SETTINGS = (
    Setting("database", "sqlite:///jobsight.db", "database to keep everything in: an SQLite file or an SQLAlchemy URL"),
    Setting("listen", "127.0.0.1:8470", "address of the API and the pages"),
    Setting("ingest_listen", "127.0.0.1:8471", "address of the writer; agents may also use `listen`"),
    Setting(
        "clusters",
        (),
        "clusters that agents may send for, besides those with accounting and those already in the database",
        check=_cluster_name,
    ),
    Setting("query_workers", 2, "processes that answer questions and pages", minimum=1),
    Setting("ingest_threads", 32, "batches that can wait for one commit together", minimum=1),
    Setting("max_body_bytes", 4 * 2**20, "largest batch accepted, as sent", minimum=1),
    Setting("max_unpacked_bytes", 16 * 2**20, "largest batch accepted, unpacked", minimum=1),
    Setting("max_future_s", 300.0, "how far a reading's time may lie ahead of the server's clock", minimum=0),
    Setting("assumed_speed_bps", 1e10, "link speed taken where the agent knows none, to judge wraps", minimum=1),
    Setting("retention_days", 90.0, "raw samples older than this are deleted; profiles stay", minimum=0.01),
    Setting(
        "quarantine_bytes",
        256 * 2**20,
        "bytes of refused batches kept in quarantine; beyond that the oldest are dropped",
        minimum=0,
    ),
    Setting("follow_interval_s", 5.0, "how often the accounting directories are looked at", minimum=0.05),
    Setting("profile_interval_s", 5.0, "how often finished jobs are profiled", minimum=0.05),
    Setting("profile_grace_s", 600.0, "how long a finished job waits for its last samples", minimum=0),
    Setting("coverage", 0.95, "target fraction of jobs that stay within the recommended reservation", check=_share),
    Setting(
        "bound_objective",
        "cost",
        "what the target fraction is held for: cost, over all jobs with the least waste; per-job, for cheap and dear "
        "jobs and for each user alike; changing it retrains on all finished jobs",
        check=_objective,
    ),
    Setting(
        "walltime_limit",
        "auto",
        "whether the scheduler ends jobs at their requested time, which then no forecast and no bound of the run time "
        "exceeds: yes, no, or auto (as long as finished jobs keep to it)",
        check=_limit,
    ),
    Setting(
        "templates",
        tuple(template_text(template) for template in DEFAULT_TEMPLATES),
        "job groups, most specific first; changing them retrains on all finished jobs",
        check=parse_template,
    ),
    Setting(
        "learn_apportioned",
        False,
        "learn values measured on shared nodes and split by processors held; changing it retrains",
    ),
    Setting("upkeep_interval_s", 3600.0, "how often retention and database upkeep run", minimum=1),
    Setting(
        "simulations_kept", 20, "simulations kept for the pages; a new one takes the place of the oldest", minimum=1
    ),
    Setting("simulation_trace_bytes", 64 * 2**20, "largest trace accepted for a simulation, unpacked", minimum=1),
    Setting("simulation_memory_bytes", 4 * 2**30, "address space that a simulation may take", minimum=2**29),
    Setting("simulation_time_s", 3600.0, "how long a simulation may run", minimum=1),
    Setting("session_hours", 12.0, "how long a login to the pages lasts", minimum=0.01),
    Setting("cookie_secure", 0, "1: send the login cookie over HTTPS only (set it behind TLS)", minimum=0),
)


@dataclass(frozen=True, slots=True)
class AccountingSource:
    """A directory of accounting files of one cluster's scheduler."""

    cluster: str
    directory: Path
    format: str = "torque"


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting with its value, and the accounting directories to follow."""

    database: str
    listen: str
    ingest_listen: str
    clusters: tuple[str, ...]
    query_workers: int
    ingest_threads: int
    max_body_bytes: int
    max_unpacked_bytes: int
    max_future_s: float
    assumed_speed_bps: float
    retention_days: float
    quarantine_bytes: int
    follow_interval_s: float
    profile_interval_s: float
    profile_grace_s: float
    coverage: float
    bound_objective: str
    walltime_limit: str
    templates: tuple[str, ...]
    learn_apportioned: bool
    upkeep_interval_s: float
    simulations_kept: int
    simulation_trace_bytes: int
    simulation_memory_bytes: int
    simulation_time_s: float
    session_hours: float
    cookie_secure: int
    accounting: tuple[AccountingSource, ...] = ()

    @property
    def declared_clusters(self) -> frozenset[str]:
        """Every cluster that the settings name."""
        return frozenset(self.clusters) | {source.cluster for source in self.accounting}


def load_settings(
    file: Path | None = None, environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> Settings:
    """Settings from defaults, then ``file``, then ``environ``, then ``flags`` (None there means not given).

    ``flags["accounting"]`` is a list of ``CLUSTER=DIRECTORY`` texts that are added to the file's.

    Raises:
        SettingsError: an unknown name, or a value that cannot be used; the message says where it stands.
    """
    known = {setting.name: setting for setting in SETTINGS}
    values: dict[str, Any] = {setting.name: setting.default for setting in SETTINGS}
    sources: list[AccountingSource] = []
    if file is not None:
        for name, value in _read_toml(file).items():
            if name == "accounting":
                sources += _accounting_tables(value, str(file))
            elif name in known:
                values[name] = known[name].parse(value, str(file))
            else:
                raise SettingsError(f"{file}: unknown setting {name!r}; known: {', '.join(sorted(known))}")
    for setting in SETTINGS:
        text = (environ or {}).get(setting.environment)
        if text is not None:
            values[setting.name] = setting.parse(text, setting.environment)
        flag = (flags or {}).get(setting.name)
        if flag is not None:
            values[setting.name] = setting.parse(flag, setting.flag)
    sources += [_accounting_flag(text) for text in (flags or {}).get("accounting") or ()]
    return Settings(**values, accounting=tuple(sources))


def split_address(address: str) -> tuple[str, int]:
    """``HOST:PORT`` as host and port.

    >>> split_address("127.0.0.1:8470")
    ('127.0.0.1', 8470)
    """
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdigit() and int(port) < 65536):
        raise SettingsError(f"{address!r} is not an address; write HOST:PORT, for example 127.0.0.1:8470")
    return host.strip("[]"), int(port)


def check_addresses(*addresses: str) -> None:
    """Asserts that each address is one, that none is named twice and that nobody listens there yet.

    Raises:
        SettingsError: the message names the address and the flags that choose another.
    """
    if len(set(addresses)) < len(addresses):
        raise SettingsError(f"--listen and --ingest-listen are both {addresses[0]}; give each an address of its own")
    for address in addresses:
        host, port = split_address(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does; a listener still counts
            try:
                probe.bind((host, port))
            except OSError as error:
                reason = error.strerror or str(error)
                raise SettingsError(f"{address}: {reason}; choose others by --listen and --ingest-listen") from error


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"settings file {file}: {error}") from error


def _accounting_tables(tables: Any, place: str) -> list[AccountingSource]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError(f"{place}: accounting must be [[accounting]] tables with cluster and directory")
    return [_accounting_source(table, place) for table in tables]


def _accounting_flag(text: str) -> AccountingSource:
    cluster, equals, directory = text.partition("=")
    if not equals:
        raise SettingsError(f"--accounting {text!r}: write CLUSTER=DIRECTORY")
    return _accounting_source({"cluster": cluster, "directory": directory}, "--accounting")


def _accounting_source(table: Mapping[str, Any], place: str) -> AccountingSource:
    allowed: Sequence[str] = ("cluster", "directory", "format")
    unknown = sorted(set(table) - set(allowed))
    cluster, directory, log_format = (
        table.get("cluster"),
        table.get("directory"),
        table.get("format", "torque"),
    )
    if unknown:
        raise SettingsError(f"{place}: accounting has unknown {unknown[0]!r}; known: {', '.join(allowed)}")
    if not (isinstance(cluster, str) and cluster and isinstance(directory, str) and directory):
        raise SettingsError(f"{place}: accounting needs cluster and directory, got {dict(table)!r}")
    if log_format not in ACCOUNTING_FORMATS:
        raise SettingsError(f"{place}: accounting format {log_format!r}; known: {', '.join(ACCOUNTING_FORMATS)}")
    return AccountingSource(cluster, Path(directory), log_format)
