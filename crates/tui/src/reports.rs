//! Commands that tell: the help, how full the window is, what was used, all keys.

use crate::app::App;
use crate::cell;
use crate::commands::COMMANDS;
use crate::keymap::ACTIONS;
use crate::markdown::Look;
use crate::style::{Line, Style};
use crate::text::tokens;

impl App {
    pub(crate) fn help(&mut self) {
        let theme = self.theme();
        let mut lines = vec![Line::styled("Commands", theme.heading)];
        for command in COMMANDS {
            lines.push(
                Line::styled(format!("  /{:<15}", command.name), theme.accent)
                    .with(command.what, Style::PLAIN),
            );
        }
        for command in self.session_commands() {
            let name = format!(
                "{} {}",
                command.name,
                command.argument_hint.unwrap_or_default()
            );
            lines.push(
                Line::styled(format!("  /{:<15}", name.trim_end()), theme.accent)
                    .with(
                        format!(" {}", crate::text::clean(&command.description)),
                        Style::PLAIN,
                    )
                    .with(format!(" ({})", command.source.name()), theme.muted),
            );
        }
        lines.push(Line::empty());
        lines.push(Line::styled("In the prompt", theme.heading));
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
        lines.push(Line::styled("/keybindings lists all keys.", theme.muted));
        self.answer(lines);
    }

    pub(crate) fn context(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let usage = session.context_usage();
        let theme = self.theme();
        let used = usage.system + usage.tools + usage.messages;
        let window = usage.window.max(1);
        let parts = [
            ("system prompt", usage.system, theme.accent),
            ("tools", usage.tools, theme.plan),
            ("conversation", usage.messages, theme.code),
        ];
        let mut lines = vec![Line::styled(
            format!(
                "Context · {} · {} of {} tokens ({}%)",
                usage.model,
                tokens(used),
                tokens(window),
                used * 100 / window
            ),
            theme.heading,
        )];
        // A grid of 100 cells, one percent each.
        let mut cells: Vec<(&str, Style)> = Vec::new();
        for (_, count, style) in parts {
            let percent = usize::try_from((count * 100).div_ceil(window)).unwrap_or(100);
            cells.extend(std::iter::repeat_n(("■ ", style), percent));
        }
        cells.resize(100, ("· ", theme.muted));
        for row in cells.chunks(20) {
            let mut line = Line::plain("  ");
            for (mark, style) in row {
                line.push(*mark, *style);
            }
            lines.push(line);
        }
        for (name, count, style) in parts {
            lines.push(
                Line::styled("  ■ ", style)
                    .with(format!("{name:<15}{}", tokens(count)), Style::PLAIN),
            );
        }
        lines.push(Line::styled(
            format!("  · {:<15}{}", "free", tokens(window.saturating_sub(used))),
            theme.muted,
        ));
        for (path, scope, count) in &usage.instruction_files {
            lines.push(Line::styled(
                format!("  {scope}: {} ({} tokens)", path.display(), tokens(*count)),
                theme.muted,
            ));
        }
        self.answer(lines);
    }

    pub(crate) fn cost(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let totals = session.totals();
        if totals.models.is_empty() {
            self.remark("nothing was used yet");
            return;
        }
        let theme = self.theme();
        let mut lines = vec![Line::styled(
            format!("This session: ${:.4}", totals.cost_usd()),
            theme.heading,
        )];
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
        lines.push(Line::styled(facts.join(" · "), theme.muted));
        let look = Look {
            theme: &theme,
            columns: self.width(),
        };
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
            lines.push(Line::styled(
                format!("{times} × without the cache: {why}"),
                theme.muted,
            ));
        }
        self.answer(lines);
    }

    pub(crate) fn keybindings(&mut self) {
        let theme = self.theme();
        let file = self.places.config_home.join("keybindings.json");
        let mut lines = vec![Line::styled("Keys", theme.heading)];
        for (keys, context, what) in self.keymap.listing() {
            lines.push(
                Line::styled(format!("  {keys:<34}"), theme.accent)
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
        self.answer(lines);
    }
}

fn milliseconds(milliseconds: u64) -> String {
    crate::text::duration(std::time::Duration::from_millis(milliseconds))
}
