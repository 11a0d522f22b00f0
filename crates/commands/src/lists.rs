//! Answers that list something.

use crate::CommandError;
use lathe_engine::SessionHandle;
use lathe_extensions::{CommandAction, SkillForm};
use lathe_protocol::display::TodoStatus;
use lathe_settings::cli::Format;
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;

pub(crate) fn help_text(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    let registry = session.extensions().commands();
    let wanted = arguments.trim_start_matches('/');
    if !wanted.is_empty() {
        let command = registry
            .find(wanted)
            .ok_or_else(|| CommandError::UnknownCommand(registry.unknown(wanted)))?;
        let mut text = format!(
            "/{} {}\n{}",
            command.name,
            command.argument_hint.as_deref().unwrap_or_default(),
            command.description
        );
        if !command.aliases.is_empty() {
            let _ = write!(text, "\nAlso: /{}", command.aliases.join(", /"));
        }
        let _ = write!(text, "\nFrom: {}", command.source);
        return Ok(text);
    }
    let mut text = String::new();
    for (title, for_model) in [("Commands", false), ("Commands for the model", true)] {
        let _ = writeln!(text, "{title}");
        for command in registry
            .listed()
            .filter(|command| (command.action == CommandAction::Prompt) == for_model)
        {
            let note = if command.headless {
                ""
            } else {
                " (in a terminal)"
            };
            let description: String = command.description.chars().take(100).collect();
            let _ = writeln!(text, "  /{:<18} {description}{note}", command.name);
        }
    }
    Ok(text.trim_end().to_owned())
}

pub(crate) fn context_text(session: &SessionHandle) -> String {
    let usage = session.context().usage();
    let window = usage.window.max(1);
    let mut text = format!(
        "{}: {} of {} tokens ({} %)",
        usage.model,
        usage.used(),
        usage.window,
        usage.used() * 100 / window
    );
    for part in usage.parts() {
        let _ = write!(
            text,
            "\n  {:<20} {:>9}  {:>3} %",
            part.name,
            part.tokens,
            part.tokens * 100 / window
        );
    }
    for (path, scope, tokens) in &usage.instruction_files {
        let _ = write!(text, "\n  {scope}: {} ({tokens} tokens)", path.display());
    }
    text
}

pub(crate) fn cost_text(session: &SessionHandle) -> String {
    let totals = session.history().totals();
    let mut text = format!("Total cost: ${:.4}", totals.cost_usd());
    for (model, usage) in &totals.models {
        let _ = write!(
            text,
            "\n  {model}: {} input, {} output, {} cache read, {} cache written (${:.4})",
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_input_tokens,
            usage.cache_creation_input_tokens,
            usage.cost_usd
        );
    }
    text
}

pub(crate) fn stats_text(session: &SessionHandle) -> String {
    let totals = session.history().totals();
    let seconds = |milliseconds: u64| Duration::from_millis(milliseconds).as_secs_f64();
    let mut text = cost_text(session);
    let _ = write!(
        text,
        "\n  waited for the model {:.1} s, for tools {:.1} s\n  lines added {}, removed {}",
        seconds(totals.api_duration_ms),
        seconds(totals.tool_duration_ms),
        totals.lines_added,
        totals.lines_removed
    );
    for (part, used) in &totals.parts {
        let _ = write!(
            text,
            "\n  {}: {} (${:.4})",
            part.name(),
            lathe_engine::cost::calls(used.calls),
            used.cost_usd
        );
    }
    text
}

pub(crate) fn permissions_text(session: &SessionHandle) -> String {
    let mut text = format!("Mode: {}", session.permissions().mode().name());
    for (behavior, rule, source) in session.permissions().rules() {
        let word = |value: Result<Value, serde_json::Error>| {
            value
                .ok()
                .and_then(|value| value.as_str().map(str::to_owned))
                .unwrap_or_default()
        };
        let behavior = word(serde_json::to_value(behavior));
        let source = word(serde_json::to_value(source));
        let _ = write!(text, "\n  {behavior:<6} {rule}  ({source})");
    }
    for root in session.permissions().roots() {
        let _ = write!(text, "\n  folder {}", root.display());
    }
    text
}

/// As `lathe hooks list` prints them.
pub(crate) fn hooks_text(session: &SessionHandle) -> String {
    let text = lathe_hooks::cli::list(session.hooks(), Format::Text);
    text.trim_end().to_owned()
}

pub(crate) fn servers_text(session: &SessionHandle) -> String {
    let servers = session.init().mcp_servers;
    if servers.is_empty() {
        return "No MCP servers are configured.".to_owned();
    }
    let lines: Vec<String> = servers
        .iter()
        .map(|server| {
            let words = |key: &str| server.get(key).and_then(Value::as_str).unwrap_or_default();
            format!("{}: {}", words("name"), words("status"))
        })
        .collect();
    lines.join("\n")
}

pub(crate) fn agents_text(session: &SessionHandle) -> String {
    let agents = session.extensions().agents();
    let lines: Vec<String> = agents
        .iter()
        .map(|agent| format!("{} ({}): {}", agent.name, agent.source, agent.description))
        .collect();
    lines.join("\n")
}

pub(crate) fn skills_text(session: &SessionHandle) -> String {
    let skills = session.extensions().skills();
    let prompts = session.extensions().prompt_skills();
    let mut text = String::new();
    for (title, form) in [
        ("Skills", SkillForm::Skill),
        ("Custom commands", SkillForm::Command),
    ] {
        let of_form: Vec<String> = skills
            .iter()
            .chain(&prompts)
            .filter(|skill| skill.form == form)
            .map(|skill| format!("  {} ({}): {}", skill.name, skill.source, skill.description))
            .collect();
        if !of_form.is_empty() {
            let _ = writeln!(text, "{title}\n{}", of_form.join("\n"));
        }
    }
    for problem in session.extensions().problems() {
        let _ = writeln!(text, "! {problem}");
    }
    text.trim_end().to_owned()
}

pub(crate) fn memory_text(session: &SessionHandle) -> String {
    let usage = session.context().usage();
    if usage.instruction_files.is_empty() {
        return "No instruction files are loaded. /init writes an AGENTS.md.".to_owned();
    }
    let lines: Vec<String> = usage
        .instruction_files
        .iter()
        .map(|(path, scope, tokens)| format!("{scope}: {} ({tokens} tokens)", path.display()))
        .collect();
    lines.join("\n")
}

pub(crate) fn tasks_text(session: &SessionHandle) -> String {
    let commands = session.tasks().commands();
    let agents = session.tasks().agents();
    if commands.is_empty() && agents.is_empty() {
        return "No background tasks.".to_owned();
    }
    let of_commands = commands.iter().map(|command| {
        let status = command.status.word();
        format!("{} {status} command: {}", command.id, command.command)
    });
    let of_agents = agents.iter().map(|agent| {
        let mut line = format!(
            "{} {} agent {}: {} ({} tool calls, {} tokens, {} s)",
            agent.id,
            agent.status.word(),
            agent.name.as_ref().unwrap_or(&agent.agent_type),
            agent.description,
            agent.usage.tool_uses,
            agent.usage.total_tokens,
            agent.usage.duration_ms / 1_000
        );
        if let Some(note) = &agent.worktree {
            let _ = write!(line, "\n    {note}");
        }
        line
    });
    let mut lines: Vec<String> = of_commands.chain(of_agents).collect();
    lines.extend(team_lines(session));
    lines.join("\n")
}

/// The members of the session's team with their state, tasks and cost.
fn team_lines(session: &SessionHandle) -> Vec<String> {
    let Some((team, tasks)) = session.tasks().team() else {
        return Vec::new();
    };
    let agents = session.tasks().agents();
    let mut lines = vec![format!("Team {}:", team.name)];
    for member in &team.members {
        let agent = agents.iter().find(|agent| agent.id.0 == member.agent_id);
        let (tokens, cost) = agent.map_or((0, 0.0), |it| (it.usage.total_tokens, it.cost_usd));
        let mut line = format!(
            "  {} {} ({}, {tokens} tokens, ${cost:.2})",
            member.name,
            member.state.word(),
            member.agent_type
        );
        let own = tasks.iter();
        for task in own.filter(|task| task.owner.as_deref() == Some(&member.name)) {
            let _ = write!(line, " #{} {}", task.id, task.subject);
        }
        lines.push(line);
    }
    lines
}

pub(crate) fn todos_text(session: &SessionHandle) -> String {
    let todos = session.tasks().todos();
    if todos.is_empty() {
        return "The task list is empty.".to_owned();
    }
    let lines: Vec<String> = todos
        .iter()
        .map(|item| {
            let mark = match item.status {
                TodoStatus::Completed => "x",
                TodoStatus::InProgress => ">",
                TodoStatus::Pending => " ",
                TodoStatus::Failed => "!",
                TodoStatus::Cancelled => "-",
            };
            let mut line = format!("[{mark}] {}", item.content);
            if let Some(owner) = &item.owner {
                line.push_str(&format!(" ({owner})"));
            }
            if !item.waits_for.is_empty() {
                line.push_str(&format!(" [waits for {}]", item.waits_for.join(", ")));
            }
            line
        })
        .collect();
    lines.join("\n")
}

pub(crate) fn status_text(session: &SessionHandle) -> String {
    let (_, style) = session.extensions().output_styles();
    let mut text = format!("lathe {}", env!("CARGO_PKG_VERSION"));
    let facts = [
        ("session", session.session_id().to_string()),
        ("transcript", session.transcript().display().to_string()),
        (
            "folder",
            session.context().working_folder().display().to_string(),
        ),
        ("model", session.model().current()),
        ("mode", session.permissions().mode().name().to_owned()),
        ("output style", style),
        ("key from", session.settings().key_source().to_owned()),
        ("tools", session.context().tool_names().len().to_string()),
        ("skills", session.extensions().skills().len().to_string()),
        ("agents", session.extensions().agents().len().to_string()),
    ];
    for (name, value) in facts {
        let _ = write!(text, "\n  {name:<13} {value}");
    }
    if session.tasks().coordinates() {
        let _ = write!(text, "\n  {:<13} on", "coordinator");
    }
    for layer in session.settings().layers() {
        if let Some(path) = layer.get("path").and_then(Value::as_str) {
            let _ = write!(text, "\n  {:<13} {path}", "settings");
        }
    }
    for server in session.extensions().language_servers() {
        let (name, endings) = (&server.name, &server.endings);
        let standing = server.standing.words();
        let _ = write!(
            text,
            "\n  {:<13} {name} ({endings}): {standing}",
            "lsp server"
        );
    }
    text
}
