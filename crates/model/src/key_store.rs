//! Keys of providers that were stored by `lathe login`: a file that only its owner can read.

use serde_json::{Map, Value};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The file with the keys.
#[derive(Debug, Clone)]
pub struct KeyStore {
    file: PathBuf,
}

impl KeyStore {
    /// The store in a configuration folder.
    #[must_use]
    pub fn new(config_home: &Path) -> Self {
        Self {
            file: config_home.join("provider-keys.json"),
        }
    }

    /// The file, for messages.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    fn read(&self) -> Map<String, Value> {
        let text = std::fs::read(&self.file).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// The key of a provider.
    #[must_use]
    pub fn get(&self, provider: &str) -> Option<String> {
        self.read().get(provider)?.as_str().map(str::to_owned)
    }

    /// The providers that have a key.
    #[must_use]
    pub fn providers(&self) -> Vec<String> {
        self.read().keys().cloned().collect()
    }

    /// Stores a key.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn set(&self, provider: &str, key: &str) -> io::Result<()> {
        let mut keys = self.read();
        keys.insert(provider.to_owned(), key.into());
        self.write(&keys)
    }

    /// Removes a key; `false` if there was none.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn remove(&self, provider: &str) -> io::Result<bool> {
        let mut keys = self.read();
        if keys.shift_remove(provider).is_none() {
            return Ok(false);
        }
        self.write(&keys).map(|()| true)
    }

    fn write(&self, keys: &Map<String, Value>) -> io::Result<()> {
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let beside = self
            .file
            .with_extension(format!("{}.tmp", std::process::id()));
        let _ = std::fs::remove_file(&beside);
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)?;
        file.write_all(Value::Object(keys.clone()).to_string().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, &self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_is_kept_in_a_file_that_only_its_owner_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let store = KeyStore::new(folder.path());
        assert_eq!(store.get("openai"), None);
        store.set("openai", "k1").unwrap();
        store.set("groq", "k2").unwrap();
        assert_eq!(store.get("openai").as_deref(), Some("k1"));
        let mode = std::fs::metadata(store.file())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(store.remove("openai").unwrap() && !store.remove("openai").unwrap());
        assert_eq!(store.providers(), ["groq"]);
    }
}
