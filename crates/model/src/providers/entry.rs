//! One provider.

use super::ProviderProblem;
use super::quirks::Quirks;
use lathe_settings::schema::{
    CacheSetting, ModelSettings, PriceSettings, ProviderKind, ProviderModels, ProviderSettings,
};
use parking_lot::RwLock;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The protocol of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// Chat Completions.
    Chat,
    /// Google Gemini.
    Gemini,
    /// Claude on Amazon Bedrock.
    Bedrock,
    /// Claude on Google Vertex AI.
    Vertex,
}

impl Kind {
    /// The word for it in settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Responses => "openai",
            Self::Chat => "openai-chat",
            Self::Gemini => "gemini",
            Self::Bedrock => "bedrock",
            Self::Vertex => "vertex",
        }
    }

    /// Whether it takes the Messages shape as it is.
    #[must_use]
    pub fn is_messages(self) -> bool {
        matches!(self, Self::Anthropic | Self::Bedrock | Self::Vertex)
    }
}

impl From<ProviderKind> for Kind {
    fn from(kind: ProviderKind) -> Self {
        match kind {
            ProviderKind::Anthropic => Self::Anthropic,
            ProviderKind::Openai | ProviderKind::OpenaiResponses => Self::Responses,
            ProviderKind::OpenaiChat
            | ProviderKind::OpenaiCompatible
            | ProviderKind::OpenaiCompletions => Self::Chat,
            ProviderKind::Gemini | ProviderKind::Google => Self::Gemini,
            ProviderKind::Bedrock => Self::Bedrock,
            ProviderKind::Vertex => Self::Vertex,
        }
    }
}

/// Where a provider's key comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KeySource {
    /// It needs none.
    #[default]
    None,
    /// The first of these variables that is set, else one that was stored by `lathe login`.
    Variables(Vec<String>),
    /// The answer of a shell command.
    Helper(String),
}

/// A provider, as declared or built in.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderEntry {
    /// Its name.
    pub name: String,
    /// Its protocol.
    pub kind: Kind,
    /// The address below which its API lies.
    pub base_url: Option<String>,
    /// Where its key comes from.
    pub key: KeySource,
    /// Whether it can't be used without the key.
    pub needs_key: bool,
    /// Headers of every request; an empty value removes ours.
    pub headers: BTreeMap<String, String>,
    /// Parameters of the address.
    pub query: BTreeMap<String, String>,
    /// Fields of every request.
    pub body: Map<String, Value>,
    /// Region, project and profile of clouds.
    pub cloud: Cloud,
    /// Facts about its models, from settings.
    pub models: BTreeMap<String, ModelFacts>,
    /// Facts about its models, from the server.
    pub found: Found,
    /// Whether settings declare it.
    pub declared: bool,
}

/// Facts that a server told. Copies of an entry share them: what is learnt in a session counts wherever its providers
/// are known.
#[derive(Debug, Clone, Default)]
pub struct Found(Arc<RwLock<BTreeMap<String, ModelFacts>>>);

impl PartialEq for Found {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || *self.0.read() == *other.0.read()
    }
}

/// The account at a cloud.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cloud {
    /// The region.
    pub region: Option<String>,
    /// The project.
    pub project: Option<String>,
    /// The profile of the AWS files.
    pub profile: Option<String>,
}

/// Facts about a model of a provider. `None` where nobody said.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelFacts {
    /// How many tokens a conversation may have.
    pub context_window: Option<u64>,
    /// How many tokens an answer may have.
    pub max_output: Option<u32>,
    /// Whether it can call tools.
    pub tools: Option<bool>,
    /// Whether it may make several calls in one answer.
    pub parallel_tools: Option<bool>,
    /// Whether it takes images.
    pub images: Option<bool>,
    /// Whether it can reason.
    pub reasoning: Option<bool>,
    /// Whether its server holds answers to a grammar.
    pub grammar: Option<bool>,
    /// How its prompt cache is used.
    pub cache: Option<CacheSetting>,
    /// Its prices.
    pub price: Option<PriceSettings>,
    /// Its name for people.
    pub name: Option<String>,
    /// How its server differs from the usual.
    pub quirks: Quirks,
    /// Where the facts come from.
    pub source: Option<&'static str>,
}

impl ModelFacts {
    /// Takes over what settings say.
    pub(super) fn merge(&mut self, settings: &ModelSettings) {
        fn set<T: Clone>(mine: &mut Option<T>, theirs: Option<&T>) {
            if let Some(value) = theirs {
                *mine = Some(value.clone());
            }
        }
        // A window of 0 says nothing.
        let window = settings.context_window.filter(|window| *window > 0);
        let output = settings
            .max_output_tokens
            .and_then(|tokens| u32::try_from(tokens).ok())
            .filter(|tokens| *tokens > 0);
        set(&mut self.context_window, window.as_ref());
        set(&mut self.max_output, output.as_ref());
        set(&mut self.tools, settings.tools.as_ref());
        set(&mut self.parallel_tools, settings.parallel_tools.as_ref());
        set(&mut self.images, settings.images.as_ref());
        let reasoning = settings.reasoning.or(settings.thinking);
        set(&mut self.reasoning, reasoning.as_ref());
        set(&mut self.cache, settings.cache.as_ref());
        set(&mut self.price, settings.price.as_ref());
        if settings.provider.is_none() {
            set(&mut self.name, settings.name.as_ref());
        }
        if let Some(quirks) = &settings.quirks {
            self.quirks.merge(quirks);
        }
        self.source = Some("settings");
    }

    /// Fills in what isn't known yet.
    pub(super) fn fill(&mut self, other: &Self) {
        fn set<T: Clone>(mine: &mut Option<T>, theirs: Option<&T>) {
            if mine.is_none() {
                *mine = theirs.cloned();
            }
        }
        set(&mut self.context_window, other.context_window.as_ref());
        set(&mut self.max_output, other.max_output.as_ref());
        set(&mut self.tools, other.tools.as_ref());
        set(&mut self.images, other.images.as_ref());
        set(&mut self.reasoning, other.reasoning.as_ref());
        set(&mut self.grammar, other.grammar.as_ref());
        set(&mut self.price, other.price.as_ref());
        set(&mut self.name, other.name.as_ref());
        if self.source.is_none() {
            self.source = other.source;
        }
    }
}

impl ProviderEntry {
    /// An entry with nothing but a name, a kind and an address.
    #[must_use]
    pub fn new(name: &str, kind: Kind, base_url: Option<&str>) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            base_url: base_url.map(str::to_owned),
            key: KeySource::None,
            needs_key: false,
            headers: BTreeMap::new(),
            query: BTreeMap::new(),
            body: Map::new(),
            cloud: Cloud::default(),
            models: BTreeMap::new(),
            found: Found::default(),
            declared: false,
        }
    }

    /// A declaration merged over the entry of the same name, if there is one.
    pub(super) fn merged(
        name: &str,
        known: Option<&Self>,
        declared: &ProviderSettings,
    ) -> Result<Self, ProviderProblem> {
        let kind = declared.kind.or(declared.type_).map(Kind::from);
        let mut entry = match (known, kind) {
            (Some(known), _) => known.clone(),
            (None, Some(kind)) => Self::new(name, kind, None),
            (None, None) => return Err(ProviderProblem::Kind(name.to_owned())),
        };
        if let Some(kind) = kind {
            entry.kind = kind;
        }
        if let Some(url) = &declared.base_url {
            entry.base_url = Some(url.clone());
            // Another address is another service: what it asks for is what the entry says.
            if known.is_some() && declared.api_key_env.is_none() {
                entry.needs_key = false;
            }
        }
        if let Some(variable) = &declared.api_key_env {
            entry.key = KeySource::Variables(vec![variable.clone()]);
            entry.needs_key = true;
        }
        if let Some(command) = &declared.api_key_helper {
            entry.key = KeySource::Helper(command.clone());
            entry.needs_key = true;
        }
        let cloud = &mut entry.cloud;
        for (mine, theirs) in [
            (&mut cloud.region, &declared.region),
            (&mut cloud.project, &declared.project),
            (&mut cloud.profile, &declared.profile),
        ] {
            if let Some(value) = theirs.as_ref().filter(|value| !value.is_empty()) {
                *mine = Some(value.clone());
            }
        }
        entry.headers.extend(declared.headers.clone());
        let says_who = |name: &String| {
            ["authorization", "api-key", "x-api-key", "x-goog-api-key"]
                .contains(&name.to_lowercase().as_str())
        };
        if declared.api_key_env.is_none() && declared.headers.keys().any(says_who) {
            // The header is the key.
            entry.needs_key = false;
        }
        entry.query.extend(declared.query.clone());
        entry.body.extend(declared.body.clone());
        match &declared.models {
            Some(ProviderModels::Ids(ids)) => {
                for id in ids {
                    let facts = entry.models.entry(id.clone()).or_default();
                    facts.source = Some("settings");
                }
            }
            Some(ProviderModels::Facts(models)) => {
                for (id, facts) in models {
                    entry.models.entry(id.clone()).or_default().merge(facts);
                }
            }
            None => {}
        }
        entry.declared = true;
        let is_cloud = matches!(entry.kind, Kind::Bedrock | Kind::Vertex);
        if entry.base_url.is_none() && !is_cloud && known.is_none() {
            return Err(ProviderProblem::BaseUrl(name.to_owned()));
        }
        Ok(entry)
    }

    /// Whether its address is on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let Some(url) = &self.base_url else {
            return false;
        };
        url::Url::parse(url).is_ok_and(|url| match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        })
    }

    /// Facts about a model: what settings say, then what the server says; empty where nobody said anything.
    #[must_use]
    pub fn facts(&self, model: &str) -> ModelFacts {
        let mut facts = self.models.get(model).cloned().unwrap_or_default();
        if let Some(found) = self.found.0.read().get(model) {
            facts.fill(found);
        }
        facts
    }

    /// Whether settings or the server said anything about a model.
    #[must_use]
    pub fn knows(&self, model: &str) -> bool {
        self.models.contains_key(model) || self.found.0.read().contains_key(model)
    }

    /// The models that settings or the server named, with the facts about them.
    #[must_use]
    pub fn known(&self) -> BTreeMap<String, ModelFacts> {
        let mut ids: Vec<String> = self.found.0.read().keys().cloned().collect();
        ids.extend(self.models.keys().cloned());
        ids.into_iter()
            .map(|id| {
                let facts = self.facts(&id);
                (id, facts)
            })
            .collect()
    }

    /// Adds what the server said about a model. What settings say stays.
    pub(super) fn discovered(&self, model: &str, facts: &ModelFacts) {
        self.found.0.write().insert(model.to_owned(), facts.clone());
    }
}
