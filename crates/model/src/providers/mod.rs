//! The services that serve models: declared in settings, or built in.
//!
//! A [`Directory`] knows every provider by name and reads references: `provider/model` is cut at the first
//! slash, and only if the part before it is a provider. Users' entries are merged over the built-in
//! ones. Nothing here is sent anywhere; [`crate::router`] makes connections from the entries.

mod built_in;
mod entry;
mod quirks;
pub mod values;

pub use entry::{KeySource, Kind, ModelFacts, ProviderEntry};
pub use quirks::{EffortField, Quirks, ReasoningField, of as quirks_of};

use lathe_settings::schema::{ModelSettings, ProviderSettings, Settings};
use lathe_settings::{Environment, Variable};
use std::collections::BTreeMap;

/// The name of the provider that `ANTHROPIC_*` variables configure.
pub const ANTHROPIC: &str = "anthropic";

/// All providers by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Directory {
    entries: BTreeMap<String, ProviderEntry>,
    default: String,
    /// Names under which the default provider knows models that name none.
    names: BTreeMap<String, String>,
}

/// A problem with the declaration of a provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderProblem {
    /// The name can't be the first part of a reference.
    #[error(
        "providers.{0}: a provider's name may only have letters, digits, `-` and `_`; the entry is ignored"
    )]
    Name(String),
    /// The protocol isn't said.
    #[error(
        "providers.{0}: `kind` is missing (anthropic, openai, openai-chat, gemini, bedrock or vertex); the entry is ignored"
    )]
    Kind(String),
    /// The address isn't said.
    #[error("providers.{0}: `baseUrl` is missing; the entry is ignored")]
    BaseUrl(String),
    /// A key of another program.
    #[error("providers.{provider}.{key}: not a key of Lathe; write `{ours}`")]
    ForeignKey {
        /// The provider.
        provider: String,
        /// The key.
        key: String,
        /// The key that is meant.
        ours: &'static str,
    },
}

/// A reference to a model, read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference<'a> {
    /// The provider's name.
    pub provider: &'a str,
    /// The model's id there.
    pub model: &'a str,
}

impl Default for Directory {
    fn default() -> Self {
        Self {
            entries: built_in::entries(),
            default: ANTHROPIC.to_owned(),
            names: BTreeMap::new(),
        }
    }
}

impl Directory {
    /// The built-in providers with those of settings merged over them; what can't be used is reported and
    /// left out.
    #[must_use]
    pub fn of(settings: &Settings, environment: &Environment) -> (Self, Vec<ProviderProblem>) {
        let mut directory = Self::default();
        let mut problems = Vec::new();
        directory.apply_environment(environment);
        for (name, declared) in &settings.providers {
            if name.is_empty()
                || !name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            {
                problems.push(ProviderProblem::Name(name.clone()));
                continue;
            }
            foreign_keys(name, declared, &mut problems);
            match ProviderEntry::merged(name, directory.entries.get(name), declared) {
                Ok(mut entry) => {
                    // With a variable that isn't set it stays as it is; a request for it says so.
                    let url = entry.base_url.as_deref();
                    if let Some(Ok(url)) = url.map(|url| values::filled(url, environment)) {
                        entry.base_url = Some(url);
                    }
                    directory.entries.insert(name.clone(), entry);
                }
                Err(problem) => problems.push(problem),
            }
        }
        directory.default = directory.chosen_default(environment);
        for (id, facts) in &settings.models {
            // An entry with a provider is a short name for a model of that provider.
            let reference = match &facts.provider {
                Some(provider) => {
                    format!("{provider}/{}", facts.name.as_deref().unwrap_or(id))
                }
                None => id.clone(),
            };
            if let Some(name) = &facts.name
                && directory.reference(&reference).is_none()
            {
                directory.names.insert(id.clone(), name.clone());
            }
            directory.change(&reference, |known| known.merge(facts));
            if directory.reference(&reference).is_none() {
                directory.fit_default(id, facts);
            }
        }
        for (id, price) in &settings.prices {
            directory.change(id, |known| known.price = Some(price.clone()));
        }
        (directory, problems)
    }

    /// Changes the facts about a model that a reference names.
    fn change(&mut self, reference: &str, change: impl FnOnce(&mut ModelFacts)) {
        let Some(reference) = self.reference(reference) else {
            return;
        };
        let (provider, model) = (reference.provider.to_owned(), reference.model.to_owned());
        if let Some(entry) = self.entries.get_mut(&provider) {
            change(entry.models.entry(model).or_default());
        }
    }

    /// Keeps how requests for a model of the default provider differ. Its name and its sizes are in the catalog.
    fn fit_default(&mut self, model: &str, facts: &ModelSettings) {
        let fitted = ModelSettings {
            tools: facts.tools,
            parallel_tools: facts.parallel_tools,
            images: facts.images,
            cache: facts.cache,
            price: facts.price.clone(),
            quirks: facts.quirks.clone(),
            ..ModelSettings::default()
        };
        if fitted == ModelSettings::default() {
            return;
        }
        if let Some(entry) = self.entries.get_mut(&self.default) {
            let known = entry.models.entry(model.to_owned()).or_default();
            known.merge(&fitted);
        }
    }

    fn apply_environment(&mut self, environment: &Environment) {
        let moved = [
            (Variable::BaseUrl, ANTHROPIC),
            (Variable::OpenaiBaseUrl, "openai"),
        ];
        for (variable, name) in moved {
            if let Some(url) = environment.get(variable)
                && let Some(entry) = self.entries.get_mut(name)
            {
                entry.base_url = Some(url.to_owned());
            }
        }
    }

    /// The provider of models that name none.
    fn chosen_default(&self, environment: &Environment) -> String {
        let switches = [
            (Variable::UseBedrock, "bedrock"),
            (Variable::UseVertex, "vertex"),
            (Variable::UseFoundry, "foundry"),
        ];
        let chosen = switches
            .into_iter()
            .find(|(variable, _)| environment.is_on(*variable));
        chosen.map_or(ANTHROPIC, |(_, name)| name).to_owned()
    }

    /// The provider of models that name none.
    #[must_use]
    pub fn default_provider(&self) -> &str {
        &self.default
    }

    /// A provider by its name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ProviderEntry> {
        self.entries.get(name)
    }

    /// All providers.
    pub fn entries(&self) -> impl Iterator<Item = &ProviderEntry> {
        self.entries.values()
    }

    /// Reads a reference; `None` if it names no provider.
    #[must_use]
    pub fn reference<'a>(&'a self, text: &'a str) -> Option<Reference<'a>> {
        let (provider, model) = text.split_once('/')?;
        (self.entries.contains_key(provider) && !model.is_empty())
            .then_some(Reference { provider, model })
    }

    /// The provider and the id for a model, named or not.
    #[must_use]
    pub fn located<'a>(&'a self, text: &'a str) -> Reference<'a> {
        self.reference(text).unwrap_or(Reference {
            provider: &self.default,
            model: text,
        })
    }

    /// The name under which the default provider knows a model that names none, where settings give it another.
    #[must_use]
    pub fn name_of(&self, model: &str) -> Option<&str> {
        self.names.get(model).map(String::as_str)
    }

    /// The id that the rest of the program uses: without the provider where that is the default one.
    #[must_use]
    pub fn canonical(&self, text: &str) -> String {
        match self.reference(text) {
            Some(reference) if reference.provider == self.default => reference.model.to_owned(),
            _ => text.to_owned(),
        }
    }

    /// Adds what a discovery learnt about a model. What settings say stays.
    pub fn discovered(&self, provider: &str, model: &str, facts: &ModelFacts) {
        if let Some(entry) = self.entries.get(provider) {
            entry.discovered(model, facts);
        }
    }

    /// Whether the provider that a model names is there, where a reference without one leads nowhere.
    ///
    /// # Errors
    /// With the names of the providers that there are.
    pub fn known(&self, model: &str) -> Result<(), crate::ModelError> {
        let Some((left, _)) = model.split_once('/') else {
            return Ok(());
        };
        if self.get(left).is_some() {
            return Ok(());
        }
        Err(crate::ModelError::MissingKey {
            message: format!(
                "{model}: there is no provider {left:?}; there are {}",
                self.names()
            ),
        })
    }

    /// The names, for messages.
    #[must_use]
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.entries.keys().map(String::as_str).collect();
        names.join(", ")
    }
}

/// Keys of other programs, with the key that is meant.
const FOREIGN_KEYS: [(&str, &str); 20] = [
    ("npm", "kind"),
    ("api", "kind"),
    ("wire_api", "kind"),
    ("engine", "kind"),
    ("options", "baseUrl, apiKeyEnv and headers, besides kind"),
    ("baseURL", "baseUrl"),
    ("base_url", "baseUrl"),
    ("url", "baseUrl"),
    (
        "apiKey",
        "apiKeyEnv, with the name of the variable that holds the key",
    ),
    (
        "api_key",
        "apiKeyEnv, with the name of the variable that holds the key",
    ),
    ("env_key", "apiKeyEnv"),
    ("api_key_env", "apiKeyEnv"),
    ("query_params", "query"),
    ("http_headers", "headers"),
    ("extra_headers", "headers"),
    ("extra_body", "body"),
    ("compat", "quirks, in the entry of a model"),
    ("context_limit", "models.<id>.contextWindow"),
    ("env_http_headers", "headers, with ${NAME} for a variable"),
    ("timeout", "API_TIMEOUT_MS in the environment"),
];

fn foreign_keys(name: &str, declared: &ProviderSettings, problems: &mut Vec<ProviderProblem>) {
    for key in declared.extra.keys() {
        if let Some((_, ours)) = FOREIGN_KEYS.iter().find(|(foreign, _)| foreign == key) {
            problems.push(ProviderProblem::ForeignKey {
                provider: name.to_owned(),
                key: key.clone(),
                ours,
            });
        }
    }
}

#[cfg(test)]
mod tests;
