//! The official conformance suite of MCP against the real client: `lathe mcp probe`, with a browser
//! that follows redirects.
//!
//! Every client scenario that a revision requires is run, one after another within a revision (the
//! suite gives each client a limited time). The tables are held against the suite's own lists, so that
//! a newer suite can't bring a scenario that nobody runs.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_testkit::{TestHome, binary, workspace_root};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// The metadata document that the suite expects a client to name.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// Steps of a scenario beyond calling every tool.
fn operations(scenario: &str) -> &'static [&'static str] {
    match scenario {
        // The tools to call come from the suite.
        "http-custom-headers" => &[],
        // The server has no tools/call; a client only has to list.
        "json-schema-ref-no-deref" => &["--list-only"],
        // The suite takes any stream that is opened after the call for the resumed one.
        "sse-retry" => &["--pause", "1", "--call-all"],
        _ => &["--call-all", "--elicit", "accept-defaults"],
    }
}

/// Scenarios that no revision requires, and why they aren't run.
const NOT_APPLICABLE: &[(&str, &str)] = &[
    (
        "auth/enterprise-managed-authorization",
        "extension: a company's identity provider exchanges tokens; not offered",
    ),
    ("auth/dpop", "extension: tokens bound to a key; not offered"),
    (
        "auth/dpop-nonce",
        "extension: tokens bound to a key; not offered",
    ),
    (
        "auth/wif-jwt-bearer",
        "extension: workload identities; not offered",
    ),
    (
        "json-schema-2020-12-preservation",
        "wants the client to send a tool's schema back as an argument; ours goes to the model",
    ),
    (
        "sep-2640-client-no-prefetch",
        "extension: skills served over MCP; not offered",
    ),
    (
        "sep-2640-client-verify-digest",
        "extension: skills served over MCP; not offered",
    ),
    (
        "sep-2640-client-verify-size",
        "extension: skills served over MCP; not offered",
    ),
    (
        "sep-2640-client-verify-frontmatter",
        "extension: skills served over MCP; not offered",
    ),
];

/// Older servers, which no newer revision requires and people still run.
const BACKWARD: &[&str] = &[
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
];

/// Extensions that are offered.
const EXTENSIONS: &[&str] = &[
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
];

fn packages() -> PathBuf {
    let folder = std::env::var_os("LATHE_TEST_PACKAGES").map_or_else(
        || workspace_root().join("target/test-packages"),
        PathBuf::from,
    );
    let folder = folder.join("mcp");
    assert!(
        folder.join("installed").is_file(),
        "the MCP packages are not in {}: run scripts/setup-tests",
        folder.display()
    );
    folder
}

fn suite() -> Command {
    let packages = packages();
    let mut command = Command::new(packages.join("node"));
    command.arg(packages.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"));
    command
}

/// The client scenarios of the suite: those that a revision requires, or all.
fn scenarios(requirements: Option<&str>) -> BTreeSet<String> {
    let mut command = suite();
    command.arg("list");
    if let Some(version) = requirements {
        command.args(["--requirements", version]);
    }
    let output = command.output().expect("the suite can be started");
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, clients) = text
        .split_once("Client scenarios")
        .expect("a list of client scenarios");
    clients
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with("  - "))
        .filter_map(|line| line.split_whitespace().nth(1))
        .map(str::to_owned)
        .collect()
}

/// Runs a scenario; what failed, in the suite's words.
fn run(version: &str, scenario: &str, more: &[&str]) -> Result<(), String> {
    let home = TestHome::new();
    let tests = workspace_root().join("crates/testkit/tests/mcp");
    let client = format!(
        "python3 {} {} --protocol-version {version} {}",
        tests.join("client.py").display(),
        binary::lathe().display(),
        operations(scenario).join(" "),
    );
    let mut command = suite();
    home.dress(&mut command);
    let output = command
        .env(
            "BROWSER",
            format!("python3 {}", tests.join("browser.py").display()),
        )
        .env("MCP_OAUTH_CLIENT_METADATA_URL", DOCUMENT)
        .args(["client", "--scenario", scenario, "--spec-version", version])
        // The suite's own limit suits an idle machine.
        .args(["--timeout", "180000", "--command", &client])
        .args(more)
        .output()
        .expect("the suite can be started");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    if output.status.success() && said.contains("OVERALL: PASSED") {
        Ok(())
    } else {
        Err(format!("== {scenario} ({version}):\n{said}"))
    }
}

fn run_all<'a>(version: &str, all: impl IntoIterator<Item = &'a str>, more: &[&str]) {
    let failed: Vec<String> = all
        .into_iter()
        .filter_map(|scenario| run(version, scenario, more).err())
        .collect();
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

#[test]
fn the_client_does_what_the_revision_of_2025_11_25_requires() {
    let required = scenarios(Some("2025-11-25"));
    assert_eq!(required.len(), 18, "{required:?}");
    run_all("2025-11-25", required.iter().map(String::as_str), &[]);
    run_all("2025-03-26", BACKWARD.iter().copied(), &[]);
    run_all("2025-11-25", EXTENSIONS.iter().copied(), &["--force"]);
}

#[test]
fn the_client_does_what_the_revision_of_2026_07_28_requires() {
    let required = scenarios(Some("2026-07-28"));
    assert_eq!(required.len(), 32, "{required:?}");
    run_all("2026-07-28", required.iter().map(String::as_str), &[]);
}

#[test]
fn every_scenario_of_the_suite_is_run_or_said_not_to_apply() {
    let mut known = scenarios(Some("2025-11-25"));
    known.extend(scenarios(Some("2026-07-28")));
    let others = NOT_APPLICABLE.iter().map(|(scenario, reason)| {
        assert!(!reason.is_empty());
        *scenario
    });
    known.extend(
        others
            .chain(BACKWARD.iter().copied())
            .chain(EXTENSIONS.iter().copied())
            .map(str::to_owned),
    );
    assert_eq!(known, scenarios(None));
}
