//! `/fewer-permission-prompts` looks at the commands of earlier sessions in this project and proposes rules for
//! those that came again. No model is asked: the analyser of commands knows which part needs a rule.

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::commands::permissions;
use crate::layers::{Item, Picker, Purpose};
use crate::render::style::Line;
use crate::render::text::counted;
use lathe_permissions::{format_rule, parse_rule, rules_for_later};
use lathe_protocol::permission::{Behavior, PermissionUpdate, RuleSource};
use lathe_session::{Scope, SessionStore};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

/// Sessions that are looked at.
const MOST_SESSIONS: usize = 60;
/// Rules that are proposed.
const MOST_RULES: usize = 20;
/// How often a rule must have helped to be proposed.
const LEAST: usize = 2;

/// A rule and how many commands it would have answered for.
pub(crate) type Proposal = (String, usize);

pub(crate) fn run(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let known: Vec<String> = session
        .permissions()
        .rules()
        .into_iter()
        .map(|(_, rule, _)| rule)
        .collect();
    let store = SessionStore::new(&app.places.config_home);
    let cwd = app.places.environment.cwd.clone();
    app.jobs.blocking(move || {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for info in store.list(Scope::Project(&cwd), Some(MOST_SESSIONS)) {
            count_rules(&info.path, &mut counts);
        }
        Some(JobResult::Proposals(proposals(counts, &known)))
    });
}

/// Counts the rules that the commands of a transcript would have needed.
fn count_rules(transcript: &Path, counts: &mut HashMap<String, usize>) {
    let Ok(file) = std::fs::File::open(transcript) else {
        return;
    };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    while reader
        .read_until(b'\n', &mut line)
        .is_ok_and(|read| read > 0)
    {
        let text = String::from_utf8_lossy(&line);
        if text.contains("\"tool_use\"") && text.contains("\"Bash\"") {
            for command in commands_of(&text) {
                for rule in rules_for_later(&command) {
                    *counts.entry(format_rule(&rule)).or_default() += 1;
                }
            }
        }
        line.clear();
    }
}

fn commands_of(line: &str) -> Vec<String> {
    let Ok(record) = serde_json::from_str::<Value>(line) else {
        return Vec::new();
    };
    let blocks = record.pointer("/message/content").and_then(Value::as_array);
    blocks
        .into_iter()
        .flatten()
        .filter(|block| block["type"] == "tool_use" && block["name"] == "Bash")
        .filter_map(|block| block.pointer("/input/command")?.as_str().map(str::to_owned))
        .collect()
}

fn proposals(counts: HashMap<String, usize>, known: &[String]) -> Vec<Proposal> {
    let mut found: Vec<Proposal> = counts
        .into_iter()
        .filter(|(rule, count)| *count >= LEAST && !known.contains(rule))
        .collect();
    found.sort_by(|(a, first), (b, second)| second.cmp(first).then_with(|| a.cmp(b)));
    found.truncate(MOST_RULES);
    found
}

/// Shows the proposals.
pub(crate) fn show(app: &mut App, proposals: Vec<Proposal>) {
    if proposals.is_empty() {
        app.layers.close_dialogs();
        app.remark("No command was used often enough in earlier sessions to suggest a rule.");
        return;
    }
    let items = proposals
        .iter()
        .map(|(rule, count)| {
            let times = counted(*count, "time");
            Item::new(rule.clone(), rule.clone(), format!("ran {times}"))
        })
        .collect();
    app.commands.proposals = proposals;
    let words = "Commands of earlier sessions that a rule would allow. Enter adds it for this project (just me).";
    app.layers.open(
        Picker::new(Purpose::Proposals, "Fewer questions", items)
            .explained(vec![Line::styled(words, app.look.theme.muted)])
            .with_key('a', "add all"),
    );
}

/// Adds a rule, and shows what is left.
pub(crate) fn add(app: &mut App, rule: &str) {
    save(app, &[rule.to_owned()]);
    let left: Vec<Proposal> = app
        .commands
        .proposals
        .iter()
        .filter(|(proposed, _)| proposed != rule)
        .cloned()
        .collect();
    if left.is_empty() {
        app.layers.close_dialogs();
    } else {
        show(app, left);
    }
}

pub(crate) fn add_all(app: &mut App) {
    let all: Vec<String> = app
        .commands
        .proposals
        .drain(..)
        .map(|(rule, _)| rule)
        .collect();
    save(app, &all);
    app.layers.close_dialogs();
}

fn save(app: &mut App, rules: &[String]) {
    let parsed: Vec<_> = rules
        .iter()
        .filter_map(|rule| parse_rule(rule).ok())
        .collect();
    let update = PermissionUpdate::AddRules {
        rules: parsed,
        behavior: Behavior::Allow,
        destination: RuleSource::LocalSettings,
    };
    let said = format!("Allowed in this project (just me): {}", rules.join(", "));
    permissions::apply_update(app, &update, said);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn commands_that_came_again_are_proposed_most_frequent_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let call = |command: &str| {
            json!({"type": "assistant", "message": {"content": [
                {"type": "tool_use", "name": "Bash", "id": "t", "input": {"command": command}}]}})
            .to_string()
        };
        let lines = [
            call("cargo test -p a"),
            call("cd x && cargo test"),
            call("cargo test | tail -3"),
            call("npm run lint"),
            call("npm run lint -- --fix"),
            call("make once"),
            call("ls -la"),
            "{broken \"tool_use\" \"Bash\"".to_owned(),
        ];
        std::fs::write(&path, lines.join("\n")).unwrap();
        let mut counts = HashMap::new();
        count_rules(&path, &mut counts);
        assert_eq!(
            proposals(counts.clone(), &[]),
            [
                ("Bash(cargo test:*)".to_owned(), 3),
                ("Bash(npm run lint:*)".to_owned(), 2)
            ]
        );
        let known = ["Bash(cargo test:*)".to_owned()];
        assert_eq!(proposals(counts, &known).len(), 1);
    }
}
