// The official TypeScript client opens sessions that run in another process: `lathe --bg` started them.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Script, call, hanging, run } from "../sdk/support.mjs";
import { Editor, selected } from "./editor.mjs";

const binary = process.env.LATHE_TEST_BINARY;

/** A session in the background, and the editors that have it open. */
class Elsewhere {
  static async start(test, script, args = []) {
    const it = new Elsewhere();
    it.test = test;
    it.editors = [];
    it.id = it.lathe("--bg", ...args, String(script)).trim();
    it.session = it.host().session_id;
    return it;
  }
  lathe(...words) {
    const done = spawnSync(binary, words, { cwd: this.test.cwd, env: process.env, encoding: "utf8" });
    assert.equal(done.status, 0, done.stderr);
    return done.stdout;
  }
  host() {
    const folder = join(process.env.LATHE_CONFIG_DIR, "run");
    const hosts = readdirSync(folder).filter((name) => name.endsWith(".json")).flatMap((name) => {
      try { return [JSON.parse(readFileSync(join(folder, name), "utf8"))]; } catch { return []; }
    });
    return hosts.find((host) => host.id === this.id || host.id.startsWith(this.id));
  }
  /** Waits until the process says so, at the pace of its own notes. */
  async state(wanted) {
    for (;;) {
      const host = this.host();
      if (wanted === undefined ? !host : host?.state === wanted) return;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
  async editor(method = "session/load", options = {}) {
    const editor = await Editor.start(this.test, options);
    this.editors.push(editor);
    editor.session = await editor.request(method, { sessionId: this.session, cwd: this.test.cwd, mcpServers: [], ...options.open });
    return editor;
  }
  async end() {
    for (const editor of this.editors) if (editor.child.exitCode === null && !editor.child.killed) await editor.end();
    if (this.host()) this.lathe("stop", this.id);
    await this.state(undefined);
  }
}

const never = () => new Promise(() => {});

await run({
  async a_session_that_runs_elsewhere_is_loaded_and_goes_on(test) {
    const it = await Elsewhere.start(test, new Script("hello from before"));
    await it.state("idle");
    const editor = await it.editor();
    assert.equal(editor.session.sessionId, it.session);
    assert.equal(editor.session._meta.lathe.attached, true);
    assert.equal(editor.text(), "hello from before");
    assert.equal(editor.of("user_message_chunk").length, 1);
    assert.deepEqual(await editor.prompt(new Script({ text: "and now here", delta_characters: 4 })), { stopReason: "end_turn" });
    assert.match(editor.text(), /hello from before.*and now here$/s);
    assert.ok(editor.of("usage_update").length > 0);
    // Closed by the editor, it still runs, and the next one sees all of it.
    await editor.request("session/close", { sessionId: it.session });
    await editor.end();
    assert.ok(it.host());
    const second = await it.editor();
    assert.match(second.text(), /hello from before.*and now here$/s);
    assert.equal(second.of("user_message_chunk").length, 2);
    await it.end();
  },

  async a_session_that_runs_elsewhere_is_resumed_without_a_replay(test) {
    const it = await Elsewhere.start(test, new Script("hello from before"));
    await it.state("idle");
    const editor = await it.editor("session/resume");
    assert.equal(editor.text(), "");
    assert.equal(editor.of("user_message_chunk").length, 0);
    assert.deepEqual(await editor.prompt(new Script("more")), { stopReason: "end_turn" });
    assert.equal(editor.text(), "more");
    await it.end();
  },

  async two_editors_show_the_same_turn(test) {
    const it = await Elsewhere.start(test, new Script("before"));
    await it.state("idle");
    const [one, two] = [await it.editor(), await it.editor()];
    const asked = call("Write", { file_path: test.path("made.txt"), content: "made\n" });
    const answered = one.prompt(new Script(asked, "both see this"));
    assert.deepEqual(await answered, { stopReason: "end_turn" });
    await two.until(() => two.text().endsWith("both see this"));
    assert.equal(readFileSync(test.path("made.txt"), "utf8"), "made\n");
    const shape = (editor) => editor.calls().map((it) => [it.toolCallId, it.kind, it.status]);
    assert.deepEqual(shape(two), shape(one));
    // The prompt of one is shown in the other, and not to the one that typed it.
    assert.equal(one.of("user_message_chunk").length, 1);
    assert.equal(two.of("user_message_chunk").length, 2);
    await it.end();
  },

  async a_question_that_another_editor_answers_is_taken_back(test) {
    const it = await Elsewhere.start(test, new Script("before"));
    await it.state("idle");
    let open, withdrawn, question;
    const shown = new Promise((resolve) => { open = resolve; });
    const gone = new Promise((resolve) => { withdrawn = resolve; });
    const seen = new Promise((resolve) => { question = resolve; });
    const waits = await it.editor("session/load", {
      permission: (_, signal) => { signal.addEventListener("abort", withdrawn); open(); return never(); },
    });
    let answer;
    const answers = await it.editor("session/load", {
      permission: (params) => { question(params); return new Promise((resolve) => { answer = () => resolve(selected("allow")); }); },
    });
    const over = waits.prompt(new Script(call("Write", { file_path: test.path("a"), content: "a" }), "done"));
    await Promise.all([shown, seen]);
    answer();
    assert.deepEqual(await over, { stopReason: "end_turn" });
    await gone;
    assert.ok(existsSync(test.path("a")));
    assert.equal(answers.asked.length, 1);
    await it.end();
  },

  async a_question_that_is_open_already_is_asked(test) {
    const it = await Elsewhere.start(test, new Script(call("Write", { file_path: test.path("a"), content: "a" }), "written"));
    await it.state("needs-you");
    const editor = await it.editor();
    await editor.until(() => editor.text().endsWith("written"));
    assert.equal(editor.asked.length, 1);
    assert.ok(existsSync(test.path("a")));
    await it.end();
  },

  async an_answer_is_cancelled_from_an_editor(test) {
    const it = await Elsewhere.start(test, new Script("before"));
    await it.state("idle");
    const editor = await it.editor();
    const over = editor.prompt(new Script(hanging("a long story that never ends")));
    await editor.until(() => editor.text().includes("long"));
    // One that waits behind it is taken back too.
    const waiting = editor.prompt(new Script("never said"));
    await editor.cancel();
    assert.deepEqual(await over, { stopReason: "cancelled" });
    assert.deepEqual(await waiting, { stopReason: "cancelled" });
    assert.ok(!editor.text().includes("never said"));
    assert.deepEqual(await editor.prompt(new Script("still here")), { stopReason: "end_turn" });
    await it.end();
  },

  async a_question_is_cancelled_with_its_turn(test) {
    const it = await Elsewhere.start(test, new Script("before"));
    await it.state("idle");
    let asked;
    const seen = new Promise((resolve) => { asked = resolve; });
    const editor = await it.editor("session/load", { permission: () => { asked(); return never(); } });
    const over = editor.prompt(new Script(call("Write", { file_path: test.path("a"), content: "a" }), "done"));
    await seen;
    await editor.cancel();
    assert.deepEqual(await over, { stopReason: "cancelled" });
    assert.ok(!existsSync(test.path("a")));
    await it.end();
  },

  async a_prompt_is_answered_when_its_session_is_killed(test) {
    const it = await Elsewhere.start(test, new Script("before"));
    await it.state("idle");
    const editor = await it.editor();
    const over = editor.prompt(new Script(hanging("a long story that never ends")));
    await editor.until(() => editor.text().includes("long"));
    process.kill(it.host().pid, "SIGKILL");
    assert.deepEqual(await over, { stopReason: "cancelled" });
    await assert.rejects(editor.prompt(new Script("nobody there")), /over/);
    // What it wrote is there: loaded again, it runs in the editor's own process.
    editor.updates.length = 0;
    const again = await editor.request("session/load", { sessionId: it.session, cwd: test.cwd, mcpServers: [] });
    assert.equal(again._meta?.lathe?.attached, undefined);
    assert.match(editor.text(), /before/);
    assert.deepEqual(await editor.prompt(new Script("here now"), it.session), { stopReason: "end_turn" });
    await it.end();
  },

  async a_killed_editor_ends_nothing(test) {
    const it = await Elsewhere.start(test, new Script("before"));
    await it.state("idle");
    const editor = await it.editor();
    const [began, gate] = [test.path("began"), test.path("gate")];
    const wait = call("Bash", { command: `touch ${began}; while [ ! -e ${gate} ]; do sleep 0.02; done; echo passed` });
    editor.prompt(new Script(wait, "finished alone")).catch(() => {});
    while (!existsSync(began)) await new Promise((resolve) => setTimeout(resolve, 5));
    editor.child.kill("SIGKILL");
    await editor.exited;
    spawnSync("touch", [gate]);
    await it.state("idle");
    const second = await it.editor();
    assert.match(second.text(), /finished alone$/);
    assert.equal(second.calls()[0].status, "completed");
    await it.end();
  },

  async the_mode_is_changed_for_everybody(test) {
    const it = await Elsewhere.start(test, new Script("before"));
    await it.state("idle");
    const [one, two] = [await it.editor(), await it.editor()];
    await one.request("session/set_mode", { sessionId: it.session, modeId: "plan" });
    await two.until(() => two.of("current_mode_update").some((it) => it.currentModeId === "plan"));
    const options = await two.request("session/set_config_option", { sessionId: it.session, configId: "mode", value: "acceptEdits" });
    assert.equal(options.configOptions.find((it) => it.id === "mode").currentValue, "acceptEdits");
    await one.until(() => one.of("current_mode_update").some((it) => it.currentModeId === "acceptEdits"));
    await assert.rejects(one.request("session/set_mode", { sessionId: it.session, modeId: "nonsense" }));
    await assert.rejects(one.request("session/set_config_option", { sessionId: it.session, configId: "colour", value: "red" }), /no option/);
    await it.end();
  },

  async the_servers_of_the_editor_are_not_used_and_it_is_told_so(test) {
    const it = await Elsewhere.start(test, new Script("before"));
    await it.state("idle");
    const servers = [{ name: "mine", command: "/bin/false", args: [], env: [] }];
    const editor = await it.editor("session/load", { open: { mcpServers: servers } });
    await editor.until(() => /its own MCP servers/.test(JSON.stringify(editor.updates)));
    await it.end();
  },

  async a_session_that_runs_is_not_deleted(test) {
    const it = await Elsewhere.start(test, new Script("before"));
    await it.state("idle");
    const editor = await it.editor();
    await assert.rejects(editor.request("session/delete", { sessionId: it.session }), /lathe stop/);
    const { sessions } = await editor.request("session/list", { cwd: test.cwd });
    assert.ok(sessions.some((session) => session.sessionId === it.session));
    await it.end();
  },

  async a_session_here_and_one_elsewhere_do_not_mix(test) {
    const it = await Elsewhere.start(test, new Script("before"));
    await it.state("idle");
    const editor = await it.editor();
    const own = await editor.open();
    const both = [editor.prompt(new Script("own words"), own.sessionId), editor.prompt(new Script("other words"), it.session)];
    assert.deepEqual(await Promise.all(both), [{ stopReason: "end_turn" }, { stopReason: "end_turn" }]);
    assert.equal(editor.text(own.sessionId), "own words");
    assert.match(editor.text(it.session), /other words$/);
    assert.ok(!editor.text(it.session).includes("own words"));
    await it.end();
  },
});
