//! The permissions of a running session: the context, how it changes, and what was refused.
//!
//! A decision is made on a [`snapshot`](Permissions::snapshot), so a change in the middle of a call
//! never half-applies. Changes come as [`PermissionUpdate`]s: from the user's answer, a host, a hook.
//! Changes that outlive the session go through a [`Store`]; when saving fails the change still
//! applies to the session, and the error says so.

use crate::broad::is_too_broad;
use crate::context::PermissionContext;
use crate::files::{self, Toucher};
use crate::limits::Outside;
use crate::path::{ResolvedPath, fold, real_folder, resolve_path};
use crate::rule::RuleError;
use crate::ruleset::{Rule, RuleSet};
use lathe_protocol::permission::{
    Behavior, PermissionDenial, PermissionMode, PermissionUpdate, RuleSource, RuleValue,
};
use lathe_settings::{Environment, Resolved, Variable};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a lasting change was not kept.
pub type SaveError = Box<dyn std::error::Error + Send + Sync>;

/// Where lasting changes are kept.
pub trait Store: Send + Sync {
    /// Keeps a change at its destination (user, project or local settings).
    ///
    /// # Errors
    /// When it could not be written; the error names the file.
    fn save(&self, update: &PermissionUpdate) -> Result<(), SaveError>;
}

/// The initial state of a session.
pub struct PermissionsConfig {
    /// The context to start with.
    pub context: PermissionContext,
    /// Who asks for the modes, and where.
    pub gates: ModeGates,
    /// Where lasting changes are kept; `None` keeps everything in memory.
    pub store: Option<Box<dyn Store>>,
}

/// Reasons to refuse a mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModeGates {
    /// The process is privileged (root).
    pub privileged: bool,
    /// The process runs in a container or machine made for this (`IS_SANDBOX=1`).
    pub contained: bool,
    /// Policy takes the mode bypassPermissions away.
    pub bypass_disabled: bool,
    /// Policy takes the mode auto away.
    pub auto_disabled: bool,
    /// In auto mode the classifier judges every shell command: allow rules for them are suspended there.
    pub classifies_all_shell: bool,
}

impl ModeGates {
    /// The gates of this process: its user, and `IS_SANDBOX` in its environment.
    #[must_use]
    pub fn of(environment: &Environment) -> Self {
        Self {
            privileged: is_privileged(),
            contained: environment.get(Variable::IsSandbox) == Some("1"),
            ..Self::default()
        }
    }

    /// Takes over what settings say.
    pub fn take_from(&mut self, settings: &Resolved) {
        let configured = settings.settings.permissions.as_ref();
        self.bypass_disabled =
            configured.is_some_and(|it| it.disable_bypass_permissions_mode.is_some());
        self.auto_disabled = configured.is_some_and(|it| it.disable_auto_mode.is_some());
        let auto = settings.settings.auto_mode.as_ref();
        self.classifies_all_shell = auto.and_then(|auto| auto.classify_all_shell) == Some(true);
    }

    /// Whether a mode may be entered.
    ///
    /// # Errors
    /// Why not, and what would help.
    pub fn check(self, mode: PermissionMode, bypass_available: bool) -> Result<(), ModeRefused> {
        match mode {
            PermissionMode::BypassPermissions => {
                if self.bypass_disabled {
                    Err(ModeRefused::DisabledByPolicy(mode))
                } else if self.privileged && !self.contained {
                    Err(ModeRefused::Privileged)
                } else if !bypass_available {
                    Err(ModeRefused::NotEnabled)
                } else {
                    Ok(())
                }
            }
            PermissionMode::Auto if self.auto_disabled => Err(ModeRefused::DisabledByPolicy(mode)),
            _ => Ok(()),
        }
    }
}

#[cfg(unix)]
fn is_privileged() -> bool {
    nix::unistd::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_privileged() -> bool {
    false
}

/// Why a mode was not entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ModeRefused {
    /// As root, everything could be destroyed.
    #[error(
        "permission mode bypassPermissions is refused for root: one wrong command could destroy the machine; \
         run as another user, or set IS_SANDBOX=1 inside a container made for this"
    )]
    Privileged,
    /// Policy says no.
    #[error(
        "permission mode {0} is disabled by settings (permissions.disableBypassPermissionsMode, permissions.disableAutoMode)"
    )]
    DisabledByPolicy(PermissionMode),
    /// Nobody asked for it at the start.
    #[error(
        "permission mode bypassPermissions was not enabled for this session; \
         start with --permission-mode bypassPermissions or --dangerously-skip-permissions"
    )]
    NotEnabled,
}

/// Why a change didn't happen, or not wholly.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum UpdateError {
    /// A rule that is none.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// A mode that may not be entered.
    #[error(transparent)]
    Mode(#[from] ModeRefused),
    /// A place that is never written.
    #[error(
        "{0:?} can't be changed from a session; choose userSettings, projectSettings, localSettings or session"
    )]
    ReadOnlyDestination(RuleSource),
    /// It applies to this session but could not be saved.
    #[error("it applies to this session, but could not be saved: {0}")]
    NotSaved(String),
}

struct State {
    context: Arc<PermissionContext>,
    /// Rules that auto mode doesn't honour, to be put back when it ends.
    set_aside: Vec<Rule>,
    /// Rules given during this session for a settings file: they outlive a reload of that file.
    given: Vec<Rule>,
    denials: Vec<PermissionDenial>,
    gates: ModeGates,
}

/// The live permissions of a session; shared by everything that decides.
pub struct Permissions {
    state: Mutex<State>,
    store: Option<Box<dyn Store>>,
    /// Counts the changes.
    changes: tokio::sync::watch::Sender<u64>,
}

impl Permissions {
    /// Starts with a context.
    ///
    /// # Errors
    /// When its mode may not be entered here.
    pub fn new(config: PermissionsConfig) -> Result<Self, ModeRefused> {
        let PermissionsConfig {
            mut context,
            gates,
            store,
        } = config;
        let mode = context.mode;
        gates.check(mode, context.bypass_available)?;
        context.bypass_available &= gates.check(PermissionMode::BypassPermissions, true).is_ok();
        context.mode = PermissionMode::Default;
        let mut state = State {
            context: Arc::new(context),
            set_aside: Vec::new(),
            given: Vec::new(),
            denials: Vec::new(),
            gates,
        };
        state.enter(mode);
        Ok(Self {
            state: Mutex::new(state),
            store,
            changes: tokio::sync::watch::Sender::new(0),
        })
    }

    /// The permissions of a sub-agent that differ from these: what counts now, changed. The gates stay;
    /// nothing that changes there is saved from there.
    #[must_use]
    pub fn for_agent(&self, change: impl FnOnce(&mut PermissionContext)) -> Self {
        let mut context = PermissionContext::clone(&self.snapshot());
        let before = context.mode;
        change(&mut context);
        // A mode that may not be entered here is not entered by an agent either.
        let wanted = context.mode;
        let gates = self.state.lock().gates;
        let allowed = gates.check(wanted, context.bypass_available).is_ok();
        context.mode = before;
        let mut state = State {
            context: Arc::new(context),
            set_aside: Vec::new(),
            given: Vec::new(),
            denials: Vec::new(),
            gates,
        };
        if allowed && wanted != before {
            state.enter(wanted);
        }
        Self {
            state: Mutex::new(state),
            store: None,
            changes: tokio::sync::watch::Sender::new(0),
        }
    }

    /// Tells when rules changed.
    #[must_use]
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// The current context.
    #[must_use]
    pub fn snapshot(&self) -> Arc<PermissionContext> {
        Arc::clone(&self.state.lock().context)
    }

    /// The mode.
    #[must_use]
    pub fn mode(&self) -> PermissionMode {
        self.state.lock().context.mode
    }

    /// Changes the mode. Entering auto sets over-broad allow rules aside, leaving it puts them back.
    ///
    /// # Errors
    /// When the mode may not be entered.
    pub fn set_mode(&self, mode: PermissionMode) -> Result<(), ModeRefused> {
        let mut state = self.state.lock();
        state.gates.check(mode, state.context.bypass_available)?;
        state.enter(mode);
        Ok(())
    }

    /// Takes modes away, or gives them back, as settings that changed say. A mode that is taken away is left
    /// at once: gives the mode that takes its place.
    pub fn restrict_modes(&self, settings: &Resolved) -> Option<PermissionMode> {
        let mut state = self.state.lock();
        state.gates.take_from(settings);
        let mode = state.context.mode;
        if state.gates.check(mode, true).is_ok() {
            return None;
        }
        state.enter(PermissionMode::Default);
        Some(PermissionMode::Default)
    }

    /// The mode that comes after this one when the user cycles through them.
    #[must_use]
    pub fn next_mode(&self) -> PermissionMode {
        use PermissionMode::{AcceptEdits, Auto, BypassPermissions, Default, DontAsk, Plan};
        let context = self.snapshot();
        let gates = self.state.lock().gates;
        let fine = |mode| gates.check(mode, context.bypass_available).is_ok();
        match context.mode {
            Default => AcceptEdits,
            AcceptEdits => Plan,
            Plan if fine(Auto) => Auto,
            Plan | Auto if fine(BypassPermissions) => BypassPermissions,
            Plan | Auto | BypassPermissions | DontAsk => Default,
        }
    }

    /// Applies a change: in memory at once, and at its destination if that is a settings file.
    ///
    /// # Errors
    /// When it is not applied, or ([`UpdateError::NotSaved`]) applied for this session only.
    pub fn apply(&self, update: &PermissionUpdate) -> Result<(), UpdateError> {
        let destination = destination_of(update);
        if matches!(
            destination,
            RuleSource::PolicySettings | RuleSource::FlagSettings
        ) {
            return Err(UpdateError::ReadOnlyDestination(destination));
        }
        if let PermissionUpdate::SetMode { mode, .. } = update {
            self.set_mode(*mode)?;
        } else {
            self.state.lock().apply(update)?;
        }
        self.changed();
        let lasting = matches!(
            destination,
            RuleSource::UserSettings | RuleSource::ProjectSettings | RuleSource::LocalSettings
        );
        match &self.store {
            Some(store) if lasting => store
                .save(update)
                .map_err(|error| UpdateError::NotSaved(error.to_string())),
            _ => Ok(()),
        }
    }

    /// Adds a working root for this session.
    pub fn add_root(&self, folder: &Path) {
        self.state
            .lock()
            .add_roots(std::slice::from_ref(&folder.to_path_buf()));
    }

    /// Replaces what settings files say, as after one changed. Rules of the session, of the command
    /// line and of active commands stay, and so do rules that were given in this session.
    pub fn reload(&self, from_settings: &RuleSet, limits: Outside) {
        let mut state = self.state.lock();
        let mode = state.context.mode;
        state.enter(PermissionMode::Default);
        let given = state.given.clone();
        let context = Arc::make_mut(&mut state.context);
        context.rules.retain(|rule| !is_from_settings(rule.source));
        for rule in from_settings.iter().chain(&given) {
            context.rules.add(rule.clone());
        }
        context
            .rules
            .set_only_policy_grants(from_settings.only_policy_grants());
        context
            .rules
            .set_documentation_hosts(from_settings.documentation_hosts());
        context.limits.outside = limits;
        state.enter(mode);
        drop(state);
        self.changed();
    }

    /// Goes to another folder, as the function says; all rules come along.
    pub fn relocate(&self, change: impl FnOnce(&mut PermissionContext)) {
        let mut state = self.state.lock();
        let mode = state.context.mode;
        // Rules that are set aside come back first.
        state.enter(PermissionMode::Default);
        change(Arc::make_mut(&mut state.context));
        let twins = state.context.files.twins.clone();
        for rule in &mut state.given {
            rule.set_twins(twins.as_ref());
        }
        state.enter(mode);
        drop(state);
        self.changed();
    }

    /// Changes anything else of the context (the plan file, the sandbox, trust).
    pub fn update_context(&self, change: impl FnOnce(&mut PermissionContext)) {
        let mut state = self.state.lock();
        let mode = state.context.mode;
        let context = Arc::make_mut(&mut state.context);
        change(context);
        // The mode has its own door, with its own checks.
        context.mode = mode;
    }

    /// Whether a deny rule takes a whole tool away, so that the model is not offered it.
    #[must_use]
    pub fn is_blanket_denied(&self, tool_name: &str) -> bool {
        self.snapshot().rules.denies_whole(tool_name)
    }

    /// Whether the content of a file is not shown without the user's word: a secret, or a path that
    /// a rule forbids to read. For tools that look into many files at once.
    #[must_use]
    pub fn is_secret(&self, path: &Path) -> bool {
        let context = self.snapshot();
        // Asked for every file of a tree: the file system is asked only about links.
        let is_link = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        if is_link {
            let resolved = resolve_path(path);
            let blocked = context.limits.outside.blocks_reads;
            hides(&resolved, &context) || (blocked && !files::is_readable(&resolved, &context))
        } else {
            let written = fold(path);
            hides(
                &ResolvedPath {
                    real: Some(written.clone()),
                    written,
                    links: Vec::new(),
                    case_insensitive: false,
                    is_folder: false,
                    leads_anywhere: false,
                },
                &context,
            )
        }
    }

    /// Why the content of a file is not shown without the user's confirmation; `None` if it may be. Follows links
    /// anywhere in the path.
    #[must_use]
    pub fn why_hidden(&self, path: &Path) -> Option<String> {
        let context = self.snapshot();
        let resolved = resolve_path(path);
        if !hides(&resolved, &context) {
            return None;
        }
        let secret = resolved.forms().find_map(|form| context.secret(form));
        Some(secret.unwrap_or_else(|| format!("a rule closes `{}`", path.display())))
    }

    /// Whether a file is read without a question.
    #[must_use]
    pub fn reads_freely(&self, path: &Path) -> bool {
        self.snapshot().reads_freely(path)
    }

    /// The rules that auto mode has set aside.
    #[must_use]
    pub fn set_aside(&self) -> Vec<RuleValue> {
        self.state
            .lock()
            .set_aside
            .iter()
            .map(|rule| rule.value.clone())
            .collect()
    }

    /// Remembers a refusal.
    pub fn record_denial(&self, denial: PermissionDenial) {
        self.state.lock().denials.push(denial);
    }

    /// All refusals of the session.
    #[must_use]
    pub fn denials(&self) -> Vec<PermissionDenial> {
        self.state.lock().denials.clone()
    }

    /// The refusals since the last time, as a turn's result lists them.
    #[must_use]
    pub fn take_denials(&self) -> Vec<PermissionDenial> {
        std::mem::take(&mut self.state.lock().denials)
    }
}

impl State {
    fn enter(&mut self, mode: PermissionMode) {
        let was_auto = self.context.mode == PermissionMode::Auto;
        let is_auto = mode == PermissionMode::Auto;
        let context = Arc::make_mut(&mut self.context);
        context.mode = mode;
        if was_auto && !is_auto {
            for rule in self.set_aside.drain(..) {
                context.rules.add(rule);
            }
        }
        if is_auto {
            self.set_broad_rules_aside();
        }
    }

    fn set_broad_rules_aside(&mut self) {
        let context = Arc::make_mut(&mut self.context);
        let all_shell = self.gates.classifies_all_shell;
        let suspended = |rule: &Rule| {
            rule.behavior == Behavior::Allow
                && (is_too_broad(rule) || (all_shell && rule.is_about(&["Bash"])))
        };
        let broad: Vec<Rule> = context
            .rules
            .iter()
            .filter(|rule| suspended(rule))
            .cloned()
            .collect();
        context.rules.retain(|rule| !suspended(rule));
        self.set_aside.extend(broad);
    }

    fn apply(&mut self, update: &PermissionUpdate) -> Result<(), UpdateError> {
        match update {
            PermissionUpdate::AddRules {
                rules,
                behavior,
                destination,
            } => {
                let compiled = self.compile(rules, *behavior, *destination)?;
                self.add(compiled);
            }
            PermissionUpdate::ReplaceRules {
                rules,
                behavior,
                destination,
            } => {
                let compiled = self.compile(rules, *behavior, *destination)?;
                self.remove(|rule| rule.behavior == *behavior && rule.source == *destination);
                self.add(compiled);
            }
            PermissionUpdate::RemoveRules {
                rules,
                behavior,
                destination,
            } => {
                self.remove(|rule| {
                    rule.behavior == *behavior
                        && rule.source == *destination
                        && rules.contains(&rule.value)
                });
            }
            PermissionUpdate::AddDirectories { directories, .. } => self.add_roots(directories),
            PermissionUpdate::RemoveDirectories { directories, .. } => {
                let gone: Vec<PathBuf> = self.absolute(directories);
                let context = Arc::make_mut(&mut self.context);
                let start = real_folder(&context.cwd);
                // The folder that the session started in stays: without it nothing could be read.
                context
                    .roots
                    .retain(|root| *root == start || !gone.contains(root));
            }
            PermissionUpdate::SetMode { mode, .. } => self.enter(*mode),
        }
        Ok(())
    }

    fn compile(
        &self,
        rules: &[RuleValue],
        behavior: Behavior,
        source: RuleSource,
    ) -> Result<Vec<Rule>, RuleError> {
        let anchors = self.context.anchors(source);
        rules
            .iter()
            .map(|value| Rule::new(normal(value)?, behavior, source, &anchors))
            .collect()
    }

    fn add(&mut self, rules: Vec<Rule>) {
        let context = Arc::make_mut(&mut self.context);
        for rule in rules {
            if is_from_settings(rule.source) {
                self.given.push(rule.clone());
            }
            context.rules.add(rule);
        }
        if self.context.mode == PermissionMode::Auto {
            self.set_broad_rules_aside();
        }
    }

    fn remove(&mut self, gone: impl Fn(&Rule) -> bool) {
        Arc::make_mut(&mut self.context)
            .rules
            .retain(|rule| !gone(rule));
        self.set_aside.retain(|rule| !gone(rule));
        self.given.retain(|rule| !gone(rule));
    }

    fn absolute(&self, folders: &[PathBuf]) -> Vec<PathBuf> {
        folders
            .iter()
            .map(|folder| {
                let folder = match folder.strip_prefix("~") {
                    Ok(rest) => self.context.home.join(rest),
                    Err(_) => self.context.cwd.join(folder),
                };
                real_folder(&folder)
            })
            .collect()
    }

    fn add_roots(&mut self, folders: &[PathBuf]) {
        let new = self.absolute(folders);
        let context = Arc::make_mut(&mut self.context);
        for root in new {
            if !context.roots.contains(&root) {
                context.roots.push(root);
            }
        }
    }
}

/// A context in a mode, entered as a session enters it, and the rules that are suspended there.
pub(crate) fn entered(
    context: PermissionContext,
    mode: PermissionMode,
) -> (PermissionContext, Vec<Rule>) {
    let mut state = State {
        context: Arc::new(context),
        gates: ModeGates::default(),
        set_aside: Vec::new(),
        given: Vec::new(),
        denials: Vec::new(),
    };
    state.enter(mode);
    (Arc::unwrap_or_clone(state.context), state.set_aside)
}

/// Whether what a path holds is not shown without the user's word.
fn hides(path: &ResolvedPath, context: &PermissionContext) -> bool {
    let closed = context.rules.iter().any(|rule| {
        rule.behavior != Behavior::Allow && rule.is_for_reading() && rule.covers_any_form(path)
    });
    let bounds = &context.sandbox.bounds;
    closed
        || path
            .forms()
            .any(|form| bounds.refuse_reading(form).is_some())
        || (path.forms().any(|form| context.secret(form).is_some())
            && files::read(path, Toucher::Tool("Read"), context)
                .allow
                .is_none())
}

/// A rule as hosts send it, held to the same grammar as one in a file.
fn normal(value: &RuleValue) -> Result<RuleValue, RuleError> {
    crate::rule::parse_rule(&crate::rule::format_rule(value))
}

fn is_from_settings(source: RuleSource) -> bool {
    match source {
        RuleSource::PolicySettings
        | RuleSource::FlagSettings
        | RuleSource::UserSettings
        | RuleSource::ProjectSettings
        | RuleSource::LocalSettings => true,
        RuleSource::CliArg | RuleSource::Command | RuleSource::Session => false,
    }
}

pub(crate) fn destination_of(update: &PermissionUpdate) -> RuleSource {
    match update {
        PermissionUpdate::AddRules { destination, .. }
        | PermissionUpdate::ReplaceRules { destination, .. }
        | PermissionUpdate::RemoveRules { destination, .. }
        | PermissionUpdate::SetMode { destination, .. }
        | PermissionUpdate::AddDirectories { destination, .. }
        | PermissionUpdate::RemoveDirectories { destination, .. } => *destination,
    }
}
