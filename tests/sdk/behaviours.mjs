// The TypeScript SDK drives the binary. Usage: node behaviours.mjs <node_modules> [behaviour …]

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { Case, Script, call, hanging, init, result, run, sdk, toolResults, z } from "./support.mjs";

const behaviours = {
  async a_one_shot_query_gives_init_answer_and_result(test) {
    const messages = await test.ask(`hi ${new Script("hello")}`);
    assert.match(init(messages).claude_code_version, /^\d+\.\d+\.\d+$/);
    assert.equal(messages[0].subtype, "init");
    assert.equal(result(messages).result, "hello");
    assert.equal(result(messages).terminal_reason, "completed");
    assert.equal(test.errors, "");
  },

  async prompts_of_the_options_reach_the_model(test) {
    const [own, appended, preset] = [new Script("a"), new Script("b"), new Script("c")];
    await test.ask(own, { systemPrompt: "Only this." });
    assert.deepEqual(own.sent(0).body.system.map((block) => block.text), ["Only this."]);
    await test.ask(appended, { systemPrompt: { type: "preset", preset: "claude_code", append: "And this." } });
    assert.equal(appended.sent(0).body.system.at(-1).text, "And this.");
    await test.ask(preset, { systemPrompt: { type: "preset", preset: "claude_code" } });
    assert.ok(preset.sent(0).body.system.length >= 1);
  },

  async prompts_are_stored_as_plain_text_with_their_own_id(test) {
    const uuid = randomUUID();
    const run = test.open({ extraArgs: { "replay-user-messages": null } });
    const script = new Script("ok");
    const messages = await run.turn(script, { uuid });
    await run.end();
    assert.ok(messages.some((m) => m.type === "user" && m.uuid === uuid && m.isReplay));
    const stored = await sdk.getSessionMessages(result(messages).session_id, { dir: test.cwd });
    assert.equal(stored[0].uuid, uuid);
    assert.equal(stored[0].message.content, String(script));
  },

  async partial_messages_come_before_their_block(test) {
    const messages = await test.ask(new Script({ text: "several pieces of text", delta_characters: 4 }), { includePartialMessages: true });
    const kinds = messages.map((m) => (m.type === "stream_event" ? m.event.type : m.type));
    assert.ok(kinds.indexOf("content_block_delta") < kinds.indexOf("assistant"));
    assert.ok(kinds.includes("message_stop") && !kinds.includes("ping"));
  },

  async a_question_is_answered_by_the_host(test) {
    const seen = [];
    const script = new Script(call("Write", { file_path: test.path("a"), content: "1" }), call("Write", { file_path: test.path("b"), content: "1" }), "done");
    const messages = await test.ask(script, {
      canUseTool: async (name, input, options) => {
        seen.push([name, options]);
        return input.file_path.endsWith("a")
          ? { behavior: "allow", updatedInput: { ...input, content: "2" } }
          : { behavior: "deny", message: "not b" };
      },
    });
    assert.equal(readFileSync(test.path("a"), "utf8"), "2");
    assert.ok(!existsSync(test.path("b")));
    assert.equal(result(messages).permission_denials.length, 1);
    assert.ok(seen[0][1].toolUseID && seen[0][1].suggestions.length && seen[0][1].signal);
  },

  async suggestions_sent_back_silence_the_next_question(test) {
    let count = 0;
    const script = new Script(call("Write", { file_path: test.path("a"), content: "1" }), call("Write", { file_path: test.path("b"), content: "1" }), "done");
    await test.ask(script, {
      canUseTool: async (name, input, { suggestions }) => {
        count += 1;
        return { behavior: "allow", updatedInput: input, updatedPermissions: suggestions };
      },
    });
    assert.equal(count, 1);
    assert.ok(existsSync(test.path("b")));
  },

  async a_no_with_interruption_ends_the_turn(test) {
    const script = new Script(call("Write", { file_path: test.path("a"), content: "1" }), "never");
    const run = test.open({ canUseTool: async () => ({ behavior: "deny", message: "stop", interrupt: true }) });
    const messages = await run.turn(script);
    assert.equal(result(messages).terminal_reason, "aborted_tools");
    assert.equal(script.count(), 1);
    const after = await run.turn(new Script("fine"));
    assert.equal(result(after).result, "fine");
    await run.end();
  },

  async an_interruption_gives_a_receipt_and_the_session_goes_on(test) {
    const run = test.open({ includePartialMessages: true });
    let receipt;
    const messages = await run.turn(new Script(hanging("partial words")), {}, async (message) => {
      if (message.type === "stream_event" && message.event.type === "content_block_delta" && !receipt) receipt = await run.query.interrupt();
    });
    assert.deepEqual(receipt.still_queued, []);
    assert.equal(result(messages).subtype, "error_during_execution");
    assert.equal(result(messages).terminal_reason, "aborted_streaming");
    assert.equal(result(await run.turn(new Script("on we go"))).result, "on we go");
    await run.end();
  },

  async a_receipt_names_what_still_waits_and_it_runs_next(test) {
    const uuid = randomUUID();
    const run = test.open({ includePartialMessages: true });
    let receipt;
    const next = new Script("next");
    const messages = await run.turn(new Script(hanging("partial words")), {}, async (message) => {
      if (message.type !== "stream_event" || message.event.type !== "content_block_delta" || receipt) return;
      run.push(next, { uuid });
      // The prompt has gone out before the request behind it.
      await run.query.getContextUsage();
      receipt = await run.query.interrupt();
    });
    assert.deepEqual(receipt.still_queued, [uuid]);
    assert.equal(result(messages).terminal_reason, "aborted_streaming");
    assert.equal(result(await run.turn()).result, "next");
    await run.end();
  },

  async hooks_forbid_change_and_add(test) {
    const seen = [];
    const script = new Script(call("Bash", { command: "echo no" }), call("Write", { file_path: test.path("a"), content: "1" }), "done");
    const messages = await test.ask(script, {
      hooks: {
        PreToolUse: [{ hooks: [async (input) => ({ hookSpecificOutput: input.tool_name === "Bash"
          ? { hookEventName: "PreToolUse", permissionDecision: "deny", permissionDecisionReason: "no shell" }
          : { hookEventName: "PreToolUse", permissionDecision: "allow", updatedInput: { ...input.tool_input, content: "2" } } })] }],
        PostToolUse: [{ matcher: "Write", hooks: [async (input) => { seen.push(input); return { hookSpecificOutput: { hookEventName: "PostToolUse", additionalContext: "well written" } }; }] }],
      },
    });
    assert.match(toolResults(messages)[0].message.content[0].content, /no shell/);
    assert.equal(readFileSync(test.path("a"), "utf8"), "2");
    assert.equal(seen[0].tool_response.type, "create");
    assert.ok(JSON.stringify(script.sent(2).body.messages).includes("well written"));
  },

  async a_hook_on_prompts_can_block(test) {
    const script = new Script("never");
    const messages = await test.ask(script, { hooks: { UserPromptSubmit: [{ hooks: [async () => ({ decision: "block", reason: "no secrets" })] }] } });
    assert.equal(script.count(), 0);
    assert.match(result(messages).result, /no secrets/);
  },

  async a_hook_on_the_end_sends_the_model_back(test) {
    const seen = [];
    const script = new Script("done?", "done");
    const messages = await test.ask(script, { hooks: { Stop: [{ hooks: [async (input) => { seen.push(input.stop_hook_active); return input.stop_hook_active ? {} : { decision: "block", reason: "tests" }; }] }] } });
    assert.deepEqual(seen, [false, true]);
    assert.equal(result(messages).result, "done");
  },

  async tools_of_the_host_are_tools_like_any_other(test) {
    const server = sdk.createSdkMcpServer({ name: "calc", version: "1.0.0", tools: [
      sdk.tool("add", "Adds", { a: z.number(), b: z.number() }, async ({ a, b }) => ({ content: [{ type: "text", text: String(a + b) }] })),
      sdk.tool("fail", "Fails", {}, async () => ({ content: [{ type: "text", text: "broken" }], isError: true })),
    ] });
    const script = new Script(call("mcp__calc__add", { a: 2, b: 3 }), call("mcp__calc__fail"), "done");
    const messages = await test.ask(script, { mcpServers: { calc: server }, allowedTools: ["mcp__calc"] });
    assert.equal(init(messages).mcp_servers[0].status, "connected");
    assert.equal(toolResults(messages)[0].message.content[0].content[0].text, "5");
    assert.equal(toolResults(messages)[1].message.content[0].is_error, true);
  },

  async servers_are_shown_switched_and_set(test) {
    const make = (name) => sdk.createSdkMcpServer({ name, tools: [sdk.tool("hi", "Says hi", {}, async () => ({ content: [{ type: "text", text: "hi" }] }))] });
    const run = test.open({ mcpServers: { one: make("one") } });
    await run.turn(new Script("a"));
    assert.equal((await run.query.mcpServerStatus())[0].status, "connected");
    await run.query.toggleMcpServer("one", false);
    const off = new Script("b");
    await run.turn(off);
    assert.ok(!off.sent(0).body.tools.some((tool) => tool.name.startsWith("mcp__")));
    await assert.rejects(run.query.reconnectMcpServer("none"), /not found/);
    const changed = await run.query.setMcpServers({ two: make("two") });
    assert.deepEqual(changed.added, ["two"]);
    const two = new Script("c");
    await run.turn(two);
    assert.ok(two.sent(0).body.tools.some((tool) => tool.name === "mcp__two__hi"));
    await run.end();
  },

  async structured_output_is_checked_and_given(test) {
    const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
    const script = new Script(call("StructuredOutput", { n: "x" }), call("StructuredOutput", { n: 4 }));
    const messages = await test.ask(script, { outputFormat: { type: "json_schema", schema } });
    assert.deepEqual(result(messages).structured_output, { n: 4 });
  },

  async what_of_the_thinking_is_shown_stays_until_it_is_said_otherwise(test) {
    const run = test.open({ model: "claude-sonnet-4-6", thinking: { type: "enabled", budgetTokens: 1500, display: "omitted" } });
    const thinking = async () => {
      const script = new Script("a");
      await run.turn(script);
      const { budget_tokens, display } = script.sent(0).body.thinking;
      return [budget_tokens, display];
    };
    assert.deepEqual(await thinking(), [1500, "omitted"]);
    await run.query.setMaxThinkingTokens(2000);
    assert.deepEqual(await thinking(), [2000, "omitted"]);
    await run.query.setMaxThinkingTokens(2500, "summarized");
    assert.deepEqual(await thinking(), [2500, "summarized"]);
    await assert.rejects(run.query.setMaxThinkingTokens(3000, "highlights"), /highlights/);
    assert.deepEqual(await thinking(), [3000, "summarized"]);
    await run.query.setMaxThinkingTokens(3500, null);
    assert.deepEqual(await thinking(), [3500, "omitted"]);
    await run.query.setModel("claude-haiku-4-5");
    await run.query.setModel("default");
    const script = new Script("b");
    await run.turn(script);
    assert.ok(script.sent(0).body.model.startsWith("claude-sonnet-4-6"));
    assert.equal(await run.query.backgroundTasks("toolu_none"), false);
    assert.equal(await run.query.backgroundTasks(), true);
    await run.end();
  },

  async model_mode_and_thinking_change_between_turns(test) {
    const run = test.open({ model: "claude-sonnet-4-6" });
    const [one, two] = [new Script("a"), new Script(call("Write", { file_path: test.path("x"), content: "1" }), "b")];
    await run.turn(one);
    await run.query.setModel("claude-haiku-4-5");
    await run.query.setPermissionMode("acceptEdits");
    await run.query.setMaxThinkingTokens(0);
    const messages = await run.turn(two);
    assert.equal(init(messages).permissionMode, "acceptEdits");
    assert.ok(two.sent(0).body.model.startsWith("claude-haiku-4-5"));
    assert.ok(existsSync(test.path("x")));
    await assert.rejects(run.query.setPermissionMode("yolo"));
    await run.end();
  },

  async what_there_is_can_be_asked(test) {
    const run = test.open();
    run.push(new Script("ok"));
    assert.ok((await run.query.supportedModels()).length > 0);
    assert.ok((await run.query.supportedCommands()).some((command) => command.name === "compact"));
    assert.ok((await run.query.supportedAgents()).some((agent) => agent.name === "general-purpose"));
    assert.ok((await run.query.accountInfo()).apiKeySource);
    await run.turn();
    const usage = await run.query.getContextUsage();
    assert.ok(usage.totalTokens > 0 && usage.maxTokens > usage.totalTokens);
    await run.end();
  },

  async flag_settings_change_while_it_runs(test) {
    const run = test.open();
    const denied = await run.turn(new Script(call("Bash", { command: "chmod 600 ." }), "a"));
    assert.equal(result(denied).permission_denials.length, 1);
    await run.query.applyFlagSettings({ permissions: { allow: ["Bash(chmod:*)"] } });
    const allowed = await run.turn(new Script(call("Bash", { command: "chmod 700 ." }), "b"));
    assert.equal(result(allowed).permission_denials.length, 0);
    await run.end();
  },

  async files_are_brought_back(test) {
    const uuid = randomUUID();
    const run = test.open({ enableFileCheckpointing: true, permissionMode: "acceptEdits" });
    await run.turn(new Script(call("Write", { file_path: test.path("made"), content: "1" }), "a"), { uuid });
    const preview = await run.query.rewindFiles(uuid, { dryRun: true });
    assert.ok(preview.canRewind && preview.filesChanged.length === 1 && existsSync(test.path("made")));
    await run.query.rewindFiles(uuid);
    assert.ok(!existsSync(test.path("made")));
    await run.end();
  },

  async sessions_are_listed_read_renamed_tagged_forked_and_resumed(test) {
    const session = result(await test.ask(`remember blue ${new Script("first")}`)).session_id;
    const [info] = await sdk.listSessions({ dir: test.cwd });
    assert.equal(info.sessionId, session);
    await sdk.renameSession(session, "A title", { dir: test.cwd });
    await sdk.tagSession(session, "a-tag", { dir: test.cwd });
    const again = await sdk.getSessionInfo(session, { dir: test.cwd });
    assert.equal(again.customTitle, "A title");
    assert.equal(again.tag, "a-tag");
    const { sessionId } = await sdk.forkSession(session, { dir: test.cwd });
    const script = new Script("second");
    assert.equal(result(await test.ask(script, { resume: sessionId })).session_id, sessionId);
    assert.ok(JSON.stringify(script.sent(0).body.messages).includes("remember blue"));
    const fork = result(await test.ask(new Script("third"), { resume: session, forkSession: true })).session_id;
    assert.notEqual(fork, session);
    assert.equal(result(await test.ask(new Script("fourth"), { continue: true })).session_id, fork);
  },

  async an_unknown_session_is_an_error_that_says_so(test) {
    await assert.rejects(test.ask(new Script("x"), { resume: randomUUID() }), /No conversation found/);
  },

  async a_session_without_persistence_leaves_nothing(test) {
    await test.ask(new Script("a"), { persistSession: false });
    assert.deepEqual(await sdk.listSessions({ dir: test.cwd }), []);
  },

  async an_api_error_is_told_with_its_status(test) {
    const messages = [];
    await assert.rejects(async () => {
      const prompt = String(new Script({ fault: { error: { status: 400, message: "bad" } } }));
      for await (const message of sdk.query({ prompt, options: test.options() })) messages.push(message);
    });
    assert.equal(result(messages).api_error_status, 400);
    assert.equal(messages.filter((m) => m.type === "assistant").at(-1).error, "invalid_request");
  },

  async limits_have_their_own_results(test) {
    const messages = [];
    const script = new Script(...[1, 2, 3].map((n) => call("Bash", { command: `echo ${n}` })));
    try {
      for await (const message of sdk.query({ prompt: String(script), options: test.options({ maxTurns: 1 }) })) messages.push(message);
    } catch {}
    assert.equal(result(messages).subtype, "error_max_turns");
    assert.deepEqual(result(messages).errors, ["Reached maximum number of turns (1)"]);
  },

  async an_aborted_query_ends_the_process(test) {
    const abortController = new AbortController();
    const run = sdk.query({ prompt: String(new Script(hanging("words without end"))), options: test.options({ abortController, includePartialMessages: true }) });
    await assert.rejects(async () => {
      for await (const message of run) if (message.type === "stream_event") abortController.abort();
    });
  },

  async rules_and_tools_of_the_options_count(test) {
    const script = new Script(call("Bash", { command: "mkdir one" }), "done");
    const messages = await test.ask(script, { tools: ["Bash", "Read"], allowedTools: ["Bash(mkdir:*)"], settingSources: [] });
    assert.deepEqual([...init(messages).tools].sort(), ["Bash", "Read"]);
    assert.ok(existsSync(test.path("one")));
    const none = new Script("a");
    await test.ask(none, { tools: [] });
    assert.ok(!none.sent(0).body.tools?.length);
  },

  async commands_as_prompts_are_carried_out(test) {
    const run = test.open();
    const before = await run.turn(`remember ${new Script("a")}`);
    const cleared = await run.turn("/clear");
    assert.ok(cleared.some((message) => message.type === "conversation_reset"));
    const script = new Script("b");
    const after = await run.turn(script);
    assert.notEqual(result(after).session_id, result(before).session_id);
    assert.equal(script.sent(0).body.messages.length, 1);
    await run.end();
  },

  async a_store_gets_every_record_and_a_session_goes_on_from_it(test) {
    const sessionStore = new sdk.InMemorySessionStore();
    const session = result(await test.ask(`remember green ${new Script("a")}`, { sessionStore })).session_id;
    const script = new Script("b");
    assert.equal(result(await test.ask(script, { sessionStore, resume: session })).session_id, session);
    assert.ok(JSON.stringify(script.sent(0).body.messages).includes("remember green"));
  },

  async images_and_words_for_the_context_are_taken(test) {
    const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNg+M/A8B8ABQUCAMteNrIAAAAASUVORK5CYII=";
    const run = test.open();
    run.push("the sky is green", { shouldQuery: false });
    const script = new Script("ok");
    run.push(script, { message: { role: "user", content: [{ type: "text", text: String(script) }, { type: "image", source: { type: "base64", media_type: "image/png", data: png } }] } });
    await run.turn();
    const sent = JSON.stringify(script.sent(0).body.messages);
    assert.ok(sent.includes("the sky is green") && sent.includes("image/png"));
    assert.equal(script.count(), 1);
    await run.end();
  },

  async several_queries_run_at_once(test) {
    const answers = await Promise.all([1, 2, 3, 4, 5, 6].map(async (n) => result(await new Case().ask(new Script(`answer ${n}`))).result));
    assert.deepEqual(answers, [1, 2, 3, 4, 5, 6].map((n) => `answer ${n}`));
  },
};

await run(behaviours);
