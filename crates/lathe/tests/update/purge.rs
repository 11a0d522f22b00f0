//! Deleting what is kept about a project.

use lathe_scripted::Reply;
use lathe_testkit::TestHome;
use std::path::Path;

/// A home with a session, a trusted folder and a history.
fn used() -> TestHome {
    let server = lathe_testkit::server([Reply::text("hello")]);
    let home = TestHome::new().server(&server);
    let output = home.run(["-p", "hi"], "");
    assert_eq!(output.code(), Some(0), "{output:?}");
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    let project = home.project().display().to_string();
    let lines = format!(
        "{{\"display\":\"mine\",\"project\":\"{project}\",\"timestamp\":1}}\n{{\"display\":\"other\",\"project\":\"/other\",\"timestamp\":1}}\n"
    );
    std::fs::write(home.config().join("history.jsonl"), lines).unwrap();
    home
}

fn folders(home: &TestHome) -> usize {
    std::fs::read_dir(home.config().join("projects")).map_or(0, Iterator::count)
}

#[test]
fn everything_about_a_project_is_deleted_and_nothing_else() {
    let home = used();
    let planned = home.run(["purge", "--dry-run"], "").stdout;
    assert!(planned.contains("would delete 1 sessions"), "{planned}");
    assert!(planned.contains("trust.json"), "{planned}");
    assert_eq!(folders(&home), 1);
    let output = home.run(["purge"], "");
    assert_eq!(output.code(), Some(0), "{output:?}");
    assert_eq!(
        output.stdout.replace("deleted", "would delete"),
        planned,
        "the plan is what happens"
    );
    assert_eq!(folders(&home), 0);
    let history = std::fs::read_to_string(home.config().join("history.jsonl")).unwrap();
    assert!(
        !history.contains("mine") && history.contains("other"),
        "{history}"
    );
    let trust = std::fs::read_to_string(home.config().join("trust.json")).unwrap();
    assert!(
        !trust.contains(&*home.project().to_string_lossy()),
        "{trust}"
    );
    let again = home.run(["purge"], "").stdout;
    assert!(again.starts_with("there is no data of"), "{again}");
}

#[test]
fn a_project_that_shares_its_key_keeps_its_sessions() {
    let home = used();
    // `project` and `project-x`'s neighbour `project/x` have one key.
    let twin = home.project().join("x");
    std::fs::create_dir_all(&twin).unwrap();
    let server = lathe_testkit::server([Reply::text("hello")]);
    let mut command = home.command(["-p", "hi"]);
    command
        .current_dir(&twin)
        .env("ANTHROPIC_BASE_URL", server.base_url());
    assert!(command.status().unwrap().success());
    let other = format!("{}-x", home.project().display());
    let output = home.run(["purge", &other], "");
    assert!(output.stdout.starts_with("there is no data"), "{output:?}");
    assert_eq!(folders(&home), 2);
    assert_eq!(home.run(["purge", "--all"], "").code(), Some(0));
    assert_eq!(folders(&home), 0);
    assert!(Path::new(&home.config()).is_dir());
}

#[test]
fn a_session_in_use_is_not_deleted() {
    let server = lathe_testkit::server([Reply::text("hello")]);
    let home = TestHome::new().server(&server);
    let mut session = lathe_testkit::StreamJson::start(&home, ["--max-turns", "5"]);
    session.prompt("hi");
    session.wait_for_result();
    for arguments in [&["purge"][..], &["purge", "--all"]] {
        let output = home.run(arguments, "");
        assert_eq!(output.code(), Some(1), "{output:?}");
        assert!(
            output.stderr.contains("in use by another process"),
            "{output:?}"
        );
    }
    assert_eq!(folders(&home), 1);
    let _ = session.close();
}
