//! Worktrees of a real repository.

use super::*;

async fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &["init", "--quiet", "-b", "main"]).await;
    folder
}

async fn run(folder: &Path, arguments: &[&str]) -> String {
    let mut all = vec!["-c", "user.name=a", "-c", "user.email=a@b"];
    all.extend(["-c", "protocol.file.allow=always"]);
    all.extend(arguments);
    let output = tokio::process::Command::new("git")
        .args(&all)
        .current_dir(folder)
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{all:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim_end()
        .to_owned()
}

/// git in a folder that the user trusted.
fn trusted(folder: &Path) -> Git {
    Git::new(&context(folder), folder).unwrap()
}

fn context(folder: &Path) -> lathe_permissions::PermissionContext {
    let home = Path::new("/home/you");
    let mut context = lathe_permissions::PermissionContext::new(folder, home, home);
    context.trusted = true;
    context
}

async fn created(folder: &tempfile::TempDir, name: &str) -> Worktree {
    let repository = trusted(folder.path());
    Worktree::create(&repository, name, &WorktreeSettings::default())
        .await
        .unwrap()
}

async fn with_commit() -> tempfile::TempDir {
    let folder = repository().await;
    std::fs::write(folder.path().join("a.txt"), "a\n").unwrap();
    run(folder.path(), &["add", "a.txt"]).await;
    run(folder.path(), &["commit", "--quiet", "-m", "one"]).await;
    folder
}

#[tokio::test]
async fn settings_say_what_a_worktree_holds_and_where_it_starts() {
    let folder = with_commit().await;
    let root = folder.path();
    let first = run(root, &["rev-parse", "HEAD"]).await;
    run(root, &["update-ref", "refs/remotes/origin/main", &first]).await;
    for name in ["wanted/x", "other/y"] {
        std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        std::fs::write(root.join(name), "z").unwrap();
    }
    run(root, &["add", "-A"]).await;
    run(root, &["commit", "--quiet", "-m", "two"]).await;
    std::fs::create_dir_all(root.join("node_modules/m")).unwrap();
    let settings = WorktreeSettings {
        symlink_directories: vec!["node_modules".to_owned(), "../..".to_owned()],
        sparse_paths: vec!["wanted".to_owned()],
        ..WorktreeSettings::default()
    };
    let sparse = Worktree::create(&trusted(root), "sparse", &settings)
        .await
        .unwrap();
    assert!(sparse.path.join("wanted/x").exists());
    assert!(!sparse.path.join("other").exists());
    assert!(sparse.path.join("node_modules/m").exists());
    let settings = WorktreeSettings {
        base_ref: Some(BaseRef::Fresh),
        ..WorktreeSettings::default()
    };
    let fresh = Worktree::create(&trusted(root), "fresh", &settings)
        .await
        .unwrap();
    assert_eq!(fresh.base, first);
    assert!(!fresh.path.join("wanted").exists());
}

#[tokio::test]
async fn an_untouched_worktree_is_removed_with_its_branch() {
    let folder = with_commit().await;
    let worktree = created(&folder, "one").await;
    assert!(worktree.path.join("a.txt").exists());
    assert!(worktree.remarks.is_empty());
    let status = run(folder.path(), &["status", "--porcelain"]).await;
    assert_eq!(status, "", "the repository doesn't see it");
    assert_eq!(worktree.conclude(Some(&[])).await, Conclusion::Removed);
    assert!(!worktree.path.exists());
    let branches = run(folder.path(), &["branch", "--list", "lathe/*"]).await;
    assert_eq!(branches, "");
}

#[tokio::test]
async fn a_hook_of_the_repository_does_not_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = with_commit().await;
    let ran = folder.path().join("ran");
    let hook = folder.path().join(".git/hooks/post-checkout");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, format!("#!/bin/sh\ntouch '{}'\n", ran.display())).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    created(&folder, "one").await;
    assert!(!ran.exists());
}

#[tokio::test]
async fn changes_and_commits_are_kept() {
    let folder = with_commit().await;
    let dirty = created(&folder, "dirty").await;
    std::fs::write(dirty.path.join("new.txt"), "x").unwrap();
    assert!(
        matches!(dirty.conclude(Some(&[])).await, Conclusion::Kept(text) if text.contains("dirty"))
    );
    assert!(dirty.path.join("new.txt").exists());
    let committed = created(&folder, "committed").await;
    std::fs::write(committed.path.join("a.txt"), "b\n").unwrap();
    run(&committed.path, &["commit", "--quiet", "-am", "two"]).await;
    assert!(matches!(
        committed.conclude(Some(&[])).await,
        Conclusion::Kept(_)
    ));
    let again = Worktree::find(&trusted(folder.path()), &committed.path)
        .await
        .unwrap();
    assert_eq!(
        (&again.branch, &again.base),
        (&committed.branch, &committed.base)
    );
    assert!(matches!(
        again.conclude(Some(&[])).await,
        Conclusion::Kept(_)
    ));
}

#[tokio::test]
async fn files_that_git_ignores_are_work_unless_a_build_left_them() {
    let folder = with_commit().await;
    std::fs::write(folder.path().join(".gitignore"), "target/\n*.env\n").unwrap();
    run(folder.path(), &["add", ".gitignore"]).await;
    run(folder.path(), &["commit", "--quiet", "-m", "ignore"]).await;
    let file = created(&folder, "file").await;
    std::fs::write(file.path.join("local.env"), "KEY=1").unwrap();
    assert!(matches!(
        file.conclude(Some(&[])).await,
        Conclusion::Kept(_)
    ));
    let build = created(&folder, "build").await;
    let left = build.path.join("target/debug/report.txt");
    std::fs::create_dir_all(left.parent().unwrap()).unwrap();
    std::fs::write(&left, "x").unwrap();
    // Who wrote it isn't known, or the agent did: it stays.
    assert!(matches!(build.conclude(None).await, Conclusion::Kept(_)));
    let own = [left.clone()];
    assert!(matches!(
        build.conclude(Some(&own)).await,
        Conclusion::Kept(_)
    ));
    assert!(left.exists());
    assert_eq!(build.conclude(Some(&[])).await, Conclusion::Removed);
}

#[tokio::test]
async fn a_worktree_that_an_agent_in_a_worktree_asks_for_outlives_that_one() {
    let folder = with_commit().await;
    let outer = created(&folder, "outer").await;
    std::fs::write(outer.path.join("a.txt"), "outer\n").unwrap();
    run(&outer.path, &["commit", "--quiet", "-am", "two"]).await;
    let inner = Worktree::create(&trusted(&outer.path), "inner", &WorktreeSettings::default())
        .await
        .unwrap();
    assert_eq!(inner.path.parent(), outer.path.parent());
    assert_eq!(
        std::fs::read_to_string(inner.path.join("a.txt")).unwrap(),
        "outer\n",
        "it starts from where the one that asked stands"
    );
    std::fs::write(inner.path.join("new.txt"), "x").unwrap();
    run(&outer.path, &["reset", "--quiet", "--hard", "HEAD~1"]).await;
    assert_eq!(outer.conclude(Some(&[])).await, Conclusion::Removed);
    assert!(inner.path.join("new.txt").exists());
}

#[tokio::test]
async fn a_dirty_tree_a_detached_head_and_submodules_are_said_or_work() {
    let folder = with_commit().await;
    let module = with_commit().await;
    let url = module.path().to_string_lossy().into_owned();
    run(
        folder.path(),
        &["submodule", "--quiet", "add", &url, "module"],
    )
    .await;
    run(folder.path(), &["commit", "--quiet", "-am", "module"]).await;
    run(folder.path(), &["checkout", "--quiet", "--detach"]).await;
    std::fs::write(folder.path().join("a.txt"), "changed\n").unwrap();
    let worktree = created(&folder, "x").await;
    let briefing = worktree.briefing(folder.path());
    assert!(briefing.contains("not committed") && briefing.contains("Submodules"));
    assert_eq!(
        std::fs::read_to_string(worktree.path.join("a.txt")).unwrap(),
        "a\n"
    );
    assert_eq!(worktree.conclude(Some(&[])).await, Conclusion::Removed);
    assert_eq!(
        std::fs::read_to_string(folder.path().join("a.txt")).unwrap(),
        "changed\n"
    );
}

#[tokio::test]
async fn what_nobody_came_back_for_is_swept_unless_something_was_done_in_it() {
    use std::time::Duration;
    let folder = with_commit().await;
    let empty = created(&folder, "empty").await;
    let dirty = created(&folder, "dirty").await;
    let owned = created(&folder, "owned").await;
    let committed = created(&folder, "committed").await;
    std::fs::write(dirty.path.join("new.txt"), "x").unwrap();
    std::fs::write(committed.path.join("a.txt"), "b\n").unwrap();
    run(&committed.path, &["commit", "--quiet", "-am", "two"]).await;
    let paths = [&empty, &dirty, &committed].map(|worktree| worktree.path.clone());
    // Their process is gone; the owned one's isn't.
    drop((empty, dirty, committed));
    let soon = sweep(
        &trusted(folder.path()),
        &WorktreeSettings::default(),
        PATIENCE,
    )
    .await;
    assert_eq!(soon, Vec::<PathBuf>::new(), "their session may come back");
    // A process that another test is just starting holds copies of all locks until its program runs.
    let mut swept = Vec::new();
    while swept.is_empty() {
        swept = sweep(
            &trusted(folder.path()),
            &WorktreeSettings::default(),
            Duration::ZERO,
        )
        .await;
    }
    assert_eq!(
        swept,
        [folder
            .path()
            .canonicalize()
            .unwrap()
            .join(".lathe/worktrees/empty")]
    );
    assert!(!paths[0].exists() && !sweep::lock_of(&paths[0]).exists());
    assert!(paths[1].join("new.txt").exists() && paths[2].exists());
    assert!(owned.path.exists());
    let branches = run(folder.path(), &["branch", "--list", "lathe/*"]).await;
    assert!(!branches.contains("empty") && branches.contains("committed"));
    let back = Worktree::take_up(&trusted(folder.path()), &paths[1])
        .await
        .unwrap();
    std::fs::remove_file(back.path.join("new.txt")).unwrap();
    let none = sweep(
        &trusted(folder.path()),
        &WorktreeSettings::default(),
        Duration::ZERO,
    )
    .await;
    assert_eq!(none, Vec::<PathBuf>::new(), "someone works in it again");
}

#[tokio::test]
async fn a_locked_worktree_stays_and_other_folders_are_refused() {
    let folder = with_commit().await;
    let locked = created(&folder, "locked").await;
    let path = locked.path.to_string_lossy().into_owned();
    run(folder.path(), &["worktree", "lock", &path]).await;
    assert!(
        matches!(locked.conclude(Some(&[])).await, Conclusion::Kept(text) if text.contains("lock"))
    );
    assert!(locked.path.exists());
    let folder_there = folder.path().join(".lathe/worktrees/there");
    std::fs::create_dir(&folder_there).unwrap();
    let found = Worktree::find(&trusted(folder.path()), &folder_there).await;
    assert!(found.is_none(), "a plain folder is no worktree");
    let plain = tempfile::tempdir().unwrap();
    let error = Git::new(&context(plain.path()), plain.path()).unwrap_err();
    let error = WorktreeError::from(error);
    assert!(
        error.to_string().contains("not in a git repository"),
        "{error}"
    );
    let empty = repository().await;
    let error = Worktree::create(&trusted(empty.path()), "a", &WorktreeSettings::default())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no commit yet"), "{error}");
    let taken = Worktree::create(
        &trusted(folder.path()),
        "locked",
        &WorktreeSettings::default(),
    )
    .await
    .unwrap_err();
    assert!(
        taken.to_string().contains("git can't create a worktree"),
        "{taken}"
    );
}

#[tokio::test]
async fn ignored_files_that_the_project_names_come_along_and_are_no_work() {
    let folder = with_commit().await;
    let root = folder.path();
    std::fs::write(root.join(".gitignore"), "*.env\nnode_modules/\nsecret/\n").unwrap();
    run(root, &["add", ".gitignore"]).await;
    run(root, &["commit", "--quiet", "-m", "ignore"]).await;
    std::fs::write(
        root.join(".worktreeinclude"),
        "local.env\nuntracked.txt\n../*\n",
    )
    .unwrap();
    for name in ["local.env", "other.env", "untracked.txt", "app/local.env"] {
        std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        std::fs::write(root.join(name), name).unwrap();
    }
    std::fs::create_dir_all(root.join("node_modules/m")).unwrap();
    let settings = WorktreeSettings {
        symlink_directories: vec!["node_modules".to_owned()],
        ..WorktreeSettings::default()
    };
    let made = Worktree::create(&trusted(root), "made", &settings)
        .await
        .unwrap();
    assert!(made.path.join("local.env").exists() && made.path.join("app/local.env").exists());
    // Neither what the list doesn't name, nor what git doesn't ignore.
    assert!(!made.path.join("other.env").exists() && !made.path.join("untracked.txt").exists());
    assert!(
        made.remarks.iter().any(|remark| remark.contains("2 files")),
        "{:?}",
        made.remarks
    );
    assert!(made.work(None).await.unwrap().is_none());
    std::fs::write(made.path.join("local.env"), "changed").unwrap();
    assert_eq!(made.work(None).await.unwrap().files, ["local.env"]);
    std::fs::write(made.path.join("local.env"), "local.env").unwrap();
    assert_eq!(made.conclude(None).await, Conclusion::Removed);
    assert!(
        root.join("node_modules/m").exists(),
        "only the link is gone"
    );
}

#[tokio::test]
async fn merged_commits_are_no_work_and_the_branch_of_a_removed_one_is_continued() {
    let folder = with_commit().await;
    let root = folder.path();
    let made = created(&folder, "team/fix").await;
    assert!(made.path.ends_with(".lathe/worktrees/team+fix"));
    std::fs::write(made.path.join("a.txt"), "b\n").unwrap();
    run(&made.path, &["commit", "--quiet", "-am", "two"]).await;
    assert_eq!(made.work(None).await.unwrap().commits, 1);
    // Its files are removed by hand; the branch is still there.
    let path = made.path.to_string_lossy().into_owned();
    run(root, &["worktree", "remove", &path]).await;
    drop(made);
    let again = created(&folder, "team/fix").await;
    assert_eq!(
        std::fs::read_to_string(again.path.join("a.txt")).unwrap(),
        "b\n"
    );
    assert_eq!(again.work(None).await.unwrap().commits, 1);
    // Work on another branch, in the same worktree, doesn't hide what its own branch holds.
    run(&again.path, &["checkout", "--quiet", "-b", "other", "main"]).await;
    assert_eq!(again.work(None).await.unwrap().commits, 1);
    run(root, &["merge", "--quiet", "lathe/team/fix"]).await;
    assert!(again.work(None).await.unwrap().is_none());
    assert_eq!(again.conclude(None).await, Conclusion::Removed);
    assert_eq!(run(root, &["branch", "--list", "lathe/*"]).await, "");
}

#[tokio::test]
async fn worktrees_lie_where_settings_say_and_only_discarding_loses_work() {
    let folder = with_commit().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let settings = WorktreeSettings {
        location: Some(elsewhere.path().to_string_lossy().into_owned()),
        ..WorktreeSettings::default()
    };
    let made = Worktree::create(&trusted(folder.path()), "far", &settings)
        .await
        .unwrap();
    let name = folder.path().file_name().unwrap();
    assert_eq!(made.path, elsewhere.path().join(name).join("far"));
    assert!(!folder.path().join(".lathe").exists());
    std::fs::write(made.path.join("new.txt"), "x").unwrap();
    assert!(matches!(made.conclude(None).await, Conclusion::Kept(_)));
    assert!(sweep::is_held(&made.path));
    made.discard().await.unwrap();
    assert!(!made.path.exists());
    assert_eq!(
        run(folder.path(), &["branch", "--list", "lathe/*"]).await,
        ""
    );
    let by_hook = Worktree::made_by_hook(elsewhere.path().to_owned(), folder.path().to_owned());
    assert!(by_hook.discard().await.is_err() && elsewhere.path().exists());
}
