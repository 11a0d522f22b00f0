//! From flags to a session and a face.

use crate::arguments::{
    InputFormat, OutputFormat, PermissionPrompts, SessionArguments, ThinkingDisplayWord,
    ThinkingWord,
};
use crate::complain;
use lathe_engine::{Answerer, OpenError, SessionChoice, SessionOptions, Setup};
use lathe_headless::exit::Exit;
use lathe_headless::print::{self, Format, PrintOptions, Signal};
use lathe_headless::sdk::SdkOptions;
use lathe_model::{Thinking, ThinkingDisplay};
use lathe_protocol::frame::{FrameOptions, SessionStateFrames};
use lathe_protocol::ids::{RecordId, SessionId};
use lathe_protocol::op::Prompt;
use lathe_protocol::permission::PermissionMode;
use lathe_settings::{Environment, Source};
use std::io::{IsTerminal as _, Read as _, Write as _};
use tokio::sync::watch;

/// Opens the interactive terminal.
async fn interactive(environment: Environment, mut arguments: SessionArguments) -> Exit {
    let pick_session = arguments
        .resume
        .take_if(|wanted| wanted.is_empty())
        .is_some();
    let mut options = match session_options(&arguments) {
        Ok(options) => options,
        Err(error) => {
            complain(&error);
            return Exit::Usage;
        }
    };
    if arguments.permission_prompt_tool.is_some() {
        complain(
            "--permission-prompt-tool is for -p and for hosts; in the terminal you are asked yourself",
        );
        return Exit::Usage;
    }
    options.interactive = true;
    let terminal = lathe_tui::TerminalOptions {
        prompt: arguments.prompt.clone(),
        pick_session,
        screen_reader: false,
    };
    match Box::pin(lathe_tui::run(environment, options, terminal)).await {
        lathe_tui::Ended::Left => Exit::Success,
        lathe_tui::Ended::Terminated => Exit::Terminated,
        lathe_tui::Ended::NoCredentials(why) => {
            complain(&why);
            Exit::NoCredentials
        }
        lathe_tui::Ended::Usage(why) => {
            complain(&why);
            Exit::Usage
        }
        lathe_tui::Ended::Failed(why) => {
            complain(&why);
            Exit::Failure
        }
    }
}

/// Whether nothing that is printed along the way can hold up the session: it is printed at the end, or by
/// a thread of its own.
pub(crate) fn writes_beside(arguments: &SessionArguments) -> bool {
    match arguments.output_format {
        OutputFormat::StreamJson => arguments.input_format == InputFormat::StreamJson,
        OutputFormat::Json => true,
        OutputFormat::Text => arguments.print && !arguments.verbose,
    }
}

/// Runs what the flags ask for.
pub(crate) async fn run(mut environment: Environment, arguments: SessionArguments) -> Exit {
    if let Err(error) = enter_folder(&mut environment, &arguments) {
        complain(&error);
        return Exit::Usage;
    }
    if arguments.input_format == InputFormat::StreamJson {
        if arguments.output_format != OutputFormat::StreamJson {
            complain("--input-format stream-json needs --output-format stream-json");
            return Exit::Usage;
        }
        return match session_options(&arguments) {
            Ok(options) => drive(environment, options, &arguments).await,
            Err(error) => {
                complain(&error);
                Exit::Usage
            }
        };
    }
    if arguments.init_only {
        return prepare_only(environment, &arguments).await;
    }
    if !arguments.print && arguments.output_format == OutputFormat::Text {
        return interactive(environment, arguments).await;
    }
    let options = match session_options(&arguments) {
        Ok(options) => options,
        Err(error) => {
            complain(&error);
            return Exit::Usage;
        }
    };
    let prompt = match prompt(&arguments) {
        Ok(prompt) => prompt,
        Err(error) => {
            complain(&error);
            return Exit::Usage;
        }
    };
    let signals = listen();
    print_one(environment, options, &arguments, prompt, signals).await
}

/// Which frames the flags and the host's environment ask for.
fn frame_options(environment: &Environment, arguments: &SessionArguments) -> FrameOptions {
    let session_state = if is_on(environment, "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") {
        SessionStateFrames::Caller
    } else if is_on(environment, "CLAUDE_CODE_SDK_READS_SESSION_STATE") {
        SessionStateFrames::HostOnly
    } else {
        SessionStateFrames::Off
    };
    FrameOptions {
        partial_messages: arguments.include_partial_messages,
        hook_events: arguments.include_hook_events,
        replay_user_messages: arguments.replay_user_messages,
        session_state,
        forward_subagent_text: false,
    }
}

fn is_on(environment: &Environment, name: &str) -> bool {
    environment
        .variable(name)
        .is_some_and(|value| !matches!(value, "0" | "false"))
}

/// The SDKs read and write sessions themselves, below `CLAUDE_CONFIG_DIR` or `~/.claude`. A host that
/// is one of them finds them there.
fn live_where_the_host_looks(environment: &mut Environment) {
    let is_sdk = environment
        .variable("CLAUDE_CODE_ENTRYPOINT")
        .is_some_and(|entry| entry.starts_with("sdk-"));
    if !is_sdk {
        return;
    }
    let chosen = environment.variable("CLAUDE_CONFIG_DIR").map(str::to_owned);
    let is_free = environment.variable("LATHE_CONFIG_DIR").is_none();
    let folder = match (chosen, &environment.home) {
        (Some(folder), _) => folder,
        (None, Some(home)) if is_free => home.join(".claude").to_string_lossy().into_owned(),
        _ => return,
    };
    environment
        .variables
        .insert("LATHE_CONFIG_DIR".to_owned(), folder);
}

/// Lets a host drive the session over standard input and output.
async fn drive(
    mut environment: Environment,
    mut options: SessionOptions,
    arguments: &SessionArguments,
) -> Exit {
    live_where_the_host_looks(&mut environment);
    let asked = arguments
        .permission_prompt_tool
        .as_deref()
        .filter(|_| arguments.permission_prompts != Some(PermissionPrompts::None));
    if asked.is_some() {
        options.answerer = Answerer::Face;
    }
    let sdk = SdkOptions {
        frames: frame_options(&environment, arguments),
        prompt: arguments.prompt.clone().filter(|prompt| !prompt.is_empty()),
        checkpointing: is_on(&environment, "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"),
        mirror: arguments.session_mirror,
        permission_tool: asked.filter(|tool| *tool != "stdio").map(str::to_owned),
        signals: listen(),
        session: options,
    };
    let running = lathe_headless::sdk::run(
        environment,
        sdk,
        std::io::stdin(),
        std::io::stdout(),
        std::io::stderr(),
    );
    Box::pin(running).await
}

/// Lets hooks prepare the workspace, and ends: no conversation is kept.
async fn prepare_only(environment: Environment, arguments: &SessionArguments) -> Exit {
    let mut options = match session_options(arguments) {
        Ok(options) => options,
        Err(error) => {
            complain(&error);
            return Exit::Usage;
        }
    };
    options.persist = false;
    match lathe_engine::open(environment, options).await {
        Ok(opened) => {
            for remark in &opened.remarks {
                complain(remark);
            }
            print::end(opened.session, opened.events, std::io::stderr()).await;
            Exit::Success
        }
        Err(error) => {
            complain(&error.to_string());
            exit_of(&error)
        }
    }
}

async fn print_one(
    environment: Environment,
    mut options: SessionOptions,
    arguments: &SessionArguments,
    prompt: String,
    signals: watch::Receiver<Signal>,
) -> Exit {
    let format = match arguments.output_format {
        OutputFormat::Text => Format::Text,
        OutputFormat::Json => Format::Json,
        OutputFormat::StreamJson => Format::StreamJson(frame_options(&environment, arguments)),
    };
    let permission_tool = arguments
        .permission_prompt_tool
        .clone()
        .filter(|tool| tool != "stdio")
        .filter(|_| arguments.permission_prompts != Some(PermissionPrompts::None));
    if permission_tool.is_some() {
        options.answerer = Answerer::Face;
    }
    let opened = match lathe_engine::open(environment, options).await {
        Ok(opened) => opened,
        Err(error) => {
            complain(&in_words(&error));
            if let Format::StreamJson(_) = format {
                lathe_headless::output::Lines::new(std::io::stdout())
                    .json(&print::failed_start(&error.to_string()));
            }
            return exit_of(&error);
        }
    };
    for remark in &opened.remarks {
        complain(remark);
    }
    let options = PrintOptions {
        prompt: Prompt::new(prompt),
        format,
        verbose: arguments.verbose,
        permission_tool,
        signals,
    };
    print::run(
        opened.session,
        opened.events,
        options,
        std::io::stdout(),
        std::io::stderr(),
    )
    .await
}

/// The error, with what to do about it where that is known.
fn in_words(error: &OpenError) -> String {
    match error {
        OpenError::Session(session) => match session.hint() {
            Some(hint) => format!("{error}\n  {hint}"),
            None => error.to_string(),
        },
        _ => error.to_string(),
    }
}

fn exit_of(error: &OpenError) -> Exit {
    match error {
        OpenError::Usage(_) | OpenError::Mode(_) => Exit::Usage,
        OpenError::NoCredentials => Exit::NoCredentials,
        OpenError::Session(_) | OpenError::Model(_) => Exit::Failure,
    }
}

/// Makes `--cwd` the working folder, as a real path: sessions are found by it. What flags name beside it
/// must be there.
fn enter_folder(environment: &mut Environment, arguments: &SessionArguments) -> Result<(), String> {
    if let Some(folder) = &arguments.cwd {
        let folder = environment.resolve(&folder.to_string_lossy());
        environment.cwd = std::fs::canonicalize(&folder)
            .map_err(|error| format!("--cwd: {} can't be used: {error}", folder.display()))?;
        if !environment.cwd.is_dir() {
            return Err(format!("--cwd: {} is not a folder", folder.display()));
        }
    } else if let Ok(real) = std::fs::canonicalize(&environment.cwd) {
        environment.cwd = real;
    }
    // Whoever names servers wants them: a file that can't be read is no session with fewer tools.
    lathe_mcp::config::read_flags(&arguments.mcp_config, environment)
        .map_err(|error| error.to_string())?;
    Ok(())
}

fn session_options(arguments: &SessionArguments) -> Result<SessionOptions, String> {
    let agents = match &arguments.agents {
        Some(text) => vec![agents(text)?],
        None => Vec::new(),
    };
    if let Some(tool) = &arguments.permission_prompt_tool
        && tool != "stdio"
        && !tool.starts_with("mcp__")
    {
        return Err(format!(
            "--permission-prompt-tool {tool}: name a tool of an MCP server, such as mcp__server__tool, or \"stdio\" for the host itself"
        ));
    }
    let session = if arguments.continue_session {
        SessionChoice::Continue
    } else {
        match &arguments.resume {
            Some(wanted) if wanted.is_empty() => {
                return Err(
                    "--resume needs to know which session here: give its id, the beginning of it or its title (`lathe sessions list` shows them), or use --continue for the newest.".to_owned(),
                );
            }
            Some(wanted) => SessionChoice::Resume(wanted.clone()),
            None => SessionChoice::New,
        }
    };
    if arguments.fork_session && session == SessionChoice::New {
        return Err("--fork-session needs --continue or --resume".to_owned());
    }
    let from_file =
        |text: &Option<String>, file: &Option<std::path::PathBuf>, flag: &str| match file {
            Some(path) => std::fs::read_to_string(path)
                .map(Some)
                .map_err(|error| format!("{flag}: {} can't be read: {error}", path.display())),
            None => Ok(text.clone()),
        };
    let permission_mode = if arguments.dangerously_skip_permissions {
        Some(PermissionMode::BypassPermissions)
    } else {
        arguments.permission_mode
    };
    let setting_sources = match &arguments.setting_sources {
        Some(list) => {
            Some(Source::parse_list(list).map_err(|error| format!("--setting-sources: {error}"))?)
        }
        None => None,
    };
    Ok(SessionOptions {
        add_dirs: arguments.add_dir.clone(),
        plugin_folders: [
            arguments.plugin_dir.as_slice(),
            arguments.plugin_dir_no_mcp.as_slice(),
        ]
        .concat(),
        plugins_without_servers: arguments.plugin_dir_no_mcp.clone(),
        model: arguments.model.clone(),
        fallback_model: arguments.fallback_model.clone(),
        system_prompt: from_file(
            &arguments.system_prompt,
            &arguments.system_prompt_file,
            "--system-prompt-file",
        )?,
        append_system_prompt: from_file(
            &arguments.append_system_prompt,
            &arguments.append_system_prompt_file,
            "--append-system-prompt-file",
        )?,
        tools: tool_list(arguments.tools.as_deref()),
        allowed_tools: arguments.allowed_tools.clone(),
        disallowed_tools: arguments.disallowed_tools.clone(),
        mcp: lathe_engine::McpOptions {
            configs: arguments.mcp_config.clone(),
            strict: arguments.strict_mcp_config,
            ..lathe_engine::McpOptions::default()
        },
        permission_mode,
        allow_bypass: arguments.allow_dangerously_skip_permissions,
        answerer: Answerer::Nobody,
        max_turns: arguments.max_turns,
        max_budget_usd: arguments.max_budget_usd,
        max_session_tokens: arguments.max_session_tokens,
        thinking: thinking(arguments),
        max_thinking_tokens: arguments.max_thinking_tokens,
        betas: arguments.betas.clone(),
        session,
        setup: if arguments.init || arguments.init_only {
            Some(Setup::Init)
        } else {
            arguments.maintenance.then_some(Setup::Maintenance)
        },
        fork: arguments.fork_session,
        session_id: arguments.session_id.map(SessionId),
        resume_at: arguments.resume_session_at.map(RecordId),
        resume_drops_turn: arguments.resume_drops_turn.map(RecordId),
        persist: !arguments.no_session_persistence,
        settings_flags: arguments.settings.clone(),
        setting_sources,
        managed_settings: arguments.managed_settings.clone(),
        project_root: arguments.project_config_root.clone(),
        json_schema: match &arguments.json_schema {
            Some(text) => Some(
                serde_json::from_str(text)
                    .map_err(|error| format!("--json-schema: not JSON: {error}"))?,
            ),
            None => None,
        },
        effort: arguments.effort.clone(),
        task_budget: arguments.task_budget,
        observer: None,
        agent: arguments.agent.clone(),
        agents,
        ..SessionOptions::default()
    })
}

/// The agents of `--agents`: JSON, or a file that holds it.
fn agents(text: &str) -> Result<serde_json::Value, String> {
    let json = if text.trim_start().starts_with(['{', '[']) {
        text.to_owned()
    } else {
        std::fs::read_to_string(text)
            .map_err(|error| format!("--agents: {text} can't be read: {error}"))?
    };
    let value: serde_json::Value =
        serde_json::from_str(&json).map_err(|error| format!("--agents: not JSON: {error}"))?;
    if !value.is_object() {
        return Err(
            "--agents: definitions by name are wanted: {\"reviewer\": {\"description\": \"…\", \"prompt\": \"…\"}}"
                .to_owned(),
        );
    }
    Ok(value)
}

fn thinking(arguments: &SessionArguments) -> Option<Thinking> {
    let mode = match (arguments.thinking, arguments.max_thinking_tokens) {
        (Some(ThinkingWord::Adaptive), _) => Thinking::adaptive(),
        (Some(ThinkingWord::Disabled), _) => Thinking::disabled(),
        (None, Some(0)) => Thinking::disabled(),
        (None, Some(tokens)) => Thinking::budget(tokens),
        (None, None) => return None,
    };
    Some(match arguments.thinking_display {
        Some(ThinkingDisplayWord::Summarized) => mode.showing(ThinkingDisplay::Summarized),
        Some(ThinkingDisplayWord::Omitted) => mode.showing(ThinkingDisplay::Omitted),
        None => mode,
    })
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

/// The prompt: the argument, what comes in by a pipe, or both. An argument never waits for standard
/// input that nobody writes to.
fn prompt(arguments: &SessionArguments) -> Result<String, String> {
    let given = arguments.prompt.as_deref().unwrap_or_default();
    let stdin = std::io::stdin();
    let piped = if !given.is_empty() {
        waiting_input()
    } else if stdin.is_terminal() {
        return Err(
            "there is no prompt: give it as an argument (`lathe -p \"…\"`) or by a pipe."
                .to_owned(),
        );
    } else {
        let mut bytes = Vec::new();
        stdin
            .lock()
            .read_to_end(&mut bytes)
            .map_err(|error| format!("standard input can't be read: {error}"))?;
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let piped = piped.trim_end();
    let prompt = match (given.is_empty(), piped.is_empty()) {
        (false, false) => format!("{given}\n\n{piped}"),
        (false, true) => given.to_owned(),
        (true, _) => piped.to_owned(),
    };
    if prompt.trim().is_empty() {
        return Err(
            "the prompt is empty: give it as an argument (`lathe -p \"…\"`) or by a pipe."
                .to_owned(),
        );
    }
    Ok(prompt)
}

/// What is in a pipe or file on standard input beside a prompt argument. A file is read whole. A pipe
/// is read to its end only if something comes within a moment: a parent that passes on an open pipe
/// and never writes must not make us wait.
fn waiting_input() -> String {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return String::new();
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let reading = std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let mut bytes = Vec::new();
            let mut first = [0_u8; 1];
            let mut stdin = std::io::stdin().lock();
            match stdin.read(&mut first) {
                Ok(0) | Err(_) => {
                    let _ = sender.send(None);
                }
                Ok(_) => {
                    let _ = sender.send(Some(Vec::new()));
                    bytes.extend(first);
                    let _ = stdin.read_to_end(&mut bytes);
                    let _ = sender.send(Some(bytes));
                }
            }
        });
    if reading.is_err() {
        return String::new();
    }
    // Present input (a file, a here-document, a command that printed already) is there at once.
    match receiver.recv_timeout(std::time::Duration::from_millis(50)) {
        Ok(Some(_)) => receiver
            .recv()
            .ok()
            .flatten()
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default(),
        _ => String::new(),
    }
}

/// Listens for signals. The second one ends the process at once.
fn listen() -> watch::Receiver<Signal> {
    let (sender, receiver) = watch::channel(Signal::None);
    lathe_spawn::task(async move {
        use tokio::signal::unix::{SignalKind, signal};
        let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hang_up)) = (
            signal(SignalKind::interrupt()),
            signal(SignalKind::terminate()),
            signal(SignalKind::hangup()),
        ) else {
            return;
        };
        let mut count = 0;
        loop {
            let got = tokio::select! {
                _ = interrupt.recv() => Signal::Interrupt,
                _ = terminate.recv() => Signal::Terminate,
                _ = hang_up.recv() => Signal::Terminate,
            };
            count += 1;
            if count > 1 {
                lathe_shell::run::kill_everything(std::time::Duration::ZERO);
                let _ = std::io::stdout().flush();
                #[allow(clippy::exit, reason = "a second signal means now; children are dead")]
                std::process::exit(i32::from(Exit::Interrupted.code()));
            }
            let _ = sender.send(got);
        }
    });
    receiver
}
