//! `lathe debug`.

use super::print;
use crate::arguments::DebugCommand;
use crate::complain;
use lathe_engine::{SessionOptions, preview};
use lathe_headless::exit::Exit;
use lathe_settings::Environment;
use std::fmt::Write as _;

/// `lathe debug`.
pub(crate) async fn run(mut environment: Environment, command: DebugCommand) -> Exit {
    let DebugCommand::Prompt { prompt, json } = command;
    if let Ok(real) = std::fs::canonicalize(&environment.cwd) {
        environment.cwd = real;
    }
    // Nothing is sent, so no key is needed to look.
    environment
        .variables
        .entry("ANTHROPIC_API_KEY".to_owned())
        .or_insert_with(|| "none".to_owned());
    let options = SessionOptions {
        persist: false,
        ..SessionOptions::default()
    };
    let preview = match preview(environment, options, prompt.unwrap_or_default()).await {
        Ok(preview) => preview,
        Err(error) => {
            complain(&error.to_string());
            return Exit::Failure;
        }
    };
    for remark in &preview.remarks {
        complain(remark);
    }
    if json {
        return print(&format!("{}\n", preview.request));
    }
    let mut text = String::new();
    for (name, part) in &preview.system {
        let _ = writeln!(text, "── {name} ({} bytes)\n{part}\n", part.len());
    }
    let _ = writeln!(text, "── instruction files");
    for (path, why, bytes) in &preview.instructions {
        let _ = writeln!(text, "{bytes:>8} bytes  {path}  {why}");
    }
    for (path, why) in &preview.skipped {
        let _ = writeln!(text, " skipped  {path}  {why}");
    }
    let _ = writeln!(text, "\n── tools");
    for (name, bytes) in &preview.tools {
        let _ = writeln!(text, "{bytes:>8} bytes  {name}");
    }
    let _ = writeln!(
        text,
        "\n── whole request: {} bytes",
        preview.request.to_string().len()
    );
    print(&text)
}
