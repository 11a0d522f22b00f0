//! Refusals of the sandbox for a command that failed.
//!
//! The kernel doesn't say which of its rules refused a call: a program only sees an error number, and words it in
//! its own way. A line of the output counts only if three things hold: it has the words of an error that the sandbox
//! causes, it names something that the policy refuses, and this process, outside, could have done it. What fails
//! outside as well is the command's own failure.

use crate::sandbox_policy::{Refusal, SandboxPolicy};
use crate::tier::Tier;
use std::fmt;
use std::path::{Path, PathBuf};

/// Something that the sandbox refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// Writing, making or removing a file.
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        refusal: Refusal,
    },
    /// Reading a file.
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        refusal: Refusal,
    },
    /// Reaching a host.
    Host {
        /// Its name or address, perhaps with a port.
        host: String,
        /// Why, as the proxy said it; empty if the command didn't ask the proxy.
        reason: String,
    },
    /// Using a unix socket.
    UnixSocket {
        /// Which, if the command said it.
        path: Option<PathBuf>,
    },
    /// A system call that no command in the sandbox may make.
    Call {
        /// Its name.
        name: &'static str,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { path, refusal } => {
                write!(
                    formatter,
                    "writing {}: {refusal}; {}",
                    path.display(),
                    refusal.remedy(path)
                )
            }
            Self::Read { path, refusal } => {
                write!(
                    formatter,
                    "reading {}: {refusal}; {}",
                    path.display(),
                    refusal.remedy(path)
                )
            }
            Self::Host { host, reason } if reason.is_empty() => write!(
                formatter,
                "reaching {host} directly: only the proxy of the sandbox leads out (HTTP_PROXY, ALL_PROXY); \
                 a program that ignores these variables must be run outside by the user"
            ),
            Self::Host { host, reason } => write!(
                formatter,
                "reaching {host}: {reason}; to allow it, add \"{host}\" to sandbox.network.allowedDomains"
            ),
            Self::UnixSocket { path } => {
                let which = path
                    .as_ref()
                    .map_or_else(String::new, |path| format!(" {}", path.display()));
                write!(
                    formatter,
                    "using the unix socket{which}: sockets lead out of the sandbox; \
                     to allow them, set sandbox.network.allowUnixSockets"
                )
            }
            Self::Call { name } => write!(
                formatter,
                "the system call {name}: not allowed in the sandbox; the user can run the command outside of it"
            ),
        }
    }
}

impl Violation {
    /// Whether it is about this path or host, or one that begins like it; `*` is any.
    #[must_use]
    pub fn is_about(&self, text: &str) -> bool {
        let what = match self {
            Self::Write { path, .. }
            | Self::Read { path, .. }
            | Self::UnixSocket { path: Some(path) } => path.display().to_string(),
            Self::Host { host, .. } => host.clone(),
            Self::UnixSocket { path: None } => String::new(),
            Self::Call { name } => (*name).to_owned(),
        };
        what.starts_with(text.trim_end_matches('*'))
    }

    /// A short description of the refusal.
    #[must_use]
    pub fn subject(&self) -> String {
        match self {
            Self::Write { path, .. } => format!("write to {}", path.display()),
            Self::Read { path, .. } => format!("read {}", path.display()),
            Self::Host { host, .. } => format!("reach {host}"),
            Self::UnixSocket { path: Some(path) } => {
                format!("use the unix socket {}", path.display())
            }
            Self::UnixSocket { path: None } => "use a unix socket".to_owned(),
            Self::Call { name } => format!("make the system call {name}"),
        }
    }
}

/// The kinds of errors that a sandbox causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The file system is read-only.
    ReadOnly,
    /// Access is denied.
    Denied,
    /// It isn't permitted.
    NotPermitted,
    /// Something is mounted there.
    Busy,
    /// It isn't there, as a file of a hidden folder in which another is shown.
    Missing,
}

/// The words that programs have for the errors.
const WORDS: [(&str, Kind); 14] = [
    ("read-only file system", Kind::ReadOnly),
    ("readonly file system", Kind::ReadOnly),
    ("erofs", Kind::ReadOnly),
    ("errno 30", Kind::ReadOnly),
    ("permission denied", Kind::Denied),
    ("eacces", Kind::Denied),
    ("errno 13", Kind::Denied),
    ("operation not permitted", Kind::NotPermitted),
    ("eperm", Kind::NotPermitted),
    ("errno 1]", Kind::NotPermitted),
    ("device or resource busy", Kind::Busy),
    ("ebusy", Kind::Busy),
    ("no such file or directory", Kind::Missing),
    ("enoent", Kind::Missing),
];

/// Words before the name of a host that can't be looked up.
const LOOKUPS: [&str; 8] = [
    "could not resolve host:",
    "could not resolve hostname",
    "couldn't resolve host",
    "unable to resolve host address",
    "getaddrinfo eai_again",
    "getaddrinfo enotfound",
    "failed to lookup address information",
    "lookup ",
];

/// The sandbox's refusals for a command that failed with this output, in any of these folders.
#[must_use]
pub fn violations(
    output: &str,
    folders: &[&Path],
    policy: &SandboxPolicy,
    tier: Tier,
) -> Vec<Violation> {
    let mut found: Vec<Violation> = Vec::new();
    for line in output.lines().filter(|line| line.len() < 4096) {
        let lower = line.to_lowercase();
        let violation = WORDS
            .iter()
            .find(|(words, _)| lower.contains(words))
            .and_then(|&(_, kind)| refused(line, &lower, kind, folders, policy, tier))
            .or_else(|| unreachable_host(line, &lower));
        if let Some(violation) = violation
            && !found.contains(&violation)
        {
            found.push(violation);
        }
    }
    found
}

fn refused(
    line: &str,
    lower: &str,
    kind: Kind,
    folders: &[&Path],
    policy: &SandboxPolicy,
    tier: Tier,
) -> Option<Violation> {
    if matches!(kind, Kind::NotPermitted | Kind::Denied) && lower.contains("sock") {
        let path = words_of(line)
            .into_iter()
            .map(|word| word.strip_prefix("unix://").unwrap_or(word))
            .find(|word| word.starts_with('/') && word.contains("sock"))
            .map(PathBuf::from);
        if kind == Kind::NotPermitted || path.is_some() {
            return Some(Violation::UnixSocket { path });
        }
    }
    if kind == Kind::NotPermitted {
        // SAFETY: the call only reports a number.
        let is_root = unsafe { libc::geteuid() } == 0;
        let known = [
            ("ptrace", true),
            ("unshare", true),
            ("mount", is_root),
            ("chroot", is_root),
        ];
        let call = known
            .into_iter()
            .find(|(name, ours)| *ours && lower.contains(name));
        if let Some((name, _)) = call {
            return Some(Violation::Call { name });
        }
    }
    for word in words_of(line) {
        for folder in folders {
            let path = real(&folder.join(expand(word)));
            if let Some(violation) = refused_path(&path, kind, policy, tier) {
                return Some(violation);
            }
        }
    }
    None
}

/// Whether the policy refuses a path in a way that gives this kind of error.
fn refused_path(path: &Path, kind: Kind, policy: &SandboxPolicy, tier: Tier) -> Option<Violation> {
    let alone = tier == Tier::Landlock;
    if matches!(kind, Kind::Denied | Kind::Missing)
        && let Err(refusal) = policy.check_read(path)
        && could(path, libc::R_OK)
    {
        let path = path.to_path_buf();
        return Some(Violation::Read { path, refusal });
    }
    let writes = match kind {
        Kind::ReadOnly => !alone,
        Kind::Denied | Kind::NotPermitted => alone || tier == Tier::Seatbelt,
        Kind::Busy => true,
        Kind::Missing => false,
    };
    if !writes {
        return None;
    }
    let refusal = match policy.check_write(path) {
        Err(refusal) => Some(refusal),
        // A new version is made beside a file and renamed over it.
        Ok(()) => policy.check_write(&path.with_extension("")).err(),
    };
    let refusal = match kind {
        Kind::Busy => refusal
            .filter(|refusal| matches!(refusal, Refusal::Protected(_)))
            .or_else(|| held(path, policy).filter(|_| !alone)),
        _ => refusal,
    }?;
    let nearest = path.ancestors().find(|above| above.exists())?;
    could(nearest, libc::W_OK).then(|| Violation::Write {
        path: path.to_path_buf(),
        refusal,
    })
}

/// The entry that keeps a path from being renamed or removed: itself, or one in the folder.
fn held(path: &Path, policy: &SandboxPolicy) -> Option<Refusal> {
    let is_in = |entry: &&PathBuf| entry.starts_with(path) && entry.exists();
    let mut protected = policy.protected.iter().map(|entry| &entry.path);
    let mut hidden = policy.hidden.iter();
    let protected = protected.find(is_in).cloned().map(Refusal::Protected);
    protected.or_else(|| hidden.find(is_in).cloned().map(Refusal::Hidden))
}

/// A path with the links of its folder followed.
fn real(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            std::path::Component::CurDir => {}
            part => plain.push(part),
        }
    }
    for folder in plain.ancestors() {
        if let (Ok(real), Ok(rest)) = (folder.canonicalize(), plain.strip_prefix(folder)) {
            return if rest.as_os_str().is_empty() {
                real
            } else {
                real.join(rest)
            };
        }
    }
    plain
}

/// `~` means the home folder in messages of some programs too; what it is isn't known here.
fn expand(word: &str) -> &str {
    word.strip_prefix("file://").unwrap_or(word)
}

/// Whether this process may use a path.
fn could(path: &Path, how: libc::c_int) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: the text is terminated and outlives the call, which only reads it.
    unsafe { libc::access(path.as_ptr(), how) == 0 }
}

/// The parts of a line that could be paths: what stands in quotes, then words, then what stands between colons.
fn words_of(line: &str) -> Vec<&str> {
    const QUOTES: [(char, char); 5] = [
        ('\'', '\''),
        ('"', '"'),
        ('`', '`'),
        ('\u{2018}', '\u{2019}'),
        ('`', '\''),
    ];
    let mut words = Vec::new();
    for (open, close) in QUOTES {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once(open) {
            let Some((inside, behind)) = after.split_once(close) else {
                break;
            };
            words.push(inside);
            rest = behind;
        }
    }
    let ends = |character: char| {
        character.is_whitespace()
            || matches!(
                character,
                '\'' | '"'
                    | '`'
                    | '\u{2018}'
                    | '\u{2019}'
                    | '('
                    | ')'
                    | '['
                    | ']'
                    | ','
                    | ';'
                    | '='
            )
    };
    for word in line.split(ends) {
        let word = word
            .trim_end_matches([':', '.'])
            .trim_start_matches([':', '>']);
        words.push(word);
        words.extend(word.split(':'));
    }
    // A path with blanks in it, between two colons.
    words.extend(line.split(": ").map(str::trim));
    let known = |word: &&str| !word.is_empty() && word.len() < 1024 && !word.contains('\0');
    let mut words: Vec<&str> = words.into_iter().filter(known).collect();
    words.dedup();
    words
}

/// A host that was looked up or connected to without the proxy.
fn unreachable_host(line: &str, lower: &str) -> Option<Violation> {
    let clean = |word: &str| -> Option<String> {
        let word = word.trim_matches(|character: char| {
            !character.is_ascii_alphanumeric() && !matches!(character, '[' | ']' | '-')
        });
        let host = word.split("://").last()?.split('/').next()?;
        let name = host.split(':').next()?;
        let known = crate::Host::parse(name)?;
        let is_host = match &known {
            crate::Host::Name(name) => name.contains('.'),
            crate::Host::Address(address) => !address.is_loopback(),
        };
        is_host.then(|| known.to_string())
    };
    let host = |host: String| Violation::Host {
        host,
        reason: String::new(),
    };
    for words in LOOKUPS {
        if let Some(at) = lower.find(words) {
            let behind = line.get(at + words.len()..)?;
            if let Some(found) = behind.split_whitespace().find_map(clean) {
                return Some(host(found));
            }
        }
    }
    let failed = lower.contains("network is unreachable")
        || lower.contains("enetunreach")
        || lower.contains("name resolution")
        || lower.contains("name or service not known");
    if !failed {
        return None;
    }
    let mut words = line.split(|character: char| {
        character.is_whitespace() || matches!(character, '\'' | '"' | ',' | '(' | ')')
    });
    words.find_map(clean).map(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox_policy::{Absent, Protected};

    struct Place {
        _folder: tempfile::TempDir,
        base: PathBuf,
        policy: SandboxPolicy,
    }

    fn place() -> Place {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in ["w/.git/hooks", "w/sub/deep", "w/free", "out", "home/.ssh"] {
            std::fs::create_dir_all(base.join(name)).unwrap();
        }
        for name in ["w/.git/config", "w/sub/deep/.env", "home/.ssh/id_rsa"] {
            std::fs::write(base.join(name), "x").unwrap();
        }
        let protected = |name: &str| Protected {
            path: base.join(name),
            absent: Absent::Ignored,
        };
        let policy = SandboxPolicy {
            writable: vec![base.join("w")],
            protected: vec![protected("w/.git/config"), protected("w/.git/hooks")],
            hidden: vec![base.join("home/.ssh"), base.join("w/sub/deep/.env")],
            ..SandboxPolicy::default()
        };
        Place {
            _folder: folder,
            base,
            policy,
        }
    }

    fn found(place: &Place, text: &str, tier: Tier) -> Vec<String> {
        let text = text.replace("BASE", &place.base.display().to_string());
        violations(&text, &[&place.base.join("w")], &place.policy, tier)
            .iter()
            .map(|violation| {
                violation
                    .subject()
                    .replace(&place.base.display().to_string(), "BASE")
            })
            .collect()
    }

    #[test]
    fn programs_word_a_refused_write_in_many_ways() {
        let place = place();
        for line in [
            "bash: line 1: BASE/out/x: Read-only file system",
            "touch: cannot touch 'BASE/out/x': Read-only file system",
            "touch: cannot touch \u{2018}BASE/out/x\u{2019}: Read-only file system",
            "cp: cannot create regular file 'BASE/out/x': Read-only file system",
            "OSError: [Errno 30] Read-only file system: 'BASE/out/x'",
            "Error: EROFS: read-only file system, open 'BASE/out/x'",
            "tee: BASE/out/x: Read-only file system",
            "sh: 1: cannot create BASE/out/x: Read-only file system",
            "sed: couldn't open file BASE/out/x: Read-only file system",
            "../out/x: Read-only file system",
            "open(\"BASE/out/x\"): Read-only file system (os error 30)",
        ] {
            assert_eq!(
                found(&place, line, Tier::Bubblewrap),
                ["write to BASE/out/x"],
                "{line}"
            );
        }
        let denied = "bash: line 1: BASE/out/x: Permission denied";
        assert_eq!(
            found(&place, denied, Tier::Landlock),
            ["write to BASE/out/x"]
        );
        assert!(found(&place, denied, Tier::Bubblewrap).is_empty());
    }

    #[test]
    fn protected_and_hidden_paths_are_named() {
        let place = place();
        for (line, wanted) in [
            (
                "error: could not write config file .git/config: Device or resource busy",
                "write to BASE/w/.git/config",
            ),
            (
                "mv: cannot move 'sub' to 'other': Device or resource busy",
                "write to BASE/w/sub",
            ),
            (
                "rm: cannot remove 'sub/deep/.env': Device or resource busy",
                "write to BASE/w/sub/deep/.env",
            ),
            (
                "OSError: [Errno 16] Device or resource busy: '.git' -> 'git2'",
                "write to BASE/w/.git",
            ),
            (
                "bash: line 1: .git/hooks/pre-commit: Read-only file system",
                "write to BASE/w/.git/hooks/pre-commit",
            ),
            (
                "cat: BASE/home/.ssh/id_rsa: Permission denied",
                "read BASE/home/.ssh/id_rsa",
            ),
            (
                "cat: BASE/home/.ssh/id_rsa: No such file or directory",
                "read BASE/home/.ssh/id_rsa",
            ),
        ] {
            assert_eq!(found(&place, line, Tier::Bubblewrap), [wanted], "{line}");
        }
    }

    #[test]
    fn an_ordinary_failure_is_none() {
        let place = place();
        for line in [
            "cat: BASE/w/nothing: No such file or directory",
            "cat: BASE/home/.ssh/nothing: No such file or directory",
            "bash: ./script: Permission denied",
            "cat: /etc/nothing-at-all: No such file or directory",
            "rm: cannot remove 'BASE/w/x': Device or resource busy",
            "mv: cannot move 'free' to 'x': Device or resource busy",
            "error: test failed, to rerun pass `--lib`",
            "assertion failed: permission denied is expected",
            "mkdir: cannot create directory 'x': File exists",
            "curl: (7) Failed to connect to localhost port 1: Connection refused",
            "connect ECONNREFUSED 127.0.0.1:3000",
        ] {
            assert!(found(&place, line, Tier::Bubblewrap).is_empty(), "{line}");
        }
    }

    #[test]
    fn hosts_and_sockets_are_named() {
        let place = place();
        for (line, wanted) in [
            (
                "curl: (6) Could not resolve host: example.com",
                "reach example.com",
            ),
            (
                "ssh: Could not resolve hostname git.example.com: Temporary failure in name resolution",
                "reach git.example.com",
            ),
            (
                "Error: getaddrinfo EAI_AGAIN registry.example.com",
                "reach registry.example.com",
            ),
            (
                "connect to 192.0.2.7 port 22: Network is unreachable",
                "reach 192.0.2.7",
            ),
            (
                "permission denied while trying to connect to unix:///var/run/docker.sock: socket: operation not permitted",
                "use the unix socket /var/run/docker.sock",
            ),
            (
                "strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted",
                "make the system call ptrace",
            ),
        ] {
            assert_eq!(found(&place, line, Tier::Bubblewrap), [wanted], "{line}");
        }
    }
}
