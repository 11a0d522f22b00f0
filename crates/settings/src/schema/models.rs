//! The keys about models and who serves them.

use lathe_protocol::Extra;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How hard the model works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Quick answers.
    Low,
    /// Balanced.
    Medium,
    /// Thorough.
    High,
    /// More thorough.
    Xhigh,
    /// As much as the model can.
    Max,
}

impl Effort {
    /// The level of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Low, Self::Medium, Self::High, Self::Xhigh, Self::Max];
        all.into_iter().find(|effort| effort.name() == name)
    }

    /// The level's name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// Whether the model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Thinking {
    /// On or off.
    Switch(bool),
    /// By a word.
    Mode(ThinkingMode),
}

/// How the model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingMode {
    /// The model decides how much.
    Adaptive,
    /// Not at all.
    Disabled,
}

/// Facts about a model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelSettings {
    /// The provider that serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The name under which that provider knows it, when it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many tokens a conversation may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// How many tokens an answer may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Whether it can call tools; without, calls are written as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<bool>,
    /// Whether it may make several calls in one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tools: Option<bool>,
    /// Whether it takes images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
    /// Whether it can think; the same as `reasoning`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    /// Whether it can reason before it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<bool>,
    /// How its prompt cache is used: a boolean, or `anthropic` for markers on parts of messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheSetting>,
    /// Its prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceSettings>,
    /// How its server differs from the usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quirks: Option<QuirkSettings>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// How a prompt cache is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CacheSetting {
    /// On or off.
    Switch(bool),
    /// By a word.
    Style(CacheStyle),
}

/// A way of marking what should be cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheStyle {
    /// `cache_control` on parts of messages.
    Anthropic,
}

/// How a server differs from the usual Chat Completions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct QuirkSettings {
    /// The role of the system prompt: `system`, `developer` or `user`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_role: Option<String>,
    /// The field of the output limit: `max_tokens`, `max_completion_tokens` or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens_field: Option<String>,
    /// Whether streams request usage (`stream_options`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_usage: Option<bool>,
    /// The field in which reasoning is sent back: `reasoning_content`, `reasoning`, `reasoning_details` or `none`; `think` for a server that
    /// puts reasoning into the text without an opening tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_field: Option<String>,
    /// The ids of calls that it takes: `any`, or `short` for nine letters and digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_ids: Option<String>,
    /// How effort is said: `reasoning_effort`, `reasoning`, `thinking`, `enable_thinking`, `chat_template_kwargs` or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort_field: Option<String>,
    /// Whether tools are declared as strict or not; unset leaves the field out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The prices of a model, in US dollars per million tokens.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PriceSettings {
    /// Input tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<f64>,
    /// Output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<f64>,
    /// Input tokens that are written to the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// Input tokens that are read from the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A service that serves models.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderSettings {
    /// Which protocol it speaks: `anthropic`, `openai` (Responses), `openai-chat`, `gemini`, `bedrock` or `vertex`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ProviderKind>,
    /// The same as `kind`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<ProviderKind>,
    /// The address under which its API lies; `${NAME}` and `${NAME:-default}` are filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The environment variable that holds its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// A shell command that prints its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_helper: Option<String>,
    /// Headers that go with every request; an empty one removes ours.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Parameters of the address.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
    /// Fields that are merged into every request.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub body: serde_json::Map<String, serde_json::Value>,
    /// The region (`bedrock`, `vertex`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The project (`vertex`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The profile of the AWS files (`bedrock`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The models that it serves: facts by id, or a list of ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<ProviderModels>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl ProviderSettings {
    /// The names of the variables that hold its keys: that of `apiKeyEnv`, and those in headers and parameters
    /// whose names say that they are secret.
    fn key_variables(&self) -> impl Iterator<Item = String> {
        let filled = self.headers.values().chain(self.query.values());
        let referenced = filled.flat_map(|value| {
            let parts = value.split("${").skip(1);
            parts.filter_map(|part| {
                let inner = part.split('}').next()?;
                let name = inner.split(":-").next()?;
                crate::environment::looks_secret(name).then(|| name.to_owned())
            })
        });
        self.api_key_env.clone().into_iter().chain(referenced)
    }
}

/// The names of the variables that hold keys of declared providers and of the search service.
#[must_use]
pub fn key_variables(settings: &super::Settings) -> BTreeSet<String> {
    let search = settings.web_search.as_ref();
    settings
        .providers
        .values()
        .flat_map(ProviderSettings::key_variables)
        .chain(search.and_then(|search| search.api_key_env.clone()))
        .collect()
}

/// The models of a provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ProviderModels {
    /// Their ids.
    Ids(Vec<String>),
    /// Facts by id.
    Facts(BTreeMap<String, ModelSettings>),
}

/// The protocol of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Openai,
    /// The same as `openai`.
    OpenaiResponses,
    /// OpenAI Chat Completions and what imitates it.
    OpenaiChat,
    /// The same as `openai-chat`.
    OpenaiCompatible,
    /// The same as `openai-chat`.
    OpenaiCompletions,
    /// Google Gemini.
    Gemini,
    /// The same as `gemini`.
    Google,
    /// Claude on Amazon Bedrock.
    Bedrock,
    /// Claude on Google Vertex AI.
    Vertex,
}
