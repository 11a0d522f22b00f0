//! Token usage of a model call by kind, as the API reports it.

use crate::Extra;
use serde::{Deserialize, Deserializer, Serialize};

/// Tokens of one response, or a sum over several.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to the prompt cache.
    #[serde(default, deserialize_with = "null_is_default")]
    pub input_tokens: u64,
    /// Tokens written to the prompt cache.
    #[serde(default, deserialize_with = "null_is_default")]
    pub cache_creation_input_tokens: u64,
    /// Tokens read from the prompt cache.
    #[serde(default, deserialize_with = "null_is_default")]
    pub cache_read_input_tokens: u64,
    /// Tokens that the model wrote.
    #[serde(default, deserialize_with = "null_is_default")]
    pub output_tokens: u64,
    /// Cache writes by lifetime.
    #[serde(default, deserialize_with = "null_is_default")]
    pub cache_creation: CacheCreation,
    /// Calls of the provider's own tools.
    #[serde(default, deserialize_with = "null_is_default")]
    pub server_tool_use: ServerToolUse,
    /// The tier that served the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Cache writes by lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CacheCreation {
    /// Five-minute entries.
    #[serde(default)]
    pub ephemeral_5m_input_tokens: u64,
    /// One-hour entries.
    #[serde(default)]
    pub ephemeral_1h_input_tokens: u64,
}

/// Calls of the provider's own tools.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ServerToolUse {
    /// Web searches.
    #[serde(default)]
    pub web_search_requests: u64,
    /// Web fetches.
    #[serde(default)]
    pub web_fetch_requests: u64,
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

impl Usage {
    /// Every token that went in, cached or not.
    #[must_use]
    pub fn total_input(&self) -> u64 {
        self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens
    }

    /// Adds another response's usage.
    pub fn add(&mut self, other: &Usage) {
        self.input_tokens += other.input_tokens;
        self.cache_creation_input_tokens += other.cache_creation_input_tokens;
        self.cache_read_input_tokens += other.cache_read_input_tokens;
        self.output_tokens += other.output_tokens;
        self.cache_creation.ephemeral_5m_input_tokens +=
            other.cache_creation.ephemeral_5m_input_tokens;
        self.cache_creation.ephemeral_1h_input_tokens +=
            other.cache_creation.ephemeral_1h_input_tokens;
        self.server_tool_use.web_search_requests += other.server_tool_use.web_search_requests;
        self.server_tool_use.web_fetch_requests += other.server_tool_use.web_fetch_requests;
        if other.service_tier.is_some() {
            self.service_tier.clone_from(&other.service_tier);
        }
    }

    /// Takes over what a later event of the *same* response reports. The API sends the input side
    /// with `message_start` and running totals with `message_delta`; a total never shrinks.
    pub fn update(&mut self, later: &Usage) {
        let raise = |mine: &mut u64, theirs: u64| *mine = (*mine).max(theirs);
        raise(&mut self.input_tokens, later.input_tokens);
        raise(
            &mut self.cache_creation_input_tokens,
            later.cache_creation_input_tokens,
        );
        raise(
            &mut self.cache_read_input_tokens,
            later.cache_read_input_tokens,
        );
        raise(&mut self.output_tokens, later.output_tokens);
        raise(
            &mut self.cache_creation.ephemeral_5m_input_tokens,
            later.cache_creation.ephemeral_5m_input_tokens,
        );
        raise(
            &mut self.cache_creation.ephemeral_1h_input_tokens,
            later.cache_creation.ephemeral_1h_input_tokens,
        );
        raise(
            &mut self.server_tool_use.web_search_requests,
            later.server_tool_use.web_search_requests,
        );
        raise(
            &mut self.server_tool_use.web_fetch_requests,
            later.server_tool_use.web_fetch_requests,
        );
        if later.service_tier.is_some() {
            self.service_tier.clone_from(&later.service_tier);
        }
        for (name, value) in &later.extra {
            self.extra.insert(name.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_count_as_zero_and_unknown_fields_are_kept() {
        let usage: Usage = serde_json::from_str(
            r#"{"input_tokens":3,"cache_creation_input_tokens":null,"server_tool_use":null,"geo":"eu"}"#,
        )
        .unwrap();
        assert_eq!(usage.total_input(), 3);
        assert_eq!(usage.extra["geo"], "eu");
    }

    #[test]
    fn updates_take_the_later_total_and_never_shrink() {
        let mut usage = Usage {
            input_tokens: 10,
            output_tokens: 1,
            ..Usage::default()
        };
        usage.update(&Usage {
            output_tokens: 40,
            ..Usage::default()
        });
        assert_eq!((usage.input_tokens, usage.output_tokens), (10, 40));
    }
}
