//! The plugins of a session: loaded when it opens, asked what they bring, and loaded again when a face
//! says so.
//!
//! Reading them and judging whether they may be used is the work of [`lathe_extensions::plugins`]; here
//! what they bring is handed to those who use it: agents, skills, commands and styles to the
//! extensions, hooks to the registry, servers to MCP, language servers to `language`.

use crate::conversation::ConversationShared;
use crate::open::options::SessionOptions;
use crate::session::monitors::{self, Monitors};
use lathe_extensions::plugins::{LoadedPlugins, load};
use lathe_extensions::{AgentCatalog, OutputStyles};
use lathe_hooks::{HookRegistry, HookSource, SourceHandle};
use lathe_mcp::config::PluginServers;
use lathe_protocol::diagnostic::Diagnostic;
use lathe_settings::{Places, Resolved};
use parking_lot::{Mutex, RwLock};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The plugins of a session.
#[derive(Default)]
pub(crate) struct Plugins {
    named: RwLock<Named>,
    loaded: RwLock<Arc<LoadedPlugins>>,
    hooks: Mutex<Vec<SourceHandle>>,
    pub(super) monitors: Monitors,
    /// Held while plugins are loaded again: the last call decides what the session has.
    reloading: Mutex<()>,
}

/// The folders that were named for this session.
#[derive(Clone, Default)]
struct Named {
    folders: Vec<PathBuf>,
    /// Those of them whose MCP servers are the host's business.
    without_servers: Vec<PathBuf>,
}

impl Plugins {
    /// Loads what settings switch on, and the folders of `--plugin-dir`.
    pub(crate) fn load(places: &Places, settings: &Resolved, options: &SessionOptions) -> Self {
        let folders = &options.extensions.plugin_folders;
        let loaded = load(places, settings, folders);
        let real = |folder: &PathBuf| {
            let folder = places.environment.resolve(&folder.to_string_lossy());
            std::fs::canonicalize(&folder).unwrap_or(folder)
        };
        let named = Named {
            folders: folders.clone(),
            without_servers: options
                .extensions
                .plugins_without_servers
                .iter()
                .map(real)
                .collect(),
        };
        Self {
            named: RwLock::new(named),
            loaded: RwLock::new(Arc::new(loaded)),
            hooks: Mutex::default(),
            monitors: Monitors::new(options.interactive),
            reloading: Mutex::default(),
        }
    }

    /// The folders that were named for this session.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        self.named.read().folders.clone()
    }

    /// Names another folder.
    pub(crate) fn name(&self, folder: &Path, with_servers: bool) {
        let mut named = self.named.write();
        if !named.folders.iter().any(|known| known == folder) {
            named.folders.push(folder.to_owned());
        }
        if !with_servers {
            let real = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
            named.without_servers.push(real);
        }
    }

    /// The loaded plugins.
    pub(crate) fn loaded(&self) -> Arc<LoadedPlugins> {
        self.loaded.read().clone()
    }

    /// Adds the contributions of plugins to the options. Hooks go to the registry, once it is there.
    pub(crate) fn equip(&self, options: &mut SessionOptions, remarks: &mut Vec<Diagnostic>) {
        let loaded = self.loaded();
        remarks.extend(loaded.remarks());
        options.extensions.plugins.extend(loaded.contributions());
        options.mcp.plugins.extend(self.servers_of(&loaded));
    }

    /// MCP servers of plugins, as their configuration takes them.
    pub(crate) fn servers_of(&self, loaded: &LoadedPlugins) -> Vec<PluginServers> {
        let mut servers = PluginServers::of_plugins(loaded.mcp_servers());
        let named = self.named.read();
        servers.retain(|of_plugin| {
            let plugin = loaded
                .plugins
                .iter()
                .find(|plugin| plugin.contribution.name == of_plugin.plugin);
            plugin.is_none_or(|plugin| {
                let root = &plugin.contribution.root;
                let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.clone());
                !named.without_servers.contains(&root)
            })
        });
        servers
    }

    /// Whether the caller, settings or a plugin name an agent for the conversation.
    pub(crate) fn may_choose_agent(&self, settings: &Resolved, options: &SessionOptions) -> bool {
        options.extensions.agent.is_some()
            || settings.settings.agent.is_some()
            || self.loaded().preset_part("agent", |_| true).is_some()
    }

    /// The agent that the main conversation runs as where the caller names none: what settings say,
    /// else what a plugin presets. One that isn't there is no reason not to start.
    pub(crate) fn choose_agent(
        &self,
        agents: &AgentCatalog,
        settings: &Resolved,
        options: &mut SessionOptions,
        remarks: &mut Vec<Diagnostic>,
    ) {
        if options.extensions.agent.is_some() {
            return;
        }
        let is_there = |name: &str| agents.get(name).is_some();
        options.extensions.agent = match &settings.settings.agent {
            Some(name) if is_there(name) => Some(name.clone()),
            Some(name) => {
                remarks.push(Diagnostic::error(format!(
                    "settings name the agent {name}, which does not exist; the conversation runs without it"
                )));
                None
            }
            None => self.loaded().preset_part("agent", is_there),
        };
    }

    /// The output style that a plugin presets.
    pub(crate) fn style(&self, styles: &OutputStyles) -> Option<String> {
        self.loaded()
            .preset_part("outputStyle", |name| styles.get(name).is_some())
    }

    /// Puts the plugins' hooks in place of those that they had. Gives what is wrong with them.
    pub(crate) fn register_hooks(&self, registry: &HookRegistry) -> Vec<Diagnostic> {
        let mut handles = self.hooks.lock();
        for handle in handles.drain(..) {
            registry.remove(handle);
        }
        let mut problems = Vec::new();
        for plugin in &self.loaded().plugins {
            let contribution = &plugin.contribution;
            if contribution.hooks.is_empty() || !contribution.trusted {
                continue;
            }
            let source = HookSource::Plugin(contribution.name.clone());
            let (handle, wrong) =
                registry.add(&source, Some(&contribution.root), &contribution.hooks);
            handles.push(handle);
            problems.extend(wrong);
        }
        problems
    }
}

/// Loads the plugins again, with the settings as they are now.
pub(crate) fn reload(shared: &Arc<ConversationShared>) -> Arc<LoadedPlugins> {
    let plugins = &shared.session.plugins;
    let _reloading = plugins.reloading.lock();
    let settings = shared.session.settings.loader.current();
    let fresh = Arc::new(load(
        &shared.session.settings.loader.places,
        &settings,
        &plugins.folders(),
    ));
    *plugins.loaded.write() = fresh.clone();
    for problem in plugins.register_hooks(&shared.hooks.registry) {
        tracing::warn!(%problem, "a plugin's hook");
    }
    crate::conversation::language::reconfigure(shared, &settings);
    shared
        .integrations
        .extensions
        .set_plugins(fresh.contributions(), &shared.session.agents);
    shared
        .integrations
        .mcp
        .set_plugins(plugins.servers_of(&fresh));
    monitors::start(shared);
    fresh
}
