"""From release 0.1 to 0.2: models are trained again, memory that was learned as a time average is measured again"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from jobsight_server.storage.migrations.tables_of_0_2 import create_tables

revision = "0032"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _rename_and_add()
    create_tables()
    _move_rows()


def downgrade() -> None:
    raise NotImplementedError("restore the backup of release 0.1")


_RENAMED = (
    ("accounting_files", "fingerprint", "head_digest"),
    ("jobs", "foretold", "forecast_seq"),
    ("profiles", "position", "learn_seq"),
)
_INDEXES = (
    ("jobs", ("array_task",)),
    ("jobs", ("cluster", "end")),
    ("jobs", ("forecast_seq", "submitted")),
    ("jobs", ("recorded_at",)),
    ("jobs", ("state",)),
    ("profiles", ("learn_seq",)),
    ("quarantine", ("bytes",)),
    ("quarantine", ("retry",)),
)
_APPORTIONED = sa.text("attribution = 'apportioned' AND value IS NOT NULL")
_LEARNED_AS_MEAN = "metric = 'memory' AND source = 'samples' AND value IS NOT NULL"


def _added() -> dict[str, list[sa.Column[Any]]]:
    return {
        "accounting_files": [
            sa.Column("content_digest", sa.Text(), nullable=False, server_default=""),
            sa.Column("stat", sa.Text(), nullable=False, server_default=""),
            sa.Column("counts", sa.Text(), nullable=False, server_default="[]"),
        ],
        "batches": [sa.Column("uptime_s", sa.Double()), sa.Column("owner_present", sa.Boolean())],
        "jobs": [
            sa.Column("failure", sa.Text()),
            sa.Column("asked_processors", sa.Integer()),
            sa.Column("asked_memory_bytes", sa.BigInteger()),
            sa.Column("asked_walltime_s", sa.Double()),
            sa.Column("memory_incomplete", sa.Boolean()),
            sa.Column("memory_with_cache", sa.Boolean()),
            sa.Column("ended_abnormally", sa.Boolean()),
            sa.Column("array_task", sa.Text()),
            sa.Column("suspended_s", sa.Double()),
            sa.Column("facts", sa.Text()),
            sa.Column("gpus", sa.Integer()),
            sa.Column("used", sa.Text()),
        ],
        "nodes": [sa.Column("machine", sa.Text())],
        "profiles": [
            sa.Column("attempts", sa.Text()),
            sa.Column("mean", sa.Double()),
            sa.Column("idle_age_s", sa.Double()),
            sa.Column("shown_only", sa.Boolean(), nullable=False, server_default=sa.false()),
            sa.Column("lower_bound", sa.Boolean(), nullable=False, server_default=sa.false()),
            sa.Column("cache", sa.Double()),
            sa.Column("charged_peak", sa.Double()),
            sa.Column("fabric", sa.Text()),
            sa.Column("fabrics", sa.Text()),
        ],
        "quarantine": [sa.Column("retry", sa.Boolean(), nullable=False, server_default=sa.false())],
        "samples": [sa.Column("ib_in_bytes", sa.BigInteger()), sa.Column("ib_out_bytes", sa.BigInteger())],
        # Tokens that are there keep both empty: they write for any cluster, as they did.
        "tokens": [sa.Column("cluster", sa.Text()), sa.Column("nodes", sa.Text())],
    }


def _rename_and_add() -> None:
    op.drop_index("ix_jobs_foretold_submitted", table_name="jobs")
    op.drop_index("ix_profiles_position", table_name="profiles")
    for table, old, name in _RENAMED:
        op.execute(f'ALTER TABLE {table} RENAME COLUMN "{old}" TO "{name}"')  # Alembic would copy the table on SQLite
    for table, columns in _added().items():
        for column in columns:
            op.add_column(table, column)
    for table, names in _INDEXES:
        op.create_index(op.f(f"ix_{table}_{'_'.join(names)}"), table, list(names))
    op.create_index(
        op.f("ix_profiles_shown_only"),
        "profiles",
        ["shown_only"],
        sqlite_where=_APPORTIONED,
        postgresql_where=_APPORTIONED,
    )
    op.rename_table("tallies", "event_counts")
    if op.get_bind().dialect.name != "sqlite":
        op.execute("ALTER TABLE event_counts RENAME CONSTRAINT pk_tallies TO pk_event_counts")


def _move_rows() -> None:
    connection = op.get_bind()
    _split_fingerprints(connection)
    _shorten_marks(connection)
    # A report of a failure is one of what the job needed at least.
    op.execute(
        sa.text(
            "INSERT INTO outcomes (id, cluster, metric, question, value, lower_bound, reported, learn_seq) "
            "SELECT id, cluster, metric, question, reserved, :yes, 0, position FROM failures"
        ).bindparams(yes=True)
    )
    if connection.dialect.name == "postgresql":
        op.execute("SELECT setval('outcomes_id_seq', coalesce((SELECT max(id) FROM outcomes), 0) + 1, false)")
    # Batches that were late are looked at once more.
    op.execute(
        "INSERT INTO late_batches (node_id, first_time, last_time, stored_at) "
        "SELECT node_id, first_time, last_time, received_at FROM batches WHERE received_at - first_time >= 300"
    )
    forget_averages(connection)
    for table in ("failures", "tickets", "profile_parts"):
        op.drop_table(table)
    # CAST truncates on SQLite, which need not have floor(), and rounds on PostgreSQL.
    day = 'CAST("end" / 86400 AS INTEGER)' if connection.dialect.name == "sqlite" else 'floor("end" / 86400)'
    op.execute(f"INSERT INTO savings_to_do SELECT DISTINCT {day} FROM jobs WHERE profiled")


def forget_averages(connection: sa.Connection) -> None:
    """Memory is the peak: time averages are measured again where samples are left, and all models are trained again.

    Where there are no series, the background process trains on all finished jobs, after it has measured these again.
    """
    connection.execute(
        sa.text(f"INSERT INTO remeasure (run_id, metric) SELECT run_id, metric FROM profiles WHERE {_LEARNED_AS_MEAN}")
    )
    connection.execute(
        sa.text(
            "UPDATE profiles SET value = NULL, peak = NULL, forecast = NULL, bound = NULL, probability = NULL, "
            f"reason = 'learned as a time average by release 0.1; to be measured again' WHERE {_LEARNED_AS_MEAN}"
        )
    )
    connection.execute(sa.text("DELETE FROM series"))


def _split_fingerprints(connection: sa.Connection) -> None:
    """``LENGTH:HEAD:CONTENT@STAT`` in columns of their own."""
    files = sa.table(
        "accounting_files",
        *(sa.column(name) for name in ("cluster", "path", "head_digest", "content_digest", "stat")),
    )
    for row in connection.execute(sa.select(files)).all():
        digests, _, stat = row.head_digest.partition("@")
        _, head, content = [*digests.split(":"), "", ""][:3]
        key = (files.c.cluster == row.cluster) & (files.c.path == row.path)
        connection.execute(sa.update(files).where(key).values(head_digest=head, content_digest=content, stat=stat))


def _shorten_marks(connection: sa.Connection) -> None:
    """Marks are kept without the domain of the job's server."""
    update = sa.text("UPDATE marks SET job_id = :short WHERE job_id = :long")
    for (long,) in connection.execute(sa.text("SELECT DISTINCT job_id FROM marks WHERE job_id LIKE '%.%.%'")).all():
        connection.execute(update, {"long": long, "short": ".".join(long.split(".")[:2])})
