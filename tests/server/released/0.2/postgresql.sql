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
    owner_present boolean
);
CREATE TABLE public.event_counts (
    name text NOT NULL,
    label text NOT NULL,
    value bigint NOT NULL
);
CREATE TABLE public.group_series (
    cluster text NOT NULL,
    field text NOT NULL,
    name text NOT NULL,
    metric text NOT NULL,
    n bigint NOT NULL,
    updated double precision NOT NULL,
    state text NOT NULL
);
CREATE TABLE public.holds (
    match_id integer NOT NULL,
    dependency text NOT NULL,
    resource_id integer NOT NULL,
    resource text NOT NULL,
    amounts text NOT NULL
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
    used text
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
CREATE TABLE public.machine_outcomes (
    machine_id integer NOT NULL,
    job_id text NOT NULL,
    start double precision NOT NULL,
    outcome text NOT NULL,
    "end" double precision NOT NULL,
    work_h double precision NOT NULL,
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
    late_batches bigint NOT NULL,
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
    state text NOT NULL
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
    machine text
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
    run_id integer NOT NULL,
    since double precision NOT NULL
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
CREATE TABLE public.pending_forecasts (
    run_id integer NOT NULL,
    metric text NOT NULL,
    state text NOT NULL
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
    attempts text
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
    hazard_version bigint NOT NULL,
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
CREATE TABLE public.remeasure (
    run_id integer NOT NULL,
    metric text NOT NULL
);
CREATE TABLE public.requirement_groups (
    id integer NOT NULL,
    cluster text NOT NULL,
    key text NOT NULL,
    question text NOT NULL,
    requested_bytes bigint NOT NULL,
    asked bigint NOT NULL,
    finished bigint NOT NULL,
    failed bigint NOT NULL,
    used_bytes bigint,
    enough_bytes bigint,
    freed_bytes double precision NOT NULL,
    last_asked double precision NOT NULL
);
CREATE SEQUENCE public.requirement_groups_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.requirement_groups_id_seq OWNED BY public.requirement_groups.id;
CREATE TABLE public.requirement_state (
    cluster text NOT NULL,
    method text NOT NULL,
    key text NOT NULL,
    state text NOT NULL
);
CREATE TABLE public.requirements (
    id integer NOT NULL,
    group_id integer NOT NULL,
    cluster text NOT NULL,
    question text NOT NULL,
    requested_bytes bigint NOT NULL,
    memory_bytes bigint NOT NULL,
    asked_at double precision NOT NULL,
    outcome text,
    used_bytes bigint,
    ended_at double precision
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
CREATE TABLE public.running_use (
    run_id integer NOT NULL,
    until double precision NOT NULL,
    memory double precision,
    idle_bytes double precision,
    reason text
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
    queue text NOT NULL
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
CREATE TABLE public.sessions (
    digest text NOT NULL,
    kind text NOT NULL,
    token_id integer,
    created double precision NOT NULL,
    expires double precision NOT NULL
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
CREATE TABLE public.simulation_files (
    run_id integer NOT NULL,
    name text NOT NULL,
    content bytea NOT NULL
);
CREATE TABLE public.simulation_traces (
    digest text NOT NULL,
    name text NOT NULL,
    content bytea NOT NULL
);
CREATE TABLE public.simulations (
    id integer NOT NULL,
    created double precision NOT NULL,
    started double precision,
    ended double precision,
    state text NOT NULL,
    trace text NOT NULL,
    parameters text NOT NULL,
    progress double precision NOT NULL,
    figures text,
    error text
);
CREATE SEQUENCE public.simulations_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.simulations_id_seq OWNED BY public.simulations.id;
CREATE TABLE public.tokens (
    id integer NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    digest text NOT NULL,
    created double precision NOT NULL,
    revoked double precision,
    cluster text,
    nodes text
);
CREATE SEQUENCE public.tokens_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.tokens_id_seq OWNED BY public.tokens.id;
ALTER TABLE ONLY public.accounting_rejects ALTER COLUMN id SET DEFAULT nextval('public.accounting_rejects_id_seq'::regclass);
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
ALTER TABLE ONLY public.requirement_groups ALTER COLUMN id SET DEFAULT nextval('public.requirement_groups_id_seq'::regclass);
ALTER TABLE ONLY public.requirements ALTER COLUMN id SET DEFAULT nextval('public.requirements_id_seq'::regclass);
ALTER TABLE ONLY public.resource_policies ALTER COLUMN id SET DEFAULT nextval('public.resource_policies_id_seq'::regclass);
ALTER TABLE ONLY public.resources ALTER COLUMN id SET DEFAULT nextval('public.resources_id_seq'::regclass);
ALTER TABLE ONLY public.savings_groups ALTER COLUMN id SET DEFAULT nextval('public.savings_groups_id_seq'::regclass);
ALTER TABLE ONLY public.savings_to_do ALTER COLUMN day SET DEFAULT nextval('public.savings_to_do_day_seq'::regclass);
ALTER TABLE ONLY public.simulations ALTER COLUMN id SET DEFAULT nextval('public.simulations_id_seq'::regclass);
ALTER TABLE ONLY public.tokens ALTER COLUMN id SET DEFAULT nextval('public.tokens_id_seq'::regclass);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.accounting_files
    ADD CONSTRAINT pk_accounting_files PRIMARY KEY (cluster, path);
ALTER TABLE ONLY public.accounting_rejects
    ADD CONSTRAINT pk_accounting_rejects PRIMARY KEY (id);
ALTER TABLE ONLY public.batches
    ADD CONSTRAINT pk_batches PRIMARY KEY (node_id, boot_id, sequence);
ALTER TABLE ONLY public.event_counts
    ADD CONSTRAINT pk_event_counts PRIMARY KEY (name, label);
ALTER TABLE ONLY public.group_series
    ADD CONSTRAINT pk_group_series PRIMARY KEY (cluster, field, name, metric);
ALTER TABLE ONLY public.holds
    ADD CONSTRAINT pk_holds PRIMARY KEY (match_id, dependency, resource_id);
ALTER TABLE ONLY public.job_nodes
    ADD CONSTRAINT pk_job_nodes PRIMARY KEY (run_id, node);
ALTER TABLE ONLY public.job_samples
    ADD CONSTRAINT pk_job_samples PRIMARY KEY (node_id, job_id, first_time);
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT pk_jobs PRIMARY KEY (id);
ALTER TABLE ONLY public.late_batches
    ADD CONSTRAINT pk_late_batches PRIMARY KEY (id);
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
ALTER TABLE ONLY public.remeasure
    ADD CONSTRAINT pk_remeasure PRIMARY KEY (run_id, metric);
ALTER TABLE ONLY public.requirement_groups
    ADD CONSTRAINT pk_requirement_groups PRIMARY KEY (id);
ALTER TABLE ONLY public.requirement_state
    ADD CONSTRAINT pk_requirement_state PRIMARY KEY (cluster, method, key);
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
ALTER TABLE ONLY public.running_use
    ADD CONSTRAINT pk_running_use PRIMARY KEY (run_id);
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
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT pk_sessions PRIMARY KEY (digest);
ALTER TABLE ONLY public.shifts
    ADD CONSTRAINT pk_shifts PRIMARY KEY (node_id, since);
ALTER TABLE ONLY public.simulation_files
    ADD CONSTRAINT pk_simulation_files PRIMARY KEY (run_id, name);
ALTER TABLE ONLY public.simulation_traces
    ADD CONSTRAINT pk_simulation_traces PRIMARY KEY (digest);
ALTER TABLE ONLY public.simulations
    ADD CONSTRAINT pk_simulations PRIMARY KEY (id);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT pk_tokens PRIMARY KEY (id);
ALTER TABLE ONLY public.accounting_rejects
    ADD CONSTRAINT uq_accounting_rejects_cluster_path_line UNIQUE (cluster, path, line);
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT uq_jobs_cluster_job_id_start UNIQUE (cluster, job_id, start);
ALTER TABLE ONLY public.machines
    ADD CONSTRAINT uq_machines_cluster_name UNIQUE (cluster, name);
ALTER TABLE ONLY public.nodes
    ADD CONSTRAINT uq_nodes_cluster_name UNIQUE (cluster, name);
ALTER TABLE ONLY public.requirement_groups
    ADD CONSTRAINT uq_requirement_groups_cluster_key UNIQUE (cluster, key);
ALTER TABLE ONLY public.resources
    ADD CONSTRAINT uq_resources_name UNIQUE (name);
ALTER TABLE ONLY public.savings_groups
    ADD CONSTRAINT uq_savings_groups_cluster_user_application_queue UNIQUE (cluster, "user", application, queue);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT uq_tokens_digest UNIQUE (digest);
CREATE INDEX ix_batches_node_id_first_time ON public.batches USING btree (node_id, first_time);
CREATE INDEX ix_batches_received_at ON public.batches USING btree (received_at);
CREATE INDEX ix_holds_resource_id ON public.holds USING btree (resource_id);
CREATE INDEX ix_job_nodes_node ON public.job_nodes USING btree (node);
CREATE INDEX ix_job_samples_node_id_last_time ON public.job_samples USING btree (node_id, last_time);
CREATE INDEX ix_jobs_array_task ON public.jobs USING btree (array_task);
CREATE INDEX ix_jobs_cluster_end ON public.jobs USING btree (cluster, "end");
CREATE INDEX ix_jobs_cluster_user_end ON public.jobs USING btree (cluster, "user", "end");
CREATE INDEX ix_jobs_end ON public.jobs USING btree ("end");
CREATE INDEX ix_jobs_forecast_seq_submitted ON public.jobs USING btree (forecast_seq, submitted);
CREATE INDEX ix_jobs_profiled_state_end ON public.jobs USING btree (profiled, state, "end");
CREATE INDEX ix_jobs_recorded_at ON public.jobs USING btree (recorded_at);
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
CREATE INDEX ix_requirement_groups_freed_bytes ON public.requirement_groups USING btree (freed_bytes);
CREATE INDEX ix_requirements_group_id_outcome_memory_bytes ON public.requirements USING btree (group_id, outcome, memory_bytes);
CREATE INDEX ix_requirements_outcome_asked_at ON public.requirements USING btree (outcome, asked_at);
CREATE INDEX ix_resources_type ON public.resources USING btree (type);
CREATE INDEX ix_resources_version ON public.resources USING btree (version);
CREATE INDEX ix_series_user ON public.series USING btree ("user");
CREATE INDEX ix_simulations_state ON public.simulations USING btree (state);
CREATE INDEX ix_simulations_trace ON public.simulations USING btree (trace);
ALTER TABLE ONLY public.holds
    ADD CONSTRAINT fk_holds_match_id FOREIGN KEY (match_id) REFERENCES public.matches(id);
ALTER TABLE ONLY public.job_nodes
    ADD CONSTRAINT fk_job_nodes_run_id FOREIGN KEY (run_id) REFERENCES public.jobs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.outcomes_pending
    ADD CONSTRAINT fk_outcomes_pending_run_id FOREIGN KEY (run_id) REFERENCES public.jobs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.pending_forecasts
    ADD CONSTRAINT fk_pending_forecasts_run_id FOREIGN KEY (run_id) REFERENCES public.jobs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.profiles
    ADD CONSTRAINT fk_profiles_run_id FOREIGN KEY (run_id) REFERENCES public.jobs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.remeasure
    ADD CONSTRAINT fk_remeasure_run_id FOREIGN KEY (run_id) REFERENCES public.jobs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.requirements
    ADD CONSTRAINT fk_requirements_group_id FOREIGN KEY (group_id) REFERENCES public.requirement_groups(id);
ALTER TABLE ONLY public.running_use
    ADD CONSTRAINT fk_running_use_run_id FOREIGN KEY (run_id) REFERENCES public.jobs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT fk_sessions_token_id FOREIGN KEY (token_id) REFERENCES public.tokens(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.simulation_files
    ADD CONSTRAINT fk_simulation_files_run_id FOREIGN KEY (run_id) REFERENCES public.simulations(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.simulations
    ADD CONSTRAINT fk_simulations_trace FOREIGN KEY (trace) REFERENCES public.simulation_traces(digest);
