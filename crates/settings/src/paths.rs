//! Where files are: the config home, the managed folder, the project's folders.
//!
//! Nothing here reads the process's own environment except [`Environment::of_process`]; everything
//! else is passed in, so that a test never touches the machine's real configuration.

use crate::document::Document;
use crate::environment::Variable;
use crate::schema::READ_CLAUDE_HOME;
use crate::source::Source;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The folder names that are read in a project, strongest first. Only the first is written.
pub const PROJECT_FOLDERS: [&str; 2] = [".lathe", ".claude"];

/// The environment of a process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Environment {
    /// The environment variables.
    pub variables: BTreeMap<String, String>,
    /// The user's home folder, if there is one.
    pub home: Option<PathBuf>,
    /// The working folder.
    pub cwd: PathBuf,
    /// Names of variables that hold keys of the user's providers: children don't get them.
    pub withheld: BTreeSet<String>,
}

impl Environment {
    /// The environment of this process. Variables that are not UTF-8 are left out.
    ///
    /// # Errors
    /// When the working folder is gone or not readable.
    #[expect(clippy::disallowed_methods, reason = "this is the place")]
    pub fn of_process() -> std::io::Result<Self> {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Ok(Self {
            variables,
            home: dirs::home_dir(),
            cwd: std::env::current_dir()?,
            withheld: BTreeSet::new(),
        })
    }

    /// An environment of these variables alone, without a home folder.
    #[must_use]
    pub fn of_variables(
        variables: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> Self {
        let variables = variables.into_iter();
        Self {
            variables: variables
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            ..Self::default()
        }
    }

    /// The value of a variable that isn't ours and so has no [`Variable`], such as `TERM`.
    /// An empty one is unset.
    #[must_use]
    pub fn foreign(&self, name: &str) -> Option<&str> {
        self.variables
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// A path with a leading `~` replaced by the home folder and made absolute from the working folder.
    #[must_use]
    pub fn resolve(&self, path: &str) -> PathBuf {
        self.resolve_from(path, &self.cwd)
    }

    /// A path with a leading `~` replaced by the home folder and made absolute from `base`.
    #[must_use]
    pub fn resolve_from(&self, path: &str, base: &Path) -> PathBuf {
        match (&self.home, path.strip_prefix("~")) {
            (Some(home), Some("")) => home.clone(),
            (Some(home), Some(rest)) if rest.starts_with('/') => home.join(&rest[1..]),
            _ => base.join(path),
        }
    }
}

/// Where configuration lies for one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Places {
    /// The surroundings.
    pub environment: Environment,
    /// The user's own folder.
    pub config_home: PathBuf,
    /// `~/.claude`, which is read as a weaker folder of the user's own and never written; it need not
    /// exist. `None` if it is switched off, and if another config home is chosen.
    pub claude_home: Option<PathBuf>,
    /// The folder of managed policy.
    pub managed: PathBuf,
    /// The project's folder: the one that holds `.lathe` or `.claude`.
    pub project: PathBuf,
}

impl Places {
    /// The places for this environment, with the system's managed folder.
    #[must_use]
    pub fn new(environment: Environment) -> Self {
        Self::with_managed(environment, managed_folder())
    }

    /// The same with another managed folder. Deliberately not an environment variable: a
    /// managed user could set that.
    #[must_use]
    pub fn with_managed(environment: Environment, managed: PathBuf) -> Self {
        let config_home = config_home(&environment);
        let project = project_folder(&environment, &config_home);
        let claude_home = claude_home(&environment, &config_home);
        let mut places = Self {
            environment,
            config_home,
            claude_home,
            managed,
            project,
        };
        if places.claude_home.is_some() && places.switches_claude_home_off() {
            places.claude_home = None;
        }
        places
    }

    /// The same under the values of `--settings`, of which the last decides whether `~/.claude` is read.
    #[must_use]
    pub fn with_flags(mut self, flags: &[String]) -> Self {
        let said = flags.iter().rev().find_map(|flag| {
            let flag = flag.trim();
            if flag.starts_with('{') {
                return reads_claude_home(flag);
            }
            let file = self.environment.resolve(flag);
            // A pipe is left to the loader, since it can be read only once.
            let text = file
                .is_file()
                .then(|| std::fs::read_to_string(&file).ok())??;
            reads_claude_home(&text)
        });
        match said {
            Some(true) => self.claude_home = claude_home(&self.environment, &self.config_home),
            Some(false) => self.claude_home = None,
            None => {}
        }
        self
    }

    /// Whether the managed settings, or else the user's own, say that `~/.claude` is not read.
    fn switches_claude_home_off(&self) -> bool {
        let managed = self.settings_files(Source::Managed).into_iter().rev();
        managed
            .chain([self.config_home.join("settings.json")])
            .find_map(|file| reads_claude_home(&crate::regular_file::read_text(&file).ok()?))
            == Some(false)
    }

    /// The file that holds the servers of `~/.claude`: `~/.claude.json`, or `.claude.json` in the folder
    /// that `CLAUDE_CONFIG_DIR` names. `None` if `~/.claude` is not read.
    #[must_use]
    pub fn claude_json(&self) -> Option<PathBuf> {
        let beside = self.environment.home.as_ref()?.join(".claude.json");
        let used = self.environment.home.as_ref()?.join(PROJECT_FOLDERS[1]);
        if self.claude_home.is_some() || self.config_home == used {
            return Some(beside);
        }
        self.environment.foreign("CLAUDE_CONFIG_DIR")?;
        Some(self.config_home.join(".claude.json"))
    }

    /// The same with a project folder that was named (`--project-config-root`).
    #[must_use]
    pub fn with_project(mut self, project: PathBuf) -> Self {
        self.project = project;
        self
    }

    /// The settings files of a source, weakest first. Files need not exist.
    #[must_use]
    pub fn settings_files(&self, source: Source) -> Vec<PathBuf> {
        let in_project = |name: &str| -> Vec<PathBuf> {
            PROJECT_FOLDERS
                .iter()
                .rev()
                .map(|folder| self.project.join(folder).join(name))
                .collect()
        };
        match source {
            // A folder that isn't there is not watched for: it belongs to another program.
            Source::User => self
                .claude_home
                .iter()
                .filter(|home| home.is_dir())
                .chain([&self.config_home])
                .map(|home| home.join("settings.json"))
                .collect(),
            // In the home folder the project's file would be the user's own.
            Source::Project => in_project("settings.json")
                .into_iter()
                .filter(|file| file.parent() != Some(&self.config_home))
                .collect(),
            Source::Local => in_project("settings.local.json"),
            Source::Flag => Vec::new(),
            Source::Managed => {
                let mut files = vec![self.managed.join("managed-settings.json")];
                let mut dropped_in: Vec<PathBuf> =
                    std::fs::read_dir(self.managed.join("managed-settings.d"))
                        .map(|entries| {
                            entries
                                .filter_map(|entry| Some(entry.ok()?.path()))
                                .collect()
                        })
                        .unwrap_or_default();
                dropped_in.retain(|path| {
                    path.extension()
                        .is_some_and(|extension| extension == "json")
                        && !path
                            .file_name()
                            .is_some_and(|name| name.to_string_lossy().starts_with('.'))
                });
                dropped_in.sort();
                files.extend(dropped_in);
                files
            }
        }
    }

    /// The file into which changes for a source go; `None` for sources that are never written.
    #[must_use]
    pub fn written_file(&self, source: Source) -> Option<PathBuf> {
        match source {
            Source::User => Some(self.config_home.join("settings.json")),
            Source::Project => Some(self.project.join(PROJECT_FOLDERS[0]).join("settings.json")),
            Source::Local => Some(
                self.project
                    .join(PROJECT_FOLDERS[0])
                    .join("settings.local.json"),
            ),
            Source::Flag | Source::Managed => None,
        }
    }

    /// The project's folders that exist for extensions of a kind (`agents`, `skills`, `commands`,
    /// `output-styles`, `rules`), strongest first, then the user's own.
    #[must_use]
    pub fn extension_folders(&self, kind: &str) -> Vec<(Source, PathBuf)> {
        PROJECT_FOLDERS
            .iter()
            .map(|folder| (Source::Project, self.project.join(folder).join(kind)))
            .chain([(Source::User, self.config_home.join(kind))])
            .chain(
                self.claude_home
                    .iter()
                    .map(|home| (Source::User, home.join(kind))),
            )
            .filter(|(_, path)| path.is_dir())
            .collect()
    }
}

/// The user's own folder: `LATHE_CONFIG_DIR`, else `CLAUDE_CONFIG_DIR`, else `~/.lathe`.
#[must_use]
pub fn config_home(environment: &Environment) -> PathBuf {
    if let Some(named) = environment.get(Variable::ConfigDir) {
        return environment.resolve(named);
    }
    environment.home.as_ref().map_or_else(
        || environment.cwd.join(PROJECT_FOLDERS[0]),
        |home| home.join(PROJECT_FOLDERS[0]),
    )
}

/// The folder with the sockets of the user's sessions: `$XDG_RUNTIME_DIR/lathe`, else `run` in the config home.
#[must_use]
pub fn socket_folder(environment: &Environment) -> PathBuf {
    let runtime = environment.foreign("XDG_RUNTIME_DIR").map(Path::new);
    match runtime.filter(|path| path.is_absolute() && path.is_dir()) {
        Some(runtime) => runtime.join("lathe"),
        None => config_home(environment).join("run"),
    }
}

/// `~/.claude`, unless the config home is not `~/.lathe` or the environment switches it off.
fn claude_home(environment: &Environment, config_home: &Path) -> Option<PathBuf> {
    let home = environment.home.as_ref()?;
    if *config_home != home.join(PROJECT_FOLDERS[0])
        || environment.switch(Variable::ReadClaudeHome) == Some(false)
    {
        return None;
    }
    Some(home.join(PROJECT_FOLDERS[1]))
}

/// The value of `readClaudeHome` in the text of a settings file.
fn reads_claude_home(text: &str) -> Option<bool> {
    if !text.contains(READ_CLAUDE_HOME) {
        return None;
    }
    let document = Document::parse(text).ok()?;
    document
        .value
        .get(READ_CLAUDE_HOME)
        .and_then(Value::as_bool)
}

/// The system's folder of managed policy.
#[must_use]
pub fn managed_folder() -> PathBuf {
    if cfg!(target_os = "macos") {
        PathBuf::from("/Library/Application Support/Lathe")
    } else {
        PathBuf::from("/etc/lathe")
    }
}

/// The nearest folder that holds `.lathe` or `.claude`, from the working folder up to the root of
/// its git repository; the working folder itself where there is none. Home is skipped: its `.lathe`
/// and `.claude` are the user's, not a project's.
fn project_folder(environment: &Environment, config_home: &Path) -> PathBuf {
    let cwd = &environment.cwd;
    let repository = cwd.ancestors().find(|folder| folder.join(".git").exists());
    let top = repository.unwrap_or(cwd);
    cwd.ancestors()
        .take_while(|folder| folder.starts_with(top))
        .filter(|folder| environment.home.as_deref() != Some(folder))
        .find(|folder| {
            PROJECT_FOLDERS.iter().any(|name| {
                let candidate = folder.join(name);
                candidate != config_home && candidate.is_dir()
            })
        })
        .unwrap_or(cwd)
        .to_path_buf()
}
