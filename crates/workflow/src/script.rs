//! A script and its `meta`.

use crate::error::{Position, ScriptError};
use crate::literal;
use crate::token::Cursor;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest script.
const MOST_BYTES: usize = 1_000_000;

/// The description that a script begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    pub name: String,
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_to_use: Option<String>,
    pub phases: Vec<Phase>,
}

/// A part of a run, as the tree shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// A script whose `meta` has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// For messages: a file name, or `workflow`.
    pub name: String,
    pub text: String,
    pub meta: Meta,
    /// Bytes before `export`.
    export: usize,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// When it does not begin with `export const meta` and a pure literal.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScriptError> {
        let mut cursor = Cursor::new(text);
        let bad = |at: Position, message: String| ScriptError::Meta {
            name: name.to_owned(),
            at,
            message,
        };
        if text.len() > MOST_BYTES {
            let message = format!("the script is longer than {MOST_BYTES} bytes");
            return Err(bad(cursor.at, message));
        }
        cursor.skip_blanks();
        let export = text.len() - cursor.text().len();
        for word in ["export", "const", "meta", "="] {
            cursor.skip_blanks();
            if !cursor.text().starts_with(word) {
                let message = "the script must begin with `export const meta = { name, description, phases }`";
                return Err(bad(cursor.at, message.to_owned()));
            }
            cursor.skip(word.len());
        }
        cursor.skip_blanks();
        let start = cursor.at;
        let value =
            literal::read(&mut cursor, 0).map_err(|problem| bad(problem.at, problem.message))?;
        cursor.skip_blanks();
        // What computes with the literal makes it none.
        if cursor
            .peek()
            .is_some_and(|next| matches!(next, '.' | '[' | '(' | '+' | '?' | '`'))
        {
            return Err(bad(cursor.at, "meta must be a pure literal".to_owned()));
        }
        let meta = meta(&value).map_err(|problem| bad(start, problem.to_string()))?;
        Ok(Self {
            name: name.to_owned(),
            text: text.to_owned(),
            meta,
            export,
        })
    }

    /// A script that does nothing.
    pub(crate) fn empty() -> Self {
        Self {
            name: String::new(),
            text: String::new(),
            meta: Meta {
                name: String::new(),
                description: String::new(),
                when_to_use: None,
                phases: Vec::new(),
            },
            export: 0,
        }
    }

    /// The source of an async function of `args` and `workflow` that does what the script does. Its first line is
    /// the second one of the source.
    pub(crate) fn function(&self) -> String {
        let (before, rest) = self.text.split_at(self.export);
        let rest = rest.strip_prefix("export").unwrap_or(rest);
        format!("(async (args, workflow) => {{\n{before}      {rest}\n}})")
    }
}

/// A problem with the fields of `meta`.
#[derive(Debug, thiserror::Error)]
enum BadMeta {
    #[error("meta must be an object")]
    NoObject,
    #[error("meta.{0} must be a string with text")]
    NoText(&'static str),
    #[error("meta.{0} is missing")]
    Missing(&'static str),
    #[error("meta.name must be letters, digits, - and _, at most 64")]
    Name,
    #[error("meta.phases must be an array")]
    Phases,
    #[error("a phase of meta must be a string, or {{ title, detail }} with strings")]
    Phase,
}

fn meta(value: &Value) -> Result<Meta, BadMeta> {
    let fields = value.as_object().ok_or(BadMeta::NoObject)?;
    let text = |key: &'static str| match fields.get(key) {
        None => Ok(None),
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(BadMeta::NoText(key)),
    };
    let needed = |key: &'static str| text(key)?.ok_or(BadMeta::Missing(key));
    let name = needed("name")?;
    let plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.' | ':');
    if !name.chars().all(plain) || name.len() > 64 {
        return Err(BadMeta::Name);
    }
    let phases = match fields.get("phases") {
        None => Vec::new(),
        Some(Value::Array(phases)) => phases.iter().map(phase).collect::<Result<_, _>>()?,
        Some(_) => return Err(BadMeta::Phases),
    };
    Ok(Meta {
        name,
        description: needed("description")?,
        when_to_use: text("whenToUse")?,
        phases,
    })
}

fn phase(value: &Value) -> Result<Phase, BadMeta> {
    if let Value::String(title) = value {
        return Ok(Phase {
            title: title.clone(),
            detail: None,
        });
    }
    Phase::deserialize(value).map_err(|_| BadMeta::Phase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(text: &str) -> (u32, u32, String) {
        let error = Script::parse("a.js", text).unwrap_err();
        let at = error.position().unwrap();
        (at.line, at.column, error.to_string())
    }

    #[test]
    fn meta_is_read_without_running_anything() {
        let text = "// comment\nexport const meta = {\n  name: 'find', \"description\": `Finds\\u0021`, // x\n  phases: [{ title: 'One', detail: \"d\" }, 'Two',],\n}\nreturn 1";
        let script = Script::parse("a.js", text).unwrap();
        assert_eq!(script.meta.name, "find");
        assert_eq!(script.meta.description, "Finds!");
        let titles: Vec<&str> = script
            .meta
            .phases
            .iter()
            .map(|it| it.title.as_str())
            .collect();
        assert_eq!(titles, ["One", "Two"]);
        assert!(script.function().contains("\n       const meta = {"));
    }

    #[test]
    fn a_meta_that_is_no_literal_is_refused_where_it_is_wrong() {
        let begins = "export const meta = { name: 'a', description: 'b'";
        for (text, line, column) in [
            ("const meta = {}".to_owned(), 1, 1),
            ("export const meta = {\n  name: who }".to_owned(), 2, 9),
            (format!("{begins}, phases: f() }}"), 1, 60),
            (format!("{begins}, ...more }}"), 1, 52),
            (format!("{begins}, phases: `a${{1}}` }}"), 1, 62),
            (format!("{begins} }}.name"), 1, 52),
            ("export const meta = { name: 'a' }".to_owned(), 1, 21),
            (
                "export const meta = { name: 'a b', description: 'c' }".to_owned(),
                1,
                21,
            ),
            ("export const meta = 'x".to_owned(), 1, 21),
            (format!("export const meta = {}", "[".repeat(50)), 1, 54),
        ] {
            let (found_line, found_column, message) = position(&text);
            assert_eq!(
                (found_line, found_column),
                (line, column),
                "{text}: {message}"
            );
        }
    }
}
