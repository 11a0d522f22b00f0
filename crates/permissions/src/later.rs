//! Rules that are worth keeping after a question about a shell command: they fit commands that will come
//! again, and say no more than the user would want to say.
//!
//! The rule that the engine offers with a question covers exactly this question. A line with quotes and pipes, or a
//! program written into the command line, does not come again; a rule for it would only fill the settings.

use crate::pattern::exact_content;
use lathe_protocol::permission::RuleValue;
use lathe_shell::analysis::{Argument, Concern, Part, analyse, is_file_program, suggested_prefix};
use lathe_shell::syntax::ShellKind;

/// The most rules for one command.
const MOST: usize = 4;

/// The longest command that is worth a rule of its own.
const LONGEST: usize = 60;

/// The rules for the parts of a command that need one. Empty where none is worth keeping.
#[must_use]
pub fn rules_for_later(command: &str) -> Vec<RuleValue> {
    let analysis = analyse(command, ShellKind::Bash);
    if analysis.understood.is_err() {
        return Vec::new();
    }
    let mut rules: Vec<RuleValue> = Vec::new();
    for part in &analysis.parts {
        let Some(content) = content_for(part) else {
            continue;
        };
        let rule = RuleValue {
            tool_name: "Bash".to_owned(),
            rule_content: Some(content),
        };
        if !rules.contains(&rule) && rules.len() < MOST {
            rules.push(rule);
        }
    }
    rules
}

fn content_for(part: &Part) -> Option<String> {
    if part.read_only.is_yes()
        || !part.can_be_allowed
        || part.concerns.iter().any(Concern::asks_despite_rules)
        // Accepting edits covers simple file commands. A rule for the others would allow every file.
        || part.file_command.is_some()
        || part
            .effective_argv
            .first()
            .is_none_or(|program| program.fixed().is_some_and(is_file_program))
        // Where its output goes is decided by the file, not by the command.
        || part.redirections.iter().any(|redirection| !redirection.free)
    {
        return None;
    }
    if let Some(words) = suggested_prefix(&part.effective_argv) {
        return Some(format!("{}:*", words.join(" ")));
    }
    let words: Option<Vec<&str>> = part.effective_argv.iter().map(Argument::fixed).collect();
    let words = words?;
    let plain = |word: &&str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-./:=@+,".contains(&byte))
    };
    let inline = |word: &&str| matches!(*word, "-c" | "-e" | "-E" | "-r" | "--eval" | "--command");
    let first = words.first()?;
    let text = words.join(" ");
    // Only scripts: what else has no prefix is wide by nature (curl, rm, tee).
    let is_script = first.contains('/')
        || is_interpreter(first)
            && words.get(1).is_some_and(|word| {
                word.contains('.') && !word.starts_with('-') && !word.contains(':')
            });
    (is_script && words.iter().all(plain) && !words.iter().any(inline) && text.len() <= LONGEST)
        .then(|| exact_content(&text))
}

/// Whether a program runs the script that is its first argument.
fn is_interpreter(program: &str) -> bool {
    const INTERPRETERS: &[&str] = &[
        "bash", "sh", "zsh", "dash", "fish", "python", "python3", "node", "deno", "bun", "ruby",
        "perl", "php", "lua", "Rscript", "julia", "pytest",
    ];
    INTERPRETERS.contains(&program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(command: &str) -> Vec<String> {
        rules_for_later(command)
            .into_iter()
            .filter_map(|rule| rule.rule_content)
            .collect()
    }

    #[test]
    fn each_part_that_needs_one_gets_its_own_rule() {
        let table: &[(&str, &[&str])] = &[
            ("cargo test --workspace", &["cargo test:*"]),
            (
                "cd sub && cargo build && npm run lint -- x",
                &["cargo build:*", "npm run lint:*"],
            ),
            ("timeout 10 python3 x.py", &["python3 x.py"]),
            ("./scripts/test", &["./scripts/test"]),
            ("git commit -m 'a b' | cat", &["git commit:*"]),
        ];
        for (command, expected) in table {
            assert_eq!(offered(command), *expected, "{command}");
        }
    }

    #[test]
    fn what_does_not_come_again_or_is_too_wide_gets_none() {
        for command in [
            "python3 -c 'print(1)'",
            "python3 -c print",
            "curl https://example.com/x | jq .",
            "echo \"$x\" | tee notes.txt",
            "git checkout -b topic",
            "rm -rf build",
            "cat > made/a.txt",
            "for f in *; do mv $f x; done; eval $x",
            "echo 'unbalanced",
            "ls -la",
        ] {
            assert_eq!(offered(command), Vec::<String>::new(), "{command}");
        }
    }
}
