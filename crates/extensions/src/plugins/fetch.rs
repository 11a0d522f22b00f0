//! Downloads over HTTP: marketplace lists and packages of npm registries. Packages are unpacked; their
//! scripts are never run.

use super::archive::unpack;
use super::copy::Limits;
use super::source::{check_web_address, without_secret};
use super::{PluginError, plain};
use base64::Engine as _;
use futures::StreamExt as _;
use lathe_net::{ClientOptions, NetError, Network, Reach, Redirects};
use serde_json::Value;
use sha2::{Digest as _, Sha512};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The maximum size of a marketplace list.
const MAX_LIST: usize = 8 * 1024 * 1024;
/// The maximum size of a compressed package.
const MAX_PACKAGE: usize = 50 * 1024 * 1024;
/// The maximum size of a package's metadata, which lists all versions.
const MAX_METADATA: usize = 32 * 1024 * 1024;
/// The time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The registry for plugins that name none.
const REGISTRY: &str = "https://registry.npmjs.org";

/// Why a download failed.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    #[error("it took too long")]
    Timeout(#[source] reqwest::Error),
    #[error("{}", innermost(.0))]
    Request(#[source] reqwest::Error),
    #[error(transparent)]
    Network(#[from] NetError),
    #[error("the server answered {0}")]
    Status(reqwest::StatusCode),
    #[error("it is larger than {megabytes} MB")]
    TooLarge { megabytes: usize },
}

impl From<reqwest::Error> for DownloadError {
    fn from(error: reqwest::Error) -> Self {
        if error.is_timeout() {
            Self::Timeout(error)
        } else {
            Self::Request(error)
        }
    }
}

/// Why a package of a registry can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("the registry's answer can't be read: {0}")]
    Answer(#[from] serde_json::Error),
    #[error(
        "there is no version {0:?}; ranges such as ^1.0 are not supported, name a version or a tag"
    )]
    NoSuchVersion(String),
    #[error("the registry gives no download address for {0}")]
    NoAddress(String),
    #[error("the registry gives no checksum")]
    NoChecksum,
    #[error("the download doesn't match the registry's checksum")]
    Checksum,
}

/// Downloads a marketplace list.
///
/// # Errors
/// If the download fails.
pub async fn list(
    url: &str,
    headers: &BTreeMap<String, String>,
    network: &Network,
) -> Result<Vec<u8>, PluginError> {
    get(url, headers, MAX_LIST, network).await
}

async fn get(
    address: &str,
    headers: &BTreeMap<String, String>,
    largest: usize,
    network: &Network,
) -> Result<Vec<u8>, PluginError> {
    let failed = |error: DownloadError| PluginError::fetch(without_secret(address), error);
    check_web_address(address)
        .map_err(|error| PluginError::refused(without_secret(address), error))?;
    let url = reqwest::Url::parse(address)
        .map_err(|error| PluginError::fetch(without_secret(address), error))?;
    // A redirect must not lead from an encrypted address to one that isn't.
    let options = ClientOptions {
        redirects: Redirects::Encrypted,
        reach: Reach::by_host(&url),
        user_agent: Some(concat!("lathe/", env!("CARGO_PKG_VERSION"))),
        timeout: Some(TIMEOUT),
        ..ClientOptions::default()
    };
    let client = network
        .shared_client(&options)
        .map_err(|error| failed(error.into()))?;
    let mut request = client.get(url);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let response = request.send().await.map_err(|error| failed(error.into()))?;
    let status = response.status();
    if !status.is_success() {
        return Err(failed(DownloadError::Status(status)));
    }
    let mut stream = response.bytes_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| failed(error.into()))?;
        if bytes.len() + chunk.len() > largest {
            return Err(failed(DownloadError::TooLarge {
                megabytes: largest / 1024 / 1024,
            }));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The innermost cause of a request's failure, which is the one that says something.
fn innermost(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    plain(&text, 200)
}

/// Fetches a package of an npm registry into a folder and returns its version.
///
/// # Errors
/// If the download fails, the checksum doesn't match, or the content is refused.
pub async fn package(
    name: &str,
    version: Option<&str>,
    registry: Option<&str>,
    to: &Path,
    limits: Limits,
    network: &Network,
) -> Result<String, PluginError> {
    let failed = |error: RegistryError| PluginError::fetch(format!("npm {name}"), error);
    let registry = registry.unwrap_or(REGISTRY).trim_end_matches('/');
    let address = format!("{registry}/{}", name.replace('/', "%2f"));
    let bytes = get(&address, &BTreeMap::new(), MAX_METADATA, network).await?;
    let description: Value =
        serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))?;
    let (version, dist) = choose(&description, version).map_err(failed)?;
    let tarball = dist
        .get("tarball")
        .and_then(Value::as_str)
        .ok_or_else(|| failed(RegistryError::NoAddress(version.clone())))?;
    let bytes = get(tarball, &BTreeMap::new(), MAX_PACKAGE, network).await?;
    check_integrity(&bytes, dist.get("integrity").and_then(Value::as_str))
        .map_err(|error| PluginError::refused(format!("npm {name}@{version}"), error))?;
    unpack(&bytes[..], to, limits)?;
    Ok(version)
}

/// Selects a version by number or tag; the default is `latest`.
fn choose<'a>(
    description: &'a Value,
    wanted: Option<&str>,
) -> Result<(String, &'a Value), RegistryError> {
    let wanted = wanted.unwrap_or("latest");
    let tagged = description
        .get("dist-tags")
        .and_then(|tags| tags.get(wanted))
        .and_then(Value::as_str);
    let version = tagged.unwrap_or(wanted);
    let dist = description
        .get("versions")
        .and_then(|versions| versions.get(version))
        .and_then(|version| version.get("dist"));
    dist.map(|dist| (version.to_owned(), dist))
        .ok_or_else(|| RegistryError::NoSuchVersion(wanted.to_owned()))
}

fn check_integrity(bytes: &[u8], wanted: Option<&str>) -> Result<(), RegistryError> {
    let Some(wanted) = wanted else {
        return Err(RegistryError::NoChecksum);
    };
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha512::digest(bytes));
    let fits = wanted
        .split_whitespace()
        .any(|one| one.strip_prefix("sha512-") == Some(hash.as_str()));
    if fits {
        Ok(())
    } else {
        Err(RegistryError::Checksum)
    }
}
