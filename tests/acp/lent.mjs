// An editor that lends what it has: buffers, terminals and MCP servers; and one that reads slowly.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { Script, call, hanging, run } from "../sdk/support.mjs";
import { Editor, acp, selected } from "./editor.mjs";

/** An editor with buffers. What it is asked to write it keeps, and saves. */
function withBuffers(test, buffers, more = {}) {
  const asked = { reads: [], writes: [] };
  return Editor.start(test, {
    capabilities: { fs: { readTextFile: true, writeTextFile: true } },
    more: (app) => app
      .onRequest("fs/read_text_file", ({ params }) => {
        asked.reads.push(params);
        if (!(params.path in buffers)) throw new Error("this file is not open");
        return { content: buffers[params.path] };
      })
      .onRequest("fs/write_text_file", ({ params }) => {
        asked.writes.push(params);
        buffers[params.path] = params.content;
        writeFileSync(params.path, params.content);
        return {};
      }),
    ...more,
  }).then((editor) => Object.assign(editor, { fs: asked }));
}

/** Terminals of an editor: real processes. */
class Terminals {
  constructor() {
    this.all = new Map();
    this.said = [];
  }
  connect(app) {
    const terminal = ({ params }, method) => {
      this.said.push([method, params]);
      return this.all.get(params.terminalId);
    };
    return app
      .onRequest("terminal/create", ({ params }) => {
        this.said.push(["create", params]);
        const env = { ...process.env, ...Object.fromEntries(params.env.map((it) => [it.name, it.value])) };
        const child = spawn(params.command, params.args, { cwd: params.cwd, env, detached: true });
        const one = { child, output: "" };
        for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => { one.output += text; });
        one.exited = new Promise((resolve) => child.on("close", (exitCode, signal) => resolve({ exitCode, signal })));
        const terminalId = `terminal-${this.all.size + 1}`;
        this.all.set(terminalId, one);
        return { terminalId };
      })
      .onRequest("terminal/wait_for_exit", (context) => terminal(context, "wait").exited)
      .onRequest("terminal/output", (context) => ({ output: terminal(context, "output").output, truncated: false }))
      .onRequest("terminal/kill", (context) => {
        process.kill(-terminal(context, "kill").child.pid, "SIGKILL");
        return {};
      })
      .onRequest("terminal/release", (context) => {
        terminal(context, "release");
        return {};
      });
  }
  methods() {
    return this.said.map(([method]) => method);
  }
}

const withTerminals = async (test, more = {}) => {
  const terminals = new Terminals();
  const editor = await Editor.start(test, { capabilities: { terminal: true }, more: (app) => terminals.connect(app), ...more });
  return Object.assign(editor, { terminals });
};

/** A session without the official client: its lines as they are. */
async function bare(test) {
  const child = spawn(process.env.LATHE_TEST_BINARY, ["acp"], { cwd: test.cwd, env: process.env });
  const send = (id, method, params) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
  const reader = child.stdout[Symbol.asyncIterator]();
  let rest = "", messages = [];
  const next = async () => {
    while (!messages.length) {
      rest += (await reader.next()).value;
      const lines = rest.split("\n");
      rest = lines.pop();
      messages = lines.map((line) => JSON.parse(line));
    }
    return messages.shift();
  };
  const answer = async (id) => {
    for (;;) {
      const message = await next();
      if (message.id === id) return message.result;
    }
  };
  send(1, "initialize", { protocolVersion: 1 });
  await answer(1);
  send(2, "session/new", { cwd: test.cwd, mcpServers: [] });
  const { sessionId } = await answer(2);
  return { child, send, next, sessionId };
}

await run({
  async an_unsaved_buffer_is_what_the_model_reads_and_changes(test) {
    const path = test.path("a.txt");
    writeFileSync(path, "saved\n");
    const buffers = { [path]: "saved\ntyped but not saved\n" };
    const editor = await withBuffers(test, buffers);
    await editor.open();
    const script = new Script(call("Read", { file_path: path }), call("Edit", { file_path: path, old_string: "typed", new_string: "written" }), "done");
    await editor.prompt(script);
    assert.match(JSON.stringify(script.sent(1).body.messages), /typed but not saved/);
    assert.equal(buffers[path], "saved\nwritten but not saved\n");
    assert.equal(editor.calls()[1].status, "completed");
    assert.ok(editor.fs.reads.every((it) => it.sessionId === editor.session.sessionId && it.path === path));
    // It knows its own version: nobody else changed the file.
    assert.doesNotMatch(JSON.stringify(script.sent(2).body.messages), /changed (on disk|by someone)/);
    await editor.end();
  },

  async what_the_person_types_after_a_read_is_not_overwritten(test) {
    const path = test.path("a.txt");
    writeFileSync(path, "one\n");
    const buffers = { [path]: "one\n" };
    const editor = await withBuffers(test, buffers, {
      permission: () => {
        buffers[path] = "one\nand more\n";
        return selected("allow");
      },
    });
    await editor.open();
    await editor.prompt(new Script(call("Read", { file_path: path }), call("Write", { file_path: path, content: "mine\n" }), "done"));
    assert.equal(editor.calls()[1].status, "failed");
    assert.equal(buffers[path], "one\nand more\n");
    assert.equal(editor.fs.writes.length, 0);
    await editor.end();
  },

  async a_file_that_the_editor_does_not_have_is_read_from_disk(test) {
    const path = test.path("a.txt");
    writeFileSync(path, "on disk\n");
    const editor = await withBuffers(test, {});
    await editor.open();
    const script = new Script(call("Read", { file_path: path }), "done");
    await editor.prompt(script);
    assert.match(JSON.stringify(script.sent(1).body.messages), /on disk/);
    await editor.end();
  },

  async a_new_file_is_written_through_the_editor(test) {
    const path = test.path("new.txt");
    const buffers = {};
    const editor = await withBuffers(test, buffers);
    await editor.open();
    await editor.prompt(new Script(call("Write", { file_path: path, content: "new\n" }), call("Edit", { file_path: path, old_string: "new", new_string: "newer" }), "done"));
    assert.deepEqual(editor.fs.writes.map((it) => it.content), ["new\n", "newer\n"]);
    assert.equal(readFileSync(path, "utf8"), "newer\n");
    await editor.end();
  },

  async a_no_reaches_no_buffer(test) {
    const path = test.path("a.txt");
    writeFileSync(path, "one\n");
    const buffers = { [path]: "one\n" };
    const editor = await withBuffers(test, buffers, { permission: () => selected("reject") });
    await editor.open();
    await editor.prompt(new Script(call("Read", { file_path: path }), call("Edit", { file_path: path, old_string: "one", new_string: "1" }), "done"));
    assert.equal(editor.fs.writes.length, 0);
    assert.equal(buffers[path], "one\n");
    await editor.end();
  },

  async a_command_runs_in_a_terminal_of_the_editor(test) {
    const editor = await withTerminals(test);
    await editor.open();
    const script = new Script(call("Bash", { command: "mkdir sub; cd sub; echo here > file; echo $CLAUDECODE; exit 3" }), call("Bash", { command: "pwd > where" }), "done");
    await editor.prompt(script);
    assert.equal(editor.asked.length, 2);
    const [first] = editor.calls();
    assert.deepEqual(first.content, [{ type: "terminal", terminalId: "terminal-1" }]);
    assert.match(JSON.stringify(script.sent(1).body.messages), /Exit code 3/);
    assert.match(JSON.stringify(script.sent(1).body.messages), /1/);
    // Where the first ended, the second began.
    assert.equal(readFileSync(test.path("sub/where"), "utf8").trim(), test.path("sub"));
    assert.equal(editor.terminals.methods().filter((it) => it === "release").length, 2);
    assert.ok(!editor.terminals.methods().includes("kill"));
    await editor.end();
  },

  async a_command_that_only_reads_stays_confined_and_with_us(test) {
    writeFileSync(test.path("a.txt"), "x");
    const editor = await withTerminals(test);
    await editor.open();
    await editor.prompt(new Script(call("Bash", { command: "ls" }), "done"));
    assert.deepEqual(editor.terminals.said, []);
    assert.match(JSON.stringify(editor.calls()[0].content), /a\.txt/);
    await editor.end();
  },

  async a_no_opens_no_terminal(test) {
    const editor = await withTerminals(test, { permission: () => selected("reject") });
    await editor.open();
    await editor.prompt(new Script(call("Bash", { command: "touch made" }), "done"));
    assert.deepEqual(editor.terminals.said, []);
    assert.ok(!existsSync(test.path("made")));
    await editor.end();
  },

  async cancel_while_a_terminal_runs(test) {
    const editor = await withTerminals(test);
    await editor.open();
    const prompt = editor.prompt(new Script(call("Bash", { command: "echo begun; touch begun; sleep 600" }), "never"));
    await editor.until(() => editor.calls()[0]?.content?.[0]?.type === "terminal");
    await editor.cancel();
    assert.deepEqual(await prompt, { stopReason: "cancelled" });
    assert.ok(editor.terminals.methods().includes("kill"));
    await editor.end();
    await editor.terminals.all.get("terminal-1").exited;
  },

  async a_terminal_that_takes_too_long_is_ended(test) {
    const editor = await withTerminals(test);
    await editor.open();
    const script = new Script(call("Bash", { command: "touch begun; sleep 600", timeout: 200 }), "done");
    await editor.prompt(script);
    assert.match(JSON.stringify(script.sent(1).body.messages), /time limit/);
    assert.ok(editor.terminals.methods().includes("kill"));
    await editor.end();
  },

  async a_server_behind_the_editor_brings_tools(test) {
    const provider = new acp.McpOverAcpProvider();
    const methods = [];
    const handler = ({ method, params }) => {
      methods.push(method);
      if (method === "server/discover") return { supportedVersions: ["2026-07-28"], capabilities: { tools: {} }, serverInfo: { name: "bell", version: "1" }, resultType: "complete", ttlMs: 0, cacheScope: "private" };
      if (method === "tools/list") return { tools: [{ name: "ring", description: "Rings", inputSchema: { type: "object" } }], resultType: "complete", ttlMs: 0, cacheScope: "private" };
      if (method === "tools/call") return { content: [{ type: "text", text: `ding ${params.arguments.times}` }], resultType: "complete" };
      throw new acp.McpProtocolError(-32601, "no such method");
    };
    const editor = await Editor.start(test, { more: (app) => app.onRequest("mcp/message", provider.handleRequest) });
    assert.equal(editor.initialized.agentCapabilities.mcpCapabilities.acp, true);
    const registered = provider.registerServer(editor.agent, { name: "bell", handler: async (context) => {
      try {
        return { result: await handler(context) };
      } catch (error) {
        return { error: { code: error.code ?? -32603, message: String(error.message) } };
      }
    } });
    await editor.open({ mcpServers: [registered.declaration] });
    const script = new Script(call("mcp__bell__ring", { times: 3 }), "done");
    await editor.prompt(script);
    assert.match(JSON.stringify(script.sent(1).body.messages), /ding 3/, `${methods}`);
    await assert.rejects(editor.open({ mcpServers: [{ type: "acp", name: "half" }] }), (error) => error.code === -32602);
    await editor.end();
  },

  async a_loaded_agent_shows_its_calls_as_they_were(test) {
    writeFileSync(test.path("a.txt"), "inside\n");
    const inner = new Script(call("Read", { file_path: test.path("a.txt") }), "it says inside");
    const editor = await Editor.start(test);
    await editor.open();
    await editor.prompt(new Script(call("Agent", { description: "look", prompt: inner.reference(), subagent_type: "general-purpose", run_in_background: false }), "done"));
    const state = (it) => it.calls().map(({ sessionUpdate, ...rest }) => rest);
    const live = state(editor);
    assert.equal(live.length, 2);
    const id = editor.session.sessionId;
    await editor.end();
    const later = await Editor.start(test);
    await later.request("session/load", { sessionId: id, cwd: test.cwd, mcpServers: [] });
    assert.deepEqual(state(later), live);
    await later.end();
  },

  async the_summary_of_a_compaction_is_shown(test) {
    const editor = await Editor.start(test, { capabilities: { session: { compaction: {} } } });
    await editor.open();
    await editor.prompt(new Script("first", "<summary>A summary of everything.</summary>", "<summary>A summary of everything.</summary>"));
    await editor.prompt("/compact");
    const [chunk] = editor.of("compaction_summary_chunk");
    assert.match(chunk.content.text, /A summary of everything/);
    assert.ok(editor.of("compaction_update").some((it) => it.compactionId === chunk.compactionId && it.status === "completed"));
    await editor.end();
  },

  async a_session_of_a_thousand_messages_is_loaded(test) {
    const editor = await Editor.start(test);
    await editor.open();
    const { sessionId } = editor.session;
    await editor.prompt(new Script("the first"));
    await editor.end();
    // The same conversation, five hundred times over: two records a turn.
    const folder = `${process.env.CLAUDE_CONFIG_DIR}/projects`;
    const file = readdirSync(folder, { recursive: true }).find((name) => name.endsWith(`${sessionId}.jsonl`));
    const lines = readFileSync(`${folder}/${file}`, "utf8").trim().split("\n").map((line) => JSON.parse(line));
    const pair = [lines.find((it) => it.type === "user"), lines.find((it) => it.type === "assistant")];
    let parent = lines.filter((it) => it.uuid).at(-1).uuid;
    const more = [];
    for (let index = 0; index < 500; index += 1) {
      for (const record of pair) {
        const uuid = crypto.randomUUID();
        const copy = structuredClone({ ...record, uuid, parentUuid: parent });
        if (copy.type === "user") copy.message.content = `question ${index}`;
        else copy.message = { ...copy.message, id: `message-${index}`, content: [{ type: "text", text: `answer ${index}` }] };
        more.push(JSON.stringify(copy));
        parent = uuid;
      }
    }
    writeFileSync(`${folder}/${file}`, `${lines.map((it) => JSON.stringify(it)).join("\n")}\n${more.join("\n")}\n`);
    const later = await Editor.start(test);
    await later.request("session/load", { sessionId, cwd: test.cwd, mcpServers: [] });
    // Everything came before the answer.
    assert.equal(later.of("user_message_chunk").length, 501);
    assert.equal(later.of("agent_message_chunk").at(-1).content.text, "answer 499");
    assert.deepEqual(await later.prompt(new Script("more"), sessionId), { stopReason: "end_turn" });
    await later.end();
  },

  async a_request_that_is_cancelled_by_its_id_is_answered_with_the_code_for_it(test) {
    const { child, send, next, sessionId } = await bare(test);
    const prompt = (script) => ({ sessionId, prompt: [{ type: "text", text: String(script) }] });
    send(3, "session/prompt", prompt(new Script(hanging("a story without an end"))));
    while ((await next()).params?.update?.sessionUpdate !== "agent_message_chunk");
    send(undefined, "$/cancel_request", { requestId: 3 });
    let message;
    do message = await next(); while (message.id !== 3);
    assert.equal(message.error?.code, -32800);
    send(4, "session/prompt", prompt(new Script("fine")));
    do message = await next(); while (message.id !== 4);
    assert.deepEqual(message.result, { stopReason: "end_turn" });
    child.stdin.end();
    assert.equal(await new Promise((resolve) => child.on("exit", resolve)), 0);
  },

  async a_message_of_a_hook_is_told(test) {
    mkdirSync(test.path("config"));
    const hook = { type: "command", command: `echo '{"systemMessage": "mind the gap"}'` };
    writeFileSync(test.path("config/settings.json"), JSON.stringify({ hooks: { UserPromptSubmit: [{ hooks: [hook] }] } }));
    const editor = await Editor.start(test, { env: { LATHE_CONFIG_DIR: test.path("config") }, capabilities: { session: { notices: {} } } });
    await editor.open();
    await editor.prompt(new Script("fine"));
    assert.ok(editor.of("notice").some((notice) => notice.title.includes("mind the gap")), JSON.stringify(editor.updates));
    await editor.end();
  },

  async a_client_that_reads_slowly_gets_every_update_and_costs_no_memory(test) {
    const { child, send, next, sessionId } = await bare(test);
    const peak = () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))[1]);
    const before = peak();
    // Five thousand pieces, each looked at for a while, as an editor does that draws.
    const text = "0123456789abcdef".repeat(5000);
    const script = new Script({ text, delta_characters: 16 });
    send(3, "session/prompt", { sessionId, prompt: [{ type: "text", text: script.reference() }] });
    let chunks = 0, length = 0;
    for (;;) {
      const message = await next();
      if (message.id === 3) break;
      if (message.params?.update?.sessionUpdate !== "agent_message_chunk") continue;
      chunks += 1;
      length += message.params.update.content.text.length;
      if (chunks % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal(length, text.length);
    assert.equal(chunks, 5000);
    const grown = peak() - before;
    assert.ok(grown < 32 * 1024, `${grown} KB more`);
    child.stdin.end();
    assert.equal(await new Promise((resolve) => child.on("exit", resolve)), 0);
  },

  async an_idle_session_wakes_nobody(test) {
    const editor = await Editor.start(test);
    await editor.open();
    await editor.prompt(new Script("done"));
    const switches = () => readdirSync(`/proc/${editor.child.pid}/task`).map((task) => {
      const status = readFileSync(`/proc/${editor.child.pid}/task/${task}/status`, "utf8");
      return Number(/\nvoluntary_ctxt_switches:\s+(\d+)/.exec(status)[1]);
    }).reduce((sum, count) => sum + count, 0);
    // What a turn left to do is done at some point; from then on nothing happens.
    for (;;) {
      const before = switches();
      await new Promise((resolve) => setTimeout(resolve, 1000));
      if (switches() === before) break;
    }
    await editor.end();
  },
});
