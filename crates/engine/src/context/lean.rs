//! The lean set: what a model with a small window is sent instead of the whole.
//!
//! A window of 8,192 tokens has no room for the usual prompt and tools. Such a model gets a short prompt, the few
//! tools that all work needs, in few words, and loads the others with `ToolSearch`. The window alone decides, so a
//! model that is chosen later gets what fits it. A small model also repeats itself sooner: the guard against repeated
//! calls acts earlier for it.

use crate::context::room;
use crate::conversation::Conversation;
use lathe_tools::ToolDefinition;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The largest window that gets the lean set.
pub(crate) const LARGEST_WINDOW: u64 = 16_384;
/// A model with a window up to this counts as small.
const SMALL_MODEL_WINDOW: u64 = 32_768;
/// A model that names fewer billions of parameters counts as small.
const SMALL_MODEL_BILLIONS: f64 = 15.0;
/// So few tools are all sent, whichever they are: somebody chose them.
const FEW: usize = 8;
/// The longest description of a tool that has no short one.
const LONGEST_DESCRIPTION: usize = 160;

/// The prompt.
pub(crate) const PROMPT: &str = include_str!("../../prompts/lean.md");

/// The short description of a tool.
#[derive(Debug, Deserialize)]
struct Short {
    description: String,
    fields: Vec<String>,
}

static SHORT: LazyLock<BTreeMap<String, Short>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../prompts/lean_tools.json")).unwrap_or_default()
});

/// Whether a window gets the lean set.
pub(crate) fn applies(window: u64) -> bool {
    window <= LARGEST_WINDOW
}

/// Whether a model is small: by its window, or by the size that its name says.
pub(crate) fn is_small_model(id: &str, window: u64) -> bool {
    window <= SMALL_MODEL_WINDOW
        || billions(id).is_some_and(|billions| billions < SMALL_MODEL_BILLIONS)
}

/// The parameters that the name of a model says, in billions: `qwen3:8b`, `SmolLM2-135M-Instruct`.
fn billions(id: &str) -> Option<f64> {
    let id = id.to_lowercase();
    let words = id.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.');
    words
        .filter_map(|word| {
            let (number, factor) = match (word.strip_suffix('b'), word.strip_suffix('m')) {
                (Some(number), _) => (number, 1.0),
                (_, Some(number)) => (number, 0.001),
                _ => return None,
            };
            // A mixture of experts: `8x7b`.
            let (experts, size) = number.split_once('x').unwrap_or(("1", number));
            Some(experts.parse::<f64>().ok()? * size.parse::<f64>().ok()? * factor)
        })
        .reduce(f64::max)
}

/// Whether a tool waits to be looked for.
pub(crate) fn waits(tool: &ToolDefinition) -> bool {
    !tool.always_load && !SHORT.contains_key(&tool.name) && tool.name != "StructuredOutput"
}

/// Whether there are so few tools that none of them waits.
pub(crate) fn are_few(tools: &[ToolDefinition]) -> bool {
    tools.len() <= FEW
}

/// A tool in few words. What is left out of a schema is still understood.
pub(crate) fn shortened(mut tool: ToolDefinition) -> ToolDefinition {
    if tool.name == "StructuredOutput" {
        // Its schema is what the caller wants.
        return tool;
    }
    let short = SHORT.get(&tool.name);
    match short {
        Some(short) => tool.description.clone_from(&short.description),
        None => tool.description = first_sentences(&tool.description),
    }
    tool.input_schema = tool.input_schema.changed(|schema| {
        strip(schema);
        let required: Vec<String> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect();
        if let Some(short) = short
            && let Some(properties) = schema.get_mut("properties")
            && let Some(properties) = properties.as_object_mut()
        {
            properties.retain(|name, _| short.fields.contains(name) || required.contains(name));
        }
    });
    tool
}

/// The first paragraph, cut at the end of a sentence where it is long.
fn first_sentences(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or_default().trim();
    if paragraph.chars().count() <= LONGEST_DESCRIPTION {
        return paragraph.to_owned();
    }
    let cut: String = paragraph.chars().take(LONGEST_DESCRIPTION).collect();
    match cut.rfind(". ") {
        Some(end) => cut[..=end].to_owned(),
        None => format!("{cut}…"),
    }
}

/// Takes out of a schema what only explains. Small models give descriptions back as values.
fn strip(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for name in [
                "$schema", "title", "format", "minimum", "maximum", "examples",
            ] {
                object.shift_remove(name);
            }
            if object.get("description").is_some_and(Value::is_string) {
                object.shift_remove("description");
            }
            if object.get("default").is_some_and(Value::is_null) {
                object.shift_remove("default");
            }
            for (name, part) in object.iter_mut() {
                match (name.as_str(), part) {
                    // Names of properties are no words of the schema language.
                    ("properties" | "$defs" | "definitions", Value::Object(parts)) => {
                        parts.values_mut().for_each(strip);
                    }
                    ("enum" | "const" | "required" | "default", _) => {}
                    (_, part) => strip(part),
                }
            }
            simplify(object);
        }
        Value::Array(parts) => parts.iter_mut().for_each(strip),
        _ => {}
    }
}

/// `["string", "null"]` is a string that may be left out.
fn simplify(object: &mut Map<String, Value>) {
    let Some(Value::Array(kinds)) = object.get("type") else {
        return;
    };
    let plain: Vec<Value> = kinds
        .iter()
        .filter(|kind| *kind != "null")
        .cloned()
        .collect();
    if let [only] = plain.as_slice() {
        object.insert("type".to_owned(), only.clone());
    }
}

/// Sends what fits the window of the present model from now on.
pub(crate) fn follow_window(conversation: &mut Conversation) {
    let lean = applies(room::window_of_model(conversation));
    if conversation.fixed.prompt.lean == lean {
        return;
    }
    conversation.fixed.prompt.lean = lean;
    // A fork sends the bytes of its parent, and a host's prompt that was kept stays.
    let is_kept = conversation.context.kept_prompt == crate::context::KeptPrompt::Kept;
    if !conversation.shared.role.is_fork() && !is_kept {
        conversation.fixed.system = conversation.fixed.prompt.encode();
    }
    conversation
        .context
        .prefix
        .expect("the model's context window has a different size");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_size_in_a_name_is_read() {
        for (id, size) in [
            ("ollama/qwen3:8b", Some(8.0)),
            ("llamacpp/SmolLM2-135M-Instruct.Q4_1", Some(0.135)),
            ("groq/llama-3.3-70b-versatile", Some(70.0)),
            ("openrouter/mistralai/mixtral-8x7b", Some(56.0)),
            ("qwen2.5-coder-1.5b", Some(1.5)),
            ("claude-opus-5-5", None),
            ("gpt-5", None),
        ] {
            let read = billions(id);
            assert_eq!(
                read.map(|it| (it * 1000.0).round()),
                size.map(|it: f64| it * 1000.0),
                "{id}"
            );
        }
        assert!(is_small_model("ollama/qwen3:8b", 131_072));
        assert!(is_small_model("local/model", 8_192));
        assert!(!is_small_model("groq/llama-3.3-70b", 131_072));
        assert!(!is_small_model("claude-opus-5-5", 200_000));
    }

    #[test]
    fn a_schema_keeps_what_a_call_needs() {
        let tool = ToolDefinition {
            name: "Read".to_owned(),
            description: "Long.\n\nLonger.".to_owned(),
            input_schema: json!({"$schema": "x", "title": "Input", "type": "object", "properties": {
                "file_path": {"type": "string", "description": "The file."},
                "offset": {"type": ["integer", "null"], "format": "uint", "minimum": 0, "default": null},
                "pages": {"type": "string"}}, "required": ["file_path"]}).into(),
            search_hint: None,
            always_load: false,
            deferred: false,
        };
        assert_eq!(
            *shortened(tool).input_schema.value(),
            json!({"type": "object", "properties": {"file_path": {"type": "string"}, "offset": {"type": "integer"}},
                "required": ["file_path"]})
        );
        let own = ToolDefinition {
            name: "mcp__a__b".to_owned(),
            description: "Asks. ".repeat(60),
            input_schema: json!({"type": "object", "properties": {"description": {"type": "string", "description": "d"}}}).into(),
            search_hint: None,
            always_load: false,
            deferred: false,
        };
        let own = shortened(own);
        assert!(
            own.description.len() <= LONGEST_DESCRIPTION,
            "{}",
            own.description
        );
        assert_eq!(
            own.input_schema.value()["properties"],
            json!({"description": {"type": "string"}})
        );
    }
}
