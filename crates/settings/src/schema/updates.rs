//! The keys of updates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether new versions are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AutoUpdates {
    /// Never.
    Off,
    /// They are named at the next start.
    Notify,
    /// They are installed, where the installation is a native one.
    On,
}

/// A channel of releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum UpdateChannel {
    /// Releases that have been tried for a while.
    #[default]
    Stable,
    /// Every release.
    Latest,
}

impl UpdateChannel {
    /// Its name in the manifest.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Latest => "latest",
        }
    }
}
