//! Lists and pages of agents, skills and commands that files define.

use crate::app::App;
use crate::commands;
use crate::layers::{Item, Picker, Purpose};
use crate::render::style::{Line, Style};
use crate::render::text::clean;
use std::path::Path;

pub(crate) fn choose(app: &mut App, purpose: Purpose, title: &str, items: Vec<Item>, words: &str) {
    let mut lines = vec![Line::styled(words.to_owned(), app.look.theme.muted)];
    let problems = app
        .engine
        .handle
        .as_ref()
        .map(|session| session.extensions().problems())
        .unwrap_or_default();
    for problem in problems.iter().take(4) {
        lines.push(Line::styled(
            format!("{}: {}", problem.file.display(), clean(&problem.message)),
            app.look.theme.warning,
        ));
    }
    let creates = purpose == Purpose::Agents;
    let mut picker = Picker::new(purpose, title, items)
        .filterable()
        .explained(lines)
        .with_key('o', "show");
    if creates {
        picker = picker.with_key('n', "new");
    }
    app.layers.open(picker);
}

pub(crate) fn show(
    app: &mut App,
    name: &str,
    facts: &[(&str, String)],
    path: Option<&Path>,
    description: &str,
    body: &str,
) {
    let theme = app.theme();
    let mut lines = Vec::new();
    let path = path.map(|path| path.display().to_string());
    let facts = facts
        .iter()
        .map(|(name, value)| (*name, value.clone()))
        .chain(path.map(|path| ("file", path)));
    for (what, value) in facts.filter(|(_, value)| !value.is_empty()) {
        lines.push(
            Line::styled(format!("{what:<8}"), theme.muted).with(clean(&value), Style::PLAIN),
        );
    }
    for text in [description, body] {
        if !text.trim().is_empty() {
            lines.push(Line::empty());
            lines.extend(text.trim().lines().map(|line| Line::plain(clean(line))));
        }
    }
    commands::show_page(app, clean(name), lines);
}
