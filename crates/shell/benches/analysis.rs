//! How long an analysis takes. Targets: a simple command in 50 µs, fifty parts in 1 ms, a megabyte of
//! anything in 50 ms.
//!
//! `cargo bench -p lathe-shell --bench analysis`

use divan::{Bencher, black_box};
use lathe_shell::analysis::analyse;
use lathe_shell::syntax::{Limits, ShellKind, parse_with};

fn main() {
    divan::main();
}

#[divan::bench(args = ["ls -la", "git log --oneline -10", "npm run test -- --watch", "sudo env A=1 xargs rm -rf /"])]
fn simple_command(bencher: Bencher<'_, '_>, command: &str) {
    bencher.bench(|| analyse(black_box(command), ShellKind::Bash));
}

#[divan::bench]
fn fifty_parts(bencher: Bencher<'_, '_>) {
    let command = "git log --oneline | grep -v x | sort -u | head -5 | wc -l\n".repeat(10);
    bencher.bench(|| analyse(black_box(&command), ShellKind::Bash));
}

/// Inputs that make naive parsers quadratic or exhaust the stack.
fn pathological() -> Vec<(&'static str, String)> {
    let size = 1 << 20;
    let fill = |text: &str| text.repeat(size / text.len());
    vec![
        ("words", fill("a ")),
        ("one word", fill("a")),
        ("commands", fill("a;")),
        ("substitutions", fill("$(")),
        ("backticks", fill("`\\")),
        ("quotes", fill("\"'")),
        ("parentheses", fill("(")),
        ("braces", fill("{a,")),
        ("here-documents", fill("<<a ")),
        ("here-document bodies", fill("cat <<a\nb\na\n")),
        ("arithmetic", format!("(({}", fill("a["))),
        ("parameters", fill("${x:-")),
    ]
}

#[divan::bench(args = 0..12)]
fn megabyte_within_limits(bencher: Bencher<'_, '_>, index: usize) {
    let inputs = pathological();
    let (_, input) = &inputs[index];
    bencher.bench(|| analyse(black_box(input), ShellKind::Bash));
}

/// The longest command that is looked at, in the shapes above and some that are understood.
#[divan::bench(args = 0..16, sample_count = 20)]
fn longest_command(bencher: Bencher<'_, '_>, index: usize) {
    let mut inputs = pathological();
    for text in [
        "ls -la;",
        "echo $(ls)\n",
        "sudo rm x | xargs rm -rf\n",
        "for i in a; do ls; done\n",
    ] {
        inputs.push((text, text.repeat((1 << 20) / text.len())));
    }
    let (_, input) = &inputs[index];
    let mut length = 128 * 1024;
    while !input.is_char_boundary(length) {
        length -= 1;
    }
    let cut = &input[..length];
    bencher.bench(|| analyse(black_box(cut), ShellKind::Bash));
}

#[divan::bench(args = 0..12, sample_count = 10)]
fn megabyte_without_length_limit(bencher: Bencher<'_, '_>, index: usize) {
    let inputs = pathological();
    let (_, input) = &inputs[index];
    let limits = Limits {
        length: usize::MAX,
        words: usize::MAX,
        ..Limits::default()
    };
    bencher.bench(|| parse_with(black_box(input), ShellKind::Bash, limits));
}
