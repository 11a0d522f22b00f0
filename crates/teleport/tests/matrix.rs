//! Every kind of git state, sent away and back: it arrives identical, or is refused with the reason.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_protocol::ids::{RecordId, SessionId};
use lathe_session::SessionStore;
use lathe_teleport::{Pull, Pulled, Push, Secrets, SnapshotOptions, Target, TeleportError};
use pretty_assertions::assert_eq;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a script with an identity of its own and without the settings of this machine.
fn shell(folder: &Path, script: &str) -> String {
    let output = Command::new("bash")
        .args(["-euc", script])
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_AUTHOR_NAME", "a")
        .env("GIT_AUTHOR_EMAIL", "a@b")
        .env("GIT_COMMITTER_NAME", "a")
        .env("GIT_COMMITTER_EMAIL", "a@b")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "protocol.file.allow")
        .env("GIT_CONFIG_VALUE_0", "always")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Two machines with a clone each, and the repository that they come from.
struct Machines {
    folder: tempfile::TempDir,
}

const BASE: &str = r"
git init -q --bare -b main origin.git
git init -q -b main seed && cd seed
printf 'one\ntwo\nthree\n' > a.txt; printf 'b\n' > b.txt; mkdir -p dir/sub
printf 'c\n' > dir/sub/c.txt; ln -s a.txt link; printf '\000\001\002' > binary
printf '*.log\n' > .gitignore
git add -A && git commit -qm base && git push -q ../origin.git main && cd ..
git clone -q origin.git a && git clone -q origin.git b
";

impl Machines {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        shell(folder.path(), BASE);
        let machines = Self { folder };
        shell(&machines.at("a"), script);
        machines
    }

    fn at(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.folder.path()).unwrap().join(name)
    }

    fn store(&self, machine: &str) -> SessionStore {
        SessionStore::new(self.at(&format!("home-{machine}")))
    }

    /// A session in a folder of the first machine.
    fn session(&self, folder: &str) -> SessionId {
        let id = SessionId::random();
        let cwd = self.at(folder);
        let line = json!({
            "type": "user", "parentUuid": null, "isSidechain": false, "userType": "external", "cwd": cwd,
            "sessionId": id, "version": "0.1.0", "gitBranch": "main", "uuid": RecordId::random(),
            "message": {"role": "user", "content": "change it"}, "timestamp": "2026-01-01T00:00:00.000Z",
        });
        let paths = self.store("a").paths(&cwd, id);
        lathe_session::paths::write_private_file(
            &paths.transcript(),
            format!("{line}\n").as_bytes(),
        )
        .unwrap();
        id
    }

    fn push(&self, machine: &str, id: SessionId, to: &str) -> Result<(), TeleportError> {
        let push = Push {
            session: Some(id.to_string()),
            target: Target::File(self.at(to)),
            fork: false,
            interrupt: false,
            secrets: Secrets::Refuse,
            snapshot: SnapshotOptions {
                largest_file: 10,
                whole: false,
            },
        };
        lathe_teleport::push(&self.store(machine), &self.at("a"), machine, &push).map(drop)
    }

    fn pull(&self, machine: &str, from: &str, into: &Path) -> Result<Pulled, TeleportError> {
        let pull = Pull {
            source: Target::File(self.at(from)),
            folder: into.to_owned(),
            worktree: false,
            fork: false,
        };
        lathe_teleport::pull(&self.store(machine), machine, &pull)
    }
}

/// The status of a folder, and every file that it does not ignore with its mode and content.
fn state(top: &Path) -> (String, BTreeMap<String, (u32, String)>) {
    let status = shell(top, "git status --porcelain=v2 --untracked-files=all");
    let names = shell(
        top,
        "git ls-files -z --cached --others --exclude-standard -t",
    );
    let mut files = BTreeMap::new();
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let (tag, name) = name.split_at(2);
        let path = top.join(name);
        if let Ok(found) = fs::symlink_metadata(&path)
            && tag != "S "
            && !found.is_dir()
        {
            let (mode, content) = if found.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                (0, target.to_string_lossy().into_owned())
            } else {
                let content = fs::read(&path).unwrap();
                (
                    found.permissions().mode() & 0o100,
                    content.escape_ascii().to_string(),
                )
            };
            files.insert(name.to_owned(), (mode, content));
        }
    }
    (status, files)
}

/// The parts that a push must leave alone: the index, the stash and the refs.
fn untouched(top: &Path) -> (Vec<u8>, i64, String) {
    let index = top.join(shell(top, "git rev-parse --git-path index").trim());
    let refs = shell(
        top,
        "git for-each-ref; git stash list; cat $(git rev-parse --git-dir)/HEAD",
    );
    let changed = fs::metadata(&index).map_or(0, |found| found.mtime_nsec());
    (fs::read(&index).unwrap_or_default(), changed, refs)
}

/// States that arrive as they are: a name, and the script that makes it.
const SAME: &[(&str, &str)] = &[
    ("clean", ""),
    ("unpushed commit", "echo x >> a.txt; git commit -qam more"),
    ("staged new file", "echo n > new; git add new"),
    ("unstaged change", "echo x >> a.txt"),
    (
        "staged and changed again",
        "echo x >> a.txt; git add a.txt; echo y >> a.txt",
    ),
    ("deleted", "rm a.txt"),
    ("deletion staged", "git rm -q a.txt"),
    ("deletion staged, file kept", "git rm -q --cached a.txt"),
    ("staged, then deleted", "echo n > new; git add new; rm new"),
    ("mode", "chmod +x a.txt; chmod +x b.txt; git add b.txt"),
    ("link changed", "ln -sf b.txt link; ln -s nowhere broken"),
    ("file becomes link", "rm a.txt; ln -s b.txt a.txt"),
    ("link becomes file", "rm link; echo real > link"),
    ("rename staged", "git mv a.txt moved.txt"),
    (
        "rename staged and changed",
        "git mv a.txt moved.txt; echo x >> moved.txt",
    ),
    (
        "binary",
        "printf '\\377\\000\\n\\r' > binary; printf '\\000' > other",
    ),
    (
        "untracked in folders",
        "mkdir -p x/y; echo 1 > x/y/z; : > x/empty",
    ),
    ("ignored stays behind", "echo secretless > debug.log"),
    (
        "new branch",
        "git switch -qc feature; echo x >> a.txt; git commit -qam f; echo y >> a.txt",
    ),
    ("detached", "git checkout -q --detach; echo x >> b.txt"),
    (
        "detached with commits",
        "git checkout -q --detach; echo x >> b.txt; git commit -qam d",
    ),
    ("folder becomes file", "rm -r dir; echo file > dir"),
    (
        "file becomes folder",
        "rm b.txt; mkdir b.txt; echo x > b.txt/inner",
    ),
    (
        "odd names",
        "echo 1 > 'with space'; echo 2 > \"$(printf 'line\\nend')\"; echo 3 > ümlaut; echo 4 > -dash; echo 5 > 'quo\"te'",
    ),
    (
        "line ends",
        "printf '/a.txt text eol=crlf\\n/crlf.txt text eol=crlf\\n' > .gitattributes; git add .gitattributes; git commit -qm eol; rm a.txt; git checkout -q a.txt; printf 'x\\r\\ny\\r\\n' > crlf.txt; git add crlf.txt; printf 'lf\\n' > a.txt",
    ),
    ("intent to add", "echo later > later; git add -N later"),
    (
        "sparse checkout",
        "git sparse-checkout set --cone dir; echo x >> dir/sub/c.txt",
    ),
    (
        "filter that must not run",
        "git config filter.lfs.clean 'touch ../ran; false'; git config filter.lfs.smudge 'touch ../ran; false'; git config filter.lfs.required true; printf '*.bin filter=lfs\\n' > .gitattributes; printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:00\\nsize 1\\n' > big.bin",
    ),
    (
        "hooks that must not run",
        "printf '#!/bin/sh\\ntouch ../ran\\n' > .git/hooks/post-checkout; cp .git/hooks/post-checkout .git/hooks/pre-commit; chmod +x .git/hooks/*; echo x >> a.txt",
    ),
    (
        "stash stays behind",
        "echo x >> a.txt; git stash -q; echo y >> b.txt",
    ),
    (
        "modes mean nothing",
        "chmod +x a.txt; git commit -qam mode; git config core.fileMode false; echo x >> a.txt; echo x >> b.txt",
    ),
    (
        "clean submodule",
        "git init -q -b main ../sub; (cd ../sub; echo s > s; git add .; git commit -qm s); git submodule -q add ../sub sub; git commit -qm sub",
    ),
];

/// States that are refused, with a part of the reason.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "merge",
        "git switch -qc o; echo o > n; git add n; git commit -qm o; git switch -q main; git merge -q --no-commit --no-ff o",
        "a merge is in progress",
    ),
    (
        "conflicts",
        "echo x >> a.txt; git stash -q; echo y >> a.txt; git commit -qam y; git stash pop -q || true",
        "conflicts (a.txt)",
    ),
    (
        "rebase",
        "git switch -qc o; echo o >> a.txt; git commit -qam o; git switch -q main; echo m >> a.txt; git commit -qam m; git rebase -q o || true",
        "a rebase",
    ),
    (
        "cherry-pick",
        "git switch -qc o; echo o >> a.txt; git commit -qam o; git switch -q main; echo m >> a.txt; git commit -qam m; git cherry-pick o || true",
        "a cherry-pick",
    ),
    ("bisection", "git bisect start -q", "a bisection"),
    (
        "large file",
        "truncate -s 11M large",
        "large has 11 MB, more than the limit of 10 MB",
    ),
    (
        "assume-unchanged",
        "git update-index --assume-unchanged a.txt; echo x >> a.txt",
        "assume-unchanged",
    ),
    (
        "skip-worktree",
        "git update-index --skip-worktree a.txt; echo x >> a.txt",
        "skip-worktree",
    ),
    (
        "nested repository",
        "git init -q inner; echo x > inner/x",
        "inner/ is a repository of its own",
    ),
    (
        "changed submodule",
        "git init -q -b main ../sub; (cd ../sub; echo s > s; git add .; git commit -qm s); git submodule -q add ../sub sub; git commit -qm sub; echo x >> sub/s",
        "the submodule sub has changes",
    ),
    (
        "submodule elsewhere",
        "git init -q -b main ../sub; (cd ../sub; echo s > s; git add .; git commit -qm s); git submodule -q add ../sub sub; git commit -qm sub; (cd sub; echo x >> s; git commit -qam x)",
        "another commit",
    ),
    (
        "secret",
        "printf 'AKIA%s' ABCDEFGHIJKLMNOP > keys",
        "secrets in files that would be carried: keys",
    ),
];

#[test]
fn states_arrive_identical_in_both_directions() {
    for (name, script) in SAME {
        let machines = Machines::new(script);
        let source = machines.at("a");
        let id = machines.session("a");
        let (before, alone) = (state(&source), untouched(&source));
        machines
            .push("a", id, "1.lathe")
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(untouched(&source), alone, "{name}: the source was touched");
        let there = machines
            .pull("b", "1.lathe", &machines.at("b"))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(state(&there.folder), before, "{name}: on arrival");
        // And back, where the folder has changes of its own by now.
        machines
            .push("b", id, "2.lathe")
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let back = machines
            .pull("a", "2.lathe", &source)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(state(&back.folder), before, "{name}: back again");
        assert_eq!(back.session, id, "{name}");
        assert_eq!(
            state(&source),
            before,
            "{name}: the clone itself stays as it was"
        );
        assert!(
            !machines.at("ran").exists(),
            "{name}: a program of the repository ran"
        );
        assert!(
            !there.folder.join("debug.log").exists(),
            "{name}: an ignored file was carried"
        );
    }
}

#[test]
fn states_that_cannot_be_carried_are_refused_with_the_reason() {
    for (name, script, reason) in REFUSED {
        let machines = Machines::new(script);
        let id = machines.session("a");
        let alone = untouched(&machines.at("a"));
        let error = machines.push("a", id, "1.lathe").unwrap_err().to_string();
        assert!(error.contains(reason), "{name}: {error}");
        assert!(!machines.at("1.lathe").exists(), "{name}");
        assert_eq!(untouched(&machines.at("a")), alone, "{name}");
        let here = machines.store("a").find_anywhere(id).unwrap();
        assert_eq!(here.moved, None, "{name}: the session stays");
    }
}

#[test]
fn a_linked_worktree_and_a_folder_below_the_top_arrive() {
    let machines =
        Machines::new("git worktree add -q -b side ../side; echo x >> ../side/dir/sub/c.txt");
    let id = machines.session("side/dir");
    let before = state(&machines.at("side"));
    machines.push("a", id, "1.lathe").unwrap();
    let there = machines.pull("b", "1.lathe", &machines.at("b")).unwrap();
    assert_eq!(there.folder, machines.at("b/dir"));
    let none = Push {
        session: None,
        target: Target::File(machines.at("2.lathe")),
        fork: true,
        interrupt: false,
        secrets: Secrets::Refuse,
        snapshot: SnapshotOptions {
            largest_file: 10,
            whole: false,
        },
    };
    let none = lathe_teleport::push(&machines.store("a"), &machines.at("a"), "a", &none);
    assert!(none.unwrap_err().to_string().contains("no session of"));
    assert_eq!(there.branch.as_deref(), Some("side"));
    assert_eq!(state(&machines.at("b")), before);
}

#[test]
fn repositories_without_remotes_arrive_whole_in_an_empty_folder() {
    for (name, script) in [
        (
            "no commits",
            "git init -q -b trunk ../own; cd ../own; echo 1 > staged; git add staged; echo 2 > untracked",
        ),
        (
            "no commits, nothing staged",
            "git init -q -b trunk ../own; cd ../own; echo 2 > untracked",
        ),
        (
            "commits",
            "git init -q -b trunk ../own; cd ../own; echo 1 > a; git add .; git commit -qm 1; echo 2 >> a",
        ),
        (
            "sha256",
            "git init -q -b trunk --object-format=sha256 ../own; cd ../own; echo 1 > a; git add .; git commit -qm 1; rm a; echo 2 > b",
        ),
        (
            "two roots",
            "git init -q -b trunk ../own; cd ../own; echo 1 > a; git add .; git commit -qm 1; git switch -q --orphan o; echo 2 > b; git add .; git commit -qm 2; git merge -q --allow-unrelated-histories -m m trunk; echo x >> b",
        ),
    ] {
        let machines = Machines::new(script);
        let id = machines.session("own");
        let before = state(&machines.at("own"));
        machines
            .push("a", id, "1.lathe")
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let there = machines
            .pull("b", "1.lathe", &machines.at("fresh"))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(there.folder, machines.at("fresh"), "{name}");
        assert_eq!(state(&there.folder), before, "{name}");
    }
}

#[test]
fn a_shallow_clone_arrives_where_its_commits_are() {
    let script = "echo 2 >> b.txt; git commit -qam 2; git push -q origin main; \
        git clone -q --depth 1 file://$PWD/../origin.git ../thin; cd ../thin; echo x >> a.txt; git commit -qam x; echo y >> a.txt";
    let machines = Machines::new(script);
    let id = machines.session("thin");
    let before = state(&machines.at("thin"));
    machines.push("a", id, "1.lathe").unwrap();
    let refused = machines
        .pull("b", "1.lathe", &machines.at("b"))
        .unwrap_err();
    assert!(refused.to_string().contains("git fetch"), "{refused}");
    shell(&machines.at("b"), "git fetch -q");
    let there = machines.pull("b", "1.lathe", &machines.at("b")).unwrap();
    assert_eq!(state(&there.folder), before);
}

#[test]
fn a_target_that_does_not_fit_is_refused_or_gets_a_worktree() {
    // The script prepares the target; then either a part of the reason, or the branch of a new worktree.
    let cases: &[(&str, &str, Result<&str, &str>)] = &[
        ("changed", "echo own >> b.txt", Ok("teleport/")),
        ("untracked", "echo own > own", Ok("teleport/")),
        (
            "diverged",
            "echo own >> b.txt; git commit -qam own",
            Ok("teleport/"),
        ),
        (
            "ignored file in the way",
            "echo '*.tmp' >> .git/info/exclude; echo own > new.tmp",
            Err("differ from those of the source"),
        ),
        (
            "branch elsewhere",
            "git switch -qc other; git worktree add -q ../third main; echo own > own",
            Ok("teleport/"),
        ),
        (
            "other branch, dirty",
            "git switch -qc other; echo own > own",
            Ok("main"),
        ),
        (
            "another repository",
            "rm -rf .git; git init -q; git add -A; git commit -qm other",
            Err("another repository"),
        ),
        (
            "hash format",
            "rm -rf .git; git init -q --object-format=sha256; git add -A; git commit -qm other",
            Err("hash formats"),
        ),
        ("no repository", "rm -rf .git", Err("clone it first")),
    ];
    for (name, script, expected) in cases {
        let machines = Machines::new("echo x >> a.txt; git commit -qam more; echo new > new.tmp");
        let id = machines.session("a");
        shell(&machines.at("b"), script);
        let own = fs::read_dir(machines.at("b")).unwrap().count();
        let before = state(&machines.at("a"));
        machines.push("a", id, "1.lathe").unwrap();
        match (machines.pull("b", "1.lathe", &machines.at("b")), expected) {
            (Ok(there), Ok(branch)) => {
                assert!(there.worktree && there.folder != machines.at("b"), "{name}");
                assert!(there.branch.unwrap().starts_with(branch), "{name}");
                assert_eq!(state(&there.folder), before, "{name}");
            }
            (Err(error), Err(reason)) => {
                assert!(error.to_string().contains(reason), "{name}: {error}");
                assert!(machines.store("b").find_anywhere(id).is_none(), "{name}");
            }
            (got, _) => panic!("{name}: {got:?}"),
        }
        assert_eq!(
            fs::read_dir(machines.at("b")).unwrap().count(),
            own,
            "{name}: the target was changed"
        );
    }
}

#[test]
fn a_moved_session_is_not_pushed_again_and_comes_back_only_as_its_continuation() {
    let machines = Machines::new("");
    let id = machines.session("a");
    machines.push("a", id, "1.lathe").unwrap();
    let again = machines.push("a", id, "2.lathe").unwrap_err().to_string();
    assert!(again.contains("was moved to"), "{again}");
    machines.pull("b", "1.lathe", &machines.at("b")).unwrap();
    let twice = machines
        .pull("b", "1.lathe", &machines.at("b"))
        .unwrap_err();
    assert!(twice.to_string().contains("is here already"), "{twice}");
    // A copy is always possible.
    let pull = Pull {
        source: Target::File(machines.at("1.lathe")),
        folder: machines.at("b"),
        worktree: true,
        fork: true,
    };
    let copy = lathe_teleport::pull(&machines.store("b"), "b", &pull).unwrap();
    assert!(copy.session != id && copy.worktree);
}

#[test]
fn an_arriving_session_knows_its_new_folders_and_brings_no_bypass() {
    let machines = Machines::new("");
    let id = machines.session("a");
    let store = machines.store("a");
    let info = store.find_anywhere(id).unwrap();
    let mode = json!({"type": "mode", "mode": "bypassPermissions", "sessionId": id});
    let snapshot = json!({"type": "file-history-snapshot", "messageId": RecordId::random(), "snapshot": {
        "before": {machines.at("a/a.txt").to_string_lossy(): {"kind": "absent"}}}});
    let text = fs::read_to_string(&info.path).unwrap();
    fs::write(&info.path, format!("{text}{mode}\n{snapshot}\n")).unwrap();
    machines.push("a", id, "1.lathe").unwrap();
    let there = machines.pull("b", "1.lathe", &machines.at("b")).unwrap();
    let arrived = machines.store("b").find_anywhere(id).unwrap();
    assert_eq!(arrived.cwd.as_deref(), Some(there.folder.as_path()));
    assert!(!there.folder.to_string_lossy().ends_with('/'));
    let now = fs::read_to_string(&arrived.path).unwrap();
    assert!(now.starts_with(&text), "what was said is not rewritten");
    let loaded = lathe_session::load(&arrived.path).unwrap();
    assert_eq!(loaded.facts.mode.as_deref(), Some("default"));
    // Undo finds the files where they are now.
    let places = std::cell::RefCell::new(Vec::new());
    lathe_session::checkpoint::restore_first(&arrived.path, |path| {
        places.borrow_mut().push(path.to_owned());
        None
    })
    .unwrap();
    assert_eq!(places.into_inner(), [machines.at("b/a.txt")]);
}

#[test]
fn secrets_are_refused_hidden_or_carried() {
    let key = format!("sk-{}", "a1b2".repeat(8));
    for (secrets, expected) in [
        (Secrets::Refuse, None),
        (Secrets::Redact, Some(false)),
        (Secrets::Carry, Some(true)),
    ] {
        let machines = Machines::new("");
        let id = machines.session("a");
        let info = machines.store("a").find_anywhere(id).unwrap();
        let text = fs::read_to_string(&info.path).unwrap();
        fs::write(&info.path, text.replace("change it", &key)).unwrap();
        let push = Push {
            session: None,
            target: Target::File(machines.at("1.lathe")),
            fork: true,
            interrupt: false,
            secrets,
            snapshot: SnapshotOptions {
                largest_file: 10,
                whole: false,
            },
        };
        let pushed = lathe_teleport::push(&machines.store("a"), &machines.at("a"), "a", &push);
        let Some(carried) = expected else {
            assert!(pushed.unwrap_err().to_string().contains("--redact"));
            continue;
        };
        pushed.unwrap();
        let there = machines.pull("b", "1.lathe", &machines.at("b")).unwrap();
        assert_ne!(there.session, id, "a fork has an id of its own");
        let path = machines
            .store("b")
            .find_anywhere(there.session)
            .unwrap()
            .path;
        assert_eq!(fs::read_to_string(path).unwrap().contains(&key), carried);
    }
}

#[test]
fn a_git_remote_carries_a_session_and_programs_of_the_repository_do_not_run() {
    let machines = Machines::new("echo x >> a.txt");
    let id = machines.session("a");
    let push = |fork| Push {
        session: Some(id.to_string()),
        target: Target::parse("git:origin").unwrap(),
        fork,
        interrupt: false,
        secrets: Secrets::Refuse,
        snapshot: SnapshotOptions {
            largest_file: 10,
            whole: false,
        },
    };
    let (store, folder) = (machines.store("a"), machines.at("a"));
    shell(&folder, "git config core.sshCommand 'touch ran'");
    let refused = lathe_teleport::push(&store, &folder, "a", &push(false)).unwrap_err();
    assert!(refused.to_string().contains("core.sshcommand"), "{refused}");
    shell(&folder, "git config --unset core.sshCommand");
    let before = state(&folder);
    lathe_teleport::push(&store, &folder, "a", &push(false)).unwrap();
    let pull = |source: &str| Pull {
        source: Target::parse(source).unwrap(),
        folder: machines.at("b"),
        worktree: false,
        fork: false,
    };
    let nothing = lathe_teleport::pull(&machines.store("b"), "b", &pull("git:origin#ffff"));
    assert!(
        nothing
            .unwrap_err()
            .to_string()
            .contains("no teleported session")
    );
    let there = lathe_teleport::pull(&machines.store("b"), "b", &pull("git:origin")).unwrap();
    assert_eq!(there.session, id);
    assert_eq!(state(&there.folder), before);
    let refs = shell(
        &machines.at("origin.git"),
        "git for-each-ref --format='%(refname)'",
    );
    assert!(
        refs.contains(&format!("refs/lathe/teleport/{id}")),
        "{refs}"
    );
}
