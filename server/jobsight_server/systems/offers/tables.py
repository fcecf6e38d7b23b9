"""The plan: time slots on nodes that jobs were offered, and the outcomes of the promises."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, Index, Integer, Table, Text

from jobsight_server.storage.schema.metadata import metadata, optional, required

# One row per cluster with a plan. ``version`` rises with every change of one of its offers, which carry the version of
# their last change: a process that knows the plan as of one version reads only later changes. ``calibration`` is the
# correction learned from kept and broken promises, as JSON.
plans = Table(
    "plans",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("calibration", Text, nullable=False),
    sqlite_with_rowid=False,
)

# A time slot offered to a job. state: offered (held until ``expires_at``), confirmed or running (its end is due until
# then), and at last finished, killed (its slot was over), failed (for another reason), cancelled, expired, or unknown
# (without a report). ``question`` is the job as JSON, ``places`` its nodes as ranges of numbers from
# 0 ("0-7,12"). It has to end by ``planned_end``. ``run_times``: the distribution of run over requested time that the
# promise rests on, as JSON, of ``source_jobs`` jobs of the group ``source``. ``predicted`` is the probability that it
# does not end in its slot, ``p_executable`` one minus that after recalibration. ``charge`` and ``penalty`` are in
# hours.
offers = Table(
    "offers",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    *required(Text, "state", "question"),
    Column("nodes", Integer, nullable=False),
    Column("places", Text, nullable=False),
    *required(Double, "requested_s", "release", "planned_start", "planned_end", "deadline", "p_available"),
    *required(Double, "p_executable", "p_success", "pos", "predicted", "charge", "penalty"),
    Column("source", Text, nullable=False),
    Column("source_jobs", Double, nullable=False),
    *required(Text, "run_times", "strategy"),
    *required(Double, "offered_at", "expires_at"),
    Column("job_id", Text),
    *optional(Double, "started", "ended"),
    Index(None, "cluster", "version"),
    Index(None, "cluster", "job_id"),
    Index(None, "state", "expires_at"),
)
