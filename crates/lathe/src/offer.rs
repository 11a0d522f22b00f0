//! A start without a key: what could be used instead, on this machine or with the keys that are there.

use crate::commands::{load_options, places};
use lathe_engine::models::{Listed, Overview};
use lathe_settings::{Environment, Variable, load};
use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _, Write as _};

/// How many models are shown.
const MOST: usize = 9;

/// The available models.
#[derive(Debug, Default)]
pub(crate) struct Offer {
    models: Vec<Listed>,
    /// Providers whose keys are there.
    with_key: Vec<String>,
}

impl Offer {
    /// Whether the usual model can't be asked for want of a key.
    pub(crate) fn is_needed(environment: &Environment) -> bool {
        let has = |variable| environment.get(variable).is_some();
        if has(Variable::ApiKey) || has(Variable::AuthToken) {
            return false;
        }
        let places = places(environment.clone());
        let resolved = load(&places, &load_options(&places, &[], None));
        Overview::new(&places, &resolved).lacks_key()
    }

    /// Looks for servers on this machine, and for keys.
    pub(crate) async fn find(environment: Environment) -> Self {
        let places = places(environment);
        let resolved = load(&places, &load_options(&places, &[], None));
        let (models, with_key) = Overview::new(&places, &resolved).offers().await;
        Self { models, with_key }
    }

    /// The hints, one per line.
    pub(crate) fn hints(&self) -> Vec<String> {
        let mut hints: Vec<String> = self
            .models
            .iter()
            .take(MOST)
            .map(|found| format!("found on this machine: lathe --model {}", line(found)))
            .collect();
        hints.extend(self.with_key.iter().map(|name| {
            format!(
                "there is a key for {name}: lathe --model {name}/MODEL (`lathe models` lists them)"
            )
        }));
        hints
    }

    /// Whether no model was found on this machine.
    pub(crate) fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// Asks the user at the terminal which model to use; `None` if there is nobody, nothing, or they want none.
    pub(crate) fn choose(&self) -> Option<String> {
        let stdin = std::io::stdin();
        if self.models.is_empty() || !stdin.is_terminal() || !std::io::stderr().is_terminal() {
            return None;
        }
        let mut text =
            "No key for the model API was found, but these models are on this machine:\n"
                .to_owned();
        for (number, found) in self.models.iter().take(MOST).enumerate() {
            let _ = writeln!(text, "  {}  {}", number + 1, line(found));
        }
        text.push_str("Which one should be used? (a number, or enter for none) ");
        let mut stderr = lathe_headless::output::Terminal::stderr();
        let _ = stderr.write_all(text.as_bytes());
        let _ = stderr.flush();
        let mut answer = String::new();
        stdin.lock().read_line(&mut answer).ok()?;
        let number: usize = answer.trim().parse().ok()?;
        let found = self.models.iter().take(MOST).nth(number.checked_sub(1)?)?;
        let name = name(found);
        let _ = writeln!(
            stderr,
            "Using {name}. To keep it: lathe config set model {name}"
        );
        Some(name)
    }
}

fn name(found: &Listed) -> String {
    format!("{}/{}", found.provider, found.model)
}

fn line(found: &Listed) -> String {
    let tools = match found.tools {
        Some(false) => ", no native tool calling",
        _ => "",
    };
    format!(
        "{} (window of {} tokens{tools})",
        name(found),
        found.context_window
    )
}
