//! How a tool call is shown in an editor: a pure function of the tool, its input and its result, so that a
//! conversation that is loaded looks as it did when it was live.

use lathe_protocol::content::{Content, ContentBlock};
use serde_json::{Value, json};

/// The longest text of a result that an editor is sent.
const LONGEST_TEXT: usize = 100_000;

/// The kind of a tool, as editors choose an icon by it.
#[must_use]
pub fn kind(tool: &str) -> &'static str {
    match tool {
        "Read" | "NotebookRead" | "ListMcpResourcesTool" | "ReadMcpResourceTool" => "read",
        "Edit" | "LSPEdit" | "MultiEdit" | "Write" | "NotebookEdit" => "edit",
        "Glob" | "Grep" | "LSP" | "ToolSearch" => "search",
        "Bash" | "BashInput" | "BashOutput" | "KillShell" | "TaskOutput" | "TaskStop" => "execute",
        "Agent" | "Task" | "TodoWrite" | "TaskCreate" | "TaskUpdate" | "TaskGet" | "TaskList"
        | "Skill" => "think",
        "WebFetch" | "WebSearch" => "fetch",
        "EnterPlanMode" | "ExitPlanMode" => "switch_mode",
        _ => "other",
    }
}

/// A line that says what the call does.
#[must_use]
pub fn title(tool: &str, input: &Value) -> String {
    let text = |field: &str| input[field].as_str().filter(|text| !text.is_empty());
    let about = match tool {
        "Bash" => text("command"),
        "Glob" | "Grep" => text("pattern"),
        "Agent" | "Task" => text("description"),
        "Skill" => text("skill").or_else(|| text("command")),
        "WebFetch" => text("url"),
        "WebSearch" | "ToolSearch" => text("query"),
        _ => path(input),
    };
    match about {
        Some(about) if tool == "Bash" => one_line(about),
        Some(about) => format!("{tool} {}", one_line(about)),
        None => tool.to_owned(),
    }
}

fn one_line(text: &str) -> String {
    const LONGEST: usize = 200;
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() > LONGEST || text.lines().nth(1).is_some() {
        let cut: String = line.chars().take(LONGEST).collect();
        return format!("{cut} …");
    }
    line.to_owned()
}

fn path(input: &Value) -> Option<&str> {
    ["file_path", "notebook_path", "path"]
        .iter()
        .find_map(|field| input[field].as_str())
}

/// The files that a call is about.
#[must_use]
pub fn locations(input: &Value) -> Vec<Value> {
    let Some(path) = path(input).filter(|path| path.starts_with('/')) else {
        return Vec::new();
    };
    let line = input["offset"].as_u64().filter(|line| *line > 0);
    vec![match line {
        Some(line) => json!({"path": path, "line": line}),
        None => json!({"path": path}),
    }]
}

/// The change that a call would make, for its permission question.
#[must_use]
pub fn proposal(tool: &str, input: &Value) -> Vec<Value> {
    let text = |field: &str| input[field].as_str();
    let Some(path) = path(input) else {
        return match (tool, text("command"), text("plan")) {
            ("Bash", Some(command), _) => vec![text_content(command)],
            ("ExitPlanMode", _, Some(plan)) => vec![text_content(plan)],
            _ => Vec::new(),
        };
    };
    match tool {
        "Edit" => {
            let old = text("old_string").filter(|old| !old.is_empty());
            let new = text("new_string").unwrap_or_default();
            vec![diff(path, old, new)]
        }
        "MultiEdit" => {
            let edits = input["edits"].as_array().into_iter().flatten();
            let changes = edits.map(|edit| {
                let old = edit["old_string"].as_str().filter(|old| !old.is_empty());
                diff(path, old, edit["new_string"].as_str().unwrap_or_default())
            });
            changes.collect()
        }
        "Write" => vec![diff(path, None, text("content").unwrap_or_default())],
        _ => Vec::new(),
    }
}

/// The result of a call: the change it made, or its text and images.
#[must_use]
pub fn outcome(
    tool: &str,
    input: &Value,
    structured: Option<&Value>,
    content: Option<&Content>,
    failed: bool,
) -> Vec<Value> {
    if !failed && kind(tool) == "edit" {
        let changes = changes_made(tool, input, structured);
        if !changes.is_empty() {
            return changes;
        }
    }
    let blocks = match content {
        None => return Vec::new(),
        Some(Content::Text(text)) => return shown_text(text),
        Some(Content::Blocks(blocks)) => blocks,
    };
    let shown = blocks.iter().flat_map(|block| match block {
        ContentBlock::Text(text) => shown_text(&text.text),
        other => picture(other).into_iter().collect(),
    });
    shown.collect()
}

/// The changes of an edit that was made, from the tool's own account of it.
fn changes_made(tool: &str, input: &Value, structured: Option<&Value>) -> Vec<Value> {
    let Some(structured) = structured else {
        return proposal(tool, input);
    };
    let path = structured["filePath"].as_str().or_else(|| path(input));
    let Some(path) = path else {
        return Vec::new();
    };
    let original = structured["originalFile"].as_str();
    match (tool, structured["content"].as_str()) {
        ("Write", Some(content)) => vec![diff(path, original, content)],
        _ => {
            let hunks = structured["structuredPatch"]
                .as_array()
                .into_iter()
                .flatten();
            let changes: Vec<Value> = hunks.map(|hunk| hunk_diff(path, hunk)).collect();
            if changes.is_empty() {
                proposal(tool, input)
            } else {
                changes
            }
        }
    }
}

/// One run of changed lines with the lines around it.
fn hunk_diff(path: &str, hunk: &Value) -> Value {
    let (mut old, mut new) = (String::new(), String::new());
    for line in hunk["lines"].as_array().into_iter().flatten() {
        let line = line.as_str().unwrap_or_default();
        let (sign, text) = line.split_at_checked(1).unwrap_or((" ", ""));
        if sign != "+" {
            old.push_str(text);
            old.push('\n');
        }
        if sign != "-" {
            new.push_str(text);
            new.push('\n');
        }
    }
    diff(
        path,
        Some(&old).filter(|old| !old.is_empty()).map(String::as_str),
        &new,
    )
}

fn diff(path: &str, old: Option<&str>, new: &str) -> Value {
    json!({"type": "diff", "path": path, "oldText": old, "newText": new})
}

/// A terminal of the client as a call's content.
#[must_use]
pub fn terminal_content(id: &str) -> Value {
    json!({"type": "terminal", "terminalId": id})
}

/// A text as a call's content.
#[must_use]
pub fn text_content(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

fn shown_text(text: &str) -> Vec<Value> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    if text.len() <= LONGEST_TEXT {
        return vec![text_content(text)];
    }
    let end = text.floor_char_boundary(LONGEST_TEXT);
    let left = text.len() - end;
    let shown = text.get(..end).unwrap_or_default();
    vec![text_content(&format!("{shown}\n… {left} more bytes"))]
}

fn picture(block: &ContentBlock) -> Option<Value> {
    let value = serde_json::to_value(block).ok()?;
    let source = value.get("source")?;
    let (kind, data) = (source["media_type"].as_str()?, source["data"].as_str()?);
    let is_picture = value["type"] == "image" && source["type"] == "base64";
    is_picture.then(
        || json!({"type": "content", "content": {"type": "image", "mimeType": kind, "data": data}}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_a_kind_a_title_and_locations() {
        for (tool, input, expected) in [
            (
                "Read",
                json!({"file_path": "/a/b.rs", "offset": 7}),
                (
                    "read",
                    "Read /a/b.rs",
                    json!([{"path": "/a/b.rs", "line": 7}]),
                ),
            ),
            (
                "Bash",
                json!({"command": "ls -l\npwd"}),
                ("execute", "ls -l …", json!([])),
            ),
            (
                "Grep",
                json!({"pattern": "x", "path": "src"}),
                ("search", "Grep x", json!([])),
            ),
            (
                "Agent",
                json!({"description": "look"}),
                ("think", "Agent look", json!([])),
            ),
            ("mcp__a__b", json!({}), ("other", "mcp__a__b", json!([]))),
        ] {
            let (kind_of, title_of, places) = expected;
            assert_eq!(kind(tool), kind_of);
            assert_eq!(title(tool, &input), title_of);
            assert_eq!(Value::from(locations(&input)), places);
        }
    }

    #[test]
    fn a_question_shows_the_change_and_the_result_shows_what_was_done() {
        let input = json!({"file_path": "/a", "old_string": "x", "new_string": "y"});
        assert_eq!(
            proposal("Edit", &input),
            [json!({"type": "diff", "path": "/a", "oldText": "x", "newText": "y"})]
        );
        let structured = json!({"filePath": "/a", "structuredPatch": [
            {"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": [" a", "-x", "+y"]},
        ]});
        assert_eq!(
            outcome("Edit", &input, Some(&structured), None, false),
            [json!({"type": "diff", "path": "/a", "oldText": "a\nx\n", "newText": "a\ny\n"})]
        );
        // A change that failed shows why.
        let why = Content::Text("not found".into());
        assert_eq!(
            outcome("Edit", &input, None, Some(&why), true),
            [text_content("not found")]
        );
        let written = json!({"filePath": "/a", "content": "new", "originalFile": "old"});
        assert_eq!(
            outcome(
                "Write",
                &json!({"file_path": "/a"}),
                Some(&written),
                None,
                false
            ),
            [json!({"type": "diff", "path": "/a", "oldText": "old", "newText": "new"})]
        );
    }

    #[test]
    fn long_results_are_cut_and_the_rest_is_counted() {
        let long = Content::Text("é".repeat(LONGEST_TEXT));
        let shown = outcome("Bash", &Value::Null, None, Some(&long), false);
        let text = shown[0]["content"]["text"].as_str().unwrap();
        assert!(
            text.ends_with("… 100000 more bytes"),
            "{}",
            &text[text.len() - 40..]
        );
    }
}
