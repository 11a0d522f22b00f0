//! Problems that servers find in files, and which of them are new.

use crate::limits::PROBLEMS_OF_FILE;
use crate::position::Encoding;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::PathBuf;

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It won't work.
    Error,
    /// It is probably not what was meant.
    Warning,
    /// Worth knowing.
    Information,
    /// A suggestion.
    Hint,
}

impl Severity {
    fn of(value: Option<&Value>) -> Self {
        match value.and_then(Value::as_u64) {
            Some(2) => Self::Warning,
            Some(3) => Self::Information,
            Some(4) => Self::Hint,
            // A server that doesn't say leaves it to the client.
            _ => Self::Error,
        }
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Information => "information",
            Self::Hint => "hint",
        }
    }
}

/// A problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: u32,
    /// The character in the line, from 1.
    pub column: u32,
    /// How bad it is.
    pub severity: Severity,
    /// The message.
    pub message: String,
    /// The server's name for this kind of problem.
    pub code: Option<String>,
    /// Who found it.
    pub source: Option<String>,
}

impl Problem {
    /// In one line: place, severity, message, name.
    #[must_use]
    pub fn line_text(&self) -> String {
        line_of(self, 600)
    }

    /// Whether two are the same, wherever they stand.
    fn is_like(&self, other: &Self) -> bool {
        self.severity == other.severity
            && self.message == other.message
            && self.code == other.code
            && self.source == other.source
    }
}

/// Reads a list of problems as a server sends it. Columns are still offsets in the server's units.
pub(crate) fn read_list(list: &Value) -> Vec<Problem> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items
        .iter()
        .take(PROBLEMS_OF_FILE)
        .filter_map(read)
        .collect()
}

fn read(item: &Value) -> Option<Problem> {
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let start = item.pointer("/range/start")?;
    let message = match item.get("message")? {
        Value::String(text) => text.as_str(),
        // Newer servers may send markup.
        other => other.get("value")?.as_str()?,
    };
    Some(Problem {
        line: number(start.get("line")?)?.saturating_add(1),
        column: start.get("character").and_then(number).unwrap_or(0),
        severity: Severity::of(item.get("severity")),
        message: cut(message.trim(), 1000),
        code: match item.get("code") {
            Some(Value::String(code)) => Some(cut(code, 100)),
            Some(Value::Number(code)) => Some(code.to_string()),
            _ => None,
        },
        source: item
            .get("source")
            .and_then(Value::as_str)
            .map(|source| cut(source, 100)),
    })
}

/// A text of at most so many characters, without characters that steer a terminal.
pub(crate) fn cut(text: &str, most: usize) -> String {
    let mut kept: String = text
        .chars()
        .filter(|character| !character.is_control() || *character == '\n')
        .take(most + 1)
        .collect();
    if kept.chars().count() > most {
        kept.pop();
        kept.push('…');
    }
    kept
}

/// Makes characters of offsets, with the text that the server saw.
pub(crate) fn to_columns(problems: &mut [Problem], text: &str, encoding: Encoding) {
    let lines: Vec<&str> = text.lines().collect();
    for problem in problems {
        let line = usize::try_from(problem.line - 1)
            .ok()
            .and_then(|index| lines.get(index));
        problem.column = encoding.column(line.unwrap_or(&""), problem.column);
    }
}

/// The problems in `after` that weren't in `before`. A problem that only moved is not new: of equal ones, those that
/// are nearest to where one was before are taken for it.
#[must_use]
pub fn new_problems(before: &[Problem], after: &[Problem]) -> Vec<Problem> {
    let mut left: Vec<&Problem> = after.iter().collect();
    for known in before {
        let nearest = left
            .iter()
            .enumerate()
            .filter(|(_, problem)| problem.is_like(known))
            .min_by_key(|(_, problem)| problem.line.abs_diff(known.line))
            .map(|(index, _)| index);
        if let Some(index) = nearest {
            left.remove(index);
        }
    }
    left.into_iter().cloned().collect()
}

/// New problems of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNews {
    /// The file.
    pub path: PathBuf,
    /// The problems, worst first.
    pub problems: Vec<Problem>,
}

/// The most problems that are shown of one file.
const SHOWN_OF_FILE: usize = 10;
/// The most problems that are shown at once.
const SHOWN: usize = 30;
/// The most bytes that are shown at once.
const SHOWN_BYTES: usize = 4096;

/// The report of new problems for the model; `None` if there are none. `shown` formats a path.
#[must_use]
pub fn tell(news: &[FileNews], shown: &dyn Fn(&std::path::Path) -> String) -> Option<String> {
    let total: usize = news.iter().map(|file| file.problems.len()).sum();
    if total == 0 {
        return None;
    }
    let mut text =
        "Language servers report new problems in files since you changed them:".to_owned();
    let mut told = 0;
    'files: for file in news {
        let head = format!("\n{}", shown(&file.path));
        if text.len() + head.len() > SHOWN_BYTES {
            break;
        }
        text.push_str(&head);
        for problem in file.problems.iter().take(SHOWN_OF_FILE) {
            let line = format!("\n  {}", line_of(problem, 300));
            if told == SHOWN || text.len() + line.len() > SHOWN_BYTES {
                break 'files;
            }
            text.push_str(&line);
            told += 1;
        }
    }
    if told < total {
        let _ = write!(text, "\n[{} more omitted.]", total - told);
    }
    Some(text)
}

/// A problem in one line.
fn line_of(problem: &Problem, most: usize) -> String {
    let message = problem
        .message
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let mut line = format!(
        "{}:{} {}: {}",
        problem.line,
        problem.column,
        problem.severity.word(),
        cut(&message, most)
    );
    let names: Vec<&str> = [&problem.source, &problem.code]
        .into_iter()
        .filter_map(|name| name.as_deref())
        .collect();
    if !names.is_empty() {
        let _ = write!(line, " [{}]", names.join(" "));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::Path;

    fn problem(line: u32, message: &str) -> Problem {
        Problem {
            line,
            column: 1,
            severity: Severity::Error,
            message: message.to_owned(),
            code: None,
            source: Some("test".to_owned()),
        }
    }

    #[test]
    fn what_moved_is_not_new_and_what_is_there_twice_is() {
        let before = [problem(3, "a"), problem(9, "b")];
        let after = [
            problem(2, "new"),
            problem(5, "a"),
            problem(11, "b"),
            problem(40, "a"),
        ];
        assert_eq!(
            new_problems(&before, &after),
            [problem(2, "new"), problem(40, "a")]
        );
        assert!(new_problems(&before, &before).is_empty());
        assert_eq!(new_problems(&[], &before), before);
    }

    #[test]
    fn what_is_told_is_bounded() {
        let many: Vec<FileNews> = (0..20)
            .map(|file| FileNews {
                path: PathBuf::from(format!("/p/{file}.py")),
                problems: (1..40)
                    .map(|line| problem(line, &"long ".repeat(300)))
                    .collect(),
            })
            .collect();
        let text = tell(&many, &|path| path.display().to_string()).unwrap_or_default();
        assert!(text.len() < SHOWN_BYTES + 100, "{}", text.len());
        assert!(text.ends_with("more omitted.]"), "{text}");
        let short: Vec<FileNews> = (0..20)
            .map(|file| FileNews {
                path: PathBuf::from(format!("/p/{file}")),
                problems: (1..40).map(|line| problem(line, "m")).collect(),
            })
            .collect();
        let text = tell(&short, &|path| path.display().to_string()).unwrap_or_default();
        assert_eq!(text.matches("error: m").count(), SHOWN, "{text}");
        assert_eq!(text.lines().filter(|line| *line == "/p/0").count(), 1);
        assert_eq!(text.matches(" [test]").count(), SHOWN);
        assert_eq!(tell(&[], &|path| path.display().to_string()), None);
    }

    #[test]
    fn problems_are_read_as_servers_send_them() {
        let list = json!([
            {"range": {"start": {"line": 1, "character": 3}, "end": {}}, "severity": 2, "message": "odd\u{1b}[1m",
             "code": 2322, "source": "ts"},
            {"range": {"start": {"line": 0, "character": 0}}, "message": {"kind": "markdown", "value": "x"}, "code": "E1"},
            {"message": "no place"},
            {"range": {"start": {"line": -1}}, "message": "nowhere"},
            7,
        ]);
        let mut problems = read_list(&list);
        to_columns(&mut problems, "x\n😀y", Encoding::Utf16);
        assert_eq!(problems.len(), 2);
        assert_eq!(line_of(&problems[0], 300), "2:3 warning: odd[1m [ts 2322]");
        assert_eq!(line_of(&problems[1], 300), "1:1 error: x [E1]");
        assert!(read_list(&Value::Null).is_empty());
        let text = tell(
            &[FileNews {
                path: Path::new("/p/a").into(),
                problems,
            }],
            &|_| "a".to_owned(),
        );
        assert!(text.is_some_and(|text| {
            text.ends_with("a\n  2:3 warning: odd[1m [ts 2322]\n  1:1 error: x [E1]")
        }));
    }
}
