//! Opening a session, the model's side: which model, by which provider, with which credentials.

use crate::open::options::{OpenError, SessionOptions};
use crate::turn::models::choose;
use lathe_model::catalog::Compaction;
use lathe_model::{AnthropicConfig, AnthropicProvider, CacheMarkers, Catalog, Provider, Thinking};
use lathe_protocol::diagnostic::Diagnostic;
use lathe_settings::schema::PromptCache;
use lathe_settings::{Environment, Places, Resolved, Variable};
use std::sync::Arc;

pub(crate) fn catalog(
    environment: &Environment,
    settings: &Resolved,
    remarks: &mut Vec<Diagnostic>,
) -> Arc<Catalog> {
    let mut catalog = Catalog::built_in().with_environment(environment);
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
    Arc::new(catalog)
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

pub(crate) fn provider(
    environment: &Environment,
    settings: &Resolved,
    places: &Places,
) -> Result<(Arc<dyn Provider>, String), OpenError> {
    let mut config = AnthropicConfig::of(environment)?;
    if let Some(command) = &settings.settings.api_key_helper {
        config.key_helper = Some(key_helper(command.clone(), places, environment));
    }
    let key_source = config.key_source();
    if key_source == "none" {
        return Err(OpenError::NoCredentials);
    }
    let provider = AnthropicProvider::new(&config)?;
    Ok((Arc::new(provider), key_source.to_owned()))
}

/// Runs the command that prints the key.
pub(crate) fn key_helper(
    command: String,
    places: &Places,
    environment: &Environment,
) -> lathe_model::KeyHelper {
    let cwd = places.environment.cwd.clone();
    let project = places.project.clone();
    let variables = environment.variables.clone();
    Arc::new(move |_refresh| {
        let (command, cwd, variables) = (command.clone(), cwd.clone(), variables.clone());
        let project = project.clone();
        Box::pin(async move {
            let context = lathe_hooks::helper::HelperContext {
                cwd: &cwd,
                environment: variables,
                project: Some(&project),
                limit: std::time::Duration::from_secs(30),
                cancel: tokio_util::sync::CancellationToken::new(),
            };
            lathe_hooks::run_helper(&command, "", context)
                .await
                .map_err(|error| error.to_string())
        })
    })
}

/// The model of a session. One that is resumed goes on with its own, unless the caller names another.
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
        // One that may not be chosen any more is not what the session goes on with.
        .or_else(|| kept.filter(|kept| choose(catalog, available, kept).is_ok()))
        .or(settings.settings.model.as_deref());
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
        .or_else(|| environment.get(Variable::MaxThinkingTokens)?.parse().ok())
        .or_else(|| u32::try_from(settings.settings.max_thinking_tokens?).ok());
    let wanted = match (options.model.thinking, tokens) {
        (Some(mode), _) => Thinking {
            display: None,
            ..mode
        },
        (None, Some(0)) => Thinking::disabled(),
        (None, Some(tokens)) => Thinking::budget(tokens),
        (None, None) => {
            let likes = model.info.thinking.as_ref()?;
            if !likes.contains(&lathe_model::catalog::ThinkingKind::Adaptive) {
                return None;
            }
            Thinking::adaptive()
        }
    };
    let display = options.model.thinking.and_then(|thinking| thinking.display);
    let usual = match settings.settings.show_thinking_summaries {
        Some(false) => lathe_model::ThinkingDisplay::Omitted,
        _ => lathe_model::ThinkingDisplay::Summarized,
    };
    Some(wanted.showing(display.unwrap_or(usual)))
}
