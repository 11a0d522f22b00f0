// Agents, servers, plugins and policies of a host. Usage: node extending.mjs <node_modules> [behaviour …]

import assert from "node:assert/strict";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { Script, call, init, result, run, sdk, toolResults, z } from "./support.mjs";

const agents = { watcher: { description: "watches clocks", prompt: "You watch clocks.", tools: ["Bash"] } };
const order = (sub, more = {}) => call("Agent", { description: "look", prompt: sub.reference(), subagent_type: "watcher", run_in_background: false, ...more });
const systems = (messages, subtype) => messages.filter((message) => message.type === "system" && message.subtype === subtype);

/** A plugin with a skill and an MCP server that can't be connected. */
function plugin(test) {
  const folder = test.path("clockwork");
  mkdirSync(`${folder}/.claude-plugin`, { recursive: true });
  mkdirSync(`${folder}/skills/oiling`, { recursive: true });
  writeFileSync(`${folder}/.claude-plugin/plugin.json`, JSON.stringify({ name: "clockwork", version: "1.0.0", description: "for clocks", mcpServers: { tower: { command: "false" } } }));
  writeFileSync(`${folder}/skills/oiling/SKILL.md`, "---\nname: oiling\ndescription: how clocks are oiled\n---\nOne drop.\n");
  return folder;
}

/** A server in this process whose tools note that they were called. */
function tower(called, more = {}) {
  const strike = sdk.tool("strike", "strikes", { times: z.number() }, async ({ times }) => {
    called.push(times);
    return { content: [{ type: "text", text: `struck ${times}` }] };
  });
  return sdk.createSdkMcpServer({ name: "tower", version: "1.0.0", tools: [strike], ...more });
}

const behaviours = {
  async what_an_agent_is_doing_is_told_in_a_few_words(test) {
    // Whoever is asked after that, the agent or the small model, gets the same words.
    const sub = new Script(call("Bash", { command: "while [ ! -e go ]; do sleep 0.02; done" }), "Waiting for the hour", "done", "done", "done");
    const open = test.open({ agents, allowedTools: ["Bash"], agentProgressSummaries: true, env: { ...process.env, LATHE_AGENT_PROGRESS_MS: "20" } });
    const messages = await open.turn(new Script(order(sub), "fine"), {}, (message) => {
      if (message.subtype === "task_progress" && message.summary) writeFileSync(test.path("go"), "");
    });
    const told = systems(messages, "task_progress").find((message) => message.summary);
    assert.equal(told.summary, "Waiting for the hour");
    assert.equal(told.last_tool_name, "Bash");
    assert.equal(told.usage.tool_uses, 1);
    assert.equal(result(messages).result, "fine");
    await open.end();
  },

  async nothing_is_told_of_agents_unless_it_is_asked_for(test) {
    const sub = new Script(call("Bash", { command: "true" }), "done");
    const messages = await test.ask(new Script(order(sub), "fine"), { agents, allowedTools: ["Bash"], env: { ...process.env, LATHE_AGENT_PROGRESS_MS: "1" } });
    assert.ok(systems(messages, "task_progress").every((message) => message.summary === undefined));
    assert.equal(sub.count(), 2);
  },

  async transcripts_of_agents_are_found_by_the_helpers_and_reach_a_store(test) {
    const store = new sdk.InMemorySessionStore();
    const sub = new Script("the clock is late");
    const messages = await test.ask(new Script(order(sub), "fine"), { agents, sessionStore: store });
    const session = result(messages).session_id;
    const [agent] = await sdk.listSubagents(session, { dir: test.cwd });
    assert.ok(agent);
    const kept = await sdk.getSubagentMessages(session, agent, { dir: test.cwd });
    assert.deepEqual(kept.map((message) => message.type), ["user", "assistant"]);
    assert.match(JSON.stringify(kept), /the clock is late/);
    const stored = await sdk.getSubagentMessages(session, agent, { dir: test.cwd, sessionStore: store });
    assert.equal(stored.length, 2);
  },

  async servers_in_the_host_need_no_handshake_of_ours(test) {
    const called = [], seen = [];
    const server = tower(called);
    const original = server.instance.connect.bind(server.instance);
    server.instance.connect = async (transport) => {
      await original(transport);
      const receive = transport.onmessage;
      transport.onmessage = (message, extra) => { seen.push(message.method); return receive(message, extra); };
    };
    const script = new Script(call("mcp__tower__strike", { times: 12 }), "done");
    const messages = await test.ask(script, { mcpServers: { tower: server }, allowedTools: ["mcp__tower"] });
    assert.deepEqual(called, [12]);
    assert.match(JSON.stringify(toolResults(messages)[0]), /struck 12/);
    assert.equal(seen.filter((method) => method === "initialize").length, 1, seen.join());
    assert.equal(seen.filter((method) => method === "tools/list").length, 1, seen.join());
  },

  async a_host_may_say_which_of_its_tools_are_asked_about_and_refused(test) {
    const called = [], asked = [];
    const server = { ...tower(called), tools: [{ name: "strike", permission_policy: "always_ask" }] };
    const options = {
      mcpServers: { tower: server }, allowedTools: ["mcp__tower"],
      canUseTool: async (name, input, { mcpServer }) => { asked.push([name, mcpServer]); return { behavior: "allow", updatedInput: input }; },
    };
    const first = await test.ask(new Script(call("mcp__tower__strike", { times: 1 }), "done"), options);
    assert.deepEqual([asked, called], [[["mcp__tower__strike", { name: "tower", source: "sdk" }]], [1]]);
    assert.equal(init(first).mcp_servers[0].source, "sdk");
    const refused = { ...tower(called), tools: [{ name: "strike", permission_policy: "always_deny" }] };
    const messages = await test.ask(new Script(call("mcp__tower__strike", { times: 2 }), "done"), { ...options, mcpServers: { tower: refused } });
    assert.deepEqual(called, [1]);
    assert.equal(toolResults(messages)[0].message.content[0].is_error, true);
  },

  async what_a_host_says_of_tools_when_it_sets_its_servers_replaces_what_it_said(test) {
    const called = [], asked = [];
    const server = tower(called);
    const saying = (permission_policy) => ({ tower: { ...server, tools: permission_policy ? [{ name: "strike", permission_policy }] : [] } });
    const open = test.open({
      mcpServers: saying("always_deny"), allowedTools: ["mcp__tower"],
      canUseTool: async (name, input) => { asked.push(input.times); return { behavior: "allow", updatedInput: input }; },
    });
    const strike = async (times) => {
      const messages = await open.turn(new Script(call("mcp__tower__strike", { times }), "done"));
      return toolResults(messages)[0].message.content[0].is_error === true;
    };
    assert.equal(await strike(1), true);
    assert.deepEqual((await open.query.setMcpServers(saying("always_ask"))).errors, {});
    assert.equal(await strike(2), false);
    assert.deepEqual([asked, called], [[2], [2]]);
    await open.query.setMcpServers(saying());
    assert.equal(await strike(3), false);
    assert.deepEqual([asked, called], [[2], [2, 3]]);
    await open.query.setMcpServers(saying("always_deny"));
    assert.equal(await strike(4), true);
    // What the host set holds for the conversation that begins then, too.
    await open.turn("/clear");
    assert.equal(await strike(5), true);
    assert.deepEqual([asked, called], [[2], [2, 3]]);
    await open.end();
  },

  async a_server_may_be_asked_about_where_everything_else_passes(test) {
    const called = [], asked = [];
    const open = test.open({
      mcpServers: { tower: tower(called) }, permissionMode: "bypassPermissions", allowDangerouslySkipPermissions: true,
      env: { ...process.env, IS_SANDBOX: "1" },
      canUseTool: async (name, input) => { asked.push(input.times); return { behavior: "allow", updatedInput: input }; },
    });
    const strike = (times) => open.turn(new Script(call("mcp__tower__strike", { times }), "done"));
    await strike(1);
    assert.deepEqual(await open.query.setMcpPermissionModeOverride("tower", "default"), {});
    await strike(2);
    assert.match((await open.query.setMcpPermissionModeOverride("steeple", "auto")).warning, /steeple/);
    await assert.rejects(open.query.setMcpPermissionModeOverride("tower", "bypassPermissions"), /mode/);
    await open.query.setMcpPermissionModeOverride("tower", null);
    await strike(3);
    assert.deepEqual([asked, called], [[2], [1, 2, 3]]);
    await open.end();
  },

  async plugins_are_added_while_a_session_runs_unless_it_is_busy(test) {
    const path = plugin(test);
    const open = test.open({ allowedTools: ["Bash"] });
    const first = init(await open.turn(new Script("a")));
    assert.ok(first.capabilities.includes("reload_plugins_refuse_if_busy_v1"));
    assert.ok(!first.skills.includes("clockwork:oiling"));
    const added = { addPlugins: [{ type: "local", path }] };
    const held = await open.query.reloadPlugins({ ...added, holdOnCacheImpact: true });
    assert.equal(held.held, true);
    assert.deepEqual(held.cache_impact.mcp_servers_added, ["plugin:clockwork:tower"]);
    assert.ok(!held.plugins.some((plugin) => plugin.name === "clockwork"));
    await assert.rejects(open.query.reloadPlugins({ addPlugins: [{ type: "local", path: "clockwork" }] }), /absolute/);
    await open.turn(new Script(call("Bash", { command: "while [ ! -e go ]; do sleep 0.02; done" }), "b"), {}, async (message) => {
      if (message.type === "assistant" && message.message.content[0].type === "tool_use") {
        await assert.rejects(open.query.reloadPlugins({ ...added, refuseIfBusy: true }), (error) => error.errorCode === "reload_plugins_busy");
        writeFileSync(test.path("go"), "");
      }
    });
    const quiet = { addPlugins: [{ type: "local", path, skipMcpDiscovery: true }] };
    const reloaded = await open.query.reloadPlugins({ ...quiet, holdOnCacheImpact: true, refuseIfBusy: true });
    assert.equal(reloaded.held, false);
    assert.ok(reloaded.plugins.some((plugin) => plugin.name === "clockwork"));
    const after = init(await open.turn(new Script("c")));
    assert.ok(after.skills.includes("clockwork:oiling"));
    assert.equal(after.mcp_servers.length, 0);
    await open.end();
  },

  async hooks_that_are_sent_again_replace_those_before(test) {
    const seen = [];
    const hook = { hooks: [async () => { seen.push(1); return {}; }] };
    const open = test.open({ hooks: { UserPromptSubmit: [hook] } });
    await open.turn(new Script("a"));
    const again = await open.query.reinitialize();
    assert.equal(again.hooks_applied, true);
    assert.ok(again.capabilities.includes("interrupt_receipt_v1"));
    await open.turn(new Script("b"));
    assert.equal(seen.length, 2);
    await open.end();
  },

  async a_call_to_a_server_in_the_host_has_the_time_that_the_host_says(test) {
    const slow = sdk.tool("wait", "waits", {}, () => new Promise(() => {}));
    const server = sdk.createSdkMcpServer({ name: "tower", tools: [slow], timeout: 1000 });
    const messages = await test.ask(new Script(call("mcp__tower__wait"), "done"), { mcpServers: { tower: server }, allowedTools: ["mcp__tower"] });
    assert.equal(toolResults(messages)[0].message.content[0].is_error, true);
    assert.equal(result(messages).result, "done");
  },

  async plugins_come_with_the_first_request_and_without_their_servers_where_the_host_says_so(test) {
    const path = plugin(test);
    for (const [pluginDelivery, skipMcpDiscovery, servers] of [["initialize", false, 1], ["initialize", true, 0], ["argv", true, 0]]) {
      const messages = await test.ask(new Script("ok"), { plugins: [{ type: "local", path, skipMcpDiscovery }], pluginDelivery });
      assert.ok(init(messages).skills.includes("clockwork:oiling"), pluginDelivery);
      assert.equal(init(messages).mcp_servers.length, servers, `${pluginDelivery} ${skipMcpDiscovery}`);
    }
  },

  async a_policy_of_the_parent_may_come_with_the_first_request(test) {
    const messages = await test.ask(new Script(call("Bash", { command: "mkdir one" }), "done"), {
      managedSettings: { permissions: { deny: ["Bash(mkdir:*)"] } }, managedSettingsDelivery: "initialize", allowedTools: ["Bash"],
    });
    assert.ok(!existsSync(test.path("one")));
    assert.equal(result(messages).permission_denials.length, 1);
  },

  async a_title_is_for_a_new_session(test) {
    const first = result(await test.ask(new Script("a"), { title: "About clocks" }));
    await test.ask(new Script("b"), { resume: first.session_id, title: "About bells" });
    assert.equal((await sdk.getSessionInfo(first.session_id, { dir: test.cwd })).customTitle, "About clocks");
  },

  async a_kept_system_prompt_is_the_same_after_a_resume(test) {
    const [one, two] = [new Script("a"), new Script("b")];
    const prompt = (append) => ({ type: "preset", preset: "claude_code", append, snapshot: true });
    const first = result(await test.ask(one, { systemPrompt: prompt("First words.") }));
    await test.ask(two, { resume: first.session_id, systemPrompt: prompt("Second words.") });
    assert.deepEqual(two.sent(0).body.system, one.sent(0).body.system);
  },

  async a_hook_that_goes_on_in_the_background_holds_up_nothing(test) {
    const messages = await test.ask(new Script(call("Bash", { command: "mkdir made" }), "done"), {
      hooks: { PreToolUse: [{ hooks: [async () => ({ async: true, asyncTimeout: 60_000 })] }] }, allowedTools: ["Bash(mkdir:*)"],
    });
    assert.equal(result(messages).result, "done");
    assert.ok(existsSync(test.path("made")));
  },

  async hooks_of_the_host_hear_of_files_that_they_name(test) {
    const heard = [];
    mkdirSync(test.path("other"));
    const open = test.open({
      allowedTools: ["Bash"],
      hooks: {
        CwdChanged: [{ hooks: [async () => ({ hookSpecificOutput: { hookEventName: "CwdChanged", watchPaths: [test.path("other/.env")] } })] }],
        FileChanged: [{ hooks: [async (input) => { heard.push([input.file_path, input.event]); return {}; }] }],
      },
    });
    await open.turn(new Script(call("Bash", { command: "cd other" }), "done"));
    writeFileSync(test.path("other/.env"), "A=1");
    while (!heard.length) await new Promise((resolve) => setTimeout(resolve, 20));
    assert.deepEqual(heard[0], [test.path("other/.env"), "add"]);
    await open.end();
  },

  async no_dialog_is_asked_that_a_host_did_not_declare(test) {
    let dialogs = 0;
    const messages = await test.ask(new Script(call("AskUserQuestion", { questions: [{ question: "Which?", header: "Which", multiSelect: false, options: [{ label: "A", description: "a" }, { label: "B", description: "b" }] }] }), "done"), {
      onUserDialog: async () => { dialogs += 1; return { behavior: "cancelled" }; }, supportedDialogKinds: ["refusal_fallback_prompt"],
      canUseTool: async (name, input) => ({ behavior: "allow", updatedInput: { ...input, answers: { "Which?": "B" } } }),
    });
    assert.equal(dialogs, 0);
    assert.equal(result(messages).result, "done");
  },

  async a_command_in_the_background_is_told_of_until_it_ends(test) {
    const open = test.open({ allowedTools: ["Bash"] });
    const script = new Script(call("Bash", { command: "while [ ! -e go ]; do sleep 0.02; done", run_in_background: true }), "started", "it is over");
    const messages = await open.turn(script);
    const started = systems(messages, "task_started")[0];
    assert.equal(started.task_type, "local_bash");
    assert.deepEqual(systems(messages, "background_tasks_changed").at(-1).tasks.map((task) => task.task_id), [started.task_id]);
    writeFileSync(test.path("go"), "");
    const ended = await open.until((message) => message.subtype === "task_notification");
    assert.deepEqual([ended.task_id, ended.status], [started.task_id, "completed"]);
    const second = await open.until((message) => message.type === "result");
    assert.deepEqual([second.result, second.origin.kind], ["it is over", "task-notification"]);
    await open.end();
  },

  async the_window_is_drawn_as_a_grid(test) {
    const open = test.open();
    await open.turn(new Script("ok"));
    const { gridRows } = await open.query.getContextUsage();
    assert.deepEqual(gridRows.map((row) => row.length), Array(10).fill(10));
    await open.end();
  },

  async commands_and_skills_of_the_project_are_prompts(test) {
    const [greeting, winding] = [new Script("hello"), new Script("wound")];
    mkdirSync(test.path(".claude/commands"), { recursive: true });
    mkdirSync(test.path(".claude/skills/winding"), { recursive: true });
    writeFileSync(test.path(".claude/commands/greet.md"), `---\ndescription: greets\n---\nGreet $ARGUMENTS. ${greeting}\n`);
    writeFileSync(test.path(".claude/skills/winding/SKILL.md"), `---\nname: winding\ndescription: winds\n---\nTurn the key. ${winding}\n`);
    const open = test.open({ settingSources: ["project"] });
    assert.equal(result(await open.turn("/greet the clockmaker")).result, "hello");
    assert.match(JSON.stringify(greeting.sent(0).body.messages), /Greet the clockmaker\./);
    assert.equal(result(await open.turn("/winding")).result, "wound");
    await open.end();
  },
};

await run(behaviours);
