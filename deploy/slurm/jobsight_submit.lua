-- Asks Jobsight about each job that Slurm's job_submit.lua submits, writes the advice to the job's admin_comment and to
-- the user of sbatch, salloc or srun and, if the site's settings say so, sets the job's memory and time limit. The
-- user's request stays in admin_comment (jobsight_asked=...), because sacct has the new values.
--
-- Install it beside slurm.conf, with jobsight.lua. A job_submit.lua calls it by two lines, at its top and where it has
-- accepted a job, which do nothing once this file is gone:
--
--   local has_jobsight, jobsight = pcall(dofile, "/etc/slurm/jobsight_submit.lua")
--   if has_jobsight then jobsight.submit(job_desc, part_list) end
--
-- The site's choices are in settings_file, which wins over the block below. It never refuses a job and takes 100 ms at
-- most; if Jobsight does not answer, the job is submitted as it is. docs/use/submission.md has the rest.

local SETTINGS = {
  settings_file = "/etc/jobsight/submit.conf", -- read for each job
  address = "127.0.0.1", -- of the Jobsight server
  port = 8470,
  cluster = "default", -- this cluster's name in Jobsight
  token_file = "/etc/jobsight/slurm-token", -- of a token of role submitter; readable by SlurmUser only
}

local NO_COUNT = 65533 -- 16-bit fields have larger values if not set
local NO_LIMIT = 4294967293 -- the same of 32-bit fields

local directory = debug.getinfo(1, "S").source:match("^@(.*/)") or "/etc/slurm/"

local function load_library()
  local found, library = pcall(dofile, directory .. "jobsight.lua")
  if found then
    return library, library.client(SETTINGS)
  end
  slurm.log_error("%s", "jobsight: " .. tostring(library))
  return nil
end

local jobsight, client = load_library()
local was_silent = false
local reported = ""

-- The site's choices. A wrong line is logged once, and ignored.
local function read_choices()
  local choices, problems = jobsight.choices(SETTINGS)
  local text = table.concat(problems, "; ")
  if text ~= reported and text ~= "" then
    slurm.log_error("%s", "jobsight: " .. text)
  end
  reported = text
  return choices
end

local function mode_of(choices, partition)
  return {
    memory = choices["memory." .. partition] or choices.memory,
    time = choices["time." .. partition] or choices.time,
  }
end

local function count(value, limit)
  value = tonumber(value)
  if value and value >= 1 and value < limit then
    return value
  end
  return nil
end

-- The record of the job's partition, the first of several; {} if unknown.
local function partition_of(job, partitions)
  local name = job.partition and job.partition:match("^[^,]+")
  if name then
    return partitions[name] or {}, name
  end
  for default, partition in pairs(partitions) do
    if partition.flag_default == 1 then
      return partition, default
    end
  end
  return {}, nil
end

-- The job's comment from sbatch: facts, and the rule where Snakemake wrote it with a random job name.
local function words_of(job)
  local said = job.comment and job.comment:sub(1, 4000) or ""
  local words = { said:match("^rule_[%w_%-]+") }
  for facts in (" " .. said):gmatch("[^%w_](jobsight:[%w_%-][%w_.,=+%-]*)") do
    words[#words + 1] = facts
  end
  return #words > 0 and table.concat(words, "; ") or nil
end

-- Why a job's request stays as it is: its user wants it so, or a workflow engine wrote it into the command, too.
local function kept_by(job, advice)
  if jobsight.is_kept(job.comment) then
    return "jobsight:keep"
  end
  local named = type(advice.engine) == "string" and jobsight.line(advice.engine, 40)
  return jobsight.engine(job.script, job.std_out) or named or nil
end

-- The user's request: MiB per processor or per node, and minutes. The partition's defaults are no request.
local function question_of(job, partition_name, choices)
  local mode = mode_of(choices, partition_name or "").memory
  local asked = {
    num_tasks = count(job.num_tasks, NO_LIMIT),
    cpus_per_task = count(job.cpus_per_task, NO_COUNT),
    ntasks_per_node = count(job.ntasks_per_node, NO_COUNT),
    nodes = count(job.min_nodes, NO_LIMIT),
    cpus = count(job.min_cpus, NO_LIMIT),
    mem = job.min_mem_per_node,
    mem_per_cpu = job.min_mem_per_cpu,
    time_limit = count(job.time_limit, NO_LIMIT),
  }
  return {
    user = job.user_name,
    application = job.name ~= "" and job.name or nil,
    comment = words_of(job),
    queue = partition_name,
    account = job.account or job.default_account,
    sets_memory = mode == "lower" or mode == "always",
    slurm = asked,
  }
end

local function may_set(mode, asked, recommended)
  if not recommended or mode == "no" then
    return false
  elseif not asked then
    return mode == "missing" or mode == "lower" or mode == "always"
  end
  return (mode == "lower" and recommended < asked) or (mode == "always" and recommended ~= asked)
end

local function capped(value, limit)
  limit = count(limit, NO_LIMIT)
  return value and limit and math.min(value, limit) or value
end

-- Whether the job has its own memory request, or none: 0 is all memory of a node, memory per GPU is not forecast.
local function has_plain_memory(job)
  return job.min_mem_per_node ~= 0 and not job.mem_per_tres
end

-- DefMemPerCPU and DefMemPerNode of slurm.conf, which count where the partition has none.
local function site_default(name)
  local file = io.open(directory .. "slurm.conf")
  local found
  for line in file and file:lines() or function() end do
    found = line:lower():match("^%s*" .. name .. "%s*=%s*(%d+)") or found
  end
  if file then
    file:close()
  end
  return found
end

-- What a job gets that requests no memory: MiB per processor, per node. nil, nil: all memory of its nodes.
local function default_memory(partition)
  local per_cpu, per_node = count(partition.def_mem_per_cpu, NO_LIMIT), count(partition.def_mem_per_node, NO_LIMIT)
  if per_cpu or per_node then
    return per_cpu, per_node
  end
  return count(site_default("defmempercpu"), NO_LIMIT), count(site_default("defmempernode"), NO_LIMIT)
end

-- Sets the values that the settings allow; returns a text for each. A job without a request for memory gets no less
-- than it would have by default.
local function set_request(job, partition, mode, recommended)
  local done = {}
  local per_cpu, per_node = job.min_mem_per_cpu, job.min_mem_per_node
  local default_per_cpu, default_per_node
  if not per_cpu and not per_node then
    default_per_cpu, default_per_node = default_memory(partition)
  end
  local is_per_cpu = per_cpu or default_per_cpu
  local field = is_per_cpu and "min_mem_per_cpu" or "min_mem_per_node"
  local memory = is_per_cpu and capped(jobsight.amount(recommended.mem_per_cpu), partition.max_mem_per_cpu)
    or not is_per_cpu and capped(jobsight.amount(recommended.mem), partition.max_mem_per_node)
    or nil
  local default = default_per_cpu or default_per_node
  if memory and default and memory <= default then
    memory = nil
  end
  if has_plain_memory(job) and may_set(mode.memory, per_cpu or per_node, memory) then
    done[#done + 1] = ("%s %s -> %dM"):format(field, per_cpu or per_node or "none", memory)
    job[field] = memory
  end
  local minutes = capped(jobsight.amount(recommended.time_limit), partition.max_time)
  local limit = count(job.time_limit, NO_LIMIT)
  if may_set(mode.time, limit, minutes) then
    done[#done + 1] = ("time_limit %s -> %d min"):format(limit or "none", minutes)
    job.time_limit = minutes
  end
  return done
end

-- The user's request, in a note for the log's reader where sacct will have another: it was changed, or the user asked
-- for nothing and sacct has the partition's default.
local function request_of(job)
  return {
    plain = has_plain_memory(job),
    memory = job.min_mem_per_cpu or job.min_mem_per_node,
    name = job.min_mem_per_cpu and "mem_per_cpu" or "mem_per_node",
    time = count(job.time_limit, NO_LIMIT),
  }
end

local function report(job, asked)
  local parts = {}
  if asked.plain and (not asked.memory or asked.memory ~= (job.min_mem_per_cpu or job.min_mem_per_node)) then
    parts[#parts + 1] = asked.name .. ":" .. (asked.memory and ("%dM"):format(asked.memory) or "none")
  end
  if not asked.time or asked.time ~= count(job.time_limit, NO_LIMIT) then
    parts[#parts + 1] = "time:" .. (asked.time and ("%d"):format(asked.time) or "none")
  end
  return #parts > 0 and "jobsight_asked=" .. table.concat(parts, ",") or nil
end

-- slurmdbd stores the administrator's comment always, the user's only with AccountingStoreFlags=job_comment.
local function comment(job, ...)
  local parts = { job.admin_comment ~= "" and job.admin_comment or nil }
  for i = 1, select("#", ...) do
    parts[#parts + 1] = (select(i, ...))
  end
  if #parts > 0 then
    job.admin_comment = table.concat(parts, "; ")
  end
end

local function submit(job, partitions)
  local partition, name = partition_of(job, partitions)
  if not job.user_name then
    return
  end
  local asked = request_of(job)
  local choices = read_choices()
  client:use(choices)
  local advice, reason, was_not_asked = client:advice(question_of(job, name, choices))
  if not advice then
    if not (was_not_asked and was_silent) then -- once, not for each job of the pause
      slurm.log_info("%s", "jobsight: no advice: " .. reason)
    end
    was_silent = was_not_asked
    comment(job, words_of(job), report(job, asked))
    return
  end
  was_silent = false
  if client.silent_s then
    slurm.log_info("jobsight: advice is on again, after %d s without an answer", client.silent_s)
  end
  local done, keeper = {}, kept_by(job, advice)
  if not keeper and (jobsight.amount(advice.such_jobs) or 0) >= choices.such_jobs then
    done = set_request(job, partition, mode_of(choices, name or ""), jobsight.part(advice, "slurm"))
  end
  local text = jobsight.line(advice.text, 400)
  local said = "jobsight: " .. text .. (#done > 0 and " Set: " .. table.concat(done, ", ") or "")
  said = said .. (keeper and " Not changed: " .. keeper or "")
  comment(job, said, words_of(job), report(job, asked))
  if #done > 0 then
    slurm.log_info("%s", "jobsight: " .. job.user_name .. ": " .. table.concat(done, ", "))
  end
  if choices.message == "always" or (choices.message == "notable" and advice.notable == true) then
    slurm.log_user("%s", text)
  end
end

local module = {}

-- Whatever happens here, the job goes on.
function module.submit(job, partitions)
  if client then
    local ran, problem = pcall(submit, job, partitions)
    if not ran then
      slurm.log_error("%s", "jobsight: " .. tostring(problem))
    end
  end
end

return module
