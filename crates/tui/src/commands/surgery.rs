//! Editing the context, from `/context`: messages, results, files and memory are dropped, condensed, brought back or kept
//! over compactions; the tools of MCP servers are switched off and on.

use crate::app::App;
use crate::app::jobs::{JobResult, Report};
use crate::commands::results::CommandResult;
use crate::layers::{Item, Picker, Purpose};
use crate::render::style::Line;
use crate::render::text::{clean, counted, tokens, truncate};
use crate::render::theme::Theme;
use lathe_engine::SessionHandle;
use lathe_engine::context::surgery::{
    CONDENSED, CONDENSED_FILE, CONDENSED_MESSAGE, DROPPED, DROPPED_FILE, DROPPED_MESSAGE, FILE_ID,
    FileInContext,
};
use lathe_protocol::usage::Usage;
use lathe_session::contents::{self, ContextItem, ItemKind};
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

/// A part of a turn is condensed with it only if it has as many tokens: a summary would hardly be shorter.
const WORTH_CONDENSING: u64 = 200;

/// The tools of an MCP server.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) is_off: bool,
    pub(crate) tokens: u64,
}

/// The parts of the window and what they cost.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) items: Vec<ContextItem>,
    pub(crate) servers: Vec<Server>,
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
    known.servers = servers(session).collect();
    let files = session.context().files().into_iter();
    let mut items: Vec<ContextItem> = files.map(memory).collect();
    let flushed = session.history().flush_later();
    let read = move || {
        if !path.exists() {
            return Some(JobResult::Command(CommandResult::Contents(items)));
        }
        Some(match lathe_session::load_tail(&path) {
            Ok(loaded) => {
                items.extend(contents::contents(&loaded));
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
    if items.is_empty() && app.commands.contents.servers.is_empty() {
        app.remark("The conversation is empty, so there is nothing to edit.");
        return;
    }
    app.commands.contents.items = items;
    let picker = app.commands.contents.picker(&app.look.theme, None);
    app.layers.open(picker);
}

impl Contents {
    /// The parts by size; turns with several of them come as a row of their own.
    pub(crate) fn picker(&self, theme: &Theme, selected: Option<&str>) -> Picker {
        let mut rows: Vec<(u64, Item)> = Vec::new();
        let mut turns: BTreeMap<usize, Vec<&ContextItem>> = BTreeMap::new();
        for item in &self.items {
            turns.entry(item.turn).or_default().push(item);
            rows.push((item.tokens(), self.row(item)));
        }
        turns.remove(&0);
        for (turn, items) in turns.into_iter().filter(|(_, items)| items.len() > 1) {
            let sum: u64 = items.iter().map(|item| item.tokens()).sum();
            let prompt = items.iter().find(|item| item.kind == ItemKind::Prompt);
            let about = prompt.map_or("", |prompt| prompt.about.as_str());
            let label = self.label(sum, &format!("Turn {turn} {}", truncate(about, 40)));
            let detail = counted(items.len(), "part");
            rows.push((sum, Item::new(format!("turn:{turn}"), label, detail)));
        }
        rows.extend(self.servers.iter().map(|server| {
            let state = if server.is_off { "dropped: " } else { "" };
            let words = format!("{state}MCP tools {}", server.name);
            let label = self.label(server.tokens, &words);
            let item = Item::new(format!("mcp:{}", server.name), label, "");
            (server.tokens, item)
        }));
        rows.sort_by_key(|(tokens, _)| std::cmp::Reverse(*tokens));
        let items = rows.into_iter().map(|(_, item)| item).collect();
        let picker = Picker::new(Purpose::Contents, "What fills the context", items)
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

    /// Whether a summary of a part would be much shorter than it.
    fn is_long(&self, at: usize) -> bool {
        let item = self.items.get(at);
        item.is_some_and(|item| item.tokens() >= WORTH_CONDENSING)
    }

    fn words(&self) -> String {
        if self.edits == 0 {
            let sizes = if self.prices.is_some() {
                "Tokens, and what they cost with each request."
            } else {
                "With the tokens of each."
            };
            return format!(
                "{sizes} Edits apply with the next request and break the provider's cache once."
            );
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

    /// A row that begins with its size and what that costs with each request.
    fn label(&self, count: u64, words: &str) -> String {
        let price = self.prices.map_or_else(String::new, |(read, _)| {
            let price = dollars(count, read);
            if price < 0.0001 {
                " <$0.0001".to_owned()
            } else {
                format!("{:>9}", format!("${price:.4}"))
            }
        });
        format!("{:>6}{price}  {words}", tokens(count))
    }

    fn row(&self, item: &ContextItem) -> Item {
        // In front, where a narrow terminal shows it.
        let mut words = String::new();
        if item.is_replaced() {
            let text = item.replacement.as_deref().unwrap_or_default();
            let beginnings = [CONDENSED, CONDENSED_MESSAGE, CONDENSED_FILE];
            let condensed = beginnings.iter().any(|begin| text.starts_with(begin));
            words.push_str(if condensed {
                "condensed: "
            } else {
                "dropped: "
            });
        }
        if item.is_pinned {
            words.push_str("pinned: ");
        }
        words.push_str(&format!("{} {}", item.tool, item.about));
        let detail = match item.turn {
            0 => String::new(),
            turn => format!("turn {turn}"),
        };
        let label = self.label(item.tokens(), &words);
        let mut row = Item::new(item.id.to_string(), label, detail);
        let shown = item.replacement.as_ref().or(item.text.as_ref());
        let lines = shown.map(|text| text.lines().take(4).map(str::to_owned).collect());
        row.preview = lines.unwrap_or_default();
        row
    }

    /// The parts that a row stands for.
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

/// Switches the tools of an MCP server off or on, or says why a part can't be edited here. `false`: the row is a part of
/// the conversation.
fn edit_beside(app: &mut App, row: &str, key: char) -> bool {
    let Some(name) = row.strip_prefix("mcp:") else {
        return false;
    };
    let off = match key {
        'd' => true,
        'u' => false,
        _ => {
            app.warn(
                "The tools of a server can be dropped and brought back, not condensed or pinned.",
            );
            return true;
        }
    };
    let contents = &mut app.commands.contents;
    for server in &mut contents.servers {
        if server.name == name && server.is_off != off {
            server.is_off = off;
            contents.edits += 1;
        }
    }
    let what = if off { "disable" } else { "enable" };
    crate::commands::mcp::act(app, what, name);
    true
}

/// The connected servers with the size of their tools.
fn servers(session: &SessionHandle) -> impl Iterator<Item = Server> {
    let servers = session.mcp().servers().into_iter();
    servers.filter_map(|server| {
        let is_off = matches!(server.state, lathe_mcp::State::Disabled);
        let bytes: usize = server
            .tools
            .iter()
            .map(|tool| serde_json::to_string(tool).map_or(0, |text| text.len()))
            .sum();
        (is_off || bytes > 0).then_some(Server {
            name: server.name,
            is_off,
            tokens: bytes as u64 / 4,
        })
    })
}

fn memory(file: FileInContext) -> ContextItem {
    let path = file.path.display().to_string();
    ContextItem {
        id: format!("{FILE_ID}{path}").into(),
        kind: ItemKind::Memory,
        tool: ItemKind::Memory.name().to_owned(),
        about: path,
        turn: 0,
        bytes: file.text.len(),
        text: Some(file.text),
        replacement: file.replacement,
        is_pinned: false,
    }
}

/// Shows a part as the model is sent it.
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
    if edit_beside(app, row, key) {
        return again(app, row);
    }
    let parts = app.commands.contents.of_row(row);
    let several = parts.len() > 1;
    for at in parts {
        match key {
            'd' => drop_item(app, at),
            'u' => replace(app, at, None),
            'p' => pin(app, at),
            's' if !several || app.commands.contents.is_long(at) => condense(app, at, row),
            _ => {}
        }
    }
    again(app, row);
}

fn again(app: &mut App, row: &str) {
    let picker = app.commands.contents.picker(&app.look.theme, Some(row));
    app.layers.open(picker);
}

fn drop_item(app: &mut App, at: usize) {
    let item = app.commands.contents.items.get(at);
    let words = match item.map(|item| item.kind) {
        Some(ItemKind::Result) => DROPPED,
        Some(ItemKind::Memory) => DROPPED_FILE,
        _ => DROPPED_MESSAGE,
    };
    replace(app, at, Some(words.to_owned()));
}

/// Puts a text in the place of a part, or the part itself back.
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
    // A file that is brought back is read from the disk as ever.
    let is_back = item.kind == ItemKind::Memory && Some(&text) == item.text.as_ref();
    let words = if is_back { String::new() } else { text.clone() };
    session.context().replace_result(item.id.clone(), words);
    item.replacement = Some(text);
    contents.edits += 1;
}

fn pin(app: &mut App, at: usize) {
    let item = app.commands.contents.items.get_mut(at);
    if item
        .as_ref()
        .is_some_and(|item| item.kind == ItemKind::Memory)
    {
        app.remark("Instruction files are kept over compactions anyway.");
        return;
    }
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
        app.warn("It could not be condensed.");
        return;
    };
    let items = &app.commands.contents.items;
    if let Some(at) = items.iter().position(|item| item.id == *id) {
        let heading = match items.get(at).map(|item| item.kind) {
            Some(ItemKind::Result) => CONDENSED,
            Some(ItemKind::Memory) => CONDENSED_FILE,
            _ => CONDENSED_MESSAGE,
        };
        replace(app, at, Some(format!("{heading}{}", summary.trim())));
    }
    if app.layers.purpose() == Some(&Purpose::Contents) {
        again(app, row);
    }
}
