//! Remembers the protocol era of servers across starts.
//!
//! Detecting the era costs a refused request at every start, or seconds with a server that ignores
//! unknown requests. So the handshake is used at once for servers that needed it before. Entries
//! expire after a week, since servers are updated.

use crate::server::{ServerConfig, TransportConfig};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const WEEK: u64 = 7 * 24 * 3600;
/// The maximum number of entries.
const MOST: usize = 500;

#[derive(Default, Serialize, Deserialize)]
struct Memory {
    /// Servers that need the handshake, with the time of detection (Unix seconds).
    #[serde(default)]
    handshake: BTreeMap<String, u64>,
}

fn file(home: &Path) -> PathBuf {
    home.join("mcp-protocols.json")
}

fn read(home: &Path) -> Memory {
    std::fs::read(file(home))
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// The key of a server across starts.
fn key(config: &ServerConfig) -> String {
    let mut hash = Sha256::new();
    hash.update(config.transport.kind());
    match &config.transport {
        TransportConfig::Stdio(program) => {
            for part in std::iter::once(&program.command).chain(&program.args) {
                hash.update(part.len().to_le_bytes());
                hash.update(part);
            }
        }
        TransportConfig::Http(remote)
        | TransportConfig::Sse(remote)
        | TransportConfig::WebSocket(remote) => {
            hash.update(&remote.url);
        }
        TransportConfig::Sdk { name } => hash.update(name),
    }
    hash.finalize()
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// True if a server is known to need the handshake.
pub(crate) fn needs_handshake(home: &Path, config: &ServerConfig) -> bool {
    read(home)
        .handshake
        .get(&key(config))
        .is_some_and(|since| since + WEEK > now())
}

/// Records the era of a server. Failure to write is harmless.
pub(crate) fn remember(home: &Path, config: &ServerConfig, handshake: bool) {
    let mut memory = read(home);
    let key = key(config);
    let known = memory
        .handshake
        .get(&key)
        .is_some_and(|since| since + WEEK > now());
    if known == handshake {
        return;
    }
    if handshake {
        memory.handshake.retain(|_, since| *since + WEEK > now());
        if memory.handshake.len() < MOST {
            memory.handshake.insert(key, now());
        }
    } else {
        memory.handshake.remove(&key);
    }
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(home)?;
        let mut new = tempfile::Builder::new()
            .prefix(".mcp-protocols")
            .tempfile_in(home)?;
        serde_json::to_writer(&mut new, &memory)?;
        new.persist(file(home)).map_err(|error| error.error)?;
        Ok(())
    };
    if let Err(error) = write() {
        tracing::debug!(%error, "what a server speaks can't be remembered");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_remembered_until_it_changes_its_mind() {
        let home = tempfile::tempdir().unwrap();
        let one = ServerConfig::http("http://127.0.0.1:1/mcp");
        let other = ServerConfig::stdio("server", ["x".to_owned()]);
        assert!(!needs_handshake(home.path(), &one));
        remember(home.path(), &one, true);
        assert!(needs_handshake(home.path(), &one));
        assert!(!needs_handshake(home.path(), &other));
        remember(home.path(), &one, false);
        assert!(!needs_handshake(home.path(), &one));
        std::fs::write(file(home.path()), "nonsense").unwrap();
        remember(home.path(), &other, true);
        assert!(needs_handshake(home.path(), &other));
    }
}
