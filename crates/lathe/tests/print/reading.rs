//! Rules for reading hold for every way into a request.

use super::server;
use lathe_scripted::Reply;
use lathe_testkit::TestHome;
use std::os::unix::fs::symlink;

#[test]
fn instruction_files_do_not_bring_secrets_or_files_from_elsewhere() {
    let server = server([Reply::text("ok")]);
    let home = TestHome::with_server(&server);
    home.write(home.home().join(".ssh/id_rsa"), "PRIVATE-ONE\n");
    home.write(home.home().join("diary.md"), "DIARY\n");
    home.write(".env", "PASSWORD=hunter2\n");
    home.write("keep/plan.md", "PLAN\n");
    home.write("closed/notes.md", "CLOSED\n");
    home.write(".latheignore", "keep/\n");
    home.write("shared/AGENTS.md", "SHARED\n");
    symlink(
        home.home().join(".ssh/id_rsa"),
        home.project().join("AGENTS.md"),
    )
    .unwrap();
    symlink("../diary.md", home.project().join("diary-link.md")).unwrap();
    symlink(
        home.home().join("diary.md"),
        home.project().join("AGENTS.local.md"),
    )
    .unwrap();
    symlink(home.home().join(".ssh"), home.project().join("docs")).unwrap();
    home.write(
        "CLAUDE.md",
        "INSTRUCTIONS\n@.env\n@./keep/plan.md\n@./closed/notes.md\n@docs/id_rsa\n@./shared/AGENTS.md\n",
    );
    let settings = serde_json::json!({"permissions": {"deny": ["Read(./closed/**)"]}});
    home.write(home.config().join("settings.json"), settings.to_string());
    let output = home.run(
        ["-p", "look at @.env and @docs/id_rsa and @closed/notes.md"],
        "",
    );
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let sent = server.requests()[0].body.to_string();
    assert!(
        sent.contains("INSTRUCTIONS") && sent.contains("SHARED"),
        "{sent}"
    );
    for secret in ["PRIVATE-ONE", "hunter2", "PLAN\\n", "CLOSED", "DIARY"] {
        assert!(!sent.contains(secret), "{secret}: {sent}");
    }
}
