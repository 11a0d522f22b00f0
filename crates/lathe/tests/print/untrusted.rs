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
fn no_command_of_a_session_runs_git_in_an_untrusted_repository() {
    let server = server((0..60).map(|_| Reply::text("ok")));
    let home = hostile(&server);
    let listed = home.run(["-p", "/help"], "").stdout;
    let mut names: Vec<String> = listed
        .split_whitespace()
        .filter_map(|word| word.strip_prefix('/'))
        .map(|name| {
            name.trim_end_matches(|next: char| !next.is_alphanumeric())
                .to_owned()
        })
        .filter(|name| !name.is_empty() && !name.contains('/'))
        .collect();
    names.sort();
    names.dedup();
    for needed in ["diff", "commit", "review", "status"] {
        assert!(
            names.iter().any(|name| name == needed),
            "{needed}: {listed}"
        );
    }
    for name in names {
        let output = home.run(["-p", &format!("/{name}")], "");
        assert_eq!(
            ran(&home),
            "",
            "/{name}: {}{}",
            output.stdout,
            output.stderr
        );
    }
}

#[test]
fn neither_a_terminal_nor_a_host_runs_git_before_a_folder_is_trusted() {
    let server = server((0..4).map(|_| Reply::text("the answer")));
    let home = hostile(&server);
    let mut terminal = home.terminal([] as [&str; 0], 100, 40);
    terminal.wait_for("Say what to do");
    terminal.say("hi");
    terminal.wait_for("the answer");
    terminal.say("/diff");
    terminal.wait_for("trust");
    assert_eq!(ran(&home), "", "{}", terminal.screen());
    terminal.signal(nix::sys::signal::Signal::SIGTERM);
    let _ = terminal.ended();
    let mut host = lathe_testkit::StreamJson::start(&home, [] as [&str; 0]);
    host.control(&json!({"subtype": "initialize"}));
    host.prompt("hi");
    host.wait_for_result();
    host.prompt("/diff");
    host.wait_for_result();
    assert_eq!(host.close().code(), Some(0));
    assert_eq!(ran(&home), "");
}

#[test]
fn no_layout_of_a_repository_is_entered_where_nobody_trusts_the_folder() {
    // The repository of the folder is ordinary; others in it, and beside it, are not.
    let commands = [
        "git status",
        "cd docs/theme && git status",
        "cd docs/theme && ls; git log -1",
        "git -C docs/theme status",
        "cd linked && git status",
        "cd nested && git diff",
        "cd nested; git status",
        "(cd nested && git log -p)",
        "git --git-dir=docs/theme status",
        "GIT_DIR=docs/theme git status",
        "cd tree && git status",
        "git submodule status",
        "git diff --submodule=diff",
        "pushd nested && git status",
        "for d in nested docs/theme; do (cd $d && git status); done",
        "find . -name HEAD -execdir git status \\;",
        "cd nested/../nested && git stash list",
    ];
    let replies = commands
        .iter()
        .map(|command| Reply::tool_use("Bash", json!({"command": command})))
        .chain([Reply::text("ok")]);
    let server = server(replies);
    let home = hostile(&server);
    let project = home.project();
    let trace = home.root().join("ran");
    let evil = std::fs::read_to_string(project.join(".git/config")).unwrap();
    std::fs::write(
        project.join(".git/config"),
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
    )
    .unwrap();
    let git = |folder: &std::path::Path, words: &[&str]| {
        let mut git = std::process::Command::new("/usr/bin/git");
        home.dress(&mut git);
        let status = git.args(words).current_dir(folder).status();
        assert!(status.unwrap().success(), "git {words:?}");
    };
    // Laid out like a bare repository.
    home.write("docs/theme/HEAD", "ref: refs/heads/main\n");
    home.write("docs/theme/config", &evil);
    home.write("docs/theme/objects/x", "");
    home.write("docs/theme/refs/x", "");
    // A repository of its own.
    home.write("nested/a.txt", "one\n");
    git(&project.join("nested"), &["init", "-q"]);
    git(&project.join("nested"), &["add", "-A"]);
    git(&project.join("nested"), &["commit", "-qm", "x"]);
    home.write("nested/.git/config", &evil);
    home.write("nested/.gitattributes", "* filter=ev diff=ev\n");
    home.write("nested/a.txt", "two\n");
    // A file that names it, and a worktree of it.
    home.write("linked/.git", "gitdir: ../nested/.git\n");
    home.write("tree/.git", "gitdir: ../nested/.git/worktrees/tree\n");
    home.write("nested/.git/worktrees/tree/HEAD", "ref: refs/heads/main\n");
    home.write("nested/.git/worktrees/tree/commondir", "../..\n");
    home.write(
        "nested/.git/worktrees/tree/gitdir",
        format!("{}/tree/.git\n", project.display()),
    );
    let _ = std::fs::remove_file(&trace);
    let output = home.run(["-p", "look"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    // The shim notes that git runs; the marks of the configurations are what must not be there.
    let marks = ran(&home);
    for mark in ["fsmonitor", "clean", "smudge", "textconv"] {
        assert!(!marks.lines().any(|line| line == mark), "{marks}");
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
