//! Facts about models that the user declares in settings, in the shape that the catalog reads.

use crate::conversation::ConversationShared;
use lathe_model::{Catalog, ResolvedModel};
use lathe_protocol::event::NoticeLevel;
use lathe_protocol::permission::PermissionMode;
use lathe_protocol::wildcard;
use lathe_settings::schema::Settings;
use serde_json::{Map, Value, json};

/// The models and prices that settings declare; `None` if there are none. A price that
/// isn't named stays as it is known.
pub(crate) fn declared(settings: &Settings, catalog: &Catalog) -> Option<Value> {
    let mut models: Map<String, Value> = Map::new();
    let of_provider = |id: &String| catalog.providers().reference(id).is_some();
    for (id, facts) in &settings.models {
        if facts.provider.is_some() || of_provider(id) {
            continue;
        }
        let mut entry = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                entry.insert(name.to_owned(), value);
            }
        };
        set("context_window", facts.context_window.map(Value::from));
        set("max_output", facts.max_output_tokens.map(Value::from));
        set(
            "thinking",
            facts
                .reasoning
                .or(facts.thinking)
                .filter(|thinks| !thinks)
                .map(|_| json!([])),
        );
        models.insert(id.clone(), Value::Object(entry));
    }
    for (id, prices) in &settings.prices {
        if of_provider(id) {
            continue;
        }
        let known = catalog.find(id).and_then(|info| info.prices);
        let mut entry = Map::new();
        let input = prices.input.or(known.map(|known| known.input));
        let output = prices.output.or(known.map(|known| known.output));
        let (Some(input), Some(output)) = (input, output) else {
            // Half of a price is no price: the cost stays unknown.
            continue;
        };
        entry.insert("input".to_owned(), input.into());
        entry.insert("output".to_owned(), output.into());
        let read = prices
            .cache_read
            .or(known.and_then(|known| known.cache_read));
        if let Some(read) = read {
            entry.insert("cache_read".to_owned(), read.into());
        }
        let write = prices
            .cache_write
            .or(known.and_then(|known| known.cache_write_5m));
        if let Some(write) = write {
            entry.insert("cache_write_5m".to_owned(), write.into());
        }
        if let Some(known) = known {
            entry.insert("web_search".to_owned(), known.web_search.into());
        }
        let model = models.entry(id.clone()).or_insert_with(|| json!({}));
        if let Some(model) = model.as_object_mut() {
            model.insert("prices".to_owned(), Value::Object(entry));
        }
    }
    (!models.is_empty()).then(|| json!({"models": models}))
}

/// Why a model can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the model {model} is not available; availableModels in the settings allows {allowed}")]
pub struct NotAvailable {
    model: String,
    allowed: String,
}

/// Resolves the name of a model that someone wants, if `availableModels` allows it. A short name in that list
/// stands for its model, and that of a family (`opus`) for every model of it.
pub(crate) fn choose(
    catalog: &Catalog,
    available: Option<&[String]>,
    name: &str,
) -> Result<ResolvedModel, NotAvailable> {
    let resolved = catalog.resolve(name);
    let Some(available) = available else {
        return Ok(resolved);
    };
    let allows = |entry: &String| {
        let family = entry.chars().all(|letter| letter.is_ascii_lowercase());
        // A version allows what extends it: `opus-5` also `claude-opus-5-5`.
        let plain = |id: &str| id.strip_prefix("claude-").unwrap_or(id).to_owned();
        let extends = plain(&resolved.id)
            .strip_prefix(&plain(entry))
            .is_some_and(|rest| rest.starts_with('-'));
        catalog.resolve(entry).id == resolved.id
            || (entry.contains('*') && wildcard::matches(entry, &resolved.id))
            || (extends && entry.contains('-'))
            || (family && resolved.id.split('-').any(|part| part == entry))
    };
    if available.iter().any(allows) {
        return Ok(resolved);
    }
    Err(NotAvailable {
        model: resolved.id,
        allowed: match available {
            [] => "only the default".to_owned(),
            some => some.join(", "),
        },
    })
}

/// The models that may be chosen, where settings restrict them.
fn available_models(shared: &ConversationShared) -> Option<Vec<String>> {
    let settings = shared.session.settings.value.read();
    let list = settings.get("availableModels")?.as_array()?;
    let names = list.iter().filter_map(Value::as_str);
    Some(names.map(str::to_owned).collect())
}

/// The id of a model that someone wants, if it may be used.
pub(crate) fn choose_model(
    shared: &ConversationShared,
    name: &str,
) -> Result<String, NotAvailable> {
    let available = available_models(shared);
    choose(&shared.session.catalog, available.as_deref(), name).map(|model| model.id)
}

/// A name that stands for two models: `opus` in plan mode, `sonnet` otherwise.
const OPUS_PLAN: &str = "opusplan";

/// The model of plan mode that a name of a model says.
pub(crate) fn planner_of(catalog: &Catalog, name: &str) -> Option<String> {
    let is_plan = name.trim().eq_ignore_ascii_case(OPUS_PLAN);
    is_plan.then(|| catalog.resolve("opus").id)
}

/// The meaning of a name that stands for two models, for people.
pub(crate) fn described(catalog: &Catalog, name: &str) -> Option<String> {
    let planner = planner_of(catalog, name)?;
    let called = |id: &str| {
        let resolved = catalog.resolve(id);
        resolved.info.name.unwrap_or(resolved.id)
    };
    let (planner, worker) = (called(&planner), called(name));
    Some(format!("{planner} in plan mode, {worker} otherwise"))
}

/// The model that the next step of a conversation uses: in plan mode the one for planning.
pub(crate) fn next_model(shared: &ConversationShared) -> String {
    let (chosen, planner) = {
        let choices = shared.choices.read();
        (choices.model.clone(), choices.planning.clone())
    };
    let plans = shared.role.place().is_none() && shared.permissions.mode() == PermissionMode::Plan;
    if !plans {
        return chosen;
    }
    let of_settings = || {
        let named = {
            let settings = shared.session.settings.value.read();
            settings.get("planModel")?.as_str()?.to_owned()
        };
        choose_model(shared, &named).ok()
    };
    planner.or_else(of_settings).unwrap_or(chosen)
}

/// As [`choose_model`], for something that continues without: the user is told.
pub(crate) fn choose_model_or(
    shared: &ConversationShared,
    name: &str,
    otherwise: impl FnOnce() -> String,
) -> String {
    choose_model(shared, name).unwrap_or_else(|refused| {
        let events = &shared.events;
        events.notice(NoticeLevel::Warning, format!("{refused}."));
        otherwise()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_models_allows_ids_short_names_and_families() {
        let catalog = Catalog::built_in();
        let allowed = |list: &[&str], name: &str| {
            let list: Vec<String> = list.iter().map(|it| (*it).to_owned()).collect();
            choose(&catalog, Some(&list), name).is_ok()
        };
        assert!(choose(&catalog, None, "anything").is_ok());
        assert!(allowed(&["haiku"], "haiku"));
        assert!(allowed(&["haiku"], "claude-haiku-4-5"));
        assert!(allowed(&["claude-haiku-4-5"], "claude-haiku-4-5"));
        assert!(!allowed(&["claude-haiku-4-5"], "claude-opus-4-5"));
        assert!(allowed(&["opus-5"], "claude-opus-5-5"));
        assert!(!allowed(&["opus-5-5"], "claude-opus-5"));
        assert!(!allowed(&["haiku"], "house-model"));
        assert!(!allowed(&[], "opus"));
        let refused = choose(&catalog, Some(&["haiku".to_owned()]), "opus");
        let words = refused.unwrap_err().to_string();
        assert!(
            words.contains("availableModels") && words.contains("haiku"),
            "{words}"
        );
    }

    #[test]
    fn declared_windows_and_prices_win_over_the_table() {
        let settings: Settings = serde_json::from_value(json!({
            "models": {"house": {"contextWindow": 32_000, "maxOutputTokens": 4_000, "thinking": false}},
            "prices": {"house": {"input": 1.0, "output": 2.0}, "claude-opus-5-5": {"cacheRead": 0.25}}
        }))
        .unwrap();
        let mut catalog = Catalog::built_in();
        let known = catalog.find("claude-opus-5-5").unwrap().clone();
        catalog
            .extend(&declared(&settings, &catalog).unwrap())
            .unwrap();
        let house = catalog.resolve("house").info;
        assert_eq!((house.context_window, house.max_output), (32_000, 4_000));
        assert_eq!(house.thinking, Some(Vec::new()));
        let opus = catalog.find("claude-opus-5-5").unwrap();
        assert_eq!(opus.context_window, known.context_window);
        let (now, before) = (opus.prices.unwrap(), known.prices.unwrap());
        assert_eq!((now.input, now.cache_read), (before.input, Some(0.25)));
    }

    #[test]
    fn settings_without_models_declare_nothing() {
        assert_eq!(declared(&Settings::default(), &Catalog::built_in()), None);
    }
}
