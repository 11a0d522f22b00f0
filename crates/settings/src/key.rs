//! Keys as people write them: `permissions.allow`, `prices."some-model-4.5".input`.

use serde_json::Value;
use std::fmt;
use std::str::FromStr;

/// The way to a value inside a settings file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyPath(pub Vec<String>);

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a settings key: {why}; write it like permissions.allow or prices.\"model-4.5\".input"
)]
pub struct BadKey {
    text: String,
    why: &'static str,
}

impl FromStr for KeyPath {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |why| BadKey {
            text: text.to_owned(),
            why,
        };
        let mut steps = Vec::new();
        let mut characters = text.chars().peekable();
        loop {
            let mut step = String::new();
            if characters.next_if_eq(&'"').is_some() {
                loop {
                    match characters.next() {
                        Some('"') => break,
                        Some('\\') => step.extend(characters.next()),
                        Some(other) => step.push(other),
                        None => return Err(bad("a quote is not closed")),
                    }
                }
                if characters.peek().is_some_and(|next| *next != '.') {
                    return Err(bad("a dot must follow a closing quote"));
                }
            } else {
                while let Some(next) = characters.next_if(|next| *next != '.') {
                    step.push(next);
                }
            }
            if step.is_empty() {
                return Err(bad("a part of it is empty"));
            }
            steps.push(step);
            if characters.next().is_none() {
                return Ok(Self(steps));
            }
        }
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(".")?;
            }
            if step.contains(['.', '"', '\\']) {
                write!(f, "\"{}\"", step.replace('\\', "\\\\").replace('"', "\\\""))?;
            } else {
                f.write_str(step)?;
            }
        }
        Ok(())
    }
}

impl KeyPath {
    /// The value at this key.
    #[must_use]
    pub fn find<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(value, |value, step| value.get(step))
    }

    /// The key as a JSON pointer.
    #[must_use]
    pub fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.0 {
            crate::document::push_pointer(&mut pointer, step);
        }
        pointer
    }

    /// Whether this key is `other` or lies inside it.
    #[must_use]
    pub fn within(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip_and_bad_ones_say_why() {
        for text in [
            "model",
            "permissions.allow",
            "prices.\"gpt-5.1\".input",
            "env.A_B",
            "\"a\\\"b\".c",
        ] {
            assert_eq!(text.parse::<KeyPath>().unwrap().to_string(), text);
        }
        assert_eq!(
            "prices.\"gpt-5.1\".input".parse::<KeyPath>().unwrap().0,
            ["prices", "gpt-5.1", "input"]
        );
        for text in ["", ".", "a..b", "a.", "\"a", "\"a\"b"] {
            let error = text.parse::<KeyPath>().unwrap_err().to_string();
            assert!(error.contains("permissions.allow"), "{error}");
        }
    }
}
