//! Bash, TaskOutput and TaskStop as the model calls them: by name or alias, with JSON, against a
//! real shell.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(clippy::unwrap_used, reason = "helpers of tests assert too")]

use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::display::Display;
use lathe_protocol::ids::{RecordId, SessionId, ToolUseId};
use lathe_protocol::permission::Subject;
use lathe_tools::bash::Bash;
use lathe_tools::context::{CallContext, ProgressSink, ToolContext};
use lathe_tools::task_output::TaskOutput;
use lathe_tools::task_stop::TaskStop;
use lathe_tools::{CallTraits, ToolError, ToolOutput, ToolRegistry};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

struct Fixture {
    folder: tempfile::TempDir,
    tools: ToolRegistry,
    session: Arc<ToolContext>,
    progress: Arc<Mutex<Vec<Display>>>,
    cancel: CancellationToken,
    to_background: CancellationToken,
}

impl Fixture {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().canonicalize().unwrap().join("work");
        std::fs::create_dir(&work).unwrap();
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
        let home = folder.path().to_string_lossy().into_owned();
        let mut environment = BTreeMap::from([
            ("PATH".to_owned(), path),
            ("HOME".to_owned(), home),
            ("SHELL".to_owned(), "/bin/bash".to_owned()),
        ]);
        for (name, value) in variables {
            environment.insert((*name).to_owned(), (*value).to_owned());
        }
        let session = ToolContext::new(
            SessionId::random(),
            folder.path().to_path_buf(),
            work.clone(),
            vec![work],
            folder.path().join("results"),
            Arc::new(|_| false),
            environment,
        );
        let mut tools = ToolRegistry::new();
        tools.add(Bash {
            can_leave_sandbox: true,
        });
        tools.add(TaskOutput);
        tools.add(TaskStop);
        Self {
            folder,
            tools,
            session: Arc::new(session),
            progress: Arc::default(),
            cancel: CancellationToken::new(),
            to_background: CancellationToken::new(),
        }
    }

    fn work(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("work")
    }

    async fn call(&self, name: &str, input: Value) -> Result<ToolOutput, ToolError> {
        let tool = Arc::clone(self.tools.find(name).unwrap());
        let prepared = tool.prepare(input, &self.session)?;
        prepared.validate(&self.session).await?;
        let progress = Arc::clone(&self.progress);
        let context = CallContext {
            session: Arc::clone(&self.session),
            tool_use_id: ToolUseId::from(format!("toolu_{}", RecordId::random())),
            turn: RecordId::random(),
            cancel: self.cancel.clone(),
            to_background: self.to_background.clone(),
            progress: ProgressSink::new(move |display| progress.lock().unwrap().push(display)),
            sandbox: None,
            confinement: None,
        };
        tokio::time::timeout(Duration::from_secs(60), prepared.call(context))
            .await
            .unwrap()
    }

    async fn bash(&self, command: &str) -> ToolOutput {
        self.call("Bash", json!({"command": command}))
            .await
            .unwrap()
    }

    fn traits(&self, command: &str) -> CallTraits {
        let tool = Arc::clone(self.tools.find("Bash").unwrap());
        tool.prepare(json!({"command": command}), &self.session)
            .unwrap()
            .traits()
    }
}

fn text(output: &ToolOutput) -> String {
    output.content.text()
}

#[tokio::test(flavor = "multi_thread")]
async fn output_code_and_structure_reach_everyone() {
    let fixture = Fixture::new();
    let output = fixture.bash("echo out; echo err >&2").await;
    assert_eq!(text(&output), "out\nerr");
    assert!(!output.is_error);
    assert_eq!(
        output.structured,
        json!({"stdout": "out\nerr", "stderr": "", "interrupted": false, "isImage": false})
    );
    assert_eq!(
        output.display,
        Display::Terminal {
            output: "out\nerr".to_owned(),
            exit_code: Some(0)
        }
    );
    assert_eq!(text(&fixture.bash("true").await), "(no output)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_an_error_result_with_code_and_output() {
    let fixture = Fixture::new();
    let output = fixture.bash("echo why; exit 3").await;
    assert!(output.is_error);
    assert_eq!(text(&output), "Exit code 3\nwhy");
    let output = fixture.bash("nosuchprogram").await;
    assert!(output.is_error && text(&output).starts_with("Exit code 127 (Command not found)\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_by_exit_code_is_no_failure() {
    let fixture = Fixture::new();
    let output = fixture.bash("echo a | grep b").await;
    assert!(!output.is_error);
    assert_eq!(text(&output), "Exit code 1 (No matches found)");
    assert_eq!(
        output.structured["returnCodeInterpretation"],
        "No matches found"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_working_folder_carries_over_and_stays_inside_the_roots() {
    let fixture = Fixture::new();
    fixture.bash("mkdir sub; cd sub").await;
    assert_eq!(
        *fixture.session.working_folder.read(),
        fixture.work().join("sub")
    );
    assert_eq!(
        text(&fixture.bash("pwd -P").await),
        fixture.work().join("sub").to_string_lossy()
    );
    let output = fixture.bash("cd /").await;
    assert!(
        text(&output).contains("outside the folders of this session"),
        "{}",
        text(&output)
    );
    assert_eq!(
        *fixture.session.working_folder.read(),
        fixture.work().join("sub")
    );
    let output = fixture.bash("rmdir ../sub").await;
    assert!(
        text(&output).contains("no longer exists"),
        "{}",
        text(&output)
    );
    assert_eq!(*fixture.session.working_folder.read(), fixture.work());
}

#[tokio::test(flavor = "multi_thread")]
async fn long_output_is_cut_in_the_middle_and_saved_whole() {
    let fixture = Fixture::with(&[("BASH_MAX_OUTPUT_LENGTH", "1000")]);
    let output = fixture.bash("seq 10000").await;
    let shown = text(&output);
    assert!(shown.starts_with("1\n2\n") && shown.ends_with("\n10000") && shown.len() < 1_500);
    let saved: Vec<_> = std::fs::read_dir(fixture.folder.path().join("results"))
        .unwrap()
        .flatten()
        .collect();
    assert_eq!(saved.len(), 1);
    assert!(shown.contains(saved[0].path().to_str().unwrap()), "{shown}");
    let whole = std::fs::read_to_string(saved[0].path()).unwrap();
    assert_eq!(whole.lines().count(), 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_command_is_read_and_stopped_by_any_of_the_names() {
    let fixture = Fixture::new();
    let input = json!({"command": "printf 'up\\nnoise\\n'; sleep 1000", "run_in_background": true});
    let started = fixture.call("Bash", input).await.unwrap();
    let id = started.structured["backgroundTaskId"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(text(&started).contains(&id));
    let mut seen = String::new();
    while !seen.contains("up") {
        let input = json!({"bash_id": id, "filter": "^u"});
        let output = fixture.call("BashOutput", input).await.unwrap();
        assert_eq!(output.structured["task"]["status"], "running");
        assert_eq!(output.structured["retrieval_status"], "not_ready");
        seen.push_str(&text(&output));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!seen.contains("noise"), "{seen}");
    let output = fixture
        .call("TaskOutput", json!({"task_id": id}))
        .await
        .unwrap();
    assert!(text(&output).contains("No new output"), "{}", text(&output));
    fixture
        .call("KillShell", json!({"shell_id": id}))
        .await
        .unwrap();
    let error = fixture
        .call("TaskStop", json!({"task_id": id}))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("is no longer running"),
        "{error}"
    );
    let output = fixture
        .call("TaskOutput", json!({"task_id": id}))
        .await
        .unwrap();
    assert_eq!(output.structured["task"]["status"], "killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_task_ends_with_the_task_or_the_limit() {
    let fixture = Fixture::new();
    let start = |command: &str| {
        fixture.call(
            "Bash",
            json!({"command": command, "run_in_background": true}),
        )
    };
    let quick = start("sleep 0.1; echo done; exit 2").await.unwrap();
    let id = quick.structured["backgroundTaskId"].clone();
    let output = fixture
        .call("TaskOutput", json!({"task_id": id, "block": true}))
        .await
        .unwrap();
    assert!(text(&output).contains("exit code 2") && text(&output).ends_with("\ndone"));
    assert_eq!(output.structured["task"]["exitCode"], 2);
    assert_eq!(output.structured["retrieval_status"], "success");
    let slow = start("sleep 1000").await.unwrap();
    let id = slow.structured["backgroundTaskId"].clone();
    let input = json!({"task_id": id, "block": true, "timeout": 50});
    let output = fixture.call("TaskOutput", input).await.unwrap();
    assert_eq!(output.structured["retrieval_status"], "timeout");
    fixture.session.shell.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_limit_moves_a_command_into_the_background() {
    let fixture = Fixture::new();
    let input = json!({"command": "echo first; sleep 1000", "timeout": 200});
    let output = fixture.call("Bash", input).await.unwrap();
    assert!(!output.is_error);
    let id = output.structured["backgroundTaskId"].as_str().unwrap();
    assert!(
        text(&output).contains(id) && text(&output).ends_with("\nfirst"),
        "{}",
        text(&output)
    );
    fixture
        .call("TaskStop", json!({"task_id": id}))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_background_the_time_limit_ends_a_command() {
    let fixture = Fixture::with(&[
        ("LATHE_DISABLE_BACKGROUND_TASKS", "1"),
        ("BASH_DEFAULT_TIMEOUT_MS", "200"),
        ("BASH_MAX_TIMEOUT_MS", "300"),
    ]);
    let input = json!({"command": "echo first; sleep 1000", "timeout": 600_000});
    let output = fixture.call("Bash", input).await.unwrap();
    assert!(output.is_error);
    assert!(text(&output).contains("0.3 s") && text(&output).ends_with("first"));
    assert_eq!(output.structured["interrupted"], true);
    let input = json!({"command": "true", "run_in_background": true});
    let error = fixture.call("Bash", input).await.unwrap_err();
    assert!(
        error.to_string().contains("LATHE_DISABLE_BACKGROUND_TASKS"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_command_says_so_with_what_it_printed() {
    let fixture = Fixture::new();
    let ready = fixture.work().join("ready");
    let (output, ()) = tokio::join!(fixture.bash("echo some; touch ready; sleep 1000"), async {
        while !ready.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        fixture.cancel.cancel();
    });
    assert!(output.is_error);
    assert!(text(&output).contains("cancelled") && text(&output).ends_with("some"));
    assert_eq!(output.structured["interrupted"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_can_send_it_into_the_background() {
    let fixture = Fixture::new();
    let ready = fixture.work().join("ready");
    let (output, ()) = tokio::join!(fixture.bash("touch ready; sleep 1000"), async {
        while !ready.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        fixture.to_background.cancel();
    });
    assert!(!output.is_error);
    assert!(text(&output).ends_with("(no output)"), "{}", text(&output));
    let id = output.structured["backgroundTaskId"].clone();
    fixture
        .call("TaskStop", json!({"task_id": id}))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_left_running_is_named() {
    let fixture = Fixture::new();
    let output = fixture.bash("sleep 1000 & echo started").await;
    assert!(!output.is_error);
    let text = text(&output);
    assert!(
        text.contains("sleep 1000") && text.contains("run_in_background"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_as_a_data_url_is_an_image() {
    let fixture = Fixture::with(&[("BASH_MAX_OUTPUT_LENGTH", "100")]);
    let data = "iVBORw0KGgo".repeat(40);
    let output = fixture
        .bash(&format!("echo 'data:image/png;base64,{data}'"))
        .await;
    assert_eq!(output.structured["isImage"], true);
    assert_eq!(
        output.content,
        Content::Blocks(vec![ContentBlock::image("image/png", data)])
    );
    let output = fixture.bash("echo 'data:image/png;base64,!!'").await;
    assert_eq!(output.structured["isImage"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_shown_while_it_runs() {
    let fixture = Fixture::new();
    // It ends when its progress was seen, however long that takes.
    let (progress, seen) = (fixture.progress.clone(), fixture.folder.path().join("seen"));
    let watching = std::thread::spawn(move || {
        while progress.lock().unwrap().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::write(seen, "").unwrap();
    });
    let seen = fixture.folder.path().join("seen").display().to_string();
    fixture
        .bash(&format!(
            "echo working; while [ ! -e '{seen}' ]; do sleep 0.02; done"
        ))
        .await;
    watching.join().unwrap();
    let progress = fixture.progress.lock().unwrap();
    let Some(Display::Terminal {
        output,
        exit_code: None,
    }) = progress.first()
    else {
        panic!("{progress:?}")
    };
    assert!(
        output.starts_with("working\n(") && output.ends_with(" s, 8 bytes)"),
        "{output}"
    );
}

#[test]
fn only_plain_reads_may_run_beside_others() {
    let fixture = Fixture::new();
    assert!(fixture.traits("ls -l src").concurrency_safe);
    assert!(fixture.traits("git status && cat README.md").read_only);
    for command in [
        "cd src",
        "cd src && ls",
        "rm x",
        "ls > out",
        "eval ls",
        "cargo test",
    ] {
        assert!(!fixture.traits(command).concurrency_safe, "{command}");
    }
    assert!(fixture.traits("ls").failure_cancels_siblings);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused_in_words() {
    let fixture = Fixture::new();
    for (tool, input, words) in [
        ("Bash", json!({"command": "  "}), "command is empty"),
        ("Bash", json!({"command": "true", "time_out": 5}), "timeout"),
        (
            "TaskOutput",
            json!({"task_id": "bash_1"}),
            "There is no background task",
        ),
        (
            "TaskOutput",
            json!({"task_id": "bash_1", "filter": "("}),
            "filter",
        ),
        ("TaskStop", json!({}), "task_id"),
    ] {
        let error = fixture.call(tool, input).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(
        text(
            &fixture
                .call("Bash", json!({"command": "echo 1", "timeout": "5000"}))
                .await
                .unwrap()
        ),
        "1"
    );
}

#[test]
fn the_subject_is_the_command_where_it_would_run() {
    let fixture = Fixture::new();
    let tool = Arc::clone(fixture.tools.find("Bash").unwrap());
    let input = json!({"command": "ls", "dangerouslyDisableSandbox": true});
    let subject = tool
        .prepare(input, &fixture.session)
        .unwrap()
        .subject(&fixture.session);
    assert_eq!(
        subject,
        Subject::Shell {
            command: "ls".to_owned(),
            cwd: fixture.work(),
            unsandboxed: true
        }
    );
}

#[test]
fn descriptions_are_short() {
    let fixture = Fixture::new();
    for definition in fixture.tools.definitions() {
        let most = if definition.name == "Bash" {
            1_200
        } else {
            400
        };
        assert!(definition.description.len() <= most, "{}", definition.name);
    }
}
