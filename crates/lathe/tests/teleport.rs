//! `lathe teleport` on the real binary: two machines, kills at every call of git, and ssh.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests assert by panicking"
)]

use lathe_scripted::Reply;
use lathe_testkit::TestHome;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn shell(folder: &Path, script: &str) -> String {
    let output = Command::new("bash")
        .args(["-euc", script])
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn status(folder: &Path) -> String {
    shell(folder, "git status --porcelain=v2; git diff; cat new")
}

/// A folder with a program for the front of `PATH`.
fn program(folder: &Path, name: &str, script: &str) -> String {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let path = bin.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

/// Two machines with a clone each; the first has a session and changes.
struct Two {
    laptop: TestHome,
    desk: TestHome,
    id: String,
}

impl Two {
    fn new(server: &lathe_scripted::blocking::BlockingServer) -> Self {
        let laptop = TestHome::new().server(server);
        let desk = TestHome::new().server(server);
        let origin = laptop.root().join("origin.git");
        let start = format!(
            "git init -q -b main && git config user.name a && git config user.email a@b && echo one > a.txt && git add . \
             && git commit -qm base && git init -q --bare -b main {0} && git remote add origin {0} && git push -q origin main && git fetch -q",
            origin.display()
        );
        shell(&laptop.project(), &start);
        shell(
            &desk.project(),
            &format!("git clone -q {} .", origin.display()),
        );
        let output = laptop.run(["-p", "remember the word heron"], "");
        assert_eq!(output.code(), Some(0), "{output:?}");
        shell(
            &laptop.project(),
            "echo two >> a.txt; echo fresh > new; git add new",
        );
        let listed = laptop.run(["sessions", "list", "--json"], "").stdout;
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let id = listed[0]["id"].as_str().unwrap().to_owned();
        Self { laptop, desk, id }
    }

    fn archive(&self) -> PathBuf {
        self.laptop.root().join("session.lathe")
    }

    fn sessions(home: &TestHome) -> usize {
        let listed = home.run(["sessions", "list", "--json", "--all"], "").stdout;
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        listed.as_array().unwrap().len()
    }
}

#[test]
fn a_session_goes_on_at_the_other_machine_and_is_refused_at_the_first() {
    let server = lathe_testkit::server([
        Reply::text("noted"),
        Reply::text("heron"),
        Reply::text("yes"),
    ]);
    let two = Two::new(&server);
    let archive = two.archive().display().to_string();
    let pushed = two.laptop.run(["teleport", "push", &archive], "");
    assert_eq!(pushed.code(), Some(0), "{pushed:?}");
    let refused = two.laptop.run(["-p", "which word?", "--continue"], "");
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("was moved to"), "{refused:?}");
    let listed = two.laptop.run(["teleport", "status"], "").stdout;
    assert!(
        listed.contains(&two.id) && listed.contains("session.lathe"),
        "{listed}"
    );
    let pulled = two.desk.run(["teleport", "pull", &archive], "");
    assert_eq!(pulled.code(), Some(0), "{pulled:?}");
    assert_eq!(status(&two.desk.project()), status(&two.laptop.project()));
    let answer = two.desk.run(["-p", "which word?", "--resume", &two.id], "");
    assert_eq!(answer.stdout.trim(), "heron", "{answer:?}");
    let request = server.requests().last().unwrap().body["messages"].to_string();
    for words in [
        "remember the word heron",
        "was moved from another machine",
        "which word?",
    ] {
        assert!(request.contains(words), "{words}: {request}");
    }
    // A copy is possible at the first machine.
    let copy = ["-p", "still there?", "--resume", &two.id, "--fork-session"];
    assert_eq!(two.laptop.run(copy, "").stdout.trim(), "yes");
}

#[test]
fn a_kill_at_any_call_of_git_loses_nothing_at_either_end() {
    // The program counts its calls, and ends its parent at the one that is named.
    let shim = |folder: &Path, at: usize| {
        let real = shell(folder, "command -v git");
        let count = folder.join("count").display().to_string();
        let script = format!(
            "echo x >> {count}; [ \"$(wc -l < {count})\" = {at} ] && kill -9 $PPID\nexec {} \"$@\"",
            real.trim()
        );
        program(folder, "git", &script)
    };
    for end in ["push", "pull"] {
        let mut at = 1;
        loop {
            let server = lathe_testkit::server([Reply::text("noted")]);
            let two = Two::new(&server);
            let archive = two.archive().display().to_string();
            let home = if end == "push" {
                &two.laptop
            } else {
                assert_eq!(
                    two.laptop.run(["teleport", "push", &archive], "").code(),
                    Some(0)
                );
                &two.desk
            };
            let before = status(&two.laptop.project());
            let path = shim(&home.root(), at);
            let killed = home
                .command(["teleport", end, &archive])
                .env("PATH", path)
                .output()
                .unwrap();
            if killed.status.success() {
                assert!(at > 10, "git was called {at} times");
                break;
            }
            assert_eq!(status(&two.laptop.project()), before, "{end} {at}");
            assert_eq!(Two::sessions(&two.laptop), 1, "{end} {at}");
            // Again, undisturbed.
            if end == "push" {
                assert!(!two.archive().exists(), "{end} {at}: half an archive");
                let again = home.run(["teleport", "push", &archive], "");
                assert_eq!(again.code(), Some(0), "{end} {at}: {again:?}");
            }
            let here = Two::sessions(&two.desk);
            assert_eq!(here, 0, "{end} {at}: a session without its files");
            let pulled = two.desk.run(["teleport", "pull", &archive, "--json"], "");
            assert_eq!(pulled.code(), Some(0), "{end} {at}: {pulled:?}");
            let pulled: serde_json::Value = serde_json::from_str(&pulled.stdout).unwrap();
            let folder = PathBuf::from(pulled["folder"].as_str().unwrap());
            assert_eq!(status(&folder), before, "{end} {at}");
            // Every fourth call is enough to meet every step.
            at += 4;
        }
    }
}

#[test]
fn ssh_moves_a_session_there_and_back() {
    let server = lathe_testkit::server([Reply::text("noted")]);
    let two = Two::new(&server);
    let before = status(&two.laptop.project());
    // In the place of ssh: the last argument is run by a shell in the other home.
    let connect = |from: &TestHome, to: &TestHome| {
        let lathe = PathBuf::from(to.command(["x"]).get_program());
        let script = format!(
            "for line; do :; done\nexport LATHE_CONFIG_DIR={} HOME={} PATH={}:$PATH\ncd / && exec sh -c \"$line\"",
            to.config().display(),
            to.home().display(),
            lathe.parent().unwrap().display()
        );
        program(&from.root(), "ssh", &script)
    };
    let run = |home: &TestHome, path: &str, words: &[&str]| {
        let output = home.command(words).env("PATH", path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let path = connect(&two.laptop, &two.desk);
    let target = format!("ssh://desk{}", two.desk.project().display());
    let said = run(&two.laptop, &path, &["teleport", "push", &two.id, &target]);
    assert!(said.contains("there: received"), "{said}");
    assert_eq!(status(&two.desk.project()), before);
    // Back, asked for from here; the other end notes that it left.
    let said = run(
        &two.laptop,
        &path,
        &["teleport", "pull", &target, "--worktree", "--json"],
    );
    let pulled: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(pulled["session"], two.id.as_str());
    assert_eq!(
        status(Path::new(pulled["folder"].as_str().unwrap())),
        before
    );
    assert!(
        two.desk
            .run(["teleport", "status"], "")
            .stdout
            .contains(&two.id)
    );
    assert!(
        !two.laptop
            .run(["teleport", "status"], "")
            .stdout
            .contains(&two.id)
    );
}

#[test]
fn a_session_that_is_open_elsewhere_is_refused_or_ended_first() {
    let server = lathe_testkit::server([Reply::text("noted"), lathe_testkit::endless()]);
    let two = Two::new(&server);
    let archive = two.archive().display().to_string();
    let open = two.laptop.spawn(["-p", "go on", "--continue"]);
    assert!(server.wait_for_requests(2, std::time::Duration::from_secs(120)));
    let refused = two.laptop.run(["teleport", "push", &archive], "");
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("in use by process"), "{refused:?}");
    assert!(!two.archive().exists());
    let pushed = two
        .laptop
        .run(["teleport", "push", "--interrupt", &archive], "");
    assert_eq!(pushed.code(), Some(0), "{pushed:?}");
    assert!(two.archive().exists());
    drop(open);
}
