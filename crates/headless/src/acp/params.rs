//! Parameters of the client's requests, and what they are for the engine.

use super::wire::RpcError;
use base64::Engine as _;
use lathe_protocol::content::ContentBlock;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Reads parameters.
///
/// # Errors
/// In words that name the field.
pub fn read<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    let params = if params.is_null() { json!({}) } else { params };
    serde_json::from_value(params).map_err(|error| RpcError::params(error.to_string()))
}

/// `session/new`, and the folder part of `session/load`, `session/resume` and `session/fork`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    /// The working folder.
    pub cwd: PathBuf,
    /// Further folders.
    #[serde(default)]
    pub additional_directories: Option<Vec<PathBuf>>,
    /// The client's MCP servers.
    #[serde(default)]
    pub mcp_servers: Option<Vec<Value>>,
}

/// A request about an earlier session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Earlier {
    /// The session.
    pub session_id: String,
    /// Where it continues.
    #[serde(flatten)]
    pub workspace: Workspace,
}

/// A request that names only a session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// The session.
    pub session_id: String,
}

/// `session/list`.
#[derive(Debug, Deserialize)]
pub struct List {
    /// Only sessions of this folder.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// Where the page before ended.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// `session/prompt`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptParams {
    /// The session.
    pub session_id: String,
    /// The prompt's blocks.
    pub prompt: Vec<Value>,
}

/// `session/set_mode`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetMode {
    /// The session.
    pub session_id: String,
    /// The permission mode.
    pub mode_id: String,
}

/// `session/set_config_option`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetOption {
    /// The session.
    pub session_id: String,
    /// The option.
    pub config_id: String,
    /// Its new value: a text, or true or false.
    pub value: Value,
}

impl Workspace {
    /// Checks that every folder is an absolute path of a folder that exists.
    ///
    /// # Errors
    /// Naming the field and the path.
    pub fn check(&self) -> Result<(), RpcError> {
        let further = self.additional_directories.iter().flatten();
        let all = std::iter::once(("cwd", &self.cwd))
            .chain(further.map(|folder| ("additionalDirectories", folder)));
        for (field, folder) in all {
            if !folder.is_absolute() {
                return Err(RpcError::params(format!(
                    "{field}: {} is not an absolute path",
                    folder.display()
                )));
            }
            if !folder.is_dir() {
                return Err(RpcError::params(format!(
                    "{field}: {} is not a folder",
                    folder.display()
                )));
            }
        }
        Ok(())
    }

    /// The client's servers as the text of an `.mcp.json`; `None` if there are none.
    ///
    /// # Errors
    /// Naming the server whose fields are wrong.
    pub fn servers(&self) -> Result<Option<String>, RpcError> {
        let mut servers = Map::new();
        let servers_of_client = self.mcp_servers.iter().flatten();
        for server in servers_of_client.filter(|server| server["type"] != "acp") {
            let (name, config) = server_config(server)?;
            servers.insert(name, config);
        }
        Ok((!servers.is_empty()).then(|| json!({"mcpServers": servers}).to_string()))
    }

    /// The servers that the client reaches for us: their names, with the ids that it knows them by.
    ///
    /// # Errors
    /// Naming the server whose fields are wrong.
    pub fn hosted(&self) -> Result<HashMap<String, String>, RpcError> {
        let servers = self.mcp_servers.iter().flatten();
        servers
            .filter(|server| server["type"] == "acp")
            .map(|server| {
                let name = server_name(server)?;
                let id = server["serverId"].as_str().ok_or_else(|| {
                    RpcError::params(format!("mcpServers: {name} has no `serverId`"))
                })?;
                Ok((name.to_owned(), id.to_owned()))
            })
            .collect()
    }
}

/// The name of a server of the client.
fn server_name(server: &Value) -> Result<&str, RpcError> {
    let name = server["name"].as_str().filter(|name| !name.is_empty());
    name.ok_or_else(|| RpcError::params("mcpServers: a server has no `name`"))
}

/// A server of the client, by name, in the shape of `.mcp.json`.
fn server_config(server: &Value) -> Result<(String, Value), RpcError> {
    let name = server_name(server)?;
    let missing = |field: &str| RpcError::params(format!("mcpServers: {name} has no `{field}`"));
    let config = match server["type"].as_str() {
        Some(kind @ ("http" | "sse")) => {
            let url = server["url"].as_str().ok_or_else(|| missing("url"))?;
            json!({"type": kind, "url": url, "headers": pairs(&server["headers"])})
        }
        None | Some("stdio") => {
            let command = server["command"]
                .as_str()
                .ok_or_else(|| missing("command"))?;
            let arguments = server["args"].as_array().cloned().unwrap_or_default();
            json!({
                "type": "stdio", "command": command, "args": arguments,
                "env": pairs(&server["env"]),
            })
        }
        Some(other) => {
            let why = format!("mcpServers: {name} has the unknown type {other:?}");
            return Err(RpcError::params(why));
        }
    };
    Ok((name.to_owned(), config))
}

/// `[{"name", "value"}]` as an object.
fn pairs(list: &Value) -> Map<String, Value> {
    let entries = list.as_array().into_iter().flatten();
    entries
        .filter_map(|entry| Some((entry["name"].as_str()?.to_owned(), entry["value"].clone())))
        .collect()
}

/// The content of a prompt.
///
/// # Errors
/// Naming the block that can't be sent to the model.
pub fn content(blocks: &[Value]) -> Result<Vec<ContentBlock>, RpcError> {
    if blocks.is_empty() {
        return Err(RpcError::params("prompt: there is no block"));
    }
    let mut content: Vec<ContentBlock> = Vec::with_capacity(blocks.len());
    for (index, block) in blocks.iter().enumerate() {
        let block = block_of(block)
            .map_err(|why| RpcError::params(format!("prompt[{index}]: {}", why.message)))?;
        match (content.last_mut(), block) {
            // Words around a link are one text, as they were written.
            (Some(ContentBlock::Text(last)), ContentBlock::Text(more)) => {
                last.text.push_str(&more.text);
            }
            (_, block) => content.push(block),
        }
    }
    Ok(content)
}

fn block_of(block: &Value) -> Result<ContentBlock, RpcError> {
    let text_of = |field: &str| {
        block[field]
            .as_str()
            .ok_or_else(|| RpcError::params(format!("`{field}` is missing")))
    };
    match block["type"].as_str() {
        Some("text") => Ok(ContentBlock::text(text_of("text")?)),
        Some("image") => image(text_of("mimeType")?, text_of("data")?),
        Some("resource_link") => {
            let name = block["name"].as_str().unwrap_or_default();
            Ok(ContentBlock::text(link(text_of("uri")?, name)))
        }
        Some("resource") => resource(&block["resource"]),
        Some("audio") => Err(RpcError::params("audio is not supported")),
        other => {
            let kind = other.unwrap_or_default();
            Err(RpcError::params(format!(
                "a block of type {kind:?} is not supported"
            )))
        }
    }
}

/// An image, if its data can be one: an API refuses the whole conversation for one that can't.
fn image(kind: &str, data: &str) -> Result<ContentBlock, RpcError> {
    match base64::engine::general_purpose::STANDARD.decode(data) {
        Ok(_) => Ok(ContentBlock::image(kind, data)),
        Err(error) => Err(RpcError::params(format!(
            "the data of the image is not base64: {error}"
        ))),
    }
}

/// A link: a mention of a file, which the engine attaches under the rules for reading; otherwise the address.
fn link(uri: &str, name: &str) -> String {
    match file_of(uri) {
        Some(path) if path.contains(char::is_whitespace) => format!("@\"{path}\""),
        Some(path) => format!("@{path}"),
        None if name.is_empty() || name == uri => uri.to_owned(),
        None => format!("[{name}]({uri})"),
    }
}

/// A resource that comes with its content.
fn resource(resource: &Value) -> Result<ContentBlock, RpcError> {
    let uri = resource["uri"].as_str().unwrap_or_default();
    let shown = file_of(uri).unwrap_or_else(|| uri.to_owned());
    if let Some(text) = resource["text"].as_str() {
        return Ok(ContentBlock::text(format!(
            "\n<resource uri=\"{}\">\n{text}\n</resource>\n",
            shown.replace('"', "%22")
        )));
    }
    let kind = resource["mimeType"].as_str().unwrap_or_default();
    match resource["blob"].as_str() {
        Some(data) if kind.starts_with("image/") => image(kind, data),
        Some(_) => Err(RpcError::params(format!(
            "the resource {shown} is binary ({kind}); send text or an image"
        ))),
        None => Err(RpcError::params("`resource` has neither text nor blob")),
    }
}

/// The path of a `file:` address, with its lines (`#L3:9` of some editors, `#L3-9` of ours).
fn file_of(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let (path, lines) = match rest.split_once('#') {
        Some((path, lines)) => (path, lines.replace(':', "-")),
        None => (rest, String::new()),
    };
    let path = decoded(path);
    if !Path::new(&path).is_absolute() {
        return None;
    }
    Some(if lines.starts_with('L') {
        format!("{path}#{lines}")
    } else {
        path
    })
}

/// Percent signs resolved; what isn't an escape stays.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escape = bytes
            .get(at + 1..at + 3)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .filter(|_| *byte == b'%')
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(escape.unwrap_or(*byte));
        at += if escape.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_mentions_and_resources_their_text() {
        let blocks = [
            json!({"type": "text", "text": "look at "}),
            json!({"type": "resource_link", "uri": "file:///a/b%20c.rs#L3:9", "name": "b c.rs"}),
            json!({"type": "text", "text": " and "}),
            json!({"type": "resource_link", "uri": "https://x.test/y", "name": "y"}),
            json!({"type": "resource", "resource": {"uri": "file:///n.txt", "text": "inside"}}),
            json!({"type": "image", "mimeType": "image/png", "data": "AA=="}),
        ];
        let content = content(&blocks).unwrap();
        assert_eq!(
            content,
            [
                ContentBlock::text(
                    "look at @\"/a/b c.rs#L3-9\" and [y](https://x.test/y)\n<resource uri=\"/n.txt\">\ninside\n</resource>\n"
                ),
                ContentBlock::image("image/png", "AA=="),
            ]
        );
    }

    #[test]
    fn a_block_that_cannot_be_sent_is_named() {
        for (block, why) in [
            (json!({"type": "audio", "data": ""}), "prompt[0]: audio"),
            (json!({"type": "text"}), "prompt[0]: `text`"),
            (json!({"type": "video"}), "prompt[0]: a block of type"),
            (
                json!({"type": "image", "mimeType": "image/png", "data": "%%%"}),
                "prompt[0]: the data of the image is not base64",
            ),
            (
                json!({"type": "resource", "resource": {"uri": "x", "blob": "AA==", "mimeType": "application/zip"}}),
                "prompt[0]: the resource x is binary",
            ),
        ] {
            let error = content(&[block]).unwrap_err();
            assert!(error.message.starts_with(why), "{error}");
        }
        assert!(content(&[]).is_err());
    }

    #[test]
    fn servers_of_the_client_become_a_configuration() {
        let workspace: Workspace = read(json!({
            "cwd": "/",
            "mcpServers": [
                {"name": "a", "command": "x", "args": ["1"], "env": [{"name": "K", "value": "v"}]},
                {"type": "http", "name": "b", "url": "http://x", "headers": [{"name": "H", "value": "w"}]},
            ],
        }))
        .unwrap();
        let servers: Value = serde_json::from_str(&workspace.servers().unwrap().unwrap()).unwrap();
        assert_eq!(
            servers["mcpServers"]["a"],
            json!({"type": "stdio", "command": "x", "args": ["1"], "env": {"K": "v"}})
        );
        assert_eq!(
            servers["mcpServers"]["b"],
            json!({"type": "http", "url": "http://x", "headers": {"H": "w"}})
        );
        let wrong: Workspace = read(json!({"cwd": "/", "mcpServers": [{"name": "c"}]})).unwrap();
        let error = wrong.servers().unwrap_err();
        assert_eq!(error.message, "mcpServers: c has no `command`");
    }

    #[test]
    fn folders_must_be_absolute_and_exist() {
        let check = |cwd: &str| {
            let workspace: Workspace = read(json!({"cwd": cwd, "mcpServers": []})).unwrap();
            workspace.check().map_err(|error| error.message)
        };
        assert_eq!(check("/"), Ok(()));
        assert!(check("src").unwrap_err().contains("absolute"));
        assert!(
            check("/no/such/folder")
                .unwrap_err()
                .contains("not a folder")
        );
    }
}
