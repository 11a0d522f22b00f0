//! The models that could be used here, without a session: for `lathe models` and `lathe login`.

use crate::open::model::{anthropic, chosen_model, directory_catalog, keys, provider};
use lathe_model::catalog::tables;
use lathe_model::discovery::Discovered;
pub use lathe_model::key_store::KeyStoreError;
use lathe_model::key_store::{KeyStore, Place};
pub use lathe_model::providers::ANTHROPIC;
use lathe_model::providers::{Kind, ProviderEntry};
use lathe_model::trial::{self, Trial};
use lathe_model::{Catalog, ModelError, ModelInfo, Router};
use lathe_settings::paths::config_home;
use lathe_settings::{Environment, Places, Resolved};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The providers and models of a folder.
pub struct Overview {
    environment: Environment,
    catalog: Arc<Catalog>,
    router: Router,
    problems: Vec<String>,
    store: KeyStore,
    table_url: Option<String>,
    settings: Resolved,
    places: Places,
}

/// Where the key of a provider comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderKey {
    /// The provider.
    pub provider: String,
    /// Where its key comes from, or why it needs none.
    pub source: String,
    /// Whether it needs a key and has none.
    pub is_missing: bool,
}

/// How long fetching a table may take, and how large it may be.
const FETCH_LIMIT: Duration = Duration::from_secs(60);
const LARGEST_TABLE: usize = 32 * 1024 * 1024;

/// Why the table of models wasn't renewed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// Nobody said from where.
    #[error("no URL: pass one, or set modelTableUrl in settings")]
    NoUrl,
    /// The address can't be read.
    #[error("{url} is not a URL: {reason}")]
    Url {
        /// The address.
        url: String,
        /// Why.
        reason: String,
    },
    /// Nothing came.
    #[error("{url} can't be fetched: {reason}")]
    Fetch {
        /// The address.
        url: String,
        /// Why.
        reason: String,
    },
    /// The response is not a table.
    #[error("{url} is not a model table: {error}")]
    Table {
        /// The address.
        url: String,
        /// Why.
        error: tables::TableError,
    },
    /// It can't be stored.
    #[error("{file} can't be written: {error}")]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

/// The file with the table that was fetched.
#[must_use]
pub fn table_file(environment: &Environment) -> PathBuf {
    config_home(environment).join("models-table.json")
}

fn store_table(file: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    lathe_settings::write::replace(file, text.as_bytes(), 0o600)
}

/// The rows of the table that was fetched; `None` if none was.
pub(crate) fn fetched_table(
    environment: &Environment,
) -> Result<Option<BTreeMap<String, ModelInfo>>, tables::TableError> {
    let Ok(text) = std::fs::read(table_file(environment)) else {
        return Ok(None);
    };
    let table: serde_json::Value = serde_json::from_slice(&text)?;
    tables::rows(&table).map(Some)
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
    /// From when and where the row of the table is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<ListedRow>,
}

/// From when and where the row of a table is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedRow {
    /// The day.
    pub date: String,
    /// The source.
    pub source: String,
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
        environment.withheld = lathe_settings::schema::key_variables(&settings.settings);
        let mut remarks = Vec::new();
        let catalog = Arc::new(directory_catalog(&environment, settings, &mut remarks));
        let problems = remarks.iter().map(ToString::to_string).collect();
        let keys = keys(places, &environment, settings);
        let made = anthropic(&environment, settings, places, &catalog, &keys);
        let anthropic = made.ok().and_then(|(provider, _)| provider);
        let router = Router::new(&environment, Arc::clone(&catalog), anthropic, keys);
        Self {
            store: KeyStore::new(&environment),
            table_url: settings.settings.model_table_url.clone(),
            settings: settings.clone(),
            places: places.clone(),
            environment,
            catalog,
            router,
            problems,
        }
    }

    /// Problems of the declarations.
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

    /// Stores the key of a provider. Gives a sentence that says where it is now.
    ///
    /// # Errors
    /// If the key can't be stored.
    pub fn log_in(&self, provider: &str, key: &str) -> Result<String, KeyStoreError> {
        let place = self.store.set(provider, key)?;
        let file = self.store.file().display();
        Ok(match place {
            Place::Keyring(program) => {
                format!("The key of {provider} is in the system's keyring ({program}).")
            }
            Place::File(None) => {
                format!("The key of {provider} is in {file} (only you can read it).")
            }
            Place::File(Some(why)) => format!(
                "The key of {provider} is in {file} (only you can read it): the keyring can't be used ({why})."
            ),
        })
    }

    /// The providers, and where their keys come from.
    #[must_use]
    pub fn keys(&self) -> Vec<ProviderKey> {
        let entries = self.catalog.providers().entries();
        entries
            .map(|entry| {
                let source = self.router.key_source(&format!("{}/x", entry.name));
                let is_missing = source == "none" && entry.needs_key;
                let source = match source.as_str() {
                    "none" if is_missing => "no key".to_owned(),
                    "none" => match entry.kind {
                        Kind::Bedrock => "AWS credentials, resolved on first use",
                        Kind::Vertex => "Google credentials, resolved on first use",
                        _ => "needs no key",
                    }
                    .to_owned(),
                    _ => source,
                };
                ProviderKey {
                    provider: entry.name.clone(),
                    source,
                    is_missing,
                }
            })
            .collect()
    }

    /// The models of all providers that could be used: servers are asked, others are listed by what is known.
    pub async fn list(&self) -> (Vec<Listed>, Vec<String>) {
        let entries: Vec<&ProviderEntry> = self
            .catalog
            .providers()
            .entries()
            .filter(|entry| self.is_usable(entry))
            .collect();
        let asked = entries
            .iter()
            .map(|entry| self.router.discover(&entry.name));
        let answers: Vec<Option<Discovered>> = futures::future::join_all(asked).await;
        let (mut listed, mut warnings) = (Vec::new(), Vec::new());
        for (entry, answer) in entries.into_iter().zip(answers) {
            if answer.is_none() && entry.declared && entry.models.is_empty() {
                let url = entry.base_url.as_deref().unwrap_or_default();
                warnings.push(format!("{}: {url} returned no list of models", entry.name));
            }
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

    fn is_usable(&self, entry: &ProviderEntry) -> bool {
        match entry.kind {
            Kind::Bedrock | Kind::Vertex => entry.declared,
            _ => {
                entry.base_url.is_some() && self.router.check(&format!("{}/x", entry.name)).is_ok()
            }
        }
    }

    fn add(&self, entry: &ProviderEntry, found: &Discovered, listed: &mut Vec<Listed>) {
        for (model, facts) in &found.models {
            self.catalog
                .providers()
                .discovered(&entry.name, model, facts);
        }
        let mut known = entry.known();
        if found.models.is_empty() && !entry.is_local() {
            // Nobody could be asked: what the table knows.
            for model in tables::models_of(&entry.name) {
                known.entry(model.to_owned()).or_default();
            }
        }
        for (model, facts) in known {
            let resolved = self.catalog.resolve(&format!("{}/{model}", entry.name));
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
                table: info
                    .date
                    .zip(info.source)
                    .map(|(date, source)| ListedRow { date, source }),
            });
        }
    }

    /// Whether a session without any choice of a model has no key for it.
    #[must_use]
    pub fn lacks_key(&self) -> bool {
        let settings = &self.settings;
        let options = crate::SessionOptions::default();
        chosen_model(&options, &self.environment, settings, &self.catalog, None).is_ok_and(
            |model| {
                let made = provider(
                    &self.environment,
                    settings,
                    &self.places,
                    &self.catalog,
                    &model.id,
                );
                matches!(made, Err(crate::OpenError::NoCredentials))
            },
        )
    }

    /// The models of servers that run on this machine and need no key, and the providers whose keys are there: what a
    /// person could use who has no key for the usual provider.
    pub async fn offers(&self) -> (Vec<Listed>, Vec<String>) {
        let providers = self.catalog.providers();
        let local: Vec<&ProviderEntry> = providers
            .entries()
            .filter(|entry| entry.is_local() && self.is_usable(entry))
            .collect();
        let asked = local.iter().map(|entry| self.router.discover(&entry.name));
        let answers = futures::future::join_all(asked).await;
        let mut found = Vec::new();
        for (entry, answer) in local.into_iter().zip(answers) {
            if let Some(answer) = answer {
                self.add(entry, &answer, &mut found);
            }
        }
        let with_key = providers
            .entries()
            .filter(|entry| entry.needs_key && self.is_usable(entry))
            .filter(|entry| entry.name != providers.default_provider())
            .map(|entry| entry.name.clone())
            .collect();
        (found, with_key)
    }

    /// Fetches a table of models and stores it; gives the number of its rows and the file.
    ///
    /// # Errors
    /// When no address is known, or what is there is no table.
    pub async fn update(&self, url: Option<&str>) -> Result<(usize, PathBuf), UpdateError> {
        let url = url
            .or(self.table_url.as_deref())
            .ok_or(UpdateError::NoUrl)?;
        let parsed = url::Url::parse(url).map_err(|error| UpdateError::Url {
            url: url.to_owned(),
            reason: error.to_string(),
        })?;
        let fetch = |reason: String| UpdateError::Fetch {
            url: url.to_owned(),
            reason,
        };
        let options = lathe_net::ClientOptions {
            reach: lathe_net::Reach::by_scheme(&parsed),
            timeout: Some(FETCH_LIMIT),
            ..lathe_net::ClientOptions::default()
        };
        let client = lathe_net::Network::of(&self.environment)
            .client(&options)
            .map_err(|error| fetch(error.to_string()))?;
        let response = client
            .get(parsed)
            .send()
            .await
            .map_err(|error| fetch(lathe_net::innermost(&error)))?;
        if !response.status().is_success() {
            return Err(fetch(format!("it answered {}", response.status())));
        }
        let body = lathe_net::body(response, LARGEST_TABLE)
            .await
            .map_err(|error| fetch(error.to_string()))?;
        let today = jiff::Zoned::now().date().to_string();
        let table = tables::fetched(&body, &today, url).map_err(|error| UpdateError::Table {
            url: url.to_owned(),
            error,
        })?;
        let rows = table["models"].as_object().map_or(0, serde_json::Map::len);
        let file = table_file(&self.environment);
        store_table(&file, &table.to_string()).map_err(|error| UpdateError::Write {
            file: file.clone(),
            error,
        })?;
        Ok((rows, file))
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
