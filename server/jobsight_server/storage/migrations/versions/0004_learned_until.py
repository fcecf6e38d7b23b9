"""The model becomes MessagePack, with how far it has learned; users' stored answers stay until it is retrained"""

import sqlalchemy as sa
from alembic import op

from jobsight_server.storage.job_counts import count_all

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def _of_model() -> list[sa.schema.SchemaItem]:
    names = ("cluster", "metric", "key")
    return [
        *(sa.Column(name, sa.Text(), nullable=False) for name in names),
        sa.PrimaryKeyConstraint(*names, name=op.f("pk_model_state")),
    ]


def _of_pending() -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["jobs.id"], name=op.f("fk_pending_forecasts_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "metric", name=op.f("pk_pending_forecasts")),
    ]


_KEYS = {"model_state": _of_model, "pending_forecasts": _of_pending}


def upgrade() -> None:
    op.create_table(
        "learned_until",
        sa.Column("learn_seq", sa.BigInteger(), nullable=False),
        sa.Column("outcome_id", sa.BigInteger(), nullable=False),
    )
    # Without a row the model is to be retrained.
    op.execute("INSERT INTO learned_until SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM profiles)")
    op.create_table(
        "job_counts",
        sa.Column("key", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("cluster", "user")),
        *(sa.Column(name, sa.Text()) for name in ("group", "account")),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("profiled", sa.Boolean(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("first_start", sa.Double(), nullable=False),
        sa.Column("last_end", sa.Double()),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_job_counts")),
    )
    op.create_index("ix_job_counts_cluster_user", "job_counts", ["cluster", "user"])
    count_all(op.get_bind())
    op.add_column("batches", sa.Column("last_sequence", sa.BigInteger()))
    for table, keys in _KEYS.items():
        op.drop_table(table)
        state = sa.Column("state", sa.LargeBinary(), nullable=False)
        op.create_table(table, *keys(), state, sqlite_with_rowid=False)


def downgrade() -> None:
    raise NotImplementedError("restore the backup")
