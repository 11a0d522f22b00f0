//! `/queue` shows what waits to be sent: it can be edited, moved, sent at once or removed.

use crate::app::{App, queue};
use crate::layers::{Item, Picker, Purpose};
use crate::render::text::clean;

pub(crate) fn run(app: &mut App) {
    show(app, 0);
}

fn show(app: &mut App, selected: usize) {
    let entries = app.queue.entries();
    if entries.is_empty() {
        app.remark("Nothing is queued.");
        return;
    }
    let selected = selected.min(entries.len() - 1);
    let items = entries
        .iter()
        .enumerate()
        .map(|(index, (text, waits))| {
            let when = if *waits {
                "after this turn"
            } else {
                "with the next tool result"
            };
            Item::new(index.to_string(), clean(text), when)
        })
        .collect();
    let picker = Picker::new(Purpose::Queue, "Queued prompts", items)
        .with_key('x', "remove")
        .with_key('s', "send now")
        .with_key('u', "move up")
        .with_key('d', "move down")
        .at(&selected.to_string());
    app.layers.open(picker);
}

/// Takes an entry back into the editor.
pub(crate) fn edit(app: &mut App, place: &str) {
    let Ok(place) = place.parse() else {
        return;
    };
    let engine = &app.engine;
    match app.queue.remove(place, |uuid| engine.cancel_queued(uuid)) {
        Some(typed) => {
            app.prompt.editor.put_before(&typed.text, typed.attachments);
            app.prompt.text_changed();
        }
        None => app.remark("It was sent already."),
    }
}

pub(crate) fn other_key(app: &mut App, place: &str, key: char) {
    let Ok(place) = place.parse::<usize>() else {
        return;
    };
    let mut selected = place;
    match key {
        'x' => {
            let engine = &app.engine;
            let removed = app.queue.remove(place, |uuid| engine.cancel_queued(uuid));
            if removed.is_none() {
                app.remark("It was sent already.");
            }
        }
        's' => {
            app.queue.hurry(place);
            queue::send(app);
            selected = 0;
        }
        'u' if place > 0 && app.queue.swap(place, place - 1) => selected = place - 1,
        'd' if app.queue.swap(place, place + 1) => selected = place + 1,
        _ => {}
    }
    show(app, selected);
}
