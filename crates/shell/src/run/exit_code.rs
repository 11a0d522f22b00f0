//! Exit codes that mean something else than success or failure.

/// The meaning of an exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitMeaning {
    /// In a few words.
    pub text: String,
    /// Whether the command failed.
    pub is_failure: bool,
}

impl ExitMeaning {
    fn answer(text: &str) -> Option<Self> {
        Some(Self {
            text: text.to_owned(),
            is_failure: false,
        })
    }

    fn failure(text: &str) -> Option<Self> {
        Some(Self {
            text: text.to_owned(),
            is_failure: true,
        })
    }
}

/// Explains a non-zero exit code of a command, if there is something to explain. Many programs give
/// 1 for an answer ("no match", "they differ") that is no failure.
///
/// The code of a list is taken as that of its last command. The words are only looked at, not
/// parsed: this words a result and decides nothing that matters to safety.
#[must_use]
pub fn explain_exit(command: &str, code: i32) -> Option<ExitMeaning> {
    if code == 0 {
        return None;
    }
    let words = last_command(command);
    let mut words = words.iter().map(String::as_str);
    let program = words.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    let first = rest.iter().find(|word| !word.starts_with('-')).copied();
    match (program, code) {
        ("grep" | "egrep" | "fgrep" | "zgrep" | "rg" | "ag" | "ack", 1) => {
            ExitMeaning::answer("No matches found")
        }
        ("git", 1) => match first {
            Some("grep") => ExitMeaning::answer("No matches found"),
            Some("diff") => ExitMeaning::answer("There are differences"),
            _ => None,
        },
        ("diff" | "cmp" | "colordiff" | "sdiff", 1) => {
            ExitMeaning::answer("The files are different")
        }
        ("test" | "[" | "[[", 1) => ExitMeaning::answer("The condition is false"),
        ("expr", 1) => ExitMeaning::answer("The value is empty or zero"),
        ("find", 1) => ExitMeaning::answer("Some folders could not be read"),
        ("pgrep" | "pkill", 1) => ExitMeaning::answer("No process matched"),
        ("which" | "type", 1) => ExitMeaning::answer("Not found"),
        ("command", 1) if rest.iter().any(|word| matches!(*word, "-v" | "-V")) => {
            ExitMeaning::answer("Not found")
        }
        ("timeout", 124) => ExitMeaning::failure("The time limit given to timeout was reached"),
        (_, 126) => ExitMeaning::failure("Found, but it can't be run"),
        (_, 127) => ExitMeaning::failure("Command not found"),
        (_, 130) => ExitMeaning::failure("Interrupted (SIGINT)"),
        (_, 134) => ExitMeaning::failure("Aborted (SIGABRT)"),
        (_, 137) => ExitMeaning::failure("Killed (SIGKILL), perhaps for lack of memory"),
        (_, 139) => ExitMeaning::failure("Crashed: invalid memory access (SIGSEGV)"),
        (_, 143) => ExitMeaning::failure("Terminated (SIGTERM)"),
        _ => None,
    }
}

/// The words of the last simple command, without assignments in front of it and without quotes.
fn last_command(command: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = command
        .trim_end_matches([' ', '\n', ';', '\t'])
        .chars()
        .peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some('"') | None, '\\') => {
                if let Some(escaped) = characters.next()
                    && escaped != '\n'
                {
                    word.get_or_insert_default().push(escaped);
                }
            }
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            // Not a separator in `2>&1`, `&>file` and `>|file`.
            (None, '&') if word.as_deref().is_some_and(|word| word.ends_with('>')) => {
                word.get_or_insert_default().push('&');
            }
            (None, '&') if characters.peek() == Some(&'>') => {
                word.get_or_insert_default().push('&');
            }
            (None, '|') if word.as_deref().is_some_and(|word| word.ends_with('>')) => {
                word.get_or_insert_default().push('|');
            }
            (None, ';' | '&' | '|' | '\n' | '(' | ')' | '{' | '}') => {
                words.clear();
                word = None;
            }
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    let is_prefix = |word: &String| {
        word.split_once('=')
            .is_some_and(|(name, _)| is_variable_name(name))
    };
    let start = words.iter().take_while(|word| is_prefix(word)).count();
    words.split_off(start)
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || character == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(command: &str, code: i32) -> Option<(String, bool)> {
        explain_exit(command, code).map(|meaning| (meaning.text, meaning.is_failure))
    }

    #[test]
    fn an_answer_is_no_failure() {
        for command in [
            "grep x file",
            "cd a && /usr/bin/grep -r 'a;b' .",
            "cat f | LC_ALL=C grep x",
            "rg --json x 2>&1",
            "git grep -n x",
        ] {
            assert_eq!(
                meaning(command, 1),
                Some(("No matches found".to_owned(), false)),
                "{command}"
            );
        }
        assert!(!explain_exit("diff a b", 1).unwrap().is_failure);
        assert!(!explain_exit("[ -f x ]", 1).unwrap().is_failure);
        assert!(!explain_exit("test -f x;\n", 1).unwrap().is_failure);
        assert!(!explain_exit("command -v nosuch", 1).unwrap().is_failure);
    }

    #[test]
    fn other_codes_and_other_commands_stay_failures() {
        assert_eq!(meaning("grep x missing", 2), None);
        assert_eq!(meaning("grep x f; false", 1), None);
        assert_eq!(meaning("echo 'grep'; cargo test", 1), None);
        assert_eq!(meaning("git commit", 1), None);
        assert!(explain_exit("nosuch", 127).unwrap().is_failure);
        assert_eq!(meaning("grep x f", 0), None);
    }
}
