//! The outline of a request body: top-level fields as values, messages as the text they came in.
//!
//! The body of a long session is megabytes, so it is walked over once and a message is only parsed
//! by those who want to look into it.

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::fmt;

/// A request body, its messages not parsed yet.
#[derive(Debug, Default)]
pub(crate) struct Body<'a> {
    /// Everything but the messages.
    pub(crate) fields: Map<String, Value>,
    /// The messages as they came (the last ones, if only those were wanted).
    pub(crate) messages: Option<VecDeque<&'a RawValue>>,
}

/// Why a body can't be read.
#[derive(Debug, thiserror::Error)]
#[error("the body is not a request: {0}")]
pub(crate) struct BodyError(serde_json::Error);

impl<'a> Body<'a> {
    /// Reads a body. At most `keep` messages are kept, the last ones.
    pub(crate) fn parse(bytes: &'a [u8], keep: usize) -> Result<Self, BodyError> {
        let mut deserializer = serde_json::Deserializer::from_slice(bytes);
        let body = deserializer
            .deserialize_map(BodyVisitor { keep })
            .and_then(|body| deserializer.end().map(|()| body));
        body.map_err(BodyError)
    }

    /// A field; `null` if it isn't there.
    pub(crate) fn field(&self, name: &str) -> &Value {
        self.fields.get(name).unwrap_or(&Value::Null)
    }
}

struct BodyVisitor {
    keep: usize,
}

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Body<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Body<'de>, A::Error> {
        let mut body = Body::default();
        while let Some(name) = map.next_key::<String>()? {
            if name == "messages" {
                let messages = map
                    .next_value_seed(Messages { keep: self.keep })
                    .map_err(|error| A::Error::custom(format!("messages: {error}")))?;
                body.messages = Some(messages);
            } else {
                body.fields.insert(name, map.next_value()?);
            }
        }
        Ok(body)
    }
}

struct Messages {
    keep: usize,
}

impl<'de> DeserializeSeed<'de> for Messages {
    type Value = VecDeque<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Messages {
    type Value = VecDeque<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut messages = VecDeque::new();
        while let Some(message) = list.next_element::<&'de RawValue>()? {
            if messages.len() == self.keep {
                messages.pop_front();
            }
            messages.push_back(message);
        }
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_messages_are_kept_and_fields_parsed() {
        let text = br#"{"a": 1, "messages": [{"n": 1}, {"n": 2}, {"n": 3}], "b": [true]}"#;
        let body = Body::parse(text, 2).unwrap();
        let kept: Vec<&str> = body
            .messages
            .iter()
            .flatten()
            .map(|raw| raw.get())
            .collect();
        assert_eq!(kept, [r#"{"n": 2}"#, r#"{"n": 3}"#]);
        assert_eq!(body.field("b")[0], true);
        assert!(body.field("c").is_null());
    }

    #[test]
    fn invalid_requests_are_refused() {
        for (text, complaint) in [
            ("[]", "JSON object"),
            ("{\"messages\": 3}", "list of messages"),
            ("{} {}", "trailing"),
            ("{", "EOF"),
        ] {
            let error = Body::parse(text.as_bytes(), 9).unwrap_err();
            assert!(error.to_string().contains(complaint), "{error}");
        }
    }
}
