#!/usr/bin/env node
// Starts the program that npm installed for this platform, and passes signals and the exit code on.
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const path = require("node:path");

const base = `@lathe-dev/${process.platform}-${process.arch}`;

function find() {
  // Which C library this is does not matter where only one of the two packages is installed.
  for (const name of [base, `${base}-musl`]) {
    try {
      return path.join(path.dirname(require.resolve(`${name}/package.json`)), "bin", "lathe");
    } catch {
      // The next one.
    }
  }
  return undefined;
}

const program = find();
if (program === undefined) {
  console.error(`lathe: there is no package ${base}. Install it without --omit=optional, on Linux or macOS (x64, arm64).`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  // The terminal sends SIGINT to both; this process waits for the end of the other.
  process.on(signal, () => signal !== "SIGINT" && child.kill(signal));
}
child.on("error", (error) => {
  console.error(`lathe: ${program} can't be started: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
