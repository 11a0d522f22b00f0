//! `lathe context` and `lathe cost`: the context usage and the cost of a session.

use super::print;
use crate::error::{CliError, Kinded as _, Outcome, notice};
use clap::{Args, Subcommand};
use lathe_engine::context::ContextUsage;
use lathe_engine::ledger::Totals;
use lathe_engine::{HistoryOptions, SessionChoice, SessionOptions};
use lathe_session::SessionStore;
use lathe_settings::Environment;
use lathe_settings::paths::config_home;
use std::fmt::Write as _;

// Commands that report on a session or on the project.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum SessionReport {
    /// Show the context usage of a session, by part.
    Context(ReportArguments),
    /// Show the tokens and cost of a session, by model and by part.
    Cost(ReportArguments),
    /// List, show and edit the memory of this project.
    Memory(super::memory::MemoryArguments),
    /// Write a message for a commit or a pull request. Nothing is committed.
    Suggest(super::suggest::SuggestArguments),
}

// The session, and the format.
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// The session: an id or a prefix of it, a title, or a file. The newest of this folder if absent.
    session: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `lathe context`.
pub(crate) async fn context(mut environment: Environment, arguments: ReportArguments) -> Outcome {
    if let Ok(real) = std::fs::canonicalize(&environment.cwd) {
        environment.cwd = real;
    }
    // Nothing is sent, so no key is needed.
    environment
        .variables
        .entry("ANTHROPIC_API_KEY".to_owned())
        .or_insert_with(|| "none".to_owned());
    let options = SessionOptions {
        history: HistoryOptions {
            session: arguments
                .session
                .map_or(SessionChoice::Continue, SessionChoice::Resume),
            ..HistoryOptions::ephemeral()
        },
        ..SessionOptions::default()
    };
    let (usage, remarks) = lathe_engine::context_usage(environment, options)
        .await
        .or_failure()?;
    for remark in &remarks {
        notice(&remark.to_string());
    }
    if arguments.json {
        let mut value = serde_json::to_value(&usage).unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            fields.insert("used".to_owned(), usage.used().into());
            fields.insert("free".to_owned(), usage.free().into());
            fields.insert("reserve".to_owned(), usage.reserve().into());
            let parts = serde_json::to_value(usage.parts()).unwrap_or_default();
            fields.insert("parts".to_owned(), parts);
        }
        return print(&format!("{value}\n"));
    }
    let percent = (usage.used() * 100).checked_div(usage.window).unwrap_or(0);
    let mut text = format!(
        "{}: {} of {} tokens ({percent} %){}\n",
        usage.model,
        usage.used(),
        usage.window,
        if usage.counted { "" } else { ", estimated" }
    );
    for part in usage.parts() {
        let share = (part.tokens * 1_000).checked_div(usage.window).unwrap_or(0);
        let _ = writeln!(
            text,
            "  {:<20} {:>9}  {:>3}.{} %",
            part.name,
            part.tokens,
            share / 10,
            share % 10
        );
    }
    if usage.lean {
        let _ = writeln!(text, "{}.", ContextUsage::LEAN);
    }
    if usage.thresholds.auto_compact {
        let _ = writeln!(
            text,
            "Compacted automatically at {} tokens, with a warning at {}.",
            usage.thresholds.compact_at, usage.thresholds.warn_at
        );
    } else {
        text.push_str("Automatic compaction is off.\n");
    }
    for (path, scope, tokens) in &usage.instruction_files {
        let _ = writeln!(text, "  {tokens:>8}  {scope:<8} {}", path.display());
    }
    print(&text)
}

/// `lathe cost`.
pub(crate) fn cost(environment: &Environment, arguments: &ReportArguments) -> Outcome {
    let store = SessionStore::new(config_home(environment));
    let cwd = std::fs::canonicalize(&environment.cwd).unwrap_or_else(|_| environment.cwd.clone());
    let found = match &arguments.session {
        Some(wanted) => store.resolve(wanted, &cwd)?,
        None => store.newest(&cwd).ok_or_else(|| {
            CliError::failure("there is no session in this folder")
                .hint("`lathe sessions list --all` shows every session")
        })?,
    };
    let loaded = lathe_session::load_tail(&found.path)?;
    let totals: Totals = loaded
        .facts
        .cost
        .and_then(|totals| serde_json::from_value(totals).ok())
        .unwrap_or_default();
    if arguments.json {
        let mut value = serde_json::to_value(&totals).unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            fields.insert("sessionId".to_owned(), found.id.to_string().into());
            fields.insert("totalCostUSD".to_owned(), totals.cost_usd().into());
            fields.insert("totalTokens".to_owned(), totals.tokens().into());
            fields.insert("cachedShare".to_owned(), totals.cached_share().into());
        }
        return print(&format!("{value}\n"));
    }
    print(&lathe_engine::cost::text(&totals))
}
