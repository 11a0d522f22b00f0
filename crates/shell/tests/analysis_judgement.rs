//! Judgements of a part besides 'read-only': removals, file commands, wrappers, folders, paths, suggestions.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_shell::analysis::{
    Analysis, Argument, ConcernKind, FileAction, Part, PathKind, RedirectionKind, WorkingFolder,
    analyse, split_words, suggested_prefix,
};
use lathe_shell::syntax::ShellKind;

fn bash(command: &str) -> Analysis {
    analyse(command, ShellKind::Bash)
}

fn last(command: &str) -> Part {
    bash(command)
        .parts
        .pop()
        .unwrap_or_else(|| panic!("{command:?} has no parts"))
}

fn has_concern(command: &str, kind: ConcernKind) -> bool {
    let analysis = bash(command);
    analysis
        .concerns
        .iter()
        .chain(analysis.parts.iter().flat_map(|part| &part.concerns))
        .any(|concern| concern.kind == kind)
}

#[test]
fn removals_of_vital_folders_are_found() {
    let dangerous = [
        "rm -rf /",
        "rm -rf /*",
        "rm -rf //",
        "rm -rf /.",
        "rm -rf /..",
        "rm -rf /../..",
        "rm -rf /usr",
        "rm -rf /usr/",
        "rm -rf /usr/*",
        "rm -rf /home",
        "rm -rf /home/someone",
        "rm -rf /Users/someone/",
        "rm -rf /usr/../etc",
        "rm -rf ~",
        "rm -rf ~/",
        "rm -rf ~/*",
        "rm -rf $HOME",
        "rm -rf \"$HOME\"",
        "rm -rf \"${HOME}/\"",
        "rm -rf $HOME/*",
        "rm -rf ~root",
        "rm -rf .",
        "rm -rf ./",
        "rm -rf *",
        "rm -rf ./*",
        "rm -rf .*",
        "rm -rf ..",
        "rm -rf ../..",
        "rm -rf \"$PWD\"",
        "rm -rf \"$PWD\"/*",
        "rm -rf c:/",
        "rm -rf C:\\\\",
        "rm -r -f -- /",
        "rm / -rf",
        "rm -rf \"$x/\"",
        "rm -rf $x/*",
        "rm -rf \"${x}\"/*",
        "rm -rf .git",
        "sudo rm -rf /",
        "sudo -u root rm -rf /usr",
        "env A=1 rm -rf /",
        "xargs rm -rf / < list",
        "timeout 5 rm -rf /",
        "nice nohup rm -rf ~",
        "bash -c 'rm -rf /'",
        "sh -c \"rm -rf ~\"",
        "bash -lc 'ls; rm -rf /'",
        "eval 'rm -rf /'",
        "sudo bash -c 'rm -rf /*'",
        "command rm -rf /",
        "builtin command rm -rf /",
        "exec rm -rf /",
        "/bin/rm -rf /",
        "\\rm -rf /",
        "r'm' -rf /",
        "$'\\x72m' -rf /",
        "busybox rm -rf /",
        "find / -delete",
        "find . -delete",
        "find -delete",
        "find ~ -delete",
        "find / -exec rm -rf {} +",
        "find / -name x -delete",
        "find . -exec rm {} \\;",
        "dd if=/dev/zero of=/dev/sda",
        "mkfs.ext4 /dev/sda1",
        "rmdir /usr",
        "ls; rm -rf /",
        "echo $(rm -rf /)",
        "if true; then rm -rf /; fi",
        "f() { rm -rf /; }",
        "ls | xargs -I{} bash -c 'rm -rf /'",
        "env -S 'rm -rf /'",
        "su -c 'rm -rf /'",
        "shred /*",
        "ssh host 'rm -rf /'",
    ];
    for command in dangerous {
        assert!(
            bash(command)
                .parts
                .iter()
                .any(|part| part.removal.is_some()),
            "{command:?} should be a dangerous removal"
        );
    }
    let ordinary = [
        "rm x",
        "rm -rf target",
        "rm -rf ./target",
        "rm -rf node_modules",
        "rm -rf /tmp/x",
        "rm -rf /home/someone/project/target",
        "rm -rf ~/project/target",
        "rm -rf src/*",
        "rm *.o",
        "rm -f a b c",
        "find . -name '*.o' -delete",
        "rm -rf \"$x/target\"",
        "rm -rf \"$x\"",
        "ls /",
        "echo rm -rf /",
        "grep 'rm -rf /' x",
        "cat <<'EOF'\nrm -rf /\nEOF",
        "rmdir build",
        "find src -name '*.o' -exec rm {} +",
        "dd if=a of=b",
        "rm -rf build/..data",
        "git rm -r src",
    ];
    for command in ordinary {
        assert!(
            bash(command)
                .parts
                .iter()
                .all(|part| part.removal.is_none()),
            "{command:?} is an ordinary command"
        );
    }
}

#[test]
fn file_commands_name_every_path() {
    let paths = |command: &str| {
        last(command).file_command.map(|file| {
            (
                file.action,
                file.paths
                    .into_iter()
                    .map(|path| path.text)
                    .collect::<Vec<_>>(),
            )
        })
    };
    assert_eq!(
        paths("mkdir -p a/b c"),
        Some((FileAction::MakeFolder, vec!["a/b".into(), "c".into()]))
    );
    assert_eq!(
        paths("touch x"),
        Some((FileAction::Touch, vec!["x".into()]))
    );
    assert_eq!(
        paths("mv a b"),
        Some((FileAction::Move, vec!["a".into(), "b".into()]))
    );
    assert_eq!(
        paths("cp -r a b"),
        Some((FileAction::Copy, vec!["a".into(), "b".into()]))
    );
    assert_eq!(
        paths("cp -t dir a b"),
        Some((FileAction::Copy, vec!["a".into(), "b".into(), "dir".into()]))
    );
    assert_eq!(
        paths("rm -rf a 'b c'"),
        Some((FileAction::Remove, vec!["a".into(), "b c".into()]))
    );
    assert_eq!(
        paths("rm -- -x"),
        Some((FileAction::Remove, vec!["-x".into()]))
    );
    assert_eq!(
        paths("ln -s a b"),
        Some((FileAction::Link, vec!["a".into(), "b".into()]))
    );
    assert_eq!(
        paths("rmdir a"),
        Some((FileAction::RemoveFolder, vec!["a".into()]))
    );
    assert_eq!(
        paths("timeout 5 mkdir a"),
        Some((FileAction::MakeFolder, vec!["a".into()]))
    );
    assert_eq!(
        paths("sed -i 's/a/b/' x y"),
        Some((FileAction::EditInPlace, vec!["x".into(), "y".into()]))
    );
    assert_eq!(
        paths("sed -i.bak -e 's/a/b/g' x"),
        Some((FileAction::EditInPlace, vec!["x".into(), "x.bak".into()]))
    );
    assert_eq!(
        paths("sed --in-place s/a/b/ x"),
        Some((FileAction::EditInPlace, vec!["x".into()]))
    );
    // What does more than its paths say is no simple file command.
    for command in [
        "sed -i 's/a/b/e' x",
        "sed -i 'w y' x",
        "sed -n 1p x",
        "sed -i -f script x",
        "sudo rm a",
        "cp --unknown a b",
        "mkdir",
        "env rm a",
        "rm $x",
        "mv *",
    ] {
        assert_eq!(paths(command), None, "{command}");
    }
}

#[test]
fn a_variable_path_of_a_file_command_is_unbounded() {
    let file = last("rm \"$x\"/y 2>/dev/null").file_command;
    assert!(file.is_none(), "a word that could be an option: {file:?}");
    let file = last("rm \"a$x\"").file_command.expect("a file command");
    assert_eq!(file.paths[0].kind, PathKind::Unbounded);
}

#[test]
fn allow_rules_see_through_harmless_wrappers_only() {
    let effective = |command: &str| {
        last(command)
            .effective_argv
            .iter()
            .map(|word| word.text().to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(effective("timeout 60 npm test"), "npm test");
    assert_eq!(effective("timeout -s KILL -k 5 1.5m npm test"), "npm test");
    assert_eq!(
        effective("nice -n 5 nohup timeout --foreground 5 npm test"),
        "npm test"
    );
    assert_eq!(effective("time npm test"), "npm test");
    assert_eq!(effective("stdbuf -oL npm test"), "npm test");
    assert_eq!(effective("LC_ALL=C NO_COLOR=1 npm test"), "npm test");
    assert_eq!(effective("env npm test"), "env npm test");
    assert_eq!(effective("sudo npm test"), "sudo npm test");
    assert_eq!(effective("xargs npm test"), "xargs npm test");
    assert_eq!(effective("time -p -- npm test"), "npm test");
    assert_eq!(effective("time -o x npm test"), "-o x npm test");
    assert_eq!(
        effective("/usr/bin/time -o x npm test"),
        "/usr/bin/time -o x npm test"
    );
    assert_eq!(effective("timeout $x npm test"), "timeout $x npm test");
    assert_eq!(effective("timeout 5 $x"), "timeout 5 $x");
    assert!(last("LC_ALL=C npm test").can_be_allowed);
    assert!(!last("PATH=/tmp npm test").can_be_allowed);
    assert!(!last("FOO=1 npm test").can_be_allowed);
    assert!(!last("LC_ALL=$(x) npm test").can_be_allowed);
}

#[test]
fn deny_rules_see_through_every_wrapper() {
    let commands = [
        "rm x",
        "/bin/rm x",
        "sudo rm x",
        "sudo -u root -n rm x",
        "env A=1 -u B rm x",
        "env -i rm x",
        "xargs rm",
        "xargs -n 1 -I {} rm {}",
        "command rm x",
        "command -p rm x",
        "builtin rm x",
        "exec rm x",
        "exec -a y rm x",
        "bash -c 'rm x'",
        "bash -ec 'ls; rm x'",
        "sh -c 'cd y && rm x'",
        "sudo sh -c 'rm x'",
        "eval 'rm x'",
        "eval rm x",
        "nohup rm x",
        "setsid rm x",
        "nice -n 3 rm x",
        "ionice -c 3 rm x",
        "timeout 5 rm x",
        "stdbuf -o L rm x",
        "time rm x",
        "/usr/bin/time -f x rm x",
        "strace -f rm x",
        "find . -exec rm {} +",
        "find . -execdir rm {} \\;",
        "fd x -x rm",
        "parallel rm ::: x",
        "flock file rm x",
        "flock file -c 'rm x'",
        "su -c 'rm x'",
        "su root -c 'rm x'",
        "busybox rm x",
        "chroot /x rm x",
        "ssh host rm x",
        "ssh host 'rm x'",
        "watch 'rm x'",
        "script -c 'rm x'",
        "trap 'rm x' EXIT",
        "npx -c 'rm x'",
        "doas rm x",
        "systemd-run -p a=b rm x",
        "taskset 1 rm x",
        "chrt 1 rm x",
        "unshare -r rm x",
        "env -S 'rm x'",
        "sudo -- rm x",
        "sudo -g wheel env A=b nice rm x",
        "bash -c \"bash -c 'rm x'\"",
        "zsh -c 'rm x'",
        "dash -c 'rm x'",
        "nsenter -t 1 rm x",
        "xargs -0 sh -c 'rm x'",
        "sudo --unknown value rm x",
    ];
    for command in commands {
        let found = bash(command).parts.iter().any(|part| {
            part.all_effective
                .iter()
                .any(|argv| argv.first().and_then(Argument::fixed) == Some("rm"))
        });
        assert!(found, "{command:?} should be seen to run rm");
    }
}

#[test]
fn deny_rules_see_sub_commands_behind_global_options() {
    let cases = [
        ("git -C x push", "git push"),
        ("git -c a=b --no-pager push origin", "git push"),
        ("git --unknown value push", "git push"),
        ("sudo git --git-dir=x push", "git push"),
        ("docker --context x run y", "docker run"),
        ("kubectl -n prod delete pod x", "kubectl delete"),
        ("cargo +nightly publish", "cargo publish"),
        ("npm --prefix x publish", "npm publish"),
        ("GIT push", "git push"),
        ("git.exe push", "git push"),
        ("/usr/bin/git push", "git push"),
    ];
    for (command, prefix) in cases {
        let found = last(command).all_effective.iter().any(|argv| {
            let words: Vec<&str> = argv.iter().map(Argument::text).collect();
            words.join(" ").starts_with(prefix)
        });
        assert!(found, "{command:?} should be seen as {prefix:?}");
    }
}

#[test]
fn redirections_say_what_they_do_to_which_file() {
    let part = last("cmd <in >out 2>>log 3<>both 2>&1 4>/dev/null <<< text");
    let kinds: Vec<(RedirectionKind, &str, bool)> = part
        .redirections
        .iter()
        .map(|redirection| {
            (
                redirection.kind,
                redirection.target.text(),
                redirection.free,
            )
        })
        .collect();
    assert_eq!(
        kinds,
        [
            (RedirectionKind::Read, "in", false),
            (RedirectionKind::Write, "out", false),
            (RedirectionKind::Append, "log", false),
            (RedirectionKind::ReadWrite, "both", false),
            (RedirectionKind::Duplicate, "1", true),
            (RedirectionKind::Write, "/dev/null", true),
            (RedirectionKind::HereDocument, "text", true),
        ]
    );
    assert_eq!(
        last("ls >&file").redirections[0].kind,
        RedirectionKind::Write
    );
    assert_eq!(
        last("ls &>file").redirections[0].kind,
        RedirectionKind::Write
    );
    assert_eq!(
        last("ls >&2").redirections[0].kind,
        RedirectionKind::Duplicate
    );
}

#[test]
fn paths_that_are_read_are_named() {
    let paths = |command: &str| -> Vec<(PathKind, String)> {
        bash(command)
            .parts
            .into_iter()
            .flat_map(|part| part.read_paths)
            .map(|path| (path.kind, path.text))
            .collect()
    };
    let literal = |text: &str| (PathKind::Literal, text.to_owned());
    assert_eq!(
        paths("cat a ../b /etc/passwd"),
        [literal("a"), literal("../b"), literal("/etc/passwd")]
    );
    assert_eq!(paths("head -n 5 a"), [literal("a")]);
    assert_eq!(
        paths("grep -rn 'x y' src ../other"),
        [literal("src"), literal("../other")]
    );
    assert_eq!(
        paths("grep -f patterns a"),
        [literal("a"), literal("patterns")]
    );
    assert_eq!(
        paths("cat ~/.ssh/id_rsa"),
        [(PathKind::Home, ".ssh/id_rsa".to_owned())]
    );
    assert_eq!(
        paths("cat \"$HOME/.ssh/id_rsa\""),
        [(PathKind::Home, ".ssh/id_rsa".to_owned())]
    );
    assert_eq!(paths("cat $x"), [(PathKind::Unbounded, "$x".to_owned())]);
    assert_eq!(paths("cat '~/x'"), [literal("~/x")]);
    assert_eq!(
        paths("wc -l src/*.rs"),
        [(PathKind::Pattern, "src/*.rs".to_owned())]
    );
    assert_eq!(paths("cat */../../x")[0].0, PathKind::Unbounded);
    assert_eq!(paths("cat < a"), [literal("a")]);
    assert_eq!(paths("sed -n 1p a b"), [literal("a"), literal("b")]);
    assert_eq!(paths("awk '{print}' a v=1"), [literal("a")]);
    assert_eq!(paths("jq -r .x a.json"), [literal("a.json")]);
    assert_eq!(paths("find /etc -name x"), [literal("/etc")]);
    assert_eq!(paths("diff <(ls a) b"), [literal("a"), literal("b")]);
    assert_eq!(
        paths("for f in a b; do cat \"$f\"; done"),
        [literal("a"), literal("b")]
    );
    assert_eq!(
        paths("for f in a b; do f=/etc/shadow; cat \"$f\"; done")[0].0,
        PathKind::Unbounded
    );
    assert_eq!(
        paths("cat list | xargs cat"),
        [
            literal("list"),
            (PathKind::Unbounded, "words from input".to_owned())
        ]
    );
    assert_eq!(
        paths("find src -name x | xargs cat"),
        [literal("src"), literal("src")]
    );
    assert_eq!(paths("tar tf /x/a.tar"), [literal("/x/a.tar")]);
    assert_eq!(paths("cd /etc"), [literal("/etc")]);
}

#[test]
fn the_folder_follows_cd() {
    let folder = |command: &str| last(command).folder;
    assert_eq!(folder("ls"), WorkingFolder::Start);
    let WorkingFolder::After(steps) = folder("cd a && cd ../b && ls") else {
        panic!("two steps")
    };
    assert_eq!(
        steps
            .iter()
            .map(|step| step.text.as_str())
            .collect::<Vec<_>>(),
        ["a", "../b"]
    );
    assert_eq!(folder("(cd a); ls"), WorkingFolder::Start);
    assert_eq!(folder("cd a & ls"), WorkingFolder::Start);
    assert_eq!(folder("echo $(cd a); ls"), WorkingFolder::Start);
    assert_eq!(folder("cd a | cat; ls"), WorkingFolder::Start);
    assert_eq!(folder("cd $x; ls"), WorkingFolder::Unknown);
    assert_eq!(folder("cd -; ls"), WorkingFolder::Unknown);
    assert_eq!(folder("cd a || ls"), WorkingFolder::Unknown);
    assert_eq!(folder("if x; then cd a; fi; ls"), WorkingFolder::Unknown);
    assert_eq!(
        folder("for i in a; do cd b; ls; done"),
        WorkingFolder::Unknown
    );
    assert_eq!(folder("eval x; ls"), WorkingFolder::Unknown);
}

#[test]
fn git_after_a_change_of_folder_is_marked_as_such() {
    let part = last("cd project && git status");
    assert!(!part.read_only.is_yes());
    assert!(part.read_only_in_trusted_folder);
    assert!(
        part.concerns
            .iter()
            .any(|concern| concern.kind == ConcernKind::ForeignFolder)
    );
    assert!(!last("cd project && git push").read_only_in_trusted_folder);
    let part = last("git status");
    assert!(part.read_only.is_yes());
    assert!(
        part.concerns
            .iter()
            .all(|concern| concern.kind == ConcernKind::NeedsTrustedFolder)
    );
    assert!(!part.concerns.is_empty());
}

#[test]
fn suspicious_things_are_named_for_what_they_are() {
    let cases = [
        ("$x", ConcernKind::VariableCommand),
        ("/bin/r? x", ConcernKind::VariableCommand),
        ("eval x", ConcernKind::RunsText),
        ("source x", ConcernKind::RunsText),
        (". x", ConcernKind::RunsText),
        ("trap 'x' EXIT", ConcernKind::RunsText),
        ("alias a=b", ConcernKind::RunsText),
        ("exec x", ConcernKind::RunsText),
        ("PATH=/x ls", ConcernKind::DangerousAssignment),
        ("IFS=x; ls", ConcernKind::DangerousAssignment),
        ("LD_PRELOAD=x ls", ConcernKind::DangerousAssignment),
        ("export PATH=/x", ConcernKind::DangerousAssignment),
        ("ls $'\\x2dla'", ConcernKind::HiddenWord),
        ("ls {-la,/etc}", ConcernKind::HiddenWord),
        ("$'ls'", ConcernKind::HiddenWord),
        ("echo $((x))", ConcernKind::Evaluation),
        ("[[ -v 'a[$(x)]' ]]", ConcernKind::Evaluation),
        ("printf -v 'a[$(x)]' y", ConcernKind::Evaluation),
        ("echo ${x@P}", ConcernKind::RunsValue),
        ("echo ${!x}", ConcernKind::SecondExpansion),
        ("cat /proc/self/environ", ConcernKind::ProcessSecrets),
        ("cat < /dev/tcp/a/1", ConcernKind::NetworkDevice),
        ("history", ConcernKind::History),
        ("fc -l", ConcernKind::History),
        ("f() { ls; }; f", ConcernKind::FunctionUse),
        ("ls\u{a0}x", ConcernKind::OddCharacter),
        ("ls\r", ConcernKind::OddCharacter),
    ];
    for (command, kind) in cases {
        assert!(
            has_concern(command, kind),
            "{command:?} should be a {kind:?}"
        );
    }
    assert!(
        analyse("ls =cmd", ShellKind::Zsh).parts[0]
            .concerns
            .iter()
            .any(|concern| concern.kind == ConcernKind::ZshFeature)
    );
}

#[test]
fn a_part_can_be_marked_in_the_command() {
    let command = "ls && echo $(rm x) | sort > y";
    let analysis = bash(command);
    let marked: Vec<&str> = analysis
        .parts
        .iter()
        .map(|part| &command[part.span.start..part.span.end])
        .collect();
    assert_eq!(marked, ["ls", "rm x", "echo $(rm x)", "sort > y"]);
}

#[test]
fn commands_before_a_problem_are_still_seen() {
    let analysis = bash("rm x\necho \"unclosed");
    assert!(analysis.understood.is_err());
    assert_eq!(analysis.parts[0].text, "rm x");
}

#[test]
fn suggestions_are_neither_broad_nor_narrow() {
    let prefix = |command: &str| {
        suggested_prefix(&last(command).effective_argv).map(|words| words.join(" "))
    };
    let cases = [
        ("npm run test --watch", "npm run test"),
        ("npm install lodash", "npm install"),
        ("git commit -m x", "git commit"),
        ("git remote add a b", "git remote add"),
        ("cargo test --workspace", "cargo test"),
        ("timeout 60 cargo build", "cargo build"),
        ("docker compose up -d", "docker compose up"),
        ("gh pr create --fill", "gh pr create"),
        ("make test", "make test"),
        ("python -m pytest tests -x", "python -m pytest"),
        ("pytest -x", "pytest"),
        ("go test ./...", "go test"),
        ("kubectl apply -f x", "kubectl apply"),
        ("mkdir -p a", "mkdir"),
        ("sometool build --x", "sometool build"),
    ];
    for (command, expected) in cases {
        assert_eq!(prefix(command).as_deref(), Some(expected), "{command}");
    }
    for command in [
        "python x.py",
        "python3 -c 1",
        "node x.js",
        "bash x.sh",
        "sh -c ls",
        "sudo ls",
        "env ls",
        "xargs ls",
        "./script.sh",
        "/usr/local/bin/x",
        "git",
        "git -C x status",
        "git config a b",
        "git rebase -x y",
        "eval ls",
        "$x y",
        "ssh host ls",
        "rm -rf x",
        "find . -delete",
        "docker run x",
        "docker exec x y",
        "kubectl exec x",
        "npx -y x",
        "npm exec x",
        "curl x",
        "make",
        "make -C x",
        "perl -e 1",
        "awk 1",
        "sed -i s/a/b/ x",
        "~/bin/x",
        "uv run x",
        "go run x",
        "poetry run x",
        "sometool --x",
        "sometool ./x",
        "sometool x.py",
        "python -m http.server",
        "watch ls",
        "nohup",
        "npm run",
        "cd x",
        "export A=b",
        "bundle exec rake",
    ] {
        assert_eq!(prefix(command), None, "{command}");
    }
}

#[test]
fn rule_texts_split_like_commands() {
    assert_eq!(
        split_words("npm run 'a b'"),
        Some(vec!["npm".into(), "run".into(), "a b".into()])
    );
    assert_eq!(split_words("a; b"), None);
    assert_eq!(split_words("a > b"), None);
    assert_eq!(split_words("a $x"), None);
    assert_eq!(split_words("A=1 b"), None);
}

#[test]
fn shells_differ_where_they_differ() {
    assert!(analyse("ls <(ls)", ShellKind::Bash).read_only);
    assert!(!analyse("ls <(ls)", ShellKind::Posix).read_only);
    assert!(analyse("echo =ls", ShellKind::Bash).read_only);
    assert!(!analyse("echo =ls", ShellKind::Zsh).read_only);
    assert!(analyse("[ \"$x\" -eq 1 ]", ShellKind::Bash).read_only);
    assert!(!analyse("[ \"$x\" -eq 1 ]", ShellKind::Zsh).read_only);
    for shell in [ShellKind::Bash, ShellKind::Posix, ShellKind::Zsh] {
        assert!(analyse("ls -la | grep x && echo \"$HOME\"", shell).read_only);
        assert!(!analyse("rm x", shell).read_only);
    }
}
