//! `/memory` shows instruction files and proposed memories.

use crate::app::App;
use crate::render::style::{Line, Style};
use lathe_memory::AutoMemory;

/// The instruction files that are loaded and what is proposed to be remembered; `accept` and `reject`
/// with a name decide about a proposal.
pub(crate) fn run(app: &mut App, arguments: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let memory = AutoMemory::of(&app.places.config_home, &app.places.project);
    if let Some((what, name)) = arguments.split_once(char::is_whitespace) {
        let done = match what {
            "accept" => memory
                .accept(name.trim())
                .map(|path| format!("Remembered in {}", path.display())),
            "reject" => memory
                .reject(name.trim())
                .map(|()| format!("rejected '{}'", name.trim())),
            _ => {
                app.warn("/memory takes accept or reject, with a name.");
                return;
            }
        };
        match done {
            Ok(text) => app.remark(text),
            Err(error) => app.warn(error.to_string()),
        }
        return;
    }
    let theme = app.theme();
    let files = session.context().usage().instruction_files;
    let mut lines = vec![Line::styled("Instruction files", theme.heading)];
    if files.is_empty() {
        lines.push(Line::styled(
            "  none; /init writes one for this project, # adds a line",
            theme.muted,
        ));
    }
    for (path, scope, count) in files {
        lines.push(
            Line::styled(format!("  {scope:<8}"), theme.muted)
                .with(path.display().to_string(), Style::PLAIN)
                .with(
                    format!(" · {} tokens", crate::render::text::tokens(count)),
                    theme.muted,
                ),
        );
    }
    let proposals = memory.proposals();
    if !proposals.is_empty() {
        lines.push(Line::empty());
        lines.push(Line::styled("Proposed memories", theme.heading));
        for topic in proposals {
            lines.push(
                Line::styled(
                    format!("  {} ", crate::render::text::clean(&topic.name)),
                    theme.accent,
                )
                .with(crate::render::text::clean(&topic.description), Style::PLAIN),
            );
        }
        lines.push(Line::styled(
            "  /memory accept <name> keeps one, /memory reject <name> drops it",
            theme.muted,
        ));
    }
    app.answer(lines);
}
