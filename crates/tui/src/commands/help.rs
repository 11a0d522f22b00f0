//! `/help` shows what can be typed here.

use crate::app::App;
use crate::commands;
use crate::render::style::{Line, Style};
use crate::render::text::{clean, one_line, width};
use crate::render::theme::Theme;
use lathe_extensions::{CommandAction, CommandRegistry};

/// Opens the help: the prompt, and all commands.
pub(crate) fn run(app: &mut App) {
    let lines = help_lines(&commands::registry(app), &app.look.theme);
    commands::show_page(app, "Help", lines);
}

/// The widest name for which the column of descriptions makes room.
const WIDEST: usize = 34;

/// The help: the prompt, and all commands.
pub(crate) fn help_lines(registry: &CommandRegistry, theme: &Theme) -> Vec<Line> {
    let mut lines = vec![Line::styled("In the prompt", theme.heading)];
    for (key, what) in [
        ("@file", "names a file (tab completes)"),
        ("@agent-name", "names an agent"),
        ("@server:uri", "attaches a resource of an MCP server"),
        (
            "!command",
            "runs a shell command and shares it with the model",
        ),
        ("#words", "remembers something for later sessions"),
        ("\\ enter", "a new line (also shift+enter, ctrl+j)"),
        ("alt+enter", "during a turn: sends after it"),
        ("esc", "interrupts; twice: clear, or rewind"),
        ("ctrl+c", "clears or interrupts; twice: exit"),
    ] {
        lines.push(Line::styled(format!("  {key:<16}"), theme.accent).with(what, Style::PLAIN));
    }
    lines.push(Line::styled("  /keybindings lists all keys", theme.muted));
    for (title, of_model) in [
        ("Commands", false),
        ("Commands that prompt the model", true),
    ] {
        lines.push(Line::empty());
        lines.push(Line::styled(title, theme.heading));
        let named: Vec<_> = registry
            .listed()
            .filter(|command| (command.action == CommandAction::Prompt) == of_model)
            .map(|command| {
                let hint = command.argument_hint.as_deref().unwrap_or_default();
                (
                    format!("{} {hint}", command.name).trim_end().to_owned(),
                    command,
                )
            })
            .collect();
        let widths = named.iter().map(|(name, _)| width(name));
        let column = widths.filter(|width| *width <= WIDEST).max().unwrap_or(0);
        for (name, command) in named {
            let description = one_line(&clean(&command.description));
            let blanks = " ".repeat(column.saturating_sub(width(&name)) + 2);
            let mut line = Line::styled(format!("  /{name}{blanks}"), theme.accent)
                .with(description, Style::PLAIN);
            if of_model {
                line.push(format!(" ({})", command.source.name()), theme.muted);
            }
            lines.push(line);
        }
    }
    lines
}
