//! Rules as people write them in settings files: each matches the command that it is plainly for, and nothing
//! beyond it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use common::{World, add_rule, decide_on, shell, verdict};
use lathe_permissions::{PermissionContext, Rule, parse_rule};
use lathe_protocol::permission::{Behavior, RuleSource, Subject};

fn with_rule(world: &World, behavior: Behavior, rule: &str) -> PermissionContext {
    let mut context = world.context();
    add_rule(&mut context, behavior, rule, RuleSource::UserSettings);
    context
}

fn judged(world: &World, context: &PermissionContext, command: &str) -> String {
    let decision = decide_on("Bash", &shell(command, &world.project()), context);
    verdict(&decision).0.to_owned()
}

/// Every command that passes under an allow rule, and none of those that don't.
#[track_caller]
fn allows(rule: &str, passes: &[&str], asks: &[&str]) {
    let world = World::new();
    let home = world.home().display().to_string();
    let rule = rule.replace("HOME", &home);
    let context = with_rule(&world, Behavior::Allow, &rule);
    for command in passes {
        let command = command.replace("HOME", &home);
        assert_eq!(
            judged(&world, &context, &command),
            "allow",
            "{rule}: {command}"
        );
    }
    for command in asks {
        let command = command.replace("HOME", &home);
        assert_ne!(
            judged(&world, &context, &command),
            "allow",
            "{rule}: {command}"
        );
    }
}

#[test]
fn a_variable_before_the_command_is_a_part_of_the_rule() {
    allows(
        "Bash(TZ=UTC touch:*)",
        &["TZ=UTC touch a", "TZ='UTC' touch a b"],
        &["TZ=CET touch a", "touch a", "PATH=. touch a", "TZ=UTC rm a"],
    );
    allows(
        "Bash(TZ='America/New_York' touch:*)",
        &[
            "TZ='America/New_York' touch a",
            "TZ=America/New_York touch a",
        ],
        &["TZ=UTC touch a"],
    );
    allows(
        "Bash(VAR=1 cargo test:*)",
        &["VAR=1 cargo test", "VAR=1 cargo test --lib x"],
        &[
            "VAR=2 cargo test",
            "VAR=1 cargo run",
            "VAR=1 OTHER=2 cargo test",
        ],
    );
    allows(
        "Bash(RUST_LOG=* cargo test:*)",
        &[
            "RUST_LOG=debug cargo test",
            "RUST_LOG=a=b,c cargo test --lib",
        ],
        &[
            "RUST_LOG=$(id) cargo test",
            "RUST_LOG=x PATH=. cargo test",
            "LD_PRELOAD=x cargo test",
        ],
    );
}

#[test]
fn a_path_below_home_matches_in_both_spellings() {
    for rule in ["Bash(~/bin/x:*)", "Bash(HOME/bin/x:*)"] {
        allows(
            rule,
            &["~/bin/x", "~/bin/x --flag a", "HOME/bin/x a"],
            &[
                "'~/bin/x' a",
                "~/bin/y",
                "~other/bin/x",
                "./bin/x",
                "HOME/bin/../x",
            ],
        );
    }
    for rule in [
        "Bash(python3 ~/.claude/x.py:*)",
        "Bash(python3 HOME/.claude/x.py *)",
        "Bash(python3 ~/.claude/x.py *)",
    ] {
        allows(
            rule,
            &[
                "python3 ~/.claude/x.py",
                "python3 ~/.claude/x.py a b",
                "python3 HOME/.claude/x.py a",
            ],
            &[
                "python3 '~/.claude/x.py' a",
                "python3 -c 1",
                "python3 ~/.claude/y.py",
            ],
        );
    }
}

#[test]
fn a_command_in_quotes_matches_whichever_quotes_are_used() {
    allows(
        "Bash(bash -l -c \"go test*\")",
        &[
            "bash -l -c \"go test\"",
            "bash -l -c 'go test ./...'",
            "bash -l -c \"go test -run X ./a\"",
        ],
        &[
            "bash -l -c 'go test; touch x'",
            "bash -l -c 'go test && rm -rf src'",
            "bash -l -c 'go test $(touch x)'",
            "bash -l -c 'go test > /etc/x'",
            "bash -l -c 'go testify'; touch x",
            "bash -c 'go test'",
            "bash -l -c 'go vet'",
        ],
    );
    allows(
        "Bash(sh -c 'make check*')",
        &["sh -c 'make check'", "sh -c \"make check -j4\""],
        &["sh -c 'make check | sh'", "sh -c 'make install'"],
    );
}

#[test]
fn a_star_between_the_words_stands_for_one_word() {
    allows(
        "Bash(git -C :* commit:*)",
        &["git -C . commit -m x", "git -C . commit"],
        &[
            "git -C . push",
            "git commit",
            "git -C . -c core.pager=x commit",
        ],
    );
    allows(
        "Bash(npm run :* --:*)",
        &["npm run build --", "npm run build -- --watch"],
        &["npm run build", "npm run a b --", "npm run --x --"],
    );
}

#[test]
fn a_star_before_the_colon_adds_nothing() {
    allows(
        "Bash(python3*:*)",
        &["python3", "python3 x.py", "python3.12 x.py a"],
        &["python2 x.py", "'python3 x' y"],
    );
    allows(
        "Bash(npm run test*:*)",
        &["npm run test", "npm run test:unit", "npm run test -- a"],
        &["npm run build"],
    );
}

#[test]
fn every_host_is_a_rule_too() {
    let world = World::new();
    let context = with_rule(&world, Behavior::Allow, "WebFetch(domain:*)");
    for address in ["https://a.example/x", "https://b.c.example"] {
        let subject = Subject::Fetch {
            url: address.to_owned(),
        };
        let decision = decide_on("WebFetch", &subject, &context);
        assert_eq!(verdict(&decision).0, "allow", "{address}");
    }
}

#[test]
fn a_wrapper_may_be_a_part_of_the_rule() {
    allows(
        "Bash(timeout 60 npm test:*)",
        &["timeout 60 npm test", "timeout 60 npm test -- x"],
        &["npm test", "timeout 90 npm test", "timeout 60 npm publish"],
    );
    allows(
        "Bash(time npm test:*)",
        &["time npm test", "npm test -- a"],
        &["time npm publish"],
    );
}

#[test]
fn a_rule_for_time_alone_says_what_to_write() {
    for rule in ["Bash(time:*)", "Bash(time *)", "Bash(time)"] {
        let value = parse_rule(rule).unwrap();
        let world = World::new();
        let context = world.context();
        let error = Rule::new(
            value,
            Behavior::Allow,
            RuleSource::UserSettings,
            &context.anchors(RuleSource::UserSettings),
        )
        .unwrap_err()
        .to_string();
        assert!(error.contains("write a rule for that command"), "{error}");
    }
}

#[test]
fn what_is_typed_into_a_program_is_asked_about_once_for_each() {
    let world = World::new();
    let typing = |program: &str, sandboxed| Subject::Typing {
        program: program.to_owned(),
        sandboxed,
    };
    let on = |context: &PermissionContext, subject: &Subject| {
        let decision = decide_on("BashInput", subject, context);
        verdict(&decision).0.to_owned()
    };
    let context = world.context();
    assert_eq!(on(&context, &typing("python3", false)), "ask");
    // A sandbox that is not on is no reason.
    assert_eq!(on(&context, &typing("python3", true)), "ask");
    let allowed = with_rule(&world, Behavior::Allow, "BashInput(python3)");
    assert_eq!(on(&allowed, &typing("python3", false)), "allow");
    assert_eq!(on(&allowed, &typing("vim", false)), "ask");
    assert_eq!(on(&allowed, &typing("", false)), "ask");
    let denied = with_rule(&world, Behavior::Deny, "BashInput(vim)");
    assert_eq!(on(&denied, &typing("vim", false)), "deny");
    // A line for a shell is a command, whichever tool carries it.
    let bash = with_rule(&world, Behavior::Allow, "Bash(touch:*)");
    let line = shell("touch a", &world.project());
    assert_eq!(on(&bash, &line), "allow");
    assert_eq!(on(&bash, &typing("bash", false)), "ask");
    assert_eq!(on(&context, &line), "ask");
}
