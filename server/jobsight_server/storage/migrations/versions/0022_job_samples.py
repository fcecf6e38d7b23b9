"""Readings of jobs' cgroups, marks under the job ids of these; traffic of InfiniBand by itself"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "job_samples",
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("first_time", sa.Double(), nullable=False),
        sa.Column("last_time", sa.Double(), nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("peak_bytes", sa.BigInteger(), nullable=True),
        sa.Column("readings", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node_id", "job_id", "first_time", name=op.f("pk_job_samples")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_job_samples_node_id_last_time"), "job_samples", ["node_id", "last_time"])
    op.add_column("profiles", sa.Column("cache", sa.Double(), nullable=True))
    op.add_column("profiles", sa.Column("charged_peak", sa.Double(), nullable=True))
    for name in ("fabric", "fabrics"):
        op.add_column("profiles", sa.Column(name, sa.Text(), nullable=True))
    for name in ("ib_in_bytes", "ib_out_bytes"):
        op.add_column("samples", sa.Column(name, sa.BigInteger(), nullable=True))
        op.add_column("shifts", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    _shorten_marks(op.get_bind())


def _shorten_marks(connection: sa.Connection) -> None:
    """Marks are kept without the domain of the job's server from now on."""
    update = sa.text("UPDATE marks SET job_id = :short WHERE job_id = :long")
    for (long,) in connection.execute(sa.text("SELECT DISTINCT job_id FROM marks WHERE job_id LIKE '%.%.%'")).all():
        connection.execute(update, {"long": long, "short": ".".join(long.split(".")[:2])})


def downgrade() -> None:
    for name in ("ib_out_bytes", "ib_in_bytes"):
        op.drop_column("shifts", name)
        op.drop_column("samples", name)
    for name in ("fabrics", "fabric"):
        op.drop_column("profiles", name)
    op.drop_column("profiles", "charged_peak")
    op.drop_column("profiles", "cache")
    op.drop_index(op.f("ix_job_samples_node_id_last_time"), "job_samples")
    op.drop_table("job_samples")
