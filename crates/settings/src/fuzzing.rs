//! The fuzz target of this crate's parsers, for the tests and for `fuzz/`.

use crate::document::Document;
use crate::validate::validate;
use serde_json::Value;

/// Settings of any bytes are read, or refused with a place; what was read keeps its meaning when it is written.
pub fn fuzz_settings(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(document) = Document::parse(text) else {
        return;
    };
    let (valid, _) = validate(&document.value);
    // What is left once the faults are out has none.
    let (again, faults) = validate(&valid);
    assert!(is_same(&again, &valid), "validated twice: {faults:?}");
    let written = document.value.to_string();
    let read = Document::parse(&written);
    assert!(
        read.is_ok_and(|read| is_same(&read.value, &document.value)),
        "{written}"
    );
}

/// Whether two values are the same. The last digit of a large number may differ.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64(), other.as_f64());
            one.zip(other)
                .is_some_and(|(one, other)| (one - other).abs() <= one.abs() * 1e-12)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, value)| other.get(key).is_some_and(|b| is_same(value, b)))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn settings_of_any_bytes_are_read_or_refused() {
        let words = [
            "//",
            "/*",
            "*/",
            ",",
            "{",
            "}",
            "[",
            "]",
            "\"",
            "null",
            "true",
            "-1",
            "1e999",
            "\"permissions\":",
            "\"hooks\":",
            "\"env\":",
            "\\u0000",
            "\u{feff}",
            "\"model\":",
        ];
        lathe_fuzzing::run("settings", 2000, &words, super::fuzz_settings);
    }
}
