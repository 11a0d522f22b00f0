//! There is no key for a model: where to go from here. Never a bare error.

use crate::app::jobs::JobResult;
use crate::app::{App, Leave, providers};
use crate::commands::{self, login};
use crate::layers::{Form, Item, Picker, Purpose};
use crate::render::style::Line;
use crate::render::theme::Theme;
use lathe_protocol::command::BuiltinCommand;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// The variable that a key of this session goes into.
const KEY: &str = "ANTHROPIC_API_KEY";

/// Local servers that are looked for: the provider and its port.
const LOCAL: &[(&str, u16)] = &[("ollama", 11_434), ("lmstudio", 1_234)];

/// How long a local server may take to accept.
const PATIENCE: Duration = Duration::from_millis(150);

/// Looks which local servers there are, and then asks.
pub(crate) fn look(app: &mut App) {
    app.jobs.blocking(|| {
        let there = |(_, port): &&(&str, u16)| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
            TcpStream::connect_timeout(&address, PATIENCE).is_ok()
        };
        let found = LOCAL.iter().filter(there).copied().collect();
        Some(JobResult::LocalServers(found))
    });
}

/// Shows the ways on.
pub(crate) fn found(app: &mut App, servers: Vec<(&'static str, u16)>) {
    app.engine.local_servers = servers;
    ask(app);
}

pub(crate) fn ask(app: &mut App) {
    let typing = !app.prompt.editor.is_empty();
    let has_prompt = typing || app.engine.first_prompt.is_some();
    let picker = no_key_picker(&app.engine.local_servers, has_prompt, &app.look.theme);
    let picker = picker.unasked(typing);
    app.layers.open_unasked(picker);
}

/// The ways to a model.
pub(crate) fn no_key_picker(
    servers: &[(&'static str, u16)],
    has_prompt: bool,
    theme: &Theme,
) -> Picker {
    let mut items: Vec<Item> = servers
        .iter()
        .map(|(name, port)| {
            Item::new(
                format!("local {name}"),
                format!("Use a model of {name}"),
                format!("it answers at localhost:{port}"),
            )
        })
        .collect();
    items.extend([
        Item::new("key", "Enter a key", "for this session; it is not stored"),
        Item::new(
            "helper",
            "Name a program that prints the key",
            "apiKeyHelper in your settings",
        ),
        Item::new(
            "login",
            "Log in to a provider",
            "its key is stored, as by `lathe login`",
        ),
        Item::new(
            "import",
            "Import the setup of another agent",
            "leaves, and runs `lathe import`",
        ),
        Item::new("demo", "Watch the demo", "leaves, and runs `lathe demo`"),
        Item::new("leave", "Exit", ""),
    ]);
    let mut lines = vec![Line::styled(
        "Lathe needs a model: no key was found in ANTHROPIC_API_KEY, apiKeyHelper or the providers in your settings.",
        theme.muted,
    )];
    if has_prompt {
        lines.push(Line::styled("Your prompt is kept.", theme.muted));
    }
    Picker::new(Purpose::NoKey, "Which model should be used?", items).explained(lines)
}

pub(crate) fn chosen(app: &mut App, value: &str) {
    match value.split_once(' ') {
        Some(("local", name)) => {
            providers::chosen(app, &format!("model {name}"));
        }
        _ => match value {
            "key" => app.layers.open(
                Form::new(
                    Purpose::SessionKey,
                    "The key (used by this session only; not stored)",
                    "",
                )
                .secret(),
            ),
            "helper" => app
                .layers
                .open(Form::new(Purpose::KeyHelper, login::HELPER_WORDS, "")),
            "login" => providers::look(app),
            "import" => app.exit.leave = Some(Leave::Run("import")),
            "demo" => app.exit.leave = Some(Leave::Run("demo")),
            _ => app.exit.leave = Some(Leave::NoCredentials),
        },
    }
}

/// Opens the session with a key that was entered.
pub(crate) fn use_key(app: &mut App, key: &str) {
    let variables = &mut app.places.environment.variables;
    variables.insert(KEY.to_owned(), key.trim().to_owned());
    again(app);
}

/// Opens the session with a model, or changes the one that is open to it.
pub(crate) fn use_model(app: &mut App, model: &str) {
    if app.engine.handle.is_some() {
        commands::run_own(app, BuiltinCommand::Model, model.trim());
        return;
    }
    app.engine.options.model.name = Some(model.trim().to_owned());
    again(app);
}

/// Opens the session again, now that something changed.
pub(crate) fn again(app: &mut App) {
    app.exit.failure = None;
    app.engine.loaded_settings = None;
    app.jobs.settings(&app.places, &app.engine.options);
    app.open_session();
}
