//! The cost of a response.

use lathe_protocol::usage::Usage;
use serde::Deserialize;

/// Dollars per million tokens; searches per thousand.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Input that was not cached.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the cache; by default a tenth of the input.
    #[serde(default)]
    pub cache_read: Option<f64>,
    /// Input written to the cache for five minutes; by default 1.25 times the input.
    #[serde(default)]
    pub cache_write_5m: Option<f64>,
    /// Input written to the cache for one hour; by default twice the input.
    #[serde(default)]
    pub cache_write_1h: Option<f64>,
    /// A thousand web searches.
    #[serde(default)]
    pub web_search: f64,
    /// Other prices for long prompts.
    #[serde(default)]
    pub above: Option<LongPromptPrices>,
}

/// Prices of a request whose input, cached or not, is longer than a limit.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPromptPrices {
    /// The limit.
    pub input_tokens: u64,
    /// As in [`Prices`].
    pub input: f64,
    /// As in [`Prices`].
    pub output: f64,
    /// As in [`Prices`].
    #[serde(default)]
    pub cache_read: Option<f64>,
    /// As in [`Prices`].
    #[serde(default)]
    pub cache_write_5m: Option<f64>,
    /// As in [`Prices`].
    #[serde(default)]
    pub cache_write_1h: Option<f64>,
}

impl Prices {
    /// The cost of one response in dollars.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "token counts are far below 2^52"
    )]
    pub fn cost(&self, usage: &Usage) -> f64 {
        let prices = match &self.above {
            Some(long) if usage.total_input() > long.input_tokens => Self {
                input: long.input,
                output: long.output,
                cache_read: long.cache_read,
                cache_write_5m: long.cache_write_5m,
                cache_write_1h: long.cache_write_1h,
                ..*self
            },
            _ => *self,
        };
        let one_hour = usage.cache_creation.ephemeral_1h_input_tokens;
        // Writes that nobody said a lifetime of have the usual one.
        let five_minutes = usage.cache_creation_input_tokens.saturating_sub(one_hour);
        let million = [
            (usage.input_tokens, prices.input),
            (usage.output_tokens, prices.output),
            (
                usage.cache_read_input_tokens,
                prices.cache_read.unwrap_or(prices.input * 0.1),
            ),
            (
                five_minutes,
                prices.cache_write_5m.unwrap_or(prices.input * 1.25),
            ),
            (
                one_hour,
                prices.cache_write_1h.unwrap_or(prices.input * 2.0),
            ),
        ];
        let tokens: f64 = million
            .iter()
            .map(|(count, price)| *count as f64 * price)
            .sum();
        let searches = usage.server_tool_use.web_search_requests as f64 * prices.web_search;
        tokens / 1_000_000.0 + searches / 1_000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use lathe_protocol::usage::{CacheCreation, ServerToolUse};

    fn near(cost: Option<f64>, expected: f64) {
        let cost = cost.unwrap();
        assert!((cost - expected).abs() < 1e-9, "{cost} is not {expected}");
    }

    #[test]
    fn every_kind_of_token_has_its_price() {
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 1_000_000,
            cache_read_input_tokens: 1_000_000,
            cache_creation_input_tokens: 3_000_000,
            cache_creation: CacheCreation {
                ephemeral_5m_input_tokens: 1_000_000,
                ephemeral_1h_input_tokens: 1_000_000,
            },
            server_tool_use: ServerToolUse {
                web_search_requests: 100,
                web_fetch_requests: 5,
            },
            ..Usage::default()
        };
        // One million of the writes has no lifetime and counts as the short one.
        let expected = 5.0 + 25.0 + 0.5 + 2.0 * 6.25 + 10.0 + 1.0;
        near(
            Catalog::built_in().cost("claude-opus-4-5", &usage),
            expected,
        );
    }

    #[test]
    fn long_prompts_have_their_own_prices() {
        let catalog = Catalog::built_in();
        let short = Usage {
            input_tokens: 100_000,
            output_tokens: 1_000,
            ..Usage::default()
        };
        near(catalog.cost("claude-haiku-5-5", &short), 0.0105);
        let long = Usage {
            cache_read_input_tokens: 1,
            ..short
        };
        near(
            catalog.cost("claude-haiku-5-5", &long),
            0.0525 + 0.05 / 1_000_000.0,
        );
    }
}
