//! Where credentials lie: one file that only the person can read.
//!
//! An entry belongs to a server's address, an issuer and the part of the configuration that decides
//! who we are there; a changed configuration or another issuer never gets another one's tokens. The
//! file is written whole and renamed into place; writers in other processes are kept out by a lock.

use super::registration::Client;
use super::tokens::{Tokens, now};
use crate::server::OAuthConfig;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What is known of us at one server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Credentials {
    /// The server's address.
    pub(super) server: String,
    /// Who authorises.
    pub(super) issuer: String,
    /// The configuration that this belongs to.
    pub(super) config: String,
    pub(super) client: Client,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<Tokens>,
    pub(super) token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revocation_endpoint: Option<String>,
    pub(super) resource: String,
    pub(super) updated_at: u64,
}

impl Credentials {
    fn key(&self) -> String {
        key(&self.server, &self.issuer, &self.config)
    }
}

/// One sign-in, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The server's address.
    pub server: String,
    /// Who authorises.
    pub issuer: String,
    /// The scopes that were granted.
    pub scopes: Vec<String>,
}

#[derive(Default, Serialize, Deserialize)]
struct Content {
    #[serde(default)]
    credentials: BTreeMap<String, Credentials>,
    /// Secrets of clients that were registered by hand, by server address and client id.
    #[serde(default)]
    client_secrets: BTreeMap<String, String>,
}

/// The credentials of a person.
#[derive(Debug, Clone)]
pub struct CredentialStore {
    folder: PathBuf,
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

/// The part of a configuration that decides who we are.
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
    /// The credentials in a configuration folder.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self {
            folder: home.to_owned(),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("mcp-credentials.json")
    }

    /// Keeps the secret of a client that was registered by hand.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn set_client_secret(
        &self,
        server: &str,
        client_id: &str,
        secret: &str,
    ) -> std::io::Result<()> {
        let _lock = self.lock("store")?;
        let mut content = self.read()?;
        content
            .client_secrets
            .insert(digest(&[server, client_id]), secret.to_owned());
        self.write(&content)
    }

    /// The secret of a client that was registered by hand.
    pub(super) fn client_secret(&self, server: &str, client_id: &str) -> Option<String> {
        let content = self.read().ok()?;
        content
            .client_secrets
            .get(&digest(&[server, client_id]))
            .cloned()
    }

    /// Who is signed in where.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn summaries(&self) -> std::io::Result<Vec<Summary>> {
        let content = self.read()?;
        let signed_in = content.credentials.into_values().filter_map(|found| {
            Some(Summary {
                server: found.server,
                issuer: found.issuer,
                scopes: found.tokens?.scopes,
            })
        });
        Ok(signed_in.collect())
    }

    /// All entries for a server and a configuration, the youngest first.
    pub(super) fn find(&self, server: &str, config: &str) -> std::io::Result<Vec<Credentials>> {
        let mut found: Vec<Credentials> = self
            .read()?
            .credentials
            .into_values()
            .filter(|found| found.server == server && found.config == config)
            .collect();
        found.sort_by_key(|found| std::cmp::Reverse(found.updated_at));
        Ok(found)
    }

    pub(super) fn save(&self, credentials: &Credentials) -> std::io::Result<()> {
        let _lock = self.lock("store")?;
        let mut content = self.read()?;
        let mut credentials = credentials.clone();
        credentials.updated_at = now();
        content.credentials.insert(credentials.key(), credentials);
        self.write(&content)
    }

    pub(super) fn remove(&self, credentials: &Credentials) -> std::io::Result<()> {
        let _lock = self.lock("store")?;
        let mut content = self.read()?;
        content.credentials.remove(&credentials.key());
        self.write(&content)
    }

    /// Keeps other processes from refreshing the same tokens at the same time. Blocks.
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
        // A temporary file is made for its owner only (0600), and keeps that when renamed.
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
        }
    }

    #[test]
    fn entries_belong_to_a_server_an_issuer_and_a_configuration() {
        let home = tempfile::tempdir().unwrap();
        let store = CredentialStore::new(home.path());
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
        assert_eq!(store.client_secret("s", "id").as_deref(), Some("hush"));
        assert_eq!(store.client_secret("s", "other"), None);
    }

    #[test]
    fn only_the_person_can_read_the_file() {
        let home = tempfile::tempdir().unwrap();
        let store = CredentialStore::new(home.path());
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
        let store = CredentialStore::new(home.path());
        std::fs::write(store.file(), "{").unwrap();
        let error = store.save(&credentials("https://a", "1")).unwrap_err();
        assert!(error.to_string().contains("sign in again"), "{error}");
        assert_eq!(std::fs::read_to_string(store.file()).unwrap(), "{");
    }
}
