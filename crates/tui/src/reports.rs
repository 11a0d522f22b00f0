//! Commands that tell: the help, how full the window is, what was used, all keys.

use crate::app::App;
use crate::cell;
use crate::dialog::{Dialog, Page, Purpose};
use crate::keymap::ACTIONS;
use crate::markdown::Look;
use crate::style::{Line, Style};
use crate::text::{tokens, wrap};
use crate::theme::Theme;
use lathe_engine::context::{ContextPart, ContextUsage};
use lathe_engine::ledger::Totals;
use lathe_extensions::{CommandAction, CommandRegistry};

impl App {
    /// What can be done here: in the prompt, and by commands.
    pub(crate) fn help(&mut self) {
        let lines = help_lines(&self.registry(), &self.theme);
        self.read("Help", lines);
    }

    /// How full the model's window is, as a grid.
    pub(crate) fn context(&mut self) {
        let Some(session) = &self.session else {
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
        self.dialog = Some(Dialog::Page(Page::new(
            Purpose::Reading,
            title,
            move |look| context_lines(&usage, look),
        )));
    }

    pub(crate) fn cost(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let totals = session.history().totals();
        let budget = self.budget();
        let title = format!("This session: ${:.4}", totals.cost_usd());
        self.dialog = Some(Dialog::Page(Page::new(
            Purpose::Reading,
            title,
            move |look| cost_lines(&totals, budget, look),
        )));
    }

    /// The most dollars that the session may cost.
    pub(crate) fn budget(&self) -> Option<f64> {
        self.options.max_budget_usd.or_else(|| {
            let settings = self.session.as_ref()?.settings().json();
            settings.get("maxBudgetUsd")?.as_f64()
        })
    }

    pub(crate) fn keybindings(&mut self) {
        let theme = self.theme();
        let file = self.places.config_home.join("keybindings.json");
        let mut lines = Vec::new();
        for (keys, context, what) in self.keymap.listing() {
            lines.push(
                Line::styled(format!("  {keys:<36} "), theme.accent)
                    .with(format!("{what} "), Style::PLAIN)
                    .with(format!("({context})"), theme.muted),
            );
        }
        lines.push(Line::styled(
            format!(
                "Change them in {}: {{\"prompt\": {{\"ctrl+k ctrl+s\": \"stash\"}}}}",
                file.display()
            ),
            theme.muted,
        ));
        let names: Vec<&str> = ACTIONS.iter().map(|(_, name, _)| *name).collect();
        lines.push(Line::styled(
            format!("Actions: {}", names.join(", ")),
            theme.muted,
        ));
        self.read("Keys", lines);
    }
}

/// What can be done in the prompt, and all commands.
pub(crate) fn help_lines(registry: &CommandRegistry, theme: &Theme) -> Vec<Line> {
    let mut lines = vec![Line::styled("In the prompt", theme.heading)];
    for (key, what) in [
        ("@file", "names a file (tab completes)"),
        ("@agent-name", "names an agent"),
        ("@server:uri", "brings a resource of an MCP server along"),
        (
            "!command",
            "runs a shell command and shares it with the model",
        ),
        ("#words", "remembers something for later sessions"),
        (
            "\\ enter",
            "a new line (also shift+enter, alt+enter, ctrl+j)",
        ),
        ("esc", "interrupts; twice: clear, or rewind"),
        ("ctrl+c", "clears or interrupts; twice: leave"),
    ] {
        lines.push(Line::styled(format!("  {key:<16}"), theme.accent).with(what, Style::PLAIN));
    }
    lines.push(Line::styled("  /keybindings lists all keys", theme.muted));
    for (title, of_model) in [("Commands", false), ("Commands for the model", true)] {
        lines.push(Line::empty());
        lines.push(Line::styled(title, theme.heading));
        for command in registry.listed() {
            if (command.action == CommandAction::Prompt) != of_model {
                continue;
            }
            let hint = command.argument_hint.as_deref().unwrap_or_default();
            let name = format!("{} {hint}", command.name);
            let description = crate::text::clean(&command.description).replace('\n', " ");
            let mut line = Line::styled(format!("  /{:<22}", name.trim_end()), theme.accent)
                .with(format!(" {description}"), Style::PLAIN);
            if of_model {
                line.push(format!(" ({})", command.source.name()), theme.muted);
            }
            lines.push(line);
        }
    }
    lines
}

/// The window as a grid of cells of one percent each, and what they stand for.
pub(crate) fn context_lines(usage: &ContextUsage, look: Look<'_>) -> Vec<Line> {
    let theme = look.theme;
    let window = usage.window.max(1);
    let colours = [
        theme.accent,
        theme.plan,
        theme.shell,
        theme.string,
        theme.number,
        theme.function,
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
    for (part, mark, style) in parts.iter().filter(|(part, ..)| part.kind == "used") {
        let percent = usize::try_from((part.tokens * 100).div_ceil(window)).unwrap_or(100);
        cells.extend(std::iter::repeat_n((*mark, *style), percent));
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
    if !usage.counted {
        lines.push(Line::styled(
            "  estimated: nothing was sent yet",
            theme.muted,
        ));
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

/// What was used, by model and by what it was for.
pub(crate) fn cost_lines(totals: &Totals, budget: Option<f64>, look: Look<'_>) -> Vec<Line> {
    let theme = look.theme;
    if totals.models.is_empty() {
        return vec![Line::styled("  nothing was used yet", theme.muted)];
    }
    let mut facts = vec![
        format!(
            "waited for the model {}",
            milliseconds(totals.api_duration_ms)
        ),
        format!("for tools {}", milliseconds(totals.tool_duration_ms)),
        format!("lines +{} −{}", totals.lines_added, totals.lines_removed),
    ];
    if let Some(share) = totals.cached_share() {
        facts.push(format!("{:.0}% of the input from the cache", share * 100.0));
    }
    if let Some(budget) = budget {
        facts.push(format!("budget ${budget:.2}"));
    }
    let mut lines = wrap(
        &Line::styled(facts.join(" · "), theme.muted),
        look.columns,
        2,
    );
    let price = |dollars: f64| format!("${dollars:.4}");
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (model, usage) in &totals.models {
        rows.push(vec![
            model.clone(),
            tokens(usage.input_tokens),
            tokens(usage.output_tokens),
            tokens(usage.cache_read_input_tokens),
            tokens(usage.cache_creation_input_tokens),
            if totals.unpriced_models.contains(model) {
                "unknown".to_owned()
            } else {
                price(usage.cost_usd)
            },
        ]);
    }
    if totals.parts.len() > 1 {
        for (part, usage) in &totals.parts {
            rows.push(vec![
                format!("· {}", part.name()),
                tokens(usage.input_tokens),
                tokens(usage.output_tokens),
                tokens(usage.cache_read_input_tokens),
                tokens(usage.cache_creation_input_tokens),
                price(usage.cost_usd),
            ]);
        }
    }
    let columns = [
        "model",
        "input",
        "output",
        "cache read",
        "cache written",
        "cost",
    ]
    .map(str::to_owned);
    lines.extend(cell::plain_table(&columns, &rows, look));
    for (why, times) in &totals.cache_breaks {
        lines.extend(wrap(
            &Line::styled(format!("{times} × without the cache: {why}"), theme.muted),
            look.columns,
            2,
        ));
    }
    lines
}

fn milliseconds(milliseconds: u64) -> String {
    crate::text::duration(std::time::Duration::from_millis(milliseconds))
}
