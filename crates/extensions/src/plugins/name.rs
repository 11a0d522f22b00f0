//! Names of plugins and marketplaces. They become parts of paths, command names and tool names, so
//! few characters are allowed.

use std::fmt;
use std::str::FromStr;

const LONGEST: usize = 64;

/// The marketplace name of plugins from `--plugin-dir`.
pub const INLINE: &str = "inline";

/// Reserved names of marketplaces.
const RESERVED: [&str; 2] = [INLINE, "builtin"];

/// `name@marketplace`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId {
    pub name: String,
    pub marketplace: String,
}

impl PluginId {
    /// # Errors
    /// If a name is invalid.
    pub fn new(name: &str, marketplace: &str) -> Result<Self, BadName> {
        check_plugin(name)?;
        check_marketplace(marketplace)?;
        Ok(Self {
            name: name.to_owned(),
            marketplace: marketplace.to_owned(),
        })
    }

    /// The id of a plugin from `--plugin-dir`.
    #[must_use]
    pub fn inline(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            marketplace: INLINE.to_owned(),
        }
    }
}

impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.marketplace)
    }
}

impl FromStr for PluginId {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, marketplace) = text.split_once('@').ok_or_else(|| BadName {
            name: super::plain(text, LONGEST),
            why: "is not a plugin of a marketplace; write it as plugin@marketplace",
        })?;
        Self::new(name, marketplace)
    }
}

/// An invalid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} {why}")]
pub struct BadName {
    pub name: String,
    pub why: &'static str,
}

/// # Errors
/// If it is invalid.
pub fn check_plugin(name: &str) -> Result<(), BadName> {
    check(name)
}

/// # Errors
/// If it is invalid or reserved.
pub fn check_marketplace(name: &str) -> Result<(), BadName> {
    check(name)?;
    if RESERVED.contains(&name) {
        return Err(BadName {
            name: name.to_owned(),
            why: "is reserved; a marketplace needs another name",
        });
    }
    Ok(())
}

fn check(name: &str) -> Result<(), BadName> {
    let bad = |why| {
        Err(BadName {
            name: super::plain(name, LONGEST),
            why,
        })
    };
    if name.is_empty() {
        return bad("is empty");
    }
    if name.len() > LONGEST {
        return bad("is longer than 64 characters");
    }
    if !name.starts_with(|character: char| character.is_ascii_alphanumeric()) {
        return bad("must begin with a letter or digit");
    }
    if !name
        .chars()
        .all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character))
    {
        return bad("may hold only letters, digits, hyphens, underscores and dots");
    }
    if name.contains("..") {
        return bad("may not hold two dots in a row");
    }
    Ok(())
}

/// The folder name of a version.
#[must_use]
pub fn version_folder(version: &str) -> String {
    let mut folder: String = version
        .chars()
        .map(|character| {
            if character.is_ascii_alphanumeric() || ".+-_".contains(character) {
                character
            } else {
                '-'
            }
        })
        .take(LONGEST)
        .collect();
    if folder.is_empty() || folder.starts_with('.') {
        folder.insert(0, 'v');
    }
    folder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_leave_their_folder_are_none() {
        for name in [
            "",
            "..",
            ".",
            "a/b",
            "../x",
            "a\\b",
            "-x",
            "a b",
            "a@b",
            "ü",
            "a\u{202e}b",
        ] {
            assert!(check_plugin(name).is_err(), "{name:?}");
            assert!(check_marketplace(name).is_err(), "{name:?}");
        }
        assert!(check_plugin(&"a".repeat(65)).is_err());
        assert!(check_plugin("code-review_2").is_ok());
        for check in [check_plugin, check_marketplace] {
            assert!(check("acme.tools").is_ok());
            assert!(check("a..b").is_err());
        }
        assert!(check_marketplace(INLINE).is_err());
    }

    #[test]
    fn versions_become_names_of_folders() {
        assert_eq!(version_folder("1.2.0-rc.1+b"), "1.2.0-rc.1+b");
        assert_eq!(version_folder("../../etc"), "v..-..-etc");
        assert_eq!(version_folder(""), "v");
        assert_eq!(version_folder(".."), "v..");
    }

    #[test]
    fn an_id_is_written_with_its_marketplace() {
        let id: PluginId = "format@acme".parse().unwrap();
        assert_eq!(id.to_string(), "format@acme");
        assert!("format".parse::<PluginId>().is_err());
        assert!("format@".parse::<PluginId>().is_err());
        assert!("a@b@c".parse::<PluginId>().is_err());
    }
}
