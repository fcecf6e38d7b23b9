"""Requested, used and recommended reservations of jobs: totals by day and by month."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, Index, Integer, Table, Text, UniqueConstraint

from jobsight_server.storage.schema.metadata import metadata

# Groups by user and application: a field is empty if missing in the log, or left out by the level of a total.
savings_groups = Table(
    "savings_groups",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("application", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("account", Text, nullable=False),
    UniqueConstraint("cluster", "user", "application", "queue", "account"),
)

# Sums over the jobs of a group that ended within a period (savings.totals says what each is). level: group, that is
# cluster, user, application, queue and account, or the cluster and one of these, or the cluster alone. period: day or
# month; ``first_day``: its first day, counted from 1970-01-01 UTC. A month's row is the sum of its days' rows, so that
# a year is read from twelve rows of each group. metric: memory (byte seconds), runtime or cpu (processor seconds).
savings = Table(
    "savings",
    metadata,
    Column("metric", Text, primary_key=True),
    Column("level", Text, primary_key=True),
    Column("period", Text, primary_key=True),
    Column("first_day", Integer, primary_key=True),
    Column("group_id", Integer, primary_key=True),
    Column("jobs", BigInteger, nullable=False),
    Column("weight", Double, nullable=False),
    Column("requested", Double, nullable=False),
    Column("used", Double, nullable=False),
    Column("reserved", Double, nullable=False),
    Column("request_held", Double, nullable=False),
    Column("bound_held", Double, nullable=False),
    Column("request_failures", BigInteger, nullable=False),
    Column("bound_failures", BigInteger, nullable=False),
    Column("without_request", BigInteger, nullable=False),
    Column("without_use", BigInteger, nullable=False),
    Column("without_bound", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# Accuracy of forecasts at submission (columns as in savings.scores), by day and by week from Monday on;
# level: cluster, user or application of ``savings_groups``. Accuracy in millionths.
forecast_scores = Table(
    "forecast_scores",
    metadata,
    Column("metric", Text, primary_key=True),
    Column("level", Text, primary_key=True),
    Column("period", Text, primary_key=True),
    Column("first_day", Integer, primary_key=True),
    Column("group_id", Integer, primary_key=True),
    Column("jobs", BigInteger, nullable=False),
    Column("accuracy", BigInteger, nullable=False),
    Column("within20", BigInteger, nullable=False),
    Column("bounds", BigInteger, nullable=False),
    Column("held", BigInteger, nullable=False),
    Index(None, "level", "group_id", "period", "first_day"),
    sqlite_with_rowid=False,
)

# Days whose totals must be recomputed, because the use of their jobs now counts differently.
savings_to_do = Table("savings_to_do", metadata, Column("day", Integer, primary_key=True))
