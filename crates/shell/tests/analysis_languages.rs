//! awk, sed and jq programs that count as reading, run by the real implementations: none of them may make a file, run a
//! program or show a secret. `LATHE_EFFECTS` sets how many are made, `LATHE_EFFECTS_SEED` the seed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![expect(
    clippy::disallowed_methods,
    reason = "a longer run is asked for by an environment variable"
)]

use lathe_shell::analysis::analyse;
use lathe_shell::syntax::ShellKind;
use std::path::Path;
use std::process::{Command, Stdio};

const SECRET: &str = "canary-90ab2f";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn program(&mut self, pieces: &[&str], most: usize) -> String {
        let mut program = String::new();
        for _ in 0..=self.below(most) {
            program.push_str(pieces[self.below(pieces.len())]);
            match self.below(6) {
                0 => {}
                1 => program.push('\n'),
                2 => program.push_str("\\\n"),
                _ => program.push(' '),
            }
        }
        program
    }
}

/// Makes programs, and runs those that count as reading with every implementation.
fn run_what_reads(language: &str, pieces: &[&str], flags: &[&str], implementations: &[&[&str]]) {
    for words in implementations {
        let found = Command::new("which").arg(words[0]).output().unwrap();
        assert!(
            found.status.success(),
            "{} is missing; run scripts/setup-tests",
            words[0]
        );
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("data.txt"), "one 1\ntwo 2\n").unwrap();
    std::fs::write(folder.path().join("data.json"), "{\"a\": [1, 2]}\n").unwrap();
    std::fs::write(folder.path().join(".env"), SECRET).unwrap();
    let data = if matches!(language, "jq" | "yq") {
        "data.json"
    } else {
        "data.txt"
    };
    let mut random = Random(number("LATHE_EFFECTS_SEED", 20_261_116));
    let mut ran = 0;
    // yq starts Python and jq each time.
    let share = if language == "yq" { 3 } else { 1 };
    for _ in 0..number("LATHE_EFFECTS", 5_000) / share {
        let program = random.program(pieces, 7);
        if program.contains('\'') {
            continue;
        }
        let flag = flags[random.below(flags.len())];
        let command = format!("{language} {flag} '{program}' {data}");
        if !analyse(&command, ShellKind::Bash).read_only {
            continue;
        }
        ran += 1;
        for words in implementations {
            check(&command, words, flag, &program, data, folder.path());
        }
    }
    assert!(ran >= 50, "only {ran} programs count as reading");
}

fn check(command: &str, words: &[&str], flag: &str, program: &str, data: &str, folder: &Path) {
    let output = Command::new("timeout")
        .arg("2")
        .args(words)
        .args(flag.split_whitespace())
        .args([program, data])
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("SOME_API_KEY", SECRET)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        !shown.contains(SECRET),
        "{words:?} shows a secret: {command}"
    );
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [".env", "data.json", "data.txt"],
        "{words:?} makes a file: {command}"
    );
    let kept = std::fs::read_to_string(folder.join("data.txt")).unwrap();
    assert_eq!(
        kept, "one 1\ntwo 2\n",
        "{words:?} changes a file: {command}"
    );
}

#[test]
fn awk_programs_that_read_only_read_in_every_awk() {
    let pieces = [
        "{",
        "}",
        "print",
        "printf",
        "$1",
        "$0",
        "NR",
        "\"x\"",
        "\"made\"",
        "\"touch made\"",
        ">",
        ">>",
        "|",
        "||",
        "&&",
        "/",
        "/a/",
        "/\"/",
        "(",
        ")",
        ";",
        ",",
        "=",
        "==",
        "x",
        "y",
        "1",
        "length",
        "getline",
        "<",
        "\".env\"",
        "system",
        "close",
        "BEGIN",
        "END",
        "if",
        "else",
        "while",
        "for",
        "in",
        "function",
        "f",
        "return",
        "case",
        "switch",
        "next",
        "exit",
        "delete",
        "ENVIRON",
        "ARGV",
        "ARGC",
        "SYMTAB",
        "FILENAME",
        "FS",
        "#",
        "+",
        "-",
        "++",
        "!",
        "~",
        "[",
        "]",
        "?",
        ":",
        "sub",
        "gsub",
        "split",
        "substr",
        "index",
        "\"/dev/stdout\"",
        "@load",
        "@include",
        "toupper",
        "sprintf",
        "regex",
        "print $1",
        "NR==1",
        "{print}",
        "{ print $2 }",
        "$2 > 1",
        "(x) > \"made\"",
        "fflush",
        "printf(\"%s\", $1)",
    ];
    run_what_reads(
        "awk",
        &pieces,
        &["", "-F:", "-v x=1"],
        &[&["mawk"], &["gawk"], &["busybox", "awk"], &["original-awk"]],
    );
}

#[test]
fn sed_scripts_that_read_only_read_in_every_sed() {
    let pieces = [
        "p",
        "d",
        "q",
        "s/a/b/",
        "s/a/b/g",
        "s/o/x/w made",
        "s/.*/touch made/e",
        "e",
        "e touch made",
        "w made",
        "w",
        "W made",
        "r .env",
        "R .env",
        "r",
        "1",
        "2",
        "$",
        "/one/",
        ",",
        "{",
        "}",
        ";",
        "\n",
        "!",
        "=",
        "l",
        "n",
        "N",
        "h",
        "H",
        "g",
        "G",
        "x",
        "D",
        "P",
        "y/a/b/",
        "a\\",
        "i\\",
        "c\\",
        "text",
        "b",
        "t",
        ":a",
        "ba",
        "F",
        "z",
        "v",
        "#",
        "s|a|b|p",
        "s,a,b,2",
        "s/a/b/;w made",
        "/a/I",
        "1~2",
        "0,/x/",
        "+1",
        "M",
        "s/x/y/wmade",
        "s/[/]/x/",
        "s/a/\\n/",
        "1p",
        "$p",
        "/one/p",
    ];
    run_what_reads(
        "sed",
        &pieces,
        &["", "-n", "-E", "-e"],
        &[&["sed"], &["busybox", "sed"]],
    );
}

#[test]
fn jq_filters_that_read_only_read() {
    let pieces = [
        ".",
        ".a",
        "[]",
        ".[]",
        "|",
        ",",
        "env",
        "$ENV",
        "$__prog_args",
        "input",
        "inputs",
        "input_filename",
        "debug",
        "stderr",
        "import",
        "include",
        "\"x\"",
        "\".env\"",
        "as",
        "$x",
        ";",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ":",
        "a",
        "1",
        "+",
        "map",
        "keys",
        "length",
        "select",
        "if",
        "then",
        "else",
        "end",
        "reduce",
        "foreach",
        "def",
        "f:",
        "f",
        "getpath",
        "path",
        "limit",
        "halt_error",
        "error",
        "try",
        "catch",
        "?",
        "//",
        "..",
        "@base64",
        "@sh",
        "tojson",
        "fromjson",
        "test",
        "input_line_number",
        "$__loc__",
        "modulemeta",
        "get_search_list",
        "now",
        "ltrimstr",
        ".a[0]",
        "to_entries",
        "keys[]",
        "\"\\(env)\"",
        "\"\\(.a)\"",
        ".[env:]",
        "[env:1]",
        "{env: 1}",
        "{env}",
        "{(env): 1}",
        "..env",
        "trimstr",
        "pick(.a)",
        "ltrim",
        "have_decnum",
        "getpath([\"a\"])",
        "@base32d",
        "splits",
        "abs",
        "toarray",
        "limit(1; env)",
    ];
    // The installed jq, and the newest one by its Python module.
    let python = packages().join("jq/bin/python").display().to_string();
    let module = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/analysis_support/jq.py");
    run_what_reads(
        "jq",
        &pieces,
        &["", "-r", "-c", "-n"],
        &[&["jq"], &[&python, module]],
    );
}

fn packages() -> std::path::PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::var_os("LATHE_TEST_PACKAGES")
        .map_or_else(|| workspace.join("target/test-packages"), Into::into)
}

#[test]
fn yq_filters_that_read_only_read() {
    let pieces = [
        ".",
        ".a",
        ".a[0]",
        "[]",
        ".[]",
        "|",
        ",",
        "env",
        "$ENV",
        "env.HOME",
        "load(\".env\")",
        "load_str(\".env\")",
        "strenv(SOME_API_KEY)",
        "input_filename",
        "debug",
        "import",
        "\"x\"",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ":",
        "a",
        "1",
        "+",
        "map",
        "keys",
        "length",
        "select",
        "has",
        "path",
        "..",
        "type",
        "to_entries",
        "\"\\(env)\"",
        "\"\\(.a)\"",
    ];
    run_what_reads("yq", &pieces, &["", "-r", "-c"], &[&["yq"]]);
}
