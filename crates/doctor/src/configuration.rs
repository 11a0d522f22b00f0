//! Checks of the configuration: settings, hooks, agents, skills, commands, plugins, MCP servers, instructions.

use crate::{Installation, Report};
use lathe_extensions::plugins::{LoadedPlugins, PluginManager, PluginState};
use lathe_extensions::{AgentCatalog, OutputStyles, Problem, SkillCatalog, Sources};
use lathe_hooks::{HookRegistry, HookSource};
use lathe_lsp::Servers;
use lathe_mcp::auth::{CredentialStorage, CredentialStore};
use lathe_mcp::config::{self, PluginServers, Standing};
use lathe_mcp::{Manager, Nobody, Options, State};
use lathe_protocol::diagnostic::{Diagnostic, Severity};
use lathe_settings::instructions::{InstructionOptions, Instructions};
use lathe_settings::schema::HookKind;
use lathe_settings::{Places, Severity as SettingsSeverity};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long servers have to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than this of instruction files costs a noticeable part of every request.
const MANY_INSTRUCTIONS: u64 = 40 * 1024;

pub(crate) fn settings(installation: &Installation<'_>, report: &mut Report<'_>) {
    let files = installation
        .settings
        .layers
        .iter()
        .filter(|layer| layer.path.is_some())
        .count();
    report.fine(format!("{files} settings files are read"));
    for problem in &installation.settings.problems {
        let what = lathe_settings::Problem {
            fix: None,
            ..problem.clone()
        };
        let fix = problem
            .fix
            .clone()
            .unwrap_or_else(|| "correct that file; `lathe config schema` describes it".to_owned());
        match problem.severity {
            SettingsSeverity::Error => report.error(what.to_string(), fix),
            SettingsSeverity::Warning => report.warning(what.to_string(), fix),
            SettingsSeverity::Note => report.note(what.to_string(), fix),
        }
    }
    let withheld = installation.settings.withheld();
    if !withheld.is_empty() {
        let what: Vec<String> = withheld.iter().map(ToString::to_string).collect();
        report.note(
            format!(
                "this folder is not trusted, so these have no effect: {}",
                what.join(", ")
            ),
            "review them, then run `lathe trust add`",
        );
    }
}

/// The plugins, without switching anything on.
fn loaded(installation: &Installation<'_>) -> LoadedPlugins {
    lathe_extensions::plugins::load(
        &installation.places,
        &installation.settings,
        &installation.options.plugin_folders,
    )
}

fn sources(installation: &Installation<'_>) -> Sources {
    Sources::new(
        &installation.places,
        &installation.trust,
        installation.options.setting_sources.as_deref(),
    )
    .with_plugins(loaded(installation).contributions())
}

pub(crate) fn hooks(installation: &Installation<'_>, report: &mut Report<'_>) {
    let (registry, _late) = HookRegistry::new();
    registry.set_settings(&installation.settings);
    let mut problems = registry.problems();
    for plugin in loaded(installation).plugins {
        let contribution = &plugin.contribution;
        let source = HookSource::Plugin(contribution.name.clone());
        let (_, more) = registry.add(&source, Some(&contribution.root), &contribution.hooks);
        problems.extend(more);
    }
    let listed = registry.list();
    let off = listed.iter().filter(|hook| hook.off.is_some()).count();
    report.fine(match off {
        0 => format!("{} hooks", listed.len()),
        off => format!("{} hooks, {off} of them switched off", listed.len()),
    });
    for problem in problems {
        report.diagnostic(
            problem,
            "correct it; `lathe hooks list` shows what is in effect",
        );
    }
    for hook in &listed {
        if hook.kind == HookKind::Command
            && let Some(program) = missing_program(&hook.hook, &installation.places)
        {
            report.warning(
                format!(
                    "the {} hook of {} runs {program}, which does not exist",
                    hook.event, hook.source
                ),
                "fix its path, install it, or remove the hook",
            );
        }
    }
}

/// The program that a command begins with, if it plainly isn't there. What a shell has to work out first is
/// not looked at.
fn missing_program(command: &str, places: &Places) -> Option<String> {
    let first = command.split_whitespace().next()?;
    let mut program = first.replace(['"', '\''], "");
    for name in ["CLAUDE_PROJECT_DIR", "LATHE_PROJECT_DIR"] {
        let project = places.project.display().to_string();
        program = program
            .replace(&format!("${{{name}}}"), &project)
            .replace(&format!("${name}"), &project);
    }
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+@".contains(letter);
    if !program.chars().all(plain) {
        return None;
    }
    let is_there = if program.contains('/') {
        places.project.join(&program).exists()
    } else {
        SHELL_WORDS.contains(&program.as_str()) || is_on_path(&program, &places.environment)
    };
    (!is_there).then_some(program)
}

/// Words that a shell understands by itself and that may begin a command.
const SHELL_WORDS: [&str; 37] = [
    ".", "alias", "break", "builtin", "case", "cd", "command", "continue", "declare", "echo",
    "eval", "exec", "exit", "export", "false", "for", "function", "if", "kill", "let", "local",
    "printf", "pwd", "read", "return", "select", "set", "shift", "shopt", "source", "test", "time",
    "trap", "true", "type", "until", "while",
];

fn is_on_path(program: &str, environment: &lathe_settings::Environment) -> bool {
    let path = environment.foreign("PATH").unwrap_or_default();
    std::env::split_paths(path).any(|folder| folder.join(program).is_file())
}

fn problems(all: &[Problem], report: &mut Report<'_>) {
    for problem in all {
        report.diagnostic(problem.into(), "correct that file");
    }
}

pub(crate) fn agents(installation: &Installation<'_>, report: &mut Report<'_>) {
    let catalog = AgentCatalog::load(&sources(installation), &[]);
    report.fine(format!("{} agents", catalog.len()));
    problems(&catalog.problems, report);
    let skills = SkillCatalog::load(&sources(installation));
    problems(&crate::advice::of_agents(&catalog, &skills), report);
    if let Some(name) = &installation.settings.settings.agent
        && catalog.get(name).is_none()
    {
        report.error(
            format!("settings name the agent {name}, and there is none"),
            "correct `agent` in settings; `lathe agents list` shows them",
        );
    }
}

pub(crate) fn skills(installation: &Installation<'_>, report: &mut Report<'_>) {
    let catalog = SkillCatalog::load(&sources(installation));
    report.fine(format!("{} skills and custom commands", catalog.len()));
    problems(&catalog.problems, report);
}

pub(crate) fn output_styles(installation: &Installation<'_>, report: &mut Report<'_>) {
    let styles = OutputStyles::load(&sources(installation));
    report.fine(format!("{} output styles", styles.names().len()));
    problems(&styles.problems, report);
    if let Some(style) = styles.forced() {
        report.fine(format!(
            "the output style {} is in effect while its plugin is enabled; settings can't change it",
            style.name
        ));
    }
    if let Some(name) = &installation.settings.settings.output_style
        && styles.get(name).is_none()
    {
        report.warning(
            format!("settings name the output style {name}, and there is none"),
            format!("choose one of {}", styles.names().join(", ")),
        );
    }
}

pub(crate) fn plugins(installation: &Installation<'_>, report: &mut Report<'_>) {
    let loaded = loaded(installation);
    report.fine(format!("{} plugins are on", loaded.plugins.len()));
    problems(&loaded.problems, report);
    for listing in &loaded.listings {
        let reason = listing.reason.clone().unwrap_or_default();
        let what = format!("{}: {reason}", listing.id);
        match listing.state {
            PluginState::On => problems(&listing.problems, report),
            PluginState::Off => {}
            PluginState::Failed => report.error(
                what,
                format!(
                    "repair it, or switch it off: `lathe plugin disable {}`",
                    listing.id
                ),
            ),
            PluginState::NotInstalled => report.warning(
                format!("{} is enabled in settings but not installed", listing.id),
                format!(
                    "`lathe plugin install {0}`, or `lathe plugin disable {0}`",
                    listing.id
                ),
            ),
            PluginState::NotTrusted => report.note(
                format!("{} waits for this folder to be trusted", listing.id),
                "`lathe trust add`, once you have looked at it",
            ),
            PluginState::Blocked => {
                report.note(what, format!("`lathe plugin uninstall {}`", listing.id));
            }
        }
    }
    let manager = PluginManager::new(&installation.places, &installation.settings);
    match manager.marketplaces() {
        Ok(all) => {
            for marketplace in all {
                if let Some(why) = marketplace.refused {
                    report.warning(
                        why,
                        format!(
                            "`lathe plugin marketplace update {0}`, or `lathe plugin marketplace remove {0}`",
                            marketplace.name
                        ),
                    );
                }
            }
        }
        Err(error) => report.error(error.to_string(), "repair or remove that file"),
    }
}

/// Language servers: whether their programs are there, and which others could be used.
pub(crate) fn language_servers(installation: &Installation<'_>, report: &mut Report<'_>) {
    let configured = Servers::new(
        &installation.settings.settings.lsp_servers,
        &loaded(installation).lsp_servers(),
    );
    report.fine(match configured.list.len() {
        1 => "1 language server is configured".to_owned(),
        count => format!("{count} language servers are configured"),
    });
    for problem in &configured.problems {
        report.error(problem.clone(), "correct its entry");
    }
    for server in &configured.list {
        let (name, command) = (&server.name, &server.command);
        match lathe_lsp::find_program(command, &server.env, &installation.environment) {
            Some(program) => report.fine(format!(
                "{name} is {}, for {}",
                program.display(),
                server.endings()
            )),
            None if name.starts_with("plugin:") => report.warning(
                format!("the language server {name} can't start: there is no program {command}"),
                "install it, or switch the plugin off with `lathe plugin disable`",
            ),
            None => report.warning(
                format!("the language server {name} can't start: there is no program {command}"),
                format!(
                    "install it, correct lspServers.{name}.command, or take lspServers.{name} out"
                ),
            ),
        }
    }
    for (command, argument, ending) in lathe_lsp::config::WELL_KNOWN {
        let file = format!("/x{ending}");
        let covered = configured
            .list
            .iter()
            .any(|server| server.language_of(Path::new(&file)).is_some());
        let own = std::collections::BTreeMap::new();
        let there = lathe_lsp::find_program(command, &own, &installation.environment).is_some();
        if there && !covered {
            let call = format!("{command} {argument}");
            report.fine(format!(
                "`{}` is on the PATH and could answer for {ending} files; lspServers in settings switches it on",
                call.trim()
            ));
        }
    }
}

pub(crate) async fn servers(installation: &Installation<'_>, report: &mut Report<'_>) {
    let plugins = PluginServers::of_plugins(loaded(installation).mcp_servers());
    let declared = config::load(config::Request {
        places: &installation.places,
        settings: &installation.settings,
        options: &installation.load_options,
        environment: &installation.environment,
        flags: &installation.options.mcp_configs,
        strict: false,
        plugins: &plugins,
    });
    report.fine(format!("{} MCP servers are declared", declared.list.len()));
    for problem in &declared.problems {
        let problem = Diagnostic {
            severity: Severity::Error,
            ..problem.clone()
        };
        report.diagnostic(problem, "correct that file");
    }
    for server in &declared.list {
        let why = server.why_not().unwrap_or_default();
        let what = format!("{}: {why}", server.name);
        let name = &server.name;
        match &server.standing {
            Standing::Ready(_) | Standing::Disabled(_) | Standing::Refused => {}
            Standing::NeedsApproval => report.warning(
                format!("{name} comes with the project and waits for approval"),
                format!("look at it with `lathe mcp get {name}`, approve it with `lathe mcp enable {name}`"),
            ),
            Standing::Untrusted => report.note(
                format!("{name} waits for this folder to be trusted"),
                "`lathe trust add`, once you have looked at it",
            ),
            Standing::Denied(_) => report.note(what, format!("`lathe mcp remove {name}`")),
            Standing::Broken(_) => report.error(what, "correct its entry"),
        }
    }
    sign_ins(installation, report).await;
    if installation.options.connect_servers {
        connect(installation, declared.configs(), report).await;
    }
}

/// Where the tokens of servers are kept.
async fn sign_ins(installation: &Installation<'_>, report: &mut Report<'_>) {
    let store = CredentialStore::new(&installation.places.config_home, &installation.environment);
    // A keyring may take its time.
    let Ok(keeping) = lathe_spawn::blocking(move || store.keeping()).await else {
        return;
    };
    match keeping {
        CredentialStorage::Keyring { program } => {
            report.fine(format!(
                "sign-ins are kept in the system's keyring ({program})"
            ));
        }
        CredentialStorage::File { file, why } => report.fine(format!(
            "sign-ins are kept in {}, which only you can read ({why})",
            file.display()
        )),
        CredentialStorage::Nowhere { why } => report.warning(
            format!(
                "sign-ins are not stored: LATHE_MCP_CREDENTIALS requires the keyring, and {why}"
            ),
            "unlock it, or set LATHE_MCP_CREDENTIALS to `auto`",
        ),
    }
}

async fn connect(
    installation: &Installation<'_>,
    configs: indexmap::IndexMap<String, lathe_mcp::ServerConfig>,
    report: &mut Report<'_>,
) {
    if configs.values().all(|config| config.disabled) {
        return;
    }
    let mut options = Options::new(installation.environment.clone(), env!("CARGO_PKG_VERSION"));
    options.home.clone_from(&installation.places.config_home);
    let manager = Manager::new(options, Arc::new(Nobody));
    manager.set_servers(configs);
    manager.settled(PATIENCE).await;
    for status in manager.status() {
        let name = &status.name;
        match &status.state {
            State::Connected => {
                report.fine(format!("{name} answers, with {} tools", status.tools.len()));
            }
            State::Disabled => report.fine(format!("{name} is switched off")),
            State::NeedsAuth => report.warning(
                format!("{name} requires sign-in"),
                format!("`lathe mcp login {name}`"),
            ),
            State::Pending => report.warning(
                format!("{name} has not answered within {} s", PATIENCE.as_secs()),
                format!("`lathe mcp probe {name}` shows what happens"),
            ),
            State::Failed { reason } => report.error(
                format!("{name} can't be connected: {reason}"),
                format!("`lathe mcp probe {name}` shows what happens"),
            ),
        }
    }
    manager.shutdown().await;
}

pub(crate) fn instructions(installation: &Installation<'_>, report: &mut Report<'_>) {
    let found = Instructions::discover(
        &installation.places,
        InstructionOptions {
            roots: vec![installation.places.environment.cwd.clone()],
            outside_imports: false,
            excludes: installation
                .settings
                .settings
                .instruction_excludes
                .clone()
                .unwrap_or_default(),
            ..InstructionOptions::default()
        },
    );
    let total: u64 = found.files().iter().map(|file| file.bytes).sum();
    for file in found.files() {
        report.fine(format!("{} ({} bytes)", file.path.display(), file.bytes));
        if file.cut > 0 {
            report.warning(
                format!(
                    "{} is too long: {} bytes are omitted",
                    file.path.display(),
                    file.cut
                ),
                "make it shorter, or split it into .lathe/rules/",
            );
        }
    }
    if found.files().is_empty() {
        report.fine("there are no instruction files; `/init` writes an AGENTS.md");
    }
    if total > MANY_INSTRUCTIONS {
        report.warning(
            format!(
                "instruction files are {} KB together, and go with every request",
                total / 1024
            ),
            "keep what always matters, and move the rest to .lathe/rules/ or skills",
        );
    }
    for skipped in found.skipped() {
        let fix = if skipped.needs_approval {
            "let it in with `lathe trust add --imports`, or import files of the project"
        } else {
            "correct the import"
        };
        report.note(
            format!("{} is ignored: {}", skipped.path.display(), skipped.why),
            fix,
        );
    }
}
