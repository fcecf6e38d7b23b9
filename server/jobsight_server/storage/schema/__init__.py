"""The tables. Times are UTC epoch seconds, everything else in SI base units."""

from __future__ import annotations

from jobsight_server.storage.schema.advice import adjustments as adjustments
from jobsight_server.storage.schema.advice import forecast_changes as forecast_changes
from jobsight_server.storage.schema.advice import forecast_scores as forecast_scores
from jobsight_server.storage.schema.advice import savings as savings
from jobsight_server.storage.schema.advice import savings_groups as savings_groups
from jobsight_server.storage.schema.advice import savings_to_do as savings_to_do
from jobsight_server.storage.schema.advice import trial_jobs as trial_jobs
from jobsight_server.storage.schema.advice import waits as waits
from jobsight_server.storage.schema.jobs import accounting_files as accounting_files
from jobsight_server.storage.schema.jobs import accounting_rejects as accounting_rejects
from jobsight_server.storage.schema.jobs import job_counts as job_counts
from jobsight_server.storage.schema.jobs import job_nodes as job_nodes
from jobsight_server.storage.schema.jobs import jobs as jobs
from jobsight_server.storage.schema.jobs import log_reads as log_reads
from jobsight_server.storage.schema.jobs import parallel_tasks as parallel_tasks
from jobsight_server.storage.schema.learned import learned_until as learned_until
from jobsight_server.storage.schema.learned import model_state as model_state
from jobsight_server.storage.schema.learned import outcomes as outcomes
from jobsight_server.storage.schema.learned import outlook_states as outlook_states
from jobsight_server.storage.schema.learned import pending_at_start as pending_at_start
from jobsight_server.storage.schema.learned import pending_forecasts as pending_forecasts
from jobsight_server.storage.schema.learned import profiles as profiles
from jobsight_server.storage.schema.learned import running_outlooks as running_outlooks
from jobsight_server.storage.schema.learned import running_use as running_use
from jobsight_server.storage.schema.learned import series as series
from jobsight_server.storage.schema.metadata import metadata as metadata
from jobsight_server.storage.schema.nodes import boots as boots
from jobsight_server.storage.schema.nodes import gpu_samples as gpu_samples
from jobsight_server.storage.schema.nodes import job_samples as job_samples
from jobsight_server.storage.schema.nodes import late_batches as late_batches
from jobsight_server.storage.schema.nodes import marks as marks
from jobsight_server.storage.schema.nodes import nodes as nodes
from jobsight_server.storage.schema.nodes import quarantine as quarantine
from jobsight_server.storage.schema.nodes import readings as readings
from jobsight_server.storage.schema.nodes import sample_summaries as sample_summaries
from jobsight_server.storage.schema.operation import event_counts as event_counts
from jobsight_server.storage.schema.operation import muted_findings as muted_findings
from jobsight_server.storage.schema.operation import owner_reports as owner_reports
from jobsight_server.storage.schema.operation import role_epochs as role_epochs
from jobsight_server.storage.schema.operation import server_states as server_states
from jobsight_server.storage.schema.operation import sessions as sessions
from jobsight_server.storage.schema.operation import tokens as tokens
from jobsight_server.storage.schema.operation import weekly_mails as weekly_mails
