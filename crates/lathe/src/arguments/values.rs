//! Values of flags, and their parsers.

use crate::error::CliError;
use clap::ValueEnum;
use lathe_protocol::permission::PermissionMode;
use lathe_settings::KeyPath;
use std::str::FromStr;
use uuid::Uuid;

/// Why the value of a flag is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ValueError {
    #[error("expected a UUID, such as the one that `uuidgen` prints")]
    Uuid,
    #[error("expected a number of dollars above 0, for example 2.50")]
    Dollars,
    #[error("expected key=value, for example model=opus or permissions.allow=[\"Read\"]")]
    Setting,
    #[error("expected auto, off, or a number of tokens")]
    Compaction,
    #[error("expected a number of tokens, for example 250000, 500k or 1.5m")]
    Tokens,
}

pub(crate) fn uuid(text: &str) -> Result<Uuid, ValueError> {
    Uuid::parse_str(text).map_err(|_| ValueError::Uuid)
}

pub(crate) fn positive_dollars(text: &str) -> Result<f64, ValueError> {
    match text.parse::<f64>() {
        Ok(dollars) if dollars > 0.0 && dollars.is_finite() => Ok(dollars),
        _ => Err(ValueError::Dollars),
    }
}

/// A number of tokens, with `k` or `m` for thousands and millions.
pub(crate) fn tokens(text: &str) -> Result<u64, ValueError> {
    lathe_engine::turn::token_budget::parse_tokens(text).ok_or(ValueError::Tokens)
}

/// The name of a worktree; an empty one is made up.
pub(crate) fn worktree(text: &str) -> Result<String, lathe_tools::worktree::BadWorktreeName> {
    if text.is_empty() {
        return Ok(lathe_tools::worktree::new_name());
    }
    lathe_tools::worktree::check_name(text)?;
    Ok(text.to_owned())
}

/// A permission mode; `manual` is another word for `default`.
pub(crate) fn permission_mode(
    text: &str,
) -> Result<PermissionMode, <PermissionMode as FromStr>::Err> {
    match text {
        "manual" => Ok(PermissionMode::Default),
        other => other.parse(),
    }
}

/// Whether a text is `key=value` with a settings key.
pub(crate) fn is_override(text: &str) -> bool {
    text.split_once('=').is_some_and(|(key, _)| {
        key.starts_with(|first: char| first.is_ascii_alphabetic())
            && key
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "._-\"".contains(letter))
    })
}

/// The settings that `key=value` stands for; a value that is no JSON is a text.
///
/// # Errors
/// When it has no `=`, or no key before it.
pub(crate) fn setting(text: &str) -> Result<serde_json::Value, ValueError> {
    let (key, value) = text.split_once('=').ok_or(ValueError::Setting)?;
    let key: KeyPath = key.trim().parse().map_err(|_| ValueError::Setting)?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    let nested = key.0.into_iter().rev();
    Ok(nested.fold(value, |value, step| serde_json::json!({ (step): value })))
}

/// How the conversation is compacted, as settings.
///
/// # Errors
/// When it is neither a word nor a number of tokens.
pub(crate) fn compaction(text: &str) -> Result<serde_json::Value, ValueError> {
    match text {
        "off" => Ok(serde_json::json!({"autoCompact": false})),
        "auto" => Ok(serde_json::json!({"autoCompact": true, "autoCompactWindow": null})),
        number => match number.parse::<u64>() {
            Ok(tokens) if tokens > 0 => {
                Ok(serde_json::json!({"autoCompact": true, "autoCompactWindow": tokens}))
            }
            _ => Err(ValueError::Compaction),
        },
    }
}

/// The value of `--agents`: JSON, or a file that holds it.
///
/// # Errors
/// When the file can't be read or the text is not JSON.
pub(crate) fn agents_json(text: &str) -> Result<serde_json::Value, CliError> {
    let json = if text.trim_start().starts_with(['{', '[']) {
        text.to_owned()
    } else {
        std::fs::read_to_string(text)
            .map_err(|error| CliError::usage(format!("--agents: {text} can't be read: {error}")))?
    };
    serde_json::from_str(&json)
        .map_err(|error| CliError::usage(format!("--agents: not JSON: {error}")))
}

/// Format of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The text of the answer.
    #[default]
    Text,
    /// One object with the answer, its cost and the outcome.
    Json,
    /// A line of JSON per event.
    StreamJson,
}

/// Whether the model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThinkingWord {
    /// As much as the model decides.
    Adaptive,
    /// Not at all.
    Disabled,
}

/// How thinking is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThinkingDisplayWord {
    /// A summary.
    Summarized,
    /// Nothing.
    Omitted,
}

/// How permission questions are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PermissionPrompts {
    /// The host is asked.
    Host,
    /// They are denied.
    None,
}

/// Format of standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum InputFormat {
    /// Text.
    #[default]
    Text,
    /// Frames of the SDK protocol.
    StreamJson,
}
