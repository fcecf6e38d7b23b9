"""Memory is the peak: what was learned as a time average is measured again; values that are shown and not learned"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_LEARNED_AS_MEAN = "metric = 'memory' AND source = 'samples' AND value IS NOT NULL"
_APPORTIONED = sa.text("attribution = 'apportioned' AND value IS NOT NULL")


def upgrade() -> None:
    op.add_column("profiles", sa.Column("mean", sa.Double(), nullable=True))
    op.add_column("profiles", sa.Column("idle_age_s", sa.Double(), nullable=True))
    op.add_column("profiles", sa.Column("shown_only", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_index(
        op.f("ix_profiles_shown_only"),
        "profiles",
        ["shown_only"],
        unique=False,
        sqlite_where=_APPORTIONED,
        postgresql_where=_APPORTIONED,
    )
    op.create_table(
        "remeasure",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["jobs.id"], name=op.f("fk_remeasure_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "metric", name=op.f("pk_remeasure")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "watermarks",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_watermarks")),
        sqlite_with_rowid=False,
    )
    op.execute(f"INSERT INTO remeasure (run_id, metric) SELECT run_id, metric FROM profiles WHERE {_LEARNED_AS_MEAN}")
    # No answer may rest on time averages meanwhile, so the model of memory goes at once. Where there are no series
    # the background process retrains on all finished jobs, after it has measured these again.
    op.execute("DELETE FROM profile_parts WHERE metric = 'memory' AND EXISTS (SELECT 1 FROM remeasure)")
    op.execute("DELETE FROM tickets WHERE metric = 'memory' AND EXISTS (SELECT 1 FROM remeasure)")
    op.execute("DELETE FROM series WHERE EXISTS (SELECT 1 FROM remeasure)")
    # What had been forecast for them was a forecast of the average.
    op.execute(
        "UPDATE profiles SET value = NULL, peak = NULL, forecast = NULL, bound = NULL, probability = NULL, "
        "reason = 'learned as a time average by release 0.1; to be measured again' "
        f"WHERE {_LEARNED_AS_MEAN}"
    )


def downgrade() -> None:
    op.drop_table("watermarks")
    op.drop_table("remeasure")
    op.drop_index(op.f("ix_profiles_shown_only"), table_name="profiles")
    with op.batch_alter_table("profiles") as table:
        for name in ("shown_only", "idle_age_s", "mean"):
            table.drop_column(name)
