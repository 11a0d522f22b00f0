//! Opening a session, the model's side: which model, by which provider, with which credentials.

use crate::open::options::{OpenError, SessionOptions};
use crate::turn::models::choose;
use lathe_model::catalog::Compaction;
use lathe_model::{
    AnthropicConfig, AnthropicProvider, CacheMarkers, Catalog, Directory, KeyHelperError, Keys,
    ModelError, Provider, Router, Thinking,
};
use lathe_protocol::diagnostic::Diagnostic;
use lathe_settings::schema::{PromptCache, Thinking as SettingsThinking, ThinkingMode};
use lathe_settings::{Environment, Places, Resolved, Variable};
use std::sync::Arc;
use std::time::Duration;

/// How long a command may take that prints a key.
const HELPER_LIMIT: Duration = Duration::from_secs(30);
/// How long one may take that signs the user in, in a browser.
const SIGN_IN_LIMIT: Duration = Duration::from_secs(180);

/// The models that are known here, whichever is chosen.
pub(crate) fn directory_catalog(
    environment: &Environment,
    settings: &Resolved,
    remarks: &mut Vec<Diagnostic>,
) -> Catalog {
    let (providers, problems) = Directory::of(&settings.settings, environment);
    let problems = problems.iter().map(ToString::to_string);
    remarks.extend(problems.map(Diagnostic::warning));
    let mut catalog = Catalog::built_in()
        .with_environment(environment)
        .with_providers(Arc::new(providers));
    match crate::models::fetched_table(environment) {
        Ok(Some(rows)) => catalog.add_table(rows),
        Ok(None) => {}
        Err(error) => remarks.push(Diagnostic::warning(format!(
            "{} is not used: {error}; `lathe models update` replaces it",
            crate::models::table_file(environment).display()
        ))),
    }
    for (alias, facts) in &settings.settings.models {
        if let Some(provider) = &facts.provider {
            let name = facts.name.as_deref().unwrap_or(alias);
            catalog.add_alias(alias, &format!("{provider}/{name}"));
        }
    }
    catalog.compaction = Compaction {
        window: settings.settings.auto_compact_window,
        percent: environment.number(Variable::AutoCompactPercent),
    };
    if let Some(small) = &settings.settings.small_model {
        catalog.prefer_small_model(small);
    }
    if let Some(declared) = crate::turn::models::declared(&settings.settings, &catalog)
        && let Err(problems) = catalog.extend(&declared)
    {
        let problems = problems.iter().map(ToString::to_string);
        remarks.extend(problems.map(Diagnostic::error));
    }
    catalog
}

/// How long the provider keeps what was sent.
pub(crate) fn cache_markers(
    environment: &Environment,
    settings: &Resolved,
    model: &str,
) -> CacheMarkers {
    let off = [
        ("haiku", Variable::DisablePromptCachingHaiku),
        ("sonnet", Variable::DisablePromptCachingSonnet),
        ("opus", Variable::DisablePromptCachingOpus),
        ("fable", Variable::DisablePromptCachingFable),
    ];
    if off
        .iter()
        .any(|(name, variable)| model.contains(name) && environment.is_on(*variable))
    {
        return CacheMarkers::None;
    }
    match settings.settings.prompt_cache {
        Some(PromptCache::OneHour) => CacheMarkers::OneHour,
        Some(PromptCache::Off) => CacheMarkers::None,
        Some(PromptCache::FiveMinutes) | None => CacheMarkers::FiveMinutes,
    }
}

/// A provider that may have no key, and where its key comes from.
type Usual = (Option<Arc<dyn Provider>>, &'static str);

/// The provider of the `ANTHROPIC_*` variables, with what settings declare about it, and where its key comes from; `None`
/// if it has no key and needs one.
pub(crate) fn anthropic(
    environment: &Environment,
    settings: &Resolved,
    places: &Places,
    catalog: &Catalog,
    keys: &Keys,
) -> Result<Usual, ModelError> {
    let mut config = AnthropicConfig::of(environment)?;
    let helper = |command: &str| key_helper(command.to_owned(), places, environment);
    config.key_helper = settings.settings.api_key_helper.as_deref().map(helper);
    let entry = catalog.providers().get(lathe_model::providers::ANTHROPIC);
    if let Some(entry) = entry.filter(|entry| entry.declared) {
        config.declare(entry, environment, helper)?;
    }
    let key_source = config.key_source();
    // A server of one's own may need no key; one that was stored goes with the entry.
    let has_none =
        key_source == "none" && (config.is_public() || keys.has(lathe_model::providers::ANTHROPIC));
    if has_none {
        return Ok((None, key_source));
    }
    Ok((Some(Arc::new(AnthropicProvider::new(&config)?)), key_source))
}

pub(crate) fn provider(
    environment: &Environment,
    settings: &Resolved,
    places: &Places,
    catalog: &Arc<Catalog>,
    model: &str,
) -> Result<(Arc<dyn Provider>, String), OpenError> {
    let keys = keys(places, environment, settings);
    let (anthropic, key_source) = anthropic(environment, settings, places, catalog, &keys)?;
    let providers = catalog.providers();
    let name = providers.located(model).provider;
    if name == lathe_model::providers::ANTHROPIC {
        let declared = providers.get(name).is_some_and(|entry| entry.declared);
        let has_key = anthropic.is_some() || keys.has(name);
        if !has_key && !declared && !model.contains('/') {
            return Err(OpenError::NoCredentials);
        }
    }
    let default = anthropic.is_some();
    let router = Router::new(environment, Arc::clone(catalog), anthropic, keys);
    router.check(model)?;
    let key_source = if name == lathe_model::providers::ANTHROPIC && default {
        key_source.to_owned()
    } else {
        router.key_source(model)
    };
    Ok((Arc::new(router), key_source))
}

/// Where keys of providers come from that are not in the environment.
pub(crate) fn keys(places: &Places, environment: &Environment, settings: &Resolved) -> Keys {
    let store = lathe_model::key_store::KeyStore::new(environment);
    let helper = |limit: Duration| -> lathe_model::router::HelperOf {
        let (places, environment) = (places.clone(), environment.clone());
        Arc::new(move |command| limited_helper(command.to_owned(), &places, &environment, limit))
    };
    Keys {
        helper: Some(helper(HELPER_LIMIT)),
        sign_in: Some(helper(SIGN_IN_LIMIT)),
        stored: Some(Arc::new(move |provider| store.get(provider))),
        aws_refresh: settings.settings.aws_auth_refresh.clone(),
        aws_export: settings.settings.aws_credential_export.clone(),
    }
}

/// Runs the command that prints the key.
pub(crate) fn key_helper(
    command: String,
    places: &Places,
    environment: &Environment,
) -> lathe_model::KeyHelper {
    limited_helper(command, places, environment, HELPER_LIMIT)
}

fn limited_helper(
    command: String,
    places: &Places,
    environment: &Environment,
    limit: Duration,
) -> lathe_model::KeyHelper {
    let cwd = places.environment.cwd.clone();
    let project = places.project.clone();
    let variables = environment.variables.clone();
    let withheld = environment.withheld.clone();
    Arc::new(move |_refresh| {
        let (command, cwd, variables) = (command.clone(), cwd.clone(), variables.clone());
        let (project, withheld) = (project.clone(), withheld.clone());
        Box::pin(async move {
            let context = lathe_hooks::helper::HelperContext {
                cwd: &cwd,
                environment: variables,
                withheld,
                project: Some(&project),
                limit,
                cancel: tokio_util::sync::CancellationToken::new(),
            };
            lathe_hooks::run_helper(&command, "", context)
                .await
                .map_err(|error| KeyHelperError(error.to_string()))
        })
    })
}

/// The model of a session. One that is resumed continues with its own, unless the caller names another.
pub(crate) fn chosen_model(
    options: &SessionOptions,
    environment: &Environment,
    settings: &Resolved,
    catalog: &Catalog,
    kept: Option<&str>,
) -> Result<lathe_model::ResolvedModel, OpenError> {
    let available = settings.settings.available_models.as_deref();
    let name = options
        .model
        .name
        .as_deref()
        .or_else(|| environment.get(Variable::Model))
        // One that may not be chosen any more is not what the session continues with.
        .or_else(|| kept.filter(|kept| choose(catalog, available, kept).is_ok()))
        .or(settings.settings.model.as_deref())
        .or_else(|| environment.get(Variable::DefaultModel));
    match name {
        Some(name) => choose(catalog, available, name)
            .map_err(|refused| OpenError::Usage(refused.to_string())),
        None => Ok(catalog.default_model()),
    }
}

/// How the model may reason: what the caller, the environment or settings say, else as the model
/// itself likes best. Reasoning is asked for in summary: without it, a long thought looks like a stall.
pub(crate) fn thinking(
    options: &SessionOptions,
    environment: &Environment,
    settings: &Resolved,
    model: &lathe_model::ResolvedModel,
) -> Option<Thinking> {
    let tokens = options
        .model
        .max_thinking_tokens
        .or_else(|| environment.get(Variable::MaxThinkingTokens)?.parse().ok());
    // The flag and the variable are stronger than `thinking` in settings.
    let of_caller = tokens.is_some();
    let tokens = tokens.or_else(|| u32::try_from(settings.settings.max_thinking_tokens?).ok());
    let of_settings = match settings.settings.thinking {
        None => None,
        Some(SettingsThinking::Switch(true) | SettingsThinking::Mode(ThinkingMode::Adaptive)) => {
            Some(true)
        }
        Some(SettingsThinking::Switch(false) | SettingsThinking::Mode(ThinkingMode::Disabled)) => {
            Some(false)
        }
    };
    let wanted = match (options.model.thinking, tokens, of_settings) {
        (Some(mode), ..) => Thinking {
            display: None,
            ..mode
        },
        (None, Some(0), _) => Thinking::disabled(),
        (None, Some(tokens), _) if of_caller => Thinking::budget(tokens),
        (None, _, Some(false)) => Thinking::disabled(),
        (None, Some(tokens), _) => Thinking::budget(tokens),
        (None, None, Some(true)) => Thinking::adaptive(),
        (None, None, None) => {
            let likes = model.info.thinking.as_ref()?;
            if !likes.contains(&lathe_model::catalog::ThinkingKind::Adaptive) {
                return None;
            }
            Thinking::adaptive()
        }
    };
    let display = options.model.thinking_display;
    let usual = match settings.settings.show_thinking_summaries {
        Some(false) => lathe_model::ThinkingDisplay::Omitted,
        _ => lathe_model::ThinkingDisplay::Summarized,
    };
    Some(wanted.showing(display.unwrap_or(usual)))
}
