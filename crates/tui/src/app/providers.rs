//! Logging in to a provider: its key is stored where `lathe login` stores it.

use crate::app::jobs::{self, JobResult};
use crate::app::{App, no_key};
use crate::layers::{Form, Item, Picker, Purpose};
use crate::render::style::Line;
use crate::render::theme::Theme;
use lathe_engine::models::{ANTHROPIC, KeyStoreError, Overview, ProviderKey};

/// Looks which providers there are, and then asks.
pub(crate) fn look(app: &mut App) {
    let read = overview(app);
    app.jobs
        .blocking(move || Some(JobResult::Providers(read().keys())));
}

fn overview(app: &App) -> impl FnOnce() -> Overview + use<> {
    let places = app.places.clone();
    let options = jobs::load_options(&places, &app.engine.options.settings);
    move || Overview::new(&places, &lathe_settings::load(&places, &options))
}

pub(crate) fn found(app: &mut App, providers: &[ProviderKey]) {
    let picker = providers_picker(providers, &app.look.theme);
    app.layers.open(picker);
}

/// The providers, with where their keys come from.
pub(crate) fn providers_picker(providers: &[ProviderKey], theme: &Theme) -> Picker {
    let items = providers
        .iter()
        .map(|key| {
            let wanted = if key.is_missing { "key" } else { "model" };
            Item::new(
                format!("{wanted} {}", key.provider),
                key.provider.clone(),
                key.source.clone(),
            )
        })
        .collect();
    let words = "A key is stored in the system's keyring, or in a file that only you can read.";
    Picker::new(Purpose::Providers, "Which provider?", items)
        .explained(vec![Line::styled(words, theme.muted)])
        .filterable()
}

/// Asks for the key of a provider, or for a model where none is missing.
pub(crate) fn chosen(app: &mut App, value: &str) {
    match value.split_once(' ') {
        Some(("key", provider)) => {
            let purpose = Purpose::ProviderKey {
                provider: provider.to_owned(),
            };
            let title = format!("The key of {provider}");
            app.layers.open(Form::new(purpose, &title, "").secret());
        }
        Some((_, provider)) => ask_model(app, provider),
        None => {}
    }
}

/// Stores a key that was entered.
pub(crate) fn store(app: &mut App, provider: String, key: &str) {
    let key = key.trim().to_owned();
    if key.is_empty() {
        chosen(app, &format!("key {provider}"));
        return;
    }
    let read = overview(app);
    app.jobs.blocking(move || {
        let said = read().log_in(&provider, &key);
        Some(JobResult::KeyStored { provider, said })
    });
}

/// A key was stored, or could not be.
pub(crate) fn stored(app: &mut App, provider: &str, said: Result<String, KeyStoreError>) {
    match said {
        Ok(words) => {
            app.remark(words);
            if app.engine.handle.is_none() && provider == ANTHROPIC {
                no_key::again(app);
            } else {
                ask_model(app, provider);
            }
        }
        Err(why) => {
            app.warn(format!("The key of {provider} was not stored: {why}"));
            if app.engine.handle.is_none() {
                no_key::ask(app);
            }
        }
    }
}

/// Asks for a model of a provider. A session that is open changes to it.
fn ask_model(app: &mut App, provider: &str) {
    let form = Form::new(
        Purpose::ProviderModel,
        "Which model?",
        &format!("{provider}/"),
    );
    app.layers.open(form);
}
