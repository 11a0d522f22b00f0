//! Remembers which folders the user trusts, and lists the content of a folder that needs trust.

use crate::load::{LoadOptions, load};
use crate::paths::{PROJECT_FOLDERS, Places};
use crate::source::Source;
use crate::trust::{Bring, BringKind, Trust};
use crate::write::{lock_folder, replace};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The decision about a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrustEntry {
    /// Whether the user trusts it.
    pub trusted: bool,
    /// When that was said, ISO 8601.
    #[serde(default)]
    pub at: String,
    /// Whether its instruction files may import files from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_imports: Option<bool>,
    /// Fields that this version doesn't know.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, Value>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct StoreFile {
    #[serde(default)]
    folders: BTreeMap<String, TrustEntry>,
    #[serde(flatten)]
    extra: serde_json::Map<String, Value>,
}

/// Why the store can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file system refuses.
    #[error("{} can't be used: {error}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file is broken. It is not overwritten: that would forget every answer.
    #[error("{} is broken: {error}; fix or remove it (you will be asked about each folder again)", file.display())]
    Broken {
        /// The file.
        file: PathBuf,
        /// Why.
        error: serde_json::Error,
    },
}

/// The store of trusted folders in the config home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustStore {
    file: PathBuf,
    home: Option<PathBuf>,
}

impl TrustStore {
    /// The store of these places.
    #[must_use]
    pub fn new(places: &Places) -> Self {
        Self {
            file: places.config_home.join("trust.json"),
            home: places.environment.home.clone(),
        }
    }

    /// The store's file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The decision about a folder: its own entry, or that of the nearest folder above it. A broken
    /// or unreadable store knows nothing, so everything is untrusted.
    #[must_use]
    pub fn entry(&self, folder: &Path) -> Option<TrustEntry> {
        let store = self.read().ok()?;
        let folder = real(folder);
        folder.ancestors().enumerate().find_map(|(depth, folder)| {
            let entry = store.folders.get(folder.to_str()?)?;
            (depth == 0 || !self.is_too_wide(folder)).then(|| entry.clone())
        })
    }

    /// Whether the user trusts a folder, or one above it.
    #[must_use]
    pub fn is_trusted(&self, folder: &Path) -> bool {
        self.entry(folder).is_some_and(|entry| entry.trusted)
    }

    /// How far a folder's settings apply when the user can be asked.
    #[must_use]
    pub fn trust(&self, folder: &Path) -> Trust {
        if self.is_trusted(folder) {
            Trust::Trusted
        } else {
            Trust::Untrusted
        }
    }

    /// How far a folder's settings apply when there is no user to ask: what the flags name, unless the user
    /// has trusted the folder before.
    #[must_use]
    pub fn headless_trust(&self, folder: &Path, named: Option<&[Source]>) -> Trust {
        if self.is_trusted(folder) {
            Trust::Trusted
        } else {
            Trust::Headless {
                named: named.unwrap_or_default().to_vec(),
            }
        }
    }

    /// Remembers an answer. Returns the folder's real path.
    ///
    /// # Errors
    /// When the store is broken or can't be written.
    pub fn remember(&self, folder: &Path, trusted: bool, now: &str) -> Result<PathBuf, TrustError> {
        let folder = real(folder);
        let key = folder.to_string_lossy().into_owned();
        self.change(|store| {
            let entry = store.folders.entry(key).or_insert_with(|| TrustEntry {
                trusted,
                at: String::new(),
                outside_imports: None,
                extra: serde_json::Map::new(),
            });
            entry.trusted = trusted;
            now.clone_into(&mut entry.at);
        })?;
        Ok(folder)
    }

    /// Remembers whether a folder's instruction files may import from outside.
    ///
    /// # Errors
    /// When the store is broken or can't be written.
    pub fn remember_outside_imports(&self, folder: &Path, allowed: bool) -> Result<(), TrustError> {
        let key = real(folder).to_string_lossy().into_owned();
        // A new entry must not hide what a folder above says.
        let trusted = self.is_trusted(folder);
        self.change(|store| {
            store
                .folders
                .entry(key)
                .or_insert_with(|| TrustEntry {
                    trusted,
                    at: String::new(),
                    outside_imports: None,
                    extra: serde_json::Map::new(),
                })
                .outside_imports = Some(allowed);
        })
    }

    /// Forgets a folder. Returns whether it was known.
    ///
    /// # Errors
    /// When the store is broken or can't be written.
    pub fn forget(&self, folder: &Path) -> Result<bool, TrustError> {
        let keys =
            [real(folder), folder.to_path_buf()].map(|path| path.to_string_lossy().into_owned());
        let mut known = false;
        self.change(|store| {
            for key in &keys {
                known |= store.folders.remove(key).is_some();
            }
        })?;
        Ok(known)
    }

    /// All folders that are remembered.
    ///
    /// # Errors
    /// When the store is broken or can't be read.
    pub fn list(&self) -> Result<BTreeMap<String, TrustEntry>, TrustError> {
        self.read().map(|store| store.folders)
    }

    fn read(&self) -> Result<StoreFile, TrustError> {
        match fs::read(&self.file) {
            Ok(bytes) if bytes.iter().all(u8::is_ascii_whitespace) => Ok(StoreFile::default()),
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| TrustError::Broken {
                file: self.file.clone(),
                error,
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(StoreFile::default()),
            Err(error) => Err(TrustError::Io {
                file: self.file.clone(),
                error,
            }),
        }
    }

    fn change(&self, change: impl FnOnce(&mut StoreFile)) -> Result<(), TrustError> {
        let io = |error| TrustError::Io {
            file: self.file.clone(),
            error,
        };
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(io)?;
        let _lock = lock_folder(folder).map_err(io)?;
        let mut store = self.read()?;
        change(&mut store);
        let text = serde_json::to_string_pretty(&store).map_err(|error| TrustError::Broken {
            file: self.file.clone(),
            error,
        })?;
        replace(&self.file, format!("{text}\n").as_bytes(), 0o600).map_err(io)
    }

    /// Trusting home or the root of the file system means that folder only: everything that is ever
    /// cloned would be below it.
    fn is_too_wide(&self, folder: &Path) -> bool {
        folder.parent().is_none() || self.home.as_deref().map(real).as_deref() == Some(folder)
    }
}

fn real(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf())
}

/// The content of the project's folder that takes effect only if it is trusted: from its settings, its `.mcp.json` and
/// its extension folders.
#[must_use]
pub fn brings(places: &Places) -> Vec<Bring> {
    let options = LoadOptions {
        sources: Some(vec![Source::Project, Source::Local]),
        trust: Trust::Untrusted,
        ..LoadOptions::default()
    };
    let mut brings = load(places, &options).withheld();
    brings.extend(mcp_servers(&places.project.join(".mcp.json")));
    for folder in PROJECT_FOLDERS {
        for kind in ["skills", "commands", "agents", "output-styles", "plugins"] {
            let path = places.project.join(folder).join(kind);
            let count = fs::read_dir(&path).map_or(0, |entries| entries.flatten().count());
            if count > 0 {
                brings.push(Bring {
                    kind: BringKind::Extension,
                    key: format!("{folder}/{kind}"),
                    what: format!("{count} {}", if count == 1 { "entry" } else { "entries" }),
                });
            }
        }
    }
    brings.sort();
    brings.dedup();
    brings
}

fn mcp_servers(file: &Path) -> Vec<Bring> {
    let Ok(text) = fs::read_to_string(file) else {
        return Vec::new();
    };
    let Ok(document) = crate::document::Document::parse(&text) else {
        return vec![Bring {
            kind: BringKind::McpServer,
            key: ".mcp.json".into(),
            what: "not readable as JSON".into(),
        }];
    };
    let servers = document.value.get("mcpServers").and_then(Value::as_object);
    servers
        .into_iter()
        .flatten()
        .map(|(name, server)| {
            let what = server
                .get("command")
                .or_else(|| server.get("url"))
                .and_then(Value::as_str);
            Bring {
                kind: BringKind::McpServer,
                key: format!(".mcp.json {name}"),
                what: what
                    .unwrap_or_default()
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(100)
                    .collect(),
            }
        })
        .collect()
}
