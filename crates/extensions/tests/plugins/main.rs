//! Plugins and marketplaces, with real folders, real git and a real (loopback) web server.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

mod hostile;
mod installing;
mod loading;
mod marketplaces;
mod reading;
mod remote;

use lathe_extensions::plugins::{
    LoadedPlugins, MarketplaceSource, PluginError, PluginListing, PluginManager, load,
};
use lathe_settings::{Environment, LoadOptions, Places, Resolved, Source, Trust};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The user's home, a project and a folder of managed policy, all of their own.
struct Home {
    folder: TempDir,
    trust: Trust,
    variables: BTreeMap<String, String>,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "project", "managed", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mut home = Self {
            folder,
            trust: Trust::Trusted,
            variables: BTreeMap::new(),
        };
        home.variables = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            (
                "HOME".to_owned(),
                home.root().join("home").display().to_string(),
            ),
            ("GIT_CONFIG_GLOBAL".to_owned(), "/dev/null".to_owned()),
            ("GIT_CONFIG_NOSYSTEM".to_owned(), "1".to_owned()),
        ]);
        home
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    fn project(&self) -> PathBuf {
        self.root().join("project")
    }

    fn plugins(&self) -> PathBuf {
        self.root().join("home/.lathe/plugins")
    }

    fn places(&self) -> Places {
        let environment = Environment {
            variables: self.variables.clone(),
            home: Some(self.root().join("home")),
            cwd: self.project(),
            ..Environment::default()
        };
        Places::with_managed(environment, self.root().join("managed"))
    }

    fn settings(&self) -> Resolved {
        let options = LoadOptions {
            trust: self.trust.clone(),
            ..LoadOptions::default()
        };
        lathe_settings::load(&self.places(), &options)
    }

    fn manager(&self) -> PluginManager {
        PluginManager::new(&self.places(), &self.settings())
    }

    fn load(&self) -> LoadedPlugins {
        self.load_with(&[])
    }

    fn load_with(&self, folders: &[PathBuf]) -> LoadedPlugins {
        load(&self.places(), &self.settings(), folders)
    }

    /// Writes a file below the root, with its folders.
    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    fn write_json(&self, path: &str, content: &Value) -> PathBuf {
        self.write(path, format!("{content:#}"))
    }

    /// A marketplace in a folder, with these plugins in its list.
    fn marketplace(&self, name: &str, plugins: &Value) -> PathBuf {
        self.write_json(
            &format!("work/{name}/.claude-plugin/marketplace.json"),
            &json!({"name": name, "owner": {"name": "Ada"}, "plugins": plugins}),
        );
        self.root().join("work").join(name)
    }

    /// A marketplace `market` with the plugin `tool`, which has a hook, a server and a command.
    fn usual(&self) -> PathBuf {
        let folder = self.marketplace("market", &json!([{"name": "tool", "source": "./tool"}]));
        self.tool("work/market/tool", "1.0.0");
        folder
    }

    fn tool(&self, path: &str, version: &str) {
        self.write_json(
            &format!("{path}/.claude-plugin/plugin.json"),
            &json!({"name": "tool", "version": version, "description": "Formats what is written"}),
        );
        self.write(&format!("{path}/commands/tidy.md"), "Tidy up $ARGUMENTS");
        self.write_json(
            &format!("{path}/hooks/hooks.json"),
            &json!({"hooks": {"PostToolUse": [{"matcher": "Write", "hooks": [
                {"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/format.sh"}
            ]}]}}),
        );
        self.write_json(
            &format!("{path}/.mcp.json"),
            &json!({"mcpServers": {"db": {"command": "${CLAUDE_PLUGIN_ROOT}/server", "args": ["--fast"]}}}),
        );
    }

    fn add(&self, text: &str) -> Result<String, PluginError> {
        let source = MarketplaceSource::parse(text, &self.places().environment)
            .map_err(PluginError::usage)?;
        run(self.manager().add_marketplace(&source)).map(|marketplace| marketplace.name)
    }

    fn add_folder(&self, folder: &Path) {
        self.add(&folder.display().to_string()).unwrap();
    }

    fn install(&self, id: &str) -> Result<PathBuf, PluginError> {
        self.install_for(id, Source::User)
    }

    fn install_for(&self, id: &str, scope: Source) -> Result<PathBuf, PluginError> {
        let manager = self.manager();
        let prepared = run(manager.prepare(id))?;
        manager.install(prepared, scope).map(|done| done.path)
    }

    /// Makes a folder a git repository with everything in it committed; returns the commit.
    fn commit(&self, folder: &Path) -> String {
        if !folder.join(".git").exists() {
            self.git(folder, &["init", "-q", "-b", "main"]);
        }
        self.git(folder, &["add", "-A"]);
        self.git(folder, &["commit", "-q", "--allow-empty", "-m", "a state"]);
        self.git(folder, &["rev-parse", "HEAD"])
    }

    fn git(&self, folder: &Path, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .env_clear()
            .envs(&self.variables)
            .env("GIT_AUTHOR_NAME", "Test")
            .env("GIT_AUTHOR_EMAIL", "test@example.invalid")
            .env("GIT_COMMITTER_NAME", "Test")
            .env("GIT_COMMITTER_EMAIL", "test@example.invalid")
            .args(arguments)
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Files in the store that are not records: nothing, unless something was left behind.
    fn leftovers(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.plugins())
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with('.'))
            .collect();
        names.sort();
        names
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

fn listing<'a>(loaded: &'a LoadedPlugins, id: &str) -> &'a PluginListing {
    loaded
        .listings
        .iter()
        .find(|listing| listing.id == id)
        .unwrap_or_else(|| panic!("{id} is not listed: {:#?}", loaded.listings))
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
