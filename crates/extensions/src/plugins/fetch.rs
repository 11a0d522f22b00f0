//! Fetching over http: lists of marketplaces, and packages of npm registries. Nothing of a package is
//! run; it is unpacked and that is all.

use super::archive::unpack;
use super::copy::Limits;
use super::source::{check_web_address, is_loopback, without_secret};
use super::{PluginError, plain};
use base64::Engine as _;
use futures::StreamExt as _;
use serde_json::Value;
use sha2::{Digest as _, Sha512};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The largest list.
const LARGEST_LIST: usize = 8 * 1024 * 1024;
/// The largest package, as it travels.
const LARGEST_PACKAGE: usize = 50 * 1024 * 1024;
/// The largest description of a package: every version of it is in there.
const LARGEST_DESCRIPTION: usize = 32 * 1024 * 1024;
/// How long a fetch may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// The registry that is asked where a plugin names none.
const REGISTRY: &str = "https://registry.npmjs.org";

/// Fetches a list.
///
/// # Errors
/// When it can't be fetched.
pub async fn list(url: &str, headers: &BTreeMap<String, String>) -> Result<Vec<u8>, PluginError> {
    get(url, headers, LARGEST_LIST).await
}

async fn get(
    address: &str,
    headers: &BTreeMap<String, String>,
    largest: usize,
) -> Result<Vec<u8>, PluginError> {
    let failed = |why: String| PluginError::Fetch {
        what: without_secret(address),
        why,
    };
    check_web_address(address).map_err(|why| PluginError::refused(without_secret(address), why))?;
    let url = reqwest::Url::parse(address).map_err(|error| failed(error.to_string()))?;
    let local = is_loopback(&url);
    // Fails only when a provider is installed already, which is just as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A redirect must not lead from an encrypted address to one that isn't.
    let policy = reqwest::redirect::Policy::custom(move |attempt| {
        let fine = attempt.url().scheme() == "https" || (local && is_loopback(attempt.url()));
        if attempt.previous().len() > 5 {
            attempt.error("too many redirects")
        } else if fine {
            attempt.follow()
        } else {
            attempt.error("it redirects to an address that is not encrypted")
        }
    });
    let builder = reqwest::Client::builder()
        .redirect(policy)
        .timeout(PATIENCE)
        .user_agent(concat!("lathe/", env!("CARGO_PKG_VERSION")));
    let builder = if local { builder.no_proxy() } else { builder };
    let client = builder.build().map_err(|error| failed(error.to_string()))?;
    let mut request = client.get(url);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let response = request
        .send()
        .await
        .map_err(|error| failed(words(&error)))?;
    let status = response.status();
    if !status.is_success() {
        return Err(failed(format!("the server answers {status}")));
    }
    let mut stream = response.bytes_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| failed(words(&error)))?;
        if bytes.len() + chunk.len() > largest {
            return Err(failed(format!(
                "it is larger than {} MB",
                largest / 1024 / 1024
            )));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn words(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "it took too long".to_owned();
    }
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
/// When it can't be fetched, isn't what the registry says it is, or is refused.
pub async fn package(
    name: &str,
    version: Option<&str>,
    registry: Option<&str>,
    to: &Path,
    limits: Limits,
) -> Result<String, PluginError> {
    let failed = |why: String| PluginError::Fetch {
        what: format!("npm {name}"),
        why,
    };
    let registry = registry.unwrap_or(REGISTRY).trim_end_matches('/');
    let address = format!("{registry}/{}", name.replace('/', "%2f"));
    let bytes = get(&address, &BTreeMap::new(), LARGEST_DESCRIPTION).await?;
    let description: Value = serde_json::from_slice(&bytes)
        .map_err(|error| failed(format!("the registry's answer can't be read: {error}")))?;
    let (version, dist) = choose(&description, version).map_err(failed)?;
    let tarball = dist
        .get("tarball")
        .and_then(Value::as_str)
        .ok_or_else(|| failed(format!("the registry doesn't say where {version} lies")))?;
    let bytes = get(tarball, &BTreeMap::new(), LARGEST_PACKAGE).await?;
    check_integrity(&bytes, dist.get("integrity").and_then(Value::as_str))
        .map_err(|why| PluginError::refused(format!("npm {name}@{version}"), why))?;
    unpack(&bytes[..], to, limits)?;
    Ok(version)
}

/// The version that is wanted: a number, a tag, or the latest.
fn choose<'a>(description: &'a Value, wanted: Option<&str>) -> Result<(String, &'a Value), String> {
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
    dist.map(|dist| (version.to_owned(), dist)).ok_or_else(|| {
        format!("there is no version {wanted:?}; ranges such as ^1.0 are not understood, name a version or a tag")
    })
}

fn check_integrity(bytes: &[u8], wanted: Option<&str>) -> Result<(), String> {
    let Some(wanted) = wanted else {
        return Err("the registry gives no checksum".to_owned());
    };
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha512::digest(bytes));
    let fits = wanted
        .split_whitespace()
        .any(|one| one.strip_prefix("sha512-") == Some(hash.as_str()));
    if fits {
        Ok(())
    } else {
        Err("what came is not what the registry's checksum says".to_owned())
    }
}
