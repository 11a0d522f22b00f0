//! Running a script in its engine.

use crate::error::{Position, ScriptError};
use crate::journal::AgentCall;
use crate::script::Script;
use crate::token;
use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::promise::PromiseState;
use rquickjs::{
    CatchResultExt as _, CaughtError, Context, Ctx, Function, Object, Persistent, Promise, Runtime,
    Value,
};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Items of one call of `parallel` or `pipeline`.
pub const MOST_ITEMS: usize = 4_096;

/// Bytes that a script may say with `log` and `phase` and as errors of items. They lie outside of the engine's memory.
const MOST_WORDS: usize = 4 << 20;

/// How large the stack of a script may be.
const STACK_BYTES: usize = 512 * 1024;

/// The file name of the part that is not the script.
const PRELUDE: &str = "<prelude>";

/// How the engine says that it reached the limit of memory.
const NO_MEMORY: &str = "out of memory";

/// How it is told that it said too much.
const TOO_MANY_WORDS: &str = "it says too much";

/// The parts of the language: no clock, no weak references, no shared memory.
type Language = (
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::Promise,
);

/// The limits of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub memory_bytes: usize,
    /// Rounds of loops and calls of functions, in thousands.
    pub steps: u64,
    /// How long it may compute without waiting for an answer. Steps can be slow: each may work on megabytes.
    pub computing: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            steps: 200_000,
            computing: Duration::from_secs(600),
        }
    }
}

/// How often the engine looks whether it should stop, in thousands of rounds.
const STEPS_PER_LOOK: u64 = 10;

impl Limits {
    fn most_looks(&self) -> u64 {
        self.steps / STEPS_PER_LOOK
    }
}

/// The options of a run.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    pub args: serde_json::Value,
    /// Tokens that the run may use, for `budget.total`.
    pub total_tokens: Option<u64>,
    pub limits: Limits,
    /// Set to stop a script that computes. One that waits is stopped with [`Answer::Stop`].
    pub stop: Arc<AtomicBool>,
}

/// A wish of a script.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// An answer is expected.
    Agent {
        id: u64,
        call: Box<AgentCall>,
    },
    /// The text of another workflow is expected.
    Workflow {
        id: u64,
        reference: String,
    },
    Phase(String),
    Log(String),
    /// An item of `parallel` or `pipeline` failed and is `null`.
    Dropped(String),
}

/// An answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    To {
        id: u64,
        outcome: Outcome,
        /// Tokens that the run has used so far.
        spent: u64,
    },
    Stop,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Value(serde_json::Value),
    Script(Box<Script>),
    Failed(String),
}

/// The requests of a script, until it waits. They lie outside of the engine's memory, and count to it.
#[derive(Debug, Default)]
struct Wishes {
    list: Vec<Request>,
    /// Bytes of each call that has no answer.
    open: HashMap<u64, usize>,
    bytes: usize,
}

impl Wishes {
    /// Counts a call, unless all that have no answer would take more than `most`.
    fn count(&mut self, id: u64, bytes: usize, most: usize) -> bool {
        // Each is a task beside its words.
        let bytes = bytes + 256;
        let all = self.bytes.saturating_add(bytes);
        if all > most {
            return false;
        }
        self.open.insert(id, bytes);
        self.bytes = all;
        true
    }

    fn answered(&mut self, id: u64) {
        let bytes = self.open.remove(&id).unwrap_or_default();
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

type Requests = Rc<RefCell<Wishes>>;

/// Runs a script to its end, and gives what it returns. Blocks.
///
/// # Errors
/// When the script is wrong, throws, reaches a limit or is stopped.
pub fn run(
    script: &Script,
    options: &RunOptions,
    mut request: impl FnMut(Vec<Request>),
    answers: &Receiver<Answer>,
) -> Result<serde_json::Value, ScriptError> {
    let machine = Machine::new(options)?;
    let requests = Requests::default();
    let result = machine.begin(script, options, &requests);
    result.map_err(|error| machine.located(script, error))?;
    loop {
        machine.settle_jobs(script)?;
        let wanted = std::mem::take(&mut requests.borrow_mut().list);
        if let Some(ended) = machine.ended(script) {
            request(only_words(wanted));
            return ended;
        }
        let waits = machine.waits();
        request(wanted);
        if !waits {
            return Err(ScriptError::Stuck {
                name: script.name.clone(),
            });
        }
        let answer = answers.recv().unwrap_or(Answer::Stop);
        if let Answer::To { id, .. } = &answer {
            requests.borrow_mut().answered(*id);
        }
        machine.began.set(Instant::now());
        machine.take(script, answer)?;
    }
}

/// Only the words: nothing is started for a script that is over.
fn only_words(requests: Vec<Request>) -> Vec<Request> {
    let words = |it: &Request| !matches!(it, Request::Agent { .. } | Request::Workflow { .. });
    requests.into_iter().filter(words).collect()
}

/// Checks that a script is JavaScript, without running it.
pub(crate) fn compile(script: &Script) -> Result<(), ScriptError> {
    let machine = Machine::new(&RunOptions::default())?;
    let compiled = machine.context.with(|ctx| function(&ctx, script).map(drop));
    compiled.map_err(|error| machine.located(script, error))
}

/// The names that a script can use without defining them.
pub(crate) fn globals() -> Result<Vec<String>, ScriptError> {
    let machine = Machine::new(&RunOptions::default())?;
    let script = Script::empty();
    machine
        .begin(&script, &RunOptions::default(), &Requests::default())
        .map_err(|error| machine.located(&script, error))?;
    let names = machine.context.with(|ctx| {
        let names: Vec<String> = ctx.eval("Object.getOwnPropertyNames(globalThis)")?;
        Ok::<_, rquickjs::Error>(names)
    });
    names.map_err(|error| ScriptError::Engine(error.to_string()))
}

/// An error of the engine before its place is known.
struct Thrown {
    message: String,
    stack: String,
    syntax: bool,
}

struct State {
    promise: Persistent<Promise<'static>>,
    hooks: Persistent<Object<'static>>,
}

struct Machine {
    /// The first field, because it must be gone before the context is.
    state: RefCell<Option<State>>,
    context: Context,
    runtime: Runtime,
    looks: Arc<AtomicU64>,
    limits: Limits,
    /// When it began to compute, and whether that was too long ago.
    began: Rc<Cell<Instant>>,
    too_long: Rc<Cell<bool>>,
    stop: Arc<AtomicBool>,
}

impl Machine {
    fn new(options: &RunOptions) -> Result<Self, ScriptError> {
        let failed = |error: rquickjs::Error| ScriptError::Engine(error.to_string());
        let runtime = Runtime::new().map_err(failed)?;
        runtime.set_memory_limit(options.limits.memory_bytes);
        runtime.set_max_stack_size(STACK_BYTES);
        let looks = Arc::new(AtomicU64::new(0));
        let limits = options.limits;
        let stop = options.stop.clone();
        let (counted, stopped) = (looks.clone(), stop.clone());
        let began = Rc::new(Cell::new(Instant::now()));
        let too_long = Rc::new(Cell::new(false));
        let (since, slow) = (began.clone(), too_long.clone());
        runtime.set_interrupt_handler(Some(Box::new(move || {
            let look = counted.fetch_add(1, Ordering::Relaxed);
            if since.get().elapsed() > limits.computing {
                slow.set(true);
            }
            look >= limits.most_looks() || slow.get() || stopped.load(Ordering::Relaxed)
        })));
        let context = Context::custom::<Language>(&runtime).map_err(failed)?;
        Ok(Self {
            state: RefCell::default(),
            context,
            runtime,
            looks,
            limits,
            began,
            too_long,
            stop,
        })
    }

    /// Starts the script. Its promise and the hooks of the prelude are kept in the context.
    fn begin(
        &self,
        script: &Script,
        options: &RunOptions,
        requests: &Requests,
    ) -> Result<(), Thrown> {
        self.context.with(|ctx| {
            let hooks = prelude(&ctx, options, requests)?;
            let body = function(&ctx, script)?;
            let args = ctx.json_parse(options.args.to_string());
            let args = args.catch(&ctx).map_err(|error| thrown(&error))?;
            let workflow: Function<'_> = hooks
                .get("workflow")
                .catch(&ctx)
                .map_err(|error| thrown(&error))?;
            let promise: rquickjs::Result<Promise<'_>> = body.call((args, workflow));
            let promise = promise.catch(&ctx).map_err(|error| thrown(&error))?;
            *self.state.borrow_mut() = Some(State {
                promise: Persistent::save(&ctx, promise),
                hooks: Persistent::save(&ctx, hooks),
            });
            Ok(())
        })
    }

    /// Runs what is ready.
    fn settle_jobs(&self, script: &Script) -> Result<(), ScriptError> {
        loop {
            match self.runtime.execute_pending_job() {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    let stack: String = self.context.with(|ctx| {
                        let caught = ctx.catch();
                        let stack = caught.as_object().and_then(|error| error.get("stack").ok());
                        stack.unwrap_or_default()
                    });
                    self.within_limits(script, &stack)?;
                }
            }
        }
        self.within_limits(script, "")
    }

    /// Fails if the script was interrupted, wherever that got lost.
    fn within_limits(&self, script: &Script, stack: &str) -> Result<(), ScriptError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ScriptError::Stopped);
        }
        let message = if self.too_long.get() {
            let seconds = self.limits.computing.as_secs();
            format!("it computed for {seconds} s without waiting for an agent")
        } else if self.looks.load(Ordering::Relaxed) > self.limits.most_looks() {
            let millions = self.limits.steps / 1000;
            format!("it ran for {millions} million steps without end")
        } else {
            return Ok(());
        };
        Err(ScriptError::Limit {
            name: script.name.clone(),
            at: looping(
                script,
                place(stack).unwrap_or(Position { line: 1, column: 1 }),
            ),
            message,
        })
    }

    /// The end of the script, if it is over.
    fn ended(&self, script: &Script) -> Option<Result<serde_json::Value, ScriptError>> {
        let ended = self.context.with(|ctx| {
            let promise = self.state.borrow().as_ref()?.promise.clone();
            let promise = promise.restore(&ctx).ok()?;
            if promise.state() == PromiseState::Pending {
                return None;
            }
            let value: rquickjs::Result<Value<'_>> = promise.result()?;
            let value = match value.catch(&ctx) {
                Ok(value) => value,
                Err(error) => return Some(Err(thrown(&error))),
            };
            let text = ctx.json_stringify(value).catch(&ctx);
            Some(match text {
                Ok(Some(text)) => text.to_string().map_err(|error| Thrown::plain(&error)),
                Ok(None) => Ok("null".to_owned()),
                Err(error) => Err(thrown(&error)),
            })
        })?;
        Some(match ended {
            Ok(text) => serde_json::from_str(&text).map_err(|error| ScriptError::Result {
                name: script.name.clone(),
                message: error.to_string(),
            }),
            Err(error) => Err(self.located(script, error)),
        })
    }

    /// A function of the prelude.
    fn hook<'js>(&self, ctx: &Ctx<'js>, name: &str) -> Option<Function<'js>> {
        let hooks = self.state.borrow().as_ref()?.hooks.clone();
        hooks.restore(ctx).ok()?.get(name).ok()
    }

    fn waits(&self) -> bool {
        self.context.with(|ctx| {
            let waits = self
                .hook(&ctx, "waits")
                .and_then(|hook| hook.call::<_, usize>(()).ok());
            waits.unwrap_or_default() > 0
        })
    }

    /// Gives the script an answer.
    fn take(&self, script: &Script, answer: Answer) -> Result<(), ScriptError> {
        let Answer::To { id, outcome, spent } = answer else {
            return Err(ScriptError::Stopped);
        };
        let settled = self.context.with(|ctx| {
            let (good, value) = match outcome {
                Outcome::Value(value) => (true, ctx.json_parse(value.to_string())),
                Outcome::Failed(message) => (false, text(&ctx, &message)),
                Outcome::Script(inner) => match function(&ctx, &inner) {
                    Ok(body) => (true, Ok(body.into_value())),
                    Err(error) => (
                        false,
                        text(
                            &ctx,
                            &format!("{inner}: {}", error.message, inner = inner.name),
                        ),
                    ),
                },
            };
            let value = value.catch(&ctx).map_err(|error| thrown(&error))?;
            if let Some(settle) = self.hook(&ctx, "settle") {
                let called: rquickjs::Result<()> = settle.call((id, good, value, spent));
                called.catch(&ctx).map_err(|error| thrown(&error))?;
            }
            Ok(())
        });
        settled.map_err(|error| self.located(script, error))
    }

    /// An error with its place.
    fn located(&self, script: &Script, error: Thrown) -> ScriptError {
        if let Err(limit) = self.within_limits(script, &error.stack) {
            return limit;
        }
        let name = script.name.clone();
        let at = place(&error.stack).unwrap_or(Position { line: 1, column: 1 });
        let message = error.message;
        if error.syntax {
            ScriptError::Syntax { name, at, message }
        } else if message.contains(NO_MEMORY) {
            let at = place(&error.stack).unwrap_or_else(|| looping(script, at));
            let message = "it used too much memory".to_owned();
            ScriptError::Limit { name, at, message }
        } else if message.starts_with(TOO_MANY_WORDS) {
            ScriptError::Limit { name, at, message }
        } else {
            ScriptError::Thrown { name, at, message }
        }
    }
}

impl Thrown {
    fn plain(error: &rquickjs::Error) -> Self {
        Self {
            message: error.to_string(),
            stack: String::new(),
            syntax: false,
        }
    }
}

fn text<'js>(ctx: &Ctx<'js>, text: &str) -> rquickjs::Result<Value<'js>> {
    rquickjs::String::from_str(ctx.clone(), text).map(rquickjs::String::into_value)
}

fn thrown(error: &CaughtError<'_>) -> Thrown {
    match error {
        CaughtError::Exception(exception) => Thrown {
            message: exception.message().unwrap_or_else(|| "it threw".to_owned()),
            stack: exception.stack().unwrap_or_default(),
            syntax: exception
                .get::<_, String>("name")
                .is_ok_and(|name| name == "SyntaxError"),
        },
        // There was no memory left for an error.
        CaughtError::Value(value) if value.is_null() => Thrown {
            message: NO_MEMORY.to_owned(),
            stack: String::new(),
            syntax: false,
        },
        CaughtError::Value(value) => {
            let text = value.as_string().and_then(|text| text.to_string().ok());
            Thrown {
                message: format!(
                    "it threw {}",
                    text.as_deref().unwrap_or("a value that is no Error")
                ),
                stack: String::new(),
                syntax: false,
            }
        }
        CaughtError::Error(error) => Thrown::plain(error),
    }
}

/// Compiles a script to a function of `args` and `workflow`.
fn function<'js>(ctx: &Ctx<'js>, script: &Script) -> Result<Function<'js>, Thrown> {
    let mut options = EvalOptions::default();
    options.strict = true;
    options.filename = Some("script".to_owned());
    let compiled: rquickjs::Result<Function<'js>> =
        ctx.eval_with_options(script.function(), options);
    compiled.catch(ctx).map_err(|error| thrown(&error))
}

/// Defines the globals. Gives the functions that the machine calls.
fn prelude<'js>(
    ctx: &Ctx<'js>,
    options: &RunOptions,
    requests: &Requests,
) -> Result<Object<'js>, Thrown> {
    let mut evaluation = EvalOptions::default();
    evaluation.strict = true;
    evaluation.filename = Some(PRELUDE.to_owned());
    let define: rquickjs::Result<Function<'js>> =
        ctx.eval_with_options(include_str!("prelude.js"), evaluation);
    let define = define.catch(ctx).map_err(|error| thrown(&error))?;
    let requests = requests.clone();
    let words = Cell::new(0_usize);
    let most_bytes = options.limits.memory_bytes;
    let send = move |ctx: Ctx<'js>, kind: String, id: u64, body: String| {
        if matches!(kind.as_str(), "agent" | "workflow") {
            if !requests.borrow_mut().count(id, body.len(), most_bytes) {
                return Err(rquickjs::Exception::throw_range(&ctx, NO_MEMORY));
            }
        } else {
            // Each has a line of its own, however short.
            words.set(words.get().saturating_add(body.len() + 64));
            if words.get() > MOST_WORDS {
                let message = format!("{TOO_MANY_WORDS}: at most {} MB in a run", MOST_WORDS >> 20);
                return Err(rquickjs::Exception::throw_range(&ctx, &message));
            }
        }
        if let Some(request) = wanted(&kind, id, &body) {
            requests.borrow_mut().list.push(request);
        }
        Ok(())
    };
    let send = Function::new(ctx.clone(), send);
    let send = send.map_err(|error| Thrown::plain(&error))?;
    let hooks: rquickjs::Result<Object<'js>> =
        define.call((send, options.total_tokens, MOST_ITEMS));
    hooks.catch(ctx).map_err(|error| thrown(&error))
}

/// A request of the prelude. It writes them itself, so there are no others.
fn wanted(kind: &str, id: u64, body: &str) -> Option<Request> {
    let text = || serde_json::from_str::<String>(body).ok();
    match kind {
        "agent" => {
            let (prompt, options): (String, serde_json::Value) = serde_json::from_str(body).ok()?;
            let mut call: AgentCall = serde_json::from_value(options).unwrap_or_default();
            call.prompt = prompt;
            Some(Request::Agent {
                id,
                call: Box::new(call),
            })
        }
        "workflow" => Some(Request::Workflow {
            id,
            reference: text()?,
        }),
        "phase" => text().map(Request::Phase),
        "log" => text().map(Request::Log),
        _ => text().map(Request::Dropped),
    }
}

/// The innermost place of a stack that is in the script.
fn place(stack: &str) -> Option<Position> {
    stack
        .lines()
        .filter(|line| !line.contains(PRELUDE))
        .find_map(|line| {
            let line = line.trim_end_matches(')');
            let (rest, column) = line.rsplit_once(':')?;
            let (_, row) = rest.rsplit_once(':')?;
            let row: u32 = row.parse().ok()?;
            Some(Position {
                // The first line of the function is not the script's.
                line: row.saturating_sub(1),
                column: column.parse().ok()?,
            })
        })
}

/// The loop that ran without end. The engine names the last place before or in it that is more than a jump: if that is
/// in no loop, the first one after it is meant.
fn looping(script: &Script, at: Position) -> Position {
    let tokens = token::tokens(&script.text);
    let mut loops = token::loops(&tokens);
    if loops.clone().any(|(start, end)| start <= at && at <= end) {
        return at;
    }
    let next = loops.find(|(start, _)| *start >= at);
    next.map_or(at, |(start, _)| start)
}
