//! Which hooks there are.
//!
//! Hooks come from settings, plugins, the front matter of skills and agents while those are active,
//! the session and the SDK host; sources add up and can be taken away again. Settings may be replaced
//! at any time while hooks run: a run keeps the hooks that it started with.

use crate::host::{CallbackHost, HookModel, HookTools};
use crate::http::HttpLimits;
use crate::matcher::Matcher;
use crate::run::LateAnswer;
use lathe_protocol::diagnostic::Diagnostic;
use lathe_protocol::hook::{HookEvent, OnFailure};
use lathe_settings::load::{HookSwitches, Resolved};
use lathe_settings::schema::{HookDefinition, HookGroup, HookKind, key_variables};
use lathe_settings::source::Source;
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Where a hook comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum HookSource {
    /// A settings file.
    Settings(Source),
    /// A plugin, by name.
    Plugin(String),
    /// A skill or command, while it is active.
    Skill(String),
    /// An agent, while it runs.
    Agent(String),
    /// This session only.
    Session,
    /// The SDK host.
    Host,
}

impl fmt::Display for HookSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(source) => write!(f, "{source} settings"),
            Self::Plugin(name) => write!(f, "plugin {name}"),
            Self::Skill(name) => write!(f, "skill {name}"),
            Self::Agent(name) => write!(f, "agent {name}"),
            Self::Session => f.write_str("this session"),
            Self::Host => f.write_str("SDK host"),
        }
    }
}

/// Names hooks that were added, to take them away again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceHandle(u64);

/// A hook as it is listed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookListing {
    /// The event.
    pub event: HookEvent,
    /// Which events of that kind.
    pub matcher: Option<String>,
    /// The kind of hook.
    pub kind: HookKind,
    /// The hook, as the user would recognise it.
    pub hook: String,
    /// The rule that a call must match.
    pub condition: Option<String>,
    /// Where it comes from.
    pub source: HookSource,
    /// The file in which it stands.
    pub file: Option<PathBuf>,
    /// After how many seconds it is stopped.
    pub timeout: f64,
    /// Why it doesn't run, if it doesn't.
    pub off: Option<String>,
}

/// A hook, ready to run.
#[derive(Debug)]
pub(crate) struct Hook {
    pub(crate) event: HookEvent,
    pub(crate) source: HookSource,
    pub(crate) file: Option<PathBuf>,
    pub(crate) matcher_text: Option<String>,
    pub(crate) matcher: Matcher,
    pub(crate) definition: HookDefinition,
    /// The plugin's or skill's own folder.
    pub(crate) root: Option<PathBuf>,
    /// Equal for hooks that do the same.
    pub(crate) identity: String,
    pub(crate) name: String,
}

#[derive(Default)]
struct State {
    settings: Vec<Arc<Hook>>,
    added: Vec<(SourceHandle, Vec<Arc<Hook>>)>,
    switches: HookSwitches,
    http: HttpLimits,
    environment: BTreeMap<String, String>,
    /// Variables with keys of providers, which hooks don't get.
    withheld: BTreeSet<String>,
    next_handle: u64,
    problems: Vec<Diagnostic>,
}

#[derive(Default, Clone)]
pub(crate) struct Hosts {
    pub(crate) callbacks: Option<Arc<dyn CallbackHost>>,
    pub(crate) model: Option<Arc<dyn HookModel>>,
    pub(crate) tools: Option<Arc<dyn HookTools>>,
}

/// All hooks of a session.
pub struct HookRegistry {
    state: RwLock<State>,
    hosts: RwLock<Hosts>,
    fired_once: Mutex<HashSet<String>>,
    pub(crate) late: mpsc::UnboundedSender<LateAnswer>,
    pub(crate) background: TaskTracker,
    pub(crate) ending: CancellationToken,
    pub(crate) rewoken: Arc<Notify>,
}

impl fmt::Debug for HookRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookRegistry")
            .field("hooks", &self.list().len())
            .finish()
    }
}

impl HookRegistry {
    /// An empty registry, and where the answers of background hooks arrive.
    #[must_use]
    pub fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<LateAnswer>) {
        let (late, answers) = mpsc::unbounded_channel();
        let registry = Self {
            state: RwLock::default(),
            hosts: RwLock::default(),
            fired_once: Mutex::default(),
            late,
            background: TaskTracker::new(),
            ending: CancellationToken::new(),
            rewoken: Arc::default(),
        };
        (Arc::new(registry), answers)
    }

    /// Takes the hooks of settings, in place of those it had from settings before. Hooks of a folder
    /// that isn't trusted are not among them: loading has withheld those.
    pub fn set_settings(&self, resolved: &Resolved) {
        let mut hooks = Vec::new();
        let mut problems = Vec::new();
        for layer in &resolved.layers {
            build(
                &HookSource::Settings(layer.source),
                layer.path.as_deref(),
                None,
                &layer.hooks(),
                &mut hooks,
                &mut problems,
            );
        }
        let mut state = self.state.write();
        state.settings = hooks;
        state.problems = problems;
        state.switches = resolved.hook_switches();
        state.http = HttpLimits::of(&resolved.settings);
        state.environment = resolved.environment();
        state.withheld = key_variables(&resolved.settings);
    }

    /// Adds hooks of a plugin, skill, agent or the session; `root` is its own folder. Returns what is
    /// needed to take them away, and what is wrong with them.
    pub fn add(
        &self,
        source: &HookSource,
        root: Option<&Path>,
        groups: &BTreeMap<String, Vec<HookGroup>>,
    ) -> (SourceHandle, Vec<Diagnostic>) {
        let mut hooks = Vec::new();
        let mut problems = Vec::new();
        build(source, None, root, groups, &mut hooks, &mut problems);
        let mut state = self.state.write();
        let handle = SourceHandle(state.next_handle);
        state.next_handle += 1;
        state.added.push((handle, hooks));
        (handle, problems)
    }

    /// Adds functions of the SDK host, as `initialize` names them.
    pub fn add_callbacks(
        &self,
        event: HookEvent,
        matcher: Option<&str>,
        callback_ids: &[String],
        timeout: Option<f64>,
        on_failure: Option<OnFailure>,
    ) -> (SourceHandle, Vec<Diagnostic>) {
        let hooks = callback_ids
            .iter()
            .map(|id| HookDefinition {
                callback_id: Some(id.clone()),
                timeout,
                on_failure,
                ..empty_definition(HookKind::Callback)
            })
            .collect();
        let group = HookGroup {
            matcher: matcher.map(str::to_owned),
            hooks,
            ..HookGroup::default()
        };
        let groups = BTreeMap::from([(event.name().to_owned(), vec![group])]);
        self.add(&HookSource::Host, None, &groups)
    }

    /// Takes hooks away that were added.
    pub fn remove(&self, handle: SourceHandle) {
        self.state
            .write()
            .added
            .retain(|(known, _)| *known != handle);
    }

    /// Sets the service that calls functions of the SDK host.
    pub fn set_callbacks(&self, host: Arc<dyn CallbackHost>) {
        self.hosts.write().callbacks = Some(host);
    }

    /// Sets the model that answers prompt and agent hooks.
    pub fn set_model(&self, model: Arc<dyn HookModel>) {
        self.hosts.write().model = Some(model);
    }

    /// Sets the service that calls MCP tools for hooks.
    pub fn set_tools(&self, tools: Arc<dyn HookTools>) {
        self.hosts.write().tools = Some(tools);
    }

    /// Waits until a background hook objected that wants the model to hear it at once (`asyncRewake`).
    pub async fn rewoken(&self) {
        self.rewoken.notified().await;
    }

    /// Problems of the hooks in settings.
    #[must_use]
    pub fn problems(&self) -> Vec<Diagnostic> {
        self.state.read().problems.clone()
    }

    /// Whether any hook would run for an event with this value (a tool's name, a source, a trigger).
    /// Costs next to nothing; ask it before building an input. Conditions (`if`) are not looked at.
    #[must_use]
    pub fn matches(&self, event: HookEvent, value: Option<&str>) -> bool {
        let state = self.state.read();
        state.all().any(|hook| {
            hook.event == event && state.off(hook).is_none() && hook.matcher.matches(value)
        })
    }

    /// All hooks, with where they come from and whether they run.
    #[must_use]
    pub fn list(&self) -> Vec<HookListing> {
        let state = self.state.read();
        state
            .all()
            .map(|hook| HookListing {
                event: hook.event,
                matcher: hook.matcher_text.clone(),
                kind: hook.definition.kind,
                hook: hook.name.clone(),
                condition: hook.definition.condition.clone(),
                source: hook.source.clone(),
                file: hook.file.clone(),
                timeout: hook.limit().as_secs_f64(),
                off: state.off(hook).map(str::to_owned),
            })
            .collect()
    }

    /// The hooks that run for an event, equal ones once. `holds` says whether a condition holds. Hooks of
    /// an agent's definition run only where such an agent works.
    pub(crate) fn select(
        &self,
        event: HookEvent,
        value: Option<&str>,
        agent: Option<&str>,
        holds: &dyn Fn(&str) -> bool,
    ) -> Vec<Arc<Hook>> {
        let state = self.state.read();
        let mut chosen: Vec<Arc<Hook>> = Vec::new();
        for hook in state.all() {
            if hook.event != event || state.off(hook).is_some() || !hook.matcher.matches(value) {
                continue;
            }
            if let HookSource::Agent(name) = &hook.source
                && agent != Some(name.as_str())
            {
                continue;
            }
            if hook
                .definition
                .condition
                .as_deref()
                .is_some_and(|condition| !holds(condition))
            {
                continue;
            }
            if chosen.iter().any(|known| known.identity == hook.identity) {
                continue;
            }
            if hook.definition.once == Some(true)
                && !self
                    .fired_once
                    .lock()
                    .insert(format!("{event} {}", hook.identity))
            {
                continue;
            }
            chosen.push(Arc::clone(hook));
        }
        chosen
    }

    pub(crate) fn hosts(&self) -> Hosts {
        self.hosts.read().clone()
    }

    pub(crate) fn http_limits(&self) -> HttpLimits {
        self.state.read().http.clone()
    }

    /// The variables that settings ask for.
    #[must_use]
    pub fn settings_environment(&self) -> BTreeMap<String, String> {
        self.state.read().environment.clone()
    }

    /// The variables with keys of providers, which hooks and helpers don't get.
    #[must_use]
    pub fn withheld(&self) -> BTreeSet<String> {
        self.state.read().withheld.clone()
    }

    /// Ends all background hooks and waits until they are gone.
    pub async fn shut_down(&self) {
        self.ending.cancel();
        self.background.close();
        self.background.wait().await;
    }
}

impl State {
    fn all(&self) -> impl Iterator<Item = &Arc<Hook>> {
        self.settings
            .iter()
            .chain(self.added.iter().flat_map(|(_, hooks)| hooks))
    }

    /// Why a hook doesn't run. The host's own functions always do: they belong to the program that
    /// runs Lathe, and switching its checks off behind its back would widen rights.
    fn off(&self, hook: &Hook) -> Option<&'static str> {
        let managed = hook.source == HookSource::Settings(Source::Managed);
        let switches = self.switches;
        if hook.source == HookSource::Host {
            None
        } else if managed {
            switches
                .managed_disabled
                .then_some("disableAllHooks in managed settings")
        } else if switches.managed_only {
            Some("allowManagedHooksOnly")
        } else if switches.disabled {
            Some("disableAllHooks")
        } else {
            None
        }
    }
}

fn build(
    source: &HookSource,
    file: Option<&Path>,
    root: Option<&Path>,
    events: &BTreeMap<String, Vec<HookGroup>>,
    hooks: &mut Vec<Arc<Hook>>,
    problems: &mut Vec<Diagnostic>,
) {
    let place = file.map_or_else(|| source.to_string(), |file| file.display().to_string());
    for (event_name, groups) in events {
        // Loading settings has warned about it with line and column already.
        let Ok(event) = event_name.parse::<HookEvent>() else {
            continue;
        };
        for group in groups {
            let matcher = Matcher::parse(group.matcher.as_deref()).unwrap_or_else(|error| {
                problems.push(Diagnostic::error(format!("hooks.{event}: {error}")).about(&place));
                Matcher::Nothing
            });
            for definition in &group.hooks {
                if let Some(missing) = missing_part(definition) {
                    let text = format!(
                        "hooks.{event}: a {} hook needs \"{missing}\"; it never runs",
                        kind_name(definition.kind)
                    );
                    problems.push(Diagnostic::error(text).about(&place));
                    continue;
                }
                hooks.push(Arc::new(Hook {
                    event,
                    source: source.clone(),
                    file: file.map(Path::to_path_buf),
                    matcher_text: group.matcher.clone(),
                    matcher: matcher.clone(),
                    identity: identity(definition, root),
                    name: name(definition),
                    definition: definition.clone(),
                    root: root.map(Path::to_path_buf),
                }));
            }
        }
    }
}

fn missing_part(definition: &HookDefinition) -> Option<&'static str> {
    let empty = |part: &Option<String>| part.as_deref().is_none_or(|text| text.trim().is_empty());
    match definition.kind {
        HookKind::Command => empty(&definition.command).then_some("command"),
        HookKind::Http => empty(&definition.url).then_some("url"),
        HookKind::Prompt | HookKind::Agent => empty(&definition.prompt).then_some("prompt"),
        HookKind::Callback => empty(&definition.callback_id).then_some("callbackId"),
        HookKind::McpTool if empty(&definition.server) => Some("server"),
        HookKind::McpTool => empty(&definition.tool).then_some("tool"),
    }
}

pub(crate) fn kind_name(kind: HookKind) -> &'static str {
    match kind {
        HookKind::Command => "command",
        HookKind::Http => "http",
        HookKind::Prompt => "prompt",
        HookKind::Agent => "agent",
        HookKind::McpTool => "mcp_tool",
        HookKind::Callback => "callback",
    }
}

/// Identifies what a hook does, regardless of its time limit and status message.
fn identity(definition: &HookDefinition, root: Option<&Path>) -> String {
    let HookDefinition {
        kind,
        command,
        args,
        shell,
        url,
        prompt,
        model,
        callback_id,
        server,
        tool,
        input,
        condition,
        ..
    } = definition;
    format!(
        "{kind:?} {command:?} {args:?} {shell:?} {url:?} {prompt:?} {model:?} {callback_id:?} {server:?} {tool:?} {input:?} {condition:?} {root:?}"
    )
}

fn name(definition: &HookDefinition) -> String {
    let text = match definition.kind {
        HookKind::Command => definition.command.clone().unwrap_or_default(),
        HookKind::Http => definition.url.clone().unwrap_or_default(),
        HookKind::Prompt | HookKind::Agent => {
            format!(
                "{}: {}",
                kind_name(definition.kind),
                definition.prompt.as_deref().unwrap_or_default()
            )
        }
        HookKind::Callback => format!(
            "callback {}",
            definition.callback_id.as_deref().unwrap_or_default()
        ),
        HookKind::McpTool => format!(
            "{}/{}",
            definition.server.as_deref().unwrap_or_default(),
            definition.tool.as_deref().unwrap_or_default()
        ),
    };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > 100 {
        line.chars().take(99).chain(['…']).collect()
    } else {
        line
    }
}

/// A definition of a kind with nothing else said.
#[must_use]
pub fn empty_definition(kind: HookKind) -> HookDefinition {
    HookDefinition {
        kind,
        command: None,
        args: None,
        shell: None,
        url: None,
        headers: None,
        allowed_env_vars: None,
        prompt: None,
        model: None,
        callback_id: None,
        server: None,
        tool: None,
        input: None,
        condition: None,
        timeout: None,
        background: None,
        async_rewake: None,
        once: None,
        status_message: None,
        on_failure: None,
        continue_on_block: None,
        extra: serde_json::Map::new(),
    }
}
