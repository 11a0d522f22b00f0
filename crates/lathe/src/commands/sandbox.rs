//! `lathe sandbox`.

use super::{load_options, places, print};
use crate::error::{CliError, Kinded as _, Outcome};
use clap::{Args, Subcommand};
use lathe_headless::exit::Exit;
use lathe_permissions::sandbox::{SandboxFacts, Wish, policy};
use lathe_permissions::settings::context_of;
use lathe_permissions::{PermissionContext, cli};
use lathe_process::Command;
use lathe_proxy::{Prepared, Proxy, ProxyOptions};
use lathe_sandbox::{Request, Sandbox, SandboxPolicy, Tier};
use lathe_settings::environment::looks_secret;
use lathe_settings::schema::SandboxSettings;
use lathe_settings::trust_store::TrustStore;
use lathe_settings::{Environment, Places, Resolved, load};
use serde_json::json;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::PathBuf;

// `lathe sandbox`.
#[derive(Debug, Args)]
pub(crate) struct SandboxArguments {
    #[command(subcommand)]
    pub(crate) command: SandboxCommand,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum SandboxCommand {
    /// Run a command in the sandbox, with the policy that a session here would have.
    Run {
        /// A JSON file with the keys of `sandbox` in settings, instead of the settings.
        #[arg(long, value_name = "FILE")]
        policy: Option<PathBuf>,
        /// The command and its arguments, after `--`.
        #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Show which sandbox is available, and what commands may do in it.
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print which hosts commands in the sandbox wanted to reach, and what came of it.
    Log,
    /// Say whether a command would run in the sandbox, and what is decided about it.
    Explain {
        /// The command, as one text or as words.
        #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
}

/// `lathe sandbox`.
pub(crate) async fn run(environment: Environment, arguments: SandboxArguments) -> Outcome {
    let places = places(environment);
    let settings = load(&places, &load_options(&places, &[], None));
    match arguments.command {
        SandboxCommand::Run { policy, command } => {
            run_command(&places, &settings, policy, command).await
        }
        SandboxCommand::Status { json } => status(&places, &settings, json),
        SandboxCommand::Log => {
            print(&lathe_proxy::read_log(&places.config_home.join("sandbox.log")).or_failure()?)
        }
        SandboxCommand::Explain { command } => explain(&places, &settings, &command.join(" ")),
    }
}

fn sandbox(places: &Places) -> Result<Sandbox, CliError> {
    let search_path = places.environment.foreign("PATH").map(Into::into);
    Sandbox::of_program(&places.config_home, search_path)
        .ok_or_else(|| CliError::failure("the program doesn't find its own file"))
}

fn configured(settings: &Resolved) -> SandboxSettings {
    settings.settings.sandbox.clone().unwrap_or_default()
}

/// The context of a session here, in which the sandbox is on or off.
fn context(
    places: &Places,
    settings: &Resolved,
    configured: &SandboxSettings,
    wish: Wish,
    tier: Tier,
) -> PermissionContext {
    let trusted = TrustStore::new(places).is_trusted(&places.project);
    let (mut context, _) = context_of(places, settings, trusted);
    context.set_sandbox(SandboxFacts::new(configured, wish, tier));
    context
}

async fn run_command(
    places: &Places,
    settings: &Resolved,
    file: Option<PathBuf>,
    command: Vec<OsString>,
) -> Outcome {
    let configured = match file {
        Some(file) => read_policy(&file)?,
        None => configured(settings),
    };
    let sandbox = sandbox(places)?;
    let context = context(places, settings, &configured, Wish::On, sandbox.tier());
    let (mut policy, problems) = policy(&context);
    if let Some(problem) = problems.first() {
        return Err(CliError::usage(problem.clone()));
    }
    let masks = masks(&sandbox, &mut policy, places)?;
    let proxy = proxy(&sandbox, &policy, masks.as_ref(), places)?;
    let socket = proxy.as_ref().map(Proxy::socket);
    let request = Request {
        directory: &places.environment.cwd,
        files: &[],
        keeps: &[],
        terminal: std::io::stdin().is_terminal() || std::io::stdout().is_terminal(),
        proxy: socket.as_deref().map(|socket| (socket, "run")),
    };
    let wrapping = sandbox
        .wrap(&policy, &request)
        .map(std::sync::Arc::new)
        .map_err(|error| CliError::failure(error).hint("see `lathe sandbox status`"))?;
    let Some((program, arguments)) = command.split_first() else {
        return Err(CliError::usage("there is no command"));
    };
    let environment = lathe_process::inherited_environment();
    let scrubbed =
        |name: &str| looks_secret(name) || policy.credential_variables().any(|known| known == name);
    let kept = environment
        .into_iter()
        .filter(|(name, _)| name.to_str().is_none_or(|name| !scrubbed(name)));
    let stand_ins = masks.iter().flat_map(|masks| masks.variables.clone());
    let command = Command::new(program)
        .arguments(arguments.iter().cloned())
        .without_inherited_environment()
        .variables(kept.chain(stand_ins))
        .directory(&places.environment.cwd)
        .sandboxed(&wrapping);
    let waiting = lathe_spawn::blocking(move || command.foreground());
    let status = waiting.await.or_failure()?.or_failure()?;
    drop(wrapping);
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(Exit::Program(code.unwrap_or(1)))
}

/// Stand-ins for the credentials of a policy.
fn masks(
    sandbox: &Sandbox,
    policy: &mut SandboxPolicy,
    places: &Places,
) -> Result<Option<Prepared>, CliError> {
    if policy.credentials.is_empty() {
        return Ok(None);
    }
    if !sandbox.tier().has_proxy() {
        policy.hide_credentials();
        return Ok(None);
    }
    let folder = sandbox.mask_folder().or_failure()?;
    let network = lathe_net::Network::of(&places.environment);
    let variable = |name: &str| places.environment.variables.get(name).cloned();
    let tls = network.tls().or_failure()?;
    let masks = lathe_proxy::prepare(&policy.credentials, variable, &folder, tls).or_failure()?;
    if let Some(problem) = masks.problems.first() {
        return Err(CliError::usage(format!("sandbox.credentials: {problem}")));
    }
    policy.masked.extend(masks.files.iter().cloned());
    policy.hidden.extend(masks.hidden.iter().cloned());
    Ok(Some(masks))
}

/// The way to the hosts that rules allow. Nobody is asked about others.
fn proxy(
    sandbox: &Sandbox,
    policy: &SandboxPolicy,
    masks: Option<&Prepared>,
    places: &Places,
) -> Result<Option<Proxy>, CliError> {
    if !sandbox.tier().has_proxy() {
        return Ok(None);
    }
    let options = ProxyOptions {
        folder: sandbox.socket_folder().or_failure()?,
        policy: policy.network.clone(),
        ask: None,
        log: Some(places.config_home.join("sandbox.log")),
        masking: masks.map(|masks| std::sync::Arc::clone(&masks.masking)),
    };
    Ok(Some(Proxy::start(options).or_failure()?))
}

fn read_policy(file: &std::path::Path) -> Result<SandboxSettings, CliError> {
    let wrong = |reason: String| CliError::usage(format!("--policy: {}: {reason}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let settings: SandboxSettings =
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match settings.extra.keys().next() {
        Some(unknown) => Err(wrong(format!("`{unknown}` is not a key of `sandbox`"))),
        None => Ok(settings),
    }
}

fn status(places: &Places, settings: &Resolved, as_json: bool) -> Outcome {
    let sandbox = sandbox(places)?;
    let found = sandbox.status();
    let configured = configured(settings);
    let wish = Wish::of(settings, false, &places.environment);
    let context = context(places, settings, &configured, wish, found.tier);
    let active = context.sandbox.bash_sandboxed;
    let (policy, problems) = policy(&context);
    if as_json {
        let paths = |paths: &[PathBuf]| {
            paths
                .iter()
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
        };
        let protected: Vec<String> = policy
            .protected
            .iter()
            .map(|entry| entry.path.display().to_string())
            .collect();
        let value = json!({
            "tier": found.tier.name(),
            "enabled": wish == Wish::On || active,
            "active": active,
            "missing": found.missing,
            "bubblewrap": found.bubblewrap,
            "autoAllowBashIfSandboxed": context.sandbox.auto_allow,
            "allowUnsandboxedCommands": !context.sandbox.stays,
            "writable": paths(&policy.writable),
            "protected": protected,
            "hidden": paths(&policy.hidden),
            "caches": paths(&policy.caches),
            "problems": problems,
        });
        return print(&format!("{value:#}\n"));
    }
    let mut text = String::new();
    let _ = writeln!(text, "tier:      {}", found.tier.explanation());
    for missing in &found.missing {
        let _ = writeln!(text, "           {missing}");
    }
    let state = match (wish, active) {
        (Wish::On, true) => "on: commands run in the sandbox",
        (_, true) => "on in the terminal by default; elsewhere with sandbox.enabled in settings",
        (Wish::On, false) => "enabled in settings, but not available on this system",
        (Wish::Default, false) => "off: the available tier is used only if sandbox.enabled is set",
        (Wish::Off, _) => "off (enable it with sandbox.enabled in settings)",
    };
    let _ = writeln!(text, "sandbox:   {state}");
    policy_text(&policy, &mut text);
    for problem in problems {
        let _ = writeln!(text, "problem:   {problem}");
    }
    print(&text)
}

fn policy_text(policy: &SandboxPolicy, text: &mut String) {
    let protected: Vec<PathBuf> = policy
        .protected
        .iter()
        .map(|entry| entry.path.clone())
        .collect();
    for (name, paths) in [
        ("writable:", &policy.writable),
        ("protected:", &protected),
        ("hidden:", &policy.hidden),
        ("caches:", &policy.caches),
    ] {
        for (index, path) in paths.iter().enumerate() {
            let _ = writeln!(
                text,
                "{:<10} {}",
                if index == 0 { name } else { "" },
                path.display()
            );
        }
    }
}

fn explain(places: &Places, settings: &Resolved, command: &str) -> Outcome {
    let configured = configured(settings);
    let tier = sandbox(places)?.tier();
    let wish = Wish::of(settings, false, &places.environment);
    let context = context(places, settings, &configured, wish, tier);
    let analysis = lathe_shell::analysis::analyse(command, context.shell);
    let facts = &context.sandbox;
    let explanation = cli::explain(command, &context);
    let place = if !tier.confines() {
        "no sandbox is available, so it runs without one"
    } else if !facts.bash_sandboxed {
        "the sandbox is off (sandbox.enabled), so it runs without one"
    } else if facts.excludes(&analysis, &context.home) {
        "it runs outside the sandbox: every part of it is in sandbox.excludedCommands"
    } else if explanation.verdict() == "deny" {
        "it doesn't run"
    } else if facts.auto_allow && explanation.verdict() == "allow" {
        "it runs in the sandbox, without confirmation (sandbox.autoAllowBashIfSandboxed)"
    } else {
        "it runs in the sandbox, after it is permitted"
    };
    print(&format!("{place}\n\n{}", explanation.to_text(false)))
}
