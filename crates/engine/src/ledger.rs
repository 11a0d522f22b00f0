//! What a session used and what it cost.

use indexmap::IndexMap;
use lathe_model::catalog::Catalog;
use lathe_protocol::event::ModelUsage;
use lathe_protocol::usage::Usage;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A session's totals, and those of its present turn.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    totals: Totals,
    turn: Usage,
    turn_api_time: Duration,
}

/// What is kept with the session.
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
}

impl Ledger {
    /// Goes on from totals that were kept.
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
    }

    /// Notes a response.
    pub fn note_response(&mut self, model: &str, usage: &Usage, catalog: &Catalog) {
        self.turn.add(usage);
        let info = catalog.resolve(model).info;
        let entry = self.totals.models.entry(model.to_owned()).or_default();
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
                if !self
                    .totals
                    .unpriced_models
                    .iter()
                    .any(|known| known == model)
                {
                    self.totals.unpriced_models.push(model.to_owned());
                }
            }
        }
    }

    /// Adds what a conversation inside this one used.
    pub fn absorb(&mut self, other: &Totals) {
        for (model, usage) in &other.models {
            let entry = self.totals.models.entry(model.clone()).or_default();
            entry.input_tokens += usage.input_tokens;
            entry.output_tokens += usage.output_tokens;
            entry.cache_read_input_tokens += usage.cache_read_input_tokens;
            entry.cache_creation_input_tokens += usage.cache_creation_input_tokens;
            entry.web_search_requests += usage.web_search_requests;
            entry.cost_usd += usage.cost_usd;
            entry.context_window = usage.context_window;
            entry.max_output_tokens = usage.max_output_tokens;
        }
        self.totals.api_duration_ms += other.api_duration_ms;
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
        self.totals
            .models
            .values()
            .map(|usage| usage.cost_usd)
            .sum()
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

    /// What is kept with the session.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}
