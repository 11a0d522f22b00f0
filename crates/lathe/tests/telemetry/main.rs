//! Telemetry of a whole run, received by a collector that decodes it with the official types; and proof that nothing
//! else leaves the machine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests assert by panicking, and stand outside of the program"
)]

use lathe_scripted::Reply;
use lathe_testkit::run::{Output, Running};
use lathe_testkit::{Peer, PeerReply, TestHome, workspace_root};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// In prompts, code, paths, results, keys and errors; never in what is sent.
const SECRET: &str = "hunter2";

fn collector() -> Peer {
    Peer::start(|_, _| PeerReply::json(&json!({})))
}

/// The documents that a collector got for a signal.
fn documents(collector: &Peer, path: &str) -> Vec<Value> {
    let requests = collector.requests();
    let of_path = requests.iter().filter(|request| request.path == path);
    of_path.map(lathe_testkit::PeerRequest::json).collect()
}

/// Reads documents with the official types, and gives them as these write them.
fn decoded(path: &str, documents: &[Value]) -> Vec<Value> {
    let packages = std::env::var("LATHE_TEST_PACKAGES").map_or_else(
        |_| workspace_root().join("target/test-packages"),
        Into::into,
    );
    let mut python = Command::new(packages.join("telemetry/bin/python"))
        .arg(workspace_root().join("crates/lathe/tests/telemetry/decode.py"))
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("scripts/setup-tests installs opentelemetry-proto");
    let mut input = python.stdin.take().unwrap();
    input
        .write_all(Value::from(documents).to_string().as_bytes())
        .unwrap();
    drop(input);
    let mut text = String::new();
    python
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(
        python.wait().unwrap().success(),
        "the official types refuse {documents:?}"
    );
    serde_json::from_str(&text).unwrap()
}

/// A run with an edit, a commit, a refusal, a hook and an error of the server; everything in it is secret.
fn full_run(home: TestHome, extra: &[(&str, String)]) -> Output {
    let server = lathe_testkit::server([
        Reply::error_with(529, "overloaded_error", format!("too much {SECRET}")),
        Reply::tool_use(
            "Write",
            json!({"file_path": format!("{SECRET}.txt"), "content": format!("{SECRET}\nb\n")}),
        ),
        Reply::tool_use(
            "Bash",
            json!({"command": format!("git commit -q --allow-empty -m {SECRET}; echo trace=$TRACEPARENT")}),
        ),
        Reply::tool_use("Bash", json!({"command": format!("rm -rf /{SECRET}")})),
        Reply::text(format!("done, {SECRET}")),
    ]);
    let home = extra
        .iter()
        .fold(home.server(&server), |home, (name, value)| {
            home.variable(*name, value)
        })
        .variable("ANTHROPIC_API_KEY", SECRET);
    home.git_init();
    let settings = json!({
        "permissions": {"allow": ["Write", "Edit", "Bash(git commit:*)", "Bash(echo:*)"], "deny": ["Bash(rm:*)"]},
        "hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": format!("true {SECRET}")}]}]},
    });
    let mut written: Value = std::fs::read(home.config().join("settings.json"))
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_else(|| json!({}));
    written
        .as_object_mut()
        .unwrap()
        .extend(settings.as_object().unwrap().clone());
    std::fs::write(home.config().join("settings.json"), written.to_string()).unwrap();
    let output = home.run(["-p", &format!("please fix {SECRET}")], "");
    assert_eq!(output.code(), Some(0), "{output:?}");
    let requests = server.requests();
    let last = requests.last().unwrap().body["messages"].to_string();
    if extra
        .iter()
        .any(|(name, value)| *name == "LATHE_ENABLE_TELEMETRY" && value == "1")
    {
        assert!(
            last.contains("trace=00-"),
            "child processes know the trace: {last}"
        );
    }
    output
}

fn names(documents: &[Value], pointer: &str, field: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for document in documents {
        for entry in document
            .pointer(pointer)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            found.insert(entry[field].as_str().unwrap_or_default().to_owned());
        }
    }
    found
}

#[test]
fn a_run_exports_metrics_events_and_traces_and_no_secret() {
    let collector = collector();
    full_run(
        TestHome::new(),
        &[
            ("LATHE_ENABLE_TELEMETRY", "1".to_owned()),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=a%20b".to_owned()),
            ("OTEL_RESOURCE_ATTRIBUTES", "team=core".to_owned()),
            ("OTEL_SERVICE_NAME", "mine".to_owned()),
        ],
    );
    let metrics = decoded("/v1/metrics", &documents(&collector, "/v1/metrics"));
    let found = names(
        &metrics,
        "/resourceMetrics/0/scopeMetrics/0/metrics",
        "name",
    );
    for name in [
        "lathe.session.count",
        "lathe.lines_of_code.count",
        "lathe.commit.count",
        "lathe.cost.usage",
        "lathe.token.usage",
        "lathe.tool.decision",
        "lathe.active_time.total",
    ] {
        assert!(found.contains(name), "{name} is not in {found:?}");
    }
    let tokens = metrics.last().unwrap().to_string();
    for kind in [
        "input",
        "output",
        "cacheRead",
        "cacheCreation",
        "added",
        "accept",
        "reject",
    ] {
        assert!(tokens.contains(&format!("\"{kind}\"")), "{kind}: {tokens}");
    }
    let logs = decoded("/v1/logs", &documents(&collector, "/v1/logs"));
    let found = names(&logs, "/resourceLogs/0/scopeLogs/0/logRecords", "eventName");
    for name in [
        "user_prompt",
        "tool_result",
        "api_request",
        "api_error",
        "tool_decision",
        "hook",
    ] {
        assert!(
            found.contains(&format!("lathe.{name}")),
            "{name} is not in {found:?}"
        );
    }
    let traces = decoded("/v1/traces", &documents(&collector, "/v1/traces"));
    let spans: Vec<Value> = traces
        .iter()
        .flat_map(|document| {
            document
                .pointer("/resourceSpans/0/scopeSpans/0/spans")
                .unwrap()
                .as_array()
                .unwrap()
                .clone()
        })
        .collect();
    for (child, parent) in [("call", "step"), ("step", "turn"), ("turn", "session")] {
        let child = spans.iter().find(|span| span["name"] == child).unwrap();
        let above = spans
            .iter()
            .find(|span| span["spanId"] == child["parentSpanId"])
            .unwrap();
        assert_eq!(above["name"], parent, "{spans:?}");
        assert_eq!(above["traceId"], child["traceId"]);
    }
    for request in collector.requests() {
        assert_eq!(request.header("x-team"), Some("a b"));
        let text = request.text();
        assert!(
            text.contains("\"mine\"") && text.contains("\"core\""),
            "{text}"
        );
        assert!(!text.contains(SECRET), "{text}");
        assert!(
            !text.contains("project") && !text.contains("/tmp"),
            "no paths: {text}"
        );
    }
}

#[test]
fn the_text_of_prompts_is_sent_only_when_asked_for() {
    let collector = collector();
    let variables = [
        ("CLAUDE_CODE_ENABLE_TELEMETRY", "1".to_owned()),
        (
            "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
            format!("{}/own", collector.url()),
        ),
        ("OTEL_METRICS_EXPORTER", "none".to_owned()),
        ("OTEL_TRACES_EXPORTER", "none".to_owned()),
        ("OTEL_LOG_USER_PROMPTS", "1".to_owned()),
    ];
    full_run(TestHome::new(), &variables);
    let found = documents(&collector, "/own");
    assert!(
        Value::from(found)
            .to_string()
            .contains("please fix hunter2")
    );
    assert!(
        collector
            .requests()
            .iter()
            .all(|request| request.path == "/own")
    );
}

#[test]
fn settings_switch_telemetry_on_with_headers_and_their_helper() {
    let collector = collector();
    let home = TestHome::new();
    let settings = json!({"telemetry": {
        "enabled": true, "endpoint": collector.url(), "headers": {"x-one": "1"},
        "headersHelper": "echo '{\"x-two\": \"2\"}'",
    }});
    std::fs::write(home.config().join("settings.json"), settings.to_string()).unwrap();
    full_run(home, &[]);
    let requests = collector.requests();
    assert!(!requests.is_empty());
    for request in requests {
        assert_eq!(
            (request.header("x-one"), request.header("x-two")),
            (Some("1"), Some("2"))
        );
    }
}

#[test]
fn a_folder_can_not_switch_telemetry_on() {
    let collector = collector();
    let home = TestHome::new();
    let settings = json!({"telemetry": {"enabled": true, "endpoint": collector.url()}});
    home.write(".lathe/settings.json", settings.to_string());
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    full_run(home, &[]);
    assert!(collector.requests().is_empty());
}

#[test]
fn nothing_is_sent_when_it_is_off_or_disabled() {
    let collector = collector();
    let address = ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    full_run(TestHome::new(), std::slice::from_ref(&address));
    let disabled = [
        address,
        ("LATHE_ENABLE_TELEMETRY", "1".to_owned()),
        ("OTEL_SDK_DISABLED", "true".to_owned()),
    ];
    let server = lathe_testkit::server([Reply::text("fine")]);
    let home = disabled
        .iter()
        .fold(TestHome::new().server(&server), |home, (name, value)| {
            home.variable(*name, value)
        });
    assert_eq!(home.run(["-p", "hi"], "").code(), Some(0));
    assert!(collector.requests().is_empty());
}

#[test]
fn a_dead_collector_delays_the_end_by_two_seconds_at_most() {
    // It accepts connections and never answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let run = |on: &str| {
        let server = lathe_testkit::server([Reply::text("fine")]);
        let home = TestHome::new()
            .server(&server)
            .variable("LATHE_ENABLE_TELEMETRY", on)
            .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &address)
            .variable("OTEL_EXPORTER_OTLP_TIMEOUT", "60000");
        let started = Instant::now();
        let output = home.run(["-p", "hi"], "");
        assert_eq!(output.code(), Some(0), "{output:?}");
        assert_eq!(output.stdout.trim(), "fine");
        started.elapsed()
    };
    let (off, on) = (run("0"), run("1"));
    // The rest is for machines that are busy.
    assert!(
        on < off + Duration::from_secs(2) + Duration::from_secs(20),
        "{on:?} instead of {off:?}"
    );
}

#[test]
fn the_console_and_prometheus_are_exporters_too() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let server = lathe_testkit::server([Reply::text("fine")]);
    let home = TestHome::new()
        .server(&server)
        .variable("LATHE_ENABLE_TELEMETRY", "1")
        .variable("OTEL_METRICS_EXPORTER", "prometheus")
        .variable("OTEL_LOGS_EXPORTER", "console")
        .variable("OTEL_TRACES_EXPORTER", "none")
        .variable("OTEL_LOGS_EXPORT_INTERVAL", "50")
        .variable("OTEL_METRIC_EXPORT_INTERVAL", "50")
        .variable("OTEL_EXPORTER_PROMETHEUS_PORT", port.to_string());
    let mut session = lathe_testkit::StreamJson::start(&home, ["--max-turns", "5"]);
    session.prompt("hi");
    session.wait_for_result();
    let page = loop {
        let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else {
            continue;
        };
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        break text;
    };
    assert!(page.contains("lathe_session_count_total 1"), "{page}");
    let output = session.close();
    assert!(output.stderr.contains("\"resourceLogs\""), "{output:?}");
}

#[test]
fn the_steps_of_a_start_are_printed_when_asked_for() {
    let server = lathe_testkit::server([Reply::text("fine")]);
    let home = TestHome::new()
        .server(&server)
        .variable("LATHE_PROFILE_STARTUP", "1");
    let output = home.run(["-p", "hi"], "");
    let steps = output
        .stderr
        .lines()
        .filter(|line| line.starts_with("lathe: start "));
    assert!(steps.count() >= 2, "{output:?}");
}

/// A whole session in a network that has nothing but loopback: every address that was tried is looked at.
#[cfg(target_os = "linux")]
#[test]
fn nothing_but_this_machine_is_tried() {
    let home = TestHome::new();
    let log = home.root().join("network");
    let script = format!(
        "ip link set lo up && exec strace -f -qq -e trace=connect,sendto,sendmsg -o {} {} demo --fast",
        log.display(),
        lathe_testkit::binary::lathe().display()
    );
    let mut command = Command::new("unshare");
    home.dress(&mut command);
    command.args(["--map-root-user", "--net", "sh", "-c", &script]);
    let output = Running::start(command).finish();
    assert_eq!(output.code(), Some(0), "{output:?}");
    let text = std::fs::read_to_string(&log).unwrap();
    let tried: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("sa_family=AF_INET"))
        .collect();
    assert!(
        !tried.is_empty(),
        "the demo reaches its model over loopback"
    );
    for line in tried {
        let local = line.contains("inet_addr(\"127.") || line.contains("\"::1\"");
        assert!(local, "{line}");
    }
}
