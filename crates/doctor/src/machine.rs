//! Checks of the machine: the program, keys, the terminal, git, the sandbox, sessions, the disk, variables.

use crate::{Installation, Report};
use lathe_model::AnthropicConfig;
use lathe_permissions::sandbox::Wish;
use lathe_process::{Command, Ending};
use lathe_session::SessionStore;
use lathe_session::store::Scope;
use lathe_settings::environment::Declaration;
use lathe_settings::{Environment, Variable};
use lathe_update::Kind;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long `git --version` may take.
const GIT_LIMIT: Duration = Duration::from_secs(10);
/// Below this many free megabytes the disk is reported as full.
const LITTLE_ROOM: u64 = 100;
/// Below this many it is said.
const SOME_ROOM: u64 = 1024;

pub(crate) fn installation(installation: &Installation<'_>, report: &mut Report<'_>) {
    let version = env!("CARGO_PKG_VERSION");
    match std::env::current_exe() {
        Ok(program) => {
            report.fine(format!("lathe {version} at {}", program.display()));
            on_path(installation, &program, report);
            crate::shipping::installation(installation, &program, report);
        }
        Err(error) => report.warning(
            format!("lathe {version}; the path of the program is unknown: {error}"),
            "install it again",
        ),
    }
    let home = &installation.places.config_home;
    let exists = home.is_dir();
    let tried = home.ancestors().find(|folder| folder.is_dir());
    match tried.map(|folder| (folder, can_write(folder))) {
        Some((_, Ok(()))) if exists => {
            report.fine(format!("the config home {} can be written", home.display()));
        }
        Some((_, Ok(()))) => report.fine(format!(
            "the config home {} does not exist yet and can be created",
            home.display()
        )),
        Some((folder, Err(error))) => report.error(
            format!("{} can't be written: {error}", folder.display()),
            format!(
                "make it writable (chown, chmod u+w), or set LATHE_CONFIG_DIR to a writable folder; settings and sessions are stored in {}",
                home.display()
            ),
        ),
        None => report.error(
            format!("the config home {} can't be created", home.display()),
            "set LATHE_CONFIG_DIR to a folder that you can write",
        ),
    }
    if exists && others_can_write(home) {
        report.warning(
            format!(
                "{} is writable by other users, who could make Lathe run programs",
                home.display()
            ),
            format!("chmod go-w {}", home.display()),
        );
    }
}

fn on_path(installation: &Installation<'_>, program: &Path, report: &mut Report<'_>) {
    let found = program_of("lathe", &installation.environment);
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let kind = Kind::of(&real(program), &installation.environment);
    let of_node = matches!(kind, Kind::NpmGlobal(_) | Kind::NpmLocal);
    match found {
        // A package of npm has a launcher, which is a script.
        Some(found) if real(&found) == real(program) || of_node && is_script(&found) => {
            report.fine(format!(
                "`lathe` on the PATH is this one ({})",
                found.display()
            ));
        }
        Some(found) => report.warning(
            format!("`lathe` on the PATH is another one: {}", found.display()),
            format!("put {} before it, or remove it", parent(program)),
        ),
        None if kind == Kind::NpmLocal => {
            report.fine("`lathe` is a package of this project: `npx lathe` starts it");
        }
        None if of_node => report.note(
            "`lathe` is not on the PATH",
            "add the folder of npm's programs to it: `bin` below what `npm prefix -g` prints",
        ),
        None => report.note(
            "`lathe` is not on the PATH",
            format!("add {} to it", parent(program)),
        ),
    }
}

/// Whether a program is a text that another program runs.
fn is_script(program: &Path) -> bool {
    let mut first = [0; 2];
    std::fs::File::open(program)
        .and_then(|mut file| file.read_exact(&mut first))
        .is_ok_and(|()| &first == b"#!")
}

/// The file that a command would start, if there is one.
pub(crate) fn program_of(command: &str, environment: &Environment) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(environment.resolve(command)).filter(|file| file.is_file());
    }
    let path = environment.foreign("PATH").unwrap_or_default();
    std::env::split_paths(path)
        .map(|folder| folder.join(command))
        .find(|candidate| candidate.is_file())
}

fn parent(path: &Path) -> String {
    path.parent().unwrap_or(path).display().to_string()
}

/// Whether a file can be made in a folder.
fn can_write(folder: &Path) -> std::io::Result<()> {
    let probe = folder.join(format!(".lathe-doctor-{}", std::process::id()));
    std::fs::File::create_new(&probe)?;
    std::fs::remove_file(probe)
}

fn others_can_write(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(folder).is_ok_and(|metadata| metadata.permissions().mode() & 0o022 != 0)
}

pub(crate) fn keys(installation: &Installation<'_>, report: &mut Report<'_>) {
    let environment = &installation.environment;
    let place = |name: &str| {
        if installation.places.environment.foreign(name).is_some() {
            "the environment"
        } else {
            "settings (env)"
        }
    };
    let config = match AnthropicConfig::of(environment) {
        Ok(config) => config,
        Err(error) => {
            report.error(error.to_string(), "correct that variable");
            return;
        }
    };
    let helper = installation.settings.settings.api_key_helper.is_some();
    match config.key_source() {
        "none" if helper => report.fine("the key comes from apiKeyHelper in settings"),
        "none" => report.error(
            "there is no key for the model API",
            "export ANTHROPIC_API_KEY=…, or set apiKeyHelper in settings.json; `lathe demo` needs none",
        ),
        source => report.fine(format!("{source} is set, by {}", place(source))),
    }
    if config.api_key.is_some() && config.auth_token.is_some() {
        report.warning(
            "ANTHROPIC_API_KEY and ANTHROPIC_AUTH_TOKEN are both set; both are sent",
            "unset one of them",
        );
    }
    if let Some(base) = environment.get(Variable::BaseUrl) {
        report.fine(format!("requests go to {}", without_user(base)));
    }
    if environment.get(Variable::OpenaiApiKey).is_some() {
        report.fine(format!(
            "OPENAI_API_KEY is set, by {}",
            place("OPENAI_API_KEY")
        ));
    }
    for layer in &installation.settings.layers {
        let shared = layer.source == lathe_settings::Source::Project;
        let Some(env) = layer.value.get("env").and_then(|env| env.as_object()) else {
            continue;
        };
        for name in env.keys().filter(|_| shared) {
            if Variable::find(name).is_some_and(Variable::is_secret) {
                let file = layer
                    .path
                    .as_ref()
                    .map_or_else(String::new, |path| path.display().to_string());
                report.warning(
                    format!("{name} is set in {file}, which is shared with the project"),
                    "remove it there, and set it in your environment or user settings",
                );
            }
        }
    }
}

/// An address without what may be a secret in it.
fn without_user(address: &str) -> String {
    let start = address.find("://").map_or(0, |at| at + 3);
    let end = address[start..]
        .find(['/', '?', '#'])
        .map_or(address.len(), |at| start + at);
    match address[start..end].rfind('@') {
        Some(at) => format!("{}{}", &address[..start], &address[start + at + 1..end]),
        None => address[..end].to_owned(),
    }
}

pub(crate) fn sandbox(installation: &Installation<'_>, report: &mut Report<'_>) {
    let configured = installation.settings.settings.sandbox.as_ref();
    let wish = Wish::of(&installation.settings, false, &installation.environment);
    let needed = configured.and_then(|sandbox| sandbox.fail_if_unavailable) == Some(true);
    let search_path = installation.environment.foreign("PATH").map(Into::into);
    let config_home = &installation.places.config_home;
    let found = lathe_sandbox::Sandbox::of_program(config_home, search_path);
    let Some(status) = found.as_ref().map(lathe_sandbox::Sandbox::status) else {
        report.note("this program has no sandbox", "run `lathe doctor`");
        return;
    };
    let missing = status.missing.join("; ");
    if status.tier.confines() {
        report.fine(status.tier.explanation());
        if !missing.is_empty() {
            report.note(missing, "`lathe sandbox status` shows what commands may do");
        }
        let state = match (wish, wish.holds(status.tier)) {
            (Wish::On, true) => "commands run in the sandbox (sandbox.enabled)",
            (_, true) => "commands of the terminal run in the sandbox (by default)",
            (_, false) => "the sandbox is off; sandbox.enabled in settings switches it on",
        };
        report.fine(state);
    } else {
        let text = format!("no sandbox is available: {missing}");
        let fix =
            "install bubblewrap, or use Linux 5.13 or later with Landlock and seccomp enabled";
        match (wish, needed) {
            (Wish::On, true) => report.error(text, fix),
            (Wish::On, false) => report.warning(text, fix),
            (Wish::Default | Wish::Off, _) => report.note(text, fix),
        }
    }
    let support = lathe_sandbox::support();
    if support.confines_reads() {
        report.fine(format!(
            "commands that only read run confined by the kernel (Landlock {}, seccomp)",
            support.landlock
        ));
    } else {
        let missing = if support.landlock == 0 {
            "Landlock"
        } else {
            "seccomp"
        };
        report.warning(
            format!(
                "commands that only read run without confinement: the kernel offers no {missing}"
            ),
            "use Linux 5.13 or later with Landlock and seccomp enabled, or run Lathe in a container",
        );
    }
}

pub(crate) fn terminal(installation: &Installation<'_>, report: &mut Report<'_>) {
    let environment = &installation.environment;
    let facts = installation.options.terminal;
    if !facts.is_terminal {
        report.fine("standard output is not a terminal; `lathe -p` works without one");
    }
    match environment.foreign("TERM") {
        Some("dumb") => report.warning(
            "TERM is dumb: the screen can't be drawn",
            "use another terminal, or LATHE_SCREEN_READER=1 for plain lines",
        ),
        Some(name) => report.fine(format!("TERM is {name}")),
        None if facts.is_terminal => report.warning(
            "TERM is not set",
            "export TERM=xterm-256color, or the type of your terminal",
        ),
        None => {}
    }
    let name = environment.foreign("TERM").unwrap_or_default();
    let colours = if environment.get(Variable::NoColor).is_some() {
        "no colours (NO_COLOR is set)"
    } else if matches!(
        environment.foreign("COLORTERM"),
        Some("truecolor" | "24bit")
    ) {
        "all colours"
    } else if name.contains("256color") || name.contains("kitty") || name.contains("ghostty") {
        "256 colours"
    } else {
        "16 colours"
    };
    report.fine(colours);
    match facts.size {
        Some((columns, rows)) if columns < 40 || rows < 10 => report.warning(
            format!("the terminal is small: {columns} columns, {rows} rows"),
            "make it at least 40 by 10; 80 by 24 is comfortable",
        ),
        Some((columns, rows)) => report.fine(format!("{columns} columns, {rows} rows")),
        None => {}
    }
    if environment.foreign("TMUX").is_some() {
        report.note(
            "inside tmux, Shift+Enter and colours depend on its configuration",
            "in ~/.tmux.conf: set -s extended-keys on; set -as terminal-features ',*:RGB:extkeys'",
        );
    } else if facts.is_terminal {
        report.fine(
            "the kitty keyboard protocol is requested at each start, and used if the terminal supports it",
        );
    }
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| environment.foreign(name))
        .unwrap_or_default();
    let utf8 = locale
        .to_ascii_lowercase()
        .replace('-', "")
        .contains("utf8");
    if facts.is_terminal && !utf8 {
        report.warning(
            format!(
                "the locale ({}) is not UTF-8",
                if locale.is_empty() { "none" } else { locale }
            ),
            "export LANG=C.UTF-8",
        );
    }
}

pub(crate) fn search(_: &Installation<'_>, report: &mut Report<'_>) {
    report.fine("search is built in; ripgrep is not needed");
}

pub(crate) fn web_search(installation: &Installation<'_>, report: &mut Report<'_>) {
    let configured = installation.settings.settings.web_search.as_ref();
    let Some(configured) = configured.filter(|it| it.is_used()) else {
        report.fine(
            "WebSearch uses the search of the model's provider, where it has one (Anthropic, OpenAI, Google); for other models set webSearch to a service or an MCP tool",
        );
        return;
    };
    match &configured.api_key_env {
        Some(name) if installation.environment.foreign(name).is_none() => report.warning(
            format!("webSearch.apiKeyEnv names {name}, which is not set: WebSearch is not offered"),
            format!("set {name}, or name another variable"),
        ),
        None if configured.provider.is_some() => report.warning(
            "webSearch.provider needs a key: WebSearch is not offered",
            "name the variable that holds it in webSearch.apiKeyEnv",
        ),
        _ => report.fine("WebSearch uses the service in webSearch"),
    }
}

pub(crate) fn git(installation: &Installation<'_>, report: &mut Report<'_>) {
    let command = Command::new("git")
        .argument("--version")
        // Not in the folder: nobody may have trusted it.
        .directory("/")
        .without_inherited_environment()
        .variables(&installation.environment.variables);
    match lathe_process::run_blocking(command, Vec::new(), GIT_LIMIT) {
        Ok(finished) if finished.ending == Ending::Exited(0) => {
            report.fine(finished.stdout.trim().to_owned());
        }
        Ok(finished) => {
            let how = match finished.ending {
                Ending::Exited(code) => format!("exit code {code}"),
                Ending::TimedOut => "it does not end".to_owned(),
                Ending::Signalled | Ending::Flooded | Ending::Cancelled => "killed".to_owned(),
            };
            report.warning(
                format!("`git --version` fails ({how})"),
                "repair or reinstall git",
            );
        }
        Err(error) => report.warning(
            error.to_string(),
            "install git: branches, diffs, worktrees and marketplaces need it",
        ),
    }
    let cwd = &installation.places.environment.cwd;
    match cwd.ancestors().find(|folder| folder.join(".git").exists()) {
        Some(root) => report.fine(format!("{} is a repository", root.display())),
        None => report.fine("this folder is in no git repository"),
    }
}

pub(crate) fn sessions(installation: &Installation<'_>, report: &mut Report<'_>) {
    let store = SessionStore::new(&installation.places.config_home);
    let sessions = store.list(Scope::Everywhere, None);
    let bytes: u64 = sessions.iter().map(|session| session.size).sum();
    report.fine(format!(
        "{}, {} MB",
        crate::counted(sessions.len(), "session"),
        bytes / 1024 / 1024
    ));
    let folder = installation.places.config_home.join("projects");
    if folder.is_dir()
        && let Err(error) = can_write(&folder)
    {
        report.error(
            format!("{} can't be written: {error}", folder.display()),
            "make it writable (chown, chmod u+w); sessions are stored there",
        );
    }
    if installation.settings.settings.cleanup_period_days == Some(0) {
        report.note(
            "cleanupPeriodDays is 0: no session is kept",
            "set it to the number of days that you want",
        );
    }
}

pub(crate) fn disk(installation: &Installation<'_>, report: &mut Report<'_>) {
    let home = &installation.places.config_home;
    let mut seen: Vec<PathBuf> = Vec::new();
    for folder in [home, &installation.places.environment.cwd] {
        let Some(folder) = folder.ancestors().find(|folder| folder.is_dir()) else {
            continue;
        };
        if seen.iter().any(|known| known == folder) {
            continue;
        }
        seen.push(folder.to_path_buf());
        let Ok(stat) = nix::sys::statvfs::statvfs(folder) else {
            report.note(
                format!("the free space of {} is unknown", folder.display()),
                "look with `df -h`",
            );
            continue;
        };
        #[cfg_attr(
            target_os = "linux",
            expect(
                clippy::useless_conversion,
                reason = "the type differs between systems"
            )
        )]
        let free = u64::from(stat.blocks_available())
            .saturating_mul(u64::from(stat.fragment_size()))
            / 1024
            / 1024;
        let what = format!("{free} MB are free for {}", folder.display());
        if free < LITTLE_ROOM {
            report.error(what, "free some disk space: sessions can't be saved");
        } else if free < SOME_ROOM {
            report.warning(
                what,
                "free some disk space; `lathe sessions delete` removes old sessions",
            );
        } else {
            report.fine(what);
        }
    }
}

pub(crate) fn variables(installation: &Installation<'_>, report: &mut Report<'_>) {
    let names = || {
        let declared = Variable::ALL.iter().map(|variable| variable.declaration());
        declared.flat_map(Declaration::names)
    };
    let mut unknown = 0;
    for name in installation.places.environment.variables.keys() {
        // Tests mark their processes.
        let known = Variable::find(name).is_some() || name.starts_with("LATHE_TEST_");
        if !name.starts_with("LATHE_") || known {
            continue;
        }
        unknown += 1;
        let fix = match lathe_settings::nearest::nearest(name, names()) {
            Some(near) => format!("did you mean {near}?"),
            None => "unset it; `lathe config env` lists the known ones".to_owned(),
        };
        report.warning(format!("{name} is set but unknown"), fix);
    }
    if unknown == 0 {
        report.fine("all LATHE_ variables are known");
    }
}

#[cfg(test)]
mod tests {
    use super::without_user;

    #[test]
    fn addresses_are_shown_without_who_and_why() {
        assert_eq!(
            without_user("https://me:secret@host:8/p?key=x"),
            "https://host:8"
        );
        assert_eq!(
            without_user("http://localhost:8080"),
            "http://localhost:8080"
        );
        assert_eq!(without_user("https://host/a@b"), "https://host");
    }
}
