//! What plugins and marketplaces may be called. Names become parts of paths, of command names and of
//! tool names, so they are held to a small alphabet.

use std::fmt;
use std::str::FromStr;

/// The longest name.
const LONGEST: usize = 64;

/// The marketplace of plugins that were named for one session only (`--plugin-dir`).
pub const INLINE: &str = "inline";

/// Names that mean something else.
const RESERVED: [&str; 2] = [INLINE, "builtin"];

/// A plugin's name with its marketplace's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId {
    /// The plugin.
    pub name: String,
    /// The marketplace.
    pub marketplace: String,
}

impl PluginId {
    /// The id of a plugin of a marketplace.
    ///
    /// # Errors
    /// When a name isn't one.
    pub fn new(name: &str, marketplace: &str) -> Result<Self, BadName> {
        check_plugin(name)?;
        check_marketplace(marketplace)?;
        Ok(Self {
            name: name.to_owned(),
            marketplace: marketplace.to_owned(),
        })
    }

    /// The id of a plugin for one session.
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
            why: "is no plugin of a marketplace; write it as plugin@marketplace",
        })?;
        Self::new(name, marketplace)
    }
}

/// A name that isn't one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} {why}")]
pub struct BadName {
    /// The name.
    pub name: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// Checks a plugin's name.
///
/// # Errors
/// When it isn't one.
pub fn check_plugin(name: &str) -> Result<(), BadName> {
    check(name, &['-', '_'])
}

/// Checks a marketplace's name.
///
/// # Errors
/// When it isn't one, or means something else.
pub fn check_marketplace(name: &str) -> Result<(), BadName> {
    check(name, &['-', '_', '.'])?;
    if RESERVED.contains(&name) {
        return Err(BadName {
            name: name.to_owned(),
            why: "is reserved; a marketplace needs another name",
        });
    }
    Ok(())
}

fn check(name: &str, others: &[char]) -> Result<(), BadName> {
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
        .all(|character| character.is_ascii_alphanumeric() || others.contains(&character))
    {
        return bad("may hold only letters, digits, hyphens and underscores");
    }
    if name.contains("..") {
        return bad("may not hold two dots in a row");
    }
    Ok(())
}

/// A version as the name of a folder.
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
        assert!(check_marketplace("acme.tools").is_ok());
        assert!(check_marketplace("a..b").is_err());
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
