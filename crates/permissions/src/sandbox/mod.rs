//! The policy of the sandbox, from settings, rules and the folders of a session.
//!
//! One function makes it ([`policy`]); code that confines a process (a command, a hook, a server) or checks a path
//! ([`SandboxPolicy::check_write`]) uses its result. Rules apply too: a deny rule for reading hides a path, a deny
//! rule for writing protects it, and rules for addresses are rules for hosts.

mod bounds;
mod facts;
mod hosts;

pub use bounds::Bounds;
pub use facts::{SandboxFacts, Wish};

use crate::context::PermissionContext;
use crate::protected;
use crate::repository::{Obeyed, obeyed_places};
use hosts::{credentials, network};
use lathe_protocol::permission::Behavior;
use lathe_sandbox::{Absent, Protected, SandboxPolicy, links_of, repository};
use lathe_settings::schema::{SandboxFilesystem, SandboxSettings};
use std::path::{Path, PathBuf};

/// Folders in the home folder where tools keep what they download and build. Commands can use them; what they
/// change there stays in the sandbox.
const CACHES: &[&str] = &[
    ".cargo",
    ".npm",
    ".cache",
    ".yarn",
    ".pnpm-store",
    ".local/share/pnpm",
    ".bun/install/cache",
    ".gradle",
    ".m2",
    ".ivy2",
    ".sbt",
    ".nuget",
    ".gem",
    ".bundle",
    ".composer",
    ".rustup",
    ".deno",
    ".terraform.d/plugin-cache",
    "go/pkg",
    "Library/Caches",
];

/// Folders in a project that a command may not change or make. (A file that stood there meanwhile would be in the way
/// of `git add`; `.mcp.json` can be made, and its servers wait for the user's approval.)
const OWN_FOLDERS: &[&str] = &[".lathe", ".claude"];

/// How many entries of a project are looked at for secrets.
const MOST_ENTRIES: usize = 4000;

/// The policy of the sandbox for a session, with what is wrong in its settings.
#[must_use]
pub fn policy(context: &PermissionContext) -> (SandboxPolicy, Vec<String>) {
    let settings = &context.sandbox.settings;
    let mut problems = Vec::new();
    let files = settings.filesystem.clone().unwrap_or_default();
    let resolve = |texts: &[String]| -> Vec<PathBuf> {
        texts
            .iter()
            .map(|text| real(&path_of(text, context)))
            .collect()
    };
    let denied = resolve(&files.deny_write);
    let further = opened(
        &files.allow_write,
        "allowWrite",
        settings,
        context,
        &mut problems,
    );
    let shown = opened(
        &files.allow_read,
        "allowRead",
        settings,
        context,
        &mut problems,
    );
    let mut policy = SandboxPolicy {
        network: network(settings, context, &mut problems),
        credentials: credentials(settings, context, &mut problems),
        ..SandboxPolicy::default()
    };
    let roots = context.roots.iter().cloned();
    let session = context.files.session_paths.iter().map(|path| real(path));
    for path in roots.chain(further).chain(session) {
        if path == Path::new("/") {
            problems.push("the root of the file system is not writable as a whole in the sandbox: name folders in sandbox.filesystem.allowWrite".to_owned());
        } else if !denied.iter().any(|denied| path.starts_with(denied)) {
            push(&mut policy.writable, path);
        }
    }
    for root in &context.roots {
        let found = repository(root);
        found
            .writable
            .into_iter()
            .for_each(|path| push(&mut policy.writable, path));
        policy.protected.extend(found.protected);
        protect_obeyed(root, context, &mut policy, &mut problems);
        protect_own(root, &mut policy);
        hide_project_secrets(root, context, &mut policy);
    }
    for name in protected::startup_names() {
        let path = context.home.join(name);
        if policy
            .writable
            .iter()
            .any(|folder| path.starts_with(folder))
        {
            protect(&mut policy, path, Absent::Ignored);
        }
    }
    for path in denied {
        let absent = if path.extension().is_some() {
            Absent::File
        } else {
            Absent::Ignored
        };
        protect(&mut policy, path, absent);
    }
    apply_deny_rules(context, &mut policy);
    for place in protected::secret_places(&context.home) {
        push(&mut policy.hidden, real(&place));
    }
    hide_own_credentials(context, &mut policy);
    resolve(&files.deny_read)
        .into_iter()
        .for_each(|path| push(&mut policy.hidden, path));
    show(shown, context, &mut policy);
    add_links(&files, context, &mut policy);
    policy.caches = caches(&context.home, &policy);
    policy.visible = vec![
        real(&context.home),
        real(&context.config_home),
        real(&context.cwd),
    ];
    policy
        .visible
        .extend(context.files.readable_paths.iter().map(|path| real(path)));
    (policy, problems)
}

/// Hides what deny rules for reading name, and protects what those for writing name.
fn apply_deny_rules(context: &PermissionContext, policy: &mut SandboxPolicy) {
    for rule in context.rules.with(Behavior::Deny) {
        let content = rule.value.rule_content.as_deref().unwrap_or_default();
        // A pattern in the middle names no place that could be mounted; the file tools still apply it.
        let is_place = !content
            .trim_end_matches("/**")
            .contains(['*', '?', '[', '!']);
        let Some(path) = rule
            .named_path()
            .map(Path::to_path_buf)
            .filter(|_| is_place)
        else {
            continue;
        };
        if rule.is_for_reading() && path != Path::new("/") {
            push(&mut policy.hidden, real(&path));
            push(&mut policy.hidden, path);
        } else if rule.is_for_writing("Edit") {
            protect(policy, real(&path), Absent::Ignored);
            protect(policy, path, Absent::Ignored);
        }
    }
}

fn protect(policy: &mut SandboxPolicy, path: PathBuf, absent: Absent) {
    if !policy.protected.iter().any(|known| known.path == path) {
        policy.protected.push(Protected { path, absent });
    }
}

/// The places that settings open. A link in a folder that commands write to is not followed: a command could have put
/// it there.
fn opened(
    texts: &[String],
    key: &str,
    settings: &SandboxSettings,
    context: &PermissionContext,
    problems: &mut Vec<String>,
) -> Vec<PathBuf> {
    let files = settings.filesystem.as_ref();
    let further = files.map_or(&[][..], |files| &files.allow_write);
    let further = further.iter().map(|text| real(&path_of(text, context)));
    let folders: Vec<PathBuf> = context.roots.iter().cloned().chain(further).collect();
    let is_in_folder = |link: &PathBuf| {
        let mut folders = folders.iter();
        folders.any(|folder| link.starts_with(folder) && link != folder)
    };
    let mut found = Vec::new();
    for text in texts {
        let path = path_of(text, context);
        if links_of(&path).iter().any(is_in_folder) {
            problems.push(format!(
                "sandbox.filesystem.{key}: a link in a folder that commands write to is not followed: name what `{text}` leads to"
            ));
        } else {
            found.push(real(&path));
        }
    }
    found
}

/// Adds both ends of links: what is denied or obeyed by the name of a link is so where it leads to, and the link itself
/// stays what it is.
fn add_links(files: &SandboxFilesystem, context: &PermissionContext, policy: &mut SandboxPolicy) {
    let is_file_elsewhere = |path: &Path, to: &Path| to != path && to.is_file();
    for path in policy.hidden.clone() {
        let to = real(&path);
        if is_file_elsewhere(&path, &to) {
            push(&mut policy.hidden, to);
        }
    }
    for text in &files.deny_read {
        push(&mut policy.hidden, path_of(text, context));
    }
    let denied = files.deny_write.iter().map(|text| path_of(text, context));
    let further: Vec<PathBuf> = denied
        .chain(policy.protected.iter().map(|it| real(&it.path)))
        .collect();
    for path in further {
        protect(policy, path, Absent::Ignored);
    }
}

fn push(list: &mut Vec<PathBuf>, path: PathBuf) {
    if !list.contains(&path) {
        list.push(path);
    }
}

fn real(path: &Path) -> PathBuf {
    crate::path::real_folder(path)
}

/// A path of the settings: absolute, from the home folder, or from the project.
fn path_of(text: &str, context: &PermissionContext) -> PathBuf {
    let text = text.trim().trim_end_matches("/**").trim_end_matches("/*");
    if text == "~" {
        return context.home.clone();
    }
    if let Some(rest) = text.strip_prefix("~/") {
        return context.home.join(rest);
    }
    match text.strip_prefix("//") {
        Some(rest) => Path::new("/").join(rest),
        None => context
            .project
            .join(text.strip_prefix("./").unwrap_or(text)),
    }
}

/// Protects what git obeys outside its own folder: hooks that `core.hooksPath` names, and included configuration.
fn protect_obeyed(
    root: &Path,
    context: &PermissionContext,
    policy: &mut SandboxPolicy,
    problems: &mut Vec<String>,
) {
    for obeyed in obeyed_places(root, &context.home) {
        let (path, absent) = match obeyed {
            Obeyed::Hooks(path) => (real(&path), Absent::Folder),
            Obeyed::Included(path) => {
                let path = real(&path);
                // Git reads an included file, and an empty one in the work tree would be added to a commit.
                let is_gits = path.starts_with(root.join(".git"));
                let absent = if is_gits {
                    Absent::Text(String::new())
                } else {
                    Absent::Ignored
                };
                (path, absent)
            }
        };
        let is_writable = policy.writable.iter().any(|it| path.starts_with(it));
        if policy.writable.iter().any(|it| it.starts_with(&path)) {
            problems.push(format!(
                "core.hooksPath of git names {}, which commands write to: they could plant hooks",
                path.display()
            ));
        } else if is_writable && !policy.protected.iter().any(|it| it.path == path) {
            policy.protected.push(Protected { path, absent });
        }
    }
}

/// Protects what Lathe itself obeys in a project.
fn protect_own(root: &Path, policy: &mut SandboxPolicy) {
    for name in OWN_FOLDERS {
        policy.protected.push(Protected {
            path: root.join(name),
            absent: Absent::Folder,
        });
    }
    for name in protected::OWN_FILES {
        policy.protected.push(Protected {
            path: root.join(name),
            absent: Absent::Ignored,
        });
    }
}

/// Hides files of a project that hold secrets, at its top and in the folders there, unless a rule lets them be read.
fn hide_project_secrets(root: &Path, context: &PermissionContext, policy: &mut SandboxPolicy) {
    let mut left = MOST_ENTRIES;
    let mut folders = vec![(root.to_path_buf(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            left = left.saturating_sub(1);
            if left == 0 {
                return;
            }
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let name = entry.file_name();
            if is_folder {
                let skipped = name == "node_modules"
                    || name == "target"
                    || name.to_string_lossy().starts_with('.');
                if depth < 1 && !skipped {
                    folders.push((path, depth + 1));
                }
                continue;
            }
            let allowed = context.rules.with(Behavior::Allow).any(|rule| {
                rule.is_for_reading()
                    && rule.named_path().is_some()
                    && rule.covers_form(&path, false)
            });
            if context.secret(&path).is_some() && !allowed {
                push(&mut policy.hidden, path);
            }
        }
    }
}

/// Hides files with credentials in Lathe's own folder.
fn hide_own_credentials(context: &PermissionContext, policy: &mut SandboxPolicy) {
    let Ok(entries) = std::fs::read_dir(&context.config_home) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if context.secret(&path).is_some() {
            push(&mut policy.hidden, real(&path));
        }
    }
}

/// Shows what settings name, but for the folders through which sessions are controlled: a command that reaches a
/// session's socket or a server's token could answer its own questions.
fn show(shown: Vec<PathBuf>, context: &PermissionContext, policy: &mut SandboxPolicy) {
    policy
        .hidden
        .retain(|hidden| !shown.iter().any(|path| hidden.starts_with(path)));
    policy.shown = shown;
    for folder in control_folders(context) {
        push(&mut policy.hidden, real(&folder));
    }
}

/// The folders through which sessions are controlled.
fn control_folders(context: &PermissionContext) -> impl Iterator<Item = PathBuf> {
    let own = protected::CONTROL_FOLDERS.iter();
    let own = own.map(|name| context.config_home.join(name));
    own.chain(context.files.sockets.clone())
        .filter(|path| path.is_dir())
}

/// The caches that are there, but for those in or around what is writable anyway.
fn caches(home: &Path, policy: &SandboxPolicy) -> Vec<PathBuf> {
    let apart = |cache: &PathBuf| {
        let mut writable = policy.writable.iter();
        !writable.any(|folder| cache.starts_with(folder) || folder.starts_with(cache))
    };
    let mut found: Vec<PathBuf> = CACHES
        .iter()
        .map(|name| home.join(name))
        .filter(|path| path.is_dir())
        .map(|path| real(&path))
        .filter(apart)
        .collect();
    let all = found.clone();
    found.retain(|path| {
        !all.iter()
            .any(|other| path != other && path.starts_with(other))
    });
    found
}

/// Paths and hosts that are not reported as violations: settings list them by the beginning of the command, or for `*`.
#[must_use]
pub fn ignored(settings: &SandboxSettings, command: &str) -> Vec<String> {
    let meant = |key: &str| key == "*" || command.trim_start().starts_with(key);
    let entries = settings.ignore_violations.iter();
    entries
        .filter(|(key, _)| meant(key))
        .flat_map(|(_, values)| values.clone())
        .collect()
}

/// A description for users: the tier, whether commands run in it, and their permissions there.
#[must_use]
pub fn describe(context: &PermissionContext, status: Option<&lathe_sandbox::Status>) -> String {
    let facts = &context.sandbox;
    let mut lines = Vec::new();
    if let Some(status) = status {
        lines.push(format!("Here: {}.", status.tier.explanation()));
        lines.extend(
            status
                .missing
                .iter()
                .map(|missing| format!("Missing: {missing}.")),
        );
    }
    if !facts.bash_sandboxed {
        lines.push("The sandbox is off: commands run with all your rights, once they are permitted. `/sandbox on` switches it on, sandbox.enabled in settings keeps it on.".to_owned());
        return lines.join("\n");
    }
    let (policy, problems) = policy(context);
    let asked = if facts.auto_allow {
        "without a question"
    } else {
        "once they are permitted"
    };
    lines.push(format!("The sandbox is on: commands run in it, {asked}."));
    if facts.stays {
        lines.push("No command can leave it (sandbox.allowUnsandboxedCommands).".to_owned());
    }
    let list = |paths: &[PathBuf]| {
        let shown: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        shown.join(", ")
    };
    lines.push(format!("Writable: {}", list(&policy.writable)));
    lines.push(format!("Hidden: {}", list(&policy.hidden)));
    let hosts = policy.network.allowed.len();
    let others = if policy.network.strict {
        "refused"
    } else {
        "asked about"
    };
    lines.push(format!(
        "Hosts without a question: {hosts}; others are {others}."
    ));
    lines.extend(
        problems
            .into_iter()
            .map(|problem| format!("Problem: {problem}")),
    );
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_sandbox::{HostRule, Tier, UnixSockets};
    use lathe_shell::analysis::analyse;
    use lathe_shell::syntax::ShellKind;
    use serde_json::{Value, json};

    fn settings(value: Value) -> SandboxSettings {
        serde_json::from_value(value).unwrap()
    }

    fn place() -> (tempfile::TempDir, PermissionContext) {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in [
            "project/.git/objects",
            "home/.ssh",
            "home/.cargo",
            "home/.lathe/server",
            "home/.lathe/run",
            "runtime/lathe",
            "project/sub",
        ] {
            std::fs::create_dir_all(base.join(name)).unwrap();
        }
        for name in [
            "project/.env",
            "project/.env.example",
            "project/sub/key.pem",
            "home/.netrc",
        ] {
            std::fs::write(base.join(name), "x").unwrap();
        }
        let context = PermissionContext::new(
            &base.join("project"),
            &base.join("home"),
            &base.join("home/.lathe"),
        );
        (folder, context)
    }

    fn with(context: &PermissionContext, value: Value) -> SandboxPolicy {
        let mut context = context.clone();
        context.sandbox = SandboxFacts::new(&settings(value), Wish::On, Tier::Bubblewrap);
        let (policy, problems) = policy(&context);
        assert!(problems.is_empty(), "{problems:?}");
        policy
    }

    #[test]
    fn hooks_and_configuration_that_git_finds_elsewhere_are_protected() {
        let (_folder, context) = place();
        let project = &context.roots[0];
        let configured = |text: &str| {
            std::fs::write(project.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
            std::fs::write(project.join(".git/config"), text).unwrap();
            with(&context, json!({}))
        };
        for (text, protected, free) in [
            (
                "[core]\nhooksPath = .githooks\n",
                ".githooks/pre-commit",
                "githooks",
            ),
            (
                "[core]\nhookspath = .husky/_\n",
                ".husky/pre-commit",
                ".huskyrc",
            ),
            (
                "[include]\npath = ../shared.gitconfig\n",
                "shared.gitconfig",
                "shared",
            ),
            (
                "[includeIf \"onbranch:x\"]\npath = ../sub/x\n",
                "sub/x",
                "sub/y",
            ),
            (
                "[core]\nhooksPath = /elsewhere\n",
                ".git/hooks/x",
                "elsewhere",
            ),
        ] {
            let policy = configured(text);
            let refused = |name: &str| policy.check_write(&project.join(name)).is_err();
            assert!(refused(protected), "{text}");
            assert!(!refused(free), "{text}");
        }
        std::fs::write(project.join(".git/config"), "[core]\nhooksPath = .\n").unwrap();
        let (policy, problems) = policy(&context);
        assert!(policy.check_write(&project.join("src/main.rs")).is_ok());
        assert!(
            problems.iter().any(|it| it.contains("core.hooksPath")),
            "{problems:?}"
        );
    }

    #[test]
    fn a_project_is_writable_but_for_what_is_obeyed_in_it() {
        let (_folder, context) = place();
        let policy = with(&context, json!({}));
        let project = &context.roots[0];
        let refused = |name: &str| policy.check_write(&project.join(name)).is_err();
        assert!(!refused("src/main.rs") && !refused(".git/index"));
        for name in [
            ".git/hooks/x",
            ".git/config",
            ".lathe/settings.json",
            ".claude/settings.json",
            ".mcp.json",
            ".latheignore",
        ] {
            assert!(refused(name), "{name}");
        }
        assert!(policy.check_write(&context.home.join("x")).is_err());
        let hidden = |path: PathBuf| policy.check_read(&path).is_err();
        let home = real(&context.home);
        assert!(hidden(project.join(".env")) && hidden(project.join("sub/key.pem")));
        assert!(hidden(home.join(".ssh/id")) && hidden(home.join(".netrc")));
        assert!(!hidden(project.join(".env.example")));
        assert_eq!(policy.caches, [home.join(".cargo")]);
    }

    #[test]
    fn what_controls_sessions_is_hidden_whatever_settings_show() {
        let (_folder, mut context) = place();
        let runtime = context.home.with_file_name("runtime/lathe");
        context.files.sockets = Some(runtime.clone());
        let shown =
            json!({"filesystem": {"allowRead": ["~/.lathe", "//"], "allowWrite": ["~/.lathe"]}});
        for settings in [json!({}), shown] {
            let policy = with(&context, settings);
            for path in [
                runtime.join("3f2a9c01b7de.sock"),
                context.config_home.join("run/3f2a9c01b7de.sock"),
                context.config_home.join("server/devices.json"),
                context.config_home.join("server/codes/x"),
            ] {
                assert!(policy.check_read(&path).is_err(), "{}", path.display());
            }
        }
    }

    #[test]
    fn settings_open_and_close_paths() {
        let (_folder, context) = place();
        let policy = with(
            &context,
            json!({"filesystem": {
            "allowWrite": ["~/out", "//opt/x"], "denyWrite": ["sub"], "denyRead": ["~/private"], "allowRead": [".env", "~/.ssh/known_hosts"]}}),
        );
        let home = real(&context.home);
        let project = &context.roots[0];
        assert!(policy.check_write(&home.join("out/x")).is_ok());
        assert!(policy.check_write(Path::new("/opt/x/y")).is_ok());
        assert!(policy.check_write(&project.join("sub/x")).is_err());
        assert!(policy.check_read(&home.join("private/x")).is_err());
        assert!(policy.check_read(&project.join(".env")).is_ok());
        assert!(policy.check_read(&home.join(".ssh/known_hosts")).is_ok());
        assert!(policy.check_read(&home.join(".ssh/id_rsa")).is_err());
        // What is denied stays denied, whatever lies in it.
        let policy = with(
            &context,
            json!({"filesystem": {"allowWrite": ["~/out/deep"], "denyWrite": ["~/out"]}}),
        );
        assert!(policy.check_write(&home.join("out/deep/x")).is_err());
    }

    #[test]
    fn a_link_that_a_command_can_make_opens_nothing() {
        let (_folder, context) = place();
        let (project, home) = (context.roots[0].clone(), real(&context.home));
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, project.join(name));
        link(&home.join(".ssh"), "keys").unwrap();
        link(&home, "sub/out").unwrap();
        let mut context = context;
        let files = json!({"filesystem": {"allowRead": ["keys"], "allowWrite": ["sub/out"]}});
        context.sandbox = SandboxFacts::new(&settings(files), Wish::On, Tier::Bubblewrap);
        let (policy, problems) = policy(&context);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("allowWrite"), "{problems:?}");
        assert!(policy.check_write(&home.join("x")).is_err());
        assert!(policy.check_read(&home.join(".ssh/id_rsa")).is_err());
        context.set_sandbox(context.sandbox.clone());
        assert!(context.sandbox.bounds.writable.is_empty());
    }

    #[test]
    fn the_root_of_the_file_system_is_not_writable_as_a_whole() {
        let context = PermissionContext::new(Path::new("/"), Path::new("/h"), Path::new("/h/l"));
        let (policy, problems) = policy(&context);
        assert!(policy.check_write(Path::new("/etc/x")).is_err());
        assert!(
            problems[0].contains("root of the file system"),
            "{problems:?}"
        );
    }

    #[test]
    fn what_a_link_leads_to_is_denied_like_the_link() {
        let (_folder, context) = place();
        let project = context.roots[0].clone();
        std::fs::create_dir(project.join("real")).unwrap();
        std::fs::write(project.join("real/env"), "x").unwrap();
        for (to, name) in [
            ("real", ".claude"),
            ("real/env", ".env.local"),
            ("real", "closed"),
        ] {
            std::os::unix::fs::symlink(to, project.join(name)).unwrap();
        }
        let policy = with(&context, json!({"filesystem": {"denyWrite": ["closed"]}}));
        assert!(
            policy
                .check_write(&project.join("real/settings.json"))
                .is_err()
        );
        assert!(policy.check_read(&project.join("real/env")).is_err());
        let protected = |name: &str| {
            let path = project.join(name);
            policy.protected.iter().any(|it| it.path == path)
        };
        assert!(protected(".claude") && protected("closed"));
        assert!(policy.hidden.contains(&project.join(".env.local")));
    }

    #[test]
    fn settings_and_rules_name_hosts() {
        let (_folder, context) = place();
        let policy = with(
            &context,
            json!({"network": {"allowedDomains": ["a.com"], "deniedDomains": ["b.com"],
            "strictAllowlist": true, "allowLocalBinding": false, "allowUnixSockets": ["~/s"], "httpProxyPort": 1}}),
        );
        assert_eq!(policy.network.allowed, [HostRule::parse("a.com").unwrap()]);
        assert!(policy.network.strict && policy.network.no_listening);
        assert!(matches!(
            policy.network.unix_sockets,
            UnixSockets::Listed(_)
        ));
        let mut context = context;
        context.sandbox = SandboxFacts::new(
            &settings(json!({"network": {"allowedDomains": ["https://x"]}})),
            Wish::On,
            Tier::Bubblewrap,
        );
        assert_eq!(super::policy(&context).1.len(), 1);
    }

    #[test]
    fn a_command_is_excluded_only_as_a_whole() {
        let facts = SandboxFacts::new(
            &settings(json!({"excludedCommands": ["docker", "npm run *", "make test:*"]})),
            Wish::On,
            Tier::Bubblewrap,
        );
        let excluded =
            |command: &str| facts.excludes(&analyse(command, ShellKind::Bash), Path::new("/h"));
        for command in [
            "docker",
            "docker ps -a",
            "npm run build",
            "docker ps && npm run x",
            "make test all",
        ] {
            assert!(excluded(command), "{command}");
        }
        for command in [
            "dockerx",
            "npm install",
            "docker ps; rm -rf x",
            "docker ps | sh",
            "make",
            "$X docker",
            "docker $(rm x)",
        ] {
            assert!(!excluded(command), "{command}");
        }
    }

    #[test]
    fn landlock_alone_lets_nothing_pass_by_itself_unless_settings_say_so() {
        let facts = |value, tier| SandboxFacts::new(&settings(value), Wish::On, tier);
        assert!(facts(json!({}), Tier::Namespaces).auto_allow);
        let weak = facts(json!({}), Tier::Landlock);
        assert!(weak.bash_sandboxed && !weak.auto_allow);
        assert!(facts(json!({"enableWeakerNestedSandbox": true}), Tier::Landlock).auto_allow);
        assert!(!facts(json!({"enableWeakerNestedSandbox": true}), Tier::None).bash_sandboxed);
    }

    #[test]
    fn what_is_ignored_depends_on_the_command() {
        let settings =
            settings(json!({"ignoreViolations": {"npm": ["/var/x"], "*": ["a.example.com"]}}));
        assert_eq!(
            ignored(&settings, "npm install"),
            ["a.example.com", "/var/x"]
        );
        assert_eq!(ignored(&settings, "cargo build"), ["a.example.com"]);
    }
}
