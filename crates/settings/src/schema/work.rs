//! Worktrees of sessions and agents, and what sessions may spend and wait for.

use lathe_protocol::Extra;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Dollars that all sessions together may spend.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSettings {
    /// Dollars of a day, in local time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day_usd: Option<f64>,
    /// Dollars of a calendar month.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub month_usd: Option<f64>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The end of a session whose terminal is closed during a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnTerminalClose {
    /// It continues in the background.
    Keep,
    /// It ends.
    End,
}

/// Whether messages of the user's other sessions are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionMessages {
    /// They are.
    Accept,
    /// The user is asked when a session writes for the first time.
    Ask,
    /// They are not.
    Refuse,
}

/// Whether a turn waits for a limit of the provider to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WaitForLimits {
    /// The user is asked; without one, as long as it takes up to a limit.
    Ask,
    /// It waits, up to a limit.
    Always,
    /// The turn ends.
    Never,
}

/// How the user is notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Notifications {
    /// Whatever the terminal supports.
    Auto,
    /// The terminal's bell.
    Bell,
    /// A desktop notification.
    Desktop,
    /// Not at all.
    Off,
}

/// How members of a team run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TeammateMode {
    /// As Lathe sees fit: as agents of the session.
    Auto,
    /// As agents of the session.
    InProcess,
    /// As processes of their own.
    Process,
    /// As processes in panes of tmux.
    Tmux,
}

/// How git worktrees of sessions and agents are made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorktreeSettings {
    /// Folders of the repository that are linked into a worktree instead of being absent, such as `node_modules`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub symlink_directories: Vec<String>,
    /// The only folders that are checked out, by git's sparse checkout.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sparse_paths: Vec<String>,
    /// The commit that a worktree starts from: `head` (the default) or `fresh`, the remote's default branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_ref: Option<BaseRef>,
    /// The folder that holds the worktrees, in a subfolder for each repository: absolute, from `~/`, or relative to the
    /// repository. Left out, it is `.lathe/worktrees` of the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The commit that a worktree starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BaseRef {
    /// The newest commit here.
    Head,
    /// The default branch of the remote.
    Fresh,
}
