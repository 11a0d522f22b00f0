//! `/help` shows what can be typed here.

use crate::app::App;
use crate::commands;
use crate::prompt::keymap::{Action, Context, Keymap};
use crate::render::style::{Line, Style};
use crate::render::text::{clean, one_line, width};
use crate::render::theme::Theme;
use lathe_extensions::{CommandAction, CommandRegistry};

/// Opens the help: the prompt, and all commands.
pub(crate) fn run(app: &mut App) {
    let lines = help_lines(
        &commands::registry(app),
        &app.look.theme,
        &app.prompt.keymap,
    );
    commands::show_page(app, "Help", lines);
}

/// The widest name for which the column of descriptions makes room.
const WIDEST: usize = 34;

/// The help: the prompt, and all commands.
pub(crate) fn help_lines(registry: &CommandRegistry, theme: &Theme, keys: &Keymap) -> Vec<Line> {
    let mut lines = vec![Line::styled("In the prompt", theme.heading)];
    let key = |action| keys.key(Context::Prompt, action);
    let fixed = |name: &str, what: &str| Some((name.to_owned(), what.to_owned()));
    let bound = |action, what: &str| Some((key(action)?, what.to_owned()));
    let also = |action, before: &str, after: &str| {
        let keys = keys.keys(Context::Prompt, action);
        if keys.is_empty() {
            return String::new();
        }
        format!("{before}{}{after}", keys.join(", "))
    };
    let rows = [
        Some((
            "@file".to_owned(),
            format!(
                "names a file{}",
                also(Action::Complete, " (", " completes)")
            ),
        )),
        fixed("@agent-name", "names an agent"),
        fixed("@server:uri", "attaches a resource of an MCP server"),
        fixed(
            "!command",
            "runs a shell command and shares it with the model",
        ),
        fixed("#words", "remembers something for later sessions"),
        Some((
            format!("\\ {}", key(Action::Submit).unwrap_or_default()),
            format!("a new line{}", also(Action::Newline, " (also ", ")")),
        )),
        bound(Action::Queue, "during a turn: sends after it"),
        bound(Action::Cancel, "interrupts; twice: clear, or rewind"),
        fixed("ctrl+c", "clears or interrupts; twice: exit"),
    ];
    for (key, what) in rows.into_iter().flatten() {
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
