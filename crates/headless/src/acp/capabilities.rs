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
    /// It starts us in a terminal for signing in.
    pub signs_in: bool,
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
            signs_in: has("/auth/terminal"),
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
pub fn initialized(client: ClientCapabilities) -> Value {
    let mut methods = vec![json!({
        "id": AUTH_METHOD,
        "name": "API key",
        "description": "Set ANTHROPIC_API_KEY, the key variable of another provider, or apiKeyHelper in ~/.lathe/settings.json, in the environment that the editor starts lathe in; or run `lathe login <provider>`.",
    })];
    if client.signs_in {
        methods.push(json!({
            "id": SIGN_IN_METHOD,
            "type": "terminal",
            "name": "Sign in",
            "description": "Store the key of a provider.",
            "args": [SIGN_IN_FLAG],
        }));
    }
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
            "auth": {"logout": {}},
        },
        "authMethods": methods,
    })
}

/// A key in the environment, in settings or stored before.
pub const AUTH_METHOD: &str = "api-key";
/// A key that is typed in a terminal of the editor.
pub const SIGN_IN_METHOD: &str = "login";
/// The flag behind `lathe acp` that asks for it.
const SIGN_IN_FLAG: &str = "--login";

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
    fn signing_in_in_a_terminal_is_offered_to_clients_that_have_one_for_it() {
        let able = ClientCapabilities::of(&json!({"auth": {"terminal": true}}));
        let methods = &initialized(able)["authMethods"];
        assert_eq!(methods[1]["type"], "terminal");
        assert_eq!(methods[1]["args"], json!(["--login"]));
        let plain = initialized(ClientCapabilities::default());
        assert_eq!(plain["authMethods"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn the_entry_for_the_registry_is_of_this_version() {
        let entry = include_str!("../../../../docs/acp-registry/agent.json");
        let entry: Value = serde_json::from_str(entry).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(entry["version"], version);
        let answer = initialized(ClientCapabilities::default());
        assert_eq!(entry["id"], answer["agentInfo"]["name"]);
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
