//! The question whether the folder is trusted.

use crate::app::{App, Leave};
use crate::layers::{Item, Picker, Purpose};
use crate::render::style::{Line, Style};
use lathe_settings::trust::Bring;

pub(crate) fn ask(app: &mut App, brings: &[Bring]) {
    // They may have changed, and the trust with them, when this is answered.
    app.engine.loaded_settings = None;
    let theme = app.theme();
    let mut lines = vec![
        Line::styled(app.places.project.display().to_string(), theme.code),
        Line::styled(
            "This folder contains files that can run programs or change prompts:",
            theme.muted,
        ),
    ];
    for bring in brings.iter().take(12) {
        lines.push(
            Line::styled(format!("  {}: ", bring.kind.heading()), theme.muted).with(
                crate::render::text::reveal(&bring.to_string()),
                Style::PLAIN,
            ),
        );
    }
    if brings.len() > 12 {
        lines.push(Line::styled(
            format!("  … and {} more", brings.len() - 12),
            theme.muted,
        ));
    }
    let picker = Picker::new(
        Purpose::Trust,
        "Do you trust this folder?",
        vec![
            Item::new("yes", "Yes, use them", "remembered"),
            Item::new("no", "No, continue without them", ""),
            Item::new("leave", "Exit", ""),
        ],
    )
    .explained(lines);
    app.layers.open_unasked(picker);
}

pub(crate) fn answered(app: &mut App, answer: &str) {
    match answer {
        "yes" => {
            let store = lathe_settings::TrustStore::new(&app.places);
            let now = jiff::Timestamp::now().to_string();
            if let Err(error) = store.remember(&app.places.project, true, &now) {
                app.warn(error.to_string());
            }
            app.jobs.settings(&app.places, &app.engine.options);
            app.open_or_pick();
        }
        "no" => app.open_or_pick(),
        _ => app.exit.leave = Some(Leave::Asked),
    }
}
