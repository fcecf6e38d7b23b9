"""Machines for jobs: their presence, their sessions, and the outcomes of jobs on them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Index, Integer, Table, Text, UniqueConstraint

from jobsight_server.storage.schema.metadata import metadata, optional, required

# One row per machine, whether an agent runs on it or only an accounting log names it. ``presence`` and ``facts`` are
# JSON (predictor's Presence, reliability.facts); ``boot_id`` and ``sequence`` are those of the newest batch taken in,
# ``booted`` is when that boot was first seen, ``since`` when the present session began. ``score`` is JS before it is
# mapped to [0, 1]; ``events``, ``seconds`` and ``weighted`` are the machine's part of the survival model, up to
# ``learned_until``; ``sound`` and ``failed`` the jobs that ended well and those that it failed. These five fade.
machines = Table(
    "machines",
    metadata,
    Column("id", Integer, primary_key=True),
    *required(Text, "cluster", "name", "presence", "facts", "earlier_boots"),
    Column("boot_id", Text),
    Column("sequence", BigInteger),
    *optional(Double, "booted", "received_at", "since"),
    Column("busy_processors", Integer, nullable=False),
    Column("score", Double, nullable=False),
    *required(BigInteger, "successes", "evictions", "failures", "user_failures", "sessions"),
    *required(Double, "events", "seconds", "weighted"),
    Column("learned_until", Double),
    Column("sound", Double, nullable=False, server_default="0"),  # jobs that ended well, fading
    Column("failed", Double, nullable=False, server_default="0"),  # jobs that the machine failed, fading
    UniqueConstraint("cluster", "name"),
)

# Sessions that have ended, the newest of each machine; ending: owner, shutdown, silence, reinstall.
machine_sessions = Table(
    "machine_sessions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("machine_id", Integer, nullable=False),
    *required(Double, "start", "end"),
    Column("ending", Text, nullable=False),
    Index(None, "machine_id", "end"),
)

# Outcomes of runs on machines: success, evicted, requeued, checkpointed, failed, user-failed. A run counts once on
# each of its machines, however often it is read.
machine_outcomes = Table(
    "machine_outcomes",
    metadata,
    Column("machine_id", Integer, primary_key=True),
    Column("job_id", Text, primary_key=True),
    Column("start", Double, primary_key=True),
    Column("outcome", Text, primary_key=True),
    Column("end", Double, nullable=False),
    *required(Text, "cluster", "user", "application"),
    Index(None, "machine_id", "end"),
    Index(None, "cluster", "user", "application", "end"),
    sqlite_with_rowid=False,
)

# Runs that ended badly, while some of their machines have not been seen since.
outcomes_pending = Table(
    "outcomes_pending",
    metadata,
    Column("run_id", Integer, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
)

# One row: the newest version, the progress in batches (by time of receipt) and jobs (by time of record), and the part
# of the survival model that all machines share, as JSON, with the version of its last change.
reliability_state = Table(
    "reliability_state",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("version", BigInteger, nullable=False),
    *required(Double, "batches_until", "jobs_until"),
    Column("hazard", Text, nullable=False),
    Column("faded_at", Double, nullable=False, server_default="0"),
)
