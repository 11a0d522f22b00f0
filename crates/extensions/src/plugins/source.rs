//! Where marketplaces and plugins may come from.
//!
//! What a person types, what settings hold and what a marketplace's list says all end here, as one of
//! a few shapes whose parts were checked: addresses have one of the schemes that can't run anything,
//! revisions can't be taken for options, paths can't leave their folder.

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
        /// Where the list lies in it, if not in its usual place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// A git repository.
    Git {
        /// Its address.
        url: String,
        /// A branch or tag.
        #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// Where the list lies in it, if not in its usual place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// The address of a list.
    Url {
        /// The address.
        url: String,
        /// Headers to send.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
    },
    /// A folder on this machine.
    Directory {
        /// The folder.
        path: PathBuf,
    },
    /// A list on this machine.
    File {
        /// The file.
        path: PathBuf,
    },
}

impl MarketplaceSource {
    /// Reads what a person typed: a folder, a list's file, an address, or `owner/repository`, the
    /// latter two with `#branch` if need be.
    ///
    /// # Errors
    /// In words, when it is none of those.
    pub fn parse(text: &str, environment: &Environment) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("no source was given".to_owned());
        }
        let looks_like_path = text.starts_with(['/', '.', '~']);
        let path = environment.resolve(text);
        if looks_like_path || (path.is_dir() && !text.contains(':')) {
            let real = std::fs::canonicalize(&path)
                .map_err(|error| format!("{} can't be used: {error}", path.display()))?;
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
        check_repository(repo).map_err(|why| {
            format!(
                "{why}; give a folder (./market), owner/repository, a git address or the address of a marketplace.json"
            )
        })?;
        Ok(Self::Github {
            repo: repo.to_owned(),
            reference,
            path: None,
        })
    }

    fn of_address(address: &str, reference: Option<String>) -> Result<Self, String> {
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

    /// Checks one that stands in settings or in our own files.
    ///
    /// # Errors
    /// In words, when it is none.
    pub fn of_value(value: &Value) -> Result<Self, String> {
        let source: Self = serde_json::from_value(value.clone()).map_err(|_| {
            let kind = value.get("source").and_then(Value::as_str).unwrap_or("");
            if kind.is_empty() {
                "the source has no \"source\": github, git, url, directory or file".to_owned()
            } else {
                format!("a source {kind:?} with these fields isn't known; use github (repo), git (url), url (url), directory (path) or file (path)")
            }
        })?;
        source.check()?;
        Ok(source)
    }

    /// Checks the parts.
    ///
    /// # Errors
    /// In words, when a part can't be right.
    pub fn check(&self) -> Result<(), String> {
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

    /// Whether it lies on this machine, so that what it lists may too.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Directory { .. } | Self::File { .. } => true,
            Self::Git { url, .. } => url.starts_with("file://"),
            Self::Github { .. } | Self::Url { .. } => false,
        }
    }

    /// The host that it comes from, in small letters.
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
        /// Its address.
        url: String,
        /// A branch or tag.
        reference: Option<String>,
        /// The commit.
        commit: Option<String>,
        /// The folder in it.
        folder: Option<PathBuf>,
    },
    /// A package of an npm registry. Nothing of it is run.
    Npm {
        /// The package.
        package: String,
        /// The version or tag.
        version: Option<String>,
        /// The registry's address.
        registry: Option<String>,
    },
}

impl PluginSource {
    /// Reads an entry's `source`. Addresses on this machine count only for a marketplace that is on
    /// this machine itself: a stranger's list has no business there.
    ///
    /// # Errors
    /// In words, when it can't be used.
    pub fn of_value(value: &Value, local: bool) -> Result<Self, String> {
        match value {
            Value::String(path) => {
                refuse_archive(path)?;
                Ok(Self::Relative(inside(path)?))
            }
            Value::Object(map) => Self::of_object(map, local),
            Value::Null => Err("there is no \"source\"".to_owned()),
            _ => Err("\"source\" is neither a path nor an object".to_owned()),
        }
    }

    fn of_object(map: &Map<String, Value>, local: bool) -> Result<Self, String> {
        let text = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
        let needed = |name: &str| text(name).ok_or_else(|| format!("\"source\" has no \"{name}\""));
        let kind = needed("source")?;
        let reference = text("ref");
        reference.as_deref().map_or(Ok(()), check_reference)?;
        let commit = text("sha").or_else(|| text("commit"));
        commit.as_deref().map_or(Ok(()), check_commit)?;
        let git = |url: String, folder: Option<PathBuf>| {
            check_git_address(&url)?;
            if url.starts_with("file:") && !local {
                return Err(format!(
                    "{url} is on this machine, but the marketplace is not"
                ));
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
            other => Err(format!(
                "a plugin can't come from {other:?}; known: a path, github, url, git-subdir, npm"
            )),
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

/// A relative path that stays in its folder, without `.` parts.
///
/// # Errors
/// In words, when it is absolute or leads out.
pub fn inside(path: &str) -> Result<PathBuf, String> {
    let shown = super::plain(path, 120);
    if path.chars().any(char::is_control) || path.contains('\\') {
        return Err(format!(
            "the path {shown:?} holds characters that can't be in one"
        ));
    }
    let mut clean = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(part) => clean.push(part),
            Component::CurDir => {}
            Component::ParentDir => {
                return Err(format!("the path {shown:?} leads out of its folder"));
            }
            Component::RootDir | Component::Prefix(_) => {
                return Err(format!(
                    "the path {shown:?} is absolute; it must be relative (./…)"
                ));
            }
        }
    }
    Ok(clean)
}

/// Endings of what would have to be unpacked.
const ARCHIVES: [&str; 12] = [
    ".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".gz", ".7z", ".rar",
    ".mcpb", ".dxt",
];

/// Packages of registries have a checksum; nothing else is unpacked.
fn refuse_archive(place: &str) -> Result<(), String> {
    let path = place.split(['?', '#']).next().unwrap_or(place);
    let path = path.trim_end_matches('/').to_ascii_lowercase();
    if ARCHIVES.iter().any(|ending| path.ends_with(ending)) {
        let shown = super::plain(&without_secret(place), 160);
        return Err(format!(
            "{shown:?} is an archive, and archives are not unpacked; use a folder, a git address or a package of an npm registry"
        ));
    }
    Ok(())
}

fn check_repository(repo: &str) -> Result<(), String> {
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
        _ => Err(format!(
            "{:?} is no owner/repository",
            super::plain(repo, 120)
        )),
    }
}

fn check_reference(reference: &str) -> Result<(), String> {
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
        Err(format!(
            "{:?} is no branch or tag",
            super::plain(reference, 120)
        ))
    }
}

fn check_commit(commit: &str) -> Result<(), String> {
    let whole = matches!(commit.len(), 40 | 64);
    if whole
        && commit
            .chars()
            .all(|character| character.is_ascii_hexdigit())
    {
        Ok(())
    } else {
        Err(format!(
            "{:?} is no whole commit id (40 hexadecimal digits)",
            super::plain(commit, 80)
        ))
    }
}

fn check_package(package: &str) -> Result<(), String> {
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
        Err(format!("{:?} is no package", super::plain(package, 120)))
    }
}

/// `git@host:path`.
fn is_scp(address: &str) -> bool {
    !address.contains("://")
        && address.split_once(':').is_some_and(|(host, path)| {
            !path.is_empty() && host.contains('@') && !host.contains('/') && !path.starts_with(':')
        })
}

/// Checks that git can be given an address: one of the schemes that only fetch.
///
/// # Errors
/// In words, when it can't.
pub fn check_git_address(address: &str) -> Result<(), String> {
    let shown = super::plain(&without_secret(address), 160);
    if address.is_empty() || address.starts_with('-') {
        return Err(format!("{shown:?} is no git address"));
    }
    if address
        .chars()
        .any(|character| character.is_control() || character.is_whitespace())
    {
        return Err(format!(
            "{shown:?} holds characters that can't be in an address"
        ));
    }
    refuse_archive(address)?;
    // `ext::` and the like run programs.
    if address.contains("::") && !address.contains("://[") {
        return Err(format!(
            "{shown:?} names a git helper, which could run anything; use https, ssh or file"
        ));
    }
    if is_scp(address) {
        return if address
            .split(':')
            .next()
            .is_some_and(|host| host.starts_with('-'))
        {
            Err(format!("{shown:?} is no git address"))
        } else {
            Ok(())
        };
    }
    let Ok(url) = url::Url::parse(address) else {
        return Err(format!("{shown:?} is no git address"));
    };
    match url.scheme() {
        // A host that begins with a hyphen would be an option of ssh.
        "https" | "ssh" if url.host_str().is_some_and(|host| !host.starts_with('-')) => Ok(()),
        "http" if is_loopback(&url) => Ok(()),
        "http" => Err(format!(
            "{shown:?} is not encrypted, so anybody on the way could change what comes; use https"
        )),
        "file" => Ok(()),
        _ => Err(format!(
            "{shown:?} is no git address; use https, ssh or file"
        )),
    }
}

/// Checks the address of a list or a registry.
///
/// # Errors
/// In words, when it isn't a web address, or isn't encrypted.
pub fn check_web_address(address: &str) -> Result<(), String> {
    let shown = super::plain(&without_secret(address), 160);
    let Ok(url) = url::Url::parse(address) else {
        return Err(format!("{shown:?} is no address"));
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_loopback(&url) => Ok(()),
        "http" => Err(format!(
            "{shown:?} is not encrypted, so anybody on the way could change what comes; use https"
        )),
        _ => Err(format!("{shown:?} is no web address; use https")),
    }
}

/// Whether an address is on this machine.
#[must_use]
pub fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The host of a git or web address, in small letters.
#[must_use]
pub fn host_of(address: &str) -> Option<String> {
    if is_scp(address) {
        let host = address.split(':').next()?;
        return Some(host.rsplit('@').next()?.to_ascii_lowercase());
    }
    let url = url::Url::parse(address).ok()?;
    url.host_str().map(str::to_ascii_lowercase)
}

/// A git or web address in one spelling, to compare: `host/path` without user, scheme and `.git`.
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
    // There, capital letters make no difference.
    if host == "github.com" {
        return format!("{host}/{}", path.to_ascii_lowercase());
    }
    format!("{host}/{path}")
}

/// An address without the password in it.
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

    fn parsed(text: &str) -> Result<MarketplaceSource, String> {
        let environment = Environment {
            cwd: PathBuf::from("/nowhere"),
            ..Environment::default()
        };
        MarketplaceSource::parse(text, &environment)
    }

    #[test]
    fn what_a_person_types_becomes_a_source() {
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
    fn addresses_that_run_programs_or_travel_in_the_open_are_refused() {
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
