use super::Repository;
use std::fs;
use std::path::Path;
use std::process::Command;

fn git(folder: &Path, words: &[&str]) {
    let status = Command::new("git")
        .args(words)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "git {words:?}");
}

fn fresh() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "-q"]);
    git(folder.path(), &["config", "user.email", "a@b"]);
    git(folder.path(), &["config", "user.name", "a"]);
    fs::write(folder.path().join("a.txt"), "x").unwrap();
    git(folder.path(), &["add", "."]);
    git(folder.path(), &["commit", "-qm", "x"]);
    folder
}

fn is_plain(folder: &Path) -> bool {
    matches!(Repository::of(folder), Repository::Plain { .. })
}

fn add_config(folder: &Path, text: &str) {
    let file = folder.join(".git/config");
    let before = fs::read_to_string(&file).unwrap();
    fs::write(file, format!("{before}{text}")).unwrap();
}

#[test]
fn a_fresh_repository_and_its_clone_are_plain() {
    let folder = fresh();
    fs::create_dir_all(folder.path().join("sub/deep")).unwrap();
    for at in ["", "sub", "sub/deep"] {
        assert!(
            is_plain(&folder.path().join(at)),
            "{at}: {:?}",
            Repository::of(&folder.path().join(at))
        );
    }
    let clone = tempfile::tempdir().unwrap();
    let from = folder.path().display().to_string();
    git(clone.path(), &["clone", "-q", &from, "c"]);
    assert!(is_plain(&clone.path().join("c")));
    assert!(!is_plain(clone.path()));
}

#[test]
fn configuration_that_runs_something_is_found_however_it_is_written() {
    for text in [
        "[core]\nfsmonitor = x\n",
        "[core] fsmonitor = x\n",
        "[CORE]\nFsMonitor=x\n",
        "[filter \"ev\"] clean = \"sh -c 'x' #]\"\n",
        "[filter \"ev\"] clean = \"x\" #]\n",
        "[user \"]\"] name = x\n[core]\nfsmonitor = x\n",
        "[user]\nname = a \\\n b\n[core]\npager = x\n",
        "[user]\nname = \"a\\\n\"\n[diff \"x\"]\ntextconv = x\n",
        "[include]\npath = other\n",
        "[includeIf \"gitdir:/\"]\npath = other\n",
        "[core]\nhooksPath = h\n",
        "[core]\nworktree = /etc\n",
        "[core]\nattributesFile = x\n",
        "[alias]\nstatus = !x\n",
        "[extensions]\nworktreeConfig = true\n",
        "[remote \"o\"]\nurl = ext::sh -c x\n",
        "[remote \"o\"]\nuploadpack = x\n",
        "[remote \"o\"]\npromisor = true\n",
        "[submodule \"o\"]\nupdate = !x\n",
        "[diff]\nexternal = x\n",
        "[diff.x]\ncommand = x\n",
        "[gpg]\nprogram = x\n",
        "[log]\nshowSignature = true\n",
        "[pretty]\nx = %G?\n",
        "[core\nfsmonitor = x\n",
        "[core]\nfilemode = true\0\n[core]\nfsmonitor=x\n",
        "\u{feff}[core]\nfsmonitor = x\n",
        "[a\"b]\n",
        "= x\n",
        "[user]\nname = a\\q\n",
    ] {
        let folder = fresh();
        add_config(folder.path(), text);
        assert!(!is_plain(folder.path()), "{text:?}");
    }
}

#[test]
fn ordinary_configuration_is_plain() {
    let folder = fresh();
    add_config(
        folder.path(),
        "# comment\n[remote \"origin\"]\n\turl = https://example.com/x.git ; comment\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
         [branch \"a/b\"]\n\tremote = origin\n\tmerge = refs/heads/a/b\n[pull]\n\trebase = true\n[color]\n\tui\n",
    );
    assert!(
        is_plain(folder.path()),
        "{:?}",
        Repository::of(folder.path())
    );
}

#[test]
fn a_folder_that_is_laid_out_like_a_repository_is_one() {
    let folder = fresh();
    let bare = folder.path().join("docs/theme");
    fs::create_dir_all(bare.join("objects")).unwrap();
    fs::create_dir_all(bare.join("refs")).unwrap();
    fs::write(bare.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(bare.join("config"), "[core]\nfsmonitor = x\nbare = false\n").unwrap();
    assert!(!is_plain(&bare));
    assert!(!is_plain(&bare.join("objects")));
    assert!(is_plain(folder.path()));
    assert_ne!(
        Repository::of(&bare).folder(),
        Repository::of(folder.path()).folder()
    );
}

#[test]
fn hooks_make_a_repository_not_plain() {
    let folder = fresh();
    fs::create_dir_all(folder.path().join(".git/hooks")).unwrap();
    fs::write(folder.path().join(".git/hooks/post-index-change"), "x").unwrap();
    assert!(!is_plain(folder.path()));
}

#[test]
fn worktrees_and_submodules_are_judged_by_their_own_repository() {
    let folder = fresh();
    let beside = tempfile::tempdir().unwrap();
    let tree = beside.path().join("tree");
    git(
        folder.path(),
        &["worktree", "add", "-q", &tree.display().to_string()],
    );
    assert!(is_plain(&tree), "{:?}", Repository::of(&tree));
    assert_eq!(
        Repository::of(&tree).folder(),
        Repository::of(folder.path()).folder()
    );
    add_config(folder.path(), "[core]\nfsmonitor = x\n");
    assert!(!is_plain(&tree));

    let outer = fresh();
    let inner = fresh();
    git(
        outer.path(),
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "add",
            "-q",
            &inner.path().display().to_string(),
            "sub",
        ],
    );
    // git status enters it.
    assert!(!is_plain(outer.path()));
    assert!(
        is_plain(&outer.path().join("sub")),
        "{:?}",
        Repository::of(&outer.path().join("sub"))
    );
    fs::write(outer.path().join("sub/.git"), "gitdir: /nowhere\nx").unwrap();
    assert!(!is_plain(&outer.path().join("sub")));
}

#[test]
fn every_version_of_the_index_is_read() {
    for version in ["2", "3", "4"] {
        let folder = fresh();
        for name in ["b/long-name-of-a-file.txt", "b/long-name.txt", "c"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "y").unwrap();
        }
        git(folder.path(), &["add", "."]);
        git(folder.path(), &["update-index", "--index-version", version]);
        assert!(is_plain(folder.path()), "{version}");
        git(folder.path(), &["init", "-q", "nested"]);
        git(
            &folder.path().join("nested"),
            &[
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "x",
            ],
        );
        git(folder.path(), &["add", "nested"]);
        assert!(!is_plain(folder.path()), "{version}");
    }
}
