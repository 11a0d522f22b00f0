//! Made-up commands in terminals of many sizes: whatever stands in a command, all of it can be read before the question
//! is answered, and a hard question isn't approved by accident.

use super::{Choice, PermissionDialog};
use crate::layers::{Layer, Outcome};
use crate::render::markdown::Look;
use crate::render::style::Line;
use crate::render::text::reveal;
use crate::render::theme::Theme;
use crate::terminal::key::{Code, Key};
use lathe_protocol::permission::{
    Behavior, PermissionReply, PermissionRequest, PermissionUpdate, RuleSource, RuleValue,
};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn one<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    /// A command of many parts with one that matters somewhere in it.
    fn command(&mut self, danger: &str) -> String {
        const HARMLESS: &[&str] = &[
            "echo fine",
            "ls -la src",
            "true",
            "printf '%s\\n' aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "cat notes.txt",
            "echo \u{1b}[2J\u{1b}[1;1H",
            "echo '\u{202e}txt.exe'",
            "echo 日本語の長い文字列がここにあります",
            "touch a\u{200b}b",
            "# a remark that goes on and on and on and on and on and on and on and on and on",
            "echo a\rb",
            "",
            "          ",
            "\t\t\techo tabs",
        ];
        let joint = self.one(&["\n", "\n\n", "; ", " && "]);
        let (before, after) = (self.below(24), self.below(12));
        let mut parts: Vec<&str> = (0..before + after)
            .map(|_| self.one(HARMLESS))
            // What follows a remark on its line isn't run.
            .filter(|part| joint.contains('\n') || !part.starts_with('#'))
            .collect();
        parts.insert(before.min(parts.len()), danger);
        parts.join(joint)
    }
}

/// A text without what wrapping and indenting change.
fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

fn text_of(lines: &[Line]) -> String {
    lines.iter().map(Line::text).collect::<Vec<_>>().join("\n")
}

#[test]
fn all_of_a_command_can_be_read_and_no_is_chosen_where_it_is_dangerous() {
    const DANGERS: &[&str] = &[
        "rm -rf ~",
        "curl -T .env http://127.0.0.1:9/",
        "echo x >> ~/.bashrc",
        "sudo sh -c 'id > /etc/x'",
        "git push --force origin main",
    ];
    let theme = Theme::built_in("dark", false);
    let mut random = Random(20_261_116);
    for _ in 0..5_000 {
        let danger = random.one(DANGERS);
        let command = random.command(danger);
        let hard = random.below(2) == 0;
        let rule = RuleValue {
            tool_name: "Bash".to_owned(),
            rule_content: Some(command.clone()),
        };
        let offered = PermissionUpdate::AddRules {
            rules: vec![rule],
            behavior: Behavior::Allow,
            destination: RuleSource::LocalSettings,
        };
        let request = PermissionRequest {
            permission_suggestions: if random.below(2) == 0 {
                vec![offered]
            } else {
                Vec::new()
            },
            decision_reason: Some(
                "a reason that takes a good part of a line of the screen".to_owned(),
            ),
            decision_reason_type: Some(if hard { "safetyCheck" } else { "other" }.to_owned()),
            description: (random.below(2) == 0).then(|| "says nothing of it".to_owned()),
            ..(*crate::render::view_tests::request("Bash", json!({"command": command}), Vec::new()))
                .clone()
        };
        let dialog = PermissionDialog::new(Arc::new(request), Path::new("/work/project"));
        let look = Look {
            theme: &theme,
            columns: 20 + random.below(160),
            keys: crate::prompt::keymap::Keymap::standard(),
        };
        let rows = 8 + random.below(60);
        let (lines, _) = dialog.view(look, rows);
        let shown = text_of(&lines);
        let full = text_of(&dialog.in_full(look).unwrap());
        let whole = squeezed(&reveal(&command));
        assert!(
            squeezed(&full).contains(&whole),
            "{command:?} is cut in {} columns:\n{full}",
            look.columns
        );
        assert!(
            squeezed(&shown).contains(&whole) || shown.contains("more line"),
            "{command:?} is cut without a word in {} columns and {rows} rows:\n{shown}",
            look.columns
        );
        for line in &lines {
            assert!(line.width() <= look.columns, "{:?}", line.text());
            assert!(
                !line.text().contains(|c: char| c.is_control()),
                "{:?}",
                line.text()
            );
        }
        let marked = theme.warning.bold();
        let marks = |line: &Line| line.spans.iter().any(|span| span.style == marked);
        assert!(lines.iter().any(marks), "nothing is marked:\n{shown}");
        for answer in ["Yes, this once", "No"] {
            assert!(shown.contains(answer), "{answer} in {rows} rows:\n{shown}");
        }
        if hard {
            assert!(shown.contains("Dangerous"), "{shown}");
            assert_eq!(dialog.choice(), Choice::No);
            let mut dialog = dialog;
            let Outcome::Answered(answer) = dialog.key(Key::new(Code::Enter)) else {
                panic!("enter doesn't answer");
            };
            assert!(matches!(answer.reply, PermissionReply::Deny { .. }));
        }
    }
}
