// Options that only the TypeScript SDK has, or sends in its own way. Usage: node options.mjs <node_modules> [behaviour …]

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { Script, call, hanging, init, pageServer, result, run, sdk, toolResults, z } from "./support.mjs";

const behaviours = {
  async what_varies_may_be_told_in_the_conversation(test) {
    const script = new Script("ok");
    await test.ask(script, { systemPrompt: { type: "preset", preset: "claude_code", excludeDynamicSections: true } });
    const { system, messages } = script.sent(0).body;
    assert.ok(!JSON.stringify(system).includes(test.cwd));
    assert.ok(JSON.stringify(messages).includes(`Working folder: ${test.cwd}`));
  },

  async a_prompt_of_its_own_may_say_what_never_changes(test) {
    const script = new Script("ok");
    await test.ask(script, { systemPrompt: ["Fixed words.", sdk.SYSTEM_PROMPT_DYNAMIC_BOUNDARY, "Today's words."] });
    const system = script.sent(0).body.system;
    assert.deepEqual(system.map((block) => block.text), ["Fixed words.", "Today's words."]);
    assert.ok(system[0].cache_control);
  },

  async a_tool_answers_to_a_name_that_the_host_gives_it(test) {
    const messages = await test.ask(new Script(call("Shell", { command: "echo it is me" }), "done"), { toolAliases: { Shell: "Bash" }, allowedTools: ["Bash"] });
    assert.match(JSON.stringify(toolResults(messages)[0]), /it is me/);
  },

  async what_may_be_said_next_is_suggested_after_the_second_turn(test) {
    const run = test.open({ promptSuggestions: true });
    const first = await run.turn(new Script("a", "not after the first"));
    assert.ok(result(first));
    await run.turn(new Script("b", "Run the tests"));
    const suggestion = await run.until((message) => message.type === "prompt_suggestion");
    assert.equal(suggestion.suggestion, "Run the tests");
    await run.end();
  },

  async without_anyone_to_ask_what_would_ask_is_denied(test) {
    let asked = 0;
    const messages = await test.ask(new Script(call("Write", { file_path: test.path("a"), content: "1" }), "done"), {
      permissionPrompts: "none", canUseTool: async (name, input) => { asked += 1; return { behavior: "allow", updatedInput: input }; },
    });
    assert.equal(asked, 0);
    assert.equal(result(messages).permission_denials.length, 1);
  },

  async tools_budgets_and_events_are_as_the_options_say(test) {
    const script = new Script("ok");
    const hook = { hooks: [{ type: "command", command: "true" }] };
    const messages = await test.ask(script, {
      disallowedTools: ["Bash"], taskBudget: { total: 30000 }, includeHookEvents: true, settings: { hooks: { UserPromptSubmit: [hook] } },
    });
    const { tools, output_config } = script.sent(0).body;
    assert.ok(tools.some((tool) => tool.name === "Read") && !tools.some((tool) => tool.name === "Bash"));
    assert.equal(output_config.task_budget.total, 30000);
    assert.ok(messages.some((message) => message.subtype === "hook_started" && message.hook_event === "UserPromptSubmit"));
  },

  async a_budget_in_dollars_ends_the_turn(test) {
    const script = new Script(call("Bash", { command: "true" }), "done");
    const messages = [];
    try {
      const options = test.options({ maxBudgetUsd: 0.000001, allowedTools: ["Bash"] });
      for await (const message of sdk.query({ prompt: String(script), options })) messages.push(message);
    } catch {}
    assert.equal(result(messages).subtype, "error_max_budget_usd");
  },

  async prompts_that_the_host_composed_are_sent_as_they_are(test) {
    writeFileSync(test.path("note.txt"), "words of the note");
    for (const verbatimPrompts of [false, true]) {
      const script = new Script("ok");
      for await (const _ of sdk.query({ prompt: `see @note.txt ${script}`, options: test.options({ verbatimPrompts }) }));
      assert.equal(JSON.stringify(script.sent(0).body.messages).includes("words of the note"), !verbatimPrompts);
    }
  },

  async another_model_takes_over_where_the_first_is_overloaded(test) {
    const busy = { fault: { error: { status: 529 } } };
    const script = new Script(busy, busy, busy, busy, "done");
    const messages = await test.ask(script, { model: "claude-sonnet-4-5", fallbackModel: "claude-haiku-4-5", env: { ...process.env, LATHE_RETRY_BASE_MS: "1" } });
    assert.equal(result(messages).result, "done");
    assert.equal(script.sent(script.count() - 1).body.model, "claude-haiku-4-5");
  },

  async a_policy_of_the_parent_goes_before_everything(test) {
    const messages = await test.ask(new Script(call("Bash", { command: "mkdir one" }), "done"), {
      managedSettings: { permissions: { deny: ["Bash(mkdir:*)"] } }, allowedTools: ["Bash"],
    });
    assert.ok(!existsSync(test.path("one")));
    assert.equal(result(messages).permission_denials.length, 1);
  },

  async settings_may_come_from_another_folder(test) {
    const other = test.path("elsewhere");
    mkdirSync(`${other}/.claude`, { recursive: true });
    writeFileSync(`${other}/.claude/settings.json`, JSON.stringify({ permissions: { deny: ["Bash(mkdir:*)"] } }));
    const messages = await test.ask(new Script(call("Bash", { command: "mkdir one" }), "done"), {
      projectConfigRoot: other, settingSources: ["project"], allowedTools: ["Bash"],
    });
    assert.equal(result(messages).permission_denials.length, 1);
  },

  async further_folders_may_be_worked_in(test) {
    const other = test.path("../" + randomUUID());
    mkdirSync(other);
    const script = new Script(call("Write", { file_path: `${other}/a`, content: "1" }), "done");
    await test.ask(script, { additionalDirectories: [other], permissionMode: "acceptEdits" });
    assert.equal(readFileSync(`${other}/a`, "utf8"), "1");
  },

  async a_session_has_the_id_and_the_title_that_it_is_given(test) {
    const sessionId = randomUUID();
    const messages = await test.ask(new Script("ok"), { sessionId, title: "About clocks" });
    assert.equal(result(messages).session_id, sessionId);
    assert.equal((await sdk.getSessionInfo(sessionId, { dir: test.cwd })).customTitle, "About clocks");
  },

  async a_session_is_taken_up_at_a_record(test) {
    const run = test.open();
    const first = await run.turn(`one ${new Script("first")}`);
    await run.turn(`two-marker ${new Script("second")}`);
    await run.end();
    const at = first.filter((message) => message.type === "assistant").at(-1).uuid;
    const script = new Script("third");
    await test.ask(script, { resume: result(first).session_id, resumeSessionAt: at, forkSession: true });
    const sent = JSON.stringify(script.sent(0).body.messages);
    assert.ok(sent.includes("first") && !sent.includes("two-marker"));
  },

  async thinking_and_effort_reach_the_request(test) {
    const [off, budget] = [new Script("a"), new Script("b")];
    await test.ask(off, { model: "claude-sonnet-4-6", thinking: { type: "disabled" }, effort: "high" });
    assert.equal(off.sent(0).body.output_config.effort, "high");
    assert.ok(["disabled", undefined].includes(off.sent(0).body.thinking?.type));
    await test.ask(budget, { model: "claude-sonnet-4-5", thinking: { type: "enabled", budgetTokens: 3000 } });
    assert.equal(budget.sent(0).body.thinking.budget_tokens, 3000);
  },

  async a_log_goes_to_a_file_and_nothing_to_standard_error(test) {
    await test.ask(new Script("ok"), { debugFile: test.path("log.txt") });
    assert.ok(existsSync(test.path("log.txt")));
    assert.equal(test.errors, "");
  },

  async the_agents_words_for_the_protocol_are_all_there(test) {
    const messages = await test.ask(new Script("ok"));
    const first = init(messages);
    for (const field of ["cwd", "session_id", "uuid", "tools", "mcp_servers", "model", "permissionMode", "slash_commands", "apiKeySource", "claude_code_version", "output_style", "agents", "skills", "plugins"])
      assert.ok(first[field] !== undefined, field);
    assert.ok(first.capabilities.includes("interrupt_receipt_v1"));
    const end = result(messages);
    for (const field of ["subtype", "duration_ms", "duration_api_ms", "is_error", "num_turns", "session_id", "stop_reason", "total_cost_usd", "usage", "modelUsage", "permission_denials", "uuid", "terminal_reason", "result"])
      assert.ok(end[field] !== undefined, field);
    for (const field of ["server_tool_use", "service_tier", "cache_creation"]) assert.ok(field in end.usage, field);
    const [usage] = Object.values(end.modelUsage);
    for (const field of ["inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "webSearchRequests", "costUSD", "contextWindow", "maxOutputTokens"])
      assert.ok(field in usage, field);
  },

  async the_window_is_told_by_part_with_stable_ids(test) {
    const run = test.open({ systemPrompt: { type: "preset", preset: "claude_code" } });
    await run.turn(new Script("ok"));
    const usage = await run.query.getContextUsage();
    const ids = usage.categories.map((category) => category.id);
    for (const id of ["system_prompt", "system_tools", "messages", "free_space"]) assert.ok(ids.includes(id), id);
    assert.ok(usage.apiUsage.output_tokens > 0);
    await run.end();
  },

  async a_hook_that_must_not_fail_blocks(test) {
    const script = new Script(call("Bash", { command: "echo hi" }), "done");
    const messages = await test.ask(script, {
      hooks: { PreToolUse: [{ onFailure: "block", hooks: [async () => { throw new Error("broken"); }] }] },
    });
    assert.equal(toolResults(messages)[0].message.content[0].is_error, true);
  },
  async an_agent_of_the_host_works_with_its_own_prompt(test) {
    const sub = new Script("the clock is late");
    const script = new Script(call("Agent", { description: "look", prompt: sub.reference(), subagent_type: "watcher", run_in_background: false }), "done");
    const agents = { watcher: { description: "watches clocks", prompt: "You watch clocks.", tools: ["Read"] } };
    const run = test.open({ agents });
    const messages = await run.turn(script);
    assert.ok(init(messages).agents.includes("watcher"));
    assert.ok(init(messages).tools.includes("Task"));
    assert.match(JSON.stringify(toolResults(messages).at(-1)), /the clock is late/);
    assert.match(JSON.stringify(sub.sent(0).body.system), /You watch clocks/);
    assert.deepEqual(sub.sent(0).body.tools.map((tool) => tool.name), ["Read"]);
    assert.ok((await run.query.supportedAgents()).some((agent) => agent.name === "watcher"));
    const usage = await run.query.getContextUsage();
    assert.ok(usage.agents.some((agent) => agent.agentType === "watcher" && agent.tokens > 0));
    assert.ok(usage.categories.some((category) => category.id === "custom_agents"));
    const kinds = messages.filter((message) => message.type === "system").map((message) => message.subtype);
    assert.ok(kinds.includes("task_started") && kinds.includes("task_notification"), kinds.join());
    await run.end();
  },

  async an_agent_in_the_background_starts_a_turn_when_it_is_done(test) {
    const sub = new Script(call("Bash", { command: "while [ ! -e go ]; do sleep 0.02; done" }), "all is well");
    const script = new Script(call("Agent", { description: "look", prompt: sub.reference(), subagent_type: "watcher", run_in_background: true }), "it is on its way", "I have heard");
    const agents = { watcher: { description: "watches clocks", prompt: "You watch clocks." } };
    const messages = [];
    for await (const message of sdk.query({ prompt: String(script), options: test.options({ agents, allowedTools: ["Bash"] }) })) {
      messages.push(message);
      // Not before: what ends during a turn is told within it.
      if (message.type === "result") writeFileSync(test.path("go"), "");
    }
    const results = messages.filter((message) => message.type === "result");
    assert.deepEqual(results.map((message) => message.result), ["it is on its way", "I have heard"]);
    assert.equal(results[1].origin.kind, "task-notification");
    assert.match(JSON.stringify(script.sent(2).body.messages), /all is well/);
  },

  async skills_of_the_project_are_told_and_used(test) {
    mkdirSync(test.path(".claude/skills/winding"), { recursive: true });
    writeFileSync(test.path(".claude/skills/winding/SKILL.md"), "---\nname: winding\ndescription: how clocks are wound\n---\nTurn the key seven times.\n");
    const script = new Script(call("Skill", { skill: "winding" }), "done");
    const run = test.open({ settingSources: ["project"], skills: ["winding"] });
    const messages = await run.turn(script);
    assert.deepEqual(init(messages).skills, ["winding"]);
    assert.ok(init(messages).slash_commands.includes("winding"));
    assert.match(JSON.stringify(script.sent(0).body.messages), /how clocks are wound/);
    assert.match(JSON.stringify(script.sent(1).body.messages), /Turn the key seven times/);
    assert.ok((await run.query.supportedCommands()).some((command) => command.name === "winding"));
    const usage = await run.query.getContextUsage();
    assert.equal(usage.skills.skillFrontmatter[0].name, "winding");
    await run.end();
  },

  async a_plugin_of_the_host_brings_its_skills(test) {
    const folder = test.path("clockwork");
    mkdirSync(`${folder}/.claude-plugin`, { recursive: true });
    mkdirSync(`${folder}/skills/oiling`, { recursive: true });
    writeFileSync(`${folder}/.claude-plugin/plugin.json`, JSON.stringify({ name: "clockwork", version: "1.0.0", description: "for clocks" }));
    writeFileSync(`${folder}/skills/oiling/SKILL.md`, "---\nname: oiling\ndescription: how clocks are oiled\n---\nOne drop.\n");
    const messages = await test.ask(new Script("ok"), { plugins: [{ type: "local", path: folder }] });
    assert.deepEqual(init(messages).plugins.map((plugin) => plugin.name), ["clockwork"]);
    assert.ok(init(messages).skills.includes("clockwork:oiling"), init(messages).skills.join());
  },

  async a_question_of_the_model_is_answered_by_the_host(test) {
    const questions = [{ question: "Which clock?", header: "Clock", multiSelect: false, options: [{ label: "Cuckoo", description: "loud" }, { label: "Sun", description: "quiet" }] }];
    const script = new Script(call("AskUserQuestion", { questions }), "done");
    const asked = [];
    await test.ask(script, {
      toolConfig: { askUserQuestion: { previewFormat: "html" } },
      canUseTool: async (name, input) => { asked.push(name); return { behavior: "allow", updatedInput: { ...input, answers: { "Which clock?": "Sun" } } }; },
    });
    assert.deepEqual(asked, ["AskUserQuestion"]);
    assert.match(script.sent(0).body.tools.find((tool) => tool.name === "AskUserQuestion").description, /HTML/);
    assert.match(JSON.stringify(script.sent(1).body.messages), /Sun/);
  },

  async a_plan_is_made_as_the_host_says_and_agreed_to_by_it(test) {
    const asked = [];
    const script = new Script(call("Write", { file_path: test.path("early"), content: "1" }), call("ExitPlanMode", { plan: "Wind it." }), "done");
    const messages = await test.ask(script, {
      permissionMode: "plan", planModeInstructions: "Draw a dial first.",
      canUseTool: async (name, input) => { asked.push(name); return { behavior: "allow", updatedInput: input }; },
    });
    assert.match(JSON.stringify(script.sent(0).body.messages), /Draw a dial first/);
    assert.ok(!existsSync(test.path("early")), "nothing is written while planning");
    assert.ok(asked.includes("ExitPlanMode"), asked.join());
    assert.equal(result(messages).result, "done");
  },

  async a_server_beside_the_host_is_connected_and_called(test) {
    writeFileSync(test.path("server.py"), `
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method = message["method"]
    if method == "initialize": result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "sky", "version": "1"}}
    elif method == "tools/list": result = {"tools": [{"name": "moon", "description": "the moon", "inputSchema": {"type": "object", "properties": {}}}]}
    elif method == "tools/call": result = {"content": [{"type": "text", "text": "full"}]}
    else: result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
`);
    const script = new Script(call("mcp__sky__moon"), "done");
    const run = test.open({ mcpServers: { sky: { command: "python3", args: [test.path("server.py")] } }, strictMcpConfig: true, allowedTools: ["mcp__sky"] });
    // This waits for servers however long they take; a turn waits two seconds at most.
    assert.equal((await run.query.mcpServerStatus())[0].status, "connected");
    const messages = await run.turn(script);
    assert.equal(init(messages).mcp_servers.find((server) => server.name === "sky").status, "connected");
    assert.match(JSON.stringify(toolResults(messages)[0]), /full/);
    await run.end();
  },

  async a_page_that_a_server_needs_is_the_hosts_to_open(test) {
    writeFileSync(test.path("server.py"), pageServer);
    const asked = [];
    const run = test.open({
      mcpServers: { gate: { command: "python3", args: [test.path("server.py")] } }, allowedTools: ["mcp__gate"],
      onElicitation: async (request) => { asked.push(request); return { action: "accept" }; },
    });
    assert.equal((await run.query.mcpServerStatus())[0].status, "connected");
    const messages = await run.turn(new Script(call("mcp__gate__enter"), "done"));
    assert.equal(asked.length, 1);
    const { serverName, message, mode, url, elicitationId } = asked[0];
    assert.deepEqual([serverName, message, mode, url, elicitationId], ["gate", "Open the gate", "url", "https://example.org/gate", "page-1"]);
    const completed = messages.find((message) => message.subtype === "elicitation_complete");
    assert.equal(completed.mcp_server_name, "gate");
    assert.equal(completed.elicitation_id, "page-1");
    assert.match(JSON.stringify(toolResults(messages)[0]), /the gate is open/);
    await run.end();
  },

  async a_host_starts_the_program_by_a_function_of_its_own(test) {
    const started = [];
    const spawnClaudeCodeProcess = ({ command, args, cwd, env, signal }) => {
      started.push(command);
      return spawn(command, args, { cwd, env, signal, stdio: ["pipe", "pipe", "pipe"] });
    };
    const messages = await test.ask(new Script("ok"), { spawnClaudeCodeProcess });
    assert.equal(result(messages).result, "ok");
    assert.deepEqual(started, [process.env.LATHE_TEST_BINARY]);
  },

  async a_budget_for_thinking_reaches_the_model(test) {
    const script = new Script("ok");
    await test.ask(script, { maxThinkingTokens: 3000, model: "claude-sonnet-4-5" });
    assert.equal(script.sent(0).body.thinking.budget_tokens, 3000);
  },

  async a_host_switches_the_sandbox_on_and_off(test) {
    // The tests switch it off for everybody; here the host decides.
    const { LATHE_SANDBOX: _, ...env } = process.env;
    for (const enabled of [true, false]) {
      const messages = await test.ask(new Script("ok"), { sandbox: { enabled }, env });
      assert.equal(typeof init(messages).sandbox, enabled ? "string" : "undefined");
    }
  },

  async a_store_that_wants_records_at_once_has_them(test) {
    const sessionStore = new sdk.InMemorySessionStore();
    const options = { sessionStore, sessionStoreFlush: "eager", loadTimeoutMs: 5000 };
    const session = result(await test.ask(`remember green ${new Script("a")}`, options)).session_id;
    const script = new Script("b");
    await test.ask(script, { ...options, resume: session });
    assert.match(JSON.stringify(script.sent(0).body.messages), /remember green/);
  },

  async the_words_of_an_agent_reach_a_host_that_wants_them(test) {
    const agents = { watcher: { description: "watches clocks", prompt: "You watch clocks." } };
    for (const forwardSubagentText of [true, false]) {
      const sub = new Script("the clock is late");
      const script = new Script(call("Agent", { description: "look", prompt: sub.reference(), subagent_type: "watcher", run_in_background: false }), "done");
      const messages = await test.ask(script, { agents, forwardSubagentText });
      const inner = messages.filter((message) => message.type === "assistant" && message.parent_tool_use_id);
      assert.equal(JSON.stringify(inner).includes("the clock is late"), forwardSubagentText);
    }
  },

  async a_tool_of_the_host_answers_permission_questions(test) {
    const answer = async ({ input }) => {
      const yes = input.file_path.endsWith("good");
      const reply = yes ? { behavior: "allow", updatedInput: input } : { behavior: "deny", message: "not this" };
      return { content: [{ type: "text", text: JSON.stringify(reply) }] };
    };
    const approve = sdk.tool("approve", "Answers", { tool_name: z.string(), input: z.any(), tool_use_id: z.string() }, answer);
    const gate = sdk.createSdkMcpServer({ name: "gate", version: "1", tools: [approve] });
    const write = (name) => call("Write", { file_path: test.path(name), content: "1" });
    const run = test.open({ mcpServers: { gate }, permissionPromptToolName: "mcp__gate__approve" });
    const messages = await run.turn(new Script(write("good"), write("bad"), "done"));
    assert.ok(existsSync(test.path("good")) && !existsSync(test.path("bad")));
    assert.match(JSON.stringify(toolResults(messages)[1]), /not this/);
    await run.end();
  },

  async a_turn_is_dropped_on_resume_only_where_it_is_the_one_that_was_meant(test) {
    const run = test.open();
    const first = await run.turn(`one ${new Script("first")}`);
    await run.turn(`two-marker ${new Script("second")}`);
    await run.end();
    const resume = result(first).session_id;
    const resumeSessionAt = first.filter((message) => message.type === "assistant").at(-1).uuid;
    const prompts = (await sdk.getSessionMessages(resume, { dir: test.cwd })).filter((message) => message.type === "user").map((message) => message.uuid);
    await assert.rejects(test.ask(new Script("x"), { resume, resumeSessionAt, resumeDropsTurn: prompts[0] }));
    assert.match(test.errors, /Resume rejected by --resume-drops-turn:/);
    const script = new Script("third");
    await test.ask(script, { resume, resumeSessionAt, resumeDropsTurn: prompts[1] });
    assert.ok(!JSON.stringify(script.sent(0).body.messages).includes("two-marker"));
  },

  async a_log_goes_to_standard_error_where_the_host_wants_it(test) {
    await test.ask(new Script("ok"), { debug: true });
    assert.notEqual(test.errors, "");
  },

  async an_interruption_spares_work_that_the_host_can_stop_by_itself(test) {
    const waits = { command: "while [ ! -e go ]; do sleep 0.02; done", run_in_background: true };
    const run = test.open({ perTaskStopAffordance: true, includePartialMessages: true, allowedTools: ["Bash"] });
    let stopped;
    await run.turn(new Script(call("Bash", waits), hanging("a long answer")), {}, async (message) => {
      if (message.event?.delta?.type === "text_delta") stopped ??= run.query.interrupt();
    });
    await stopped;
    writeFileSync(test.path("go"), "");
    const ended = await run.until((message) => message.subtype === "task_notification");
    assert.equal(ended.status, "completed");
    run.query.close();
  },

  async a_host_starts_the_program_with_a_runtime_and_its_arguments(test) {
    const script = test.path("wrapper.mjs");
    writeFileSync(script, `
      import { spawn } from "node:child_process";
      import { writeFileSync } from "node:fs";
      writeFileSync(${JSON.stringify(test.path("arguments"))}, process.execArgv.join(" "));
      const child = spawn(${JSON.stringify(process.env.LATHE_TEST_BINARY)}, process.argv.slice(2), { stdio: "inherit" });
      child.on("exit", (code) => process.exit(code ?? 1));
      for (const name of ["SIGTERM", "SIGINT"]) process.on(name, () => child.kill(name));
    `);
    const messages = await test.ask(new Script("ok"), { pathToClaudeCodeExecutable: script, executable: "node", executableArgs: ["--no-warnings"] });
    assert.equal(result(messages).result, "ok");
    assert.equal(readFileSync(test.path("arguments"), "utf8"), "--no-warnings");
  },
};

await run(behaviours);
