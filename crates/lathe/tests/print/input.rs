//! The prompt of print mode on standard input: however late, however long.

use super::{last_user_text, server};
use lathe_scripted::Reply;
use lathe_testkit::{HANG_LIMIT, Running, TestHome};
use std::process::Command;

/// A shell with the binary's own environment, in which `$@` is the binary and its arguments.
fn shell(home: &TestHome, script: &str, arguments: &[&str]) -> Running {
    let inner = home.command(arguments);
    let mut command = Command::new("bash");
    home.dress(&mut command);
    command
        .args(["-c", script, "bash"])
        .arg(inner.get_program())
        .args(inner.get_args());
    Running::start(command)
}

/// Waits until the program says that it waits.
#[cfg(target_os = "linux")]
fn await_the_wait(running: &mut Running) {
    while !running
        .stderr_so_far()
        .contains("waiting for the end of standard input")
    {
        assert!(
            !running.ended_within(std::time::Duration::from_millis(20)),
            "it did not wait: {}",
            running.stderr_so_far()
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn piped_input_counts_however_late_it_comes() {
    let server = server([Reply::text("seen")]);
    let home = TestHome::with_server(&server);
    let script = r#"(until [ -e go ]; do sleep 0.05; done; echo "the late diff") | "$@""#;
    let mut running = shell(&home, script, &["-p", "review this"]);
    await_the_wait(&mut running);
    home.write("go", "");
    let output = running.finish();
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert_eq!(output.stdout, "seen\n");
    let said = last_user_text(&server, 0);
    assert!(
        said.contains("review this") && said.contains("the late diff"),
        "{said}"
    );
    server.finish();
}

#[test]
fn an_idle_pipe_of_the_caller_is_named_and_does_not_hang() {
    let server = server([Reply::text("hello")]);
    let home = TestHome::with_server(&server);
    // Standard input stays open, and nothing is ever written.
    let mut running = home.spawn(["-p", "hi"]);
    assert!(running.ended_within(HANG_LIMIT), "it hangs");
    let output = running.finish();
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert_eq!(output.stdout, "hello\n");
    assert!(
        output.stderr.contains("no data on standard input"),
        "{output:#?}"
    );
    server.finish();
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_whose_writer_went_without_a_word_does_not_hang() {
    let server = server([Reply::text("hello")]);
    let home = TestHome::with_server(&server);
    // The shell itself keeps the pipe open to the end.
    let script = r#"mkfifo pipe; exec 3<>pipe; (until [ -e go ]; do sleep 0.05; done) >pipe & "$@" <pipe 3>&-"#;
    let mut running = shell(&home, script, &["-p", "hi"]);
    await_the_wait(&mut running);
    home.write("go", "");
    let output = running.finish();
    assert_eq!(output.stdout, "hello\n", "{output:#?}");
    assert!(
        output.stderr.contains("no data on standard input"),
        "{output:#?}"
    );
    server.finish();
}

#[test]
fn a_prompt_that_alone_exceeds_the_window_is_refused_with_sizes() {
    for format in ["text", "json"] {
        let server = server([]);
        let home = TestHome::with_server(&server);
        let long = "one more line of a very long log\n".repeat(160_000);
        let output = home.run(["-p", "what is wrong?", "--output-format", format], &long);
        assert_eq!(output.code(), Some(1), "{}", output.stderr);
        let said = format!("{}{}", output.stdout, output.stderr);
        let bytes = (long.trim_end().len() + "what is wrong?\n\n".len()).to_string();
        let sent = server.message_requests();
        assert_eq!(sent.len(), 0, "only a count was asked for");
        for wanted in [
            "too long",
            &bytes,
            "1000000 tokens",
            "The model was not asked",
        ] {
            assert!(said.contains(wanted), "{wanted:?} is not in {said}");
        }
        server.finish();
    }
}
