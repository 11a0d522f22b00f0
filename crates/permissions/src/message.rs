//! The text of a denial: which call, why, and what would let it pass.

use crate::context::CallFacts;
use crate::files;
use crate::rule::format_rule;
use lathe_protocol::permission::{DecisionReason, PermissionMode, RuleValue, Subject};
use std::path::PathBuf;

/// The text of a denial where nobody could be asked, for the model and for the user who reads the
/// result: it names the call and the flag that would allow it.
#[must_use]
pub fn denial_message(call: &CallFacts<'_>, reason: &DecisionReason) -> String {
    let what = describe(call);
    let why = reason.text();
    match reason {
        DecisionReason::Rule { .. } => {
            format!("{what} is not permitted: {why}. Don't try to achieve the same by other means.")
        }
        DecisionReason::AgentLimit { .. } => {
            format!("{what} is not permitted: {why}. Don't try to achieve the same by other means.")
        }
        DecisionReason::Mode {
            mode: PermissionMode::Plan,
        } => format!(
            "{what} is not permitted in plan mode, which only reads. Finish the plan and leave plan mode first."
        ),
        DecisionReason::Mode {
            mode: PermissionMode::DontAsk,
        } => format!(
            "{what} is not permitted: nothing allows it, and permission mode dontAsk refuses instead of asking.{}",
            hint(call, reason)
        ),
        DecisionReason::SafetyCheck { .. } => {
            format!(
                "{what} is not permitted: {why}. Only a user can allow this, and there is no user to ask.{}",
                hint(call, reason)
            )
        }
        _ => format!(
            "{what} needs permission, and there is no user to ask: {why}.{}",
            hint(call, reason)
        ),
    }
}

/// The call in a few words.
fn describe(call: &CallFacts<'_>) -> String {
    let name = call.tool_name;
    match call.subject {
        Subject::Shell { command, .. } => {
            format!("{name} with the command `{}`", shortened(command))
        }
        Subject::Read { paths } | Subject::Write { paths } => match paths.as_slice() {
            [path] => format!("{name} on {}", path.display()),
            [first, rest @ ..] => format!("{name} on {} and {} more", first.display(), rest.len()),
            [] => name.to_owned(),
        },
        Subject::Fetch { url } => format!("{name} from {}", shortened(url)),
        Subject::Search { query } => format!("{name} for {}", shortened(query)),
        Subject::Named { name: word, .. } => format!("{name}({word})"),
        Subject::Typing { program, .. } => format!("{name} into {program}"),
        _ => name.to_owned(),
    }
}

/// The first line, bounded.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 120;
    let line = text.lines().next().unwrap_or("");
    let cut: String = line.chars().take(LONGEST).collect();
    if cut.len() < text.len() {
        format!("{cut}…")
    } else {
        cut
    }
}

/// How a hint begins. Small models ran the option as a command, or called again with it.
const ONLY_A_PERSON: &str = "Don't call it again: only the user who starts Lathe can allow it, with the flag (not a command)";

/// The flag that would have allowed the call, where one would.
fn hint(call: &CallFacts<'_>, reason: &DecisionReason) -> String {
    let allowed_tools = |rule: &RuleValue| {
        format!(
            " {ONLY_A_PERSON} --allowedTools {}.",
            double_quoted(&format_rule(rule))
        )
    };
    let rule = |content: Option<String>| RuleValue {
        tool_name: call.tool_name.to_owned(),
        rule_content: content,
    };
    if let DecisionReason::SafetyCheck { reason } = reason {
        // A protected path stays closed whatever the rules say; a secret can be reopened by name.
        return match call.subject {
            Subject::Read { paths } if reason.ends_with(files::READ_SECRET) => {
                reopen("Read", paths)
            }
            Subject::Write { paths } if reason.ends_with(files::WRITE_SECRET) => {
                reopen("Edit", paths)
            }
            _ => String::new(),
        };
    }
    match call.subject {
        Subject::Write { paths } => {
            let folder = paths.first().and_then(|path| path.parent());
            match (reason, folder) {
                (DecisionReason::WorkingDirectory { .. }, Some(folder)) => format!(
                    " {ONLY_A_PERSON} --permission-mode acceptEdits --add-dir {}.",
                    double_quoted(&folder.to_string_lossy())
                ),
                _ => format!(
                    " {ONLY_A_PERSON} --permission-mode acceptEdits or --allowedTools \"Edit\"."
                ),
            }
        }
        Subject::Read { paths } => {
            // A search names the folder itself; the one above may hold far more.
            paths
                .first()
                .and_then(|path| {
                    if path.is_dir() {
                        Some(path.as_path())
                    } else {
                        path.parent()
                    }
                })
                .map_or_else(String::new, |folder| {
                    format!(
                        " {ONLY_A_PERSON} --add-dir {}.",
                        double_quoted(&folder.to_string_lossy())
                    )
                })
        }
        Subject::Shell { command, .. } => crate::shell::rule_for(command)
            .map_or_else(String::new, |content| allowed_tools(&rule(Some(content)))),
        Subject::Fetch { url } => url::Url::parse(url)
            .ok()
            .and_then(|url| url.host_str().map(str::to_owned))
            .map_or_else(String::new, |host| {
                allowed_tools(&rule(Some(format!("domain:{host}"))))
            }),
        Subject::Named { name, .. } => allowed_tools(&rule(Some(name.clone()))),
        Subject::Typing { program, .. } => {
            allowed_tools(&rule(Some(program.clone()).filter(|name| !name.is_empty())))
        }
        Subject::Search { .. } | Subject::Mcp { .. } | Subject::Unknown => {
            allowed_tools(&rule(None))
        }
        Subject::Nothing | Subject::Person => String::new(),
    }
}

fn reopen(tool: &str, paths: &[PathBuf]) -> String {
    let Some(path) = paths.first() else {
        return String::new();
    };
    let rule = RuleValue {
        tool_name: tool.into(),
        rule_content: Some(format!("/{}", path.display())),
    };
    format!(
        " If it holds no secret, the user who starts Lathe can allow it with the flag (not a command) --allowedTools {}.",
        double_quoted(&format_rule(&rule))
    )
}

fn double_quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
