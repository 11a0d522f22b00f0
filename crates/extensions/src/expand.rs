//! Expansion of placeholders in skills and commands: arguments, folders, the output of shell
//! commands.
//!
//! | written | becomes |
//! |---|---|
//! | `$ARGUMENTS` | all arguments as typed |
//! | `$1`, `$2`, … | one argument, quotes respected; counted from zero if the text has a `$0`, else from one; as written if there are fewer arguments |
//! | `\$1` | `$1` itself, not expanded |
//! | `$ARGUMENTS[0]` | one argument, always counted from zero; as written if there are fewer |
//! | `$name` | the argument at the position of `name` in `arguments:` |
//! | `${LATHE_SKILL_DIR}`, `${CLAUDE_SKILL_DIR}` | the skill's folder |
//! | `${LATHE_PROJECT_DIR}`, `${CLAUDE_PROJECT_DIR}` | the project's folder |
//! | `${LATHE_SESSION_ID}`, `${CLAUDE_SESSION_ID}` | the session's id |
//! | `${LATHE_EFFORT}`, `${CLAUDE_EFFORT}` | how hard the model works |
//! | `` !`command` ``, a block fenced with ` ```! ` | the command's output |
//!
//! The text is expanded in one pass: placeholders within arguments are never expanded, so an
//! argument can't inject a command. Nothing is run here; the engine runs a [`Segment::Shell`] under
//! the permission rules.

use std::ops::Range;

/// The values of placeholders.
#[derive(Debug, Clone, Default)]
pub struct Values<'a> {
    /// All arguments as typed.
    pub arguments: &'a str,
    /// The names of the arguments, in order.
    pub names: &'a [String],
    /// Variables for `${NAME}`.
    pub variables: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    Text(String),
    /// To be replaced by the command's output.
    Shell {
        /// The command with its arguments expanded.
        command: String,
        /// The original text, shown if the command doesn't run.
        written: String,
    },
}

/// Expands all placeholders. Arguments without a placeholder are appended.
#[must_use]
pub fn expand(template: &str, values: &Values<'_>) -> Vec<Segment> {
    let words = split_words(values.arguments);
    let mut filler = Filler {
        values,
        words: &words,
        first: usize::from(!counts_from_zero(template)),
        used: false,
    };
    let mut segments = Vec::new();
    let mut text = String::new();
    for piece in shell_pieces(template) {
        match piece {
            Piece::Text(piece) => text.push_str(&filler.fill(piece)),
            Piece::Shell { command, written } => {
                if !text.is_empty() {
                    segments.push(Segment::Text(std::mem::take(&mut text)));
                }
                segments.push(Segment::Shell {
                    command: filler.fill(command.trim()),
                    written: written.to_owned(),
                });
            }
        }
    }
    let arguments = values.arguments.trim();
    if !filler.used && !arguments.is_empty() {
        text.push_str("\n\nARGUMENTS: ");
        text.push_str(arguments);
    }
    if !text.is_empty() {
        segments.push(Segment::Text(text));
    }
    segments
}

/// The text with its commands unexpanded.
#[must_use]
pub fn without_running(segments: &[Segment]) -> String {
    segments
        .iter()
        .map(|segment| match segment {
            Segment::Text(text) => text.as_str(),
            Segment::Shell { written, .. } => written.as_str(),
        })
        .collect()
}

enum Piece<'a> {
    Text(&'a str),
    Shell { command: &'a str, written: &'a str },
}

/// Finds `` !`command` `` after a space or at the start of a line, and blocks fenced with ` ```! `.
/// Commands run in other fenced blocks too: files put the output of a command between fences.
fn shell_pieces(template: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut start, mut offset) = (0, 0);
    let mut fenced = false;
    let lines: Vec<&str> = template.split_inclusive('\n').collect();
    let mut index = 0;
    while let Some(line) = lines.get(index) {
        let trimmed = line.trim();
        if !fenced && trimmed.starts_with("```!") {
            let mut end = offset + line.len();
            let body = end;
            let mut closed = None;
            for later in &lines[index + 1..] {
                if later.trim() == "```" {
                    closed = Some((end, end + later.trim_end().len()));
                    break;
                }
                end += later.len();
            }
            if let Some((body_end, after)) = closed {
                let first = trimmed[4..].trim();
                let command = if first.is_empty() {
                    &template[body..body_end]
                } else {
                    first
                };
                pieces.push(Piece::Text(&template[start..offset]));
                pieces.push(Piece::Shell {
                    command,
                    written: &template[offset..after],
                });
                start = after;
                while offset < after {
                    offset += lines.get(index).map_or(1, |line| line.len());
                    index += 1;
                }
                continue;
            }
        }
        if trimmed.starts_with("```") {
            fenced = !fenced;
        } else if line.contains("!`") {
            let paragraph: usize = lines[index..]
                .iter()
                .take_while(|line| !line.trim().is_empty() && !line.trim().starts_with("```"))
                .map(|line| line.len())
                .sum();
            let line_end = offset + line.len();
            let end = inline_pieces(
                template,
                offset..line_end,
                offset + paragraph,
                &mut start,
                &mut pieces,
            );
            // A command that spans lines ends in one of the next.
            while offset < end {
                offset += lines.get(index).map_or(1, |line| line.len());
                index += 1;
            }
            continue;
        }
        offset += line.len();
        index += 1;
    }
    pieces.push(Piece::Text(&template[start..]));
    pieces
}

/// Finds the commands that begin in a line; they end in it or in a later line of the paragraph.
/// Returns the end of the last line that was searched.
fn inline_pieces<'a>(
    template: &'a str,
    line: Range<usize>,
    paragraph_end: usize,
    start: &mut usize,
    pieces: &mut Vec<Piece<'a>>,
) -> usize {
    let mut at = line.start;
    let mut to = line.end;
    while let Some(found) = template[at..to].find("!`") {
        let bang = at + found;
        let free = template[..bang]
            .chars()
            .next_back()
            .is_none_or(|before| before.is_whitespace() || matches!(before, '(' | '"'));
        let length = template[bang + 2..to].find('`').or_else(|| {
            let rest = template.get(bang + 2..paragraph_end)?;
            rest.find('`').filter(|_| free)
        });
        let Some(length) = length else {
            return to;
        };
        let end = bang + 2 + length + 1;
        if end > to {
            let rest_of_line = template[end..]
                .find('\n')
                .map_or(template.len(), |at| end + at + 1);
            to = rest_of_line;
        }
        if free && length > 0 {
            pieces.push(Piece::Text(&template[*start..bang]));
            pieces.push(Piece::Shell {
                command: &template[bang + 2..end - 1],
                written: &template[bang..end],
            });
            *start = end;
        }
        at = end;
    }
    to
}

struct Filler<'a> {
    values: &'a Values<'a>,
    words: &'a [String],
    /// The number of the first argument: 0 or 1.
    first: usize,
    used: bool,
}

/// True if a text has a `$0`, which only those have that count from zero. `$0}` is awk.
fn counts_from_zero(template: &str) -> bool {
    template.match_indices("$0").any(|(at, found)| {
        let before = template[..at].chars().next_back();
        let mut after = template[at + found.len()..].chars();
        let is_more = match after.next() {
            Some('}') => true,
            Some('.') => after.next().is_some_and(|digit| digit.is_ascii_digit()),
            Some(letter) => is_name_letter(letter),
            None => false,
        };
        before != Some('\\') && !is_more
    })
}

impl Filler<'_> {
    fn fill(&mut self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            let after = &rest[at + 1..];
            if let Some(before) = rest[..at].strip_suffix('\\')
                && self.is_placeholder(after)
            {
                filled.push_str(before);
                filled.push('$');
                rest = after;
                continue;
            }
            filled.push_str(&rest[..at]);
            match self.placeholder(after) {
                Some((Some(value), length)) => {
                    filled.push_str(&value);
                    rest = &after[length..];
                }
                Some((None, _)) | None => {
                    filled.push('$');
                    rest = after;
                }
            }
        }
        filled.push_str(rest);
        filled
    }

    /// True for what could be a placeholder: a `$0` too where positions count from one.
    fn is_placeholder(&mut self, after: &str) -> bool {
        let (used, first) = (self.used, self.first);
        self.first = 0;
        let found = self.placeholder(after).is_some();
        (self.used, self.first) = (used, first);
        found
    }

    /// The value of the placeholder after a dollar sign (`None` if it stays as it is written), and the
    /// placeholder's length.
    fn placeholder(&mut self, after: &str) -> Option<(Option<String>, usize)> {
        if let Some(inner) = after.strip_prefix('{') {
            let end = inner.find('}')?;
            let name = &inner[..end];
            let (_, value) = self
                .values
                .variables
                .iter()
                .find(|(known, _)| known == name)?;
            return Some((Some(value.clone()), end + 2));
        }
        if let Some(rest) = after.strip_prefix("ARGUMENTS") {
            if let Some((index, length)) = bracketed(rest) {
                return Some((self.word(index), "ARGUMENTS".len() + length));
            }
            if rest.starts_with(is_name_letter) {
                return None;
            }
            self.used = true;
            let all = self.values.arguments.trim().to_owned();
            return Some((Some(all), "ARGUMENTS".len()));
        }
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            // `$5.00` and `$10k` are money.
            let next = after[digits..].chars().next();
            if next.is_some_and(is_name_letter)
                || (next == Some('.')
                    && after[digits + 1..].starts_with(|c: char| c.is_ascii_digit()))
                || digits > 2
            {
                return None;
            }
            let number: usize = after[..digits].parse().ok()?;
            let index = number.checked_sub(self.first)?;
            return Some((self.word(index), digits));
        }
        let length = after
            .chars()
            .take_while(|letter| is_name_letter(*letter))
            .map(char::len_utf8)
            .sum();
        let name = &after[..length];
        let index = self.values.names.iter().position(|known| known == name)?;
        self.used = true;
        let named = self.words.get(index).cloned().unwrap_or_default();
        Some((Some(named), length))
    }

    /// The argument at a position. A text may speak of `$10` without meaning one, so what has no
    /// argument stays as it is written.
    fn word(&mut self, index: usize) -> Option<String> {
        let word = self.words.get(index).cloned();
        self.used |= word.is_some();
        word
    }
}

fn is_name_letter(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn bracketed(text: &str) -> Option<(usize, usize)> {
    let inner = text.strip_prefix('[')?;
    let end = inner.find(']')?;
    Some((inner[..end].parse().ok()?, end + 2))
}

/// Splits arguments as a shell does, respecting quotes and backslashes; an unclosed quote ends at
/// the end.
#[must_use]
pub fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(letter),
            (_, '\\') => {
                if let Some(next) = letters.next() {
                    word.get_or_insert_default().push(next);
                }
            }
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') if word.is_none() => {
                quote = Some(letter);
                word = Some(String::new());
            }
            (None, '"') => quote = Some(letter),
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str, arguments: &str, names: &[&str]) -> String {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let values = Values {
            arguments,
            names: &names,
            variables: vec![("CLAUDE_SKILL_DIR".into(), "/skill".into())],
        };
        without_running(&expand(template, &values))
    }

    #[test]
    fn arguments_are_filled_in_by_place_and_by_name() {
        assert_eq!(filled("Fix $ARGUMENTS now", "a b", &[]), "Fix a b now");
        assert_eq!(filled("$1-$2", "a 'b c'", &[]), "a-b c");
        assert_eq!(filled("$ARGUMENTS[1] $ARGUMENTS[0]", "a b", &[]), "b a");
        assert_eq!(
            filled("$issue on $branch", "7 main", &["issue", "branch"]),
            "7 on main"
        );
        assert_eq!(
            filled("${CLAUDE_SKILL_DIR}/x ${OTHER}", "", &[]),
            "/skill/x ${OTHER}"
        );
    }

    #[test]
    fn positions_count_from_zero_where_dollar_zero_occurs_and_else_from_one() {
        assert_eq!(filled("$0 then $1", "a b", &[]), "a then b");
        assert_eq!(filled("$1 then $2", "a b", &[]), "a then b");
        assert_eq!(filled("Fix $0.", "a b", &[]), "Fix a.");
        assert_eq!(filled("$0.50 for $1", "a b", &[]), "$0.50 for a");
        assert_eq!(
            filled("awk '{print $0}' and $1", "a b", &[]),
            "awk '{print $0}' and a"
        );
        assert_eq!(filled("$0 $ARGUMENTS[1]", "a b", &[]), "a b");
    }

    #[test]
    fn a_backslash_keeps_a_placeholder_as_it_is_written() {
        assert_eq!(
            filled(r"\$1 is $1, \$ARGUMENTS too", "a", &[]),
            "$1 is a, $ARGUMENTS too"
        );
        assert_eq!(filled(r"\$0 and $1", "a", &[]), "$0 and a");
        assert_eq!(filled(r"\$HOME and \$", "", &[]), r"\$HOME and \$");
        assert_eq!(filled(r"\$issue $issue", "7", &["issue"]), "$issue 7");
    }

    #[test]
    fn a_command_may_span_the_lines_of_a_paragraph() {
        let commands = |template: &str| -> Vec<String> {
            let segments = expand(template, &Values::default());
            let commands = segments.into_iter().filter_map(|segment| match segment {
                Segment::Shell { command, .. } => Some(command),
                Segment::Text(_) => None,
            });
            commands.collect()
        };
        assert_eq!(
            commands("Log: !`git log \\\n  --oneline` and !`date`\n!`ls`\n"),
            ["git log \\\n  --oneline", "date", "ls"]
        );
        assert!(commands("open !`git log\n\nnext `x`").is_empty());
        assert!(commands("open !`git log\n```\n`x`\n```\n").is_empty());
        let text = "a !`b\nc` d\ne";
        assert_eq!(without_running(&expand(text, &Values::default())), text);
    }

    #[test]
    fn a_position_without_an_argument_stays_as_it_is_written() {
        assert_eq!(filled("$1-$2-$3", "a 'b c'", &[]), "a-b c-$3");
        assert_eq!(
            filled("costs $10, or $20 for $1", "a", &[]),
            "costs $10, or $20 for a"
        );
        assert_eq!(
            filled("$ARGUMENTS[0] $ARGUMENTS[1]", "a", &[]),
            "a $ARGUMENTS[1]"
        );
        assert_eq!(filled("$2", "a", &[]), "$2\n\nARGUMENTS: a");
        assert_eq!(filled(r"\$1 and $1", "", &[]), "$1 and $1");
        assert_eq!(filled("$issue.", "", &["issue"]), ".");
    }

    #[test]
    fn arguments_without_a_place_come_last() {
        assert_eq!(filled("Do it.", "a b", &[]), "Do it.\n\nARGUMENTS: a b");
        assert_eq!(filled("Do it.", "  ", &[]), "Do it.");
    }

    #[test]
    fn money_and_shell_variables_stay() {
        for text in [
            "costs $5.00",
            "$10k",
            "$HOME and $PATH",
            "$$",
            "a $",
            "$1000",
            "$ARGUMENTSX",
        ] {
            assert_eq!(filled(text, "", &[]), text, "{text}");
        }
        assert_eq!(
            filled("$issues", "7", &["issue"]),
            "$issues\n\nARGUMENTS: 7"
        );
    }

    #[test]
    fn placeholders_within_arguments_are_never_expanded() {
        assert_eq!(filled("$1 $2", "$2 x", &[]), "$2 x");
        let values = Values {
            arguments: "!`rm -rf /` ${CLAUDE_SKILL_DIR}",
            ..Values::default()
        };
        let segments = expand("Look: $ARGUMENTS", &values);
        assert_eq!(
            segments,
            [Segment::Text(
                "Look: !`rm -rf /` ${CLAUDE_SKILL_DIR}".into()
            )]
        );
    }

    #[test]
    fn commands_are_found_where_they_are_meant() {
        let values = Values {
            arguments: "main",
            ..Values::default()
        };
        let commands = |template: &str| -> Vec<String> {
            expand(template, &values)
                .into_iter()
                .filter_map(|segment| match segment {
                    Segment::Shell { command, .. } => Some(command),
                    Segment::Text(_) => None,
                })
                .collect()
        };
        assert_eq!(
            commands("Status: !`git status`\n- !`git log $1`\n"),
            ["git status", "git log main"]
        );
        assert_eq!(
            commands("```!\nls\npwd\n```\nafter !`date`"),
            ["ls\npwd", "date"]
        );
        assert_eq!(
            commands("```bash\n!`ls`\n```\n```\n$ !`pwd`\n```\n!`date`"),
            ["ls", "pwd", "date"]
        );
        assert!(commands("wow!`x` and `!`y`` !`open").is_empty());
        let segments = expand("a !`b` c\n", &values);
        assert_eq!(without_running(&segments), "a !`b` c\n\n\nARGUMENTS: main");
    }

    #[test]
    fn arguments_are_split_like_a_shell_splits_them() {
        assert_eq!(
            split_words("a \"b c\" 'd e' f\\ g"),
            ["a", "b c", "d e", "f g"]
        );
        assert_eq!(split_words("it's fine"), ["it's", "fine"]);
        assert_eq!(split_words("\"open end"), ["open end"]);
        assert_eq!(split_words("''"), [""]);
    }
}
