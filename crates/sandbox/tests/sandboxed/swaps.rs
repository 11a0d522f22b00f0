//! Attacks of two commands: the first puts something else where the policy of the second has an entry.

use crate::support::{Place, text, users};
use std::process::Output;

/// A policy has these entries besides those of every place.
struct Case {
    name: &'static str,
    /// Made before, as the user.
    before: &'static str,
    /// Options and paths below the place.
    entries: &'static [(&'static str, &'static str)],
    first: &'static str,
    /// Succeeds if the attack does.
    second: &'static str,
}

const fn case(
    name: &'static str,
    before: &'static str,
    entries: &'static [(&'static str, &'static str)],
    first: &'static str,
    second: &'static str,
) -> Case {
    Case {
        name,
        before,
        entries,
        first,
        second,
    }
}

const CASES: &[Case] = &[
    case(
        "a writable folder becomes a link",
        "mkdir -p $WS/a/out",
        &[("--write", "ws/a/out")],
        "mv a b; mkdir a; rm -rf a/out; ln -s $OUT a/out",
        "echo x > a/out/new || echo x > $OUT/new",
    ),
    case(
        "a writable folder that is absent becomes a link",
        "true",
        &[("--write", "ws/absent")],
        "ln -s $OUT absent",
        "echo x > absent/new || echo x > $OUT/new",
    ),
    case(
        "a writable file becomes a link",
        "touch $WS/log",
        &[("--write", "ws/log")],
        "rm log; ln -s $OUT/file log",
        "echo x >> log || echo x >> $OUT/file",
    ),
    case(
        "the folder of a second root becomes a link",
        "mkdir -p $WS/deep/root",
        &[("--write", "ws/deep/root")],
        "mv deep shallow; ln -s $(dirname $OUT) deep; mkdir -p shallow/out",
        "echo x > deep/out/new",
    ),
    case(
        "a shown path becomes a link to secrets",
        "true",
        &[("--show", "ws/shown")],
        "ln -s $HOME/.ssh shown",
        "grep -rq PRIVATE shown/ || grep -q PRIVATE $HOME/.ssh/id_rsa",
    ),
    case(
        "the folder above a secret moves",
        "mkdir -p $WS/a/b && echo PRIVATE > $WS/a/b/.env",
        &[("--hide", "ws/a/b/.env")],
        "mv a c || mv a/b b2",
        "grep -rq PRIVATE .",
    ),
    case(
        "the folder above a secret folder moves",
        "mkdir -p $WS/a/keys && echo PRIVATE > $WS/a/keys/one",
        &[("--hide", "ws/a/keys")],
        "mv a c",
        "grep -rq PRIVATE .",
    ),
    case(
        "a link to a secret is replaced",
        "mkdir $WS/a && echo PRIVATE > $WS/a/real && ln -s a/real $WS/.env.local",
        &[("--hide", "ws/.env.local")],
        "rm .env.local; mv a c",
        "grep -rq PRIVATE .",
    ),
    case(
        "hooks that are a link are replaced",
        "mv $WS/.git/hooks $WS/hooks && ln -s ../hooks $WS/.git/hooks",
        &[],
        "echo x > .git/hooks/pre-commit; echo x > hooks/pre-commit; rm .git/hooks; mv hooks hooks2; mkdir .git/hooks hooks",
        "test -e hooks/pre-commit -o -e .git/hooks/pre-commit -o ! -L .git/hooks",
    ),
    case(
        "configuration that is a link is replaced",
        "mv $WS/.git/config $WS/config && ln -s ../config $WS/.git/config",
        &[],
        "echo '# planted' >> .git/config; echo '# planted' >> config; cp config c2; rm -f .git/config; mv c2 .git/config; mv config c3",
        "test ! -e config -o ! -L .git/config || grep -q planted config",
    ),
    case(
        "a link to a link is replaced",
        "mkdir $WS/real && ln -s real $WS/middle && rm -rf $WS/.claude && ln -s middle $WS/.claude",
        &[],
        "rm middle; mkdir middle; echo x > middle/settings.json; rm .claude; mv real real2",
        "test -e .claude/settings.json -o ! -L middle -o ! -d real",
    ),
    case(
        "a link to nothing gets a target",
        "rm -rf $WS/.claude && ln -s later $WS/.claude",
        &[],
        "mkdir later; echo x > later/settings.json",
        "test -e .claude/settings.json",
    ),
    case(
        "a folder in a protected one is protected deeper",
        "mkdir -p $WS/p/q/r/s",
        &[("--protect", "ws/p"), ("--protect", "ws/p/q/r/s")],
        "touch p/q/new p/q/r/new p/new",
        "test -e p/q/new -o -e p/q/r/new -o -e p/new",
    ),
    case(
        "a folder above a protected one moves",
        "mkdir -p $WS/p/q/r && touch $WS/p/q/r/file",
        &[("--protect", "ws/p/q/r")],
        "mv p p2; mv p/q p/q2; touch p/q/r/new",
        "test ! -e p/q/r/file -o -e p/q/r/new",
    ),
];

fn run(place: &Place, tier: &str, case: &Case, script: &str) -> Output {
    let paths: Vec<(&str, String)> = case
        .entries
        .iter()
        .map(|(option, path)| (*option, place.path(path).display().to_string()))
        .collect();
    let options: Vec<&str> = paths
        .iter()
        .flat_map(|(option, path)| [*option, path.as_str()])
        .collect();
    let mut command = place.sandboxed(tier, &options);
    command.args(["/bin/bash", "-c", script]).output().unwrap()
}

#[test]
fn what_one_command_puts_somewhere_opens_nothing_to_the_next() {
    for user in users() {
        for tier in ["bubblewrap", "namespaces"] {
            let succeeded: Vec<&str> = CASES
                .iter()
                .filter(|case| {
                    let place = Place::new(user);
                    place.outside(case.before);
                    let first = run(&place, tier, case, &format!("{}; echo done", case.first));
                    assert!(
                        text(&first).contains("done"),
                        "{}: {}",
                        case.name,
                        text(&first)
                    );
                    let second = format!("if {}; then echo SUCCEEDED; fi; echo done", case.second);
                    let second = text(&run(&place, tier, case, &second));
                    assert!(second.contains("done"), "{}: {second}", case.name);
                    let outside = std::fs::read_dir(place.path("out")).unwrap().count();
                    second.contains("SUCCEEDED") || outside != 2
                })
                .map(|case| case.name)
                .collect();
            assert!(succeeded.is_empty(), "{user:?} {tier}: {succeeded:?}");
        }
    }
}

/// Without a sandbox each of them succeeds, so they prove something.
#[test]
fn the_swaps_succeed_outside() {
    let user = *users().last().unwrap();
    for case in CASES {
        let place = Place::new(user);
        place.outside(case.before);
        place.outside(&format!("cd $WS; ({}) || true", case.first));
        place.outside(&format!("cd $WS; {}", case.second));
    }
}

/// Links whose ends stay where they are go on working.
#[test]
fn links_in_a_project_work_as_before() {
    let case = case(
        "",
        "mkdir $WS/real && echo one > $WS/real/file && ln -s real $WS/link && rm -rf $WS/.claude && \
         mkdir $WS/settings && echo '{}' > $WS/settings/settings.json && ln -s settings $WS/.claude",
        &[],
        "",
        "",
    );
    for user in users() {
        for tier in ["bubblewrap", "namespaces"] {
            let place = Place::new(user);
            place.outside(case.before);
            let script = "cat .claude/settings.json link/file && echo two >> link/file && rm link && \
                          git status --short && git add .claude real settings && git commit -qm links && echo DONE";
            let output = text(&run(&place, tier, &case, script));
            assert!(output.contains("DONE"), "{user:?} {tier}: {output}");
        }
    }
}

/// bubblewrap can't mount on a link: where it makes the mounts, a protected link is refused rather than left open.
#[test]
fn a_protected_link_is_refused_where_it_cannot_be_held() {
    for user in users() {
        let place = Place::new(user);
        place.outside("mkdir $WS/real && rm -rf $WS/.claude && ln -s real $WS/.claude");
        let mut options = Vec::new();
        for number in 0..260 {
            let path = place.path(&format!("home/secret-{number}"));
            std::fs::write(&path, "x").unwrap();
            options.extend(["--hide".to_owned(), path.display().to_string()]);
        }
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let output = place
            .sandboxed("bubblewrap", &options)
            .arg("/bin/true")
            .output()
            .unwrap();
        assert!(!output.status.success());
        let words = text(&output);
        assert!(
            words.contains(".claude is a link that commands could replace"),
            "{words}"
        );
    }
}

/// Where nothing can be mounted, a rule for a link must not open the secret that it leads to. That what lies in a
/// writable folder can be read there is a limit that docs/sandbox.md names.
#[test]
fn secrets_in_a_project_and_behind_links_are_unreadable() {
    for user in users() {
        for tier in crate::support::TIERS {
            let place = Place::new(user);
            place.outside(
                "echo PRIVATE > $WS/.env && mkdir $WS/sub && echo PRIVATE > $WS/sub/key.pem && echo open > $WS/sub/x && \
                 ln -s .ssh $HOME/keys && ln -s ../.env $WS/sub/link && ln -s $HOME/.netrc $HOME/rc",
            );
            // Some by the names of links.
            let hidden = ["home/keys", "home/rc", "ws/.env", "ws/sub/key.pem"];
            let hidden = hidden.map(|name| place.path(name));
            let options: Vec<&str> = hidden
                .iter()
                .flat_map(|path| ["--hide", path.to_str().unwrap()])
                .collect();
            let script = "for file in .env sub/key.pem sub/link ~/keys/id_rsa ~/rc ~/.netrc; do grep -H PRIVATE $file; done; \
                          cat sub/x; echo new > sub/new; mkdir made && echo > made/file; mv sub/x sub/y; rm sub/y; echo done";
            let output = place
                .sandboxed(tier, &options)
                .args(["/bin/bash", "-c", script])
                .output()
                .unwrap();
            let words = text(&output);
            let found: Vec<&str> = words
                .lines()
                .filter_map(|line| line.strip_suffix(":PRIVATE"))
                .collect();
            let known: &[&str] = match tier {
                "landlock" => &[".env", "sub/key.pem", "sub/link"],
                _ => &[],
            };
            assert_eq!(found, known, "{user:?} {tier}: {words}");
            assert!(
                words.contains("open\n") && words.contains("done"),
                "{user:?} {tier}: {words}"
            );
            let made = ["ws/sub/new", "ws/made/file"].map(|name| place.path(name).exists());
            assert_eq!(made, [true, true], "{user:?} {tier}: {words}");
        }
    }
}

/// A session in the root of the file system, as containers begin: that is never writable as a whole.
#[test]
fn a_session_can_be_in_the_root_of_the_file_system() {
    for user in users() {
        for tier in ["bubblewrap", "namespaces"] {
            let place = Place::new(user);
            let state = place.path("state").into_os_string();
            let hidden = place.path("home/.ssh").into_os_string();
            let script = "touch $OUT/file && echo WRITTEN; mkdir /.lathe-of-nobody && echo WRITTEN; touch /run/x /tmp/x || echo NO; \
                          grep -q PRIVATE $HOME/.ssh/id_rsa && echo LEAK; echo DONE";
            let mut command = place.command(&place.words(tier)[0]);
            command.args(["--tier", tier, "--state"]).arg(state);
            command.args(["--directory", "/", "--write", "/"]);
            command.args(["--protect-folder", "/.lathe-of-nobody", "--hide"]);
            let output = command
                .arg(hidden)
                .args(["--", "/bin/bash", "-c", script])
                .output()
                .unwrap();
            let words = text(&output);
            assert!(words.contains("DONE"), "{user:?} {tier}: {words}");
            for bad in ["WRITTEN", "NO\n", "LEAK"] {
                assert!(!words.contains(bad), "{user:?} {tier}: {words}");
            }
            let stub = std::path::Path::new("/.lathe-of-nobody");
            assert!(!stub.exists(), "{user:?} {tier}: {words}");
        }
    }
}
