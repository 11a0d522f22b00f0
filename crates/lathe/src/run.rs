//! Starts the face that the flags ask for: the terminal, print mode, or the SDK protocol.

use crate::arguments::{InputFormat, OutputFormat, PermissionPrompts, SessionArguments};
use crate::error::{CliError, Kinded as _, Outcome, notice};
use crate::offer::Offer;
use crate::{options, prompt};
use lathe_engine::{Answerer, MemberSeat, SessionOptions};
use lathe_headless::acp::AcpOptions;
use lathe_headless::exit::Exit;
use lathe_headless::print::{self, Format, PrintOptions, Signal};
use lathe_headless::sdk::SdkOptions;
use lathe_host::Hub;
use lathe_process::stub::{Link, split};
use lathe_process::{Console, TerminalSize};
use lathe_protocol::content::Content;
use lathe_protocol::frame::{FrameOptions, SessionStateFrames};
use lathe_protocol::op::Prompt;
use lathe_settings::trust_store::TrustStore;
use lathe_settings::{Environment, Variable};
use lathe_tools::schedule::JobsFile;
use lathe_tui::{Announce, Hosting};
use lathe_wire::Folder;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use tokio::sync::watch;

/// Whether output can't block the session: it is printed at the end, or by a thread of its own.
pub(crate) fn output_never_blocks(arguments: &SessionArguments) -> bool {
    let output = &arguments.output;
    match output.output_format {
        OutputFormat::StreamJson => output.input_format == InputFormat::StreamJson,
        OutputFormat::Json => true,
        OutputFormat::Text => output.print && !output.verbose,
    }
}

/// Whether the project has durable jobs, which a session without a prompt waits for.
fn has_scheduled_prompts(environment: &Environment) -> bool {
    let places = lathe_settings::Places::new(environment.clone());
    let jobs = JobsFile::of_project(&places.project, &places.config_home).read();
    let is_trusted = TrustStore::new(&places).is_trusted(&places.project);
    is_trusted && jobs.is_ok_and(|jobs| !jobs.is_empty())
}

/// Where a session is drawn.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// The process that the shell waits for, if the session can leave its terminal.
    link: Option<Link>,
    /// The terminal of a session that begins in the background.
    console: Option<Arc<Console>>,
    announce: Announce,
}

impl Place {
    /// Chooses the place. A session on a terminal, or in the background, becomes a process of its own.
    ///
    /// # Errors
    /// If a session can't begin in the background here.
    pub(crate) fn choose(
        environment: &Environment,
        arguments: &SessionArguments,
        announce: Announce,
    ) -> Result<Self, CliError> {
        let output = &arguments.output;
        let failed = |error| {
            CliError::failure(format!(
                "a session in the background can't be started: {error}"
            ))
        };
        if arguments.session.bg {
            if arguments.prompt.is_none()
                && arguments.session.team_member.is_none()
                && arguments.session.resume.is_none()
                && !arguments.session.continue_session
                && !has_scheduled_prompts(environment)
            {
                return Err(
                    CliError::usage(
                        "--bg needs a prompt, a session to resume, or durable scheduled prompts in this project",
                    )
                        .hint("lathe --bg \"fix the failing test\""),
                );
            }
            let link = split().map_err(failed)?;
            let console = Arc::new(Console::take_over(BACKGROUND_SIZE).map_err(failed)?);
            // Until the end of the process: closing its terminal would end it before its last words.
            std::mem::forget(Arc::clone(&console));
            return Ok(Self {
                link: Some(link),
                console: Some(console),
                announce,
            });
        }
        let is_interactive = !output.print
            && output.output_format == OutputFormat::Text
            && output.input_format == InputFormat::Text
            && !arguments.session.init_only;
        let on_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        if !is_interactive || !on_terminal || lathe_tui::is_plain(environment) {
            return Ok(Self::default());
        }
        // Without a second process, the session stays on its terminal.
        Ok(Self {
            link: split().ok(),
            ..Self::default()
        })
    }
}

/// The size of a terminal that nobody looks at.
const BACKGROUND_SIZE: TerminalSize = TerminalSize {
    rows: 40,
    columns: 120,
};

/// Runs a session, and sends the last telemetry.
pub(crate) async fn run(
    environment: Environment,
    arguments: SessionArguments,
    place: Place,
) -> Outcome {
    let outcome = run_face(environment, arguments, place).await;
    crate::telemetry::end().await;
    outcome
}

async fn run_face(
    mut environment: Environment,
    mut arguments: SessionArguments,
    place: Place,
) -> Outcome {
    enter_folder(&mut environment, &arguments)?;
    if arguments.settings.no_claude_home {
        let name = Variable::ReadClaudeHome.name().to_owned();
        environment.variables.insert(name, "0".to_owned());
    }
    if let Some(wanted) = arguments.session.from_pr.take() {
        arguments.session.resume = Some(session_of_pull_request(&environment, &wanted)?);
    }
    let output = &arguments.output;
    if output.input_format == InputFormat::StreamJson {
        if output.output_format != OutputFormat::StreamJson {
            return Err(CliError::usage(
                "--input-format stream-json needs --output-format stream-json",
            ));
        }
        let options = options::of(&arguments)?;
        return Ok(drive(environment, options, &arguments).await);
    }
    if arguments.session.init_only {
        return run_hooks_only(environment, &arguments).await;
    }
    if arguments.session.bg || (!output.print && output.output_format == OutputFormat::Text) {
        return interactive(environment, arguments, place).await;
    }
    let options = options::of(&arguments)?;
    let prompt = prompt::read(arguments.prompt.as_deref().unwrap_or_default())?;
    let prompt = prompt::with_images(prompt, &arguments.output.image, &environment)?;
    print_one(environment, options, &arguments, prompt).await
}

/// Opens the interactive terminal.
async fn interactive(
    environment: Environment,
    mut arguments: SessionArguments,
    place: Place,
) -> Outcome {
    let pick_session = arguments
        .session
        .resume
        .take_if(|wanted| wanted.is_empty())
        .is_some();
    let mut options = options::of(&arguments)?;
    if arguments.permissions.permission_prompt_tool.is_some() {
        return Err(CliError::usage(
            "--permission-prompt-tool is for -p and for hosts; the terminal asks you",
        ));
    }
    options.interactive = true;
    if let Some(seat) = &arguments.session.team_member {
        let seat = MemberSeat::take(&environment, seat)?;
        seat.apply(&environment, &mut options)?;
    }
    let in_background = place.console.is_some();
    let (hub, requests) = Hub::new(&environment);
    options.observe = hub.observing(options.observe);
    let mut hosting = Hosting::new(hub, requests, place.link, place.console);
    hosting.announce = place.announce;
    let terminal = lathe_tui::TerminalOptions {
        prompt: prompt::with_mentions(&arguments, &environment)?,
        pick_session,
        screen_reader: false,
        hosting: Some(hosting),
    };
    // Asked before the terminal is taken over: its keys are read by others from then on.
    if !in_background {
        crate::commands::import::offer(&environment);
    }
    let may_offer = options.model.name.is_none() && is_new(&options) && !in_background;
    if may_offer && Offer::is_needed(&environment) {
        let offer = Offer::find(environment.clone()).await;
        match offer.choose() {
            Some(model) => options.model.name = Some(model),
            // The terminal itself leads on.
            None if offer.is_empty() => {}
            None => {
                let error = CliError::from(lathe_engine::OpenError::NoCredentials);
                return Err(with_offer(error, &offer));
            }
        }
    }
    if !in_background {
        tell_of_closed_terminals(&environment);
    }
    migrate(&environment);
    crate::commands::update::look_in_background(&environment);
    match Box::pin(lathe_tui::run(environment, options, terminal)).await {
        lathe_tui::Ended::Left => Ok(Exit::Success),
        lathe_tui::Ended::Terminated => Ok(Exit::Terminated),
        lathe_tui::Ended::NoCredentials(why) => Err(CliError::no_credentials(why)),
        lathe_tui::Ended::Usage(why) => Err(CliError::usage(why)),
        lathe_tui::Ended::Failed(why) => Err(CliError::failure(why)),
        lathe_tui::Ended::Run(command) => run_command(command),
    }
}

/// Names sessions that continued when their terminal was closed, once.
fn tell_of_closed_terminals(environment: &Environment) {
    let folder = Folder::of(environment);
    for info in lathe_host::past::take_closed(&folder) {
        let now = folder.read(&info.id).filter(|_| folder.is_live(&info.id));
        let state = now.map_or("ended", |now| now.state.words());
        let (id, place) = (&info.id, info.folder.display());
        notice(&format!(
            "the session {id} in {place} continued when its terminal was closed ({state}): `lathe attach {id}`"
        ));
    }
}

/// Runs a command of this program in its own process, which knows nothing of the terminal that was left.
fn run_command(command: &str) -> Outcome {
    let program = std::env::current_exe().or_failure()?;
    let status = lathe_process::Command::new(program)
        .arguments([command])
        .foreground()
        .or_failure()?;
    Ok(crate::commands::exit_if(status.success()))
}

/// Brings files of an older version up to date; what may wait is done beside the session.
fn migrate(environment: &Environment) {
    let home = lathe_settings::paths::config_home(environment);
    match lathe_update::migrations::run(&home) {
        Ok(Some(rest)) => drop(lathe_spawn::blocking(rest)),
        Ok(None) => {}
        Err(error) => notice(&format!(
            "files of an older version in {} could not be migrated: {error}",
            home.display()
        )),
    }
}

/// Whether a session begins that has no model of its own yet.
fn is_new(options: &SessionOptions) -> bool {
    matches!(options.history.session, lathe_engine::SessionChoice::New)
}

/// An error with what could be done instead.
fn with_offer(error: CliError, offer: &Offer) -> CliError {
    offer.hints().into_iter().fold(error, CliError::hint)
}

/// The frames that the flags and the host's environment ask for.
fn frame_options(environment: &Environment, arguments: &SessionArguments) -> FrameOptions {
    let session_state = if environment.is_on(Variable::EmitSessionState) {
        SessionStateFrames::Caller
    } else if environment.is_on(Variable::HostReadsSessionState) {
        SessionStateFrames::HostOnly
    } else {
        SessionStateFrames::Off
    };
    FrameOptions {
        partial_messages: arguments.output.include_partial_messages,
        hook_events: arguments.output.include_hook_events,
        replay_user_messages: arguments.output.replay_user_messages,
        session_state,
        forward_subagent_text: arguments.output.forward_subagent_text,
    }
}

/// Stores sessions where an SDK host looks for them: the SDKs read and write sessions themselves, below
/// `CLAUDE_CONFIG_DIR` or `~/.claude`.
fn use_folder_of_host(environment: &mut Environment) {
    let is_sdk = environment
        .get(Variable::Entrypoint)
        .is_some_and(|entry| entry.starts_with("sdk-"));
    if !is_sdk {
        return;
    }
    let chosen = environment.foreign("CLAUDE_CONFIG_DIR").map(str::to_owned);
    let is_free = environment.foreign("LATHE_CONFIG_DIR").is_none();
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
    use_folder_of_host(&mut environment);
    let permission_tool = permission_prompt_tool(arguments);
    if permission_tool.is_some() {
        options.permissions.answerer = Answerer::Face;
    }
    let sdk = SdkOptions {
        frames: frame_options(&environment, arguments),
        prompt: arguments.prompt.clone().filter(|prompt| !prompt.is_empty()),
        checkpointing: environment.is_on(Variable::HostFileCheckpointing),
        mirror: arguments.session.session_mirror,
        suggestions: arguments.output.prompt_suggestions == Some(true),
        permission_tool: permission_tool
            .filter(|tool| *tool != "stdio")
            .map(str::to_owned),
        signals: listen(),
        session: options,
    };
    let running = lathe_headless::sdk::run(
        environment,
        sdk,
        std::io::stdin(),
        lathe_headless::output::Terminal::stdout(),
        lathe_headless::output::Terminal::stderr(),
    );
    Box::pin(running).await
}

/// Serves an editor over standard input and output.
pub(crate) async fn acp(mut environment: Environment, arguments: SessionArguments) -> Outcome {
    enter_folder(&mut environment, &arguments)?;
    let options = AcpOptions {
        session: options::of(&arguments)?,
        signals: listen(),
    };
    let running =
        lathe_headless::acp::run(environment, options, std::io::stdin(), std::io::stdout());
    let exit = Box::pin(running).await;
    crate::telemetry::end().await;
    Ok(exit)
}

/// The value of `--permission-prompt-tool`, unless `--permission-prompts none` denies everything.
fn permission_prompt_tool(arguments: &SessionArguments) -> Option<&str> {
    let permissions = &arguments.permissions;
    permissions
        .permission_prompt_tool
        .as_deref()
        .filter(|_| permissions.permission_prompts != Some(PermissionPrompts::None))
}

/// `--init-only`: runs the Setup and SessionStart hooks. No transcript is written.
async fn run_hooks_only(environment: Environment, arguments: &SessionArguments) -> Outcome {
    let mut options = options::of(arguments)?;
    options.history.persist = false;
    let opened = lathe_engine::open(environment, options).await?;
    for remark in &opened.remarks {
        notice(&remark.to_string());
    }
    print::end(
        opened.session,
        opened.events,
        lathe_headless::output::Terminal::stderr(),
    )
    .await;
    Ok(Exit::Success)
}

/// Print mode: one prompt, one answer.
async fn print_one(
    environment: Environment,
    mut options: SessionOptions,
    arguments: &SessionArguments,
    prompt: Content,
) -> Outcome {
    let signals = listen();
    let format = match arguments.output.output_format {
        OutputFormat::Text => Format::Text,
        OutputFormat::Json => Format::Json,
        OutputFormat::StreamJson => Format::StreamJson(frame_options(&environment, arguments)),
    };
    let permission_tool = permission_prompt_tool(arguments)
        .filter(|tool| *tool != "stdio")
        .map(str::to_owned);
    if permission_tool.is_some() {
        options.permissions.answerer = Answerer::Face;
    }
    let is_model_named = options.model.name.is_some();
    let opened = match lathe_engine::open(environment.clone(), options).await {
        Ok(opened) => opened,
        Err(error) => {
            if let Format::StreamJson(_) = format {
                lathe_headless::output::Lines::new(lathe_headless::output::Terminal::stdout())
                    .json(&print::failed_start(&error.to_string()));
            }
            if matches!(error, lathe_engine::OpenError::NoCredentials) && !is_model_named {
                let offer = Offer::find(environment).await;
                return Err(with_offer(error.into(), &offer));
            }
            return Err(error.into());
        }
    };
    crate::profile::checkpoint(&environment, "the session is open");
    for remark in &opened.remarks {
        notice(&remark.to_string());
    }
    let options = PrintOptions {
        keep_background: arguments.output.keep_background,
        prompt: Prompt::new(prompt),
        format,
        verbose: arguments.output.verbose,
        last_message: arguments.output.output_last_message.clone(),
        permission_tool,
        signals,
    };
    let printed = print::run(
        opened.session,
        opened.events,
        options,
        lathe_headless::output::Terminal::stdout(),
        lathe_headless::output::Terminal::stderr(),
    );
    Ok(printed.await)
}

/// Makes `--cwd` the working folder, resolved: sessions are found by it. The files of `--mcp-config` must be
/// readable, or the session would start with fewer tools than its flags name.
pub(crate) fn enter_folder(
    environment: &mut Environment,
    arguments: &SessionArguments,
) -> Result<(), CliError> {
    if let Some(folder) = &arguments.permissions.cwd {
        let folder = environment.resolve(&folder.to_string_lossy());
        let shown = folder.display();
        environment.cwd = std::fs::canonicalize(&folder)
            .map_err(|error| CliError::usage(format!("--cwd: {shown} can't be used: {error}")))?;
        if !environment.cwd.is_dir() {
            return Err(CliError::usage(format!("--cwd: {shown} is not a folder")));
        }
    } else if let Ok(real) = std::fs::canonicalize(&environment.cwd) {
        environment.cwd = real;
    }
    lathe_mcp::config::read_flags(&arguments.extensions.mcp_config, environment).or_usage()?;
    Ok(())
}

/// The newest session of the folder that mentions a pull request.
fn session_of_pull_request(environment: &Environment, wanted: &str) -> Result<String, CliError> {
    let number = wanted.trim().trim_end_matches('/').rsplit('/').next();
    let number = number.unwrap_or_default().trim_start_matches('#');
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(
            CliError::usage(format!("--from-pr {wanted}: not a pull request"))
                .hint("give its number or its address, such as https://host/owner/name/pull/12"),
        );
    }
    let mark = if wanted.contains("://") {
        wanted.trim().trim_end_matches('/').to_owned()
    } else {
        format!("/pull/{number}")
    };
    let store = lathe_session::SessionStore::new(lathe_settings::paths::config_home(environment));
    let sessions = store.list(lathe_session::store::Scope::Project(&environment.cwd), None);
    let found = sessions.into_iter().find(|session| {
        std::fs::read(&session.path).is_ok_and(|bytes| mentions(&bytes, mark.as_bytes()))
    });
    found.map(|session| session.id.to_string()).ok_or_else(|| {
        CliError::failure(format!("no session of this folder mentions {mark}"))
            .hint("`lathe sessions list` shows the sessions; --resume takes one by its id or title")
    })
}

/// Whether a text holds the mark, not followed by another digit.
fn mentions(bytes: &[u8], mark: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.windows(mark.len()).position(|window| window == mark) {
        rest = &rest[at + mark.len()..];
        if !rest.first().is_some_and(u8::is_ascii_digit) {
            return true;
        }
    }
    false
}

/// Listens for signals. The second one ends the process at once.
pub(crate) fn listen() -> watch::Receiver<Signal> {
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
                let exit = match got {
                    Signal::Terminate => Exit::Terminated,
                    Signal::Interrupt | Signal::None => Exit::Interrupted,
                };
                #[expect(
                    clippy::exit,
                    reason = "a second signal ends the process at once; its children are killed"
                )]
                std::process::exit(i32::from(exit.code()));
            }
            let _ = sender.send(got);
        }
    });
    receiver
}
