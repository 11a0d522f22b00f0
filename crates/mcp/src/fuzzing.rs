//! The fuzz target of this crate's parsers, for the tests and for `fuzz/`.

use crate::config::entry::{self, ConfigLocation};
use serde_json::Value;

/// Every entry of an `.mcp.json` is a server or an error that names the entry.
pub fn fuzz_mcp_config(bytes: &[u8]) {
    let Ok(file) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    let place = ConfigLocation::flag("--mcp-config");
    let lookup = |name: &str| (name != "MISSING").then(|| name.to_lowercase());
    let servers = file.get("mcpServers").unwrap_or(&file).as_object();
    for (name, server) in servers.into_iter().flatten() {
        let _ = entry::is_name(name);
        if let Err(error) = entry::parse(name, server, &place, &lookup) {
            assert!(!error.to_string().is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_entry_is_a_server_or_an_error() {
        let words = [
            "${",
            "}",
            "${HOME}",
            "${MISSING}",
            ":-",
            "\"command\":",
            "\"url\":",
            "\"type\":",
            "\"http\"",
            "\"sse\"",
            "\"ws\"",
            "\"headers\":",
            "\"env\":",
            "\"args\":",
            "null",
            "[]",
            "{}",
            "-1",
            "\"oauth\":",
            "\"timeout\":",
            "1e30",
        ];
        lathe_fuzzing::run("mcp_config", 4000, &words, super::fuzz_mcp_config);
    }
}
