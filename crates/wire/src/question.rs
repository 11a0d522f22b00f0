//! An open question in words, for a place that shows text and takes yes or no: the board, a push message.

use lathe_protocol::ids::RequestId;
use lathe_protocol::printable;
use serde_json::Value;

/// The fields of a call that say most about it, in the order in which they are shown.
const FIRST: [&str; 3] = ["command", "file_path", "url"];

/// A question of a snapshot or of a `control_request`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Its id.
    pub id: RequestId,
    /// The call itself in a line, not what the model says about it.
    pub line: String,
    /// All of the call, a field after the other. Who says yes must have been able to read it.
    pub whole: String,
    /// Whether yes or no is an answer.
    pub is_plain: bool,
}

impl Question {
    /// Reads a question's frame.
    #[must_use]
    pub fn of(frame: &Value) -> Option<Self> {
        let id = frame["request_id"].as_str()?;
        let request = &frame["request"];
        let input = &request["input"];
        let text = |value: &Value| match value.as_str() {
            Some(text) => text.to_owned(),
            None => value.to_string(),
        };
        let tool = request["tool_name"].as_str().unwrap_or_default();
        let is_plain = !matches!(tool, "" | "AskUserQuestion" | "ExitPlanMode");
        let said = ["title", "message"].map(|name| request[name].as_str());
        let said = said.into_iter().flatten().find(|said| !said.is_empty());
        let about = FIRST.iter().find_map(|name| input[*name].as_str());
        let line = match (about, said) {
            (Some(about), _) if is_plain => format!("{tool}: {about}"),
            (None, _) if is_plain => format!("{tool}: {input}"),
            (_, Some(said)) => said.to_owned(),
            (_, None) => "a question waits for your answer".to_owned(),
        };
        let fields = input.as_object().into_iter().flatten();
        let (first, rest): (Vec<_>, Vec<_>) =
            fields.partition(|(name, _)| FIRST.contains(&name.as_str()));
        let shown = first.into_iter().chain(rest);
        let whole: Vec<String> = std::iter::once(tool.to_owned())
            .chain(shown.map(|(name, value)| format!("{name}: {}", text(value))))
            .collect();
        Some(Self {
            id: RequestId::from(id.to_owned()),
            line: printable::clean(&line).into_owned(),
            whole: printable::clean(&whole.join("\n")).into_owned(),
            is_plain,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_call_is_shown_as_it_is_and_not_as_the_model_describes_it() {
        for (name, request, line, whole, is_plain) in [
            (
                "a description that lies",
                json!({"tool_name": "Bash", "title": "List files", "input": {"description": "List files", "command": "rm -rf \u{202e}x"}}),
                "Bash: rm -rf x",
                "Bash\ncommand: rm -rf x\ndescription: List files",
                true,
            ),
            (
                "fields that matter besides",
                json!({"tool_name": "Bash", "input": {"command": "make", "dangerouslyDisableSandbox": true}}),
                "Bash: make",
                "Bash\ncommand: make\ndangerouslyDisableSandbox: true",
                true,
            ),
            (
                "another tool",
                json!({"tool_name": "mcp__mail__send", "title": "Harmless", "input": {"to": "a"}}),
                "mcp__mail__send: {\"to\":\"a\"}",
                "mcp__mail__send\nto: a",
                true,
            ),
            (
                "choices",
                json!({"tool_name": "AskUserQuestion", "title": "Which one?", "input": {}}),
                "Which one?",
                "AskUserQuestion",
                false,
            ),
            (
                "a form of a server",
                json!({"subtype": "elicitation", "message": "Who?"}),
                "Who?",
                "",
                false,
            ),
            (
                "nothing said",
                json!({}),
                "a question waits for your answer",
                "",
                false,
            ),
        ] {
            let frame = json!({"request_id": "q", "request": request});
            let found = Question::of(&frame).unwrap();
            let wanted = Question {
                id: RequestId::from("q"),
                line: line.to_owned(),
                whole: whole.to_owned(),
                is_plain,
            };
            assert_eq!(found, wanted, "{name}");
        }
        assert_eq!(Question::of(&json!({"request": {}})), None);
    }
}
