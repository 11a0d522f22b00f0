//! The usage and the cost of a session.

use indexmap::IndexMap;
use lathe_model::catalog::Catalog;
use lathe_protocol::event::{ModelUsage, TurnTimes};
use lathe_protocol::usage::Usage;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// A session's totals, and those of its present turn.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    totals: Totals,
    /// The usage since it was last passed on.
    fresh: Totals,
    turn: Usage,
    turn_api_time: Duration,
    turn_started: Option<Instant>,
    turn_times: TurnTimes,
}

/// The totals that are kept with the session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Totals {
    /// Per model.
    pub models: IndexMap<String, ModelUsage>,
    /// Time spent waiting for the model API.
    pub api_duration_ms: u64,
    /// Time spent in tools.
    pub tool_duration_ms: u64,
    /// Lines that edits added.
    pub lines_added: u64,
    /// Lines that edits removed.
    pub lines_removed: u64,
    /// Models that were used and whose price is unknown.
    pub unpriced_models: Vec<String>,
    /// The usage by part: the conversation itself, and the work beside it.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub parts: IndexMap<Part, PartUsage>,
    /// Why requests didn't continue the one before, and how often.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub cache_breaks: IndexMap<String, u64>,
}

/// The purpose of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The conversation with the user.
    Main,
    /// Summaries of it.
    Compaction,
    /// Sub-agents.
    Agents,
    /// Other conversations inside it: hooks, the classifier.
    Inner,
    /// Small questions: titles, suggestions, notes.
    Side,
}

impl Part {
    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "conversation",
            Self::Compaction => "compaction",
            Self::Agents => "sub-agents",
            Self::Inner => "sub-conversations",
            Self::Side => "side queries",
        }
    }
}

/// The usage of a part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PartUsage {
    /// Model calls.
    pub calls: u64,
    /// Uncached input.
    pub input_tokens: u64,
    /// Input read from the cache.
    pub cache_read_input_tokens: u64,
    /// Input written to the cache.
    pub cache_creation_input_tokens: u64,
    /// Output.
    pub output_tokens: u64,
    /// Dollars; 0 where the price is unknown.
    #[serde(rename = "costUSD")]
    pub cost_usd: f64,
}

impl PartUsage {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.input_tokens += other.input_tokens;
        self.cache_read_input_tokens += other.cache_read_input_tokens;
        self.cache_creation_input_tokens += other.cache_creation_input_tokens;
        self.output_tokens += other.output_tokens;
        self.cost_usd += other.cost_usd;
    }
}

impl Totals {
    fn note(&mut self, part: Part, model: &str, usage: &Usage, catalog: &Catalog) {
        self.parts.entry(part).or_default().add(&PartUsage {
            calls: 1,
            input_tokens: usage.input_tokens,
            cache_read_input_tokens: usage.cache_read_input_tokens,
            cache_creation_input_tokens: usage.cache_creation_input_tokens,
            output_tokens: usage.output_tokens,
            cost_usd: catalog.cost(model, usage).unwrap_or_default(),
        });
        let info = catalog.resolve(model).info;
        let entry = self.models.entry(model.to_owned()).or_default();
        entry.input_tokens += usage.input_tokens;
        entry.output_tokens += usage.output_tokens;
        entry.cache_read_input_tokens += usage.cache_read_input_tokens;
        entry.cache_creation_input_tokens += usage.cache_creation_input_tokens;
        entry.web_search_requests += usage.server_tool_use.web_search_requests;
        entry.context_window = info.context_window;
        entry.max_output_tokens = u64::from(info.max_output);
        match catalog.cost(model, usage) {
            Some(dollars) => entry.cost_usd += dollars,
            None => {
                entry.price_unknown = true;
                if !self.unpriced_models.iter().any(|known| known == model) {
                    self.unpriced_models.push(model.to_owned());
                }
            }
        }
    }

    pub(crate) fn absorb(&mut self, part: Part, other: &Totals) {
        let mut used = PartUsage::default();
        for usage in other.parts.values() {
            used.add(usage);
        }
        self.parts.entry(part).or_default().add(&used);
        for model in &other.unpriced_models {
            if !self.unpriced_models.contains(model) {
                self.unpriced_models.push(model.clone());
            }
        }
        for (model, usage) in &other.models {
            let entry = self.models.entry(model.clone()).or_default();
            entry.input_tokens += usage.input_tokens;
            entry.output_tokens += usage.output_tokens;
            entry.cache_read_input_tokens += usage.cache_read_input_tokens;
            entry.cache_creation_input_tokens += usage.cache_creation_input_tokens;
            entry.web_search_requests += usage.web_search_requests;
            entry.cost_usd += usage.cost_usd;
            entry.context_window = usage.context_window;
            entry.max_output_tokens = usage.max_output_tokens;
        }
        self.api_duration_ms += other.api_duration_ms;
    }

    /// Input and output of everything.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.models
            .values()
            .map(|usage| {
                usage.input_tokens
                    + usage.output_tokens
                    + usage.cache_read_input_tokens
                    + usage.cache_creation_input_tokens
            })
            .sum()
    }

    /// The tokens of everything by kind, in the form of the API.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for model in self.models.values() {
            usage.input_tokens += model.input_tokens;
            usage.output_tokens += model.output_tokens;
            usage.cache_read_input_tokens += model.cache_read_input_tokens;
            usage.cache_creation_input_tokens += model.cache_creation_input_tokens;
            usage.server_tool_use.web_search_requests += model.web_search_requests;
        }
        usage
    }

    /// Dollars of everything.
    #[must_use]
    pub fn cost_usd(&self) -> f64 {
        // An empty sum of floats is -0, which reads oddly in a result.
        self.models
            .values()
            .fold(0.0, |sum, usage| sum + usage.cost_usd)
    }

    /// The share of the input that was read from the cache, from 0 to 1; `None` without input.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "token counts are far below 2^52"
    )]
    pub fn cached_share(&self) -> Option<f64> {
        let (mut read, mut all) = (0, 0);
        for usage in self.models.values() {
            read += usage.cache_read_input_tokens;
            all += usage.cache_read_input_tokens
                + usage.cache_creation_input_tokens
                + usage.input_tokens;
        }
        (all > 0).then(|| read as f64 / all as f64)
    }
}

impl Ledger {
    /// Continues from totals that were kept.
    #[must_use]
    pub fn resume(totals: Totals) -> Self {
        Self {
            totals,
            ..Self::default()
        }
    }

    /// A new turn begins.
    pub fn start_turn(&mut self) {
        self.turn = Usage::default();
        self.turn_api_time = Duration::ZERO;
        self.turn_started = Some(Instant::now());
        self.turn_times = TurnTimes::default();
    }

    /// A request of the turn is sent.
    pub fn note_request(&mut self) {
        let since = self.turn_started.map(|started| started.elapsed());
        self.turn_times.request = self.turn_times.request.or(since);
    }

    /// An event of an answer came; content, or what is around it.
    pub fn note_answer(&mut self, is_content: bool) {
        if self.turn_times.content.is_some() {
            return;
        }
        let since = self.turn_started.map(|started| started.elapsed());
        self.turn_times.stream = self.turn_times.stream.or(since);
        if is_content {
            self.turn_times.content = since;
        }
    }

    /// How soon the first request of the turn was sent and answered.
    #[must_use]
    pub fn turn_times(&self) -> TurnTimes {
        self.turn_times
    }

    /// Notes a response of the conversation.
    pub fn note_response(&mut self, model: &str, usage: &Usage, catalog: &Catalog) {
        self.note_part(Part::Main, model, usage, catalog);
    }

    /// Notes a response.
    pub fn note_part(&mut self, part: Part, model: &str, usage: &Usage, catalog: &Catalog) {
        self.totals.note(part, model, usage, catalog);
        self.fresh.note(part, model, usage, catalog);
        self.turn.add(usage);
    }

    /// The usage since the last call.
    pub fn take_fresh(&mut self) -> Totals {
        std::mem::take(&mut self.fresh)
    }

    /// Notes that a request didn't continue the one before.
    pub fn note_cache_break(&mut self, why: &str) {
        *self.totals.cache_breaks.entry(why.to_owned()).or_default() += 1;
    }

    /// Adds what a conversation inside this one used.
    pub fn absorb(&mut self, other: &Totals) {
        self.absorb_as(Part::Inner, other);
    }

    /// Adds what something beside the conversation used.
    pub fn absorb_as(&mut self, part: Part, other: &Totals) {
        self.totals.absorb(part, other);
        self.fresh.absorb(part, other);
    }

    /// Notes time spent waiting for the model API.
    pub fn note_api_time(&mut self, time: Duration) {
        self.turn_api_time += time;
        self.totals.api_duration_ms += u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    }

    /// Notes a finished call.
    pub fn note_call(&mut self, time: Duration, lines_added: u64, lines_removed: u64) {
        self.totals.tool_duration_ms += u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.totals.lines_added += lines_added;
        self.totals.lines_removed += lines_removed;
    }

    /// Dollars of the whole session.
    #[must_use]
    pub fn cost_usd(&self) -> f64 {
        self.totals.cost_usd()
    }

    /// Tokens of this turn.
    #[must_use]
    pub fn turn_usage(&self) -> &Usage {
        &self.turn
    }

    /// Time that this turn waited for the model API.
    #[must_use]
    pub fn turn_api_time(&self) -> Duration {
        self.turn_api_time
    }

    /// The totals that are kept with the session.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}
