//! Search services: their requests and their answers.
//!
//! A request and the reading of an answer are functions of data; [`search`] is the exchange around them.

use lathe_net::{BodyError, ClientOptions, Network, Reach, innermost};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use url::Url;

/// How long a service may take.
const TIME: Duration = Duration::from_secs(30);
/// The largest answer.
const LARGEST: usize = 4 * 1024 * 1024;
/// How many results are asked for and kept.
const MOST_RESULTS: usize = 20;
/// The longest title and the longest extract, in characters.
const LONGEST_TITLE: usize = 300;
const LONGEST_SNIPPET: usize = 1_000;
/// How many domains are put into a query where the service has no field for them.
const MOST_IN_QUERY: usize = 8;

/// A kind of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// SearXNG, and whatever answers as it does.
    Searx,
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
    /// Exa.
    Exa,
    /// Google's Programmable Search Engine.
    GoogleCse,
    /// Kagi.
    Kagi,
}

impl Service {
    /// Where it is.
    fn usual_address(self) -> Option<&'static str> {
        Some(match self {
            Self::Searx => return None,
            Self::Brave => "https://api.search.brave.com/res/v1/web/search",
            Self::Tavily => "https://api.tavily.com/search",
            Self::Exa => "https://api.exa.ai/search",
            Self::GoogleCse => "https://www.googleapis.com/customsearch/v1",
            Self::Kagi => "https://kagi.com/api/v0/search",
        })
    }

    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Searx => "the search service",
            Self::Brave => "Brave Search",
            Self::Tavily => "Tavily",
            Self::Exa => "Exa",
            Self::GoogleCse => "Google",
            Self::Kagi => "Kagi",
        }
    }
}

/// A service with what it takes to use it.
#[derive(Debug, Clone)]
pub struct Backend {
    /// Which.
    pub service: Service,
    /// Where it is, if not at the usual place.
    pub address: Option<Url>,
    /// Headers of the user.
    pub headers: BTreeMap<String, String>,
    /// The key.
    pub key: Option<String>,
    /// The engine, for Google.
    pub engine: Option<String>,
}

/// A search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// The words.
    pub words: String,
    /// Only these domains, if there are any.
    pub allowed: Vec<String>,
    /// Not these domains.
    pub blocked: Vec<String>,
}

/// A result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The title of the page.
    pub title: String,
    /// Its address.
    pub url: String,
    /// An excerpt.
    pub snippet: String,
}

/// Why there are no results.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// It has no address.
    #[error("{0} has no address; set webSearch.url")]
    NoAddress(&'static str),
    /// It wants a key.
    #[error("{service} refuses the key ({status}{detail})")]
    Key {
        /// The service.
        service: &'static str,
        /// The status.
        status: u16,
        /// Its message.
        detail: String,
    },
    /// Too many searches.
    #[error("{service} limits the rate of searches ({status}{detail}){}", .wait.as_deref().map(|wait| format!("; try again in {wait} s")).unwrap_or_default())]
    Limit {
        /// The service.
        service: &'static str,
        /// The status.
        status: u16,
        /// Its message.
        detail: String,
        /// How long to wait.
        wait: Option<String>,
    },
    /// Another refusal.
    #[error("{service} answers {status}{detail}")]
    Status {
        /// The service.
        service: &'static str,
        /// The status.
        status: u16,
        /// Its message.
        detail: String,
    },
    /// It can't be reached.
    #[error("{service} can't be reached: {reason}")]
    Unreachable {
        /// The service.
        service: &'static str,
        /// The reason.
        reason: String,
    },
    /// The answer isn't what it should be.
    #[error("{service} sent an invalid response: {reason}")]
    Malformed {
        /// The service.
        service: &'static str,
        /// The reason.
        reason: String,
    },
}

/// A request to a service.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Where to.
    pub url: Url,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// The body of a POST; `None` for a GET.
    pub body: Option<Value>,
}

impl Backend {
    /// The request for a query.
    ///
    /// # Errors
    /// When the service has no address.
    pub fn request(&self, query: &Query) -> Result<Request, SearchError> {
        let name = self.service.name();
        let usual = self
            .service
            .usual_address()
            .and_then(|usual| Url::parse(usual).ok());
        let mut url = self
            .address
            .clone()
            .or(usual)
            .ok_or(SearchError::NoAddress(name))?;
        let mut headers: Vec<(String, String)> = Vec::new();
        let mut header = |name: &str, value: String| headers.push((name.to_owned(), value));
        header("accept", "application/json".to_owned());
        let key = self.key.clone().unwrap_or_default();
        let count = MOST_RESULTS.to_string();
        let mut body = None;
        match self.service {
            Service::Searx => {
                url.query_pairs_mut()
                    .append_pair("q", &with_domains(query))
                    .append_pair("format", "json");
            }
            Service::Brave => {
                url.query_pairs_mut()
                    .append_pair("q", &with_domains(query))
                    .append_pair("count", &count);
                header("x-subscription-token", key);
            }
            Service::Kagi => {
                url.query_pairs_mut()
                    .append_pair("q", &with_domains(query))
                    .append_pair("limit", &count);
                header("authorization", format!("Bot {key}"));
            }
            Service::GoogleCse => {
                url.query_pairs_mut()
                    .append_pair("q", &with_domains(query))
                    .append_pair("cx", self.engine.as_deref().unwrap_or_default())
                    // It gives ten at most.
                    .append_pair("num", "10");
                // In a header, so that it is in no log of addresses.
                header("x-goog-api-key", key);
            }
            Service::Tavily => {
                header("authorization", format!("Bearer {key}"));
                body = Some(json!({
                    "query": query.words, "max_results": MOST_RESULTS,
                    "include_domains": query.allowed, "exclude_domains": query.blocked,
                }));
            }
            Service::Exa => {
                header("x-api-key", key);
                let mut wanted = json!({
                    "query": query.words, "numResults": MOST_RESULTS, "contents": {"highlights": true},
                });
                if !query.allowed.is_empty() {
                    wanted["includeDomains"] = json!(query.allowed);
                }
                if !query.blocked.is_empty() {
                    wanted["excludeDomains"] = json!(query.blocked);
                }
                body = Some(wanted);
            }
        }
        headers.extend(self.headers.clone());
        Ok(Request { url, headers, body })
    }

    /// The results in an answer.
    ///
    /// # Errors
    /// When it has none of the places where results stand.
    pub fn read(&self, answer: &Value, query: &Query) -> Result<Vec<Hit>, SearchError> {
        let (list, keys) = match self.service {
            Service::Searx | Service::Tavily => (&answer["results"], ["title", "url", "content"]),
            Service::Exa => (&answer["results"], ["title", "url", "text"]),
            Service::Brave => (&answer["web"]["results"], ["title", "url", "description"]),
            Service::GoogleCse => (&answer["items"], ["title", "link", "snippet"]),
            Service::Kagi => (&answer["data"], ["title", "url", "snippet"]),
        };
        let found: &[Value] = match list.as_array() {
            Some(found) => found,
            // No results: these leave the list out.
            None if list.is_null() && answer.is_object() && self.may_be_empty(answer) => &[],
            None => {
                return Err(SearchError::Malformed {
                    service: self.service.name(),
                    reason: "it has no list of results".to_owned(),
                });
            }
        };
        let hits = found.iter().filter_map(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap_or_default();
            let url = text(keys[1]);
            let address = Url::parse(url).ok()?;
            let usable = matches!(address.scheme(), "http" | "https") && fits(&address, query);
            // Kagi mixes in related searches.
            let related =
                self.service == Service::Kagi && entry["t"].as_u64().is_some_and(|kind| kind != 0);
            let highlights = entry["highlights"].as_array().into_iter().flatten();
            let highlights: Vec<&str> = highlights.filter_map(Value::as_str).collect();
            let snippet = match text(keys[2]) {
                "" => highlights.join(" … "),
                snippet => snippet.to_owned(),
            };
            (usable && !related).then(|| Hit {
                title: plain(text(keys[0]), LONGEST_TITLE),
                url: String::from(address),
                snippet: plain(&snippet, LONGEST_SNIPPET),
            })
        });
        Ok(hits.take(MOST_RESULTS).collect())
    }

    fn may_be_empty(&self, answer: &Value) -> bool {
        match self.service {
            Service::Brave => answer.get("type").is_some() || answer.get("query").is_some(),
            Service::GoogleCse => {
                answer.get("searchInformation").is_some() || answer.get("kind").is_some()
            }
            Service::Searx | Service::Tavily | Service::Exa | Service::Kagi => false,
        }
    }
}

/// A query with its domains in words, for services that have no field for them.
fn with_domains(query: &Query) -> String {
    let mut words = query.words.clone();
    let allowed: Vec<String> = query
        .allowed
        .iter()
        .take(MOST_IN_QUERY)
        .map(|domain| format!("site:{domain}"))
        .collect();
    if !allowed.is_empty() {
        words.push(' ');
        words.push_str(&allowed.join(" OR "));
    }
    for domain in query.blocked.iter().take(MOST_IN_QUERY) {
        words.push_str(&format!(" -site:{domain}"));
    }
    words
}

/// Whether an address is of a domain that was asked for, and of none that was excluded.
#[must_use]
pub fn fits(address: &Url, query: &Query) -> bool {
    let host = address.host_str().unwrap_or_default().to_ascii_lowercase();
    let of = |domain: &String| {
        let domain = domain
            .trim()
            .trim_start_matches("*.")
            .trim_end_matches('/')
            .to_ascii_lowercase();
        let below = host.strip_suffix(&domain);
        !domain.is_empty() && below.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    (query.allowed.is_empty() || query.allowed.iter().any(of)) && !query.blocked.iter().any(of)
}

/// Text on one line, without the tags that services put around the words that were found.
fn plain(text: &str, most: usize) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        plain.push_str(before);
        match tag.find('>').filter(|end| *end < 40) {
            Some(end) => rest = tag.get(end + 1..).unwrap_or_default(),
            None => {
                plain.push('<');
                rest = tag.get(1..).unwrap_or_default();
            }
        }
    }
    plain.push_str(rest);
    let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars()
        .filter(|letter| !letter.is_control())
        .take(most)
        .collect()
}

/// Searches.
///
/// # Errors
/// When the service can't be reached, refuses, or gives something else than results.
pub async fn search(
    backend: &Backend,
    query: &Query,
    network: &Network,
) -> Result<Vec<Hit>, SearchError> {
    let service = backend.service.name();
    let request = backend.request(query)?;
    let unreachable = |reason: String| SearchError::Unreachable { service, reason };
    let options = ClientOptions {
        reach: Reach::by_host(&request.url),
        user_agent: Some(concat!("Lathe/", env!("CARGO_PKG_VERSION"))),
        connect_timeout: Some(Duration::from_secs(10)),
        timeout: Some(TIME),
        ..ClientOptions::default()
    };
    let client = network
        .shared_client(&options)
        .map_err(|error| unreachable(error.to_string()))?;
    let mut sending = match &request.body {
        Some(body) => client.post(request.url.clone()).json(body),
        None => client.get(request.url.clone()),
    };
    for (name, value) in &request.headers {
        sending = sending.header(name, value);
    }
    let response = sending
        .send()
        .await
        .map_err(|error| unreachable(innermost(&error)))?;
    let status = response.status().as_u16();
    let wait = response
        .headers()
        .get("retry-after")
        .and_then(|wait| wait.to_str().ok())
        .filter(|wait| wait.len() < 12 && wait.chars().all(|letter| letter.is_ascii_digit()))
        .map(str::to_owned);
    let body = lathe_net::body(response, LARGEST)
        .await
        .map_err(|error| match error {
            BodyError::TooLarge { .. } => SearchError::Malformed {
                service,
                reason: error.to_string(),
            },
            BodyError::Lost(reason) => unreachable(reason),
        })?;
    let answer: Result<Value, serde_json::Error> = serde_json::from_slice(&body);
    if !(200..300).contains(&status) {
        return Err(refusal(service, status, answer.ok().as_ref(), wait));
    }
    let answer = answer.map_err(|error| SearchError::Malformed {
        service,
        reason: error.to_string(),
    })?;
    backend.read(&answer, query)
}

fn refusal(
    service: &'static str,
    status: u16,
    answer: Option<&Value>,
    wait: Option<String>,
) -> SearchError {
    let places = [
        "/error/message",
        "/error/detail",
        "/detail/error",
        "/message",
        "/detail",
        "/error",
        "/error/0/msg",
    ];
    let detail = places
        .iter()
        .find_map(|place| answer?.pointer(place)?.as_str())
        .map(|detail| format!(": {}", plain(detail, 200)))
        .unwrap_or_default();
    match status {
        401 | 403 => SearchError::Key {
            service,
            status,
            detail,
        },
        402 | 429 | 432 | 433 => SearchError::Limit {
            service,
            status,
            detail,
            wait,
        },
        _ => SearchError::Status {
            service,
            status,
            detail,
        },
    }
}
