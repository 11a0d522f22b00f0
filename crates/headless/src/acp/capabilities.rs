//! Capabilities of both sides.

use lathe_tools::editor::Lends;
use serde_json::{Value, json};

/// The parts of the client's `initialize` that change what it is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// It shows forms.
    pub forms: bool,
    /// It opens pages for a server.
    pub pages: bool,
    /// It knows options that are switched on and off.
    pub switches: bool,
    /// It shows notices.
    pub notices: bool,
    /// It shows compactions.
    pub compactions: bool,
    /// Its files and terminals.
    pub lends: Lends,
}

impl ClientCapabilities {
    /// Reads `clientCapabilities`. Anything of another shape counts as not supported.
    #[must_use]
    pub fn of(capabilities: &Value) -> Self {
        let has = |path: &str| {
            capabilities
                .pointer(path)
                .is_some_and(|value| value.is_object() || *value == Value::Bool(true))
        };
        Self {
            forms: has("/elicitation/form"),
            pages: has("/elicitation/url"),
            switches: has("/session/configOptions/boolean"),
            notices: has("/session/notices"),
            compactions: has("/session/compaction"),
            lends: Lends {
                reads: has("/fs/readTextFile"),
                writes: has("/fs/writeTextFile"),
                terminals: has("/terminal"),
            },
        }
    }
}

/// The protocol version that is spoken.
pub const VERSION: u64 = 1;

/// The answer to `initialize`.
#[must_use]
pub fn initialized() -> Value {
    json!({
        "protocolVersion": VERSION,
        "agentInfo": {"name": "lathe", "title": "Lathe", "version": env!("CARGO_PKG_VERSION")},
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
            "mcpCapabilities": {"http": true, "sse": true, "acp": true},
            "sessionCapabilities": {
                "list": {}, "delete": {}, "resume": {}, "close": {}, "fork": {},
                "additionalDirectories": {},
            },
        },
        "authMethods": [{
            "id": AUTH_METHOD,
            "name": "API key",
            "description": "Set ANTHROPIC_API_KEY (or apiKeyHelper in ~/.lathe/settings.json) in the environment that the editor starts lathe in.",
        }],
    })
}

/// The one way to sign in: a key in the environment or in settings.
pub const AUTH_METHOD: &str = "api-key";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_declared_capabilities_count() {
        assert_eq!(
            ClientCapabilities::of(&Value::Null),
            ClientCapabilities::default()
        );
        let declared = json!({
            "elicitation": {"form": {}, "url": null},
            "session": {"configOptions": {"boolean": {}}, "notices": {}},
            "fs": {"readTextFile": true, "writeTextFile": false}, "terminal": true,
        });
        let expected = ClientCapabilities {
            forms: true,
            switches: true,
            notices: true,
            lends: Lends {
                reads: true,
                writes: false,
                terminals: true,
            },
            ..ClientCapabilities::default()
        };
        assert_eq!(ClientCapabilities::of(&declared), expected);
    }

    #[test]
    fn the_entry_for_the_registry_is_of_this_version() {
        let entry = include_str!("../../../../docs/acp-registry/agent.json");
        let entry: Value = serde_json::from_str(entry).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(entry["version"], version);
        assert_eq!(entry["id"], initialized()["agentInfo"]["name"]);
        let platforms = entry["distribution"]["binary"].as_object().unwrap();
        assert_eq!(platforms.len(), 4);
        for (platform, package) in platforms {
            let archive = package["archive"].as_str().unwrap();
            let name = archive.rsplit('/').next().unwrap();
            let folder = name.strip_suffix(".tar.gz").unwrap();
            assert!(
                folder.starts_with(&format!("lathe-v{version}-")),
                "{platform}"
            );
            assert_eq!(package["cmd"], format!("./{folder}/lathe"), "{platform}");
            assert_eq!(package["args"], json!(["acp"]), "{platform}");
        }
    }
}
