//! Starting up, opening and replacing the session, and results of background jobs.

use crate::app::jobs::{JobResult, Report};
use crate::app::{App, Leave, away, queue, settings, shell, status_line, trust, watching};
use crate::commands::{diff, doctor, mcp, plugin, resume, rewind, tasks};
use crate::prompt::{completion, history};
use lathe_engine::{OpenError, Opened};
use lathe_protocol::diagnostic::Severity;
use lathe_protocol::event::NoticeLevel;
use lathe_protocol::op::Op;
use lathe_protocol::record::MessageRecord;

impl App {
    /// Starts the background jobs, as soon as the prompt is painted.
    pub(crate) fn begin(&mut self) {
        self.draw();
        let has_first_prompt = self.engine.first_prompt.is_some();
        self.prompt.restore_draft(&self.places, has_first_prompt);
        let _ = crate::terminal::ask_background();
        self.jobs.start(&self.places, &self.engine.options);
        self.jobs.history(self.prompt.history.place());
        self.jobs.branch(&self.places.environment.cwd);
        self.screen.changed_now();
    }

    /// Opens the session in the background. Prompts entered meanwhile wait.
    pub(crate) fn open_session(&mut self) {
        self.engine.opening = true;
        let environment = self.places.environment.clone();
        let mut options = self.engine.options.clone();
        options.settings.loaded = self.engine.loaded_settings.take();
        self.jobs.task(async move {
            let opened = crate::app::jobs::open(environment, options).await;
            Some(JobResult::Opened(Box::new(opened)))
        });
    }

    pub(crate) fn open_or_pick(&mut self) {
        if self.engine.pick_session {
            // They may have changed when a session is chosen.
            self.engine.loaded_settings = None;
            resume::list(self);
        } else {
            self.open_session();
        }
    }

    /// Ends the present session and opens the one that the options now name.
    pub(crate) fn reopen(&mut self) {
        let session = self.engine.handle.take();
        self.engine.events = None;
        self.session.forget_session();
        self.layers.forget_questions();
        // Prompts that the session received and did not accept are dropped with it.
        self.queue.forget_sent();
        self.prompt.suggestion.cancel();
        self.alarms.away.session_replaced();
        self.engine.opening = true;
        let environment = self.places.environment.clone();
        let options = self.engine.options.clone();
        self.jobs.task(async move {
            if let Some(session) = session {
                session.send(Op::Interrupt { drop_queued: true });
                session.finish().await;
            }
            let opened = crate::app::jobs::open(environment, options).await;
            Some(JobResult::Opened(Box::new(opened)))
        });
    }

    pub(crate) fn job_finished(&mut self, found: JobResult) {
        match found {
            JobResult::Settings {
                loaded,
                keymap,
                files,
                problems,
            } => {
                self.prompt.keymap = *keymap;
                self.settings.known_files = files;
                settings::loaded(self, &loaded.resolved.value, problems);
                if !self.engine.opening && self.engine.handle.is_none() {
                    self.engine.loaded_settings = Some(loaded);
                }
            }
            JobResult::Trust(brings) => {
                if brings.is_empty() {
                    self.open_or_pick();
                } else {
                    trust::ask(self, &brings);
                }
            }
            JobResult::Opened(opened) => match *opened {
                Ok((opened, records)) => self.opened(opened, &records),
                Err(error) => self.not_opened(&error),
            },
            JobResult::History(entries) => {
                self.prompt.history.loaded(entries);
                if std::mem::take(&mut self.prompt.search_when_read) {
                    history::search(self);
                }
            }
            JobResult::Files(files) => {
                self.prompt.files.indexing = false;
                self.prompt.files.index = Some(files);
                completion::update(self);
            }
            JobResult::FileMatches { query, matches } => {
                completion::files_found(self, &query, matches);
            }
            JobResult::FileCommandFailed(error) => completion::command_failed(self, &error),
            JobResult::Branch(branch) => self.session.branch = branch,
            JobResult::Suggestion { question, text } => {
                self.prompt.suggestion.answered(question, text);
            }
            JobResult::AwaySummary { question, text } => away::tell(self, question, &text),
            JobResult::Watching(watching) => self.settings.watching = Some(*watching),
            JobResult::FilesTouched => watching::touched(self),
            JobResult::FilesRead(contents) => watching::read(self, contents),
            JobResult::StatusLine(result) => status_line::finished(self, result),
            JobResult::ShellProgress(tail) => {
                if let Some(run) = &mut self.session.shell_run {
                    run.tail = tail;
                }
            }
            JobResult::ShellFinished {
                command,
                output,
                exit_code,
                failed,
            } => shell::finished(self, &command, output, exit_code, failed),
            JobResult::Sessions {
                sessions,
                everywhere,
            } => resume::listed(self, sessions, everywhere),
            JobResult::Changes { commit, session } => diff::show(self, commit, session),
            JobResult::ServersSettled => mcp::settled(self),
            JobResult::Stopped(said) => tasks::stopped(self, said),
            JobResult::Diagnosis(diagnosis) => doctor::show(self, &diagnosis),
            JobResult::PluginReady(prepared) => plugin::confirm(self, prepared),
            JobResult::PluginsChanged(said) => plugin::changed(self, said),
            JobResult::Prompts(prompts) => rewind::show_prompts(self, &prompts),
            JobResult::Rewound(result) => rewind::done(self, result),
            JobResult::Reported(Report::Done(text)) => self.remark(text),
            JobResult::Reported(Report::Failed(text)) => {
                self.with_look(|conversation, look| {
                    conversation.notice(NoticeLevel::Error, text, look);
                });
            }
            JobResult::Crashed => self.job_crashed(),
        }
    }

    fn job_crashed(&mut self) {
        let what = crate::terminal::panic_guard::message();
        if self.engine.opening {
            self.exit.failure = Some(what);
            self.exit.leave = Some(Leave::Failed);
        } else {
            self.warn(what);
        }
    }

    fn opened(&mut self, opened: Opened, records: &[MessageRecord]) {
        self.engine.opening = false;
        self.engine.pick_session = false;
        self.session.mode = opened.session.permissions().mode();
        self.session.model = opened.session.model().current();
        for remark in opened.remarks {
            match remark.severity {
                Severity::Note => self.remark(remark.to_string()),
                Severity::Warning | Severity::Error => self.warn(remark.to_string()),
            }
        }
        crate::terminal::panic_guard::session(opened.session.session_id().to_string());
        self.with_look(|conversation, look| conversation.resume(records, look));
        let cost = opened.session.history().totals().cost_usd();
        self.session.spending =
            crate::app::spending::Spending::since(cost, self.settings.cost_threshold);
        self.engine.handle = Some(opened.session);
        self.engine.events = Some(opened.events);
        // The session read them later than we did.
        settings::reload(self);
        if let Some(prompt) = self.engine.first_prompt.take() {
            // It was said before anything that was typed meanwhile.
            self.queue.releasing = true;
            queue::submit(self, &prompt, &[]);
            self.queue.releasing = false;
        }
        queue::run_held_commands(self);
        self.measure_context();
        status_line::soon(self);
        watching::start(self);
    }

    fn not_opened(&mut self, error: &OpenError) {
        self.engine.opening = false;
        self.exit.failure = Some(error.to_string());
        self.exit.leave = Some(match error {
            OpenError::NoCredentials => Leave::NoCredentials,
            OpenError::Usage(_) | OpenError::Mode(_) => Leave::Usage,
            OpenError::Session(_) | OpenError::Model(_) => Leave::Failed,
        });
    }
}
