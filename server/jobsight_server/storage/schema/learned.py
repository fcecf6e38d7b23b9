"""Measurements and forecasts of runs, and the model learned from them."""

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
    Table,
    Text,
    false,
)

from jobsight_server.storage.schema.metadata import index_where, keys, metadata, optional, required

# Use of a finished run, one row per metric: a value or the reason why there is none. metric: bandwidth, memory, cpu,
# runtime. source: samples, accounting, cgroup. source of memory: cgroup, accounting, samples, samples-idle-remembered,
# samples-idle-unknown (then there is no value). attribution: exclusive, apportioned, cgroup, unknown. ``learn_seq`` is
# the order in which values were learned: that of the run is in the row of its run time, and is 0 in the other rows of
# release 0.4; a value whose samples arrived late has a later one.
# ``forecast``, ``bound`` and ``probability``: as of the run's submission, and ``attempts``, JSON, the recommended
# request and those after it, unless it was enough for a learned value; NULL if that leaves the bound, and in rows of
# release 0.2. ``start_*``: the forecast as of the run's start; NULL in rows of release 0.2. Of memory ``value`` is the
# peak and ``mean`` the time average; ``idle_age_s``: time between the run's life and the reading of its nodes' idle
# level; ``cache`` is the largest page cache of its cgroups and ``charged_peak`` the largest charge to them.
# ``shown_only``: the value is shown and was not learned. ``lower_bound``: the job used more, or would have: it ran out
# of it, was cut short, or was measured in part; never learned. Of bandwidth ``fabric`` is the network that ``value`` is
# of, and ``fabrics`` the value of each, JSON. For memory, ``quantity`` is resident, virtual, with_cache, or node (its
# nodes', above their idle level).
profiles = Table(
    "profiles",
    metadata,
    Column("run_id", Integer, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("learn_seq", BigInteger, nullable=False),
    *optional(Double, "value", "peak"),
    *optional(Text, "source", "attribution", "reason"),
    *optional(Double, "forecast", "bound", "probability"),
    Column("attempts", Text),
    *optional(Double, "start_forecast", "start_probability", "mean", "idle_age_s"),
    Column("shown_only", Boolean, nullable=False, server_default=false()),
    Column("lower_bound", Boolean, nullable=False, server_default=false()),
    *optional(Double, "cache", "charged_peak"),
    *optional(Text, "fabric", "fabrics", "quantity"),
    Column("gpus", Text),  # JSON, of each GPU: profiler.values.GpuUse
    index_where("learn_seq > 0", "learn_seq"),
    sqlite_with_rowid=False,
)

# The use of a running job so far, per processor: the largest memory in its readings until then, less the idle level
# of its nodes, or the reason why that is unknown. ``growth`` of that, per second, over about the last ten minutes.
running_use = Table(
    "running_use",
    metadata,
    Column("run_id", Integer, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("until", Double, nullable=False),
    *optional(Double, "memory", "idle_bytes"),
    Column("reason", Text),
    Column("growth", Double),
    sqlite_with_rowid=False,
)

# Forecast of a running job's need of a metric in all, and apart from it, as it is long, its ``state`` in MessagePack.
# ``learned``: values in its user's series at that time; ``are_limits``: whether requests limit jobs. A job with this
# ``limit`` is not likely to exceed it below ``likely_from``.
running_outlooks = Table(
    "running_outlooks",
    metadata,
    Column("run_id", Integer, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("learned", BigInteger, nullable=False),
    Column("are_limits", Boolean, nullable=False),
    *required(Double, "limit", "likely_from"),
    sqlite_with_rowid=False,
)
outlook_states = Table(
    "outlook_states",
    metadata,
    Column("run_id", Integer, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("state", LargeBinary, nullable=False),
)

# The forecasters' state per (cluster, user, metric) and its forecast after the last learning; both JSON.
series = Table(
    "series",
    metadata,
    *keys(Text, "cluster", "user", "metric"),
    Column("n", BigInteger, nullable=False),
    Column("updated", Double, nullable=False),
    Column("answer", Text, nullable=False),
    Column("state", Text, nullable=False),  # long, and last: readers of the forecast need not skip it
    Index(None, "user"),
)

# The model of one metric on one cluster; MessagePack, a long state compressed (zlib). ``id``: a digest of cluster,
# metric and a key of ``jobsight_predictor.profile``; as the row id it needs no index. ``until``: the last month in
# which a part counts, by the end of jobs; null for parts of any age.
model_state = Table(
    "model_state",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    *required(Text, "cluster", "metric"),
    Column("until", Integer),
    Column("state", LargeBinary, nullable=False),
)

# How far the model has learned (one row, written with it): the last ``learn_seq`` of ``profiles``, and the last ``id``
# of ``outcomes``. Later rows are learned before anything else. No row: the model must be retrained.
learned_until = Table(
    "learned_until",
    metadata,
    *required(BigInteger, "learn_seq", "outcome_id"),
)

# The forecast for a run at its submission, until the run has ended and been learned; MessagePack.
pending_forecasts = Table(
    "pending_forecasts",
    metadata,
    Column("run_id", Integer, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("state", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# The forecast for a run at its start, if it waited, until the run has ended and been learned.
pending_at_start = Table(
    "pending_at_start",
    metadata,
    Column("run_id", Integer, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("metric", Text, primary_key=True),
    *optional(Double, "value", "bound", "probability", "stated_exceed", "out_near_limit"),
    Column("forecasts", LargeBinary),  # of each candidate; MessagePack
    sqlite_with_rowid=False,
)

# Reports of jobs' needs: ``question`` is the job as JSON, ``value`` its need of ``metric``, or with ``lower_bound`` an
# amount that was too small. Kept for retraining: ``learn_seq`` is that of the run learned last before; null if the log
# had it before. ``run_id`` is the run of the report, once known.
outcomes = Table(
    "outcomes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("user", Text),
    *required(Text, "metric", "question"),
    Column("value", Double, nullable=False),
    Column("lower_bound", Boolean, nullable=False),
    Column("reported", Double, nullable=False),
    Column("learn_seq", BigInteger, index=True),
    Column("job_id", Text),
    Column("run_id", Integer, index=True),
    Index(None, "cluster", "job_id"),
    Index(None, "cluster", "user"),
)
