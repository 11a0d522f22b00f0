//! Which era of the protocol a server speaks, remembered from one start to the next.
//!
//! Finding out costs an older server one refused request at every start (and one that never answers
//! what it doesn't know costs seconds), so that a server which fell back to the handshake is greeted
//! with it right away. The memory ends after a week, because servers get better.

use crate::server::{ServerConfig, TransportConfig};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const WEEK: u64 = 7 * 24 * 3600;
/// More servers than this nobody has.
const MOST: usize = 500;

#[derive(Default, Serialize, Deserialize)]
struct Memory {
    /// Servers that need the handshake, and since when that is known (seconds since 1970).
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

/// What makes a server the same one tomorrow.
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

/// Whether a server is known to need the handshake.
pub(crate) fn needs_handshake(home: &Path, config: &ServerConfig) -> bool {
    read(home)
        .handshake
        .get(&key(config))
        .is_some_and(|since| since + WEEK > now())
}

/// Remembers what a server turned out to speak. A memory that can't be kept costs a little time.
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
