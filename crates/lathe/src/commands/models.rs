//! `lathe models`, `lathe login`, `lathe logout` and `lathe status`: which models there are, what they can do, and their keys.

use super::{load_options, places, print, print_line};
use crate::error::{CliError, Kinded as _, Outcome, notice};
use clap::{Args, Subcommand};
use lathe_engine::models::{self, Listed};
use lathe_headless::exit::Exit;
use lathe_model::providers::ANTHROPIC;
use lathe_settings::{Environment, load};
use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _, Write as _};

// `lathe models`.
#[derive(Debug, Args)]
pub(crate) struct ModelsArguments {
    #[command(subcommand)]
    command: Option<ModelsCommand>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum ModelsCommand {
    /// Ask a model for text, a stream, calls, an image and structured output, and show what worked.
    Test {
        /// `provider/model`, or a short name.
        model: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Fetch a newer table of windows, prices and abilities.
    Update {
        /// Its URL, instead of `modelTableUrl` in settings.
        url: Option<String>,
    },
}

// `lathe login`.
#[derive(Debug, Args)]
pub(crate) struct LoginArguments {
    /// The provider. Without it, list the providers and the sources of their keys.
    provider: Option<String>,
}

// `lathe logout`.
#[derive(Debug, Args)]
pub(crate) struct LogoutArguments {
    /// The provider.
    provider: String,
}

fn overview(environment: Environment) -> Result<models::Overview, CliError> {
    let places = places(environment);
    let options = load_options(&places, &[], None);
    let resolved = load(&places, &options);
    let overview = models::Overview::new(&places, &resolved);
    for problem in overview.problems() {
        notice(problem);
    }
    Ok(overview)
}

/// `lathe models`.
pub(crate) async fn run(environment: Environment, arguments: ModelsArguments) -> Outcome {
    let overview = overview(environment)?;
    match arguments.command {
        None => list(&overview, arguments.json).await,
        Some(ModelsCommand::Test { model, json }) => {
            test(&overview, &model, json || arguments.json).await
        }
        Some(ModelsCommand::Update { url }) => {
            let (rows, file) = overview.update(url.as_deref()).await.or_failure()?;
            print(&format!("{rows} models are in {}.\n", file.display()))
        }
    }
}

async fn list(overview: &models::Overview, json: bool) -> Outcome {
    let (listed, warnings) = overview.list().await;
    if json {
        let value = serde_json::to_value(&listed).or_failure()?;
        return print_line(&serde_json::to_string_pretty(&value).or_failure()?);
    }
    for warning in &warnings {
        notice(warning);
    }
    if listed.is_empty() {
        return print(
            "No models were found: no provider with a key lists any, and no server was found on this machine.\nSet a key (for example OPENAI_API_KEY), run `lathe login <provider>`, or start Ollama, llama.cpp, LM Studio or vLLM.\n",
        );
    }
    print(&table(&listed))
}

fn table(listed: &[Listed]) -> String {
    let width = |of: fn(&Listed) -> usize| listed.iter().map(of).max().unwrap_or_default();
    let name = width(|row| row.provider.len() + 1 + row.model.len()).max(5);
    let mut text = format!(
        "{:name$}  {:>9}  {:5}  {:6}  {:9}  price in/out  source\n",
        "model", "window", "tools", "images", "reasoning"
    );
    let word = |known: Option<bool>| match known {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    };
    for row in listed {
        let price = row.price.as_ref().map_or_else(
            || "unknown".to_owned(),
            |price| format!("${}/{}", price.input, price.output),
        );
        let _ = writeln!(
            text,
            "{:name$}  {:>9}  {:5}  {:6}  {:9}  {price:12}  {}",
            format!("{}/{}", row.provider, row.model),
            row.context_window,
            word(row.tools),
            word(row.images),
            word(row.reasoning),
            row.source,
        );
    }
    text
}

async fn test(overview: &models::Overview, model: &str, json: bool) -> Outcome {
    let trials = overview
        .test(model)
        .await
        .map_err(CliError::no_credentials)?;
    let passed = trials.iter().take(2).all(|trial| trial.passed);
    if json {
        let rows: Vec<serde_json::Value> = trials
            .iter()
            .map(|trial| serde_json::json!({"name": trial.name, "passed": trial.passed, "detail": trial.detail}))
            .collect();
        print_line(&serde_json::to_string_pretty(&rows).or_failure()?)?;
    } else {
        let mut text = String::new();
        for trial in &trials {
            let word = if trial.passed { "ok" } else { "no" };
            let _ = writeln!(text, "{:10}  {word:2}  {}", trial.name, trial.detail);
        }
        print(&text)?;
    }
    Ok(if passed { Exit::Success } else { Exit::Failure })
}

/// `lathe login`.
pub(crate) fn login(environment: Environment, arguments: &LoginArguments) -> Outcome {
    let Some(provider) = &arguments.provider else {
        return status(environment);
    };
    let overview = overview(environment)?;
    if !overview.has(provider) {
        return Err(CliError::usage(format!(
            "there is no provider {provider}; there are {}",
            overview.names()
        )));
    }
    let key = read_key(provider)?;
    print_line(&overview.log_in(provider, &key).or_failure()?)
}

/// `lathe acp --login`: asks for a provider and its key. An editor runs it in a terminal of its own.
pub(crate) fn sign_in(environment: Environment) -> Outcome {
    let names = overview(environment.clone())?.names();
    let mut asking = std::io::stderr();
    let _ = write!(asking, "Providers: {names}\nProvider [{ANTHROPIC}]: ");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).or_failure()?;
    let provider = match line.trim() {
        "" => ANTHROPIC,
        name => name,
    };
    let provider = Some(provider.to_owned());
    login(environment, &LoginArguments { provider })
}

/// `lathe status`: the providers, and where their keys come from.
pub(crate) fn status(environment: Environment) -> Outcome {
    let mut text = String::new();
    for key in overview(environment)?.keys() {
        let _ = writeln!(text, "{:16}{}", key.provider, key.source);
    }
    print(&text)
}

/// `lathe logout`.
pub(crate) fn logout(environment: Environment, arguments: &LogoutArguments) -> Outcome {
    let overview = overview(environment)?;
    let store = overview.store();
    let provider = &arguments.provider;
    let removed = store.remove(provider).or_failure()?;
    if removed {
        print(&format!("Removed the key of {provider}.\n"))
    } else {
        Err(CliError::failure(format!("no key of {provider} is stored")))
    }
}

/// Reads a key from a pipe, or from the terminal without showing it.
fn read_key(provider: &str) -> Result<String, CliError> {
    let stdin = std::io::stdin();
    let hidden = stdin.is_terminal().then(Hidden::new).flatten();
    if stdin.is_terminal() {
        let mut stderr = lathe_headless::output::Terminal::stderr();
        let _ = write!(stderr, "Key of {provider}: ");
    }
    let mut line = String::new();
    stdin.lock().read_line(&mut line).or_failure()?;
    if hidden.is_some() {
        let _ = writeln!(std::io::stderr());
    }
    let key = line.trim();
    if key.is_empty() {
        return Err(CliError::usage("no key was given"));
    }
    Ok(key.to_owned())
}

/// Switches the echo of the terminal off as long as it lives.
struct Hidden(nix::sys::termios::Termios);

impl Hidden {
    fn new() -> Option<Self> {
        use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut silent = before.clone();
        silent.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(std::io::stdin(), SetArg::TCSANOW, &silent).ok()?;
        Some(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        use nix::sys::termios::{SetArg, tcsetattr};
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, &self.0);
    }
}
