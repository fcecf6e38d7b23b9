CREATE TABLE public.accounting_files (
    cluster text NOT NULL,
    path text NOT NULL,
    head_digest text NOT NULL,
    "offset" bigint NOT NULL,
    lines bigint NOT NULL,
    updated double precision NOT NULL,
    counts text DEFAULT '[]'::text NOT NULL,
    content_digest text DEFAULT ''::text NOT NULL,
    stat text DEFAULT ''::text NOT NULL
);
CREATE TABLE public.accounting_rejects (
    id integer NOT NULL,
    cluster text NOT NULL,
    path text NOT NULL,
    line bigint NOT NULL,
    reason text NOT NULL,
    text text NOT NULL
);
CREATE SEQUENCE public.accounting_rejects_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.accounting_rejects_id_seq OWNED BY public.accounting_rejects.id;
CREATE TABLE public.adjustments (
    id integer NOT NULL,
    cluster text NOT NULL,
    job_id text NOT NULL,
    "user" text NOT NULL,
    submitted double precision NOT NULL,
    resource text NOT NULL,
    parameter text NOT NULL,
    old bigint NOT NULL,
    new bigint NOT NULL,
    times bigint NOT NULL,
    reason text NOT NULL,
    state text NOT NULL,
    begun double precision NOT NULL,
    settled double precision,
    error text
);
CREATE SEQUENCE public.adjustments_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.adjustments_id_seq OWNED BY public.adjustments.id;
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.batches (
    node_id integer NOT NULL,
    boot_id text NOT NULL,
    sequence bigint NOT NULL,
    checksum bigint NOT NULL,
    first_time double precision NOT NULL,
    last_time double precision NOT NULL,
    samples integer NOT NULL,
    received_at double precision NOT NULL,
    counters text NOT NULL,
    uptime_s double precision,
    owner_present boolean,
    last_sequence bigint
);
CREATE TABLE public.event_counts (
    name text NOT NULL,
    label text NOT NULL,
    value bigint NOT NULL
);
CREATE TABLE public.forecast_changes (
    id integer NOT NULL,
    run_id integer NOT NULL,
    "time" double precision NOT NULL,
    metric text NOT NULL,
    old_forecast double precision,
    new_forecast double precision,
    old_bound double precision,
    new_bound double precision
);
CREATE SEQUENCE public.forecast_changes_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.forecast_changes_id_seq OWNED BY public.forecast_changes.id;
CREATE TABLE public.forecast_scores (
    metric text NOT NULL,
    level text NOT NULL,
    period text NOT NULL,
    first_day integer NOT NULL,
    group_id integer NOT NULL,
    jobs bigint NOT NULL,
    accuracy bigint NOT NULL,
    within20 bigint NOT NULL,
    bounds bigint NOT NULL,
    held bigint NOT NULL
);
CREATE TABLE public.holds (
    match_id integer NOT NULL,
    dependency text NOT NULL,
    resource_id integer NOT NULL,
    resource text NOT NULL,
    amounts text NOT NULL
);
CREATE TABLE public.job_counts (
    key text NOT NULL,
    cluster text NOT NULL,
    "user" text NOT NULL,
    "group" text,
    account text,
    state text NOT NULL,
    profiled boolean NOT NULL,
    n bigint NOT NULL,
    first_start double precision NOT NULL,
    last_end double precision
);
CREATE TABLE public.job_nodes (
    run_id integer NOT NULL,
    node text NOT NULL,
    processors integer NOT NULL
);
CREATE TABLE public.job_samples (
    node_id integer NOT NULL,
    job_id text NOT NULL,
    first_time double precision NOT NULL,
    last_time double precision NOT NULL,
    samples integer NOT NULL,
    peak_bytes bigint,
    readings text NOT NULL
);
CREATE TABLE public.jobs (
    id integer NOT NULL,
    cluster text NOT NULL,
    job_id text NOT NULL,
    start double precision NOT NULL,
    "end" double precision,
    state text NOT NULL,
    "user" text NOT NULL,
    "group" text,
    account text,
    name text,
    queue text,
    created double precision,
    queued double precision,
    eligible double precision,
    exec_host text,
    processors integer,
    exit_status integer,
    requested_walltime_s double precision,
    requested_memory_bytes bigint,
    requested_nodes text,
    used_cpu_s double precision,
    used_memory_bytes bigint,
    used_walltime_s double precision,
    recorded_at double precision NOT NULL,
    profiled boolean NOT NULL,
    submitted double precision,
    forecast_seq bigint,
    failure text,
    suspended_s double precision,
    asked_processors integer,
    asked_memory_bytes bigint,
    asked_walltime_s double precision,
    memory_incomplete boolean,
    memory_with_cache boolean,
    ended_abnormally boolean,
    array_task text,
    facts text,
    gpus integer,
    used text,
    start_seq bigint,
    application text
);
CREATE SEQUENCE public.jobs_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.jobs_id_seq OWNED BY public.jobs.id;
CREATE TABLE public.late_batches (
    id integer NOT NULL,
    node_id integer NOT NULL,
    first_time double precision NOT NULL,
    last_time double precision NOT NULL,
    stored_at double precision NOT NULL,
    seen boolean DEFAULT false NOT NULL
);
CREATE SEQUENCE public.late_batches_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.late_batches_id_seq OWNED BY public.late_batches.id;
CREATE TABLE public.learned_until (
    learn_seq bigint NOT NULL,
    outcome_id bigint NOT NULL
);
CREATE TABLE public.log_reads (
    cluster text NOT NULL,
    source text NOT NULL,
    at double precision NOT NULL
);
CREATE TABLE public.machine_outcomes (
    machine_id integer NOT NULL,
    job_id text NOT NULL,
    start double precision NOT NULL,
    outcome text NOT NULL,
    "end" double precision NOT NULL,
    cluster text NOT NULL,
    "user" text NOT NULL,
    application text NOT NULL
);
CREATE TABLE public.machine_sessions (
    id integer NOT NULL,
    machine_id integer NOT NULL,
    start double precision NOT NULL,
    "end" double precision NOT NULL,
    ending text NOT NULL
);
CREATE SEQUENCE public.machine_sessions_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.machine_sessions_id_seq OWNED BY public.machine_sessions.id;
CREATE TABLE public.machines (
    id integer NOT NULL,
    cluster text NOT NULL,
    name text NOT NULL,
    presence text NOT NULL,
    facts text NOT NULL,
    earlier_boots text NOT NULL,
    boot_id text,
    sequence bigint,
    booted double precision,
    received_at double precision,
    since double precision,
    busy_processors integer NOT NULL,
    score double precision NOT NULL,
    successes bigint NOT NULL,
    evictions bigint NOT NULL,
    failures bigint NOT NULL,
    user_failures bigint NOT NULL,
    sessions bigint NOT NULL,
    events double precision NOT NULL,
    seconds double precision NOT NULL,
    weighted double precision NOT NULL,
    learned_until double precision,
    version bigint NOT NULL,
    sound double precision DEFAULT '0'::double precision NOT NULL,
    failed double precision DEFAULT '0'::double precision NOT NULL
);
CREATE SEQUENCE public.machines_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.machines_id_seq OWNED BY public.machines.id;
CREATE TABLE public.marks (
    node_id integer NOT NULL,
    job_id text NOT NULL,
    event text NOT NULL,
    "time" double precision NOT NULL
);
CREATE TABLE public.matches (
    id integer NOT NULL,
    name text NOT NULL,
    "user" text,
    class text,
    priority double precision NOT NULL,
    job text NOT NULL,
    state text NOT NULL,
    submitted_at double precision NOT NULL,
    matched_at double precision,
    until double precision,
    ended_at double precision,
    rounds integer NOT NULL,
    tier text,
    reason text,
    version bigint NOT NULL
);
CREATE TABLE public.matching_state (
    id integer NOT NULL,
    version bigint NOT NULL,
    removal_version bigint NOT NULL,
    definition_version bigint NOT NULL,
    next_match integer NOT NULL,
    objectives text
);
CREATE SEQUENCE public.matching_state_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.matching_state_id_seq OWNED BY public.matching_state.id;
CREATE TABLE public.model_state (
    cluster text NOT NULL,
    metric text NOT NULL,
    key text NOT NULL,
    until integer,
    state bytea NOT NULL
);
CREATE TABLE public.nodes (
    id integer NOT NULL,
    cluster text NOT NULL,
    name text NOT NULL,
    boot_id text NOT NULL,
    cpus integer NOT NULL,
    memory_total_bytes bigint,
    interfaces text NOT NULL,
    counters text NOT NULL,
    agent text NOT NULL,
    first_time double precision NOT NULL,
    last_time double precision NOT NULL,
    received_at double precision NOT NULL,
    clock_skew_s double precision,
    samples bigint NOT NULL,
    wraps bigint NOT NULL,
    resets bigint NOT NULL,
    boots bigint NOT NULL,
    missing bigint NOT NULL,
    machine text,
    two_hosts_at double precision
);
CREATE SEQUENCE public.nodes_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.nodes_id_seq OWNED BY public.nodes.id;
CREATE TABLE public.offers (
    id integer NOT NULL,
    cluster text NOT NULL,
    version bigint NOT NULL,
    state text NOT NULL,
    question text NOT NULL,
    nodes integer NOT NULL,
    places text NOT NULL,
    requested_s double precision NOT NULL,
    release double precision NOT NULL,
    planned_start double precision NOT NULL,
    planned_end double precision NOT NULL,
    deadline double precision NOT NULL,
    p_available double precision NOT NULL,
    p_executable double precision NOT NULL,
    p_success double precision NOT NULL,
    pos double precision NOT NULL,
    predicted double precision NOT NULL,
    charge double precision NOT NULL,
    penalty double precision NOT NULL,
    source text NOT NULL,
    source_jobs double precision NOT NULL,
    run_times text NOT NULL,
    strategy text NOT NULL,
    offered_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    job_id text,
    started double precision,
    ended double precision
);
CREATE SEQUENCE public.offers_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.offers_id_seq OWNED BY public.offers.id;
CREATE TABLE public.outcomes (
    id integer NOT NULL,
    cluster text NOT NULL,
    metric text NOT NULL,
    question text NOT NULL,
    value double precision NOT NULL,
    lower_bound boolean NOT NULL,
    reported double precision NOT NULL,
    learn_seq bigint,
    job_id text,
    run_id integer
);
CREATE SEQUENCE public.outcomes_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.outcomes_id_seq OWNED BY public.outcomes.id;
CREATE TABLE public.outcomes_pending (
    run_id integer NOT NULL
);
CREATE TABLE public.owner_reports (
    id integer NOT NULL,
    cluster text NOT NULL,
    name text NOT NULL,
    "time" double precision NOT NULL,
    present boolean NOT NULL
);
CREATE SEQUENCE public.owner_reports_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.owner_reports_id_seq OWNED BY public.owner_reports.id;
CREATE TABLE public.parallel_tasks (
    cluster text NOT NULL,
    job_id text NOT NULL,
    task text NOT NULL,
    start double precision NOT NULL,
    "end" double precision NOT NULL,
    host text,
    cpu_s double precision,
    memory_bytes bigint
);
CREATE TABLE public.pending_at_start (
    run_id integer NOT NULL,
    metric text NOT NULL,
    value double precision,
    bound double precision,
    probability double precision,
    stated_exceed double precision,
    out_near_limit double precision,
    forecasts bytea
);
CREATE TABLE public.pending_forecasts (
    run_id integer NOT NULL,
    metric text NOT NULL,
    state bytea NOT NULL
);
CREATE TABLE public.plans (
    cluster text NOT NULL,
    version bigint NOT NULL,
    calibration text NOT NULL
);
CREATE TABLE public.profiles (
    run_id integer NOT NULL,
    metric text NOT NULL,
    learn_seq bigint NOT NULL,
    value double precision,
    peak double precision,
    source text,
    attribution text,
    reason text,
    forecast double precision,
    bound double precision,
    probability double precision,
    mean double precision,
    idle_age_s double precision,
    shown_only boolean DEFAULT false NOT NULL,
    lower_bound boolean DEFAULT false NOT NULL,
    cache double precision,
    charged_peak double precision,
    fabric text,
    fabrics text,
    attempts text,
    start_forecast double precision,
    start_bound double precision,
    start_probability double precision
);
CREATE TABLE public.quarantine (
    id integer NOT NULL,
    received_at double precision NOT NULL,
    cluster text,
    node text,
    reason text NOT NULL,
    bytes integer NOT NULL,
    body bytea NOT NULL,
    retry boolean DEFAULT false NOT NULL
);
CREATE SEQUENCE public.quarantine_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.quarantine_id_seq OWNED BY public.quarantine.id;
CREATE TABLE public.reliability_state (
    id integer NOT NULL,
    version bigint NOT NULL,
    batches_until double precision NOT NULL,
    jobs_until double precision NOT NULL,
    hazard text NOT NULL,
    faded_at double precision DEFAULT '0'::double precision NOT NULL
);
CREATE SEQUENCE public.reliability_state_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.reliability_state_id_seq OWNED BY public.reliability_state.id;
CREATE TABLE public.requirement_state (
    cluster text NOT NULL,
    key text NOT NULL,
    state text NOT NULL
);
CREATE TABLE public.requirements (
    id integer NOT NULL,
    cluster text NOT NULL,
    question text NOT NULL,
    requested_bytes bigint NOT NULL,
    memory_bytes bigint NOT NULL,
    outcome text,
    used_bytes bigint
);
CREATE SEQUENCE public.requirements_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.requirements_id_seq OWNED BY public.requirements.id;
CREATE TABLE public.resource_policies (
    id integer NOT NULL,
    rule text NOT NULL
);
CREATE SEQUENCE public.resource_policies_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.resource_policies_id_seq OWNED BY public.resource_policies.id;
CREATE TABLE public.resource_types (
    name text NOT NULL,
    definition text NOT NULL
);
CREATE TABLE public.resources (
    id integer NOT NULL,
    name text NOT NULL,
    type text NOT NULL,
    attributes text NOT NULL,
    capacities text NOT NULL,
    cost double precision NOT NULL,
    is_static boolean NOT NULL,
    state_at double precision NOT NULL,
    owner_present boolean,
    source text NOT NULL,
    version bigint NOT NULL
);
CREATE SEQUENCE public.resources_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.resources_id_seq OWNED BY public.resources.id;
CREATE TABLE public.role_epochs (
    role text NOT NULL,
    epoch bigint NOT NULL
);
CREATE TABLE public.running_outlooks (
    run_id integer NOT NULL,
    metric text NOT NULL,
    learned bigint NOT NULL,
    are_limits boolean NOT NULL,
    state bytea NOT NULL
);
CREATE TABLE public.running_use (
    run_id integer NOT NULL,
    until double precision NOT NULL,
    memory double precision,
    idle_bytes double precision,
    reason text,
    growth double precision
);
CREATE TABLE public.sample_chunks (
    node_id integer NOT NULL,
    first_time double precision NOT NULL,
    last_time double precision NOT NULL,
    samples integer NOT NULL,
    packed bytea NOT NULL
);
CREATE TABLE public.sample_summaries (
    node_id integer NOT NULL,
    period text NOT NULL,
    first_time double precision NOT NULL,
    in_bps_min double precision,
    in_bps_mean double precision,
    in_bps_max double precision,
    in_bps_weight double precision,
    out_bps_min double precision,
    out_bps_mean double precision,
    out_bps_max double precision,
    out_bps_weight double precision,
    memory_used_bytes_min double precision,
    memory_used_bytes_mean double precision,
    memory_used_bytes_max double precision,
    memory_used_bytes_weight double precision,
    cpus_busy_min double precision,
    cpus_busy_mean double precision,
    cpus_busy_max double precision,
    cpus_busy_weight double precision
);
CREATE TABLE public.samples (
    node_id integer NOT NULL,
    "time" double precision NOT NULL,
    net_in_bytes bigint,
    net_out_bytes bigint,
    cpu_busy_s double precision,
    memory_used_bytes bigint,
    gap_s double precision NOT NULL,
    ib_in_bytes bigint,
    ib_out_bytes bigint
);
CREATE TABLE public.savings (
    metric text NOT NULL,
    level text NOT NULL,
    period text NOT NULL,
    first_day integer NOT NULL,
    group_id integer NOT NULL,
    jobs bigint NOT NULL,
    weight double precision NOT NULL,
    requested double precision NOT NULL,
    used double precision NOT NULL,
    reserved double precision NOT NULL,
    request_held double precision NOT NULL,
    bound_held double precision NOT NULL,
    request_failures bigint NOT NULL,
    bound_failures bigint NOT NULL,
    without_request bigint NOT NULL,
    without_use bigint NOT NULL,
    without_bound bigint NOT NULL
);
CREATE TABLE public.savings_groups (
    id integer NOT NULL,
    cluster text NOT NULL,
    "user" text NOT NULL,
    application text NOT NULL,
    queue text NOT NULL,
    account text NOT NULL
);
CREATE SEQUENCE public.savings_groups_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.savings_groups_id_seq OWNED BY public.savings_groups.id;
CREATE TABLE public.savings_to_do (
    day integer NOT NULL
);
CREATE SEQUENCE public.savings_to_do_day_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.savings_to_do_day_seq OWNED BY public.savings_to_do.day;
CREATE TABLE public.series (
    cluster text NOT NULL,
    "user" text NOT NULL,
    metric text NOT NULL,
    n bigint NOT NULL,
    updated double precision NOT NULL,
    answer text NOT NULL,
    state text NOT NULL
);
CREATE TABLE public.server_states (
    "time" double precision NOT NULL,
    database_bytes bigint NOT NULL,
    free_bytes bigint,
    waiting bigint NOT NULL,
    profiled bigint NOT NULL
);
CREATE TABLE public.sessions (
    digest text NOT NULL,
    kind text NOT NULL,
    token_id integer,
    created double precision NOT NULL,
    expires double precision NOT NULL,
    "user" text
);
CREATE TABLE public.shifts (
    node_id integer NOT NULL,
    since double precision NOT NULL,
    until double precision NOT NULL,
    net_in_bytes bigint NOT NULL,
    net_out_bytes bigint NOT NULL,
    cpu_busy_s double precision NOT NULL,
    gap_s double precision NOT NULL,
    ib_in_bytes bigint DEFAULT '0'::bigint NOT NULL,
    ib_out_bytes bigint DEFAULT '0'::bigint NOT NULL
);
CREATE TABLE public.tokens (
    id integer NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    digest text NOT NULL,
    created double precision NOT NULL,
    revoked double precision,
    cluster text,
    nodes text,
    "user" text
);
CREATE SEQUENCE public.tokens_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.tokens_id_seq OWNED BY public.tokens.id;
CREATE TABLE public.trial_jobs (
    id integer NOT NULL,
    cluster text NOT NULL,
    job_id text NOT NULL,
    "user" text NOT NULL,
    submitted double precision NOT NULL,
    seed text NOT NULL,
    arm text NOT NULL,
    assigned double precision NOT NULL
);
CREATE SEQUENCE public.trial_jobs_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trial_jobs_id_seq OWNED BY public.trial_jobs.id;
CREATE TABLE public.weekly_mails (
    "user" text NOT NULL,
    week text NOT NULL
);
ALTER TABLE ONLY public.accounting_rejects ALTER COLUMN id SET DEFAULT nextval('public.accounting_rejects_id_seq'::regclass);
ALTER TABLE ONLY public.adjustments ALTER COLUMN id SET DEFAULT nextval('public.adjustments_id_seq'::regclass);
ALTER TABLE ONLY public.forecast_changes ALTER COLUMN id SET DEFAULT nextval('public.forecast_changes_id_seq'::regclass);
ALTER TABLE ONLY public.jobs ALTER COLUMN id SET DEFAULT nextval('public.jobs_id_seq'::regclass);
ALTER TABLE ONLY public.late_batches ALTER COLUMN id SET DEFAULT nextval('public.late_batches_id_seq'::regclass);
ALTER TABLE ONLY public.machine_sessions ALTER COLUMN id SET DEFAULT nextval('public.machine_sessions_id_seq'::regclass);
ALTER TABLE ONLY public.machines ALTER COLUMN id SET DEFAULT nextval('public.machines_id_seq'::regclass);
ALTER TABLE ONLY public.matching_state ALTER COLUMN id SET DEFAULT nextval('public.matching_state_id_seq'::regclass);
ALTER TABLE ONLY public.nodes ALTER COLUMN id SET DEFAULT nextval('public.nodes_id_seq'::regclass);
ALTER TABLE ONLY public.offers ALTER COLUMN id SET DEFAULT nextval('public.offers_id_seq'::regclass);
ALTER TABLE ONLY public.outcomes ALTER COLUMN id SET DEFAULT nextval('public.outcomes_id_seq'::regclass);
ALTER TABLE ONLY public.owner_reports ALTER COLUMN id SET DEFAULT nextval('public.owner_reports_id_seq'::regclass);
ALTER TABLE ONLY public.quarantine ALTER COLUMN id SET DEFAULT nextval('public.quarantine_id_seq'::regclass);
ALTER TABLE ONLY public.reliability_state ALTER COLUMN id SET DEFAULT nextval('public.reliability_state_id_seq'::regclass);
ALTER TABLE ONLY public.requirements ALTER COLUMN id SET DEFAULT nextval('public.requirements_id_seq'::regclass);
ALTER TABLE ONLY public.resource_policies ALTER COLUMN id SET DEFAULT nextval('public.resource_policies_id_seq'::regclass);
ALTER TABLE ONLY public.resources ALTER COLUMN id SET DEFAULT nextval('public.resources_id_seq'::regclass);
ALTER TABLE ONLY public.savings_groups ALTER COLUMN id SET DEFAULT nextval('public.savings_groups_id_seq'::regclass);
ALTER TABLE ONLY public.savings_to_do ALTER COLUMN day SET DEFAULT nextval('public.savings_to_do_day_seq'::regclass);
ALTER TABLE ONLY public.tokens ALTER COLUMN id SET DEFAULT nextval('public.tokens_id_seq'::regclass);
ALTER TABLE ONLY public.trial_jobs ALTER COLUMN id SET DEFAULT nextval('public.trial_jobs_id_seq'::regclass);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.accounting_files
    ADD CONSTRAINT pk_accounting_files PRIMARY KEY (cluster, path);
ALTER TABLE ONLY public.accounting_rejects
    ADD CONSTRAINT pk_accounting_rejects PRIMARY KEY (id);
ALTER TABLE ONLY public.adjustments
    ADD CONSTRAINT pk_adjustments PRIMARY KEY (id);
ALTER TABLE ONLY public.batches
    ADD CONSTRAINT pk_batches PRIMARY KEY (node_id, boot_id, sequence);
ALTER TABLE ONLY public.event_counts
    ADD CONSTRAINT pk_event_counts PRIMARY KEY (name, label);
ALTER TABLE ONLY public.forecast_changes
    ADD CONSTRAINT pk_forecast_changes PRIMARY KEY (id);
ALTER TABLE ONLY public.forecast_scores
    ADD CONSTRAINT pk_forecast_scores PRIMARY KEY (metric, level, period, first_day, group_id);
ALTER TABLE ONLY public.holds
    ADD CONSTRAINT pk_holds PRIMARY KEY (match_id, dependency, resource_id);
ALTER TABLE ONLY public.job_counts
    ADD CONSTRAINT pk_job_counts PRIMARY KEY (key);
ALTER TABLE ONLY public.job_nodes
    ADD CONSTRAINT pk_job_nodes PRIMARY KEY (run_id, node);
ALTER TABLE ONLY public.job_samples
    ADD CONSTRAINT pk_job_samples PRIMARY KEY (node_id, job_id, first_time);
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT pk_jobs PRIMARY KEY (id);
ALTER TABLE ONLY public.late_batches
    ADD CONSTRAINT pk_late_batches PRIMARY KEY (id);
ALTER TABLE ONLY public.log_reads
    ADD CONSTRAINT pk_log_reads PRIMARY KEY (cluster, source);
ALTER TABLE ONLY public.machine_outcomes
    ADD CONSTRAINT pk_machine_outcomes PRIMARY KEY (machine_id, job_id, start, outcome);
ALTER TABLE ONLY public.machine_sessions
    ADD CONSTRAINT pk_machine_sessions PRIMARY KEY (id);
ALTER TABLE ONLY public.machines
    ADD CONSTRAINT pk_machines PRIMARY KEY (id);
ALTER TABLE ONLY public.marks
    ADD CONSTRAINT pk_marks PRIMARY KEY (node_id, job_id, event, "time");
ALTER TABLE ONLY public.matches
    ADD CONSTRAINT pk_matches PRIMARY KEY (id);
ALTER TABLE ONLY public.matching_state
    ADD CONSTRAINT pk_matching_state PRIMARY KEY (id);
ALTER TABLE ONLY public.model_state
    ADD CONSTRAINT pk_model_state PRIMARY KEY (cluster, metric, key);
ALTER TABLE ONLY public.nodes
    ADD CONSTRAINT pk_nodes PRIMARY KEY (id);
ALTER TABLE ONLY public.offers
    ADD CONSTRAINT pk_offers PRIMARY KEY (id);
ALTER TABLE ONLY public.outcomes
    ADD CONSTRAINT pk_outcomes PRIMARY KEY (id);
ALTER TABLE ONLY public.outcomes_pending
    ADD CONSTRAINT pk_outcomes_pending PRIMARY KEY (run_id);
ALTER TABLE ONLY public.owner_reports
    ADD CONSTRAINT pk_owner_reports PRIMARY KEY (id);
ALTER TABLE ONLY public.parallel_tasks
    ADD CONSTRAINT pk_parallel_tasks PRIMARY KEY (cluster, job_id, task, start);
ALTER TABLE ONLY public.pending_at_start
    ADD CONSTRAINT pk_pending_at_start PRIMARY KEY (run_id, metric);
ALTER TABLE ONLY public.pending_forecasts
    ADD CONSTRAINT pk_pending_forecasts PRIMARY KEY (run_id, metric);
ALTER TABLE ONLY public.plans
    ADD CONSTRAINT pk_plans PRIMARY KEY (cluster);
ALTER TABLE ONLY public.profiles
    ADD CONSTRAINT pk_profiles PRIMARY KEY (run_id, metric);
ALTER TABLE ONLY public.quarantine
    ADD CONSTRAINT pk_quarantine PRIMARY KEY (id);
ALTER TABLE ONLY public.reliability_state
    ADD CONSTRAINT pk_reliability_state PRIMARY KEY (id);
ALTER TABLE ONLY public.requirement_state
    ADD CONSTRAINT pk_requirement_state PRIMARY KEY (cluster, key);
ALTER TABLE ONLY public.requirements
    ADD CONSTRAINT pk_requirements PRIMARY KEY (id);
ALTER TABLE ONLY public.resource_policies
    ADD CONSTRAINT pk_resource_policies PRIMARY KEY (id);
ALTER TABLE ONLY public.resource_types
    ADD CONSTRAINT pk_resource_types PRIMARY KEY (name);
ALTER TABLE ONLY public.resources
    ADD CONSTRAINT pk_resources PRIMARY KEY (id);
ALTER TABLE ONLY public.role_epochs
    ADD CONSTRAINT pk_role_epochs PRIMARY KEY (role);
ALTER TABLE ONLY public.running_outlooks
    ADD CONSTRAINT pk_running_outlooks PRIMARY KEY (run_id, metric);
ALTER TABLE ONLY public.running_use
    ADD CONSTRAINT pk_running_use PRIMARY KEY (run_id);
ALTER TABLE ONLY public.sample_chunks
    ADD CONSTRAINT pk_sample_chunks PRIMARY KEY (node_id, first_time);
ALTER TABLE ONLY public.sample_summaries
    ADD CONSTRAINT pk_sample_summaries PRIMARY KEY (node_id, period, first_time);
ALTER TABLE ONLY public.samples
    ADD CONSTRAINT pk_samples PRIMARY KEY (node_id, "time");
ALTER TABLE ONLY public.savings
    ADD CONSTRAINT pk_savings PRIMARY KEY (metric, level, period, first_day, group_id);
ALTER TABLE ONLY public.savings_groups
    ADD CONSTRAINT pk_savings_groups PRIMARY KEY (id);
ALTER TABLE ONLY public.savings_to_do
    ADD CONSTRAINT pk_savings_to_do PRIMARY KEY (day);
ALTER TABLE ONLY public.series
    ADD CONSTRAINT pk_series PRIMARY KEY (cluster, "user", metric);
ALTER TABLE ONLY public.server_states
    ADD CONSTRAINT pk_server_states PRIMARY KEY ("time");
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT pk_sessions PRIMARY KEY (digest);
ALTER TABLE ONLY public.shifts
    ADD CONSTRAINT pk_shifts PRIMARY KEY (node_id, since);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT pk_tokens PRIMARY KEY (id);
ALTER TABLE ONLY public.trial_jobs
    ADD CONSTRAINT pk_trial_jobs PRIMARY KEY (id);
ALTER TABLE ONLY public.weekly_mails
    ADD CONSTRAINT pk_weekly_mails PRIMARY KEY ("user", week);
ALTER TABLE ONLY public.accounting_rejects
    ADD CONSTRAINT uq_accounting_rejects_cluster_path_line UNIQUE (cluster, path, line);
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT uq_jobs_cluster_job_id_start UNIQUE (cluster, job_id, start);
ALTER TABLE ONLY public.machines
    ADD CONSTRAINT uq_machines_cluster_name UNIQUE (cluster, name);
ALTER TABLE ONLY public.nodes
    ADD CONSTRAINT uq_nodes_cluster_name UNIQUE (cluster, name);
ALTER TABLE ONLY public.resources
    ADD CONSTRAINT uq_resources_name UNIQUE (name);
ALTER TABLE ONLY public.savings_groups
    ADD CONSTRAINT uq_savings_groups_cluster_user_application_queue_account UNIQUE (cluster, "user", application, queue, account);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT uq_tokens_digest UNIQUE (digest);
ALTER TABLE ONLY public.trial_jobs
    ADD CONSTRAINT uq_trial_jobs_cluster_job_id_submitted_seed UNIQUE (cluster, job_id, submitted, seed);
CREATE INDEX ix_adjustments_cluster_job_id_resource ON public.adjustments USING btree (cluster, job_id, resource);
CREATE UNIQUE INDEX ix_adjustments_open ON public.adjustments USING btree (cluster, job_id, resource) WHERE (state = ANY (ARRAY['begun'::text, 'undoing'::text]));
CREATE INDEX ix_batches_node_id_first_time ON public.batches USING btree (node_id, first_time);
CREATE INDEX ix_batches_received_at ON public.batches USING btree (received_at);
CREATE INDEX ix_forecast_changes_run_id ON public.forecast_changes USING btree (run_id);
CREATE INDEX ix_forecast_changes_time ON public.forecast_changes USING btree ("time");
CREATE INDEX ix_forecast_scores_level_group_id_period_first_day ON public.forecast_scores USING btree (level, group_id, period, first_day);
CREATE INDEX ix_holds_resource_id ON public.holds USING btree (resource_id);
CREATE INDEX ix_job_counts_cluster_user ON public.job_counts USING btree (cluster, "user");
CREATE INDEX ix_job_nodes_node ON public.job_nodes USING btree (node);
CREATE INDEX ix_job_samples_node_id_last_time ON public.job_samples USING btree (node_id, last_time);
CREATE INDEX ix_jobs_array_task ON public.jobs USING btree (array_task) WHERE (array_task IS NOT NULL);
CREATE INDEX ix_jobs_cluster_end ON public.jobs USING btree (cluster, "end");
CREATE INDEX ix_jobs_cluster_user_application_end ON public.jobs USING btree (cluster, "user", application, "end") WHERE (state = 'ended'::text);
CREATE INDEX ix_jobs_cluster_user_end ON public.jobs USING btree (cluster, "user", "end");
CREATE INDEX ix_jobs_cluster_user_id ON public.jobs USING btree (cluster, "user", id);
CREATE INDEX ix_jobs_end ON public.jobs USING btree ("end");
CREATE INDEX ix_jobs_forecast_seq_submitted ON public.jobs USING btree (forecast_seq, submitted);
CREATE INDEX ix_jobs_job_id ON public.jobs USING btree (job_id);
CREATE INDEX ix_jobs_profiled_state_end ON public.jobs USING btree (profiled, state, "end");
CREATE INDEX ix_jobs_recorded_at ON public.jobs USING btree (recorded_at);
CREATE INDEX ix_jobs_start_seq_start ON public.jobs USING btree (start_seq, start);
CREATE INDEX ix_jobs_state ON public.jobs USING btree (state);
CREATE INDEX ix_machine_outcomes_cluster_user_application_end ON public.machine_outcomes USING btree (cluster, "user", application, "end");
CREATE INDEX ix_machine_outcomes_machine_id_end ON public.machine_outcomes USING btree (machine_id, "end");
CREATE INDEX ix_machine_sessions_machine_id_end ON public.machine_sessions USING btree (machine_id, "end");
CREATE INDEX ix_machines_version ON public.machines USING btree (version);
CREATE INDEX ix_matches_state_until ON public.matches USING btree (state, until);
CREATE INDEX ix_matches_version ON public.matches USING btree (version);
CREATE INDEX ix_offers_cluster_job_id ON public.offers USING btree (cluster, job_id);
CREATE INDEX ix_offers_cluster_version ON public.offers USING btree (cluster, version);
CREATE INDEX ix_offers_state_expires_at ON public.offers USING btree (state, expires_at);
CREATE INDEX ix_outcomes_cluster_job_id ON public.outcomes USING btree (cluster, job_id);
CREATE INDEX ix_outcomes_learn_seq ON public.outcomes USING btree (learn_seq);
CREATE INDEX ix_outcomes_run_id ON public.outcomes USING btree (run_id);
CREATE INDEX ix_profiles_learn_seq ON public.profiles USING btree (learn_seq);
CREATE INDEX ix_profiles_shown_only ON public.profiles USING btree (shown_only) WHERE ((attribution = 'apportioned'::text) AND (value IS NOT NULL));
CREATE INDEX ix_quarantine_bytes ON public.quarantine USING btree (bytes);
CREATE INDEX ix_quarantine_retry ON public.quarantine USING btree (retry);
CREATE INDEX ix_resources_type ON public.resources USING btree (type);
CREATE INDEX ix_resources_version ON public.resources USING btree (version);
CREATE INDEX ix_series_user ON public.series USING btree ("user");
ALTER TABLE ONLY public.forecast_changes
    ADD CONSTRAINT fk_forecast_changes_run_id FOREIGN KEY (run_id) REFERENCES public.jobs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.holds
    ADD CONSTRAINT fk_holds_match_id FOREIGN KEY (match_id) REFERENCES public.matches(id);
ALTER TABLE ONLY public.job_nodes
    ADD CONSTRAINT fk_job_nodes_run_id FOREIGN KEY (run_id) REFERENCES public.jobs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.outcomes_pending
    ADD CONSTRAINT fk_outcomes_pending_run_id FOREIGN KEY (run_id) REFERENCES public.jobs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.pending_at_start
    ADD CONSTRAINT fk_pending_at_start_run_id FOREIGN KEY (run_id) REFERENCES public.jobs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.pending_forecasts
    ADD CONSTRAINT fk_pending_forecasts_run_id FOREIGN KEY (run_id) REFERENCES public.jobs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.profiles
    ADD CONSTRAINT fk_profiles_run_id FOREIGN KEY (run_id) REFERENCES public.jobs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.running_outlooks
    ADD CONSTRAINT fk_running_outlooks_run_id FOREIGN KEY (run_id) REFERENCES public.jobs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.running_use
    ADD CONSTRAINT fk_running_use_run_id FOREIGN KEY (run_id) REFERENCES public.jobs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT fk_sessions_token_id FOREIGN KEY (token_id) REFERENCES public.tokens(id) ON DELETE CASCADE;
