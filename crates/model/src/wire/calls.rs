//! Names, ids and arguments of calls, as servers give them and as they should be.

use super::emit::{Emitter, new_call_id};
use lathe_protocol::encoded::EncodedMessages;
use lathe_protocol::message::Role;
use serde_json::Value;
use std::collections::HashSet;

/// The name of an offered tool that is meant: the same, the same in another case, or behind a prefix or before
/// leftovers of a template. `None`: no such tool.
pub(crate) fn meant<'a>(name: &str, offered: &'a [String]) -> Option<&'a str> {
    let exact = |wanted: &str| offered.iter().find(|tool| tool.as_str() == wanted);
    let any_case = |wanted: &str| {
        let mut fits = offered
            .iter()
            .filter(|tool| tool.eq_ignore_ascii_case(wanted));
        fits.next().filter(|_| fits.next().is_none())
    };
    let cut = name.split("<|").next().unwrap_or(name).trim();
    let bare = cut
        .strip_prefix("functions.")
        .or_else(|| cut.strip_prefix("function."))
        .or_else(|| cut.strip_prefix("tools."))
        .or_else(|| cut.strip_prefix("default_api."))
        .unwrap_or(cut);
    let unnumbered = bare.split_once(':').map_or(bare, |(name, _)| name);
    [name, cut, bare, unnumbered]
        .into_iter()
        .find_map(exact)
        .or_else(|| [cut, bare, unnumbered].into_iter().find_map(any_case))
        .map(String::as_str)
}

/// An id that every API takes back: letters, digits, `_` and `-`.
pub(crate) fn clean_id(id: &str) -> String {
    id.chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-') {
                letter
            } else {
                '_'
            }
        })
        .take(64)
        .collect()
}

/// Whether an id says nothing: empty, or a small number that comes again every turn.
fn is_vague(id: &str) -> bool {
    let digits = id.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let word = &id[..id.len() - digits.len()];
    let word = word.trim_end_matches(['_', '-', ':', '.']);
    id.trim().is_empty()
        || (digits.len() <= 4
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && matches!(
                word.to_ascii_lowercase().as_str(),
                "" | "call" | "tool" | "toolcall" | "tool_call" | "fc" | "function" | "id"
            ))
}

/// Arguments as JSON text of an object: decoded once more if they were encoded twice.
pub(crate) fn repaired(text: &str) -> String {
    let trimmed = text.trim();
    if trimmed.is_empty() || trimmed == "null" {
        return "{}".to_owned();
    }
    match serde_json::from_str::<Value>(trimmed) {
        Ok(Value::String(inner)) => repaired(&inner),
        _ => trimmed.to_owned(),
    }
}

/// One call that is being received.
#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    /// Arguments that were not passed on yet.
    held: String,
    /// All arguments, as far as they were passed on.
    passed: String,
    began: bool,
    done: bool,
}

/// The ids of calls that can't be used again: those of this response, and those of the conversation before it. Some
/// servers number the calls of every answer anew.
#[derive(Default)]
pub(crate) struct CallIds {
    before: EncodedMessages,
    here: HashSet<String>,
}

impl CallIds {
    /// The ids after these messages.
    pub(crate) fn after(messages: &EncodedMessages) -> Self {
        Self {
            before: messages.clone(),
            here: HashSet::new(),
        }
    }

    /// The id under which a call is known from now on: the server's own, unless that says nothing or is taken.
    pub(crate) fn unique(&mut self, given: &str) -> String {
        let id = clean_id(given);
        if is_vague(given) || self.is_taken(&id) {
            return new_call_id();
        }
        self.here.insert(id.clone());
        id
    }

    fn is_taken(&self, id: &str) -> bool {
        let quoted = format!("\"id\":\"{id}\"");
        let finder = memchr::memmem::Finder::new(quoted.as_bytes());
        self.here.contains(id)
            || self.before.iter().any(|message| {
                message.role == Role::Assistant && finder.find(&message.bytes).is_some()
            })
    }
}

/// The calls of a response, put together from pieces that may lack everything.
pub(crate) struct CallCollector {
    offered: std::sync::Arc<Vec<String>>,
    calls: Vec<Call>,
    ids: CallIds,
}

/// A piece of a call.
#[derive(Debug, Default)]
pub(crate) struct CallPiece<'a> {
    pub(crate) index: Option<u64>,
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a str,
    /// Whether the arguments are the whole.
    pub(crate) whole: bool,
}

impl CallCollector {
    pub(crate) fn new(offered: std::sync::Arc<Vec<String>>, ids: CallIds) -> Self {
        Self {
            offered,
            calls: Vec::new(),
            ids,
        }
    }

    /// Whether the arguments of all calls are complete.
    pub(crate) fn are_whole(&self) -> bool {
        self.calls.iter().all(|call| {
            let arguments = format!("{}{}", call.passed, call.held);
            call.done || arguments.trim().is_empty() || is_complete(&arguments)
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes a piece. A new index, a new id or another name opens a call; the first non-empty name and id are used.
    pub(crate) fn piece(&mut self, piece: &CallPiece<'_>, out: &mut Emitter) {
        let at = match self.place(piece) {
            Some(at) => at,
            None => {
                self.calls.push(Call {
                    index: piece.index,
                    ..Call::default()
                });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            piece.id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            piece.name.clone_into(&mut call.name);
        }
        if !call.done {
            call.held.push_str(piece.arguments);
        }
        if piece.whole {
            call.done = true;
        }
        self.flush(out);
    }

    /// The call that a piece belongs to.
    fn place(&self, piece: &CallPiece<'_>) -> Option<usize> {
        let last = self.calls.len().checked_sub(1)?;
        if let Some(index) = piece.index
            && let Some(at) = self
                .calls
                .iter()
                .rposition(|call| call.index == Some(index))
        {
            let call = &self.calls[at];
            let other_id = !piece.id.is_empty() && !call.id.is_empty() && piece.id != call.id;
            // Always index 0, and no ids: another name, or the same after complete arguments, is another call.
            let arguments_came = !call.held.is_empty() || !call.passed.is_empty() || call.done;
            let is_tool = || meant(piece.name, &self.offered).is_some();
            let again = !piece.name.is_empty()
                && !call.name.is_empty()
                && piece.id.is_empty()
                && (if piece.name == call.name {
                    arguments_came && is_complete(&format!("{}{}", call.passed, call.held))
                } else {
                    arguments_came || is_tool()
                });
            return (!other_id && !again && !call.done).then_some(at);
        }
        if piece.index.is_some() && self.calls[last].index.is_some() {
            return None;
        }
        if !piece.id.is_empty() {
            let known = self.calls.iter().rposition(|call| call.id == piece.id);
            if let Some(at) = known {
                return (!self.calls[at].done).then_some(at);
            }
            // A call that has no id yet takes this one, if it isn't another's beginning.
            return (self.calls[last].id.is_empty() && piece.name.is_empty()).then_some(last);
        }
        (piece.name.is_empty() && !self.calls[last].done).then_some(last)
    }

    /// Passes on what is certain: the first call that isn't done, and those before it.
    fn flush(&mut self, out: &mut Emitter) {
        let count = self.calls.len();
        for at in 0..count {
            let followed = at + 1 < count;
            let call = &mut self.calls[at];
            if call.done && call.held.is_empty() && call.began {
                continue;
            }
            if call.name.is_empty() {
                return;
            }
            if !call.began {
                let offered = &self.offered;
                let name = meant(&call.name, offered).map_or_else(
                    || call.name.split("<|").next().unwrap_or_default().to_owned(),
                    str::to_owned,
                );
                out.call(&self.ids.unique(&call.id), &name);
                call.began = true;
            }
            let complete =
                call.done || (followed && is_complete(&format!("{}{}", call.passed, call.held)));
            call.pass(complete, out);
            if complete {
                call.done = true;
                out.close();
            } else {
                return;
            }
        }
    }

    /// No more pieces come.
    pub(crate) fn finish(&mut self, out: &mut Emitter) {
        for call in &mut self.calls {
            call.done = true;
        }
        self.calls
            .retain(|call| call.began || !call.name.is_empty());
        self.flush(out);
    }
}

impl Call {
    /// Passes arguments on: as they come if they are an object, else when they are whole.
    fn pass(&mut self, complete: bool, out: &mut Emitter) {
        let begins_object = |text: &str| text.trim_start().starts_with('{');
        if !self.passed.is_empty() || (!complete && begins_object(&self.held)) {
            out.arguments(&self.held);
            self.passed.push_str(&self.held);
            self.held.clear();
        } else if complete {
            let whole = repaired(&self.held);
            out.arguments(&whole);
            self.passed = whole;
            self.held.clear();
        }
    }
}

fn is_complete(arguments: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered() -> Vec<String> {
        ["Read", "Bash", "mcp__a__read"].map(str::to_owned).to_vec()
    }

    #[test]
    fn names_are_matched_leniently_and_unknown_ones_are_not_guessed() {
        for (name, tool) in [
            ("Read", Some("Read")),
            ("read", Some("Read")),
            ("functions.Read", Some("Read")),
            ("functions.Read:0", Some("Read")),
            ("Read<|channel|>commentary", Some("Read")),
            ("BASH", Some("Bash")),
            ("Reader", None),
            ("", None),
        ] {
            assert_eq!(meant(name, &offered()), tool, "{name}");
        }
    }

    #[test]
    fn ids_that_come_again_every_turn_are_vague() {
        for id in ["", " ", "0", "call_0", "call-12", "tool_1", "fc_3"] {
            assert!(is_vague(id), "{id:?}");
        }
        for id in [
            "call_abc123",
            "toolu_01",
            "chatcmpl-tool-9f",
            "call_123456789",
        ] {
            assert!(!is_vague(id), "{id:?}");
        }
        assert_eq!(clean_id("call_a|fc_b:1"), "call_a_fc_b_1");
    }

    #[test]
    fn arguments_are_repaired() {
        for (text, wanted) in [
            ("", "{}"),
            ("null", "{}"),
            (r#"{"a":1}"#, r#"{"a":1}"#),
            (r#""{\"a\":1}""#, r#"{"a":1}"#),
            (r#""""#, "{}"),
            (r#"{"a":"#, r#"{"a":"#),
        ] {
            assert_eq!(repaired(text), wanted, "{text}");
        }
    }
}
