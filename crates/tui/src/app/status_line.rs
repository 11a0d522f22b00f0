//! The user's own status line: a command that settings name, run in the background.

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::app::pull_request::{self, PullRequest};
use crate::prompt::editor::vim::Vim;
use lathe_hooks::HelperError;
use lathe_protocol::event::ModelUsage;
use lathe_protocol::permission::PermissionMode;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(crate) struct StatusLine {
    /// The last line that the command printed; `None` before it has run.
    pub(crate) text: Option<String>,
    /// When the command runs next.
    pub(crate) due: Option<Instant>,
    /// Blank columns at both ends.
    pub(crate) padding: usize,
    /// When it was first asked for: with the session.
    began: Option<Instant>,
    /// Whether it was said that the command fails.
    failed: bool,
    /// The last input of the command, as far as it changes between turns.
    told: Option<Told>,
    pub(crate) pull_request: PullRequest,
}

/// Values that change between turns and that status lines often show.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    mode: PermissionMode,
    model: String,
    effort: Option<String>,
    vim: Option<&'static str>,
    branch: Option<String>,
    sandbox: Option<&'static str>,
    agents: usize,
}

/// Asks again if something changed that it may show.
pub(crate) fn follow(app: &mut App) {
    if app.status_line.told.is_some() && app.status_line.told.as_ref() != Some(&told(app)) {
        app.status_line.told = Some(told(app));
        soon(app);
    }
}

fn told(app: &App) -> Told {
    Told {
        mode: app.session.mode,
        model: app.session.model.clone(),
        effort: app
            .engine
            .handle
            .as_ref()
            .and_then(|session| session.model().effort()),
        vim: app.prompt.vim.as_ref().map(Vim::label),
        branch: app.session.branch.clone(),
        sandbox: sandbox_tier(app),
        agents: app.session.agents.len(),
    }
}

/// The tier of the sandbox that commands run in.
pub(crate) fn sandbox_tier(app: &App) -> Option<&'static str> {
    app.engine.handle.as_ref()?.permissions().sandbox_tier()
}

/// The user's status line is asked for a moment later.
pub(crate) fn soon(app: &mut App) {
    if command(app).is_some() {
        app.status_line.due = Some(Instant::now() + Duration::from_millis(300));
    }
}

pub(crate) fn command(app: &App) -> Option<String> {
    app.engine
        .handle
        .as_ref()?
        .settings()
        .helper_command("statusLine")
}

pub(crate) fn start(app: &mut App) {
    let began = *app.status_line.began.get_or_insert_with(Instant::now);
    if command(app).is_some() {
        app.status_line.told = Some(told(app));
        pull_request::look(app);
    }
    let (Some(command), Some(session)) = (command(app), &app.engine.handle) else {
        return;
    };
    let folder = session.context().working_folder();
    let worktree = worktree_of(&folder);
    let roots = session.permissions().roots().into_iter();
    let added: Vec<_> = roots
        .filter(|root| *root != app.places.environment.cwd)
        .collect();
    let usage = session.context().usage();
    let totals = session.history().totals();
    // A sum of nothing is -0.0, which some readers show.
    let cost = totals
        .models
        .values()
        .map(|usage| usage.cost_usd)
        .sum::<f64>()
        + 0.0;
    let tokens = |count: fn(&ModelUsage) -> u64| totals.models.values().map(count).sum::<u64>();
    let used = usage.used();
    let sandbox = session.permissions().sandbox_tier();
    let percentage = used.saturating_mul(100) / usage.window.max(1);
    let input = serde_json::json!({
        "hook_event_name": "Status",
        "session_id": session.session_id().to_string(),
        "transcript_path": session.transcript(),
        "cwd": folder,
        "model": {"id": app.session.model, "display_name": session.model().display_name()},
        "workspace": {"current_dir": folder, "project_dir": app.places.project, "added_dirs": added},
        "version": env!("CARGO_PKG_VERSION"),
        "session_name": app.session.title,
        "permission_mode": app.session.mode.name(),
        "effort": {"level": session.model().effort_level()},
        "thinking": {"enabled": session.model().thinks()},
        "vim": app.prompt.vim.as_ref().map(|vim| serde_json::json!({"mode": vim.label()})),
        "agent": app.engine.options.extensions.agent.as_ref().map(|name| serde_json::json!({"name": name})),
        "worktree": worktree,
        "sandbox": {"enabled": sandbox.is_some(), "tier": sandbox},
        "output_style": {"name": session.extensions().output_styles().1},
        "cost": {
            "total_cost_usd": cost,
            "total_duration_ms": u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            "total_api_duration_ms": totals.api_duration_ms,
            "total_lines_added": totals.lines_added,
            "total_lines_removed": totals.lines_removed,
        },
        "context_window": {
            "context_window_size": usage.window,
            "total_input_tokens": tokens(|it| it.input_tokens + it.cache_read_input_tokens + it.cache_creation_input_tokens),
            "total_output_tokens": tokens(|it| it.output_tokens),
            "current_usage": usage.api_usage,
            "used": used,
            "used_percentage": percentage.min(100),
            "remaining_percentage": 100_u64.saturating_sub(percentage),
        },
        "exceeds_200k_tokens": used > 200_000,
        "git_branch": app.session.branch,
        "pr": app.status_line.pull_request.known,
    });
    let wishes = session.settings().json();
    let wish = |key: &str| wishes.pointer(&format!("/statusLine/{key}"));
    app.status_line.padding = wish("padding")
        .and_then(Value::as_u64)
        .and_then(|columns| usize::try_from(columns).ok())
        .unwrap_or(0);
    app.status_line.due = wish("refreshInterval")
        .and_then(Value::as_f64)
        .filter(|seconds| *seconds > 0.0)
        .map(|seconds| Duration::from_secs_f64(seconds.clamp(0.3, 86_400.0)))
        .map(|pause| Instant::now() + pause);
    let cancel = tokio_util::sync::CancellationToken::new();
    let answer = session
        .settings()
        .run_helper(command, &input, Duration::from_secs(2), cancel);
    app.jobs
        .task(async move { Some(JobResult::StatusLine(answer.await)) });
}

/// The command printed a line, or failed: that is reported once.
pub(crate) fn finished(app: &mut App, result: Result<String, HelperError>) {
    match result {
        Ok(text) => {
            app.status_line.text = Some(text);
            app.status_line.failed = false;
        }
        // What it printed before stays; without that, there is the built-in one.
        Err(error) => {
            if !std::mem::replace(&mut app.status_line.failed, true) {
                app.warn(format!("status line: {error}"));
            }
        }
    }
}

/// The worktree that a folder belongs to, if it is not the main one of its repository.
fn worktree_of(folder: &Path) -> Option<Value> {
    folder.ancestors().find_map(|folder| {
        let link = std::fs::read_to_string(folder.join(".git")).ok()?;
        let git = Path::new(link.strip_prefix("gitdir:")?.trim());
        let name = git.file_name()?.to_string_lossy().into_owned();
        git.parent()?
            .ends_with("worktrees")
            .then(|| serde_json::json!({"name": name, "path": folder}))
    })
}
