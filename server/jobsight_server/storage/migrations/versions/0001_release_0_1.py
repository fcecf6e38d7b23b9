"""The tables of release 0.1"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "accounting_files",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.Column("updated", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "path", name=op.f("pk_accounting_files")),
    )
    op.create_table(
        "accounting_rejects",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("line", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_accounting_rejects")),
        sa.UniqueConstraint("cluster", "path", "line", name=op.f("uq_accounting_rejects_cluster_path_line")),
    )
    op.create_table(
        "batches",
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=False),
        sa.Column("first_time", sa.Double(), nullable=False),
        sa.Column("last_time", sa.Double(), nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.Column("counters", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node_id", "boot_id", "sequence", name=op.f("pk_batches")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_batches_node_id_first_time"), "batches", ["node_id", "first_time"], unique=False)
    op.create_index(op.f("ix_batches_received_at"), "batches", ["received_at"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("start", sa.Double(), nullable=False),
        sa.Column("end", sa.Double(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("group", sa.Text(), nullable=True),
        sa.Column("account", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("queue", sa.Text(), nullable=True),
        sa.Column("created", sa.Double(), nullable=True),
        sa.Column("queued", sa.Double(), nullable=True),
        sa.Column("eligible", sa.Double(), nullable=True),
        sa.Column("exec_host", sa.Text(), nullable=True),
        sa.Column("processors", sa.Integer(), nullable=True),
        sa.Column("exit_status", sa.Integer(), nullable=True),
        sa.Column("requested_walltime_s", sa.Double(), nullable=True),
        sa.Column("requested_memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("requested_nodes", sa.Text(), nullable=True),
        sa.Column("used_cpu_s", sa.Double(), nullable=True),
        sa.Column("used_memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("used_walltime_s", sa.Double(), nullable=True),
        sa.Column("recorded_at", sa.Double(), nullable=False),
        sa.Column("profiled", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("cluster", "job_id", "start", name=op.f("uq_jobs_cluster_job_id_start")),
    )
    op.create_index(op.f("ix_jobs_cluster_user_end"), "jobs", ["cluster", "user", "end"], unique=False)
    op.create_index(op.f("ix_jobs_end"), "jobs", ["end"], unique=False)
    op.create_index(op.f("ix_jobs_profiled_state_end"), "jobs", ["profiled", "state", "end"], unique=False)
    op.create_table(
        "marks",
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("node_id", "job_id", "event", "time", name=op.f("pk_marks")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "nodes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("cpus", sa.Integer(), nullable=False),
        sa.Column("memory_total_bytes", sa.BigInteger(), nullable=True),
        sa.Column("interfaces", sa.Text(), nullable=False),
        sa.Column("counters", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("first_time", sa.Double(), nullable=False),
        sa.Column("last_time", sa.Double(), nullable=False),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.Column("clock_skew_s", sa.Double(), nullable=True),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("wraps", sa.BigInteger(), nullable=False),
        sa.Column("resets", sa.BigInteger(), nullable=False),
        sa.Column("boots", sa.BigInteger(), nullable=False),
        sa.Column("missing", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nodes")),
        sa.UniqueConstraint("cluster", "name", name=op.f("uq_nodes_cluster_name")),
    )
    op.create_table(
        "quarantine",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=True),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantine")),
    )
    op.create_table(
        "samples",
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("net_in_bytes", sa.BigInteger(), nullable=True),
        sa.Column("net_out_bytes", sa.BigInteger(), nullable=True),
        sa.Column("cpu_busy_s", sa.Double(), nullable=True),
        sa.Column("memory_used_bytes", sa.BigInteger(), nullable=True),
        sa.Column("gap_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("node_id", "time", name=op.f("pk_samples")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "series",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("updated", sa.Double(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "user", "metric", name=op.f("pk_series")),
    )
    op.create_index(op.f("ix_series_user"), "series", ["user"], unique=False)
    op.create_table(
        "tallies",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", "label", name=op.f("pk_tallies")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("revoked", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_tokens_digest")),
    )
    op.create_table(
        "job_nodes",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("processors", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["jobs.id"], name=op.f("fk_job_nodes_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "node", name=op.f("pk_job_nodes")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_job_nodes_node"), "job_nodes", ["node"], unique=False)
    op.create_table(
        "profiles",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("peak", sa.Double(), nullable=True),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("attribution", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["jobs.id"], name=op.f("fk_profiles_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "metric", name=op.f("pk_profiles")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_profiles_position"), "profiles", ["position"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("token_id", sa.Integer(), nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name=op.f("fk_sessions_token_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_sessions")),
    )
    op.add_column("jobs", sa.Column("submitted", sa.Double(), nullable=True))
    op.add_column("jobs", sa.Column("foretold", sa.BigInteger(), nullable=True))
    op.create_index(op.f("ix_jobs_foretold_submitted"), "jobs", ["foretold", "submitted"], unique=False)
    for name in ("forecast", "bound", "probability"):
        op.add_column("profiles", sa.Column(name, sa.Double(), nullable=True))
    op.create_table(
        "profile_parts",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "metric", "part", name=op.f("pk_profile_parts")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tickets",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["jobs.id"], name=op.f("fk_tickets_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "metric", name=op.f("pk_tickets")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "failures",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("reserved", sa.Double(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_failures")),
    )
    op.create_index(op.f("ix_failures_position"), "failures", ["position"], unique=False)
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
    """Nothing was before it."""
