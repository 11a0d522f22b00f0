//! The keys of the fleet.

use lathe_protocol::Extra;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The queue that `lathe fleet` uses.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FleetSettings {
    /// The NATS servers of the fleet, separated by commas; unset is the queue of this machine. The flags `--nats` and `--local` override it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A file with the credentials of a NATS user; a relative path starts at the home folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}
