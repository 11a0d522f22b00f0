//! Asks servers which models they have, and with which window.
//!
//! Local servers have their own addresses beside the API, at the root: llama.cpp `/props`, Ollama `/api/tags`,
//! `/api/ps` and `/api/show`, LM Studio `/api/v0/models`. All are asked at once, within a short limit: what isn't there
//! doesn't answer.

use crate::providers::{Kind, ModelFacts, ProviderEntry};
use http::{HeaderMap, HeaderName, HeaderValue};
use lathe_net::{ClientOptions, Network, Reach};
use lathe_settings::schema::PriceSettings;
use reqwest::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use url::Url;

/// How long a server on this machine may take.
pub const LOCAL_LIMIT: Duration = Duration::from_millis(300);
/// How long one elsewhere may take.
pub const REMOTE_LIMIT: Duration = Duration::from_secs(5);
/// The most pages of a list that are read.
const MOST_PAGES: usize = 20;
/// The window of Ollama where nobody said another one.
const OLLAMA_WINDOW: u64 = 4096;

/// The answer of a server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Discovered {
    /// Its models, with what is known about them.
    pub models: Vec<(String, ModelFacts)>,
    /// Notices for the user.
    pub warnings: Vec<String>,
}

/// Asks one provider, whose variables are filled in; `None` if it doesn't answer in time, or there is no way to ask.
pub(crate) async fn ask(
    entry: &ProviderEntry,
    key: Option<&str>,
    network: &Network,
    limit: Duration,
) -> Option<Discovered> {
    let asking = ask_now(entry, key, network);
    tokio::time::timeout(limit, asking).await.ok().flatten()
}

async fn ask_now(
    entry: &ProviderEntry,
    key: Option<&str>,
    network: &Network,
) -> Option<Discovered> {
    let base = Url::parse(entry.base_url.as_deref()?).ok()?;
    let options = ClientOptions {
        reach: Reach::by_scheme(&base),
        connect_timeout: Some(REMOTE_LIMIT),
        ..ClientOptions::default()
    };
    let asking = Asking {
        client: network.client(&options).ok()?,
        base,
        key: key.map(str::to_owned),
        kind: entry.kind,
        headers: own_headers(entry),
        query: entry.query.clone(),
    };
    match entry.kind {
        // Some speak other families, too.
        Kind::Chat | Kind::Responses | Kind::Anthropic if entry.is_local() => asking.local().await,
        Kind::Chat | Kind::Responses | Kind::Gemini | Kind::Anthropic => asking.listed().await,
        Kind::Bedrock | Kind::Vertex => None,
    }
}

struct Asking {
    client: Client,
    base: Url,
    key: Option<String>,
    kind: Kind,
    /// The user's headers and parameters.
    headers: HeaderMap,
    query: BTreeMap<String, String>,
}

/// The headers of a declaration: a gateway wants them on every request.
fn own_headers(entry: &ProviderEntry) -> HeaderMap {
    let headers = entry.headers.iter().filter(|(_, value)| !value.is_empty());
    headers
        .filter_map(|(name, value)| {
            let name = HeaderName::try_from(name.as_str()).ok()?;
            let mut value = HeaderValue::try_from(value.as_str()).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        })
        .collect()
}

impl Asking {
    async fn get(&self, url: Url) -> Option<Value> {
        let mut request = self.client.get(url);
        if let Some(key) = &self.key {
            request = match self.kind {
                Kind::Gemini => request.header("x-goog-api-key", key),
                Kind::Anthropic => request
                    .header("x-api-key", key)
                    .header("anthropic-version", "2023-06-01"),
                _ => request.bearer_auth(key),
            };
        }
        let response = request.headers(self.headers.clone()).send().await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let body = lathe_net::body(response, 16 * 1024 * 1024).await.ok()?;
        serde_json::from_slice(&body).ok()
    }

    fn root(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(path);
        url.set_query(None);
        url
    }

    fn models_url(&self) -> Url {
        let mut url = self.base.clone();
        let mut path = url.path().trim_end_matches('/').to_owned();
        if self.kind == Kind::Anthropic && !path.ends_with("/v1") {
            path.push_str("/v1");
        }
        url.set_path(&format!("{path}/models"));
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        url
    }

    /// The models, as every server of these families lists them.
    async fn listed(&self) -> Option<Discovered> {
        let mut found = Discovered::default();
        let mut url = self.models_url();
        for page in 0..MOST_PAGES {
            let Some(value) = self.get(url).await else {
                return (page > 0).then_some(found);
            };
            let list = value["data"].as_array().or(value["models"].as_array());
            let Some(list) = list.filter(|list| page == 0 || !list.is_empty()) else {
                return (page > 0).then_some(found);
            };
            found.models.extend(list.iter().filter_map(listed_model));
            let Some((name, place)) = next_page(&value) else {
                break;
            };
            url = self.models_url();
            url.query_pairs_mut().append_pair(name, place);
        }
        Some(found)
    }

    async fn local(&self) -> Option<Discovered> {
        let (listed, props, tags, studio) = futures::join!(
            self.listed(),
            self.get(self.root("/props")),
            self.get(self.root("/api/tags")),
            self.get(self.root("/api/v0/models")),
        );
        if let Some(studio) = studio.filter(|it| it["data"].is_array()) {
            return Some(lm_studio(&studio));
        }
        if let Some(tags) = tags.filter(|it| it["models"].is_array()) {
            return Some(self.ollama(&tags).await);
        }
        let mut found = listed?;
        if let Some(props) = props {
            llama_cpp(&mut found, &props);
        }
        Some(found)
    }

    async fn ollama(&self, tags: &Value) -> Discovered {
        let running = self.get(self.root("/api/ps")).await.unwrap_or_default();
        let names: Vec<String> = tags["models"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|model| model["name"].as_str().map(str::to_owned))
            .collect();
        let shown = futures::future::join_all(names.iter().map(|name| self.show(name))).await;
        let mut found = Discovered::default();
        for (name, shown) in names.into_iter().zip(shown) {
            let in_use = running["models"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|model| model["name"] == name.as_str())
                .and_then(|model| model["context_length"].as_u64());
            let facts = ollama_model(&shown.unwrap_or_default(), in_use);
            if let Some(window) = facts.context_window
                && window <= OLLAMA_WINDOW
            {
                found.warnings.push(format!(
                    "{name}: Ollama uses a window of {window} tokens and cuts off the rest silently; start it with OLLAMA_CONTEXT_LENGTH=32768, or set num_ctx in a Modelfile"
                ));
            }
            found.models.push((name, facts));
        }
        found
    }

    async fn show(&self, name: &str) -> Option<Value> {
        let request = self
            .client
            .post(self.root("/api/show"))
            .headers(self.headers.clone())
            .json(&json!({"model": name}));
        let response = request.send().await.ok()?;
        let body = lathe_net::body(response, 4 * 1024 * 1024).await.ok()?;
        serde_json::from_slice(&body).ok()
    }
}

/// The parameter that asks for the next page of a list: Gemini's token, or Anthropic's last id.
fn next_page(value: &Value) -> Option<(&'static str, &str)> {
    if let Some(token) = value["nextPageToken"].as_str().filter(|it| !it.is_empty()) {
        return Some(("pageToken", token));
    }
    let last = value["last_id"].as_str()?;
    (value["has_more"] == true).then_some(("after_id", last))
}

fn found() -> ModelFacts {
    ModelFacts {
        source: Some("server"),
        ..ModelFacts::default()
    }
}

/// An entry of a list of models.
fn listed_model(model: &Value) -> Option<(String, ModelFacts)> {
    let id = model["id"].as_str().or(model["name"].as_str())?;
    let id = id.strip_prefix("models/").unwrap_or(id).to_owned();
    let mut facts = found();
    facts.context_window = [
        "max_model_len",
        "context_length",
        "inputTokenLimit",
        "max_input_tokens",
        "context_window",
    ]
    .into_iter()
    .find_map(|key| model[key].as_u64())
    .or_else(|| model["meta"]["n_ctx"].as_u64())
    .filter(|window| *window > 0);
    facts.max_output = [
        &model["outputTokenLimit"],
        &model["top_provider"]["max_completion_tokens"],
        &model["max_tokens"],
    ]
    .into_iter()
    .find_map(Value::as_u64)
    .and_then(|tokens| u32::try_from(tokens).ok());
    if let Some(supported) = model["supported_parameters"].as_array() {
        let has = |name: &str| supported.iter().any(|it| it == name);
        facts.tools = Some(has("tools"));
        facts.reasoning = Some(has("reasoning"));
    }
    if let Some(inputs) = model["architecture"]["input_modalities"].as_array() {
        facts.images = Some(inputs.iter().any(|it| it == "image"));
    }
    facts.price = price(&model["pricing"]);
    Some((id, facts))
}

/// Prices a token, as texts; ours are a million tokens.
fn price(pricing: &Value) -> Option<PriceSettings> {
    let million = |name: &str| {
        let text = pricing[name].as_str()?;
        let price: f64 = text.parse().ok()?;
        (price >= 0.0).then_some(price * 1_000_000.0)
    };
    Some(PriceSettings {
        input: Some(million("prompt")?),
        output: Some(million("completion")?),
        cache_read: million("input_cache_read"),
        cache_write: million("input_cache_write"),
        ..PriceSettings::default()
    })
}

fn llama_cpp(found: &mut Discovered, props: &Value) {
    let window = props["default_generation_settings"]["n_ctx"]
        .as_u64()
        .filter(|window| *window > 0);
    let images = props["modalities"]["vision"].as_bool();
    let tools = props["chat_template_caps"]["supports_tools"]
        .as_bool()
        .or_else(|| Some(props["chat_template"].as_str()?.contains("tools")));
    for (_, facts) in &mut found.models {
        facts.context_window = window.or(facts.context_window);
        facts.images = images.or(facts.images);
        facts.tools = tools.or(facts.tools);
        facts.grammar = Some(window.is_some());
    }
}

fn lm_studio(value: &Value) -> Discovered {
    let list = value["data"].as_array().into_iter().flatten();
    let models = list
        .filter(|model| model["type"] != "embeddings")
        .filter_map(|model| {
            let mut facts = found();
            // The loaded window, not the model's maximum.
            facts.context_window = model["loaded_context_length"]
                .as_u64()
                .or_else(|| model["max_context_length"].as_u64());
            facts.images = Some(model["type"] == "vlm");
            if let Some(abilities) = model["capabilities"].as_array() {
                facts.tools = Some(abilities.iter().any(|it| it == "tool_use"));
            }
            Some((model["id"].as_str()?.to_owned(), facts))
        });
    Discovered {
        models: models.collect(),
        warnings: Vec::new(),
    }
}

fn ollama_model(shown: &Value, in_use: Option<u64>) -> ModelFacts {
    let mut facts = found();
    let parameters = shown["parameters"].as_str().unwrap_or_default();
    let set = parameters.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("num_ctx")).then(|| words.next()?.parse().ok())?
    });
    facts.context_window = in_use.or(set).or(Some(OLLAMA_WINDOW));
    if let Some(abilities) = shown["capabilities"].as_array() {
        let has = |name: &str| Some(abilities.iter().any(|it| it == name));
        facts.tools = has("tools");
        facts.images = has("vision");
        facts.reasoning = has("thinking");
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_in_use_counts_and_not_what_the_model_could() {
        let shown = json!({"capabilities": ["completion", "tools"], "parameters": "stop \"x\"\nnum_ctx 16384",
            "model_info": {"qwen3.context_length": 40960}});
        assert_eq!(ollama_model(&shown, Some(8192)).context_window, Some(8192));
        assert_eq!(ollama_model(&shown, None).context_window, Some(16384));
        let silent = ollama_model(
            &json!({"model_info": {"qwen3.context_length": 40960}}),
            None,
        );
        assert_eq!(silent.context_window, Some(4096));
        let studio = lm_studio(
            &json!({"data": [{"id": "a", "type": "llm", "max_context_length": 131_072, "loaded_context_length": 4096}]}),
        );
        assert_eq!(studio.models[0].1.context_window, Some(4096));
        let mut found = Discovered {
            models: vec![
                listed_model(&json!({"id": "m", "meta": {"n_ctx_train": 32768}})).unwrap(),
            ],
            ..Discovered::default()
        };
        llama_cpp(
            &mut found,
            &json!({"default_generation_settings": {"n_ctx": 8192}, "modalities": {"vision": false}}),
        );
        assert_eq!(found.models[0].1.context_window, Some(8192));
        assert_eq!(found.models[0].1.images, Some(false));
    }

    #[test]
    fn lists_of_hosted_services_have_windows_and_prices() {
        let (id, facts) = listed_model(&json!({"id": "org/m", "context_length": 200_000,
            "pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"},
            "architecture": {"input_modalities": ["text", "image"]}, "supported_parameters": ["tools"]}))
        .unwrap();
        assert_eq!(
            (id.as_str(), facts.context_window, facts.tools, facts.images),
            ("org/m", Some(200_000), Some(true), Some(true))
        );
        let price = facts.price.unwrap();
        assert!(
            (price.input.unwrap() - 3.0).abs() < 1e-9
                && (price.output.unwrap() - 15.0).abs() < 1e-9
        );
        let (id, facts) =
            listed_model(&json!({"name": "models/gemini-x", "inputTokenLimit": 1_048_576}))
                .unwrap();
        assert_eq!(
            (id.as_str(), facts.context_window, facts.price),
            ("gemini-x", Some(1_048_576), None)
        );
    }
}
