//! Typed access to the keys of a file.
//!
//! Keys match in any spelling (`allowed-tools`, `allowed_tools`, `allowedTools`). A value of the
//! wrong type is reported as a [`Problem`] and ignored; the rest of the file is used.

use crate::front_matter::Field;
use crate::problem::Problem;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Reads keys and collects the problems.
pub(crate) struct Fields<'a> {
    file: &'a Path,
    /// The prefix of keys in messages, for entries of a larger document.
    prefix: String,
    fields: Vec<Field>,
    /// The set of first letters of the keys, to skip most lookups.
    initials: u32,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(file: &'a Path, fields: Vec<Field>, problems: &'a mut Vec<Problem>) -> Self {
        Self {
            file,
            prefix: String::new(),
            initials: initials(&fields),
            fields,
            problems,
        }
    }

    /// The keys of a JSON object; `prefix` is its path in messages.
    pub(crate) fn of_json(
        file: &'a Path,
        prefix: &str,
        object: &serde_json::Map<String, Value>,
        problems: &'a mut Vec<Problem>,
    ) -> Self {
        let fields = object.iter().map(|(key, value)| Field {
            key: key.clone(),
            line: None,
            value: value.clone(),
        });
        Self {
            prefix: format!("{prefix}."),
            ..Self::new(file, fields.collect(), problems)
        }
    }

    fn find(&self, name: &str) -> Option<&Field> {
        if self.initials & initial(name) == 0 {
            return None;
        }
        self.fields
            .iter()
            .find(|field| is_key(&field.key, name) && !field.value.is_null())
    }

    /// Reports unknown keys that look like a known one, which would be ignored silently otherwise.
    /// Other unknown keys belong to other programs.
    pub(crate) fn report_misspelt(&mut self, known: &[&str]) {
        let looks_like = |key: &str| {
            let is_word = key.len() >= 5 || key == "tool";
            let is_known = || known.iter().any(|name| is_key(key, name));
            let near = || lathe_settings::nearest::nearest(key, known.iter().copied());
            (is_word && !is_known()).then(near).flatten()
        };
        let found: Vec<(String, &str)> = self
            .fields
            .iter()
            .filter_map(|field| Some((field.key.clone(), looks_like(&field.key)?)))
            .collect();
        for (key, near) in found {
            let fix = format!("did you mean {near}?");
            self.report(&key, "is not a known key, so it is ignored", Some(&fix));
        }
    }

    /// Adds a key that the file doesn't have.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.initials |= initial(key);
        self.fields.push(Field {
            key: key.to_owned(),
            line: None,
            value: value.into(),
        });
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    pub(crate) fn report(&mut self, name: &str, message: impl Into<String>, fix: Option<&str>) {
        let field = self.find(name);
        let key = field.map_or(name, |field| &field.key);
        let mut problem = Problem::field(self.file, format!("{}{key}", self.prefix), message)
            .at(field.and_then(|field| field.line));
        problem.fix = fix.map(str::to_owned);
        self.problems.push(problem);
    }

    /// Reports a problem because of which the whole entry is ignored.
    pub(crate) fn report_fatal(&mut self, name: &str, message: impl Into<String>, fix: &str) {
        self.report(name, message, Some(fix));
        if let Some(problem) = self.problems.last_mut() {
            problem.fatal = true;
        }
    }

    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.find(name).map(|field| &field.value)
    }

    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        let words = match self.value(name)? {
            Value::String(text) => Some(text.trim().to_owned()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(bool) => Some(bool.to_string()),
            _ => None,
        };
        if words.is_none() {
            self.report(name, "must be a string; it is ignored", None);
        }
        words.filter(|words| !words.is_empty())
    }

    /// A string, or the content of a list where the quotes were forgotten (`argument-hint: [file]
    /// [line]`).
    pub(crate) fn hint(&mut self, name: &str) -> Option<String> {
        if let Some(Value::Array(items)) = self.value(name) {
            let words: Vec<String> = items.iter().map(as_written).collect();
            return Some(format!("[{}]", words.join(", ")));
        }
        self.text(name)
    }

    /// A boolean, also in the words of older YAML (`yes`, `off`), which other programs read as one.
    pub(crate) fn flag(&mut self, name: &str) -> Option<bool> {
        let flag = match self.value(name)? {
            Value::Bool(bool) => Some(*bool),
            Value::String(text) => lathe_settings::environment::parse_switch(text),
            _ => None,
        };
        if flag.is_none() {
            self.report(name, "must be true or false; it is ignored", None);
        }
        flag
    }

    /// A boolean that restricts: a value that can't be read counts as yes.
    pub(crate) fn restriction(&mut self, name: &str) -> bool {
        self.has(name) && self.flag(name) != Some(false)
    }

    /// A positive integer.
    pub(crate) fn count(&mut self, name: &str) -> Option<u32> {
        let number = match self.value(name)? {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        let number = number.and_then(|number| u32::try_from(number).ok());
        if number.is_none_or(|number| number == 0) {
            self.report(name, "must be a positive integer; it is ignored", None);
            return None;
        }
        number
    }

    pub(crate) fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let word = self.text(name)?;
        let found = choices
            .iter()
            .find(|(choice, _)| is_key(choice, &word))
            .map(|(_, value)| *value);
        if found.is_none() {
            let known: Vec<&str> = choices.iter().map(|(choice, _)| *choice).collect();
            self.report(
                name,
                format!("unknown value '{word}'; it is ignored"),
                Some(&format!("one of {}", known.join(", "))),
            );
        }
        found
    }

    /// The tools of an agent. A key without a value lists none, which is not the same as no key.
    pub(crate) fn own_tools(&mut self, name: &str) -> Option<Vec<String>> {
        let stands = |field: &Field| is_key(&field.key, name);
        let is_blank = |value: &Value| match value {
            Value::Null => true,
            Value::Array(items) => !items.is_empty() && items.iter().all(Value::is_null),
            _ => false,
        };
        let blank = self.fields.iter().find(|field| stands(field));
        if blank.is_some_and(|field| is_blank(&field.value)) {
            return Some(Vec::new());
        }
        self.tools(name)
    }

    /// A list of tools or rules: an array, or a string separated by commas or spaces outside
    /// parentheses.
    pub(crate) fn tools(&mut self, name: &str) -> Option<Vec<String>> {
        self.list_by(name, split_tools)
    }

    /// A list of names or patterns: an array, or a string separated by commas.
    pub(crate) fn list(&mut self, name: &str) -> Option<Vec<String>> {
        self.list_by(name, split_commas)
    }

    /// A list of names: an array, or a string separated by commas or spaces.
    pub(crate) fn names(&mut self, name: &str) -> Option<Vec<String>> {
        self.list_by(name, |text| {
            text.split([',', ' ', '\t', '\n'])
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect()
        })
    }

    fn list_by(&mut self, name: &str, split: impl Fn(&str) -> Vec<String>) -> Option<Vec<String>> {
        let items = match self.value(name)? {
            Value::String(text) => Some(split(text)),
            Value::Array(items) => items
                .iter()
                .map(|item| match item {
                    Value::String(text) => Some(text.trim().to_owned()),
                    Value::Number(number) => Some(number.to_string()),
                    _ => None,
                })
                .collect::<Option<Vec<String>>>()
                .map(|items| items.into_iter().filter(|item| !item.is_empty()).collect()),
            _ => None,
        };
        if items.is_none() {
            self.report(name, "must be a list of strings; it is ignored", None);
        }
        items
    }

    /// A map of strings.
    pub(crate) fn words(&mut self, name: &str) -> BTreeMap<String, String> {
        match self.value(name) {
            None => BTreeMap::new(),
            Some(Value::Object(map)) => map
                .iter()
                .map(|(key, value)| (key.clone(), plain(value)))
                .collect(),
            Some(_) => {
                self.report(name, "must be a map of strings; it is ignored", None);
                BTreeMap::new()
            }
        }
    }

    /// Hooks by event, in the format of the settings.
    pub(crate) fn hooks(&mut self) -> BTreeMap<String, Vec<lathe_settings::schema::HookGroup>> {
        let Some(Value::Object(events)) = self.value("hooks").cloned() else {
            if self.has("hooks") {
                self.report(
                    "hooks",
                    "must be hooks by event, as in settings.json; it is ignored",
                    None,
                );
            }
            return BTreeMap::new();
        };
        let mut hooks = BTreeMap::new();
        for (event, groups) in events {
            if event.parse::<lathe_protocol::hook::HookEvent>().is_err() {
                self.report(
                    "hooks",
                    format!("unknown event '{event}'; its hooks are ignored"),
                    None,
                );
                continue;
            }
            match serde_json::from_value(groups) {
                Ok(groups) => {
                    hooks.insert(event, groups);
                }
                Err(error) => self.report(
                    "hooks",
                    format!("the hooks of {event} are ignored: {error}"),
                    Some("see 'hooks' in the documentation of settings"),
                ),
            }
        }
        hooks
    }
}

/// A value of a list as it was written: `issue: number` is read as a map.
fn as_written(value: &Value) -> String {
    let Value::Object(map) = value else {
        return plain(value);
    };
    let pairs: Vec<String> = map
        .iter()
        .map(|(key, value)| format!("{key}: {}", as_written(value)))
        .collect();
    pairs.join(", ")
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let words: Vec<String> = items.iter().map(plain).collect();
            format!("[{}]", words.join(", "))
        }
        other => other.to_string(),
    }
}

/// Compares a key with a name, ignoring case, `-` and `_`.
fn is_key(key: &str, name: &str) -> bool {
    // Called for every key of every file: no allocation.
    key == name || letters(key).eq(letters(name))
}

/// The bit of a key's first letter; all bits if it is not a letter.
fn initial(key: &str) -> u32 {
    match key.as_bytes().first() {
        Some(letter) if letter.is_ascii_alphabetic() => 1 << (letter.to_ascii_lowercase() - b'a'),
        _ => u32::MAX,
    }
}

fn initials(fields: &[Field]) -> u32 {
    fields
        .iter()
        .fold(0, |all, field| all | initial(&field.key))
}

fn letters(text: &str) -> impl Iterator<Item = u8> {
    text.bytes()
        .filter(|byte| !matches!(byte, b'-' | b'_'))
        .map(|byte| byte.to_ascii_lowercase())
}

/// Splits rules at commas and spaces outside parentheses.
#[must_use]
pub(crate) fn split_tools(text: &str) -> Vec<String> {
    split_outside(text, |letter| match letter {
        '(' | '[' => Letter::Opens,
        ')' | ']' => Letter::Closes,
        ',' => Letter::Separates,
        letter if letter.is_whitespace() => Letter::Separates,
        _ => Letter::Belongs,
    })
}

/// Splits at commas outside braces.
fn split_commas(text: &str) -> Vec<String> {
    split_outside(text, |letter| match letter {
        '{' | '[' => Letter::Opens,
        '}' | ']' => Letter::Closes,
        ',' | '\n' => Letter::Separates,
        _ => Letter::Belongs,
    })
}

/// The role of a character in a list.
enum Letter {
    Opens,
    Closes,
    Separates,
    Belongs,
}

fn split_outside(text: &str, what: impl Fn(char) -> Letter) -> Vec<String> {
    let mut parts = Vec::new();
    let mut take = |part: &str| {
        let part = part.trim().trim_matches(['"', '\'']);
        if !part.is_empty() {
            parts.push(part.to_owned());
        }
    };
    let (mut depth, mut start) = (0_usize, 0);
    for (at, letter) in text.char_indices() {
        match what(letter) {
            Letter::Opens => depth += 1,
            Letter::Closes => depth = depth.saturating_sub(1),
            Letter::Separates if depth == 0 => {
                take(&text[start..at]);
                start = at + letter.len_utf8();
            }
            Letter::Separates | Letter::Belongs => {}
        }
    }
    take(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_split_outside_parentheses() {
        assert_eq!(
            split_tools("Read, Bash(git add:*, x) Grep,Agent(a, b)"),
            ["Read", "Bash(git add:*, x)", "Grep", "Agent(a, b)"]
        );
        assert_eq!(split_tools("  "), Vec::<String>::new());
        assert_eq!(
            split_commas("src/**/*.{ts,tsx}, lib/*"),
            ["src/**/*.{ts,tsx}", "lib/*"]
        );
    }

    #[test]
    fn keys_are_found_however_they_are_spelled() {
        for key in [
            "allowed-tools",
            "allowed_tools",
            "allowedTools",
            "Allowed-Tools",
        ] {
            assert!(is_key(key, "allowedTools"), "{key}");
        }
        assert!(!is_key("tools", "allowedTools"));
    }
}
