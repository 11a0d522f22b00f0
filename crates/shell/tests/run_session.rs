//! State from one command to the next, and how the shell behaves around a command.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]

mod run_support;

use lathe_shell::run::{DirectoryChange, Exit, RunError, RunOptions, ShellSession};
use run_support::{Fixture, until};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_folder_stays_whatever_way_the_command_leaves() {
    let fixture = Fixture::new();
    for (index, leave) in [
        "true",
        "exit 3",
        "false",
        "set -e; false",
        "set -u; $nosuch",
        "(exit 5)",
    ]
    .iter()
    .enumerate()
    {
        let folder = fixture.work().join(format!("folder {index}\n'\""));
        std::fs::create_dir(&folder).unwrap();
        fixture.session.set_directory(fixture.work());
        let finished = fixture.run(&format!("cd folder\\ {index}*; {leave}")).await;
        assert_eq!(
            finished.directory,
            DirectoryChange::Moved(folder.clone()),
            "{leave}"
        );
        assert_eq!(fixture.session.directory(), folder);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_outside_the_allowed_ones_is_left_again() {
    let fixture = Fixture::with(|options| {
        let root = options.directory.canonicalize().unwrap();
        options.directory_allowed = Some(Arc::new(move |folder: &Path| folder.starts_with(&root)));
    });
    let finished = fixture.run("cd /usr; pwd").await;
    assert_eq!(finished.output.text, "/usr\n");
    let DirectoryChange::Undone { refused, now } = finished.directory else {
        panic!("{:?}", finished.directory)
    };
    assert_eq!(refused, Path::new("/usr"));
    assert_eq!(now.canonicalize().unwrap(), fixture.work());
    assert_eq!(
        fixture.run("pwd -P").await.output.text.trim(),
        fixture.work().to_str().unwrap()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_working_folder_is_left_and_said() {
    let fixture = Fixture::new();
    let finished = fixture
        .run("mkdir sub && cd sub && rmdir ../sub; echo here")
        .await;
    assert_eq!(finished.exit, Exit::Exited(0));
    let back = |path: &Path| path.canonicalize().unwrap();
    assert_eq!(back(finished.directory.now()), fixture.work());
    assert_eq!(
        fixture.run("pwd -P").await.output.text.trim(),
        fixture.work().to_str().unwrap()
    );

    fixture.run("mkdir here; cd here").await;
    let finished = fixture.run("rmdir ../here").await;
    assert_eq!(
        finished.directory,
        DirectoryChange::Lost {
            gone: fixture.work().join("here"),
            now: fixture.work()
        }
    );

    let sub = fixture.work().join("other");
    std::fs::create_dir(&sub).unwrap();
    fixture.session.set_directory(sub.clone());
    std::fs::remove_dir(&sub).unwrap();
    let finished = fixture.run("pwd -P").await;
    assert_eq!(
        finished.output.text.trim(),
        fixture.work().to_str().unwrap()
    );
    assert_eq!(
        finished.directory,
        DirectoryChange::Lost {
            gone: sub,
            now: fixture.work()
        }
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_and_both_outputs_come_back_in_order() {
    let fixture = Fixture::new();
    let finished = fixture
        .run("echo one; echo two >&2; echo three; exit 42")
        .await;
    assert_eq!(finished.exit, Exit::Exited(42));
    assert_eq!(finished.output.text, "one\ntwo\nthree\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_syntax_error_is_in_the_shells_own_words() {
    let fixture = Fixture::new();
    let finished = fixture.run("echo a\nif then").await;
    assert_eq!(finished.exit, Exit::Exited(2));
    assert!(
        finished
            .output
            .text
            .contains("line 2: syntax error near unexpected token `then'"),
        "{}",
        finished.output.text
    );
    for command in [
        "echo 'open",
        "echo \"open",
        "cat <<X\nbody",
        "echo $(",
        "# only a comment",
    ] {
        let finished = fixture.run(command).await;
        assert!(
            !finished.output.text.contains("__lathe"),
            "{}",
            finished.output.text
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trap_of_the_command_runs_and_its_code_counts() {
    let fixture = Fixture::new();
    let finished = fixture
        .run("trap 'echo bye; echo err >&2' EXIT; cd /; exit 4")
        .await;
    assert_eq!(finished.exit, Exit::Exited(4));
    assert_eq!(finished.output.text, "bye\nerr\n");
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_sees_no_arguments_and_a_traced_shell_shows_only_the_command() {
    let fixture = Fixture::new();
    assert_eq!(
        fixture.run("echo \"$0 $# [$*]\"").await.output.text,
        "bash 0 []\n"
    );
    assert_eq!(
        fixture.run("set -x; echo hi").await.output.text,
        "++ echo hi\nhi\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_are_kept_from_waiting_for_a_person() {
    let fixture = Fixture::new();
    let finished = fixture
        .run(
            "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one \
             && git -c user.name=a -c user.email=a@b commit -q --allow-empty --amend && git log --format=%s",
        )
        .await;
    assert_eq!(finished.output.text, "one\n");
    assert_eq!(finished.exit, Exit::Exited(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn added_variables_reach_every_later_command() {
    let fixture = Fixture::new();
    let set = |value: &str| [(OsString::from("FROM_HOOK"), OsString::from(value))];
    fixture.session.add_environment(set("one"));
    fixture.session.add_environment(set("two"));
    assert_eq!(fixture.run("echo $FROM_HOOK").await.output.text, "two\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_longer_than_an_argument_may_be_runs() {
    let fixture = Fixture::new();
    let line = "x".repeat(100);
    let body: String = (0..3_000).map(|_| format!("{line}\n")).collect();
    let finished = fixture
        .run(&format!("cat <<'END' | wc -c\n{body}END\nexit 3"))
        .await;
    assert_eq!(finished.output.text.trim(), "303000");
    assert_eq!(finished.exit, Exit::Exited(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_with_a_nul_is_refused() {
    let fixture = Fixture::new();
    let error = fixture
        .try_run("echo a\0b", RunOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(error, RunError::NulInCommand), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_bash_on_the_path_a_shell_is_still_found() {
    let fixture = Fixture::with(|options| {
        options.shell = None;
        let environment = options.environment.as_mut().unwrap();
        environment.retain(|(name, _)| name != "PATH");
        environment.push(("PATH".into(), "/nowhere".into()));
    });
    let finished = fixture.run("echo works; cd /").await;
    assert_eq!(finished.output.text, "works\n");
    assert_eq!(finished.directory.now(), Path::new("/"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_that_does_not_exist_is_named() {
    let fixture = Fixture::with(|options| options.shell = Some("/nowhere/bash".into()));
    let error = fixture
        .try_run("true", RunOptions::default())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("/nowhere/bash"), "{error}");
}

/// Every shell of the machine that is supported, and the ones that are missing.
fn shells() -> (Vec<PathBuf>, Vec<&'static str>) {
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for name in ["bash", "zsh", "dash", "sh"] {
        match which::which(name) {
            Ok(path) => found.push(path),
            Err(_) => missing.push(name),
        }
    }
    (found, missing)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_shell_reports_its_folder_and_its_children() {
    let (found, missing) = shells();
    if !missing.is_empty() {
        println!("skipped, not installed: {missing:?}");
    }
    assert!(found.len() >= 2, "bash and sh are needed");
    for shell in found {
        let fixture = Fixture::with(|options| options.shell = Some(shell.clone()));
        let name = shell.display();
        let finished = fixture.run("cd /usr; exit 3").await;
        assert_eq!(finished.exit, Exit::Exited(3), "{name}");
        assert_eq!(
            finished.directory,
            DirectoryChange::Moved("/usr".into()),
            "{name}"
        );
        let finished = fixture.run("setsid sleep 1000 & echo ok").await;
        assert_eq!(finished.output.text, "ok\n", "{name}");
        assert_eq!(
            finished.leftovers.len(),
            1,
            "{name} {:?}",
            finished.leftovers
        );
        fixture.assert_no_survivor();
        let finished = fixture.run("nosuchcommand").await;
        assert_eq!(finished.exit, Exit::Exited(127), "{name}");
    }
}

async fn prepared(session: &ShellSession) {
    session.prepare();
    until("the snapshot is taken", || session.is_prepared()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_aliases_and_variables_of_the_users_shell_are_there() {
    let fixture = Fixture::with(|options| options.snapshot = true);
    std::fs::write(
        fixture.folder.path().join(".bashrc"),
        "case $- in *i*) ;; *) return;; esac\necho noise\nshopt -s extglob\n\
         greet() { case $1 in @(a|b)) echo \"hello $1\";; esac; }\nalias shout='echo LOUD'\n\
         alias rm='rm -i'\nexport PATH=\"$HOME/bin:$PATH\" FROM_RC=yes\n",
    )
    .unwrap();
    prepared(&fixture.session).await;
    let finished = fixture
        .run("greet a; shout; echo $FROM_RC; echo ${PATH%%:*}; touch x; rm x; ls")
        .await;
    assert_eq!(
        finished.output.text,
        format!(
            "hello a\nLOUD\nyes\n{}/bin\n",
            fixture.folder.path().display()
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_file_that_forgets_the_interactive_one_is_helped_out() {
    let fixture = Fixture::with(|options| options.snapshot = true);
    std::fs::write(
        fixture.folder.path().join(".profile"),
        "export FROM_PROFILE=1\n",
    )
    .unwrap();
    std::fs::write(
        fixture.folder.path().join(".bashrc"),
        "f() { echo function; }\n",
    )
    .unwrap();
    prepared(&fixture.session).await;
    assert_eq!(
        fixture.run("f; echo $FROM_PROFILE").await.output.text,
        "function\n1\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn start_up_files_that_hang_do_not_hold_the_first_command_and_leave_nothing() {
    let fixture = Fixture::with(|options| options.snapshot = true);
    std::fs::write(
        fixture.folder.path().join(".bashrc"),
        "setsid sleep 1000 & sleep 1000\n",
    )
    .unwrap();
    assert_eq!(fixture.run("echo at once").await.output.text, "at once\n");
    assert!(!fixture.session.is_prepared());
    until("the snapshot is given up on", || {
        fixture.session.is_prepared()
    })
    .await;
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_shows_the_last_lines_but_not_too_often() {
    let fixture = Fixture::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let options = {
        let (calls, seen) = (Arc::clone(&calls), Arc::clone(&seen));
        RunOptions {
            progress: Some(Arc::new(move |progress| {
                calls.fetch_add(1, Ordering::Relaxed);
                seen.lock().unwrap().push(progress);
            })),
            ..RunOptions::default()
        }
    };
    let finished = fixture
        .run_with(
            "for i in $(seq 50); do echo line $i; sleep 0.02; done",
            options,
        )
        .await;
    let most = finished.duration.as_millis() / 100 + 1;
    let calls = calls.load(Ordering::Relaxed) as u128;
    assert!(
        calls >= 1 && calls <= most,
        "{calls} in {:?}",
        finished.duration
    );
    let seen = seen.lock().unwrap();
    let last = seen.last().unwrap();
    assert!(last.last_lines.lines().count() <= 5 && last.last_lines.contains("line "));
    assert!(last.total_bytes > 0 && last.elapsed > Duration::ZERO);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_start_up_files_of_zsh_count_too() {
    let Ok(zsh) = which::which("zsh") else {
        println!("skipped: zsh is not installed");
        return;
    };
    let fixture = Fixture::with(|options| {
        options.snapshot = true;
        options.shell = Some(zsh);
    });
    std::fs::write(
        fixture.folder.path().join(".zshrc"),
        "greet() { echo \"hello $1\" }\nalias shout='echo LOUD'\nexport FROM_RC=yes\n",
    )
    .unwrap();
    prepared(&fixture.session).await;
    assert_eq!(
        fixture
            .run("greet you; shout; echo $FROM_RC")
            .await
            .output
            .text,
        "hello you\nLOUD\nyes\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sibling_has_its_own_folder_and_the_same_background() {
    let fixture = Fixture::new();
    fixture
        .session
        .add_environment([(OsString::from("SHARED"), OsString::from("yes"))]);
    let sibling = fixture.session.sibling("/usr".into());
    let finished = sibling
        .run("echo $SHARED; cd /", RunOptions::default())
        .await
        .unwrap();
    assert_eq!(finished.output.text, "yes\n");
    assert_eq!(sibling.directory(), Path::new("/"));
    assert_eq!(
        fixture.session.directory().canonicalize().unwrap(),
        fixture.work()
    );
    let id = sibling
        .start_in_background("true", RunOptions::default())
        .await
        .unwrap();
    assert!(fixture.session.background().get(id.as_str()).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_starts_with_no_signal_blocked_and_dies_of_a_broken_pipe() {
    let fixture = Fixture::new();
    let finished = fixture
        .run("grep ^SigBlk /proc/self/status; kill -PIPE $BASHPID")
        .await;
    assert_eq!(finished.exit, Exit::Signalled(13));
    assert_eq!(finished.output.text, "SigBlk:\t0000000000000000\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_variable_replaces_an_earlier_one_of_its_name() {
    let fixture = Fixture::new();
    let options = RunOptions {
        environment: vec![("PAGER".into(), "less".into())],
        ..RunOptions::default()
    };
    let finished = fixture
        .run_with("env | grep -c ^PAGER=; echo $PAGER", options)
        .await;
    assert_eq!(finished.output.text, "1\nless\n");
}
