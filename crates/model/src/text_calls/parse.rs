//! Finds calls in words. Pure, and tolerant: fences, tags, bare JSON, several spellings of everything.

use crate::wire::calls::meant;
use serde_json::{Map, Value};

/// The tools that are offered.
#[derive(Debug, Default)]
pub(crate) struct Offered {
    pub(crate) names: Vec<String>,
    schemas: Vec<Value>,
}

/// A call that was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TextCall {
    pub(crate) name: String,
    /// The arguments as JSON text; not an object if the model wrote something broken.
    pub(crate) arguments: String,
}

impl Offered {
    pub(crate) fn new(tools: &[(String, String, Value)]) -> Self {
        Self {
            names: tools.iter().map(|(name, _, _)| name.clone()).collect(),
            schemas: tools.iter().map(|(_, _, schema)| schema.clone()).collect(),
        }
    }

    fn schema(&self, name: &str) -> Option<&Value> {
        let at = self.names.iter().position(|known| known == name)?;
        self.schemas.get(at)
    }

    /// Whether an input could be meant for a tool: what is required is there, and nothing else than it knows.
    fn fits(&self, name: &str, input: &Map<String, Value>) -> bool {
        let Some(schema) = self.schema(name) else {
            return false;
        };
        let required = schema["required"].as_array().into_iter().flatten();
        let complete = required
            .filter_map(Value::as_str)
            .all(|key| input.contains_key(key));
        let known = schema["properties"].as_object();
        complete && known.is_none_or(|known| input.keys().all(|key| known.contains_key(key)))
    }

    /// The calls that a JSON value is; empty if it is none.
    pub(crate) fn calls(&self, value: &Value) -> Vec<TextCall> {
        match value {
            Value::Array(items) => {
                let calls: Vec<Vec<TextCall>> = items.iter().map(|item| self.calls(item)).collect();
                if calls.iter().any(Vec::is_empty) {
                    return Vec::new();
                }
                calls.into_iter().flatten().collect()
            }
            Value::Object(fields) => self.call(fields).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn call(&self, fields: &Map<String, Value>) -> Option<TextCall> {
        if let Some(inner) = fields.get("function").and_then(Value::as_object) {
            return self.call(inner);
        }
        if let Some(list) = fields.get("tool_calls").and_then(Value::as_array)
            && let [only] = list.as_slice()
        {
            return self.call(only.as_object()?);
        }
        let name = ["name", "tool", "tool_name", "function", "recipient_name"]
            .into_iter()
            .find_map(|key| fields.get(key).and_then(Value::as_str))?;
        let name = meant(name, &self.names)?;
        let arguments = ["arguments", "parameters", "input", "args", "tool_input"]
            .into_iter()
            .find_map(|key| fields.get(key));
        let input = match arguments {
            Some(Value::Object(input)) => input.clone(),
            Some(Value::String(text)) => serde_json::from_str(text).ok()?,
            Some(Value::Null) | None => Map::new(),
            Some(_) => return None,
        };
        self.fits(name, &input).then(|| TextCall {
            name: name.to_owned(),
            arguments: Value::Object(input).to_string(),
        })
    }

    /// The calls in `<function=name><parameter=key>value</parameter></function>`.
    fn tagged(&self, text: &str) -> Option<TextCall> {
        let rest = &text[text.find("<function=")? + "<function=".len()..];
        let (name, rest) = rest.split_once('>')?;
        let name = meant(name.trim().trim_matches(['"', '\'']), &self.names)?;
        let properties = self.schema(name).map(|schema| &schema["properties"]);
        let mut input = Map::new();
        let mut rest = rest;
        while let Some(at) = rest.find("<parameter=") {
            let (key, after) = rest[at + "<parameter=".len()..].split_once('>')?;
            let key = key.trim().trim_matches(['"', '\'']);
            let end = after.find("</parameter>").unwrap_or(after.len());
            let value = after[..end].trim_matches('\n');
            let is_text = properties.is_none_or(|known| known[key]["type"] == "string");
            let value = if is_text {
                Value::String(value.to_owned())
            } else {
                serde_json::from_str(value.trim())
                    .unwrap_or_else(|_| Value::String(value.to_owned()))
            };
            input.insert(key.to_owned(), value);
            rest = after.get(end + "</parameter>".len()..).unwrap_or_default();
        }
        self.fits(name, &input).then(|| TextCall {
            name: name.to_owned(),
            arguments: Value::Object(input).to_string(),
        })
    }

    /// The calls inside of a tag or a fence.
    pub(crate) fn inside(&self, text: &str) -> Vec<TextCall> {
        let text = text.trim();
        if let Some(call) = self.tagged(text) {
            return vec![call];
        }
        let mut calls = Vec::new();
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        // One document after the other, or one a line.
        while let Some(Ok(value)) = values.next() {
            let found = self.calls(&value);
            if found.is_empty() {
                return Vec::new();
            }
            calls.extend(found);
        }
        let rest = text.get(values.byte_offset()..).unwrap_or_default();
        if rest.trim().is_empty() {
            calls
        } else {
            Vec::new()
        }
    }

    /// A call that was meant, but can't be read: the model is told so by the result.
    pub(crate) fn broken(&self, text: &str) -> Option<TextCall> {
        let at = text.find("\"name\"")? + "\"name\"".len();
        let name = text[at..].trim_start().strip_prefix(':')?.trim_start();
        let name = name.strip_prefix('"')?.split('"').next()?;
        let name = meant(name, &self.names)?;
        let start = ["\"arguments\"", "\"parameters\"", "\"input\""]
            .into_iter()
            .find_map(|key| Some(text.find(key)? + key.len()));
        let arguments = start.map_or("", |start| {
            text[start..].trim_start_matches([':', ' ', '\n'])
        });
        let arguments = if serde_json::from_str::<Map<String, Value>>(arguments).is_ok() {
            // It parses by itself, so what was wrong is around it; an object it must not be taken for.
            format!("{arguments} ")
        } else if arguments.trim().is_empty() {
            "{".to_owned()
        } else {
            arguments.to_owned()
        };
        Some(TextCall {
            name: name.to_owned(),
            arguments,
        })
    }
}

/// Possible beginnings of a call.
const OPENERS: [(&str, &str); 5] = [
    ("<tool_call>", "</tool_call>"),
    ("<function_call>", "</function_call>"),
    ("<function=", "</function>"),
    ("<tool_use>", "</tool_use>"),
    ("```", "```"),
];

/// A piece of words.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    Words(String),
    Calls(Vec<TextCall>),
}

/// Splits words that come in pieces into words and calls. Words are held back only while they may be a call.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    held: String,
    /// Whether anything but blanks was given out.
    began: bool,
}

/// The most that is held back.
const MOST: usize = 256 * 1024;

impl Splitter {
    pub(crate) fn push(&mut self, text: &str, offered: &Offered) -> Vec<Found> {
        self.held.push_str(text);
        let mut found = Vec::new();
        while self.step(offered, &mut found) {}
        found
    }

    /// The text held back, at the end of the stream.
    pub(crate) fn finish(&mut self, offered: &Offered) -> Vec<Found> {
        let mut found = Vec::new();
        let rest = std::mem::take(&mut self.held);
        if rest.trim().is_empty() {
            return found;
        }
        let (before, body, tagged) = match opener(&rest) {
            Some((at, open, _)) => {
                let body = &rest[at + body_start(open, &rest[at..])..];
                (&rest[..at], body, open != "```")
            }
            None => ("", rest.as_str(), false),
        };
        // A closing tag that is missing is no reason to lose the call.
        let calls = offered.inside(body.trim().trim_end_matches('`'));
        if !calls.is_empty() {
            push_words(&mut found, before);
            found.push(Found::Calls(calls));
        } else if let Some(call) = offered.broken(body).filter(|_| tagged) {
            push_words(&mut found, before);
            found.push(Found::Calls(vec![call]));
        } else {
            push_words(&mut found, &rest);
        }
        found
    }

    fn step(&mut self, offered: &Offered, found: &mut Vec<Found>) -> bool {
        if !self.began {
            let trimmed = self.held.trim_start();
            if trimmed.is_empty() {
                return false;
            }
            if trimmed.starts_with(['{', '[']) && self.held.len() < MOST {
                return self.bare(offered, found);
            }
        }
        match opener(&self.held) {
            None => {
                let keep = undecided(&self.held);
                let words: String = self.held.drain(..keep).collect();
                if !words.trim().is_empty() {
                    self.began = true;
                }
                push_words(found, &words);
                false
            }
            Some((at, open, close)) => {
                let start = at + body_start(open, &self.held[at..]);
                let Some(length) = self.held[start..].find(close) else {
                    if at > 0 {
                        let words: String = self.held.drain(..at).collect();
                        self.began |= !words.trim().is_empty();
                        push_words(found, words.trim_end());
                    }
                    if self.held.len() > MOST {
                        let words = std::mem::take(&mut self.held);
                        push_words(found, &words);
                    }
                    return false;
                };
                let end = start + length + close.len();
                let body = &self.held[start..start + length];
                let whole = &self.held[at..start + length];
                let mut calls = offered.inside(if open == "<function=" { whole } else { body });
                if calls.is_empty() && open != "```" {
                    calls.extend(offered.broken(body));
                }
                let before = self.held[..at].to_owned();
                if calls.is_empty() {
                    let words: String = self.held.drain(..end).collect();
                    self.began = true;
                    push_words(found, &words);
                } else {
                    self.held.drain(..end);
                    push_words(found, before.trim_end());
                    self.began = true;
                    found.push(Found::Calls(calls));
                    self.held = self.held.trim_start().to_owned();
                }
                true
            }
        }
    }

    /// JSON at the very beginning.
    fn bare(&mut self, offered: &Offered, found: &mut Vec<Found>) -> bool {
        let mut values = serde_json::Deserializer::from_str(&self.held).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                let end = values.byte_offset();
                let calls = offered.calls(&value);
                let taken: String = self.held.drain(..end).collect();
                if calls.is_empty() {
                    self.began = true;
                    push_words(found, &taken);
                } else {
                    found.push(Found::Calls(calls));
                    self.held = self.held.trim_start().trim_start_matches(';').to_owned();
                }
                true
            }
            Some(Err(error)) if error.is_eof() => false,
            _ => {
                self.began = true;
                true
            }
        }
    }
}

fn push_words(found: &mut Vec<Found>, words: &str) {
    if !words.is_empty() {
        found.push(Found::Words(words.to_owned()));
    }
}

/// The first opener, with its place and what closes it. A fence only begins a line.
fn opener(text: &str) -> Option<(usize, &'static str, &'static str)> {
    OPENERS
        .iter()
        .filter_map(|(open, close)| {
            let at = if *open == "```" {
                let mut from = 0;
                loop {
                    let at = from + text[from..].find(open)?;
                    if at == 0 || text[..at].ends_with('\n') {
                        break at;
                    }
                    from = at + open.len();
                }
            } else {
                text.find(open)?
            };
            Some((at, *open, *close))
        })
        .min_by_key(|(at, _, _)| *at)
}

/// Where the inside of an opener begins: behind the word of a fence.
fn body_start(open: &str, text: &str) -> usize {
    if open != "```" {
        return open.len();
    }
    let line = text.find('\n').map_or(text.len(), |at| at + 1);
    // ```{"name": …}``` on one line.
    match text[..line].find(['{', '[']) {
        Some(at) => at,
        None => line,
    }
}

/// How much of the text can't be the beginning of an opener.
fn undecided(text: &str) -> usize {
    let longest = 16;
    for back in (1..=longest.min(text.len())).rev() {
        let at = text.len() - back;
        let Some(tail) = text.get(at..) else {
            continue;
        };
        let fence =
            tail.chars().all(|letter| letter == '`') && (at == 0 || text[..at].ends_with('\n'));
        if fence
            || OPENERS
                .iter()
                .any(|(open, _)| *open != "```" && open.starts_with(tail))
        {
            return at;
        }
    }
    text.len()
}

/// Whether an answer may turn out to be nothing but a call; `None` until that is known.
pub(crate) fn may_be_call(text: &str) -> Option<bool> {
    let trimmed = text.trim_start();
    if trimmed.is_empty() {
        return None;
    }
    if trimmed.starts_with(['{', '[']) {
        return Some(true);
    }
    for (open, _) in OPENERS {
        if trimmed.starts_with(open) {
            return Some(true);
        }
        if open.starts_with(trimmed) {
            return None;
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn offered() -> Offered {
        Offered::new(&[
            (
                "Read".into(),
                String::new(),
                json!({"properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}, "required": ["path"]}),
            ),
            ("Now".into(), String::new(), json!({"properties": {}})),
        ])
    }

    fn split(text: &str, size: usize) -> (String, Vec<(String, Value)>) {
        let offered = offered();
        let mut splitter = Splitter::default();
        let letters: Vec<char> = text.chars().collect();
        let mut all = Vec::new();
        for piece in letters.chunks(size) {
            all.extend(splitter.push(&piece.iter().collect::<String>(), &offered));
        }
        all.extend(splitter.finish(&offered));
        let (mut words, mut calls) = (String::new(), Vec::new());
        for found in all {
            match found {
                Found::Words(text) => words.push_str(&text),
                Found::Calls(found) => calls.extend(found.into_iter().map(|call| {
                    let input = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
                    (call.name, input)
                })),
            }
        }
        (words.trim().to_owned(), calls)
    }

    #[test]
    fn calls_are_found_in_every_form_wherever_they_are_cut() {
        let read = || ("Read".to_owned(), json!({"path": "a"}));
        for (text, words, calls) in [
            (
                "<tool_call>\n{\"name\": \"Read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>",
                "",
                vec![read()],
            ),
            (
                "I look.\n```json\n{\"name\": \"read\", \"parameters\": {\"path\": \"a\"}}\n```",
                "I look.",
                vec![read()],
            ),
            (
                "```tool_call\n{\"tool\": \"Read\", \"input\": {\"path\": \"a\"}}\n```\nDone.",
                "Done.",
                vec![read()],
            ),
            (
                "{\"name\": \"Read\", \"arguments\": \"{\\\"path\\\": \\\"a\\\"}\"}",
                "",
                vec![read()],
            ),
            (
                "{\"type\": \"function\", \"function\": {\"name\": \"Read\", \"arguments\": {\"path\": \"a\"}}}",
                "",
                vec![read()],
            ),
            (
                "<function=Read><parameter=path>a</parameter></function>",
                "",
                vec![read()],
            ),
            (
                "<tool_call><function=Read>\n<parameter=path>\na\n</parameter>\n<parameter=limit>3</parameter></function></tool_call>",
                "",
                vec![("Read".to_owned(), json!({"path": "a", "limit": 3}))],
            ),
            (
                "<tool_call>{\"name\":\"Now\"}</tool_call><tool_call>{\"name\":\"Read\",\"arguments\":{\"path\":\"a\"}}</tool_call>",
                "",
                vec![("Now".to_owned(), json!({})), read()],
            ),
            (
                "<tool_call>\n{\"name\": \"Read\", \"arguments\": {\"path\": \"a\"}}",
                "",
                vec![read()],
            ),
            (
                "[{\"name\": \"Now\"}, {\"name\": \"Read\", \"arguments\": {\"path\": \"a\"}}]",
                "",
                vec![("Now".to_owned(), json!({})), read()],
            ),
        ] {
            for size in [1, 2, 3, 7, 1000] {
                assert_eq!(
                    split(text, size),
                    (words.to_owned(), calls.clone()),
                    "{text} by {size}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_call_stays_words() {
        for text in [
            "plain words with { braces } and ``` ticks",
            "```json\n{\"name\": \"Nope\", \"arguments\": {}}\n```",
            "```json\n{\"name\": \"Read\", \"arguments\": {}}\n```",
            "```json\n{\"name\": \"Read\", \"arguments\": {\"path\": \"a\", \"other\": 1}}\n```",
            "```rust\nfn main() {}\n```\nand more",
            "{\"just\": \"json\"} and words",
            "a < b, <b>bold</b>, <tool",
        ] {
            for size in [1, 3, 1000] {
                let (words, calls) = split(text, size);
                assert!(calls.is_empty(), "{text}");
                assert_eq!(words, text.trim(), "by {size}");
            }
        }
    }

    #[test]
    fn broken_json_in_a_tag_is_a_call_that_fails() {
        let (_, calls) = split(
            "<tool_call>{\"name\": \"Read\", \"arguments\": {\"path\": </tool_call>",
            5,
        );
        assert_eq!(calls, [("Read".to_owned(), Value::Null)]);
    }

    #[test]
    fn words_are_held_back_only_while_they_may_be_a_call() {
        let offered = offered();
        let mut splitter = Splitter::default();
        assert_eq!(
            splitter.push("Hello", &offered),
            [Found::Words("Hello".into())]
        );
        assert_eq!(
            splitter.push(" <tool", &offered),
            [Found::Words(" ".into())]
        );
        assert_eq!(
            splitter.push("box>", &offered),
            [Found::Words("<toolbox>".into())]
        );
    }
}
