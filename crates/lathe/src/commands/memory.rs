//! `lathe memory`: what is kept between sessions about the project in this folder.

use super::{places, print};
use crate::complain;
use clap::{Args, Subcommand};
use lathe_engine::memory::AutoMemory;
use lathe_headless::exit::Exit;
use lathe_settings::Environment;
use std::fmt::Write as _;

/// `lathe memory`.
#[derive(Debug, Args)]
pub(crate) struct MemoryArguments {
    #[command(subcommand)]
    command: MemoryCommand,
}

/// What to do with it.
#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// List the topics.
    List {
        /// As JSON.
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
        /// What to remember.
        note: Vec<String>,
    },
    /// List what was found worth remembering and waits for your word.
    Proposals {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Keep what was proposed.
    Accept(Names),
    /// Drop what was proposed.
    Reject(Names),
    /// Print where it is.
    Path,
}

/// Which proposals.
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

/// Does something with each proposal; the first that fails ends it.
fn decide(
    names: Vec<String>,
    act: impl Fn(&str) -> Result<String, lathe_engine::memory::MemoryError>,
) -> Exit {
    let mut text = String::new();
    let mut exit = Exit::Success;
    for name in names {
        match act(&name) {
            Ok(line) => {
                let _ = writeln!(text, "{line}");
            }
            Err(error) => {
                complain(&error.to_string());
                exit = Exit::Failure;
                break;
            }
        }
    }
    let printed = print(&text);
    if exit == Exit::Success { printed } else { exit }
}

/// `lathe memory`.
pub(crate) fn run(environment: Environment, arguments: MemoryArguments) -> Exit {
    let places = places(environment);
    let memory = AutoMemory::of(&places.config_home, &places.project);
    match arguments.command {
        MemoryCommand::Path => print(&format!("{}\n", memory.folder().display())),
        MemoryCommand::Proposals { json } => {
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
                text.push_str("nothing is proposed\n");
            }
            print(&text)
        }
        MemoryCommand::Accept(names) => decide(names.of(&memory), |name| {
            let path = memory.accept(name)?;
            Ok(format!("kept in {}", path.display()))
        }),
        MemoryCommand::Reject(names) => decide(names.of(&memory), |name| {
            memory.reject(name)?;
            Ok(format!("dropped {name}"))
        }),
        MemoryCommand::List { json } => {
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
                text = format!("nothing is kept in {}\n", memory.folder().display());
            }
            if let Some(warning) = memory.index().and_then(|index| index.warning) {
                complain(&warning);
            }
            print(&text)
        }
        MemoryCommand::Show { topic } => {
            let found = memory
                .find(topic.as_deref())
                .and_then(|path| std::fs::read_to_string(path).ok());
            match found {
                Some(text) => print(&text),
                None => nothing(&memory, topic.as_deref()),
            }
        }
        MemoryCommand::Add { note } => match memory.add_note(&note.join(" ")) {
            Ok(path) => print(&format!("added to {}\n", path.display())),
            Err(error) => {
                complain(&error.to_string());
                Exit::Failure
            }
        },
        MemoryCommand::Edit { topic } => {
            let Some(path) = memory.find(topic.as_deref()) else {
                return nothing(&memory, topic.as_deref());
            };
            if let Err(error) = std::fs::create_dir_all(memory.folder()) {
                complain(&format!(
                    "{} can't be made: {error}",
                    memory.folder().display()
                ));
                return Exit::Failure;
            }
            let editor = places
                .environment
                .first_variable(&["VISUAL", "EDITOR"])
                .unwrap_or("vi");
            // An editor may come with arguments ("code --wait"), so a shell reads it.
            let status = std::process::Command::new("sh")
                .arg("-c")
                .arg(format!("{editor} \"$0\""))
                .arg(&path)
                .status();
            match status {
                Ok(status) if status.success() => Exit::Success,
                Ok(status) => {
                    complain(&format!("the editor `{editor}` failed ({status})"));
                    Exit::Failure
                }
                Err(error) => {
                    complain(&format!(
                        "the editor `{editor}` can't be started: {error}. Set EDITOR."
                    ));
                    Exit::Failure
                }
            }
        }
    }
}

fn nothing(memory: &AutoMemory, topic: Option<&str>) -> Exit {
    complain(&match topic {
        Some(topic) => format!(
            "there is no topic {topic} in {}; `lathe memory list` names them",
            memory.folder().display()
        ),
        None => format!("nothing is kept in {}", memory.folder().display()),
    });
    Exit::Failure
}
