//! `/permissions` lists and changes permission rules.

use crate::app::App;
use crate::layers::{Form, Item, Picker, Purpose};
use crate::render::style::Line;
use crate::render::theme::Theme;
use lathe_permissions::{format_rule, parse_rule};
use lathe_protocol::permission::{Behavior, PermissionMode, PermissionUpdate, RuleSource};
use serde_json::Value;

pub(crate) fn run(app: &mut App, arguments: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    if !arguments.is_empty() {
        add_rule(app, arguments);
        return;
    }
    let picker = rules_picker(
        session.permissions().rules(),
        app.session.mode,
        &app.look.theme,
    );
    app.layers.open(picker);
}

/// Adds `[allow|ask|deny] rule` for this user in this project.
pub(crate) fn add_rule(app: &mut App, text: &str) {
    let (behavior, rule) = parse_line(text);
    match parse_rule(rule) {
        Ok(rule) => {
            let shown = format_rule(&rule);
            let update = PermissionUpdate::AddRules {
                rules: vec![rule],
                behavior,
                destination: RuleSource::LocalSettings,
            };
            apply_update(
                app,
                &update,
                format!("Rule added in this project (just me): {shown}"),
            );
        }
        Err(error) => app.warn(error.to_string()),
    }
}

pub(crate) fn apply_update(app: &mut App, update: &PermissionUpdate, said: String) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    match session.permissions().apply(update) {
        Ok(()) => app.remark(said),
        Err(error) => app.warn(error.to_string()),
    }
}

/// The effective rules, and the form for a new one.
pub(crate) fn rules_picker(
    rules: Vec<(Behavior, String, RuleSource)>,
    mode: PermissionMode,
    theme: &Theme,
) -> Picker {
    let mut items: Vec<Item> = vec![Item::new("", "Add a rule …", "")];
    for (behavior, rule, source) in rules {
        let behavior = match behavior {
            Behavior::Allow => "allow",
            Behavior::Ask => "ask",
            Behavior::Deny => "deny",
        };
        let name = serde_json::to_value(source)
            .ok()
            .and_then(|value| value.as_str().map(str::to_owned))
            .unwrap_or_default();
        items.push(Item::new(
            format!("{behavior}\n{name}\n{rule}"),
            format!("{behavior:<6}{rule}"),
            lathe_permissions::cli::source_word(source),
        ));
    }
    Picker::new(Purpose::PermissionRule, "Permission rules", items)
        .explained(vec![Line::styled(format!("mode: {mode}"), theme.muted)])
        .filterable()
        .with_key('x', "remove")
}

/// Where a rule can be saved: the value, the words, the place.
const SCOPES: &[(&str, &str, RuleSource)] = &[
    ("local", "This project (just me)", RuleSource::LocalSettings),
    (
        "project",
        "This project (shared)",
        RuleSource::ProjectSettings,
    ),
    ("user", "All your projects", RuleSource::UserSettings),
    ("session", "This session", RuleSource::Session),
];

/// `allow`, `ask` or `deny` before a rule; allow where nothing is said.
fn parse_line(text: &str) -> (Behavior, &str) {
    match text.trim().split_once(' ') {
        Some(("allow", rest)) => (Behavior::Allow, rest.trim()),
        Some(("ask", rest)) => (Behavior::Ask, rest.trim()),
        Some(("deny", rest)) => (Behavior::Deny, rest.trim()),
        _ => (Behavior::Allow, text.trim()),
    }
}

/// A rule was entered: asks where to save it.
pub(crate) fn ask_scope(app: &mut App, line: &str) {
    let (_, rule) = parse_line(line);
    if let Err(error) = parse_rule(rule) {
        app.warn(error.to_string());
        app.layers
            .open(Form::new(Purpose::AddRule, RULE_WORDS, line));
        return;
    }
    let items = SCOPES
        .iter()
        .map(|(value, words, _)| Item::new(*value, *words, ""))
        .collect();
    let purpose = Purpose::RuleScope {
        rule: line.to_owned(),
    };
    app.layers.open(Picker::new(
        purpose,
        format!("Where should `{line}` apply?"),
        items,
    ));
}

/// Saves a rule in a source.
pub(crate) fn save_rule(app: &mut App, line: &str, scope: &str) {
    let Some((_, words, destination)) = SCOPES.iter().find(|(value, ..)| *value == scope) else {
        return;
    };
    let (behavior, rule) = parse_line(line);
    match parse_rule(rule) {
        Ok(rule) => {
            let said = format!(
                "Rule added ({}): {}",
                words.to_lowercase(),
                format_rule(&rule)
            );
            let update = PermissionUpdate::AddRules {
                rules: vec![rule],
                behavior,
                destination: *destination,
            };
            apply_update(app, &update, said);
        }
        Err(error) => app.warn(error.to_string()),
    }
    run(app, "");
}

/// A rule was changed: the new one replaces the old one in its source.
pub(crate) fn replace_rule(app: &mut App, old: &str, line: &str) {
    let (behavior, rule) = parse_line(line);
    let source: Option<RuleSource> = old
        .split('\n')
        .nth(1)
        .and_then(|source| serde_json::from_value(Value::String(source.to_owned())).ok());
    let (Ok(rule), Some(destination)) = (parse_rule(rule), source) else {
        app.warn(format!("'{rule}' is not a rule; nothing was changed."));
        run(app, "");
        return;
    };
    let said = format!("Rule changed to: {}", format_rule(&rule));
    let update = PermissionUpdate::AddRules {
        rules: vec![rule],
        behavior,
        destination,
    };
    remove(app, old);
    apply_update(app, &update, said);
    run(app, "");
}

const RULE_WORDS: &str = "A rule such as Bash(cargo test:*), after allow, ask or deny";

/// A rule was chosen: it can be changed. Or the way to one more.
pub(crate) fn rule_chosen(app: &mut App, value: &str) {
    if let [behavior, _, rule] = value.splitn(3, '\n').collect::<Vec<_>>()[..] {
        let purpose = Purpose::EditRule {
            old: value.to_owned(),
        };
        let text = format!("{behavior} {rule}");
        app.layers
            .open(Form::new(purpose, "Change the rule", &text));
        return;
    }
    if value.is_empty() {
        app.layers
            .open(Form::new(Purpose::AddRule, RULE_WORDS, "allow "));
    }
}

/// Removes the selected rule: behavior, source and rule, a line each.
pub(crate) fn remove_rule(app: &mut App, value: &str) {
    remove(app, value);
    run(app, "");
}

fn remove(app: &mut App, value: &str) {
    let mut parts = value.splitn(3, '\n');
    let (Some(behavior), Some(source), Some(rule)) = (parts.next(), parts.next(), parts.next())
    else {
        return;
    };
    let behavior = match behavior {
        "allow" => Behavior::Allow,
        "ask" => Behavior::Ask,
        _ => Behavior::Deny,
    };
    let source: Option<RuleSource> = serde_json::from_value(Value::String(source.to_owned())).ok();
    if let (Ok(rule_value), Some(destination)) = (parse_rule(rule), source) {
        let update = PermissionUpdate::RemoveRules {
            rules: vec![rule_value],
            behavior,
            destination,
        };
        apply_update(app, &update, format!("Rule removed: {rule}"));
    }
}
