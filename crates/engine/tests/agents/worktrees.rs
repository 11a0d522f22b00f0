//! The session itself in a worktree.

use crate::support::{Place, Talk, whole};
use lathe_engine::{Answerer, OpenError, Restart, SessionOptions};
use lathe_protocol::event::Event;
use lathe_protocol::permission::{PermissionMode, PermissionReply};
use lathe_scripted::{Reply, Scenario};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A model that makes the call which its prompt is, as JSON with the tool's name first.
fn caller() -> Scenario {
    Scenario::new().responder(|request| {
        if !request.last_results().is_empty() {
            return Reply::text(request.last_tool_result());
        }
        let text = request.last_user_text();
        let call = text.lines().find_map(|line| {
            let (tool, input) = line.split_once(' ')?;
            Some((tool, serde_json::from_str::<Value>(input).ok()?))
        });
        match call {
            Some((tool, input)) => Reply::tool_use(tool, input),
            None => Reply::text("heard"),
        }
    })
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

async fn place() -> Place {
    let place = Place::new(caller()).await;
    let project = place.project();
    git(&project, &["init", "--quiet", "-b", "main"]);
    std::fs::write(project.join("a.txt"), "a\n").unwrap();
    std::fs::write(project.join("AGENTS.md"), "House rule: be brief.\n").unwrap();
    std::fs::create_dir(project.join("keys")).unwrap();
    std::fs::write(project.join("keys/one"), "k\n").unwrap();
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "--quiet", "-m", "one"]);
    place
}

fn tree(place: &Place, name: &str) -> PathBuf {
    place.project().join(".lathe/worktrees").join(name)
}

fn in_worktree(mut options: SessionOptions, name: &str) -> SessionOptions {
    options.worktree = Some(name.to_owned());
    options
}

async fn call(talk: &mut Talk, tool: &str, input: Value) -> String {
    talk.say(&format!("{tool} {input}")).await.text.clone()
}

async fn pwd(talk: &mut Talk) -> String {
    call(talk, "Bash", json!({"command": "pwd"}))
        .await
        .trim()
        .to_owned()
}

#[tokio::test]
async fn a_session_goes_into_a_worktree_with_its_rules_and_leaves_it_without_losing_work() {
    let mut place = place().await;
    place.settings = json!({"permissions": {"deny": ["Read(./keys/**)"]}});
    let project = place.project();
    let mut talk = place.open_with(place.trusting_options()).await;
    let read = json!({"file_path": "a.txt"});
    call(&mut talk, "Read", read.clone()).await;
    let entered = call(&mut talk, "EnterWorktree", json!({"name": "fix"})).await;
    let fix = tree(&place, "fix");
    assert!(entered.contains(&fix.display().to_string()), "{entered}");
    assert!(entered.contains("branch lathe/fix"), "{entered}");
    assert_eq!(Path::new(&pwd(&mut talk).await), fix);
    assert_eq!(
        talk.session.permissions().roots(),
        std::slice::from_ref(&fix)
    );
    // The file of that name here is another one, which was not read.
    let edit = json!({"file_path": "a.txt", "old_string": "a", "new_string": "b"});
    let refused = call(&mut talk, "Edit", edit.clone()).await;
    assert!(refused.contains("read"), "{refused}");
    call(&mut talk, "Read", read).await;
    call(&mut talk, "Edit", edit).await;
    assert_eq!(std::fs::read_to_string(fix.join("a.txt")).unwrap(), "b\n");
    assert_eq!(
        std::fs::read_to_string(project.join("a.txt")).unwrap(),
        "a\n"
    );
    for keys in [fix.join("keys/one"), project.join("keys/one")] {
        let told = call(&mut talk, "Read", json!({"file_path": keys})).await;
        assert!(told.contains("Read(./keys/**)"), "{told}");
    }
    let twice = call(&mut talk, "EnterWorktree", json!({})).await;
    assert!(twice.contains("already"), "{twice}");
    let kept = call(&mut talk, "ExitWorktree", json!({"action": "remove"})).await;
    assert!(kept.contains("uncommitted files (a.txt)"), "{kept}");
    call(
        &mut talk,
        "Bash",
        json!({"command": "git -c user.name=a -c user.email=a@b commit -qam two"}),
    )
    .await;
    let kept = call(&mut talk, "ExitWorktree", json!({"action": "remove"})).await;
    assert!(
        kept.contains("1 commit that is on no other branch"),
        "{kept}"
    );
    let left = call(&mut talk, "ExitWorktree", json!({"action": "keep"})).await;
    assert!(left.contains("as you left it"), "{left}");
    assert_eq!(Path::new(&pwd(&mut talk).await), project);
    assert_eq!(
        talk.session.permissions().roots(),
        std::slice::from_ref(&project)
    );
    let told = call(&mut talk, "Read", json!({"file_path": "keys/one"})).await;
    assert!(told.contains("Read(./keys/**)"), "{told}");
    // Once merged, nothing is lost any more.
    git(&project, &["merge", "--quiet", "lathe/fix"]);
    call(&mut talk, "EnterWorktree", json!({"path": fix})).await;
    let gone = call(&mut talk, "ExitWorktree", json!({"action": "remove"})).await;
    assert!(gone.contains("is removed") && !fix.exists(), "{gone}");
    let none = call(&mut talk, "ExitWorktree", json!({"action": "keep"})).await;
    assert!(none.contains("in no worktree"), "{none}");
    talk.finish().await;
}

#[tokio::test]
async fn a_session_that_starts_in_a_worktree_is_found_there_again() {
    let place = place().await;
    let one = tree(&place, "one");
    let mut talk = place
        .open_with(in_worktree(place.trusting_options(), "one"))
        .await;
    let write = json!({"file_path": "new.txt", "content": "x"});
    call(&mut talk, "Write", write).await;
    let first = &place.server.message_requests()[0];
    let system = first.body["system"].to_string();
    assert!(system.contains(&one.display().to_string()), "{system}");
    assert!(system.contains("House rule"), "{system}");
    assert!(whole(first).contains("branch lathe/one"));
    // While it works there, nobody else does.
    let other = lathe_engine::open(
        place.environment(),
        in_worktree(place.trusting_options(), "one"),
    )
    .await;
    assert!(matches!(other, Err(OpenError::Usage(why)) if why.contains("in use")));
    talk.finish().await;
    assert!(one.join("new.txt").exists());
    let mut talk = place.resume().await;
    let remarks = format!("{:?}", talk.remarks);
    assert!(remarks.contains("continues in the worktree"), "{remarks}");
    assert_eq!(Path::new(&pwd(&mut talk).await), one);
    let again = place.server.message_requests().last().unwrap().body["system"].to_string();
    assert_eq!(again, system, "the prefix is the same");
    talk.finish().await;
    // A new session by that name continues there too.
    let mut talk = place
        .open_with(in_worktree(place.trusting_options(), "one"))
        .await;
    assert_eq!(
        call(&mut talk, "Bash", json!({"command": "cat new.txt"}))
            .await
            .trim(),
        "x"
    );
    talk.finish().await;
    git(
        &place.project(),
        &["worktree", "remove", "--force", one.to_str().unwrap()],
    );
    let mut talk = place.resume().await;
    let remarks = format!("{:?}", talk.remarks);
    assert!(remarks.contains("no longer exists"), "{remarks}");
    assert_eq!(Path::new(&pwd(&mut talk).await), place.project());
    talk.finish().await;
}

#[tokio::test]
async fn an_empty_worktree_goes_with_its_session_and_stays_while_another_follows() {
    let place = place().await;
    let options = in_worktree(place.trusting_options(), "brief");
    let brief = tree(&place, "brief");
    let mut talk = place.open_with(options.clone()).await;
    talk.say("hello").await;
    let next = talk.session.restart(&Restart::Clear, &options);
    talk.finish().await;
    assert!(brief.exists());
    let mut talk = place.open_with(next).await;
    assert_eq!(Path::new(&pwd(&mut talk).await), brief);
    talk.finish().await;
    assert!(!brief.exists());
    assert_eq!(git(&place.project(), &["branch", "--list", "lathe/*"]), "");
}

#[tokio::test]
async fn work_is_discarded_only_by_a_persons_word() {
    let place = place().await;
    let mut options = in_worktree(place.trusting_options(), "risky");
    options.permissions.answerer = Answerer::Face;
    let risky = tree(&place, "risky");
    let mut talk = place.open_with(options).await;
    call(
        &mut talk,
        "Write",
        json!({"file_path": "new.txt", "content": "x"}),
    )
    .await;
    let exit = json!({"action": "remove", "discard_changes": true});
    // Even where everything else is allowed.
    assert_eq!(
        talk.session.permissions().mode(),
        PermissionMode::BypassPermissions
    );
    talk.send(&format!("ExitWorktree {exit}"));
    let question = talk.question().await;
    talk.reply(&question, PermissionReply::deny("no".to_owned()));
    talk.result().await;
    assert!(risky.join("new.txt").exists());
    talk.send(&format!("ExitWorktree {exit}"));
    let question = talk.question().await;
    talk.reply(&question, PermissionReply::allow());
    let text = talk.result().await.text.clone();
    assert!(text.contains("is removed") && !risky.exists(), "{text}");
    talk.finish().await;
}

#[tokio::test]
async fn a_worktree_of_the_users_own_is_never_removed() {
    let place = place().await;
    let own = place.root().join("own");
    git(
        &place.project(),
        &[
            "worktree",
            "add",
            "--quiet",
            "-b",
            "mine",
            own.to_str().unwrap(),
        ],
    );
    let mut talk = place.open_with(place.trusting_options()).await;
    for (path, why) in [
        (place.project(), "the repository itself"),
        (
            place.root().join("home"),
            "not a worktree of this repository",
        ),
        (
            place.root().join("missing"),
            "not a worktree of this repository",
        ),
    ] {
        let told = call(&mut talk, "EnterWorktree", json!({"path": path})).await;
        assert!(told.contains(why), "{told}");
    }
    let both = call(
        &mut talk,
        "EnterWorktree",
        json!({"path": own, "name": "x"}),
    )
    .await;
    assert!(both.contains("not both"), "{both}");
    call(&mut talk, "EnterWorktree", json!({"path": own})).await;
    assert_eq!(Path::new(&pwd(&mut talk).await), own);
    let told = call(&mut talk, "ExitWorktree", json!({"action": "remove"})).await;
    assert!(told.contains("existed before"), "{told}");
    talk.finish().await;
    assert!(own.join("a.txt").exists() && !place.root().join("own.lock").exists());
    // It lies outside of the working folders: entering it asks.
    let mut options = place.trusting_options();
    options.permissions.mode = Some(PermissionMode::Default);
    let mut talk = place.open_with(options).await;
    call(&mut talk, "EnterWorktree", json!({"path": own})).await;
    let asked = place
        .server
        .message_requests()
        .last()
        .unwrap()
        .last_tool_result();
    assert!(
        asked.contains("permission") || asked.contains("allow"),
        "{asked}"
    );
    assert_eq!(talk.session.context().working_folder(), place.project());
    talk.finish().await;
}

#[tokio::test]
async fn without_a_repository_there_is_no_worktree_and_no_session() {
    let place = Place::new(caller()).await;
    let options = in_worktree(place.trusting_options(), "x");
    let refused = lathe_engine::open(place.environment(), options).await;
    assert!(
        matches!(refused, Err(OpenError::Usage(why)) if why.contains("not in a git repository"))
    );
}

#[tokio::test]
async fn a_hook_makes_the_worktree_of_a_session() {
    let mut place = place().await;
    let made = place.root().join("made");
    let command = format!("mkdir -p {0} && echo {0}", made.display());
    place.settings = json!({"hooks": {"WorktreeCreate": [{"hooks": [{"type": "command", "command": command}]}]}});
    let mut talk = place
        .open_with(in_worktree(place.trusting_options(), "x"))
        .await;
    assert_eq!(Path::new(&pwd(&mut talk).await), made);
    talk.finish().await;
    let mut talk = place.resume().await;
    assert_eq!(Path::new(&pwd(&mut talk).await), made);
    talk.finish().await;
    assert!(made.exists() && !place.project().join(".lathe").exists());
}

#[tokio::test]
async fn what_stays_is_said_at_the_end() {
    let place = place().await;
    let mut talk = place
        .open_with(in_worktree(place.trusting_options(), "kept"))
        .await;
    call(&mut talk, "Bash", json!({"command": "echo x > new.txt"})).await;
    let Talk {
        session,
        mut events,
        ..
    } = talk;
    session.finish().await;
    let mut said = String::new();
    while let Some(event) = events.next().await {
        if let Event::Notice { text, .. } = event {
            said.push_str(&text);
        }
    }
    assert!(said.contains("kept on branch lathe/kept"), "{said}");
}
