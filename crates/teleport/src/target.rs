//! Where an archive goes and comes from: a file, standard output, a ref of a git remote, another machine by ssh.

use crate::error::{Refusal, TeleportError};
use crate::git::Git;
use lathe_process::{Command, Ending};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The refs of archives at a remote.
const REFS: &str = "refs/lathe/teleport/";
/// The longest that a transfer may take.
const LIMIT: Duration = Duration::from_secs(60 * 60);
/// The largest archive that is read from another machine.
const LARGEST: usize = 4 << 30;

/// A place for archives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Standard input or output.
    Standard,
    /// A file.
    File(PathBuf),
    /// A ref of a git remote; for a pull, with the session.
    Git {
        /// The remote, by name or address.
        remote: String,
        /// The session.
        session: Option<String>,
    },
    /// A folder on another machine; for a pull, with the session.
    Ssh {
        /// The machine, as ssh knows it, with a user if one is given.
        host: String,
        /// The port, if one is given.
        port: Option<u16>,
        /// The folder of the repository there.
        path: String,
        /// The session.
        session: Option<String>,
    },
}

impl Target {
    /// Reads a target: `-`, `git:REMOTE[#ID]`, `ssh://[user@]host[:port]/path[#ID]`, or a file.
    ///
    /// # Errors
    /// When it can't be one.
    pub fn parse(text: &str) -> Result<Self, TeleportError> {
        let wrong = || Refusal::Target(text.to_owned());
        if text == "-" {
            return Ok(Self::Standard);
        }
        let with_session = |text: &str| match text.split_once('#') {
            Some((place, session)) => (place.to_owned(), Some(session.to_owned())),
            None => (text.to_owned(), None),
        };
        if let Some(rest) = text.strip_prefix("git:") {
            let (remote, session) = with_session(rest);
            if remote.is_empty() || remote.starts_with('-') || remote.contains("::") {
                return Err(wrong().into());
            }
            return Ok(Self::Git { remote, session });
        }
        if let Some(rest) = text.strip_prefix("ssh://") {
            let (place, session) = with_session(rest);
            let (host, path) = place.split_once('/').ok_or_else(wrong)?;
            let (host, port) = match host.rsplit_once(':') {
                Some((host, port)) => (host, Some(port.parse().map_err(|_| wrong())?)),
                None => (host, None),
            };
            let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-@".contains(letter);
            if host.is_empty() || host.starts_with('-') || !host.chars().all(plain) {
                return Err(wrong().into());
            }
            // ssh://host/~/project is below the home folder there.
            let path = match path.strip_prefix("~/") {
                Some(below) => below.to_owned(),
                None => format!("/{path}"),
            };
            return Ok(Self::Ssh {
                host: host.to_owned(),
                port,
                path,
                session,
            });
        }
        if text.is_empty() || text.contains("://") || text.starts_with("fleet:") {
            return Err(wrong().into());
        }
        Ok(Self::File(text.into()))
    }

    /// The target in words, for the `moved` fact.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Standard => "standard output".to_owned(),
            Self::File(path) => std::path::absolute(path)
                .unwrap_or_else(|_| path.clone())
                .display()
                .to_string(),
            Self::Git { remote, .. } => format!("git:{remote}"),
            Self::Ssh { host, path, .. } => {
                format!("ssh://{host}/{}", path.trim_start_matches('/'))
            }
        }
    }
}

/// Puts an archive into a file, completely or not at all.
pub(crate) fn to_file(archive: &Path, to: &Path) -> Result<(), TeleportError> {
    let failed = TeleportError::io("write", to);
    let folder = match to.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        std::io::copy(&mut File::open(archive)?, &mut file)?;
        file.as_file().sync_all()?;
        file.persist(to).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(failed)
}

/// Puts an archive on standard output.
pub(crate) fn to_standard_output(archive: &Path) -> Result<(), TeleportError> {
    let failed = TeleportError::io("write", Path::new("standard output"));
    let mut out = std::io::stdout().lock();
    File::open(archive)
        .and_then(|mut file| std::io::copy(&mut file, &mut out))
        .and_then(|_| out.flush())
        .map_err(failed)
}

/// Pushes an archive as a commit to a ref of a remote. The objects are made in a scratch repository.
pub(crate) fn to_remote(
    top: &Path,
    archive: &Path,
    remote: &str,
    session: &str,
) -> Result<(), TeleportError> {
    let source = Git::new(top)?;
    let address = address_of(&source, remote)?;
    let scratch = tempfile::tempdir().map_err(TeleportError::io("create a folder in", top))?;
    let git = Git::new(scratch.path())?;
    git.run(&["init", "-q", "--bare", "--template=", "."])?;
    let path = archive.to_string_lossy().into_owned();
    let blob = git.line(&["hash-object", "-w", "--no-filters", &path])?;
    let tree = format!("100644 blob {blob}\tarchive.tar.gz\n");
    let tree = git.feed(&["mktree"], tree.into_bytes())?;
    let commit = git.line(&["commit-tree", &tree, "-m", &format!("session {session}")])?;
    let target = format!("+{commit}:{REFS}{session}");
    git.run(&["push", "-q", "--no-verify", &address, &target])?;
    Ok(())
}

/// Fetches an archive from a ref of a remote.
pub(crate) fn from_remote(
    folder: &Path,
    remote: &str,
    session: Option<&str>,
    to: &Path,
) -> Result<(), TeleportError> {
    let source = Git::new(folder)?;
    let address = address_of(&source, remote)?;
    let list = source.line(&["ls-remote", "-q", &address, &format!("{REFS}*")])?;
    let ids: Vec<String> = list
        .lines()
        .filter_map(|line| Some(line.split_once('\t')?.1.strip_prefix(REFS)?.to_owned()))
        .filter(|id| session.is_none_or(|wanted| id.starts_with(wanted)))
        .collect();
    let source_name = format!("git:{remote}");
    let id = match ids.as_slice() {
        [] => return Err(Refusal::Nothing(source_name).into()),
        [id] => id,
        _ => return Err(Refusal::Several { source_name, ids }.into()),
    };
    let scratch = tempfile::tempdir().map_err(TeleportError::io("create a folder in", folder))?;
    let git = Git::new(scratch.path())?;
    git.run(&["init", "-q", "--bare", "--template=", "."])?;
    let wanted = format!("{REFS}{id}:refs/heads/archive");
    git.run(&["fetch", "-q", "--no-tags", "--depth=1", &address, &wanted])?;
    let archive = git.run(&["cat-file", "blob", "refs/heads/archive:archive.tar.gz"])?;
    fs::write(to, archive).map_err(TeleportError::io("write", to))
}

/// The address of a remote. A repository whose own configuration names programs for transfers is refused.
fn address_of(git: &Git, remote: &str) -> Result<String, TeleportError> {
    let programs = r"^(core\.(sshcommand|gitproxy)|credential\..*helper|credential\.helper|remote\..*\.(uploadpack|receivepack|vcs)|url\..*\.(insteadof|pushinsteadof))$";
    for scope in ["--local", "--worktree"] {
        let named = git.try_line(&["config", scope, "--name-only", "--get-regexp", programs])?;
        if let Some(name) = named.as_deref().and_then(|names| names.lines().next()) {
            return Err(Refusal::RepositoryProgram(name.to_owned()).into());
        }
    }
    let address = git.try_line(&["remote", "get-url", "--", remote])?;
    let address = address.unwrap_or_else(|| remote.to_owned());
    if address.starts_with('-') || address.contains("::") {
        return Err(Refusal::Target(format!("git:{remote}")).into());
    }
    // The scratch repository lies elsewhere.
    let local = git.folder().join(&address);
    if !address.contains(':') && local.exists() {
        return Ok(local.to_string_lossy().into_owned());
    }
    Ok(address)
}

/// A word for a POSIX shell.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Runs `lathe teleport …` in a folder of another machine.
pub(crate) fn over_ssh(
    host: &str,
    port: Option<u16>,
    path: &str,
    words: &[&str],
    input: Vec<u8>,
) -> Result<Vec<u8>, TeleportError> {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let line = format!(
        "cd -- {} && lathe teleport {}",
        quoted(path),
        words.join(" ")
    );
    let mut ssh = Command::new("ssh").arguments(["-o", "BatchMode=yes"]);
    if let Some(port) = port {
        ssh = ssh.arguments(["-p", &port.to_string()]);
    }
    let ssh = ssh.arguments(["--", host, &line]);
    let failed = |message: String| TeleportError::Program {
        what: format!("ssh {host}"),
        message,
    };
    let (ending, stdout, stderr) = if input.is_empty() {
        lathe_process::read_blocking(ssh, LIMIT, LARGEST)
            .map(|output| (output.ending, output.stdout, output.stderr))
    } else {
        lathe_process::run_blocking(ssh, input, LIMIT)
            .map(|output| (output.ending, output.stdout.into_bytes(), output.stderr))
    }
    .map_err(|error| failed(error.to_string()))?;
    if ending == Ending::Exited(0) {
        return Ok(stdout);
    }
    Err(failed(stderr.trim().to_owned()))
}

/// Reads an archive from standard input.
pub(crate) fn from_standard_input(to: &Path) -> Result<(), TeleportError> {
    let failed = TeleportError::io("read", Path::new("standard input"));
    let mut input = std::io::stdin().lock().take(LARGEST as u64);
    File::create(to)
        .and_then(|mut file| std::io::copy(&mut input, &mut file))
        .map(drop)
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_told_apart() {
        let git = |remote: &str, session: Option<&str>| Target::Git {
            remote: remote.to_owned(),
            session: session.map(str::to_owned),
        };
        let ssh = |host: &str, port, path: &str| Target::Ssh {
            host: host.to_owned(),
            port,
            path: path.to_owned(),
            session: None,
        };
        for (text, wanted) in [
            ("-", Target::Standard),
            ("a/b.lathe", Target::File("a/b.lathe".into())),
            ("git:origin", git("origin", None)),
            ("git:origin#1234", git("origin", Some("1234"))),
            (
                "git:git@example.org:a/b.git",
                git("git@example.org:a/b.git", None),
            ),
            ("ssh://host/src/x", ssh("host", None, "/src/x")),
            ("ssh://ada@host:2222/~/x", ssh("ada@host", Some(2222), "x")),
        ] {
            assert_eq!(Target::parse(text).unwrap(), wanted, "{text}");
        }
        for text in [
            "",
            "git:",
            "git:--upload-pack=x",
            "git:ext::sh -c id",
            "ssh://host",
            "ssh://-oProxyCommand=x/y",
            "ssh://a b/c",
            "ssh://host:x/y",
            "https://example.org/x",
            "fleet:x",
        ] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn words_for_a_shell_stay_one_word() {
        assert_eq!(quoted("a'; rm -rf $HOME"), r"'a'\''; rm -rf $HOME'");
    }
}
