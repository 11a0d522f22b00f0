//! Commands that were judged to only read, and try something else: real processes, the real kernel.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests assert by panicking and use the programs that are installed"
)]

use lathe_sandbox::{Block, Confinement, ReadOnlyPolicy, SystemPaths, blocked, support};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

/// A project, a folder beside it with a secret, and a private temporary folder.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        assert!(
            support().confines_reads(),
            "this kernel can't confine: {:?}",
            support()
        );
        let folder = tempfile::tempdir().unwrap();
        for name in ["project", "beside", "temporary"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("project/notes.txt"), "notes\n").unwrap();
        std::fs::write(folder.path().join("beside/secret.txt"), "secret\n").unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn policy(&self) -> ReadOnlyPolicy {
        let roots = [self.path("project")];
        let search = std::env::var_os("PATH");
        let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
        let system = SystemPaths::find(search.as_deref(), home.as_deref());
        let mut policy = ReadOnlyPolicy {
            readable: roots.to_vec(),
            ..ReadOnlyPolicy::default()
        };
        policy.add_system(&system);
        policy.writable.push(self.path("temporary"));
        policy
    }

    fn run(&self, command: &str) -> Output {
        self.run_with(&self.policy(), command)
    }

    fn run_with(&self, policy: &ReadOnlyPolicy, command: &str) -> Output {
        let confinement = Arc::new(Confinement::new(policy).unwrap());
        let mut bash = Command::new("bash");
        bash.arg("-c")
            .arg(command)
            .current_dir(self.path("project"))
            .env("TMPDIR", self.path("temporary"));
        // SAFETY: entering makes plain system calls only.
        unsafe {
            bash.pre_exec(move || confinement.enter());
        }
        bash.output().unwrap()
    }

    /// Runs a command that must fail because of the confinement.
    fn refuses(&self, command: &str) -> String {
        let output = self.run(command);
        let text = words(&output);
        assert!(!output.status.success(), "{command} passed: {text}");
        text
    }
}

fn words(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    out + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn plain_reading_works() {
    let place = Place::new();
    for command in [
        "cat notes.txt",
        "ls -la . && wc -l < notes.txt",
        "grep -r notes . | sort | head -1",
        "find . -name '*.txt' -print0 | xargs -0 cat",
        "git --version && python3 -c 'print(1)'",
        "echo x > /dev/null && echo y 2>/dev/null",
        "cat /etc/passwd | wc -l; id; ps -ef | head -2",
        "f=$(mktemp) && echo inside > \"$f\" && cat \"$f\" && rm \"$f\"",
        "diff <(sort notes.txt) <(cat notes.txt)",
    ] {
        let output = place.run(command);
        assert!(output.status.success(), "{command}: {}", words(&output));
    }
}

#[test]
fn nothing_can_be_written() {
    let place = Place::new();
    for command in [
        "echo x > new.txt",
        "echo x >> notes.txt",
        "rm notes.txt",
        "mv notes.txt other.txt",
        "mkdir folder",
        "ln -s notes.txt link",
        "ln notes.txt link",
        "touch notes.txt",
        "chmod 777 notes.txt",
        "truncate -s 0 notes.txt",
        "mkfifo pipe",
        "cp notes.txt ../beside/",
        "echo x > ~/.lathe-test-canary",
        "python3 -c 'import os; os.utime(\"notes.txt\", (0, 0))'",
        "python3 -c 'import os; os.setxattr(\"notes.txt\", \"user.x\", b\"1\")'",
        "dd if=/dev/zero of=/dev/vda count=1",
    ] {
        place.refuses(command);
    }
    assert_eq!(
        std::fs::read_to_string(place.path("project/notes.txt")).unwrap(),
        "notes\n"
    );
    assert_eq!(std::fs::read_dir(place.path("project")).unwrap().count(), 1);
    assert_eq!(std::fs::read_dir(place.path("beside")).unwrap().count(), 1);
}

#[test]
fn files_outside_the_roots_are_not_read() {
    let place = Place::new();
    let text = place.refuses("cat ../beside/secret.txt");
    assert!(!text.contains("secret\n"), "{text}");
    std::os::unix::fs::symlink(place.path("beside/secret.txt"), place.path("project/link"))
        .unwrap();
    let text = place.refuses("cat link");
    assert!(!text.contains("secret\n"), "{text}");
    place.refuses("ls ../beside");
}

#[test]
fn other_processes_are_neither_traced_nor_signalled() {
    let place = Place::new();
    let parent = std::process::id();
    place.refuses(&format!("kill -0 {parent}"));
    place.refuses(&format!(
        "python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(16, {parent}, 0, 0) != 0)'"
    ));
    place.refuses(&format!("cat /proc/{parent}/mem"));
}

#[test]
fn no_socket_is_made() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    place.refuses(&format!("echo x > /dev/tcp/127.0.0.1/{port}"));
    for family in ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"] {
        place.refuses(&format!(
            "python3 -c 'import socket; socket.socket(socket.{family}, socket.SOCK_DGRAM)'"
        ));
    }
    let online = ReadOnlyPolicy {
        network: true,
        ..place.policy()
    };
    let output = place.run_with(&online, &format!("echo x > /dev/tcp/127.0.0.1/{port}"));
    assert!(output.status.success(), "{}", words(&output));
}

#[test]
fn programs_of_the_project_are_not_run_unless_named() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let script = place.path("project/tool");
    std::fs::copy("/bin/true", &script).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    place.refuses("./tool");
    let mut policy = place.policy();
    policy.executable.push(script);
    let output = place.run_with(&policy, "./tool");
    assert!(output.status.success(), "{}", words(&output));
}

#[test]
fn children_can_not_leave_the_confinement() {
    let place = Place::new();
    place.refuses("setsid bash -c 'echo x > new.txt'");
    place.refuses("unshare -r bash -c 'echo x > new.txt'");
    place.refuses("bash -c 'kill -0 1'");
    assert!(!place.path("project/new.txt").exists());
}

#[test]
fn what_the_confinement_refused_is_told_from_an_ordinary_failure() {
    let place = Place::new();
    let policy = place.policy();
    let folder = place.path("project");
    let reason = |output: &str| blocked(output, &folder, &policy);
    let text = place.refuses("cat ../beside/secret.txt");
    assert_eq!(
        reason(&text),
        Some(Block::Path(folder.join("../beside/secret.txt")))
    );
    let text = place.refuses("rm notes.txt");
    assert_eq!(reason(&text), Some(Block::Path(folder.join("notes.txt"))));
    let text = place.refuses("cat no-such-file");
    assert_eq!(reason(&text), None);
    let text = place.refuses("python3 -c 'import socket; socket.socket()'");
    assert!(reason(&text).is_some(), "{text}");
    assert_eq!(reason("tests failed: 3 of 5"), None);
}

#[test]
fn the_repository_of_a_linked_worktree_is_found() {
    let place = Place::new();
    let git = |arguments: &[&str], folder: &Path| {
        let output = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
            .args(arguments)
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", words(&output));
    };
    let project = place.path("project");
    git(&["init", "-q"], &project);
    git(&["add", "."], &project);
    git(&["commit", "-qm", "first"], &project);
    git(&["worktree", "add", "-q", "../beside/tree"], &project);
    let found = lathe_sandbox::repository_folders(&place.path("beside/tree"));
    let common = project.join(".git").canonicalize().unwrap();
    assert!(found.contains(&common), "{found:?}");
}

#[test]
fn hidden_files_are_not_read_and_everything_beside_them_is() {
    let place = Place::new();
    let project = place.path("project");
    for (name, text) in [
        (".env", "canary-1"),
        ("packages/web/.env", "canary-2"),
        ("packages/web/app.txt", "app"),
        ("packages/other.txt", "other"),
    ] {
        std::fs::create_dir_all(project.join(name).parent().unwrap()).unwrap();
        std::fs::write(project.join(name), text).unwrap();
    }
    std::os::unix::fs::symlink(".env", project.join("link")).unwrap();
    std::os::unix::fs::symlink("../beside/secret.txt", project.join("out")).unwrap();
    let mut policy = place.policy();
    policy.hidden = vec![project.join(".env"), project.join("packages/web/.env")];
    let output = place.run_with(
        &policy,
        "ls -a . packages/web; cat notes.txt packages/web/app.txt packages/other.txt; \
         cat .env packages/web/.env link out ./packages/../.env; grep -r canary .",
    );
    let text = words(&output);
    assert!(text.contains(".env"), "names are listed: {text}");
    for shown in ["notes", "app", "other"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert!(
        !text.contains("canary-") && !text.contains("secret\n"),
        "{text}"
    );
}
