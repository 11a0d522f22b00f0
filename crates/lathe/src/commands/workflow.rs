//! `lathe workflow`: scripts that direct agents.

use super::{exit_if, print_line};
use crate::arguments::SessionArguments;
use crate::error::{CliError, Outcome, notice};
use crate::{options, run as start};
use clap::{Args, Subcommand};
use lathe_engine::Opened;
use lathe_engine::workflow::{self, PluginFolder, WorkflowRunError};
use lathe_headless::exit::Exit;
use lathe_headless::print::Signal;
use lathe_protocol::event::{Event, TaskNotice};
use lathe_settings::{Environment, Places};
use lathe_tools::host::WorkflowOrder;
use lathe_workflow::Script;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

// `lathe workflow`.
#[derive(Debug, Args)]
pub(crate) struct WorkflowArguments {
    #[command(subcommand)]
    command: WorkflowCommand,
}

#[derive(Debug, Subcommand)]
enum WorkflowCommand {
    /// Run a workflow and print what it returns.
    Run {
        /// A name, or a .js file.
        workflow: String,
        /// The value of `args` in the script: JSON, or text.
        args: Option<String>,
        /// Run its agents as jobs of the fleet.
        #[arg(long)]
        fleet: bool,
        /// Continue this run: agents that finished in it are not run again, and jobs of the fleet continue.
        #[arg(long, value_name = "RUN")]
        resume_run: Option<String>,
    },
    /// List the workflows of the project, your own and the built-in ones.
    List,
    /// Print the script of a workflow.
    Show {
        /// Its name.
        workflow: String,
    },
    /// Check scripts without running them.
    Validate {
        /// Names or files. Default: all that `list` shows.
        workflows: Vec<String>,
    },
}

/// `lathe workflow`.
pub(crate) async fn run(
    mut environment: Environment,
    session: SessionArguments,
    arguments: WorkflowArguments,
) -> Outcome {
    start::enter_folder(&mut environment, &session)?;
    let places = Places::new(environment.clone());
    let plugins = plugins(&places, &session);
    match arguments.command {
        WorkflowCommand::List => print_line(&listed(&places, &plugins)),
        WorkflowCommand::Show { workflow } => {
            let saved = workflow::find(&places, &plugins, &workflow).map_err(CliError::usage)?;
            print_line(&saved.text)
        }
        WorkflowCommand::Validate { workflows } => validate(&places, &plugins, &workflows),
        WorkflowCommand::Run {
            workflow,
            args,
            fleet,
            resume_run,
        } => {
            let order = WorkflowOrder {
                name: Some(workflow),
                args: args.map_or(Value::Null, |text| {
                    serde_json::from_str(&text).unwrap_or(Value::String(text))
                }),
                resume: resume_run,
                fleet,
                ..WorkflowOrder::default()
            };
            carry_out(environment, &session, order).await
        }
    }
}

/// The workflows of the plugins that are enabled here.
fn plugins(places: &Places, session: &SessionArguments) -> Vec<PluginFolder> {
    let settings = lathe_settings::load(places, &super::load_options(places, &[], None));
    let folders = &session.extensions.plugin_dir;
    workflow::of_plugins(&lathe_extensions::plugins::load(places, &settings, folders))
}

fn listed(places: &Places, plugins: &[PluginFolder]) -> String {
    let mut text = String::new();
    for saved in workflow::list(places, plugins) {
        let place = saved.path.as_ref().map_or_else(
            || "built in".to_owned(),
            |path: &PathBuf| path.display().to_string(),
        );
        let about = match Script::parse(&saved.name, &saved.text) {
            Ok(script) => script.meta.description,
            Err(error) => format!("wrong: {error}"),
        };
        let _ = writeln!(text, "{}  {about} ({place})", saved.name);
    }
    text
}

fn validate(places: &Places, plugins: &[PluginFolder], wanted: &[String]) -> Outcome {
    let mut scripts = Vec::new();
    for name in wanted {
        scripts.push(workflow::find(places, plugins, name).map_err(CliError::usage)?);
    }
    if wanted.is_empty() {
        scripts = workflow::list(places, plugins);
    }
    let mut text = String::new();
    let mut healthy = true;
    for saved in &scripts {
        let problems = lathe_workflow::check(&saved.name, &saved.text);
        if problems.is_empty() {
            let _ = writeln!(text, "{}: no problems", saved.name);
        }
        for problem in problems {
            healthy = false;
            let _ = writeln!(text, "{problem}");
        }
    }
    print_line(&text)?;
    Ok(exit_if(healthy))
}

async fn carry_out(
    environment: Environment,
    session: &SessionArguments,
    order: WorkflowOrder,
) -> Outcome {
    let options = options::of(session)?;
    let mut signals = start::listen();
    let Opened {
        session,
        mut events,
        remarks,
        ..
    } = lathe_engine::open(environment, options).await?;
    for remark in &remarks {
        notice(&remark.to_string());
    }
    let cancel = CancellationToken::new();
    let ended = {
        let work = workflow::run_in(&session, order, &cancel);
        tokio::pin!(work);
        loop {
            tokio::select! {
                ended = &mut work => break ended,
                Some(event) = events.next() => say(&event),
                Ok(()) = signals.changed() => cancel.cancel(),
            }
        }
    };
    session.finish().await;
    let again = |run: &str| format!("`lathe workflow run … --resume-run {run}` continues it");
    match ended {
        Ok(text) => print_line(&text),
        Err(error) if cancel.is_cancelled() => {
            if let WorkflowRunError::Ended { run_id, .. } = &error {
                notice(&again(run_id));
            }
            Ok(match *signals.borrow() {
                Signal::Terminate => Exit::Terminated,
                Signal::Interrupt | Signal::None => Exit::Interrupted,
            })
        }
        Err(WorkflowRunError::Start(error)) => Err(CliError::usage(error)),
        Err(WorkflowRunError::Ended { run_id, why }) => {
            Err(CliError::failure(why).hint(again(&run_id)))
        }
    }
}

fn say(event: &Event) {
    match event {
        Event::Notice { text, .. } => notice(text),
        Event::Task(TaskNotice::Started { task_id, extra, .. })
            if extra
                .get("subagent_type")
                .is_some_and(|it| it == "workflow") =>
        {
            notice(&format!("run {task_id}"));
        }
        Event::Task(TaskNotice::Finished { summary, .. }) => notice(summary),
        _ => {}
    }
}
