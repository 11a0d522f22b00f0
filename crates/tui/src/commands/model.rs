//! `/model` chooses the model.

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::commands::effort;
use crate::layers::{Item, Picker, Purpose};
use crate::render::style::Line;
use crate::render::text::tokens;
use crate::render::theme::Theme;
use futures::FutureExt as _;
use lathe_engine::{SwitchError, SwitchSource};
use lathe_host::Done;
use lathe_wire::NakCode;

pub(crate) fn run(app: &mut App, wanted: &str, source: SwitchSource) {
    if !wanted.is_empty() {
        switch(app, wanted, source, false, None);
        return;
    }
    let Some(session) = &app.engine.handle else {
        return;
    };
    let (known, name) = (session.model().known(), session.model().display_name());
    let present = known
        .iter()
        .find(|(alias, called)| *alias == app.session.model || *called == name)
        .map(|(alias, _)| alias.clone());
    let model = session.model();
    let models = known.into_iter().map(|(alias, name)| {
        let facts = model.window_and_prices(&alias);
        let (window, prices) =
            facts.map_or((None, None), |(window, prices)| (Some(window), prices));
        Offered {
            alias,
            name,
            window,
            prices,
        }
    });
    let effort = model.effort();
    let mut picker = models_picker(models.collect(), &app.session.model, &app.look.theme)
        .with_dial("effort", &DIALLED, effort.as_deref().unwrap_or(DIALLED[0]));
    if let Some(present) = present {
        picker = picker.marked(&present);
    }
    app.layers.open(picker);
}

/// A model was chosen in the list, and maybe another effort.
pub(crate) fn chosen(app: &mut App, wanted: &str) {
    let effort = app.layers.shown::<Picker>().and_then(Picker::dialled);
    switch(app, wanted, SwitchSource::Picker, false, None);
    if let Some(effort) = effort {
        effort::set(app, effort);
    }
}

/// A client of the session asks for a model, and is told whether it is used.
pub(crate) fn asked(app: &mut App, wanted: &str, done: Done) {
    switch(app, wanted, SwitchSource::Command, false, Some(done));
}

fn switch(app: &mut App, wanted: &str, source: SwitchSource, confirmed: bool, asked: Option<Done>) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let model = session.model();
    let waits = model.has_switch_hooks();
    let switching = model.switch_later(wanted.to_owned(), source, confirmed);
    let wanted = wanted.to_owned();
    let switching = async move {
        let done = switching.await;
        match (asked, &done) {
            (Some(asked), Ok(_)) => asked.ok(),
            (Some(asked), Err(why)) => asked.refuse(NakCode::Refused, why.to_string()),
            (None, _) => {}
        }
        JobResult::ModelSwitched {
            wanted,
            source,
            done,
        }
    };
    if waits {
        app.jobs.task(async move { Some(switching.await) });
    } else if let Some(JobResult::ModelSwitched {
        wanted,
        source,
        done,
    }) = switching.now_or_never()
    {
        // Done before the next key: a prompt that follows goes to the new model.
        switched(app, wanted, source, done);
    }
}

/// The answer to a hook's question whether the model is to be switched.
pub(crate) fn confirmed(app: &mut App, wanted: &str, source: SwitchSource, answer: &str) {
    if answer == "yes" {
        switch(app, wanted, source, true, None);
    } else {
        app.remark("The model stays as it was.");
    }
}

/// The model was switched, or a hook or the settings refused it, or a hook wants it confirmed.
pub(crate) fn switched(
    app: &mut App,
    wanted: String,
    source: SwitchSource,
    done: Result<String, SwitchError>,
) {
    match done {
        Err(SwitchError::Ask(reason)) => {
            let items = vec![
                Item::new("yes", "Switch", ""),
                Item::new("no", "Keep the model", ""),
            ];
            let title = format!("Switch to {wanted}?");
            let words =
                crate::render::text::clean(&format!("A PreModelSwitch hook asks: {reason}"));
            let picker = Picker::new(Purpose::ModelSwitch { wanted, source }, title, items)
                .explained(vec![Line::plain(words)])
                .unasked(!app.prompt.editor.is_empty());
            app.layers.open_unasked(picker);
        }
        Ok(model) => {
            app.session.model.clone_from(&model);
            // It is meant for what follows in this terminal, too: /clear and /fork don't take it back.
            app.engine.options.model.name = Some(wanted);
            app.remark(format!("model: {model}"));
        }
        Err(refused) => app.warn(refused.to_string()),
    }
}

/// The levels of effort that ← and → go through.
const DIALLED: [&str; 6] = ["default", "low", "medium", "high", "xhigh", "max"];

/// A model of the list.
pub(crate) struct Offered {
    pub(crate) alias: String,
    pub(crate) name: String,
    /// Tokens of the context window.
    pub(crate) window: Option<u64>,
    /// Dollars for a million tokens of input and output.
    pub(crate) prices: Option<(f64, f64)>,
}

impl Offered {
    fn detail(&self) -> String {
        let mut words = vec![self.name.clone()];
        words.extend(self.window.map(tokens));
        words.extend(
            self.prices
                .map(|(input, output)| format!("${input}/${output}")),
        );
        words.join(" · ")
    }
}

/// The models that have a short name.
pub(crate) fn models_picker(models: Vec<Offered>, now: &str, theme: &Theme) -> Picker {
    let items = models
        .into_iter()
        .map(|model| Item::new(model.alias.clone(), model.alias.clone(), model.detail()))
        .collect();
    let words = format!(
        "current: {now}. /model <id> takes any id. Prices are dollars per million tokens of input/output."
    );
    Picker::new(Purpose::Model, "Which model?", items)
        .explained(vec![Line::styled(words, theme.muted)])
}
