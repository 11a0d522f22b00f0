//! Plugins and marketplaces.
//!
//! A plugin is a folder of agents, skills, commands, output styles, hooks, MCP servers and language
//! servers. Hooks and servers are programs of third parties, so everything here follows one rule:
//! *no part of a plugin runs before the user has seen its parts and confirmed*. The confirmation is
//! a record in the user's own config home ([`store`]); a project can only request plugins with
//! `enabledPlugins` in its settings.
//!
//! ```text
//! <config home>/plugins/
//!   known_marketplaces.json              the added marketplaces and their sources
//!   installed_plugins.json               the confirmed plugins with scope and version
//!   marketplaces/<marketplace>/          a copy of each marketplace
//!   cache/<marketplace>/<plugin>/<version>/   the plugins, versions side by side
//!   data/<plugin>-<marketplace>/         the data of a plugin
//!   .staging-*/                          being fetched; deleted if the process is gone
//! ```
//!
//! | module | its part |
//! |---|---|
//! | [`name`] | names of plugins and marketplaces |
//! | [`source`] | sources of plugins and marketplaces |
//! | [`manifest`], [`contents`] | the manifest and the parts of a plugin's folder |
//! | `bundle`, `zip` | bundled MCP servers |
//! | [`marketplace`] | the list of a marketplace |
//! | [`policy`] | the marketplaces that an organisation allows |
//! | [`store`] | records of marketplaces and installed plugins |
//! | [`fetch`], [`git`], [`archive`], [`copy`] | fetching untrusted folders safely |
//! | [`manager`], [`install`] | adding, installing, updating, removing |
//! | [`mod@load`] | the plugins of a session |
//! | [`validate`] | checks for authors |
//! | [`cli`] | output of the commands |
//!
//! Start with [`load::load`] (for sessions) and [`manager::PluginManager`] (for commands). A broken
//! plugin is reported as a [`Problem`](crate::Problem) and doesn't affect others.

pub mod archive;
mod archive_error;
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
mod monitors;
pub mod name;
pub mod policy;
pub mod source;
mod source_error;
pub mod store;
pub mod validate;
pub(crate) mod zip;

pub use contents::Plugin;
pub use install::{Installation, Prepared};
pub use load::{LoadedPlugins, PluginListing, PluginState, load};
pub use manager::PluginManager;
pub use manifest::Manifest;
pub use marketplace::Marketplace;
pub use name::PluginId;
pub use policy::Policy;
pub use source::{MarketplaceSource, PluginSource};

use policy::PolicyError;
use std::error::Error;
use std::path::PathBuf;

/// The cause of a [`PluginError`]: an error of this crate's modules, or a message.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Why an operation on a plugin or a marketplace failed.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The caller named something that doesn't exist or is invalid.
    #[error("{0}")]
    Usage(Cause),
    /// Forbidden by managed settings.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error("{what} can't be fetched: {source}")]
    Fetch { what: String, source: Cause },
    /// The content is unsafe, too large, or not what it claims to be.
    #[error("{what} is refused: {source}")]
    Refused { what: String, source: Cause },
    /// One of our own files can't be parsed. It is never overwritten.
    #[error("{} is broken: {source}; fix it, or remove it to start over", file.display())]
    Broken {
        file: PathBuf,
        source: serde_json::Error,
    },
    #[error("{}: {source}", path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Settings(#[from] lathe_settings::write::WriteError),
}

impl PluginError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    /// An error for something that doesn't exist or is invalid.
    pub fn usage(cause: impl Into<Cause>) -> Self {
        Self::Usage(cause.into())
    }

    pub(crate) fn refused(what: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self::Refused {
            what: what.into(),
            source: cause.into(),
        }
    }

    pub(crate) fn fetch(what: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self::Fetch {
            what: what.into(),
            source: cause.into(),
        }
    }
}

/// Untrusted text made safe for a terminal: one line of limited length without control characters.
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

/// True for characters that change how the text around them is displayed.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
