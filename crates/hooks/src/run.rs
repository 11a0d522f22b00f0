//! Runs the hooks of an event in parallel and merges their answers into one outcome.

use crate::answer::{self, HookAnswer, HookOutcome, HookRun, RunOutcome};
use crate::registry::{Hook, HookRegistry};
use lathe_process::{
    self as process, Command, Deadline, Ending, Finished, Job, OutputSoFar, StartError,
};
use lathe_protocol::event::HookNotice;
use lathe_protocol::hook::{HookEvent, HookInput, OnFailure};
use lathe_protocol::wildcard;
use lathe_settings::schema::HookKind;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// The default time limit of a hook.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(60);
/// How often a host hears of the output of a hook that runs.
const PROGRESS: Duration = Duration::from_secs(1);
/// The longest limit that a hook may ask for.
const LONGEST_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Hears of every command that begins and ends.
pub type Observer = Arc<dyn Fn(HookNotice) + Send + Sync>;
/// How much of a call a hook's `if` describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionMatch {
    /// Nothing: the hook doesn't run.
    None,
    /// A part: the hook runs, and can only object.
    Part,
    /// All of it.
    Whole,
}

/// Compares a call with a permission rule (`Bash(git *)`).
pub type Condition = Arc<dyn Fn(&str) -> ConditionMatch + Send + Sync>;

/// The surroundings of a run.
#[derive(Clone)]
pub struct RunContext {
    /// Ends all foreground hooks.
    pub cancel: CancellationToken,
    /// The session's working folder.
    pub cwd: PathBuf,
    /// The project's folder.
    pub project: PathBuf,
    /// Variables beside the ones that this process and settings have.
    pub environment: BTreeMap<String, String>,
    /// The file for variables that hooks of SessionStart, Setup, CwdChanged and FileChanged export.
    pub environment_file: Option<PathBuf>,
    /// Receives the progress of command hooks.
    pub observer: Option<Observer>,
    /// Judges `if` conditions; without it they are compared as text.
    pub condition: Option<Condition>,
    /// Puts command hooks into the sandbox; without it they run outside.
    pub confine: Option<process::Confine>,
}

impl RunContext {
    /// Plain surroundings.
    #[must_use]
    pub fn new(cwd: impl Into<PathBuf>, project: impl Into<PathBuf>) -> Self {
        Self {
            cancel: CancellationToken::new(),
            cwd: cwd.into(),
            project: project.into(),
            environment: BTreeMap::new(),
            environment_file: None,
            observer: None,
            condition: None,
            confine: None,
        }
    }
}

/// The answer of a background hook, when it has finished.
#[derive(Debug, Clone, PartialEq)]
pub struct LateAnswer {
    /// The event that it was for.
    pub event: HookEvent,
    /// Its answer.
    pub answer: HookAnswer,
    /// Whether an objection should wake the model instead of waiting for the next turn.
    pub rewake: bool,
    /// How it ran.
    pub run: HookRun,
}

/// How one hook ended, before it is an answer.
pub(crate) struct Ended {
    pub(crate) answer: HookAnswer,
    pub(crate) outcome: RunOutcome,
    pub(crate) exit_code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn quiet(answer: HookAnswer, outcome: RunOutcome) -> Self {
        Self {
            answer,
            outcome,
            exit_code: None,
            stdout: String::new(),
            stderr: String::new(),
        }
    }

    pub(crate) fn failed(hook: &Hook, warning: &str) -> Self {
        let warning = format!("the hook {}: {warning}", hook.name);
        Self::quiet(answer::warned(warning), RunOutcome::Error)
    }
}

/// The output of a hook that runs, for those who follow it.
struct Progress {
    observer: Option<Observer>,
    notice: (String, String, String),
    output: OutputSoFar,
}

impl Progress {
    fn of(hook: &Hook, job: &Job, background: &Background, context: &RunContext) -> Self {
        let event = hook.event.name().to_owned();
        Self {
            observer: context.observer.clone(),
            notice: (background.id.clone(), background.label.clone(), event),
            output: job.output.clone(),
        }
    }

    /// Reports what is new, as long as it is asked to.
    async fn report(self) {
        let Some(observer) = self.observer else {
            return std::future::pending().await;
        };
        let (hook_id, hook_name, hook_event) = self.notice;
        let mut reported = 0;
        loop {
            tokio::time::sleep(PROGRESS).await;
            let printed = self.output.bytes();
            if printed == reported {
                continue;
            }
            reported = printed;
            observer(HookNotice::Progress {
                hook_id: hook_id.clone(),
                hook_name: hook_name.clone(),
                hook_event: hook_event.clone(),
                stdout: self.output.stdout(),
                stderr: self.output.stderr(),
            });
        }
    }
}

/// Reports the end of a hook's run.
type Reporter = Box<dyn FnOnce(HookEvent, &HookRun) + Send>;

/// The parts of a run that moves to the background.
struct Background {
    id: String,
    label: String,
    started: Instant,
    reporter: Option<Reporter>,
}

impl Background {
    /// The same, with the report.
    fn take(&mut self) -> Self {
        Self {
            id: self.id.clone(),
            label: self.label.clone(),
            started: self.started,
            reporter: self.reporter.take(),
        }
    }
}

fn finished_notice(label: &str, event: HookEvent, run: &HookRun) -> HookNotice {
    // A process that was stopped has no exit code of its own; readers of frames expect one.
    let stopped = matches!(run.outcome, RunOutcome::Cancelled | RunOutcome::TimedOut).then_some(1);
    HookNotice::Finished {
        hook_id: run.id.clone(),
        hook_name: label.to_owned(),
        hook_event: event.name().to_owned(),
        stdout: run.stdout.clone(),
        stderr: run.stderr.clone(),
        exit_code: run.exit_code.or(stopped),
        outcome: run.outcome.wire().to_owned(),
    }
}

impl Hook {
    pub(crate) fn limit(&self) -> Duration {
        self.definition
            .timeout
            .filter(|seconds| *seconds > 0.0)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .map_or(DEFAULT_LIMIT, |limit| limit.min(LONGEST_LIMIT))
    }
}

impl HookRegistry {
    /// Runs all hooks that match, in parallel, and merges their answers. Without hooks it returns
    /// immediately.
    pub async fn run(&self, input: &HookInput, context: &RunContext) -> HookOutcome {
        let event = input.hook_event_name;
        let value = matched_value(input);
        let matched = |rule: &str| match &context.condition {
            Some(condition) => condition(rule),
            None if simple_condition(rule, input) => ConditionMatch::Whole,
            None => ConditionMatch::None,
        };
        let holds = |rule: &str| matched(rule) != ConditionMatch::None;
        let hooks = self.select(event, value, input.agent_type.as_deref(), &holds);
        if hooks.is_empty() {
            return HookOutcome::default();
        }
        let text: Arc<str> = serde_json::to_string(input).unwrap_or_default().into();
        let label = value.map_or_else(
            || event.name().to_owned(),
            |value| format!("{event}:{value}"),
        );
        let runs = hooks
            .iter()
            .map(|hook| self.run_one(hook, input, &text, &label, context));
        let (mut answers, runs): (Vec<_>, Vec<_>) =
            futures::future::join_all(runs).await.into_iter().unzip();
        for (hook, answer) in hooks.iter().zip(&mut answers) {
            let condition = hook.definition.condition.as_deref();
            if condition.is_some_and(|rule| matched(rule) == ConditionMatch::Part) {
                answer::withhold_approval(answer);
            }
        }
        let mut outcome = answer::merge(answers);
        outcome.runs = runs;
        outcome
    }

    async fn run_one(
        &self,
        hook: &Arc<Hook>,
        input: &HookInput,
        text: &Arc<str>,
        label: &str,
        context: &RunContext,
    ) -> (HookAnswer, HookRun) {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let id = format!(
            "hook-{}-{}",
            std::process::id(),
            RUNS.fetch_add(1, Ordering::Relaxed)
        );
        let started = Instant::now();
        let observer = context
            .observer
            .as_ref()
            .filter(|_| hook.definition.kind == HookKind::Command);
        if let Some(observer) = observer {
            let message = hook.definition.status_message.as_ref();
            observer(HookNotice::Started {
                hook_id: id.clone(),
                hook_name: label.to_owned(),
                hook_event: hook.event.name().to_owned(),
                display: message.unwrap_or(&hook.name).clone(),
            });
        }
        let reporter = observer.map(|observer| {
            let (observer, label) = (Arc::clone(observer), label.to_owned());
            let reporter: Reporter = Box::new(move |event: HookEvent, run: &HookRun| {
                observer(finished_notice(&label, event, run));
            });
            reporter
        });
        let mut background = Background {
            id: id.clone(),
            label: label.to_owned(),
            started,
            reporter,
        };
        let ended = match hook.definition.kind {
            HookKind::Command => self.run_command(hook, text, context, &mut background).await,
            _ => self.run_remote(hook, input, text, context).await,
        };
        let (answer, run) = finish(hook, id, started, ended);
        // One that went to the background is reported when it ends.
        if let Some(report) = background.reporter.take() {
            if answer.suppress_output {
                let mut quiet = run.clone();
                quiet.stdout.clear();
                report(hook.event, &quiet);
            } else {
                report(hook.event, &run);
            }
        }
        (answer, run)
    }

    async fn run_command(
        &self,
        hook: &Arc<Hook>,
        text: &Arc<str>,
        context: &RunContext,
        background: &mut Background,
    ) -> Ended {
        let started = background.started;
        // A hook that may wake the model is one that nobody waits for.
        let in_background =
            hook.definition.background == Some(true) || hook.definition.async_rewake == Some(true);
        let limit = match hook.definition.timeout {
            None if in_background => Duration::from_millis(answer::DEFAULT_ASYNC_TIMEOUT_MS),
            _ => hook.limit(),
        };
        let (deadline, deadline_watch) = watch::channel(started + limit);
        let (line_sender, mut lines) = mpsc::unbounded_channel();
        let cancel = CancellationToken::new();
        let command = without_keys(
            command(hook, context)
                .directory(working_folder(context))
                .variables(self.command_environment(hook, context)),
            hook,
            self.withheld(),
        );
        let command = match &context.confine {
            Some(confine) => match confine(command) {
                Ok(command) => command,
                Err(error) => return Ended::failed(hook, &error.to_string()),
            },
            None => command,
        };
        let job = Job {
            command,
            stdin: format!("{text}\n").into_bytes(),
            deadline: Deadline::Movable(deadline_watch),
            cancel: cancel.clone(),
            first_line: Some(line_sender),
            output: OutputSoFar::default(),
        };
        let progress = Progress::of(hook, &job, background, context);
        let mut task = AbortOnDropHandle::new(lathe_spawn::task(process::run(job)));
        if in_background {
            self.move_to_background(hook, task, cancel, deadline, background.take());
            return Ended::quiet(HookAnswer::default(), RunOutcome::Background);
        }
        let mut listening = true;
        let progress = progress.report();
        tokio::pin!(progress);
        loop {
            tokio::select! {
                biased;
                finished = &mut task => return read_finished(hook, limit, finished),
                () = &mut progress => {}
                line = lines.recv(), if listening => {
                    listening = false;
                    if let Some(patience) = line.as_deref().and_then(wants_background) {
                        deadline.send_replace(Instant::now() + patience);
                        self.move_to_background(hook, task, cancel, deadline, background.take());
                        return Ended::quiet(HookAnswer::default(), RunOutcome::Background);
                    }
                }
                () = context.cancel.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
            }
        }
    }

    /// Moves a hook to the background; its answer goes to the receiver of [`HookRegistry::new`].
    fn move_to_background(
        &self,
        hook: &Arc<Hook>,
        mut task: AbortOnDropHandle<Result<Finished, StartError>>,
        cancel: CancellationToken,
        deadline: watch::Sender<Instant>,
        background: Background,
    ) {
        let Background {
            id,
            started,
            reporter,
            ..
        } = background;
        let (hook, late, ending) = (Arc::clone(hook), self.late.clone(), self.ending.clone());
        let rewoken = Arc::clone(&self.rewoken);
        self.background.spawn(async move {
            let finished = tokio::select! {
                finished = &mut task => finished,
                () = ending.cancelled() => {
                    cancel.cancel();
                    task.await
                }
            };
            let limit = deadline.borrow().duration_since(started);
            let ended = read_finished(&hook, limit, finished);
            let (mut answer, run) = finish(&hook, id, started, ended);
            if let Some(report) = reporter {
                report(hook.event, &run);
            }
            let objects = answer.block.is_some() || run.outcome == RunOutcome::Blocked;
            let rewake = hook.definition.async_rewake == Some(true) && objects;
            if rewake && answer.block.is_none() {
                answer.block = Some(match run.stderr.trim() {
                    "" => run.stdout.trim().to_owned(),
                    words => words.to_owned(),
                });
            }
            // The receiver is gone when the session is over.
            let _ = late.send(LateAnswer {
                event: hook.event,
                answer,
                rewake,
                run,
            });
            if rewake {
                rewoken.notify_one();
            }
        });
    }

    fn command_environment(&self, hook: &Hook, context: &RunContext) -> BTreeMap<String, String> {
        let mut environment = self.settings_environment();
        environment.extend(context.environment.clone());
        let mut both = |ours: &str, theirs: &str, value: &Path| {
            let value = value.to_string_lossy().into_owned();
            environment.insert(theirs.to_owned(), value.clone());
            environment.insert(ours.to_owned(), value);
        };
        both("LATHE_PROJECT_DIR", "CLAUDE_PROJECT_DIR", &context.project);
        if let Some(root) = &hook.root {
            both("LATHE_PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT", root);
        }
        if let Some(file) = &context.environment_file
            && exports(hook.event)
        {
            both("LATHE_ENV_FILE", "CLAUDE_ENV_FILE", file);
        }
        environment.insert("LATHE_HOOK_EVENT".to_owned(), hook.event.name().to_owned());
        environment.insert("LATHE".to_owned(), "1".to_owned());
        environment.insert("CLAUDECODE".to_owned(), "1".to_owned());
        environment
    }
}

/// A command without our own keys, except for those that the hook asks for by name.
fn without_keys(command: Command, hook: &Hook, withheld: BTreeSet<String>) -> Command {
    let wanted = hook
        .definition
        .allowed_env_vars
        .as_deref()
        .unwrap_or_default();
    lathe_settings::environment::secret_names()
        .map(str::to_owned)
        .chain(withheld)
        .filter(|name| !wanted.contains(name))
        .fold(command, Command::without_variable)
}

/// Whether hooks of an event may export variables.
#[must_use]
pub fn exports(event: HookEvent) -> bool {
    matches!(
        event,
        HookEvent::SessionStart | HookEvent::Setup | HookEvent::CwdChanged | HookEvent::FileChanged
    )
}

/// The value of the field with which an event's matchers are compared.
#[must_use]
pub fn matched_value(input: &HookInput) -> Option<&str> {
    let field = input.hook_event_name.matched_field()?;
    match input.fields.get(field).and_then(Value::as_str) {
        Some(value) => Some(value),
        None if field == "agent_type" => input.agent_type.as_deref(),
        None => None,
    }
}

fn finish(hook: &Hook, id: String, started: Instant, ended: Ended) -> (HookAnswer, HookRun) {
    let Ended {
        mut answer,
        outcome,
        exit_code,
        stdout,
        stderr,
    } = ended;
    let failed = matches!(outcome, RunOutcome::Error | RunOutcome::TimedOut);
    if failed && hook.definition.on_failure == Some(OnFailure::Block) {
        let reason = answer
            .warning
            .clone()
            .unwrap_or_else(|| format!("the hook {} failed", hook.name));
        let warning = answer.warning.take();
        answer = HookAnswer {
            warning,
            ..answer::objection(hook.event, reason)
        };
    }
    hook.name.clone_into(&mut answer.hook);
    let run = HookRun {
        id,
        hook: hook.name.clone(),
        source: hook.source.to_string(),
        exit_code,
        stdout,
        stderr,
        duration: started.elapsed(),
        outcome,
    };
    (answer, run)
}

fn read_finished(
    hook: &Hook,
    limit: Duration,
    finished: Result<Result<Finished, StartError>, tokio::task::JoinError>,
) -> Ended {
    let finished = match finished {
        Ok(Ok(finished)) => finished,
        Ok(Err(error)) => return Ended::failed(hook, &error.to_string()),
        Err(_) => return Ended::failed(hook, "it was dropped"),
    };
    let name = &hook.name;
    let (answer, outcome, exit_code) = match finished.ending {
        Ending::Exited(code) => {
            let answer = answer::parse(
                hook.event,
                name,
                Some(code),
                &finished.stdout,
                &finished.stderr,
            );
            let outcome = match code {
                0 => RunOutcome::Success,
                2 => RunOutcome::Blocked,
                _ => RunOutcome::Error,
            };
            (answer, outcome, Some(code))
        }
        Ending::Signalled => {
            let answer = answer::parse(hook.event, name, None, &finished.stdout, &finished.stderr);
            (answer, RunOutcome::Error, None)
        }
        Ending::TimedOut => {
            let warning = format!("the hook {name} took longer than {limit:?} and was stopped");
            (answer::warned(warning), RunOutcome::TimedOut, None)
        }
        Ending::Flooded => {
            let warning = format!("the hook {name} printed too much output and was stopped");
            (answer::warned(warning), RunOutcome::Error, None)
        }
        Ending::Cancelled => (HookAnswer::default(), RunOutcome::Cancelled, None),
    };
    Ended {
        answer,
        outcome,
        exit_code,
        stdout: finished.stdout,
        stderr: finished.stderr,
    }
}

/// `{"async": true}` as the first line: how long it wants to continue.
fn wants_background(line: &str) -> Option<Duration> {
    let value: Value = serde_json::from_str(line.trim()).ok()?;
    (value.get("async")?.as_bool()?).then(|| {
        let patience = value.get("asyncTimeout").and_then(Value::as_u64);
        Duration::from_millis(patience.unwrap_or(answer::DEFAULT_ASYNC_TIMEOUT_MS))
            .min(LONGEST_LIMIT)
    })
}

fn command(hook: &Hook, context: &RunContext) -> Command {
    let definition = &hook.definition;
    let command = definition.command.clone().unwrap_or_default();
    let Some(arguments) = &definition.args else {
        return Command::shell(command, definition.shell.as_deref());
    };
    // Without a shell, the variables are expanded here.
    let fill = |text: &str| {
        let project = context.project.to_string_lossy();
        let mut text = text
            .replace("${CLAUDE_PROJECT_DIR}", &project)
            .replace("${LATHE_PROJECT_DIR}", &project);
        if let Some(root) = &hook.root {
            let root = root.to_string_lossy();
            text = text
                .replace("${CLAUDE_PLUGIN_ROOT}", &root)
                .replace("${LATHE_PLUGIN_ROOT}", &root);
        }
        text
    };
    Command::new(fill(&command)).arguments(arguments.iter().map(|argument| fill(argument)))
}

/// The session's folder; where that is gone, the project's, and where that is gone too, any.
fn working_folder(context: &RunContext) -> PathBuf {
    [&context.cwd, &context.project]
        .into_iter()
        .find(|folder| folder.is_dir())
        .cloned()
        .unwrap_or_else(std::env::temp_dir)
}

/// Whether a call matches a rule, by tool name and a comparison with wildcards. A session sets a real
/// check instead ([`RunContext::condition`]).
fn simple_condition(rule: &str, input: &HookInput) -> bool {
    let Some(tool) = input.fields.get("tool_name").and_then(Value::as_str) else {
        return false;
    };
    let (name, content) = match rule.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')')),
        None => (rule, None),
    };
    if name.trim() != tool {
        return false;
    }
    let Some(content) = content.filter(|content| !content.is_empty()) else {
        return true;
    };
    let pattern = content
        .strip_suffix(":*")
        .map_or_else(|| content.to_owned(), |prefix| format!("{prefix}*"));
    [
        "command",
        "file_path",
        "notebook_path",
        "path",
        "url",
        "pattern",
    ]
    .iter()
    .filter_map(|key| input.fields.get("tool_input")?.get(*key)?.as_str())
    .any(|value| wildcard::matches(&pattern, value))
}
