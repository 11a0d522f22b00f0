//! Models: limits, prices and short names.
//!
//! The tables are data ([`tables`]); a user's settings extend them in the same shape.
//! A model that isn't in it works all the same, with careful limits and without a price.

mod errors;
mod prices;
pub mod tables;

pub use prices::{LongPromptPrices, Prices};

use crate::providers::Directory;
use crate::request::{Thinking, ThinkingMode};
pub use errors::{CatalogError, EntryError};
use lathe_protocol::usage::Usage;
use lathe_settings::{Environment, Variable};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

const BUILT_IN: &str = include_str!("../../data/models.json");

/// The output limit that a turn begins with: most answers are short, and a small limit gets through
/// rate limits that count what might be written.
pub const SMALL_OUTPUT: u32 = 8_192;
/// The output limit after the small one was hit, where the model allows it.
pub const LARGE_OUTPUT: u32 = 64_000;

/// Limits, abilities and prices of a model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelInfo {
    /// Its name for people.
    #[serde(default)]
    pub name: Option<String>,
    /// How many tokens a conversation may have.
    #[serde(default = "default_context")]
    pub context_window: u64,
    /// How many tokens a response may have.
    #[serde(default = "default_output")]
    pub max_output: u32,
    /// Its prices, if they are known.
    #[serde(default)]
    pub prices: Option<Prices>,
    /// Up to when its knowledge is reliable (`2026-06`).
    #[serde(default)]
    pub knowledge: Option<String>,
    /// The ways of reasoning that it takes, by name; absent when nobody knows.
    #[serde(default)]
    pub thinking: Option<Vec<ThinkingKind>>,
    /// A longer context window that has to be asked for (`model[1m]`).
    #[serde(default)]
    pub long_context: Option<LongContext>,
    /// Its capabilities, as far as known.
    #[serde(default)]
    pub abilities: Abilities,
    /// The day of these facts.
    #[serde(default)]
    pub date: Option<String>,
    /// Where they are from.
    #[serde(default)]
    pub source: Option<String>,
}

/// The capabilities of a model; `None` is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Abilities {
    /// Whether it calls tools.
    pub tools: Option<bool>,
    /// Whether it takes images.
    pub images: Option<bool>,
    /// Whether it reasons.
    pub reasoning: Option<bool>,
}

/// A way of reasoning, as the table names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingKind {
    /// See [`ThinkingMode::Adaptive`].
    Adaptive,
    /// See [`ThinkingMode::Budget`].
    Budget,
    /// See [`ThinkingMode::BetweenTools`].
    BetweenTools,
    /// See [`ThinkingMode::Disabled`].
    Disabled,
}

/// A longer context window that has to be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongContext {
    /// How many tokens it has.
    pub context_window: u64,
    /// The beta feature that unlocks it.
    #[serde(default)]
    pub beta: Option<String>,
}

fn default_context() -> u64 {
    200_000
}

fn default_output() -> u32 {
    32_000
}

impl Default for ModelInfo {
    /// The assumptions for a model that isn't in the table.
    fn default() -> Self {
        Self {
            name: None,
            context_window: default_context(),
            max_output: default_output(),
            prices: None,
            knowledge: None,
            thinking: None,
            long_context: None,
            abilities: Abilities::default(),
            date: None,
            source: None,
        }
    }
}

impl ModelInfo {
    /// The output limit that a turn begins with.
    #[must_use]
    pub fn small_output(&self) -> u32 {
        self.max_output.min(SMALL_OUTPUT)
    }

    /// The output limit after the small one was hit.
    #[must_use]
    pub fn large_output(&self) -> u32 {
        self.max_output.min(LARGE_OUTPUT)
    }

    /// The nearest to `wanted` that the model takes: a request with a way of reasoning that it
    /// doesn't know is refused. `None`: leave the field out.
    #[must_use]
    pub fn fit_thinking(&self, wanted: Thinking) -> Option<Thinking> {
        let Some(known) = &self.thinking else {
            return Some(wanted);
        };
        let takes = |kind: ThinkingKind| known.contains(&kind);
        let mode = match wanted.mode {
            ThinkingMode::Adaptive | ThinkingMode::Budget(_) if known.is_empty() => return None,
            ThinkingMode::Adaptive if takes(ThinkingKind::Adaptive) => ThinkingMode::Adaptive,
            // An older model: as much as it may, within what a response may have.
            ThinkingMode::Adaptive => ThinkingMode::Budget(self.max_output.min(32_000) - 1),
            ThinkingMode::Budget(tokens) if takes(ThinkingKind::Budget) => {
                ThinkingMode::Budget(tokens)
            }
            ThinkingMode::Budget(_) => ThinkingMode::Adaptive,
            ThinkingMode::Disabled | ThinkingMode::BetweenTools => {
                if takes(ThinkingKind::Disabled) && wanted.mode == ThinkingMode::Disabled {
                    ThinkingMode::Disabled
                } else if takes(ThinkingKind::BetweenTools) {
                    ThinkingMode::BetweenTools
                } else if takes(ThinkingKind::Disabled) {
                    ThinkingMode::Disabled
                } else {
                    return None;
                }
            }
        };
        Some(Thinking { mode, ..wanted })
    }
}

/// A model as it is asked for, after short names are resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedModel {
    /// The id that goes into the request.
    pub id: String,
    /// Beta features that the request needs for it.
    pub betas: Vec<String>,
    /// Its limits, abilities and prices.
    pub info: ModelInfo,
    /// Whether it is in the table.
    pub known: bool,
}

#[derive(Debug, Deserialize)]
struct Table {
    aliases: BTreeMap<String, String>,
    models: BTreeMap<String, ModelInfo>,
}

/// All known models.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalog {
    models: BTreeMap<String, ModelInfo>,
    aliases: BTreeMap<String, String>,
    small_fast: Option<String>,
    /// How many tokens every conversation may have, whatever the table says.
    max_context: Option<u64>,
    /// The user's settings for compaction.
    pub compaction: Compaction,
    /// Used for side tasks where nobody named a model for them and the main one is served elsewhere.
    main: Option<String>,
    providers: Arc<Directory>,
}

/// When a conversation is compacted, by settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compaction {
    /// The tokens that it may fill before, where the model's window is larger.
    pub window: Option<u64>,
    /// At what percentage of the window, where that is earlier than usual.
    pub percent: Option<u64>,
}

impl Catalog {
    /// The table that comes with this version.
    #[must_use]
    pub fn built_in() -> Self {
        #[expect(
            clippy::expect_used,
            reason = "the text is part of this crate, and a test reads it"
        )]
        let table: Table = serde_json::from_str(BUILT_IN).expect("data/models.json is valid");
        Self {
            models: table.models,
            aliases: table.aliases,
            small_fast: None,
            max_context: None,
            compaction: Compaction::default(),
            main: None,
            providers: Arc::default(),
        }
    }

    /// Reads references by these providers.
    #[must_use]
    pub fn with_providers(mut self, providers: Arc<Directory>) -> Self {
        self.providers = providers;
        self
    }

    /// The providers.
    #[must_use]
    pub fn providers(&self) -> &Arc<Directory> {
        &self.providers
    }

    /// Takes over the rows of a table that was fetched. What the tables of this version say about other models stays.
    pub fn add_table(&mut self, rows: BTreeMap<String, ModelInfo>) {
        for (id, mut info) in rows {
            let id = match id.strip_prefix("anthropic/") {
                Some(plain) => plain.to_owned(),
                None => id,
            };
            if let Some(known) = self.models.get(&id) {
                // Only our own table knows these.
                info.name = info.name.or_else(|| known.name.clone());
                info.thinking = info.thinking.or_else(|| known.thinking.clone());
                info.knowledge = info.knowledge.or_else(|| known.knowledge.clone());
                info.long_context = info.long_context.or_else(|| known.long_context.clone());
            }
            self.models.insert(id, info);
        }
    }

    /// Makes a short name for a model.
    pub fn add_alias(&mut self, alias: &str, target: &str) {
        self.aliases.insert(alias.to_lowercase(), target.to_owned());
    }

    /// Says which model the session runs on: small tasks go to it where no model is set for them and it is
    /// served by another provider than that of the usual small one.
    pub fn set_main_model(&mut self, id: &str) {
        self.main = Some(id.to_owned());
    }

    /// Applies the environment: the default model, the models of the short names, and the model for small
    /// side tasks.
    #[must_use]
    pub fn with_environment(mut self, environment: &Environment) -> Self {
        for (alias, variable) in [
            ("fable", Variable::DefaultFableModel),
            ("opus", Variable::DefaultOpusModel),
            ("sonnet", Variable::DefaultSonnetModel),
            ("haiku", Variable::DefaultHaikuModel),
        ] {
            if let Some(model) = environment.get(variable) {
                self.aliases.insert(alias.to_owned(), model.to_owned());
            }
        }
        let default = environment.get(Variable::DefaultModel);
        if let Some(model) = default.or_else(|| environment.get(Variable::Model))
            && model != "default"
        {
            self.aliases.insert("default".to_owned(), model.to_owned());
        }
        self.small_fast = environment.get(Variable::SmallModel).map(str::to_owned);
        self.max_context = environment
            .number(Variable::MaxContextTokens)
            .filter(|tokens| *tokens > 0);
        self
    }

    /// Adds models and short names from settings, in the shape of the built-in table:
    /// `{"models": {"my-model": {"context_window": …, "prices": {…}}}, "aliases": {…}}`. An entry
    /// replaces the built-in fields it names. What can't be read is reported and left out; the rest
    /// applies.
    ///
    /// # Errors
    /// One error for each thing that can't be read.
    pub fn extend(&mut self, settings: &Value) -> Result<(), Vec<CatalogError>> {
        let mut wrong = Vec::new();
        let Some(object) = settings.as_object() else {
            return Err(vec![CatalogError::NoObject]);
        };
        for (name, value) in object {
            match (name.as_str(), value.as_object()) {
                ("models", Some(models)) => {
                    for (id, entry) in models {
                        match self.merged(id, entry) {
                            Ok(info) => {
                                self.models.insert(id.clone(), info);
                            }
                            Err(reason) => wrong.push(CatalogError::Model {
                                id: id.clone(),
                                reason,
                            }),
                        }
                    }
                }
                ("aliases", Some(aliases)) => {
                    for (alias, target) in aliases {
                        match target.as_str().filter(|target| !target.is_empty()) {
                            Some(target) => {
                                self.aliases.insert(alias.clone(), target.to_owned());
                            }
                            None => wrong.push(CatalogError::Alias(alias.clone())),
                        }
                    }
                }
                ("models" | "aliases", None) => {
                    wrong.push(CatalogError::SectionNoObject(name.clone()));
                }
                _ => wrong.push(CatalogError::UnknownSection(name.clone())),
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }

    fn merged(&self, id: &str, entry: &Value) -> Result<ModelInfo, EntryError> {
        let update: ModelInfo = ModelInfo::deserialize(entry)
            .map_err(|error| EntryError::Unreadable(error.to_string()))?;
        if let Some(prices) = &update.prices
            && [prices.input, prices.output]
                .iter()
                .any(|price| *price < 0.0)
        {
            return Err(EntryError::NegativePrice);
        }
        if update.context_window == 0 || update.max_output == 0 {
            return Err(EntryError::NoRoom);
        }
        let Some(known) = self.models.get(id) else {
            return Ok(update);
        };
        let named = |field: &str| entry.get(field).is_some();
        let mut info = known.clone();
        if named("name") {
            info.name = update.name;
        }
        if named("context_window") {
            info.context_window = update.context_window;
        }
        if named("max_output") {
            info.max_output = update.max_output;
        }
        if named("prices") {
            info.prices = update.prices;
        }
        if named("knowledge") {
            info.knowledge = update.knowledge;
        }
        if named("thinking") {
            info.thinking = update.thinking;
        }
        if named("long_context") {
            info.long_context = update.long_context;
        }
        if named("abilities") {
            info.abilities = update.abilities;
        }
        if named("date") {
            info.date = update.date;
        }
        if named("source") {
            info.source = update.source;
        }
        Ok(info)
    }

    /// The model behind a name: a short name, an id, or anything else, taken as it is. A `[1m]` at
    /// the end asks for the long context window. A blank name is no choice: the default.
    #[must_use]
    pub fn resolve(&self, name: &str) -> ResolvedModel {
        let mut name = match name.trim() {
            "" => "default".to_owned(),
            name => name.to_owned(),
        };
        let mut long = false;
        // Short names may point to short names; a circle ends where it began.
        for _ in 0..=self.aliases.len() {
            if let Some(plain) = strip_long(&name) {
                long = true;
                name = plain.to_owned();
            }
            match self.aliases.get(&name.to_lowercase()) {
                Some(target) if *target != name => name.clone_from(target),
                _ => break,
            }
        }
        if let Some(plain) = strip_long(&name) {
            long = true;
            name = plain.to_owned();
        }
        let (info, known) = self.info(&name);
        let mut info = info;
        let name = self.providers.canonical(&name);
        let mut betas = Vec::new();
        if long && let Some(extension) = &info.long_context {
            info.context_window = extension.context_window;
            betas.extend(extension.beta.clone());
        } else if long && !known {
            info.context_window = 1_000_000;
        }
        if let Some(tokens) = self.max_context {
            info.context_window = tokens;
        }
        ResolvedModel {
            id: name,
            betas,
            info,
            known,
        }
    }

    /// The model used when none is named.
    #[must_use]
    pub fn default_model(&self) -> ResolvedModel {
        self.resolve("default")
    }

    /// Uses a model for small side tasks, unless the environment named one.
    pub fn prefer_small_model(&mut self, name: &str) {
        if !name.trim().is_empty() {
            self.small_fast.get_or_insert_with(|| name.to_owned());
        }
    }

    /// The model for small side tasks. Where nobody named one, it is the small one of Anthropic for sessions that
    /// Anthropic serves, and the main model for all others: never an API that nobody configured.
    #[must_use]
    pub fn small_fast_model(&self) -> ResolvedModel {
        let elsewhere = self
            .main
            .as_deref()
            .filter(|main| self.providers.located(main).provider != crate::providers::ANTHROPIC);
        let name = self.small_fast.as_deref().or(elsewhere).unwrap_or("haiku");
        self.resolve(name)
    }

    /// Facts about a model, from settings and discovery, else from the table, else guessed; and
    /// whether it was known.
    fn info(&self, id: &str) -> (ModelInfo, bool) {
        let reference = self.providers.located(id);
        let Some(entry) = self.providers.get(reference.provider) else {
            return (ModelInfo::default(), false);
        };
        let found = self
            .models
            .get(id)
            .or_else(|| tables::find(&self.models, reference.provider, reference.model))
            .or_else(|| tables::built_in(reference.provider, reference.model))
            .or_else(|| self.find(reference.model));
        if reference.provider == crate::providers::ANTHROPIC && !entry.knows(reference.model) {
            return (found.cloned().unwrap_or_default(), found.is_some());
        }
        let facts = entry.facts(reference.model);
        let known = found.is_some() || facts.source.is_some();
        let mut info = found.cloned().unwrap_or_else(|| {
            let window = match (entry.is_local(), entry.kind.is_messages()) {
                (true, _) => 8_192,
                (false, true) => default_context(),
                (false, false) => 128_000,
            };
            ModelInfo {
                context_window: window,
                max_output: u32::try_from(window / 4)
                    .unwrap_or(u32::MAX)
                    .min(default_output()),
                ..ModelInfo::default()
            }
        });
        // Ways of reasoning are those of Anthropic; the others translate effort.
        if !entry.kind.is_messages() && info.thinking.is_none() && facts.reasoning == Some(false) {
            info.thinking = Some(Vec::new());
        }
        if entry.kind.is_messages() && facts.reasoning == Some(false) {
            info.thinking = Some(Vec::new());
        }
        if let Some(window) = facts.context_window {
            info.context_window = window;
            let most = u32::try_from(window / 4).unwrap_or(u32::MAX).max(256);
            info.max_output = info.max_output.min(most);
        }
        if let Some(output) = facts.max_output {
            info.max_output = output;
        }
        if let Some(price) = &facts.price {
            info.prices = price_of(price, info.prices);
        }
        if facts.name.is_some() {
            info.name.clone_from(&facts.name);
        }
        let abilities = &mut info.abilities;
        abilities.tools = facts.tools.or(abilities.tools);
        abilities.images = facts.images.or(abilities.images);
        abilities.reasoning = facts.reasoning.or(abilities.reasoning);
        (info, known)
    }

    /// The entry of the model with this id, if there is one.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&ModelInfo> {
        if let Some(info) = self.models.get(id) {
            return Some(info);
        }
        let id = canonical(id);
        let exact = self.models.get(id);
        exact.or_else(|| {
            self.models
                .iter()
                .filter(|(prefix, _)| is_version_of(id, prefix))
                .max_by_key(|(prefix, _)| prefix.len())
                .map(|(_, info)| info)
        })
    }

    /// The ids in the table.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }

    /// The short names and what they stand for.
    pub fn aliases(&self) -> impl Iterator<Item = (&str, &str)> {
        self.aliases
            .iter()
            .map(|(alias, model)| (alias.as_str(), model.as_str()))
    }

    /// The cost of one response in dollars; `None` when the model's prices are unknown. Call it per
    /// response and add up the dollars: prices may depend on a request's length.
    #[must_use]
    pub fn cost(&self, model: &str, usage: &Usage) -> Option<f64> {
        let prices = self.info(model).0.prices?;
        Some(prices.cost(usage))
    }
}

/// Prices as settings say them, over known ones. Input and output must be known one way or the other.
fn price_of(
    price: &lathe_settings::schema::PriceSettings,
    known: Option<Prices>,
) -> Option<Prices> {
    Some(Prices {
        input: price.input.or(known.map(|known| known.input))?,
        output: price.output.or(known.map(|known| known.output))?,
        cache_read: price
            .cache_read
            .or(known.and_then(|known| known.cache_read)),
        cache_write_5m: price
            .cache_write
            .or(known.and_then(|known| known.cache_write_5m)),
        cache_write_1h: price
            .cache_write
            .or(known.and_then(|known| known.cache_write_1h)),
        web_search: known.map(|known| known.web_search).unwrap_or_default(),
        above: known.and_then(|known| known.above),
    })
}

fn strip_long(name: &str) -> Option<&str> {
    let at = name.len().checked_sub("[1m]".len())?;
    let tail = name.get(at..)?;
    tail.eq_ignore_ascii_case("[1m]")
        .then(|| name[..at].trim_end())
}

/// The id without what clouds and gateways put around it: `us.anthropic.claude-x-v1:0`,
/// `anthropic/claude-x`, `claude-x@20250101`.
fn canonical(id: &str) -> &str {
    let id = id.rsplit('/').next().unwrap_or(id);
    let id = id.find("claude-").map_or(id, |at| &id[at..]);
    let id = id.split('@').next().unwrap_or(id);
    match id.rfind("-v") {
        Some(at)
            if id[at + 2..].split_once(':').is_some_and(|(major, minor)| {
                !major.is_empty()
                    && (major.to_owned() + minor)
                        .bytes()
                        .all(|byte| byte.is_ascii_digit())
            }) =>
        {
            &id[..at]
        }
        _ => id,
    }
}

/// Whether an id is a dated or moving version of a table entry. `claude-opus-4-9` is no version of
/// `claude-opus-4`: it is another model, with other limits and prices.
fn is_version_of(id: &str, prefix: &str) -> bool {
    let Some(rest) = id.strip_prefix(prefix) else {
        return false;
    };
    let Some(rest) = rest.strip_prefix('-') else {
        return false;
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest == "latest"
        || rest == "0"
        || (digits == 8 && matches!(rest.as_bytes().get(8), None | Some(b'-')))
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
