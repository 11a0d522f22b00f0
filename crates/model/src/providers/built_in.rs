//! The providers that need no declaration: a key variable is enough, or a server on this machine.

use super::entry::{KeySource, Kind, ProviderEntry};
use std::collections::BTreeMap;

type Row = (
    &'static str,
    Kind,
    Option<&'static str>,
    &'static [&'static str],
);

/// Name, kind, address and key variables.
const TABLE: [Row; 16] = [
    (
        "anthropic",
        Kind::Anthropic,
        Some(crate::anthropic::DEFAULT_BASE_URL),
        &["ANTHROPIC_API_KEY"],
    ),
    (
        "openai",
        Kind::Responses,
        Some("https://api.openai.com/v1"),
        &["OPENAI_API_KEY"],
    ),
    (
        "gemini",
        Kind::Gemini,
        Some("https://generativelanguage.googleapis.com/v1beta"),
        &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    ),
    (
        "openrouter",
        Kind::Chat,
        Some("https://openrouter.ai/api/v1"),
        &["OPENROUTER_API_KEY"],
    ),
    (
        "groq",
        Kind::Chat,
        Some("https://api.groq.com/openai/v1"),
        &["GROQ_API_KEY"],
    ),
    (
        "mistral",
        Kind::Chat,
        Some("https://api.mistral.ai/v1"),
        &["MISTRAL_API_KEY"],
    ),
    (
        "deepseek",
        Kind::Chat,
        Some("https://api.deepseek.com"),
        &["DEEPSEEK_API_KEY"],
    ),
    (
        "xai",
        Kind::Chat,
        Some("https://api.x.ai/v1"),
        &["XAI_API_KEY"],
    ),
    (
        "github-models",
        Kind::Chat,
        Some("https://models.github.ai/inference"),
        &["GITHUB_TOKEN"],
    ),
    ("bedrock", Kind::Bedrock, None, &[]),
    ("vertex", Kind::Vertex, None, &[]),
    (
        "foundry",
        Kind::Anthropic,
        None,
        &["ANTHROPIC_FOUNDRY_API_KEY"],
    ),
    ("ollama", Kind::Chat, Some("http://localhost:11434/v1"), &[]),
    (
        "lmstudio",
        Kind::Chat,
        Some("http://localhost:1234/v1"),
        &[],
    ),
    (
        "llamacpp",
        Kind::Chat,
        Some("http://localhost:8080/v1"),
        &[],
    ),
    ("vllm", Kind::Chat, Some("http://localhost:8000/v1"), &[]),
];

pub(super) fn entries() -> BTreeMap<String, ProviderEntry> {
    TABLE
        .iter()
        .map(|(name, kind, url, variables)| {
            let mut entry = ProviderEntry::new(name, *kind, *url);
            if !variables.is_empty() {
                entry.key = KeySource::Variables(variables.iter().map(|&it| it.into()).collect());
                entry.needs_key = true;
            }
            ((*name).to_owned(), entry)
        })
        .collect()
}
