//! Skills: instructions in files, listed by name and read on use.
//!
//! A skill is a folder with a `SKILL.md` (the open Agent Skills format with a few additional keys);
//! a custom command is a single file below `commands/`. [`SkillCatalog::load`] reads the front
//! matter of all of them and keeps no bodies; [`Skill::body`] reads the file on use, so that edits
//! take effect at once. [`listing`] renders the list for the model.

mod command_files;
pub mod listing;
mod read;
#[cfg(test)]
mod tests;

use crate::expand::Values;
use crate::files::{self, Reach};
use crate::front_matter;
use crate::plugin::{CommandPath, NamedCommand, PluginContribution};
use crate::problem::Problem;
use crate::source::{ExtensionSource, Folder, Kind, Sources};
use command_files::command_files;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use indexmap::IndexMap;
use indexmap::map::Entry;
use lathe_protocol::command::Invocation;
use lathe_settings::schema::{Effort, HookGroup, SkillOverride};
use read::FileContext;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FILE: &str = "SKILL.md";

/// A skill or a custom command without its body, which is read on use.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// The name to invoke it by (`plugin:name` for a plugin's, `folder:name` for a command in a folder).
    pub name: String,
    pub description: String,
    /// When to use it, if the front matter says so apart from the description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_to_use: Option<String>,
    /// The arguments as shown to people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    #[serde(flatten)]
    pub run: SkillRun,
    #[serde(flatten)]
    pub condition: SkillCondition,
    /// True if the model may invoke it.
    pub model_invocable: bool,
    /// True if people may invoke it as `/name`.
    pub user_invocable: bool,
    #[serde(flatten)]
    pub about: SkillAbout,
    pub form: SkillForm,
    pub source: ExtensionSource,
    /// `None` for commands, built-in skills and prompts of servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// True if its commands and hooks may run.
    pub trusted: bool,
    #[serde(skip)]
    text: SkillText,
}

/// How a skill runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillRun {
    /// The names of its arguments in order, for `$name` in the body.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Permission rules that are allowed while it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Permission rules that are denied while it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// True if it runs in a sub-agent instead of the conversation (`context: fork`).
    pub fork: bool,
    /// True if a forked skill runs in the background.
    pub background: bool,
    /// The agent that a forked skill runs as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Hooks by event, active once it is used. Empty unless its file is trusted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hooks: BTreeMap<String, Vec<HookGroup>>,
}

/// The files that make a skill available.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SkillCondition {
    /// The skill is listed once a file that matches one of these patterns was touched; if empty, always.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The folder that the patterns are relative to.
    #[serde(skip)]
    pub base: Option<PathBuf>,
}

/// Fields of the front matter that are only shown.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillAbout {
    /// `name`, if it differs from the folder, which is the name to type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillForm {
    /// A folder with a `SKILL.md`.
    Skill,
    /// A file below `commands/`.
    Command,
}

/// The body's source and what is known about the text.
#[derive(Debug, Clone, PartialEq, Default)]
struct SkillText {
    /// The text of a built-in skill, or of a command in a plugin's manifest; otherwise it is in the file.
    given: Option<Cow<'static, str>>,
    /// True if the description alone is the summary, in one line already.
    is_summary: bool,
    /// A plugin's variables.
    variables: Arc<[(String, String)]>,
    /// True if the listing for the model has its name only.
    name_only: bool,
}

impl Skill {
    /// A prompt of an MCP server. It has no body: the server provides the text on each use.
    #[must_use]
    pub fn of_server(
        server: &str,
        name: &str,
        description: String,
        argument_hint: Option<String>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            text: SkillText {
                is_summary: is_one_line(&description),
                ..SkillText::default()
            },
            description,
            when_to_use: None,
            argument_hint,
            run: SkillRun::default(),
            condition: SkillCondition::default(),
            model_invocable: true,
            user_invocable: true,
            about: SkillAbout::default(),
            form: SkillForm::Skill,
            source: ExtensionSource::Mcp(server.to_owned()),
            folder: None,
            path: None,
            trusted: false,
        }
    }

    /// Reads its body from the file.
    ///
    /// # Errors
    /// If the file is missing or unreadable.
    pub fn body(&self) -> Result<String, Problem> {
        let text = match (&self.text.given, &self.path) {
            (Some(text), _) => text.to_string(),
            (None, Some(path)) => {
                let mut problems = Vec::new();
                match files::read(path, &Reach::Anywhere, &mut problems) {
                    Some(text) => text,
                    None => {
                        let gone = Problem::fatal(path, "can no longer be read");
                        return Err(problems.pop().unwrap_or(gone));
                    }
                }
            }
            (None, None) => String::new(),
        };
        let file = self.path.as_deref().unwrap_or(Path::new(""));
        Ok(front_matter::parse(file, &text, &mut Vec::new()).body)
    }

    /// The values of its placeholders.
    #[must_use]
    pub fn values<'a>(&'a self, arguments: &'a str, session_id: &str, effort: &str) -> Values<'a> {
        let mut variables = self.variables();
        for (name, value) in [
            ("LATHE_SESSION_ID", session_id),
            ("CLAUDE_SESSION_ID", session_id),
            ("LATHE_EFFORT", effort),
            ("CLAUDE_EFFORT", effort),
        ] {
            variables.push((name.to_owned(), value.to_owned()));
        }
        Values {
            arguments,
            names: &self.run.arguments,
            variables,
        }
    }

    /// Its `allowed-tools` with the variables of folders expanded.
    #[must_use]
    pub fn allowed_tools(&self) -> Vec<String> {
        self.expanded(&self.run.allowed_tools)
    }

    /// Its `disallowed-tools`, expanded alike.
    #[must_use]
    pub fn disallowed_tools(&self) -> Vec<String> {
        self.expanded(&self.run.disallowed_tools)
    }

    fn expanded(&self, rules: &[String]) -> Vec<String> {
        let variables = self.variables();
        let expand = |rule: &String| {
            let names = variables.iter();
            names.fold(rule.clone(), |rule, (name, value)| {
                rule.replace(&format!("${{{name}}}"), value)
            })
        };
        rules.iter().map(expand).collect()
    }

    /// The folders of the plugin, the project and the skill, by name.
    fn variables(&self) -> Vec<(String, String)> {
        let mut variables: Vec<(String, String)> = self.text.variables.to_vec();
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
        variables
    }

    /// Takes over what a plugin's manifest says about a command.
    fn describe_as(&mut self, named: &NamedCommand) {
        if let Some(description) = &named.description {
            self.description.clone_from(description);
            self.text.is_summary = self.when_to_use.is_none() && is_one_line(description);
        }
        if named.argument_hint.is_some() {
            self.argument_hint.clone_from(&named.argument_hint);
        }
        if named.model.is_some() {
            self.run.model.clone_from(&named.model);
        }
        if let Some(tools) = &named.allowed_tools {
            self.run.allowed_tools.clone_from(tools);
        }
    }

    /// The name to type if its own can't be typed after a slash, as one with blanks.
    #[must_use]
    pub fn typed_name(&self) -> Option<String> {
        if Invocation::parse(&format!("/{}", self.name))
            .is_some_and(|typed| typed.name == self.name)
        {
            return None;
        }
        let parts: Vec<String> = self.name.split(':').map(read::typable).collect();
        Some(parts.join(":"))
    }

    /// True if it is listed only once a matching file was touched.
    #[must_use]
    pub fn is_conditional(&self) -> bool {
        !self.condition.paths.is_empty()
    }

    /// True if one of its patterns matches a file.
    #[must_use]
    pub fn covers(&self, file: &Path) -> bool {
        let Some(relative) = self
            .condition
            .base
            .as_deref()
            .and_then(|base| file.strip_prefix(base).ok())
        else {
            return false;
        };
        globs(&self.condition.paths).is_some_and(|globs| globs.is_match(relative))
    }

    /// Description and `when_to_use` in one line. Called for every skill at every start, so a
    /// single line is borrowed.
    #[must_use]
    pub fn summary(&self) -> Cow<'_, str> {
        if self.text.name_only {
            return Cow::Borrowed("");
        }
        if self.text.is_summary {
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

/// True if a text is one line with single spaces, as nearly all are.
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
        // As in `.gitignore`: a folder matches everything in it, a pattern without slash matches
        // anywhere.
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

#[derive(Debug, Clone, Default)]
pub struct SkillCatalog {
    skills: IndexMap<String, Skill>,
    /// Skills hidden by one of the same name with higher precedence.
    pub hidden: Vec<Skill>,
    pub problems: Vec<Problem>,
    /// Device and inode of the files read, so that a file reached by several paths is loaded once.
    seen: HashSet<(u64, u64)>,
    /// Folders that were searched for nested skills.
    looked_into: HashSet<PathBuf>,
    /// The variables of files outside of plugins.
    variables: Arc<[(String, String)]>,
}

impl SkillCatalog {
    /// Loads every source, highest precedence first: managed, project, user, plugins, built-in. A
    /// skill takes precedence over a command of the same name and source.
    #[must_use]
    pub fn load(sources: &Sources) -> Self {
        let mut catalog = Self {
            variables: sources.variables().into(),
            ..Self::default()
        };
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

    /// True if a folder between a touched file and the project was not searched yet.
    #[must_use]
    pub fn is_new_place(&self, file: &Path, sources: &Sources) -> bool {
        between(file, sources).any(|folder| !self.looked_into.contains(folder))
    }

    /// Searches the folders between a touched file and the project for skills, unless done before.
    /// Returns the names of the new skills.
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

    /// Searches the folders that an earlier catalog had searched, so that nested skills survive a
    /// reload.
    pub fn look_again(&mut self, earlier: &Self, sources: &Sources) {
        let mut folders: Vec<&PathBuf> = earlier.looked_into.iter().collect();
        folders.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
        for folder in folders {
            // As if a file in it had been touched.
            self.discover(&folder.join(FILE), sources);
        }
    }

    /// Loads the skills of a folder. A name that is taken is prefixed by `prefix:`, if not empty.
    fn load_skills(&mut self, folder: &Folder, prefix: &str) -> Vec<String> {
        let mut names = Vec::new();
        let reach = Reach::of(folder.trusted, &folder.source, &folder.base);
        let places = files::folders_in(&folder.path, &mut self.problems);
        let read = files::for_each(&places, |path| {
            let context = FileContext {
                name: file_name(path),
                named_inside: false,
                form: SkillForm::Skill,
                source: folder.source.clone(),
                trusted: folder.trusted,
                variables: self.variables.clone(),
            };
            read_file(&path.join(FILE), &reach, &context)
        });
        self.skills.reserve(places.len());
        self.seen.reserve(places.len());
        for (path, read) in places.into_iter().zip(read) {
            let Some(mut skill) = self.take(read) else {
                continue;
            };
            skill.condition.base = Some(folder.base.clone());
            skill.folder = Some(path);
            if !prefix.is_empty() && self.skills.contains_key(&skill.name) {
                skill.name = format!("{prefix}:{}", skill.name);
            }
            names.extend(self.insert(skill));
        }
        names
    }

    fn load_commands(&mut self, folder: &Folder) {
        let reach = Reach::of(folder.trusted, &folder.source, &folder.base);
        let files = command_files(files::markdown_files(&folder.path, &mut self.problems));
        let read = files::for_each(&files, |command| {
            let context = FileContext {
                name: command.name.clone(),
                named_inside: false,
                form: SkillForm::Command,
                source: folder.source.clone(),
                trusted: folder.trusted,
                variables: self.variables.clone(),
            };
            read_file(&folder.path.join(&command.file), &reach, &context)
        });
        for (command, read) in files.into_iter().zip(read) {
            if let Some(mut skill) = self.take(read) {
                skill.condition.base = Some(folder.base.clone());
                skill.folder = command.folder.map(|inner| folder.path.join(inner));
                self.insert(skill);
            }
        }
    }

    fn load_plugin(&mut self, plugin: &PluginContribution) {
        let own = plugin.variables().into_iter();
        let variables: Arc<[(String, String)]> =
            own.chain(self.variables.iter().cloned()).collect();
        let context = |name: String, form, named_inside| FileContext {
            name: format!("{}:{name}", plugin.name),
            named_inside,
            form,
            source: ExtensionSource::Plugin(plugin.name.clone()),
            trusted: plugin.trusted,
            variables: variables.clone(),
        };
        let reach = Reach::inside(&plugin.root);
        for path in &plugin.skills {
            let is_skill = path.join(FILE).is_file();
            let folders = if is_skill {
                vec![path.clone()]
            } else {
                files::folders_in(path, &mut self.problems)
            };
            for folder in folders {
                // The folder of an installed plugin is named by its version.
                let name = if folder == plugin.root {
                    plugin.name.clone()
                } else {
                    file_name(&folder)
                };
                let context = context(name, SkillForm::Skill, is_skill);
                if let Some(mut skill) = self.take(read_file(&folder.join(FILE), &reach, &context))
                {
                    skill.condition.base = Some(plugin.root.clone());
                    skill.folder = Some(folder);
                    self.insert(skill);
                }
            }
        }
        for CommandPath { path, named } in &plugin.commands {
            if let Some(named) = named.as_ref()
                && let Some(text) = &named.content
            {
                let context = context(named.name.clone(), SkillForm::Command, false);
                if let Some(mut skill) = read::of_text(path, text, &context, &mut self.problems) {
                    skill.text.given = Some(Cow::Owned(text.clone()));
                    if plugin.trusted {
                        skill.describe_as(named);
                    }
                    self.insert(skill);
                }
                continue;
            }
            let named = named.as_ref().filter(|_| !path.is_dir());
            let (base, files) = if path.is_dir() {
                let files = files::markdown_files(path, &mut self.problems);
                (path.as_path(), files)
            } else {
                let folder = path.parent().unwrap_or(path);
                (folder, vec![PathBuf::from(file_name(path))])
            };
            for command in command_files(files) {
                let name = named.map_or(command.name, |named| named.name.clone());
                let context = context(name, SkillForm::Command, false);
                let file = base.join(&command.file);
                if let Some(mut skill) = self.take(read_file(&file, &reach, &context)) {
                    skill.folder = command.folder.map(|inner| base.join(inner));
                    if let Some(named) = named.filter(|_| plugin.trusted) {
                        skill.describe_as(named);
                    }
                    self.insert(skill);
                }
            }
        }
    }

    fn load_builtin(&mut self) {
        for (name, text) in BUILTIN {
            let context = FileContext {
                name: name.to_owned(),
                named_inside: false,
                form: SkillForm::Skill,
                source: ExtensionSource::Builtin,
                trusted: true,
                variables: Arc::default(),
            };
            let file = PathBuf::from(format!("built-in:{name}"));
            if let Some(mut skill) = read::of_text(&file, text, &context, &mut self.problems) {
                skill.text.given = Some(Cow::Borrowed(text));
                self.insert(skill);
            }
        }
    }

    /// Accepts the result of reading a file, unless the file was loaded by another path before.
    fn take(&mut self, read: FileRead) -> Option<Skill> {
        if let Some(identity) = read.identity
            && !self.seen.insert(identity)
        {
            return None;
        }
        self.problems.extend(read.problems);
        read.skill
    }

    /// Adds a skill unless its name is taken. Returns the name if it was added.
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

    /// Finds a skill by exact name, else by a plugin skill's name without prefix or by a display name,
    /// if these are unique.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Skill> {
        let name = name.trim().trim_start_matches('/');
        if let Some(found) = self.skills.get(name) {
            return Some(found);
        }
        let only = |test: &dyn Fn(&Skill) -> bool| {
            let mut found = self.skills.values().filter(|skill| test(skill));
            let first = found.next();
            first.filter(|_| found.next().is_none())
        };
        only(&|skill| {
            skill
                .name
                .rsplit_once(':')
                .is_some_and(|(_, short)| short == name)
                && matches!(skill.source, ExtensionSource::Plugin(_))
        })
        .or_else(|| only(&|skill| skill.about.display_name.as_deref() == Some(name)))
        .or_else(|| only(&|skill| skill.typed_name().as_deref() == Some(name)))
    }

    /// All skills, highest precedence first.
    pub fn iter(&self) -> impl Iterator<Item = &Skill> {
        self.skills.values()
    }

    /// Applies what settings say about skills (`skillOverrides`), by name.
    pub fn override_with(&mut self, overrides: &BTreeMap<String, SkillOverride>) {
        for (name, how) in overrides {
            let of_name = |skill: &Skill| {
                skill.name == *name || skill.about.display_name.as_ref() == Some(name)
            };
            if *how == SkillOverride::Off {
                self.skills.retain(|_, skill| !of_name(skill));
            }
            for skill in self.skills.values_mut().filter(|skill| of_name(skill)) {
                match how {
                    SkillOverride::On | SkillOverride::Off => {}
                    SkillOverride::NameOnly => skill.text.name_only = true,
                    SkillOverride::UserInvocableOnly => skill.model_invocable = false,
                }
            }
        }
    }

    pub fn retain(&mut self, keep: impl Fn(&Skill) -> bool) {
        self.skills.retain(|_, skill| keep(skill));
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.skills.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }
}

/// The result of reading a file.
#[derive(Default)]
struct FileRead {
    identity: Option<(u64, u64)>,
    skill: Option<Skill>,
    problems: Vec<Problem>,
}

/// Reads a file. A folder without the file is not a skill, and not a problem.
fn read_file(file: &Path, reach: &Reach, context: &FileContext) -> FileRead {
    let mut found = FileRead::default();
    let Ok(content) = files::look(file, reach, &mut found.problems) else {
        return found;
    };
    found.identity = Some(content.identity);
    found.skill = read::of_text(file, &content.text, context, &mut found.problems);
    if let Some(skill) = &mut found.skill {
        skill.path = Some(file.to_path_buf());
    }
    found
}

/// The folders between a file and its project, innermost first.
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

/// The built-in skills in the order of listings.
const BUILTIN: [(&str, &str); 14] = [
    ("commit", include_str!("../../prompts/skills/commit.md")),
    ("review", include_str!("../../prompts/skills/review.md")),
    ("simplify", include_str!("../../prompts/skills/simplify.md")),
    ("verify", include_str!("../../prompts/skills/verify.md")),
    ("debug", include_str!("../../prompts/skills/debug.md")),
    ("batch", include_str!("../../prompts/skills/batch.md")),
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
