//! `/effort` chooses how hard the model tries.

use crate::app::App;
use crate::layers::{Item, Picker, Purpose};
use crate::render::style::Line;

pub(crate) fn run(app: &mut App, wanted: &str) {
    if wanted.is_empty() {
        let items = [
            ("default", "as at the start of the session"),
            ("low", "quick answers"),
            ("medium", "balanced"),
            ("high", "thorough"),
            ("xhigh", "more thorough"),
            ("max", "as much as the model can"),
            ("off", "no thinking"),
        ];
        let items = items
            .map(|(level, words)| Item::new(level, level, words))
            .to_vec();
        let mut picker = Picker::new(
            Purpose::Effort,
            "How much effort should the model use?",
            items,
        )
        .explained(vec![Line::styled(
            "/effort <tokens> limits how much it thinks per request.",
            app.look.theme.muted,
        )]);
        let now = app.engine.handle.as_ref();
        let now = now.and_then(|session| session.model().effort());
        if let Some(now) = now {
            picker = picker.marked(&now);
        }
        app.layers.open(picker);
        return;
    }
    set(app, wanted);
}

pub(crate) fn set(app: &mut App, wanted: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    if session.model().set_effort(Some(wanted)).is_ok() {
        app.remark(format!("effort: {wanted}"));
        return;
    }
    match wanted {
        "default" => {
            // Both as at the start of the session; taking a level back can't fail.
            let _ = session.model().set_effort(None);
            session.model().set_max_thinking_tokens(None);
        }
        "off" => session.model().set_max_thinking_tokens(Some(0)),
        number => match number.parse() {
            Ok(number) => session.model().set_max_thinking_tokens(Some(number)),
            Err(_) => {
                app.warn(format!(
                    "/effort takes low, medium, high, xhigh, max, a number of tokens, off or default, not '{wanted}'."
                ));
                return;
            }
        },
    }
    app.remark(format!("thinking: {wanted}"));
}
