"""The tables. Times are UTC epoch seconds, everything else in SI base units."""

from __future__ import annotations

from jobsight_server.storage.schema.access import sessions, tokens
from jobsight_server.storage.schema.jobs import (
    accounting_files,
    accounting_rejects,
    job_counts,
    job_nodes,
    jobs,
    log_reads,
    parallel_tasks,
)
from jobsight_server.storage.schema.learned import (
    learned_until,
    model_state,
    outcomes,
    pending_at_start,
    pending_forecasts,
    profiles,
    running_outlooks,
    running_use,
    series,
)
from jobsight_server.storage.schema.metadata import metadata
from jobsight_server.storage.schema.nodes import (
    batches,
    job_samples,
    late_batches,
    marks,
    nodes,
    quarantine,
    sample_chunks,
    sample_summaries,
    samples,
    shifts,
)
from jobsight_server.storage.schema.operation import (
    event_counts,
    owner_reports,
    role_epochs,
    server_states,
    weekly_mails,
)
from jobsight_server.storage.schema.requirements import requirement_state, requirements
from jobsight_server.storage.schema.savings import forecast_scores, savings, savings_groups, savings_to_do
from jobsight_server.storage.schema.waiting import adjustments, forecast_changes, trial_jobs

__all__ = [
    "accounting_files",
    "accounting_rejects",
    "adjustments",
    "batches",
    "event_counts",
    "forecast_changes",
    "forecast_scores",
    "job_counts",
    "job_nodes",
    "job_samples",
    "jobs",
    "late_batches",
    "learned_until",
    "log_reads",
    "marks",
    "metadata",
    "model_state",
    "nodes",
    "outcomes",
    "owner_reports",
    "parallel_tasks",
    "pending_at_start",
    "pending_forecasts",
    "profiles",
    "quarantine",
    "requirement_state",
    "requirements",
    "role_epochs",
    "running_outlooks",
    "running_use",
    "sample_chunks",
    "sample_summaries",
    "samples",
    "savings",
    "savings_groups",
    "savings_to_do",
    "series",
    "server_states",
    "sessions",
    "shifts",
    "tokens",
    "trial_jobs",
    "weekly_mails",
]
