//! `lathe demo`: the real engine, tools, permissions and transcript, over the real HTTP path, driven by
//! a scripted model. Only the text of the model is scripted: the test fails, the edit is made and the refused
//! command is refused as in any session.

use crate::arguments::DemoArguments;
use crate::error::{CliError, Outcome};
use lathe_engine::{PermissionOptions, SessionOptions, open};
use lathe_headless::exit::Exit;
use lathe_process::{Command, Ending, Job};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::display::{Display, TodoStatus};
use lathe_protocol::event::Event;
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::permission::PermissionMode;
use lathe_protocol::record::{MessageRecord, RecordKind};
use lathe_protocol::stream::{Delta, StreamEvent};
use lathe_scripted::{Reply, Scenario, ScriptedServer};
use lathe_settings::{Environment, Variable};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

/// The sample project.
const FILES: [(&str, &str); 3] = [
    ("README.md", include_str!("../demo/README.md")),
    ("slugify.sh", include_str!("../demo/slugify.sh")),
    ("tests/run.sh", include_str!("../demo/tests/run.sh")),
];

const PROMPT: &str = "The tests of this project fail. Find out why and fix it.";
const TEST_COMMAND: &str = "sh tests/run.sh";
/// How long the tests of the sample project may take.
const TESTS_LIMIT: Duration = Duration::from_secs(60);

/// The replies of the model.
fn scenario(fast: bool) -> Scenario {
    let todos = |first: &str, second: &str, third: &str| {
        json!({"todos": [
            {"content": "Run the tests", "status": first, "activeForm": "Running the tests"},
            {"content": "Find the cause", "status": second, "activeForm": "Looking for the cause"},
            {"content": "Fix it and check", "status": third, "activeForm": "Fixing it"},
        ]})
    };
    let pace = if fast { 0 } else { 15 };
    let say = |text: &str| Reply::text(text).delta_characters(6).chunk_delay_ms(pace);
    Scenario::new()
        .reply(
            say("I'll run the tests first.")
                .with_tool_use("TodoWrite", todos("in_progress", "pending", "pending"))
                .with_tool_use("Bash", json!({"command": TEST_COMMAND, "description": "Run the tests"})),
        )
        .reply(
            say("Runs of other characters become several dashes. Let me see where they are replaced.")
                .with_tool_use("Grep", json!({"pattern": "sed", "output_mode": "content", "-n": true}))
                .with_tool_use("Read", json!({"file_path": "slugify.sh"})),
        )
        .reply(
            say("Each character is replaced on its own; a run of them should become one dash.")
                .with_tool_use("TodoWrite", todos("completed", "completed", "in_progress"))
                .with_tool_use("Edit", json!({
                    "file_path": "slugify.sh",
                    "old_string": "sed 's/[^a-z0-9]/-/g'",
                    "new_string": "sed 's/[^a-z0-9][^a-z0-9]*/-/g'",
                })),
        )
        .reply(
            say("Checking, and publishing right away.")
                .with_tool_use("Bash", json!({"command": TEST_COMMAND, "description": "Run the tests"}))
                .with_tool_use("Bash", json!({"command": "git push origin main", "description": "Publish"})),
        )
        .reply(
            say("The push was refused, rightly: it was not requested. The work itself is done.")
                .with_tool_use("TodoWrite", todos("completed", "completed", "completed")),
        )
        .reply(say(
            "Fixed in `slugify.sh:5`: runs of characters that aren't letters or digits now become a single dash. All four checks pass. Nothing was published.",
        ))
}

/// Runs the demo.
pub(crate) async fn run(environment: Environment, arguments: DemoArguments) -> Outcome {
    play(environment, &arguments)
        .await
        .map_err(|error| CliError::failure(error).about("the demo could not run"))
}

async fn play(environment: Environment, arguments: &DemoArguments) -> anyhow::Result<Exit> {
    let folder = tempfile::Builder::new().prefix("lathe-demo-").tempdir()?;
    let project = std::fs::canonicalize(folder.path())?.join("sample");
    write_project(&project)?;
    let server = ScriptedServer::start(scenario(arguments.fast)).await?;
    let mut screen = Screen::new(&environment);
    let environment = demo_environment(&environment, &project, folder.path(), &server.base_url());
    let options = SessionOptions {
        permissions: PermissionOptions {
            mode: Some(PermissionMode::AcceptEdits),
            allow: vec![format!("Bash({TEST_COMMAND})")],
            // In the sandbox a command needs no question; what must not happen is denied.
            deny: vec!["Bash(git push:*)".to_owned()],
            ..PermissionOptions::default()
        },
        ..SessionOptions::default()
    };
    screen.introduction(&project);

    let opened = open(environment, options).await?;
    let (session, mut events) = (opened.session, opened.events);
    let transcript = session.transcript().to_owned();
    session.send(Op::Prompt(Prompt::new(PROMPT)));
    let mut finished = None;
    while let Some(event) = events.next().await {
        screen.show(&event);
        if let Event::TurnFinished(result) = event {
            finished = Some(result);
            break;
        }
    }
    session.finish().await;
    let Some(result) = finished else {
        anyhow::bail!("the turn did not end")
    };
    if let Err(problem) = server.check() {
        anyhow::bail!("the scripted model received a request that the API would refuse: {problem}");
    }
    let records = std::fs::read_to_string(&transcript).map_or(0, |text| text.lines().count());
    screen.line("");
    screen.line(&format!(
        "{} model calls, {} input and {} output tokens, {:.2} s. {records} records in the transcript.",
        result.num_turns,
        result.usage.total_input(),
        result.usage.output_tokens,
        result.duration.as_secs_f64(),
    ));
    let tests = Command::new("sh").argument(project.join("tests/run.sh"));
    let finished = lathe_process::run(Job::new(tests, TESTS_LIMIT)).await?;
    let passes = finished.ending == Ending::Exited(0);
    screen.line(if passes {
        "The sample project's tests pass now."
    } else {
        "The sample project's tests still fail."
    });
    if arguments.keep {
        let kept = folder.keep();
        screen.line(&format!("Kept: {}", kept.display()));
        screen.line(&format!("Transcript: {}", transcript.display()));
    }
    screen.line(
        "\nWith a key:  export ANTHROPIC_API_KEY=…  &&  lathe -p \"what does this project do?\"",
    );
    Ok(if passes && !result.is_error {
        Exit::Success
    } else {
        Exit::Failure
    })
}

fn write_project(project: &Path) -> std::io::Result<()> {
    for (name, content) in FILES {
        let path = project.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, content)?;
    }
    Ok(())
}

/// An environment of its own: the user's settings and sessions are not touched.
fn demo_environment(
    environment: &Environment,
    project: &Path,
    home: &Path,
    base_url: &str,
) -> Environment {
    let mut variables: BTreeMap<String, String> = ["PATH", "LANG", "LC_ALL", "TERM", "TMPDIR"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), environment.foreign(name)?.to_owned())))
        .collect();
    variables.insert("HOME".into(), home.display().to_string());
    variables.insert(
        "LATHE_CONFIG_DIR".into(),
        home.join("config").display().to_string(),
    );
    variables.insert("ANTHROPIC_BASE_URL".into(), base_url.to_owned());
    variables.insert("ANTHROPIC_API_KEY".into(), "demo".into());
    variables.insert("NO_PROXY".into(), "127.0.0.1".into());
    // The script keeps its list with TodoWrite: one call shows all of it.
    variables.insert("LATHE_ENABLE_TASKS".into(), "0".into());
    Environment {
        variables,
        home: Some(home.to_owned()),
        cwd: project.to_owned(),
        ..Environment::default()
    }
}

/// Prints the events of the session.
struct Screen {
    colour: bool,
    in_words: bool,
}

impl Screen {
    fn new(environment: &Environment) -> Self {
        let coloured = environment.get(Variable::NoColor).is_none();
        let colour = coloured && std::io::stdout().is_terminal();
        Self {
            colour,
            in_words: false,
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn line(&mut self, text: &str) {
        self.end_words();
        let _ = writeln!(std::io::stdout(), "{text}");
    }

    fn introduction(&mut self, project: &Path) {
        self.line(&format!(
            "A sample project with a failing test is in {}.",
            project.display()
        ));
        self.line("A scripted model on loopback takes the place of the model; engine, tools, permissions and transcript are real.");
        self.line(&format!(
            "Allowed: edits inside the project, and Bash({TEST_COMMAND}). Other calls need confirmation, and there is no user to confirm them.\n"
        ));
        let mark = self.paint("1", "❯");
        self.line(&format!("{mark} {PROMPT}\n"));
    }

    fn words(&mut self, text: &str) {
        self.in_words = true;
        let mut out = std::io::stdout();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    fn end_words(&mut self) {
        if std::mem::take(&mut self.in_words) {
            let _ = writeln!(std::io::stdout());
        }
    }

    fn show(&mut self, event: &Event) {
        match event {
            Event::Stream { event, .. } => {
                if let StreamEvent::ContentBlockDelta {
                    delta: Delta::TextDelta { text },
                    ..
                } = &event.event
                {
                    self.words(text);
                }
            }
            Event::CallStarted {
                tool_name,
                activity,
                ..
            } => {
                let mark = self.paint("36", "●");
                let name = self.paint("1", tool_name);
                self.line(&format!("{mark} {name}  {activity}"));
            }
            Event::CallFinished {
                display, is_error, ..
            } => self.result(display, *is_error),
            Event::Record { record, .. } => self.end_message(record),
            Event::PermissionDenied { denial, reason, .. } => {
                let mark = self.paint("31", "✗");
                let command = denial
                    .tool_input
                    .get("command")
                    .and_then(|it| it.as_str())
                    .unwrap_or("");
                self.line(&format!(
                    "{mark} {} {command}  refused: {reason}",
                    denial.tool_name
                ));
            }
            Event::TurnFinished(_) => self.end_words(),
            _ => {}
        }
    }

    /// Ends the line of streamed text when its message is complete.
    fn end_message(&mut self, record: &MessageRecord) {
        if record.kind == RecordKind::Assistant {
            let has_text = record.message.as_ref().is_some_and(|message| {
                message
                    .blocks()
                    .iter()
                    .any(|block| matches!(block, ContentBlock::Text(_)))
            });
            if has_text {
                self.end_words();
            }
        }
    }

    fn result(&mut self, display: &Display, is_error: bool) {
        match display {
            Display::Terminal { output, exit_code } => {
                for line in output.lines() {
                    let line = self.paint("2", line);
                    self.line(&format!("    {line}"));
                }
                if let Some(code) = exit_code
                    && *code != 0
                {
                    let code = self.paint("31", &format!("exit code {code}"));
                    self.line(&format!("    {code}"));
                }
            }
            Display::Diff { hunks, .. } => {
                for line in hunks.iter().flat_map(|hunk| &hunk.lines) {
                    let painted = match line.as_bytes().first() {
                        Some(b'+') => self.paint("32", line),
                        Some(b'-') => self.paint("31", line),
                        _ => self.paint("2", line),
                    };
                    self.line(&format!("    {painted}"));
                }
            }
            Display::Todos { items } => {
                for item in items {
                    let mark = match item.status {
                        TodoStatus::Completed => "☒",
                        TodoStatus::InProgress => "▶",
                        TodoStatus::Pending => "☐",
                        TodoStatus::Failed => "✗",
                        TodoStatus::Cancelled => "⊘",
                    };
                    self.line(&format!("    {mark} {}", item.content));
                }
            }
            Display::File { line_count, .. } => self.line(&format!("    {line_count} lines")),
            Display::FileList { paths, .. } => {
                for path in paths {
                    self.line(&format!("    {path}"));
                }
            }
            Display::Text { text } if !is_error => {
                for line in text.lines().take(12) {
                    let line = self.paint("2", line);
                    self.line(&format!("    {line}"));
                }
            }
            _ => {}
        }
    }
}
