//! `lathe mcp serve`, as its clients see it.

use super::*;
use lathe_testkit::{HANG_LIMIT, Running};
use std::process::Command;

/// A server over HTTP, its address and its token.
fn over_http(home: &TestHome, more: &[&str]) -> (Running, String, String) {
    let mut arguments = vec!["mcp", "serve", "--http", "127.0.0.1:0"];
    arguments.extend(more);
    let server = home.spawn(arguments);
    let start = std::time::Instant::now();
    loop {
        let said = server.stderr_so_far();
        if let Some((_, rest)) = said.split_once("serving MCP at ")
            && let Some((url, rest)) = rest.split_once('\n')
            && let Some((_, rest)) = rest.split_once("Bearer ")
            && let Some((token, _)) = rest.split_once('\n')
        {
            return (server, url.to_owned(), token.to_owned());
        }
        assert!(start.elapsed() < HANG_LIMIT, "it never served: {said}");
        std::thread::yield_now();
    }
}

#[test]
fn our_own_client_uses_our_own_server_under_its_rules() {
    let home = TestHome::new();
    home.write("notes.txt", "the word is lathe\n");
    let lathe = lathe_testkit::binary::lathe().display().to_string();
    let entry =
        json!({"command": lathe, "args": ["mcp", "serve", "--allowedTools", "Bash(touch:*)"]});
    let added = home.run(["mcp", "add-json", "self", &entry.to_string()], "");
    assert_eq!(added.code(), Some(0), "{added:#?}");
    let tools = home.run(["mcp", "tools", "self"], "");
    for name in ["Read", "Grep", "Edit", "Bash"] {
        assert!(
            tools.stdout.contains(&format!("self: {name}")),
            "{tools:#?}"
        );
    }
    let found = home.run(
        [
            "mcp",
            "call",
            "self",
            "Grep",
            r#"{"pattern": "lathe", "output_mode": "content"}"#,
        ],
        "",
    );
    assert!(found.stdout.contains("the word is lathe"), "{found:#?}");
    let made = home.run(
        [
            "mcp",
            "call",
            "self",
            "Bash",
            r#"{"command": "touch made"}"#,
        ],
        "",
    );
    assert_eq!(made.code(), Some(0), "{made:#?}");
    assert!(home.project().join("made").exists());
    let refused = home.run(
        ["mcp", "call", "self", "Bash", r#"{"command": "rm made"}"#],
        "",
    );
    assert_eq!(refused.code(), Some(1));
    assert!(refused.stdout.contains("--allowedTools"), "{refused:#?}");
    assert!(home.project().join("made").exists());
    nothing_left(&home);
}

#[test]
fn only_this_machines_programs_get_in() {
    let home = TestHome::new();
    let (server, url, token) = over_http(&home, &[]);
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let with = format!("Authorization: Bearer {token}");
    let ask_as = |authorization: &str, header: &str| {
        let output = Command::new("curl")
            .args([
                "-s",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                "--max-time",
                "60",
                "-X",
                "POST",
                &url,
            ])
            .args(["-H", "Content-Type: application/json"])
            .args([
                "-H",
                "Accept: application/json, text/event-stream",
                "-H",
                header,
                "-H",
                authorization,
                "-d",
                hello,
            ])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let ask = |header: &str| ask_as(&with, header);
    assert_eq!(ask("X-Nothing: special"), "200");
    for wrong in [
        "X-Nothing: here",
        "Authorization: Bearer",
        "Authorization: Bearer 1234",
    ] {
        assert_eq!(ask_as(wrong, "X-Nothing: special"), "401", "{wrong}");
    }
    assert_eq!(ask("Host: evil.example"), "403");
    assert_eq!(ask("Origin: http://evil.example"), "403");
    server.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(server.finish().code(), Some(0));
    nothing_left(&home);
}

/// The scenarios of the official suite that say something about a product's server. The others need a server
/// with fixed tools, prompts and resources of the suite's own.
#[test]
fn the_official_suite_is_content() {
    let packages = std::env::var_os("LATHE_TEST_PACKAGES").map_or_else(
        || workspace_root().join("target/test-packages"),
        PathBuf::from,
    );
    let suite = packages.join("mcp/node_modules/@modelcontextprotocol/conformance/dist/index.js");
    assert!(
        suite.exists(),
        "{} is not there; run scripts/setup-tests",
        suite.display()
    );
    let home = TestHome::new();
    let (server, url, token) = over_http(&home, &[]);
    let url = format!("{url}?token={token}");
    for scenario in [
        "server-initialize",
        "ping",
        "tools-list",
        "dns-rebinding-protection",
        "server-session-lifecycle",
    ] {
        // The suite wants a newer Node than servers do.
        let newer = packages.join("mcp/node_modules/.bin/node");
        let mut command = Command::new(if newer.exists() { newer } else { "node".into() });
        home.dress(&mut command);
        let output = command
            .arg(&suite)
            .args(["server", "--url", &url, "--scenario", scenario])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{scenario}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    server.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(server.finish().code(), Some(0));
}
