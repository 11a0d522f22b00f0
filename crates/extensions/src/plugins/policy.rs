//! The marketplaces that an organisation allows: `strictKnownMarketplaces` and `blockedMarketplaces`
//! of managed settings.
//!
//! Both are lists of sources. An allowed source must match exactly; a blocked one matches the same
//! repository in any spelling. An entry that can't be read allows nothing and, as a block, blocks
//! everything: a policy with a mistake in it must not be void.

use super::name::PluginId;
use super::source::{MarketplaceSource, SourceError, canonical, github_address};
use lathe_settings::Resolved;
use regex::Regex;
use serde_json::Value;

/// Why managed settings forbid something.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error(
        "the marketplace {name} ({from}) is blocked by your organisation (blockedMarketplaces in managed settings)"
    )]
    Blocked {
        name: String,
        from: Box<MarketplaceSource>,
    },
    #[error(
        "no marketplace can be used: an entry of blockedMarketplaces in managed settings can't be read ({0}); ask your administrator to fix it"
    )]
    Unreadable(#[source] PolicyEntryError),
    #[error(
        "the marketplace {name} ({from}) is not one that your organisation allows (strictKnownMarketplaces in managed settings)"
    )]
    NotAllowed {
        name: String,
        from: Box<MarketplaceSource>,
    },
    #[error(
        "the marketplace {0} is no longer known, and your organisation allows only some marketplaces"
    )]
    UnknownMarketplace(String),
    #[error("your organisation decides whether {0} is on (enabledPlugins in managed settings)")]
    ManagedPlugin(PluginId),
}

/// Why an entry of a policy can't be read.
#[derive(Debug, thiserror::Error)]
pub enum PolicyEntryError {
    #[error("{entry} has no \"{key}\"")]
    MissingField { entry: Value, key: &'static str },
    #[error("{key} {pattern:?}: {source}")]
    Pattern {
        key: &'static str,
        pattern: String,
        source: regex::Error,
    },
    #[error("{0} is not a source")]
    UnknownKind(Value),
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// The marketplaces that managed settings allow.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy {
    allowed: Option<Vec<Value>>,
    blocked: Vec<Value>,
}

impl Policy {
    /// The policy of the settings. Loading has dropped these keys from every source but managed settings.
    #[must_use]
    pub fn of(settings: &Resolved) -> Self {
        Self {
            allowed: settings.settings.strict_known_marketplaces.clone(),
            blocked: settings
                .settings
                .blocked_marketplaces
                .clone()
                .unwrap_or_default(),
        }
    }

    /// Checks whether a marketplace may be used.
    ///
    /// # Errors
    /// If it may not.
    pub fn check(&self, name: &str, source: &MarketplaceSource) -> Result<(), PolicyError> {
        for entry in &self.blocked {
            match matches_entry(entry, source, Some(name), Sameness::Repository) {
                Ok(true) => {
                    return Err(PolicyError::Blocked {
                        name: name.to_owned(),
                        from: Box::new(source.clone()),
                    });
                }
                Ok(false) => {}
                Err(error) => return Err(PolicyError::Unreadable(error)),
            }
        }
        let Some(allowed) = &self.allowed else {
            return Ok(());
        };
        let is_allowed = allowed.iter().any(|entry| {
            matches!(
                matches_entry(entry, source, None, Sameness::Exact),
                Ok(true)
            )
        });
        if is_allowed {
            Ok(())
        } else {
            Err(PolicyError::NotAllowed {
                name: name.to_owned(),
                from: Box::new(source.clone()),
            })
        }
    }

    /// True if only listed marketplaces may be used.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.allowed.is_some()
    }
}

/// How closely two sources must match.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sameness {
    /// Address, branch and path.
    Exact,
    /// The repository, whatever the branch.
    Repository,
}

fn matches_entry(
    entry: &Value,
    source: &MarketplaceSource,
    name: Option<&str>,
    sameness: Sameness,
) -> Result<bool, PolicyEntryError> {
    if let Some(text) = entry.as_str() {
        // Names work only for blocks: the name that a marketplace gives itself proves nothing.
        return Ok(name == Some(text));
    }
    let kind = entry.get("source").and_then(Value::as_str);
    let pattern = |key: &'static str| {
        let pattern = entry.get(key).and_then(Value::as_str).ok_or_else(|| {
            PolicyEntryError::MissingField {
                entry: entry.clone(),
                key,
            }
        })?;
        Regex::new(&format!("^(?:{pattern})$")).map_err(|source| PolicyEntryError::Pattern {
            key,
            pattern: pattern.to_owned(),
            source,
        })
    };
    match kind {
        Some("hostPattern") => {
            let pattern = pattern("hostPattern")?;
            Ok(source.host().is_some_and(|host| pattern.is_match(&host)))
        }
        Some("pathPattern") => {
            let pattern = pattern("pathPattern")?;
            Ok(match source {
                MarketplaceSource::Directory { path } | MarketplaceSource::File { path } => {
                    pattern.is_match(&path.to_string_lossy())
                }
                _ => false,
            })
        }
        Some("github" | "git" | "url" | "directory" | "file") => {
            let wanted = MarketplaceSource::of_value(entry)?;
            Ok(same(&wanted, source, sameness))
        }
        // Kinds that only other programs can fetch never match.
        Some("npm" | "settings" | "pip") => Ok(false),
        _ => Err(PolicyEntryError::UnknownKind(entry.clone())),
    }
}

fn same(wanted: &MarketplaceSource, source: &MarketplaceSource, sameness: Sameness) -> bool {
    let (Some(left), Some(right)) = (location(wanted), location(source)) else {
        return false;
    };
    left == right
        && (sameness == Sameness::Repository || {
            let (left, right) = (revision_and_path(wanted), revision_and_path(source));
            left == right
        })
}

/// The location of a source in canonical form.
fn location(source: &MarketplaceSource) -> Option<String> {
    match source {
        MarketplaceSource::Github { repo, .. } => Some(canonical(&github_address(repo))),
        MarketplaceSource::Git { url, .. } | MarketplaceSource::Url { url, .. } => {
            Some(canonical(url))
        }
        MarketplaceSource::Directory { path } | MarketplaceSource::File { path } => {
            let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            Some(format!("file {}", real.display()))
        }
    }
}

/// The branch or tag, and the path of the list.
fn revision_and_path(source: &MarketplaceSource) -> (Option<&str>, Option<&str>) {
    match source {
        MarketplaceSource::Github {
            reference, path, ..
        }
        | MarketplaceSource::Git {
            reference, path, ..
        } => (reference.as_deref(), path.as_deref()),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn policy(allowed: Option<Value>, blocked: &Value) -> Policy {
        Policy {
            allowed: allowed.and_then(|list| list.as_array().cloned()),
            blocked: blocked.as_array().cloned().unwrap_or_default(),
        }
    }

    fn github(repo: &str) -> MarketplaceSource {
        MarketplaceSource::of_value(&json!({"source": "github", "repo": repo})).unwrap()
    }

    #[test]
    fn without_a_policy_everything_may_be_used() {
        assert!(Policy::default().check("m", &github("a/b")).is_ok());
    }

    #[test]
    fn an_empty_allow_list_allows_nothing() {
        let policy = policy(Some(json!([])), &json!([]));
        assert!(policy.check("m", &github("a/b")).is_err());
    }

    #[test]
    fn an_allowed_source_must_match_the_branch() {
        let policy = policy(
            Some(json!([{"source": "github", "repo": "acme/tools", "ref": "main"}])),
            &json!([]),
        );
        assert!(policy.check("m", &github("acme/tools")).is_err());
        let main =
            json!({"source": "git", "url": "https://github.com/acme/tools.git", "ref": "main"});
        assert!(
            policy
                .check("m", &MarketplaceSource::of_value(&main).unwrap())
                .is_ok()
        );
    }

    #[test]
    fn a_block_matches_every_spelling_and_branch() {
        let policy = policy(
            None,
            &json!([{"source": "github", "repo": "evil/tools"}, "badname"]),
        );
        for source in [
            json!({"source": "github", "repo": "Evil/Tools", "ref": "x"}),
            json!({"source": "git", "url": "git@github.com:evil/tools.git"}),
            json!({"source": "git", "url": "ssh://git@github.com/evil/tools"}),
        ] {
            let source = MarketplaceSource::of_value(&source).unwrap();
            assert!(policy.check("m", &source).is_err(), "{source}");
        }
        assert!(policy.check("m", &github("good/tools")).is_ok());
        assert!(policy.check("badname", &github("good/tools")).is_err());
    }

    #[test]
    fn hosts_and_folders_are_allowed_by_pattern() {
        let policy = policy(
            Some(json!([
                {"source": "hostPattern", "hostPattern": r"git\.acme\.com"},
                {"source": "pathPattern", "pathPattern": "/opt/market.*"},
            ])),
            &json!([]),
        );
        let git =
            |url: &str| MarketplaceSource::of_value(&json!({"source": "git", "url": url})).unwrap();
        assert!(
            policy
                .check("m", &git("https://git.acme.com/x.git"))
                .is_ok()
        );
        assert!(policy.check("m", &git("git@git.acme.com:x/y.git")).is_ok());
        assert!(
            policy
                .check("m", &git("https://git.acme.com.evil.org/x.git"))
                .is_err()
        );
        assert!(
            policy
                .check(
                    "m",
                    &MarketplaceSource::Directory {
                        path: "/opt/markets/a".into()
                    }
                )
                .is_ok()
        );
        assert!(
            policy
                .check(
                    "m",
                    &MarketplaceSource::Directory {
                        path: "/home/opt/market".into()
                    }
                )
                .is_err()
        );
    }

    #[test]
    fn a_block_that_can_t_be_read_blocks_everything() {
        for broken in [
            json!([{"source": "hostPattern", "hostPattern": "("}]),
            json!([{"no": "source"}]),
        ] {
            let policy = policy(None, &broken);
            let why = policy.check("m", &github("a/b")).unwrap_err().to_string();
            assert!(why.contains("blockedMarketplaces"), "{why}");
        }
    }

    #[test]
    fn an_allowance_that_can_t_be_read_allows_nothing() {
        let policy = policy(
            Some(json!([{"source": "hostPattern", "hostPattern": "("}])),
            &json!([]),
        );
        assert!(policy.check("m", &github("a/b")).is_err());
    }
}
