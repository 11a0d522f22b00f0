//! Permission rules that don't parse, and rules without effect because another one comes first.

use crate::{Installation, Report};
use lathe_permissions::parse_rule;
use lathe_permissions::settings::{context_of, rules_of};
use lathe_protocol::permission::{Behavior, RuleValue};
use lathe_settings::SourcedRule;

pub(crate) fn permissions(installation: &Installation<'_>, report: &mut Report<'_>) {
    let (context, _) = context_of(
        &installation.places,
        &installation.settings,
        installation.trust.covers_folder(),
    );
    let (rules, problems) = rules_of(&installation.settings, &context);
    report.fine(format!("{} permission rules", rules.len()));
    for problem in &problems {
        report.error(
            problem.to_string(),
            "fix or remove it; `lathe permissions list` shows all rules",
        );
    }
    for (hidden, by) in shadowed(&installation.settings.rules()) {
        report.warning(
            format!(
                "{} {} ({}) has no effect: {} {} ({}) comes first",
                word(hidden.behavior),
                hidden.rule,
                place(hidden),
                word(by.behavior),
                by.rule,
                place(by)
            ),
            "remove one of the two",
        );
    }
}

fn word(behavior: Behavior) -> &'static str {
    match behavior {
        Behavior::Allow => "allow",
        Behavior::Ask => "ask",
        Behavior::Deny => "deny",
    }
}

fn place(rule: &SourcedRule) -> String {
    let file = rule.file.as_ref().map_or_else(
        || "--settings".to_owned(),
        |file| file.display().to_string(),
    );
    match rule.position {
        Some(position) => format!("{file}:{}", position.line),
        None => file,
    }
}

/// Rules that a stronger one covers whole, with that one. Denials are in front of questions, and
/// those of allowances, whatever the file.
fn shadowed(rules: &[SourcedRule]) -> Vec<(&SourcedRule, &SourcedRule)> {
    let strength = |behavior: Behavior| match behavior {
        Behavior::Deny => 2,
        Behavior::Ask => 1,
        Behavior::Allow => 0,
    };
    let parsed: Vec<(&SourcedRule, RuleValue)> = rules
        .iter()
        .filter_map(|rule| Some((rule, parse_rule(&rule.rule).ok()?)))
        .collect();
    parsed
        .iter()
        .filter_map(|(rule, value)| {
            let by = parsed.iter().find(|(other, wide)| {
                strength(other.behavior) > strength(rule.behavior) && covers(wide, value)
            })?;
            Some((*rule, by.0))
        })
        .collect()
}

/// Whether everything that one rule is about, another is about too. Only what can be seen by the
/// words: the same tool, and the same or a shorter beginning.
fn covers(wide: &RuleValue, narrow: &RuleValue) -> bool {
    if wide.tool_name != narrow.tool_name {
        return false;
    }
    let Some(wide) = wide.rule_content.as_deref() else {
        return true;
    };
    let Some(narrow) = narrow.rule_content.as_deref() else {
        return false;
    };
    if wide == narrow {
        return true;
    }
    let beginning = |text: &str| {
        text.strip_suffix(":*")
            .or_else(|| text.strip_suffix(" *"))
            .filter(|rest| !rest.contains('*'))
            .map(str::to_owned)
    };
    match beginning(wide) {
        Some(start) => {
            let narrow = beginning(narrow).unwrap_or_else(|| narrow.to_owned());
            narrow == start || narrow.starts_with(&format!("{start} "))
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_protocol::permission::RuleSource;
    use std::path::PathBuf;

    fn rule(behavior: Behavior, text: &str) -> SourcedRule {
        SourcedRule {
            behavior,
            rule: text.to_owned(),
            source: RuleSource::UserSettings,
            folder: PathBuf::from("/"),
            file: None,
            position: None,
        }
    }

    fn hidden(rules: &[SourcedRule]) -> Vec<&str> {
        shadowed(rules)
            .into_iter()
            .map(|(rule, _)| rule.rule.as_str())
            .collect()
    }

    #[test]
    fn a_rule_behind_a_wider_denial_never_counts() {
        let rules = [
            rule(Behavior::Allow, "Bash(git push:*)"),
            rule(Behavior::Allow, "Bash(gitk:*)"),
            rule(Behavior::Allow, "Read(~/x)"),
            rule(Behavior::Ask, "Bash(git push origin main)"),
            rule(Behavior::Deny, "Bash(git:*)"),
            rule(Behavior::Deny, "Read"),
        ];
        assert_eq!(
            hidden(&rules),
            [
                "Bash(git push:*)",
                "Read(~/x)",
                "Bash(git push origin main)"
            ]
        );
    }

    #[test]
    fn an_exception_in_front_of_a_wide_allowance_hides_nothing() {
        let rules = [
            rule(Behavior::Allow, "Bash(git:*)"),
            rule(Behavior::Deny, "Bash(git push:*)"),
            rule(Behavior::Ask, "Bash(rm:*)"),
            rule(Behavior::Allow, "Edit"),
        ];
        assert_eq!(hidden(&rules), Vec::<&str>::new());
    }

    #[test]
    fn the_same_words_twice_are_seen() {
        let rules = [
            rule(Behavior::Allow, "WebFetch(domain:example.com)"),
            rule(Behavior::Ask, "WebFetch(domain:example.com)"),
        ];
        assert_eq!(hidden(&rules), ["WebFetch(domain:example.com)"]);
    }
}
