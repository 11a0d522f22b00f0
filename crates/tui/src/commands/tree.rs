//! `/tree` shows every branch of the session: go to one, name one, bring one's conclusions back.

use crate::app::App;
use crate::app::jobs::{JobResult, Report};
use crate::commands::results::CommandResult;
use crate::layers::{Form, Item, Picker, Purpose};
use crate::render::style::Line;
use crate::render::text::{ago, tokens};
use lathe_engine::Restart;
use lathe_protocol::ids::RecordId;
use lathe_session::tree::{self, TreeNode};
use tokio_util::sync::CancellationToken;

/// A prompt of the tree, with what its turn cost.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Branch {
    pub(crate) node: TreeNode,
    pub(crate) dollars: f64,
}

pub(crate) fn run(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let path = session.transcript().to_owned();
    let price = session.model().prices();
    let flushed = session.history().flush_later();
    let read = move || {
        if !path.exists() {
            return Some(JobResult::Command(CommandResult::Tree(Vec::new())));
        }
        let loaded = match lathe_session::load(&path) {
            Ok(loaded) => loaded,
            Err(error) => return Some(JobResult::Reported(Report::Failed(error.to_string()))),
        };
        let branches = tree::tree(&loaded)
            .into_iter()
            .map(|node| Branch {
                dollars: node
                    .usages
                    .iter()
                    .filter_map(|(model, usage)| price(model, usage))
                    .sum(),
                node,
            })
            .collect();
        Some(JobResult::Command(CommandResult::Tree(branches)))
    };
    app.jobs.task(async move {
        // A label that was given a moment ago is in the file then.
        flushed.await;
        lathe_spawn::blocking(read).await.ok().flatten()
    });
}

pub(crate) fn show(app: &mut App, branches: Vec<Branch>) {
    if branches.is_empty() {
        app.remark("Nothing was said yet, so there is no tree.");
        return;
    }
    app.commands.tree = branches;
    let picker = picker(&app.commands.tree, &app.look.theme);
    app.layers.open(picker);
}

/// The list of prompts, branches below what they left.
pub(crate) fn picker(branches: &[Branch], theme: &crate::render::theme::Theme) -> Picker {
    let here = branches.iter().rfind(|branch| branch.node.is_current);
    let here = here.map(|branch| branch.node.id);
    let items = branches.iter().map(|branch| item(branch, here)).collect();
    let words = "● the conversation now · ○ a branch that was left";
    let picker = Picker::new(Purpose::Tree, "The tree of this session", items)
        .explained(vec![Line::styled(words, theme.muted)])
        .with_key('l', "label")
        .with_key('m', "bring its conclusions here");
    match here {
        Some(here) => picker.at(&here.to_string()),
        None => picker,
    }
}

fn item(branch: &Branch, here: Option<RecordId>) -> Item {
    let node = &branch.node;
    let mark = if node.is_current { "●" } else { "○" };
    let indent = match node.depth {
        0 => String::new(),
        depth => format!("{}└ ", "  ".repeat(depth - 1)),
    };
    let label = match &node.label {
        Some(label) => format!("{indent}{mark} [{label}] {}", node.text),
        None => format!("{indent}{mark} {}", node.text),
    };
    let when = node.timestamp.parse::<jiff::Timestamp>();
    let mut facts: Vec<String> = Vec::new();
    if here == Some(node.id) {
        facts.push("you are here".to_owned());
    }
    facts.extend(when.ok().map(ago));
    let written: u64 = node
        .usages
        .iter()
        .map(|(_, usage)| usage.output_tokens)
        .sum();
    facts.push(format!("{} tokens", tokens(written)));
    if branch.dollars > 0.0 {
        facts.push(format!("${:.2}", branch.dollars));
    }
    Item::new(node.id.to_string(), label, facts.join(" · "))
}

fn find<'a>(app: &'a App, id: &str) -> Option<&'a Branch> {
    let mut branches = app.commands.tree.iter();
    branches.find(|branch| branch.node.id.to_string() == id)
}

/// Continues after the turn of a prompt.
pub(crate) fn go(app: &mut App, id: &str) {
    let Some(node) = find(app, id).map(|branch| branch.node.clone()) else {
        return;
    };
    let last = app.commands.tree.iter().rfind(|it| it.node.is_current);
    if last.is_some_and(|last| last.node.id == node.id) {
        app.remark("You are there already.");
        return;
    }
    let Some(session) = app.engine.handle.take() else {
        return;
    };
    app.engine.events = None;
    app.engine.options = session.restart(&Restart::Rewind, &app.engine.options);
    app.engine.opening = true;
    let path = session.transcript().to_owned();
    // The transcript is free only after the session has let go of it.
    app.jobs.task(async move {
        session.finish().await;
        let moved = lathe_spawn::blocking(move || tree::go_to(&path, node.end)).await;
        let report = match moved {
            Ok(Ok(())) => Report::Done(format!("── the conversation after: {} ──", node.text)),
            Ok(Err(error)) => Report::Failed(error.to_string()),
            Err(error) => Report::Failed(error.to_string()),
        };
        Some(JobResult::Command(CommandResult::WentTo(report)))
    });
}

pub(crate) fn went(app: &mut App, report: Report) {
    app.conversation.cells.clear();
    app.conversation.todos.clear();
    app.report(report);
    app.conversation.cells.clear();
    app.reopen();
}

pub(crate) fn other_key(app: &mut App, id: &str, key: char) {
    match key {
        'l' => {
            let label = find(app, id).and_then(|branch| branch.node.label.clone());
            let purpose = Purpose::TreeLabel { id: id.to_owned() };
            let title = "A name for this place (- takes it away)";
            let form = Form::new(purpose, title, &label.unwrap_or_default());
            app.layers.open(form);
        }
        'm' => merge(app, id),
        _ => {}
    }
}

/// Names a place, and shows the tree again.
pub(crate) fn label(app: &mut App, id: &str, label: &str) {
    let label = if label == "-" { "" } else { label };
    let (Some(session), Ok(record)) = (&app.engine.handle, id.parse()) else {
        return;
    };
    session.history().label(record, label);
    let mut branches = app.commands.tree.iter_mut();
    if let Some(branch) = branches.find(|branch| branch.node.id == record) {
        branch.node.label = Some(label.to_owned()).filter(|label| !label.is_empty());
    }
    let picker = picker(&app.commands.tree, &app.look.theme).at(id);
    app.layers.open(picker);
}

/// Has the conclusions of a branch written down, for the prompt.
fn merge(app: &mut App, id: &str) {
    let Some(node) = find(app, id).map(|branch| branch.node.clone()) else {
        return;
    };
    if node.is_current {
        app.warn("This is a part of the conversation already.");
        return;
    }
    let Some(session) = &app.engine.handle else {
        return;
    };
    let path = session.transcript().to_owned();
    let name = node.label.clone().unwrap_or(node.text);
    let read = move || {
        let loaded = lathe_session::load(&path).ok()?;
        Some(tree::said_on_the_way(&loaded, node.end))
    };
    let asked = session
        .side_questions()
        .conclusions_later(read, CancellationToken::new());
    app.jobs.task(async move {
        let conclusions = asked.await;
        Some(JobResult::Command(CommandResult::Conclusions {
            name,
            conclusions,
        }))
    });
    app.layers.close_dialogs();
    app.remark("Summarising that branch for the prompt…");
}

/// Puts the conclusions into the prompt, where they can be changed before they are sent.
pub(crate) fn merged(app: &mut App, name: &str, conclusions: Option<String>) {
    let Some(text) = conclusions else {
        app.warn("The branch could not be summarised.");
        return;
    };
    let text = format!("From the branch \"{name}\":\n{}\n", text.trim());
    app.prompt.editor.put_before(&text, Vec::new());
    app.prompt.text_changed();
}
