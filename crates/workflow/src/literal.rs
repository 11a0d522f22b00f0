//! A pure literal of JavaScript: objects, arrays, strings, numbers, `true`, `false`, `null`.

use crate::error::Position;
use crate::token::Cursor;
use serde_json::{Map, Value};

/// How deep a literal may be nested.
const MOST_DEPTH: u32 = 32;

/// A place where a literal is expected and none is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotLiteral {
    pub(crate) at: Position,
    pub(crate) message: String,
}

fn wrong<T>(cursor: &Cursor<'_>, message: impl Into<String>) -> Result<T, NotLiteral> {
    Err(NotLiteral {
        at: cursor.at,
        message: message.into(),
    })
}

/// Reads the literal that is next.
pub(crate) fn read(cursor: &mut Cursor<'_>, depth: u32) -> Result<Value, NotLiteral> {
    if depth > MOST_DEPTH {
        return wrong(cursor, "meta is nested too deeply");
    }
    cursor.skip_blanks();
    match cursor.peek() {
        Some('{') => object(cursor, depth),
        Some('[') => array(cursor, depth),
        Some('"' | '\'' | '`') => string(cursor).map(Value::String),
        Some(letter) if letter.is_ascii_digit() || letter == '-' || letter == '.' => number(cursor),
        Some(letter) if letter.is_alphabetic() || letter == '_' || letter == '$' => {
            let start = cursor.at;
            let word = name(cursor);
            match word.as_str() {
                "true" => Ok(Value::Bool(true)),
                "false" => Ok(Value::Bool(false)),
                "null" => Ok(Value::Null),
                other => Err(NotLiteral {
                    at: start,
                    message: format!(
                        "meta must be a pure literal, and {other} is a name: write the value itself"
                    ),
                }),
            }
        }
        _ => wrong(cursor, "a value of meta is expected here"),
    }
}

fn name(cursor: &mut Cursor<'_>) -> String {
    let mut word = String::new();
    while let Some(letter) = cursor
        .peek()
        .filter(|letter| letter.is_alphanumeric() || *letter == '_' || *letter == '$')
    {
        word.push(letter);
        cursor.take();
    }
    word
}

fn object(cursor: &mut Cursor<'_>, depth: u32) -> Result<Value, NotLiteral> {
    cursor.take();
    let mut fields = Map::new();
    loop {
        cursor.skip_blanks();
        let key = match cursor.peek() {
            Some('}') => {
                cursor.take();
                return Ok(Value::Object(fields));
            }
            Some('"' | '\'') => string(cursor)?,
            Some(letter) if letter.is_alphabetic() || letter == '_' || letter == '$' => {
                name(cursor)
            }
            _ => return wrong(cursor, "a field of meta is expected here"),
        };
        cursor.skip_blanks();
        if cursor.peek() != Some(':') {
            return wrong(
                cursor,
                format!("a colon is expected after {key}: meta must be a pure literal"),
            );
        }
        cursor.take();
        let value = read(cursor, depth + 1)?;
        fields.insert(key, value);
        separator(cursor, '}')?;
    }
}

fn array(cursor: &mut Cursor<'_>, depth: u32) -> Result<Value, NotLiteral> {
    cursor.take();
    let mut items = Vec::new();
    loop {
        cursor.skip_blanks();
        if cursor.peek() == Some(']') {
            cursor.take();
            return Ok(Value::Array(items));
        }
        items.push(read(cursor, depth + 1)?);
        separator(cursor, ']')?;
    }
}

/// Passes a comma, or stops before the end.
fn separator(cursor: &mut Cursor<'_>, end: char) -> Result<(), NotLiteral> {
    cursor.skip_blanks();
    match cursor.peek() {
        Some(',') => {
            cursor.take();
            Ok(())
        }
        Some(letter) if letter == end => Ok(()),
        _ => wrong(
            cursor,
            format!("a comma or {end} is expected here: meta must be a pure literal"),
        ),
    }
}

fn number(cursor: &mut Cursor<'_>) -> Result<Value, NotLiteral> {
    let start = cursor.at;
    let mut text = String::new();
    while let Some(letter) = cursor
        .peek()
        .filter(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '+' | '_'))
    {
        if letter != '_' {
            text.push(letter);
        }
        cursor.take();
    }
    let parsed = text.parse::<i64>().map(Value::from).ok();
    let parsed = parsed.or_else(|| text.parse::<f64>().ok().map(Value::from));
    parsed.ok_or(NotLiteral {
        at: start,
        message: format!("{text} is not a number"),
    })
}

fn string(cursor: &mut Cursor<'_>) -> Result<String, NotLiteral> {
    let start = cursor.at;
    let quote = cursor.take();
    let mut text = String::new();
    loop {
        if quote == Some('`') && cursor.text().starts_with("${") {
            return wrong(
                cursor,
                "meta must be a pure literal: a template with ${} is computed",
            );
        }
        match cursor.take() {
            None => {
                return Err(NotLiteral {
                    at: start,
                    message: "the string has no end".to_owned(),
                });
            }
            Some('\\') => escape(cursor, &mut text)?,
            Some('\n') if quote != Some('`') => {
                return Err(NotLiteral {
                    at: start,
                    message: "the string has no end on its line".to_owned(),
                });
            }
            letter if letter == quote => return Ok(text),
            Some(letter) => text.push(letter),
        }
    }
}

fn escape(cursor: &mut Cursor<'_>, text: &mut String) -> Result<(), NotLiteral> {
    let at = cursor.at;
    let code = |digits: &str| {
        u32::from_str_radix(digits, 16)
            .ok()
            .and_then(char::from_u32)
    };
    let letter = match cursor.take() {
        Some('n') => Some('\n'),
        Some('t') => Some('\t'),
        Some('r') => Some('\r'),
        Some('0') => Some('\0'),
        Some('\n') => return Ok(()),
        Some('x') => {
            let digits: String = cursor.text().chars().take(2).collect();
            cursor.skip(2);
            code(&digits)
        }
        Some('u') if cursor.peek() == Some('{') => {
            let digits: String = cursor
                .text()
                .chars()
                .skip(1)
                .take_while(|it| *it != '}')
                .collect();
            cursor.skip(digits.chars().count() + 2);
            code(&digits)
        }
        Some('u') => {
            let digits: String = cursor.text().chars().take(4).collect();
            cursor.skip(4);
            code(&digits)
        }
        other => other,
    };
    match letter {
        Some(letter) => {
            text.push(letter);
            Ok(())
        }
        None => Err(NotLiteral {
            at,
            message: "the escape is not a character".to_owned(),
        }),
    }
}
