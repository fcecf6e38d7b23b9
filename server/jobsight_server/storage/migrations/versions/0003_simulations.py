"""Simulations that the pages run"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "simulation_traces",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_simulation_traces")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "simulations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("started", sa.Double(), nullable=True),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("trace", sa.Text(), nullable=False),
        sa.Column("parameters", sa.Text(), nullable=False),
        sa.Column("progress", sa.Double(), nullable=False),
        sa.Column("figures", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["trace"], ["simulation_traces.digest"], name=op.f("fk_simulations_trace")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_simulations")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_simulations_state"), "simulations", ["state"], unique=False)
    op.create_index(op.f("ix_simulations_trace"), "simulations", ["trace"], unique=False)
    op.create_table(
        "simulation_files",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["simulations.id"], name=op.f("fk_simulation_files_run_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "name", name=op.f("pk_simulation_files")),
    )


def downgrade() -> None:
    op.drop_table("simulation_files")
    op.drop_table("simulations")
    op.drop_table("simulation_traces")
