//! A small project on disk, and calls as the engine makes them.
#![allow(dead_code, reason = "each test file uses some of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use lathe_permissions::{
    CallFacts, IgnoreFile, PermissionContext, Rule, decide, parse_rule, resolve,
};
use lathe_protocol::permission::{Behavior, Decision, PermissionMode, RuleSource, Subject};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A server that nothing must ever reach: commands that run in tests have it as their proxy and among their words.
pub(crate) struct NetworkTrap {
    stream: std::net::TcpListener,
    datagrams: std::net::UdpSocket,
}

impl NetworkTrap {
    pub(crate) fn new() -> Self {
        let stream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let datagrams = std::net::UdpSocket::bind(stream.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        Self { stream, datagrams }
    }

    pub(crate) fn address(&self) -> String {
        self.stream.local_addr().unwrap().to_string()
    }

    /// Sets what makes programs go through a proxy.
    pub(crate) fn set_proxy(&self, command: &mut std::process::Command) {
        let proxy = format!("http://{}", self.address());
        for name in [
            "http_proxy",
            "https_proxy",
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
        ] {
            command.env(name, &proxy);
        }
    }

    /// Whether something connected or sent something since the last look.
    pub(crate) fn was_reached(&self) -> bool {
        self.stream.accept().is_ok() || self.datagrams.recv_from(&mut [0; 16]).is_ok()
    }
}

/// A project with a home beside it.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) base: PathBuf,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let world = Self { folder, base };
        for file in [
            "project/src/main.rs",
            "project/src/config",
            "project/.git/hooks/pre-commit.sample",
            "project/.git/config",
            "project/.env",
            "project/.env.example",
            "project/kept/secret.txt",
            "project/.lathe/settings.json",
            "home/.ssh/id_rsa",
            "home/.bashrc",
            "home/notes/a.md",
            "home/.lathe/plans/plan.md",
            "other/x",
        ] {
            let path = world.base.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, world.project().join(name)).unwrap();
        };
        link("../other/x", "link-out");
        link("src/main.rs", "link-in");
        link(".env", "link-env");
        link("../other", "folder-out");
        link(".git/hooks", "link-hooks");
        link("../other/new", "dangling");
        link("circle", "circle");
        world
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.base.join("project")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    pub(crate) fn context(&self) -> PermissionContext {
        let home = self.home();
        let mut context = PermissionContext::new(&self.project(), &home, &home.join(".lathe"));
        context.trusted = true;
        context.bypass_available = true;
        context.files.plan_file = Some(home.join(".lathe/plans/plan.md"));
        context.files.ignore = Some(IgnoreFile::of_text(&self.project(), "kept/\n").0);
        context
    }

    /// `{P}`, `{H}` and `{O}` replaced.
    pub(crate) fn fill(&self, text: &str) -> String {
        text.replace("{P}", &self.project().display().to_string())
            .replace("{H}", &self.home().display().to_string())
            .replace("{O}", &self.base.join("other").display().to_string())
    }
}

pub(crate) fn add_rule(
    context: &mut PermissionContext,
    behavior: Behavior,
    text: &str,
    source: RuleSource,
) {
    let rule = Rule::new(
        parse_rule(text).unwrap(),
        behavior,
        source,
        &context.anchors(source),
    )
    .unwrap();
    context.rules.add(rule);
}

pub(crate) fn behavior(word: &str) -> Behavior {
    match word {
        "allow" => Behavior::Allow,
        "ask" => Behavior::Ask,
        "deny" => Behavior::Deny,
        other => panic!("no such behaviour: {other}"),
    }
}

pub(crate) fn mode(word: &str) -> PermissionMode {
    word.parse().unwrap()
}

pub(crate) fn shell(command: &str, cwd: &Path) -> Subject {
    Subject::Shell {
        command: command.to_owned(),
        cwd: cwd.to_path_buf(),
        unsandboxed: false,
    }
}

pub(crate) fn subject(tool: &str, what: &str, cwd: &Path) -> Subject {
    match tool {
        "Read" | "Grep" | "Glob" => Subject::Read {
            paths: vec![PathBuf::from(what)],
        },
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => Subject::Write {
            paths: vec![PathBuf::from(what)],
        },
        "Bash" => shell(what, cwd),
        "WebFetch" => Subject::Fetch {
            url: what.to_owned(),
        },
        "Skill" | "Agent" => Subject::Named {
            name: what.to_owned(),
            harmless: false,
        },
        "TodoWrite" => Subject::Nothing,
        "ExitPlanMode" => Subject::Person,
        "Mystery" => Subject::Unknown,
        _ => {
            let mut parts = tool.split("__").skip(1);
            Subject::Mcp {
                server: parts.next().unwrap().to_owned(),
                tool: parts.next().unwrap().to_owned(),
                read_only: false,
            }
        }
    }
}

pub(crate) fn decide_on(tool: &str, subject: &Subject, context: &PermissionContext) -> Decision {
    let input = Value::Null;
    let call = CallFacts {
        tool_name: tool,
        aliases: &[],
        input: &input,
        subject,
        read_only: matches!(subject, Subject::Read { .. }),
        resolved: resolve(subject, context),
    };
    decide(&call, context)
}

/// `allow`, `ask`, `hard` or `deny`, and the reason's kind.
pub(crate) fn verdict(decision: &Decision) -> (&'static str, &'static str) {
    match decision {
        Decision::Allow { reason } => ("allow", reason.kind()),
        Decision::Ask {
            reason,
            hard: false,
            ..
        } => ("ask", reason.kind()),
        Decision::Ask {
            reason, hard: true, ..
        } => ("hard", reason.kind()),
        Decision::Deny { reason } => ("deny", reason.kind()),
    }
}

pub(crate) fn strictness(decision: &Decision) -> u8 {
    match verdict(decision).0 {
        "allow" => 0,
        "ask" => 1,
        "hard" => 2,
        _ => 3,
    }
}

/// The rows of the table.
pub(crate) fn rows() -> Vec<Vec<&'static str>> {
    let text = include_str!("../../data/decisions.tsv");
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!(fields.len(), 6, "{line}");
            fields
        })
        .collect()
}

/// A command of the analyser's corpus.
pub(crate) struct Sample {
    pub(crate) command: String,
    pub(crate) shell: lathe_shell::syntax::ShellKind,
    pub(crate) kind: String,
}

/// A file of the analyser's corpus: `command<TAB>shell<TAB>verdict<TAB>kind`.
pub(crate) fn corpus(name: &str) -> Vec<Sample> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shell/data")
        .join(name);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            Sample {
                command: unescape(fields[0]),
                shell: match fields[1] {
                    "zsh" => lathe_shell::syntax::ShellKind::Zsh,
                    "posix" | "sh" => lathe_shell::syntax::ShellKind::Posix,
                    _ => lathe_shell::syntax::ShellKind::Bash,
                },
                kind: fields.get(3).copied().unwrap_or_default().to_owned(),
            }
        })
        .collect()
}

/// A text as in a Rust string.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('0') => out.push('\0'),
            Some('x') => {
                let code: String = characters.by_ref().take(2).collect();
                out.push(char::from(u8::from_str_radix(&code, 16).unwrap()));
            }
            Some('u') => {
                let code: String = characters
                    .by_ref()
                    .skip(1)
                    .take_while(|c| *c != '}')
                    .collect();
                out.push(char::from_u32(u32::from_str_radix(&code, 16).unwrap()).unwrap());
            }
            Some(other) => out.push(other),
            None => out.push('\\'),
        }
    }
    out
}
