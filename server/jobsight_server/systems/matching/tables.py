"""Resources of matching, the jobs, and the holds of their matches."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Index, Integer, Table, Text

from jobsight_server.storage.schema.metadata import metadata, optional, required

# One row. ``version`` counts every change of anything below; each row that changes carries the version of its change,
# so that a process that knows one version reads only what is newer. Rows that are deleted set ``removal_version``,
# policies and objectives ``definition_version``. ``next_match`` is the number of the next match. Every change
# begins with an update of this row: PostgreSQL then keeps it locked until the commit, so there is one at a time.
matching_state = Table(
    "matching_state",
    metadata,
    Column("id", Integer, primary_key=True),
    *required(BigInteger, "version", "removal_version", "definition_version"),
    Column("next_match", Integer, nullable=False),
    Column("objectives", Text),
)

# ``attributes`` and ``capacities`` are JSON; a capacity has its total and the use measured at ``state_at``. A resource
# that ``is_static`` has no reports, so its state does not expire. ``owner_present``: null if unknown.
resources = Table(
    "resources",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    *required(Text, "type", "attributes", "capacities"),
    Column("cost", Double, nullable=False),
    Column("is_static", Boolean, nullable=False),
    Column("state_at", Double, nullable=False),
    Column("owner_present", Boolean),
    Column("source", Text, nullable=False),
    Column("version", BigInteger, nullable=False, index=True),
    Index(None, "type"),
    sqlite_autoincrement=True,
)

# ``rule`` is JSON; the order of the rules is that of their numbers.
resource_policies = Table(
    "resource_policies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("rule", Text, nullable=False),
)

# A submitted job, as JSON, and its outcome. ``state``: queued, held, or ended: released, expired, lost (a
# resource was removed), cancelled. ``until``: end of the hold. ``rounds``: number of rounds that passed it over;
# ``tier`` and ``reason`` say why the last one did.
matches = Table(
    "matches",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    *optional(Text, "user", "class"),
    Column("priority", Double, nullable=False),
    *required(Text, "job", "state"),
    Column("submitted_at", Double, nullable=False),
    *optional(Double, "matched_at", "until", "ended_at"),
    Column("rounds", Integer, nullable=False),
    *optional(Text, "tier", "reason"),
    Column("version", BigInteger, nullable=False, index=True),
    Index(None, "state", "until"),
)

# The hold of a match on one resource for one of the job's dependencies; ``amounts`` is JSON.
holds = Table(
    "holds",
    metadata,
    Column("match_id", Integer, ForeignKey("matches.id"), primary_key=True),
    Column("dependency", Text, primary_key=True),
    Column("resource_id", Integer, primary_key=True, index=True),
    *required(Text, "resource", "amounts"),
    sqlite_with_rowid=False,
)
