//! Push messages about questions that wait: to a topic of ntfy, or to a webhook, with links that answer once.
//!
//! A link carries a secret in its fragment, which becomes one answer to one question; using it, or its twin for the
//! other answer, uses both up. Opening a link answers nothing: the page shows the question and asks.

use crate::api::{LinkUse, LinkView};
use crate::devices::Devices;
use crate::problem::Problem;
use crate::relay::keys;
use crate::serve::Shared;
use http::StatusCode;
use lathe_net::{ClientOptions, Network};
use lathe_protocol::ids::{RequestId, SessionId};
use lathe_protocol::permission::PermissionReply;
use lathe_wire::{Client, ClientKind, Hello, HostFrame, HostInfo, HostState, Question, WireOp};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How often questions are looked for.
const LOOK: Duration = Duration::from_secs(1);
/// How long a link works.
const LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// How many links are kept.
const MOST_LINKS: usize = 1_000;
/// How much of a question is sent.
const SHOWN: usize = 300;
/// How long a call may be that a link answers: what isn't shown can't be agreed to.
const LONGEST: usize = 64 * 1024;

/// A link that answers a question.
#[derive(Debug, Clone)]
struct Link {
    session: SessionId,
    question: Question,
    allow: bool,
    made: Instant,
}

/// The links that were sent, by their secret.
#[derive(Debug, Default)]
pub(crate) struct Links(Mutex<HashMap<String, Link>>);

impl Links {
    /// Makes the two links of a question: yes and no.
    fn make(&self, host: &HostInfo, question: &Question) -> Option<[String; 2]> {
        if !question.is_plain || question.whole.len() > LONGEST {
            return None;
        }
        let secrets = [keys::secret().ok()?, keys::secret().ok()?];
        let mut links = self.0.lock();
        links.retain(|_, link| link.made.elapsed() < LIFE);
        if links.len() + 2 > MOST_LINKS {
            return None;
        }
        for (secret, allow) in secrets.iter().zip([true, false]) {
            let link = Link {
                session: host.session_id,
                question: question.clone(),
                allow,
                made: Instant::now(),
            };
            links.insert(secret.clone(), link);
        }
        Some(secrets)
    }

    fn gone() -> Problem {
        Problem::new(
            StatusCode::GONE,
            "this link was used, is too old, or the server was restarted; open the page with `lathe web`",
        )
    }

    /// The question of a link. Nothing is used up.
    pub(crate) fn view(&self, code: &str) -> Result<LinkView, Problem> {
        let links = self.0.lock();
        let link = links.get(code).filter(|link| link.made.elapsed() < LIFE);
        let link = link.ok_or_else(Self::gone)?;
        Ok(LinkView {
            question: link.question.line.clone(),
            whole: link.question.whole.clone(),
            allow: link.allow,
        })
    }

    /// Takes a link and its twin out.
    fn take(&self, code: &str) -> Result<Link, Problem> {
        let mut links = self.0.lock();
        let link = links.remove(code).ok_or_else(Self::gone)?;
        links.retain(|_, other| other.question.id != link.question.id);
        if link.made.elapsed() < LIFE {
            Ok(link)
        } else {
            Err(Self::gone())
        }
    }
}

/// Answers a question by a link.
pub(crate) async fn answer(shared: &Shared, used: &LinkUse) -> Result<(), Problem> {
    let link = shared.links.take(&used.code)?;
    let reply = if link.allow {
        PermissionReply::allow()
    } else {
        PermissionReply::deny("The user said no.")
    };
    let op = WireOp::PermissionReply {
        request_id: link.question.id,
        reply,
    };
    shared
        .ask_session(&link.session.to_string(), None, op, "link")
        .await
        .map(drop)
}

/// Where messages go. The addresses are secrets: who knows a topic can write to it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Targets {
    /// A topic of ntfy.
    pub ntfy: Option<String>,
    /// An address that gets JSON.
    pub webhook: Option<String>,
    /// The beginning of links, as the phone reaches the server.
    pub link: Option<String>,
    /// How long a question waits before somebody is disturbed.
    pub after_seconds: u64,
}

/// Why targets can't be kept.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The question would cross a network in plain text.
    #[error("{0:?} can't be used: addresses begin with https://, or with http:// on this machine")]
    Address(String),
    /// The file can't be written.
    #[error(transparent)]
    Write(#[from] lathe_session::SessionError),
}

impl Targets {
    fn file(config_home: &Path) -> PathBuf {
        Devices::new(config_home).folder().join("notify.json")
    }

    /// Whether messages go anywhere.
    #[must_use]
    pub fn has_any(&self) -> bool {
        self.ntfy.is_some() || self.webhook.is_some()
    }

    /// Keeps them.
    ///
    /// # Errors
    /// If an address is not encrypted, or the file can't be written.
    pub fn save(&self, config_home: &Path) -> Result<(), TargetError> {
        for address in [&self.ntfy, &self.webhook].into_iter().flatten() {
            if !is_fine(address) {
                return Err(TargetError::Address(address.clone()));
            }
        }
        let file = Self::file(config_home);
        if let Some(folder) = file.parent() {
            lathe_session::paths::create_private_folder(folder)?;
        }
        let text = serde_json::to_vec(self).unwrap_or_default();
        lathe_session::paths::write_private_file(&file, &text)?;
        Ok(())
    }

    /// Those that were kept, if there are any.
    #[must_use]
    pub fn read(config_home: &Path) -> Option<Self> {
        let text = std::fs::read(Self::file(config_home)).ok()?;
        let targets: Self = serde_json::from_slice(&text).ok()?;
        targets.has_any().then_some(targets)
    }
}

fn is_fine(address: &str) -> bool {
    url::Url::parse(address).is_ok_and(|url| {
        url.scheme() == "https" || (url.scheme() == "http" && lathe_net::is_loopback(&url))
    })
}

/// Tells of questions until the server ends.
pub(crate) async fn watch(shared: Arc<Shared>, base: String, stop: CancellationToken) {
    let mut waiting: HashMap<RequestId, Instant> = HashMap::new();
    let mut told: HashSet<RequestId> = HashSet::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = stop.cancelled() => return,
        }
        let hosts = shared.options.folder.hosts().unwrap_or_default();
        let asking: Vec<HostInfo> = hosts
            .into_iter()
            .filter(|host| host.state == HostState::NeedsYou)
            .collect();
        if asking.is_empty() {
            waiting.clear();
            told.clear();
            continue;
        }
        let Some(targets) = Targets::read(&shared.options.config_home) else {
            continue;
        };
        for host in asking {
            for question in questions(&shared, &host).await {
                let id = &question.id;
                let since = *waiting.entry(id.clone()).or_insert_with(Instant::now);
                if since.elapsed().as_secs() < targets.after_seconds || !told.insert(id.clone()) {
                    continue;
                }
                let links = shared.links.make(&host, &question);
                let base = targets.link.as_deref().unwrap_or(&base);
                let text: String = question.line.chars().take(SHOWN).collect();
                push(&shared, &targets, base, &host, &text, links).await;
            }
        }
    }
}

/// The open questions of a session.
async fn questions(shared: &Shared, host: &HostInfo) -> Vec<Question> {
    let hello = Hello::new("notify", ClientKind::Sdk);
    let Ok(mut client) = Client::connect(&shared.options.folder, &host.id, hello).await else {
        return Vec::new();
    };
    let Ok(Some(HostFrame::Snapshot(snapshot))) = client.next().await else {
        return Vec::new();
    };
    snapshot.questions.iter().filter_map(Question::of).collect()
}

/// Sends one message to every target.
async fn push(
    shared: &Shared,
    targets: &Targets,
    base: &str,
    host: &HostInfo,
    question: &str,
    links: Option<[String; 2]>,
) {
    let base = base.trim_end_matches('/');
    let page = format!("{base}/#s={}", host.session_id);
    let links = links.map(|codes| codes.map(|code| format!("{base}/#a={code}")));
    let network = Network::of(&shared.options.environment);
    let Ok(client) = network.client(&ClientOptions::default()) else {
        return;
    };
    let name = host.title.clone().unwrap_or_else(|| {
        let name = host.folder.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    });
    let mut requests = Vec::new();
    if let Some(ntfy) = &targets.ntfy {
        let mut request = client
            .post(ntfy)
            .header("Title", "A session needs you")
            .header("Click", &page)
            .body(format!("{name}: {question}"));
        if let Some([yes, no]) = &links {
            request = request.header("Actions", format!("view, Allow, {yes}; view, Deny, {no}"));
        }
        requests.push(request);
    }
    if let Some(webhook) = &targets.webhook {
        let mut body = json!({"session": host.session_id, "name": name, "folder": host.folder, "question": question, "page": page});
        if let Some([yes, no]) = &links {
            body["allow"] = Value::from(yes.as_str());
            body["deny"] = Value::from(no.as_str());
        }
        requests.push(client.post(webhook).json(&body));
    }
    for request in requests {
        let sent = request.timeout(Duration::from_secs(20)).send().await;
        if let Err(error) = sent.and_then(reqwest::Response::error_for_status) {
            // The address may hold a secret.
            tracing::warn!(error = %error.without_url(), "a push message was not sent");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_other_machines_are_encrypted() {
        for (address, fine) in [
            ("https://ntfy.example/topic", true),
            ("http://127.0.0.1:8080/x", true),
            ("http://ntfy.example/topic", false),
            ("ftp://x", false),
            ("topic", false),
        ] {
            assert_eq!(is_fine(address), fine, "{address}");
        }
    }
}
