"""The tables. Times are UTC epoch seconds, everything else in SI base units."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# ``counters`` is what the next batch of the node is corrected against (see ingest.counters); JSON.
nodes = Table(
    "nodes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("cpus", Integer, nullable=False),
    Column("memory_total_bytes", BigInteger),
    Column("interfaces", Text, nullable=False),
    Column("counters", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("first_time", Double, nullable=False),
    Column("last_time", Double, nullable=False),
    Column("received_at", Double, nullable=False),
    Column("clock_skew_s", Double),
    Column("samples", BigInteger, nullable=False),
    Column("wraps", BigInteger, nullable=False),
    Column("resets", BigInteger, nullable=False),
    Column("boots", BigInteger, nullable=False),
    Column("missing", BigInteger, nullable=False),
    UniqueConstraint("cluster", "name"),
)

# One wide row per node and time. The cumulative columns are corrected for wraps and resets, so the difference of
# two rows is what happened between them; ``gap_s`` cumulates the seconds for which that is not known.
samples = Table(
    "samples",
    metadata,
    Column("node_id", Integer, primary_key=True),
    Column("time", Double, primary_key=True),
    Column("net_in_bytes", BigInteger),
    Column("net_out_bytes", BigInteger),
    Column("cpu_busy_s", Double),
    Column("memory_used_bytes", BigInteger),
    Column("gap_s", Double, nullable=False),
    sqlite_with_rowid=False,
)

# What was acknowledged: the key that makes ingest idempotent, and the counters after the batch's last reading,
# from which a batch that arrives late and out of order is continued.
batches = Table(
    "batches",
    metadata,
    Column("node_id", Integer, primary_key=True),
    Column("boot_id", Text, primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
    Column("checksum", BigInteger, nullable=False),
    Column("first_time", Double, nullable=False),
    Column("last_time", Double, nullable=False),
    Column("samples", Integer, nullable=False),
    Column("received_at", Double, nullable=False),
    Column("counters", Text, nullable=False),
    Index(None, "node_id", "first_time"),
    Index(None, "received_at"),
    sqlite_with_rowid=False,
)

# A reading that a prologue ("start") or epilogue ("end") took for a job.
marks = Table(
    "marks",
    metadata,
    Column("node_id", Integer, primary_key=True),
    Column("job_id", Text, primary_key=True),
    Column("event", Text, primary_key=True),
    Column("time", Double, primary_key=True),
    sqlite_with_rowid=False,
)

# Where totals of a node change because a late batch revealed a wrap or a reset, as far as ``samples`` and
# ``batches`` do not show it yet (ingest.shifts): added to what stands there from ``since`` to before ``until``.
shifts = Table(
    "shifts",
    metadata,
    Column("node_id", Integer, primary_key=True),
    Column("since", Double, primary_key=True),
    Column("until", Double, nullable=False),
    Column("net_in_bytes", BigInteger, nullable=False),
    Column("net_out_bytes", BigInteger, nullable=False),
    Column("cpu_busy_s", Double, nullable=False),
    Column("gap_s", Double, nullable=False),
    sqlite_with_rowid=False,
)

# How often each role was taken over (storage.fence).
role_epochs = Table(
    "role_epochs",
    metadata,
    Column("role", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# ``retry``: to be taken in again by the writer.
quarantine = Table(
    "quarantine",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("received_at", Double, nullable=False),
    Column("cluster", Text),
    Column("node", Text),
    Column("reason", Text, nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("retry", Boolean, nullable=False, server_default=false()),
    Index(None, "bytes"),
    Index(None, "retry"),
)

# Everything counted: name such as "batches_received", label such as a reason or ''.
tallies = Table(
    "tallies",
    metadata,
    Column("name", Text, primary_key=True),
    Column("label", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

# One row per run of a job: a requeued job has several, told apart by their start.
# state: running (or its end was never logged), ended, requeued, deleted (a run whose D record came before any E).
jobs = Table(
    "jobs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("start", Double, nullable=False),
    Column("end", Double),
    Column("state", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("group", Text),
    Column("account", Text),
    Column("name", Text),
    Column("queue", Text),
    Column("created", Double),
    Column("queued", Double),
    Column("eligible", Double),
    Column("exec_host", Text),
    Column("processors", Integer),
    Column("exit_status", Integer),
    Column("requested_walltime_s", Double),
    Column("requested_memory_bytes", BigInteger),
    Column("requested_nodes", Text),
    Column("used_cpu_s", Double),
    Column("used_memory_bytes", BigInteger),
    Column("used_walltime_s", Double),
    Column("recorded_at", Double, nullable=False),  # when the server read the record that gave the present state
    Column("profiled", Boolean, nullable=False),
    Column("submitted", Double),  # queued, or else created, or else start
    Column("foretold", BigInteger),  # how many runs had been learned (profiles.position) when its tickets were made
    UniqueConstraint("cluster", "job_id", "start"),
    Index(None, "cluster", "user", "end"),
    Index(None, "profiled", "state", "end"),
    Index(None, "foretold", "submitted"),
    Index(None, "end"),
)

# Node names as the accounting log writes them; the node may never have sent a sample.
job_nodes = Table(
    "job_nodes",
    metadata,
    Column("run_id", Integer, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("node", Text, primary_key=True),
    Column("processors", Integer, nullable=False),
    Index(None, "node"),
    sqlite_with_rowid=False,
)

# How far each accounting file was read, committed with the rows that came from it. ``counts``: what it added to the
# tallies, as JSON [name, label, value].
accounting_files = Table(
    "accounting_files",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),  # of the file's first bytes: tells a new file of the same name
    Column("offset", BigInteger, nullable=False),
    Column("lines", BigInteger, nullable=False),
    Column("updated", Double, nullable=False),
    Column("counts", Text, nullable=False, server_default="[]"),
)

accounting_rejects = Table(
    "accounting_rejects",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("line", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("text", Text, nullable=False),
    UniqueConstraint("cluster", "path", "line"),
)

# What a finished run used, one row per metric: a value or the reason why there is none.
# metric: bandwidth, memory, cpu, runtime. source: samples, accounting, cgroup.
# source of memory: accounting, samples, samples-idle-remembered, samples-idle-unknown (then there is no value).
# attribution: exclusive, apportioned, cgroup, unknown. ``position`` is the order in which values were learned; a
# value whose samples arrived late has a later one than the rest of its run.
# ``forecast``, ``bound`` and ``probability``: what had been said of the run when it was submitted.
# Of memory ``value`` is the peak and ``mean`` the time average; ``idle_age_s``: how far from the run's life the idle
# level of its nodes was read. ``shown_only``: the value is shown and was not learned.
_APPORTIONED = text("attribution = 'apportioned' AND value IS NOT NULL")
profiles = Table(
    "profiles",
    metadata,
    Column("run_id", Integer, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("value", Double),
    Column("peak", Double),
    Column("source", Text),
    Column("attribution", Text),
    Column("reason", Text),
    Column("forecast", Double),
    Column("bound", Double),
    Column("probability", Double),
    Column("mean", Double),
    Column("idle_age_s", Double),
    Column("shown_only", Boolean, nullable=False, server_default=false()),
    Index(None, "position"),
    Index(None, "shown_only", sqlite_where=_APPORTIONED, postgresql_where=_APPORTIONED),
    sqlite_with_rowid=False,
)

# Values that an older release measured otherwise, until they have been measured again.
remeasure = Table(
    "remeasure",
    metadata,
    Column("run_id", Integer, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("metric", Text, primary_key=True),
    sqlite_with_rowid=False,
)

# Batches whose readings were old when they were stored (storage.late_batches); numbered as they were committed.
late_batches = Table(
    "late_batches",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("node_id", Integer, nullable=False),
    Column("first_time", Double, nullable=False),
    Column("last_time", Double, nullable=False),
    Column("stored_at", Double, nullable=False),
    Column("seen", Boolean, nullable=False, server_default=false()),
    sqlite_autoincrement=True,
)

# The forecasters' state per (cluster, user, metric) and the answer made from it when it last learned; both JSON.
series = Table(
    "series",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("user", Text, primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("n", BigInteger, nullable=False),
    Column("updated", Double, nullable=False),
    Column("answer", Text, nullable=False),
    Column("state", Text, nullable=False),  # long, and last: whoever reads the answer need not pass it
    Index(None, "user"),
)

# What is known of one metric on one cluster, in the parts that ``jobsight_predictor.profile`` names; JSON.
profile_parts = Table(
    "profile_parts",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("part", Text, primary_key=True),
    Column("state", Text, nullable=False),
    sqlite_with_rowid=False,
)

# What a running job has used so far, per processor: the most that its readings until then showed of its memory, less
# the idle level of its nodes, or the reason why that is not known.
running_use = Table(
    "running_use",
    metadata,
    Column("run_id", Integer, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("until", Double, nullable=False),
    Column("memory", Double),
    Column("idle_bytes", Double),
    Column("reason", Text),
    sqlite_with_rowid=False,
)

# What was forecast for a run when it was submitted, until it has ended and was learned; JSON.
tickets = Table(
    "tickets",
    metadata,
    Column("run_id", Integer, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("state", Text, nullable=False),
    sqlite_with_rowid=False,
)

# Reservations that ran out, so that they can be learned anew: ``question`` is the job as JSON, ``position`` that of
# the run learned last before.
failures = Table(
    "failures",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("metric", Text, nullable=False),
    Column("question", Text, nullable=False),
    Column("reserved", Double, nullable=False),
    Column("position", BigInteger, nullable=False),
    Index(None, "position"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("digest", Text, nullable=False, unique=True),
    Column("created", Double, nullable=False),
    Column("revoked", Double),
    Column("cluster", Text),  # what an agent's token may write as; null is any
    Column("nodes", Text),
)

# Workloads that were simulated: Standard Workload Format, gzip; one row however many runs use it.
simulation_traces = Table(
    "simulation_traces",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# state: queued, running, done, failed, stopped. ``parameters`` and ``figures`` (of done ones) are JSON.
simulations = Table(
    "simulations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("created", Double, nullable=False),
    Column("started", Double),
    Column("ended", Double),
    Column("state", Text, nullable=False),
    Column("trace", Text, ForeignKey("simulation_traces.digest"), nullable=False),
    Column("parameters", Text, nullable=False),
    Column("progress", Double, nullable=False),
    Column("figures", Text),
    Column("error", Text),
    Index(None, "state"),
    Index(None, "trace"),
    sqlite_autoincrement=True,  # the address of a deleted one never shows another
)

# Pictures and the table of jobs of done ones, gzip.
simulation_files = Table(
    "simulation_files",
    metadata,
    Column("run_id", Integer, ForeignKey("simulations.id", ondelete="CASCADE"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

# Dashboard sessions and one-time logins, by the digest of the secret that the browser holds.
sessions = Table(
    "sessions",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("kind", Text, nullable=False),  # "session" or "login"
    Column("token_id", Integer, ForeignKey("tokens.id", ondelete="CASCADE")),
    Column("created", Double, nullable=False),
    Column("expires", Double, nullable=False),
)
