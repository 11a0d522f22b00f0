//! `/output-style` chooses the output style.

use crate::app::{App, settings};
use crate::layers::{Item, Picker, Purpose};

/// Chooses how the model talks.
pub(crate) fn run(app: &mut App, wanted: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    if !wanted.is_empty() {
        match session.extensions().set_output_style(wanted) {
            Ok(name) => {
                settings::save(app, "outputStyle", name.clone().into());
                app.remark(format!("output style: {name}, from the next turn on"));
            }
            Err(error) => app.warn(error.to_string()),
        }
        return;
    }
    let (styles, present) = session.extensions().output_styles();
    let items = styles
        .iter()
        .map(|style| {
            Item::new(
                style.name.clone(),
                style.name.clone(),
                format!("{} · {}", style.source.name(), style.description),
            )
        })
        .collect();
    app.layers
        .open(Picker::new(Purpose::OutputStyle, "Output style", items).marked(&present));
}
