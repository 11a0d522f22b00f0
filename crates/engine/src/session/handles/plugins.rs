//! The plugins of a session.

use crate::conversation::ConversationShared;
use crate::session::plugins::reload;
use lathe_extensions::plugins::{LoadedPlugins, load};
use lathe_mcp::config::PluginServers;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The plugins of a session.
///
/// Answers don't wait for a turn that runs.
#[derive(Clone, Copy)]
pub struct PluginsHandle<'a> {
    pub(in crate::session) shared: &'a Arc<ConversationShared>,
}

impl PluginsHandle<'_> {
    /// The plugins: which are on, which aren't and why.
    #[must_use]
    pub fn loaded(self) -> Arc<LoadedPlugins> {
        self.shared.session.plugins.loaded()
    }

    /// The folders with plugins that the caller named.
    #[must_use]
    pub fn folders(self) -> Vec<PathBuf> {
        self.shared.session.plugins.folders()
    }

    /// Names another folder with a plugin, absolute; it takes effect when the plugins are loaded again. Its MCP
    /// servers may be the caller's business.
    pub fn add_folder(self, folder: &Path, with_servers: bool) {
        self.shared.session.plugins.name(folder, with_servers);
    }

    /// The MCP servers of plugins that loading them again, and some more, would bring, and those that it
    /// would take away.
    #[must_use]
    pub fn servers_after_reload(self, more: &[PathBuf]) -> (Vec<String>, Vec<String>) {
        let plugins = &self.shared.session.plugins;
        let names = |loaded: &LoadedPlugins| -> Vec<String> {
            let of = |of_plugin: PluginServers| {
                let name = of_plugin.plugin;
                let servers = of_plugin.servers.into_iter();
                servers.map(move |(server, _)| format!("plugin:{name}:{server}"))
            };
            plugins
                .servers_of(loaded)
                .into_iter()
                .flat_map(of)
                .collect()
        };
        let settings = self.shared.session.settings.loader.current();
        let folders = [plugins.folders(), more.to_vec()].concat();
        let fresh = load(
            &self.shared.session.settings.loader.places,
            &settings,
            &folders,
        );
        let (now, then) = (names(&plugins.loaded()), names(&fresh));
        let without = |all: &[String], others: &[String]| -> Vec<String> {
            let missing = all.iter().filter(|name| !others.contains(name));
            missing.cloned().collect()
        };
        (without(&then, &now), without(&now, &then))
    }

    /// Loads the plugins again: what was installed, switched or removed since takes effect.
    pub fn reload(self) -> Arc<LoadedPlugins> {
        reload(self.shared)
    }
}
