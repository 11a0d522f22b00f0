//! Output styles: how the model talks, chosen by name.

use crate::source::ExtensionSource;
use serde::Serialize;
use std::path::PathBuf;

/// An output style.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputStyle {
    /// The name by which it is chosen.
    pub name: String,
    /// What it is like.
    pub description: String,
    /// What the system prompt says; empty for the default style.
    pub prompt: String,
    /// Whether the instructions about writing code stay in the system prompt.
    pub keep_coding_instructions: bool,
    /// Where it comes from.
    pub source: ExtensionSource,
    /// Its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}
