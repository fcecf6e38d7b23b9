"""Every setting of the server: one field each, with its type, bounds, help and default.

Help texts, flags, environment names and the table in the docs follow from these fields.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct

from jobsight_server.auth.client_address import trusted_proxy
from jobsight_server.settings.measurements import MeasurementSource
from jobsight_server.settings.tables import Access, AdjustLimits, Mail, WeeklyMail

AccountingFormat = Literal["torque", "pbspro", "slurm", "gridengine", "condor", "lsf", "table", "nextflow", "snakemake"]
ACCOUNTING_FORMATS: tuple[AccountingFormat, ...] = get_args(AccountingFormat)
Fabric = Literal["fastest", "sum"]

YEARS_S = 100 * 365.25 * 86400.0
"""The longest span that a setting takes, in seconds."""


def from_text(kind: type, value: str) -> Any:
    """Parse a path, which is text in JSON and TOML; a msgspec hook.

    Raises:
        ValueError: it is empty, which would mean the current directory.
    """
    if not value:
        raise ValueError("expected a path, got ''")
    return kind(value)


class AccountingSource(Struct, frozen=True, forbid_unknown_fields=True):
    """The log of one cluster's scheduler: a directory of files, one file that grows, or Slurm's commands.

    Without a format, the files' own is guessed. ``sacct``, and ``squeue`` or ``qstat`` for waiting jobs, are argument
    lists, run every ``interval_s``. ``page_cache``: whether its memory may contain page cache, where the scheduler can
    count that. ``FIXED`` are no settings: the commands are ended after ``timeout_s`` of silence; every few minutes
    sacct is queried again for the last ``overlap_s``, and the first time for ``history_s``.
    """

    FIXED: ClassVar[frozenset[str]] = frozenset({"timeout_s", "overlap_s", "history_s"})

    cluster: Annotated[str, Meta(min_length=1)]
    directory: Path | None = None
    file: Path | None = None
    format: AccountingFormat | None = None
    sacct: tuple[str, ...] = ()
    squeue: tuple[str, ...] = ()
    qstat: tuple[str, ...] = ()
    page_cache: bool = True
    interval_s: Annotated[float, Meta(ge=0.5, le=86400)] = 30.0
    timeout_s: Annotated[float, Meta(ge=1, le=86400)] = 120.0
    overlap_s: Annotated[float, Meta(ge=0, le=YEARS_S)] = 900.0
    history_s: Annotated[float, Meta(ge=0, le=YEARS_S)] = 86400.0

    def __post_init__(self) -> None:
        """Check the values; msgspec reports a ValueError with its place."""
        if [self.directory is None, self.file is None, not self.sacct].count(False) != 1:
            raise ValueError("expected directory, file or sacct, one of them")
        if self.sacct and self.format not in (None, "slurm"):
            raise ValueError(f"expected format = 'slurm' for sacct, got {self.format!r}")
        if any("{seconds}" in argument for argument in self.sacct):
            raise ValueError("expected a command without {seconds} for sacct: options are added, for text in slices")
        if self.squeue and self.scheduler != "slurm":
            raise ValueError("expected format = 'slurm' for squeue")
        if self.qstat and self.format not in ("torque", "pbspro"):
            raise ValueError("expected format = 'torque' or 'pbspro' for qstat")

    @property
    def name(self) -> str:
        """The log, as shown to people."""
        return " ".join(self.sacct) or str(self.place)

    @property
    def scheduler(self) -> str:
        """The scheduler of the log; empty if unknown before reading it."""
        return "slurm" if self.sacct else self.format or ""

    @property
    def queue_command(self) -> tuple[str, ...]:
        """The command that lists waiting jobs; empty without one."""
        return self.squeue or self.qstat

    @property
    def place(self) -> Path:
        """The directory or the file, if any."""
        found = self.directory or self.file
        assert found is not None
        return found


LONGEST_NAME = 255


def check_cluster_name(value: str) -> None:
    """Refuse an impossible name of a cluster with a ValueError."""
    if not value.isprintable() or not 0 < len(value) <= LONGEST_NAME:
        raise ValueError(f"a cluster's name has 1 to {LONGEST_NAME} printable characters")


LONGEST_SOCKET_PATH = 107


def check_socket_path(value: str) -> None:
    """Refuse a path that is no address of a Unix socket, such as one that is too long, with a ValueError."""
    if not value.isprintable():
        raise ValueError("the path of a Unix socket has printable characters only")
    length = len(os.fsencode(value))
    if length > LONGEST_SOCKET_PATH:
        raise ValueError(
            f"the path of a Unix socket has at most {LONGEST_SOCKET_PATH} bytes, this one {length}; "
            "choose a shorter one"
        )


def setting(
    help_text: str, metavar: str | None = None, check: Callable[[str], object] | None = None, **bounds: Any
) -> Meta:
    """Declare a field as a setting, with its help and bounds: of a number, both.

    ``check`` raises ValueError for a bad text of a list.

    A field without this is not a setting: a site cannot choose its value, only tests can.
    """
    return Meta(description=help_text, extra={"metavar": metavar, "check": check}, **bounds)


S = TypeVar("S", bound="Section")


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one placing system; a table of this name in the settings file."""

    SECTION: ClassVar[str]


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting with its value, and the accounting directories to follow."""

    database: Annotated[
        str, setting("database to keep everything in: an SQLite file or an SQLAlchemy URL", metavar="FILE|URL")
    ] = "sqlite:///jobsight.db"
    listen: Annotated[
        tuple[str, ...],
        setting(
            "addresses of the API and the pages: HOST:PORT, or unix:PATH for a proxy on this host",
            metavar="ADDRESSES",
            min_length=1,
        ),
    ] = ("127.0.0.1:8470",)
    socket_owner: Annotated[
        str,
        setting("owner of the Unix socket in `listen`, mode 660, as USER, USER:GROUP or :GROUP; empty: the server's"),
    ] = ""
    ingest_listen: Annotated[str, setting("address of the writer, to which agents send", metavar="HOST:PORT")] = (
        "127.0.0.1:8471"
    )
    clusters: Annotated[
        tuple[str, ...],
        setting(
            "clusters that agents may send for, besides those with accounting and those already in the database",
            check=check_cluster_name,
        ),
    ] = ()
    query_workers: Annotated[int, setting("processes that serve the API and the pages", ge=1, le=256)] = 2
    munge_socket: Annotated[
        str,
        setting(
            "socket of munged, which identifies users who query their own jobs; empty: disabled",
            check=check_socket_path,
        ),
    ] = ""
    retention_days: Annotated[
        float,
        setting(
            "raw samples older than this are deleted; profiles, and summaries by hour and day, stay", ge=0.01, le=36500
        ),
    ] = 90.0
    database_bytes_at_most: Annotated[
        int,
        setting("size of the database above which the oldest samples are deleted early; 0 is no limit", ge=0, le=2**60),
    ] = 0
    follow_interval_s: Annotated[
        float, setting("how often to read accounting logs and to profile finished jobs", ge=0.05, le=3600)
    ] = 2.0
    profile_grace_s: Annotated[
        float, setting("how long a finished job waits for its last samples", ge=0, le=7 * 86400)
    ] = 600.0
    coverage: Annotated[
        float,
        setting("target fraction of jobs that stay within the recommended reservation", metavar="FRACTION", gt=0, lt=1),
    ] = 0.95
    least_memory_mib: Annotated[
        float,
        setting("smallest memory that is recommended for a job or set for it; a smaller request stays", ge=0, le=2**30),
    ] = 100.0
    least_walltime_s: Annotated[
        float,
        setting(
            "smallest run time that is recommended for a job or set for it; a smaller request stays", ge=0, le=YEARS_S
        ),
    ] = 600.0
    keep: Annotated[
        tuple[str, ...],
        setting("users and applications whose requests are neither changed nor recommended to be lower", "NAME"),
    ] = ()
    fabric: Annotated[
        Fabric,
        setting(
            "network whose bandwidth is learned: fastest (with traffic), or sum (of all); "
            "applies to jobs that end afterwards"
        ),
    ] = "fastest"
    cookie_secure: Annotated[bool, setting("send the login cookie over HTTPS only (set it behind TLS)")] = False
    trusted_proxies: Annotated[
        tuple[str, ...],
        setting(
            "proxies in front whose X-Forwarded-For names the client that logs in: addresses, networks, or unix",
            metavar="ADDRESSES",
            check=trusted_proxy,
        ),
    ] = ()
    accounting: tuple[AccountingSource, ...] = ()
    measurements: tuple[MeasurementSource, ...] = ()
    adjust: tuple[AdjustLimits, ...] = ()
    access: Access = Access()
    mail: Mail = Mail()
    weekly_mail: WeeklyMail = WeeklyMail()
    sections: dict[str, dict[str, Any]] = {}

    max_body_bytes: int = 4 * 2**20  # bytes of a batch, as sent
    max_unpacked_bytes: int = 16 * 2**20
    max_future_s: float = 300.0  # longest lead of a reading over the server's clock
    assumed_speed_bps: float = 1e10  # speed of a link if the agent reports none, to detect counter wraps
    quarantine_bytes: int = 256 * 2**20  # above it the oldest batches are dropped
    upkeep_interval_s: float = 3600.0
    session_hours: float = 12.0  # life of a login to the pages

    @property
    def declared_clusters(self) -> frozenset[str]:
        """Every cluster that the settings name."""
        of_logs, of_monitoring = ({one.cluster for one in some} for some in (self.accounting, self.measurements))
        return frozenset(self.clusters) | of_logs | of_monitoring

    @property
    def least(self) -> dict[Literal["memory", "runtime"], float]:
        """The smallest amounts that a job is given, in bytes and seconds, unless it asks for less."""
        return {"memory": self.least_memory_mib * 2**20, "runtime": self.least_walltime_s}

    @property
    def resident_clusters(self) -> frozenset[str]:
        """Every cluster whose logs have no page cache in their memory."""
        return frozenset(one.cluster for one in self.accounting if not one.page_cache)

    def section(self, kind: type[S]) -> S:
        """Return the settings of a placing system."""
        return msgspec.convert(self.sections.get(kind.SECTION, {}), kind)
