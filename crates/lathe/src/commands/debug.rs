//! `lathe debug`.

use super::print;
use crate::arguments::DebugCommand;
use crate::error::{Kinded as _, Outcome, notice};
use lathe_engine::{HistoryOptions, SessionOptions, preview};
use lathe_settings::Environment;
use std::fmt::Write as _;

/// `lathe debug`.
pub(crate) async fn run(mut environment: Environment, command: DebugCommand) -> Outcome {
    let DebugCommand::Prompt { prompt, json } = command;
    if let Ok(real) = std::fs::canonicalize(&environment.cwd) {
        environment.cwd = real;
    }
    // Nothing is sent, so no key is needed.
    environment
        .variables
        .entry("ANTHROPIC_API_KEY".to_owned())
        .or_insert_with(|| "none".to_owned());
    let options = SessionOptions {
        history: HistoryOptions::ephemeral(),
        ..SessionOptions::default()
    };
    let preview = preview(environment, options, prompt.unwrap_or_default())
        .await
        .or_failure()?;
    for remark in &preview.remarks {
        notice(&remark.to_string());
    }
    let bytes = preview.request.to_string().len();
    if json {
        let value = serde_json::json!({
            "request": preview.request, "parts": preview.parts, "bytes": bytes,
            "tokens": preview.tokens(),
        });
        return print(&format!("{value}\n"));
    }
    let mut text = String::new();
    for (name, part) in &preview.system {
        let _ = writeln!(
            text,
            "── {name} ({} bytes, about {} tokens)\n{part}\n",
            part.len(),
            lathe_model::estimate::text(part)
        );
    }
    let list = |text: &mut String, title: &str, kind: &str| {
        let _ = writeln!(text, "── {title}");
        for part in preview.parts.iter().filter(|part| part.kind == kind) {
            let _ = write!(
                text,
                "{:>8} bytes {:>8} tokens  {}",
                part.bytes, part.tokens, part.name
            );
            let why = preview
                .instructions
                .iter()
                .find(|(path, ..)| *path == part.name);
            let _ = match why.filter(|_| kind == "instructions") {
                Some((_, why, _)) => writeln!(text, "  {why}"),
                None => writeln!(text),
            };
        }
    };
    list(
        &mut text,
        "instruction files (within the system prompt)",
        "instructions",
    );
    for (path, why) in &preview.skipped {
        let _ = writeln!(text, " skipped  {path}  {why}");
    }
    list(&mut text, "memory (within the system prompt)", "memory");
    list(&mut text, "tools", "tool");
    list(&mut text, "system prompt", "system");
    list(&mut text, "messages", "message");
    let _ = writeln!(
        text,
        "── whole request: {bytes} bytes, about {} tokens",
        preview.tokens()
    );
    print(&text)
}
