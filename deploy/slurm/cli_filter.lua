-- Command line filter of Slurm: says to users of sbatch, salloc and srun, before a job is submitted, what such jobs of
-- theirs used and what this one asks for. It changes nothing.
--
-- Install it beside slurm.conf on login nodes, with jobsight.lua, and set CliFilterPlugins=cli_filter/lua. It never
-- refuses a job and takes 50 ms at most. It runs as the user, so users can read its token: use one of role submitter,
-- which may ask for nothing else. docs/submission.md has the rest.

local SETTINGS = {
  address = "127.0.0.1", -- of the Jobsight server: an IP address, because looking up a name has no time limit
  port = 8470,
  cluster = "default", -- this cluster's name in Jobsight
  token_file = "/etc/jobsight/submitter-token", -- of a token of role submitter; readable by users
  limit_s = 0.05, -- for the whole question; job_submit.lua may wait after it
  failures = 3, -- after so many in a row, do not ask ...
  pause_s = 60, -- ... for so long; counted in a file of the user's runtime directory
}

local MESSAGE = "notable" -- which jobs: "notable" (a request below or twice the recommendation) or "always"

local function load_library()
  local directory = debug.getinfo(1, "S").source:match("^@(.*/)") or "/etc/slurm/"
  local found, library = pcall(dofile, directory .. "jobsight.lua")
  if not found then
    slurm.log_debug("%s", "jobsight: " .. tostring(library))
    return nil
  end
  local runtime = os.getenv("XDG_RUNTIME_DIR")
  SETTINGS.breaker_file = runtime and runtime .. "/jobsight-submission" or nil
  return library, library.client(SETTINGS)
end

local jobsight, client = load_library()

-- The first number of an option such as "4" or "2-4"; nil where it is not set.
local function count(value)
  local number = tonumber(value and tostring(value):match("^%d+"))
  return number and number >= 1 and number < 65533 and number or nil
end

-- An amount as Slurm writes it, or nil where it is not set.
local function memory(value)
  return value and tostring(value):match("^%d+[KMGT]?$")
end

-- Slurm writes a time limit that was not given as nearly three million days.
local function limit(value)
  local text = value and tostring(value):match("^[%d:-]+$")
  return text and not text:match("^%d%d%d%d%d+%-") and text or nil
end

local function question_of(options)
  local script = options.argv and options.argv[1]
  return {
    user = os.getenv("USER") or os.getenv("LOGNAME"),
    application = options["job-name"] or (script and script:match("[^/]+$")),
    queue = options.partition and options.partition:match("^[^,]+"),
    account = options.account,
    slurm = {
      num_tasks = count(options.ntasks),
      cpus_per_task = count(options["cpus-per-task"]),
      ntasks_per_node = count(options["ntasks-per-node"]),
      nodes = count(options.nodes),
      mem = memory(options.mem),
      mem_per_cpu = memory(options["mem-per-cpu"]),
      time_limit = limit(options.time),
    },
  }
end

local function inform(options)
  -- A step of a running job asks for a part of what the job has.
  if options.type == "srun" and os.getenv("SLURM_JOB_ID") then
    return
  end
  local question = question_of(options)
  if not question.user then
    return
  end
  local advice, reason = client:advice(question)
  if not advice then
    slurm.log_debug("%s", "jobsight: no advice: " .. reason)
  elseif (jobsight.amount(advice.such_jobs) and advice.notable == true) or MESSAGE == "always" then
    slurm.log_info("%s", jobsight.line(advice.text, 400))
  end
end

function slurm_cli_setup_defaults(_options, _early)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, _offset)
  if client then
    local ran, problem = pcall(inform, options)
    if not ran then
      slurm.log_debug("%s", "jobsight: " .. tostring(problem))
    end
  end
  return slurm.SUCCESS
end

function slurm_cli_post_submit(_offset, _job_id, _step_id)
  return slurm.SUCCESS
end

return slurm.SUCCESS
