//! Editing the context, from `/context`: results are dropped, condensed, brought back or kept over compactions.

use crate::app::App;
use crate::app::jobs::{JobResult, Report};
use crate::commands::results::CommandResult;
use crate::layers::{Item, Picker, Purpose};
use crate::render::style::Line;
use crate::render::text::{clean, counted, tokens};
use crate::render::theme::Theme;
use lathe_engine::context::surgery::{CONDENSED, DROPPED};
use lathe_protocol::usage::Usage;
use lathe_session::contents::{self, ContextItem};
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

/// Results and what they cost.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) items: Vec<ContextItem>,
    /// How many edits wait for the next request.
    pub(crate) edits: usize,
    /// Tokens of the whole request.
    pub(crate) used: u64,
    /// Dollars for reading a million tokens from the cache, and for writing them there.
    pub(crate) prices: Option<(f64, f64)>,
}

/// Reads what fills the window.
pub(crate) fn list(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let path = session.transcript().to_owned();
    let model = session.model().current();
    let price = session.model().prices();
    let million = |usage: Usage| price(&model, &usage);
    let read = million(Usage {
        cache_read_input_tokens: 1_000_000,
        ..Usage::default()
    });
    let write = million(Usage {
        cache_creation_input_tokens: 1_000_000,
        ..Usage::default()
    });
    let known = &mut app.commands.contents;
    known.prices = read.zip(write);
    known.used = session.context().usage().used();
    known.edits = 0;
    let flushed = session.history().flush_later();
    let read = move || {
        if !path.exists() {
            return Some(JobResult::Command(CommandResult::Contents(Vec::new())));
        }
        Some(match lathe_session::load_tail(&path) {
            Ok(loaded) => {
                let items = contents::contents(&loaded);
                JobResult::Command(CommandResult::Contents(items))
            }
            Err(error) => JobResult::Reported(Report::Failed(error.to_string())),
        })
    };
    app.jobs.task(async move {
        // Edits of a moment ago are in the file then.
        flushed.await;
        lathe_spawn::blocking(read).await.ok().flatten()
    });
}

pub(crate) fn show(app: &mut App, items: Vec<ContextItem>) {
    if items.is_empty() {
        app.remark("The conversation holds no tool results to edit.");
        return;
    }
    app.commands.contents.items = items;
    let picker = app.commands.contents.picker(&app.look.theme, None);
    app.layers.open(picker);
}

impl Contents {
    /// The results by size; turns with several of them come as a row of their own.
    pub(crate) fn picker(&self, theme: &Theme, selected: Option<&str>) -> Picker {
        let mut rows: Vec<(u64, Item)> = Vec::new();
        let mut turns: BTreeMap<usize, Vec<&ContextItem>> = BTreeMap::new();
        for item in &self.items {
            turns.entry(item.turn).or_default().push(item);
            rows.push((item.tokens(), self.row(item)));
        }
        for (turn, items) in turns.into_iter().filter(|(_, items)| items.len() > 1) {
            let sum: u64 = items.iter().map(|item| item.tokens()).sum();
            let label = format!("turn {turn}: {}", counted(items.len(), "result"));
            let detail = self.price_of(sum);
            rows.push((sum, Item::new(format!("turn:{turn}"), label, detail)));
        }
        rows.sort_by_key(|(tokens, _)| std::cmp::Reverse(*tokens));
        let items = rows.into_iter().map(|(_, item)| item).collect();
        let picker = Picker::new(Purpose::Contents, "Tool results in the context", items)
            .explained(vec![Line::styled(self.words(), theme.muted)])
            .with_key('d', "drop")
            .with_key('s', "condense")
            .with_key('p', "pin")
            .with_key('u', "undo");
        match selected {
            Some(selected) => picker.at(selected),
            None => picker,
        }
    }

    fn words(&self) -> String {
        if self.edits == 0 {
            return "Edits apply with the next request and break the provider's cache once."
                .to_owned();
        }
        let again = self.prices.map_or_else(String::new, |(_, write)| {
            format!(", about ${:.2}", dollars(self.used, write))
        });
        format!(
            "{} with the next request: up to {} tokens are written to the cache again{again}.",
            counted(self.edits, "edit"),
            tokens(self.used)
        )
    }

    fn price_of(&self, count: u64) -> String {
        let each = self.prices.map_or_else(String::new, |(read, _)| {
            format!(" · ${:.4} a request", dollars(count, read))
        });
        let unit = if count == 1 { "token" } else { "tokens" };
        format!("{} {unit}{each}", tokens(count))
    }

    fn row(&self, item: &ContextItem) -> Item {
        let mut facts: Vec<String> = Vec::new();
        if item.is_replaced() {
            let text = item.replacement.as_deref().unwrap_or_default();
            let condensed = text.starts_with(CONDENSED);
            facts.push(if condensed { "condensed" } else { "dropped" }.to_owned());
        }
        if item.is_pinned {
            facts.push("pinned".to_owned());
        }
        facts.push(self.price_of(item.tokens()));
        facts.push(format!("turn {}", item.turn));
        let detail = facts.join(" · ");
        let label = format!("{} {}", item.tool, item.about);
        let mut row = Item::new(item.id.to_string(), label, detail);
        let shown = item.replacement.as_ref().or(item.text.as_ref());
        let lines = shown.map(|text| text.lines().take(4).map(str::to_owned).collect());
        row.preview = lines.unwrap_or_default();
        row
    }

    /// The results that a row stands for.
    fn of_row(&self, row: &str) -> Vec<usize> {
        let turn = row.strip_prefix("turn:");
        let turn: Option<usize> = turn.and_then(|turn| turn.parse().ok());
        let fits = |item: &ContextItem| match turn {
            Some(turn) => item.turn == turn,
            None => item.id.as_str() == row,
        };
        let items = self.items.iter().enumerate();
        items
            .filter(|(_, item)| fits(item))
            .map(|(at, _)| at)
            .collect()
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "token counts are far below 2^52"
)]
fn dollars(tokens: u64, per_million: f64) -> f64 {
    tokens as f64 * per_million / 1e6
}

/// Shows a result as the model is sent it.
pub(crate) fn read(app: &mut App, row: &str) {
    let contents = &app.commands.contents;
    let [at] = contents.of_row(row)[..] else {
        return again(app, row);
    };
    let Some(item) = contents.items.get(at) else {
        return;
    };
    let title = format!("{} {}", item.tool, item.about);
    let text = item.replacement.as_ref().or(item.text.as_ref());
    let text = text.map_or("(images)", String::as_str);
    let lines = text.lines().map(|line| Line::plain(clean(line))).collect();
    crate::commands::show_page(app, title, lines);
}

/// A key in the list.
pub(crate) fn other_key(app: &mut App, row: &str, key: char) {
    for at in app.commands.contents.of_row(row) {
        match key {
            'd' => replace(app, at, Some(DROPPED.to_owned())),
            'u' => replace(app, at, None),
            'p' => pin(app, at),
            's' => condense(app, at, row),
            _ => {}
        }
    }
    again(app, row);
}

fn again(app: &mut App, row: &str) {
    let picker = app.commands.contents.picker(&app.look.theme, Some(row));
    app.layers.open(picker);
}

/// Puts a text in the place of a result, or the result itself back.
fn replace(app: &mut App, at: usize, text: Option<String>) {
    let contents = &mut app.commands.contents;
    let (Some(item), Some(session)) = (contents.items.get_mut(at), &app.engine.handle) else {
        return;
    };
    let text = match text {
        None if !item.is_replaced() => return,
        Some(_) if item.replacement == text => return,
        None => item.text.clone(),
        text => text,
    };
    let Some(text) = text else {
        app.warn("This result holds images, so it can't be brought back; make the call again.");
        return;
    };
    session
        .context()
        .replace_result(item.id.clone(), text.clone());
    item.replacement = Some(text);
    contents.edits += 1;
}

fn pin(app: &mut App, at: usize) {
    let item = app.commands.contents.items.get_mut(at);
    if let (Some(item), Some(session)) = (item, &app.engine.handle) {
        item.is_pinned = !item.is_pinned;
        session
            .context()
            .pin_result(item.id.clone(), item.is_pinned);
    }
}

fn condense(app: &mut App, at: usize, row: &str) {
    let item = app.commands.contents.items.get(at);
    let (Some(item), Some(session)) = (item, &app.engine.handle) else {
        return;
    };
    let Some(text) = item.text.clone().filter(|_| !item.is_replaced()) else {
        return;
    };
    let (id, row) = (item.id.clone(), row.to_owned());
    let asked = session
        .side_questions()
        .condense_later(text, CancellationToken::new());
    app.jobs.task(async move {
        let summary = asked.await;
        Some(JobResult::Command(CommandResult::Condensed {
            id,
            row,
            summary,
        }))
    });
}

pub(crate) fn condensed(
    app: &mut App,
    id: &lathe_protocol::ids::ToolUseId,
    row: &str,
    summary: Option<String>,
) {
    let Some(summary) = summary else {
        app.warn("The result could not be condensed.");
        return;
    };
    let items = &app.commands.contents.items;
    if let Some(at) = items.iter().position(|item| item.id == *id) {
        replace(app, at, Some(format!("{CONDENSED}{}", summary.trim())));
    }
    if app.layers.purpose() == Some(&Purpose::Contents) {
        again(app, row);
    }
}
