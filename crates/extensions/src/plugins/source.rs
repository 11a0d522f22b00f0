//! Sources of marketplaces and plugins.
//!
//! User input, settings and marketplace lists are all parsed into a few types whose fields are checked:
//! an address has a scheme that can't run a program, a revision can't be mistaken for an option, a path
//! can't leave its folder.

pub use super::source_error::SourceError;
use lathe_settings::Environment;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};

/// Where a marketplace comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "lowercase")]
pub enum MarketplaceSource {
    /// A repository on GitHub.
    Github {
        /// `owner/repository`.
        repo: String,
        /// A branch or tag.
        #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// The path of the list, if not the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// A git repository.
    Git {
        url: String,
        /// A branch or tag.
        #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// The path of the list, if not the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// The address of a list.
    Url {
        url: String,
        /// Headers to send.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
    },
    /// A folder on this machine.
    Directory { path: PathBuf },
    /// A list on this machine.
    File { path: PathBuf },
}

impl MarketplaceSource {
    /// Parses user input: a folder, the file of a list, an address or `owner/repository`, the last two
    /// with an optional `#branch`.
    ///
    /// # Errors
    /// If it is none of those.
    pub fn parse(text: &str, environment: &Environment) -> Result<Self, SourceError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(SourceError::Empty);
        }
        let looks_like_path = text.starts_with(['/', '.', '~']);
        let path = environment.resolve(text);
        if looks_like_path || (path.is_dir() && !text.contains(':')) {
            let real = std::fs::canonicalize(&path)
                .map_err(|source| SourceError::Unreadable { path, source })?;
            return if real.is_dir() {
                Ok(Self::Directory { path: real })
            } else {
                refuse_archive(text)?;
                Ok(Self::File { path: real })
            };
        }
        let (address, reference) = match text.split_once('#') {
            Some((address, reference)) => (address, Some(reference.to_owned())),
            None => (text, None),
        };
        if let Some(reference) = &reference {
            check_reference(reference)?;
        }
        if address.contains("://") || address.contains("::") || is_scp(address) {
            return Self::of_address(address, reference);
        }
        let (repo, reference) = match (address.split_once('@'), reference) {
            (Some((repo, reference)), None) => {
                check_reference(reference)?;
                (repo, Some(reference.to_owned()))
            }
            (_, reference) => (address, reference),
        };
        check_repository(repo).map_err(|error| SourceError::Unrecognized(Box::new(error)))?;
        Ok(Self::Github {
            repo: repo.to_owned(),
            reference,
            path: None,
        })
    }

    fn of_address(address: &str, reference: Option<String>) -> Result<Self, SourceError> {
        let is_web = address.starts_with("https://") || address.starts_with("http://");
        let path = address.split('?').next().unwrap_or(address);
        if is_web && path.ends_with(".json") {
            check_web_address(address)?;
            return Ok(Self::Url {
                url: address.to_owned(),
                headers: BTreeMap::new(),
            });
        }
        check_git_address(address)?;
        Ok(Self::Git {
            url: address.to_owned(),
            reference,
            path: None,
        })
    }

    /// Reads a source from settings or from our own files.
    ///
    /// # Errors
    /// If a field is missing or invalid.
    pub fn of_value(value: &Value) -> Result<Self, SourceError> {
        let source: Self = serde_json::from_value(value.clone()).map_err(|_| {
            let kind = value.get("source").and_then(Value::as_str).unwrap_or("");
            if kind.is_empty() {
                SourceError::NoKind
            } else {
                SourceError::UnknownMarketplaceKind(kind.to_owned())
            }
        })?;
        source.check()?;
        Ok(source)
    }

    /// Checks all fields.
    ///
    /// # Errors
    /// If a field is invalid.
    pub fn check(&self) -> Result<(), SourceError> {
        match self {
            Self::Github {
                repo,
                reference,
                path,
            } => {
                check_repository(repo)?;
                reference.as_deref().map_or(Ok(()), check_reference)?;
                path.as_deref()
                    .map_or(Ok(()), |path| inside(path).map(|_| ()))
            }
            Self::Git {
                url,
                reference,
                path,
            } => {
                check_git_address(url)?;
                reference.as_deref().map_or(Ok(()), check_reference)?;
                path.as_deref()
                    .map_or(Ok(()), |path| inside(path).map(|_| ()))
            }
            Self::Url { url, .. } => check_web_address(url),
            Self::Directory { .. } | Self::File { .. } => Ok(()),
        }
    }

    /// True if it is on this machine, so that its plugins may be too.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Directory { .. } | Self::File { .. } => true,
            Self::Git { url, .. } => url.starts_with("file://"),
            Self::Github { .. } | Self::Url { .. } => false,
        }
    }

    /// The host in lower case.
    #[must_use]
    pub fn host(&self) -> Option<String> {
        match self {
            Self::Github { .. } => Some("github.com".to_owned()),
            Self::Git { url, .. } | Self::Url { url, .. } => host_of(url),
            Self::Directory { .. } | Self::File { .. } => None,
        }
    }
}

impl fmt::Display for MarketplaceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Github {
                repo, reference, ..
            } => {
                write!(f, "github.com/{repo}")?;
                reference
                    .as_ref()
                    .map_or(Ok(()), |name| write!(f, "#{name}"))
            }
            Self::Git { url, reference, .. } => {
                f.write_str(&without_secret(url))?;
                reference
                    .as_ref()
                    .map_or(Ok(()), |name| write!(f, "#{name}"))
            }
            Self::Url { url, .. } => f.write_str(&without_secret(url)),
            Self::Directory { path } | Self::File { path } => write!(f, "{}", path.display()),
        }
    }
}

/// Where a plugin comes from, as a marketplace lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginSource {
    /// A folder of the marketplace itself.
    Relative(PathBuf),
    /// A git repository, or a folder in one.
    Git {
        url: String,
        /// A branch or tag.
        reference: Option<String>,
        commit: Option<String>,
        folder: Option<PathBuf>,
    },
    /// A package of an npm registry. Its scripts are never run.
    Npm {
        package: String,
        /// A version or tag.
        version: Option<String>,
        /// The address of the registry.
        registry: Option<String>,
    },
}

impl PluginSource {
    /// Reads the `source` of a marketplace entry. Addresses on this machine are accepted only if `local`,
    /// that is if the marketplace is on this machine itself.
    ///
    /// # Errors
    /// If a field is missing or invalid.
    pub fn of_value(value: &Value, local: bool) -> Result<Self, SourceError> {
        match value {
            Value::String(path) => {
                refuse_archive(path)?;
                Ok(Self::Relative(inside(path)?))
            }
            Value::Object(map) => Self::of_object(map, local),
            Value::Null => Err(SourceError::Missing),
            _ => Err(SourceError::NotPathOrObject),
        }
    }

    fn of_object(map: &Map<String, Value>, local: bool) -> Result<Self, SourceError> {
        let text = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
        let needed = |name: &'static str| text(name).ok_or(SourceError::MissingField(name));
        let kind = needed("source")?;
        let reference = text("ref");
        reference.as_deref().map_or(Ok(()), check_reference)?;
        let commit = text("sha").or_else(|| text("commit"));
        commit.as_deref().map_or(Ok(()), check_commit)?;
        let git = |url: String, folder: Option<PathBuf>| {
            check_git_address(&url)?;
            if url.starts_with("file:") && !local {
                return Err(SourceError::LocalPluginOfRemoteMarketplace(url));
            }
            Ok(Self::Git {
                url,
                reference: reference.clone(),
                commit: commit.clone(),
                folder,
            })
        };
        match kind.as_str() {
            "github" => {
                let repo = needed("repo")?;
                check_repository(&repo)?;
                git(github_address(&repo), None)
            }
            "url" | "git" => git(needed("url")?, None),
            "git-subdir" => {
                let url = needed("url")?;
                let url = if check_repository(&url).is_ok() {
                    github_address(&url)
                } else {
                    url
                };
                git(url, Some(inside(&needed("path")?)?))
            }
            "npm" => {
                let package = needed("package")?;
                check_package(&package)?;
                let registry = text("registry");
                registry.as_deref().map_or(Ok(()), check_web_address)?;
                Ok(Self::Npm {
                    package,
                    version: text("version"),
                    registry,
                })
            }
            "local" | "directory" => Ok(Self::Relative(inside(&needed("path")?)?)),
            other => Err(SourceError::UnknownPluginKind(other.to_owned())),
        }
    }
}

impl fmt::Display for PluginSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relative(path) => write!(f, "./{}", path.display()),
            Self::Git {
                url,
                reference,
                commit,
                folder,
            } => {
                f.write_str(&without_secret(url))?;
                if let Some(folder) = folder {
                    write!(f, " ({})", folder.display())?;
                }
                match (commit, reference) {
                    (Some(commit), _) => write!(f, " at {commit}"),
                    (None, Some(reference)) => write!(f, " at {reference}"),
                    (None, None) => Ok(()),
                }
            }
            Self::Npm {
                package, version, ..
            } => match version {
                Some(version) => write!(f, "npm {package}@{version}"),
                None => write!(f, "npm {package}"),
            },
        }
    }
}

/// The address of a repository on GitHub.
#[must_use]
pub fn github_address(repo: &str) -> String {
    format!("https://github.com/{repo}.git")
}

/// A relative path without `.` components.
///
/// # Errors
/// If the path is absolute or leads out of its folder.
pub fn inside(path: &str) -> Result<PathBuf, SourceError> {
    let shown = super::plain(path, 120);
    if path.chars().any(char::is_control) || path.contains('\\') {
        return Err(SourceError::PathCharacters(shown));
    }
    let mut clean = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(part) => clean.push(part),
            Component::CurDir => {}
            Component::ParentDir => {
                return Err(SourceError::PathLeavesFolder(shown));
            }
            Component::RootDir | Component::Prefix(_) => {
                return Err(SourceError::AbsolutePath(shown));
            }
        }
    }
    Ok(clean)
}

/// Extensions of files that would have to be unpacked.
const ARCHIVES: [&str; 12] = [
    ".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".gz", ".7z", ".rar",
    ".mcpb", ".dxt",
];

/// Only npm packages are unpacked, since the registry gives their checksum.
fn refuse_archive(place: &str) -> Result<(), SourceError> {
    let path = place.split(['?', '#']).next().unwrap_or(place);
    let path = path.trim_end_matches('/').to_ascii_lowercase();
    if ARCHIVES.iter().any(|ending| path.ends_with(ending)) {
        let shown = super::plain(&without_secret(place), 160);
        return Err(SourceError::Archive(shown));
    }
    Ok(())
}

fn check_repository(repo: &str) -> Result<(), SourceError> {
    let fits = |part: &str| {
        !part.is_empty()
            && part.len() <= 100
            && !part.starts_with(['-', '.'])
            && part
                .chars()
                .all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character))
    };
    match repo.split_once('/') {
        Some((owner, name)) if fits(owner) && fits(name) => Ok(()),
        _ => Err(SourceError::Repository(super::plain(repo, 120))),
    }
}

fn check_reference(reference: &str) -> Result<(), SourceError> {
    let fits = !reference.is_empty()
        && reference.len() <= 200
        && !reference.starts_with(['-', '/', '.'])
        && !reference.contains("..")
        && !reference.contains("@{")
        && reference
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || "-_./+@".contains(character));
    if fits {
        Ok(())
    } else {
        Err(SourceError::Reference(super::plain(reference, 120)))
    }
}

fn check_commit(commit: &str) -> Result<(), SourceError> {
    let whole = matches!(commit.len(), 40 | 64);
    if whole
        && commit
            .chars()
            .all(|character| character.is_ascii_hexdigit())
    {
        Ok(())
    } else {
        Err(SourceError::Commit(super::plain(commit, 80)))
    }
}

fn check_package(package: &str) -> Result<(), SourceError> {
    let name = package.strip_prefix('@').unwrap_or(package);
    let parts: Vec<&str> = name.split('/').collect();
    let count = if package.starts_with('@') { 2 } else { 1 };
    let fits = |part: &&str| {
        !part.is_empty()
            && !part.starts_with(['.', '-', '_'])
            && part
                .chars()
                .all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character))
    };
    if package.len() <= 214 && parts.len() == count && parts.iter().all(fits) {
        Ok(())
    } else {
        Err(SourceError::Package(super::plain(package, 120)))
    }
}

/// `git@host:path`.
fn is_scp(address: &str) -> bool {
    !address.contains("://")
        && address.split_once(':').is_some_and(|(host, path)| {
            !path.is_empty() && host.contains('@') && !host.contains('/') && !path.starts_with(':')
        })
}

/// Checks that an address is safe to pass to git: its scheme can't run a program.
///
/// # Errors
/// If it is not.
pub fn check_git_address(address: &str) -> Result<(), SourceError> {
    let shown = super::plain(&without_secret(address), 160);
    if address.is_empty() || address.starts_with('-') {
        return Err(SourceError::GitAddress(shown));
    }
    if address
        .chars()
        .any(|character| character.is_control() || character.is_whitespace())
    {
        return Err(SourceError::AddressCharacters(shown));
    }
    refuse_archive(address)?;
    // Remote helpers such as `ext::` run programs.
    if address.contains("::") && !address.contains("://[") {
        return Err(SourceError::GitHelper(shown));
    }
    if is_scp(address) {
        return if address
            .split(':')
            .next()
            .is_some_and(|host| host.starts_with('-'))
        {
            Err(SourceError::GitAddress(shown))
        } else {
            Ok(())
        };
    }
    let Ok(url) = url::Url::parse(address) else {
        return Err(SourceError::GitAddress(shown));
    };
    match url.scheme() {
        // ssh would take a host that starts with a hyphen for an option.
        "https" | "ssh" if url.host_str().is_some_and(|host| !host.starts_with('-')) => Ok(()),
        "http" if lathe_net::is_loopback(&url) => Ok(()),
        "http" => Err(SourceError::Unencrypted(shown)),
        "file" => Ok(()),
        _ => Err(SourceError::GitAddress(shown)),
    }
}

/// Checks the address of a marketplace list or a registry.
///
/// # Errors
/// If it is not a web address or not encrypted.
pub fn check_web_address(address: &str) -> Result<(), SourceError> {
    let shown = super::plain(&without_secret(address), 160);
    let Ok(url) = url::Url::parse(address) else {
        return Err(SourceError::WebAddress(shown));
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if lathe_net::is_loopback(&url) => Ok(()),
        "http" => Err(SourceError::Unencrypted(shown)),
        _ => Err(SourceError::WebAddress(shown)),
    }
}

/// The host of a git or web address, in lower case.
#[must_use]
pub fn host_of(address: &str) -> Option<String> {
    if is_scp(address) {
        let host = address.split(':').next()?;
        return Some(host.rsplit('@').next()?.to_ascii_lowercase());
    }
    let url = url::Url::parse(address).ok()?;
    url.host_str().map(str::to_ascii_lowercase)
}

/// A git or web address in canonical form, for comparison: `host/path` without user, scheme and `.git`.
#[must_use]
pub fn canonical(address: &str) -> String {
    let path = if is_scp(address) {
        address.split_once(':').map(|(_, path)| path.to_owned())
    } else {
        url::Url::parse(address)
            .ok()
            .map(|url| url.path().to_owned())
    };
    let Some(path) = path else {
        return address.to_owned();
    };
    let host = host_of(address).unwrap_or_default();
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    // GitHub ignores case.
    if host == "github.com" {
        return format!("{host}/{}", path.to_ascii_lowercase());
    }
    format!("{host}/{path}")
}

/// An address without user name and password.
#[must_use]
pub fn without_secret(address: &str) -> String {
    match url::Url::parse(address) {
        Ok(mut url)
            if url.password().is_some()
                || url.scheme().starts_with("http") && !url.username().is_empty() =>
        {
            let _ = url.set_password(None);
            let _ = url.set_username("");
            url.to_string()
        }
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(text: &str) -> Result<MarketplaceSource, SourceError> {
        let environment = Environment {
            cwd: PathBuf::from("/nowhere"),
            ..Environment::default()
        };
        MarketplaceSource::parse(text, &environment)
    }

    #[test]
    fn user_input_is_parsed_into_a_source() {
        let github = |repo: &str, reference: Option<&str>| MarketplaceSource::Github {
            repo: repo.to_owned(),
            reference: reference.map(str::to_owned),
            path: None,
        };
        assert_eq!(parsed("acme/tools").unwrap(), github("acme/tools", None));
        assert_eq!(
            parsed("acme/tools#v2").unwrap(),
            github("acme/tools", Some("v2"))
        );
        assert_eq!(
            parsed("acme/tools@v2").unwrap(),
            github("acme/tools", Some("v2"))
        );
        let git = parsed("git@example.com:acme/tools.git#main").unwrap();
        assert_eq!(git.to_string(), "git@example.com:acme/tools.git#main");
        assert!(matches!(
            parsed("https://example.com/tools.git").unwrap(),
            MarketplaceSource::Git { .. }
        ));
        assert!(matches!(
            parsed("https://example.com/marketplace.json").unwrap(),
            MarketplaceSource::Url { .. }
        ));
        assert!(matches!(
            parsed("http://127.0.0.1:8080/m.json").unwrap(),
            MarketplaceSource::Url { .. }
        ));
    }

    #[test]
    fn addresses_that_run_programs_or_are_unencrypted_are_refused() {
        for text in [
            "ext::sh -c evil",
            "ext::sh",
            "fd::17",
            "https://host/x::y",
            "--upload-pack=evil",
            "ssh://-oProxyCommand=evil/x",
            "http://example.com/tools.git",
            "http://example.com/marketplace.json",
            "ftp://example.com/x",
            "justaname",
            "a/b/c",
            "acme/tools#-x",
            "acme/tools#a..b",
            "",
        ] {
            assert!(parsed(text).is_err(), "{text:?} gives {:?}", parsed(text));
        }
    }

    #[test]
    fn a_plugin_can_t_come_from_outside_its_marketplace() {
        for path in ["../x", "./a/../../x", "/etc", "a\\..\\b", "./a\0b"] {
            assert!(
                PluginSource::of_value(&json!(path), true).is_err(),
                "{path:?}"
            );
        }
        assert_eq!(
            PluginSource::of_value(&json!("./plugins/./a"), false).unwrap(),
            PluginSource::Relative("plugins/a".into())
        );
        let file = json!({"source": "url", "url": "file:///srv/repo"});
        assert!(PluginSource::of_value(&file, false).is_err());
        assert!(PluginSource::of_value(&file, true).is_ok());
        let outside = json!({"source": "git-subdir", "url": "acme/tools", "path": "../x"});
        assert!(PluginSource::of_value(&outside, false).is_err());
        let short = json!({"source": "github", "repo": "a/b", "sha": "abc123"});
        assert!(
            PluginSource::of_value(&short, false)
                .unwrap_err()
                .to_string()
                .contains("whole commit")
        );
        for package in ["../x", "a/b", "@a", ".x", "-g", "a b"] {
            let npm = json!({"source": "npm", "package": package});
            assert!(PluginSource::of_value(&npm, false).is_err(), "{package}");
        }
    }

    #[test]
    fn one_repository_has_one_canonical_name() {
        for address in [
            "https://github.com/Acme/Tools.git",
            "https://github.com/acme/tools",
            "git@github.com:acme/tools.git",
            "ssh://git@github.com/acme/tools.git",
            "https://user:secret@GitHub.com/acme/tools/",
        ] {
            assert_eq!(canonical(address), "github.com/acme/tools", "{address}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        let source = parsed("https://me:hunter2@example.com/x.git").unwrap();
        assert!(!source.to_string().contains("hunter2"));
    }
}
