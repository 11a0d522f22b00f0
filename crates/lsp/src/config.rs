//! Which servers there are: from settings and plugins to a list.
//!
//! Settings have been held to their schema before they come here, and an untrusted folder's are gone. A
//! plugin's servers come as it wrote them, with its variables filled in. What is wrong with one server is said
//! of that one ([`Servers::problems`]) and keeps no other from starting.

use crate::limits::{RESTARTS, SHUTDOWN, STARTUP};
use lathe_settings::schema::LanguageServerSettings;
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A server and what it is for.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// Its name: as in settings, or `plugin:<plugin>:<server>`.
    pub name: String,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables for it.
    pub env: BTreeMap<String, String>,
    /// Endings of file names (or whole names) and the language of each, longest first.
    pub languages: Vec<(String, String)>,
    /// Passed as `initializationOptions`.
    pub initialization_options: Option<Value>,
    /// Answers its configuration requests.
    pub settings: Option<Value>,
    /// The folder that it works in.
    pub workspace_folder: Option<String>,
    /// Files that mark the root of a project.
    pub root_markers: Vec<String>,
    /// How long it may take to start.
    pub startup_timeout: Duration,
    /// How long it may take to end.
    pub shutdown_timeout: Duration,
    /// How often it is started again.
    pub max_restarts: u32,
    /// True if its problems are reported after an edit.
    pub diagnostics: bool,
}

/// The servers of a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Servers {
    /// Those that can be started, in the order in which they are asked.
    pub list: Vec<ServerConfig>,
    /// Problems with entries that were skipped.
    pub problems: Vec<String>,
}

impl Servers {
    /// Puts the servers of settings and of plugins together; the plugins' have their full names. Where two
    /// run the same program for the same kind of file, the first one does.
    #[must_use]
    pub fn new(
        settings: &BTreeMap<String, LanguageServerSettings>,
        plugins: &[(String, Value)],
    ) -> Self {
        let mut servers = Self::default();
        for (name, entry) in settings {
            servers.add(ServerConfig::new(name, entry));
        }
        for (name, entry) in plugins {
            match LanguageServerSettings::deserialize(entry) {
                Ok(entry) => servers.add(ServerConfig::new(name, &entry)),
                Err(error) => servers
                    .problems
                    .push(format!("the language server {name} is not used: {error}")),
            }
        }
        servers
    }

    fn add(&mut self, mut server: ServerConfig) {
        let program = |command: &str| Path::new(command).file_name().map(ToOwned::to_owned);
        let name = program(&server.command);
        if server.command.trim().is_empty() {
            self.problems.push(format!(
                "the language server {} is not used: \"command\" is empty",
                server.name
            ));
            return;
        }
        if server.languages.is_empty() {
            self.problems.push(format!(
                "the language server {} is not used: \"extensionToLanguage\" names no files, such as {{\".py\": \"python\"}}",
                server.name
            ));
            return;
        }
        for known in self
            .list
            .iter()
            .filter(|known| program(&known.command) == name)
        {
            server
                .languages
                .retain(|(ending, _)| !known.languages.iter().any(|(other, _)| other == ending));
        }
        if server.languages.is_empty() {
            tracing::info!(name = server.name, "a language server is configured twice");
            return;
        }
        self.list.push(server);
    }
}

impl ServerConfig {
    /// The settings of a server.
    #[must_use]
    pub fn new(name: &str, entry: &LanguageServerSettings) -> Self {
        let mut languages: Vec<(String, String)> = entry
            .extension_to_language
            .iter()
            .map(|(ending, language)| (ending.trim().to_lowercase(), language.clone()))
            .filter(|(ending, _)| !ending.trim_start_matches('.').is_empty())
            .collect();
        languages.sort_by_key(|(ending, _)| std::cmp::Reverse(ending.len()));
        languages.dedup_by(|one, other| one.0 == other.0);
        let restarts = entry.max_restarts.unwrap_or(RESTARTS).min(RESTARTS);
        Self {
            name: name.to_owned(),
            command: entry.command.clone(),
            args: entry.args.clone(),
            env: entry
                .env
                .iter()
                .map(|(name, value)| (name.clone(), value.text()))
                .collect(),
            languages,
            initialization_options: entry.initialization_options.clone(),
            settings: entry.settings.clone(),
            workspace_folder: entry.workspace_folder.clone(),
            root_markers: entry.root_markers.clone(),
            startup_timeout: entry.startup_timeout.map_or(STARTUP, Duration::from_millis),
            shutdown_timeout: entry
                .shutdown_timeout
                .map_or(SHUTDOWN, Duration::from_millis)
                .min(Duration::from_secs(10)),
            max_restarts: if entry.restart_on_crash == Some(false) {
                0
            } else {
                restarts
            },
            diagnostics: entry.diagnostics != Some(false),
        }
    }

    /// The language of a file, if the server handles it. `py` means `.py`, and the whole name of a
    /// file (`dockerfile`).
    #[must_use]
    pub fn language_of(&self, path: &Path) -> Option<&str> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let fits = |ending: &str| match ending.strip_prefix('.') {
            Some(_) => name.ends_with(ending),
            None => {
                name == ending
                    || name
                        .strip_suffix(ending)
                        .is_some_and(|rest| rest.ends_with('.'))
            }
        };
        self.languages
            .iter()
            .find(|(ending, _)| fits(ending))
            .map(|(_, language)| language.as_str())
    }

    /// The folder that the server works in for a file: what settings name, the nearest that holds a marker,
    /// the session's folder that the file is in, the repository around it, the file's own.
    #[must_use]
    pub fn root_of(&self, path: &Path, roots: &[PathBuf]) -> PathBuf {
        if let Some(folder) = &self.workspace_folder {
            let base = roots.first().map_or(Path::new("/"), PathBuf::as_path);
            let folder = base.join(folder);
            if path.starts_with(&folder) {
                return folder;
            }
        }
        let root = roots.iter().find(|root| path.starts_with(root));
        let marked = |markers: &dyn Fn(&Path) -> bool| {
            path.ancestors()
                .skip(1)
                .take_while(|folder| root.is_none_or(|root| folder.starts_with(root)))
                .find(|folder| markers(folder))
                .map(Path::to_owned)
        };
        marked(&|folder| {
            self.root_markers
                .iter()
                .any(|marker| folder.join(marker).exists())
        })
        .or_else(|| root.cloned())
        .or_else(|| marked(&|folder| folder.join(".git").exists()))
        .or_else(|| path.parent().map(Path::to_owned))
        .unwrap_or_else(|| PathBuf::from("/"))
    }

    /// The endings that it is for, for people.
    #[must_use]
    pub fn endings(&self) -> String {
        let mut endings: Vec<&str> = self
            .languages
            .iter()
            .map(|(ending, _)| ending.as_str())
            .collect();
        endings.sort_unstable();
        endings.join(" ")
    }
}

/// Programs that many have installed, and what to configure them with: name, arguments, endings.
pub const WELL_KNOWN: &[(&str, &str, &str)] = &[
    ("rust-analyzer", "", ".rs"),
    ("gopls", "", ".go"),
    ("pyright-langserver", "--stdio", ".py"),
    ("typescript-language-server", "--stdio", ".ts"),
    ("clangd", "", ".cpp"),
    ("bash-language-server", "start", ".sh"),
    ("lua-language-server", "", ".lua"),
    ("zls", "", ".zig"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(value: Value) -> BTreeMap<String, LanguageServerSettings> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_file_belongs_to_the_longest_ending() {
        let servers = Servers::new(
            &settings(json!({"web": {"command": "x", "extensionToLanguage": {
                ".ts": "typescript", ".d.ts": "declarations", "Dockerfile": "docker", "js": "javascript",
            }}})),
            &[],
        );
        let server = &servers.list[0];
        for (path, language) in [
            ("/p/a.ts", Some("typescript")),
            ("/p/a.d.ts", Some("declarations")),
            ("/p/A.TS", Some("typescript")),
            ("/p/Dockerfile", Some("docker")),
            ("/p/a.js", Some("javascript")),
            ("/p/ajs", None),
            ("/p/a.rs", None),
        ] {
            assert_eq!(server.language_of(Path::new(path)), language, "{path}");
        }
        assert_eq!(server.endings(), ".d.ts .ts dockerfile js");
    }

    #[test]
    fn the_same_program_for_the_same_files_is_there_once() {
        let own = settings(json!({"py": {
            "command": "/opt/pyright-langserver", "extensionToLanguage": {".py": "python"},
        }}));
        let plugin = |name: &str, value: Value| (format!("plugin:p:{name}"), value);
        let servers = Servers::new(
            &own,
            &[
                plugin(
                    "same",
                    json!({"command": "pyright-langserver", "extensionToLanguage": {".py": "python"}}),
                ),
                plugin(
                    "more",
                    json!({"command": "pyright-langserver", "extensionToLanguage": {".py": "python", ".pyi": "python"}}),
                ),
                plugin(
                    "other",
                    json!({"command": "ruff", "extensionToLanguage": {".py": "python"}}),
                ),
                plugin("broken", json!({"command": 7, "extensionToLanguage": {}})),
                plugin("empty", json!({"command": "x", "extensionToLanguage": {}})),
            ],
        );
        let shown: Vec<(&str, String)> = servers
            .list
            .iter()
            .map(|server| (server.name.as_str(), server.endings()))
            .collect();
        assert_eq!(
            shown,
            [
                ("py", ".py".to_owned()),
                ("plugin:p:more", ".pyi".to_owned()),
                ("plugin:p:other", ".py".to_owned()),
            ]
        );
        assert_eq!(servers.problems.len(), 2, "{:?}", servers.problems);
        assert!(servers.problems[0].contains("plugin:p:broken"));
        assert!(servers.problems[1].contains("extensionToLanguage"));
    }

    #[test]
    fn a_server_is_never_restarted_more_than_three_times() {
        let of = |value: Value| {
            let mut entry = json!({"command": "x", "extensionToLanguage": {".x": "x"}});
            entry
                .as_object_mut()
                .unwrap()
                .extend(value.as_object().unwrap().clone());
            Servers::new(&settings(json!({"x": entry})), &[]).list[0].max_restarts
        };
        assert_eq!(of(json!({})), 3);
        assert_eq!(of(json!({"maxRestarts": 99})), 3);
        assert_eq!(of(json!({"maxRestarts": 1})), 1);
        assert_eq!(of(json!({"restartOnCrash": false})), 0);
    }

    #[test]
    fn a_server_works_in_the_nearest_marked_folder_of_the_session() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        std::fs::create_dir_all(root.join("one/src")).unwrap();
        std::fs::write(root.join("one/Cargo.toml"), "").unwrap();
        std::fs::create_dir_all(root.join("elsewhere/.git")).unwrap();
        let servers = Servers::new(
            &settings(json!({"rs": {
                "command": "x", "extensionToLanguage": {".rs": "rust"}, "rootMarkers": ["Cargo.toml"],
            }})),
            &[],
        );
        let server = &servers.list[0];
        let session = [root.clone()];
        assert_eq!(
            server.root_of(&root.join("one/src/a.rs"), &session),
            root.join("one")
        );
        assert_eq!(server.root_of(&root.join("two/a.rs"), &session), root);
        // Outside the session's folders, the repository is the root.
        let other = [root.join("one")];
        assert_eq!(
            server.root_of(&root.join("elsewhere/deep/a.rs"), &other),
            root.join("elsewhere")
        );
    }
}
