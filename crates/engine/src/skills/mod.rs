//! Extensions that users add as files, in a session: which agents, skills, commands and output styles there
//! are, what the model was told of them, and what the ones in use change.
//!
//! - [`Extensions`] holds the catalogs. They are read beside the rest of the opening and again when a
//!   file changes ([`watch`]).
//! - [`announce`] tells the model of skills, always at the end of the conversation: at first all of them
//!   within a share of the window, later what came, went or woke up.
//! - [`using`] turns a skill into words: arguments filled in, commands run under the permission rules. A
//!   person's `/name` and the model's `Skill` call ([`tool`]) both come through it.
//! - [`prompts`] makes skills of what MCP servers have to say.
//!
//! The rules, hooks, model and effort of a skill hold until the turn in which it was used is over.

pub(crate) mod announce;
mod prompts;
pub(crate) mod tool;
pub(crate) mod using;
mod watch;

pub(crate) use watch::watch;

use lathe_extensions::{
    AgentCatalog, OutputStyle, OutputStyles, PluginContribution, Problem, Skill, SkillCatalog,
    SkillForm, Sources, output_style,
};
use lathe_hooks::SourceHandle;
use lathe_protocol::diagnostic::Diagnostic;
use lathe_settings::schema::{Effort, SkillOverride};
use lathe_settings::{Places, Source, Trust};
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The options of a session for extensions.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExtensionOptions {
    pub(crate) sources: Sources,
    /// Agents of the command line and the host, weakest first.
    pub(crate) agents: Vec<Value>,
    /// The only enabled skills; `None` is all.
    pub(crate) only_skills: Option<Vec<String>>,
    /// No skills and no custom commands.
    pub(crate) without_skills: bool,
    /// The settings of skills.
    pub(crate) overrides: BTreeMap<String, SkillOverride>,
}

impl ExtensionOptions {
    pub(crate) fn new(
        places: &Places,
        trust: &Trust,
        setting_sources: Option<&[Source]>,
        added_folders: Vec<PathBuf>,
        plugins: Vec<PluginContribution>,
    ) -> Self {
        Self {
            sources: Sources::new(places, trust, setting_sources)
                .with_added_folders(added_folders)
                .with_plugins(plugins),
            ..Self::default()
        }
    }
}

impl ExtensionOptions {
    /// Reads the agents of every source, plugins' too.
    pub(crate) fn load_agents(&self) -> AgentCatalog {
        AgentCatalog::load(&self.sources, &self.agents)
    }

    /// Reads the output styles.
    pub(crate) fn load_styles(&self) -> OutputStyles {
        OutputStyles::load(&self.sources)
    }
}

/// The extensions of a conversation. The catalogs are the session's; what was told and used is its own.
pub(crate) struct Extensions {
    /// Rung when the model has answered.
    pub(crate) answered: tokio::sync::Notify,
    common: Arc<Common>,
    state: Mutex<State>,
}

struct Common {
    options: RwLock<ExtensionOptions>,
    /// Held from reading the options until the catalogs are replaced. Reloads come from the watcher, hosts
    /// and commands at once; without it the one that began first could replace a newer result.
    reloading: Mutex<()>,
    agents: RwLock<Arc<AgentCatalog>>,
    skills: RwLock<Arc<SkillCatalog>>,
    /// Set once the skills were read for the first time.
    skills_read: OnceLock<()>,
    styles: RwLock<Arc<OutputStyles>>,
    /// The output style in effect, and whether the prompt doesn't have it yet.
    style: Mutex<(String, bool)>,
}

/// Held by the thread that reads the skills; marks them as read when it is dropped.
struct Reading(Arc<Common>);

impl Drop for Reading {
    fn drop(&mut self) {
        // Set once, here.
        let _ = self.0.skills_read.set(());
    }
}

/// The skills that the model knows and those in use.
#[derive(Default)]
struct State {
    /// The text for each skill that the model got.
    told: HashMap<String, String>,
    /// Skills that a touched file woke.
    awake: BTreeSet<String>,
    /// Uses, oldest first; each skill once.
    used: Vec<Use>,
    /// Rules that hold until the turn is over.
    rules: Vec<String>,
    hooks: Vec<(String, SourceHandle)>,
    model: Option<String>,
    effort: Option<Effort>,
    /// A skill that the user asked for and the model may therefore use.
    asked_for: Option<String>,
    /// Tokens of what was told.
    told_tokens: u64,
    /// The state when nothing was left to announce.
    settled: Option<Settled>,
}

/// Everything that the model knows: the skills of files, how many were awake, and prompts of servers.
struct Settled {
    skills: Arc<SkillCatalog>,
    awake: usize,
    prompts: Vec<Skill>,
}

/// A use of a skill.
#[derive(Debug, Clone)]
struct Use {
    name: String,
    text: String,
}

impl Extensions {
    /// Begins to read the skills, on a thread of its own: with many of them that takes a while, and a
    /// session needs them last. A caller that needs them sooner waits ([`Self::skills`]). Agents and styles
    /// come with [`Self::take_agents`].
    pub(crate) fn begin(options: ExtensionOptions) -> Self {
        let chosen = options.clone();
        let common = Arc::new(Common {
            options: RwLock::new(options),
            reloading: Mutex::default(),
            agents: RwLock::default(),
            skills: RwLock::default(),
            skills_read: OnceLock::new(),
            styles: RwLock::default(),
            style: Mutex::new((output_style::DEFAULT.to_owned(), false)),
        });
        // Raised even if reading fails or never begins: then there are none.
        let reading = Reading(common.clone());
        drop(lathe_spawn::blocking(move || {
            *reading.0.skills.write() = Arc::new(load_skills(&chosen));
        }));
        Self {
            answered: tokio::sync::Notify::new(),
            common,
            state: Mutex::default(),
        }
    }

    /// The same catalogs for a conversation inside this one.
    pub(crate) fn for_inner(&self) -> Arc<Self> {
        Arc::new(Self {
            answered: tokio::sync::Notify::new(),
            common: self.common.clone(),
            state: Mutex::default(),
        })
    }

    /// Takes over what another conversation was told, for one that begins as its copy.
    pub(crate) fn know_as(&self, other: &Self) {
        let other = other.state.lock();
        let mut state = self.state.lock();
        state.told.clone_from(&other.told);
        state.awake.clone_from(&other.awake);
        state.used.clone_from(&other.used);
        state.told_tokens = other.told_tokens;
    }

    /// Takes the agents and the styles that were read.
    pub(crate) fn take_agents(&self, agents: Arc<AgentCatalog>, styles: Arc<OutputStyles>) {
        *self.common.agents.write() = agents;
        *self.common.styles.write() = styles;
    }

    /// Reads everything again, and hands the agents to those who start them.
    pub(crate) fn reload(&self, agents: &crate::agents::Agents) {
        let _reloading = self.common.reloading.lock();
        let options = self.common.options.read().clone();
        let mut skills = load_skills(&options);
        skills.look_again(&self.skills(), &options.sources);
        choose(&mut skills, &options);
        let definitions = Arc::new(options.load_agents());
        *self.common.agents.write() = definitions.clone();
        agents.set_catalog(definitions);
        *self.common.skills.write() = Arc::new(skills);
        *self.common.styles.write() = Arc::new(options.load_styles());
    }

    /// Takes other plugins and reads everything again.
    pub(crate) fn set_plugins(
        &self,
        plugins: Vec<PluginContribution>,
        agents: &crate::agents::Agents,
    ) {
        self.common.options.write().sources.plugins = plugins;
        self.reload(agents);
    }

    pub(crate) fn agents(&self) -> Arc<AgentCatalog> {
        self.common.agents.read().clone()
    }

    /// The skills. Right after the start of a session this waits until they were read: a moment at most,
    /// and there is nothing else to do for callers that need them.
    pub(crate) fn skills(&self) -> Arc<SkillCatalog> {
        self.common.skills_read.wait();
        self.common.skills.read().clone()
    }

    pub(crate) fn styles(&self) -> Arc<OutputStyles> {
        self.common.styles.read().clone()
    }

    pub(crate) fn plugins(&self) -> Vec<PluginContribution> {
        self.common.options.read().sources.plugins.clone()
    }

    /// Problems of files.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let mut problems = self.agents().problems.clone();
        problems.extend(self.skills().problems.iter().cloned());
        problems.extend(self.styles().problems.iter().cloned());
        problems
    }

    /// The files that have no effect at all, for the start of a session. The other problems are shown by `/skills`,
    /// `lathe skills validate` and `lathe doctor`.
    pub(crate) fn remarks(&self) -> Vec<Diagnostic> {
        const SHOWN: usize = 5;
        let problems = self.problems();
        let lost: Vec<&Problem> = problems.iter().filter(|problem| problem.fatal).collect();
        let shown = lost.iter().take(SHOWN);
        let mut remarks: Vec<Diagnostic> =
            shown.map(|problem| Diagnostic::from(*problem)).collect();
        if lost.len() > SHOWN {
            remarks.push(Diagnostic::error(format!(
                "{} more files of agents, skills and commands have no effect; `lathe skills validate` and `lathe agents validate` list them",
                lost.len() - SHOWN
            )));
        }
        remarks
    }

    /// The names of the skills for faces, without those that wait for a file.
    pub(crate) fn skill_names(&self) -> Vec<String> {
        let skills = self.skills();
        let awake = self.state.lock().awake.clone();
        skills
            .iter()
            .filter(|skill| skill.form == SkillForm::Skill)
            .filter(|skill| !skill.is_conditional() || awake.contains(&skill.name))
            .map(|skill| skill.name.clone())
            .collect()
    }

    /// The name of the output style in effect.
    pub(crate) fn style_name(&self) -> String {
        self.common.style.lock().0.clone()
    }

    /// Chooses the style that settings name. One that doesn't exist is an error, and the default is used; its name is
    /// still the one that is reported, since a host compares it with its settings.
    pub(crate) fn choose_style(
        &self,
        wanted: Option<&str>,
        remarks: &mut Vec<Diagnostic>,
    ) -> OutputStyle {
        let styles = self.styles();
        let wanted = wanted.unwrap_or(output_style::DEFAULT);
        let found = styles.get(wanted).or_else(|| {
            let known = styles.names().join(", ");
            remarks.push(
                Diagnostic::error(format!("there is no style {wanted:?}; styles: {known}"))
                    .about("outputStyle"),
            );
            styles.get(output_style::DEFAULT)
        });
        let known = styles.get(wanted).map(|style| style.name.clone());
        self.common.style.lock().0 = known.unwrap_or_else(|| wanted.to_owned());
        found.cloned().unwrap_or_default()
    }

    /// Changes the style of a running session from the next request on.
    ///
    /// # Errors
    /// When there is none of that name.
    pub(crate) fn change_style(&self, name: &str) -> Result<String, UnknownStyle> {
        let styles = self.styles();
        let Some(style) = styles.get(name) else {
            return Err(UnknownStyle {
                name: name.to_owned(),
                known: styles.names().join(", "),
            });
        };
        *self.common.style.lock() = (style.name.clone(), true);
        Ok(style.name.clone())
    }

    /// The style that was changed to since the prompt was written.
    fn changed_style(&self) -> Option<OutputStyle> {
        let mut style = self.common.style.lock();
        if !std::mem::take(&mut style.1) {
            return None;
        }
        self.styles().get(&style.0).cloned()
    }

    /// The folders that are watched.
    fn watched(&self) -> Vec<PathBuf> {
        use lathe_extensions::Kind;
        let options = self.common.options.read();
        [
            Kind::Agents,
            Kind::Skills,
            Kind::Commands,
            Kind::OutputStyles,
        ]
        .into_iter()
        .flat_map(|kind| options.sources.folders(kind))
        .map(|folder| folder.path)
        .collect()
    }

    /// Files were touched: looks for skills beside them and wakes those that wait for them. Gives whether there are
    /// new ones.
    pub(crate) fn touched(&self, paths: &[PathBuf]) -> bool {
        let mut found = false;
        for path in paths {
            found |= self.look_beside(path);
            let skills = self.skills();
            let mut state = self.state.lock();
            for skill in skills.iter().filter(|skill| skill.is_conditional()) {
                if !state.awake.contains(&skill.name) && skill.covers(path) {
                    state.awake.insert(skill.name.clone());
                }
            }
        }
        found
    }

    /// Looks for skills beside a file. Gives whether there are new ones.
    fn look_beside(&self, path: &Path) -> bool {
        let options = self.common.options.read();
        if !self.skills().is_new_place(path, &options.sources) {
            return false;
        }
        let mut skills = self.common.skills.write();
        let catalog = Arc::make_mut(&mut *skills);
        let found = !catalog.discover(path, &options.sources).is_empty();
        if found {
            choose(catalog, &options);
        }
        found
    }

    /// Whether a skill of that name is loaded: a host may have named the only ones.
    fn is_wanted(&self, name: &str) -> bool {
        let options = self.common.options.read();
        let only = options.only_skills.as_ref();
        only.is_none_or(|names| names.iter().any(|known| known == name))
    }

    /// The skills in use, for a compaction: the newest first, each within its share.
    pub(crate) fn restored(&self) -> Vec<String> {
        using::restored(&self.state.lock().used)
    }

    /// The conversation was compacted: what was told is gone.
    pub(crate) fn forget_told(&self) {
        let mut state = self.state.lock();
        state.told.clear();
        state.settled = None;
        state.told_tokens = 0;
    }

    /// Tokens that the listing of skills takes.
    pub(crate) fn told_tokens(&self) -> u64 {
        self.state.lock().told_tokens
    }

    /// The model and effort that a skill in use wants.
    pub(crate) fn choices(&self) -> (Option<String>, Option<Effort>) {
        let state = self.state.lock();
        (state.model.clone(), state.effort)
    }
}

/// An output style that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("There is no output style {name:?}. Styles: {known}.")]
pub struct UnknownStyle {
    name: String,
    known: String,
}

fn load_skills(options: &ExtensionOptions) -> SkillCatalog {
    let mut skills = SkillCatalog::load(&options.sources);
    choose(&mut skills, options);
    skills
}

/// A host may select skills; commands are always offered. Settings may restrict some of them.
fn choose(catalog: &mut SkillCatalog, options: &ExtensionOptions) {
    catalog.override_with(&options.overrides);
    if options.without_skills {
        catalog.retain(|_| false);
    }
    if let Some(names) = &options.only_skills {
        catalog.retain(|skill: &Skill| {
            skill.form == SkillForm::Command || names.contains(&skill.name)
        });
    }
}
