//! The inputs of a decision: the session's side ([`PermissionContext`]) and the call's
//! ([`CallFacts`]).

use crate::path::{ResolvedPath, real_folder, resolve_path};
use crate::pattern::{Anchors, Twins};
use crate::protected::{IgnoreFile, OwnPlaces};
use crate::repository::{ObjectKind, Repository};
use crate::ruleset::RuleSet;
use crate::sandbox::SandboxFacts;
use crate::shell::{Expansion, Found, MadeLinks, Survey, Through};
use lathe_protocol::permission::{Decision, PermissionMode, RuleSource, Subject};
use lathe_shell::analysis::{Analysis, Obeys, PathKind, analyse};
use lathe_shell::syntax::ShellKind;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everything of a session that a decision depends on. Plain data; cloning is cheap enough for a
/// snapshot per change.
#[derive(Debug, Clone)]
pub struct PermissionContext {
    /// The mode.
    pub mode: PermissionMode,
    /// The rules.
    pub rules: RuleSet,
    /// The folders that may be worked in, as real paths.
    pub roots: Vec<PathBuf>,
    /// The user's home.
    pub home: PathBuf,
    /// The session's folder: where it started, and the base of relative rules.
    pub cwd: PathBuf,
    /// Lathe's own folder of this person.
    pub config_home: PathBuf,
    /// The project's folder: the one that holds `.lathe`.
    pub project: PathBuf,
    /// Whether the user trusted the session's folder. Nothing in the folder itself makes it so.
    pub trusted: bool,
    /// Whether the model is told the state of the repository at the start.
    pub tells_git_status: bool,
    /// Whether the mode bypassPermissions may be entered.
    pub bypass_available: bool,
    /// Files that are judged otherwise than by where they lie.
    pub files: SpecialFiles,
    /// The sandbox.
    pub sandbox: SandboxFacts,
    /// The shell that runs commands.
    pub shell: ShellKind,
    /// The limits of an agent.
    pub limits: crate::limits::Limits,
    /// Facts about the machine.
    pub(crate) machine: Machine,
}

/// Files that are judged otherwise than by where they lie.
#[derive(Debug, Clone, Default)]
pub struct SpecialFiles {
    /// The plan that plan mode may write.
    pub plan_file: Option<PathBuf>,
    /// Files outside the roots that the session may read and write: its notes, its scratch folder.
    pub session_paths: Vec<PathBuf>,
    /// Files outside the roots that the session may read: saved results, the files of skills.
    pub readable_paths: Vec<PathBuf>,
    /// The project's `.latheignore`.
    pub ignore: Option<IgnoreFile>,
    /// The project and the worktree of it that is worked in.
    pub twins: Option<Twins>,
    /// The folder with the sockets of sessions, through which questions can be answered.
    pub sockets: Option<PathBuf>,
}

/// Facts about the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    /// Home, with links followed.
    pub(crate) home: PathBuf,
    /// Lathe's own folder, with links followed.
    pub(crate) config_home: PathBuf,
    /// The folders in which programs are looked for, in order.
    pub(crate) search_path: Vec<PathBuf>,
}

impl PermissionContext {
    /// A context with nothing allowed beyond reading in one folder: the starting point that callers
    /// fill in.
    #[must_use]
    pub fn new(cwd: &Path, home: &Path, config_home: &Path) -> Self {
        Self {
            mode: PermissionMode::Default,
            rules: RuleSet::default(),
            roots: vec![real_folder(cwd)],
            home: home.to_path_buf(),
            cwd: cwd.to_path_buf(),
            config_home: config_home.to_path_buf(),
            project: cwd.to_path_buf(),
            trusted: false,
            tells_git_status: true,
            bypass_available: false,
            files: SpecialFiles::default(),
            sandbox: SandboxFacts::default(),
            shell: ShellKind::Bash,
            limits: crate::limits::Limits::default(),
            machine: Machine {
                home: real_folder(home),
                config_home: real_folder(config_home),
                search_path: Vec::new(),
            },
        }
    }

    /// Sets where programs are looked for (`PATH`).
    pub fn set_search_path(&mut self, path: &str) {
        self.machine.search_path = std::env::split_paths(path).collect();
    }

    /// The folders that the path patterns of a source's rules are relative to.
    #[must_use]
    pub fn anchors(&self, source: RuleSource) -> Anchors {
        let settings_folder = match source {
            RuleSource::UserSettings => &self.config_home,
            RuleSource::ProjectSettings | RuleSource::LocalSettings => &self.project,
            RuleSource::PolicySettings
            | RuleSource::FlagSettings
            | RuleSource::CliArg
            | RuleSource::Command
            | RuleSource::Session => &self.cwd,
        };
        Anchors {
            home: self.home.clone(),
            cwd: self.in_project(&self.cwd),
            settings_folder: self.in_project(settings_folder),
            twins: self.files.twins.clone(),
        }
    }

    /// Works in a worktree of a repository: the rules and secrets of the project hold there too. The project itself
    /// stays a working folder only with `beside`.
    pub fn enter_worktree(&mut self, repository: &Path, worktree: &Path, beside: bool) {
        let (cwd, project) = (self.in_project(&self.cwd), self.in_project(&self.project));
        let start = real_folder(&self.cwd);
        let twins = Twins {
            project: real_folder(repository),
            worktree: real_folder(worktree),
        };
        self.roots
            .retain(|root| *root != twins.worktree && (beside || *root != start));
        self.roots.insert(0, twins.worktree.clone());
        let moved = |folder: &Path| twins.other(&real_folder(folder));
        self.cwd = moved(&cwd).unwrap_or_else(|| twins.worktree.clone());
        self.project = moved(&project).unwrap_or_else(|| twins.worktree.clone());
        self.files.twins = Some(twins);
        self.rules.set_twins(self.files.twins.as_ref());
    }

    /// Works in the project again, at the folder where the session started.
    pub fn leave_worktree(&mut self, start: &Path, project: &Path) {
        let root = real_folder(start);
        let left = self.files.twins.take().map(|twins| twins.worktree);
        self.roots
            .retain(|other| *other != root && Some(other) != left.as_ref());
        self.roots.insert(0, root);
        self.cwd = start.to_path_buf();
        self.project = project.to_path_buf();
        self.rules.set_twins(None);
    }

    /// A folder of the worktree that is worked in, as the folder of the project that it stands for.
    fn in_project(&self, folder: &Path) -> PathBuf {
        let twins = self.files.twins.as_ref();
        twins
            .filter(|twins| folder.starts_with(&twins.worktree))
            .and_then(|twins| twins.other(folder))
            .unwrap_or_else(|| folder.to_path_buf())
    }

    /// Why a path is a secret, if it is one.
    #[must_use]
    pub fn secret(&self, path: &Path) -> Option<String> {
        let known = crate::protected::secret(path, self.own_places())
            .or_else(|| crate::repository::secret_configuration(path));
        known.or_else(|| {
            let named = self
                .files
                .ignore
                .as_ref()
                .is_some_and(|ignore| {
                    let twin = self.files.twins.as_ref().and_then(|twins| twins.other(path));
                    ignore.names(path) || twin.is_some_and(|twin| ignore.names(&twin))
                });
            named.then(|| format!("`{}` is kept secret by .latheignore (or .claudeignore, .cursorignore, .aiignore)", path.display()))
        })
    }

    /// Whether a file is read without a question.
    #[must_use]
    pub fn reads_freely(&self, path: &Path) -> bool {
        let subject = Subject::Read {
            paths: vec![path.to_path_buf()],
        };
        let call = CallFacts {
            tool_name: "Read",
            aliases: &[],
            input: &serde_json::json!({"file_path": path}),
            subject: &subject,
            read_only: true,
            resolved: resolve(&subject, self),
        };
        matches!(crate::decide(&call, self), Decision::Allow { .. })
    }

    /// Why a write needs confirmation whatever the rules say, if it does.
    pub(crate) fn protected(&self, path: &Path) -> Option<String> {
        crate::protected::protected(path, self.own_places()).filter(|_| !self.is_plan_file(path))
    }

    fn own_places(&self) -> OwnPlaces<'_> {
        OwnPlaces {
            config_homes: [&self.config_home, &self.machine.config_home],
            session_paths: &self.files.session_paths,
            sockets: self.files.sockets.as_deref(),
        }
    }

    pub(crate) fn is_plan_file(&self, path: &Path) -> bool {
        self.files.plan_file.as_deref() == Some(path)
    }
}

/// One call, as the decision sees it.
#[derive(Debug, Clone)]
pub struct CallFacts<'a> {
    /// The tool by its usual name.
    pub tool_name: &'a str,
    /// Its other names.
    pub aliases: &'a [String],
    /// The input, paths made absolute.
    pub input: &'a Value,
    /// The subject of the call.
    pub subject: &'a Subject,
    /// Whether the tool says that it only reads.
    pub read_only: bool,
    /// The result of [`resolve`].
    pub resolved: ResolvedPaths,
}

impl CallFacts<'_> {
    /// The tool's names, the usual one first.
    pub(crate) fn names(&self) -> Vec<&str> {
        std::iter::once(self.tool_name)
            .chain(self.aliases.iter().map(String::as_str))
            .collect()
    }
}

/// Facts of the file system about the paths of a call, and of the analyser about its
/// command. Gathered before the decision, so that the decision is a function of data.
#[derive(Debug, Clone, Default)]
pub struct ResolvedPaths {
    paths: HashMap<PathBuf, ResolvedPath>,
    expansions: Vec<Expansion>,
    surveys: Vec<(Survey, Found)>,
    analysis: Option<Arc<Analysis>>,
    repositories: Vec<(PathBuf, Repository)>,
    objects: HashMap<(PathBuf, String), ObjectKind>,
    /// Links that the command makes before it uses them.
    made_links: MadeLinks,
    /// A path that leads through a link which the command may have brought.
    through: Option<Through>,
    /// Programs whose version the folder chooses.
    shims: Vec<String>,
    /// A file of git's configuration with a password in it, which the command would show.
    shown_credentials: Option<PathBuf>,
}

impl ResolvedPaths {
    /// The forms of a path; a path that was not looked at has an unknown target, which no grant
    /// covers.
    #[must_use]
    pub fn get(&self, path: &Path) -> Cow<'_, ResolvedPath> {
        match self.paths.get(path) {
            Some(known) => Cow::Borrowed(known),
            None => {
                let behind = self.made_links.behind(path);
                Cow::Owned(ResolvedPath {
                    // Not folded: what is refused by its text must still read as it was written.
                    written: path.to_path_buf(),
                    links: behind.paths,
                    real: None,
                    case_insensitive: false,
                    is_folder: false,
                    leads_anywhere: behind.unknown,
                })
            }
        }
    }

    /// A path that leads through a link which an earlier part of the command may have brought.
    pub(crate) fn through(&self) -> Option<&Through> {
        self.through.as_ref()
    }

    /// Every form of every path that the call was judged by.
    pub(crate) fn judged(&self) -> impl Iterator<Item = &Path> {
        self.paths.values().flat_map(ResolvedPath::forms)
    }

    /// The analysis of the command.
    #[must_use]
    pub fn analysis(&self) -> Option<&Arc<Analysis>> {
        self.analysis.as_ref()
    }

    /// The files that a pattern matches; `None` when that isn't known.
    pub(crate) fn matches(&self, pattern: &Path) -> Option<&[PathBuf]> {
        self.expansions
            .iter()
            .find(|expansion| expansion.pattern == pattern)?
            .matches
            .as_deref()
    }

    /// The result of a survey; `None` if there was none.
    pub(crate) fn survey(&self, survey: &Survey) -> Option<&Found> {
        self.surveys
            .iter()
            .find(|(known, _)| known == survey)
            .map(|(_, found)| found)
    }

    /// Adds a path that was looked at.
    pub fn insert(&mut self, path: PathBuf, resolved: ResolvedPath) {
        self.paths.insert(path, resolved);
    }

    fn look_below(&mut self, analysis: &Analysis, cwd: &Path, context: &PermissionContext) {
        for part in &analysis.parts {
            let folders = crate::shell::folders_of(part, cwd, context);
            if part.obeys != Obeys::Nothing {
                self.look_for_repositories(folders.as_deref().unwrap_or_default());
            }
            if crate::shell::shows_configuration(part) {
                let mut folders = folders.iter().flatten();
                let home = &context.home;
                self.shown_credentials = self.shown_credentials.take().or_else(|| {
                    folders
                        .find_map(|folder| crate::repository::file_with_credentials(folder, home))
                });
            }
            let objects = part.read_paths.iter();
            for object in objects.filter(|path| path.kind == PathKind::Object) {
                for folder in folders.as_deref().unwrap_or_default() {
                    let kind = ObjectKind::of(folder, &object.text);
                    self.objects
                        .insert((folder.clone(), object.text.clone()), kind);
                }
            }
            for survey in crate::shell::surveys_of(part, folders.as_deref(), context) {
                if self.survey(&survey).is_some() {
                    continue;
                }
                // Outside the roots it is asked about anyway.
                self.look_at(&survey.folder);
                let inside = self.get(&survey.folder).inside(&context.roots);
                let found = if inside {
                    crate::shell::look_through(&survey, context)
                } else {
                    Found::Nothing
                };
                if let Found::Files(files) = &found {
                    for file in files {
                        self.look_at(file);
                    }
                }
                self.surveys.push((survey, found));
            }
        }
    }

    /// Whether a program is one of a version manager, which obeys files of the folder.
    pub(crate) fn is_shim(&self, program: &str) -> bool {
        self.shims.iter().any(|shim| shim == program)
    }

    /// A file of git's configuration with a password in it, which the command would show.
    pub(crate) fn shown_credentials(&self) -> Option<&Path> {
        self.shown_credentials.as_deref()
    }

    /// The kind of an object of the repository of a folder.
    pub(crate) fn object(&self, folder: &Path, name: &str) -> ObjectKind {
        let key = (folder.to_path_buf(), name.to_owned());
        self.objects
            .get(&key)
            .copied()
            .unwrap_or(ObjectKind::Unknown)
    }

    /// The git repository that is used in a folder; one that nobody looked for isn't known.
    pub(crate) fn repository(&self, folder: &Path) -> Option<&Repository> {
        self.repositories
            .iter()
            .find(|(known, _)| known == folder)
            .map(|(_, repository)| repository)
    }

    fn look_for_repositories(&mut self, folders: &[PathBuf]) {
        for folder in folders {
            self.look_at(folder);
            if self.repository(folder).is_none() {
                self.repositories
                    .push((folder.clone(), Repository::of(folder)));
            }
        }
    }

    fn look_at(&mut self, path: &Path) {
        // A text that is refused anyway is not worth asking the file system about, and some (a
        // network path) must not be asked.
        let text = path.to_string_lossy();
        if text.contains('\0') || text.starts_with(r"\\") || text.starts_with("//") {
            return;
        }
        if !self.paths.contains_key(path) {
            let mut resolved = resolve_path(path);
            let behind = self.made_links.behind(path);
            resolved.leads_anywhere = behind.unknown;
            for there in &behind.paths {
                let there = resolve_path(there);
                resolved.links.extend(there.forms().map(Path::to_path_buf));
                resolved.is_folder |= there.is_folder;
            }
            self.paths.insert(path.to_path_buf(), resolved);
        }
    }
}

/// Asks the file system what the paths of a call really are, and the analyser what its command is.
/// This is the I/O that comes before [`decide`](crate::decide).
#[must_use]
pub fn resolve(subject: &Subject, context: &PermissionContext) -> ResolvedPaths {
    let mut resolved = ResolvedPaths::default();
    match subject {
        Subject::Read { paths } | Subject::Write { paths } => {
            for path in paths {
                resolved.look_at(path);
            }
        }
        Subject::Shell { command, cwd, .. } => {
            let analysis = Arc::new(analyse(command, context.shell));
            resolved.made_links = MadeLinks::of(&analysis, cwd, context);
            resolved.through = crate::shell::through_brought(&analysis, command, cwd, context);
            let (paths, expansions) =
                crate::shell::paths_of(&analysis, cwd, &resolved.made_links, context);
            for path in paths {
                resolved.look_at(&path);
            }
            resolved.expansions = expansions;
            if context.trusted
                && analysis
                    .parts
                    .iter()
                    .any(|part| part.obeys != Obeys::Nothing)
            {
                resolved.look_for_repositories(&[context.project.clone(), context.cwd.clone()]);
            }
            resolved.look_below(&analysis, cwd, context);
            if !context.trusted {
                resolved.shims = crate::shims::find(&analysis, &context.machine.search_path);
            }
            resolved.analysis = Some(analysis);
        }
        Subject::Nothing
        | Subject::Typing { .. }
        | Subject::Fetch { .. }
        | Subject::Search { .. }
        | Subject::Mcp { .. }
        | Subject::Named { .. }
        | Subject::Person
        | Subject::Unknown => {}
    }
    resolved
}
