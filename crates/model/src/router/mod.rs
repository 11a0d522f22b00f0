//! One provider above all others: it sends each request to the one that its model names.
//!
//! The rest of the program knows a model by its id: `claude-x` at the default provider, `provider/model` at any
//! other. So the model of an agent, the small one and the fallback one may be served by different providers in one
//! session. Connections are made when they are first needed.

mod learning;

use crate::anthropic::credentials::{CredentialSource, Credentials};
use crate::catalog::Catalog;
use crate::chat::{Chat, GRAMMAR};
use crate::cloud::aws::Aws;
use crate::cloud::google::Google;
use crate::cloud::translate::{self, Cloud, OnCloud};
use crate::error::ModelError;
use crate::fitting::Fitting;
use crate::gemini::Gemini;
use crate::provider::{Provider, ResponseStream, Transfer};
use crate::providers::{ANTHROPIC, Directory, KeySource, Kind, ModelFacts, ProviderEntry, values};
use crate::request::ModelRequest;
use crate::responses::Responses;
use crate::text_calls::prompt::Prompts;
use crate::text_calls::{self, Calls, Mode};
use crate::wire::authorize::{Authorizer, KeyHeader};
use crate::wire::{Connection, ConnectionParts, HttpProvider};
use crate::{AnthropicConfig, AnthropicProvider, KeyHelper};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::StreamExt as _;
use http::HeaderName;
use lathe_protocol::stream::{StreamEvent, StreamPiece};
use lathe_settings::{Environment, Variable};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Makes a helper out of a command.
pub type HelperOf = Arc<dyn Fn(&str) -> KeyHelper + Send + Sync>;
/// Gives the key that was stored for a provider.
pub type StoredKey = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Where keys come from that are neither in the environment nor in settings.
#[derive(Clone, Default)]
pub struct Keys {
    /// Makes a helper out of the command of a setting.
    pub helper: Option<HelperOf>,
    /// The same for a command that signs the user in, which may take minutes.
    pub sign_in: Option<HelperOf>,
    /// A key that was stored for a provider.
    pub stored: Option<StoredKey>,
    /// The command that renews the sign-in at AWS.
    pub aws_refresh: Option<String>,
    /// The command that prints AWS credentials.
    pub aws_export: Option<String>,
}

impl Keys {
    /// Whether a key was stored for a provider.
    #[must_use]
    pub fn has(&self, provider: &str) -> bool {
        self.stored
            .as_ref()
            .is_some_and(|stored| stored(provider).is_some())
    }
}

/// Sends each request to the provider of its model.
pub struct Router {
    default: Option<Arc<dyn Provider>>,
    shared: Arc<Shared>,
}

struct Shared {
    environment: Environment,
    keys: Keys,
    catalog: Arc<Catalog>,
    network: lathe_net::Network,
    made: Mutex<HashMap<String, Arc<dyn Provider>>>,
    prompts: Prompts,
    fitting: Fitting,
    /// Models whose servers were asked about them.
    asked: Mutex<HashSet<String>>,
    /// Models that turned out to know no tools.
    wordy: Mutex<HashSet<String>>,
}

impl Router {
    /// A router over the providers of a catalog. `default` is the one of the `ANTHROPIC_*` variables, if it
    /// can be used.
    #[must_use]
    pub fn new(
        environment: &Environment,
        catalog: Arc<Catalog>,
        default: Option<Arc<dyn Provider>>,
        keys: Keys,
    ) -> Self {
        Self {
            default,
            shared: Arc::new(Shared {
                environment: environment.clone(),
                keys,
                catalog,
                network: lathe_net::Network::of(environment),
                made: Mutex::default(),
                prompts: Prompts::default(),
                fitting: Fitting::default(),
                asked: Mutex::default(),
                wordy: Mutex::default(),
            }),
        }
    }

    /// Whether a model could be asked: its provider can be set up, and has a key if it needs one. For
    /// telling so before anything else is done.
    ///
    /// # Errors
    /// When not; the message names the variable or the setting.
    pub fn check(&self, model: &str) -> Result<(), ModelError> {
        self.located(model).map(|_| ())
    }

    /// Where the key of a model's provider comes from, in words.
    #[must_use]
    pub fn key_source(&self, model: &str) -> String {
        let providers = self.shared.catalog.providers();
        let name = providers.located(model).provider;
        let Some(entry) = providers.get(name) else {
            return "none".to_owned();
        };
        self.shared.key_source(entry)
    }

    fn located(&self, model: &str) -> Result<(Arc<dyn Provider>, Option<String>), ModelError> {
        let providers = self.shared.catalog.providers();
        let reference = providers.located(model);
        let name = providers.name_of(model).map(str::to_owned);
        if reference.provider == ANTHROPIC {
            if let Some(provider) = &self.default {
                return Ok((Arc::clone(provider), name));
            }
            providers.known(model)?;
        }
        let made = self.shared.made.lock().get(reference.provider).cloned();
        let provider = match made {
            Some(provider) => provider,
            None => self.shared.make(providers, reference.provider)?,
        };
        let name = name.unwrap_or_else(|| reference.model.to_owned());
        Ok((provider, Some(name)))
    }
}

impl Shared {
    /// Sends a request, with its tools in words or not.
    async fn ask(
        &self,
        provider: &dyn Provider,
        request: &ModelRequest,
        transfer: Transfer,
        how: Calls,
    ) -> Result<ResponseStream, ModelError> {
        if how.in_words {
            let offered = self.prompts.offered(request);
            let mut rewritten = self.prompts.rewritten(request);
            if how.grammar && !offered.names.is_empty() {
                let grammar = text_calls::grammar::of(&offered.names);
                rewritten.extra.insert(GRAMMAR.to_owned(), grammar.into());
            }
            let response = provider.stream(&rewritten, transfer).await?;
            return Ok(text_calls::rewritten(response, offered, Mode::Prompted));
        }
        let response = provider.stream(request, transfer).await?;
        if how.may_be_text && !request.tools.is_empty() {
            let offered = self.prompts.offered(request);
            return Ok(text_calls::rewritten(response, offered, Mode::Only));
        }
        Ok(response)
    }

    fn make(&self, providers: &Directory, name: &str) -> Result<Arc<dyn Provider>, ModelError> {
        let Some(entry) = providers.get(name) else {
            return Err(ModelError::Configuration {
                message: format!(
                    "there is no provider {name}; there are {}",
                    providers.names()
                ),
            });
        };
        let provider = self.connect(entry)?;
        let mut made = self.made.lock();
        let provider = made.entry(name.to_owned()).or_insert(provider);
        Ok(Arc::clone(provider))
    }

    fn connect(&self, entry: &ProviderEntry) -> Result<Arc<dyn Provider>, ModelError> {
        let entry = Arc::new(self.filled(entry)?);
        let catalog = Arc::clone(&self.catalog);
        let name = entry.name.clone();
        let facts: crate::chat::FactsOf = Arc::new(move |model| facts_of(&catalog, &name, model));
        match entry.kind {
            Kind::Anthropic => self.anthropic(&entry),
            Kind::Chat => {
                let connection = self.connection(&entry, "/chat/completions", None)?;
                Ok(Arc::new(HttpProvider::new(
                    connection,
                    Chat::new(entry, facts),
                )))
            }
            Kind::Responses => {
                let connection = self.connection(&entry, "/responses", None)?;
                let translator = Responses::new(entry, facts);
                Ok(Arc::new(HttpProvider::new(connection, translator)))
            }
            Kind::Gemini => {
                let name = HeaderName::from_static("x-goog-api-key");
                let key = KeyHeader::new(name, "", self.key(&entry)?);
                let connection =
                    self.connection(&entry, "/models", Some(Authorizer::Header(Box::new(key))))?;
                let translator = Gemini::new(entry, facts);
                Ok(Arc::new(HttpProvider::new(connection, translator)))
            }
            Kind::Bedrock => self.bedrock(&entry),
            Kind::Vertex => self.vertex(&entry),
        }
    }

    /// An entry with its variables filled in.
    fn filled(&self, entry: &ProviderEntry) -> Result<ProviderEntry, ModelError> {
        let fill = |key: &str, text: &str| {
            values::filled(text, &self.environment).map_err(|unset| ModelError::MissingKey {
                message: format!("providers.{}.{key}: {unset}", entry.name),
            })
        };
        let mut filled = entry.clone();
        if let Some(url) = &entry.base_url {
            filled.base_url = Some(fill("baseUrl", url)?);
        }
        for (name, value) in &mut filled.headers {
            *value = fill(&format!("headers.{name}"), value)?;
        }
        for (name, value) in &mut filled.query {
            *value = fill(&format!("query.{name}"), value)?;
        }
        Ok(filled)
    }

    fn key(&self, entry: &ProviderEntry) -> Result<CredentialSource, ModelError> {
        let given = |key: String| Credentials {
            api_key: Some(key),
            bearer: None,
        };
        match &entry.key {
            KeySource::Helper(command) => {
                let helper = self.keys.helper.as_ref().map(|make| make(command));
                let config = AnthropicConfig::of(&self.environment)?;
                Ok(CredentialSource::of(
                    Credentials::default(),
                    helper,
                    config.key_helper_lifetime,
                ))
            }
            KeySource::Variables(names) => {
                let found = names
                    .iter()
                    .find_map(|name| self.environment.foreign(name).map(str::trim))
                    .filter(|key| !key.is_empty())
                    .map(str::to_owned)
                    .or_else(|| self.stored(&entry.name));
                match found {
                    Some(key) => Ok(CredentialSource::of(given(key), None, Duration::ZERO)),
                    None if entry.needs_key => Err(ModelError::MissingKey {
                        message: format!(
                            "{} has no key: set {}, or run `lathe login {}`",
                            entry.name,
                            names.join(" or "),
                            entry.name
                        ),
                    }),
                    None => Ok(CredentialSource::key(None)),
                }
            }
            KeySource::None => Ok(CredentialSource::key(self.stored(&entry.name))),
        }
    }

    fn stored(&self, name: &str) -> Option<String> {
        self.keys.stored.as_ref().and_then(|stored| stored(name))
    }

    fn key_source(&self, entry: &ProviderEntry) -> String {
        match &entry.key {
            KeySource::Helper(_) => "apiKeyHelper".to_owned(),
            KeySource::Variables(names) => {
                let set = names
                    .iter()
                    .find(|name| self.environment.foreign(name).is_some());
                match set {
                    Some(name) => name.clone(),
                    None if self.stored(&entry.name).is_some() => "lathe login".to_owned(),
                    None => "none".to_owned(),
                }
            }
            KeySource::None => "none".to_owned(),
        }
    }

    fn connection(
        &self,
        entry: &ProviderEntry,
        endpoint: &str,
        authorizer: Option<Authorizer>,
    ) -> Result<Connection, ModelError> {
        let authorizer = match authorizer {
            Some(authorizer) => authorizer,
            None => Authorizer::Header(Box::new(KeyHeader::bearer(self.key(entry)?))),
        };
        let key_hint = match &entry.key {
            KeySource::Variables(names) => format!("the key in {}", names.join(" or ")),
            KeySource::Helper(_) => format!("providers.{}.apiKeyHelper", entry.name),
            KeySource::None if entry.kind == Kind::Bedrock => {
                "the credentials of AWS (AWS_ACCESS_KEY_ID, AWS_PROFILE or awsAuthRefresh)"
                    .to_owned()
            }
            KeySource::None if entry.kind == Kind::Vertex => {
                "the credentials of Google (GOOGLE_APPLICATION_CREDENTIALS or gcloud)".to_owned()
            }
            KeySource::None => format!("providers.{}.apiKeyEnv or headers", entry.name),
        };
        let client_app = crate::anthropic::config::client_app(&self.environment);
        Connection::new(ConnectionParts {
            provider: &entry.name,
            base: entry.base_url.as_deref().unwrap_or_default(),
            endpoint,
            headers: &entry.headers,
            query: &entry.query,
            network: &self.network,
            client_app: client_app.as_deref(),
            authorizer,
            key_hint,
        })
    }

    fn bedrock(&self, entry: &ProviderEntry) -> Result<Arc<dyn Provider>, ModelError> {
        let cloud = &entry.cloud;
        let aws = Aws::new(
            &self.environment,
            &self.network,
            cloud.region.as_deref(),
            cloud.profile.as_deref(),
            self.keys.clone(),
        )?;
        let mut entry = entry.clone();
        let of_variable = self.environment.get(Variable::BedrockBaseUrl);
        entry.base_url = entry
            .base_url
            .or_else(|| of_variable.map(str::to_owned))
            .or_else(|| {
                Some(format!(
                    "https://bedrock-runtime.{}.amazonaws.com",
                    aws.region()
                ))
            });
        // A key that was declared is a bearer token.
        let authorizer = match &entry.key {
            KeySource::None => Authorizer::Aws(Arc::new(aws)),
            _ => Authorizer::Header(Box::new(KeyHeader::bearer(self.key(&entry)?))),
        };
        let connection = self.connection(&entry, "/model", Some(authorizer))?;
        let translator = OnCloud {
            cloud: Cloud::Bedrock,
        };
        Ok(Arc::new(HttpProvider::new(connection, translator)))
    }

    fn vertex(&self, entry: &ProviderEntry) -> Result<Arc<dyn Provider>, ModelError> {
        let mut entry = entry.clone();
        let get = |variable| self.environment.get(variable).map(str::to_owned);
        let region = entry
            .cloud
            .region
            .clone()
            .or_else(|| get(Variable::VertexRegion));
        let region = region.unwrap_or_else(|| "global".to_owned());
        let project = entry
            .cloud
            .project
            .clone()
            .or_else(|| get(Variable::VertexProject))
            .or_else(|| {
                self.environment
                    .foreign("GOOGLE_CLOUD_PROJECT")
                    .map(str::to_owned)
            });
        let Some(project) = project else {
            return Err(ModelError::MissingKey {
                message: format!(
                    "{}: no project is set: set ANTHROPIC_VERTEX_PROJECT_ID, or `project` of the provider",
                    entry.name
                ),
            });
        };
        entry.base_url = entry
            .base_url
            .or_else(|| get(Variable::VertexBaseUrl))
            .or_else(|| Some(translate::vertex_address(&region)));
        let given = match &entry.key {
            KeySource::None => None,
            _ => Some(self.key(&entry)?),
        };
        let google = Google::new(self.environment.clone(), self.network.clone(), given);
        let authorizer = Authorizer::Google(Arc::new(google));
        let connection = self.connection(&entry, "/projects", Some(authorizer))?;
        let translator = OnCloud {
            cloud: Cloud::Vertex { project, region },
        };
        Ok(Arc::new(HttpProvider::new(connection, translator)))
    }

    /// The address of Foundry, from its variables.
    fn foundry(&self, entry: &ProviderEntry) -> Result<String, ModelError> {
        if let Some(url) = self.environment.get(Variable::FoundryBaseUrl) {
            return Ok(url.to_owned());
        }
        match self.environment.get(Variable::FoundryResource) {
            Some(resource) => Ok(format!(
                "https://{resource}.services.ai.azure.com/anthropic"
            )),
            None => Err(ModelError::MissingKey {
                message: format!(
                    "{}: no address is set: set ANTHROPIC_FOUNDRY_RESOURCE or ANTHROPIC_FOUNDRY_BASE_URL",
                    entry.name
                ),
            }),
        }
    }

    fn anthropic(&self, entry: &ProviderEntry) -> Result<Arc<dyn Provider>, ModelError> {
        let key = self.key(entry)?;
        let config = AnthropicConfig {
            base_url: match &entry.base_url {
                Some(url) => url.clone(),
                None => self.foundry(entry)?,
            },
            headers: entry
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            query: entry
                .query
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            network: self.network.clone(),
            ..AnthropicConfig::default()
        };
        let provider = AnthropicProvider::with_credentials(&config, &entry.name, key)?;
        Ok(Arc::new(provider))
    }
}

/// Facts about a model of a provider: settings and discovery, then the table.
fn facts_of(catalog: &Catalog, provider: &str, model: &str) -> ModelFacts {
    let mut facts = catalog
        .providers()
        .get(provider)
        .map(|entry| entry.facts(model))
        .unwrap_or_default();
    let info = catalog.resolve(&format!("{provider}/{model}")).info;
    facts.tools = facts.tools.or(info.abilities.tools);
    facts.images = facts.images.or(info.abilities.images);
    facts.reasoning = facts.reasoning.or(info.abilities.reasoning);
    facts.max_output = facts.max_output.or(Some(info.max_output));
    facts.context_window = facts.context_window.or(Some(info.context_window));
    facts
}

/// Whether a model was refused tools: then they are described in words.
fn refuses_tools(error: &ModelError) -> bool {
    let Some(failure) = error.failure() else {
        return false;
    };
    let text = failure.message.to_lowercase();
    [
        "does not support tools",
        "does not support function",
        "tools are not supported",
        "tool use is not supported",
        "support tool use",
        "function calling is not enabled",
        "tool choice requires --enable-auto-tool-choice",
        "tools param requires --jinja",
    ]
    .iter()
    .any(|sentence| text.contains(sentence))
}

/// The request as the provider gets it: with its own id of the model, and the fields that the user wants in it.
fn rewritten(request: &ModelRequest, model: String, entry: Option<&ProviderEntry>) -> ModelRequest {
    let mut request = request.clone();
    request.model = model;
    if let Some(entry) = entry
        && entry.kind.is_messages()
    {
        for (name, value) in &entry.body {
            request.extra.insert(name.clone(), value.clone());
        }
    }
    request
}

/// The first event names the model as the rest of the program knows it.
fn renamed(piece: StreamPiece, name: &str) -> StreamPiece {
    match piece.event {
        StreamEvent::MessageStart { mut message } => {
            name.clone_into(&mut message.model);
            let event = StreamEvent::MessageStart { message };
            let raw = Bytes::from(serde_json::to_vec(&event).unwrap_or_default());
            StreamPiece::new(event, raw)
        }
        _ => piece,
    }
}

impl Provider for Router {
    fn name(&self) -> &'static str {
        "router"
    }

    fn stream(
        &self,
        request: &ModelRequest,
        transfer: Transfer,
    ) -> BoxFuture<'static, Result<ResponseStream, ModelError>> {
        let (provider, model) = match self.located(&request.model) {
            Ok(found) => found,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let providers = self.shared.catalog.providers();
        let reference = providers.located(&request.model);
        let entry = providers.get(reference.provider);
        // Of a model at the usual place nothing has to be different, unless settings say so.
        if model.is_none() && entry.is_none_or(|entry| !entry.knows(reference.model)) {
            return provider.stream(request, transfer);
        }
        let facts = facts_of(&self.shared.catalog, reference.provider, reference.model);
        let mut plain = match model {
            Some(model) => rewritten(request, model, entry),
            None => request.clone(),
        };
        if entry.is_some_and(|entry| entry.kind.is_messages()) {
            self.shared.fitting.fit(&mut plain, &facts);
        }
        let name = request.model.clone();
        // Servers on this machine leave calls in the text, whichever protocol they speak.
        let may_be_text = entry.is_some_and(|entry| {
            entry.kind == Kind::Chat
                || (entry.is_local() && matches!(entry.kind, Kind::Responses | Kind::Anthropic))
        });
        let shared = Arc::clone(&self.shared);
        let mut how = Calls {
            in_words: facts.tools == Some(false) || shared.wordy.lock().contains(&name),
            grammar: entry.is_some_and(|entry| entry.kind == Kind::Chat)
                && facts.grammar == Some(true),
            may_be_text,
        };
        Box::pin(async move {
            let response = shared.ask(&*provider, &plain, transfer, how).await;
            let response = match response {
                Err(error) if !how.in_words && refuses_tools(&error) && !plain.tools.is_empty() => {
                    shared.wordy.lock().insert(name.clone());
                    how.in_words = true;
                    shared.ask(&*provider, &plain, transfer, how).await?
                }
                other => other?,
            };
            let events = response
                .events
                .map(move |item| item.map(|piece| renamed(piece, &name)));
            Ok(ResponseStream {
                request_id: response.request_id,
                events: events.boxed(),
            })
        })
    }

    fn count_tokens(&self, request: &ModelRequest) -> BoxFuture<'static, Result<u64, ModelError>> {
        match self.located(&request.model) {
            Ok((provider, None)) => provider.count_tokens(request),
            Ok((provider, Some(model))) => provider.count_tokens(&rewritten(request, model, None)),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn refresh_credentials(
        &self,
        request: &ModelRequest,
    ) -> BoxFuture<'static, Result<bool, ModelError>> {
        match self.located(&request.model) {
            Ok((provider, _)) => provider.refresh_credentials(request),
            Err(_) => Box::pin(std::future::ready(Ok(false))),
        }
    }

    fn learn(&self, model: &str) -> BoxFuture<'static, Vec<String>> {
        let shared = Arc::clone(&self.shared);
        let model = model.to_owned();
        Box::pin(async move { shared.learn(&model).await })
    }

    fn remarks(&self) -> Vec<String> {
        let made: Vec<Arc<dyn Provider>> = self.shared.made.lock().values().cloned().collect();
        made.iter()
            .flat_map(|provider| provider.remarks())
            .collect()
    }
}
