"""Data from nodes: samples, batches, marks, and rejected data."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from jobsight_server.storage.schema.metadata import keys, metadata, optional, required

nodes = Table(
    "nodes",
    metadata,
    Column("id", Integer, primary_key=True),
    *required(Text, "cluster", "name", "boot_id"),
    Column("cpus", Integer, nullable=False),
    Column("memory_total_bytes", BigInteger),
    *required(Text, "interfaces", "agent"),
    *required(Double, "first_time", "last_time", "received_at"),
    Column("clock_skew_s", Double),
    *required(BigInteger, "samples", "wraps", "resets", "boots", "missing"),
    Column("two_hosts_at", Double),  # when batches of two boots last alternated: two hosts send under this name
    Column("machine", Text),  # JSON of the newest batch (docs/operate/wire-format.md); NULL of an older agent
    UniqueConstraint("cluster", "name"),
)

# Boots of nodes, each with the interfaces that its batches name, in JSON, and the speed assumed for those without one;
# another row when these change.
boots = Table(
    "boots",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("node_id", Integer, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("interfaces", LargeBinary, nullable=False),
    Index(None, "node_id", "boot_id"),
)

# Acknowledged batches: the key that makes ingest idempotent, and their readings as sent (readings.sent). After a day,
# batches of a boot that follow one another share a row, with the last one's ``last_sequence`` (ingest.joining).
readings = Table(
    "readings",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("node_id", Integer, nullable=False),
    *required(Double, "first_time", "last_time"),
    Column("samples", Integer, nullable=False),
    Column("received_at", Double, nullable=False, index=True),
    Column("boot", Integer, nullable=False),
    *required(BigInteger, "sequence", "last_sequence", "checksum"),
    Column("uptime_s", Double),
    Column("owner_present", Boolean),
    Column("packed", LargeBinary, nullable=False),
    Index(None, "node_id", "first_time", "last_time", "samples"),
    Index(None, "boot", "sequence"),
)

# Summaries of deleted readings, for each hour and each day in UTC (storage.sample_summaries): least, mean and most, and
# the weight of the mean: known seconds, or readings for the memory in use. NULL if unknown. ``period``: "hour" or
# "day".
sample_summaries = Table(
    "sample_summaries",
    metadata,
    Column("node_id", Integer, primary_key=True),
    Column("period", Text, primary_key=True),
    Column("first_time", Double, primary_key=True),
    *(
        Column(f"{quantity}_{part}", Double)
        for quantity in ("in_bps", "out_bps", "memory_used_bytes", "cpus_busy")
        for part in ("min", "mean", "max", "weight")
    ),
    sqlite_with_rowid=False,
)

# A reading that a prologue ("start") or epilogue ("end") took for a job.
marks = Table(
    "marks",
    metadata,
    Column("node_id", Integer, primary_key=True),
    *keys(Text, "job_id", "event"),
    Column("time", Double, primary_key=True),
    sqlite_with_rowid=False,
)

# Readings of the cgroup of one job on a node: a row for each job of a batch, and after a day for each half an hour.
# ``readings``: ``storage.job_columns``, JSON, compressed in the second case;
# ``peak_bytes``: the largest charge to the job by then, page cache included; ``job_id`` as of ``job_ids``.
job_samples = Table(
    "job_samples",
    metadata,
    Column("node_id", Integer, primary_key=True),
    Column("job_id", Text, primary_key=True),
    Column("first_time", Double, primary_key=True),
    Column("last_time", Double, nullable=False),
    Column("samples", Integer, nullable=False),
    Column("peak_bytes", BigInteger),
    Column("readings", Text, nullable=False),
    Index(None, "node_id", "last_time"),
    sqlite_with_rowid=False,
)

# Readings of a node's GPUs, a row for each batch: ``readings``: ``storage.gpu_columns``.
gpu_samples = Table(
    "gpu_samples",
    metadata,
    Column("node_id", Integer, primary_key=True),
    Column("first_time", Double, primary_key=True),
    Column("last_time", Double, nullable=False),
    Column("readings", LargeBinary, nullable=False),
    Index(None, "node_id", "last_time"),
    sqlite_with_rowid=False,
)

# Batches whose readings were old when stored (storage.late_batches); numbered in order of commit.
late_batches = Table(
    "late_batches",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("node_id", Integer, nullable=False),
    *required(Double, "first_time", "last_time", "stored_at"),
    Column("seen", Boolean, nullable=False, server_default=false()),
    sqlite_autoincrement=True,
)

# ``retry``: to be processed again by the writer.
quarantine = Table(
    "quarantine",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("received_at", Double, nullable=False),
    *optional(Text, "cluster", "node"),
    Column("reason", Text, nullable=False),
    Column("bytes", Integer, nullable=False, index=True),
    Column("body", LargeBinary, nullable=False),
    Column("retry", Boolean, nullable=False, server_default=false(), index=True),
)
