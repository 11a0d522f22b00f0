//! EnterWorktree and ExitWorktree: the session moves into a git worktree and back.

use crate::context::{CallContext, ToolContext};
use crate::host::{WorktreeMove, WorktreeWish};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The longest name of a worktree.
const LONGEST_NAME: usize = 64;

/// Moves the session into a worktree.
pub struct EnterWorktree;

/// Which worktree.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EnterInput {
    /// Letters, digits, dots, underscores and dashes, in parts separated by slashes.
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    path: Option<String>,
}

/// Moves the session back.
pub struct ExitWorktree;

/// How the worktree is left.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ExitInput {
    action: ExitAction,
    #[serde(default)]
    discard_changes: bool,
}

/// The fate of the worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExitAction {
    /// It stays.
    Keep,
    /// It goes.
    Remove,
}

/// Moving is not like other calls: nothing else may run meanwhile.
const ALONE: CallTraits = CallTraits {
    read_only: false,
    concurrency_safe: false,
    destructive: false,
    ..CallTraits::READS
};

/// Why a text can't name a worktree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is not a valid worktree name: use letters, digits, dots, underscores and dashes, in parts separated by slashes, {LONGEST_NAME} characters at most"
)]
pub struct BadWorktreeName {
    name: String,
}

/// Checks the name of a worktree: it becomes a folder and a branch.
///
/// # Errors
/// When it can't.
pub fn check_name(name: &str) -> Result<(), BadWorktreeName> {
    let fits = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        part.chars().all(plain)
            && part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && !part.ends_with('.')
            && !part.ends_with(".lock")
            && !part.contains("..")
    };
    if name.len() <= LONGEST_NAME && name.split('/').all(fits) {
        return Ok(());
    }
    Err(BadWorktreeName {
        name: name.to_owned(),
    })
}

/// A name for a worktree that nobody named.
#[must_use]
pub fn new_name() -> String {
    let id = lathe_protocol::ids::SessionId::random().to_string();
    format!("session-{}", &id[..8])
}

fn output(moved: &WorktreeMove, structured: Value) -> ToolOutput {
    let display = Display::Text {
        text: moved.message.clone(),
    };
    ToolOutput::new(moved.message.clone(), structured, display)
}

impl Tool for EnterWorktree {
    type Input = EnterInput;

    fn name(&self) -> &'static str {
        "EnterWorktree"
    }

    fn description(&self) -> &str {
        include_str!("enter_worktree.md")
    }

    fn deferred(&self) -> bool {
        true
    }

    fn traits(&self, _input: &EnterInput) -> CallTraits {
        ALONE
    }

    /// A new worktree lies in the repository; one that is elsewhere is a new folder to work in.
    fn subject(&self, input: &EnterInput, context: &ToolContext) -> Subject {
        let Some(path) = &input.path else {
            let name = input.name.clone().unwrap_or_default();
            return Subject::Named {
                name,
                harmless: true,
            };
        };
        let path = context.resolve_path(path);
        let real = std::fs::canonicalize(&path).unwrap_or(path);
        let harmless = context
            .roots
            .read()
            .iter()
            .any(|root| real.starts_with(root));
        Subject::Named {
            name: real.to_string_lossy().into_owned(),
            harmless,
        }
    }

    fn activity(&self, _input: &EnterInput) -> String {
        "Moving into a worktree".to_owned()
    }

    async fn validate(&self, input: &EnterInput, _context: &ToolContext) -> Result<(), ToolError> {
        match (&input.name, &input.path) {
            (Some(_), Some(_)) => Err(ToolError::invalid("Give name or path, not both.")),
            (Some(name), None) => {
                check_name(name).map_err(|error| ToolError::invalid(format!("{error}.")))
            }
            (None, _) => Ok(()),
        }
    }

    async fn call(&self, input: EnterInput, context: CallContext) -> Result<ToolOutput, ToolError> {
        let host = context.session.needs_host(self.name())?;
        let wish = match input.path {
            Some(path) => WorktreeWish::At(context.session.resolve_path(&path)),
            None => WorktreeWish::Named(input.name.unwrap_or_else(new_name)),
        };
        let moved = host.enter_worktree(wish).await?;
        let mut structured = json!({"worktreePath": moved.path, "message": moved.message});
        if !moved.branch.is_empty() {
            structured["worktreeBranch"] = moved.branch.clone().into();
        }
        Ok(output(&moved, structured))
    }
}

impl Tool for ExitWorktree {
    type Input = ExitInput;

    fn name(&self) -> &'static str {
        "ExitWorktree"
    }

    fn description(&self) -> &str {
        include_str!("exit_worktree.md")
    }

    fn deferred(&self) -> bool {
        true
    }

    fn traits(&self, input: &ExitInput) -> CallTraits {
        CallTraits {
            destructive: input.discard_changes,
            ..ALONE
        }
    }

    /// Work is lost only after the user's confirmation.
    fn subject(&self, input: &ExitInput, _context: &ToolContext) -> Subject {
        if input.discard_changes && input.action == ExitAction::Remove {
            return Subject::Person;
        }
        Subject::Nothing
    }

    fn activity(&self, _input: &ExitInput) -> String {
        "Leaving the worktree".to_owned()
    }

    async fn call(&self, input: ExitInput, context: CallContext) -> Result<ToolOutput, ToolError> {
        let host = context.session.needs_host(self.name())?;
        let remove = input.action == ExitAction::Remove;
        let moved = host.exit_worktree(remove, input.discard_changes).await?;
        let action = if moved.removed {
            ExitAction::Remove
        } else {
            ExitAction::Keep
        };
        let mut structured = json!({
            "action": action, "originalCwd": moved.original, "worktreePath": moved.path,
            "message": moved.message,
        });
        if !moved.branch.is_empty() {
            structured["worktreeBranch"] = moved.branch.clone().into();
        }
        let (files, commits) = moved.discarded;
        if files > 0 {
            structured["discardedFiles"] = files.into();
        }
        if commits > 0 {
            structured["discardedCommits"] = commits.into();
        }
        Ok(output(&moved, structured))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_folder_and_a_branch() {
        for good in ["a", "fix-1", "team/login_2", "v1.2"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let long = "x".repeat(65);
        for bad in [
            "", "..", "a/..", "a//b", "/a", "a/", "-x", ".git", "a b", "a.lock", "a.", "ü", "a\0",
            &long,
        ] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        assert_eq!(check_name(&new_name()), Ok(()));
    }
}
