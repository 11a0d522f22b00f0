//! The manifest of the releases: versions, channels, and the hash of each archive, under one signature.

use crate::error::UpdateError;
use crate::version::Version;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lathe_settings::Environment;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The format of the manifest that this program reads.
pub const FORMAT: u32 = 1;
/// The name of the manifest below the release address; its signature has `.sig` at the end.
pub const FILE: &str = "manifest.json";
/// The largest archive that is taken.
pub const MOST_BYTES: u64 = 512 * 1024 * 1024;

/// The releases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format, [`FORMAT`].
    pub format: u32,
    /// Grows with every manifest, so that an old one can't be passed off as the newest.
    pub serial: u64,
    /// The version of each channel.
    pub channels: BTreeMap<String, String>,
    /// The releases by version.
    pub versions: BTreeMap<String, Release>,
}

/// A release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The archives by target.
    pub targets: BTreeMap<String, Artefact>,
}

/// An archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artefact {
    /// Its name below the release address.
    pub file: String,
    /// Its SHA-256 in hexadecimal digits.
    pub sha256: String,
    /// Its size in bytes.
    pub size: u64,
}

/// The key that releases are signed with. It is compiled in; builds for debugging take another one from
/// `LATHE_TEST_RELEASE_KEY`, so that tests sign releases of their own.
///
/// # Errors
/// If there is none, or it is no key.
pub fn key(environment: &Environment) -> Result<Vec<u8>, UpdateError> {
    let tested = cfg!(debug_assertions)
        .then(|| environment.foreign("LATHE_TEST_RELEASE_KEY"))
        .flatten();
    let text = tested
        .or(option_env!("RELEASE_KEY"))
        .filter(|text| !text.is_empty())
        .ok_or(UpdateError::NoKey)?;
    let bytes = STANDARD
        .decode(text.trim())
        .map_err(|_| UpdateError::BadKey)?;
    (bytes.len() == 32)
        .then_some(bytes)
        .ok_or(UpdateError::BadKey)
}

impl Manifest {
    /// Reads a manifest whose signature holds. `url` is for messages.
    ///
    /// # Errors
    /// If the signature is wrong, before anything of the manifest is read, or if it doesn't say what it must.
    pub fn verified(
        bytes: &[u8],
        signature: &[u8],
        key: &[u8],
        url: &str,
    ) -> Result<Self, UpdateError> {
        let wrong = || UpdateError::WrongSignature {
            url: url.to_owned(),
        };
        let text = std::str::from_utf8(signature).map_err(|_| wrong())?;
        let signature = STANDARD.decode(text.trim()).map_err(|_| wrong())?;
        UnparsedPublicKey::new(&ED25519, key)
            .verify(bytes, &signature)
            .map_err(|_| wrong())?;
        let bad = |why: String| UpdateError::BadManifest(why);
        let manifest: Self =
            serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
        if manifest.format != FORMAT {
            return Err(bad(format!(
                "it has format {}, this program reads {FORMAT}",
                manifest.format
            )));
        }
        Ok(manifest)
    }

    /// The version of a channel, or the version itself, with its archive for a target.
    ///
    /// # Errors
    /// If there is none, or it can't be used.
    pub fn find(
        &self,
        wanted: &str,
        target: &'static str,
    ) -> Result<(Version, &Artefact), UpdateError> {
        let name = self.channels.get(wanted).map_or(wanted, String::as_str);
        let artefact = self
            .versions
            .get(name)
            .and_then(|release| release.targets.get(target))
            .ok_or_else(|| UpdateError::NoSuchVersion {
                wanted: wanted.to_owned(),
                target,
                known: self.known(target),
            })?;
        let version: Version = name.parse()?;
        let bad = |why: &str| UpdateError::BadManifest(format!("{name} for {target}: {why}"));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !artefact.file.bytes().all(plain) || artefact.file.starts_with('.') {
            return Err(bad("`file` is not a plain name"));
        }
        if artefact.sha256.len() != 64 || !artefact.sha256.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad("`sha256` is not 64 hexadecimal digits"));
        }
        if artefact.size == 0 || artefact.size > MOST_BYTES {
            return Err(bad("`size` is 0 or too large"));
        }
        Ok((version, artefact))
    }

    fn known(&self, target: &str) -> String {
        let mut known: Vec<&str> = self
            .versions
            .iter()
            .filter(|(_, release)| release.targets.contains_key(target))
            .map(|(version, _)| version.as_str())
            .collect();
        known.sort_by_key(|version| version.parse::<Version>().ok());
        if known.is_empty() {
            return "none".to_owned();
        }
        known.join(", ")
    }
}
