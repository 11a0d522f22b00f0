//! A recorded result as it was shown when it came: the diff, the output, the list.

use lathe_protocol::display::{Display, Hunk, TodoItem};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::PathBuf;

fn field<T: DeserializeOwned>(value: &Value, name: &str) -> Option<T> {
    serde_json::from_value(value.get(name)?.clone()).ok()
}

/// The display of a result that was recorded. `text` is what the model got.
pub(super) fn display(tool: &str, structured: Option<&Value>, text: String) -> Display {
    structured
        .and_then(|structured| known(tool, structured))
        .unwrap_or(Display::Text { text })
}

fn known(tool: &str, structured: &Value) -> Option<Display> {
    let patch = || -> Option<Display> {
        let path: PathBuf =
            field(structured, "filePath").or_else(|| field(structured, "notebook_path"))?;
        let mut hunks: Vec<Hunk> = field(structured, "structuredPatch")?;
        if hunks.is_empty() && tool == "Write" {
            let content: String = field(structured, "content")?;
            hunks = crate::render::diff::hunks("", &content);
        }
        Some(Display::Diff { path, hunks })
    };
    match tool {
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => patch(),
        "Bash" | "BashInput" => Some(Display::Terminal {
            output: {
                let mut output: String = field(structured, "stdout")?;
                let errors: String = field(structured, "stderr").unwrap_or_default();
                if !errors.is_empty() {
                    output.push('\n');
                    output.push_str(&errors);
                }
                output
            },
            exit_code: None,
        })
        .filter(|_| structured.get("backgroundTaskId").is_none()),
        "TodoWrite" => Some(Display::Todos {
            items: field::<Vec<TodoItem>>(structured, "newTodos")?,
        }),
        "Read" => {
            let file = structured.get("file")?;
            Some(Display::File {
                path: field(file, "filePath")?,
                start_line: field(file, "startLine")?,
                line_count: field(file, "numLines")?,
                total_lines: field(file, "totalLines")?,
            })
        }
        "Glob" | "Grep" if structured.get("content").is_none() => Some(Display::FileList {
            paths: field(structured, "filenames")?,
            truncated: field(structured, "truncated").unwrap_or(false),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn results_are_shown_as_they_were() {
        let hunk = json!({"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-a", "+b"]});
        let shown =
            |tool: &str, structured: Value| display(tool, Some(&structured), "text".to_owned());
        assert!(matches!(
            shown("Edit", json!({"filePath": "/p/a", "structuredPatch": [hunk]})),
            Display::Diff { hunks, .. } if hunks.len() == 1
        ));
        assert!(matches!(
            shown("Write", json!({"filePath": "/p/a", "structuredPatch": [], "content": "x\n"})),
            Display::Diff { hunks, .. } if hunks.len() == 1
        ));
        assert!(matches!(
            shown("Bash", json!({"stdout": "out", "stderr": "", "interrupted": false})),
            Display::Terminal { output, .. } if output == "out"
        ));
        assert!(matches!(
            shown("TodoWrite", json!({"newTodos": [{"content": "a", "status": "pending", "activeForm": "b"}]})),
            Display::Todos { items } if items.len() == 1
        ));
        assert!(matches!(
            shown(
                "Read",
                json!({"file": {"filePath": "/p/a", "startLine": 1, "numLines": 2, "totalLines": 9}})
            ),
            Display::File { total_lines: 9, .. }
        ));
    }

    #[test]
    fn what_is_not_known_is_text() {
        for (tool, structured) in [
            ("Edit", Some(json!({"filePath": 1}))),
            ("Bash", Some(json!({"stdout": "", "backgroundTaskId": "x"}))),
            ("Mystery", Some(json!([]))),
            ("Read", None),
        ] {
            let shown = display(tool, structured.as_ref(), "text".to_owned());
            assert_eq!(
                shown,
                Display::Text {
                    text: "text".to_owned()
                },
                "{tool}"
            );
        }
    }
}
