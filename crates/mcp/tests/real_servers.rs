//! Servers that people run: the reference servers over all their transports, the official SDKs'.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use common::{Home, LONG, call, one, state, until, wait_for};
use lathe_mcp::{
    CallOptions, Change, Manager, Program, Remote, ServerConfig, State, TransportConfig,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

/// Where `scripts/setup-tests` puts the packages.
fn packages() -> PathBuf {
    let folder = std::env::var_os("LATHE_TEST_PACKAGES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-packages"),
        PathBuf::from,
    );
    let folder = folder.join("mcp");
    assert!(
        folder.join("installed").is_file(),
        "the MCP packages are not in {}: run scripts/setup-tests",
        folder.display()
    );
    folder.canonicalize().unwrap()
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn node(package: &str, arguments: &[&str]) -> Program {
    let packages = packages();
    let script = packages.join(format!(
        "node_modules/@modelcontextprotocol/{package}/dist/index.js"
    ));
    let arguments = arguments.iter().map(|argument| (*argument).to_owned());
    Program {
        command: text(&packages.join("node")),
        args: std::iter::once(text(&script)).chain(arguments).collect(),
        env: indexmap::IndexMap::new(),
        cwd: None,
        sandbox: false,
    }
}

fn stdio(program: Program) -> ServerConfig {
    ServerConfig::new(TransportConfig::Stdio(program))
}

/// The reference server as a process of its own, listening. It is gone with this value.
async fn listening(kind: &str) -> (Child, u16) {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let program = node("server-everything", &[kind]);
    let child = Command::new(&program.command)
        .args(&program.args)
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    until(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
    (child, port)
}

/// The abilities of the reference server, over any transport.
async fn everything(manager: &Manager) {
    assert_eq!(
        state(manager),
        State::Connected,
        "{:?}",
        manager.server("s")
    );
    let mut changes = manager.changes();
    // Some tools come after the server has looked at what we offer.
    let has = |name: &str| manager.tools().iter().any(|tool| tool.item["name"] == name);
    while !has("trigger-sampling-request") {
        wait_for(&mut changes, |change| {
            matches!(change, Change::Tools { .. })
        })
        .await;
    }
    assert_eq!(
        call(manager, "echo", json!({"message": "hi"}))
            .await
            .unwrap(),
        "Echo: hi"
    );
    assert!(
        call(manager, "get-sum", json!({"a": 2, "b": 3}))
            .await
            .unwrap()
            .contains('5')
    );
    let result = |tool: &'static str, arguments: Value| async move {
        manager
            .call_tool("s", tool, arguments, CallOptions::default())
            .await
            .unwrap()
    };
    let structured = result("get-structured-content", json!({"location": "New York"})).await;
    assert!(structured["structuredContent"]["temperature"].is_number());
    let image = result("get-tiny-image", json!({})).await;
    assert_eq!(image["content"][1]["mimeType"], "image/png");
    let links = result("get-resource-links", json!({})).await;
    assert_eq!(links["content"][1]["type"], "resource_link");
    assert!(
        call(manager, "get-roots-list", json!({}))
            .await
            .unwrap()
            .contains("file:///work")
    );
    let sampled = result(
        "trigger-sampling-request",
        json!({"prompt": "x", "maxTokens": 9}),
    )
    .await;
    assert!(sampled.to_string().contains("9 tokens"), "{sampled}");
    let asked = result("trigger-elicitation-request", json!({})).await;
    assert!(asked.to_string().contains("dark and stormy"), "{asked}");
    let (sender, mut steps) = mpsc::channel(16);
    let options = CallOptions {
        progress: Some(sender),
        ..CallOptions::default()
    };
    let arguments = json!({"duration": 0.2, "steps": 2});
    manager
        .call_tool("s", "trigger-long-running-operation", arguments, options)
        .await
        .unwrap();
    assert_eq!(steps.recv().await.unwrap().total, Some(2.0));
    assert!(manager.resources().len() >= 5 && manager.resource_templates().len() == 2);
    let uri = manager.resources()[0].item["uri"]
        .as_str()
        .unwrap()
        .to_owned();
    let read = manager.read_resource("s", &uri).await.unwrap();
    assert!(!read["contents"][0]["text"].as_str().unwrap().is_empty());
    let arguments = json!({"city": "Oslo"});
    let prompt = manager
        .get_prompt("s", "args-prompt", arguments)
        .await
        .unwrap();
    assert!(prompt.to_string().contains("Oslo"), "{prompt}");
    let reference = json!({"type": "ref/prompt", "name": "completable-prompt"});
    let completed = manager
        .complete("s", reference, "department", "E")
        .await
        .unwrap();
    assert_eq!(completed["completion"]["values"], json!(["Engineering"]));
}

#[tokio::test]
async fn the_reference_server_over_standard_input_and_output() {
    let home = Home::default();
    let manager = one(&home, stdio(node("server-everything", &["stdio"]))).await;
    everything(&manager).await;
    manager.shutdown().await;
}

#[tokio::test]
async fn the_reference_server_over_http() {
    let home = Home::default();
    let (_server, port) = listening("streamableHttp").await;
    let manager = one(
        &home,
        ServerConfig::http(format!("http://127.0.0.1:{port}/mcp")),
    )
    .await;
    everything(&manager).await;
    manager.shutdown().await;
}

#[tokio::test]
async fn the_reference_server_over_the_old_event_stream() {
    let home = Home::default();
    let (_server, port) = listening("sse").await;
    let remote = Remote::new(format!("http://127.0.0.1:{port}/sse"));
    let manager = one(&home, ServerConfig::new(TransportConfig::Sse(remote))).await;
    everything(&manager).await;
    manager.shutdown().await;
}

#[tokio::test]
async fn the_file_server_works_in_its_folder_only() {
    let home = Home::default();
    let folder = home.path().join("files");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("a.txt"), "from a file").unwrap();
    std::fs::write(home.path().join("secret.txt"), "hush").unwrap();
    // Our roots override its argument, and this manager has none.
    let manager = Manager::new(home.options(), std::sync::Arc::new(lathe_mcp::Nobody));
    let config = stdio(node("server-filesystem", &[&text(&folder)]));
    manager.set_servers(common::servers([("s", config)]));
    assert!(manager.settled(LONG).await);
    let read = |path: PathBuf| {
        let manager = manager.clone();
        async move {
            let arguments = json!({"path": text(&path)});
            manager
                .call_tool("s", "read_text_file", arguments, CallOptions::default())
                .await
                .unwrap()
        }
    };
    let found = read(folder.join("a.txt")).await;
    assert_eq!(found["content"][0]["text"], "from a file");
    let refused = read(home.path().join("secret.txt")).await;
    assert_eq!(refused["isError"], true);
    assert!(!refused.to_string().contains("hush"));
    manager.shutdown().await;
}

#[tokio::test]
async fn the_memory_server_remembers_across_connections() {
    let home = Home::default();
    let mut program = node("server-memory", &[]);
    let file = text(&home.path().join("memory.jsonl"));
    program.env.insert("MEMORY_FILE_PATH".to_owned(), file);
    let manager = one(&home, stdio(program)).await;
    let entity =
        json!({"entities": [{"name": "Ada", "entityType": "person", "observations": ["counts"]}]});
    call(&manager, "create_entities", entity).await.unwrap();
    manager.reconnect("s").await.unwrap();
    assert!(
        call(&manager, "read_graph", json!({}))
            .await
            .unwrap()
            .contains("Ada")
    );
    manager.shutdown().await;
}

#[tokio::test]
async fn a_python_server_speaks_the_newer_protocol() {
    let home = Home::default();
    let python = text(&packages().join("venv/bin/python"));
    let config = ServerConfig::stdio(python, [common::fixture("python_server.py")]);
    let manager = one(&home, config).await;
    let status = manager.server("s").unwrap();
    assert_eq!(status.state, State::Connected);
    let description = status.description.unwrap();
    assert_eq!(description.protocol_version, "2026-07-28");
    assert_eq!(description.instructions.as_deref(), Some("Adds numbers."));
    assert_eq!(
        call(&manager, "add", json!({"a": 2, "b": 3}))
            .await
            .unwrap(),
        "5"
    );
    let failed = manager
        .call_tool("s", "fail", json!({}), CallOptions::default())
        .await
        .unwrap();
    assert_eq!(failed["isError"], true);
    let read = manager.read_resource("s", "greeting://Ada").await.unwrap();
    assert_eq!(read["contents"][0]["text"], "Hello, Ada!");
    let prompt = manager
        .get_prompt("s", "review", json!({"code": "x"}))
        .await
        .unwrap();
    assert_eq!(prompt["messages"][0]["content"]["text"], "Review this: x");
    manager.shutdown().await;
}

#[tokio::test]
async fn a_websocket_server_of_the_official_sdk() {
    let home = Home::default();
    let packages = packages();
    let mut server = Command::new(packages.join("node"))
        .arg(common::fixture("websocket_server.cjs"))
        .arg(&packages)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let port = lines.next_line().await.unwrap().expect("a port");
    let remote = Remote::new(format!("ws://127.0.0.1:{port}"));
    let manager = one(&home, ServerConfig::new(TransportConfig::WebSocket(remote))).await;
    assert_eq!(
        state(&manager),
        State::Connected,
        "{:?}",
        manager.server("s")
    );
    assert_eq!(
        call(&manager, "shout", json!({"text": "hey"}))
            .await
            .unwrap(),
        "HEY"
    );
    manager.shutdown().await;
}

#[tokio::test]
async fn a_fastmcp_server_gives_structure_progress_and_log_messages() {
    let home = Home::default();
    let python = text(&packages().join("venv/bin/python"));
    let config = ServerConfig::stdio(python, [common::fixture("fastmcp_server.py")]);
    let manager = one(&home, config).await;
    let status = manager.server("s").unwrap();
    assert_eq!(status.state, State::Connected);
    let description = status.description.unwrap();
    assert_eq!(description.info["name"], "weather");
    assert_eq!(
        description.instructions.as_deref(),
        Some("Knows the weather.")
    );
    let weather = status.tools.iter().find(|tool| tool["name"] == "weather");
    assert_eq!(weather.unwrap()["annotations"]["readOnlyHint"], true);
    let report = manager
        .call_tool(
            "s",
            "weather",
            json!({"place": "Oslo"}),
            CallOptions::default(),
        )
        .await
        .unwrap();
    assert_eq!(
        report["structuredContent"],
        json!({"place": "Oslo", "degrees": 21})
    );
    let (sender, mut steps) = mpsc::channel(4);
    let options = CallOptions {
        progress: Some(sender),
        ..CallOptions::default()
    };
    let done = manager
        .call_tool("s", "slowly", json!({}), options)
        .await
        .unwrap();
    assert_eq!(done["content"][0]["text"], "done");
    assert_eq!(
        steps.recv().await.unwrap().message.as_deref(),
        Some("half of it")
    );
    until(|| home.log("s").contains("[info] words for the log")).await;
    let failed = manager
        .call_tool("s", "fail", json!({}), CallOptions::default())
        .await
        .unwrap();
    assert_eq!(failed["isError"], true);
    let read = manager.read_resource("s", "forecast://Oslo").await.unwrap();
    assert_eq!(read["contents"][0]["text"], "Rain in Oslo");
    let prompt = manager
        .get_prompt("s", "travel", json!({"place": "Oslo"}))
        .await
        .unwrap();
    assert_eq!(
        prompt["messages"][0]["content"]["text"],
        "What to pack for Oslo?"
    );
    manager.shutdown().await;
}
