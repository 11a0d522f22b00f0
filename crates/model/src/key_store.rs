//! Keys of providers that were stored by `lathe login`: in the system's keyring where there is one, else in a file
//! that only its owner can read. The file also says which keys are in the keyring, so that a start without such a key
//! asks nobody.

use lathe_keyring::{Keyring, KeyringError, Service, StorageChoice};
use lathe_settings::Environment;
use lathe_settings::paths::config_home;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of our keyring entries.
const SERVICE: Service = Service {
    name: "lathe-provider",
    label: "Lathe: key of a model provider",
};

/// The keys that were stored.
#[derive(Debug, Clone)]
pub struct KeyStore {
    file: PathBuf,
    choice: StorageChoice,
    keyring: Arc<Result<Keyring, KeyringError>>,
    /// Keys that the keyring gave, so that it is asked once.
    given: Arc<Mutex<HashMap<String, Option<String>>>>,
}

/// Where a key was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the keyring, through this program.
    Keyring(&'static str),
    /// In the file; why the keyring isn't used, unless that was asked for.
    File(Option<String>),
}

/// Why a key can't be stored or removed.
#[derive(Debug, thiserror::Error)]
pub enum KeyStoreError {
    /// The file can't be written.
    #[error("{file} can't be written: {error}")]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The keyring doesn't work, and nothing else is allowed.
    #[error("the keyring can't be used ({0}), and LATHE_MCP_CREDENTIALS allows nothing else")]
    Keyring(KeyringError),
}

impl KeyStore {
    /// The store of the user.
    #[must_use]
    pub fn new(environment: &Environment) -> Self {
        Self {
            file: config_home(environment).join("provider-keys.json"),
            choice: StorageChoice::of(environment),
            keyring: Arc::new(Keyring::find(SERVICE, environment)),
            given: Arc::default(),
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
        match self.read().get(provider)? {
            Value::String(key) => Some(key.clone()),
            _ => self.in_keyring(provider),
        }
    }

    /// Whether a key of a provider is stored. Doesn't ask the keyring.
    #[must_use]
    pub fn has(&self, provider: &str) -> bool {
        self.read().contains_key(provider)
    }

    fn in_keyring(&self, provider: &str) -> Option<String> {
        let mut given = self.given.lock();
        if let Some(known) = given.get(provider) {
            return known.clone();
        }
        let key = match &*self.keyring {
            Ok(keyring) => keyring.get(&self.account(provider)).unwrap_or_else(|why| {
                tracing::warn!(%why, provider, "the key is in the keyring, which can't be used");
                None
            }),
            Err(why) => {
                tracing::warn!(%why, provider, "the key is in the keyring, which can't be used");
                None
            }
        };
        given.insert(provider.to_owned(), key.clone());
        key
    }

    /// The name of an entry, which differs between config folders.
    fn account(&self, provider: &str) -> String {
        let folder = self.file.parent().unwrap_or(&self.file);
        let digest =
            ring::digest::digest(&ring::digest::SHA256, folder.to_string_lossy().as_bytes());
        let short: String = digest.as_ref()[..6]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("{provider}-{short}")
    }

    /// The providers that have a key.
    #[must_use]
    pub fn providers(&self) -> Vec<String> {
        self.read().keys().cloned().collect()
    }

    /// Stores a key, and says where.
    ///
    /// # Errors
    /// When it can be stored nowhere.
    pub fn set(&self, provider: &str, key: &str) -> Result<Place, KeyStoreError> {
        let stored = match (&*self.keyring, self.choice) {
            (_, StorageChoice::File) => None,
            (Ok(keyring), _) => Some(
                keyring
                    .set(&self.account(provider), key)
                    .map(|()| keyring.program()),
            ),
            (Err(why), _) => Some(Err(why.clone())),
        };
        let (value, place) = match stored {
            Some(Ok(program)) => (json!({"keyring": true}), Place::Keyring(program)),
            Some(Err(why)) if self.choice == StorageChoice::Keyring => {
                return Err(KeyStoreError::Keyring(why));
            }
            Some(Err(why)) => (key.into(), Place::File(Some(why.to_string()))),
            None => (key.into(), Place::File(None)),
        };
        let mut keys = self.read();
        keys.insert(provider.to_owned(), value);
        self.write(&keys)?;
        self.given.lock().remove(provider);
        Ok(place)
    }

    /// Removes a key; `false` if there was none.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn remove(&self, provider: &str) -> Result<bool, KeyStoreError> {
        let mut keys = self.read();
        let Some(removed) = keys.shift_remove(provider) else {
            return Ok(false);
        };
        if removed.is_object()
            && let Ok(keyring) = &*self.keyring
            && let Err(why) = keyring.remove(&self.account(provider))
        {
            return Err(KeyStoreError::Keyring(why));
        }
        self.given.lock().remove(provider);
        self.write(&keys).map(|()| true)
    }

    fn write(&self, keys: &Map<String, Value>) -> Result<(), KeyStoreError> {
        self.write_file(keys).map_err(|error| KeyStoreError::File {
            file: self.file.clone(),
            error,
        })
    }

    fn write_file(&self, keys: &Map<String, Value>) -> io::Result<()> {
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

    fn environment(folder: &Path, more: &[(&str, &str)]) -> Environment {
        let folder = folder.display().to_string();
        let own = [("LATHE_CONFIG_DIR", folder.as_str())];
        Environment::of_variables(own.iter().chain(more).copied())
    }

    #[test]
    fn a_key_is_kept_in_a_file_that_only_its_owner_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let store = KeyStore::new(&environment(folder.path(), &[]));
        assert_eq!(store.get("openai"), None);
        let place = store.set("openai", "k1").unwrap();
        assert!(matches!(place, Place::File(Some(_))), "{place:?}");
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

    /// Keeps secrets in files, with the words of `secret-tool`.
    #[cfg(target_os = "linux")]
    const SECRET_TOOL: &str = "#!/bin/bash\ncase $1 in store) cat >\"$VAULT/$6\";; lookup) cat \"$VAULT/$5\" 2>/dev/null || exit 1;; clear) rm -f \"$VAULT/$5\";; esac\n";

    #[cfg(target_os = "linux")]
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the stand-in for a keyring runs real programs"
    )]
    fn a_key_is_kept_in_the_keyring_where_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("secret-tool");
        std::fs::write(&program, SECRET_TOOL).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!(
            "{}:{}",
            folder.path().display(),
            std::env::var("PATH").unwrap()
        );
        let vault = folder.path().display().to_string();
        let home = folder.path().join("home");
        let variables = [
            ("PATH", path.as_str()),
            ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere"),
            ("VAULT", vault.as_str()),
        ];
        let store = KeyStore::new(&environment(&home, &variables));
        assert_eq!(
            store.set("openai", "k1").unwrap(),
            Place::Keyring("secret-tool")
        );
        assert!(store.has("openai"));
        assert_eq!(store.get("openai").as_deref(), Some("k1"));
        let file = std::fs::read_to_string(store.file()).unwrap();
        assert!(!file.contains("k1"), "{file}");
        assert!(store.remove("openai").unwrap());
        assert_eq!(store.get("openai"), None);
        // Somebody wants the file.
        let mut more = variables.to_vec();
        more.push(("LATHE_MCP_CREDENTIALS", "file"));
        let store = KeyStore::new(&environment(&home, &more));
        assert_eq!(store.set("openai", "k2").unwrap(), Place::File(None));
    }

    #[test]
    fn a_keyring_that_must_be_used_and_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = [("LATHE_MCP_CREDENTIALS", "keyring")];
        let store = KeyStore::new(&environment(folder.path(), &wanted));
        let error = store.set("openai", "k1").unwrap_err();
        assert!(matches!(error, KeyStoreError::Keyring(_)), "{error}");
        assert_eq!(store.get("openai"), None);
    }
}
