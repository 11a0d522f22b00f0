//! `/model` chooses the model.

use crate::app::App;
use crate::layers::{Item, Picker, Purpose};
use crate::render::style::Line;
use crate::render::theme::Theme;

pub(crate) fn run(app: &mut App, wanted: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    if !wanted.is_empty() {
        match session.model().set(Some(wanted)) {
            Ok(model) => app.session.model = model,
            Err(refused) => {
                app.warn(refused.to_string());
                return;
            }
        }
        // It is meant for what follows in this terminal, too: /clear and /fork don't take it back.
        app.engine.options.model.name = Some(wanted.to_owned());
        let model = app.session.model.clone();
        app.remark(format!("model: {model}"));
        return;
    }
    let picker = models_picker(session.model().known(), &app.session.model, &app.look.theme);
    app.layers.open(picker);
}

/// The models that have a short name.
pub(crate) fn models_picker(models: Vec<(String, String)>, now: &str, theme: &Theme) -> Picker {
    let items = models
        .into_iter()
        .map(|(alias, name)| Item::new(alias.clone(), alias, name))
        .collect();
    let words = format!("current: {now}. /model <id> takes any id.");
    Picker::new(Purpose::Model, "Which model?", items)
        .explained(vec![Line::styled(words, theme.muted)])
}
