//! `/context` shows how full the context window is.

use crate::app::App;
use crate::layers::{Page, Purpose};
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{tokens, wrap};
use lathe_engine::context::{ContextPart, ContextUsage};

/// How full the model's window is, as a grid.
pub(crate) fn run(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let usage = session.context().usage();
    let title = format!(
        "Context · {} · {} of {} tokens ({}%)",
        usage.model,
        tokens(usage.used()),
        tokens(usage.window.max(1)),
        usage.used() * 100 / usage.window.max(1)
    );
    app.layers.open(
        Page::new(Purpose::Context, title, move |look| {
            context_lines(&usage, look)
        })
        .with_key('e', "edit"),
    );
}

/// The window as a grid of cells of one percent each, and what they stand for.
pub(crate) fn context_lines(usage: &ContextUsage, look: Look<'_>) -> Vec<Line> {
    let theme = look.theme;
    let window = usage.window.max(1);
    let colours = [
        theme.accent,
        theme.modes.plan,
        theme.modes.shell,
        theme.syntax.string,
        theme.syntax.number,
        theme.syntax.function,
        theme.code,
    ];
    let parts: Vec<(ContextPart, &str, Style)> = usage
        .parts()
        .into_iter()
        .enumerate()
        .map(|(index, part)| match part.kind {
            "used" => (part, "■", colours[index % colours.len()]),
            "reserve" => (part, "▨", theme.muted),
            _ => (part, "·", theme.muted),
        })
        .collect();
    let mut cells: Vec<(&str, Style)> = Vec::new();
    let mut sum = 0;
    for (part, mark, style) in parts.iter().filter(|(part, ..)| part.kind == "used") {
        // By sums, so that many small parts don't take a cell each.
        sum += part.tokens;
        let percent = usize::try_from((sum * 100 + window / 2) / window).unwrap_or(100);
        cells.resize(percent.max(cells.len()), (*mark, *style));
    }
    let reserve = usize::try_from(usage.reserve() * 100 / window).unwrap_or(0);
    let free = 100_usize.saturating_sub(cells.len() + reserve);
    cells.extend(std::iter::repeat_n(("·", theme.muted), free));
    cells.resize(100, ("▨", theme.muted));
    let per_row = if look.columns >= 44 { 20 } else { 10 };
    let mut lines: Vec<Line> = cells
        .chunks(per_row)
        .map(|row| {
            let mut line = Line::plain(" ");
            for (mark, style) in row {
                line.push(format!(" {mark}"), *style);
            }
            line
        })
        .collect();
    lines.push(Line::empty());
    for (part, mark, style) in &parts {
        lines.push(
            Line::styled(format!("  {mark} "), *style)
                .with(format!("{:<19}", part.name), Style::PLAIN)
                .with(
                    format!(
                        "{:>7}  {:>3}%",
                        tokens(part.tokens),
                        part.tokens * 100 / window
                    ),
                    theme.muted,
                ),
        );
    }
    if usage.lean {
        let text = format!("  {}", ContextUsage::LEAN);
        lines.extend(wrap(&Line::styled(text, theme.muted), look.columns, 4));
    }
    if !usage.counted {
        lines.push(Line::styled("  estimated: nothing sent yet", theme.muted));
    }
    if !usage.instruction_files.is_empty() {
        lines.push(Line::empty());
        for (path, scope, count) in &usage.instruction_files {
            let text = format!("  {scope}: {} ({} tokens)", path.display(), tokens(*count));
            lines.extend(wrap(&Line::styled(text, theme.muted), look.columns, 4));
        }
    }
    lines
}
