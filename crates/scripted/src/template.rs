//! Templates in the strings of a reply, filled in from the request that it answers.

use crate::request::RecordedRequest;
use serde_json::Value;

/// Fills `{{request_index}}`, `{{last_tool_result}}`, `{{last_user_text}}` and `{{model}}` in every
/// string of the value.
pub(crate) fn fill(value: &mut Value, request: &RecordedRequest) {
    match value {
        Value::String(text) if text.contains("{{") => *text = fill_text(text, request),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, request)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill(field, request)),
        _ => {}
    }
}

/// One pass from left to right, so that what is filled in is never taken for a template.
fn fill_text(text: &str, request: &RecordedRequest) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let (before, from_braces) = rest.split_at(start);
        filled.push_str(before);
        let known = from_braces.find("}}").and_then(|end| {
            let value = match from_braces.get(2..end)?.trim() {
                "request_index" => request.received_at_index.to_string(),
                "last_tool_result" => request.last_tool_result(),
                "last_user_text" => request.last_user_text(),
                "model" => request.model().to_owned(),
                _ => return None,
            };
            Some((value, end + 2))
        });
        match known {
            Some((value, length)) => {
                filled.push_str(&value);
                rest = from_braces.get(length..).unwrap_or_default();
            }
            None => {
                filled.push_str("{{");
                rest = from_braces.get(2..).unwrap_or_default();
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn known_names_are_filled_once_and_unknown_ones_stay() {
        let request = RecordedRequest::for_test(json!({"model": "m", "messages": [
            {"role": "user", "content": "say {{model}}"}
        ]}));
        let mut value =
            json!({"a": ["{{request_index}}/{{model}}", "{{ last_user_text }}", "{{x}} {{"]});
        fill(&mut value, &request);
        assert_eq!(value, json!({"a": ["0/m", "say {{model}}", "{{x}} {{"]}));
    }
}
