//! `/skills` lists skills and custom commands.

use crate::app::App;
use crate::commands::definitions;
use crate::layers::{Item, Purpose};

/// The skills and custom commands.
pub(crate) fn run(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let catalog = session.extensions().skills();
    let items: Vec<Item> = catalog
        .iter()
        .filter(|skill| skill.user_invocable)
        .map(|skill| {
            let hint = skill.argument_hint.clone().unwrap_or_default();
            let mut item = Item::new(
                skill.name.clone(),
                format!("/{} {hint}", skill.name).trim_end().to_owned(),
                skill.source.name(),
            );
            item.preview = skill
                .description
                .lines()
                .take(4)
                .map(str::to_owned)
                .collect();
            if let Some(path) = &skill.path {
                item.preview.push(path.display().to_string());
            }
            item
        })
        .collect();
    let words = "Enter inserts a skill into the prompt, ctrl+o shows it. Folders in .lathe/skills/ and files in .lathe/commands/ add more.";
    definitions::choose(app, Purpose::Skills, "Skills and commands", items, words);
}

/// Shows what a skill or a custom command says.
pub(crate) fn show(app: &mut App, name: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let catalog = session.extensions().skills();
    let Some(skill) = catalog.iter().find(|skill| skill.name == name) else {
        return;
    };
    let facts = [
        ("from", skill.source.name().to_owned()),
        ("model", skill.run.model.clone().unwrap_or_default()),
        ("takes", skill.argument_hint.clone().unwrap_or_default()),
    ];
    let (path, description) = (skill.path.clone(), skill.description.clone());
    let body = path
        .as_deref()
        .and_then(|path| std::fs::read_to_string(path).ok())
        .unwrap_or_default();
    definitions::show(app, name, &facts, path.as_deref(), &description, &body);
}

pub(crate) fn put_into_prompt(app: &mut App, name: &str) {
    app.prompt.editor.set_text(&format!("/{name} "));
    app.edited();
}
