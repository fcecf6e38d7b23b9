-- Runs a Slurm plugin script as slurmctld does: the table `slurm`, records that only have Slurm's fields and
-- accept only values of their type, calls one after the other. A JSON document on standard input says what to call;
-- standard output has what each call changed, returned, logged and took.

local cjson = require("cjson")
local socket = require("socket")

local TEXTS = {
  account = 1, admin_comment = 1, comment = 1, default_account = 1, mem_per_tres = 1, name = 1, partition = 1,
  user_name = 1,
}
local NUMBERS = {
  cpus_per_task = 65534, min_cpus = 1, min_nodes = 4294967294, ntasks_per_node = 65534, num_tasks = 4294967294,
  time_limit = 4294967294,
}

local lines, messages = {}, {}

local function writes_to(list)
  return function(form, ...)
    list[#list + 1] = string.format(form, ...)
  end
end

slurm = {
  SUCCESS = 0, ERROR = -1, log_info = writes_to(lines), log_error = writes_to(lines), log_user = writes_to(messages),
  user_msg = writes_to(messages),
}

local function record(given)
  local values, changed = {}, {}
  for name, default in pairs(NUMBERS) do
    values[name] = default
  end
  for name, value in pairs(given) do
    values[name] = value
  end
  local function get(_, name)
    return values[name]
  end
  local function set(_, name, value)
    if TEXTS[name] then
      assert(type(value) == "string", name)
    else
      assert(NUMBERS[name] or name == "min_mem_per_node" or name == "min_mem_per_cpu", "unrecognized field " .. name)
      assert(type(value) == "number" and value >= 0 and value == math.floor(value), name)
    end
    values[name], changed[name] = value, value
  end
  return setmetatable({}, { __index = get, __newindex = set }), changed
end

local asked = cjson.decode(io.read("*a"))
local returned = dofile(asked.script)
assert(returned == slurm.SUCCESS, "what the script returns when it is loaded")
local answers = {}
for _, call in ipairs(asked.calls) do
  lines, messages = {}, {}
  slurm.log_info, slurm.log_error = writes_to(lines), writes_to(lines)
  slurm.log_user, slurm.user_msg = writes_to(messages), writes_to(messages)
  socket.sleep(call.sleep or 0)
  local started = socket.gettime()
  local job, changed = record(call.job)
  local status = slurm_job_submit(job, call.partitions or {}, 1000)
  answers[#answers + 1] = {
    status = status, changed = changed, lines = lines, messages = messages, seconds = socket.gettime() - started,
  }
end
print(cjson.encode(answers))
