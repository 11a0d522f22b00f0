//! Tables of models beside the main one: that of other providers, which comes with this version, and a newer one that
//! `lathe models update` fetched. Every row says from when and from where it is.

use super::{ModelInfo, is_version_of};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

const OF_PROVIDERS: &str = include_str!("../../data/providers.json");

/// The models of other providers than Anthropic, by `provider/model`. Read when one of them is asked for.
static PROVIDERS: LazyLock<BTreeMap<String, ModelInfo>> = LazyLock::new(|| {
    #[derive(Deserialize, Default)]
    struct Table {
        models: BTreeMap<String, ModelInfo>,
    }
    let table: Table = serde_json::from_str(OF_PROVIDERS).unwrap_or_default();
    table.models
});

/// Why a table is invalid.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// It isn't JSON.
    #[error("it is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It has no models.
    #[error(
        "it has no models: neither {{\"models\": {{\"provider/model\": …}}}} nor a price list of litellm was found"
    )]
    Empty,
    /// A row can't be read.
    #[error("the row {id} can't be read: {reason}")]
    Row {
        /// The model.
        id: String,
        /// Why.
        reason: String,
    },
}

/// The row of a model, or of the model that it is a version of.
pub(super) fn find<'a>(
    table: &'a BTreeMap<String, ModelInfo>,
    provider: &str,
    model: &str,
) -> Option<&'a ModelInfo> {
    let id = format!("{provider}/{model}");
    table.get(&id).or_else(|| {
        table
            .range(format!("{provider}/")..)
            .take_while(|(key, _)| key.starts_with(provider))
            .filter(|(key, _)| is_version_of(&id, key) || is_dated_version_of(&id, key))
            .max_by_key(|(key, _)| key.len())
            .map(|(_, info)| info)
    })
}

/// `gpt-5-2025-08-07` is `gpt-5`.
fn is_dated_version_of(id: &str, key: &str) -> bool {
    let date = id.strip_prefix(key).and_then(|rest| rest.strip_prefix('-'));
    date.is_some_and(|date| {
        date.len() == 10
            && date.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            })
    })
}

/// The row of a model in the table that comes with this version.
pub(super) fn built_in(provider: &str, model: &str) -> Option<&'static ModelInfo> {
    // Reading the table is a tenth of a start; a provider that it doesn't name needs none of it.
    let is_named = OF_PROVIDERS.contains(&format!("\"{provider}/"));
    is_named.then(|| find(&PROVIDERS, provider, model))?
}

/// The models of a provider in the table that comes with this version.
pub fn models_of(provider: &str) -> impl Iterator<Item = &'static str> {
    let beginning = format!("{provider}/");
    PROVIDERS
        .keys()
        .filter_map(move |id| id.strip_prefix(beginning.as_str()))
}

/// The rows of a table in our own form.
///
/// # Errors
/// When one of them can't be read.
pub fn rows(table: &Value) -> Result<BTreeMap<String, ModelInfo>, TableError> {
    let models = table.get("models").and_then(Value::as_object);
    let mut rows = BTreeMap::new();
    for (id, row) in models.into_iter().flatten() {
        let info: ModelInfo =
            serde_json::from_value(row.clone()).map_err(|error| TableError::Row {
                id: id.clone(),
                reason: error.to_string(),
            })?;
        rows.insert(id.clone(), info);
    }
    Ok(rows)
}

/// A table that was fetched, in our own form: ours, or a price list of litellm. Rows that don't say from when and where
/// they are get the day and the address.
///
/// # Errors
/// When it has no models that can be read.
pub fn fetched(text: &[u8], day: &str, url: &str) -> Result<Value, TableError> {
    let value: Value = serde_json::from_slice(text)?;
    let mut models = match value.get("models").and_then(Value::as_object) {
        Some(models) => models.clone(),
        None => value.as_object().map(of_price_list).unwrap_or_default(),
    };
    if models.is_empty() {
        return Err(TableError::Empty);
    }
    for row in models.values_mut().filter_map(Value::as_object_mut) {
        row.entry("date").or_insert_with(|| day.into());
        row.entry("source").or_insert_with(|| url.into());
    }
    let table = json!({"models": models});
    rows(&table)?;
    Ok(table)
}

/// The rows of a price list of litellm that are about models which talk.
fn of_price_list(list: &Map<String, Value>) -> Map<String, Value> {
    list.iter()
        .filter(|(_, row)| matches!(row["mode"].as_str(), Some("chat" | "responses")))
        .filter_map(|(name, row)| {
            let provider = row["litellm_provider"].as_str()?;
            let model = name
                .strip_prefix(provider)
                .and_then(|rest| rest.strip_prefix('/'))
                .unwrap_or(name);
            Some((format!("{provider}/{model}"), of_price_row(row)?))
        })
        .collect()
}

fn of_price_row(row: &Value) -> Option<Value> {
    let window = row["max_input_tokens"]
        .as_u64()
        .or_else(|| row["max_tokens"].as_u64())
        .filter(|window| *window > 0)?;
    let output = row["max_output_tokens"]
        .as_u64()
        .or_else(|| row["max_tokens"].as_u64())
        .filter(|output| *output > 0)
        .unwrap_or(window)
        .min(window);
    let mut made = json!({"context_window": window, "max_output": output});
    let price = |name: &str| row[name].as_f64().map(|price| (price * 1e12).round() / 1e6);
    if let (Some(input), Some(given)) = (
        price("input_cost_per_token"),
        price("output_cost_per_token"),
    ) {
        let written = price("cache_creation_input_token_cost").filter(|price| *price > 0.0);
        made["prices"] = json!({
            "input": input, "output": given,
            "cache_read": price("cache_read_input_token_cost").unwrap_or(input),
            "cache_write_5m": written.unwrap_or(input),
        });
    }
    let mut abilities = Map::new();
    for (ours, theirs) in [
        ("tools", "supports_function_calling"),
        ("images", "supports_vision"),
        ("reasoning", "supports_reasoning"),
    ] {
        if let Some(known) = row[theirs].as_bool() {
            abilities.insert(ours.to_owned(), known.into());
        }
    }
    if !abilities.is_empty() {
        made["abilities"] = Value::Object(abilities);
    }
    if let Some(source) = row["source"].as_str() {
        made["source"] = source.into();
    }
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_says_from_when_and_from_where_it_is() {
        let main: Value = serde_json::from_str(super::super::BUILT_IN).unwrap();
        let both = rows(&main).unwrap().into_iter().chain(PROVIDERS.clone());
        let mut count = 0;
        for (id, info) in both {
            let date = info.date.unwrap_or_default();
            assert!(date.parse::<jiff::civil::Date>().is_ok(), "{id}: {date}");
            assert!(info.source.is_some_and(|source| !source.is_empty()), "{id}");
            count += 1;
        }
        assert!(count >= 150, "{count} rows");
        assert!(models_of("openai").any(|model| model == "gpt-5"));
    }

    #[test]
    fn a_version_of_a_day_is_its_model() {
        for model in ["gpt-5", "gpt-5-2025-08-07"] {
            let info = built_in("openai", model).unwrap();
            assert_eq!(info.context_window, 272_000, "{model}");
        }
        assert_eq!(built_in("openai", "gpt-99"), None);
        assert_eq!(built_in("nobody", "gpt-5"), None);
    }

    #[test]
    fn a_price_list_is_read_and_what_is_no_table_is_refused() {
        let list = json!({
            "sample_spec": {"mode": "one of chat, embedding"},
            "gpt-x": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 1000, "max_output_tokens": 5000,
                "input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6, "supports_vision": true},
            "groq/org/m": {"litellm_provider": "groq", "mode": "chat", "max_tokens": 8000},
            "embed": {"litellm_provider": "openai", "mode": "embedding", "max_tokens": 8000},
        });
        let table = fetched(list.to_string().as_bytes(), "2026-11-17", "http://h/t").unwrap();
        let rows = rows(&table).unwrap();
        assert_eq!(
            rows.keys().collect::<Vec<_>>(),
            ["groq/org/m", "openai/gpt-x"]
        );
        let row = &rows["openai/gpt-x"];
        assert_eq!((row.context_window, row.max_output), (1000, 1000));
        assert_eq!(row.source.as_deref(), Some("http://h/t"));
        let prices = row.prices.unwrap();
        assert_eq!((prices.input, prices.output), (1.0, 2.0));
        assert_eq!(rows["groq/org/m"].prices, None);
        for wrong in [
            "",
            "[]",
            "{}",
            "<html>",
            r#"{"models": {"a/b": {"context_window": "x"}}}"#,
        ] {
            assert!(
                fetched(wrong.as_bytes(), "2026-11-17", "u").is_err(),
                "{wrong}"
            );
        }
    }
}
