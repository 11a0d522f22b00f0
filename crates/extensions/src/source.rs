//! The sources of extensions and their precedence.

use crate::plugin::PluginContribution;
use lathe_settings::paths::PROJECT_FOLDERS;
use lathe_settings::{Places, Source, Trust, Variable};
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::{Path, PathBuf};

/// The source of an agent, a skill, a command or an output style, lowest precedence first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExtensionSource {
    /// Part of Lathe.
    Builtin,
    /// A plugin, by name.
    Plugin(String),
    /// A prompt of an MCP server, by the server's name.
    Mcp(String),
    /// The user's own folder.
    User,
    Project,
    /// The command line or an SDK host.
    Flag,
    /// The managed folder.
    Managed,
}

impl ExtensionSource {
    /// The name in listings.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Builtin => "built-in",
            Self::Plugin(_) => "plugin",
            Self::Mcp(_) => "mcp",
            Self::User => "user",
            Self::Project => "project",
            Self::Flag => "flag",
            Self::Managed => "managed",
        }
    }

    /// The name in the SDK protocol.
    #[must_use]
    pub fn wire_name(&self) -> &'static str {
        match self {
            Self::Builtin => "built-in",
            Self::Plugin(_) => "plugin",
            Self::Mcp(_) => "mcp",
            Self::User => "userSettings",
            Self::Project => "projectSettings",
            Self::Flag => "flagSettings",
            Self::Managed => "policySettings",
        }
    }
}

impl fmt::Display for ExtensionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plugin(name) => write!(f, "plugin {name}"),
            Self::Mcp(name) => write!(f, "server {name}"),
            other => f.write_str(other.name()),
        }
    }
}

impl Serialize for ExtensionSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `agents/**/*.md`.
    Agents,
    /// `skills/<name>/SKILL.md`.
    Skills,
    /// `commands/**/*.md`.
    Commands,
    /// `output-styles/*.md`.
    OutputStyles,
}

impl Kind {
    /// The folder's name.
    #[must_use]
    pub fn folder(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Skills => "skills",
            Self::Commands => "commands",
            Self::OutputStyles => "output-styles",
        }
    }
}

/// A folder of extensions of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    pub source: ExtensionSource,
    /// It need not exist.
    pub path: PathBuf,
    /// The folder that path patterns are relative to.
    pub base: PathBuf,
    /// True if its files may run commands and hooks.
    pub trusted: bool,
}

/// The folders that extensions are loaded from, in order of precedence, and the plugins.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sources {
    managed: Option<PathBuf>,
    /// The project, for `${CLAUDE_PROJECT_DIR}`.
    project: Option<PathBuf>,
    /// The user's own folders, highest precedence first.
    user: Vec<PathBuf>,
    /// The nearest folder first, up to the root of the repository, then those of `--add-dir`.
    projects: Vec<PathBuf>,
    /// True if the user trusts the project's folder.
    trusted: bool,
    /// The enabled plugins.
    pub plugins: Vec<PluginContribution>,
}

impl Sources {
    /// The sources of a session. `setting_sources` is the value of `--setting-sources` (`None`:
    /// all); managed extensions, flags and plugins are always included.
    #[must_use]
    pub fn new(places: &Places, trust: &Trust, setting_sources: Option<&[Source]>) -> Self {
        let includes = |source| setting_sources.is_none_or(|named| named.contains(&source));
        let mut user = Vec::new();
        if includes(Source::User) {
            user.push(places.config_home.clone());
            user.extend(places.claude_home.clone());
            // Unless a config folder is set, `~/.agents` of other tools is read too.
            let named = places.environment.get(Variable::ConfigDir).is_some();
            if let Some(home) = places.environment.home.as_ref().filter(|_| !named) {
                user.push(home.join(AGENTS_FOLDER));
            }
        }
        let projects = if includes(Source::Project) {
            project_folders_of(places)
        } else {
            Vec::new()
        };
        Self {
            managed: Some(places.managed.clone()),
            project: Some(places.project.clone()),
            user,
            projects,
            trusted: trust.covers_folder(),
            plugins: Vec::new(),
        }
    }

    /// Adds the folders of `--add-dir`, whose skills and commands are treated like the project's.
    #[must_use]
    pub fn with_added_folders(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        if !self.projects.is_empty() {
            for folder in folders {
                if !self.projects.contains(&folder) {
                    self.projects.push(folder);
                }
            }
        }
        self
    }

    #[must_use]
    pub fn with_plugins(mut self, plugins: Vec<PluginContribution>) -> Self {
        self.plugins = plugins;
        self
    }

    /// The project's folder under the names that files refer to it by.
    #[must_use]
    pub fn variables(&self) -> Vec<(String, String)> {
        let project = self.project.as_ref().map(|path| path.display().to_string());
        ["CLAUDE_PROJECT_DIR", "LATHE_PROJECT_DIR"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), project.clone()?)))
            .collect()
    }

    /// True if the project's own files may run commands and hooks.
    #[must_use]
    pub fn project_is_trusted(&self) -> bool {
        self.trusted
    }

    /// The project's folders, then the added ones.
    #[must_use]
    pub fn projects(&self) -> &[PathBuf] {
        &self.projects
    }

    /// The folders of a kind, highest precedence first: managed, project (`.lathe` before `.claude`
    /// before `.agents`), user. Plugins and built-in extensions come after all of them.
    #[must_use]
    pub fn folders(&self, kind: Kind) -> Vec<Folder> {
        let mut folders = Vec::new();
        if let Some(managed) = &self.managed {
            folders.push(Folder {
                source: ExtensionSource::Managed,
                path: managed.join(kind.folder()),
                base: managed.clone(),
                trusted: true,
            });
        }
        for project in &self.projects {
            folders.extend(self.project_folders(project, kind));
        }
        for user in &self.user {
            if kind != Kind::Skills && user.ends_with(AGENTS_FOLDER) {
                continue;
            }
            folders.push(Folder {
                source: ExtensionSource::User,
                path: user.join(kind.folder()),
                base: user.clone(),
                trusted: true,
            });
        }
        folders
    }

    /// The folders of a kind in one project or nested folder, highest precedence first. The user's
    /// own config home is never a project's.
    #[must_use]
    pub fn project_folders(&self, project: &Path, kind: Kind) -> Vec<Folder> {
        let shared = (kind == Kind::Skills).then_some(AGENTS_FOLDER);
        PROJECT_FOLDERS
            .into_iter()
            .chain(shared)
            .map(|name| project.join(name))
            .filter(|folder| !self.user.contains(folder))
            .map(|folder| Folder {
                source: ExtensionSource::Project,
                path: folder.join(kind.folder()),
                base: project.to_path_buf(),
                trusted: self.trusted,
            })
            .collect()
    }
}

/// The folder that several agent programs share for skills.
pub const AGENTS_FOLDER: &str = ".agents";

/// The folders from the working directory up to the root of its repository, nearest first. A
/// project folder outside of these is the only one.
fn project_folders_of(places: &Places) -> Vec<PathBuf> {
    let cwd = &places.environment.cwd;
    if !cwd.starts_with(&places.project) {
        return vec![places.project.clone()];
    }
    let repository = cwd.ancestors().find(|folder| folder.join(".git").exists());
    let top = repository.unwrap_or(&places.project);
    cwd.ancestors()
        .take_while(|folder| folder.starts_with(top))
        .filter(|folder| places.environment.home.as_deref() != Some(*folder))
        .map(Path::to_path_buf)
        .collect()
}
