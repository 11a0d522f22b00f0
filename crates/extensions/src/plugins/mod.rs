//! Plugins and the marketplaces that they come from.
//!
//! A plugin is a folder that brings agents, skills, commands, output styles, hooks, MCP servers and
//! language servers together. Hooks and servers are programs of strangers, so everything here follows
//! one rule: *nothing of a plugin runs before a person has seen what it brings and said yes*. That
//! yes is a record in the person's own config home ([`store`]); a project can only ask for plugins,
//! by `enabledPlugins` in its settings.
//!
//! ```text
//! <config home>/plugins/
//!   known_marketplaces.json              which marketplaces were added, and from where
//!   installed_plugins.json               which plugins were confirmed, for whom, in which version
//!   marketplaces/<marketplace>/          a copy of each marketplace
//!   cache/<marketplace>/<plugin>/<version>/   the plugins, versions side by side
//!   data/<plugin>-<marketplace>/         what a plugin keeps for itself
//!   .staging-*/                          being fetched; swept when whoever fetches is gone
//! ```
//!
//! | module | its part |
//! |---|---|
//! | [`name`] | what plugins and marketplaces may be called |
//! | [`source`] | where they may come from |
//! | [`manifest`], [`contents`] | what a plugin's folder says and brings |
//! | `bundle`, `zip` | servers that come packed |
//! | [`marketplace`] | the list of a marketplace |
//! | [`policy`] | which marketplaces a company allows |
//! | [`store`] | what is remembered |
//! | [`fetch`], [`git`], [`archive`], [`copy`] | getting a folder here without being harmed by it |
//! | [`manager`], [`install`] | adding, installing, updating, removing |
//! | [`mod@load`] | what a session gets |
//! | [`validate`] | what an author wants to know |
//! | [`cli`] | what the commands print |
//!
//! Start with [`load::load`] (a session's side) and [`manager::PluginManager`] (the commands' side).
//! One plugin's faults are its own: each is a [`Problem`](crate::Problem) beside the plugins that
//! work.

pub mod archive;
mod bundle;
pub mod cli;
pub mod contents;
pub mod copy;
pub mod fetch;
pub mod git;
pub mod install;
pub mod load;
pub mod manager;
pub mod manifest;
pub mod marketplace;
pub mod name;
pub mod policy;
pub mod source;
pub mod store;
pub mod validate;
mod zip;

pub use contents::Plugin;
pub use install::{Done, Prepared};
pub use load::{LoadedPlugins, PluginListing, PluginState, load};
pub use manager::PluginManager;
pub use manifest::Manifest;
pub use marketplace::Marketplace;
pub use name::PluginId;
pub use policy::Policy;
pub use source::{MarketplaceSource, PluginSource};

use std::path::PathBuf;

/// Why a plugin or a marketplace couldn't be worked with.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The caller named something that isn't there or can't be.
    #[error("{0}")]
    Usage(String),
    /// The company's policy says no.
    #[error("{0}")]
    Policy(String),
    /// It couldn't be fetched.
    #[error("{what} can't be fetched: {why}")]
    Fetch {
        /// What.
        what: String,
        /// Why.
        why: String,
    },
    /// What came is not taken: it tries to leave its folder, is too large, or is not what it says.
    #[error("{what} is refused: {why}")]
    Refused {
        /// What.
        what: String,
        /// Why.
        why: String,
    },
    /// A file of ours is broken. It is not overwritten.
    #[error("{} is broken: {why}; fix it, or remove it to start afresh", file.display())]
    Broken {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
    /// The file system refuses.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The settings couldn't be changed.
    #[error(transparent)]
    Settings(#[from] lathe_settings::write::WriteError),
}

impl PluginError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| Self::Io { path, error }
    }

    pub(crate) fn refused(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Refused {
            what: what.into(),
            why: why.into(),
        }
    }
}

/// A text of a stranger for a terminal: one line, no control characters, not too long.
#[must_use]
pub fn plain(text: &str, longest: usize) -> String {
    let mut line: String = text
        .chars()
        .map(|character| {
            if character.is_control() || is_invisible(character) {
                ' '
            } else {
                character
            }
        })
        .take(longest + 1)
        .collect();
    if line.chars().count() > longest {
        line = line.chars().take(longest.saturating_sub(1)).collect();
        line.push('…');
    }
    line
}

/// Characters that change how the text around them is shown.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
