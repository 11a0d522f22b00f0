//! Mentions in a prompt, on the real binary: files, ranges, folders, pictures, resources of MCP servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::TestHome;
use serde_json::{Value, json};

/// A picture of one dot.
const DOT: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
    0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00, 0x00, 0x1f, 0x15, 0xc4,
    0x89, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x60, 0x60, 0x60, 0x60,
    0x00, 0x00, 0x00, 0x05, 0x00, 0x01, 0xa5, 0xf6, 0x45, 0x40, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45,
    0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

/// A server with one resource.
const SERVER: &str = r#"
import json, sys
def say(message, **fields):
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **fields}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method = message["method"]
    if method == "initialize":
        say(message, result={"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"resources": {}}, "serverInfo": {"name": "sky", "version": "1"}})
    elif method == "resources/list":
        say(message, result={"resources": [{"uri": "note://moon", "name": "moon"}]})
    elif method == "resources/read" and message["params"]["uri"] == "note://moon":
        say(message, result={"contents": [{"uri": "note://moon", "mimeType": "text/plain", "text": "the moon is full"}]})
    elif method == "resources/read":
        say(message, error={"code": -32002, "message": "no such note"})
    else:
        say(message, error={"code": -32601, "message": "no such method"})
"#;

fn model() -> BlockingServer {
    BlockingServer::start(Scenario::new().responder(|_| Reply::text("seen"))).unwrap()
}

/// The last request to the model.
fn messages(server: &BlockingServer) -> Vec<Value> {
    let last = server.message_requests().pop().unwrap();
    last.messages().to_vec()
}

#[test]
fn files_ranges_folders_and_pictures_go_with_a_prompt() {
    let server = model();
    let home = TestHome::with_server(&server);
    let lines: String = (1..=30)
        .map(|line| format!("line number {line}\n"))
        .collect();
    home.write("long.txt", lines);
    home.write("with blanks.txt", "blanks in its name\n");
    home.write("inner/some.rs", "fn main() {}\n");
    home.write("dot.png", DOT);
    home.write(".env", "TOKEN=very-secret\n");
    let prompt = "look at @long.txt#L3-5, @inner/, @\"with blanks.txt\", @dot.png and @.env; mail me@example.org";
    let output = home.run(["-p", prompt], "");
    assert!(output.status.success(), "{output:?}");
    let sent = messages(&server);
    let text = Value::from(sent.clone()).to_string();
    for wanted in [
        "line number 3",
        "line number 5",
        "some.rs",
        "blanks in its name",
    ] {
        assert!(text.contains(wanted), "{wanted:?} is not in {text}");
    }
    for unwanted in [
        "line number 6",
        "line number 2\\n",
        "fn main",
        "very-secret",
    ] {
        assert!(!text.contains(unwanted), "{unwanted:?} is in {text}");
    }
    let blocks = sent[0]["content"].as_array().unwrap();
    let pictures: Vec<&Value> = blocks
        .iter()
        .filter(|block| block["type"] == "image")
        .collect();
    assert_eq!(pictures.len(), 1, "{blocks:?}");
    assert_eq!(pictures[0]["source"]["media_type"], "image/png");
    assert!(
        output.stderr.contains("passwords and keys"),
        "{}",
        output.stderr
    );
    assert_eq!(server.problems(), Vec::<String>::new());
}

#[test]
fn a_resource_of_a_server_goes_with_a_prompt() {
    let server = model();
    let home = TestHome::with_server(&server);
    let program = home.write("server.py", SERVER);
    let config = json!({"mcpServers": {"sky": {"command": "python3", "args": [program]}}});
    let run = |prompt: &str| home.run(["-p", prompt, "--mcp-config", &config.to_string()], "");
    let output = run("what does @sky:note://moon say?");
    assert!(output.status.success(), "{output:?}");
    let text = Value::from(messages(&server)).to_string();
    assert!(text.contains("the moon is full"), "{text}");
    // One that isn't there is told, and the words go out as they are.
    let output = run("and @sky:note://sun?");
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.contains("note://sun"), "{}", output.stderr);
    // Another server's name is nobody's.
    let output = run("and @ground:note://moon?");
    assert!(output.status.success(), "{output:?}");
    assert!(
        !Value::from(messages(&server))
            .to_string()
            .contains("the moon is full")
    );
}
