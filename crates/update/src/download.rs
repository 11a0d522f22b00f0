//! Fetching: the manifest with its signature, and an archive that is checked before it is unpacked.

use crate::error::{UpdateError, at};
use crate::layout::PROGRAM;
use crate::manifest::{Artefact, FILE, Manifest, key};
use lathe_net::{ClientOptions, Network, Reach, Redirects, is_loopback};
use lathe_settings::Environment;
use sha2::{Digest as _, Sha256};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;
use url::Url;

/// The largest manifest and signature.
const MOST_MANIFEST: usize = 4 * 1024 * 1024;
/// How long a server may be silent.
const SILENCE: Duration = Duration::from_secs(60);
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(20);
/// Where releases are, unless it was chosen when this program was built or in settings.
const USUAL_ADDRESS: &str = "https://github.com/lathe-dev/lathe/releases/latest/download/";

/// Where releases come from.
#[derive(Debug)]
pub struct Releases {
    base: Url,
    key: Vec<u8>,
    client: reqwest::Client,
}

impl Releases {
    /// The releases at an address of settings, or at the usual one.
    ///
    /// # Errors
    /// If this program has no key, or the address can't be used.
    pub fn of(environment: &Environment, address: Option<&str>) -> Result<Self, UpdateError> {
        let key = key(environment)?;
        let text = address
            .or(option_env!("RELEASE_URL"))
            .filter(|text| !text.is_empty())
            .unwrap_or(USUAL_ADDRESS);
        let bad = |why: String| UpdateError::BadAddress {
            url: text.to_owned(),
            why,
        };
        // The address is a folder, with or without the slash.
        let base = Url::parse(&format!("{}/", text.trim_end_matches('/')))
            .map_err(|error| bad(error.to_string()))?;
        if base.scheme() != "https" && !(base.scheme() == "http" && is_loopback(&base)) {
            return Err(bad("it must begin with https://".to_owned()));
        }
        let options = ClientOptions {
            redirects: Redirects::Encrypted,
            reach: Reach::by_host(&base),
            user_agent: Some("lathe"),
            connect_timeout: Some(CONNECT),
            ..ClientOptions::default()
        };
        let client = Network::of(environment)
            .client(&options)
            .map_err(|error| bad(error.to_string()))?;
        Ok(Self { base, key, client })
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> &str {
        self.base.as_str()
    }

    /// The manifest, if its signature holds.
    ///
    /// # Errors
    /// If it can't be fetched, or is not from the makers of this program.
    pub async fn manifest(&self) -> Result<Manifest, UpdateError> {
        let signature = self.small(&format!("{FILE}.sig")).await?;
        let bytes = self.small(FILE).await?;
        let url = self
            .base
            .join(FILE)
            .map_or_else(|_| FILE.to_owned(), String::from);
        Manifest::verified(&bytes, &signature, &self.key, &url)
    }

    async fn get(&self, name: &str) -> Result<reqwest::Response, UpdateError> {
        let url = self
            .base
            .join(name)
            .map_err(|error| UpdateError::BadAddress {
                url: format!("{}{name}", self.base),
                why: error.to_string(),
            })?;
        let failed = |why: String| UpdateError::Fetch {
            url: url.to_string(),
            why,
        };
        let sent = tokio::time::timeout(SILENCE, self.client.get(url.clone()).send()).await;
        let response = sent
            .map_err(|_| failed("the server does not answer".to_owned()))?
            .map_err(|error| failed(lathe_net::innermost(&error)))?;
        if !response.status().is_success() {
            return Err(failed(format!("the server answers {}", response.status())));
        }
        Ok(response)
    }

    async fn small(&self, name: &str) -> Result<Vec<u8>, UpdateError> {
        let response = self.get(name).await?;
        let url = response.url().to_string();
        let failed = |why: String| UpdateError::Fetch {
            url: url.clone(),
            why,
        };
        tokio::time::timeout(SILENCE, lathe_net::body(response, MOST_MANIFEST))
            .await
            .map_err(|_| failed("the server stopped answering".to_owned()))?
            .map_err(|error| failed(error.to_string()))
    }

    /// Fetches an archive into a file, and checks its size and hash.
    ///
    /// # Errors
    /// If it can't be fetched or written, or is not the one of the manifest.
    pub async fn archive(&self, artefact: &Artefact, into: &Path) -> Result<(), UpdateError> {
        let mut response = self.get(&artefact.file).await?;
        let failed = |why: String| UpdateError::Fetch {
            url: artefact.file.clone(),
            why,
        };
        let mut file = File::create(into).map_err(at(into))?;
        let mut hash = Sha256::new();
        let mut got = 0_u64;
        loop {
            let chunk = tokio::time::timeout(SILENCE, response.chunk()).await;
            let chunk = match chunk {
                Ok(Ok(chunk)) => chunk,
                Ok(Err(error)) => return Err(failed(lathe_net::innermost(&error))),
                Err(_) => return Err(failed("the server stopped sending".to_owned())),
            };
            let Some(chunk) = chunk else { break };
            got += chunk.len() as u64;
            if got > artefact.size {
                break;
            }
            hash.update(&chunk);
            file.write_all(&chunk).map_err(at(into))?;
        }
        if got != artefact.size {
            return Err(UpdateError::WrongSize {
                file: artefact.file.clone(),
                got,
                wanted: artefact.size,
            });
        }
        let digits: String = hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        if !digits.eq_ignore_ascii_case(&artefact.sha256) {
            return Err(UpdateError::WrongHash {
                file: artefact.file.clone(),
            });
        }
        Ok(())
    }
}

/// Unpacks the program of an archive to a file, durably. Everything else in the archive is left.
///
/// # Errors
/// If it holds no program, or the file system refuses.
pub fn unpack(archive: &Path, name: &str, program: &Path) -> Result<(), UpdateError> {
    let bad = |why: String| UpdateError::BadArchive {
        file: name.to_owned(),
        why,
    };
    let file = File::open(archive).map_err(at(archive))?;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let entries = archive.entries().map_err(|error| bad(error.to_string()))?;
    for entry in entries {
        let entry = entry.map_err(|error| bad(error.to_string()))?;
        let path = entry.path().map_err(|error| bad(error.to_string()))?;
        let is_program = path.file_name().is_some_and(|last| last == PROGRAM);
        if !is_program || entry.header().entry_type() != tar::EntryType::Regular {
            continue;
        }
        let mut target = File::options()
            .create_new(true)
            .write(true)
            .mode(0o755)
            .open(program)
            .map_err(at(program))?;
        let most = crate::manifest::MOST_BYTES;
        let copied = std::io::copy(&mut entry.take(most + 1), &mut target)
            .map_err(|error| bad(error.to_string()))?;
        if copied == 0 || copied > most {
            return Err(bad("its program is empty or too large".to_owned()));
        }
        target.sync_all().map_err(at(program))?;
        // The mode above is cut by the umask.
        let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        fs::set_permissions(program, mode).map_err(at(program))?;
        return Ok(());
    }
    Err(bad(format!("there is no file `{PROGRAM}` in it")))
}
