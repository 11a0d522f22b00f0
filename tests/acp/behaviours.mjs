// The official TypeScript client of the Agent Client Protocol drives `lathe acp`.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { Script, call, hanging, pageServer, run } from "../sdk/support.mjs";
import { Editor, selected } from "./editor.mjs";

const write = (name, content) => (test) => call("Write", { file_path: test.path(name), content });

await run({
  async initialize_says_what_lathe_can_do(test) {
    const editor = await Editor.start(test);
    const { protocolVersion, agentInfo, agentCapabilities } = editor.initialized;
    assert.equal(protocolVersion, 1);
    assert.equal(agentInfo.name, "lathe");
    assert.equal(agentCapabilities.loadSession, true);
    assert.deepEqual(agentCapabilities.promptCapabilities, { image: true, audio: false, embeddedContext: true });
    await editor.end();
  },

  async a_prompt_is_answered_in_chunks(test) {
    const editor = await Editor.start(test);
    await editor.open();
    assert.deepEqual(await editor.prompt(new Script({ text: "Good morning to you.", delta_characters: 4 })), { stopReason: "end_turn" });
    assert.equal(editor.text(), "Good morning to you.");
    assert.ok(editor.of("agent_message_chunk").length > 2);
    await editor.end();
  },

  async nothing_but_messages_is_on_standard_output(test) {
    const child = spawn(process.env.LATHE_TEST_BINARY, ["acp"], { cwd: test.cwd, env: process.env });
    let out = "";
    child.stdout.on("data", (text) => { out += text; });
    child.stdin.end('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n');
    assert.equal(await new Promise((resolve) => child.on("exit", resolve)), 0);
    for (const line of out.trim().split("\n")) assert.equal(JSON.parse(line).jsonrpc, "2.0");
  },

  async thoughts_are_told_apart_from_the_answer(test) {
    const editor = await Editor.start(test);
    await editor.open();
    await editor.prompt(new Script({ content: [{ type: "thinking", thinking: "let me see" }, { type: "text", text: "so" }] }));
    assert.equal(editor.of("agent_thought_chunk").map((it) => it.content.text).join(""), "let me see");
    assert.equal(editor.text(), "so");
    await editor.end();
  },

  async a_call_is_shown_from_its_beginning_to_its_result(test) {
    writeFileSync(test.path("a.txt"), "one\ntwo\n");
    const editor = await Editor.start(test);
    await editor.open();
    await editor.prompt(new Script(call("Read", { file_path: test.path("a.txt") }), "done"));
    const states = editor.updates.map((it) => it.update).filter((it) => it.toolCallId).map((it) => it.status).filter(Boolean);
    assert.deepEqual(states, ["pending", "in_progress", "completed"]);
    const [read] = editor.calls();
    assert.equal(read.kind, "read");
    assert.deepEqual(read.locations, [{ path: test.path("a.txt") }]);
    assert.deepEqual(read.rawInput, { file_path: test.path("a.txt") });
    assert.match(read.content[0].content.text, /two/);
    await editor.end();
  },

  async a_call_that_fails_is_shown_as_failed(test) {
    const editor = await Editor.start(test);
    await editor.open();
    await editor.prompt(new Script(call("Read", { file_path: test.path("none.txt") }), "done"));
    assert.equal(editor.calls()[0].status, "failed");
    await editor.end();
  },

  async a_write_is_asked_about_with_its_change(test) {
    const editor = await Editor.start(test);
    await editor.open();
    await editor.prompt(new Script(write("new.txt", "hello\n")(test), "done"));
    const [question] = editor.asked;
    assert.equal(question.sessionId, editor.session.sessionId);
    assert.deepEqual(question.toolCall.content[0], { type: "diff", path: test.path("new.txt"), oldText: null, newText: "hello\n" });
    assert.deepEqual(question.options.map((it) => it.kind), ["allow_once", "allow_always", "reject_once"]);
    assert.equal(readFileSync(test.path("new.txt"), "utf8"), "hello\n");
    assert.equal(editor.calls()[0].content[0].type, "diff");
    await editor.end();
  },

  async no_is_told_to_the_model(test) {
    const script = new Script(write("new.txt", "x")(test), "a pity");
    const editor = await Editor.start(test, { permission: () => selected("reject") });
    await editor.open();
    assert.equal((await editor.prompt(script)).stopReason, "end_turn");
    assert.ok(!existsSync(test.path("new.txt")));
    assert.equal(editor.calls()[0].status, "failed");
    assert.equal(script.count(), 2);
    await editor.end();
  },

  async always_is_asked_once(test) {
    const editor = await Editor.start(test, { permission: () => selected("always") });
    await editor.open();
    await editor.prompt(new Script(write("a.txt", "1")(test), write("b.txt", "2")(test), "done"));
    assert.equal(editor.asked.length, 1);
    assert.ok(existsSync(test.path("b.txt")));
    await editor.end();
  },

  async an_answer_that_was_not_offered_is_a_no(test) {
    const editor = await Editor.start(test, { permission: () => selected("everything") });
    await editor.open();
    await editor.prompt(new Script(write("a.txt", "1")(test), "done"));
    assert.ok(!existsSync(test.path("a.txt")));
    await editor.end();
  },

  async an_edit_shows_the_lines_that_changed(test) {
    writeFileSync(test.path("a.txt"), "one\ntwo\nthree\n");
    const editor = await Editor.start(test);
    await editor.open();
    const path = test.path("a.txt");
    await editor.prompt(new Script(call("Read", { file_path: path }), call("Edit", { file_path: path, old_string: "two", new_string: "2" }), "done"));
    const edit = editor.calls()[1];
    assert.equal(edit.kind, "edit");
    assert.deepEqual(edit.content, [{ type: "diff", path, oldText: "one\ntwo\nthree\n", newText: "one\n2\nthree\n" }]);
    await editor.end();
  },

  async a_command_is_shown_whole_in_its_question(test) {
    const command = `printf '%s' ${"x".repeat(400)} > out.txt\ncat out.txt`;
    const editor = await Editor.start(test);
    await editor.open();
    await editor.prompt(new Script(call("Bash", { command }), "done"));
    assert.equal(editor.asked[0].toolCall.title, command);
    assert.equal(editor.asked[0].toolCall.kind, "execute");
    assert.match(editor.calls()[0].content[0].content.text, /xxxx/);
    await editor.end();
  },

  async cancel_while_the_model_writes(test) {
    const editor = await Editor.start(test);
    await editor.open();
    const prompt = editor.prompt(new Script(hanging("I never come to an end")));
    await editor.until(() => editor.text() !== "");
    await editor.cancel();
    assert.deepEqual(await prompt, { stopReason: "cancelled" });
    assert.deepEqual(await editor.prompt(new Script("again")), { stopReason: "end_turn" });
    await editor.end();
  },

  async cancel_while_a_command_runs(test) {
    const editor = await Editor.start(test);
    await editor.open();
    const prompt = editor.prompt(new Script(call("Bash", { command: "echo begun; sleep 600" }), "never"));
    await editor.until(() => editor.calls()[0]?.status === "in_progress");
    await editor.cancel();
    assert.deepEqual(await prompt, { stopReason: "cancelled" });
    assert.equal(editor.calls()[0].status, "failed");
    await editor.end();
  },

  async cancel_while_a_question_is_open(test) {
    let answer;
    const editor = await Editor.start(test, { permission: () => new Promise((resolve) => { answer = resolve; }) });
    await editor.open();
    const prompt = editor.prompt(new Script(write("a.txt", "1")(test), "never"));
    while (!answer) await new Promise((resolve) => setTimeout(resolve, 5));
    await editor.cancel();
    answer({ outcome: { outcome: "cancelled" } });
    assert.deepEqual(await prompt, { stopReason: "cancelled" });
    assert.ok(!existsSync(test.path("a.txt")));
    await editor.end();
  },

  async cancel_before_anything_began(test) {
    const editor = await Editor.start(test);
    await editor.open();
    const prompt = editor.prompt(new Script(hanging("too late")));
    await editor.cancel();
    assert.deepEqual(await prompt, { stopReason: "cancelled" });
    await editor.end();
  },

  async cancel_of_an_idle_session_is_nothing(test) {
    const editor = await Editor.start(test);
    await editor.open();
    await editor.cancel();
    await editor.cancel("no-such-session");
    assert.deepEqual(await editor.prompt(new Script("fine")), { stopReason: "end_turn" });
    await editor.end();
  },

  async two_sessions_run_at_once(test) {
    mkdirSync(test.path("one"));
    mkdirSync(test.path("two"));
    const editor = await Editor.start(test);
    const one = await editor.open({ cwd: test.path("one") });
    const two = await editor.open({ cwd: test.path("two") });
    assert.notEqual(one.sessionId, two.sessionId);
    const slow = editor.prompt(new Script(hanging("the first waits")), one.sessionId);
    await editor.until(() => editor.text(one.sessionId) !== "");
    assert.deepEqual(await editor.prompt(new Script("the second answers"), two.sessionId), { stopReason: "end_turn" });
    assert.equal(editor.text(two.sessionId), "the second answers");
    await editor.cancel(one.sessionId);
    assert.deepEqual(await slow, { stopReason: "cancelled" });
    await editor.end();
  },

  async a_loaded_session_looks_as_it_did(test) {
    writeFileSync(test.path("a.txt"), "one\n");
    const editor = await Editor.start(test);
    await editor.open();
    const path = test.path("a.txt");
    const prompt = new Script({ content: [{ type: "thinking", thinking: "hm", signature: "s" }, { type: "text", text: "I look." }, { type: "tool_use", name: "Read", input: { file_path: path } }] },
      call("Edit", { file_path: path, old_string: "one", new_string: "1" }),
      call("TaskCreate", { subject: "look", description: "at it" }), call("TaskUpdate", { taskId: "1", status: "completed" }), "It is done.");
    await editor.prompt(prompt);
    const state = (it) => ({
      text: it.text(), thoughts: it.of("agent_thought_chunk").map((one) => one.content.text).join(""),
      calls: it.calls().map(({ sessionUpdate, ...call }) => call), plan: it.of("plan").at(-1)?.entries,
    });
    const live = state(editor);
    const id = editor.session.sessionId;
    await editor.end();
    const later = await Editor.start(test);
    const loaded = await later.request("session/load", { sessionId: id, cwd: test.cwd, mcpServers: [] });
    assert.ok(loaded.configOptions.length >= 4);
    assert.deepEqual(state(later), live);
    assert.equal(later.of("user_message_chunk").map((it) => it.content.text).join(""), String(prompt));
    assert.deepEqual(live.plan, [{ content: "look", priority: "medium", status: "completed" }]);
    // It goes on where it was.
    const next = new Script("more");
    assert.equal((await later.prompt(next, id)).stopReason, "end_turn");
    assert.ok(next.sent(0).body.messages.length > 6);
    await later.end();
  },

  async a_resumed_session_is_not_replayed(test) {
    const editor = await Editor.start(test);
    await editor.open();
    await editor.prompt(new Script("first"));
    const id = editor.session.sessionId;
    await editor.end();
    const later = await Editor.start(test);
    await later.request("session/resume", { sessionId: id, cwd: test.cwd, mcpServers: [] });
    assert.equal(later.of("user_message_chunk").length + later.of("agent_message_chunk").length, 0);
    const next = new Script("second");
    await later.prompt(next, id);
    assert.equal(next.sent(0).body.messages.length, 3);
    await later.end();
  },

  async a_fork_leaves_the_session_alone(test) {
    const editor = await Editor.start(test);
    await editor.open();
    await editor.prompt(new Script("first"));
    const fork = await editor.request("session/fork", { sessionId: editor.session.sessionId, cwd: test.cwd, mcpServers: [] });
    assert.notEqual(fork.sessionId, editor.session.sessionId);
    const [one, other] = [new Script("in the fork"), new Script("in the first")];
    await editor.prompt(one, fork.sessionId);
    await editor.prompt(other);
    assert.equal(one.sent(0).body.messages.length, 3);
    assert.equal(other.sent(0).body.messages.length, 3);
    await editor.end();
  },

  async sessions_are_listed_closed_and_deleted(test) {
    const editor = await Editor.start(test);
    await editor.open();
    await editor.prompt(new Script("x"));
    const id = editor.session.sessionId;
    const listed = async () => (await editor.request("session/list", { cwd: test.cwd })).sessions;
    const [session] = await listed();
    assert.equal(session.sessionId, id);
    assert.equal(session.cwd, test.cwd);
    assert.ok(session.title && session.updatedAt);
    await editor.request("session/close", { sessionId: id });
    await assert.rejects(editor.prompt(new Script("y")), (error) => error.code === -32002);
    await editor.request("session/delete", { sessionId: id });
    assert.deepEqual(await listed(), []);
    await assert.rejects(editor.request("session/load", { sessionId: id, cwd: test.cwd, mcpServers: [] }), (error) => error.code === -32002);
    await editor.end();
  },

  async a_list_comes_in_pages(test) {
    const editor = await Editor.start(test);
    for (let index = 0; index < 52; index += 1) {
      const { sessionId } = await editor.open();
      await editor.prompt(new Script(String(index)), sessionId);
      await editor.request("session/close", { sessionId });
    }
    const first = await editor.request("session/list", { cwd: test.cwd });
    assert.equal(first.sessions.length, 50);
    const second = await editor.request("session/list", { cwd: test.cwd, cursor: first.nextCursor });
    assert.equal(second.sessions.length, 2);
    assert.ok(!second.nextCursor);
    await assert.rejects(editor.request("session/list", { cursor: "x" }), /cursor/);
    await editor.end();
  },

  async the_mode_is_chosen_and_told(test) {
    const editor = await Editor.start(test);
    const { modes, configOptions } = await editor.open();
    assert.equal(modes.currentModeId, "default");
    assert.ok(!modes.availableModes.some((it) => it.id === "bypassPermissions"));
    assert.deepEqual(configOptions.map((it) => it.id), ["mode", "model", "effort", "thinking"]);
    await editor.request("session/set_mode", { sessionId: editor.session.sessionId, modeId: "acceptEdits" });
    await editor.until(() => editor.of("current_mode_update").length > 0);
    assert.equal(editor.of("current_mode_update")[0].currentModeId, "acceptEdits");
    await editor.prompt(new Script(write("a.txt", "1")(test), "done"));
    assert.equal(editor.asked.length, 0);
    assert.ok(existsSync(test.path("a.txt")));
    await assert.rejects(editor.request("session/set_mode", { sessionId: editor.session.sessionId, modeId: "bypassPermissions" }), (error) => error.code === -32602);
    await assert.rejects(editor.request("session/set_mode", { sessionId: editor.session.sessionId, modeId: "fast" }), /fast/);
    await editor.end();
  },

  async model_effort_and_thinking_are_options(test) {
    const editor = await Editor.start(test);
    await editor.open();
    const set = async (configId, value) => {
      const { configOptions } = await editor.request("session/set_config_option", { sessionId: editor.session.sessionId, configId, value });
      return configOptions.find((it) => it.id === configId).currentValue;
    };
    assert.match(await set("model", "haiku"), /haiku/);
    assert.equal(await set("effort", "low"), "low");
    assert.equal(await set("thinking", "off"), "off");
    const script = new Script("ok");
    await editor.prompt(script);
    assert.match(script.sent(0).body.model, /haiku/);
    await assert.rejects(set("effort", "enormous"), (error) => error.code === -32602);
    await assert.rejects(set("colour", "red"), /colour/);
    await editor.end();
  },

  async commands_are_offered_and_run(test) {
    mkdirSync(test.path(".claude/commands"), { recursive: true });
    writeFileSync(test.path(".claude/commands/greet.md"), "---\ndescription: Greets\nargument-hint: <name>\n---\nSay hello to $ARGUMENTS.\n");
    const editor = await Editor.start(test);
    await editor.open();
    await editor.until(() => editor.of("available_commands_update").length > 0);
    const commands = editor.of("available_commands_update")[0].availableCommands;
    assert.deepEqual(commands.find((it) => it.name === "greet"), { name: "greet", description: "Greets", input: { hint: "<name>" } });
    assert.ok(!commands.some((it) => it.name === "clear"));
    assert.deepEqual(await editor.prompt("/version"), { stopReason: "end_turn" });
    assert.match(editor.text(), /\d+\.\d+/);
    const script = new Script("hello");
    await editor.prompt(`/greet Ada ${script}`);
    assert.match(JSON.stringify(script.sent(0).body.messages), /Say hello to Ada/);
    await editor.end();
  },

  async compaction_is_shown_and_answered(test) {
    const editor = await Editor.start(test, { capabilities: { session: { compaction: {} } } });
    await editor.open();
    await editor.prompt(new Script("first", "<summary>short</summary>", "<summary>short</summary>"));
    await editor.prompt("/compact");
    const states = editor.of("compaction_update");
    assert.deepEqual(states.map((it) => it.status), ["in_progress", "completed"]);
    assert.equal(states[0].compactionId, states[1].compactionId);
    await editor.end();
  },

  async the_task_list_is_a_plan(test) {
    const editor = await Editor.start(test, { env: { LATHE_ENABLE_TASKS: "0" } });
    await editor.open();
    const todos = [{ content: "a", status: "completed", activeForm: "A" }, { content: "b", status: "in_progress", activeForm: "B" }];
    await editor.prompt(new Script(call("TodoWrite", { todos }), "done"));
    assert.deepEqual(editor.of("plan")[0].entries, [
      { content: "a", priority: "medium", status: "completed" }, { content: "b", priority: "medium", status: "in_progress" }]);
    await editor.end();
  },

  async tasks_with_ids_are_a_plan(test) {
    const editor = await Editor.start(test);
    await editor.open();
    const add = (subject) => call("TaskCreate", { subject, description: "d" });
    const set = (taskId, status) => call("TaskUpdate", { taskId, status });
    await editor.prompt(new Script(add("a"), add("b"), add("c"), set("1", "failed"), set("2", "cancelled"), set("3", "in_progress"), "done"));
    assert.deepEqual(editor.of("plan").at(-1).entries, [
      { content: "Failed: a", priority: "medium", status: "completed" }, { content: "c", priority: "medium", status: "in_progress" }]);
    await editor.end();
  },

  async a_plan_is_approved_with_the_mode_to_go_on_in(test) {
    const editor = await Editor.start(test, { permission: (question) => selected(question.toolCall.name === "ExitPlanMode" ? "accept-edits" : "reject") });
    await editor.open();
    await editor.request("session/set_mode", { sessionId: editor.session.sessionId, modeId: "plan" });
    await editor.prompt(new Script(call("ExitPlanMode", { plan: "1. write it" }), write("a.txt", "1")(test), "done"));
    assert.match(JSON.stringify(editor.asked[0].toolCall), /write it/);
    assert.equal(editor.of("current_mode_update").at(-1).currentModeId, "acceptEdits");
    assert.ok(existsSync(test.path("a.txt")));
    await editor.end();
  },

  async a_question_of_the_model_is_a_form_or_a_choice(test) {
    const question = { question: "Which store?", header: "Store", options: [{ label: "Redis", description: "" }, { label: "SQLite", description: "" }] };
    const script = () => new Script(call("AskUserQuestion", { questions: [question] }), "done");
    const form = await Editor.start(test, { capabilities: { elicitation: { form: {} } }, elicitation: () => ({ action: "accept", content: { question_0: "SQLite" } }) });
    await form.open();
    const one = script();
    await form.prompt(one);
    assert.equal(form.asked[0].requestedSchema.properties.question_0.oneOf[1].const, "SQLite");
    assert.match(JSON.stringify(one.sent(1).body.messages), /SQLite/);
    await form.end();
    const choice = await Editor.start(test, { permission: (params) => selected(params.options.find((it) => it.name === "Redis").optionId) });
    await choice.open();
    const other = script();
    await choice.prompt(other);
    assert.equal(choice.asked[0].toolCall.title, "Which store?");
    assert.match(JSON.stringify(other.sent(1).body.messages.at(-1)), /Redis/);
    await choice.end();
  },

  async links_images_and_resources_reach_the_model(test) {
    writeFileSync(test.path("note.txt"), "the note's content\n");
    const editor = await Editor.start(test);
    await editor.open();
    const script = new Script("seen");
    const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    await editor.prompt([
      { type: "text", text: `look ${script} at ` },
      { type: "resource_link", uri: `file://${test.path("note.txt")}`, name: "note.txt" },
      { type: "resource", resource: { uri: "file:///buffer.rs", text: "fn unsaved() {}" } },
      { type: "image", mimeType: "image/png", data: png },
    ]);
    const sent = JSON.stringify(script.sent(0).body.messages);
    assert.match(sent, /the note's content/);
    assert.match(sent, /fn unsaved/);
    assert.match(sent, /image\/png/);
    await assert.rejects(editor.prompt([{ type: "audio", mimeType: "audio/wav", data: "" }]), (error) => error.code === -32602);
    await editor.end();
  },

  async servers_of_the_editor_bring_tools(test) {
    const server = `
      process.stdin.setEncoding("utf8");
      let rest = "";
      const answer = (id, result) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\\n");
      process.stdin.on("data", (text) => {
        rest += text;
        for (let end; (end = rest.indexOf("\\n")) >= 0; rest = rest.slice(end + 1)) {
          const message = JSON.parse(rest.slice(0, end));
          if (message.method === "initialize") answer(message.id, { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "bell", version: "1" } });
          if (message.method === "tools/list") answer(message.id, { tools: [{ name: "ring", description: "Rings", inputSchema: { type: "object" } }] });
          if (message.method === "tools/call") answer(message.id, { content: [{ type: "text", text: process.env.SOUND }] });
        }
      });`;
    writeFileSync(test.path("server.mjs"), server);
    const editor = await Editor.start(test);
    await editor.open({ mcpServers: [{ name: "bell", command: process.execPath, args: [test.path("server.mjs")], env: [{ name: "SOUND", value: "ding dong" }] }] });
    const script = new Script(call("mcp__bell__ring"), "done");
    await editor.prompt(script);
    assert.match(JSON.stringify(script.sent(1).body.messages), /ding dong/);
    await editor.end();
  },

  async a_page_that_a_server_needs_is_opened_by_the_editor(test) {
    writeFileSync(test.path("server.py"), pageServer);
    const completed = [];
    const editor = await Editor.start(test, {
      capabilities: { elicitation: { url: {} } }, elicitation: () => ({ action: "accept" }),
      more: (app) => app.onNotification("elicitation/complete", ({ params }) => { completed.push(params.elicitationId); }),
    });
    await editor.open({ mcpServers: [{ name: "gate", command: "python3", args: [test.path("server.py")], env: [] }] });
    await editor.prompt(new Script(call("mcp__gate__enter"), "done"));
    const page = editor.asked.find((it) => it.mode === "url");
    assert.equal(page.url, "https://example.org/gate");
    assert.equal(page.elicitationId, "page-1");
    assert.deepEqual(completed, ["page-1"]);
    assert.match(editor.calls()[0].content[0].content.text, /the gate is open/);
    await editor.end();
  },

  async usage_and_title_are_told(test) {
    const editor = await Editor.start(test);
    await editor.open();
    await editor.prompt(new Script("x"));
    const usage = editor.of("usage_update").at(-1);
    assert.ok(usage.used > 0 && usage.size > usage.used);
    assert.equal(usage.cost.currency, "USD");
    assert.ok(editor.of("session_info_update")[0].title);
    await editor.end();
  },

  async an_error_of_the_model_fails_the_prompt(test) {
    const editor = await Editor.start(test);
    await editor.open();
    await assert.rejects(editor.prompt("without a script"), (error) => error.code === -32603 && /no script/.test(error.message));
    assert.deepEqual(await editor.prompt(new Script("fine again")), { stopReason: "end_turn" });
    await editor.end();
  },

  async without_a_key_the_client_is_told_to_sign_in(test) {
    const env = { ANTHROPIC_API_KEY: "", ANTHROPIC_AUTH_TOKEN: "", LATHE_API_KEY: "", ANTHROPIC_BASE_URL: "", LATHE_BASE_URL: "" };
    const editor = await Editor.start(test, { env });
    assert.equal(editor.initialized.authMethods[0].id, "api-key");
    await assert.rejects(editor.open(), (error) => error.code === -32000 && /key/.test(error.message));
    await assert.rejects(editor.request("authenticate", { methodId: "magic" }), /magic/);
    await editor.end();
  },

  async a_sign_in_in_a_terminal_stores_the_key_and_logout_removes_it(test) {
    const env = { ANTHROPIC_API_KEY: "", ANTHROPIC_AUTH_TOKEN: "", LATHE_API_KEY: "", ANTHROPIC_BASE_URL: "", LATHE_BASE_URL: "" };
    Object.assign(env, { LATHE_CONFIG_DIR: test.path("config"), LATHE_MCP_CREDENTIALS: "file" });
    const editor = await Editor.start(test, { env, capabilities: { auth: { terminal: true } } });
    const signIn = editor.initialized.authMethods.find((method) => method.type === "terminal");
    assert.deepEqual(editor.initialized.agentCapabilities.auth, { logout: {} });
    const isUnknown = (error) => error.code === -32000;
    await assert.rejects(editor.open(), isUnknown);
    // The editor runs the same command with more arguments.
    const options = { cwd: test.cwd, env: { ...process.env, ...env }, input: "\nsk-ant-of-the-editor\n" };
    assert.equal(spawnSync(process.env.LATHE_TEST_BINARY, ["acp", ...signIn.args], options).status, 0);
    await editor.request("authenticate", { methodId: signIn.id });
    await editor.open();
    await editor.request("logout", {});
    await assert.rejects(editor.open(), isUnknown);
    await editor.end();
  },

  async wrong_folders_and_servers_are_named(test) {
    const editor = await Editor.start(test);
    for (const [changes, why] of [
      [{ cwd: "here" }, /cwd.*absolute/], [{ cwd: test.path("none") }, /cwd.*not a folder/],
      [{ additionalDirectories: ["x"] }, /additionalDirectories/],
    ]) await assert.rejects(editor.open(changes), (error) => error.code === -32602 && why.test(error.message));
    await editor.end();
  },

  async malformed_lines_and_unknown_methods_are_answered(test) {
    const child = spawn(process.env.LATHE_TEST_BINARY, ["acp"], { cwd: test.cwd, env: process.env });
    let out = "";
    child.stdout.on("data", (text) => { out += text; });
    child.stdin.end(['{"jsonrpc":', "[]", '{"jsonrpc":"2.0","id":0,"method":"session/new","params":{}}',
      '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}',
      '{"jsonrpc":"2.0","id":2,"method":"no/such"}', '{"jsonrpc":"2.0","id":"x","method":"_ours/thing"}',
      '{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":1}}', '{"jsonrpc":"2.0","method":"no/notification"}', ""].join("\n"));
    assert.equal(await new Promise((resolve) => child.on("exit", resolve)), 0);
    const answers = out.trim().split("\n").map((line) => JSON.parse(line));
    assert.deepEqual(answers.map((it) => [it.id, it.error?.code]),
      [[null, -32700], [null, -32600], [0, -32600], [1, undefined], [2, -32601], ["x", -32601], [3, -32602]]);
  },

  async an_editor_that_dies_leaves_nothing_behind(test) {
    const editor = await Editor.start(test);
    await editor.open();
    editor.prompt(new Script(call("Bash", { command: "echo $$ > pid; sleep 600" }), "never")).catch(() => {});
    while (!existsSync(test.path("pid")) || !readFileSync(test.path("pid"), "utf8").trim()) await new Promise((resolve) => setTimeout(resolve, 5));
    editor.child.stdin.destroy();
    editor.child.stdout.destroy();
    assert.equal(await editor.exited, 0);
    assert.throws(() => process.kill(Number(readFileSync(test.path("pid"), "utf8")), 0));
  },

  async a_large_resource_is_taken(test) {
    const editor = await Editor.start(test);
    await editor.open();
    // Larger than any window: refused by the engine or the model, and the session goes on.
    const script = new Script("short");
    await editor.prompt([{ type: "resource", resource: { uri: "file:///big.txt", text: "word ".repeat(2_000_000) } }, { type: "text", text: String(script) }]).catch(() => {});
    assert.deepEqual(await editor.prompt(new Script("still here")), { stopReason: "end_turn" });
    await editor.end();
  },

  async a_second_prompt_during_a_turn_is_answered_too(test) {
    const editor = await Editor.start(test);
    await editor.open();
    const first = editor.prompt(new Script(call("Bash", { command: "while [ ! -e go ]; do sleep 0.02; done" }), "both done", "or so"));
    await editor.until(() => editor.calls()[0]?.status === "in_progress");
    const second = editor.prompt("and this");
    writeFileSync(test.path("go"), "");
    assert.deepEqual(await first, { stopReason: "end_turn" });
    assert.deepEqual(await second, { stopReason: "end_turn" });
    await editor.end();
  },

  async agents_calls_are_nested(test) {
    writeFileSync(test.path("a.txt"), "inside\n");
    const inner = new Script(call("Read", { file_path: test.path("a.txt") }), "it says inside");
    const editor = await Editor.start(test);
    await editor.open();
    await editor.prompt(new Script(call("Agent", { description: "look", prompt: inner.reference(), subagent_type: "general-purpose", run_in_background: false }), "done"));
    const [agent, read] = editor.calls();
    assert.equal(agent.name, "Agent");
    assert.equal(read._meta.lathe.parentToolCallId, agent.toolCallId);
    assert.equal(read.status, "completed");
    assert.match(JSON.stringify(agent.content), /it says inside/);
    await editor.end();
  },

  async remarks_of_the_start_are_told(test) {
    mkdirSync(test.path(".claude"));
    writeFileSync(test.path(".claude/settings.json"), '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}');
    const editor = await Editor.start(test, { capabilities: { session: { notices: {} } } });
    await editor.open();
    await editor.until(() => editor.of("notice").length > 0);
    assert.match(editor.of("notice")[0].title, /trust/);
    await editor.end();
  },
});
