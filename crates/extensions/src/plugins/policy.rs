//! Which marketplaces a company allows: `strictKnownMarketplaces` and `blockedMarketplaces` of
//! managed settings.
//!
//! Both are lists of sources. An allowance must fit exactly; a block fits whatever is the same
//! repository, however it is spelled. What can't be read allows nothing and, as a block, blocks
//! everything: a policy with a slip in it must not be one that isn't there.

use super::source::{MarketplaceSource, canonical, github_address};
use lathe_settings::Resolved;
use regex::Regex;
use serde_json::Value;

/// What a company allows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy {
    allowed: Option<Vec<Value>>,
    blocked: Vec<Value>,
}

impl Policy {
    /// The policy that counts. Loading has dropped these keys from every source but managed settings.
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

    /// Says whether a marketplace may be used.
    ///
    /// # Errors
    /// In words, when it may not.
    pub fn check(&self, name: &str, source: &MarketplaceSource) -> Result<(), String> {
        for entry in &self.blocked {
            match fits(entry, source, Some(name), Sameness::Repository) {
                Ok(true) => {
                    return Err(format!(
                        "the marketplace {name} ({source}) is blocked by your organisation (blockedMarketplaces in managed settings)"
                    ));
                }
                Ok(false) => {}
                Err(why) => {
                    return Err(format!(
                        "no marketplace can be used: an entry of blockedMarketplaces in managed settings can't be read ({why}); ask whoever manages them"
                    ));
                }
            }
        }
        let Some(allowed) = &self.allowed else {
            return Ok(());
        };
        let fitting = allowed
            .iter()
            .any(|entry| fits(entry, source, None, Sameness::Exact) == Ok(true));
        if fitting {
            Ok(())
        } else {
            Err(format!(
                "the marketplace {name} ({source}) is not among those that your organisation allows (strictKnownMarketplaces in managed settings)"
            ))
        }
    }

    /// Whether only listed marketplaces may be used.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.allowed.is_some()
    }
}

/// When two sources are the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sameness {
    /// Address, branch and path.
    Exact,
    /// The repository, whatever the branch.
    Repository,
}

fn fits(
    entry: &Value,
    source: &MarketplaceSource,
    name: Option<&str>,
    sameness: Sameness,
) -> Result<bool, String> {
    if let Some(text) = entry.as_str() {
        // By name only for blocks: what a marketplace calls itself proves nothing.
        return Ok(name == Some(text));
    }
    let kind = entry.get("source").and_then(Value::as_str);
    let text = |key: &str| {
        entry
            .get(key)
            .and_then(Value::as_str)
            .ok_or_else(|| format!("{entry} has no \"{key}\""))
    };
    let pattern = |key: &str| {
        let pattern = text(key)?;
        Regex::new(&format!("^(?:{pattern})$"))
            .map_err(|error| format!("{key} {pattern:?}: {error}"))
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
        // What other programs can fetch and we can't never fits.
        Some("npm" | "settings" | "pip") => Ok(false),
        _ => Err(format!("{entry} is no source")),
    }
}

fn same(wanted: &MarketplaceSource, source: &MarketplaceSource, sameness: Sameness) -> bool {
    let (Some(left), Some(right)) = (place(wanted), place(source)) else {
        return false;
    };
    left == right
        && (sameness == Sameness::Repository || {
            let (left, right) = (rest(wanted), rest(source));
            left == right
        })
}

/// What it is, in one spelling.
fn place(source: &MarketplaceSource) -> Option<String> {
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

/// Which part and state of it.
fn rest(source: &MarketplaceSource) -> (Option<&str>, Option<&str>) {
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
    fn an_allowance_fits_the_branch_too() {
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
    fn a_block_fits_every_spelling_and_branch() {
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
            let why = policy.check("m", &github("a/b")).unwrap_err();
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
