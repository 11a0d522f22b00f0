//! Made-up commands, run where the decision lets them pass: nothing may change and no secret may be shown.
//!
//! Programs, options, operands and quoting are drawn at random from a seed. Each command that would run without a question
//! in a trusted project is run there for real, with secrets in the project, beside it, in the home folder and in the
//! environment. `LATHE_EFFECTS` sets how many are made, `LATHE_EFFECTS_SEED` the seed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![expect(
    clippy::disallowed_methods,
    reason = "a longer run is asked for by an environment variable"
)]

mod common;

use common::{NetworkTrap, World, decide_on, shell};
use lathe_protocol::permission::Decision;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SECRET: &str = "canary-7f3a91";

const PROGRAMS: &[&str] = &[
    "cat",
    "tac",
    "nl",
    "head",
    "wc",
    "cut",
    "paste",
    "fold",
    "fmt",
    "expand",
    "unexpand",
    "join",
    "comm",
    "column",
    "pr",
    "cmp",
    "od",
    "hexdump",
    "strings",
    "md5sum",
    "cksum",
    "sort",
    "uniq",
    "shuf",
    "iconv",
    "base64",
    "xxd",
    "diff",
    "grep",
    "egrep",
    "find",
    "sed",
    "awk",
    "mawk",
    "gawk",
    "jq",
    "ls",
    "stat",
    "du",
    "file",
    "tar",
    "gzip",
    "zcat",
    "date",
    "id",
    "printenv",
    "env",
    "ps",
    "readlink",
    "realpath",
    "nm",
    "objdump",
    "findmnt",
    "git log",
    "git diff",
    "git show",
    "git grep",
    "git branch",
    "git ls-files",
    "git cat-file",
    "find . -name '*' -exec",
    "find . | xargs",
    "ls | xargs",
    "test",
    "rev",
    "tr",
    "xargs",
    "xargs echo",
    "echo",
    "yq",
];

const WORDS: &[&str] = &[
    "src/main.rs",
    "src",
    ".",
    "*",
    "src/*",
    ".env",
    "./.env",
    ".en?",
    ".en[[:lower:]]",
    ".e*",
    "../other/x",
    "link-out",
    "link-env",
    "folder-out/x",
    "~/.ssh/id_rsa",
    "@.env",
    "x=.env",
    "1=/../.env",
    "HEAD:.env",
    "HEAD",
    "-",
    "--",
    "x",
    "p",
    "1",
    "'{print}'",
    "'{print > \"made\"}'",
    "'s/a/b/w made'",
    "'1e touch made'",
    "1p",
    "{}",
    "+",
    "\\;",
    "-exec",
    "-delete",
    "-fprint",
    "made",
    ".a",
    "env",
    "'$ENV'",
    "'import \"x\" as x; .'",
    "-print0",
    "-0",
    "cat",
    "wc",
    "--no-index",
    "recurse",
    "skip",
    "--include=.env",
    "--exclude=x",
    "--files0-from=.env",
    "--files0-f=.env",
    "--files0=.env",
    "--output=made",
    "-omade",
    "--reference=.env",
    "-i",
    "-i.bak",
    "-i'made/*'",
    "--file=.env",
    "-f.env",
    "--compress-program=touch",
    "-T.",
    "-name",
    "--format=%G?",
    "--sort=signature",
    "-tf",
    "--to-command=touch",
    "-N",
    "-L",
    "-R",
    "-r",
    "-S",
    "-e",
    "e",
    "-u",
    "-eo",
    "127.0.0.1:PORT",
    "http://127.0.0.1:PORT/",
    "/dev/tcp/127.0.0.1/PORT",
    "< /dev/tcp/127.0.0.1/PORT",
    "> /dev/udp/127.0.0.1/PORT",
    "< .env",
];

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn command(&mut self) -> String {
        let mut command = PROGRAMS[self.below(PROGRAMS.len())].to_owned();
        for _ in 0..1 + self.below(4) {
            command.push(' ');
            let letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
            match self.below(5) {
                0 => {
                    command.push('-');
                    for _ in 0..1 + self.below(2) {
                        command.push(letters.chars().nth(self.below(letters.len())).unwrap());
                    }
                }
                _ => command.push_str(&self.quoted()),
            }
        }
        command
    }

    fn quoted(&mut self) -> String {
        let word = WORDS[self.below(WORDS.len())];
        if word.contains(['\'', '"', '\\']) {
            return word.to_owned();
        }
        match self.below(6) {
            0 => format!("'{word}'"),
            1 => format!("\"{word}\""),
            _ => word.to_owned(),
        }
    }
}

fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(at) = waiting.pop() {
        for entry in std::fs::read_dir(&at).unwrap().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                // git writes its index when it looks at files.
                if entry.file_name() != ".git" {
                    waiting.push(path.clone());
                }
                found.insert(path, Vec::new());
            } else {
                let bytes = std::fs::read(&path).unwrap_or_default();
                found.insert(path, bytes);
            }
        }
    }
    found
}

#[test]
fn what_passes_has_no_effect_and_shows_no_secret() {
    let number = |name: &str, default: u64| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let world = World::new();
    let project = world.project();
    std::fs::remove_dir_all(project.join(".git")).unwrap();
    for secret in [
        ".env",
        "kept/secret.txt",
        "../other/x",
        "../home/.ssh/id_rsa",
    ] {
        std::fs::write(project.join(secret), format!("{SECRET}\n")).unwrap();
    }
    std::fs::write(project.join("src/main.rs"), "fn main() {}\n").unwrap();
    for words in [
        &["init", "-q"][..],
        &["add", "src"],
        &[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-qm",
            "x",
        ],
    ] {
        assert!(
            Command::new("git")
                .args(words)
                .current_dir(&project)
                .status()
                .unwrap()
                .success()
        );
    }
    let context = world.context();
    // Other implementations of the same programs.
    let applets = tempfile::tempdir().unwrap();
    let busybox = applets.path();
    let installed = Command::new("busybox")
        .args(["--install", "-s"])
        .arg(busybox)
        .status();
    assert!(
        installed.unwrap().success(),
        "busybox is missing; run scripts/setup-tests"
    );
    let trap = NetworkTrap::new();
    let address = trap.address();
    let port = address.rsplit(':').next().unwrap();
    let before = contents(&world.base);
    let mut random = Random(number("LATHE_EFFECTS_SEED", 20_261_116));
    let mut ran = 0;
    let mut wrong = Vec::new();
    for _ in 0..number("LATHE_EFFECTS", 5_000) {
        let command = random.command().replace("PORT", port);
        let decision = decide_on("Bash", &shell(&command, &project), &context);
        if !matches!(decision, Decision::Allow { .. }) {
            continue;
        }
        ran += 1;
        let first = command.split(' ').next().unwrap_or_default();
        let other = busybox
            .join(first)
            .exists()
            .then(|| format!("{}:/usr/bin:/bin", busybox.display()));
        for path in std::iter::once("/usr/bin:/bin".to_owned()).chain(other) {
            let mut bash = Command::new("timeout");
            bash.args(["2", "bash", "-c", &command])
                .current_dir(&project)
                .env_clear()
                .env("PATH", path)
                .env("HOME", world.home())
                .env("SOME_API_KEY", SECRET)
                .stdin(Stdio::null());
            trap.set_proxy(&mut bash);
            let output = bash.output().unwrap();
            if trap.was_reached() {
                wrong.push(format!("reaches the network: {command}"));
            }
            let shown = String::from_utf8_lossy(&output.stdout).contains(SECRET)
                || String::from_utf8_lossy(&output.stderr).contains(SECRET);
            if shown {
                wrong.push(format!("shows a secret: {command}"));
            }
        }
        if contents(&world.base) != before {
            panic!("changes a file: {command}");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(ran >= 100, "only {ran} commands were run");
}
