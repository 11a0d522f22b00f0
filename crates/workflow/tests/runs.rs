//! Scripts that run: what they can do, what they can't, and how they are stopped.
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_workflow::{Answer, Limits, Outcome, Request, RunOptions, Script, ScriptError, run};
use serde_json::{Value, json};
use std::sync::mpsc;

const META: &str = "export const meta = { name: 'a', description: 'b' }\n";

/// The result of a run, and its requests.
struct Ran {
    result: Result<Value, ScriptError>,
    words: Vec<String>,
    calls: Vec<String>,
}

/// Runs a script whose agents answer with their prompt, those that begin with `die` by failing.
fn ran_with(body: &str, options: &RunOptions) -> Ran {
    let script = Script::parse("a.js", &format!("{META}{body}")).unwrap();
    let (send, answers) = mpsc::channel();
    let (mut words, mut calls) = (Vec::new(), Vec::new());
    let mut spent = 0;
    let result = run(
        &script,
        options,
        |requests| {
            for request in requests {
                match request {
                    Request::Agent { id, call } => {
                        spent += 10;
                        let outcome = if call.prompt.starts_with("die") {
                            Outcome::Failed("it died".to_owned())
                        } else if call.schema.is_some() {
                            Outcome::Value(json!({"said": call.prompt}))
                        } else {
                            Outcome::Value(json!(format!("did {}", call.prompt)))
                        };
                        calls.push(format!(
                            "{}|{}",
                            call.prompt,
                            call.phase.unwrap_or_default()
                        ));
                        send.send(Answer::To { id, outcome, spent }).unwrap();
                    }
                    Request::Workflow { id, reference } => {
                        let text = format!(
                            "{META}return (await agent('inner ' + args.x)) + (args.deep ? await workflow('x') : '')"
                        );
                        let outcome = match reference.as_str() {
                            "other" => {
                                Outcome::Script(Box::new(Script::parse("other", &text).unwrap()))
                            }
                            name => Outcome::Failed(format!("there is no workflow {name}")),
                        };
                        send.send(Answer::To { id, outcome, spent }).unwrap();
                    }
                    Request::Phase(text) | Request::Log(text) | Request::Dropped(text) => {
                        words.push(text);
                    }
                }
            }
        },
        &answers,
    );
    Ran {
        result,
        words,
        calls,
    }
}

fn ran(body: &str) -> Ran {
    ran_with(body, &RunOptions::default())
}

fn value(body: &str) -> Value {
    ran(body).result.unwrap()
}

fn error(body: &str) -> String {
    ran(body).result.unwrap_err().to_string()
}

#[test]
fn agents_are_called_one_after_the_other_together_and_in_stages() {
    let told = ran(
        "phase('One')\nlog('hello', {a: 1})\nconst one = await agent('x')\nphase('Two')\nconst more = await parallel([() => agent('y'), () => agent('die'), async () => 3])\nconst lines = await pipeline(['p', 'q'], (v) => agent(v), (v, item, index) => { if (index) throw new Error('no'); return [v, item] })\nreturn { one, more, lines, s: await agent('z', { schema: { type: 'object' }, phase: 'Own' }) }",
    );
    assert_eq!(
        told.result.unwrap(),
        json!({"one": "did x", "more": ["did y", null, 3], "lines": [["did p", "p"], null], "s": {"said": "z"}})
    );
    assert_eq!(
        told.calls,
        ["x|One", "y|Two", "die|Two", "p|Two", "q|Two", "z|Own"]
    );
    assert_eq!(
        told.words,
        [
            "One",
            "hello {\"a\":1}",
            "Two",
            "parallel, item 2: it died",
            "pipeline, item 2: no"
        ]
    );
    assert_eq!(value("log('only')"), Value::Null);
}

#[test]
fn arguments_budget_and_other_workflows_are_there() {
    let options = RunOptions {
        args: json!({"files": ["a", "b"]}),
        total_tokens: Some(25),
        ..RunOptions::default()
    };
    let body = "const before = budget.remaining()\nfor (const file of args.files) await agent(file)\nreturn [before, budget.spent(), budget.remaining(), budget.total]";
    assert_eq!(
        ran_with(body, &options).result.unwrap(),
        json!([25, 20, 5, 25])
    );
    assert_eq!(
        value("return [budget.total, budget.remaining() === Infinity]"),
        json!([null, true])
    );
    assert_eq!(
        value("return await workflow('other', { x: 7 })"),
        json!("did inner 7")
    );
    assert!(error("await workflow('missing')").contains("there is no workflow missing"));
    assert!(error("await workflow('other', { deep: true })").contains("can't run a third"));
}

#[test]
fn a_script_that_throws_is_named_with_line_and_column() {
    for (body, expected) in [
        ("\n  throw new Error('boom')", "a.js:3:13: boom"),
        (
            "const x = null\nx.y",
            "a.js:3:1: cannot read property 'y' of null",
        ),
        (
            "await agent('ok')\n\n  await agent('die')",
            "a.js:4:9: it died",
        ),
        (
            "const f = () => agent('')\nf()",
            "a.js:2:17: agent needs a prompt",
        ),
        (
            "agent('x', { colour: 1 })",
            "a.js:2:1: agent has no option colour",
        ),
        (
            "parallel([agent('x')])",
            "a.js:2:11: parallel needs functions",
        ),
        (
            "await new Promise(() => {})",
            "a.js: the script waits for something that can't happen",
        ),
        ("throw 'word'", "a.js:1:1: it threw word"),
        (
            "pipeline(new Array(4097).fill(1))",
            "a.js:2:26: pipeline takes at most 4096 items",
        ),
        (
            "function f() { return f() + 1 }\nf()",
            "a.js:2:23: Maximum call stack size exceeded",
        ),
    ] {
        let found = error(body);
        assert!(found.starts_with(expected), "{body}: {found}");
    }
}

#[test]
fn a_script_that_computes_or_allocates_without_end_is_stopped_where_it_is() {
    let options = RunOptions {
        limits: Limits {
            memory_bytes: 16 << 20,
            steps: 2_000,
            ..Limits::default()
        },
        ..RunOptions::default()
    };
    for (body, at) in [
        ("\nwhile (true) {}", "a.js:3:1"),
        ("await agent('x')\n  for (;;) {}", "a.js:3:3"),
        (
            "try { while (true) {} } catch (error) {}\nreturn 1",
            "a.js:2:7",
        ),
        ("new Promise(() => {\n  do {} while (true) })", "a.js:3:3"),
        ("let n = 0\nwhile (true)\n  n = Math.max(n, 1)", "a.js:4:"),
        ("return /(a+)+$/.test('a'.repeat(40) + 'b')", "a.js:2:"),
        (
            "const a = []\nwhile (true) a.push('x'.repeat(100000) + a.length)",
            "a.js:3:",
        ),
        (
            "await agent('x')\nconst a = []\nfor (;;) a.push(new Array(1000).fill(a.length))",
            "a.js:4:",
        ),
        // What waits for agents lies outside of the engine, and counts all the same.
        (
            "const long = 'x'.repeat(1000000)\nwhile (true) agent(long)",
            "a.js:3:",
        ),
        ("while (true) {\n  agent('x') }", "a.js:3:"),
    ] {
        let error = ran_with(body, &options).result.unwrap_err();
        assert!(
            matches!(error, ScriptError::Limit { .. }),
            "{body}: {error}"
        );
        assert!(error.to_string().starts_with(at), "{body}: {error}");
    }
}

#[test]
fn a_script_whose_steps_are_slow_is_stopped_by_the_time_that_it_computes() {
    let options = RunOptions {
        limits: Limits {
            steps: u64::MAX,
            computing: std::time::Duration::from_millis(10),
            ..Limits::default()
        },
        ..RunOptions::default()
    };
    let body = "let n = 0\nfor (;;) n += 'x'.repeat(10000).length";
    let error = ran_with(body, &options).result.unwrap_err();
    assert!(matches!(error, ScriptError::Limit { .. }), "{error}");
    assert!(error.to_string().starts_with("a.js:3:"), "{error}");
    assert!(error.to_string().contains("without waiting"), "{error}");
}

#[test]
fn prompts_that_were_answered_take_no_memory_and_one_that_is_too_long_is_refused() {
    let options = RunOptions {
        limits: Limits {
            memory_bytes: 16 << 20,
            steps: 2_000,
            ..Limits::default()
        },
        ..RunOptions::default()
    };
    let body = "const long = 'x'.repeat(1000000)\nfor (let i = 0; i < 40; i++) await agent(long)\nreturn 'all'";
    assert_eq!(ran_with(body, &options).result.unwrap(), json!("all"));
    // Nothing waits for it.
    let body = "const call = (text) => { try { agent(text) } catch (error) { return error.message } }\n\
        const long = 'x'.repeat(5000000)\ncall(long), call(long), call(long)\nreturn [call(long), await agent('x')]";
    assert_eq!(
        ran_with(body, &options).result.unwrap(),
        json!(["out of memory", "did x"])
    );
}

#[test]
fn a_script_that_speaks_without_end_is_stopped_where_it_is() {
    // Words lie outside of the memory of the engine.
    for (body, at) in [
        (
            "const long = 'x'.repeat(1000000)\nwhile (true) log(long)",
            "a.js:3:",
        ),
        ("while (true) {\n  phase('next')\n}", "a.js:3:"),
        (
            "await agent('x')\nfor (;;) { await null; log('') }",
            "a.js:3:",
        ),
    ] {
        let told = ran(body);
        let error = told.result.unwrap_err();
        assert!(
            matches!(error, ScriptError::Limit { .. }),
            "{body}: {error}"
        );
        assert!(error.to_string().starts_with(at), "{body}: {error}");
        assert!(
            error.to_string().contains("at most 4 MB in a run"),
            "{error}"
        );
        let bytes: usize = told.words.iter().map(String::len).sum();
        assert!(bytes <= 4 << 20, "{body}: {bytes} bytes");
    }
    // One that continues all the same says nothing more, and its steps are counted.
    let body = "const long = 'x'.repeat(1000)\nfor (;;) try { log(long) } catch (error) {}";
    let options = RunOptions {
        limits: Limits {
            memory_bytes: 64 << 20,
            steps: 20,
            ..Limits::default()
        },
        ..RunOptions::default()
    };
    let told = ran_with(body, &options);
    assert!(matches!(told.result, Err(ScriptError::Limit { .. })));
    assert!(told.words.iter().map(String::len).sum::<usize>() <= 4 << 20);
}

#[test]
fn a_run_is_stopped_from_outside_while_it_waits() {
    let script = Script::parse("a.js", &format!("{META}await agent('x')")).unwrap();
    let (send, answers) = mpsc::channel();
    let result = run(
        &script,
        &RunOptions::default(),
        |_| send.send(Answer::Stop).unwrap(),
        &answers,
    );
    assert_eq!(result, Err(ScriptError::Stopped));
}

#[test]
fn there_is_no_way_to_files_network_clock_or_randomness() {
    for name in [
        "require",
        "process",
        "module",
        "fetch",
        "XMLHttpRequest",
        "WebSocket",
        "Deno",
        "Bun",
        "std",
        "os",
        "bjson",
        "performance",
        "setTimeout",
        "setInterval",
        "console",
        "print",
        "load",
        "loadScript",
        "navigator",
        "Intl",
        "WeakRef",
        "FinalizationRegistry",
        "SharedArrayBuffer",
        "Atomics",
        "Worker",
        "crypto",
        "gc",
        "eval",
        "WebAssembly",
    ] {
        assert_eq!(
            value(&format!("return typeof {name}")),
            "undefined",
            "{name}"
        );
    }
    for (body, why) in [
        ("return Date.now()", "no clock"),
        ("return new Date()", "no clock"),
        ("return Date()", "no clock"),
        ("return new (Date.prototype.constructor)()", "no clock"),
        ("return Math.random()", "no randomness"),
        ("return [1, 2].sort(() => Math.random())", "no randomness"),
        ("return await import('fs')", "could not load module"),
        ("return await import('./a.js')", "could not load module"),
        (
            "return Function('return process')()",
            "process is not defined",
        ),
        (
            "return (() => {}).constructor('return this.process.env')()",
            "of undefined",
        ),
        (
            "return new Error().constructor.constructor('return require(\"fs\")')()",
            "require is not defined",
        ),
        ("Math.random = () => 4; return Math.random()", "read-only"),
        ("globalThis.agent = 1", "read-only"),
    ] {
        let error = error(body);
        assert!(error.contains(why), "{body}: {error}");
    }
    // Nothing of the engine leaks an address or an order that changes.
    let twice = "return Object.keys({b: 1, a: 2}).concat([...new Map([[{}, 1]]).values()], String(Symbol('x')), new Error('x').stack)";
    assert_eq!(value(twice), value(twice));
}
