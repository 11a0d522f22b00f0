//! From settings to rules, and from answers back to settings.

use crate::context::PermissionContext;
use crate::pattern::Anchors;
use crate::ruleset::{RuleProblem, RuleSet};
use lathe_settings::load::Resolved;

/// Compiles the rules of all settings sources. Rules that don't parse are returned with their file
/// and line; they count for nothing.
#[must_use]
pub fn rules_of(settings: &Resolved, context: &PermissionContext) -> (RuleSet, Vec<RuleProblem>) {
    let mut rules = RuleSet::default();
    let mut problems = Vec::new();
    for rule in settings.rules() {
        let anchors = Anchors {
            home: context.home.clone(),
            cwd: context.cwd.clone(),
            settings_folder: rule.folder.clone(),
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
    (rules, problems)
}
