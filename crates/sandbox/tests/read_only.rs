//! Commands that were judged to only read, and try something else: real processes, the real kernel.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests assert by panicking, use the programs that are installed and take the size of a longer run from the environment"
)]

use lathe_sandbox::{Block, Confinement, ReadOnlyPolicy, SystemPaths, blocked, support};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

/// A user that isn't root, for tests that root runs.
const SOMEBODY: u32 = 31_337;

/// A project, a folder beside it with a secret, and a private temporary folder.
struct Place {
    folder: tempfile::TempDir,
    /// Whose it is and who runs commands there, if that is not the user of the test.
    user: Option<u32>,
}

impl Place {
    /// One for the user of the test, and one for somebody else if that is root.
    fn all() -> Vec<Self> {
        let mut places = vec![Self::new()];
        // SAFETY: asks for a number.
        if unsafe { libc::geteuid() } == 0 {
            let mut place = Self::new();
            place.user = Some(SOMEBODY);
            give(place.folder.path(), SOMEBODY);
            places.push(place);
        }
        places
    }

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
        Self { folder, user: None }
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
        if let Some(user) = self.user {
            bash.uid(user).gid(user);
        }
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

/// Gives a folder and what is in it to a user.
fn give(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap().flatten() {
            give(&entry.path(), user);
        }
    }
}

fn words(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    out + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn plain_reading_works() {
    for place in Place::all() {
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
}

#[test]
fn nothing_can_be_written() {
    for place in Place::all() {
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
}

#[test]
fn files_outside_the_roots_are_not_read() {
    for place in Place::all() {
        let text = place.refuses("cat ../beside/secret.txt");
        assert!(!text.contains("secret\n"), "{text}");
        std::os::unix::fs::symlink(place.path("beside/secret.txt"), place.path("project/link"))
            .unwrap();
        let text = place.refuses("cat link");
        assert!(!text.contains("secret\n"), "{text}");
        place.refuses("ls ../beside");
    }
}

#[test]
fn other_processes_are_neither_traced_nor_signalled() {
    for place in Place::all() {
        let parent = std::process::id();
        place.refuses(&format!("kill -0 {parent}"));
        place.refuses(&format!(
        "python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(16, {parent}, 0, 0) != 0)'"
    ));
        place.refuses(&format!("cat /proc/{parent}/mem"));
    }
}

#[test]
fn no_socket_is_made() {
    for place in Place::all() {
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
}

#[test]
fn programs_of_the_project_are_not_run_unless_named() {
    use std::os::unix::fs::PermissionsExt;
    for place in Place::all() {
        let script = place.path("project/tool");
        std::fs::copy("/bin/true", &script).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        place.refuses("./tool");
        let mut policy = place.policy();
        policy.executable.push(script);
        let output = place.run_with(&policy, "./tool");
        assert!(output.status.success(), "{}", words(&output));
    }
}

#[test]
fn children_can_not_leave_the_confinement() {
    for place in Place::all() {
        place.refuses("setsid bash -c 'echo x > new.txt'");
        place.refuses("unshare -r bash -c 'echo x > new.txt'");
        place.refuses("bash -c 'kill -0 1'");
        assert!(!place.path("project/new.txt").exists());
    }
}

#[test]
fn what_the_confinement_refused_is_told_from_an_ordinary_failure() {
    for place in Place::all() {
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
    for place in Place::all() {
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
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn one<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    /// A command that a table could take for a reader: it writes, removes, reads what is closed, connects, or runs a
    /// program of the project.
    fn command(&mut self, port: u16) -> String {
        const FILES: &[&str] = &[
            "notes.txt",
            "new.txt",
            "./sub/new",
            "../beside/secret.txt",
            "../beside/new",
            "$HOME/canary",
            "/tmp/canary-file",
            "/var/tmp/canary-file",
            "/dev/shm/canary-file",
            "/etc/canary-file",
            "link",
            ".env",
            "/proc/self/cwd/.env",
            "$PWD/../beside/secret.txt",
            "sub/../.env",
            "tool",
            "/proc/self/root/$PWD/notes.txt",
        ];
        let file = self.one(FILES);
        let other = self.one(FILES);
        let plain = match self.below(24) {
            0 => format!("echo gone > {file}"),
            1 => format!("echo gone >> {file}"),
            2 => format!("rm -f {file}"),
            3 => format!("mv {file} {other}"),
            4 => format!("cp {file} {other}"),
            5 => format!("ln -sf {file} {other}"),
            6 => format!("ln -f {file} {other}"),
            7 => format!("touch {file}"),
            8 => format!("chmod 777 {file}"),
            9 => format!("truncate -s 0 {file}"),
            10 => format!("mkdir -p {file}"),
            11 => format!("dd if=/dev/zero of={file} count=1 status=none"),
            12 => format!("tee {file} < {other}"),
            13 => format!("sed -i s/n/m/ {file}"),
            14 => format!("cat {file}"),
            15 => format!("head -c 99 < {file}"),
            16 => format!("awk 1 {file}"),
            17 => format!("grep -r . {file}"),
            18 => format!("echo x > /dev/tcp/127.0.0.1/{port}"),
            19 => format!("echo x > /dev/udp/127.0.0.1/{port}"),
            20 => "./tool".to_owned(),
            21 => format!("sort -o {file} {other}"),
            22 => format!("install -m 777 {file} {other}"),
            _ => format!("rm -rf {file} ../beside"),
        };
        let quoted = plain.replace('\'', r"'\''");
        match self.below(8) {
            0 => format!("bash -c '{quoted}'"),
            1 => format!("env X=1 bash -c '{quoted}'"),
            2 => format!("setsid -w bash -c '{quoted}'"),
            3 => format!("({plain}) & wait"),
            4 => format!("unshare -r bash -c '{quoted}'"),
            _ => plain,
        }
    }
}

/// The files below a folder with what is in them and their modes.
fn contents(folder: &Path) -> Vec<(std::path::PathBuf, u32, Vec<u8>)> {
    use std::os::unix::fs::MetadataExt;
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(at) = waiting.pop() {
        let metadata = std::fs::symlink_metadata(&at).unwrap();
        let bytes = if metadata.is_file() {
            std::fs::read(&at).unwrap()
        } else {
            Vec::new()
        };
        if metadata.is_dir() {
            waiting.extend(
                std::fs::read_dir(&at)
                    .unwrap()
                    .flatten()
                    .map(|entry| entry.path()),
            );
        }
        found.push((at, metadata.mode(), bytes));
    }
    found.sort();
    found
}

/// Whatever a table overlooks, the kernel holds: made-up commands change nothing, show nothing that is closed, reach
/// nothing and run nothing of the project. `LATHE_EFFECTS` sets how many are made, `LATHE_EFFECTS_SEED` the seed.
#[test]
fn no_made_up_command_gets_past_the_kernel() {
    use std::os::unix::fs::PermissionsExt;
    let number = |name: &str, default: u64| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let datagrams = std::net::UdpSocket::bind(listener.local_addr().unwrap()).unwrap();
    datagrams.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut random = Random(number("LATHE_EFFECTS_SEED", 20_261_116));
    let places = Place::all();
    let share = number("LATHE_EFFECTS", 5_000) / places.len() as u64;
    for place in places {
        let project = place.path("project");
        std::fs::create_dir(project.join("sub")).unwrap();
        std::fs::write(project.join(".env"), "canary-77aa\n").unwrap();
        std::fs::write(place.path("beside/secret.txt"), "canary-77aa\n").unwrap();
        std::fs::write(project.join("tool"), "#!/bin/sh\necho canary-77''aa\n").unwrap();
        std::fs::set_permissions(project.join("tool"), std::fs::Permissions::from_mode(0o755))
            .unwrap();
        std::os::unix::fs::symlink("../beside/secret.txt", project.join("link")).unwrap();
        if let Some(user) = place.user {
            give(place.folder.path(), user);
        }
        let mut policy = place.policy();
        policy.hidden = vec![project.join(".env")];
        let before = contents(place.folder.path());
        // Several in one shell: starting one takes longer than what it does.
        for _ in 0..share / 50 {
            let commands: Vec<String> = (0..50).map(|_| random.command(port)).collect();
            let script: String = commands
                .iter()
                .map(|command| format!("({command}) 2>&1\n"))
                .collect();
            let output = place.run_with(&policy, &script);
            let shown = words(&output);
            // A script that it can't run is read out by nobody.
            assert!(!shown.contains("canary-77aa"), "{shown}\nof {commands:#?}");
            assert!(
                contents(place.folder.path()) == before,
                "changed by one of {commands:#?}"
            );
            assert!(listener.accept().is_err(), "{commands:#?}");
            assert!(datagrams.recv_from(&mut [0; 8]).is_err(), "{commands:#?}");
        }
        for made in [
            "/tmp/canary-file",
            "/var/tmp/canary-file",
            "/dev/shm/canary-file",
            "/etc/canary-file",
        ] {
            assert!(!Path::new(made).exists(), "{made}");
        }
    }
}
