//! Skills: know-how in files, listed by name and read when it is needed.
//!
//! A skill is a folder with a `SKILL.md` (the open Agent Skills format and a few keys of ours); a custom
//! command is the same in a single file below `commands/`. [`SkillCatalog::load`] reads the front
//! matter of all of them and keeps no bodies; [`Skill::body`] reads the file again when it is used,
//! so that an edit counts at once. How they are told to the model is in [`listing`].

pub mod listing;
mod read;
#[cfg(test)]
mod tests;

use crate::expand::Values;
use crate::files::{self, Reach};
use crate::front_matter;
use crate::plugin::PluginContribution;
use crate::problem::Problem;
use crate::source::{ExtensionSource, Folder, Kind, Sources};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use indexmap::IndexMap;
use indexmap::map::Entry;
use lathe_settings::schema::{Effort, HookGroup};
use read::Standing;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file of a skill.
const FILE: &str = "SKILL.md";

/// A skill or a custom command, without its body: that is read when it is used.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// The name by which it is called (`plugin:name` for a plugin's, `folder:name` for a command in a
    /// folder).
    pub name: String,
    /// What it does.
    pub description: String,
    /// When to use it, beside the description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_to_use: Option<String>,
    /// What its arguments look like, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// Names of its arguments, in order; `$name` in the body stands for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Rules that hold as allowed while it is at work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// The model for its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard the model works in its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Whether it runs in a sub-agent instead of the conversation (`context: fork`).
    pub fork: bool,
    /// The agent as which a forked skill runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Patterns of files; the skill is listed once one of them was touched. Empty: always.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Hooks that count from its use on, by event. Empty unless its file is trusted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hooks: BTreeMap<String, Vec<HookGroup>>,
    /// Whether the model may use it by itself.
    pub model_invocable: bool,
    /// Whether people may use it as `/name`.
    pub user_invocable: bool,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its licence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// What it needs to work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<String>,
    /// What its author noted beside.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Whether it is a skill or a command.
    pub form: SkillForm,
    /// Where it comes from.
    pub source: ExtensionSource,
    /// Its folder; `None` for a command, and for what comes with Lathe or from a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The folder from which `paths` count.
    #[serde(skip)]
    pub base: Option<PathBuf>,
    /// Whether its commands and hooks may run.
    pub trusted: bool,
    #[serde(skip)]
    text: SkillText,
    /// Whether the description is all there is to say, and in one line.
    #[serde(skip)]
    is_summary: bool,
    #[serde(skip)]
    variables: Arc<[(String, String)]>,
}

/// Whether something is a skill or a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillForm {
    /// A folder with a `SKILL.md`.
    Skill,
    /// A file below `commands/`.
    Command,
}

/// Where the body is.
#[derive(Debug, Clone, PartialEq, Default)]
enum SkillText {
    /// In the file.
    #[default]
    File,
    /// In the program.
    Builtin(&'static str),
}

impl Skill {
    /// A server's prompt, as the model is told of it. It has no body: its words come from the server
    /// whenever it is used.
    #[must_use]
    pub fn of_server(
        server: &str,
        name: &str,
        description: String,
        argument_hint: Option<String>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            is_summary: is_one_line(&description),
            description,
            when_to_use: None,
            argument_hint,
            arguments: Vec::new(),
            allowed_tools: Vec::new(),
            model: None,
            effort: None,
            fork: false,
            agent: None,
            paths: Vec::new(),
            hooks: BTreeMap::new(),
            model_invocable: true,
            user_invocable: true,
            version: None,
            license: None,
            compatibility: None,
            metadata: BTreeMap::new(),
            form: SkillForm::Skill,
            source: ExtensionSource::Mcp(server.to_owned()),
            folder: None,
            path: None,
            base: None,
            trusted: false,
            text: SkillText::default(),
            variables: Arc::default(),
        }
    }

    /// Its body as it is now: the file is read again.
    ///
    /// # Errors
    /// When the file is gone or can't be read any more; the problem says why.
    pub fn body(&self) -> Result<String, Problem> {
        let text = match (&self.text, &self.path) {
            (SkillText::Builtin(text), _) => (*text).to_owned(),
            (SkillText::File, Some(path)) => {
                let mut problems = Vec::new();
                match files::read(path, &Reach::Anywhere, &mut problems) {
                    Some(text) => text,
                    None => {
                        let gone = Problem::fatal(path, "can't be read any more");
                        return Err(problems.pop().unwrap_or(gone));
                    }
                }
            }
            (SkillText::File, None) => String::new(),
        };
        let file = self.path.as_deref().unwrap_or(Path::new(""));
        Ok(front_matter::parse(file, &text, &mut Vec::new()).body)
    }

    /// What is filled in for a use of it.
    #[must_use]
    pub fn values<'a>(&'a self, arguments: &'a str, session_id: &str) -> Values<'a> {
        let mut variables: Vec<(String, String)> = self.variables.to_vec();
        for name in ["LATHE_SESSION_ID", "CLAUDE_SESSION_ID"] {
            variables.push((name.to_owned(), session_id.to_owned()));
        }
        let folder = self
            .folder
            .as_deref()
            .or_else(|| self.path.as_deref().and_then(Path::parent));
        if let Some(folder) = folder {
            let folder = folder.display().to_string();
            for name in ["LATHE_SKILL_DIR", "CLAUDE_SKILL_DIR"] {
                variables.push((name.to_owned(), folder.clone()));
            }
        }
        Values {
            arguments,
            names: &self.arguments,
            variables,
        }
    }

    /// Whether it waits for a file to be touched.
    #[must_use]
    pub fn is_conditional(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Whether one of its patterns covers a file.
    #[must_use]
    pub fn covers(&self, file: &Path) -> bool {
        let Some(relative) = self
            .base
            .as_deref()
            .and_then(|base| file.strip_prefix(base).ok())
        else {
            return false;
        };
        globs(&self.paths).is_some_and(|globs| globs.is_match(relative))
    }

    /// Description and when to use it, in one line. Asked for every skill at every start, so what is
    /// one line already is lent.
    #[must_use]
    pub fn summary(&self) -> Cow<'_, str> {
        if self.is_summary {
            return Cow::Borrowed(&self.description);
        }
        let words = match &self.when_to_use {
            Some(when) => Cow::Owned(format!("{} - {when}", self.description)),
            None => Cow::Borrowed(self.description.as_str()),
        };
        if is_one_line(&words) {
            return words;
        }
        let words: Vec<&str> = words.split_whitespace().collect();
        Cow::Owned(words.join(" "))
    }
}

/// Whether words are separated by single blanks already, as nearly all are.
pub(crate) fn is_one_line(words: &str) -> bool {
    let mut after_blank = true;
    for byte in words.bytes() {
        if byte == b' ' {
            if after_blank {
                return false;
            }
            after_blank = true;
        } else if byte.is_ascii_graphic() {
            after_blank = false;
        } else {
            return false;
        }
    }
    !after_blank || words.is_empty()
}

fn globs(patterns: &[String]) -> Option<GlobSet> {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        let pattern = pattern.trim_start_matches("./").trim_start_matches('/');
        // A folder means everything in it; a bare pattern means it anywhere, as in `.gitignore`.
        let pattern = match pattern.strip_suffix('/') {
            Some(folder) => format!("{folder}/**"),
            None if pattern.contains('/') => pattern.to_owned(),
            None => format!("**/{pattern}"),
        };
        builder.add(
            GlobBuilder::new(&pattern)
                .literal_separator(true)
                .build()
                .ok()?,
        );
    }
    builder.build().ok()
}

/// All skills and custom commands of a session, by name.
#[derive(Debug, Clone, Default)]
pub struct SkillCatalog {
    skills: IndexMap<String, Skill>,
    /// Those that a stronger one of the same name hides.
    pub hidden: Vec<Skill>,
    /// What is wrong with files.
    pub problems: Vec<Problem>,
    /// Files that were read, so that one file counts once however it is reached.
    seen: HashSet<(u64, u64)>,
    /// Folders that were looked into for nested skills.
    looked_into: HashSet<PathBuf>,
}

impl SkillCatalog {
    /// Reads every source, strongest first: managed, project, user, plugins, and what comes with Lathe.
    /// A skill is stronger than a command of the same name and source.
    #[must_use]
    pub fn load(sources: &Sources) -> Self {
        let mut catalog = Self::default();
        for project in sources.projects() {
            catalog.looked_into.insert(project.clone());
        }
        let commands = sources.folders(Kind::Commands);
        for source in [
            ExtensionSource::Managed,
            ExtensionSource::Project,
            ExtensionSource::User,
        ] {
            for folder in sources.folders(Kind::Skills) {
                if folder.source == source {
                    catalog.load_skills(&folder, "");
                }
            }
            for folder in commands.iter().filter(|folder| folder.source == source) {
                catalog.load_commands(folder);
            }
        }
        for plugin in &sources.plugins {
            catalog.load_plugin(plugin);
        }
        catalog.load_builtin();
        catalog
    }

    /// Whether there are folders between a touched file and the project that were not looked into.
    #[must_use]
    pub fn is_new_place(&self, file: &Path, sources: &Sources) -> bool {
        between(file, sources).any(|folder| !self.looked_into.contains(folder))
    }

    /// Skills of folders between a touched file and the project, that were not looked into yet. Gives
    /// the names of those that are new.
    pub fn discover(&mut self, file: &Path, sources: &Sources) -> Vec<String> {
        let mut found = Vec::new();
        for folder in between(file, sources) {
            if !self.looked_into.insert(folder.to_path_buf()) {
                continue;
            }
            let prefix = file_name(folder);
            for place in sources.project_folders(folder, Kind::Skills) {
                found.extend(self.load_skills(&place, &prefix));
            }
        }
        found
    }

    /// Looks into the folders that an earlier catalog had looked into, so that what was found there is
    /// still there after everything was read again.
    pub fn look_again(&mut self, earlier: &Self, sources: &Sources) {
        let mut folders: Vec<&PathBuf> = earlier.looked_into.iter().collect();
        folders.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
        for folder in folders {
            // As if a file in it was touched.
            self.discover(&folder.join(FILE), sources);
        }
    }

    /// Reads the skills of a folder. A name that is taken gets `prefix:` in front, where there is one.
    fn load_skills(&mut self, folder: &Folder, prefix: &str) -> Vec<String> {
        let mut names = Vec::new();
        let reach = Reach::of(folder.trusted, &folder.base);
        let places = files::folders_in(&folder.path, &mut self.problems);
        let read = files::for_each(&places, |path| {
            let standing = Standing {
                name: file_name(path),
                form: SkillForm::Skill,
                source: folder.source.clone(),
                trusted: folder.trusted,
                variables: Arc::default(),
            };
            read_file(&path.join(FILE), &reach, &standing)
        });
        self.skills.reserve(places.len());
        self.seen.reserve(places.len());
        for (path, read) in places.into_iter().zip(read) {
            let Some(mut skill) = self.take(read) else {
                continue;
            };
            skill.base = Some(folder.base.clone());
            skill.folder = Some(path);
            if !prefix.is_empty() && self.skills.contains_key(&skill.name) {
                skill.name = format!("{prefix}:{}", skill.name);
            }
            names.extend(self.insert(skill));
        }
        names
    }

    fn load_commands(&mut self, folder: &Folder) {
        let reach = Reach::of(folder.trusted, &folder.base);
        let files = files::markdown_files(&folder.path, &mut self.problems);
        let read = files::for_each(&files, |file| {
            let standing = Standing {
                name: command_name(file),
                form: SkillForm::Command,
                source: folder.source.clone(),
                trusted: folder.trusted,
                variables: Arc::default(),
            };
            read_file(&folder.path.join(file), &reach, &standing)
        });
        for read in read {
            if let Some(mut skill) = self.take(read) {
                skill.base = Some(folder.base.clone());
                self.insert(skill);
            }
        }
    }

    fn load_plugin(&mut self, plugin: &PluginContribution) {
        let variables: Arc<[(String, String)]> = plugin.variables().into();
        let standing = |name: String, form| Standing {
            name: format!("{}:{name}", plugin.name),
            form,
            source: ExtensionSource::Plugin(plugin.name.clone()),
            trusted: plugin.trusted,
            variables: variables.clone(),
        };
        let reach = Reach::inside(&plugin.root);
        for path in &plugin.skills {
            let folders = if path.join(FILE).is_file() {
                vec![path.clone()]
            } else {
                files::folders_in(path, &mut self.problems)
            };
            for folder in folders {
                let standing = standing(file_name(&folder), SkillForm::Skill);
                if let Some(mut skill) = self.take(read_file(&folder.join(FILE), &reach, &standing))
                {
                    skill.base = Some(plugin.root.clone());
                    skill.folder = Some(folder);
                    self.insert(skill);
                }
            }
        }
        for path in &plugin.commands {
            let files = if path.is_dir() {
                files::markdown_files(path, &mut self.problems)
                    .into_iter()
                    .map(|file| (path.join(&file), command_name(&file)))
                    .collect()
            } else {
                vec![(path.clone(), command_name(Path::new(&file_name(path))))]
            };
            for (file, name) in files {
                let standing = standing(name, SkillForm::Command);
                if let Some(skill) = self.take(read_file(&file, &reach, &standing)) {
                    self.insert(skill);
                }
            }
        }
    }

    fn load_builtin(&mut self) {
        for (name, text) in BUILTIN {
            let standing = Standing {
                name: name.to_owned(),
                form: SkillForm::Skill,
                source: ExtensionSource::Builtin,
                trusted: true,
                variables: Arc::default(),
            };
            let file = PathBuf::from(format!("built-in:{name}"));
            if let Some(mut skill) = read::of_text(&file, text, &standing, &mut self.problems) {
                skill.text = SkillText::Builtin(text);
                self.insert(skill);
            }
        }
    }

    /// Takes what was read of a file, if it wasn't taken before by another way to it.
    fn take(&mut self, read: FileRead) -> Option<Skill> {
        if let Some(identity) = read.identity
            && !self.seen.insert(identity)
        {
            return None;
        }
        self.problems.extend(read.problems);
        read.skill
    }

    /// Adds a skill where no stronger one has its name. Gives the name if it counts.
    pub fn insert(&mut self, skill: Skill) -> Option<String> {
        let name = skill.name.clone();
        match self.skills.entry(name.clone()) {
            Entry::Occupied(_) => {
                self.hidden.push(skill);
                None
            }
            Entry::Vacant(place) => {
                place.insert(skill);
                Some(name)
            }
        }
    }

    /// The skill of a name: as written, else a plugin's own without its prefix where only one has it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Skill> {
        let name = name.trim().trim_start_matches('/');
        if let Some(found) = self.skills.get(name) {
            return Some(found);
        }
        let mut found = self.skills.values().filter(|skill| {
            skill
                .name
                .rsplit_once(':')
                .is_some_and(|(_, short)| short == name)
                && matches!(skill.source, ExtensionSource::Plugin(_))
        });
        let first = found.next();
        first.filter(|_| found.next().is_none())
    }

    /// All of them, strongest source first.
    pub fn iter(&self) -> impl Iterator<Item = &Skill> {
        self.skills.values()
    }

    /// Keeps those that a test likes.
    pub fn retain(&mut self, keep: impl Fn(&Skill) -> bool) {
        self.skills.retain(|_, skill| keep(skill));
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.skills.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }
}

/// What a file turned out to be.
#[derive(Default)]
struct FileRead {
    identity: Option<(u64, u64)>,
    skill: Option<Skill>,
    problems: Vec<Problem>,
}

/// Reads a file. A folder without the file is something else, not a broken skill.
fn read_file(file: &Path, reach: &Reach, standing: &Standing) -> FileRead {
    let mut found = FileRead::default();
    let Ok(content) = files::look(file, reach, &mut found.problems) else {
        return found;
    };
    found.identity = Some(content.identity);
    found.skill = read::of_text(file, &content.text, standing, &mut found.problems);
    if let Some(skill) = &mut found.skill {
        skill.path = Some(file.to_path_buf());
    }
    found
}

/// The folders between a file and the project that it lies in, innermost first.
fn between<'a>(file: &'a Path, sources: &'a Sources) -> impl Iterator<Item = &'a Path> {
    let project = sources
        .projects()
        .iter()
        .filter(|project| file.starts_with(project))
        .max_by_key(|project| project.components().count());
    file.ancestors().skip(1).take_while(move |folder| {
        project.is_some_and(|project| folder.starts_with(project) && *folder != project)
    })
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// `frontend/fix.md` is `frontend:fix`.
fn command_name(file: &Path) -> String {
    let parts: Vec<String> = file
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    parts.join(":")
}

/// What comes with Lathe, in the order of listings.
const BUILTIN: [(&str, &str); 15] = [
    ("commit", include_str!("../../prompts/skills/commit.md")),
    ("review", include_str!("../../prompts/skills/review.md")),
    ("simplify", include_str!("../../prompts/skills/simplify.md")),
    ("verify", include_str!("../../prompts/skills/verify.md")),
    ("debug", include_str!("../../prompts/skills/debug.md")),
    ("batch", include_str!("../../prompts/skills/batch.md")),
    ("loop", include_str!("../../prompts/skills/loop.md")),
    ("schedule", include_str!("../../prompts/skills/schedule.md")),
    ("skillify", include_str!("../../prompts/skills/skillify.md")),
    ("init", include_str!("../../prompts/skills/init.md")),
    ("remember", include_str!("../../prompts/skills/remember.md")),
    (
        "update-config",
        include_str!("../../prompts/skills/update-config.md"),
    ),
    (
        "keybindings",
        include_str!("../../prompts/skills/keybindings.md"),
    ),
    (
        "security-review",
        include_str!("../../prompts/skills/security-review.md"),
    ),
    (
        "pr-comments",
        include_str!("../../prompts/skills/pr-comments.md"),
    ),
];
