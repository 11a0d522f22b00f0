//! The tools for the web, as settings and rules have them.

use futures::future::BoxFuture;
use lathe_mcp::config::expand;
use lathe_net::Network;
use lathe_permissions::Permissions;
use lathe_permissions::pattern::DomainPattern;
use lathe_protocol::diagnostic::Diagnostic;
use lathe_settings::schema::{self, Extract, SearchProvider};
use lathe_settings::{Environment, Resolved};
use lathe_tools::web_fetch::{WebFetch, WebPolicy};
use lathe_tools::web_search::{SearchAnswer, SearchPart, SearchService, WebSearch};
use lathe_tools::{CallContext, ToolError};
use lathe_web::Access;
use lathe_web::search::{Backend, Query, SearchError, Service, search};
use serde_json::{Value, json};
use std::sync::Arc;

/// The tools for the web.
pub(crate) struct WebTools {
    pub(crate) fetch: WebFetch,
    /// Absent where nothing can search.
    pub(crate) search: Option<WebSearch>,
}

impl WebTools {
    /// As settings, rules and the model's provider have them. `model` is one whose provider searches.
    pub(super) fn of(
        environment: &Environment,
        settings: &Resolved,
        permissions: &Arc<Permissions>,
        model: Option<&str>,
        remarks: &mut Vec<Diagnostic>,
    ) -> Self {
        let policy = SessionWebPolicy {
            permissions: permissions.clone(),
            settings: settings.settings.web_fetch.clone().unwrap_or_default(),
        };
        let network = Network::of(environment);
        let configured = settings.settings.web_search.as_ref();
        let service = match configured.filter(|it| it.is_used()) {
            Some(configured) => configured_service(configured, environment, &network, remarks),
            None => model.map(|_| Arc::new(ByModel) as Arc<dyn SearchService>),
        };
        Self {
            fetch: WebFetch::new(network, Arc::new(policy)),
            search: service.map(WebSearch::new),
        }
    }
}

/// The session's permissions and settings for WebFetch.
struct SessionWebPolicy {
    permissions: Arc<Permissions>,
    settings: schema::WebFetch,
}

impl WebPolicy for SessionWebPolicy {
    fn access(&self, host: &str) -> Access {
        let plain = &self.settings.plain_http;
        Access {
            private: self.permissions.snapshot().rules.names_host(host),
            plain_http: plain.iter().any(|known| covers(known, host)),
        }
    }

    fn extract(&self) -> Extract {
        self.settings.extract.unwrap_or_default()
    }
}

/// Whether `host` or `*.host` names a host.
fn covers(known: &str, host: &str) -> bool {
    let pattern = DomainPattern::new(&format!("domain:{known}"));
    pattern.is_ok_and(|pattern| pattern.matches(host, false))
}

/// The service that settings name; `None` if they don't fit together, which is said.
fn configured_service(
    configured: &schema::WebSearch,
    environment: &Environment,
    network: &Network,
    remarks: &mut Vec<Diagnostic>,
) -> Option<Arc<dyn SearchService>> {
    let mut wrong = |words: String| {
        remarks.push(
            Diagnostic::warning(format!("{words}; WebSearch is not offered")).about("webSearch"),
        );
    };
    if let Some(tool) = &configured.tool {
        if !tool.starts_with("mcp__") {
            wrong(format!(
                "webSearch.tool is {tool:?}, and should be mcp__server__tool"
            ));
            return None;
        }
        return Some(Arc::new(ByTool(tool.clone())));
    }
    let service = match configured.provider {
        None => Service::Searx,
        Some(SearchProvider::Brave) => Service::Brave,
        Some(SearchProvider::Tavily) => Service::Tavily,
        Some(SearchProvider::Exa) => Service::Exa,
        Some(SearchProvider::GoogleCse) => Service::GoogleCse,
        Some(SearchProvider::Kagi) => Service::Kagi,
    };
    let address = match configured.url.as_deref().map(str::parse) {
        None => None,
        Some(Ok(url)) => Some(url),
        Some(Err(_)) => {
            wrong("webSearch.url is not a URL".to_owned());
            return None;
        }
    };
    let key = match &configured.api_key_env {
        Some(name) => {
            let key = environment.foreign(name).map(|key| key.trim().to_owned());
            if key.as_deref().unwrap_or_default().is_empty() {
                wrong(format!(
                    "webSearch.apiKeyEnv names {name}, which is not set"
                ));
                return None;
            }
            key
        }
        None if service == Service::Searx => None,
        None => {
            wrong(format!(
                "{} needs a key: webSearch.apiKeyEnv",
                service.name()
            ));
            return None;
        }
    };
    if service == Service::GoogleCse && configured.engine_id.is_none() {
        wrong("Google needs webSearch.engineId".to_owned());
        return None;
    }
    let filled = configured.headers.iter().map(|(name, value)| {
        let lookup = |name: &str| environment.foreign(name).map(str::to_owned);
        let value = expand::text(value, name, &lookup, &mut Vec::new());
        (name.clone(), value)
    });
    Some(Arc::new(ByService {
        network: network.clone(),
        backend: Backend {
            service,
            address,
            headers: filled.collect(),
            key,
            engine: configured.engine_id.clone(),
        },
    }))
}

/// A search service.
struct ByService {
    network: Network,
    backend: Backend,
}

impl SearchService for ByService {
    fn search(
        &self,
        query: Query,
        call: CallContext,
    ) -> BoxFuture<'_, Result<SearchAnswer, ToolError>> {
        Box::pin(async move {
            let hits = search(&self.backend, &query, &self.network).await.map_err(
                |error: SearchError| ToolError::failed(format!("The search failed: {error}.")),
            )?;
            let id = call.tool_use_id.to_string();
            Ok(SearchAnswer {
                parts: vec![SearchPart::Hits { id, hits }],
                searches: 1,
            })
        })
    }
}

/// The provider of the model.
struct ByModel;

impl SearchService for ByModel {
    fn search(
        &self,
        query: Query,
        call: CallContext,
    ) -> BoxFuture<'_, Result<SearchAnswer, ToolError>> {
        Box::pin(async move {
            let host = call.session.needs_host("WebSearch")?;
            host.search_by_model(query, call.cancel.clone()).await
        })
    }
}

/// A tool of an MCP server.
struct ByTool(String);

impl SearchService for ByTool {
    fn search(
        &self,
        query: Query,
        call: CallContext,
    ) -> BoxFuture<'_, Result<SearchAnswer, ToolError>> {
        Box::pin(async move {
            let host = call.session.needs_host("WebSearch")?;
            let schema = host.input_schema(self.0.clone()).await.ok_or_else(|| {
                ToolError::failed(format!(
                    "The search uses {}, which is not available: its server may not be connected.",
                    self.0
                ))
            })?;
            let input = input_for(&schema, &query);
            let output = host.call_tool(self.0.clone(), input, call).await?;
            let text = output.content.text();
            if output.is_error {
                return Err(ToolError::failed(format!("The search failed: {text}")));
            }
            Ok(SearchAnswer {
                parts: vec![SearchPart::Text(text)],
                searches: 1,
            })
        })
    }
}

/// The input of a tool that searches: the words in its field for them, the domains in theirs.
fn input_for(schema: &Value, query: &Query) -> Value {
    let has = |name: &str| schema["properties"].get(name).is_some();
    let names = ["query", "q", "search_query", "search", "text", "input"];
    let known = names.into_iter().find(|name| has(name)).map(str::to_owned);
    let required = || schema["required"][0].as_str().map(str::to_owned);
    let field = known
        .or_else(required)
        .unwrap_or_else(|| "query".to_owned());
    let mut input = json!({field: query.words});
    let lists = [
        (
            ["allowed_domains", "include_domains", "includeDomains"],
            &query.allowed,
        ),
        (
            ["blocked_domains", "exclude_domains", "excludeDomains"],
            &query.blocked,
        ),
    ];
    for (names, domains) in lists {
        if let (Some(name), false) = (names.into_iter().find(|name| has(name)), domains.is_empty())
        {
            input[name] = json!(domains);
        }
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_may_be_asked_without_encryption_are_named() {
        let cases = [
            ("old.example", "old.example", true),
            ("Old.Example", "old.example", true),
            ("old.example", "a.old.example", false),
            ("*.old.example", "a.old.example", true),
            ("*.Old.Example", "a.old.example", true),
            ("*.old.example", "old.example", false),
            ("*.old.example", "notold.example", false),
        ];
        for (known, host, expected) in cases {
            assert_eq!(covers(known, host), expected, "{known} {host}");
        }
    }

    #[test]
    fn a_tool_that_searches_gets_the_words_in_its_own_field() {
        let query = Query {
            words: "x y".to_owned(),
            allowed: vec!["a.example".to_owned()],
            blocked: Vec::new(),
        };
        let schema = json!({"properties": {"q": {}, "include_domains": {}}});
        assert_eq!(
            input_for(&schema, &query),
            json!({"q": "x y", "include_domains": ["a.example"]})
        );
        let schema = json!({"properties": {"phrase": {}}, "required": ["phrase"]});
        assert_eq!(input_for(&schema, &query), json!({"phrase": "x y"}));
        assert_eq!(input_for(&json!({}), &query), json!({"query": "x y"}));
    }
}
