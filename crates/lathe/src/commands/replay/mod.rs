//! `lathe replay`: a recorded session once more, in a scratch copy of its project.
//!
//! The answers of the model are the recorded ones, served on loopback by the scripted server; the tools are real. So what
//! differs is a change of the tools, of the machine or of the project. Nothing outside of the copy is changed:
//! commands run in the sandbox without a network or not at all, and edits only inside of the copy.
//!
//! | module | its part |
//! |---|---|
//! | `scratch` | the project as it was before the session |
//! | `compare` | where the two differ |

mod compare;

mod scratch;

use crate::commands::recording::{Call, Part, Recording, Turn};
use crate::commands::{print, scripted};
use crate::error::{CliError, Outcome};
use clap::Args;
use compare::{Divergence, Places};
use lathe_engine::{
    Answerer, McpOptions, ModelOptions, PermissionOptions, SessionHandle, SessionOptions,
    SettingsOptions, ToolOptions, open,
};
use lathe_headless::exit::Exit;
use lathe_protocol::elicitation::ElicitationReply;
use lathe_protocol::event::Event;
use lathe_protocol::ids::SessionId;
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::permission::{PermissionMode, PermissionReply, PermissionRequest};
use lathe_scripted::{Reply, Scenario, ScriptedServer};
use lathe_session::SessionStore;
use lathe_settings::paths::config_home;
use lathe_settings::{Environment, Source};
use scratch::Scratch;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

// `lathe replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// The session: an id or a prefix of it, or a title.
    session: String,
    /// Stop after this many answers of the model.
    #[arg(long, value_name = "ANSWERS", value_parser = clap::value_parser!(u32).range(1..))]
    until: Option<u32>,
    /// Send the prompts to this model instead of using the recorded answers, and compare what it does.
    #[arg(long, value_name = "MODEL")]
    against: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Keep the scratch copy, and print where it is.
    #[arg(long)]
    keep: bool,
}

/// Tools that are run again. Others reach beyond the copy, or need somebody to answer.
const LOCAL: [&str; 8] = [
    "Read",
    "Write",
    "Edit",
    "MultiEdit",
    "NotebookEdit",
    "Glob",
    "Grep",
    "Bash",
];
/// The name under which a call that is not run again stands in an answer.
const LEFT_OUT: &str = "NotReplayed";

/// The tools of the sessions are the same for both.
fn is_run_again(call: &Call) -> bool {
    // A command without a result, or one that was refused, did not run then either.
    let ran = call.result.as_ref().is_some_and(|result| result.ran);
    let in_background = call.input["run_in_background"] == Value::Bool(true);
    LOCAL.contains(&call.tool.as_str()) && (call.tool != "Bash" || (ran && !in_background))
}

/// The outcome of a replay.
struct Report {
    recorded: Recording,
    replayed: Recording,
    divergences: Vec<Divergence>,
    /// Requests beyond those of the recording.
    beyond: usize,
    failures: Vec<String>,
}

/// Runs the command.
pub(crate) async fn run(environment: Environment, arguments: ReplayArguments) -> Outcome {
    let store = SessionStore::new(config_home(&environment));
    let cwd = std::fs::canonicalize(&environment.cwd).unwrap_or_else(|_| environment.cwd.clone());
    let info = store.resolve(&arguments.session, &cwd)?;
    let loaded = lathe_session::load(&info.path)?;
    let mut recorded = Recording::of(&loaded);
    if recorded.turns.is_empty() {
        return Err(CliError::failure(format!(
            "the session {} has no prompt",
            info.id
        )));
    }
    if let Some(answers) = arguments.until {
        recorded.truncate(usize::try_from(answers).unwrap_or(usize::MAX));
    }
    let folder = recorded.cwd.clone();
    if !folder.is_dir() {
        let text = format!("the session's folder does not exist: {}", folder.display());
        return Err(CliError::failure(text));
    }
    let scratch = Scratch::of(&folder, &info.path)?;
    let report = match &arguments.against {
        Some(model) => against(environment, recorded, &scratch, model).await?,
        None => again(&environment, recorded, &scratch, &folder).await?,
    };
    let same = report.divergences.is_empty() && report.beyond == 0 && report.failures.is_empty();
    let mut text = if arguments.json {
        report.json(arguments.against.is_some())
    } else if arguments.against.is_some() {
        report.table()
    } else {
        report.text()
    };
    if arguments.keep {
        let kept = scratch.keep();
        if !arguments.json {
            let _ = writeln!(text, "kept: {}", kept.display());
        }
    }
    print(&text)?;
    Ok(if same || arguments.against.is_some() {
        Exit::Success
    } else {
        Exit::Failure
    })
}

/// Replays with the recorded answers.
async fn again(
    environment: &Environment,
    recorded: Recording,
    scratch: &Scratch,
    folder: &Path,
) -> Result<Report, CliError> {
    let places = Places {
        recorded: folder,
        scratch: &scratch.project,
    };
    let queue: Arc<Mutex<VecDeque<Reply>>> = Arc::default();
    let beyond: Arc<Mutex<usize>> = Arc::default();
    let (served, extra) = (Arc::clone(&queue), Arc::clone(&beyond));
    let scenario = Scenario::new().responder(move |_| {
        let next = served
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        next.unwrap_or_else(|| {
            *extra.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            Reply::text("(the recording ends here)")
        })
    });
    let server = ScriptedServer::start(scenario)
        .await
        .map_err(|error| CliError::failure(error).about("the server of the replay"))?;
    let address = server.base_url();
    let environment = scripted::environment(
        environment,
        &scratch.project,
        &scratch.config(),
        &address,
        true,
    );
    let options = SessionOptions {
        model: ModelOptions {
            name: recorded.model.clone(),
            ..ModelOptions::default()
        },
        ..options()
    };
    let mut asked = 0;
    let before_turn = |turn: &Turn| {
        let replies = turn
            .answers
            .iter()
            .map(|answer| reply(&answer.parts, &places));
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        // What an interrupted turn left is not for the next one.
        queue.clear();
        queue.extend(replies);
        // The request after the last answer of a turn that was interrupted is no divergence.
        asked += usize::from(ends_with_calls(turn));
    };
    let (replayed, failures) = play(environment, options, &recorded, scratch, before_turn).await?;
    let divergences = compare::compare(&recorded, &replayed, &places, is_run_again);
    let beyond = *beyond.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Report {
        recorded,
        replayed,
        divergences,
        beyond: beyond.saturating_sub(asked),
        failures,
    })
}

fn ends_with_calls(turn: &Turn) -> bool {
    let last = turn.answers.last();
    last.is_some_and(|answer| {
        answer
            .parts
            .iter()
            .any(|part| matches!(part, Part::Call(_)))
    })
}

/// Sends the prompts to another model.
async fn against(
    mut environment: Environment,
    recorded: Recording,
    scratch: &Scratch,
    model: &str,
) -> Result<Report, CliError> {
    environment.cwd.clone_from(&scratch.project);
    environment
        .variables
        .insert("LATHE_SANDBOX".into(), "1".into());
    let options = SessionOptions {
        model: ModelOptions {
            name: Some(model.to_owned()),
            ..ModelOptions::default()
        },
        settings: SettingsOptions {
            sources: Some(vec![Source::User]),
            ..SettingsOptions::default()
        },
        ..options()
    };
    let store = SessionStore::new(config_home(&environment));
    let (replayed, failures) = play(environment, options, &recorded, scratch, |_| {}).await?;
    // The session of the replay is none of the user's, and the only one of this folder.
    let folder = store
        .paths(&scratch.project, SessionId::random())
        .transcript();
    if let Some(folder) = folder.parent() {
        let removed = std::fs::remove_dir_all(folder);
        removed.map_err(|error| CliError::failure(error).about(folder.display().to_string()))?;
    }
    Ok(Report {
        recorded,
        replayed,
        divergences: Vec::new(),
        beyond: 0,
        failures,
    })
}

/// Only tools that stay in the copy, and a question for every change.
fn options() -> SessionOptions {
    SessionOptions {
        tools: ToolOptions {
            only: Some(LOCAL.map(str::to_owned).to_vec()),
            ..ToolOptions::default()
        },
        permissions: PermissionOptions {
            answerer: Answerer::Face,
            mode: Some(PermissionMode::Default),
            ..PermissionOptions::default()
        },
        mcp: McpOptions {
            strict: true,
            ..McpOptions::default()
        },
        ..SessionOptions::default()
    }
}

/// A recorded answer, with paths of the copy.
fn reply(parts: &[Part], places: &Places<'_>) -> Reply {
    let blocks = parts.iter().map(|part| match part {
        Part::Text(text) => serde_json::json!({"type": "text", "text": text}),
        Part::Call(call) => {
            let name = if is_run_again(call) {
                &call.tool
            } else {
                LEFT_OUT
            };
            let input = places.to_scratch(&call.input.to_string());
            call.block(name, &serde_json::from_str(&input).unwrap_or_default())
        }
    });
    Reply::blocks(blocks.collect())
}

/// Gives the prompts to a session, and reads its transcript.
async fn play(
    environment: Environment,
    options: SessionOptions,
    recorded: &Recording,
    scratch: &Scratch,
    mut before_turn: impl FnMut(&Turn),
) -> Result<(Recording, Vec<String>), CliError> {
    let opened = open(environment, options).await?;
    let (session, mut events) = (opened.session, opened.events);
    let mut failures = Vec::new();
    for turn in &recorded.turns {
        before_turn(turn);
        session.send(Op::Prompt(Prompt::new(turn.prompt.clone())));
        while let Some(event) = events.next().await {
            match event {
                Event::PermissionRequested(request) => answer(&session, &request, &scratch.project),
                Event::ElicitationRequested(request) => {
                    session.send(Op::ElicitationReply {
                        request_id: request.request_id.clone(),
                        reply: ElicitationReply::Decline,
                    });
                }
                Event::TurnFinished(result) => {
                    if result.is_error {
                        failures.push(result.text.clone());
                    }
                    break;
                }
                _ => {}
            }
        }
    }
    let transcript = session.transcript().to_owned();
    session.finish().await;
    let replayed = Recording::of(&lathe_session::load(&transcript)?);
    Ok((replayed, failures))
}

/// Reading is allowed, edits are inside of the copy, and a command that asks is one that the sandbox does not hold.
fn answer(session: &SessionHandle, request: &PermissionRequest, project: &Path) {
    let inside = |path: &Path| {
        let steps = path.components();
        let climbs = steps
            .into_iter()
            .any(|step| step == std::path::Component::ParentDir);
        !climbs && project.join(path).starts_with(project)
    };
    let named = ["file_path", "notebook_path"]
        .iter()
        .find_map(|field| request.input[*field].as_str());
    let allowed = match request.tool_name.as_str() {
        "Read" | "Glob" | "Grep" => true,
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => {
            named.is_some_and(|path| inside(Path::new(path)))
                && request.blocked_path.as_deref().is_none_or(inside)
        }
        _ => false,
    };
    let reply = if allowed {
        PermissionReply::Allow {
            updated_input: None,
            updated_permissions: Vec::new(),
            extra: Default::default(),
        }
    } else {
        PermissionReply::Deny {
            message: "A replay changes nothing outside of its copy, and runs commands in the sandbox only.".to_owned(),
            interrupt: false,
            extra: Default::default(),
        }
    };
    session.send(Op::PermissionReply {
        request_id: request.request_id.clone(),
        reply,
    });
}

impl Report {
    fn left_out(&self) -> Vec<&str> {
        let calls = self.recorded.calls().filter(|call| !is_run_again(call));
        let mut names: Vec<&str> = calls.map(|call| call.tool.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn text(&self) -> String {
        let mut text = format!(
            "prompts: {}, answers: {}, calls: {} ({} run again)\n",
            self.recorded.turns.len(),
            self.recorded.answers(),
            self.recorded.calls().count(),
            self.recorded
                .calls()
                .filter(|call| is_run_again(call))
                .count(),
        );
        let left_out = self.left_out();
        if !left_out.is_empty() {
            let _ = writeln!(text, "not run again: {}", left_out.join(", "));
        }
        for Divergence {
            number,
            tool,
            recorded,
            replayed,
        } in &self.divergences
        {
            let _ = writeln!(
                text,
                "call {number} ({tool}) differs\n  recorded: {recorded}\n  replayed: {replayed}"
            );
        }
        if self.beyond > 0 {
            let _ = writeln!(text, "requests beyond the recording: {}", self.beyond);
        }
        for failure in &self.failures {
            let _ = writeln!(text, "a turn failed: {failure}");
        }
        if self.divergences.is_empty() && self.beyond == 0 && self.failures.is_empty() {
            text.push_str("no divergence\n");
        }
        text
    }

    /// Both runs side by side.
    fn table(&self) -> String {
        let mut rows = vec![
            (
                "answers".to_owned(),
                self.recorded.answers(),
                self.replayed.answers(),
            ),
            (
                "calls".to_owned(),
                self.recorded.calls().count(),
                self.replayed.calls().count(),
            ),
            (
                "failed calls".to_owned(),
                failed(&self.recorded),
                failed(&self.replayed),
            ),
        ];
        let mut tools: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for call in self.recorded.calls() {
            tools.entry(&call.tool).or_default().0 += 1;
        }
        for call in self.replayed.calls() {
            tools.entry(&call.tool).or_default().1 += 1;
        }
        rows.extend(
            tools
                .into_iter()
                .map(|(tool, (one, other))| (format!("  {tool}"), one, other)),
        );
        let tokens = |recording: &Recording| -> usize {
            let answers = recording.turns.iter().flat_map(|turn| &turn.answers);
            answers
                .map(|answer| usize::try_from(answer.output_tokens).unwrap_or(usize::MAX))
                .sum()
        };
        rows.push((
            "output tokens".to_owned(),
            tokens(&self.recorded),
            tokens(&self.replayed),
        ));
        let mut text = format!("{:24}{:>10}{:>10}\n", "", "recorded", "replayed");
        for (name, one, other) in rows {
            let _ = writeln!(text, "{name:24}{one:>10}{other:>10}");
        }
        for failure in &self.failures {
            let _ = writeln!(text, "a turn failed: {failure}");
        }
        text
    }

    fn json(&self, against: bool) -> String {
        let divergence = |it: &Divergence| serde_json::json!({"call": it.number, "tool": it.tool, "recorded": it.recorded, "replayed": it.replayed});
        let divergences: Vec<Value> = self.divergences.iter().map(divergence).collect();
        let value = serde_json::json!({
            "prompts": self.recorded.turns.len(),
            "answers": {"recorded": self.recorded.answers(), "replayed": self.replayed.answers()},
            "calls": {"recorded": self.recorded.calls().count(), "replayed": self.replayed.calls().count()},
            "failedCalls": {"recorded": failed(&self.recorded), "replayed": failed(&self.replayed)},
            "notRunAgain": if against { Vec::new() } else { self.left_out() },
            "divergences": divergences,
            "requestsBeyond": self.beyond,
            "failures": self.failures,
        });
        format!("{value:#}\n")
    }
}

fn failed(recording: &Recording) -> usize {
    let results = recording.calls().filter_map(|call| call.result.as_ref());
    results.filter(|result| result.is_error).count()
}
