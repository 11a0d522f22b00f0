//! `lathe eval`: cases that show how a model behaves in this harness, and whether a skill or a plugin helps.
//!
//! | module | its part |
//! |---|---|
//! | `case` | the files |
//! | `grade` | what must hold after a run |

mod case;
mod grade;

use crate::commands::print;
use crate::commands::recording::Recording;
use crate::commands::scripted;
use crate::error::{CliError, Outcome};
use case::Case;
use clap::{Args, Subcommand, ValueEnum};
use grade::Run;
use lathe_engine::{
    ExtensionOptions, LimitOptions, McpOptions, ModelOptions, PermissionOptions, SessionOptions,
    SettingsOptions, open,
};
use lathe_headless::exit::Exit;
use lathe_process::{Command, Job};
use lathe_protocol::event::{Event, TurnResult};
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::permission::PermissionMode;
use lathe_scripted::{Reply, Scenario, ScriptedServer};
use lathe_settings::{Environment, Source};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

// `lathe eval`.
#[derive(Debug, Args)]
pub(crate) struct EvalArguments {
    #[command(subcommand)]
    command: EvalCommand,
}

#[derive(Debug, Subcommand)]
enum EvalCommand {
    /// Run cases, and print how many runs passed.
    Run(RunArguments),
    /// Check cases without a model: the graders must pass the good answers of a case, and fail the bad ones.
    Check(CheckArguments),
}

#[derive(Debug, Args)]
struct RunArguments {
    /// Files with cases, or folders of them.
    #[arg(required = true)]
    cases: Vec<PathBuf>,
    /// The model. Repeatable: each gets every case.
    #[arg(long = "model", value_name = "MODEL")]
    models: Vec<String>,
    /// Number of runs of each case.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Run every case without and with this plugin (its skills, agents and commands).
    #[arg(long, value_name = "FOLDER")]
    with_plugin: Option<PathBuf>,
    /// Maximum cost of all runs in dollars; no run starts after it is reached.
    #[arg(long, value_name = "DOLLARS")]
    max_budget_usd: Option<f64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct CheckArguments {
    /// Files with cases, or folders of them.
    #[arg(required = true)]
    cases: Vec<PathBuf>,
}

/// Which answers of a case are used instead of a model's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Script {
    Good,
    Bad,
}

/// The runs of one case, with one model, with or without the plugin.
#[derive(Debug)]
struct Row {
    case: String,
    about: String,
    model: String,
    plugin: bool,
    runs: Vec<Graded>,
}

/// One run.
#[derive(Debug)]
struct Graded {
    failures: Vec<String>,
    calls: usize,
    tokens: u64,
    dollars: f64,
    time: Duration,
}

/// Runs the command.
pub(crate) async fn run(environment: Environment, arguments: EvalArguments) -> Outcome {
    match arguments.command {
        EvalCommand::Run(arguments) => run_cases(environment, arguments).await,
        EvalCommand::Check(arguments) => check(environment, &arguments.cases).await,
    }
}

async fn run_cases(environment: Environment, arguments: RunArguments) -> Outcome {
    let cases = case::load(&arguments.cases)?;
    let models: Vec<Option<String>> = match arguments.models.as_slice() {
        [] => vec![None],
        models => models.iter().cloned().map(Some).collect(),
    };
    let plugins: Vec<Option<PathBuf>> = match &arguments.with_plugin {
        None => vec![None],
        Some(folder) => {
            let folder = std::fs::canonicalize(environment.cwd.join(folder));
            let folder = folder.map_err(|error| CliError::usage(error).about("--with-plugin"))?;
            vec![None, Some(folder)]
        }
    };
    let mut rows = Vec::new();
    let mut spent = 0.0;
    for case in &cases {
        for model in &models {
            for plugin in &plugins {
                let mut row = Row {
                    case: case.name.clone(),
                    about: case.about.clone(),
                    model: model.clone().unwrap_or_else(|| "(default)".to_owned()),
                    plugin: plugin.is_some(),
                    runs: Vec::new(),
                };
                for _ in 0..arguments.runs {
                    if arguments.max_budget_usd.is_some_and(|most| spent >= most) {
                        break;
                    }
                    let plugin = plugin.as_deref();
                    let graded = one(&environment, case, model.as_deref(), plugin, None).await?;
                    spent += graded.dollars;
                    row.runs.push(graded);
                }
                rows.push(row);
            }
        }
    }
    let passed = rows
        .iter()
        .all(|row| row.passed() == row.runs.len() && !row.runs.is_empty());
    print(&if arguments.json {
        to_json(&rows)
    } else {
        table(&rows)
    })?;
    Ok(if passed { Exit::Success } else { Exit::Failure })
}

/// Checks that the graders of each case can tell good from bad.
async fn check(environment: Environment, paths: &[PathBuf]) -> Outcome {
    let cases = case::load(paths)?;
    let mut text = String::new();
    let mut wrong = 0;
    for case in &cases {
        let good = one(&environment, case, None, None, Some(Script::Good)).await?;
        let bad = one(&environment, case, None, None, Some(Script::Bad)).await?;
        if case.good.is_empty() || case.bad.is_empty() {
            wrong += 1;
            let _ = writeln!(text, "{}: it has no `good` or no `bad` answers", case.name);
        } else if !good.failures.is_empty() {
            wrong += 1;
            let _ = writeln!(
                text,
                "{}: the good answers fail: {}",
                case.name,
                good.failures.join("; ")
            );
        } else if bad.failures.is_empty() {
            wrong += 1;
            let _ = writeln!(text, "{}: the bad answers pass", case.name);
        }
    }
    let _ = writeln!(text, "cases: {}, wrong: {wrong}", cases.len());
    print(&text)?;
    Ok(if wrong == 0 {
        Exit::Success
    } else {
        Exit::Failure
    })
}

/// Runs a case once, in a project of its own.
async fn one(
    environment: &Environment,
    case: &Case,
    model: Option<&str>,
    plugin: Option<&Path>,
    script: Option<Script>,
) -> Result<Graded, CliError> {
    let about =
        |error: &dyn std::fmt::Display| CliError::failure(error.to_string()).about(&case.name);
    let folder = tempfile::Builder::new().prefix("lathe-eval-").tempdir();
    let folder = folder.map_err(|error| about(&error))?;
    let home = std::fs::canonicalize(folder.path()).map_err(|error| about(&error))?;
    let project = home.join("project");
    write_project(case, &project)
        .await
        .map_err(|error| about(&error))?;
    let mut environment = environment.clone();
    environment.cwd.clone_from(&project);
    environment
        .variables
        .insert("LATHE_SESSION_TITLES".into(), "0".into());
    let mut server = None;
    if let Some(script) = script {
        let started = serve(case, script).await.map_err(|error| about(&error))?;
        let config = home.join("config");
        environment =
            scripted::environment(&environment, &project, &config, &started.base_url(), false);
        server = Some(started);
    }
    let opened = open(environment, options(case, model, plugin, script)?).await?;
    let (session, mut events) = (opened.session, opened.events);
    session.send(Op::Prompt(Prompt::new(case.prompt.clone())));
    let mut result: Option<Arc<TurnResult>> = None;
    while let Some(event) = events.next().await {
        if let Event::TurnFinished(finished) = event {
            result = Some(finished);
            break;
        }
    }
    let transcript = session.transcript().to_owned();
    session.finish().await;
    drop(server);
    let result = result.ok_or_else(|| about(&"the turn did not end"))?;
    let recording = Recording::of(&lathe_session::load(&transcript)?);
    let run = Run {
        case,
        project: &project,
        recording: &recording,
        answer: &result.text,
    };
    let mut failures = run.failures().await;
    if result.is_error {
        failures.push(format!("the turn failed: {}", result.text));
    }
    if script.is_none() {
        forget(&transcript);
    }
    Ok(Graded {
        failures,
        calls: recording.calls().count(),
        tokens: result.usage.total_input() + result.usage.output_tokens,
        dollars: result.total_cost_usd,
        time: result.duration,
    })
}

/// The session of a run is none of the user's. Its project is gone, so its folder has only this one.
fn forget(transcript: &Path) {
    if let Some(folder) = transcript.parent() {
        // Left behind, it is deleted with other old sessions.
        let _ = std::fs::remove_dir_all(folder);
    }
}

fn options(
    case: &Case,
    model: Option<&str>,
    plugin: Option<&Path>,
    script: Option<Script>,
) -> Result<SessionOptions, CliError> {
    let mode = match &case.mode {
        None => PermissionMode::AcceptEdits,
        Some(name) => serde_json::from_value(json!(name)).map_err(|_| {
            CliError::usage(format!("`mode`: there is no permission mode {name}")).about(&case.name)
        })?,
    };
    Ok(SessionOptions {
        model: ModelOptions {
            name: model.map(str::to_owned),
            ..ModelOptions::default()
        },
        permissions: PermissionOptions {
            mode: Some(mode),
            allow: case.allow.clone(),
            deny: case.deny.clone(),
            ..PermissionOptions::default()
        },
        limits: LimitOptions {
            max_turns: case.max_answers,
            ..LimitOptions::default()
        },
        settings: SettingsOptions {
            sources: Some(if script.is_some() {
                Vec::new()
            } else {
                vec![Source::User]
            }),
            ..SettingsOptions::default()
        },
        extensions: ExtensionOptions {
            plugin_folders: plugin.map(Path::to_owned).into_iter().collect(),
            ..ExtensionOptions::default()
        },
        mcp: McpOptions {
            strict: true,
            ..McpOptions::default()
        },
        ..SessionOptions::default()
    })
}

async fn write_project(case: &Case, project: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(project)?;
    for (path, text) in &case.files {
        let path = project.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, text)?;
    }
    if case.git {
        let commit = "git init -q && git add -A && git -c user.name=eval -c user.email=eval@example.invalid commit -q -m start";
        let shell = Command::new("sh")
            .arguments(["-c", commit])
            .directory(project);
        lathe_process::run(Job::new(shell, Duration::from_secs(60)))
            .await
            .map_err(std::io::Error::other)?;
    }
    Ok(())
}

async fn serve(case: &Case, script: Script) -> std::io::Result<ScriptedServer> {
    let answers = match script {
        Script::Good => &case.good,
        Script::Bad => &case.bad,
    };
    let replies = answers.iter().map(|answer| match answer {
        Value::String(text) => Reply::text(text),
        Value::Array(calls) => Reply::blocks(calls.iter().enumerate().map(call_block).collect()),
        call => Reply::blocks(vec![call_block((0, call))]),
    });
    let scenario = replies.fold(Scenario::new(), Scenario::reply);
    // A run that continues after the last answer has nothing more to say.
    ScriptedServer::start(scenario.responder(|_| Reply::text("Done.")))
        .await
        .map_err(std::io::Error::other)
}

/// `{"Read": {"file_path": "a"}}` as a block of an answer.
fn call_block((_, call): (usize, &Value)) -> Value {
    let (name, input) = call
        .as_object()
        .and_then(|object| object.iter().next())
        .map_or(("", &Value::Null), |(name, input)| (name.as_str(), input));
    json!({"type": "tool_use", "name": name, "input": input})
}

impl Row {
    fn passed(&self) -> usize {
        self.runs
            .iter()
            .filter(|run| run.failures.is_empty())
            .count()
    }

    /// The mean over the runs.
    #[expect(clippy::cast_precision_loss, reason = "counts of a report")]
    fn mean(&self, value: impl Fn(&Graded) -> f64) -> f64 {
        self.runs.iter().map(value).sum::<f64>() / (self.runs.len().max(1) as f64)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a report")]
fn table(rows: &[Row]) -> String {
    let width = rows
        .iter()
        .map(|row| row.case.len())
        .max()
        .unwrap_or_default()
        .max(4);
    let mut text = format!(
        "{:width$}  {:24} {:6} {:>7} {:>6} {:>8} {:>9} {:>7}\n",
        "case", "model", "plugin", "passed", "calls", "tokens", "cost", "time"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "{:width$}  {:24} {:6} {:>7} {:>6.1} {:>8.0} {:>9} {:>6.1}s",
            row.case,
            row.model,
            if row.plugin { "with" } else { "" },
            format!("{}/{}", row.passed(), row.runs.len()),
            row.mean(|run| run.calls as f64),
            row.mean(|run| run.tokens as f64),
            format!("${:.4}", row.mean(|run| run.dollars)),
            row.mean(|run| run.time.as_secs_f64()),
        );
        let failures: Vec<&String> = row.runs.iter().flat_map(|run| &run.failures).collect();
        if !failures.is_empty() {
            let _ = writeln!(text, "  {}", row.about);
        }
        for failure in failures {
            let _ = writeln!(text, "  - {failure}");
        }
    }
    let runs: usize = rows.iter().map(|row| row.runs.len()).sum();
    let passed: usize = rows.iter().map(Row::passed).sum();
    let _ = writeln!(text, "passed: {passed} of {runs}");
    text
}

fn to_json(rows: &[Row]) -> String {
    let run = |run: &Graded| {
        json!({
            "passed": run.failures.is_empty(),
            "failures": run.failures,
            "calls": run.calls,
            "tokens": run.tokens,
            "costUsd": run.dollars,
            "seconds": run.time.as_secs_f64(),
        })
    };
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "case": row.case,
                "about": row.about,
                "model": row.model,
                "plugin": row.plugin,
                "passed": row.passed(),
                "runs": row.runs.iter().map(run).collect::<Vec<_>>(),
            })
        })
        .collect();
    format!("{:#}\n", json!({"rows": rows}))
}
