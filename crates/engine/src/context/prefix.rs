//! Watches that each request begins with the one before it.
//!
//! The provider caches prefixes: what is sent again byte for byte costs a tenth. When a request is not a
//! continuation of the one before, this names the first thing that changed.

use bytes::Bytes;
use lathe_model::{ModelRequest, Thinking};
use lathe_protocol::encoded::EncodedMessages;
use std::fmt;

/// The first thing in which a request differs from the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    Model,
    Tools,
    System,
    Thinking,
    /// A message, counted from 0.
    Message(usize),
    /// The conversation became shorter.
    Shorter(usize),
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model => f.write_str("the model changed"),
            Self::Tools => f.write_str("the tools changed"),
            Self::System => f.write_str("the system prompt changed"),
            Self::Thinking => f.write_str("the thinking settings changed"),
            Self::Message(index) => write!(f, "message {index} changed"),
            Self::Shorter(length) => write!(f, "the conversation was cut to {length} messages"),
        }
    }
}

/// A request that doesn't continue the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Break {
    pub(crate) changed: Changed,
    /// Why it was to be expected.
    pub(crate) expected: Option<&'static str>,
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.expected {
            Some(why) => f.write_str(why),
            None => self.changed.fmt(f),
        }
    }
}

#[derive(Debug)]
struct Shape {
    model: String,
    system: Bytes,
    tools: Bytes,
    thinking: Option<Thinking>,
    messages: EncodedMessages,
}

/// Compares each request with the one before.
#[derive(Debug, Default)]
pub(crate) struct PrefixWatch {
    last: Option<Shape>,
    expected: Option<&'static str>,
}

impl PrefixWatch {
    /// The next request will differ, for a reason.
    pub(crate) fn expect(&mut self, why: &'static str) {
        self.expected = Some(why);
    }

    /// Whether a request was sent before.
    pub(crate) fn has_seen_one(&self) -> bool {
        self.last.is_some()
    }

    /// Looks at a request. Costs a comparison of addresses for what isn't known to be the same.
    pub(crate) fn look(&mut self, request: &ModelRequest) -> Option<Break> {
        let changed = self.last.as_ref().and_then(|last| change(last, request));
        self.last = Some(Shape {
            model: request.model.clone(),
            system: request.system.clone(),
            tools: request.tools.clone(),
            thinking: request.thinking,
            messages: request.messages.clone(),
        });
        let expected = self.expected.take();
        changed.map(|changed| Break { changed, expected })
    }
}

fn change(last: &Shape, now: &ModelRequest) -> Option<Changed> {
    if last.model != now.model {
        return Some(Changed::Model);
    }
    if !same(&last.tools, &now.tools) {
        return Some(Changed::Tools);
    }
    if !same(&last.system, &now.system) {
        return Some(Changed::System);
    }
    if last.thinking != now.thinking {
        return Some(Changed::Thinking);
    }
    let common = last.messages.len().min(now.messages.len());
    let different = (last.messages.shared_with(&now.messages)..common).find(|index| {
        let bytes_of = |messages: &EncodedMessages| messages.get(*index).map(|it| it.bytes);
        let (Some(before), Some(after)) = (bytes_of(&last.messages), bytes_of(&now.messages))
        else {
            return true;
        };
        // The last message may grow until the model has answered it.
        let grows = index + 1 == last.messages.len() && grew(&before, &after);
        !grows && !same(&before, &after)
    });
    if let Some(index) = different {
        return Some(Changed::Message(index));
    }
    (now.messages.len() < last.messages.len()).then_some(Changed::Shorter(now.messages.len()))
}

fn same(one: &Bytes, other: &Bytes) -> bool {
    one.len() == other.len() && (one.as_ptr() == other.as_ptr() || one == other)
}

fn grew(before: &[u8], after: &[u8]) -> bool {
    before
        .strip_suffix(b"]}")
        .is_some_and(|beginning| after.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_protocol::content::ContentBlock;
    use lathe_protocol::encoded::EncodedMessage;
    use lathe_protocol::message::Role;

    fn request(texts: &[&[&str]]) -> ModelRequest {
        let mut request = ModelRequest::new("m", 10);
        request.system = Bytes::from_static(b"[1]");
        request.tools = Bytes::from_static(b"[2]");
        for (index, blocks) in texts.iter().enumerate() {
            let role = [Role::User, Role::Assistant][index % 2];
            let blocks: Vec<ContentBlock> = blocks
                .iter()
                .map(|text| ContentBlock::text(*text))
                .collect();
            request
                .messages
                .push(EncodedMessage::new(role, &blocks).unwrap());
        }
        request
    }

    #[test]
    fn a_continuation_is_no_break() {
        let mut watch = PrefixWatch::default();
        assert_eq!(watch.look(&request(&[&["a"]])), None);
        assert_eq!(watch.look(&request(&[&["a", "more"]])), None);
        assert_eq!(
            watch.look(&request(&[&["a", "more"], &["b"], &["c"]])),
            None
        );
    }

    #[test]
    fn what_changed_first_is_named() {
        type Alter = fn(&mut ModelRequest);
        let cases: [(Alter, Changed); 6] = [
            (|it| it.model = "n".into(), Changed::Model),
            (|it| it.system = Bytes::from_static(b"[9]"), Changed::System),
            (|it| it.tools = Bytes::from_static(b"[9]"), Changed::Tools),
            (
                |it| it.thinking = Some(Thinking::adaptive()),
                Changed::Thinking,
            ),
            (
                |it| it.messages = request(&[&["a"], &["x"], &["c"]]).messages,
                Changed::Message(1),
            ),
            (
                |it| it.messages = request(&[&["a"]]).messages,
                Changed::Shorter(1),
            ),
        ];
        for (alter, changed) in cases {
            let mut watch = PrefixWatch::default();
            let mut now = request(&[&["a"], &["b"], &["c"]]);
            watch.look(&now);
            alter(&mut now);
            let found = watch.look(&now).unwrap();
            assert_eq!((found.changed, found.expected), (changed, None));
        }
    }

    #[test]
    fn an_expected_change_says_why() {
        let mut watch = PrefixWatch::default();
        watch.look(&request(&[&["a"], &["b"]]));
        watch.expect("compacted");
        let found = watch.look(&request(&[&["summary"]])).unwrap();
        assert_eq!(found.to_string(), "compacted");
        assert_eq!(watch.look(&request(&[&["summary"], &["x"]])), None);
    }
}
