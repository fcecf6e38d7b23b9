-- Asks Jobsight for advice on a job at submission. For jobsight_submit.lua:
--
--   local jobsight = dofile("/etc/slurm/jobsight.lua")
--   local client = jobsight.client({address = "127.0.0.1", port = 8470, cluster = "default", token_file = "..."})
--   local advice, reason = client:advice({user = "ada", application = "cfd", slurm = {num_tasks = 16, mem = "32G"}})
--
-- `advice` is the answer of POST /api/v1/advice, or nil with the reason; nothing raises an error. A question takes
-- `limit_s` at most, from the first byte to the last: Slurm waits meanwhile. After `failures` of them in a row, it asks
-- none for as long as there has been no answer, `pause_s` at most; then it tries one. Lua 5.1 or later, with LuaSocket
-- and cjson (Debian: lua-socket, lua-cjson).

local jobsight = {}

local DEFAULTS = {
  address = "127.0.0.1",
  port = 8470,
  cluster = "default",
  token_file = "/etc/jobsight/slurm-token",
  limit_s = 0.1,
  failures = 3,
  pause_s = 60,
}

local MODES = { no = true, missing = true, lower = true, always = true }
local MESSAGES = { no = true, notable = true, always = true }

local ANSWER_BYTES = 64 * 1024
local CHUNK_BYTES = 8192
local SHOWN = 200
local SHORTEST_PAUSE_S = 2

-- One line of at most `length` printable characters.
function jobsight.line(text, length)
  return (tostring(text):gsub("%c+", " "):sub(1, length or SHOWN))
end

-- A finite number above 0, or nil: for a missing value, JSON's null included.
function jobsight.amount(value)
  if type(value) == "number" and value > 0 and value < 2 ^ 53 then
    return value
  end
  return nil
end

-- A table in the answer, or an empty one.
function jobsight.part(answer, name)
  local found = answer[name]
  return type(found) == "table" and found or {}
end

-- Whether a job's comment has jobsight:keep, alone or among facts: jobsight:input_bytes=3e9,keep.
function jobsight.is_kept(comment)
  for facts in (" " .. (comment or "")):gmatch("[^%w_]jobsight:([^%s;]+)") do
    if ("," .. facts .. ","):find(",keep,", 1, true) then
      return true
    end
  end
  return false
end

-- The workflow engine that wrote a job's script, or nil. The server knows others by the names of jobs.
function jobsight.engine(script, output)
  if (script or ""):find("\n# NEXTFLOW TASK: ", 1, true) or (output or ""):find("/%.command%.log$") then
    return "Nextflow"
  end
  return (script or ""):find("\n# properties = {\"type\": ", 1, true) and "Snakemake" or nil
end

local function choice(name, queue, value)
  if name == "memory" or name == "time" then
    return MODES[value] and value
  elseif queue then
    return nil
  elseif name == "message" then
    return MESSAGES[value] and value
  elseif name == "such_jobs" or type(DEFAULTS[name]) == "number" then
    return jobsight.amount(tonumber(value))
  end
  return DEFAULTS[name] and value
end

-- `settings` with those of settings.settings_file, and a list of its wrong lines.
function jobsight.choices(settings)
  local found, problems = { memory = "no", time = "no", such_jobs = 5, message = "notable" }, {}
  for _, values in ipairs({ DEFAULTS, settings }) do
    for name, value in pairs(values) do
      found[name] = value
    end
  end
  local file, problem, code = io.open(settings.settings_file, "r")
  if not file then
    return found, { code ~= 2 and problem or nil } -- 2: there is no such file
  end
  for line in file:lines() do
    local words = line:gsub("#.*", "")
    local name, queue, value = words:match("^%s*([%a_]+)%.?(%S-)%s*=%s*(%S+)%s*$")
    queue = queue ~= "" and queue or nil
    local valid = name and choice(name, queue, value)
    if valid then
      found[queue and name .. "." .. queue or name] = valid
    elseif words:find("%S") then
      problems[#problems + 1] = settings.settings_file .. ": wrong line: " .. jobsight.line(words, 60)
    end
  end
  file:close()
  return found, problems
end

local function read_token(path)
  local file, problem = io.open(path, "r")
  if not file then
    return nil, "cannot read the token: " .. problem
  end
  local text = (file:read(4096) or ""):match("^%s*([%w_-]+)%s*$")
  file:close()
  if not text then
    return nil, path .. " has no token; write the output of `jobsight token create` to it"
  end
  return text
end

-- The body of a whole response, nil while it is incomplete; or nil and the error.
local function parse(text, closed)
  local head_end, body_start = text:find("\r\n\r\n", 1, true)
  if not head_end then
    return nil, closed and "the connection was closed before an answer" or nil
  end
  local head = text:sub(1, head_end + 1)
  local status = head:match("^HTTP/1%.%d (%d%d%d)")
  if not status then
    return nil, "not an answer in HTTP: " .. jobsight.line(head, 60)
  end
  local body = text:sub(body_start + 1)
  local length = tonumber(head:lower():match("\r\ncontent%-length:%s*(%d+)\r\n"))
  if length and #body >= length then
    body = body:sub(1, length)
  elseif length and closed then
    return nil, "the answer is cut after " .. #body .. " of " .. length .. " bytes"
  elseif not closed then
    return nil
  end
  return body, nil, tonumber(status)
end

-- Sends `request` and returns body, nil, status; or nil and the reason. Each step gets the time left, because with a
-- limit for each step a server that sends a byte now and then could take any time.
local function exchange(socket, settings, request)
  local connection, problem = socket.tcp()
  if not connection then
    return nil, problem
  end
  local started = socket.gettime()

  local function wait_at_most_the_rest()
    local spent = socket.gettime() - started
    if spent < 0 or spent >= settings.limit_s then -- below 0: the clock was set back
      return false
    end
    connection:settimeout(settings.limit_s - spent, "t")
    return true
  end

  local function talk()
    local late = ("no answer within %d ms"):format(settings.limit_s * 1000)
    wait_at_most_the_rest()
    local done, why = connection:connect(settings.address, settings.port)
    if not done then
      return nil, why == "timeout" and late or why
    end
    if not wait_at_most_the_rest() then
      return nil, late
    end
    done, why = connection:send(request)
    if not done then
      return nil, why == "timeout" and late or why
    end
    local received, closed = "", false
    while not closed do
      if not wait_at_most_the_rest() then
        return nil, late
      end
      -- Waits for the first byte and takes all received. No select(), which fails beyond 1,024 open files.
      local first, receive_problem = connection:receive(1)
      if first then
        connection:settimeout(0, "t") -- a limit of the other kind would stay
        local rest, _, partial = connection:receive(CHUNK_BYTES - 1)
        received = received .. first .. (rest or partial or "")
      elseif receive_problem == "closed" then
        closed = true
      else
        return nil, receive_problem == "timeout" and late or receive_problem
      end
      if #received > ANSWER_BYTES then
        return nil, "an answer of more than " .. ANSWER_BYTES .. " bytes"
      end
      local body, fault, status = parse(received, closed)
      if body or fault then
        return body, fault, status
      end
    end
    return nil, "the connection was closed before an answer"
  end

  local ran, body, reason, status = pcall(talk)
  connection:close()
  if not ran then
    return nil, tostring(body)
  end
  return body, reason, status
end

-- The number of questions in a row that failed, since when, and the end of the pause: as long as that lasts already, so
-- that a busy server is asked soon and a dead one seldom. `silent_s`: for how long there was none before this answer.
local function note(client, success)
  local settings, now = client.settings, client.socket.gettime()
  local since = client.failed > 0 and client.failed_since <= now and client.failed_since or now
  local was_open = client.failed >= settings.failures
  client.silent_s = success and was_open and math.floor(now - since) or nil
  client.failed, client.failed_since = success and 0 or client.failed + 1, since
  local pause_s = math.min(settings.pause_s, math.max(SHORTEST_PAUSE_S, now - since))
  client.open_until = client.failed >= settings.failures and now + pause_s or 0
end

local function is_open(client)
  local rest = client.open_until - client.socket.gettime()
  return rest > 0 and rest <= client.settings.pause_s -- more: the clock was set back
end

local function ask(client, question)
  local settings = client.settings
  local token, problem = read_token(settings.token_file)
  if not token then
    return nil, problem
  end
  question.cluster = settings.cluster
  local body = client.cjson.encode(question)
  local request = table.concat({
    "POST /api/v1/advice HTTP/1.1",
    ("Host: %s:%d"):format(settings.address, settings.port),
    "Authorization: Bearer " .. token,
    "Content-Type: application/json",
    "Content-Length: " .. #body,
    "Connection: close",
    "",
    body,
  }, "\r\n")
  local text, reason, status = exchange(client.socket, settings, request)
  local decoded, answer
  if text then
    decoded, answer = pcall(client.cjson.decode, text)
    if not decoded or type(answer) ~= "table" then
      reason = "answered " .. status .. ", not with JSON: " .. jobsight.line(text, 60)
    elseif status ~= 200 then
      reason = "answered " .. status .. ": " .. jobsight.line(answer.error or text)
    elseif type(answer.text) ~= "string" then
      reason = "answered without a text: " .. jobsight.line(text, 60)
    end
  end
  -- A refused question costs no time, and shows nothing about the next one.
  note(client, not reason or (status ~= nil and status >= 400 and status < 500 and decoded))
  if reason then
    return nil, reason
  end
  return answer
end

local Client = {}
Client.__index = Client

function Client:advice(question)
  if self.problem then
    return nil, self.problem
  end
  self.silent_s = nil
  if is_open(self) then
    return nil, "not asked: " .. self.failed .. " questions in a row failed", true
  end
  local ran, answer, reason = pcall(ask, self, question)
  if not ran then
    return nil, jobsight.line(answer)
  end
  return answer, reason
end

-- A library from whole paths only: Lua also searches the current directory, and slurmctld's may be open to others.
local function installed(library)
  local path, cpath = package.path, package.cpath
  package.path, package.cpath = (";" .. path):gsub(";[^;/][^;]*", ""), (";" .. cpath):gsub(";[^;/][^;]*", "")
  local found, module = pcall(require, library)
  package.path, package.cpath = path, cpath
  return found, module
end

-- Gives the client these settings; the count of failures stays.
function Client:use(settings)
  for name in pairs(DEFAULTS) do
    self.settings[name] = settings[name] or DEFAULTS[name]
  end
  local address = self.settings.address
  if not (address:match("^%d+%.%d+%.%d+%.%d+$") or address:match("^[%x:]+$")) then
    self.problem = "address " .. address .. ": give an IP address, because looking up a name has no time limit"
  else
    self.problem = self.missing
  end
end

-- A client with these settings, and the defaults for the rest. If a part is missing it returns a reason, no advice.
function jobsight.client(settings)
  local client = setmetatable({ settings = {}, failed = 0, open_until = 0 }, Client)
  for _, library in ipairs({ "socket", "cjson" }) do
    local found, module = installed(library)
    if not found then
      client.missing = "the Lua library " .. library .. " is missing: " .. jobsight.line(module)
    end
    client[library] = found and module
  end
  client:use(settings)
  return client
end

return jobsight
