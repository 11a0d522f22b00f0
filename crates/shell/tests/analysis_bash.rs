//! Real bash as the judge: it runs what the analyser says would run, and what the analyser calls
//! read-only changes nothing.

#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

mod analysis_support;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use analysis_support::{corpus, rows, unescape};
use lathe_shell::analysis::{Analysis, Argument, Concern, PartKind, analyse};
use lathe_shell::syntax::ShellKind;

/// Runs bash with a time limit and gives whether it ended by itself.
fn bash(script: &str, folder: &Path, path: &str) -> bool {
    let program = |name: &str| which::which(name).expect("timeout and bash are installed");
    let status = Command::new(program("timeout"))
        .args(["-s", "KILL", "5"])
        .arg(program("bash"))
        .args(["--noprofile", "--norc", "-c", script])
        .current_dir(folder)
        .env_clear()
        .env("PATH", path)
        .env("HOME", folder)
        .env("USER", "someone")
        .env("LC_ALL", "C.UTF-8")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("XDG_CACHE_HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("bash and timeout are installed");
    status.code().is_some()
}

/// Names that stand for programs in the comparison. None is installed where it looks; bash calls its own
/// handler for a command that isn't found, which writes down the words.
const STUBS: &[&str] = &[
    "rm", "ls", "cat", "grep", "sort", "head", "tail", "wc", "git", "sed", "awk", "find", "xargs",
    "tee", "cut", "tr", "uniq", "diff", "env", "date", "whoami", "cmd", "make", "bash", "sh",
    "python3", "curl", "gzip", "id", "sleep", "rg", "jq", "a", "b", "touch", "cp", "mv", "timeout",
    "nice", "nohup", "x", "echo", "true", "false", "pwd",
];

/// The commands that bash ran, sorted: pipelines run side by side.
fn commands_that_ran(command: &str) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("log");
    // Words are separated by the unit separator, commands by the record separator; a record is written
    // at once. Builtins of the same names are switched off.
    let script = format!(
        "command_not_found_handle() {{ local line=$1; shift; local word; for word in \"$@\"; do \
         line+=$'\\037'$word; done; builtin printf '%s\\036' \"$line\" >> '{}'; }}\n\
         enable -n echo true false pwd\n{command}\nwait",
        log.display()
    );
    bash(&script, folder.path(), "/nonexistent");
    let log = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&log).into_owned();
    let mut ran: Vec<Vec<String>> = text
        .split('\u{1e}')
        .filter(|record| !record.is_empty())
        .map(|record| record.split('\u{1f}').map(str::to_owned).collect())
        .collect();
    ran.sort();
    ran
}

/// The commands that the analyser sees, if all of them are stubs with fixed words and nothing is written
/// outside the working folder.
fn commands_expected(analysis: &Analysis) -> Option<Vec<Vec<String>>> {
    analysis.understood.as_ref().ok()?;
    let mut expected = Vec::new();
    for part in &analysis.parts {
        let outside = part.redirections.iter().any(|redirection| {
            !redirection.free
                && redirection
                    .target
                    .fixed()
                    .is_some_and(|text| text.starts_with('/'))
        });
        let runs_more = part.concerns.iter().any(Concern::asks_despite_rules);
        if outside || runs_more || !part.assignments.is_empty() {
            return None;
        }
        if part.kind != PartKind::Command {
            continue;
        }
        let words: Option<Vec<String>> = part
            .argv
            .iter()
            .map(|word| word.fixed().map(str::to_owned))
            .collect();
        let words = words?;
        if !STUBS.contains(&words.first()?.as_str()) {
            return None;
        }
        expected.push(words);
    }
    expected.sort();
    Some(expected)
}

/// Whether everything in it runs exactly once, whatever the commands return and the files are.
fn is_straight_line(command: &str, analysis: &Analysis) -> bool {
    let conditional = [
        "&&", "||", "if ", "while ", "until ", "for ", "case ", "select ", "()", "function",
    ];
    let opens_files = analysis.parts.iter().any(|part| {
        part.redirections
            .iter()
            .any(|redirection| !redirection.free)
    });
    !opens_files
        && !command.contains(">(")
        && !command.contains("<(")
        && !conditional.iter().any(|word| command.contains(word))
}

#[test]
fn bash_runs_the_commands_that_the_analyser_sees() {
    let mut inputs: Vec<String> = rows("parser.tsv")
        .iter()
        .map(|row| unescape(&row[1]))
        .collect();
    let corpora = ["bypasses.tsv", "ordinary.tsv", "quoting.tsv"];
    let lines = corpora
        .into_iter()
        .flat_map(corpus)
        .filter(|line| line.shell == ShellKind::Bash);
    inputs.extend(lines.map(|line| line.command));
    inputs.retain(|input| !input.contains('\0'));
    let (mut compared, mut exactly) = (0, 0);
    let mut differences = Vec::new();
    for input in inputs {
        let analysis = analyse(&input, ShellKind::Bash);
        let Some(expected) = commands_expected(&analysis) else {
            continue;
        };
        let ran = commands_that_ran(&input);
        compared += 1;
        let agrees = if is_straight_line(&input, &analysis) {
            exactly += 1;
            ran == expected
        } else {
            ran.iter().all(|words| expected.contains(words))
        };
        if !agrees {
            differences.push(format!(
                "{input:?}\n  bash ran    {ran:?}\n  we expected {expected:?}"
            ));
        }
    }
    assert!(
        compared >= 400 && exactly >= 300,
        "only {compared} compared, {exactly} exactly"
    );
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// A folder with the files that the corpus talks about, and a repository.
fn throw_away_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = "
        mkdir -p src docs evil target tests
        printf 'foo bar\\nabc\\n# c\\n\\nfn main\\n' > a.txt
        printf 'foo\\nxyz\\n' > b.txt
        cp a.txt README.md; cp a.txt log.txt; cp b.txt a; cp a.txt b; cp a.txt x; cp b.txt y; cp b.txt c
        printf 'a,1,200\\nb,2,3\\n' > data.csv
        printf 'fn main() {}\\n' > src/main.rs; printf 'pub fn x() {}\\n' > src/lib.rs
        printf '{\"name\":\"n\",\"version\":\"1.0.0\",\"scripts\":{\"test\":\"touch ran\"},\"dependencies\":{\"d\":\"1\"}}\\n' > package.json
        printf '[package]\\nname = \"n\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n' > Cargo.toml
        printf 'binary\\0data' > a.bin
        gzip -k a.txt 2>/dev/null; cp a.txt.gz a.gz; tar cf a.tar a.txt b.txt; tar czf a.tar.gz a.txt
        git init -q -b main . && git add . && git -c user.name=n -c user.email=e@e commit -q -m one
        printf 'more\\n' >> a.txt
    ";
    let path = std::env::var("PATH").expect("a PATH");
    assert!(
        bash(script, folder.path(), &path),
        "the folder could not be prepared"
    );
    folder
}

/// Every file with its content or link target and mode.
fn contents(folder: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(current) = folders.pop() {
        for entry in std::fs::read_dir(&current).expect("a readable folder") {
            let path = entry.expect("an entry").path();
            let metadata = std::fs::symlink_metadata(&path).expect("metadata");
            let content = if metadata.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else if metadata.is_symlink() {
                std::fs::read_link(&path)
                    .expect("a link")
                    .display()
                    .to_string()
                    .into_bytes()
            } else if metadata.is_file() {
                std::fs::read(&path).expect("a file")
            } else {
                b"special".to_vec()
            };
            found.insert(
                path.display().to_string(),
                (metadata.permissions().mode(), content),
            );
        }
    }
    found
}

#[test]
fn what_is_called_read_only_changes_nothing() {
    let folder = throw_away_folder();
    let path = std::env::var("PATH").expect("a PATH");
    let before = contents(folder.path());
    // Services and package managers keep caches of their own in the home folder, which isn't the
    // user's work; and following a file never ends.
    let skipped = [
        "gh ",
        "docker",
        "kubectl",
        "npm",
        "yarn",
        "pnpm",
        "cargo",
        "rust",
        "pip",
        "go ",
        "node",
        "java",
        "tail -f",
        "sleep",
        "journalctl",
        "systemctl",
        "python",
        "podman",
        "man ",
    ];
    let mut ran = 0;
    let lines = corpus("ordinary.tsv")
        .into_iter()
        .chain(corpus("bypasses.tsv"))
        .chain(corpus("quoting.tsv"));
    for line in lines {
        if line.shell != ShellKind::Bash || skipped.iter().any(|word| line.command.contains(word)) {
            continue;
        }
        if !analyse(&line.command, ShellKind::Bash).read_only {
            continue;
        }
        ran += 1;
        bash(&line.command, folder.path(), &path);
        let after = contents(folder.path());
        if before != after {
            let changed: Vec<&String> = after
                .iter()
                .filter(|(name, content)| before.get(*name) != Some(content))
                .map(|(name, _)| name)
                .chain(before.keys().filter(|name| !after.contains_key(*name)))
                .collect();
            panic!("{:?} changed {changed:?}", line.command);
        }
    }
    assert!(ran >= 250, "only {ran} commands were run");
}

#[test]
fn fixed_words_are_what_bash_makes_of_them() {
    // Each word is printed by bash itself, NUL-terminated, and compared with our decoding.
    for row in rows("words.tsv") {
        let source = unescape(&row[0]);
        let command = format!("cat {source}");
        let analysis = analyse(&command, ShellKind::Bash);
        assert!(
            analysis.understood.is_ok(),
            "{source:?}: {:?}",
            analysis.understood
        );
        let part = analysis.parts.last().expect("a part");
        let ours: Option<Vec<&str>> = part.argv.iter().skip(1).map(Argument::fixed).collect();
        let Some(ours) = ours else {
            panic!("{source:?} should be fixed: {:?}", part.argv)
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let script = format!("printf '%s\\0' {source} > out");
        let path = std::env::var("PATH").expect("a PATH");
        bash(&script, folder.path(), &path);
        let out = std::fs::read(folder.path().join("out")).expect("bash printed the words");
        let theirs: Vec<String> = String::from_utf8_lossy(&out)
            .split_terminator('\0')
            .map(str::to_owned)
            .collect();
        assert_eq!(ours, theirs, "{source:?}");
    }
}
