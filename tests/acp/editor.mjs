// The official TypeScript client of the Agent Client Protocol, as an editor with one process of ours.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";
import { Script } from "../sdk/support.mjs";

const modules = join(process.argv[2], "..", "acp", "node_modules");
export const acp = await import(pathToFileURL(join(modules, "@agentclientprotocol/sdk/dist/v1/unstable/acp.js")).href);

/** An editor with one process of ours. */
export class Editor {
  constructor(test, { capabilities = {}, permission, elicitation, args = [], env = {}, more = (app) => app } = {}) {
    this.test = test;
    this.updates = [];
    this.asked = [];
    this.errors = "";
    this.child = spawn(process.env.LATHE_TEST_BINARY, [...args, "acp"], { cwd: test.cwd, env: { ...process.env, ...env } });
    this.child.stderr.on("data", (text) => { this.errors += text; });
    this.exited = new Promise((resolve) => this.child.on("exit", (code) => resolve(code)));
    this.listeners = new Set();
    const app = acp.client({ name: "editor" })
      .onNotification("session/update", ({ params }) => {
        this.updates.push(params);
        for (const listener of this.listeners) listener();
      })
      .onRequest("session/request_permission", async ({ params, signal }) => {
        this.asked.push(params);
        return permission ? permission(params, signal) : { outcome: { outcome: "selected", optionId: "allow" } };
      })
      .onRequest("elicitation/create", async ({ params }) => {
        this.asked.push(params);
        return elicitation(params);
      });
    this.connection = more(app).connect(acp.ndJsonStream(Writable.toWeb(this.child.stdin), Readable.toWeb(this.child.stdout)));
    this.agent = this.connection.agent;
    this.capabilities = capabilities;
  }
  static async start(test, options) {
    const editor = new Editor(test, options);
    editor.initialized = await editor.request("initialize", { protocolVersion: 1, clientCapabilities: editor.capabilities });
    return editor;
  }
  request(method, params) {
    return this.agent.request(method, params);
  }
  async open(changes = {}) {
    this.session = await this.request("session/new", { cwd: this.test.cwd, mcpServers: [], ...changes });
    return this.session;
  }
  prompt(text, session = this.session.sessionId) {
    const prompt = typeof text === "string" || text instanceof Script ? [{ type: "text", text: String(text) }] : text;
    return this.request("session/prompt", { sessionId: session, prompt });
  }
  cancel(session = this.session.sessionId) {
    return this.agent.notify("session/cancel", { sessionId: session });
  }
  of(kind, session) {
    return this.updates
      .filter((it) => (!session || it.sessionId === session) && it.update.sessionUpdate === kind)
      .map((it) => it.update);
  }
  text(session) {
    return this.of("agent_message_chunk", session).map((it) => it.content.text).join("");
  }
  /** The last state of every call. */
  calls() {
    const calls = {};
    for (const { update } of this.updates) {
      if (!update.toolCallId) continue;
      calls[update.toolCallId] = { ...calls[update.toolCallId], ...update };
    }
    return Object.values(calls);
  }
  /** Waits until the updates fit. */
  async until(fits) {
    if (fits()) return;
    await new Promise((resolve) => {
      const look = () => {
        if (!fits()) return;
        this.listeners.delete(look);
        resolve();
      };
      this.listeners.add(look);
    });
  }
  async end() {
    this.child.stdin.end();
    assert.equal(await this.exited, 0, this.errors);
  }
}

export const selected = (optionId) => ({ outcome: { outcome: "selected", optionId } });
