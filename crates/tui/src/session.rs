//! The session's life as the app sees it: opening, what jobs found, leaving.

use crate::app::{App, Leave, Notify};
use crate::cell::Cell;
use crate::dialog::{Dialog, Item, Picker, Purpose};
use crate::editor::Editor;
use crate::editor::vim::Vim;
use crate::history::Draft;
use crate::jobs::Found;
use crate::style::{Line, Style};
use crate::theme::Theme;
use lathe_engine::{OpenError, Opened};
use lathe_protocol::event::NoticeLevel;
use lathe_protocol::op::Op;
use lathe_protocol::record::MessageRecord;
use lathe_settings::Variable;
use lathe_settings::trust::Bring;
use serde_json::Value;
use std::time::Duration;

impl App {
    /// What is started as soon as the prompt is painted.
    pub(crate) fn begin(&mut self) {
        self.draw();
        (self.draft_file, self.draft_lock) =
            Draft::claim(&self.places.config_home, &self.places.environment.cwd);
        if let Some(draft) = Draft::load(&self.draft_file) {
            self.stash.clone_from(&draft.stash);
            if self.editor.is_empty() && self.first_prompt.is_none() {
                self.editor.restore(&draft.text, draft.attachments.clone());
            } else if self.stash.is_none() && !draft.text.is_empty() {
                // There is something else to say first.
                self.stash = Some(Editor::expand(&draft.text, &draft.attachments));
            }
            self.saved_draft = draft;
        }
        let _ = crate::terminal::ask_background();
        self.jobs.settings(
            &self.places,
            self.options.settings_flags.clone(),
            self.options.setting_sources.clone(),
        );
        self.jobs
            .trust(&self.places, self.options.setting_sources.is_some());
        self.jobs.history(self.history.place());
        self.jobs.branch(&self.places.environment.cwd);
        self.changed_now();
    }

    /// Opens the session in the background. What is typed meanwhile waits.
    pub(crate) fn open_session(&mut self) {
        self.opening = true;
        let environment = self.places.environment.clone();
        let options = self.options.clone();
        self.jobs.task(async move {
            let opened = crate::jobs::open(environment, options).await;
            Some(Found::Opened(Box::new(opened)))
        });
    }

    fn open_or_pick(&mut self) {
        if self.pick_session {
            self.list_sessions();
        } else {
            self.open_session();
        }
    }

    /// Ends the present session and opens the one that the options now name.
    pub(crate) fn reopen(&mut self) {
        let session = self.session.take();
        self.events = None;
        self.turn_began = None;
        self.last_result = None;
        self.spending = crate::spending::Spending::default();
        self.agents.clear();
        self.commands_behind.clear();
        self.retry = None;
        self.questions.clear();
        // What the session had and didn't take goes with it.
        self.queued.retain(|queued| !queued.sent);
        self.suggestion.drop_it();
        self.away.another_session();
        self.opening = true;
        let environment = self.places.environment.clone();
        let options = self.options.clone();
        self.jobs.task(async move {
            if let Some(session) = session {
                session.send(Op::Interrupt { drop_queued: true });
                session.finish().await;
            }
            let opened = crate::jobs::open(environment, options).await;
            Some(Found::Opened(Box::new(opened)))
        });
    }

    pub(crate) fn job_found(&mut self, found: Found) {
        match found {
            Found::Settings {
                value,
                keymap,
                files,
                problems,
            } => {
                self.keymap = *keymap;
                self.known_files = files;
                self.apply_settings(&value);
                // A session that is open already goes by what it read itself.
                self.settings_touched();
                self.announce(&value);
                for problem in problems {
                    self.with_look(|conversation, look| {
                        conversation.notice(NoticeLevel::Warning, problem, look);
                    });
                }
            }
            Found::Trust(brings) => {
                if brings.is_empty() {
                    self.open_or_pick();
                } else {
                    self.ask_trust(&brings);
                }
            }
            Found::Opened(opened) => match *opened {
                Ok((opened, records)) => self.opened(opened, &records),
                Err(error) => self.not_opened(&error),
            },
            Found::History(entries) => {
                self.history.loaded(entries);
                if std::mem::take(&mut self.history_wanted) {
                    self.search_history();
                }
            }
            Found::Files(files) => {
                self.indexing = false;
                self.files = Some(files);
                self.update_completion();
            }
            Found::FileMatches { query, matches } => self.file_matches(&query, matches),
            Found::NoSuggestion(error) => self.suggestions_failed(&error),
            Found::Branch(branch) => self.branch = branch,
            Found::Suggestion { question, text } => self.suggestion.answered(question, text),
            Found::AwaySummary { question, text } => self.tell_away_summary(question, &text),
            Found::Watching(watching) => self.watching = Some(*watching),
            Found::FilesTouched => self.files_touched(),
            Found::FilesRead(contents) => self.files_read(contents),
            Found::StatusLine(result) => match result {
                Ok(text) => self.status_line = Some(text),
                Err(error) => {
                    if self.status_line.is_none() {
                        self.with_look(|conversation, look| {
                            conversation.notice(NoticeLevel::Warning, error, look);
                        });
                    }
                    self.status_line = Some(String::new());
                }
            },
            Found::ShellProgress(tail) => {
                if let Some(run) = &mut self.shell_run {
                    run.tail = tail;
                }
            }
            Found::ShellFinished {
                command,
                output,
                exit_code,
                failed,
            } => self.shell_finished(&command, output, exit_code, failed),
            Found::Sessions {
                sessions,
                everywhere,
            } => self.sessions_found(sessions, everywhere),
            Found::Changes { commit, session } => self.changes_found(commit, session),
            Found::ServersSettled => self.servers_settled(),
            Found::Stopped(said) => self.task_stopped(said),
            Found::Diagnosis(diagnosis) => self.diagnosed(&diagnosis),
            Found::PluginReady(prepared) => self.plugin_ready(prepared),
            Found::PluginsChanged(said) => self.plugins_changed(said),
            Found::Prompts(prompts) => self.show_prompts(&prompts),
            Found::Rewound(result) => self.rewound(result),
            Found::Said(Ok(text)) => self.remark(text),
            Found::Said(Err(text)) => {
                self.with_look(|conversation, look| {
                    conversation.notice(NoticeLevel::Error, text, look);
                });
            }
            Found::Fell => {
                let what = crate::panic_guard::message();
                if self.opening {
                    self.failure = Some(what);
                    self.leaving = Some(Leave::Failed);
                } else {
                    self.warn(what);
                }
            }
        }
    }

    /// Says something muted.
    pub(crate) fn remark(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.with_look(|conversation, look| conversation.push(Cell::Remark(text), look));
    }

    /// Shows what a command answered.
    pub(crate) fn answer(&mut self, lines: Vec<Line>) {
        self.with_look(|conversation, look| conversation.push(Cell::Answer(lines), look));
    }

    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.with_look(|conversation, look| conversation.notice(NoticeLevel::Warning, text, look));
    }

    /// Makes settings count that the terminal goes by.
    pub(crate) fn apply_settings(&mut self, value: &Value) {
        self.applied_settings = Some(crate::watching::concerned(value));
        self.suggestions_broken = false;
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let switch = |key: &str| value.get(key).and_then(Value::as_bool);
        let name = text("theme").unwrap_or("auto");
        if name != self.theme_name {
            self.set_theme(name);
        }
        match text("editorMode") {
            Some("vim") if self.vim.is_none() => self.vim = Some(Vim::default()),
            Some("vim") => {}
            _ => self.vim = None,
        }
        self.wishes.reduced_motion = switch("prefersReducedMotion") == Some(true);
        self.wishes.tips = switch("spinnerTipsEnabled") != Some(false);
        let suggestions = self.places.environment.switch(Variable::PromptSuggestions);
        self.wishes.suggestions = suggestions.unwrap_or(switch("promptSuggestions") != Some(false));
        self.wishes.away_summary = switch("awaySummary") != Some(false);
        self.wishes.cost_threshold = value
            .get("costThresholdUsd")
            .and_then(Value::as_f64)
            .unwrap_or(crate::spending::THRESHOLD);
        self.conversation
            .set_verbose(switch("verbose") == Some(true));
        self.wishes.notifications = match text("notifications") {
            Some("bell") => Notify::Bell,
            Some("desktop") => Notify::Desktop,
            Some("off") => Notify::Off,
            _ => Notify::Auto,
        };
    }

    /// Says what the company wants to be said at the start.
    fn announce(&mut self, value: &Value) {
        for line in value
            .get("companyAnnouncements")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if let Some(line) = line.as_str() {
                let line = line.to_owned();
                self.with_look(|conversation, look| {
                    conversation.notice(NoticeLevel::Info, line, look);
                });
            }
        }
    }

    pub(crate) fn set_theme(&mut self, name: &str) {
        let (theme, problems) =
            Theme::load(name, self.wishes.light_background, &self.places.config_home);
        self.theme = theme;
        name.clone_into(&mut self.theme_name);
        for problem in problems {
            self.warn(problem);
        }
    }

    pub(crate) fn ask_trust(&mut self, brings: &[Bring]) {
        let theme = self.theme();
        let mut lines = vec![
            Line::styled(self.places.project.display().to_string(), theme.code),
            Line::styled(
                "This folder brings things that can run programs or change what is asked:",
                theme.muted,
            ),
        ];
        for bring in brings.iter().take(12) {
            lines.push(
                Line::styled(format!("  {}: ", bring.kind.heading()), theme.muted)
                    .with(crate::text::reveal(&bring.to_string()), Style::PLAIN),
            );
        }
        if brings.len() > 12 {
            lines.push(Line::styled(
                format!("  … and {} more", brings.len() - 12),
                theme.muted,
            ));
        }
        let picker = Picker::new(
            Purpose::Trust,
            "Do you trust this folder?",
            vec![
                Item::new("yes", "Yes, use what it brings", "remembered"),
                Item::new("no", "No, go on without it", ""),
                Item::new("leave", "Leave", ""),
            ],
        )
        .explained(lines);
        self.dialog = Some(Dialog::Picker(picker));
    }

    pub(crate) fn trust_answered(&mut self, answer: &str) {
        match answer {
            "yes" => {
                let store = lathe_settings::TrustStore::new(&self.places);
                let now = jiff::Timestamp::now().to_string();
                if let Err(error) = store.remember(&self.places.project, true, &now) {
                    self.warn(error.to_string());
                }
                self.jobs.settings(
                    &self.places,
                    self.options.settings_flags.clone(),
                    self.options.setting_sources.clone(),
                );
                self.open_or_pick();
            }
            "no" => self.open_or_pick(),
            _ => self.leaving = Some(Leave::Asked),
        }
    }

    fn opened(&mut self, opened: Opened, records: &[MessageRecord]) {
        self.opening = false;
        self.pick_session = false;
        self.mode = opened.session.permissions().mode();
        self.model = opened.session.model().current();
        for remark in opened.remarks {
            self.warn(remark);
        }
        crate::panic_guard::session(opened.session.session_id().to_string());
        self.with_look(|conversation, look| conversation.take_up(records, look));
        let cost = opened.session.history().totals().cost_usd();
        self.spending = crate::spending::Spending::since(cost, self.wishes.cost_threshold);
        self.session = Some(opened.session);
        self.events = Some(opened.events);
        // The session read them later than we did.
        self.settings_touched();
        if let Some(prompt) = self.first_prompt.take() {
            // It was said before anything that was typed meanwhile.
            self.from_waiting = true;
            self.submit_text(&prompt, &[]);
            self.from_waiting = false;
        }
        self.run_waiting_commands();
        self.measure_context();
        self.status_line_soon();
        self.watch_files();
    }

    fn not_opened(&mut self, error: &OpenError) {
        self.opening = false;
        self.failure = Some(error.to_string());
        self.leaving = Some(match error {
            OpenError::NoCredentials => Leave::NoCredentials,
            OpenError::Usage(_) | OpenError::Mode(_) => Leave::Usage,
            OpenError::Session(_) | OpenError::Model(_) => Leave::Failed,
        });
    }

    /// The user's status line is asked for a moment later.
    pub(crate) fn status_line_soon(&mut self) {
        if self.status_command().is_some() {
            self.status_line_due = Some(std::time::Instant::now() + Duration::from_millis(300));
        }
    }

    fn status_command(&self) -> Option<String> {
        self.session
            .as_ref()?
            .settings()
            .helper_command("statusLine")
    }

    pub(crate) fn start_status_line(&mut self) {
        let (Some(command), Some(session)) = (self.status_command(), &self.session) else {
            return;
        };
        let usage = session.context().usage();
        let totals = session.history().totals();
        let cost: f64 = totals.models.values().map(|usage| usage.cost_usd).sum();
        let used = usage.used();
        let percentage = used.saturating_mul(100) / usage.window.max(1);
        let input = serde_json::json!({
            "hook_event_name": "Status",
            "session_id": session.session_id().to_string(),
            "transcript_path": session.transcript(),
            "cwd": self.places.environment.cwd,
            "model": {"id": self.model, "display_name": self.model},
            "workspace": {"current_dir": session.context().working_folder(), "project_dir": self.places.project},
            "version": env!("CARGO_PKG_VERSION"),
            "permission_mode": self.mode.name(),
            "output_style": {"name": session.extensions().output_styles().1},
            "cost": {
                "total_cost_usd": cost,
                "total_api_duration_ms": totals.api_duration_ms,
                "total_lines_added": totals.lines_added,
                "total_lines_removed": totals.lines_removed,
            },
            "context_window": {
                "context_window_size": usage.window,
                "used": used,
                "used_percentage": percentage.min(100),
                "remaining_percentage": 100_u64.saturating_sub(percentage),
            },
            "exceeds_200k_tokens": used > 200_000,
            "git_branch": self.branch,
        });
        let wishes = session.settings().json();
        let wish = |key: &str| wishes.pointer(&format!("/statusLine/{key}"));
        self.status_padding = wish("padding")
            .and_then(Value::as_u64)
            .and_then(|columns| usize::try_from(columns).ok())
            .unwrap_or(0);
        self.status_line_due = wish("refreshInterval")
            .and_then(Value::as_f64)
            .filter(|seconds| *seconds > 0.0)
            .map(|seconds| Duration::from_secs_f64(seconds.clamp(0.3, 86_400.0)))
            .map(|pause| std::time::Instant::now() + pause);
        let cancel = tokio_util::sync::CancellationToken::new();
        let answer = session
            .settings()
            .run_helper(command, &input, Duration::from_secs(2), cancel);
        self.jobs.task(async move {
            let answer = answer.await;
            Some(Found::StatusLine(
                answer.map_err(|error| format!("status line: {error}")),
            ))
        });
    }

    /// Tells a person who looks elsewhere.
    pub(crate) fn notify(&mut self, text: &str) {
        if self.focused {
            return;
        }
        let text = crate::text::clean(text).replace(['\n', ';'], " ");
        let sequence = match self.wishes.notifications {
            Notify::Off => return,
            Notify::Bell => "\x07".to_owned(),
            Notify::Desktop => format!("\x1b]9;{text}\x07\x1b]777;notify;Lathe;{text}\x07"),
            Notify::Auto => {
                let program = self
                    .places
                    .environment
                    .foreign("TERM_PROGRAM")
                    .unwrap_or_default();
                let term = self.places.environment.foreign("TERM").unwrap_or_default();
                if matches!(program, "iTerm.app" | "WezTerm" | "ghostty") || term == "xterm-kitty" {
                    format!("\x1b]9;{text}\x07")
                } else {
                    "\x07".to_owned()
                }
            }
        };
        self.pending_output.push_str(&sequence);
    }
}
