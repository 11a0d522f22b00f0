//! The session's options, from the flags.

use crate::arguments::{
    ModelArguments, SessionArguments, ThinkingDisplayWord, ThinkingWord, agents_json,
};
use crate::error::CliError;
use lathe_engine::{
    Answerer, ExtensionOptions, HistoryOptions, LimitOptions, McpOptions, ModelOptions,
    PermissionOptions, PromptOptions, SessionChoice, SessionOptions, SettingsOptions, Setup,
    TeamOptions, ToolOptions,
};
use lathe_model::{Thinking, ThinkingDisplay};
use lathe_protocol::ids::{RecordId, SessionId};
use lathe_protocol::permission::PermissionMode;
use lathe_settings::Source;
use std::path::Path;

/// The session's options.
///
/// # Errors
/// When flags contradict each other, or a file that one names can't be read.
pub(crate) fn of(arguments: &SessionArguments) -> Result<SessionOptions, CliError> {
    let SessionArguments {
        model,
        system,
        permissions,
        extensions,
        session,
        settings,
        ..
    } = arguments;
    check_permission_prompt_tool(permissions.permission_prompt_tool.as_deref())?;
    let choice = session_choice(arguments)?;
    let permission_mode = if permissions.dangerously_skip_permissions {
        Some(PermissionMode::BypassPermissions)
    } else {
        permissions.permission_mode
    };
    let plugin_folders = [
        &extensions.plugin_dir[..],
        &extensions.plugin_dir_no_mcp[..],
    ]
    .concat();
    let without = Without::of(arguments);
    Ok(SessionOptions {
        observe: crate::telemetry::options(),
        model: model_options(arguments),
        prompt: PromptOptions {
            system: text_or_file(
                system.system_prompt.as_deref(),
                system.system_prompt_file.as_deref(),
                "--system-prompt-file",
            )?,
            append: text_or_file(
                system.append_system_prompt.as_deref(),
                system.append_system_prompt_file.as_deref(),
                "--append-system-prompt-file",
            )?,
            varying_apart: system.exclude_dynamic_system_prompt_sections,
            ..PromptOptions::default()
        },
        tools: ToolOptions {
            only: tool_list(permissions.tools.as_deref()),
            output_schema: json_schema(arguments.output.json_schema.as_deref())?,
            ..ToolOptions::default()
        },
        permissions: PermissionOptions {
            mode: permission_mode,
            allow_bypass: permissions.allow_dangerously_skip_permissions,
            allow: permissions.allowed_tools.clone(),
            deny: permissions.disallowed_tools.clone(),
            folders: permissions.add_dir.clone(),
            answerer: Answerer::Nobody,
            no_sandbox: permissions.no_sandbox,
        },
        limits: limit_options(model),
        history: HistoryOptions {
            session: choice,
            setup: if session.init || session.init_only {
                Some(Setup::Init)
            } else {
                session.maintenance.then_some(Setup::Maintenance)
            },
            fork: session.fork_session,
            session_id: session.session_id.map(SessionId),
            resume_at: session.resume_session_at.map(RecordId),
            resume_drops_turn: session.resume_drops_turn.map(RecordId),
            persist: !session.no_session_persistence,
            title: session.name.clone(),
            ..HistoryOptions::default()
        },
        settings: SettingsOptions {
            flags: settings_flags(arguments, without),
            sources: sources(arguments, without)?,
            restricted: settings.restricted,
            managed: settings.managed_settings.clone(),
            project_root: settings.project_config_root.clone(),
            loaded: None,
        },
        extensions: ExtensionOptions {
            agent: extensions.agent.clone(),
            coordinator: extensions.coordinator,
            agents: agents(extensions.agents.as_deref())?,
            plugin_folders,
            plugins_without_servers: extensions.plugin_dir_no_mcp.clone(),
            without_files: without != Without::Nothing,
            without_skills: extensions.disable_slash_commands,
            ..ExtensionOptions::default()
        },
        mcp: McpOptions {
            configs: extensions.mcp_config.clone(),
            strict: extensions.strict_mcp_config || without != Without::Nothing,
            ..McpOptions::default()
        },
        schedule: lathe_engine::ScheduleOptions::default(),
        worktree: session.worktree.clone(),
        elsewhere: Some(crate::commands::fleet::agents::elsewhere()),
        team: team_options(),
        interactive: false,
    })
}

/// Members of teams may be processes that run this program.
fn team_options() -> TeamOptions {
    TeamOptions {
        program: std::env::current_exe().ok(),
        member: None,
    }
}

fn limit_options(model: &ModelArguments) -> LimitOptions {
    LimitOptions {
        max_turns: model.max_turns,
        max_budget_usd: model.max_budget_usd,
        max_session_tokens: model.max_session_tokens,
        token_budget: model.token_budget,
        goal: model.goal.clone(),
    }
}

fn model_options(arguments: &SessionArguments) -> ModelOptions {
    let model = &arguments.model;
    ModelOptions {
        name: model.model.clone(),
        fallbacks: model.fallback_model.clone(),
        effort: model.effort.clone(),
        thinking: thinking(arguments),
        thinking_display: model.thinking_display.map(|word| match word {
            ThinkingDisplayWord::Summarized => ThinkingDisplay::Summarized,
            ThinkingDisplayWord::Omitted => ThinkingDisplay::Omitted,
        }),
        max_thinking_tokens: model.max_thinking_tokens,
        betas: model.betas.clone(),
        task_budget: model.task_budget,
    }
}

/// The parts to leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// The user's additions: instruction files, hooks, extensions, servers (`--safe-mode`).
    Additions,
    /// Settings files as well (`--bare`).
    Settings,
}

impl Without {
    fn of(arguments: &SessionArguments) -> Self {
        if arguments.settings.bare {
            Self::Settings
        } else if arguments.settings.safe_mode {
            Self::Additions
        } else {
            Self::Nothing
        }
    }
}

/// The settings files to load; with `--bare` only those that are named.
fn sources(
    arguments: &SessionArguments,
    without: Without,
) -> Result<Option<Vec<Source>>, CliError> {
    let named = setting_sources(arguments.settings.setting_sources.as_deref())?;
    Ok(match (named, without) {
        (None, Without::Settings) => Some(Vec::new()),
        (named, _) => named,
    })
}

/// The settings of the flags, the strongest last.
fn settings_flags(arguments: &SessionArguments, without: Without) -> Vec<String> {
    let mut flags = Vec::new();
    if without != Without::Nothing {
        let off = serde_json::json!({
            "disableAllHooks": true,
            "autoMemory": false,
            "includeGitInstructions": without == Without::Additions,
            "instructionExcludes": ["**"],
            "outputStyle": "default",
            "statusLine": null,
            "fileSuggestion": null,
            "enabledPlugins": null,
            "lspServers": null,
            "readClaudeHome": false,
        });
        flags.push(off.to_string());
    }
    flags.extend(arguments.settings.settings.iter().cloned());
    let single = arguments.model.autocompact.iter();
    let single = single.chain(&arguments.settings.config);
    flags.extend(single.map(ToString::to_string));
    if let Some(on) = arguments.output.prompt_suggestions {
        flags.push(serde_json::json!({"promptSuggestions": on}).to_string());
    }
    flags
}

fn check_permission_prompt_tool(tool: Option<&str>) -> Result<(), CliError> {
    match tool {
        Some(tool) if tool != "stdio" && !tool.starts_with("mcp__") => Err(CliError::usage(
            format!("--permission-prompt-tool {tool}: not a tool of an MCP server"),
        )
        .hint("name a tool such as mcp__server__tool, or \"stdio\" for the host itself")),
        _ => Ok(()),
    }
}

fn session_choice(arguments: &SessionArguments) -> Result<SessionChoice, CliError> {
    let session = &arguments.session;
    let choice = if session.continue_session {
        SessionChoice::Continue
    } else {
        match &session.resume {
            Some(wanted) if wanted.is_empty() => {
                return Err(CliError::usage(
                    "--resume needs a session here: its id, the beginning of it, or its title",
                )
                .hint("`lathe sessions list` shows the sessions; --continue resumes the newest"));
            }
            Some(wanted) => SessionChoice::Resume(wanted.clone()),
            None => SessionChoice::New,
        }
    };
    if session.fork_session && choice == SessionChoice::New {
        return Err(CliError::usage(
            "--fork-session needs --continue or --resume",
        ));
    }
    Ok(choice)
}

fn text_or_file(
    text: Option<&str>,
    file: Option<&Path>,
    flag: &str,
) -> Result<Option<String>, CliError> {
    let Some(path) = file else {
        return Ok(text.map(str::to_owned));
    };
    let text = std::fs::read_to_string(path).map_err(|error| {
        CliError::usage(format!("{flag}: {} can't be read: {error}", path.display()))
    })?;
    Ok(Some(text))
}

/// Parses `--setting-sources`.
///
/// # Errors
/// When it names an unknown source.
pub(crate) fn setting_sources(list: Option<&str>) -> Result<Option<Vec<Source>>, CliError> {
    list.map(Source::parse_list)
        .transpose()
        .map_err(|error| CliError::usage(error).about("--setting-sources"))
}

fn json_schema(text: Option<&str>) -> Result<Option<serde_json::Value>, CliError> {
    text.map(serde_json::from_str)
        .transpose()
        .map_err(|error| CliError::usage(format!("--json-schema: not JSON: {error}")))
}

/// The definitions of `--agents`.
fn agents(text: Option<&str>) -> Result<Vec<serde_json::Value>, CliError> {
    let Some(text) = text else {
        return Ok(Vec::new());
    };
    let value = agents_json(text)?;
    if !value.is_object() {
        return Err(CliError::usage("--agents: expected definitions by name")
            .hint("for example {\"reviewer\": {\"description\": \"…\", \"prompt\": \"…\"}}"));
    }
    Ok(vec![value])
}

fn thinking(arguments: &SessionArguments) -> Option<Thinking> {
    Some(
        match (
            arguments.model.thinking,
            arguments.model.max_thinking_tokens,
        ) {
            (Some(ThinkingWord::Adaptive), _) => Thinking::adaptive(),
            (Some(ThinkingWord::Disabled), _) => Thinking::disabled(),
            (None, Some(0)) => Thinking::disabled(),
            (None, Some(tokens)) => Thinking::budget(tokens),
            (None, None) => return None,
        },
    )
}

fn tool_list(text: Option<&str>) -> Option<Vec<String>> {
    let text = text?;
    if text == "default" {
        return None;
    }
    Some(
        text.split([',', ' '])
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
    )
}
