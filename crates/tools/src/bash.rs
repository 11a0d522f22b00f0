//! Bash: runs a shell command.
//!
//! The work is done by [`lathe_shell::run`]; here a call becomes options for it, and what came of it
//! becomes words for the model, a structure for hosts and a display for faces.

use crate::context::{CallContext, ToolContext};
use crate::editor_terminal;
use crate::interactive;
use crate::tool::{CallTraits, InterruptBehavior, Tool, ToolError, ToolOutput};
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::display::Display;
use lathe_protocol::ids::{TaskId, ToolUseId};
use lathe_protocol::permission::Subject;
use lathe_sandbox::{Block, Violation};
use lathe_settings::{Environment, Variable};
use lathe_shell::analysis::{self, WorkingFolder};
use lathe_shell::run::{
    DirectoryChange, Exit, ExitMeaning, Finished, OnTimeout, Output, Progress, RunOptions,
    explain_exit,
};
use lathe_shell::syntax::ShellKind;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Runs a shell command.
#[derive(Debug, Clone, Copy)]
pub struct Bash {
    /// Whether a command can ask to leave the sandbox: only where there is one, and settings allow it.
    pub can_leave_sandbox: bool,
}

/// The command, and how to run it.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The command.
    command: String,
    /// Time limit in milliseconds; default 120000, at most 600000.
    #[serde(default)]
    timeout: Option<u64>,
    /// A description in 5 to 10 words.
    #[serde(default)]
    description: Option<String>,
    /// Start it and return at once with a task id.
    #[serde(default)]
    run_in_background: Option<bool>,
    /// Run it on a terminal. Returns when it waits for input.
    #[serde(default)]
    interactive: Option<bool>,
    /// Run it without the sandbox. Only where the sandbox is what made it fail.
    #[serde(default, rename = "dangerouslyDisableSandbox")]
    dangerously_disable_sandbox: Option<bool>,
}

/// The limits that hold in a session.
pub(crate) struct Limits {
    default_timeout: Duration,
    most_timeout: Duration,
    pub(crate) output: usize,
    background: bool,
}

impl Limits {
    const MOST_OUTPUT: u64 = 150_000;

    pub(crate) fn of(context: &ToolContext) -> Self {
        let environment = &context.environment;
        let number = |variable, default: u64| {
            environment
                .number(variable)
                .filter(|&value| value > 0)
                .unwrap_or(default)
        };
        let default_timeout = number(Variable::BashDefaultTimeout, 120_000);
        let most = number(Variable::BashMaxTimeout, 600_000).max(default_timeout);
        let output = number(Variable::BashMaxOutput, 30_000).min(Self::MOST_OUTPUT);
        Self {
            default_timeout: Duration::from_millis(default_timeout),
            most_timeout: Duration::from_millis(most),
            output: usize::try_from(output).unwrap_or(usize::MAX),
            background: !environment.is_on(Variable::DisableBackgroundTasks),
        }
    }

    pub(crate) fn timeout(&self, wanted: Option<u64>) -> Duration {
        match wanted {
            None | Some(0) => self.default_timeout,
            Some(milliseconds) => Duration::from_millis(milliseconds).min(self.most_timeout),
        }
    }
}

impl Tool for Bash {
    type Input = Input;

    fn name(&self) -> &'static str {
        "Bash"
    }

    fn description(&self) -> &'static str {
        include_str!("bash.md")
    }

    fn withheld_fields(&self) -> &'static [&'static str] {
        if self.can_leave_sandbox {
            &[]
        } else {
            &["dangerouslyDisableSandbox"]
        }
    }

    fn traits(&self, input: &Input) -> CallTraits {
        let stays = input.run_in_background == Some(true) || input.interactive == Some(true);
        let reads = !stays && only_reads(&input.command);
        CallTraits {
            read_only: reads,
            concurrency_safe: reads,
            destructive: !reads,
            open_world: !reads,
            interrupt: InterruptBehavior::Block,
            failure_cancels_siblings: true,
        }
    }

    fn subject(&self, input: &Input, context: &ToolContext) -> Subject {
        Subject::Shell {
            command: input.command.clone(),
            cwd: context.working_folder.read().clone(),
            unsandboxed: input.dangerously_disable_sandbox == Some(true),
        }
    }

    fn activity(&self, input: &Input) -> String {
        match input.description.as_deref().map(str::trim) {
            Some(description) if !description.is_empty() => description.to_owned(),
            _ => format!("Running {}", first_line(&input.command)),
        }
    }

    async fn validate(&self, input: &Input, context: &ToolContext) -> Result<(), ToolError> {
        if input.command.trim().is_empty() {
            return Err(ToolError::invalid(
                "command is empty; give a command to run.",
            ));
        }
        if input.run_in_background == Some(true) && input.interactive == Some(true) {
            return Err(ToolError::invalid(
                "interactive and run_in_background exclude each other; an interactive command keeps running anyway.",
            ));
        }
        if input.run_in_background == Some(true) && !Limits::of(context).background {
            return Err(ToolError::invalid(
                "Background commands are disabled here (LATHE_DISABLE_BACKGROUND_TASKS). \
                 Run the command without run_in_background.",
            ));
        }
        Ok(())
    }

    /// Head and tail of the output are kept within the limit; the rest is in a file already.
    fn result_limit(&self) -> Option<usize> {
        None
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let session = &context.session;
        let limits = Limits::of(session);
        let options = options(&input, &context, &limits);
        let command = with_prefix(&input.command, &session.environment);
        if input.run_in_background == Some(true) {
            let id = session
                .shell
                .start_in_background(&command, options)
                .await
                .map_err(|error| ToolError::failed(error.to_string()))?;
            return Ok(started(&id, session));
        }
        if input.interactive == Some(true) {
            let timeout = options.timeout;
            let started = session.shell.start_on_terminal(&command, options).await;
            let started = started.map_err(|error| ToolError::failed(error.to_string()))?;
            let waited = interactive::wait(&started, timeout, limits.output, &context).await;
            if matches!(waited, Err(ToolError::Cancelled(_))) {
                started.stop().await;
                return Err(ToolError::Cancelled(
                    "The command was cancelled.".to_owned(),
                ));
            }
            return waited;
        }
        if let Some(terminals) = editor_terminal::lent(&context) {
            let lent = editor_terminal::run(terminals.as_ref(), &command, &options, &context).await;
            let (finished, terminal) = lent?;
            move_to(session, &finished.directory);
            let mut output = result(&input, &finished, &limits);
            output.structured["terminalId"] = terminal.into();
            return Ok(output);
        }
        let finished = session
            .shell
            .run(&command, options)
            .await
            .map_err(|error| ToolError::failed(error.to_string()))?;
        move_to(session, &finished.directory);
        let output = result(&input, &finished, &limits);
        if let Some(block) = &finished.blocked {
            return Err(blocked(block, &output));
        }
        if finished.violations.is_empty() {
            return Ok(output);
        }
        Err(violated(&finished.violations, &output))
    }
}

/// Works in the folder that a command moved to.
fn move_to(session: &ToolContext, directory: &DirectoryChange) {
    match directory {
        DirectoryChange::None(_) | DirectoryChange::Undone { .. } => {}
        DirectoryChange::Moved(_) if session.environment.is_on(Variable::KeepWorkingFolder) => {}
        DirectoryChange::Moved(now) | DirectoryChange::Lost { now, .. } => {
            session.working_folder.write().clone_from(now);
        }
    }
}

/// The command as the last word of the prefix that the environment names.
fn with_prefix<'a>(command: &'a str, environment: &Environment) -> Cow<'a, str> {
    match environment.get(Variable::ShellPrefix) {
        Some(prefix) => Cow::Owned(format!("{prefix} '{}'", command.replace('\'', r"'\''"))),
        None => Cow::Borrowed(command),
    }
}

fn options(input: &Input, context: &CallContext, limits: &Limits) -> RunOptions {
    let session = &context.session;
    let progress = context.progress.clone();
    let roots = session.roots.read().clone();
    RunOptions {
        timeout: limits.timeout(input.timeout),
        on_timeout: if limits.background {
            OnTimeout::MoveToBackground
        } else {
            OnTimeout::Kill
        },
        cancel: context.cancel.clone(),
        to_background: to_background(context, limits),
        directory: Some(session.working_folder.read().clone()),
        directory_allowed: Some(Arc::new(move |folder: &Path| {
            roots.iter().any(|root| folder.starts_with(root))
        })),
        output_limit: limits.output,
        spill: Some(spill_file(&session.results_folder, &context.tool_use_id)),
        progress: Some(Arc::new(move |now| progress.show(progress_display(&now)))),
        description: input
            .description
            .clone()
            .unwrap_or_else(|| first_line(&input.command)),
        tool_use_id: Some(context.tool_use_id.clone()),
        sandbox: context.sandbox.clone(),
        confinement: context.confinement.clone(),
        ..RunOptions::default()
    }
}

/// The error for a command that the kernel stopped because it did more than read.
fn blocked(block: &Block, output: &ToolOutput) -> ToolError {
    let what = match block {
        Block::Path(path) => format!("the command tried to use {}", path.display()),
        Block::Network => "the command tried to use the network".to_owned(),
        Block::Unknown => "the command tried to do more than read".to_owned(),
    };
    let text = match &output.content {
        Content::Text(text) => text.clone(),
        Content::Blocks(_) => String::new(),
    };
    ToolError::Blocked {
        output: format!(
            "{text}\n[It ran confined to reading, because it was found to only read, and {what}. \
             The user can allow it to run unconfined.]"
        ),
        what,
    }
}

/// The error for a command that failed because the sandbox refused something.
fn violated(violations: &[Violation], output: &ToolOutput) -> ToolError {
    let subjects: Vec<String> = violations.iter().map(Violation::subject).collect();
    let mut text = match &output.content {
        Content::Text(text) => text.clone(),
        Content::Blocks(_) => String::new(),
    };
    text.push_str("\n[The command ran in the sandbox, which refused:");
    for violation in violations {
        text.push_str(&format!("\n- {violation}"));
    }
    text.push(']');
    ToolError::Violated {
        what: subjects.join(", "),
        output: text,
    }
}

/// The user's wish, unless there is no background to go to.
fn to_background(context: &CallContext, limits: &Limits) -> CancellationToken {
    if limits.background {
        context.to_background.clone()
    } else {
        CancellationToken::new()
    }
}

/// The call's id comes from outside: only what is harmless in a file name is taken of it.
fn spill_file(folder: &Path, id: &ToolUseId) -> PathBuf {
    let name: String = id
        .as_str()
        .chars()
        .map(|character| match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => character,
            _ => '_',
        })
        .take(100)
        .collect();
    folder.join(format!("{name}.output"))
}

/// Whether the command is known to only read, in whichever shell it runs, and to leave the working
/// folder where it is: only then may others run beside it.
fn only_reads(command: &str) -> bool {
    [ShellKind::Bash, ShellKind::Zsh].iter().all(|&shell| {
        let analysis = analysis::analyse(command, shell);
        analysis.read_only
            && analysis.parts.iter().all(|part| {
                let program = part.effective_argv.first().and_then(|word| word.fixed());
                part.folder == WorkingFolder::Start
                    && !matches!(program, Some("cd" | "pushd" | "popd"))
            })
    })
}

fn first_line(command: &str) -> String {
    let line = command.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.len() < command.trim().len() => format!("{line} …"),
        None => line.to_owned(),
    }
}

fn progress_display(progress: &Progress) -> Display {
    let seconds = progress.elapsed.as_secs();
    let size = shown_size(progress.total_bytes);
    let mut output = progress.last_lines.clone();
    if !output.is_empty() {
        output.push('\n');
    }
    output.push_str(&format!("({seconds} s, {size})"));
    Display::Terminal {
        output,
        exit_code: None,
    }
}

fn shown_size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} bytes"),
        1_024..1_048_576 => format!("{} KB", bytes / 1_024),
        _ => format!("{} MB", bytes / 1_048_576),
    }
}

fn started(id: &TaskId, session: &ToolContext) -> ToolOutput {
    let file = session
        .shell
        .background()
        .get(id.as_str())
        .map(|command| command.output_file.display().to_string())
        .unwrap_or_default();
    ToolOutput::new(
        format!(
            "The command runs in the background as task {id}. Its output goes to {file}; read what \
             is new with TaskOutput, end it with TaskStop."
        ),
        structured("", false, false, Some(id), None),
        in_background(id),
    )
}

fn in_background(id: &TaskId) -> Display {
    Display::Text {
        text: format!("Running in the background as {id}"),
    }
}

fn structured(
    stdout: &str,
    interrupted: bool,
    is_image: bool,
    task: Option<&TaskId>,
    meaning: Option<&str>,
) -> Value {
    let mut value = json!({
        "stdout": stdout,
        "stderr": "",
        "interrupted": interrupted,
        "isImage": is_image,
    });
    if let Some(task) = task {
        value["backgroundTaskId"] = json!(task);
    }
    if let Some(meaning) = meaning {
        value["returnCodeInterpretation"] = json!(meaning);
    }
    value
}

/// Words what came of the command.
fn result(input: &Input, finished: &Finished, limits: &Limits) -> ToolOutput {
    let output = finished.output.text.trim_end();
    let limit = limits.timeout(input.timeout).as_secs_f64();
    let mut lines: Vec<String> = Vec::new();
    let mut is_error = false;
    let mut meaning: Option<ExitMeaning> = None;
    let mut task = None;
    let mut exit_code = None;
    match &finished.exit {
        Exit::Exited(code) => {
            exit_code = Some(*code);
            if *code != 0 {
                meaning = explain_exit(&input.command, *code);
                is_error = meaning.as_ref().is_none_or(|meaning| meaning.is_failure);
                lines.push(match &meaning {
                    Some(meaning) => format!("Exit code {code} ({})", meaning.text),
                    None => format!("Exit code {code}"),
                });
            }
        }
        Exit::Signalled(signal) => {
            is_error = true;
            lines.push(format!("The command was ended by signal {signal}."));
        }
        Exit::TimedOut => {
            is_error = true;
            lines.push(format!(
                "The command was ended when its time limit of {limit} s was reached. Give a larger \
                 timeout, or less to do."
            ));
        }
        Exit::Cancelled => {
            is_error = true;
            lines.push("The command was cancelled before it ended.".to_owned());
        }
        Exit::MovedToBackground(id) => {
            let file = finished.output.file.as_deref().unwrap_or(Path::new(""));
            lines.push(format!(
                "The command is still running after {:.1} s and continues in the background as task {id}. \
                 Its output goes to {}; TaskOutput reads new output, TaskStop ends it. \
                 So far it printed:",
                finished.duration.as_secs_f64(),
                file.display()
            ));
            task = Some(id);
        }
    }
    let interrupted = matches!(finished.exit, Exit::TimedOut | Exit::Cancelled);
    let image = (!is_error).then(|| image_in(&finished.output)).flatten();
    if let Some((media_type, data)) = image {
        return ToolOutput::blocks(
            vec![ContentBlock::image(media_type, data)],
            structured("", interrupted, true, task, None),
            Display::Text {
                text: "An image".to_owned(),
            },
        );
    }
    if !output.is_empty() {
        lines.push(output.to_owned());
    } else if lines.is_empty() || task.is_some() {
        lines.push("(no output)".to_owned());
    }
    lines.extend(notes(finished));
    let stdout = structured(
        output,
        interrupted,
        false,
        task,
        meaning.as_ref().map(|meaning| meaning.text.as_str()),
    );
    ToolOutput {
        content: Content::Text(lines.join("\n")),
        structured: stdout,
        display: match task {
            Some(id) if output.is_empty() => in_background(id),
            _ => Display::Terminal {
                output: output.to_owned(),
                exit_code,
            },
        },
        is_error,
    }
}

/// Further information for the model.
fn notes(finished: &Finished) -> Vec<String> {
    let mut notes = Vec::new();
    if finished.output.file_truncated {
        notes.push("[The output file reached its size limit; the rest was not kept.]".to_owned());
    }
    if !finished.leftovers.is_empty() {
        notes.push(format!(
            "[These processes were still running when the shell exited and were killed: {}. Use \
             run_in_background for commands that should keep running.]",
            finished.leftovers.join(", ")
        ));
    }
    match &finished.directory {
        DirectoryChange::None(_) | DirectoryChange::Moved(_) => {}
        DirectoryChange::Undone { refused, now } => notes.push(format!(
            "[The working folder was reset to {}: {} is outside the folders of this session.]",
            now.display(),
            refused.display()
        )),
        DirectoryChange::Lost { gone, now } => notes.push(format!(
            "[The working folder {} no longer exists; it is now {}.]",
            gone.display(),
            now.display()
        )),
    }
    notes
}

/// An image larger than this is not sent.
const LARGEST_IMAGE: u64 = 5 * 1024 * 1024;

/// The image, if all that was printed is one as a data URL.
fn image_in(output: &Output) -> Option<(String, String)> {
    if !output.text.trim_start().starts_with("data:image/") || output.total_bytes > LARGEST_IMAGE {
        return None;
    }
    let whole = match &output.file {
        Some(file) if output.omitted_bytes > 0 => std::fs::read_to_string(file).ok()?,
        _ if output.omitted_bytes > 0 => return None,
        _ => output.text.clone(),
    };
    let (kind, data) = whole.trim().strip_prefix("data:")?.split_once(";base64,")?;
    let known = ["image/png", "image/jpeg", "image/gif", "image/webp"].contains(&kind);
    let data: String = data.split_ascii_whitespace().collect();
    let valid = data
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    (known && valid && !data.is_empty()).then(|| (kind.to_owned(), data))
}
