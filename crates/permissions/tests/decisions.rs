//! The table of decisions: every kind of call in every mode.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use common::{World, add_rule, behavior, decide_on, mode, rows, subject, verdict};
use lathe_protocol::permission::RuleSource;

#[test]
fn every_row_of_the_table_holds() {
    let world = World::new();
    let mut wrong = Vec::new();
    let rows = rows();
    assert!(rows.len() >= 150, "{} rows", rows.len());
    for row in rows {
        let [tool, what, mode_name, rules, wanted, kind] = row.as_slice() else {
            unreachable!()
        };
        let mut context = world.context();
        context.mode = mode(mode_name);
        for rule in rules.split(" ; ").filter(|rule| !rule.is_empty()) {
            let (word, text) = rule.split_once(':').unwrap();
            add_rule(
                &mut context,
                behavior(word),
                &world.fill(text),
                RuleSource::ProjectSettings,
            );
        }
        let subject = subject(tool, &world.fill(what), &world.project());
        let decision = decide_on(tool, &subject, &context);
        let (found, found_kind) = verdict(&decision);
        let fits = |wanted: &str, found: &str| wanted == "*" || wanted == found;
        if !fits(wanted, found) || !fits(kind, found_kind) {
            wrong.push(format!(
                "{}\n    got {found} {found_kind}: {decision:?}",
                row.join(" | ")
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} rows are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
