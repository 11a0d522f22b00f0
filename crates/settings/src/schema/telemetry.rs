//! The keys of telemetry.

use lathe_protocol::Extra;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Telemetry for the user's own collector.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TelemetrySettings {
    /// Whether it is on (default false; `LATHE_ENABLE_TELEMETRY` overrides it).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The address of the collector (default `http://localhost:4318`; `OTEL_EXPORTER_OTLP_ENDPOINT` overrides it).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Headers that go with every request to the collector.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// A shell command that prints further headers as a JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers_helper: Option<String>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}
