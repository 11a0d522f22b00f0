//! The store of credentials: tokens and secrets in the system's keyring, the rest in a file that
//! only the user can read. Without a working keyring, everything is in the file.
//!
//! An entry belongs to a server's address, an issuer and the part of the configuration that
//! identifies the client; a changed configuration or another issuer never gets its tokens. The file
//! is replaced atomically under a lock. It records for each entry whether its secrets are in the
//! keyring; those in the file are moved on use if the keyring works. A broken keyring is reported
//! once.
//!
//! Everything here blocks, for seconds if a keyring hangs, so it runs on blocking threads.

use super::registration::Client;
use super::tokens::{Tokens, now};
use crate::headers;
use crate::server::OAuthConfig;
use lathe_keyring::{Keyring, KeyringError, Service, StorageChoice};
use lathe_settings::Environment;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of our keyring entries.
const SERVICE: Service = Service {
    name: "lathe-mcp",
    label: "Lathe: signed in at an MCP server",
};

/// The credentials for one server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Credentials {
    pub(super) server: String,
    pub(super) issuer: String,
    /// The hash of the configuration it belongs to.
    pub(super) config: String,
    pub(super) client: Client,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<Tokens>,
    pub(super) token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revocation_endpoint: Option<String>,
    pub(super) resource: String,
    pub(super) updated_at: u64,
    /// True if the tokens and the client's secret are in the keyring instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) in_keyring: bool,
}

/// The part of an entry that goes into the keyring.
#[derive(Default, Serialize, Deserialize)]
struct Secrets {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<Tokens>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
}

impl Credentials {
    fn key(&self) -> String {
        key(&self.server, &self.issuer, &self.config)
    }

    fn has_secrets(&self) -> bool {
        self.tokens.is_some() || self.client.secret.is_some()
    }

    fn take_secrets(&mut self) -> Secrets {
        Secrets {
            tokens: self.tokens.take(),
            client_secret: self.client.secret.take(),
        }
    }
}

/// A sign-in, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub server: String,
    pub issuer: String,
    /// The granted scopes.
    pub scopes: Vec<String>,
}

#[derive(Default, Serialize, Deserialize)]
struct Content {
    #[serde(default)]
    credentials: BTreeMap<String, Credentials>,
    /// Secrets of manually registered clients, by server address and client id.
    #[serde(default)]
    client_secrets: BTreeMap<String, String>,
    /// The authorisation server that each of them was first used with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    client_secret_issuers: BTreeMap<String, String>,
    /// Those of them that are in the keyring.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    client_secrets_in_keyring: BTreeSet<String>,
}

/// The credentials of a user. Cheap to clone; all clones together report a broken keyring once.
#[derive(Debug, Clone)]
pub struct CredentialStore {
    folder: PathBuf,
    wanted: StorageChoice,
    keyring: Result<Arc<Keyring>, KeyringError>,
    complaints: Arc<Mutex<Complaints>>,
}

#[derive(Debug, Default)]
struct Complaints {
    made: bool,
    waiting: Option<String>,
}

/// A stored client secret, asked for by an authorisation server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StoredSecret {
    Secret(String),
    /// It belongs to this other authorisation server.
    Bound(String),
    Absent,
}

/// Where tokens and secrets are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialStorage {
    /// In the system's keyring, through a program.
    Keyring {
        /// `secret-tool` or `security`.
        program: &'static str,
    },
    /// In a file that only the user can read.
    File {
        file: PathBuf,
        /// Why the keyring is not used.
        why: String,
    },
    /// Nowhere: the keyring is required but doesn't work.
    Nowhere { why: String },
}

fn key(server: &str, issuer: &str, config: &str) -> String {
    digest(&[server, issuer, config])
}

fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize()
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The key of a client's secret, independent of the spelling of the address.
fn secret_key(server: &str, client_id: &str) -> String {
    // As authorisation spells the address of a WebSocket server.
    let server = server.replacen("ws", "http", usize::from(server.starts_with("ws")));
    let address = headers::address(&server).map_or(server, String::from);
    digest(&[&address, client_id])
}

/// The hash of the part of a configuration that identifies the client.
pub(super) fn config_hash(config: &OAuthConfig) -> String {
    digest(&[
        config.client_id.as_deref().unwrap_or_default(),
        config.metadata_url.as_deref().unwrap_or_default(),
        config.scopes.as_deref().unwrap_or_default(),
        if config.client_credentials {
            "client"
        } else {
            "person"
        },
    ])
}

impl CredentialStore {
    /// The store in a config home, with the kind of storage from the environment.
    #[must_use]
    pub fn new(home: &Path, environment: &Environment) -> Self {
        Self {
            folder: home.to_owned(),
            wanted: StorageChoice::of(environment),
            // Even if the file is wanted, so that earlier entries are still found and removed.
            keyring: Keyring::find(SERVICE, environment).map(Arc::new),
            complaints: Arc::default(),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("mcp-credentials.json")
    }

    /// Where tokens and secrets are stored. Checks whether the keyring works.
    #[must_use]
    pub fn keeping(&self) -> CredentialStorage {
        let why = match &self.keyring {
            _ if self.wanted == StorageChoice::File => "set by LATHE_MCP_CREDENTIALS".to_owned(),
            Ok(keyring) => match keyring.check() {
                Ok(()) => {
                    return CredentialStorage::Keyring {
                        program: keyring.program(),
                    };
                }
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        match self.wanted {
            StorageChoice::Keyring => CredentialStorage::Nowhere { why },
            StorageChoice::Auto | StorageChoice::File => CredentialStorage::File {
                file: self.file(),
                why,
            },
        }
    }

    /// A notice about the keyring, returned once.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        self.complaints.lock().waiting.take()
    }

    fn complain(&self, why: &KeyringError) {
        let mut complaints = self.complaints.lock();
        if std::mem::replace(&mut complaints.made, true) {
            return;
        }
        complaints.waiting = Some(match self.wanted {
            StorageChoice::Keyring => format!(
                "the keyring can't be used ({why}), and LATHE_MCP_CREDENTIALS allows nothing else: sign-ins at MCP servers are not stored"
            ),
            StorageChoice::Auto | StorageChoice::File => format!(
                "the keyring can't be used ({why}): sign-ins at MCP servers are stored in {}, which only you can read; set LATHE_MCP_CREDENTIALS=file to skip the keyring",
                self.file().display()
            ),
        });
    }

    /// The name of an entry in the keyring, which differs between config homes.
    fn account(&self, key: &str) -> String {
        digest(&[&self.folder.to_string_lossy(), key])
    }

    /// Uses the keyring; `None` if it doesn't work.
    fn in_keyring<T>(&self, ask: impl FnOnce(&Keyring) -> Result<T, KeyringError>) -> Option<T> {
        match &self.keyring {
            Ok(keyring) => ask(keyring).map_err(|why| self.complain(&why)).ok(),
            Err(why) => {
                if self.wanted == StorageChoice::Keyring {
                    self.complain(why);
                }
                None
            }
        }
    }

    /// Stores a secret in the keyring. Returns whether that worked.
    fn put(&self, key: &str, secret: &str) -> bool {
        self.wanted != StorageChoice::File
            && self
                .in_keyring(|keyring| keyring.set(&self.account(key), secret))
                .is_some()
    }

    fn take_out(&self, key: &str) {
        let _ = self.in_keyring(|keyring| keyring.remove(&self.account(key)));
    }

    /// Stores the secret of a manually registered client for a server.
    ///
    /// # Errors
    /// If it can't be stored.
    pub fn set_client_secret(
        &self,
        server: &str,
        client_id: &str,
        secret: &str,
    ) -> std::io::Result<()> {
        let _lock = self.lock("store")?;
        let mut content = self.read()?;
        let key = secret_key(server, client_id);
        content.client_secret_issuers.remove(&key);
        self.put_client_secret(&mut content, key, secret)?;
        self.write(&content)
    }

    fn put_client_secret(
        &self,
        content: &mut Content,
        key: String,
        secret: &str,
    ) -> std::io::Result<()> {
        if self.put(&key, secret) {
            content.client_secrets.remove(&key);
            content.client_secrets_in_keyring.insert(key);
        } else if self.wanted == StorageChoice::Keyring {
            return Err(std::io::Error::other(
                "the keyring can't be used, and LATHE_MCP_CREDENTIALS allows nothing else",
            ));
        } else {
            content.client_secrets_in_keyring.remove(&key);
            content.client_secrets.insert(key, secret.to_owned());
        }
        Ok(())
    }

    /// The secret of a client that was registered manually, for the authorisation server `issuer`. The
    /// first one that it is used with is the only one that gets it.
    pub(super) fn client_secret(
        &self,
        server: &str,
        client_id: &str,
        issuer: &str,
    ) -> StoredSecret {
        let key = secret_key(server, client_id);
        let Ok(content) = self.read() else {
            return StoredSecret::Absent;
        };
        match content.client_secret_issuers.get(&key) {
            Some(bound) if bound != issuer => return StoredSecret::Bound(bound.clone()),
            _ => {}
        }
        let secret = if let Some(secret) = content.client_secrets.get(&key) {
            if self.keyring.is_ok()
                && self.wanted != StorageChoice::File
                && let Err(error) = self.set_client_secret(server, client_id, secret)
            {
                tracing::warn!(%error, "a client secret can't be moved into the keyring");
            }
            Some(secret.clone())
        } else if content.client_secrets_in_keyring.contains(&key) {
            self.in_keyring(|keyring| keyring.get(&self.account(&key)))
                .flatten()
        } else {
            None
        };
        let Some(secret) = secret else {
            return StoredSecret::Absent;
        };
        match self.bind_client_secret(key, issuer) {
            Ok(None) => StoredSecret::Secret(secret),
            Ok(Some(bound)) => StoredSecret::Bound(bound),
            // Better no secret than one that could be sent anywhere next time.
            Err(error) => {
                tracing::warn!(%error, "a client secret can't be bound to its authorisation server");
                StoredSecret::Absent
            }
        }
    }

    /// Binds a secret to an authorisation server. Gives the other one that it was bound to meanwhile.
    fn bind_client_secret(&self, key: String, issuer: &str) -> std::io::Result<Option<String>> {
        let _lock = self.lock("store")?;
        let mut content = self.read()?;
        if let Some(bound) = content.client_secret_issuers.get(&key) {
            return Ok((bound != issuer).then(|| bound.clone()));
        }
        content.client_secret_issuers.insert(key, issuer.to_owned());
        self.write(&content)?;
        Ok(None)
    }

    /// All sign-ins.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn summaries(&self) -> std::io::Result<Vec<Summary>> {
        let content = self.read()?;
        let signed_in = content.credentials.into_values().filter_map(|mut found| {
            self.fill_in(&mut found);
            Some(Summary {
                server: found.server,
                issuer: found.issuer,
                scopes: found.tokens?.scopes,
            })
        });
        Ok(signed_in.collect())
    }

    /// Adds the part of an entry that is in the keyring.
    fn fill_in(&self, entry: &mut Credentials) {
        if !entry.in_keyring {
            return;
        }
        let secrets = self
            .in_keyring(|keyring| keyring.get(&self.account(&entry.key())))
            .flatten()
            .and_then(|text| serde_json::from_str::<Secrets>(&text).ok())
            .unwrap_or_default();
        entry.tokens = secrets.tokens;
        entry.client.secret = secrets.client_secret;
    }

    /// All entries for a server and a configuration, newest first. Secrets are moved to where they
    /// should be.
    pub(super) fn find(&self, server: &str, config: &str) -> std::io::Result<Vec<Credentials>> {
        let mut found: Vec<Credentials> = self
            .read()?
            .credentials
            .into_values()
            .filter(|found| found.server == server && found.config == config)
            .collect();
        found.sort_by_key(|found| std::cmp::Reverse(found.updated_at));
        for entry in &mut found {
            self.fill_in(entry);
            let belongs_there = self.keyring.is_ok() && self.wanted != StorageChoice::File;
            if entry.has_secrets() && entry.in_keyring != belongs_there {
                self.move_secrets(&entry.key())?;
            }
        }
        Ok(found)
    }

    /// Moves an entry's secrets into or out of the keyring. If that fails they stay.
    fn move_secrets(&self, key: &str) -> std::io::Result<()> {
        let _lock = self.lock("store")?;
        let mut content = self.read()?;
        // Read again: another process may have refreshed it meanwhile.
        let Some(entry) = content.credentials.get_mut(key) else {
            return Ok(());
        };
        if entry.in_keyring {
            self.fill_in(entry);
            if !entry.has_secrets() {
                return Ok(());
            }
            entry.in_keyring = false;
            self.write(&content)?;
            self.take_out(key);
            return Ok(());
        }
        let mut open = entry.clone();
        let secrets = serde_json::to_string(&open.take_secrets())?;
        if self.put(key, &secrets) {
            open.in_keyring = true;
            *entry = open;
            self.write(&content)?;
        }
        Ok(())
    }

    pub(super) fn save(&self, credentials: &Credentials) -> std::io::Result<()> {
        let _lock = self.lock("store")?;
        let mut content = self.read()?;
        let mut entry = credentials.clone();
        let key = entry.key();
        entry.updated_at = now();
        let was_in_keyring = content
            .credentials
            .get(&key)
            .is_some_and(|before| before.in_keyring);
        entry.in_keyring = false;
        if entry.has_secrets() {
            let mut open = entry.clone();
            let secrets = serde_json::to_string(&open.take_secrets())?;
            if self.put(&key, &secrets) {
                open.in_keyring = true;
                entry = open;
            } else if self.wanted == StorageChoice::Keyring {
                entry = open;
            }
        } else if was_in_keyring {
            self.take_out(&key);
        }
        content.credentials.insert(key, entry);
        self.write(&content)
    }

    pub(super) fn remove(&self, credentials: &Credentials) -> std::io::Result<()> {
        let _lock = self.lock("store")?;
        let mut content = self.read()?;
        let key = credentials.key();
        if content
            .credentials
            .remove(&key)
            .is_some_and(|before| before.in_keyring)
        {
            self.take_out(&key);
        }
        self.write(&content)
    }

    /// Locks the refresh of these tokens against other processes. Blocks.
    pub(super) fn refresh_lock(&self, credentials: &Credentials) -> std::io::Result<File> {
        self.lock(&credentials.key())
    }

    fn lock(&self, name: &str) -> std::io::Result<File> {
        let folder = self.folder.join("mcp-locks");
        std::fs::create_dir_all(&folder)?;
        let file = private().open(folder.join(format!("{name}.lock")))?;
        file.lock()?;
        Ok(file)
    }

    fn read(&self) -> std::io::Result<Content> {
        match std::fs::read(self.file()) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                std::io::Error::new(
                    std::io::ErrorKind::InvalidData,
                    format!(
                        "{}: {error}; remove it and sign in again",
                        self.file().display()
                    ),
                )
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Content::default()),
            Err(error) => Err(error),
        }
    }

    fn write(&self, content: &Content) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        // A temporary file is created with mode 0600 and keeps it when renamed.
        let mut file = tempfile::Builder::new()
            .prefix(".mcp-credentials")
            .tempfile_in(&self.folder)?;
        serde_json::to_writer(&mut file, content)?;
        file.flush()?;
        file.as_file().sync_all()?;
        file.persist(self.file()).map_err(|error| error.error)?;
        Ok(())
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::registration::Method;
    use std::os::unix::fs::PermissionsExt as _;

    fn credentials(issuer: &str, config: &str) -> Credentials {
        Credentials {
            server: "https://s.example/mcp".to_owned(),
            issuer: issuer.to_owned(),
            config: config.to_owned(),
            client: Client {
                id: "id".to_owned(),
                secret: None,
                method: Method::None,
                registered: true,
                redirect_uri: String::new(),
            },
            tokens: None,
            token_endpoint: "https://a.example/token".to_owned(),
            revocation_endpoint: None,
            resource: "https://s.example/mcp".to_owned(),
            updated_at: 0,
            in_keyring: false,
        }
    }

    fn file_only(home: &Path) -> CredentialStore {
        let environment = Environment {
            variables: BTreeMap::new(),
            home: None,
            cwd: home.to_owned(),
            ..Environment::default()
        };
        CredentialStore::new(home, &environment)
    }

    #[test]
    fn entries_belong_to_a_server_an_issuer_and_a_configuration() {
        let home = tempfile::tempdir().unwrap();
        let store = file_only(home.path());
        store.save(&credentials("https://a", "1")).unwrap();
        store.save(&credentials("https://b", "1")).unwrap();
        store.save(&credentials("https://a", "2")).unwrap();
        assert_eq!(store.find("https://s.example/mcp", "1").unwrap().len(), 2);
        assert_eq!(store.find("https://s.example/mcp", "2").unwrap().len(), 1);
        assert!(store.find("https://other", "1").unwrap().is_empty());
        store.remove(&credentials("https://a", "1")).unwrap();
        let left = store.find("https://s.example/mcp", "1").unwrap();
        assert_eq!(left[0].issuer, "https://b");
        store.set_client_secret("s", "id", "hush").unwrap();
        let secret = |id: &str, issuer: &str| store.client_secret("s", id, issuer);
        let hush = || StoredSecret::Secret("hush".to_owned());
        assert_eq!(secret("id", "https://a"), hush());
        assert_eq!(secret("other", "https://a"), StoredSecret::Absent);
        // It is sent to the authorisation server that it was first used with and to no other one.
        assert_eq!(secret("id", "https://a"), hush());
        assert_eq!(
            secret("id", "https://evil"),
            StoredSecret::Bound("https://a".to_owned())
        );
        store.set_client_secret("s", "id", "hush").unwrap();
        assert_eq!(secret("id", "https://evil"), hush());
        // In any spelling of the address.
        store
            .set_client_secret("https://h.example", "id", "x")
            .unwrap();
        assert_eq!(
            store.client_secret("https://h.example/", "id", "https://a"),
            StoredSecret::Secret("x".to_owned())
        );
    }

    #[test]
    fn only_the_person_can_read_the_file() {
        let home = tempfile::tempdir().unwrap();
        let store = file_only(home.path());
        store.save(&credentials("https://a", "1")).unwrap();
        let mode = std::fs::metadata(store.file())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_broken_file_is_reported_and_kept() {
        let home = tempfile::tempdir().unwrap();
        let store = file_only(home.path());
        std::fs::write(store.file(), "{").unwrap();
        let error = store.save(&credentials("https://a", "1")).unwrap_err();
        assert!(error.to_string().contains("sign in again"), "{error}");
        assert_eq!(std::fs::read_to_string(store.file()).unwrap(), "{");
    }
}
