//! Commands: what a person types after a slash.

use crate::source::ExtensionSource;
use lathe_settings::schema::Effort;
use serde::Serialize;
use std::path::PathBuf;

/// What kind of command it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandKind {
    /// Answers itself.
    Local,
    /// Opens a view, so it needs a terminal.
    Dialog,
    /// Becomes words for the model.
    Prompt,
}

/// A command.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// Its name, without the slash; folders and plugins give `a:b`.
    pub name: String,
    /// Other names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// What it does.
    pub description: String,
    /// What its arguments look like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// What kind it is.
    pub kind: CommandKind,
    /// Whether it is left out of listings.
    pub hidden: bool,
    /// Whether it works while the model is busy.
    pub while_busy: bool,
    /// Whether it works without a terminal.
    pub headless: bool,
    /// Whether the model may use it by itself.
    pub model_invocable: bool,
    /// Names of its arguments, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Rules that hold as allowed while it is at work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// The model for its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard the model works in its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Where it comes from.
    pub source: ExtensionSource,
    /// Its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Whether its shell commands may run.
    pub trusted: bool,
}
