"""Reports of what jobs needed, values as well as what was too little; runs in the log are no longer repeated there"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "outcomes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("lower_bound", sa.Boolean(), nullable=False),
        sa.Column("reported", sa.Double(), nullable=False),
        sa.Column("learn_seq", sa.BigInteger(), nullable=True),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outcomes")),
    )
    # A report whose run the log has too is about that run; which came first is no longer known.
    op.execute(
        sa.text(
            "INSERT INTO outcomes "
            "(id, cluster, metric, question, value, lower_bound, reported, learn_seq, job_id, run_id) "
            "SELECT f.id, f.cluster, f.metric, f.question, f.reserved, :yes, 0, f.learn_seq, f.job_id, "
            "(SELECT max(logged.run_id) FROM failures logged WHERE logged.cluster = f.cluster "
            "AND logged.metric = f.metric AND logged.job_id = f.job_id) "
            "FROM failures f WHERE f.run_id IS NULL"
        ).bindparams(yes=True)
    )
    op.drop_table("failures")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("SELECT setval('outcomes_id_seq', coalesce((SELECT max(id) FROM outcomes), 0) + 1, false)")
    for columns in (["learn_seq"], ["cluster", "job_id"], ["run_id"]):
        op.create_index(op.f("ix_outcomes_" + "_".join(columns)), "outcomes", columns)


def downgrade() -> None:
    op.create_table(
        "failures",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("reserved", sa.Double(), nullable=False),
        sa.Column("learn_seq", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_failures")),
    )
    op.execute(
        "INSERT INTO failures (id, cluster, metric, question, reserved, learn_seq, job_id) "
        "SELECT id, cluster, metric, question, value, coalesce(learn_seq, 0), job_id FROM outcomes WHERE lower_bound"
    )
    op.drop_table("outcomes")
    for columns in (["learn_seq"], ["cluster", "job_id"], ["run_id"]):
        op.create_index(op.f("ix_failures_" + "_".join(columns)), "failures", columns)
