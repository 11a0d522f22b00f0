//! BashInput: types into a command that runs on a terminal.
//!
//! The program that would read the text decides how the call is judged. The session knows it and puts it into the input
//! before anyone else sees it ([`Tool::fill_in`]): a line for the session's own shell is a command like any other, text for
//! another program is asked about. If another program reads when the call runs, nothing is typed.

use crate::bash::Limits;
use crate::context::{CallContext, ToolContext};
use crate::interactive;
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::permission::Subject;
use lathe_shell::run::{Prompt, PromptLine, TerminalKey};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Types into a command.
pub struct BashInput;

/// Into which command, and what.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TypedInput {
    /// The command's id.
    id: String,
    /// Text to type; "\n" is Enter.
    #[serde(default)]
    text: Option<String>,
    /// Keys to press after it.
    #[serde(default)]
    keys: Option<Vec<String>>,
    /// How long to wait in milliseconds; default 120000, at most 600000.
    #[serde(default)]
    timeout: Option<u64>,
    /// The program that reads it.
    #[serde(default)]
    program: Option<String>,
    /// The command that a shell would run.
    #[serde(default)]
    command: Option<String>,
    /// Where it would run.
    #[serde(default)]
    folder: Option<PathBuf>,
    /// Whether all of it is in the sandbox.
    #[serde(default)]
    sandboxed: Option<bool>,
}

impl TypedInput {
    fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    fn keys(&self) -> Result<Vec<TerminalKey>, ToolError> {
        let keys = self.keys.iter().flatten();
        keys.map(|name| name.parse())
            .collect::<Result<_, _>>()
            .map_err(|error: lathe_shell::run::UnknownKey| {
                ToolError::invalid(format!("keys: {error}."))
            })
    }

    /// Nothing is typed but what interrupts or ends the program.
    fn only_ends(&self) -> bool {
        let keys = self.keys();
        self.text().is_empty() && keys.is_ok_and(|keys| keys.iter().all(|key| key.only_ends()))
    }
}

/// The fields that the session fills in.
const KNOWN: [&str; 4] = ["program", "command", "folder", "sandboxed"];

impl Tool for BashInput {
    type Input = TypedInput;

    fn name(&self) -> &'static str {
        "BashInput"
    }

    fn description(&self) -> &str {
        include_str!("bash_input.md")
    }

    fn deferred(&self) -> bool {
        true
    }

    fn field_aliases(&self) -> &'static [(&'static str, &'static str)] {
        &[("task_id", "id"), ("bash_id", "id")]
    }

    fn withheld_fields(&self) -> &'static [&'static str] {
        &KNOWN
    }

    fn fill_in(&self, input: &mut Value, context: &ToolContext) {
        let id = input.get("id").and_then(Value::as_str).unwrap_or_default();
        let Ok(command) = context.shell.terminals().get(id) else {
            return;
        };
        let prompt = command.prompt();
        let text = input
            .get("text")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let keys = input.get("keys").and_then(Value::as_array);
        let keys = keys.into_iter().flatten();
        let keys: Vec<&str> = keys.map(|key| key.as_str().unwrap_or_default()).collect();
        let line = line_for_shell(&prompt, text, &keys);
        input["program"] = json!(prompt.program);
        if let (Some(line), Some(folder)) = (line, &prompt.directory) {
            input["command"] = json!(line);
            input["folder"] = json!(folder);
        }
        input["sandboxed"] = json!(command.in_sandbox);
    }

    fn traits(&self, _input: &TypedInput) -> CallTraits {
        CallTraits::default()
    }

    fn subject(&self, input: &TypedInput, context: &ToolContext) -> Subject {
        let sandboxed = input.sandboxed == Some(true);
        // Nothing reads any more of a command that is over.
        let command = context.shell.terminals().get(&input.id);
        let is_over = command.is_ok_and(|command| command.exit().is_some());
        if is_over || input.only_ends() {
            return Subject::Nothing;
        }
        match (&input.command, &input.folder) {
            (Some(command), Some(folder)) => Subject::Shell {
                command: command.clone(),
                cwd: folder.clone(),
                unsandboxed: !sandboxed,
            },
            _ => Subject::Typing {
                program: input.program.clone().unwrap_or_default(),
                sandboxed,
            },
        }
    }

    fn activity(&self, input: &TypedInput) -> String {
        let program = input.program.as_deref().filter(|name| !name.is_empty());
        let program = program.unwrap_or(&input.id);
        if input.text().is_empty() && input.keys.as_ref().is_none_or(Vec::is_empty) {
            format!("Waiting for {program}")
        } else {
            format!("Typing into {program}")
        }
    }

    async fn validate(&self, input: &TypedInput, context: &ToolContext) -> Result<(), ToolError> {
        input.keys()?;
        let control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        if input.text().contains(control) {
            return Err(ToolError::invalid(
                "text has a control character; press it with keys (C-c, Escape, Tab).",
            ));
        }
        let found = context.shell.terminals().get(&input.id);
        found
            .map(|_| ())
            .map_err(|error| ToolError::failed(capitalised(&error.to_string())))
    }

    fn result_limit(&self) -> Option<usize> {
        None
    }

    async fn call(&self, input: TypedInput, context: CallContext) -> Result<ToolOutput, ToolError> {
        let limits = Limits::of(&context.session);
        let failed = |error: lathe_shell::run::TerminalError| {
            ToolError::failed(capitalised(&error.to_string()))
        };
        let terminals = context.session.shell.terminals();
        let command = terminals.get(&input.id).map_err(failed)?;
        let keys = input.keys()?;
        let types = !input.text().is_empty() || !keys.is_empty();
        if types && command.exit().is_none() {
            let prompt = command.prompt();
            let names: Vec<&str> = input.keys.iter().flatten().map(String::as_str).collect();
            let line = line_for_shell(&prompt, input.text(), &names);
            let as_judged = Some(prompt.program.as_str()) == input.program.as_deref()
                && line.as_deref() == input.command.as_deref()
                && (line.is_none() || prompt.directory == input.folder);
            if !as_judged && !input.only_ends() {
                return Err(ToolError::failed(format!(
                    "Nothing was typed: {} is reading now, not {}. Call BashInput without text to see the screen.",
                    prompt.program,
                    input.program.as_deref().unwrap_or_default(),
                )));
            }
            command.type_in(input.text(), &keys).await.map_err(failed)?;
        }
        let limit = limits.timeout(input.timeout);
        interactive::wait(&command, limit, limits.output, &context).await
    }
}

/// The whole line that the session's shell would run, where that is certain.
fn line_for_shell(prompt: &Prompt, text: &str, keys: &[&str]) -> Option<String> {
    let PromptLine::Known(so_far) = &prompt.line else {
        return None;
    };
    let typed = text.strip_suffix('\n').unwrap_or(text);
    let only_enters = match keys {
        [] => true,
        [key] => key.eq_ignore_ascii_case("enter") && typed.len() == text.len(),
        _ => false,
    };
    let line = format!("{so_far}{typed}");
    // An interactive shell replaces these by lines of its history, and completes at tabs.
    let changes = line.contains(['!', '\t', '\n']) || line.trim_start().starts_with('^');
    (prompt.is_shell && only_enters && !changes && !line.trim().is_empty()).then_some(line)
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), characters.as_str()),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(is_shell: bool, line: PromptLine) -> Prompt {
        Prompt {
            program: "bash".to_owned(),
            directory: Some("/p".into()),
            is_shell,
            line,
        }
    }

    #[test]
    fn only_a_whole_plain_line_at_a_shell_is_a_command() {
        let known = |text: &str| PromptLine::Known(text.to_owned());
        let cases: [(&str, &str, &[&str], Option<&str>); 14] = [
            ("", "ls -l\n", &[], Some("ls -l")),
            ("", "ls -l", &["Enter"], Some("ls -l")),
            ("rm ", "x\n", &[], Some("rm x")),
            ("rm x", "", &["enter"], Some("rm x")),
            ("", "ls", &[], Some("ls")),
            ("", "ls\nrm x\n", &[], None),
            ("", "ls\n", &["Enter"], None),
            ("", "ls", &["Up", "Enter"], None),
            ("", "ls", &["C-c"], None),
            ("", "echo !rm\n", &[], None),
            ("", "^ls^rm\n", &[], None),
            ("", "ca\tx\n", &[], None),
            ("ls !", "x\n", &[], None),
            ("", "\n", &[], None),
        ];
        for (so_far, text, keys, wanted) in cases {
            let found = line_for_shell(&prompt(true, known(so_far)), text, keys);
            assert_eq!(found.as_deref(), wanted, "{so_far:?} {text:?} {keys:?}");
            let elsewhere = prompt(false, known(so_far));
            assert_eq!(line_for_shell(&elsewhere, text, keys), None);
        }
        let unknown = prompt(true, PromptLine::Unknown);
        assert_eq!(line_for_shell(&unknown, "ls\n", &[]), None);
    }
}
