//! In a folder that nobody trusted, Lathe itself runs no program.

use super::{last_user_text, server};
use lathe_scripted::{BlockingServer, Reply};
use lathe_testkit::TestHome;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

/// A project with a repository whose configuration runs programs in every way that git has, and a `git` that
/// notes when it is run. Both leave a trace.
fn hostile(server: &BlockingServer) -> TestHome {
    let home = TestHome::with_server(server);
    home.write("a.txt", "one\n");
    home.write(".gitattributes", "* filter=ev diff=ev\n");
    home.git_init();
    let trace = home.root().join("ran");
    let tools = home.root().join("tools");
    std::fs::create_dir_all(&tools).unwrap();
    let git = tools.join("git");
    std::fs::write(
        &git,
        format!(
            "#!/bin/sh\ncase $PWD in {}*) echo \"git $*\" >> '{}';; esac\nexec /usr/bin/git \"$@\"\n",
            home.project().display(),
            trace.display()
        ),
    )
    .unwrap();
    std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mark = |name: &str| format!("echo {name} >> '{}'; cat", trace.display());
    let config = format!(
        "[core]\n\tfsmonitor = \"{}\"\n[filter \"ev\"]\n\tclean = \"{}\"\n\tsmudge = \"{}\"\n[diff \"ev\"]\n\ttextconv = \"{}\"\n",
        mark("fsmonitor"),
        mark("clean"),
        mark("smudge"),
        mark("textconv"),
    );
    let file = home.project().join(".git/config");
    let old = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{old}{config}")).unwrap();
    home.write("a.txt", "two\n");
    let path = format!("{}:/usr/bin:/bin", tools.display());
    home.variable("PATH", path)
}

fn ran(home: &TestHome) -> String {
    std::fs::read_to_string(home.root().join("ran")).unwrap_or_default()
}

#[test]
fn nothing_of_an_untrusted_repository_runs_by_itself() {
    let server = server((0..6).map(|_| Reply::text("ok")));
    let home = hostile(&server);
    for arguments in [
        &["-p", "hi"][..],
        &["-p", "/diff"],
        &["suggest", "commit"],
        &["suggest", "pr", "--base", "main"],
        &["context"],
        &["sessions", "list"],
        &["doctor"],
        &["permissions", "list"],
    ] {
        let output = home.run(arguments, "");
        let told = format!("{}{}", output.stdout, output.stderr);
        assert_eq!(ran(&home), "", "{arguments:?}: {told}");
        if arguments.contains(&"/diff") || arguments.first() == Some(&"suggest") {
            assert_ne!(output.code(), Some(0), "{arguments:?}: {told}");
            assert!(told.contains("lathe trust add"), "{arguments:?}: {told}");
        }
    }
}

#[test]
fn an_untrusted_clone_that_looks_ordinary_gets_no_git_either() {
    let server = server([Reply::text("ok")]);
    let home = hostile(&server);
    let file = home.project().join(".git/config");
    std::fs::write(&file, "[core]\n\trepositoryformatversion = 0\n").unwrap();
    let output = home.run(["-p", "hi"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert_eq!(ran(&home), "");
    // The user's word changes that.
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    let output = home.run(["-p", "/diff"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert!(output.stdout.contains("a.txt"), "{}", output.stdout);
    assert!(ran(&home).contains("--no-pager"), "{}", ran(&home));
}

#[test]
fn an_agent_gets_no_worktree_of_an_untrusted_repository() {
    let order = json!({
        "description": "look", "prompt": "look around", "subagent_type": "general-purpose",
        "isolation": "worktree", "run_in_background": false,
    });
    let server = server([Reply::tool_use("Agent", order), Reply::text("ok")]);
    let home = hostile(&server);
    let output = home.run(["-p", "start it", "--allowedTools", "Agent"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert_eq!(ran(&home), "");
    let told = last_user_text(&server, 1);
    assert!(told.contains("that folder is not trusted"), "{told}");
}
