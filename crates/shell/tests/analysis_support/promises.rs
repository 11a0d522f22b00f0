//! Promises of the analyser for every text. The seeded test and the fuzz target hold it to the same.

use lathe_shell::analysis::analyse;
use lathe_shell::syntax::{Limits, ShellKind, parse_with};

const SHELLS: [ShellKind; 3] = [ShellKind::Bash, ShellKind::Posix, ShellKind::Zsh];

/// Steps of the parser per byte: about three times what dense operators were seen to take.
const STEPS_PER_BYTE: u64 = 64;

/// Text that can stand around a command. Each ends it with a line break, so that a comment or a here-document
/// in it ends too.
pub(crate) const WRAPPERS: &[(&str, &str)] = &[
    ("( ", "\n)"),
    ("{ ", "\n}"),
    ("", "\ntrue"),
    ("true\n", ""),
    ("true && ", ""),
    ("ls | ", ""),
    ("! ", ""),
    ("if true; then ", "\nfi"),
    ("for i in a; do ", "\ndone"),
    ("echo $(", "\n)"),
    ("echo \"$(", "\n)\""),
    ("cat <(", "\n)"),
    ("echo ${x:-$(", "\n)}"),
    ("timeout 5 ", ""),
    ("LC_ALL=C ", ""),
];

/// Panics where a promise isn't kept for a text, alone and within one of the [`WRAPPERS`].
pub(crate) fn keep(text: &str, wrapper: usize) {
    for shell in SHELLS {
        let steps = parse_with(text, shell, Limits::default()).work;
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        assert!(
            steps <= STEPS_PER_BYTE.saturating_mul(bytes.saturating_add(STEPS_PER_BYTE)),
            "{steps} steps for {bytes} bytes of {text:?} in {shell:?}"
        );
        let analysis = analyse(text, shell);
        for part in &analysis.parts {
            assert!(
                text.get(part.span.start..part.span.end).is_some(),
                "{:?} lies outside of {text:?}",
                part.span
            );
        }
        assert!(
            !analysis.read_only || analysis.understood.is_ok(),
            "{text:?} isn't understood and yet read-only in {shell:?}"
        );
        // A text that isn't a whole command can become one in a wrapper; a last backslash would join it
        // with what follows.
        if analysis.understood.is_err() || analysis.read_only || text.ends_with('\\') {
            continue;
        }
        let (before, after) = WRAPPERS[wrapper % WRAPPERS.len()];
        let wrapped = format!("{before}{text}{after}");
        assert!(
            !analyse(&wrapped, shell).read_only,
            "{wrapped:?} is read-only and {text:?} is not in {shell:?}"
        );
    }
}
