//! Programs that talk to their user, each driven on a real terminal: shells, interpreters, editors, a server's password
//! prompt. Nothing that the user types unseen comes back.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests assert too"
)]

#[path = "run_support/accounts.rs"]
mod accounts;
mod run_support;

use accounts::Accounts;
use lathe_shell::run::{
    Asked, Exit, InteractiveCommand, PromptLine, RunOptions, Settled, TerminalError, TerminalKey,
};
use run_support::{Fixture, HANG, until};
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

const PASSWORD: &str = "correct horse 7";

async fn start(fixture: &Fixture, command: &str) -> Arc<InteractiveCommand> {
    let started = fixture
        .session
        .start_on_terminal(command, RunOptions::default());
    started.await.unwrap()
}

async fn settle(command: &InteractiveCommand) -> Settled {
    command.settle(HANG, &CancellationToken::new()).await
}

/// Types, and waits until the program waits again and the screen shows the text.
async fn answer(command: &InteractiveCommand, typed: &str, keys: &[&str], shown: &str) -> String {
    let keys: Vec<TerminalKey> = keys.iter().map(|key| key.parse().unwrap()).collect();
    command.type_in(typed, &keys).await.unwrap();
    shows(command, shown).await
}

/// Waits until the program waits and the screen shows the text.
async fn shows(command: &InteractiveCommand, shown: &str) -> String {
    let start = Instant::now();
    loop {
        let settled = settle(command).await;
        let seen = command.look().text;
        if seen.contains(shown) {
            return seen;
        }
        let over = matches!(settled, Settled::Ended(_)) || start.elapsed() > HANG;
        assert!(!over, "{settled:?}, no {shown:?} in: {seen}");
    }
}

async fn ended(command: &InteractiveCommand) -> Exit {
    match settle(command).await {
        Settled::Ended(exit) => exit,
        other => panic!("{other:?}: {}", command.look().text),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_waits_at_its_prompt_and_knows_its_line() {
    let fixture = Fixture::new();
    let bash = start(&fixture, "PS1='ready> ' bash --norc --noprofile -i").await;
    shows(&bash, "ready>").await;
    let prompt = bash.prompt();
    assert!(prompt.is_shell, "{prompt:?}");
    assert_eq!(prompt.directory.unwrap(), fixture.work());
    assert_eq!(prompt.line, PromptLine::Known(String::new()));
    bash.type_in("echo one t", &[]).await.unwrap();
    let line = bash.prompt().line;
    assert_eq!(line, PromptLine::Known("echo one t".to_owned()));
    answer(&bash, "wo\n", &[], "\none two").await;
    answer(&bash, "mkdir sub; cd sub\n", &[], "ready>").await;
    until("it moved", || {
        bash.prompt().directory == Some(fixture.work().join("sub"))
    })
    .await;
    // A program of the shell reads now, not the shell.
    bash.type_in("cat\n", &[]).await.unwrap();
    until("cat reads", || bash.prompt().program == "cat").await;
    assert!(!bash.prompt().is_shell);
    bash.type_in("", &["C-c".parse().unwrap()]).await.unwrap();
    until("the shell reads again", || bash.prompt().is_shell).await;
    bash.type_in("", &["Up".parse().unwrap()]).await.unwrap();
    assert_eq!(bash.prompt().line, PromptLine::Unknown);
    answer(&bash, "", &["C-c"], "ready>").await;
    bash.type_in("exit 3\n", &[]).await.unwrap();
    assert_eq!(ended(&bash).await, Exit::Exited(3));
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn interpreters_and_databases_answer() {
    let fixture = Fixture::new();
    for (command, prompt, typed, shown, end) in [
        ("python3 -q", ">>>", "print(6 * 7)\n", "\n42", "exit()\n"),
        ("node", "\n>", "6 * 7\n", "\n42", ".exit\n"),
        ("sqlite3", "sqlite>", "select 6 * 7;\n", "\n42", ".quit\n"),
    ] {
        let program = start(&fixture, command).await;
        shows(&program, prompt).await;
        assert!(!program.prompt().is_shell, "{command}");
        answer(&program, typed, &[], shown).await;
        program.type_in(end, &[]).await.unwrap();
        assert_eq!(ended(&program).await, Exit::Exited(0), "{command}");
    }
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_of_a_script_are_answered_and_output_is_bounded() {
    let fixture = Fixture::new();
    let script = "read -p 'Go on? ' answer; seq 1 100000; echo got $answer";
    let command = start(&fixture, script).await;
    shows(&command, "Go on?").await;
    command.type_in("yes\n", &[]).await.unwrap();
    assert_eq!(ended(&command).await, Exit::Exited(0));
    let shown = command.look();
    assert!(shown.text.ends_with("got yes"), "{}", shown.text);
    assert!(shown.is_cut && shown.text.len() < 100_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_list_is_changed_in_vim() {
    let fixture = Fixture::new();
    let setup = "git init -q . && git config user.email a@b.c && git config user.name n && \
        for n in 1 2 3; do echo $n > f; git add f; git commit -qm \"commit $n\"; done";
    assert_eq!(fixture.run(setup).await.exit, Exit::Exited(0));
    let editor = "GIT_EDITOR='vim -u NONE -N' git rebase -i --root";
    let rebase = start(&fixture, editor).await;
    let list = shows(&rebase, "pick").await;
    assert!(list.contains("commit 3"), "{list}");
    assert!(rebase.look().is_full);
    // The last commit is dropped.
    answer(&rebase, "jjdd", &[], "pick").await;
    rebase.type_in(":wq\n", &[]).await.unwrap();
    assert_eq!(ended(&rebase).await, Exit::Exited(0));
    let log = fixture.run("git log --format=%s").await.output.text;
    assert_eq!(log.trim(), "commit 2\ncommit 1");
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_with_the_whole_screen_pages_resizes_and_ends() {
    let fixture = Fixture::new();
    let lines: Vec<String> = (1..=500).map(|number| format!("line {number}")).collect();
    std::fs::write(fixture.work().join("text"), lines.join("\n")).unwrap();
    let less = start(&fixture, "less text").await;
    shows(&less, "line 39").await;
    let screen = less.look();
    assert!(screen.is_full && !screen.text.contains("line 41"));
    answer(&less, "", &["PageDown"], "line 78").await;
    answer(&less, "G", &[], "line 500").await;
    {
        let keyboard = less.keyboard();
        keyboard.resize(10, 40);
        // The program draws for the new size by itself.
        until("it is small", || {
            let (rows, _) = less.rows();
            rows.len() == 10 && rows[9] == ":"
        })
        .await;
    }
    // Waits also until the keyboard is given back.
    assert_eq!(settle(&less).await, Settled::Waits);
    less.type_in("q", &[]).await.unwrap();
    assert_eq!(ended(&less).await, Exit::Exited(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_typed_unseen_is_the_persons_alone() {
    let fixture = Fixture::new();
    let script =
        "read -rsp 'Password: ' p; echo; echo \"it was $p.\"; read -rp 'Token: ' t; echo $t";
    let command = start(&fixture, script).await;
    let settled = settle(&command).await;
    assert_eq!(settled, Settled::WantsSecret("Password:".to_owned()));
    let refused = command.type_in("guess\n", &[]).await;
    assert!(matches!(refused, Err(TerminalError::Secret(_))));
    {
        let mut keyboard = command.keyboard();
        let refused = command.type_in("", &["C-c".parse().unwrap()]).await;
        assert!(matches!(refused, Err(TerminalError::UserTypes(_))));
        keyboard.type_text("correct horsX");
        keyboard.press("Backspace".parse().unwrap());
        keyboard.type_text("e 7");
        keyboard.press(TerminalKey::Enter);
        until("it is asked again", || {
            command.secret_prompt().as_deref() == Some("Token:")
        })
        .await;
        // This one is shown while it is typed.
        keyboard.type_text("abcdef\n");
    }
    assert_eq!(ended(&command).await, Exit::Exited(0));
    let text = command.look().text;
    assert!(text.contains("it was [hidden]."), "{text}");
    assert!(
        !text.contains(PASSWORD) && !text.contains("abcdef"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_for_ssh_is_typed_by_a_person() {
    let accounts = Accounts::new(PASSWORD);
    let server = accounts.ssh_server();
    let fixture = Fixture::new();
    let login = format!(
        "ssh -p {} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o PubkeyAuthentication=no {}@127.0.0.1",
        server.port, accounts.user
    );
    let ssh = start(&fixture, &login).await;
    let settled = settle(&ssh).await;
    assert!(
        matches!(&settled, Settled::WantsSecret(words) if words.contains("password")),
        "{settled:?}: {}",
        ssh.look().text
    );
    let mut keyboard = ssh.keyboard();
    keyboard.type_text(PASSWORD);
    keyboard.press(TerminalKey::Enter);
    drop(keyboard);
    shows(&ssh, "$").await;
    assert!(!ssh.prompt().is_shell, "the shell is on another machine");
    let shown = answer(&ssh, "echo here-$((6*7))\n", &[], "here-42").await;
    assert!(!shown.contains(PASSWORD), "{shown}");
    ssh.type_in("exit\n", &[]).await.unwrap();
    assert_eq!(ended(&ssh).await, Exit::Exited(0));
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_for_sudo_is_typed_by_a_person() {
    let accounts = Accounts::new(PASSWORD);
    let fixture = Fixture::new();
    let command = accounts.as_user("sudo -k id -u");
    let sudo = start(&fixture, &command).await;
    let settled = settle(&sudo).await;
    assert!(
        matches!(&settled, Settled::WantsSecret(words) if words.contains("password")),
        "{settled:?}: {}",
        sudo.look().text
    );
    let mut keyboard = sudo.keyboard();
    keyboard.type_text("wrong one");
    keyboard.press(TerminalKey::Enter);
    drop(keyboard);
    let again = shows(&sudo, "try again").await;
    assert!(!again.contains("wrong one"), "{again}");
    let settled = settle(&sudo).await;
    assert!(matches!(settled, Settled::WantsSecret(_)), "{settled:?}");
    let mut keyboard = sudo.keyboard();
    keyboard.type_text(PASSWORD);
    keyboard.press(TerminalKey::Enter);
    drop(keyboard);
    assert_eq!(ended(&sudo).await, Exit::Exited(0));
    let shown = sudo.look().text;
    assert!(shown.ends_with("\n0"), "{shown}");
    assert!(!shown.contains(PASSWORD), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_command_that_is_stopped_or_whose_session_ends() {
    let fixture = Fixture::new();
    let stubborn = "trap '' HUP TERM INT; (setsid sleep 1000 &) ; echo up; read x; sleep 1000";
    let first = start(&fixture, stubborn).await;
    let second = start(&fixture, "bash -i").await;
    shows(&first, "up").await;
    first.stop().await;
    assert_eq!(first.exit(), Some(Exit::Cancelled));
    fixture.session.shut_down().await;
    assert_eq!(second.exit(), Some(Exit::Cancelled));
    fixture.assert_no_survivor();
    let cancel = CancellationToken::new();
    let third = start(&fixture, "sleep 1000").await;
    cancel.cancel();
    assert_eq!(third.settle(HANG, &cancel).await, Settled::Cancelled);
    drop(third);
    fixture.session.shut_down().await;
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_run_at_once() {
    let fixture = Fixture::new();
    for _ in 0..8 {
        start(&fixture, "sleep 1000").await;
    }
    let more = fixture
        .session
        .start_on_terminal("true", RunOptions::default());
    let error = more.await.unwrap_err().to_string();
    assert!(error.contains("TaskStop"), "{error}");
    let first = fixture.session.terminals().newest().unwrap();
    first.stop().await;
    start(&fixture, "true").await;
    fixture.session.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_is_asked_answers_or_declines() {
    let fixture = Fixture::new();
    let terminals = fixture.session.terminals();
    let cancel = CancellationToken::new();
    let command = start(&fixture, "read -rsp 'Password: ' p; echo \"[${#p}]\"").await;
    let settled = settle(&command).await;
    assert!(matches!(settled, Settled::WantsSecret(_)), "{settled:?}");
    assert_eq!(command.ask_user(terminals, &cancel).await, Asked::Nobody);
    let mut wishes = terminals.serve_user();
    for (typed, key, wanted) in [
        ("half of it", Some("C-u"), Asked::Declined),
        ("", None, Asked::Declined),
        ("all of it", Some("Enter"), Asked::Answered),
    ] {
        let user = async {
            let id = wishes.recv().await.unwrap();
            assert_eq!(id, command.id);
            let mut keyboard = command.keyboard();
            keyboard.type_text(typed);
            if let Some(key) = key {
                keyboard.press(key.parse().unwrap());
            }
        };
        let (asked, ()) = tokio::join!(command.ask_user(terminals, &cancel), user);
        assert_eq!(asked, wanted, "{typed:?}");
    }
    assert_eq!(ended(&command).await, Exit::Exited(0));
    assert!(
        command.look().text.contains("[9]"),
        "{}",
        command.look().text
    );
    drop(wishes);
    assert!(!terminals.call_user(&command.id));
}
