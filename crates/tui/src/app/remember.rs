//! `#`: writes a line into an instruction file.

use crate::app::App;
use crate::layers::{Item, Picker, Purpose};
use crate::render::style::Line;
use lathe_protocol::op::{Op, Prompt};

pub(crate) fn ask_where(app: &mut App, text: &str) {
    let project = &app.places.project;
    let existing = ["AGENTS.md", "CLAUDE.md"]
        .iter()
        .find(|name| project.join(name).is_file())
        .unwrap_or(&"AGENTS.md");
    let user = user_file(app);
    let items = vec![
        Item::new(
            project.join(existing).display().to_string(),
            "For this project",
            format!("{existing}, shared with everyone"),
        ),
        Item::new(
            user.display().to_string(),
            "For all your projects",
            user.display().to_string(),
        ),
    ];
    let picker = Picker::new(
        Purpose::Memory {
            text: text.to_owned(),
        },
        "Where should this be remembered?",
        items,
    )
    .explained(vec![Line::plain(format!("  {text}"))]);
    app.layers.open(picker);
}

pub(crate) fn user_file(app: &App) -> std::path::PathBuf {
    let home = &app.places.config_home;
    ["AGENTS.md", "LATHE.md", "CLAUDE.md"]
        .iter()
        .map(|name| home.join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| home.join("AGENTS.md"))
}

pub(crate) fn write(app: &mut App, text: &str, file: &str) {
    let path = std::path::Path::new(file);
    let before = std::fs::read_to_string(path).unwrap_or_default();
    let gap = if before.is_empty() || before.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let result = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(path, format!("{before}{gap}- {text}\n")));
    match result {
        Ok(()) => {
            app.remark(format!("remembered in {}", path.display()));
            let mut prompt = Prompt::new(format!(
                "The user asked to remember this, and it was added to {}: {text}",
                path.display()
            ));
            prompt.context_only = true;
            prompt.is_meta = true;
            app.queue.own_context.insert(prompt.uuid);
            app.engine.send(Op::Prompt(prompt));
        }
        Err(error) => app.warn(format!("can't write {}: {error}", path.display())),
    }
}
