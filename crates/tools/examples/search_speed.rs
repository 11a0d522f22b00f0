//! How fast Grep and Glob are beside ripgrep itself, on the same tree in the same run.
//!
//! ```text
//! cargo run --release -p lathe-tools --example search_speed -- [files, default 100000] [folder] [question]
//! ```
//!
//! Builds a tree in a temporary folder (or searches the given one), asks both the same questions in
//! turn, and prints the best time of each and their ratio. With a question's number, only that one
//! is asked, once and without ripgrep: for a profiler or strace. Needs `rg` on the PATH. ripgrep's time
//! includes the start of its process, since that is what calling it would cost. Glob is also compared with the
//! plain form of its walk: the `ignore` crate's parallel walk, the glob and the time of every file that it gives.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for people at a terminal"
)]

use lathe_protocol::ids::{RecordId, SessionId};
use lathe_tools::context::{CallContext, ProgressSink, ToolContext};
use lathe_tools::registry;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 9;

/// A question to a tool, and the same to ripgrep.
struct Question {
    name: &'static str,
    tool: &'static str,
    input: Value,
    arguments: &'static [&'static str],
}

fn questions() -> Vec<Question> {
    vec![
        Question {
            name: "names of files, rare word",
            tool: "Grep",
            input: json!({"pattern": "needle_in_hay"}),
            arguments: &["--files-with-matches", "needle_in_hay"],
        },
        Question {
            name: "names of files, common regex",
            tool: "Grep",
            input: json!({"pattern": "fn\\s+item_\\d+", "head_limit": 0}),
            arguments: &["--files-with-matches", "fn\\s+item_\\d+"],
        },
        Question {
            name: "lines, rare word",
            tool: "Grep",
            input: json!({"pattern": "needle_in_hay", "output_mode": "content", "head_limit": 0}),
            arguments: &["--line-number", "needle_in_hay"],
        },
        Question {
            name: "lines, common word, first 250",
            tool: "Grep",
            input: json!({"pattern": "value", "output_mode": "content"}),
            arguments: &["--line-number", "value"],
        },
        Question {
            name: "counts, ignoring case",
            tool: "Grep",
            input: json!({"pattern": "RESULT", "-i": true, "output_mode": "count", "head_limit": 0}),
            arguments: &["--count", "--ignore-case", "RESULT"],
        },
        Question {
            name: "files by name",
            tool: "Glob",
            input: json!({"pattern": "**/*.rs"}),
            arguments: &["--files", "--glob", "*.rs"],
        },
    ]
}

fn build_tree(root: &Path, files: usize) {
    for number in 0..files {
        let folder = root.join(format!("part{}/group{}", number % 10, number % 1000));
        if number < 1000 {
            std::fs::create_dir_all(&folder).unwrap();
        }
        let mut text = String::new();
        for line in 0..8 + number % 40 {
            let _ = writeln!(
                text,
                "    pub fn item_{line}(value: u32) -> Result<u32, Error> {{ Ok(value + {number}) }}"
            );
        }
        if number % 997 == 0 {
            text.push_str("// needle_in_hay\n");
        }
        let kind = ["rs", "py", "md", "ts"][number % 4];
        std::fs::write(folder.join(format!("file{number}.{kind}")), text).unwrap();
    }
    std::fs::write(root.join(".gitignore"), "*.log\nbuild/\n").unwrap();
}

/// The newest hundred files of a kind, by the plain walk.
fn plain_glob(root: &Path) -> usize {
    let glob = globset::Glob::new("**/*.rs").unwrap().compile_matcher();
    let (sender, receiver) = std::sync::mpsc::channel();
    ignore::WalkBuilder::new(root)
        .hidden(false)
        .require_git(false)
        .threads(std::thread::available_parallelism().map_or(1, usize::from))
        .filter_entry(|entry| entry.file_name() != ".git")
        .build_parallel()
        .run(|| {
            let sender = sender.clone();
            let glob = &glob;
            Box::new(move |entry| {
                let Ok(entry) = entry else {
                    return ignore::WalkState::Continue;
                };
                if entry.file_type().is_some_and(|kind| kind.is_file())
                    && glob.is_match(entry.path())
                    && let Ok(metadata) = entry.metadata()
                    && let Ok(changed) = metadata.modified()
                {
                    let _ = sender.send((changed, entry.into_path()));
                }
                ignore::WalkState::Continue
            })
        });
    drop(sender);
    let mut found: Vec<_> = receiver.into_iter().collect();
    found.sort_by(|one, other| other.cmp(one));
    found.truncate(100);
    found.len()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let files = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(100_000);
    let temporary = tempfile::tempdir().unwrap();
    let root = match arguments.next() {
        Some(folder) => folder.into(),
        None => {
            println!("building a tree of {files} files");
            build_tree(temporary.path(), files);
            temporary.path().to_owned()
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let session = Arc::new(ToolContext::new(
        SessionId::random(),
        root.clone(),
        root.clone(),
        vec![root.clone()],
        temporary.path().join("results"),
        Arc::new(|_| false),
        BTreeMap::new(),
    ));
    let tools = registry::builtin();
    let alone: Option<usize> = arguments.next().and_then(|text| text.parse().ok());
    let rounds = alone.map_or(ROUNDS, |_| 1);
    for (number, question) in questions().into_iter().enumerate() {
        if alone.is_some_and(|alone| alone != number) {
            continue;
        }
        let mut ours = Duration::MAX;
        let mut theirs = Duration::MAX;
        for _ in 0..rounds {
            let started = Instant::now();
            let call = Arc::clone(tools.find(question.tool).unwrap())
                .prepare(question.input.clone(), &session)
                .unwrap();
            let context = CallContext {
                session: Arc::clone(&session),
                tool_use_id: "call".into(),
                turn: RecordId::random(),
                cancel: CancellationToken::new(),
                to_background: CancellationToken::new(),
                progress: ProgressSink::none(),
                sandbox: None,
                confinement: None,
            };
            runtime.block_on(call.call(context)).unwrap();
            ours = ours.min(started.elapsed());
            if alone.is_some() {
                continue;
            }

            let started = Instant::now();
            let output = Command::new("rg")
                .args(["--no-config", "--hidden", "--glob", "!.git"])
                .args(question.arguments)
                .arg(&root)
                .output()
                .unwrap();
            theirs = theirs.min(started.elapsed());
            assert!(output.status.success(), "{output:?}");
        }
        if question.tool == "Glob" {
            let mut plain = Duration::MAX;
            for _ in 0..rounds {
                let started = Instant::now();
                assert_eq!(plain_glob(&root), 100);
                plain = plain.min(started.elapsed());
            }
            println!(
                "{:32} lathe {ours:8.1?}  plain walk {plain:8.1?}",
                question.name
            );
        }
        if alone.is_some() {
            println!("{:32} lathe {ours:8.1?}", question.name);
            continue;
        }
        println!(
            "{:32} lathe {:8.1?}  rg {:8.1?}  ratio {:.2}",
            question.name,
            ours,
            theirs,
            ours.as_secs_f64() / theirs.as_secs_f64()
        );
    }
}
