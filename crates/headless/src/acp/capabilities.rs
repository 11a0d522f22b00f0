//! Capabilities of both sides.

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
            "mcpCapabilities": {"http": true, "sse": true},
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
        });
        let expected = ClientCapabilities {
            forms: true,
            switches: true,
            notices: true,
            ..ClientCapabilities::default()
        };
        assert_eq!(ClientCapabilities::of(&declared), expected);
    }
}
