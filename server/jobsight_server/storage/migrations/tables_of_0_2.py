"""The tables that release 0.2 added to those of 0.1."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


def create_tables() -> None:
    op.create_table(
        "group_series",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("updated", sa.Double(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "field", "name", "metric", name=op.f("pk_group_series")),
    )
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
    op.create_index(op.f("ix_job_samples_node_id_last_time"), "job_samples", ["node_id", "last_time"], unique=False)
    op.create_table(
        "late_batches",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("first_time", sa.Double(), nullable=False),
        sa.Column("last_time", sa.Double(), nullable=False),
        sa.Column("stored_at", sa.Double(), nullable=False),
        sa.Column("seen", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_late_batches")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "machine_outcomes",
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("start", sa.Double(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("end", sa.Double(), nullable=False),
        sa.Column("work_h", sa.Double(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("application", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("machine_id", "job_id", "start", "outcome", name=op.f("pk_machine_outcomes")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_machine_outcomes_cluster_user_application_end"),
        "machine_outcomes",
        ["cluster", "user", "application", "end"],
        unique=False,
    )
    op.create_index(op.f("ix_machine_outcomes_machine_id_end"), "machine_outcomes", ["machine_id", "end"], unique=False)
    op.create_table(
        "machine_sessions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("start", sa.Double(), nullable=False),
        sa.Column("end", sa.Double(), nullable=False),
        sa.Column("ending", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_machine_sessions")),
    )
    op.create_index(op.f("ix_machine_sessions_machine_id_end"), "machine_sessions", ["machine_id", "end"], unique=False)
    op.create_table(
        "machines",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("presence", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("earlier_boots", sa.Text(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=True),
        sa.Column("sequence", sa.BigInteger(), nullable=True),
        sa.Column("booted", sa.Double(), nullable=True),
        sa.Column("received_at", sa.Double(), nullable=True),
        sa.Column("since", sa.Double(), nullable=True),
        sa.Column("busy_processors", sa.Integer(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("successes", sa.BigInteger(), nullable=False),
        sa.Column("evictions", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("user_failures", sa.BigInteger(), nullable=False),
        sa.Column("sessions", sa.BigInteger(), nullable=False),
        sa.Column("late_batches", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("weighted", sa.Double(), nullable=False),
        sa.Column("learned_until", sa.Double(), nullable=True),
        sa.Column("sound", sa.Double(), server_default="0", nullable=False),
        sa.Column("failed", sa.Double(), server_default="0", nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_machines")),
        sa.UniqueConstraint("cluster", "name", name=op.f("uq_machines_cluster_name")),
    )
    op.create_index(op.f("ix_machines_version"), "machines", ["version"], unique=False)
    op.create_table(
        "matches",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=True),
        sa.Column("class", sa.Text(), nullable=True),
        sa.Column("priority", sa.Double(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("submitted_at", sa.Double(), nullable=False),
        sa.Column("matched_at", sa.Double(), nullable=True),
        sa.Column("until", sa.Double(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_matches")),
    )
    op.create_index(op.f("ix_matches_state_until"), "matches", ["state", "until"], unique=False)
    op.create_index(op.f("ix_matches_version"), "matches", ["version"], unique=False)
    op.create_table(
        "matching_state",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("removal_version", sa.BigInteger(), nullable=False),
        sa.Column("definition_version", sa.BigInteger(), nullable=False),
        sa.Column("next_match", sa.Integer(), nullable=False),
        sa.Column("objectives", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_matching_state")),
    )
    op.create_table(
        "model_state",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "metric", "key", name=op.f("pk_model_state")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "offers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("nodes", sa.Integer(), nullable=False),
        sa.Column("places", sa.Text(), nullable=False),
        sa.Column("requested_s", sa.Double(), nullable=False),
        sa.Column("release", sa.Double(), nullable=False),
        sa.Column("planned_start", sa.Double(), nullable=False),
        sa.Column("planned_end", sa.Double(), nullable=False),
        sa.Column("deadline", sa.Double(), nullable=False),
        sa.Column("p_available", sa.Double(), nullable=False),
        sa.Column("p_executable", sa.Double(), nullable=False),
        sa.Column("p_success", sa.Double(), nullable=False),
        sa.Column("pos", sa.Double(), nullable=False),
        sa.Column("predicted", sa.Double(), nullable=False),
        sa.Column("charge", sa.Double(), nullable=False),
        sa.Column("penalty", sa.Double(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("source_jobs", sa.Double(), nullable=False),
        sa.Column("run_times", sa.Text(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("offered_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("started", sa.Double(), nullable=True),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_offers")),
    )
    op.create_index(op.f("ix_offers_cluster_job_id"), "offers", ["cluster", "job_id"], unique=False)
    op.create_index(op.f("ix_offers_cluster_version"), "offers", ["cluster", "version"], unique=False)
    op.create_index(op.f("ix_offers_state_expires_at"), "offers", ["state", "expires_at"], unique=False)
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
    op.create_index(op.f("ix_outcomes_cluster_job_id"), "outcomes", ["cluster", "job_id"], unique=False)
    op.create_index(op.f("ix_outcomes_learn_seq"), "outcomes", ["learn_seq"], unique=False)
    op.create_index(op.f("ix_outcomes_run_id"), "outcomes", ["run_id"], unique=False)
    op.create_table(
        "owner_reports",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("present", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_owner_reports")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "parallel_tasks",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("start", sa.Double(), nullable=False),
        sa.Column("end", sa.Double(), nullable=False),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("cpu_s", sa.Double(), nullable=True),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "job_id", "task", "start", name=op.f("pk_parallel_tasks")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "plans",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("calibration", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", name=op.f("pk_plans")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "reliability_state",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("batches_until", sa.Double(), nullable=False),
        sa.Column("jobs_until", sa.Double(), nullable=False),
        sa.Column("hazard", sa.Text(), nullable=False),
        sa.Column("hazard_version", sa.BigInteger(), nullable=False),
        sa.Column("faded_at", sa.Double(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reliability_state")),
    )
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
    op.create_index(op.f("ix_requirement_groups_freed_bytes"), "requirement_groups", ["freed_bytes"], unique=False)
    op.create_table(
        "requirement_state",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "method", "key", name=op.f("pk_requirement_state")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "resource_policies",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_resource_policies")),
    )
    op.create_table(
        "resource_types",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_resource_types")),
    )
    op.create_table(
        "resources",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("attributes", sa.Text(), nullable=False),
        sa.Column("capacities", sa.Text(), nullable=False),
        sa.Column("cost", sa.Double(), nullable=False),
        sa.Column("is_static", sa.Boolean(), nullable=False),
        sa.Column("state_at", sa.Double(), nullable=False),
        sa.Column("owner_present", sa.Boolean(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_resources")),
        sa.UniqueConstraint("name", name=op.f("uq_resources_name")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_resources_type"), "resources", ["type"], unique=False)
    op.create_index(op.f("ix_resources_version"), "resources", ["version"], unique=False)
    op.create_table(
        "role_epochs",
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("role", name=op.f("pk_role_epochs")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "savings",
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("level", sa.Text(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("first_day", sa.Integer(), nullable=False),
        sa.Column("group_id", sa.Integer(), nullable=False),
        sa.Column("jobs", sa.BigInteger(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("requested", sa.Double(), nullable=False),
        sa.Column("used", sa.Double(), nullable=False),
        sa.Column("reserved", sa.Double(), nullable=False),
        sa.Column("request_held", sa.Double(), nullable=False),
        sa.Column("bound_held", sa.Double(), nullable=False),
        sa.Column("request_failures", sa.BigInteger(), nullable=False),
        sa.Column("bound_failures", sa.BigInteger(), nullable=False),
        sa.Column("without_request", sa.BigInteger(), nullable=False),
        sa.Column("without_use", sa.BigInteger(), nullable=False),
        sa.Column("without_bound", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("metric", "level", "period", "first_day", "group_id", name=op.f("pk_savings")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "savings_groups",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("application", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_savings_groups")),
        sa.UniqueConstraint(
            "cluster", "user", "application", "queue", name=op.f("uq_savings_groups_cluster_user_application_queue")
        ),
    )
    op.create_table(
        "savings_to_do",
        sa.Column("day", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("day", name=op.f("pk_savings_to_do")),
    )
    op.create_table(
        "shifts",
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.Column("net_in_bytes", sa.BigInteger(), nullable=False),
        sa.Column("net_out_bytes", sa.BigInteger(), nullable=False),
        sa.Column("cpu_busy_s", sa.Double(), nullable=False),
        sa.Column("gap_s", sa.Double(), nullable=False),
        sa.Column("ib_in_bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("ib_out_bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("node_id", "since", name=op.f("pk_shifts")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "holds",
        sa.Column("match_id", sa.Integer(), nullable=False),
        sa.Column("dependency", sa.Text(), nullable=False),
        sa.Column("resource_id", sa.Integer(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("amounts", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["match_id"], ["matches.id"], name=op.f("fk_holds_match_id")),
        sa.PrimaryKeyConstraint("match_id", "dependency", "resource_id", name=op.f("pk_holds")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_holds_resource_id"), "holds", ["resource_id"], unique=False)
    op.create_table(
        "outcomes_pending",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["jobs.id"], name=op.f("fk_outcomes_pending_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_outcomes_pending")),
    )
    op.create_table(
        "pending_forecasts",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["jobs.id"], name=op.f("fk_pending_forecasts_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "metric", name=op.f("pk_pending_forecasts")),
        sqlite_with_rowid=False,
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
        op.f("ix_requirements_group_id_outcome_memory_bytes"),
        "requirements",
        ["group_id", "outcome", "memory_bytes"],
        unique=False,
    )
    op.create_index(op.f("ix_requirements_outcome_asked_at"), "requirements", ["outcome", "asked_at"], unique=False)
    op.create_table(
        "running_use",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.Column("memory", sa.Double(), nullable=True),
        sa.Column("idle_bytes", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["jobs.id"], name=op.f("fk_running_use_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_running_use")),
        sqlite_with_rowid=False,
    )
