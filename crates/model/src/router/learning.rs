//! Questions to servers about their models, asked when the answer is first needed.

use super::{Router, Shared};
use crate::discovery::{self, Discovered};
use crate::providers::{ANTHROPIC, KeySource, Kind, ProviderEntry};
use std::time::Duration;

/// How long a server elsewhere may take before a session continues without its answer.
const HOSTED_LIMIT: Duration = Duration::from_secs(1);

impl Router {
    /// Asks a provider for its models; `None` if it doesn't answer in time, or there is no way to ask.
    pub async fn discover(&self, provider: &str) -> Option<Discovered> {
        let entry = self.shared.catalog.providers().get(provider)?;
        let limit = if entry.is_local() {
            discovery::LOCAL_LIMIT
        } else {
            discovery::REMOTE_LIMIT
        };
        self.shared.discover(entry, limit).await
    }

    /// The key of a provider, if it has one that needs no command.
    #[must_use]
    pub fn plain_key(&self, provider: &str) -> Option<String> {
        let entry = self.shared.catalog.providers().get(provider)?;
        self.shared.plain_key(entry)
    }
}

impl Shared {
    pub(super) fn plain_key(&self, entry: &ProviderEntry) -> Option<String> {
        match &entry.key {
            KeySource::Variables(names) => names
                .iter()
                .find_map(|name| self.environment.foreign(name))
                .map(|key| key.trim().to_owned())
                .or_else(|| self.stored(&entry.name)),
            KeySource::None => self.stored(&entry.name),
            KeySource::Helper(_) => None,
        }
    }

    async fn discover(&self, entry: &ProviderEntry, limit: Duration) -> Option<Discovered> {
        let key = self.plain_key(entry);
        let entry = self.filled(entry).ok()?;
        discovery::ask(&entry, key.as_deref(), &self.network, limit).await
    }

    /// Whether the window of a model is something that only its server knows.
    fn is_worth_asking(&self, entry: &ProviderEntry, model: &str, reference: &str) -> bool {
        let is_usual = entry.name == ANTHROPIC && !entry.declared;
        if is_usual || matches!(entry.kind, Kind::Bedrock | Kind::Vertex) {
            return false;
        }
        if entry.facts(model).context_window.is_some() {
            return false;
        }
        entry.is_local() || !self.catalog.resolve(reference).known
    }

    /// Asks the server of a model for what nobody declared, once.
    pub(super) async fn learn(&self, reference: &str) -> Vec<String> {
        let providers = self.catalog.providers();
        let located = providers.located(reference);
        let Some(entry) = providers.get(located.provider) else {
            return Vec::new();
        };
        if !self.is_worth_asking(entry, located.model, reference)
            || !self.asked.lock().insert(reference.to_owned())
        {
            return Vec::new();
        }
        let limit = if entry.is_local() {
            discovery::LOCAL_LIMIT
        } else {
            HOSTED_LIMIT
        };
        let Some(found) = self.discover(entry, limit).await else {
            return Vec::new();
        };
        for (id, facts) in &found.models {
            if id == located.model {
                providers.discovered(located.provider, id, facts);
            }
        }
        let about = format!("{}:", located.model);
        let of_model = |text: &String| text.starts_with(&about);
        found.warnings.into_iter().filter(of_model).collect()
    }
}
