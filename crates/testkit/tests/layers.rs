//! The layers of the architecture, checked with `cargo metadata`.
//!
//! A crate may use the crates of the layers above its own in the table, and `protocol` always;
//! never one of its own layer or below. Only normal and build dependencies matter: tests may use
//! any crate.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests assert by panicking"
)]

use lathe_testkit::workspace_root;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// From the top of the table to the bottom. Crates that aren't built yet have their place already.
const LAYERS: &[(&str, &[&str])] = &[
    ("data", &["protocol", "spawn"]),
    ("kernel", &["sandbox"]),
    (
        "foundation",
        &[
            "process", "settings", "images", "schema", "diff", "workflow",
        ],
    ),
    ("network", &["net", "keyring", "proxy", "wire"]),
    ("model, shell and web", &["model", "shell", "web"]),
    (
        "services",
        &[
            "permissions",
            "hooks",
            "mcp",
            "lsp",
            "extensions",
            "session",
            "update",
            "browser",
        ],
    ),
    ("tools", &["tools"]),
    (
        "upkeep",
        &[
            "memory",
            "doctor",
            "import",
            "telemetry",
            "teleport",
            "server",
        ],
    ),
    ("engine", &["engine"]),
    ("commands", &["commands", "host", "fleet"]),
    ("faces", &["headless", "tui", "acp", "bridge"]),
    ("binary", &["lathe"]),
];

/// The scripted model stands outside: it uses only `protocol`, and only the binary uses it.
const SCRIPTED: &str = "scripted";
/// Used by nothing but tests.
const TESTKIT: &str = "testkit";
/// Runs fuzz targets. Uses nothing, and is used by tests only.
const FUZZING: &str = "fuzzing";
/// Other parsers beside the shell analyser. Runs by itself and is used by nothing.
const ORACLES: &str = "shell-oracles";

/// Programs that embed the engine. Used by nothing.
const EXAMPLES: &str = "examples";

/// A crate and the workspace crates it uses, by folder name.
type Graph = BTreeMap<String, Vec<String>>;

fn layer_of(name: &str) -> Option<usize> {
    LAYERS.iter().position(|(_, crates)| crates.contains(&name))
}

fn violations(graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    for (name, uses) in graph {
        let special = [SCRIPTED, TESTKIT, ORACLES, EXAMPLES, FUZZING].contains(&name.as_str());
        let layer = layer_of(name);
        if layer.is_none() && !special {
            found.push(format!("{name} has no place in the table of layers"));
            continue;
        }
        for used in uses {
            let fine = match (name.as_str(), used.as_str()) {
                (TESTKIT | EXAMPLES, _) => true,
                (_, TESTKIT | ORACLES | EXAMPLES | FUZZING) | (FUZZING, _) => false,
                (ORACLES, used) => used == "shell",
                (SCRIPTED, used) => used == "protocol",
                (name, SCRIPTED) => name == "lathe",
                (_, used) => layer_of(used).is_some_and(|used| Some(used) < layer),
            };
            if !fine {
                found.push(format!("{name} must not use {used}"));
            }
        }
    }
    found
}

/// The folder name of a workspace crate; the binary's package has no prefix.
fn short(package: &str) -> &str {
    package.strip_prefix("lathe-").unwrap_or(package)
}

/// The dependencies of each crate; `with_tests` includes what its tests use.
fn workspace_graph(with_tests: bool) -> Graph {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(workspace_root())
        .output()
        .expect("cargo can be started");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    packages
        .iter()
        .map(|package| {
            let uses = package["dependencies"].as_array().unwrap();
            let uses = uses
                .iter()
                .filter(|dependency| {
                    (with_tests || dependency["kind"] != "dev") && dependency["path"].is_string()
                })
                .map(|dependency| short(dependency["name"].as_str().unwrap()).to_owned())
                .collect();
            (short(package["name"].as_str().unwrap()).to_owned(), uses)
        })
        .collect()
}

#[test]
fn every_crate_uses_only_the_layers_above_it() {
    let graph = workspace_graph(false);
    assert!(
        graph.contains_key("protocol") && graph.contains_key("lathe"),
        "{graph:?}"
    );
    let found = violations(&graph);
    assert!(
        found.is_empty(),
        "the layers are broken:\n{}",
        found.join("\n")
    );
}

/// The engine is a library: its code and its tests compile without the faces and the binary.
#[test]
fn the_engine_and_its_tests_use_no_face() {
    let (code, tests) = (workspace_graph(false), workspace_graph(true));
    let mut reached = vec!["engine".to_owned()];
    let mut next = 0;
    while let Some(name) = reached.get(next).cloned() {
        // Only the engine's own tests are run; of the others, the code.
        let graph = if name == "engine" { &tests } else { &code };
        for used in &graph[&name] {
            if !reached.contains(used) {
                reached.push(used.clone());
            }
        }
        next += 1;
    }
    assert!(reached.iter().any(|name| name == "testkit"), "{reached:?}");
    for face in ["headless", "tui", "lathe"] {
        assert!(
            !reached.iter().any(|name| name == face),
            "{face}: {reached:?}"
        );
    }
}

#[test]
fn every_crate_is_in_the_folder_of_its_name() {
    for name in workspace_graph(false).keys() {
        let folder = match name.as_str() {
            EXAMPLES => EXAMPLES.to_owned(),
            name => format!("crates/{name}"),
        };
        let manifest = workspace_root().join(&folder).join("Cargo.toml");
        assert!(manifest.is_file(), "there is no {folder}");
    }
}

#[test]
fn broken_layers_are_noticed() {
    let graph = |name: &str, uses: &[&str]| -> Graph {
        [(
            name.to_owned(),
            uses.iter().map(|&used| used.to_owned()).collect(),
        )]
        .into()
    };
    for (name, used) in [
        ("protocol", "settings"),
        ("settings", "model"),
        ("process", "shell"),
        ("net", "model"),
        ("tools", "engine"),
        ("engine", "headless"),
        ("engine", "commands"),
        ("doctor", "engine"),
        ("memory", "engine"),
        ("headless", "tui"),
        ("engine", "scripted"),
        ("scripted", "model"),
        ("lathe", "testkit"),
        ("permissions", "shell-oracles"),
        ("shell-oracles", "permissions"),
        ("engine", "novelty"),
    ] {
        assert_eq!(
            violations(&graph(name, &[used])),
            [format!("{name} must not use {used}")]
        );
    }
    assert_eq!(violations(&graph("novelty", &[])).len(), 1);
    for (name, used) in [
        ("model", "protocol"),
        ("tools", "permissions"),
        ("engine", "protocol"),
        ("lathe", "scripted"),
        ("testkit", "engine"),
        ("shell-oracles", "shell"),
    ] {
        assert!(
            violations(&graph(name, &[used])).is_empty(),
            "{name} may use {used}"
        );
    }
}
