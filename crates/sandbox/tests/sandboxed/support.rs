//! A workspace, what lies around it, and a way to run commands in the sandbox beside it.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// Programs of the system only: those in root's home can't be run by others.
pub(crate) const SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Who runs the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    Other(u32),
}

/// Everybody that the tests can be: root is also somebody else.
pub(crate) fn users() -> Vec<User> {
    // SAFETY: asks for a number.
    match unsafe { libc::geteuid() } {
        0 => vec![User::Root, User::Other(31_337)],
        own => vec![User::Other(own)],
    }
}

pub(crate) const TIERS: [&str; 3] = ["bubblewrap", "namespaces", "landlock"];

/// The program of `program.rs`, where everybody can run it.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = PROGRAM.get_or_init(|| {
        let built = Path::new(env!("CARGO_BIN_EXE_sandboxed"));
        let folder = tempfile::tempdir_in(ground()).unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().join("sandboxed");
        std::fs::copy(built, &path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        (folder, path)
    });
    path
}

/// Where places lie: not in `/tmp`, which every sandbox has to itself.
fn ground() -> PathBuf {
    if users().contains(&User::Root) {
        "/srv".into()
    } else {
        std::env::var_os("HOME").unwrap().into()
    }
}

pub(crate) struct Place {
    _folder: tempfile::TempDir,
    pub(crate) base: PathBuf,
    pub(crate) user: User,
}

impl Place {
    /// A repository, a folder outside of it, and a home with secrets and caches.
    pub(crate) fn new(user: User) -> Self {
        let folder = tempfile::tempdir_in(ground()).unwrap();
        let base = folder.path().canonicalize().unwrap();
        std::fs::set_permissions(&base, std::fs::Permissions::from_mode(0o755)).unwrap();
        let place = Self {
            _folder: folder,
            base,
            user,
        };
        for name in [
            "ws",
            "out/folder",
            "home/.ssh",
            "home/.cargo/registry",
            "home/.npm",
            "home/.cache",
            "state",
        ] {
            std::fs::create_dir_all(place.base.join(name)).unwrap();
        }
        for (name, text) in [
            ("out/file", "outside\n"),
            ("home/.ssh/id_rsa", "PRIVATE-KEY\n"),
            ("home/.netrc", "PRIVATE-KEY\n"),
            ("home/.cargo/registry/crate", "crate\n"),
            ("home/.bashrc", "# start\n"),
        ] {
            std::fs::write(place.base.join(name), text).unwrap();
        }
        place.own(&place.base.clone());
        place.outside(
            "cd $WS && git init -q -b main . && git config user.email a@example.com && git config user.name A && \
             echo one > file && git add file && git commit -qm one && echo '#!/bin/sh' > .git/hooks/existing && \
             mkdir -p .git/modules/sub/hooks && git worktree add -q ../wt -b linked && echo 'ref: x' > .git/modules/sub/HEAD && \
             echo > .git/modules/sub/config && mkdir -p .claude && echo '{}' > .claude/settings.json",
        );
        place
    }

    fn own(&self, path: &Path) {
        if let User::Other(user) = self.user {
            // Fails where the files are this user's already.
            let _ = std::os::unix::fs::lchown(path, Some(user), Some(user));
        }
        if path.is_dir() {
            for entry in std::fs::read_dir(path).unwrap() {
                self.own(&entry.unwrap().path());
            }
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", SEARCH)
            .env("WS", self.path("ws"))
            .env("OUT", self.path("out"))
            .env("HOME", self.path("home"))
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .current_dir(self.path("ws"));
        if let User::Other(user) = self.user {
            // SAFETY: asks for a number.
            if unsafe { libc::geteuid() } == 0 {
                command.uid(user).gid(user);
            }
        }
        command
    }

    /// Runs a script without a sandbox, which must work.
    pub(crate) fn outside(&self, script: &str) {
        let output = self
            .command("/bin/bash")
            .args(["-c", script])
            .output()
            .unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
    }

    /// The words that run something in the sandbox.
    pub(crate) fn words(&self, tier: &str) -> Vec<OsString> {
        let path = |name: &str| self.path(name).into_os_string();
        let mut words: Vec<OsString> = vec![
            program().into(),
            "--tier".into(),
            tier.into(),
            "--state".into(),
            path("state"),
        ];
        for (option, name) in [
            ("--write", "ws"),
            ("--repository", "ws"),
            ("--protect-folder", "ws/.lathe"),
            ("--protect-folder", "ws/.claude"),
            ("--protect-file", "ws/.mcp.json"),
            ("--hide", "home/.ssh"),
            ("--hide", "home/.netrc"),
            ("--cache", "home/.cargo"),
            ("--cache", "home/.npm"),
            ("--cache", "home/.cache"),
        ] {
            words.extend([option.into(), path(name)]);
        }
        words
    }

    pub(crate) fn sandboxed(&self, tier: &str, options: &[&str]) -> Command {
        let words = self.words(tier);
        let mut command = self.command(&words[0]);
        command.args(&words[1..]).args(options).arg("--");
        command
    }

    /// Runs a script in the sandbox.
    pub(crate) fn run(&self, tier: &str, script: &str) -> Output {
        self.sandboxed(tier, &[])
            .args(["/bin/bash", "-c", script])
            .output()
            .unwrap()
    }
}

pub(crate) fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
