"""Memory requirements learned from feedback"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "requirement_groups",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("requested_bytes", sa.BigInteger(), nullable=False),
        sa.Column("asked", sa.BigInteger(), nullable=False),
        sa.Column("finished", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("used_bytes", sa.BigInteger(), nullable=True),
        sa.Column("enough_bytes", sa.BigInteger(), nullable=True),
        sa.Column("freed_bytes", sa.Double(), nullable=False),
        sa.Column("last_asked", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_requirement_groups")),
        sa.UniqueConstraint("cluster", "key", name=op.f("uq_requirement_groups_cluster_key")),
    )
    op.create_index(op.f("ix_requirement_groups_freed_bytes"), "requirement_groups", ["freed_bytes"])
    op.create_table(
        "requirements",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("group_id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("requested_bytes", sa.BigInteger(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("asked_at", sa.Double(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("used_bytes", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["group_id"], ["requirement_groups.id"], name=op.f("fk_requirements_group_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_requirements")),
    )
    op.create_index(
        op.f("ix_requirements_group_id_outcome_memory_bytes"), "requirements", ["group_id", "outcome", "memory_bytes"]
    )
    op.create_index(op.f("ix_requirements_outcome_asked_at"), "requirements", ["outcome", "asked_at"])
    op.create_table(
        "requirement_state",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "method", "key", name=op.f("pk_requirement_state")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    for table in ("requirement_state", "requirements", "requirement_groups"):
        op.drop_table(table)
