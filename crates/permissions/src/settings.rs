//! From settings to a context with its rules, and from answers back to settings files.

use crate::classifier::Guide;
use crate::context::PermissionContext;
use crate::limits::Outside;
use crate::live::Store;
use crate::path::real_folder;
use crate::pattern::Anchors;
use crate::protected::IgnoreFile;
use crate::ruleset::{RuleProblem, RuleSet};
use lathe_protocol::permission::PermissionUpdate;
use lathe_settings::load::Resolved;
use lathe_settings::paths::Places;
use lathe_settings::write::{OwnWrites, save_update};

/// Compiles the rules of all settings sources. Rules that don't parse are returned with their file
/// and line; they have no effect.
#[must_use]
pub fn rules_of(settings: &Resolved, context: &PermissionContext) -> (RuleSet, Vec<RuleProblem>) {
    let mut rules = RuleSet::default();
    let mut problems = Vec::new();
    for rule in settings.rules() {
        let anchors = Anchors {
            settings_folder: rule.folder.clone(),
            ..context.anchors(rule.source)
        };
        let file = rule.file.as_ref().map_or_else(
            || "--settings".to_owned(),
            |file| file.display().to_string(),
        );
        let place = match rule.position {
            Some(position) => format!("{file}:{}:{}", position.line, position.column),
            None => file,
        };
        problems.extend(rules.add_texts(
            [(rule.rule.as_str(), place)],
            rule.behavior,
            rule.source,
            &anchors,
        ));
    }
    let only_policy = settings.settings.allow_managed_permission_rules_only == Some(true);
    rules.set_only_policy_grants(only_policy);
    let fetching = settings.settings.web_fetch.as_ref();
    rules.set_documentation_hosts(fetching.and_then(|it| it.documentation_hosts) != Some(false));
    (rules, problems)
}

/// Access outside the working directories that settings block.
#[must_use]
pub fn outside_of(settings: &Resolved) -> Outside {
    let configured = settings.settings.permissions.as_ref();
    let on = |value: Option<bool>| value == Some(true);
    Outside {
        blocks_reads: configured.is_some_and(|it| on(it.block_reads_outside_working_directories)),
        blocks_writes: configured.is_some_and(|it| on(it.block_writes_outside_working_directories)),
    }
}

/// Whether a call that would be asked about is refused.
#[must_use]
pub fn denies_questions(settings: &Resolved) -> bool {
    let configured = settings.settings.permissions.as_ref();
    configured.and_then(|it| it.deny_instead_of_prompting) == Some(true)
}

/// A context from settings: rules, roots, mode, `.latheignore`. What is wrong is said in texts.
/// `bypass_available` stays false; that takes a flag.
#[must_use]
pub fn context_of(
    places: &Places,
    settings: &Resolved,
    trusted: bool,
) -> (PermissionContext, Vec<String>) {
    let environment = &places.environment;
    let home = environment
        .home
        .clone()
        .unwrap_or_else(|| environment.cwd.clone());
    let mut context = PermissionContext::new(&environment.cwd, &home, &places.config_home);
    context.project.clone_from(&places.project);
    context.trusted = trusted;
    let sockets = lathe_settings::paths::socket_folder(environment);
    context.files.sockets = Some(real_folder(&sockets));
    if let Some(path) = environment.variables.get("PATH") {
        context.set_search_path(path);
    }
    let (rules, problems) = rules_of(settings, &context);
    context.rules = rules;
    context.limits.outside = outside_of(settings);
    let mut remarks: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let (ignore, problems) = IgnoreFile::load(&places.project);
    context.files.ignore = ignore;
    remarks.extend(problems);
    for (folder, _) in settings.directories(places) {
        let root = real_folder(&folder);
        if !context.roots.contains(&root) {
            context.roots.push(root);
        }
    }
    if let Some(mode) = settings
        .settings
        .permissions
        .as_ref()
        .and_then(|configured| configured.default_mode)
    {
        context.mode = mode;
    }
    (context, remarks)
}

/// The user's descriptions for auto mode.
#[must_use]
pub fn guide_of(settings: &Resolved) -> Guide {
    settings
        .settings
        .auto_mode
        .as_ref()
        .map_or_else(Guide::default, |auto| Guide {
            allow: auto.allow.clone(),
            soft_deny: auto.soft_deny.clone(),
            hard_deny: auto.hard_deny.clone(),
            environment: auto.environment.clone(),
        })
}

/// Keeps lasting changes in the settings files.
pub struct SettingsStore {
    places: Places,
    own: OwnWrites,
}

impl SettingsStore {
    /// A store for these places. `own` keeps the watcher from reporting our own writes.
    #[must_use]
    pub fn new(places: Places, own: OwnWrites) -> Self {
        Self { places, own }
    }
}

impl Store for SettingsStore {
    fn save(&self, update: &PermissionUpdate) -> Result<(), crate::live::SaveError> {
        save_update(&self.places, update, Some(&self.own))?;
        Ok(())
    }
}
