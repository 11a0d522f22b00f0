//! Our requests, read by the official packages of the providers: bodies by their types, signatures by their signers.

use crate::house::{House, KINDS};
use crate::scenarios::PIXEL;
use lathe_scripted::{BlockingServer, RecordedRequest, Reply};
use lathe_testkit::workspace_root;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The interpreter that has the packages.
#[expect(
    clippy::disallowed_methods,
    reason = "the variable is the test's own, and `Environment` is what is tested"
)]
fn python() -> PathBuf {
    let folder = std::env::var_os("LATHE_TEST_PACKAGES").map_or_else(
        || workspace_root().join("target/test-packages"),
        PathBuf::from,
    );
    let folder = folder.join("providers");
    assert!(
        folder.join("installed").is_file(),
        "the packages of the providers are not in {}: run scripts/setup-tests",
        folder.display()
    );
    folder.join("bin/python")
}

/// Holds these against the packages.
#[track_caller]
pub(crate) fn checked(requests: &[Value]) {
    let script = workspace_root().join("crates/testkit/tests/models/official/check.py");
    let mut child = Command::new(python())
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // One that isn't fine ends the reading.
    for request in requests {
        if writeln!(input, "{request}").is_err() {
            break;
        }
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(told.lines().count(), requests.len(), "{told}");
}

/// A request for the packages.
fn captured(check: &str, server: &BlockingServer, request: &RecordedRequest) -> Value {
    let headers: serde_json::Map<String, Value> = request
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap())))
        .collect();
    json!({
        "check": check,
        "url": format!("{}{}", server.base_url(), request.path),
        "headers": headers,
        "raw": String::from_utf8(request.raw_body.to_vec()).unwrap(),
        "model": request.model(),
    })
}

/// Two turns with everything that a conversation can have: a system prompt, tools, reasoning, words, calls beside each
/// other, results with an image, with an error and with signs of all kinds, and a structured answer.
fn conversation(house: &House, model: &str) -> BlockingServer {
    house.home.write("pixel.png", PIXEL);
    house.home.write(
        "notes.txt",
        "h\u{e9}llo \u{6f22}\u{5b57} \"q\" \\ \u{1f600}",
    );
    let read = |name: &str| json!({"file_path": house.home.project().join(name)});
    let server = house.serve([
        Reply::thinking("I should look at both")
            .with_text("Both at once.")
            .with_tool_use("Read", read("pixel.png"))
            .with_tool_use("Read", read("notes.txt")),
        Reply::tool_use("Teleport", json!({"to": "x"})),
        Reply::thinking("enough").with_text("done"),
        Reply::tool_use("StructuredOutput", json!({"n": 7})),
        Reply::text("structured").optional(),
    ]);
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    for more in [
        &["--effort", "high"][..],
        &["-c", "--json-schema", schema][..],
    ] {
        let output = house.ask_model(model, more);
        assert_eq!(output.code(), Some(0), "{output:#?}");
    }
    assert_eq!(server.problems(), Vec::<String>::new());
    assert!(server.requests().len() >= 4);
    server
}

fn house(kind: &str) -> House {
    House::new(KINDS.iter().find(|known| known.name == kind).unwrap())
}

fn bodies_are_read(kind: &str, check: &str) {
    let server = conversation(&house(kind), "house/m-1");
    let requests = server.requests();
    let lines: Vec<Value> = requests
        .iter()
        .map(|request| captured(check, &server, request))
        .collect();
    checked(&lines);
}

#[test]
fn requests_to_anthropic_are_read_by_its_own_types() {
    bodies_are_read("anthropic", "messages");
}

#[test]
fn requests_of_chat_completions_are_read_by_openais_types() {
    bodies_are_read("openai-chat", "chat");
}

#[test]
fn requests_of_responses_are_read_by_openais_types() {
    bodies_are_read("openai", "responses");
}

#[test]
fn requests_to_gemini_are_read_by_googles_types() {
    bodies_are_read("gemini", "gemini");
}

#[test]
fn requests_to_vertex_have_the_address_of_its_own_client() {
    let server = conversation(&house("vertex"), "house/m-1");
    let requests = server.requests();
    let lines: Vec<Value> = requests
        .iter()
        .map(|request| {
            let mut line = captured("vertex", &server, request);
            line["region"] = json!("europe-west1");
            line["project"] = json!("the-project");
            line
        })
        .collect();
    checked(&lines);
}

#[test]
fn requests_to_bedrock_are_signed_as_botocore_signs_them() {
    let mut lines = Vec::new();
    let mut servers = Vec::new();
    for (model, token) in [
        ("m-1", None),
        (
            "us.anthropic.claude-opus-5-5:0",
            Some("token/of+the=session"),
        ),
        (
            "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3",
            None,
        ),
    ] {
        let mut house = house("bedrock");
        if let Some(token) = token {
            house.home = house.home.variable("AWS_SESSION_TOKEN", token);
        }
        let server = conversation(&house, &format!("house/{model}"));
        for request in server.requests() {
            let mut line = captured("bedrock", &server, &request);
            assert_eq!(line["model"], model);
            line["secret"] = json!("secret-of-the-house");
            line["token"] = json!(token);
            lines.push(line);
        }
        servers.push(server);
    }
    // The frames of the scripted server are those of AWS, too.
    servers[0].push_reply(Reply::thinking("hm").with_text("in frames"));
    let first = servers[0].requests().remove(0);
    lines.push(captured("frames", &servers[0], &first));
    checked(&lines);
}
