//! The models that could be used here, without a session: for `lathe models` and `lathe login`.

use crate::open::model::{directory_catalog, keys};
use lathe_model::discovery::{self, Discovered};
use lathe_model::key_store::KeyStore;
use lathe_model::providers::{Entry, Kind};
use lathe_model::trial::{self, Trial};
use lathe_model::{AnthropicConfig, AnthropicProvider, Catalog, ModelError, Provider, Router};
use lathe_settings::paths::config_home;
use lathe_settings::{Environment, Places, Resolved};
use serde::Serialize;
use std::sync::Arc;

/// The providers and models of a folder.
pub struct Overview {
    environment: Environment,
    catalog: Arc<Catalog>,
    router: Router,
    problems: Vec<String>,
    store: KeyStore,
}

/// A model in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// Its provider.
    pub provider: String,
    /// Its id there.
    pub model: String,
    /// The protocol.
    pub kind: &'static str,
    /// The window that is in use, where that is known.
    pub context_window: u64,
    /// Whether it calls tools.
    pub tools: Option<bool>,
    /// Whether it takes images.
    pub images: Option<bool>,
    /// Whether it reasons.
    pub reasoning: Option<bool>,
    /// Its prices; absent if they are not known.
    pub price: Option<ListedPrice>,
    /// Where the facts come from: `settings`, `server`, `table` or `default`.
    pub source: &'static str,
}

/// Dollars per million tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedPrice {
    /// Input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input that is read from the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
}

impl Overview {
    /// The overview for settings that are loaded.
    #[must_use]
    pub fn new(places: &Places, settings: &Resolved) -> Self {
        let mut environment = places.environment.clone();
        // Variables that settings set apply here, too.
        for (name, value) in &settings.settings.env {
            environment.variables.insert(name.clone(), value.text());
        }
        let mut remarks = Vec::new();
        let catalog = Arc::new(directory_catalog(&environment, settings, &mut remarks));
        let problems = remarks.iter().map(ToString::to_string).collect();
        let anthropic = AnthropicConfig::of(&environment)
            .ok()
            .filter(|config| config.key_source() != "none")
            .and_then(|config| AnthropicProvider::new(&config).ok())
            .map(|provider| Arc::new(provider) as Arc<dyn Provider>);
        let keys = keys(places, &environment);
        let router = Router::new(&environment, Arc::clone(&catalog), anthropic, keys);
        Self {
            store: KeyStore::new(&config_home(&environment)),
            environment,
            catalog,
            router,
            problems,
        }
    }

    /// What is wrong with the declarations.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Whether there is such a provider.
    #[must_use]
    pub fn has(&self, provider: &str) -> bool {
        self.catalog.providers().get(provider).is_some()
    }

    /// The names of the providers, for messages.
    #[must_use]
    pub fn names(&self) -> String {
        self.catalog.providers().names()
    }

    /// The keys that were stored.
    #[must_use]
    pub fn store(&self) -> &KeyStore {
        &self.store
    }

    /// The providers, and where their keys come from.
    #[must_use]
    pub fn keys(&self) -> Vec<(String, String)> {
        let entries = self.catalog.providers().entries();
        entries
            .map(|entry| {
                let source = self.router.key_source(&format!("{}/x", entry.name));
                let source = match source.as_str() {
                    "none" if entry.needs_key => "no key".to_owned(),
                    "none" => "needs no key".to_owned(),
                    _ => source,
                };
                (entry.name.clone(), source)
            })
            .collect()
    }

    /// The models of all providers that could be used: servers are asked, others are listed by what is known.
    pub async fn list(&self) -> (Vec<Listed>, Vec<String>) {
        let network = lathe_net::Network::of(&self.environment);
        let entries: Vec<&Entry> = self
            .catalog
            .providers()
            .entries()
            .filter(|entry| self.is_usable(entry))
            .collect();
        let asked = entries.iter().map(|entry| {
            let key = self.router.plain_key(&entry.name);
            let network = &network;
            async move { discovery::ask(entry, key.as_deref(), network).await }
        });
        let answers: Vec<Option<Discovered>> = futures::future::join_all(asked).await;
        let (mut listed, mut warnings) = (Vec::new(), Vec::new());
        for (entry, answer) in entries.into_iter().zip(answers) {
            let found = answer.unwrap_or_default();
            warnings.extend(
                found
                    .warnings
                    .iter()
                    .map(|text| format!("{}/{text}", entry.name)),
            );
            self.add(entry, &found, &mut listed);
        }
        (listed, warnings)
    }

    fn is_usable(&self, entry: &Entry) -> bool {
        match entry.kind {
            Kind::Bedrock | Kind::Vertex => entry.declared,
            _ => {
                entry.base_url.is_some() && self.router.check(&format!("{}/x", entry.name)).is_ok()
            }
        }
    }

    fn add(&self, entry: &Entry, found: &Discovered, listed: &mut Vec<Listed>) {
        let mut providers = (**self.catalog.providers()).clone();
        for (model, facts) in &found.models {
            providers.discovered(&entry.name, model, facts);
        }
        let known = providers.get(&entry.name).map(|entry| entry.models.clone());
        let catalog = Catalog::clone(&self.catalog).with_providers(Arc::new(providers));
        for (model, facts) in known.unwrap_or_default() {
            let resolved = catalog.resolve(&format!("{}/{model}", entry.name));
            let info = resolved.info;
            listed.push(Listed {
                provider: entry.name.clone(),
                model,
                kind: entry.kind.name(),
                context_window: info.context_window,
                tools: info.abilities.tools,
                images: info.abilities.images,
                reasoning: info.abilities.reasoning,
                price: info.prices.map(|prices| ListedPrice {
                    input: prices.input,
                    output: prices.output,
                    cache_read: prices.cache_read,
                }),
                source: facts
                    .source
                    .unwrap_or(if resolved.known { "table" } else { "default" }),
            });
        }
    }

    /// Tries out what a model can do.
    ///
    /// # Errors
    /// When its provider can't be set up.
    pub async fn test(&self, model: &str) -> Result<Vec<Trial>, ModelError> {
        let id = self.catalog.resolve(model).id;
        self.router.check(&id)?;
        Ok(trial::run(&self.router, &id).await)
    }
}
