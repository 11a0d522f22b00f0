//! `lathe memory`: the project memory of this folder.

use super::{open_editor, places, print};
use crate::error::{CliError, Kinded as _, Outcome, notice};
use clap::{Args, Subcommand};
use lathe_memory::{AutoMemory, MemoryError};
use lathe_settings::{Environment, Variable};
use std::fmt::Write as _;

// `lathe memory`.
#[derive(Debug, Args)]
pub(crate) struct MemoryArguments {
    #[command(subcommand)]
    command: MemoryCommand,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum MemoryCommand {
    /// List the topics.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the index, or a topic.
    Show {
        /// The topic's name or file; the index if absent.
        topic: Option<String>,
    },
    /// Open the index, or a topic, in $EDITOR.
    Edit {
        /// The topic's name or file; the index if absent.
        topic: Option<String>,
    },
    /// Add a line to the index.
    Add {
        /// The note.
        #[arg(required = true)]
        note: Vec<String>,
    },
    /// List proposals that wait for a decision.
    Proposals {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Save proposals.
    Accept(Names),
    /// Drop proposals.
    Reject(Names),
    /// Print the folder.
    Path,
}

// The proposals.
#[derive(Debug, Args)]
pub(crate) struct Names {
    /// Their names.
    #[arg(required_unless_present = "all")]
    names: Vec<String>,
    /// All of them.
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

impl Names {
    fn of(self, memory: &AutoMemory) -> Vec<String> {
        if self.all {
            let waiting = memory.proposals().into_iter();
            waiting.map(|topic| topic.name).collect()
        } else {
            self.names
        }
    }
}

/// Applies a decision to each proposal; the first that fails ends it.
fn decide(names: Vec<String>, act: impl Fn(&str) -> Result<String, MemoryError>) -> Outcome {
    let mut text = String::new();
    for name in names {
        match act(&name) {
            Ok(line) => {
                let _ = writeln!(text, "{line}");
            }
            Err(error) => {
                print(&text)?;
                return Err(CliError::failure(error));
            }
        }
    }
    print(&text)
}

/// `lathe memory`.
pub(crate) fn run(environment: Environment, arguments: MemoryArguments) -> Outcome {
    let places = places(environment);
    let memory = AutoMemory::of(&places.config_home, &places.project);
    match arguments.command {
        MemoryCommand::Path => print(&format!("{}\n", memory.folder().display())),
        MemoryCommand::Proposals { json } => proposals(&memory, json),
        MemoryCommand::Accept(names) => decide(names.of(&memory), |name| {
            let path = memory.accept(name)?;
            Ok(format!("saved in {}", path.display()))
        }),
        MemoryCommand::Reject(names) => decide(names.of(&memory), |name| {
            memory.reject(name)?;
            Ok(format!("dropped {name}"))
        }),
        MemoryCommand::List { json } => list(&memory, json),
        MemoryCommand::Show { topic } => {
            let text = memory
                .find(topic.as_deref())
                .and_then(|path| std::fs::read_to_string(path).ok())
                .ok_or_else(|| not_found(&memory, topic.as_deref()))?;
            print(&text)
        }
        MemoryCommand::Add { note } => {
            let path = memory.add_note(&note.join(" ")).or_failure()?;
            print(&format!("added to {}\n", path.display()))
        }
        MemoryCommand::Edit { topic } => {
            let path = memory
                .find(topic.as_deref())
                .ok_or_else(|| not_found(&memory, topic.as_deref()))?;
            std::fs::create_dir_all(memory.folder()).map_err(|error| {
                let folder = memory.folder().display();
                CliError::failure(format!("{folder} can't be created: {error}"))
            })?;
            let editor = places.environment.get(Variable::Editor);
            open_editor(editor.unwrap_or("vi"), &path)
        }
    }
}

fn proposals(memory: &AutoMemory, json: bool) -> Outcome {
    let waiting = memory.proposals();
    if json {
        let value = serde_json::to_value(&waiting).unwrap_or_default();
        return print(&format!("{value}\n"));
    }
    let mut text = String::new();
    for topic in waiting {
        let words = std::fs::read_to_string(&topic.path).unwrap_or_default();
        let _ = writeln!(text, "── {}\n{}\n", topic.name, words.trim_end());
    }
    if text.is_empty() {
        text.push_str("there are no proposals\n");
    }
    print(&text)
}

fn list(memory: &AutoMemory, json: bool) -> Outcome {
    let topics = memory.topics();
    if json {
        let value = serde_json::to_value(&topics).unwrap_or_default();
        return print(&format!("{value}\n"));
    }
    let mut text = String::new();
    if memory.index_path().is_file() {
        let _ = writeln!(text, "{}", memory.index_path().display());
    }
    for topic in topics {
        let _ = writeln!(
            text,
            "{:<24} {:<10} {}",
            topic.name, topic.kind, topic.description
        );
    }
    if text.is_empty() {
        text = format!("no memory in {}\n", memory.folder().display());
    }
    if let Some(warning) = memory.index().and_then(|index| index.warning) {
        notice(&warning);
    }
    print(&text)
}

fn not_found(memory: &AutoMemory, topic: Option<&str>) -> CliError {
    let folder = memory.folder().display();
    match topic {
        Some(topic) => CliError::failure(format!("there is no topic {topic} in {folder}"))
            .hint("`lathe memory list` shows the topics"),
        None => CliError::failure(format!("no memory in {folder}")),
    }
}
