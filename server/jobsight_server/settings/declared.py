"""Every setting of the server: one field each, with its type, bounds, help and default.

Help texts, flags, environment names and the table in the docs are all made from these fields.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from jobsight_predictor.choices import Limit, Objective
from jobsight_predictor.job_groups import DEFAULT_JOB_GROUPS, job_group_text

AccountingFormat = Literal["torque", "pbspro", "slurm", "gridengine", "table", "nextflow", "snakemake"]
ACCOUNTING_FORMATS: tuple[AccountingFormat, ...] = get_args(AccountingFormat)
RequirementsEstimator = Literal[
    "none",
    "successive-approximation",
    "robust-search",
    "last-instance",
    "reinforcement",
    "regression",
    "jobsight",
]
Fabric = Literal["fastest", "sum", "ethernet", "infiniband", "opa", "other"]
PlanStrategy = Literal["jobsight", "conservative"]


def from_text(kind: type, value: str) -> Any:
    """A msgspec hook: parses a path, which is text in JSON and TOML.

    Raises:
        ValueError: it is empty, which would mean the current directory.
    """
    if not value:
        raise ValueError("expected a path, got ''")
    return kind(value)


class AccountingSource(Struct, frozen=True, forbid_unknown_fields=True):
    """The log of one cluster's scheduler: a directory of files, one file that grows, or Slurm's commands.

    The format of files is guessed if it is not named. ``sacct`` and ``squeue`` are argument lists, run every
    ``interval_s`` and ended after ``timeout_s``. sacct is asked again for the last ``overlap_s``, and the first time
    for ``history_s``.
    """

    cluster: Annotated[str, Meta(min_length=1)]
    directory: Path | None = None
    file: Path | None = None
    format: AccountingFormat | None = None
    sacct: tuple[str, ...] = ()
    squeue: tuple[str, ...] = ()
    interval_s: Annotated[float, Meta(ge=0.5)] = 30.0
    timeout_s: Annotated[float, Meta(ge=1)] = 120.0
    overlap_s: Annotated[float, Meta(ge=0)] = 900.0
    history_s: Annotated[float, Meta(ge=0)] = 86400.0

    def __post_init__(self) -> None:
        """Raises ValueError, which msgspec reports with the place."""
        if [self.directory is None, self.file is None, not self.sacct].count(False) != 1:
            raise ValueError("expected directory, file or sacct, one of them")
        if self.sacct and self.format not in (None, "slurm"):
            raise ValueError(f"expected format = 'slurm' for sacct, got {self.format!r}")
        if self.squeue and not self.sacct:
            raise ValueError("expected sacct beside squeue")

    @property
    def name(self) -> str:
        """What is followed, as it is shown."""
        return " ".join(self.sacct) or str(self.place)

    @property
    def place(self) -> Path:
        """The directory or the file, where there is one."""
        found = self.directory or self.file
        assert found is not None
        return found


def _meta(help_text: str, metavar: str | None = None, **bounds: Any) -> Meta:
    return Meta(description=help_text, extra={"metavar": metavar}, **bounds)


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting with its value, and the accounting directories to follow."""

    database: Annotated[
        str, _meta("database to keep everything in: an SQLite file or an SQLAlchemy URL", metavar="FILE|URL")
    ] = "sqlite:///jobsight.db"
    listen: Annotated[str, _meta("address of the API and the pages", metavar="HOST:PORT")] = "127.0.0.1:8470"
    ingest_listen: Annotated[str, _meta("address of the writer; agents may also use `listen`", metavar="HOST:PORT")] = (
        "127.0.0.1:8471"
    )
    clusters: Annotated[
        tuple[str, ...],
        _meta("clusters that agents may send for, besides those with accounting and those already in the database"),
    ] = ()
    query_workers: Annotated[int, _meta("processes that serve the API and the pages", ge=1)] = 2
    ingest_threads: Annotated[int, _meta("batches that can wait to be committed together", ge=1)] = 32
    max_body_bytes: Annotated[int, _meta("largest batch accepted, as sent", ge=1)] = 4 * 2**20
    max_unpacked_bytes: Annotated[int, _meta("largest batch accepted, unpacked", ge=1)] = 16 * 2**20
    max_future_s: Annotated[float, _meta("how far a reading's time may be ahead of the server's clock", ge=0)] = 300.0
    assumed_speed_bps: Annotated[
        float, _meta("link speed assumed if the agent reports none, to detect counter wraps", ge=1)
    ] = 1e10
    munge_socket: Annotated[
        str, _meta("socket of munged, by which users prove who they are to ask for their own jobs; empty: they cannot")
    ] = ""
    retention_days: Annotated[float, _meta("raw samples older than this are deleted; profiles stay", ge=0.01)] = 90.0
    database_bytes_at_most: Annotated[
        int, _meta("size of the database from which on the oldest samples are deleted early; 0 is no limit", ge=0)
    ] = 0
    quarantine_bytes: Annotated[
        int, _meta("size limit of the quarantine; beyond it the oldest batches are dropped", ge=0)
    ] = 256 * 2**20
    follow_interval_s: Annotated[float, _meta("how often to check the accounting directories", ge=0.05)] = 5.0
    profile_interval_s: Annotated[float, _meta("how often to profile finished jobs", ge=0.05)] = 5.0
    profile_grace_s: Annotated[float, _meta("how long a finished job waits for its last samples", ge=0)] = 600.0
    coverage: Annotated[
        float,
        _meta("target fraction of jobs that stay within the recommended reservation", metavar="FRACTION", gt=0, lt=1),
    ] = 0.95
    bound_objective: Annotated[
        Objective,
        _meta(
            "what reservations aim at: coverage, the target fraction of jobs with little waste; waste, the least "
            "waste, failed attempts included; changing it retrains on all finished jobs"
        ),
    ] = "coverage"
    walltime_limit: Annotated[
        Limit,
        _meta(
            "whether the scheduler kills jobs at their requested time, which then caps run-time forecasts and bounds: "
            "yes, no, or auto (as long as finished jobs keep to it)"
        ),
    ] = "auto"
    job_groups: Annotated[
        tuple[str, ...],
        _meta(
            "job groups, most specific first; changing them retrains on all finished jobs",
            metavar="GROUPS",
            min_length=1,
        ),
    ] = tuple(map(job_group_text, DEFAULT_JOB_GROUPS))
    window: Annotated[
        tuple[str, ...],
        _meta(
            "jobs in the sliding window forecast: a number, and METRIC=NUMBER for metrics that differ; changing it "
            "retrains on all finished jobs",
            metavar="NUMBERS",
        ),
    ] = ("5",)
    bins: Annotated[
        tuple[str, ...],
        _meta("bins of the weighted forecast, written like `window`; changing them retrains", metavar="NUMBERS"),
    ] = ("10",)
    alpha: Annotated[
        tuple[str, ...],
        _meta(
            "smoothing of the exponential forecast, above 0 and below 1, written like `window`; changing it retrains",
            metavar="NUMBERS",
        ),
    ] = ("0.5",)
    learn_apportioned: Annotated[
        bool, _meta("learn values measured on shared nodes and split by processors held; changing it retrains")
    ] = False
    fabric: Annotated[
        Fabric,
        _meta(
            "network whose bandwidth is learned: fastest, of those with traffic; sum, of all; or one by its kind; "
            "applies to jobs that end from then on"
        ),
    ] = "fastest"
    upkeep_interval_s: Annotated[float, _meta("how often to run retention and database upkeep", ge=1)] = 3600.0
    simulations_kept: Annotated[int, _meta("simulations kept for the pages; a new one replaces the oldest", ge=1)] = 20
    simulation_trace_bytes: Annotated[int, _meta("largest trace accepted for a simulation, unpacked", ge=1)] = (
        64 * 2**20
    )
    simulation_memory_bytes: Annotated[int, _meta("address space that a simulation may use", ge=2**29)] = 4 * 2**30
    simulation_time_s: Annotated[float, _meta("how long a simulation may run", ge=1)] = 3600.0
    requirements_estimator: Annotated[
        RequirementsEstimator,
        _meta(
            f"how memory requirements are estimated from feedback: {', '.join(get_args(RequirementsEstimator))}; "
            "changing it learns from the reported jobs again",
            metavar="NAME",
        ),
    ] = "jobsight"
    requirements_group: Annotated[
        tuple[str, ...],
        _meta("fields that jobs of one group share, besides the memory they request", metavar="FIELDS"),
    ] = ("user", "application")
    memory_capacities: Annotated[
        tuple[str, ...],
        _meta("memory sizes of the nodes, such as 24G 32G; estimates are rounded up to these", metavar="MEMORY"),
    ] = ()
    requirements_kept: Annotated[
        int, _meta("requirements kept, open or reported; the oldest are deleted first", ge=1)
    ] = 100_000
    requirements_expiry_days: Annotated[float, _meta("how long a requirement waits for feedback on its job", gt=0)] = (
        30.0
    )
    rank_method: Annotated[
        Literal["survival", "grv"],
        _meta("how machines are ranked: survival, the chance that a job succeeds there; grv, the grid resource vector"),
    ] = "survival"
    rank_weight_availability: Annotated[
        float, _meta("weight of the availability (RA) in the resource vector", ge=0, le=1e6)
    ] = 1.0
    rank_weight_success: Annotated[float, _meta("weight of the job success (JS)", ge=0, le=1e6)] = 1.0
    rank_weight_capacity: Annotated[float, _meta("weight of the capacity (CA)", ge=0, le=1e6)] = 1.0
    rank_availability_base: Annotated[float, _meta("RA of a machine that has just returned", ge=0, le=1)] = 0.0
    rank_availability_cap_s: Annotated[float, _meta("time after the return from which RA is 1", gt=0, le=1e9)] = 86400.0
    rank_success_initial: Annotated[float, _meta("score of a machine that had no job", ge=-1e6, le=1e6)] = 0.0
    rank_success_reward: Annotated[float, _meta("what a success adds to the score", ge=0, le=1e6)] = 1.0
    rank_success_penalty: Annotated[
        float, _meta("what an eviction, requeue, checkpoint or failure takes off the score", ge=0, le=1e6)
    ] = 1.0
    rank_success_cap: Annotated[float, _meta("the score stays between this and its negative", gt=0, le=1e6)] = 20.0
    rank_success_by_work: Annotated[bool, _meta("weight each success by the job's processor hours")] = False
    rank_blame_users: Annotated[
        bool, _meta("penalise the machine also for failures that follow a user or an application")
    ] = False
    rank_raw_capacity: Annotated[bool, _meta("CA is flops times cores as it is, not divided by the largest")] = False
    ranks_interval_s: Annotated[float, _meta("how often to update the machines' sessions and scores", ge=0.05)] = 15.0
    machine_silence_s: Annotated[
        float, _meta("silence of an agent that ends its machine's session; no eviction by itself", ge=1, le=1e9)
    ] = 600.0
    plan_nodes: Annotated[
        tuple[str, ...],
        _meta("nodes of each cluster's plan, as CLUSTER=NODES; without it, those known from agents", metavar="NODES"),
    ] = ()
    plan_strategy: Annotated[
        PlanStrategy,
        _meta(f"how places are offered: {', '.join(get_args(PlanStrategy))}", metavar="NAME"),
    ] = "jobsight"
    plan_max_failure: Annotated[
        float,
        _meta(
            "a place is offered if the job is less likely than this not to end in it",
            metavar="FRACTION",
            gt=0,
            le=1,
        ),
    ] = 0.1
    plan_penalty_ratio: Annotated[
        float, _meta("penalty for a job that fails, as a multiple of its charge", metavar="RATIO", ge=0, le=1e6)
    ] = 1.0
    plan_failures_per_hour: Annotated[
        float, _meta("failures of one node per hour; by default one in twenty fails within 31 days", ge=0, le=1e3)
    ] = 6.8943e-5
    plan_repairs_per_hour: Annotated[
        float, _meta("repairs of a failed node per hour; by default it takes 12 hours", gt=0, le=1e6)
    ] = 0.08333
    plan_offer_minutes: Annotated[
        float, _meta("how long an offer holds its place without being confirmed", gt=0, le=1e6)
    ] = 10.0
    plan_kept: Annotated[int, _meta("ended offers kept; the oldest are deleted first", ge=1)] = 100_000
    resource_expiry_s: Annotated[
        float, _meta("a resource whose state is older takes no new match, unless it is static", ge=1)
    ] = 90.0
    resources_from_agents: Annotated[
        bool, _meta("keep a compute server for each node, with the processors, memory and link use its agent reports")
    ] = False
    match_deadline_s: Annotated[float, _meta("how long a batch of jobs may take to match", gt=0, le=60)] = 1.0
    match_hold_s: Annotated[
        float, _meta("how long the match of a job without a duration holds, unless renewed", ge=1)
    ] = 900.0
    match_round_jobs: Annotated[int, _meta("queued jobs that start a round of matching at once", ge=1, le=10_000)] = 30
    match_round_s: Annotated[float, _meta("how long a queued job waits for more before a round starts", gt=0)] = 0.5
    matches_queued: Annotated[int, _meta("jobs that may wait for a match; more are refused", ge=1)] = 10_000
    matches_kept: Annotated[int, _meta("ended matches kept; the oldest are deleted first", ge=0)] = 10_000
    session_hours: Annotated[float, _meta("how long a login to the pages lasts", ge=0.01)] = 12.0
    cookie_secure: Annotated[bool, _meta("send the login cookie over HTTPS only (set it behind TLS)")] = False
    trusted_proxies: Annotated[
        tuple[str, ...],
        _meta(
            "proxies in front whose X-Forwarded-For names the client that logs in: addresses, networks, or unix",
            metavar="ADDRESSES",
        ),
    ] = ()
    accounting: tuple[AccountingSource, ...] = ()

    @property
    def declared_clusters(self) -> frozenset[str]:
        """Every cluster that the settings name."""
        return frozenset(self.clusters) | {source.cluster for source in self.accounting}

    def to_json(self) -> str:
        """The settings as one line, for ``from_json``."""
        return msgspec.json.encode(self, enc_hook=str).decode()

    @classmethod
    def from_json(cls, line: str) -> Settings:
        """Parses the output of ``to_json``."""
        return msgspec.json.decode(line, type=cls, dec_hook=from_text)
