CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE accounting_files (
	cluster TEXT NOT NULL, 
	path TEXT NOT NULL, 
	head_digest TEXT NOT NULL, 
	"offset" BIGINT NOT NULL, 
	lines BIGINT NOT NULL, 
	updated DOUBLE NOT NULL, counts TEXT DEFAULT '[]' NOT NULL, content_digest TEXT DEFAULT '' NOT NULL, stat TEXT DEFAULT '' NOT NULL, 
	CONSTRAINT pk_accounting_files PRIMARY KEY (cluster, path)
);
CREATE TABLE accounting_rejects (
	id INTEGER NOT NULL, 
	cluster TEXT NOT NULL, 
	path TEXT NOT NULL, 
	line BIGINT NOT NULL, 
	reason TEXT NOT NULL, 
	text TEXT NOT NULL, 
	CONSTRAINT pk_accounting_rejects PRIMARY KEY (id), 
	CONSTRAINT uq_accounting_rejects_cluster_path_line UNIQUE (cluster, path, line)
);
CREATE TABLE batches (
	node_id INTEGER NOT NULL, 
	boot_id TEXT NOT NULL, 
	sequence BIGINT NOT NULL, 
	checksum BIGINT NOT NULL, 
	first_time DOUBLE NOT NULL, 
	last_time DOUBLE NOT NULL, 
	samples INTEGER NOT NULL, 
	received_at DOUBLE NOT NULL, 
	counters TEXT NOT NULL, uptime_s DOUBLE, owner_present BOOLEAN, last_sequence BIGINT, 
	CONSTRAINT pk_batches PRIMARY KEY (node_id, boot_id, sequence)
)
 WITHOUT ROWID

;
CREATE TABLE jobs (
	id INTEGER NOT NULL, 
	cluster TEXT NOT NULL, 
	job_id TEXT NOT NULL, 
	start DOUBLE NOT NULL, 
	"end" DOUBLE, 
	state TEXT NOT NULL, 
	user TEXT NOT NULL, 
	"group" TEXT, 
	account TEXT, 
	name TEXT, 
	queue TEXT, 
	created DOUBLE, 
	queued DOUBLE, 
	eligible DOUBLE, 
	exec_host TEXT, 
	processors INTEGER, 
	exit_status INTEGER, 
	requested_walltime_s DOUBLE, 
	requested_memory_bytes BIGINT, 
	requested_nodes TEXT, 
	used_cpu_s DOUBLE, 
	used_memory_bytes BIGINT, 
	used_walltime_s DOUBLE, 
	recorded_at DOUBLE NOT NULL, 
	profiled BOOLEAN NOT NULL, submitted DOUBLE, "forecast_seq" BIGINT, failure TEXT, suspended_s DOUBLE, asked_processors INTEGER, asked_memory_bytes BIGINT, asked_walltime_s DOUBLE, memory_incomplete BOOLEAN, memory_with_cache BOOLEAN, ended_abnormally BOOLEAN, array_task TEXT, facts TEXT, gpus INTEGER, used TEXT, start_seq BIGINT, application TEXT, 
	CONSTRAINT pk_jobs PRIMARY KEY (id), 
	CONSTRAINT uq_jobs_cluster_job_id_start UNIQUE (cluster, job_id, start)
);
CREATE TABLE marks (
	node_id INTEGER NOT NULL, 
	job_id TEXT NOT NULL, 
	event TEXT NOT NULL, 
	time DOUBLE NOT NULL, 
	CONSTRAINT pk_marks PRIMARY KEY (node_id, job_id, event, time)
)
 WITHOUT ROWID

;
CREATE TABLE nodes (
	id INTEGER NOT NULL, 
	cluster TEXT NOT NULL, 
	name TEXT NOT NULL, 
	boot_id TEXT NOT NULL, 
	cpus INTEGER NOT NULL, 
	memory_total_bytes BIGINT, 
	interfaces TEXT NOT NULL, 
	counters TEXT NOT NULL, 
	agent TEXT NOT NULL, 
	first_time DOUBLE NOT NULL, 
	last_time DOUBLE NOT NULL, 
	received_at DOUBLE NOT NULL, 
	clock_skew_s DOUBLE, 
	samples BIGINT NOT NULL, 
	wraps BIGINT NOT NULL, 
	resets BIGINT NOT NULL, 
	boots BIGINT NOT NULL, 
	missing BIGINT NOT NULL, machine TEXT, two_hosts_at DOUBLE, 
	CONSTRAINT pk_nodes PRIMARY KEY (id), 
	CONSTRAINT uq_nodes_cluster_name UNIQUE (cluster, name)
);
CREATE TABLE quarantine (
	id INTEGER NOT NULL, 
	received_at DOUBLE NOT NULL, 
	cluster TEXT, 
	node TEXT, 
	reason TEXT NOT NULL, 
	bytes INTEGER NOT NULL, 
	body BLOB NOT NULL, retry BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_quarantine PRIMARY KEY (id)
);
CREATE TABLE samples (
	node_id INTEGER NOT NULL, 
	time DOUBLE NOT NULL, 
	net_in_bytes BIGINT, 
	net_out_bytes BIGINT, 
	cpu_busy_s DOUBLE, 
	memory_used_bytes BIGINT, 
	gap_s DOUBLE NOT NULL, ib_in_bytes BIGINT, ib_out_bytes BIGINT, 
	CONSTRAINT pk_samples PRIMARY KEY (node_id, time)
)
 WITHOUT ROWID

;
CREATE TABLE series (
	cluster TEXT NOT NULL, 
	user TEXT NOT NULL, 
	metric TEXT NOT NULL, 
	n BIGINT NOT NULL, 
	updated DOUBLE NOT NULL, 
	answer TEXT NOT NULL, 
	state TEXT NOT NULL, 
	CONSTRAINT pk_series PRIMARY KEY (cluster, user, metric)
);
CREATE TABLE "event_counts" (
	name TEXT NOT NULL, 
	label TEXT NOT NULL, 
	value BIGINT NOT NULL, 
	CONSTRAINT pk_tallies PRIMARY KEY (name, label)
);
CREATE TABLE tokens (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	role TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	created DOUBLE NOT NULL, 
	revoked DOUBLE, cluster TEXT, nodes TEXT, user TEXT, 
	CONSTRAINT pk_tokens PRIMARY KEY (id), 
	CONSTRAINT uq_tokens_digest UNIQUE (digest)
);
CREATE TABLE job_nodes (
	run_id INTEGER NOT NULL, 
	node TEXT NOT NULL, 
	processors INTEGER NOT NULL, 
	CONSTRAINT pk_job_nodes PRIMARY KEY (run_id, node), 
	CONSTRAINT fk_job_nodes_run_id FOREIGN KEY(run_id) REFERENCES jobs (id) ON DELETE CASCADE
)
 WITHOUT ROWID

;
CREATE TABLE profiles (
	run_id INTEGER NOT NULL, 
	metric TEXT NOT NULL, 
	"learn_seq" BIGINT NOT NULL, 
	value DOUBLE, 
	peak DOUBLE, 
	source TEXT, 
	attribution TEXT, 
	reason TEXT, forecast DOUBLE, bound DOUBLE, probability DOUBLE, mean DOUBLE, idle_age_s DOUBLE, shown_only BOOLEAN DEFAULT 0 NOT NULL, lower_bound BOOLEAN DEFAULT 0 NOT NULL, cache DOUBLE, charged_peak DOUBLE, fabric TEXT, fabrics TEXT, attempts TEXT, start_forecast DOUBLE, start_bound DOUBLE, start_probability DOUBLE, 
	CONSTRAINT pk_profiles PRIMARY KEY (run_id, metric), 
	CONSTRAINT fk_profiles_run_id FOREIGN KEY(run_id) REFERENCES jobs (id) ON DELETE CASCADE
)
 WITHOUT ROWID

;
CREATE TABLE sessions (
	digest TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	token_id INTEGER, 
	created DOUBLE NOT NULL, 
	expires DOUBLE NOT NULL, user TEXT, 
	CONSTRAINT pk_sessions PRIMARY KEY (digest), 
	CONSTRAINT fk_sessions_token_id FOREIGN KEY(token_id) REFERENCES tokens (id) ON DELETE CASCADE
);
CREATE TABLE role_epochs (
	role TEXT NOT NULL, 
	epoch BIGINT NOT NULL, 
	CONSTRAINT pk_role_epochs PRIMARY KEY (role)
)
 WITHOUT ROWID

;
CREATE TABLE shifts (
	node_id INTEGER NOT NULL, 
	since DOUBLE NOT NULL, 
	until DOUBLE NOT NULL, 
	net_in_bytes BIGINT NOT NULL, 
	net_out_bytes BIGINT NOT NULL, 
	cpu_busy_s DOUBLE NOT NULL, 
	gap_s DOUBLE NOT NULL, ib_in_bytes BIGINT DEFAULT '0' NOT NULL, ib_out_bytes BIGINT DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_shifts PRIMARY KEY (node_id, since)
)
 WITHOUT ROWID

;
CREATE TABLE running_use (
	run_id INTEGER NOT NULL, 
	until DOUBLE NOT NULL, 
	memory DOUBLE, 
	idle_bytes DOUBLE, 
	reason TEXT, growth DOUBLE, 
	CONSTRAINT pk_running_use PRIMARY KEY (run_id), 
	CONSTRAINT fk_running_use_run_id FOREIGN KEY(run_id) REFERENCES jobs (id) ON DELETE CASCADE
)
 WITHOUT ROWID

;
CREATE TABLE late_batches (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	node_id INTEGER NOT NULL, 
	first_time DOUBLE NOT NULL, 
	last_time DOUBLE NOT NULL, 
	stored_at DOUBLE NOT NULL, 
	seen BOOLEAN DEFAULT 0 NOT NULL
);
CREATE TABLE savings_to_do (
	day INTEGER NOT NULL, 
	CONSTRAINT pk_savings_to_do PRIMARY KEY (day)
);
CREATE TABLE matching_state (
	id INTEGER NOT NULL, 
	version BIGINT NOT NULL, 
	removal_version BIGINT NOT NULL, 
	definition_version BIGINT NOT NULL, 
	next_match INTEGER NOT NULL, 
	objectives TEXT, 
	CONSTRAINT pk_matching_state PRIMARY KEY (id)
);
CREATE TABLE resource_types (
	name TEXT NOT NULL, 
	definition TEXT NOT NULL, 
	CONSTRAINT pk_resource_types PRIMARY KEY (name)
);
CREATE TABLE resources (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name TEXT NOT NULL, 
	type TEXT NOT NULL, 
	attributes TEXT NOT NULL, 
	capacities TEXT NOT NULL, 
	cost DOUBLE NOT NULL, 
	is_static BOOLEAN NOT NULL, 
	state_at DOUBLE NOT NULL, 
	owner_present BOOLEAN, 
	source TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	CONSTRAINT uq_resources_name UNIQUE (name)
);
CREATE TABLE resource_policies (
	id INTEGER NOT NULL, 
	rule TEXT NOT NULL, 
	CONSTRAINT pk_resource_policies PRIMARY KEY (id)
);
CREATE TABLE matches (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	user TEXT, 
	class TEXT, 
	priority DOUBLE NOT NULL, 
	job TEXT NOT NULL, 
	state TEXT NOT NULL, 
	submitted_at DOUBLE NOT NULL, 
	matched_at DOUBLE, 
	until DOUBLE, 
	ended_at DOUBLE, 
	rounds INTEGER NOT NULL, 
	tier TEXT, 
	reason TEXT, 
	version BIGINT NOT NULL, 
	CONSTRAINT pk_matches PRIMARY KEY (id)
);
CREATE TABLE holds (
	match_id INTEGER NOT NULL, 
	dependency TEXT NOT NULL, 
	resource_id INTEGER NOT NULL, 
	resource TEXT NOT NULL, 
	amounts TEXT NOT NULL, 
	CONSTRAINT pk_holds PRIMARY KEY (match_id, dependency, resource_id), 
	CONSTRAINT fk_holds_match_id FOREIGN KEY(match_id) REFERENCES matches (id)
)
 WITHOUT ROWID

;
CREATE TABLE machines (
	id INTEGER NOT NULL, 
	cluster TEXT NOT NULL, 
	name TEXT NOT NULL, 
	presence TEXT NOT NULL, 
	facts TEXT NOT NULL, 
	earlier_boots TEXT NOT NULL, 
	boot_id TEXT, 
	sequence BIGINT, 
	booted DOUBLE, 
	received_at DOUBLE, 
	since DOUBLE, 
	busy_processors INTEGER NOT NULL, 
	score DOUBLE NOT NULL, 
	successes BIGINT NOT NULL, 
	evictions BIGINT NOT NULL, 
	failures BIGINT NOT NULL, 
	user_failures BIGINT NOT NULL, 
	sessions BIGINT NOT NULL, 
	events DOUBLE NOT NULL, 
	seconds DOUBLE NOT NULL, 
	weighted DOUBLE NOT NULL, 
	learned_until DOUBLE, 
	version BIGINT NOT NULL, sound DOUBLE DEFAULT '0' NOT NULL, failed DOUBLE DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_machines PRIMARY KEY (id), 
	CONSTRAINT uq_machines_cluster_name UNIQUE (cluster, name)
);
CREATE TABLE machine_sessions (
	id INTEGER NOT NULL, 
	machine_id INTEGER NOT NULL, 
	start DOUBLE NOT NULL, 
	"end" DOUBLE NOT NULL, 
	ending TEXT NOT NULL, 
	CONSTRAINT pk_machine_sessions PRIMARY KEY (id)
);
CREATE TABLE machine_outcomes (
	machine_id INTEGER NOT NULL, 
	job_id TEXT NOT NULL, 
	start DOUBLE NOT NULL, 
	outcome TEXT NOT NULL, 
	"end" DOUBLE NOT NULL, 
	cluster TEXT NOT NULL, 
	user TEXT NOT NULL, 
	application TEXT NOT NULL, 
	CONSTRAINT pk_machine_outcomes PRIMARY KEY (machine_id, job_id, start, outcome)
)
 WITHOUT ROWID

;
CREATE TABLE outcomes_pending (
	run_id INTEGER NOT NULL, 
	CONSTRAINT pk_outcomes_pending PRIMARY KEY (run_id), 
	CONSTRAINT fk_outcomes_pending_run_id FOREIGN KEY(run_id) REFERENCES jobs (id) ON DELETE CASCADE
);
CREATE TABLE owner_reports (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	cluster TEXT NOT NULL, 
	name TEXT NOT NULL, 
	time DOUBLE NOT NULL, 
	present BOOLEAN NOT NULL
);
CREATE TABLE reliability_state (
	id INTEGER NOT NULL, 
	version BIGINT NOT NULL, 
	batches_until DOUBLE NOT NULL, 
	jobs_until DOUBLE NOT NULL, 
	hazard TEXT NOT NULL, 
	faded_at DOUBLE DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_reliability_state PRIMARY KEY (id)
);
CREATE TABLE plans (
	cluster TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	calibration TEXT NOT NULL, 
	CONSTRAINT pk_plans PRIMARY KEY (cluster)
)
 WITHOUT ROWID

;
CREATE TABLE offers (
	id INTEGER NOT NULL, 
	cluster TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	state TEXT NOT NULL, 
	question TEXT NOT NULL, 
	nodes INTEGER NOT NULL, 
	places TEXT NOT NULL, 
	requested_s DOUBLE NOT NULL, 
	release DOUBLE NOT NULL, 
	planned_start DOUBLE NOT NULL, 
	planned_end DOUBLE NOT NULL, 
	deadline DOUBLE NOT NULL, 
	p_available DOUBLE NOT NULL, 
	p_executable DOUBLE NOT NULL, 
	p_success DOUBLE NOT NULL, 
	pos DOUBLE NOT NULL, 
	predicted DOUBLE NOT NULL, 
	charge DOUBLE NOT NULL, 
	penalty DOUBLE NOT NULL, 
	source TEXT NOT NULL, 
	source_jobs DOUBLE NOT NULL, 
	run_times TEXT NOT NULL, 
	strategy TEXT NOT NULL, 
	offered_at DOUBLE NOT NULL, 
	expires_at DOUBLE NOT NULL, 
	job_id TEXT, 
	started DOUBLE, 
	ended DOUBLE, 
	CONSTRAINT pk_offers PRIMARY KEY (id)
);
CREATE TABLE parallel_tasks (
	cluster TEXT NOT NULL, 
	job_id TEXT NOT NULL, 
	task TEXT NOT NULL, 
	start DOUBLE NOT NULL, 
	"end" DOUBLE NOT NULL, 
	host TEXT, 
	cpu_s DOUBLE, 
	memory_bytes BIGINT, 
	CONSTRAINT pk_parallel_tasks PRIMARY KEY (cluster, job_id, task, start)
)
 WITHOUT ROWID

;
CREATE TABLE job_samples (
	node_id INTEGER NOT NULL, 
	job_id TEXT NOT NULL, 
	first_time DOUBLE NOT NULL, 
	last_time DOUBLE NOT NULL, 
	samples INTEGER NOT NULL, 
	peak_bytes BIGINT, 
	readings TEXT NOT NULL, 
	CONSTRAINT pk_job_samples PRIMARY KEY (node_id, job_id, first_time)
)
 WITHOUT ROWID

;
CREATE TABLE outcomes (
	id INTEGER NOT NULL, 
	cluster TEXT NOT NULL, 
	metric TEXT NOT NULL, 
	question TEXT NOT NULL, 
	value DOUBLE NOT NULL, 
	lower_bound BOOLEAN NOT NULL, 
	reported DOUBLE NOT NULL, 
	learn_seq BIGINT, 
	job_id TEXT, 
	run_id INTEGER, 
	CONSTRAINT pk_outcomes PRIMARY KEY (id)
);
CREATE TABLE job_counts (
	"key" TEXT NOT NULL, 
	cluster TEXT NOT NULL, 
	user TEXT NOT NULL, 
	"group" TEXT, 
	account TEXT, 
	state TEXT NOT NULL, 
	profiled BOOLEAN NOT NULL, 
	n BIGINT NOT NULL, 
	first_start DOUBLE NOT NULL, 
	last_end DOUBLE, 
	CONSTRAINT pk_job_counts PRIMARY KEY ("key")
);
CREATE TABLE log_reads (
	cluster TEXT NOT NULL, 
	source TEXT NOT NULL, 
	at DOUBLE NOT NULL, 
	CONSTRAINT pk_log_reads PRIMARY KEY (cluster, source)
)
 WITHOUT ROWID

;
CREATE TABLE running_outlooks (
	run_id INTEGER NOT NULL, 
	metric TEXT NOT NULL, 
	learned BIGINT NOT NULL, 
	are_limits BOOLEAN NOT NULL, 
	state BLOB NOT NULL, 
	CONSTRAINT pk_running_outlooks PRIMARY KEY (run_id, metric), 
	CONSTRAINT fk_running_outlooks_run_id FOREIGN KEY(run_id) REFERENCES jobs (id) ON DELETE CASCADE
)
 WITHOUT ROWID

;
CREATE TABLE model_state (
	cluster TEXT NOT NULL, 
	metric TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	until INTEGER, 
	state BLOB NOT NULL, 
	CONSTRAINT pk_model_state PRIMARY KEY (cluster, metric, "key")
)
 WITHOUT ROWID

;
CREATE TABLE learned_until (
	learn_seq BIGINT NOT NULL, 
	outcome_id BIGINT NOT NULL
);
CREATE TABLE pending_forecasts (
	run_id INTEGER NOT NULL, 
	metric TEXT NOT NULL, 
	state BLOB NOT NULL, 
	CONSTRAINT pk_pending_forecasts PRIMARY KEY (run_id, metric), 
	CONSTRAINT fk_pending_forecasts_run_id FOREIGN KEY(run_id) REFERENCES jobs (id) ON DELETE CASCADE
)
 WITHOUT ROWID

;
CREATE TABLE pending_at_start (
	run_id INTEGER NOT NULL, 
	metric TEXT NOT NULL, 
	value DOUBLE, 
	bound DOUBLE, 
	probability DOUBLE, 
	stated_exceed DOUBLE, 
	out_near_limit DOUBLE, 
	forecasts BLOB, 
	CONSTRAINT pk_pending_at_start PRIMARY KEY (run_id, metric), 
	CONSTRAINT fk_pending_at_start_run_id FOREIGN KEY(run_id) REFERENCES jobs (id) ON DELETE CASCADE
)
 WITHOUT ROWID

;
CREATE TABLE sample_chunks (
	node_id INTEGER NOT NULL, 
	first_time DOUBLE NOT NULL, 
	last_time DOUBLE NOT NULL, 
	samples INTEGER NOT NULL, 
	packed BLOB NOT NULL, 
	CONSTRAINT pk_sample_chunks PRIMARY KEY (node_id, first_time)
);
CREATE TABLE sample_summaries (
	node_id INTEGER NOT NULL, 
	period TEXT NOT NULL, 
	first_time DOUBLE NOT NULL, 
	in_bps_min DOUBLE, 
	in_bps_mean DOUBLE, 
	in_bps_max DOUBLE, 
	in_bps_weight DOUBLE, 
	out_bps_min DOUBLE, 
	out_bps_mean DOUBLE, 
	out_bps_max DOUBLE, 
	out_bps_weight DOUBLE, 
	memory_used_bytes_min DOUBLE, 
	memory_used_bytes_mean DOUBLE, 
	memory_used_bytes_max DOUBLE, 
	memory_used_bytes_weight DOUBLE, 
	cpus_busy_min DOUBLE, 
	cpus_busy_mean DOUBLE, 
	cpus_busy_max DOUBLE, 
	cpus_busy_weight DOUBLE, 
	CONSTRAINT pk_sample_summaries PRIMARY KEY (node_id, period, first_time)
)
 WITHOUT ROWID

;
CREATE TABLE server_states (
	time DOUBLE NOT NULL, 
	database_bytes BIGINT NOT NULL, 
	free_bytes BIGINT, 
	waiting BIGINT NOT NULL, 
	profiled BIGINT NOT NULL, 
	CONSTRAINT pk_server_states PRIMARY KEY (time)
)
 WITHOUT ROWID

;
CREATE TABLE weekly_mails (
	user TEXT NOT NULL, 
	week TEXT NOT NULL, 
	CONSTRAINT pk_weekly_mails PRIMARY KEY (user, week)
);
CREATE TABLE requirements (
	id INTEGER NOT NULL, 
	cluster TEXT NOT NULL, 
	question TEXT NOT NULL, 
	requested_bytes BIGINT NOT NULL, 
	memory_bytes BIGINT NOT NULL, 
	outcome TEXT, 
	used_bytes BIGINT, 
	CONSTRAINT pk_requirements PRIMARY KEY (id)
);
CREATE TABLE requirement_state (
	cluster TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	state TEXT NOT NULL, 
	CONSTRAINT pk_requirement_state PRIMARY KEY (cluster, "key")
)
 WITHOUT ROWID

;
CREATE TABLE savings_groups (
	id INTEGER NOT NULL, 
	cluster TEXT NOT NULL, 
	user TEXT NOT NULL, 
	application TEXT NOT NULL, 
	queue TEXT NOT NULL, 
	account TEXT NOT NULL, 
	CONSTRAINT pk_savings_groups PRIMARY KEY (id), 
	CONSTRAINT uq_savings_groups_cluster_user_application_queue_account UNIQUE (cluster, user, application, queue, account)
);
CREATE TABLE savings (
	metric TEXT NOT NULL, 
	level TEXT NOT NULL, 
	period TEXT NOT NULL, 
	first_day INTEGER NOT NULL, 
	group_id INTEGER NOT NULL, 
	jobs BIGINT NOT NULL, 
	weight DOUBLE NOT NULL, 
	requested DOUBLE NOT NULL, 
	used DOUBLE NOT NULL, 
	reserved DOUBLE NOT NULL, 
	request_held DOUBLE NOT NULL, 
	bound_held DOUBLE NOT NULL, 
	request_failures BIGINT NOT NULL, 
	bound_failures BIGINT NOT NULL, 
	without_request BIGINT NOT NULL, 
	without_use BIGINT NOT NULL, 
	without_bound BIGINT NOT NULL, 
	CONSTRAINT pk_savings PRIMARY KEY (metric, level, period, first_day, group_id)
)
 WITHOUT ROWID

;
CREATE TABLE forecast_scores (
	metric TEXT NOT NULL, 
	level TEXT NOT NULL, 
	period TEXT NOT NULL, 
	first_day INTEGER NOT NULL, 
	group_id INTEGER NOT NULL, 
	jobs BIGINT NOT NULL, 
	accuracy BIGINT NOT NULL, 
	within20 BIGINT NOT NULL, 
	bounds BIGINT NOT NULL, 
	held BIGINT NOT NULL, 
	CONSTRAINT pk_forecast_scores PRIMARY KEY (metric, level, period, first_day, group_id)
)
 WITHOUT ROWID

;
CREATE TABLE forecast_changes (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	run_id INTEGER NOT NULL, 
	time DOUBLE NOT NULL, 
	metric TEXT NOT NULL, 
	old_forecast DOUBLE, 
	new_forecast DOUBLE, 
	old_bound DOUBLE, 
	new_bound DOUBLE, 
	CONSTRAINT fk_forecast_changes_run_id FOREIGN KEY(run_id) REFERENCES jobs (id) ON DELETE CASCADE
);
CREATE TABLE adjustments (
	id INTEGER NOT NULL, 
	cluster TEXT NOT NULL, 
	job_id TEXT NOT NULL, 
	user TEXT NOT NULL, 
	submitted DOUBLE NOT NULL, 
	resource TEXT NOT NULL, 
	parameter TEXT NOT NULL, 
	old BIGINT NOT NULL, 
	new BIGINT NOT NULL, 
	times BIGINT NOT NULL, 
	reason TEXT NOT NULL, 
	state TEXT NOT NULL, 
	begun DOUBLE NOT NULL, 
	settled DOUBLE, 
	error TEXT, 
	CONSTRAINT pk_adjustments PRIMARY KEY (id)
);
CREATE TABLE trial_jobs (
	id INTEGER NOT NULL, 
	cluster TEXT NOT NULL, 
	job_id TEXT NOT NULL, 
	user TEXT NOT NULL, 
	submitted DOUBLE NOT NULL, 
	seed TEXT NOT NULL, 
	arm TEXT NOT NULL, 
	assigned DOUBLE NOT NULL, 
	CONSTRAINT pk_trial_jobs PRIMARY KEY (id), 
	CONSTRAINT uq_trial_jobs_cluster_job_id_submitted_seed UNIQUE (cluster, job_id, submitted, seed)
);
CREATE INDEX ix_batches_node_id_first_time ON batches (node_id, first_time);
CREATE INDEX ix_batches_received_at ON batches (received_at);
CREATE INDEX ix_jobs_cluster_user_end ON jobs (cluster, user, "end");
CREATE INDEX ix_jobs_end ON jobs ("end");
CREATE INDEX ix_jobs_profiled_state_end ON jobs (profiled, state, "end");
CREATE INDEX ix_series_user ON series (user);
CREATE INDEX ix_job_nodes_node ON job_nodes (node);
CREATE INDEX ix_profiles_shown_only ON profiles (shown_only) WHERE attribution = 'apportioned' AND value IS NOT NULL;
CREATE INDEX ix_quarantine_bytes ON quarantine (bytes);
CREATE INDEX ix_quarantine_retry ON quarantine (retry);
CREATE INDEX ix_jobs_forecast_seq_submitted ON jobs (forecast_seq, submitted);
CREATE INDEX ix_profiles_learn_seq ON profiles (learn_seq);
CREATE INDEX ix_resources_type ON resources (type);
CREATE INDEX ix_resources_version ON resources (version);
CREATE INDEX ix_matches_state_until ON matches (state, until);
CREATE INDEX ix_matches_version ON matches (version);
CREATE INDEX ix_holds_resource_id ON holds (resource_id);
CREATE INDEX ix_jobs_recorded_at ON jobs (recorded_at);
CREATE INDEX ix_jobs_state ON jobs (state);
CREATE INDEX ix_machines_version ON machines (version);
CREATE INDEX ix_machine_sessions_machine_id_end ON machine_sessions (machine_id, "end");
CREATE INDEX ix_machine_outcomes_cluster_user_application_end ON machine_outcomes (cluster, user, application, "end");
CREATE INDEX ix_machine_outcomes_machine_id_end ON machine_outcomes (machine_id, "end");
CREATE INDEX ix_offers_cluster_version ON offers (cluster, version);
CREATE INDEX ix_offers_cluster_job_id ON offers (cluster, job_id);
CREATE INDEX ix_offers_state_expires_at ON offers (state, expires_at);
CREATE INDEX ix_jobs_cluster_end ON jobs (cluster, "end");
CREATE INDEX ix_job_samples_node_id_last_time ON job_samples (node_id, last_time);
CREATE INDEX ix_outcomes_learn_seq ON outcomes (learn_seq);
CREATE INDEX ix_outcomes_cluster_job_id ON outcomes (cluster, job_id);
CREATE INDEX ix_outcomes_run_id ON outcomes (run_id);
CREATE INDEX ix_jobs_cluster_user_application_end ON jobs (cluster, user, application, "end") WHERE state = 'ended';
CREATE INDEX ix_jobs_cluster_user_id ON jobs (cluster, user, id);
CREATE INDEX ix_jobs_array_task ON jobs (array_task) WHERE array_task IS NOT NULL;
CREATE INDEX ix_jobs_job_id ON jobs (job_id);
CREATE INDEX ix_jobs_start_seq_start ON jobs (start_seq, start);
CREATE INDEX ix_job_counts_cluster_user ON job_counts (cluster, user);
CREATE INDEX ix_forecast_scores_level_group_id_period_first_day ON forecast_scores (level, group_id, period, first_day);
CREATE INDEX ix_forecast_changes_time ON forecast_changes (time);
CREATE INDEX ix_forecast_changes_run_id ON forecast_changes (run_id);
CREATE UNIQUE INDEX ix_adjustments_open ON adjustments (cluster, job_id, resource) WHERE state IN ('begun', 'undoing');
CREATE INDEX ix_adjustments_cluster_job_id_resource ON adjustments (cluster, job_id, resource);
