//! How servers differ from the usual Chat Completions, as data.

use super::entry::ProviderEntry;
use lathe_settings::schema::QuirkSettings;

/// How effort is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffortField {
    /// `reasoning_effort: "high"`.
    ReasoningEffort,
    /// `reasoning: {effort: "high"}`.
    Reasoning,
    /// `thinking: {type: "enabled"}`.
    Thinking,
    /// `enable_thinking: true`.
    EnableThinking,
    /// `chat_template_kwargs: {enable_thinking: true}`.
    TemplateArguments,
    /// Not at all.
    None,
}

/// Where reasoning of earlier answers goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningField {
    /// `reasoning_content`.
    Content,
    /// `reasoning`.
    Reasoning,
    /// `reasoning_details`.
    Details,
    /// Nowhere.
    None,
    /// Nowhere; an answer begins inside of the reasoning, without an opening tag.
    Think,
}

/// How a server differs from the usual. `None` where nobody said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Quirks {
    /// The role of the system prompt.
    pub system_role: Option<String>,
    /// The field of the output limit; `none` leaves it out.
    pub max_tokens_field: Option<String>,
    /// Whether usage is asked for in streams.
    pub stream_usage: Option<bool>,
    /// The field of reasoning that is sent back.
    pub reasoning_field: Option<String>,
    /// `short` for ids of nine letters and digits.
    pub tool_ids: Option<String>,
    /// How effort is said.
    pub effort_field: Option<String>,
    /// Whether tools say that they are strict or not.
    pub strict: Option<bool>,
}

impl Quirks {
    /// Takes over what settings say.
    pub(super) fn merge(&mut self, settings: &QuirkSettings) {
        fn set<T: Clone>(mine: &mut Option<T>, theirs: Option<&T>) {
            if let Some(value) = theirs {
                *mine = Some(value.clone());
            }
        }
        set(&mut self.system_role, settings.system_role.as_ref());
        set(
            &mut self.max_tokens_field,
            settings.max_tokens_field.as_ref(),
        );
        set(&mut self.stream_usage, settings.stream_usage.as_ref());
        set(&mut self.reasoning_field, settings.reasoning_field.as_ref());
        set(&mut self.tool_ids, settings.tool_ids.as_ref());
        set(&mut self.effort_field, settings.effort_field.as_ref());
        set(&mut self.strict, settings.strict.as_ref());
    }

    /// These, with what isn't said taken from others.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.system_role = self.system_role.or(other.system_role);
        self.max_tokens_field = self.max_tokens_field.or(other.max_tokens_field);
        self.stream_usage = self.stream_usage.or(other.stream_usage);
        self.reasoning_field = self.reasoning_field.or(other.reasoning_field);
        self.tool_ids = self.tool_ids.or(other.tool_ids);
        self.effort_field = self.effort_field.or(other.effort_field);
        self.strict = self.strict.or(other.strict);
        self
    }

    /// How effort is said.
    #[must_use]
    pub fn effort(&self) -> EffortField {
        match self.effort_field.as_deref() {
            Some("reasoning") => EffortField::Reasoning,
            Some("thinking") => EffortField::Thinking,
            Some("enable_thinking") => EffortField::EnableThinking,
            Some("chat_template_kwargs") => EffortField::TemplateArguments,
            Some("none") => EffortField::None,
            _ => EffortField::ReasoningEffort,
        }
    }

    /// Where reasoning goes back, if that is known beforehand.
    #[must_use]
    pub fn reasoning(&self) -> Option<ReasoningField> {
        match self.reasoning_field.as_deref()? {
            "reasoning_content" => Some(ReasoningField::Content),
            "reasoning" => Some(ReasoningField::Reasoning),
            "reasoning_details" => Some(ReasoningField::Details),
            "think" => Some(ReasoningField::Think),
            _ => Some(ReasoningField::None),
        }
    }

    /// Whether ids must be nine letters and digits, and no user message may follow a result.
    #[must_use]
    pub fn short_ids(&self) -> bool {
        self.tool_ids.as_deref() == Some("short")
    }
}

/// A row of the table: a part of the host's name, or of the model's, and the differences.
struct Row {
    host: &'static str,
    model: &'static str,
    fields: &'static [(&'static str, &'static str)],
}

/// Known servers. All matching rows apply; the first with a value for a field wins.
const TABLE: [Row; 14] = [
    row(
        "api.openai.com",
        "",
        &[
            ("systemRole", "developer"),
            ("maxTokensField", "max_completion_tokens"),
        ],
    ),
    row(
        ".openai.azure.com",
        "",
        &[("maxTokensField", "max_completion_tokens")],
    ),
    row(
        "models.github.ai",
        "gpt-5",
        &[("maxTokensField", "max_completion_tokens")],
    ),
    row("openrouter.ai", "", &[("effortField", "reasoning")]),
    row(
        "mistral.ai",
        "",
        &[
            ("toolIds", "short"),
            ("streamUsage", "false"),
            ("effortField", "none"),
        ],
    ),
    row(
        "deepseek.com",
        "",
        &[
            ("reasoningField", "reasoning_content"),
            ("effortField", "thinking"),
        ],
    ),
    row("moonshot", "", &[("reasoningField", "reasoning_content")]),
    row(
        "",
        "kimi-k2-thinking",
        &[("reasoningField", "reasoning_content")],
    ),
    row("api.x.ai", "", &[("effortField", "none")]),
    row("dashscope", "", &[("effortField", "enable_thinking")]),
    row("z.ai", "", &[("effortField", "thinking")]),
    row(
        "localhost:8000",
        "",
        &[("effortField", "chat_template_kwargs")],
    ),
    row(
        "127.0.0.1:8000",
        "",
        &[("effortField", "chat_template_kwargs")],
    ),
    row(
        "localhost:8080",
        "",
        &[("effortField", "chat_template_kwargs")],
    ),
];

const fn row(
    host: &'static str,
    model: &'static str,
    fields: &'static [(&'static str, &'static str)],
) -> Row {
    Row {
        host,
        model,
        fields,
    }
}

/// The differences of a model at a provider: what settings say, else what is known of the server.
#[must_use]
pub fn of(entry: &ProviderEntry, model: &str) -> Quirks {
    let said = entry.facts(model).quirks;
    let url = entry.base_url.as_deref().unwrap_or_default().to_lowercase();
    let host = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or_default();
    let id = model.to_lowercase();
    let rows = TABLE
        .iter()
        .filter(|row| host.contains(row.host) && id.contains(row.model));
    let mut known = Quirks::default();
    for (field, value) in rows.flat_map(|row| row.fields) {
        let text = Some((*value).to_owned());
        match *field {
            "systemRole" => known.system_role = known.system_role.or(text),
            "maxTokensField" => known.max_tokens_field = known.max_tokens_field.or(text),
            "streamUsage" => known.stream_usage = known.stream_usage.or(Some(*value == "true")),
            "reasoningField" => known.reasoning_field = known.reasoning_field.or(text),
            "toolIds" => known.tool_ids = known.tool_ids.or(text),
            _ => known.effort_field = known.effort_field.or(text),
        }
    }
    said.or(known)
}
