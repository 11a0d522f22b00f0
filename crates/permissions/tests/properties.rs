//! Properties that hold for every call and all rules.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use common::{World, corpus, decide_on, mode, rows, shell, strictness, subject};
use lathe_permissions::{PermissionContext, Rule, parse_rule};
use lathe_protocol::permission::{Behavior, RuleSource};
use proptest::prelude::*;
use std::sync::OnceLock;

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(World::new)
}

const RULES: &[&str] = &[
    "Bash",
    "Bash(npm test:*)",
    "Bash(rm:*)",
    "Bash(git *)",
    "Bash(ls -la)",
    "Bash(cat:*)",
    "Bash(echo:*)",
    "Bash(git push:*)",
    "Bash(touch:*)",
    "Bash(* x)",
    "Read",
    "Read(src/**)",
    "Read(.env)",
    "Read(//etc/**)",
    "Read(~/.ssh/**)",
    "Edit",
    "Edit(src/**)",
    "Edit(.env)",
    "Write(src/**)",
    "Grep",
    "WebFetch",
    "WebFetch(domain:example.com)",
    "WebFetch(domain:*.example.com)",
    "Skill(review)",
    "Skill",
    "Agent",
    "Task(explore)",
    "mcp__files",
    "mcp__files__read",
    "mcp__*",
    "TodoWrite",
    "ExitPlanMode",
    "Mystery",
];

/// Pieces of commands.
const PIECES: &[&str] = &[
    "ls",
    "cat",
    "rm",
    "git",
    " ",
    " ",
    " ",
    ";",
    "&&",
    "|",
    "&",
    "\n",
    "(",
    ")",
    "{",
    "}",
    "$(",
    "`",
    "'",
    "\"",
    "\\",
    "$x",
    "${x}",
    "~",
    "*",
    ">",
    "<",
    ">>",
    "<<E",
    "2>&1",
    "/dev/null",
    ".env",
    "src/main.rs",
    "/etc",
    "..",
    "-r",
    "--",
    "=",
    "PATH=",
    "if ",
    "then ",
    "fi",
    "for ",
    "do ",
    "done",
    "in ",
    "[[",
    "]]",
    "((",
    "))",
    "#",
    "!",
    "\0",
    "é",
    "xargs",
    "sudo",
    "status",
];

/// Sources whose rules count from the same folder here.
const SOURCES: &[RuleSource] = &[
    RuleSource::ProjectSettings,
    RuleSource::LocalSettings,
    RuleSource::CliArg,
    RuleSource::Session,
    RuleSource::Command,
];

fn rule() -> impl Strategy<Value = (usize, Behavior)> {
    let behavior = prop_oneof![
        Just(Behavior::Allow),
        Just(Behavior::Ask),
        Just(Behavior::Deny)
    ];
    (0..RULES.len(), behavior)
}

fn add(context: &mut PermissionContext, index: usize, behavior: Behavior, source: RuleSource) {
    let value = parse_rule(RULES[index]).unwrap();
    let rule = Rule::new(value, behavior, source, &context.anchors(source)).unwrap();
    context.rules.add(rule);
}

/// How strictly a row of the table is judged with these rules.
fn judged(row: &[&str], rules: &[(usize, Behavior, RuleSource)]) -> u8 {
    let world = world();
    let mut context = world.context();
    context.mode = mode(row[2]);
    for (index, behavior, source) in rules {
        add(&mut context, *index, *behavior, *source);
    }
    let subject = subject(row[0], &world.fill(row[1]), &world.project());
    strictness(&decide_on(row[0], &subject, &context))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn adding_a_deny_rule_never_allows_more(
        row in 0..rows().len(), rules in prop::collection::vec(rule(), 0..4), deny in 0..RULES.len(),
    ) {
        let rows = rows();
        let rules: Vec<_> = rules.into_iter().map(|(index, behavior)| (index, behavior, RuleSource::ProjectSettings)).collect();
        let before = judged(&rows[row], &rules);
        let mut more = rules.clone();
        more.push((deny, Behavior::Deny, RuleSource::Session));
        prop_assert!(judged(&rows[row], &more) >= before, "{:?} {rules:?} {}", rows[row], RULES[deny]);
    }

    #[test]
    fn no_text_panics_and_what_is_not_understood_is_asked_about(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..14),
    ) {
        let world = world();
        let command = pieces.concat();
        let context = world.context();
        let found = lathe_permissions::cli::explain(&command, &context).to_json();
        prop_assert!(found["understood"] == true || found["verdict"] != "allow", "{command:?}: {found}");
        prop_assert!(found["readOnly"] == true || found["verdict"] != "allow", "{command:?}: {found}");
    }

    #[test]
    fn adding_an_allow_rule_never_forbids_more(
        row in 0..rows().len(), rules in prop::collection::vec(rule(), 0..4), allow in 0..RULES.len(),
    ) {
        let rows = rows();
        let rules: Vec<_> = rules.into_iter().map(|(index, behavior)| (index, behavior, RuleSource::ProjectSettings)).collect();
        let before = judged(&rows[row], &rules);
        let mut more = rules.clone();
        more.push((allow, Behavior::Allow, RuleSource::Session));
        prop_assert!(judged(&rows[row], &more) <= before, "{:?} {rules:?} {}", rows[row], RULES[allow]);
    }

    #[test]
    fn order_and_sources_of_rules_do_not_matter(
        row in 0..rows().len(),
        (rules, shuffled) in prop::collection::vec((rule(), 0..SOURCES.len(), 0..SOURCES.len()), 1..6)
            .prop_flat_map(|rules| (Just(rules.clone()), Just(rules).prop_shuffle())),
    ) {
        let rows = rows();
        let one: Vec<_> = rules.iter().map(|((index, behavior), source, _)| (*index, *behavior, SOURCES[*source])).collect();
        let other: Vec<_> = shuffled.iter().map(|((index, behavior), _, source)| (*index, *behavior, SOURCES[*source])).collect();
        prop_assert_eq!(judged(&rows[row], &one), judged(&rows[row], &other), "{:?} {:?}", &rows[row], &one);
    }
}

/// Text that can be put around any command.
const AROUND: &[(&str, &str)] = &[
    ("( ", "\n)"),
    ("{ ", "\n}"),
    ("if true; then ", "\nfi"),
    ("while true; do ", "\ndone"),
    ("true && { ", "\n}"),
    ("cat <( ", "\n)"),
    ("echo \"$( ", "\n)\""),
    ("! { ", "\n}"),
    ("", "\ntrue"),
    ("true; ", ""),
];

/// Text that can be put before a simple command.
const BEFORE: &[&str] = &[
    "sudo ",
    "env ",
    "xargs ",
    "nohup ",
    "timeout 5 ",
    "nice -n 3 ",
    "stdbuf -oL ",
    "time ",
    "command ",
    "exec ",
    "doas ",
    "A=1 ",
    "NO_COLOR=1 ",
    "setsid ",
    "env -i B=2 nice timeout 5 ",
];

#[test]
fn a_wrapped_command_is_never_judged_milder() {
    let world = world();
    let mut milder = Vec::new();
    let rules: &[&[(usize, Behavior)]] = &[
        &[],
        &[
            (1, Behavior::Allow),
            (5, Behavior::Allow),
            (6, Behavior::Allow),
            (2, Behavior::Deny),
        ],
        &[
            (3, Behavior::Ask),
            (7, Behavior::Deny),
            (4, Behavior::Allow),
        ],
    ];
    let commands: Vec<_> = corpus("bypasses.tsv")
        .into_iter()
        .chain(corpus("ordinary.tsv"))
        .filter(|sample| sample.shell == lathe_shell::syntax::ShellKind::Bash)
        .map(|sample| sample.command)
        .step_by(17)
        .collect();
    for rules in rules {
        let mut context = world.context();
        for (index, behavior) in *rules {
            add(&mut context, *index, *behavior, RuleSource::ProjectSettings);
        }
        let judge = |command: &str| {
            strictness(&decide_on(
                "Bash",
                &shell(command, &world.project()),
                &context,
            ))
        };
        for command in &commands {
            let plain = judge(command);
            let simple = !command.contains([
                '\n', ';', '&', '|', '(', '{', '<', '>', '`', '#', '\\', '\'', '"', '!', '=', '$',
                '~', '*',
            ]) && command.starts_with(|first: char| first.is_ascii_lowercase())
                && ![
                    "if ",
                    "for ",
                    "while ",
                    "until ",
                    "case ",
                    "select ",
                    "function ",
                    "time ",
                    "coproc ",
                    "do ",
                    "then ",
                ]
                .iter()
                .any(|word| command.starts_with(word));
            let wrapped = AROUND
                .iter()
                .map(|(before, after)| format!("{before}{command}{after}"))
                .chain(
                    BEFORE
                        .iter()
                        .filter(|_| simple)
                        .map(|before| format!("{before}{command}")),
                );
            for wrapped in wrapped {
                let found = judge(&wrapped);
                if found < plain {
                    milder.push(format!(
                        "{command:?} is {plain}, {wrapped:?} is {found} with {rules:?}"
                    ));
                }
            }
        }
    }
    assert!(
        milder.is_empty(),
        "{}:\n{}",
        milder.len(),
        milder.join("\n")
    );
}
