-- A real editor: Neovim without a screen starts `lathe acp` the way its plugins do, and speaks lines of JSON-RPC with
-- it: buffers over fs/*, a permission answered from a callback, updates put into a buffer.
-- nvim --headless -u NONE -l runs it in new versions, `-S` in old ones.

local binary = os.getenv("LATHE_TEST_BINARY")
local folder = vim.fn.resolve(os.getenv("TMPDIR")) .. "/neovim-" .. vim.fn.getpid()
vim.fn.mkdir(folder, "p")

local function say(text) io.stdout:write(text .. "\n") end
local function script(id, replies)
  return ('<model id="%s">%s</model>'):format(id, vim.json and vim.json.encode(replies) or vim.fn.json_encode(replies))
end
local encode, decode = vim.fn.json_encode, vim.fn.json_decode

-- The editor's side.
local editor = { updates = {}, asked = {}, answers = {}, rest = "", next_id = 0 }
local handlers = {}

function editor.send(message)
  message.jsonrpc = "2.0"
  vim.fn.chansend(editor.job, encode(message) .. "\n")
end

function editor.request(method, params)
  editor.next_id = editor.next_id + 1
  local id = editor.next_id
  editor.send({ id = id, method = method, params = params })
  assert(vim.wait(60000, function() return editor.answers[id] ~= nil end, 5), method .. " is not answered")
  local answer = editor.answers[id]
  assert(answer.error == nil or answer.error == vim.NIL, encode(answer))
  return answer.result
end

function handlers.initialize_buffers()
  -- A buffer with a change that is not saved.
  vim.fn.writefile({ "saved" }, folder .. "/a.txt")
  vim.cmd("edit " .. folder .. "/a.txt")
  vim.api.nvim_buf_set_lines(0, 0, -1, false, { "saved", "typed in Neovim" })
end

handlers["session/update"] = function(params)
  table.insert(editor.updates, params.update)
end

handlers["session/request_permission"] = function(params)
  table.insert(editor.asked, params)
  return { outcome = { outcome = "selected", optionId = params.options[1].optionId } }
end

local function buffer_of(path)
  local number = vim.fn.bufnr(path)
  return number > 0 and vim.fn.bufloaded(number) == 1 and number or nil
end

handlers["fs/read_text_file"] = function(params)
  local number = buffer_of(params.path)
  if not number then return nil, { code = -32002, message = "not open" } end
  return { content = table.concat(vim.api.nvim_buf_get_lines(number, 0, -1, false), "\n") .. "\n" }
end

handlers["fs/write_text_file"] = function(params)
  vim.cmd("edit! " .. params.path)
  local lines = vim.split(params.content:gsub("\n$", ""), "\n")
  vim.api.nvim_buf_set_lines(0, 0, -1, false, lines)
  vim.cmd("silent write!")
  return vim.empty_dict()
end

local function take(line)
  local message = decode(line)
  if message.method == nil then
    editor.answers[message.id] = message
    return
  end
  local result, failure = handlers[message.method](message.params)
  if message.id ~= nil then
    if failure then editor.send({ id = message.id, error = failure })
    else editor.send({ id = message.id, result = result }) end
  end
end

editor.job = vim.fn.jobstart({ binary, "acp" }, {
  cwd = folder,
  on_stdout = function(_, data)
    editor.rest = editor.rest .. table.concat(data, "\n")
    while true do
      local line, rest = editor.rest:match("^(.-)\n(.*)$")
      if not line then break end
      editor.rest = rest
      if line ~= "" then take(line) end
    end
  end,
  on_exit = function(_, code) editor.code = code end,
})

local function text()
  local words = {}
  for _, update in ipairs(editor.updates) do
    if update.sessionUpdate == "agent_message_chunk" then table.insert(words, update.content.text) end
  end
  return table.concat(words)
end

local behaviours = {
  { "neovim_initializes_and_opens_a_session", function()
    local able = { fs = { readTextFile = true, writeTextFile = true } }
    local agent = editor.request("initialize", { protocolVersion = 1, clientCapabilities = able })
    assert(agent.agentInfo.name == "lathe")
    editor.session = editor.request("session/new", { cwd = folder, mcpServers = {} }).sessionId
    assert(#editor.session > 10)
  end },
  { "neovim_shows_an_answer", function()
    local prompt = { { type = "text", text = script("nvim-1-" .. vim.fn.getpid(), { { text = "Hello Neovim" } }) } }
    local answer = editor.request("session/prompt", { sessionId = editor.session, prompt = prompt })
    assert(answer.stopReason == "end_turn")
    assert(text() == "Hello Neovim", text())
  end },
  { "neovim_lends_its_buffer_and_gets_the_change_there", function()
    handlers.initialize_buffers()
    local path = folder .. "/a.txt"
    local id = "nvim-2-" .. vim.fn.getpid()
    local replies = {
      { content = { { type = "tool_use", name = "Read", input = { file_path = path } } } },
      { content = { { type = "tool_use", name = "Edit", input = { file_path = path, old_string = "typed", new_string = "changed" } } } },
      { text = "done" },
    }
    local prompt = { { type = "text", text = script(id, replies) } }
    local answer = editor.request("session/prompt", { sessionId = editor.session, prompt = prompt })
    assert(answer.stopReason == "end_turn")
    assert(#editor.asked == 1)
    local lines = vim.api.nvim_buf_get_lines(buffer_of(path), 0, -1, false)
    assert(table.concat(lines, "|") == "saved|changed in Neovim", table.concat(lines, "|"))
    assert(table.concat(vim.fn.readfile(path), "|") == "saved|changed in Neovim")
  end },
  { "neovim_closes_and_lathe_ends", function()
    vim.fn.chanclose(editor.job, "stdin")
    assert(vim.wait(60000, function() return editor.code ~= nil end, 5), "it doesn't end")
    assert(editor.code == 0, editor.code)
  end },
}

local failed = false
for _, behaviour in ipairs(behaviours) do
  local fine, why = pcall(behaviour[2])
  if fine then say("ok " .. behaviour[1]) else
    say("FAILED " .. behaviour[1] .. "\n" .. tostring(why))
    failed = true
    break
  end
end
vim.cmd(failed and "cquit 1" or "quitall!")
