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
    let (behavior, rule) = match text.split_once(' ') {
        Some(("allow", rest)) => (Behavior::Allow, rest),
        Some(("ask", rest)) => (Behavior::Ask, rest),
        Some(("deny", rest)) => (Behavior::Deny, rest),
        _ => (Behavior::Allow, text),
    };
    match parse_rule(rule.trim()) {
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
                format!("rule added to this project's local settings: {shown}"),
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

/// The rules that count, and the way to one more.
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

/// A rule was chosen, or the way to one more.
pub(crate) fn rule_chosen(app: &mut App, value: &str) {
    if value.is_empty() {
        app.layers.open(Form::new(
            Purpose::AddRule,
            "A rule such as Bash(cargo test:*), after allow, ask or deny",
            "allow ",
        ));
    }
}

/// Removes the selected rule: behavior, source and rule, a line each.
pub(crate) fn remove_rule(app: &mut App, value: &str) {
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
        apply_update(app, &update, format!("rule removed: {rule}"));
    }
    run(app, "");
}
