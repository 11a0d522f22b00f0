//! Judging a host, asking about it, looking it up, and connecting to what was checked.

use crate::{HostAnswer, Shared, Wanted};
use lathe_sandbox::{Host, HostRule, HostVerdict, Violation, is_private};
use std::collections::HashMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// Those who wait for an answer about a host.
pub(crate) type Waiting = HashMap<Host, Vec<oneshot::Sender<HostAnswer>>>;

/// How long a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// Why a host was not reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreached {
    /// It may not be.
    #[error("{0}")]
    Refused(String),
    /// It can't be.
    #[error("{0}")]
    Failed(String),
}

impl Shared {
    /// Connects to a host, if it may be reached.
    pub(crate) async fn reach(&self, wanted: &Wanted) -> Result<TcpStream, Unreached> {
        let outcome = self.try_reach(wanted).await;
        let word = match &outcome {
            Ok(_) => "reached",
            Err(Unreached::Refused(_)) => "refused",
            Err(Unreached::Failed(_)) => "failed",
        };
        self.write_down(wanted, word);
        if let Err(Unreached::Refused(reason)) = &outcome {
            let violation = Violation::Host {
                host: shown(wanted),
                reason: reason.clone(),
            };
            let mut refused = self.refused.lock();
            let list = refused.entry(wanted.command.clone()).or_default();
            if !list.contains(&violation) && list.len() < 100 {
                list.push(violation);
            }
        }
        outcome
    }

    async fn try_reach(&self, wanted: &Wanted) -> Result<TcpStream, Unreached> {
        let refused = |reason: &str| Err(Unreached::Refused(reason.to_owned()));
        let policy = self.policy.read().clone();
        match policy.judge(&wanted.host, wanted.port) {
            HostVerdict::Allowed => {}
            HostVerdict::Denied => return refused("a rule denies it"),
            HostVerdict::NotListed => {
                return refused("only the hosts that settings list may be reached");
            }
            HostVerdict::Unknown => {
                let private = matches!(wanted.host, Host::Address(address) if is_private(address));
                if private {
                    return refused("it is a private address, and no rule names it");
                }
                match self.ask_once(wanted).await {
                    HostAnswer::Deny(reason) => return Err(Unreached::Refused(reason)),
                    HostAnswer::AllowAlways => self.allow_from_now_on(&wanted.host),
                    HostAnswer::Allow => {}
                }
            }
        }
        let addresses = look_up(wanted).await?;
        let may_be_private = policy.allows_private(&wanted.host, wanted.port);
        let checked: Vec<SocketAddr> = addresses
            .into_iter()
            .filter(|address| may_be_private || !is_private(address.ip()))
            .collect();
        if checked.is_empty() {
            return refused("it resolves to a private address, and no rule names that");
        }
        let connecting = tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(&checked[..]));
        match connecting.await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(Unreached::Failed(error.to_string())),
            Err(_) => Err(Unreached::Failed("it does not answer".to_owned())),
        }
    }

    /// Lets a host be reached until the rules change.
    fn allow_from_now_on(&self, host: &Host) {
        let mut policy = self.policy.write();
        let rule = HostRule::of(host);
        if !policy.allowed.contains(&rule) {
            Arc::make_mut(&mut policy).allowed.push(rule);
        }
    }

    /// Asks about a host; concurrent requests for the same host share the answer.
    async fn ask_once(&self, wanted: &Wanted) -> HostAnswer {
        let nobody =
            || HostAnswer::Deny("no rule allows it, and there is no user to ask".to_owned());
        let Some(ask) = &self.ask else {
            return nobody();
        };
        let key = wanted.host.clone();
        let answer = {
            let mut waiting = self.waiting.lock();
            match waiting.get_mut(&key) {
                Some(others) => {
                    let (sender, receiver) = oneshot::channel();
                    others.push(sender);
                    Some(receiver)
                }
                None => {
                    waiting.insert(key.clone(), Vec::new());
                    None
                }
            }
        };
        if let Some(answer) = answer {
            return answer.await.unwrap_or_else(|_| nobody());
        }
        // Whatever ends this, those who wait must not wait for ever.
        let guard = Asked { shared: self, key };
        let answer = ask(wanted.clone()).await;
        for other in guard.take() {
            drop(other.send(answer.clone()));
        }
        answer
    }

    /// Writes down what was wanted, and what came of it.
    fn write_down(&self, wanted: &Wanted, word: &str) {
        let Some(path) = &self.log else {
            return;
        };
        let line = serde_json::json!({
            "time": jiff::Timestamp::now().to_string(),
            "host": wanted.host.to_string(),
            "port": wanted.port,
            "command": wanted.command,
            "outcome": word,
        });
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path);
        if let Err(error) = file.and_then(|mut file| writeln!(file, "{line}")) {
            tracing::debug!(%error, "the log of the sandbox was not written");
        }
    }
}

/// Takes those who wait, also when the question is dropped.
struct Asked<'a> {
    shared: &'a Shared,
    key: Host,
}

impl Asked<'_> {
    fn take(&self) -> Vec<oneshot::Sender<HostAnswer>> {
        self.shared
            .waiting
            .lock()
            .remove(&self.key)
            .unwrap_or_default()
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// A host as it is shown: with its port where that isn't the usual one.
fn shown(wanted: &Wanted) -> String {
    match wanted.port {
        80 | 443 => wanted.host.to_string(),
        port => format!("{}:{port}", wanted.host),
    }
}

async fn look_up(wanted: &Wanted) -> Result<Vec<SocketAddr>, Unreached> {
    match &wanted.host {
        Host::Address(address) => Ok(vec![SocketAddr::new(*address, wanted.port)]),
        Host::Name(name) => {
            let found = tokio::net::lookup_host((name.as_str(), wanted.port)).await;
            let found: Vec<SocketAddr> = found
                .map_err(|error| Unreached::Failed(format!("it can't be resolved: {error}")))?
                .collect();
            Ok(found)
        }
    }
}
