// What the TypeScript programs share: the model's script, a folder for each behaviour, and the runner.
// A behaviour is an async function whose name says what holds; several run at once.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, ...wanted] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(join(modules, path)).href);
export const sdk = await load("@anthropic-ai/claude-agent-sdk/sdk.mjs");
export const { z } = await load("zod/index.js");
const binary = process.env.LATHE_TEST_BINARY;
const requests = process.env.LATHE_TEST_REQUESTS;

export class Script {
  constructor(...replies) {
    this.id = randomUUID();
    this.replies = replies.map((reply) => (typeof reply === "string" ? { text: reply } : reply));
  }
  /** The script by its file, for a prompt that stands inside another script. */
  reference() {
    writeFileSync(join(requests, `${this.id}.script`), JSON.stringify(this.replies));
    return `<script id="${this.id}"/>`;
  }
  toString() {
    return `<model id="${this.id}">${JSON.stringify(this.replies)}</model>`;
  }
  sent(index) {
    return JSON.parse(readFileSync(join(requests, `${this.id}-${index}.json`), "utf8"));
  }
  count() {
    return readdirSync(requests).filter((name) => name.startsWith(`${this.id}-`)).length;
  }
}

export const call = (name, input = {}) => ({ content: [{ type: "tool_use", name, input }] });
export const hanging = (text) => ({ text, delta_characters: 4, pauses: [{ at: { mid_block: 0 }, wait: "forever" }] });
/** An MCP server whose tool `enter` needs the user to finish a page first, which it then reports. */
export const pageServer = `
import json, sys
pages = []
def send(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method, id = message["method"], message["id"]
    if method == "initialize": send({"id": id, "result": {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "gate", "version": "1"}}})
    elif method == "tools/list": send({"id": id, "result": {"tools": [{"name": "enter", "description": "enters", "inputSchema": {"type": "object", "properties": {}}}]}})
    elif method == "tools/call" and not pages:
        pages.append(1)
        page = {"mode": "url", "elicitationId": "page-1", "url": "https://example.org/gate", "message": "Open the gate"}
        send({"id": id, "error": {"code": -32042, "message": "a page is needed", "data": {"elicitations": [page]}}})
        send({"method": "notifications/elicitation/complete", "params": {"elicitationId": "page-1"}})
    elif method == "tools/call": send({"id": id, "result": {"content": [{"type": "text", "text": "the gate is open"}]}})
    else: send({"id": id, "result": {}})
`;
export const result = (messages) => messages.find((message) => message.type === "result");
export const init = (messages) => messages.find((message) => message.type === "system" && message.subtype === "init");
export const toolResults = (messages) =>
  messages.filter((m) => m.type === "user" && Array.isArray(m.message.content) && m.message.content[0].type === "tool_result");

export class Case {
  constructor() {
    const folder = join(process.env.TMPDIR, randomUUID());
    mkdirSync(folder);
    this.cwd = realpathSync(folder);
    this.errors = "";
  }
  path(name) {
    return join(this.cwd, name);
  }
  options(changes = {}) {
    return {
      pathToClaudeCodeExecutable: binary, cwd: this.cwd,
      stderr: (text) => { this.errors += text; }, ...changes,
    };
  }
  async ask(prompt, changes) {
    const messages = [];
    for await (const message of sdk.query({ prompt: String(prompt), options: this.options(changes) })) messages.push(message);
    return messages;
  }
  /** A query whose prompts are pushed one by one. */
  open(changes) {
    const waiting = [];
    let wake, ended = false;
    async function* prompts() {
      for (;;) {
        while (waiting.length) yield waiting.shift();
        if (ended) return;
        await new Promise((resolve) => { wake = resolve; });
      }
    }
    const query = sdk.query({ prompt: prompts(), options: this.options(changes) });
    const iterator = query[Symbol.asyncIterator]();
    return {
      query,
      push(prompt, fields = {}) {
        waiting.push({ type: "user", message: { role: "user", content: [{ type: "text", text: String(prompt) }] }, parent_tool_use_id: null, session_id: "", ...fields });
        wake?.();
      },
      async turn(prompt, fields, watch) {
        if (prompt !== undefined) this.push(prompt, fields);
        const messages = [];
        for (;;) {
          const { value, done } = await iterator.next();
          assert.equal(done, false, `the run ended: ${JSON.stringify(messages)}`);
          messages.push(value);
          if (watch) await watch(value);
          if (value.type === "result") return messages;
        }
      },
      /** The next message that fits; those before it are passed over. */
      async until(fits) {
        for (;;) {
          const { value, done } = await iterator.next();
          assert.equal(done, false, "the run ended");
          if (fits(value)) return value;
        }
      },
      async end() {
        ended = true;
        wake?.();
        for (;;) if ((await iterator.next()).done) return;
      },
    };
  }
}

/** Runs behaviours, four at once, and ends the process. */
export async function run(behaviours) {
  let failed = false;
  const queue = Object.entries(behaviours).filter(([name]) => !wanted.length || wanted.includes(name));
  async function worker() {
    for (let next; (next = queue.shift()); ) {
      const [name, behaviour] = next;
      let timer;
      const limit = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("it hangs")), 50_000); });
      try {
        await Promise.race([behaviour(new Case()), limit]);
        console.log(`ok ${name}`);
      } catch (error) {
        failed = true;
        console.log(`FAILED ${name}\n${error?.stack ?? error}`);
      } finally {
        clearTimeout(timer);
      }
    }
  }
  await Promise.all([worker(), worker(), worker(), worker()]);
  process.exit(failed ? 1 : 0);
}
