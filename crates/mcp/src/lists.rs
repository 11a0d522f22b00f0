//! The lists of a server: read page by page, cut to size, made safe to display.
//!
//! Remarks name the entries that are left out. Schemas are kept unchanged, and nothing they refer to is
//! ever fetched.

use crate::connection::{CallError, Connection};
use crate::limits::{DESCRIPTION_CHARS, LIST_BYTES, LIST_ITEMS, LIST_PAGES};
use crate::text;
use lathe_protocol::diagnostic::Diagnostic;
use rmcp::model::{
    ClientRequest, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
    ListToolsRequest, PaginatedRequestParams,
};
use serde_json::Value;
use std::collections::HashSet;

/// The maximum length of a tool name in the API.
const NAME_CHARS: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl List {
    fn field(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// The required field of an entry.
    fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    fn request(self, cursor: Option<String>) -> ClientRequest {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        macro_rules! request {
            ($kind:ident) => {{
                let mut request = $kind::default();
                request.params = Some(page);
                ClientRequest::$kind(request)
            }};
        }
        match self {
            Self::Tools => request!(ListToolsRequest),
            Self::Resources => request!(ListResourcesRequest),
            Self::Templates => request!(ListResourceTemplatesRequest),
            Self::Prompts => request!(ListPromptsRequest),
        }
    }
}

/// The entries of a list and remarks about the ones left out.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) items: Vec<Value>,
    pub(crate) remarks: Vec<Diagnostic>,
    /// The number of entries with a text that was cut.
    pub(crate) cut: usize,
}

/// Reads a whole list.
pub(crate) async fn read(connection: &Connection, list: List) -> Result<Listed, CallError> {
    let mut listed = Listed::default();
    let mut cursor = None;
    let mut seen = HashSet::new();
    let mut bytes = 0;
    for page in 0.. {
        let mut answer = connection.request(list.request(cursor.take())).await?;
        let next = answer
            .get("nextCursor")
            .and_then(Value::as_str)
            .filter(|next| !next.is_empty())
            .map(str::to_owned);
        let Some(Value::Array(items)) = answer.get_mut(list.field()).map(Value::take) else {
            return Err(CallError::Protocol(format!(
                "a list without {}",
                list.field()
            )));
        };
        for item in items {
            if listed.items.len() >= LIST_ITEMS {
                let field = list.field();
                let text = format!("only the first {LIST_ITEMS} {field} are used");
                listed.remarks.push(Diagnostic::warning(text));
                return Ok(listed);
            }
            let server = &connection.shared.server;
            match tidy(server, list, item, &mut seen) {
                Ok((item, cut)) => {
                    listed.cut += usize::from(cut);
                    bytes += size(&item);
                    if bytes > LIST_BYTES {
                        let field = list.field();
                        listed.remarks.push(Diagnostic::warning(format!(
                            "only the first {} {field} are used: the list is too large",
                            listed.items.len()
                        )));
                        return Ok(listed);
                    }
                    listed.items.push(item);
                }
                Err(left_out) if listed.remarks.len() < 20 => {
                    let remark = Diagnostic::warning(left_out.to_string());
                    listed.remarks.push(remark);
                }
                Err(_) => {}
            }
        }
        match next {
            None => break,
            Some(_) if page + 1 >= LIST_PAGES => {
                listed.remarks.push(Diagnostic::warning(format!(
                    "{}: only the first {LIST_PAGES} pages are used",
                    list.field()
                )));
                break;
            }
            next => cursor = next,
        }
    }
    Ok(listed)
}

/// Why an entry of a list is left out.
#[derive(Debug, thiserror::Error)]
enum LeftOut {
    #[error("{list}: an entry without {key}")]
    NoKey {
        list: &'static str,
        key: &'static str,
    },
    #[error("{0}: ignored, its name contains control characters")]
    ControlCharacters(String),
    #[error("{0}: ignored, its name is longer than {NAME_CHARS} characters")]
    TooLong(String),
    #[error("{0}: ignored, it is listed twice")]
    Duplicate(String),
}

/// An entry made safe to display, and whether a text of it was cut.
fn tidy(
    server: &str,
    list: List,
    mut item: Value,
    seen: &mut HashSet<String>,
) -> Result<(Value, bool), LeftOut> {
    let key = item
        .get(list.key())
        .and_then(Value::as_str)
        .filter(|key| !key.is_empty())
        .ok_or(LeftOut::NoKey {
            list: list.field(),
            key: list.key(),
        })?
        .to_owned();
    let shown = text::line(&key, 100);
    if text::clean(&key) != key {
        return Err(LeftOut::ControlCharacters(shown));
    }
    if list == List::Tools {
        let length = "mcp____".len() + server.chars().count() + key.chars().count();
        if length > NAME_CHARS {
            return Err(LeftOut::TooLong(shown));
        }
    }
    if !seen.insert(key) {
        return Err(LeftOut::Duplicate(shown));
    }
    let cut = tidy_words(&mut item, 0);
    if matches!(list, List::Resources | List::Templates)
        && let Some(Value::String(name)) = item.get_mut("name")
    {
        // Only displayed; resources are identified by their address.
        *name = text::line(name, 200);
    }
    Ok((item, cut))
}

/// Cleans and cuts the descriptions and titles in an entry, except in schemas. Returns true if some were
/// cut.
fn tidy_words(value: &mut Value, depth: usize) -> bool {
    let mut cut = false;
    match value {
        Value::Object(fields) if depth < 4 => {
            for (name, field) in fields {
                match (name.as_str(), field) {
                    ("inputSchema" | "outputSchema" | "_meta", _) => {}
                    ("description" | "title", Value::String(words)) => {
                        // One character for the ellipsis.
                        let length = match words.chars().nth(DESCRIPTION_CHARS) {
                            Some(_) => DESCRIPTION_CHARS - 1,
                            None => DESCRIPTION_CHARS,
                        };
                        cut |= length < DESCRIPTION_CHARS;
                        *words = text::cut(words, length);
                    }
                    (_, field) => cut |= tidy_words(field, depth + 1),
                }
            }
        }
        Value::Array(items) if depth < 4 => {
            for item in items {
                cut |= tidy_words(item, depth + 1);
            }
        }
        _ => {}
    }
    cut
}

/// The approximate memory use of a value.
pub(crate) fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 24,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 24,
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| name.len() + size(value) + 32)
            .sum::<usize>(),
        _ => 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_are_cut_and_cleaned_and_schemas_stay_unchanged() {
        let schema = json!({"type": "object", "properties": {"description": {"$ref": "https://x/y"}}, "title": "\u{1b}x"});
        let tool = json!({
            "name": "t",
            "description": format!("\u{1b}[31m{}", "d".repeat(60_000)),
            "inputSchema": schema,
            "annotations": {"title": "a\u{7}b", "readOnlyHint": true},
        });
        let mut seen = HashSet::new();
        let (tidied, cut) = tidy("s", List::Tools, tool, &mut seen).unwrap();
        assert!(cut);
        let description = tidied["description"].as_str().unwrap();
        assert_eq!(description.chars().count(), DESCRIPTION_CHARS);
        assert!(!description.contains('\u{1b}'));
        assert_eq!(tidied["annotations"]["title"], "ab");
        assert_eq!(tidied["inputSchema"], schema);
    }

    #[test]
    fn entries_that_cannot_be_called_are_left_out_with_a_remark() {
        let mut seen = HashSet::new();
        let mut tidy =
            |item| tidy("server", List::Tools, item, &mut seen).map_err(|error| error.to_string());
        assert!(tidy(json!({"name": "x"})).is_ok());
        assert!(tidy(json!({"name": "x"})).unwrap_err().contains("twice"));
        assert!(
            tidy(json!({"name": "y".repeat(128)}))
                .unwrap_err()
                .contains("longer")
        );
        assert!(
            tidy(json!({"name": "a\u{1b}[2Jb"}))
                .unwrap_err()
                .contains("control")
        );
        assert!(
            tidy(json!({"title": "no name"}))
                .unwrap_err()
                .contains("without name")
        );
    }
}
