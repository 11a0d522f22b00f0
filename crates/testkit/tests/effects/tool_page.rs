//! `docs/tools.md` lists the tools that a session sends to the model. `UPDATE_DOCS=1` writes the list anew.

use lathe_scripted::Reply;
use lathe_testkit::{TestHome, server, workspace_root};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const BEGIN: &str = "<!-- tools: begin -->\n";
const END: &str = "<!-- tools: end -->";

/// The definitions in the first request of a session that has everything a tool may depend on: a language
/// server, an MCP server with resources, an output schema.
fn definitions(tasks: bool) -> BTreeMap<String, Value> {
    let server = server([
        Reply::tool_use("StructuredOutput", json!({"ok": true})),
        Reply::text("done"),
    ]);
    let resources = workspace_root().join("crates/mcp/tests/fixtures/server.py");
    let home = TestHome::new()
        .server(&server)
        .variable("LATHE_ENABLE_TASKS", if tasks { "1" } else { "0" })
        // Without the search, what waits for it is sent.
        .variable("ENABLE_TOOL_SEARCH", if tasks { "0" } else { "1" })
        .variable("LATHE_SESSION_TITLES", "0")
        // A field of Bash is offered only with the sandbox.
        .variable("LATHE_SANDBOX", "1");
    let settings = json!({
        "lspServers": {"none": {"command": "true", "extensionToLanguage": {".none": "none"}}},
    });
    let servers = json!({
        "mcpServers": {"files": {"command": "python3", "args": [resources]}},
    });
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}});
    let output = home.run(
        [
            "-p",
            "go",
            "--settings",
            &settings.to_string(),
            "--mcp-config",
            &servers.to_string(),
            "--json-schema",
            &schema.to_string(),
        ],
        "",
    );
    assert_eq!(output.code(), Some(0), "{output:?}");
    let request = server.message_requests()[0].body.clone();
    request["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool.clone()))
        .filter(|(name, _)| !name.starts_with("mcp__"))
        .collect()
}

/// The type of a field in one or two words.
fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        return values.join(" or ");
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds
            .iter()
            .filter_map(Value::as_str)
            .find(|kind| *kind != "null"),
        kind => kind.as_str(),
    };
    match kind {
        Some("array") => format!("list of {}", kind_of_items(&schema["items"])),
        Some(kind) => kind.to_owned(),
        None => "any".to_owned(),
    }
}

fn kind_of_items(schema: &Value) -> String {
    match schema["type"].as_str() {
        Some("string") => "strings".to_owned(),
        Some("object") => {
            let fields: Vec<String> = schema["properties"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, _)| format!("`{name}`"))
                .collect();
            format!("objects ({})", fields.join(", "))
        }
        _ => "values".to_owned(),
    }
}

fn section(name: &str, tool: &Value) -> String {
    let description = tool["description"].as_str().unwrap();
    let first = description.split("\n\n").next().unwrap().trim();
    let mut text = format!("### {name}\n{first}\n");
    let schema = &tool["input_schema"];
    let fields = schema["properties"].as_object();
    if name == "StructuredOutput" {
        text.push_str("\nIts fields are those of `--json-schema` or the host's output format.\n");
    } else if let Some(fields) = fields.filter(|fields| !fields.is_empty()) {
        text.push_str("\n| field | type | meaning |\n|---|---|---|\n");
        let required = schema["required"].as_array();
        for (field, about) in fields {
            let optional =
                !required.is_some_and(|names| names.iter().any(|name| name == field.as_str()));
            let meaning = about["description"].as_str().unwrap_or_default();
            writeln!(
                text,
                "| `{field}`{} | {} | {} |",
                if optional { "" } else { " (required)" },
                kind(about).replace('|', "\\|"),
                meaning.replace('\n', " ").replace('|', "\\|"),
            )
            .unwrap();
        }
    }
    text
}

#[test]
fn the_page_of_tools_lists_what_is_sent_to_the_model() {
    let mut tools = definitions(false);
    tools.extend(definitions(true));
    let mut made = String::new();
    for (name, tool) in &tools {
        made.push_str(&section(name, tool));
        made.push('\n');
    }
    let path = workspace_root().join("docs/tools.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page
        .split_once(BEGIN)
        .expect("the mark where the list begins");
    let (is, after) = rest.split_once(END).expect("the mark where the list ends");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
        return;
    }
    let differing = made.lines().zip(is.lines()).find(|(made, is)| made != is);
    assert!(
        made == is,
        "docs/tools.md is out of date; run this test with UPDATE_DOCS=1. First difference: {differing:?}"
    );
}
