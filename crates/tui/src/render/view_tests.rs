//! Every view at 40, 80 and 160 columns, as text. The pictures are in `views/`; a change of looks is
//! made visible there (`LATHE_UPDATE_VIEWS=1 cargo test -p lathe-tui` rewrites them).

use crate::app::App;
use crate::app::notices::{Notice, Priority};
use crate::app::queue::QueuedPrompt;
use crate::app::session_status::Retry;
use crate::layers::{Form, Item, Layer as _, PendingQuestion, PermissionDialog, Picker, Purpose};
use crate::prompt::completion::{Completion, CompletionPlace, Wanted};
use crate::render::cell::{self, Call, CallState, Cell, Fold};
use crate::render::markdown::Look;
use crate::render::style::Line;
use crate::render::theme::Theme;
use crate::terminal::key::keys;
use lathe_engine::SessionOptions;
use lathe_protocol::display::{Display, TodoItem, TodoStatus};
use lathe_protocol::elicitation::{ElicitationKind, ElicitationRequest};
use lathe_protocol::event::NoticeLevel;
use lathe_protocol::ids::RecordId;
use lathe_protocol::op::Prompt;
use lathe_protocol::permission::{
    Behavior, PermissionMode, PermissionRequest, PermissionUpdate, RuleSource, RuleValue,
};
use lathe_settings::Environment;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) fn app(columns: usize, rows: usize) -> App {
    let environment = Environment {
        variables: [("TERM".to_owned(), "xterm-256color".to_owned())].into(),
        home: Some(PathBuf::from("/nowhere/home")),
        cwd: PathBuf::from("/work/project"),
        ..Environment::default()
    };
    let mut app = App::new(environment, SessionOptions::default(), None);
    app.screen.columns = columns;
    app.screen.rows = rows;
    app.session.model = "claude-test".to_owned();
    app.session.branch = Some("main".to_owned());
    app
}

fn text(lines: &[Line]) -> String {
    let mut text: String = lines
        .iter()
        .map(|line| format!("{}\n", line.text().trim_end()))
        .collect();
    while text.ends_with("\n\n") {
        text.pop();
    }
    text
}

/// Compares a view with its picture, and holds every line to the width.
#[expect(clippy::disallowed_methods, reason = "a switch for the tests alone")]
pub(crate) fn check(name: &str, render: impl Fn(usize) -> Vec<Line>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/render/views");
    for columns in [40, 80, 160] {
        let lines = render(columns);
        let shown = text(&lines);
        let file = folder.join(format!("{name}-{columns}.txt"));
        if std::env::var_os("LATHE_UPDATE_VIEWS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &shown).unwrap();
        }
        let picture = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(shown, picture, "{name} at {columns} columns");
    }
}

pub(crate) fn frame(name: &str, rows: usize, prepare: impl Fn(&mut App)) {
    check(name, |columns| {
        let mut app = app(columns, rows);
        prepare(&mut app);
        let frame = crate::render::live::frame(&app);
        assert!(
            frame.live.len() < rows,
            "{name}: {} rows of {rows}",
            frame.live.len()
        );
        for line in &frame.live {
            assert!(
                line.width() < columns,
                "{name} at {columns}: {:?}",
                line.text()
            );
        }
        assert!(frame.cursor.row < frame.live.len().max(1) && frame.cursor.column < columns);
        frame.live
    });
}

fn cells(name: &str, cell: &Cell, fold: Fold) {
    check(name, |columns| {
        let theme = Theme::built_in("dark", false);
        cell::lines(
            cell,
            Look {
                theme: &theme,
                columns: columns - 1,
                keys: crate::prompt::keymap::Keymap::standard(),
            },
            fold,
            Path::new("/work/project"),
        )
    });
}

fn call(tool: &str, input: Value, state: CallState, display: Display) -> Call {
    Call {
        id: "toolu_1".into(),
        tool: tool.to_owned(),
        input,
        activity: String::new(),
        state,
        display,
        elapsed: Duration::from_secs(3),
    }
}

pub(crate) fn request(
    tool: &str,
    input: Value,
    suggestions: Vec<PermissionUpdate>,
) -> Arc<PermissionRequest> {
    Arc::new(PermissionRequest {
        request_id: "r1".into(),
        permission_suggestions: suggestions,
        decision_reason: Some("`rm -r build`: rm may change things".to_owned()),
        description: Some("Clean the build folder and run the tests".to_owned()),
        ..PermissionRequest::new(tool, input, "toolu_1".into())
    })
}

pub(crate) fn question() -> Arc<PermissionRequest> {
    request("Bash", json!({"command": "ls"}), Vec::new())
}

fn rule() -> PermissionUpdate {
    PermissionUpdate::AddRules {
        rules: vec![RuleValue {
            tool_name: "Bash".into(),
            rule_content: Some("cargo test:*".into()),
        }],
        behavior: Behavior::Allow,
        destination: RuleSource::LocalSettings,
    }
}

#[test]
fn the_prompt() {
    frame("prompt-empty", 24, |_| {});
    frame("prompt-text", 24, |app| {
        app.prompt.editor.set_text("Fix the failing test in the parser, then run everything again and tell me what was wrong.\nSecond line.");
    });
    frame("prompt-long", 12, |app| {
        app.prompt.editor.set_text(&"many words ".repeat(120));
    });
    frame("prompt-shell", 24, |app| {
        app.prompt.editor.set_text("!git status");
    });
    frame("prompt-memory", 24, |app| {
        app.prompt.editor.set_text("# always use tabs");
    });
    frame("prompt-help", 24, |app| app.layers.toggle_help());
    frame("prompt-leave", 24, |app| {
        app.alarms.hint = Some((
            "press ctrl+c again to exit",
            Instant::now() + Duration::from_secs(9),
        ));
    });
    frame("prompt-notice", 24, |app| {
        let words = "9% of the context window is left; /compact frees space.";
        let notice = Notice::new("context", Priority::High, words);
        app.alarms.notices.add(notice);
    });
    frame("prompt-stash", 24, |app| {
        app.prompt.stash = Some("later".to_owned());
    });
    frame("prompt-vim", 24, |app| {
        let mut vim = crate::prompt::editor::vim::Vim::default();
        app.prompt.editor.set_text("some words here");
        for key in keys("<esc>bv") {
            vim.key(key, &mut app.prompt.editor);
        }
        app.prompt.vim = Some(vim);
    });
    frame("prompt-status-line", 24, |app| {
        app.status_line.text = Some("my own \x1b[31mstatus".to_owned());
    });
}

#[test]
fn the_modes() {
    for mode in PermissionMode::ALL {
        frame(&format!("mode-{mode}"), 24, |app| app.session.mode = mode);
    }
}

#[test]
fn the_turn() {
    let todos = vec![
        TodoItem {
            content: "Read the parser".into(),
            status: TodoStatus::Completed,
            active_form: "Reading the parser".into(),
            ..TodoItem::default()
        },
        TodoItem {
            content: "Fix it".into(),
            status: TodoStatus::InProgress,
            active_form: "Fixing the thing that is broken in the parser, wherever that may be"
                .into(),
            owner: Some("reviewer".into()),
            ..TodoItem::default()
        },
        TodoItem {
            content: "Run the tests".into(),
            active_form: "Running the tests".into(),
            waits_for: vec!["Fix it".into()],
            ..TodoItem::default()
        },
        TodoItem {
            content: "Publish it".into(),
            status: TodoStatus::Failed,
            ..TodoItem::default()
        },
        TodoItem {
            content: "Translate it".into(),
            status: TodoStatus::Cancelled,
            ..TodoItem::default()
        },
    ];
    frame("turn-waiting", 24, |app| {
        app.look.reduced_motion = true;
        app.session.turn.began = Some(Instant::now());
    });
    frame("turn-todos", 24, |app| {
        app.look.reduced_motion = true;
        app.session.turn.began = Some(Instant::now());
        app.conversation.todos.clone_from(&todos);
    });
    frame("turn-agents", 24, |app| {
        app.look.reduced_motion = true;
        app.session.turn.began = Some(Instant::now());
        for (id, description) in [
            ("a", "Look for callers of the parser"),
            ("b", "Read the history"),
            ("c", "Count the callers"),
        ] {
            app.session
                .agents
                .push(crate::app::session_status::RunningAgent {
                    id: id.to_owned(),
                    description: description.to_owned(),
                    last_tool: Some("Grep".to_owned()),
                    tokens: 12_345,
                    calls: 7,
                    cost: 0.031,
                    kind: "general-purpose".to_owned(),
                    parent: (id == "c").then(|| "a".to_owned()),
                    began: Instant::now(),
                    color: None,
                });
        }
    });
    frame("turn-retry", 24, |app| {
        app.look.reduced_motion = true;
        app.session.turn.began = Some(Instant::now());
        app.session.turn.retry = Some(Retry {
            until: Instant::now() + Duration::from_millis(4_900),
            attempt: 2,
            max: 10,
            error: "API Error: 529 Overloaded".to_owned(),
        });
    });
    frame("turn-queued", 24, |app| {
        app.look.reduced_motion = true;
        app.session.turn.began = Some(Instant::now());
        app.queue.prompts.push(QueuedPrompt {
            uuid: RecordId::random(),
            text: "and also look at the other file, the one\nthat nobody ever reads".to_owned(),
            prompt: Prompt::new("x"),
            attachments: Vec::new(),
            after_turn: false,
            waits: true,
            sent: true,
            after: 0,
        });
        app.queue.commands.push(("clear".to_owned(), String::new()));
    });
    frame("turn-streaming", 24, |app| {
        app.look.reduced_motion = true;
        app.session.turn.began = Some(Instant::now());
        app.with_look(|conversation, look| {
            conversation.stream(&serde_json::from_str(r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#).unwrap(), look);
            conversation.stream(&serde_json::from_str(r##"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"The reason is simple: the *tokenizer* forgets the last character of every line that ends in a backslash"}}"##).unwrap(), look);
        });
    });
    frame("turn-command", 24, |app| {
        app.look.reduced_motion = true;
        app.session.turn.began = Some(Instant::now());
        app.with_look(|conversation, look| {
            conversation.call_started(&"toolu_1".into(), "Bash", "Running cargo test", look);
            conversation.call_progress(
                &"toolu_1".into(),
                Display::Terminal {
                    output: "running 12 tests\ntest a ... ok\ntest b ... ok\n".into(),
                    exit_code: None,
                },
                Duration::from_secs(1),
            );
        });
    });
}

#[test]
fn the_dialogs() {
    let bash = json!({"command": "cd crates && rm -r build; cargo test --workspace --all-features -- --nocapture some_test_name"});
    frame("permission-command", 24, |app| {
        app.layers.open(PermissionDialog::new(
            request("Bash", bash.clone(), vec![rule()]),
            Path::new("/work/project"),
        ));
    });
    frame("permission-small", 12, |app| {
        app.layers.open(PermissionDialog::new(
            request("Bash", bash.clone(), vec![rule()]),
            Path::new("/work/project"),
        ));
    });
    frame("permission-read", 24, |app| {
        let input = json!({"file_path": "/etc/hostname"});
        app.layers.open(PermissionDialog::new(
            request("Read", input, Vec::new()),
            Path::new("/work/project"),
        ));
    });
    frame("permission-rule", 24, |app| {
        let mut dialog = PermissionDialog::new(
            request("Bash", bash.clone(), vec![rule()]),
            Path::new("/work/project"),
        );
        for key in keys("e") {
            dialog.key(key);
        }
        app.layers.open(dialog);
    });
    frame("permission-reason", 24, |app| {
        let mut dialog = PermissionDialog::new(
            request("Bash", bash.clone(), Vec::new()),
            Path::new("/work/project"),
        );
        for key in keys("duse another folder") {
            dialog.key(key);
        }
        app.layers.open(dialog);
    });
    frame("permission-typing", 24, |app| {
        app.prompt.editor.set_text("half a prompt");
        let mut dialog = PermissionDialog::new(
            request("Bash", bash.clone(), vec![rule()]),
            Path::new("/work/project"),
        );
        dialog.armed = false;
        app.layers.open(dialog);
    });
    frame("permission-write", 16, |app| {
        let content: String = (1..40).map(|n| format!("line {n}\n")).collect();
        let input = json!({"file_path": "/nowhere/at/all.rs", "content": content});
        app.layers.open(PermissionDialog::new(
            request(
                "Write",
                input,
                vec![PermissionUpdate::SetMode {
                    mode: PermissionMode::AcceptEdits,
                    destination: RuleSource::Session,
                }],
            ),
            Path::new("/work/project"),
        ));
    });
    frame("permission-host", 24, |app| {
        let input = json!({"url": "https://example.com:80/", "prompt": "A command."});
        let mut request = PermissionRequest::clone(&request("WebFetch", input, vec![rule()]));
        request.display_name = Some(lathe_protocol::permission::NETWORK.to_owned());
        request.description = None;
        app.layers.open(PermissionDialog::new(
            Arc::new(request),
            Path::new("/work/project"),
        ));
    });
    frame("permission-other", 24, |app| {
        let input = json!({"city": "Oslo", "days": 3});
        app.layers.open(PermissionDialog::new(
            request("mcp__weather__forecast", input, Vec::new()),
            Path::new("/work/project"),
        ));
    });
    frame("prompt-warnings", 24, |app| {
        app.session.context_left = Some(crate::app::session_status::ContextLeft {
            percent: 9,
            is_little: true,
        });
    });
    frame("picker", 14, |app| {
        let items = (0..30)
            .map(|n| {
                Item::new(
                    n.to_string(),
                    format!("Session about topic number {n}"),
                    format!("{n} h ago · main"),
                )
            })
            .collect();
        app.layers.open(
            Picker::new(Purpose::Resume, "Resume a session", items)
                .filterable()
                .with_key('a', "all folders"),
        );
    });
    frame("picker-filtered", 14, |app| {
        let items = (0..30)
            .map(|n| {
                Item::new(
                    n.to_string(),
                    format!("Session about topic number {n}"),
                    format!("{n} h ago"),
                )
            })
            .collect();
        let mut picker = Picker::new(Purpose::Resume, "Resume a session", items).filterable();
        for key in keys("29") {
            picker.key(key);
        }
        app.layers.open(picker);
    });
    frame("picker-choices", 24, |app| {
        let items = crate::render::theme::BUILT_IN
            .iter()
            .map(|(name, what)| Item::new(*name, *name, *what))
            .collect();
        app.layers
            .open(Picker::new(Purpose::Theme, "Theme", items).marked("light"));
    });
    frame("form", 24, |app| {
        app.layers.open(Form::new(
            Purpose::Rename,
            "A title for this session",
            "Parser",
        ));
    });
    frame("completion", 24, |app| {
        app.prompt.editor.set_text("/co");
        let offers =
            crate::prompt::completion::command_offers(&crate::commands::registry(app), "co");
        app.layers.set_completion(Some(Completion {
            place: CompletionPlace {
                wanted: Wanted::Command("co".into()),
                start: 0,
                end: 3,
            },
            offers,
            selected: 1,
        }));
    });
}

#[test]
fn the_cells() {
    cells("cell-user", &Cell::User("Fix the failing test in the parser, then run everything again and tell me what was wrong.\nThanks.".into()), Fold::Folded);
    cells(
        "cell-answer",
        &Cell::Assistant("# Findings\n\nThe *tokenizer* forgets the last character of every line that ends in a `\\`. See [the page](https://example.com).\n\n1. first\n2. second\n   - nested\n\n> quoted words\n\n```rust\nfn main() {\n    println!(\"{}\", 42); // answer\n}\n```\n\n| file | change | why |\n|---|---:|---|\n| parser.rs | +3 | it was wrong in more ways than one, and nobody had seen it |\n\n- [x] done".into()),
        Fold::Folded,
    );
    let thinking = Cell::Thinking {
        text: "First I think about it.\nThen I think some more about all of it, at length.".into(),
        took: Duration::from_secs(4),
    };
    cells("cell-thinking", &thinking, Fold::Folded);
    cells("cell-thinking-unfolded", &thinking, Fold::Unfolded);
    let output: String = (1..=20)
        .map(|n| format!("test number_{n} ... ok\n"))
        .collect();
    let bash = Cell::Call(call(
        "Bash",
        json!({"command": "cargo test --workspace --all-features -- --nocapture"}),
        CallState::Done,
        Display::Terminal {
            output,
            exit_code: Some(0),
        },
    ));
    cells("cell-command", &bash, Fold::Folded);
    cells("cell-command-unfolded", &bash, Fold::Unfolded);
    cells(
        "cell-command-failed",
        &Cell::Call(call(
            "Bash",
            json!({"command": "false"}),
            CallState::Failed,
            Display::Terminal {
                output: "no such file\n".into(),
                exit_code: Some(1),
            },
        )),
        Fold::Folded,
    );
    let questions =
        json!({"questions": [{"question": "Which store?"}, {"question": "Which checks?"}]});
    let refused = "The user refused this and said: not now";
    cells(
        "cell-asked",
        &Cell::Call(call(
            "AskUserQuestion",
            questions,
            CallState::Failed,
            Display::Text {
                text: refused.into(),
            },
        )),
        Fold::Folded,
    );
    cells(
        "cell-todos",
        &Cell::Call(call(
            "TodoWrite",
            json!({"todos": []}),
            CallState::Done,
            Display::Todos { items: Vec::new() },
        )),
        Fold::Folded,
    );
    let pasted: String = (1..=60).map(|n| format!("pasted line {n}\n")).collect();
    cells("cell-pasted", &Cell::User(pasted), Fold::Folded);
    let hunks = crate::render::diff::hunks(
        "fn a() {\n    let x = 1;\n}\n",
        "fn a() {\n    let x = 2;\n    let y = x;\n}\n",
    );
    cells(
        "cell-diff",
        &Cell::Call(call(
            "Edit",
            json!({"file_path": "/work/project/src/a.rs"}),
            CallState::Done,
            Display::Diff {
                path: "/work/project/src/a.rs".into(),
                hunks,
            },
        )),
        Fold::Folded,
    );
    let read = |name: &str| {
        call(
            "Read",
            json!({"file_path": format!("/work/project/src/{name}.rs")}),
            CallState::Done,
            Display::File {
                path: name.into(),
                start_line: 1,
                line_count: 10,
                total_lines: 100,
            },
        )
    };
    let run = Cell::Run(vec![
        read("a"),
        read("b"),
        call(
            "Grep",
            json!({"pattern": "fn main"}),
            CallState::Done,
            Display::FileList {
                paths: vec!["src/a.rs".into()],
                truncated: false,
            },
        ),
    ]);
    cells("cell-run", &run, Fold::Folded);
    cells("cell-run-unfolded", &run, Fold::Unfolded);
    cells(
        "cell-refused",
        &Cell::Call(call(
            "Bash",
            json!({"command": "rm -rf /"}),
            CallState::Refused,
            Display::Text {
                text: "a rule denies it".into(),
            },
        )),
        Fold::Folded,
    );
    cells(
        "cell-table",
        &Cell::Call(call(
            "Grep",
            json!({"pattern": "x"}),
            CallState::Done,
            Display::Table {
                columns: vec!["file".into(), "count".into()],
                rows: vec![vec!["a.rs".into(), "3".into()]],
            },
        )),
        Fold::Unfolded,
    );
    cells(
        "cell-shell",
        &Cell::Shell {
            command: "git status\ngit log".into(),
            output: "clean\n".into(),
            exit_code: Some(2),
        },
        Fold::Folded,
    );
    cells("cell-warning", &Cell::Notice { level: NoticeLevel::Warning, text: "Something is not as it should be, and this line is long enough to wrap in a narrow terminal.".into() }, Fold::Folded);
    cells(
        "cell-remark",
        &Cell::Remark("── the conversation was summarised ──".into()),
        Fold::Folded,
    );
}

/// A question that came by itself, after some keys.
fn ask(app: &mut App, waiting: PendingQuestion, pressed: &str) {
    app.layers.ask(waiting);
    app.layers
        .show_next_question(false, Path::new("/work/project"));
    let dialog = app.layers.dialog_mut().unwrap();
    for key in keys(pressed) {
        dialog.key(key);
    }
}

#[test]
fn the_plan() {
    let plan = "# Plan\n\n1. Read the **parser**\n2. Fix it\n3. Test it";
    let asked = |plan: &str| {
        PendingQuestion::Permission(request(
            "ExitPlanMode",
            json!({"plan": plan, "planFilePath": "/work/plans/a.md"}),
            Vec::new(),
        ))
    };
    frame("plan", 24, |app| ask(app, asked(plan), ""));
    frame("plan-review", 24, |app| {
        ask(app, asked(plan), "h<tab>n<tab>cwhich tests?\n");
    });
    frame("plan-reviewed", 24, |app| {
        ask(app, asked(plan), "h<tab>n<tab>cwhich tests?\n\n");
    });
    frame("plan-feedback", 24, |app| {
        ask(app, asked(plan), "nleave the parser as it is, it is fine");
    });
    let long: String = (1..60).map(|n| format!("{n}. step number {n}\n")).collect();
    frame("plan-long", 20, |app| ask(app, asked(&long), ""));
    frame("plan-typing", 24, |app| {
        app.prompt.editor.set_text("half a prompt");
        ask(app, asked(plan), "");
        if let Some(dialog) = app.layers.dialog_mut() {
            dialog.arm(false);
        }
    });
}

#[test]
fn the_questions() {
    let store = json!({"question": "Which store should the settings be kept in?", "header": "Store", "options": [
        {"label": "SQLite", "description": "one file, no server, fine for one writer at a time", "preview": "```sql\nPRAGMA journal_mode = wal;\n```"},
        {"label": "Postgres", "description": "a server; many writers"},
    ]});
    let checks = json!({"question": "Which checks run before a commit?", "header": "Checks", "multiSelect": true, "options": [
        {"label": "Tests", "description": "two minutes"}, {"label": "Lints", "description": ""}, {"label": "Types", "description": "slow"},
    ]});
    let asked = |questions: Value| {
        PendingQuestion::Permission(request(
            "AskUserQuestion",
            json!({"questions": questions}),
            Vec::new(),
        ))
    };
    frame("question", 24, |app| ask(app, asked(json!([store])), ""));
    frame("question-own", 24, |app| {
        ask(app, asked(json!([store])), "3a file of our own");
    });
    frame("questions", 24, |app| {
        ask(app, asked(json!([store, checks])), "2 ");
    });
    frame("questions-review", 24, |app| {
        ask(app, asked(json!([store, checks])), "2<right>");
    });
}

#[test]
fn what_servers_ask() {
    let asked = |kind| {
        PendingQuestion::Elicitation(Arc::new(ElicitationRequest {
            request_id: "r1".into(),
            mcp_server_name: "tickets".to_owned(),
            message: "A few words about the ticket before it is made.".to_owned(),
            kind,
        }))
    };
    let form = ElicitationKind::Form {
        requested_schema: json!({"type": "object", "required": ["title"], "properties": {
            "title": {"type": "string", "title": "Title", "description": "one line", "minLength": 5},
            "weight": {"type": "integer", "title": "Weight", "minimum": 1, "default": 3},
            "urgent": {"type": "boolean", "title": "Urgent?"},
            "team": {"type": "string", "oneOf": [{"const": "c", "title": "Core"}, {"const": "d", "title": "Docs"}], "default": "d"},
            "labels": {"type": "array", "title": "Labels", "items": {"type": "string", "enum": ["bug", "idea"]}},
        }}),
    };
    frame("elicitation-form", 30, |app| {
        ask(app, asked(form.clone()), "fix<down><down> <down><down> ");
    });
    frame("elicitation-problems", 30, |app| {
        ask(
            app,
            asked(form.clone()),
            "fix<down><down><down><down><down>\n",
        );
    });
    frame("elicitation-small", 14, |app| {
        ask(app, asked(form.clone()), "<down><down>");
    });
    frame("elicitation-page", 24, |app| {
        let url = "https://tickets.example/oauth?state=123&redirect=somewhere-far-away".to_owned();
        let kind = ElicitationKind::Url {
            url,
            elicitation_id: None,
        };
        ask(app, asked(kind), "");
    });
}

#[test]
fn the_suggestion() {
    frame("suggestion", 24, |app| {
        app.prompt
            .suggestion
            .suggest("now run the tests and tell me which of them are slow");
    });
    frame("suggestion-mode", 24, |app| {
        app.session.mode = PermissionMode::AcceptEdits;
        app.session.background_commands.insert("bash_1".to_owned());
        app.prompt.suggestion.suggest("run the tests");
    });
}
