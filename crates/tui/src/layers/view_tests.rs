//! Every dialog that a command opens at 40, 80 and 160 columns, as text. The pictures lie in `views/` with
//! the others (`view_tests`).

use crate::app::App;
use crate::commands::diff::changes::ChangedFile;
use crate::commands::diff::changes::ChangesError;
use crate::layers::agent::AgentView;
use crate::layers::{ChangesDialog, Form, Layer, Page, Picker, Purpose};
use crate::render::style::Line;
use crate::render::view_tests::frame;
use crate::terminal::key::keys;
use lathe_doctor::{Diagnosis, Finding, Severity};
use lathe_engine::context::git::GitError;
use lathe_engine::context::{ContextThresholds, ContextUsage};
use lathe_engine::ledger::{Part, PartUsage, Totals};
use lathe_engine::mcp::control::McpServer;
use lathe_extensions::plugins::load::{LoadedPlugins, PluginListing, PluginState};
use lathe_extensions::plugins::manager::MarketplaceListing;
use lathe_extensions::plugins::store::InstallScope;
use lathe_hooks::registry::{HookListing, HookSource};
use lathe_protocol::event::{ModelUsage, TaskUsage};
use lathe_protocol::permission::{Behavior, PermissionMode, RuleSource};
use lathe_session::SessionInfo;
use lathe_settings::Source;
use lathe_shell::run::{BackgroundCommand, BackgroundStatus};
use lathe_tools::host::{AgentStatus, AgentTask};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// A dialog that a command opened, after some keys. It is drawn before every key, because keys depend on what was shown.
fn opened(app: &mut App, mut dialog: impl Layer, pressed: &str) {
    for key in keys(pressed) {
        let theme = app.theme();
        let look = crate::render::markdown::Look {
            theme: &theme,
            columns: app.screen.width(),
            keys: &app.prompt.keymap,
        };
        let _ = dialog.view(look, app.screen.rows - 2);
        dialog.key(key);
    }
    app.layers.open(dialog);
}

/// A session with a branch that was left.
fn branches() -> Vec<crate::commands::tree::Branch> {
    let branch = |text: &str, depth, is_current, label: Option<&str>| {
        let id = lathe_protocol::ids::RecordId::random();
        crate::commands::tree::Branch {
            node: lathe_session::tree::TreeNode {
                id,
                parent: None,
                depth,
                text: text.to_owned(),
                timestamp: "2026-01-01T00:00:00.000Z".to_owned(),
                label: label.map(str::to_owned),
                end: id,
                is_current,
                usages: Vec::new(),
            },
            dollars: 0.42,
        }
    };
    vec![
        branch("Fix the parser", 0, true, None),
        branch(
            "Use a table instead of the long match",
            1,
            false,
            Some("table"),
        ),
        branch("and measure it", 1, false, None),
        branch("Keep the match, split it into functions", 0, true, None),
    ]
}

fn found() -> lathe_session::search::FoundSession {
    let hit = |who: &str, snippet: &str| lathe_session::search::Hit {
        record: lathe_protocol::ids::RecordId::random(),
        who: who.to_owned(),
        timestamp: "2026-01-01T00:00:00.000Z".to_owned(),
        snippet: snippet.to_owned(),
    };
    lathe_session::search::FoundSession {
        info: session("Why does the parser fail on quoted names?"),
        hits: vec![
            hit("you", "Why does the parser fail on quoted names?"),
            hit("Bash", "cargo test -p parser -- quoted"),
            hit(
                "model",
                "…so the parser never sees the closing quote, because the lexer…",
            ),
        ],
        more: true,
    }
}

fn session(title: &str) -> SessionInfo {
    SessionInfo {
        id: "00000000-0000-4000-8000-000000000001".parse().unwrap(),
        title: Some(title.to_owned()),
        custom_title: None,
        first_prompt: None,
        tag: Some("parser".to_owned()),
        branch: Some("main".to_owned()),
        messages: Some(12),
        size: 1,
        created: None,
        modified: "2026-01-02T00:00:00Z".parse().unwrap(),
        cwd: Some("/work/project".into()),
        path: PathBuf::from("/nowhere.jsonl"),
        forked_from: None,
        moved: None,
    }
}

fn results() -> crate::commands::surgery::Contents {
    let item =
        |id: &str, tool: &str, about: &str, turn, bytes| lathe_session::contents::ContextItem {
            id: id.into(),
            kind: match tool {
                "Prompt" => lathe_session::contents::ItemKind::Prompt,
                _ => lathe_session::contents::ItemKind::Result,
            },
            tool: tool.to_owned(),
            about: about.to_owned(),
            turn,
            text: Some("fn main() {}\n".to_owned()),
            bytes,
            replacement: None,
            is_pinned: false,
        };
    let mut items = vec![
        item("t1", "Read", "src/parser.rs", 1, 48_000),
        item("t2", "Bash", "cargo test --workspace", 1, 20_000),
        item("t3", "Read", "src/lexer.rs", 2, 4_000),
        item("m1", "Prompt", "fix the parser", 1, 400),
    ];
    items[1].replacement = Some("gone".to_owned());
    items[2].is_pinned = true;
    let mut memory = item("memory:", "Memory", "/work/project/AGENTS.md", 0, 2_800);
    memory.kind = lathe_session::contents::ItemKind::Memory;
    items.push(memory);
    let server = |name: &str, is_off, tokens| crate::commands::surgery::Server {
        name: name.to_owned(),
        is_off,
        tokens,
    };
    crate::commands::surgery::Contents {
        items,
        servers: vec![server("github", false, 9_000), server("jira", true, 2_000)],
        edits: 1,
        used: 90_000,
        prices: Some((0.5, 6.25)),
    }
}

fn insights() -> lathe_session::insights::Insights {
    let amount = |dollars: f64| lathe_session::insights::Amount {
        input: 1_200_000,
        output: 34_000,
        dollars,
        is_partly_unpriced: false,
    };
    let mut insights = lathe_session::insights::Insights {
        sessions: 7,
        prompts: 31,
        total: amount(12.5),
        ..Default::default()
    };
    for (day, dollars) in [("2026-01-01", 2.5), ("2026-01-02", 10.0)] {
        insights.days.insert(day.to_owned(), amount(dollars));
    }
    insights
        .models
        .insert("claude-opus-5-5".to_owned(), amount(12.5));
    insights
        .projects
        .insert("/work/project".to_owned(), amount(12.5));
    insights.tools.insert("Read".to_owned(), 120);
    insights.tools.insert("Bash".to_owned(), 48);
    insights.skills.insert("review".to_owned(), 3);
    insights
}

fn picker(name: &str, rows: usize, make: impl Fn(&App) -> Picker) {
    frame(name, rows, |app| {
        let picker = make(app);
        opened(app, picker, "");
    });
}

fn changed(path: &str, old: &str, new: &str, note: Option<&str>) -> ChangedFile {
    ChangedFile {
        file: PathBuf::from(path),
        path: path.to_owned(),
        hunks: crate::render::diff::hunks(old, new),
        note: note.map(str::to_owned),
    }
}

fn changes() -> ChangesDialog {
    let long: String = (1..60).map(|n| format!("row {n}\n")).collect();
    ChangesDialog::new(
        Ok(vec![
            changed(
                "crates/parser/src/a/rather/long/way/down/tokens.rs",
                "fn a() {\n    let x = 1;\n}\n",
                "fn a() {\n    let x = 2;\n    let y = x + 1; // a remark that is long enough to be wrapped in a narrow terminal\n}\n",
                None,
            ),
            changed("new.txt", "", &long, Some("new")),
            changed("logo.png", "", "", Some("not text")),
        ]),
        Ok(Vec::new()),
    )
}

#[test]
fn what_changed() {
    for (name, pressed) in [
        ("changes", ""),
        ("changes-file", "\n"),
        ("changes-scrolled", "<down>\n  "),
        ("changes-none", "<tab>"),
    ] {
        frame(name, 20, |app| {
            opened(app, changes(), pressed);
        });
    }
    frame("changes-no-git", 20, |app| {
        let none = Err(ChangesError::Git(GitError::Failed(
            "fatal: not a git repository (or any of the parent directories)".to_owned(),
        )));
        let dialog = ChangesDialog::new(none, Ok(Vec::new()));
        opened(app, dialog, "");
    });
}

#[test]
fn how_full_the_window_is() {
    let usage = ContextUsage {
        system: 3_000,
        tools: 12_000,
        mcp_tools: 5_000,
        memory: 1_200,
        skills: 900,
        agents: 400,
        messages: 61_000,
        counted: true,
        window: 200_000,
        max_output: 32_000,
        lean: false,
        thresholds: ContextThresholds {
            compact_at: 167_000,
            warn_at: 147_000,
            auto_compact: true,
        },
        model: "claude-test".to_owned(),
        instruction_files: vec![(
            PathBuf::from("/work/project/AGENTS.md"),
            "project".to_owned(),
            1_200,
        )],
        api_usage: None,
    };
    frame("context", 30, |app| {
        let usage = usage.clone();
        let page = Page::new(Purpose::Reading, "Context", move |look| {
            crate::commands::context::context_lines(&usage, look)
        });
        opened(app, page, "");
    });
}

#[test]
fn what_it_cost() {
    let mut totals = Totals {
        api_duration_ms: 83_000,
        tool_duration_ms: 4_200,
        lines_added: 120,
        lines_removed: 33,
        ..Totals::default()
    };
    let usage: ModelUsage = serde_json::from_value(json!({
        "inputTokens": 1200, "outputTokens": 5400, "cacheReadInputTokens": 900_000,
        "cacheCreationInputTokens": 44_000, "webSearchRequests": 0, "costUSD": 1.2345, "contextWindow": 200_000, "maxOutputTokens": 32_000,
    }))
    .unwrap();
    totals.models.insert("claude-test".to_owned(), usage);
    let part = PartUsage {
        calls: 3,
        input_tokens: 100,
        output_tokens: 200,
        cost_usd: 0.02,
        ..PartUsage::default()
    };
    totals.parts.insert(Part::Main, part);
    totals.parts.insert(Part::Agents, part);
    totals
        .cache_breaks
        .insert("the system prompt changed".to_owned(), 2);
    frame("cost", 24, |app| {
        let totals = totals.clone();
        let page = Page::new(Purpose::Reading, "This session: $1.2545", move |look| {
            crate::commands::cost::cost_lines(&totals, Some(5.0), look)
        });
        opened(app, page, "");
    });
    picker("cost-threshold", 24, |app| {
        crate::app::spending::cost_question(10.02, 5.0, &app.look.theme)
    });
}

fn hook(off: Option<&str>) -> HookListing {
    HookListing {
        event: "PreToolUse".parse().unwrap(),
        matcher: Some("Bash|Edit".to_owned()),
        kind: lathe_settings::schema::HookKind::Command,
        hook: "scripts/check-command --strict \"$CLAUDE_PROJECT_DIR\"".to_owned(),
        condition: Some("Bash(git push:*)".to_owned()),
        source: HookSource::Settings(Source::Project),
        file: Some("/work/project/.lathe/settings.json".into()),
        timeout: 60.0,
        off: off.map(str::to_owned),
    }
}

#[test]
fn the_hooks() {
    picker("hooks", 24, |app| {
        let hooks = [hook(None), hook(Some("the folder isn't trusted"))];
        crate::commands::hooks::hooks_picker(&hooks, &app.look.theme)
    });
    picker("hooks-none", 24, |app| {
        crate::commands::hooks::hooks_picker(&[], &app.look.theme)
    });
    frame("hook", 24, |app| {
        let page = crate::commands::hooks::hook_page(&hook(None), &app.look.theme);
        opened(app, page, "");
    });
}

#[test]
fn what_runs_in_the_background() {
    let agent = AgentTask {
        id: "a1b2c3".into(),
        name: None,
        agent_type: "general-purpose".to_owned(),
        description: "Look for callers of the parser".to_owned(),
        prompt: "…".to_owned(),
        status: AgentStatus::Running,
        background: true,
        result: String::new(),
        usage: TaskUsage {
            total_tokens: 12_345,
            tool_uses: 7,
            duration_ms: 8_000,
        },
        output_file: PathBuf::from("/nowhere/at/all"),
        worktree: None,
        last_tool: Some("Grep".to_owned()),
        tool_use_id: None,
        parent: None,
        phase: None,
        structured: None,
        cost_usd: 0.031,
        model: "claude-opus-5-5".to_owned(),
        tokens: lathe_protocol::usage::Usage::default(),
    };
    let done = AgentTask {
        status: AgentStatus::Completed,
        description: "Read the history".to_owned(),
        result: "Nothing was changed since March.".to_owned(),
        ..agent.clone()
    };
    let command = BackgroundCommand {
        id: "b1".into(),
        command: "cargo watch -x test".to_owned(),
        description: "Run the tests on every change".to_owned(),
        tool_use_id: None,
        output_file: PathBuf::from("/nowhere/at/all"),
        status: BackgroundStatus::Running,
        elapsed: Duration::from_secs(75),
        total_bytes: 100,
        leftovers: Vec::new(),
        is_service: false,
        in_sandbox: false,
        is_kept: false,
    };
    frame("agent", 24, |app| {
        let color = crate::app::agents::color(None, 0);
        let mut view = AgentView::new(agent.clone(), (1, 2), color);
        view.body.lines = vec![
            Line::plain("❯ Find every caller of parse()."),
            Line::empty(),
            Line::plain(
                "● Searched for parse · 12 matches in 4 files, of which the tests are the larger part",
            ),
        ];
        view.body.writing = vec![Line::plain("● The callers are in")];
        opened(app, view, "only in src");
    });
    picker("tasks", 24, |app| {
        let agents = vec![agent.clone(), done.clone()];
        crate::commands::tasks::tasks_picker(
            agents,
            vec![command.clone()],
            &app.look.theme,
            &app.prompt.keymap,
        )
        .at("b1")
    });
    frame("task-output", 14, |app| {
        let lines = (1..40)
            .map(|n| Line::plain(format!("test number_{n} ... ok")))
            .collect();
        let purpose = Purpose::TaskOutput { id: "b1".into() };
        let page = Page::of_lines(purpose, "What b1 wrote", lines)
            .with_key('r', "read again")
            .with_key('x', "stop")
            .at_the_end();
        opened(app, page, "");
    });
}

fn listing(id: &str, state: PluginState) -> PluginListing {
    let mut value = PluginListing {
        id: id.to_owned(),
        state,
        version: Some("1.2.0".to_owned()),
        description: Some("Greets people, and reminds them of what they wanted to do".to_owned()),
        scope: Some(InstallScope::User),
        path: Some("/home/ada/.lathe/plugins/cache/team/greeter/1.2.0".into()),
        brings: vec![
            "command greet".to_owned(),
            "hook Stop: say goodbye".to_owned(),
        ],
        reason: None,
        problems: Vec::new(),
    };
    if state == PluginState::Blocked {
        value.reason = Some("your organisation doesn't allow the marketplace".to_owned());
    }
    value
}

#[test]
fn the_plugins() {
    let loaded = LoadedPlugins {
        plugins: Vec::new(),
        listings: vec![
            listing("greeter@team", PluginState::On),
            listing("linter@team", PluginState::Off),
            listing("odd@elsewhere", PluginState::Blocked),
        ],
        problems: Vec::new(),
    };
    picker("plugins", 24, |app| {
        crate::commands::plugin::plugins_picker(&loaded, &app.look.theme)
    });
    picker("plugins-none", 24, |app| {
        crate::commands::plugin::plugins_picker(&LoadedPlugins::default(), &app.look.theme)
    });
    picker("plugin", 24, |app| {
        crate::commands::plugin::plugin_picker(&loaded.listings[0], &app.look.theme)
    });
    picker("plugin-blocked", 24, |app| {
        crate::commands::plugin::plugin_picker(&loaded.listings[2], &app.look.theme)
    });
    picker("plugin-confirm", 24, |_| {
        crate::commands::plugin::confirm_picker(
            "greeter@team 1.2.0\n  Greets people\n  by Ada\n  from a folder: /work/market/greeter\n  runs automatically:\n    hook Stop: say goodbye\n  it adds:\n    command greet\n",
        )
    });
    let market = MarketplaceListing {
        name: "team".to_owned(),
        source: "https://git.example/team/plugins.git".to_owned(),
        install_location: None,
        last_updated: String::new(),
        plugins: vec!["greeter".to_owned(), "linter".to_owned()],
        problems: Vec::new(),
        refused: None,
    };
    picker("marketplaces", 24, |_| {
        crate::commands::plugin::marketplaces_picker(std::slice::from_ref(&market))
    });
}

fn server(state: lathe_mcp::State, transport: &'static str, entry: Value) -> McpServer {
    McpServer {
        name: "tickets".to_owned(),
        scope: "project",
        transport,
        state,
        error: None,
        needs_approval: false,
        entry,
        info: Value::Null,
        tools: vec![
            (
                "file_ticket".to_owned(),
                "Files a ticket\nand says its number".to_owned(),
            ),
            ("close_ticket".to_owned(), "Closes one".to_owned()),
        ],
        remarks: Vec::new(),
    }
}

#[test]
fn the_servers() {
    let local = server(
        lathe_mcp::State::Connected,
        "stdio",
        json!({"command": "npx", "args": ["-y", "tickets"], "env": {"TOKEN": "secret"}}),
    );
    let remote = McpServer {
        tools: Vec::new(),
        ..server(
            lathe_mcp::State::NeedsAuth,
            "http",
            json!({"url": "https://tickets.example/mcp", "headers": {"X-Team": "core"}}),
        )
    };
    let failed = McpServer {
        error: Some("npx: no such program; install it".to_owned()),
        ..server(
            lathe_mcp::State::Failed {
                reason: "npx: no such program".to_owned(),
            },
            "stdio",
            Value::Null,
        )
    };
    let waits = McpServer {
        needs_approval: true,
        ..local.clone()
    };
    picker("servers", 24, |_| {
        crate::commands::mcp::servers_picker(&[local.clone(), remote.clone(), failed.clone()])
    });
    for (name, server) in [
        ("server", &local),
        ("server-sign-in", &remote),
        ("server-failed", &failed),
        ("server-waits", &waits),
    ] {
        picker(name, 24, |app| {
            crate::commands::mcp::server_picker(server, &app.look.theme)
        });
    }
    frame("server-tools", 24, |app| {
        let page = crate::commands::mcp::tools_page(&local, &app.look.theme);
        opened(app, page, "");
    });
}

#[test]
fn the_sessions() {
    let session = |number: u8, title: &str, branch: &str, from: Option<u8>| {
        let id = |number: u8| {
            format!("00000000-0000-4000-8000-0000000000{number:02}")
                .parse()
                .unwrap()
        };
        SessionInfo {
            id: id(number),
            title: Some(title.to_owned()),
            custom_title: None,
            first_prompt: Some("Fix the parser, it forgets the last character".to_owned()),
            tag: (number == 1).then(|| "parser".to_owned()),
            branch: Some(branch.to_owned()),
            messages: Some(12),
            size: 1,
            created: None,
            modified: "2026-01-02T00:00:00Z".parse().unwrap(),
            cwd: Some("/work/project".into()),
            path: PathBuf::from("/nowhere.jsonl"),
            forked_from: from.map(id),
            moved: None,
        }
    };
    let sessions = |everywhere: bool, branch: Option<&str>| crate::commands::resume::SessionList {
        all: vec![
            session(3, "Fix the parser (fork) (fork)", "main", Some(2)),
            session(4, "Write the manual", "docs", None),
            session(2, "Fix the parser (fork)", "main", Some(1)),
            session(1, "Fix the parser", "main", None),
        ],
        everywhere,
        branch: branch.map(str::to_owned),
        ..crate::commands::resume::SessionList::default()
    };
    picker("sessions", 24, |app| {
        sessions(false, None).picker(&app.look.theme)
    });
    picker("sessions-everywhere", 24, |app| {
        sessions(true, None).picker(&app.look.theme)
    });
    picker("sessions-branch", 24, |app| {
        sessions(false, Some("docs")).picker(&app.look.theme)
    });
    frame("session-rename", 24, |app| {
        let purpose = Purpose::RenameSession { id: "x".to_owned() };
        let form = Form::new(purpose, "A title for this session", "Fix the parser");
        opened(app, form, "");
    });
}

#[test]
fn help_keys_and_checks() {
    frame("help", 30, crate::commands::help::run);
    frame("keys", 30, crate::commands::keybindings::run);
    let finding = |area, severity, what: &str, fix: Option<&str>| Finding {
        area,
        severity,
        what: what.to_owned(),
        fix: fix.map(str::to_owned),
    };
    let diagnosis = Diagnosis {
        findings: vec![
            finding("git", Severity::Fine, "git 2.47 is there", None),
            finding(
                "settings",
                Severity::Error,
                "settings.json: 'modle' is unknown",
                Some("write 'model'"),
            ),
            finding(
                "disk",
                Severity::Warning,
                "the transcripts take 4 GB",
                Some("lathe sessions delete removes old ones"),
            ),
        ],
    };
    frame("doctor", 24, |app| {
        let page = crate::commands::doctor::diagnosis_page(&diagnosis, &[], &app.look.theme);
        opened(app, page, "");
    });
}

#[test]
fn what_is_chosen() {
    picker("models", 24, |app| {
        let models = [
            ("sonnet", "Sonnet Test", Some(1_000_000), Some((3.0, 15.0))),
            ("haiku", "Haiku Test", Some(200_000), Some((0.8, 4.0))),
            ("own", "own/model", None, None),
        ];
        let models = models.map(
            |(alias, name, window, prices)| crate::commands::model::Offered {
                alias: alias.to_owned(),
                name: name.to_owned(),
                window,
                prices,
            },
        );
        crate::commands::model::models_picker(models.into(), "claude-test", &app.look.theme)
            .with_dial("effort", &["default", "low", "high"], "low")
    });
    picker("rules", 24, |app| {
        let rules = vec![
            (
                Behavior::Allow,
                "Bash(cargo test:*)".to_owned(),
                RuleSource::LocalSettings,
            ),
            (
                Behavior::Deny,
                "Read(./secrets/**)".to_owned(),
                RuleSource::ProjectSettings,
            ),
        ];
        crate::commands::permissions::rules_picker(rules, PermissionMode::Default, &app.look.theme)
    });
    frame("efforts", 24, |app| crate::commands::effort::run(app, ""));
    frame("modes", 24, |app| crate::commands::mode::run(app, ""));
    frame("settings", 24, |app| crate::commands::config::run(app, ""));
    frame("rewind", 24, |app| {
        crate::commands::rewind::show_prompts(
            app,
            &[
                (
                    "1".to_owned(),
                    "Now run the tests".to_owned(),
                    "2026-01-02T00:00:00Z".to_owned(),
                ),
                (
                    "2".to_owned(),
                    "Fix the parser\nand say what was wrong".to_owned(),
                    "2026-01-01T00:00:00Z".to_owned(),
                ),
            ],
        );
    });
    picker("tree", 24, |app| {
        crate::commands::tree::picker(&branches(), &app.look.theme)
    });
    picker("found", 24, |app| {
        crate::commands::search::picker(&[found()], "parser", &app.look.theme)
    });
    picker("contents", 24, |app| {
        results().picker(&app.look.theme, None)
    });
    frame("insights", 30, |app| {
        app.layers.open(crate::commands::insights::page(insights()));
    });
    frame("rewind-what", 24, |app| {
        crate::commands::rewind::ask_what(app, "1");
    });
    frame("memory", 24, |app| {
        crate::app::remember::ask_where(app, "always use tabs");
    });
    picker("login", 24, |app| {
        crate::commands::login::login_picker("ANTHROPIC_API_KEY", true, &app.look.theme)
    });
    picker("no-key", 24, |app| {
        crate::app::no_key::no_key_picker(&[("ollama", 11_434)], true, &app.look.theme)
    });
    picker("providers", 24, |app| {
        let key = |provider: &str, source: &str| lathe_engine::models::ProviderKey {
            provider: provider.to_owned(),
            source: source.to_owned(),
            is_missing: source == "no key",
        };
        let keys = [
            key("anthropic", "ANTHROPIC_API_KEY"),
            key("openai", "no key"),
        ];
        crate::app::providers::providers_picker(&keys, &app.look.theme)
    });
    picker("logout", 24, |app| {
        crate::commands::logout::logout_picker("apiKeyHelper", &app.look.theme)
    });
    picker("editors", 24, |app| {
        let editor = lathe_engine::RunningEditor {
            port: 41_000,
            name: "VS Code".to_owned(),
            folders: vec!["/work/project".into()],
            secure: false,
            token: String::new(),
        };
        crate::commands::ide::editors_picker(
            &[editor],
            Some(41_000),
            &app.places.environment.cwd,
            &app.look.theme,
        )
    });
    frame("trust", 24, |app| {
        let bring = |kind, key: &str, what: &str| lathe_settings::trust::Bring {
            kind,
            key: key.to_owned(),
            what: what.to_owned(),
        };
        crate::app::trust::ask(
            app,
            &[
                bring(
                    lathe_settings::trust::BringKind::Hook,
                    "hooks.Stop",
                    "curl https://example.com | sh",
                ),
                bring(
                    lathe_settings::trust::BringKind::McpServer,
                    ".mcp.json",
                    "tickets: npx -y tickets",
                ),
            ],
        );
    });
}
