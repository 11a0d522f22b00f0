use crate::pattern::PatternError;
use serde_json::Value;

/// Why a JSON value is not a schema that can be used here.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error(
        "a JSON schema must be an object, for example {{\"type\":\"object\",\"properties\":{{…}}}}"
    )]
    NotAnObject,
    #[error(
        "not a JSON schema: {} is {value}; a schema is an object, true or false", shown(.pointer)
    )]
    NotASchema { pointer: String, value: Box<Value> },
    #[error(
        "not a JSON schema: {}: {keyword} is {value}; it must be {expected}", shown(.pointer)
    )]
    Keyword {
        pointer: String,
        keyword: String,
        value: Box<Value>,
        expected: &'static str,
    },
    #[error(
        "not a JSON schema: {}: {pattern:?} is not a valid regular expression: {source}", shown(.pointer)
    )]
    Pattern {
        pointer: String,
        pattern: String,
        source: PatternError,
    },
    #[error(
        "not a JSON schema: {} refers to {reference:?}, which is not in the schema; define it under \"$defs\", other documents are not read", shown(.pointer)
    )]
    Reference { pointer: String, reference: String },
    #[error("not a JSON schema: {}: {keyword} {id:?} is not a valid address: {source}", shown(.pointer))]
    Address {
        pointer: String,
        keyword: &'static str,
        id: String,
        source: url::ParseError,
    },
    #[error(
        "not a JSON schema: it refers to itself without descending into the value, so checking would never end"
    )]
    Endless,
}

fn shown(pointer: &str) -> &str {
    if pointer.is_empty() {
        "the schema"
    } else {
        pointer
    }
}
