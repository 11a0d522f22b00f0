//! Front matter: the keys between two `---` lines at the top of a Markdown file.
//!
//! It is YAML 1.2 (`yes` is a string, not a boolean), read leniently. If one value breaks the YAML,
//! as a colon in an unquoted description does, the keys are parsed one by one, and those that fail
//! are reported as a [`Problem`] with their line. Most files contain only plain `key: text` lines;
//! those skip the YAML parser, which matters with hundreds of files.

use crate::problem::Problem;
use serde_json::Value;
use std::path::Path;

/// A Markdown file, split into front matter and body.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Document {
    /// The keys in the order of the file, with their lines (from 1).
    pub fields: Vec<Field>,
    pub has_front_matter: bool,
    pub body: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub key: String,
    /// From 1.
    pub line: Option<usize>,
    pub value: Value,
}

/// The front matter of a file and the rest of it.
pub(crate) struct Head<'a> {
    pub(crate) fields: Vec<Field>,
    has_front_matter: bool,
    /// Everything after the front matter, unchanged.
    pub(crate) rest: &'a str,
}

/// Splits a file into front matter and body. Mistakes are added to `problems`; parsing never fails.
#[must_use]
pub fn parse(file: &Path, text: &str, problems: &mut Vec<Problem>) -> Document {
    let head = head(file, text, problems);
    Document {
        fields: head.fields,
        has_front_matter: head.has_front_matter,
        body: normalised(head.rest),
    }
}

/// Like [`parse`], but without copying the body.
pub(crate) fn head<'a>(file: &Path, text: &'a str, problems: &mut Vec<Problem>) -> Head<'a> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (blank, rest) = leading_blank_lines(text);
    let without = |rest| Head {
        fields: Vec::new(),
        has_front_matter: false,
        rest,
    };
    let Some(after_fence) = fence(rest) else {
        return without(text);
    };
    let mut offset = 0;
    let closed = after_fence.split_inclusive('\n').find_map(|line| {
        let start = offset;
        offset += line.len();
        (line.starts_with("---") && line.trim_end() == "---").then_some((start, offset))
    });
    let Some((end, body)) = closed else {
        problems.push(
            Problem::field(
                file,
                "",
                "the front matter that starts here is not closed, so the whole file is taken as text",
            )
            .at(Some(blank + 1))
            .fix("put a line with --- after the last key"),
        );
        return without(text);
    };
    let front = &after_fence[..end];
    let first_line = blank + 2;
    let fields = if front.contains('\r') {
        let lines = front.split_inclusive('\n');
        let lines = lines.map(|line| line.trim_end_matches(['\r', '\n']));
        let front: String = lines.flat_map(|line| [line, "\n"]).collect();
        fields(file, &front, first_line, problems)
    } else {
        fields(file, front, first_line, problems)
    };
    Head {
        fields,
        has_front_matter: true,
        rest: &after_fence[body..],
    }
}

/// The rest after an opening `---` line.
fn fence(text: &str) -> Option<&str> {
    let end = text.find('\n')?;
    (text[..end].trim_end() == "---").then(|| &text[end + 1..])
}

fn leading_blank_lines(text: &str) -> (usize, &str) {
    let (mut count, mut rest) = (0, text);
    while let Some(end) = rest.find('\n') {
        if !rest[..end].trim().is_empty() {
            break;
        }
        count += 1;
        rest = &rest[end + 1..];
    }
    (count, rest)
}

/// Normalises line endings and removes leading blank lines.
fn normalised(text: &str) -> String {
    let text = if text.contains('\r') {
        text.replace("\r\n", "\n")
    } else {
        text.to_owned()
    };
    let (_, rest) = leading_blank_lines(&text);
    rest.trim_end().to_owned()
}

struct Block<'a> {
    line: usize,
    text: &'a str,
}

fn fields(file: &Path, front: &str, first_line: usize, problems: &mut Vec<Problem>) -> Vec<Field> {
    if let Some(plain) = plain_lines(front, first_line) {
        return plain;
    }
    let dedented = without_common_indent(front);
    let front = dedented.as_deref().unwrap_or(front);
    let blocks = blocks(front, first_line);
    if let Some(plain) = blocks.iter().map(plain_field).collect::<Option<Vec<_>>>() {
        return without_duplicates(file, plain, problems);
    }
    let line_of = |key: &str| {
        blocks
            .iter()
            .find(|block| key_of(block.text) == Some(key))
            .map(|block| block.line)
    };
    match yaml(front) {
        Ok(Value::Object(map)) => {
            return map
                .into_iter()
                .map(|(key, value)| Field {
                    line: line_of(&key),
                    key,
                    value,
                })
                .collect();
        }
        Ok(Value::Null) => return Vec::new(),
        Ok(_) => {
            problems.push(
                Problem::field(file, "", "the front matter is not a list of keys")
                    .at(Some(first_line))
                    .fix("write one key: value per line"),
            );
            return Vec::new();
        }
        Err(_) => {}
    }
    let found = blocks
        .iter()
        .filter_map(|block| lenient_field(file, block, problems))
        .collect();
    without_duplicates(file, found, problems)
}

/// Parses front matter that consists only of `key: value` lines with distinct keys and plain
/// values, as nearly all does; `None` otherwise. A single pass, since it runs for every file at
/// every start.
fn plain_lines(front: &str, first_line: usize) -> Option<Vec<Field>> {
    let bytes = front.as_bytes();
    let mut fields: Vec<Field> = Vec::with_capacity(8);
    let (mut at, mut line) = (0, first_line);
    while at < bytes.len() {
        let start = at;
        while at < bytes.len()
            && (bytes[at].is_ascii_alphanumeric() || matches!(bytes[at], b'-' | b'_'))
        {
            at += 1;
        }
        let key = &front[start..at];
        if key.is_empty() || key.starts_with('-') || bytes.get(at) != Some(&b':') {
            return None;
        }
        let value = at + 1;
        while at < bytes.len() && bytes[at] != b'\n' {
            at += 1;
        }
        let value = match front[value..at].strip_prefix(' ') {
            Some(value) => value.trim(),
            None if value == at => "",
            None => return None,
        };
        if fields.iter().any(|known| known.key == key) {
            return None;
        }
        fields.push(Field {
            key: key.to_owned(),
            line: Some(line),
            value: plain_value(value)?,
        });
        at += 1;
        line += 1;
    }
    Some(fields)
}

/// The lines without the indentation that all of them have; `None` if there is none.
fn without_common_indent(front: &str) -> Option<String> {
    let lines = || front.lines().filter(|line| !line.trim().is_empty());
    let depth = lines()
        .map(|line| line.len() - line.trim_start_matches([' ', '\t']).len())
        .min()
        .filter(|depth| *depth > 0)?;
    let cut = |line: &str| line.get(depth..).unwrap_or_default().to_owned() + "\n";
    Some(front.lines().map(cut).collect())
}

/// Splits front matter into keys with their lines.
fn blocks(front: &str, first_line: usize) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let (mut start, mut offset) = (None::<(usize, usize)>, 0);
    let mut close = |start: Option<(usize, usize)>, end: usize| {
        if let Some((from, line)) = start {
            blocks.push(Block {
                line,
                text: front[from..end].trim_end(),
            });
        }
    };
    for (index, line) in front.split_inclusive('\n').enumerate() {
        let begins = line.starts_with(|first: char| {
            !first.is_whitespace() && !matches!(first, '#' | '-' | ']' | '}')
        });
        if begins {
            close(start, offset);
            start = Some((offset, first_line + index));
        }
        offset += line.len();
    }
    close(start, offset);
    blocks
}

fn key_of(text: &str) -> Option<&str> {
    let (key, _) = text.lines().next()?.split_once(':')?;
    Some(key.trim().trim_matches(['"', '\'']))
}

/// Parses a block whose YAML meaning is obvious: `key: text`, quoted text, a short list; `None`
/// otherwise.
fn plain_field(block: &Block<'_>) -> Option<Field> {
    let (first, more) = match block.text.split_once('\n') {
        Some((first, more)) => (first.trim_end(), Some(more)),
        None => (block.text, None),
    };
    let (key, value) = first.split_once(':')?;
    let is_key = !key.is_empty()
        && key
            .bytes()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_'));
    let value = match value.strip_prefix(' ') {
        Some(value) => value.trim(),
        None if value.is_empty() => "",
        None => return None,
    };
    let value = match more {
        None => plain_value(value)?,
        Some(items) if value.is_empty() => plain_items(items)?,
        Some(_) => return None,
    };
    is_key.then(|| Field {
        key: key.to_owned(),
        line: Some(block.line),
        value,
    })
}

/// A value on one line.
fn plain_value(value: &str) -> Option<Value> {
    if !value.starts_with(['"', '\'', '[']) {
        return plain_words(value);
    }
    let quoted = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    if value.len() > 1
        && let Some(words) = quoted('"').or_else(|| quoted('\''))
    {
        let is_simple = !words.contains(['"', '\'', '\\', '\t']);
        return is_simple.then(|| Value::String(words.to_owned()));
    }
    if let Some(items) = value
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        let is_simple = !items.contains([':', '#', '"', '\'', '[', ']', '{', '}']);
        let items = items.split(',').map(|item| plain_words(item.trim()));
        return items
            .collect::<Option<Vec<Value>>>()
            .filter(|items| is_simple && !items.contains(&Value::Null))
            .map(Value::Array);
    }
    None
}

/// Lines of the form `- text`, all indented like the first.
fn plain_items(lines: &str) -> Option<Value> {
    let depth = lines.len() - lines.trim_start_matches(' ').len();
    let item = |line: &str| {
        let words = line.trim_end().get(depth..)?.strip_prefix("- ")?.trim();
        let is_simple = line[..depth].chars().all(|blank| blank == ' ');
        plain_words(words).filter(|value| is_simple && *value != Value::Null)
    };
    lines
        .lines()
        .map(item)
        .collect::<Option<Vec<Value>>>()
        .map(Value::Array)
}

/// An unquoted value.
fn plain_words(value: &str) -> Option<Value> {
    let is_plain = value
        .chars()
        .next()
        .is_none_or(|first| first.is_alphabetic() || first == '/');
    // One pass: neither `: ` nor ` #` nor a tab, and no colon at the end.
    let mut before = 0;
    for byte in value.bytes() {
        match (before, byte) {
            (b':', b' ') | (b' ', b'#') | (_, b'\t') => return None,
            _ => before = byte,
        }
    }
    (is_plain && before != b':').then(|| match value {
        "" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        words => Value::String(words.to_owned()),
    })
}

/// Parses one key by itself: as YAML, else with its value taken literally.
fn lenient_field(file: &Path, block: &Block<'_>, problems: &mut Vec<Problem>) -> Option<Field> {
    if let Some(field) = plain_field(block) {
        return Some(field);
    }
    let error = match yaml(block.text) {
        Ok(Value::Object(map)) if map.len() == 1 => {
            return map.into_iter().next().map(|(key, value)| Field {
                key,
                line: Some(block.line),
                value,
            });
        }
        Ok(_) => "it is not a key with a value".to_owned(),
        Err(error) => error.to_string(),
    };
    let Some((key, value)) = block.text.split_once(':') else {
        problems.push(
            Problem::field(
                file,
                "",
                format!("this line of the front matter can't be parsed: {error}"),
            )
            .at(Some(block.line))
            .fix("write key: value"),
        );
        return None;
    };
    let key = key.trim().trim_matches(['"', '\'']);
    let value = value.trim();
    let is_structure = value.is_empty()
        || (value.starts_with('{') && (value.contains('\n') || !is_template(value)))
        || (value.starts_with(['&', '*', '!']) && value.contains('\n'))
        || (value.starts_with('[') && !is_hint(value) && (!is_prose(key) || value.contains('\n')))
        || value
            .lines()
            .skip(1)
            .any(|line| line.trim_start().starts_with("- "));
    if is_structure {
        problems.push(
            Problem::field(
                file,
                key,
                format!("is not valid YAML, so it is ignored: {error}"),
            )
            .at(Some(block.line)),
        );
        return None;
    }
    problems.push(
        Problem::field(file, key, "is not valid YAML; it is taken literally")
            .at(Some(block.line))
            .fix("put the value into double quotes"),
    );
    Some(Field {
        key: key.to_owned(),
        line: Some(block.line),
        value: Value::String(word_for_word(value)),
    })
}

/// True if the value of a key is always text, whatever it begins with.
fn is_prose(key: &str) -> bool {
    matches!(
        key,
        "name" | "description" | "when_to_use" | "argument-hint"
    )
}

/// True if a value only looks like a list, as in `argument-hint: [file] [line]`.
fn is_hint(value: &str) -> bool {
    let opened = value.matches('[').count();
    !value.contains('\n') && opened > 0 && opened == value.matches(']').count()
}

/// True if a value only looks like a map, as in `description: {{name}} of the thing`.
fn is_template(value: &str) -> bool {
    value.starts_with("{{") || !value.ends_with('}')
}

/// The text of a value that is not valid YAML, on one line, without enclosing quotes.
fn word_for_word(value: &str) -> String {
    let block = value.starts_with(['|', '>']);
    let lines: Vec<&str> = value
        .lines()
        .skip(usize::from(block))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let joined = lines.join(" ");
    // A quote that is neither closed at the end nor elsewhere was forgotten; others are text.
    let quoted = |quote: char| {
        let inner = joined.strip_prefix(quote)?;
        match inner.strip_suffix(quote) {
            Some(inner) => Some(inner.to_owned()),
            None if inner.contains(quote) => None,
            None => Some(inner.to_owned()),
        }
    };
    quoted('"').or_else(|| quoted('\'')).unwrap_or(joined)
}

fn without_duplicates(file: &Path, found: Vec<Field>, problems: &mut Vec<Problem>) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::with_capacity(found.len());
    for field in found {
        if let Some(known) = fields.iter_mut().find(|known| known.key == field.key) {
            problems.push(
                Problem::field(file, &field.key, "is given twice; the last value is used")
                    .at(field.line),
            );
            *known = field;
        } else {
            fields.push(field);
        }
    }
    fields
}

/// The first line of a YAML parser's message.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.to_string().lines().next().unwrap_or_default())]
struct YamlError(#[source] Box<serde_saphyr::Error>);

fn yaml(text: &str) -> Result<Value, YamlError> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        budget: serde_saphyr::budget! { max_events: 20_000, max_aliases: 100, max_depth: 32 },
    };
    serde_saphyr::from_str_with_options::<Value>(text, options)
        .map_err(|error| YamlError(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn read(text: &str) -> (Document, Vec<Problem>) {
        let mut problems = Vec::new();
        let document = parse(Path::new("x.md"), text, &mut problems);
        (document, problems)
    }

    fn map(document: &Document) -> Value {
        document
            .fields
            .iter()
            .map(|field| (field.key.clone(), field.value.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    #[test]
    fn plain_keys_lists_quotes_and_blocks_are_read() {
        let (document, problems) = read(
            "---\nname: a-b\ndescription: \"one: two\"\ntools: [Read, Grep]\nlist:\n  - x\n  - y\nlong: |\n  first\n  second\nfolded: >-\n  one\n  two\nmaxTurns: 5\non: true\nword: yes\nempty:\n---\n\nBody\n",
        );
        assert_eq!(problems, []);
        assert_eq!(
            map(&document),
            json!({"name": "a-b", "description": "one: two", "tools": ["Read", "Grep"], "list": ["x", "y"],
                "long": "first\nsecond\n", "folded": "one two", "maxTurns": 5, "on": true, "word": "yes", "empty": null})
        );
        assert_eq!(document.body, "Body");
        assert_eq!(document.fields[2].line, Some(4));
    }

    #[test]
    fn a_description_that_opens_a_bracket_is_text_and_a_list_is_not() {
        let (document, problems) =
            read("---\ndescription: [unclosed and more\ntools: [Read\n---\nBody\n");
        assert_eq!(map(&document), json!({"description": "[unclosed and more"}));
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    #[test]
    fn the_quick_way_and_yaml_agree() {
        for line in [
            "a: b",
            "a: true",
            "a: True",
            "a: null",
            "a: yes",
            "a: off",
            "a: word word, word",
            "a: é",
            "a: x#y",
            "a: /tmp/x",
            "a:",
            "a: it's",
            "a: b:c",
            "a: x \"y\"",
            "a: Nan",
            "a: e5",
            "a: \"[one] <two>: three\"",
            "a: 'x # y'",
            "a: \"\"",
            "a: [b]",
            "a: [Read, Bash(git *), true]",
            "a:\n  - Read\n  - Bash(git log *)",
            "a:\n- x\n- y",
        ] {
            let block = Block {
                line: 1,
                text: line,
            };
            let quick = plain_field(&block).map(|field| json!({field.key: field.value}));
            assert_eq!(quick, yaml(line).ok(), "{line}");
        }
        for line in [
            "a: b: c",
            "a: b # c",
            "a: 5",
            "a: [b, 5]",
            "a: [b, c: d]",
            "a: []",
            "a: \"b\\n\"",
            "a: \"b\" c",
            "a:\n  - b: c",
            "a:\n  - b\n    - c",
            "a:\n  b: c",
            "a:b",
            "a: b:",
            "a: ~",
            "a: -x",
        ] {
            let block = Block {
                line: 1,
                text: line,
            };
            assert!(plain_field(&block).is_none(), "{line}");
        }
    }

    #[test]
    fn whatever_the_quick_way_reads_yaml_reads_the_same() {
        const PIECES: [&str; 24] = [
            "a", "b c", "true", "null", "no", "5", "1e3", ".5", "é", "/", " ", ":", ": ", " #",
            "#", "-", "- ", ", ", "'", "\"", "[", "]", "{", "\n  - x",
        ];
        let (mut quick, mut lines) = (0, 0);
        for number in 0..PIECES.len().pow(3) {
            let mut value = String::new();
            let mut left = number;
            for _ in 0..3 {
                value.push_str(PIECES[left % PIECES.len()]);
                left /= PIECES.len();
            }
            let line = format!("key: {value}");
            let block = Block {
                line: 1,
                text: line.trim_end(),
            };
            if let Some(field) = plain_field(&block) {
                quick += 1;
                assert_eq!(
                    json!({field.key: field.value}),
                    yaml(&line).unwrap(),
                    "{line:?}"
                );
            }
            let front = format!("{line}\nother: words\n");
            if let Some(fields) = plain_lines(&front, 1) {
                lines += 1;
                let all = fields.iter().map(|field| (&field.key, &field.value));
                assert_eq!(
                    json!(all.collect::<BTreeMap<_, _>>()),
                    yaml(&front).unwrap(),
                    "{front:?}"
                );
                assert_eq!(fields[1].line, Some(2));
            }
        }
        assert!(quick > 1_000 && lines > 1_000, "{quick} {lines}");
    }

    #[test]
    fn text_that_only_looks_like_yaml_is_read_as_it_is_written() {
        for value in [
            "*bold* words",
            "{{placeholder}} of it",
            "{name} of the thing",
            "[WIP] not done",
            "%d things",
            "`code` first",
            "@file is read",
            "Use this: when, say: x \"y\" 'z'",
        ] {
            let (document, _) = read(&format!("---\ndescription: {value}\nmodel: opus\n---\n"));
            assert_eq!(
                map(&document),
                json!({"description": value, "model": "opus"})
            );
        }
    }

    #[test]
    fn front_matter_may_be_indented_as_a_whole() {
        let (document, problems) =
            read("---\n  name: x\n  list:\n    - a\n  description: y: z\n---\nBody\n");
        assert_eq!(
            map(&document),
            json!({"name": "x", "list": ["a"], "description": "y: z"})
        );
        assert_eq!(problems.len(), 1);
        assert_eq!(document.fields[2].line, Some(5));
        let (document, problems) = read("---\n\tname: x\n\tdescription: y\n---\nBody\n");
        assert_eq!(map(&document), json!({"name": "x", "description": "y"}));
        assert_eq!(problems, []);
    }

    #[test]
    fn byte_order_marks_line_endings_and_blank_lines_do_not_matter() {
        let (document, problems) =
            read("\u{feff}\r\n---\r\nname: x\r\n---  \r\n\r\nBody\r\nmore\r\n");
        assert_eq!(problems, []);
        assert_eq!(map(&document), json!({"name": "x"}));
        assert_eq!(document.body, "Body\nmore");
    }

    #[test]
    fn a_file_without_front_matter_is_all_body() {
        for text in [
            "# Title\n\n---\nnot: this\n---\n",
            "",
            "--- not a fence\nx",
            "----\na: b\n---\n",
        ] {
            let (document, problems) = read(text);
            assert!(!document.has_front_matter, "{text}");
            assert_eq!(problems, [], "{text}");
            assert_eq!(document.body, text.trim_end(), "{text}");
        }
    }

    #[test]
    fn front_matter_that_is_never_closed_is_reported_with_its_line() {
        let (document, problems) = read("---\nname: x\n# Title\nwords");
        assert!(document.fields.is_empty());
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].line, Some(1));
        assert!(document.body.contains("words"));
    }

    #[test]
    fn a_stray_colon_costs_nothing_but_a_remark() {
        let (document, problems) = read(
            "---\nname: x\ndescription: Use this: when something breaks\ntools: Read\n---\nBody",
        );
        assert_eq!(
            map(&document),
            json!({"name": "x", "description": "Use this: when something breaks", "tools": "Read"})
        );
        assert_eq!(problems.len(), 1);
        assert_eq!(
            (problems[0].line, problems[0].field.as_str()),
            (Some(3), "description")
        );
    }

    #[test]
    fn unreadable_files_are_reported_and_the_rest_is_used() {
        let (document, problems) = read(
            "---\nname: x\ntools: [Read, Grep\nhooks: {a: [}\nodd line\ndescription: \"open quote\nmodel: opus\n---\nBody",
        );
        assert_eq!(
            map(&document),
            json!({"name": "x", "description": "open quote", "model": "opus"})
        );
        let lines: Vec<Option<usize>> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [Some(3), Some(4), Some(5), Some(6)]);
    }

    #[test]
    fn duplicates_tabs_and_bombs_end_well() {
        let (document, problems) = read("---\na: x\na: y\n---\n");
        assert_eq!(map(&document), json!({"a": "y"}));
        assert_eq!(problems.len(), 1);
        let (document, _) = read("---\nname: x\nlist:\n\t- a\n---\n");
        assert_eq!(document.fields[0].value, json!("x"));
        let bomb = format!(
            "---\nname: x\na: &a [{}]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [{}]\n---\n",
            "y,".repeat(1_000),
            "*b,".repeat(1_000)
        );
        let (document, problems) = read(&bomb);
        assert_eq!(document.fields[0].value, json!("x"));
        assert!(!problems.is_empty());
        let deep = format!("---\nname: x\nd: {}\n---\n", "[".repeat(5_000));
        let (document, problems) = read(&deep);
        assert_eq!(document.fields[0].value, json!("x"));
        assert_eq!(problems.len(), 1);
    }
}
