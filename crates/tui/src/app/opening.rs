//! Starting up, opening and replacing the session, and results of background jobs.

use crate::app::engine::Fallback;
use crate::app::jobs::{Earlier, JobResult, Report};
use crate::app::{
    App, Leave, away, keyboard, no_key, pictures, providers, pull_request, queue, settings, shell,
    status_line, trust, waiting, watching, welcome,
};
use crate::commands::{diff, doctor, fewer_permission_prompts, mcp, plugin, resume, rewind, tasks};
use crate::prompt::{completion, history};
use lathe_engine::{LAST_TURN_INTERRUPTED, OpenError, Opened, Restart};
use lathe_protocol::diagnostic::Severity;
use lathe_protocol::event::NoticeLevel;
use lathe_protocol::op::Op;
use lathe_settings::Places;
use std::path::Path;

impl App {
    /// Starts the background jobs, as soon as the prompt is painted.
    pub(crate) fn begin(&mut self) {
        self.draw();
        let has_first_prompt = self.engine.first_prompt.is_some();
        self.prompt.restore_draft(&self.places, has_first_prompt);
        let _ = crate::terminal::ask_background();
        if crate::app::look::knows_other_keys(&self.places.environment) {
            crate::terminal::use_other_keys();
        }
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

    /// Closes this conversation and continues in another one, which `words` announce. If that can't be opened,
    /// this one is opened again.
    pub(crate) fn go_to(&mut self, how: &Restart, words: &str) {
        self.engine.fallback = self.engine.handle.as_ref().map(|session| {
            let said = session.transcript().exists();
            let back = if said {
                Restart::Resume(session.session_id().to_string())
            } else {
                Restart::Clear
            };
            Fallback {
                options: session.restart(&back, &self.engine.options),
                cells: std::mem::take(&mut self.conversation.cells),
                todos: std::mem::take(&mut self.conversation.todos),
            }
        });
        self.engine.restart(how);
        self.conversation.cells.clear();
        self.conversation.todos.clear();
        self.remark(words);
        for words in crate::commands::exit::last_words(self) {
            self.remark(words);
        }
        self.conversation.cells.clear();
        self.reopen();
    }

    /// Ends the present session and continues in another folder, with the session that the options now name. The
    /// folder may have to be trusted first.
    pub(crate) fn move_to(&mut self, folder: &Path) {
        let leaving = waiting::leave(self);
        if let Some(session) = self.engine.handle.take() {
            self.jobs.task(async move {
                if let Some(leaving) = leaving {
                    leaving.await;
                }
                session.send(Op::Interrupt { drop_queued: true });
                session.finish().await;
                None
            });
        }
        self.engine.events = None;
        self.session.forget_session();
        self.layers.forget_questions();
        self.queue.forget_sent();
        self.prompt.suggestion.cancel();
        self.alarms.away.session_replaced();
        let mut environment = self.places.environment.clone();
        folder.clone_into(&mut environment.cwd);
        self.places = Places::new(environment).with_flags(&self.engine.options.settings.flags);
        self.engine.loaded_settings = None;
        self.conversation.moved_to(folder);
        self.prompt.history = history::History::new(&self.places.config_home, folder);
        self.prompt.files.index = None;
        self.jobs.start(&self.places, &self.engine.options);
        self.jobs.history(self.prompt.history.place());
        self.jobs.branch(folder);
    }

    /// Ends the present session and opens the one that the options now name.
    pub(crate) fn reopen(&mut self) {
        let leaving = waiting::leave(self);
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
            if let Some(leaving) = leaving {
                leaving.await;
            }
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
                let hidden = self.engine.starts_in_background();
                // There is no user to ask; what the folder brings is left out.
                self.engine.options.settings.restricted |= hidden && !brings.is_empty();
                if brings.is_empty() || hidden {
                    self.open_or_pick();
                } else {
                    trust::ask(self, &brings);
                }
            }
            JobResult::Opened(opened) => match *opened {
                Ok((opened, earlier)) => self.opened(opened, earlier),
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
            JobResult::ModelSwitched {
                wanted,
                source,
                done,
            } => crate::commands::model::switched(self, wanted, source, done),
            JobResult::AwaySummary { question, text } => away::tell(self, question, &text),
            JobResult::Watching(watching) => self.settings.watching = Some(*watching),
            JobResult::FilesTouched => watching::touched(self),
            JobResult::FilesRead(contents) => watching::read(self, contents),
            JobResult::Picture { picture, graphic } => pictures::drawn(self, &picture, graphic),
            JobResult::PullRequest { branch, found } => pull_request::found(self, &branch, found),
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
            JobResult::Resolved { wanted, result } => resume::resolved(self, &wanted, result),
            JobResult::Changes { commit, session } => diff::show(self, commit, session),
            JobResult::Proposals(proposals) => fewer_permission_prompts::show(self, proposals),
            JobResult::LocalServers(servers) => no_key::found(self, servers),
            JobResult::Providers(found) => providers::found(self, &found),
            JobResult::KeyStored { provider, said } => providers::stored(self, &provider, said),
            JobResult::ServersSettled => mcp::settled(self),
            JobResult::ServerChanged(report) => mcp::changed(self, report),
            JobResult::Stopped(said) => tasks::stopped(self, said),
            JobResult::Diagnosis(diagnosis) => doctor::show(self, &diagnosis),
            JobResult::PluginReady(prepared) => plugin::confirm(self, prepared),
            JobResult::PluginsChanged(said) => plugin::changed(self, said),
            JobResult::Prompts(prompts) => rewind::show_prompts(self, &prompts),
            JobResult::Rewound(result) => rewind::done(self, result),
            JobResult::KeyboardWanted(id) => keyboard::wanted(self, &id),
            JobResult::KeyboardChanged => keyboard::changed(self),
            JobResult::Command(result) => crate::commands::results::finished(self, result),
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
        pictures::crashed(self);
        let what = crate::terminal::panic_guard::message();
        if self.engine.opening {
            self.exit.failure = Some(what);
            self.exit.leave = Some(Leave::Failed);
        } else {
            self.warn(what);
        }
    }

    fn opened(&mut self, opened: Opened, earlier: Earlier) {
        let Earlier { records, waiting } = earlier;
        let records = records.as_slice();
        self.engine.opening = false;
        self.engine.pick_session = false;
        self.session.mode = opened.session.permissions().mode();
        self.session.model = opened.session.model().current();
        crate::terminal::panic_guard::session(opened.session.session_id().to_string());
        self.engine.fallback = None;
        let mut has_unfinished = false;
        if !std::mem::take(&mut self.engine.returned) {
            self.with_look(|conversation, look| {
                has_unfinished = conversation.resume(records, look);
            });
            if !records.is_empty() {
                // A list with ids is no part of the transcript.
                self.conversation.todos = opened.session.tasks().todos();
            }
        }
        let cost = opened.session.history().totals().cost_usd();
        self.session.spending =
            crate::app::spending::Spending::since(cost, self.settings.cost_threshold);
        keyboard::serve(self, &opened.session);
        self.engine.handle = Some(opened.session);
        opened.events.for_people();
        opened.events.with_agents();
        self.engine.events = Some(opened.events);
        self.exit.failure = None;
        waiting::restore(self, waiting, records);
        crate::app::hosting::opened(self, records);
        settings::plugins_loaded(self);
        if records.is_empty() {
            welcome::say(self);
        }
        // Below what they are about.
        for remark in opened.remarks {
            match remark.severity {
                // Its calls stand above, marked.
                Severity::Note
                    if has_unfinished && remark.text.starts_with(LAST_TURN_INTERRUPTED) =>
                {
                    self.remark("Nothing is run again automatically; send \"continue\" to resume.");
                }
                Severity::Note => self.remark(remark.to_string()),
                Severity::Warning | Severity::Error => self.warn(remark.to_string()),
            }
        }
        // The session read them later than we did.
        settings::reload(self);
        if let Some(prompt) = self.engine.first_prompt.take() {
            // It was said before anything that was typed meanwhile.
            self.queue.releasing = true;
            queue::submit(self, &prompt, &[], true, queue::When::Now);
            self.queue.releasing = false;
        }
        queue::run_held_commands(self);
        self.measure_context();
        self.set_title();
        status_line::soon(self);
        watching::start(self);
        crate::commands::search::jump(self);
    }

    /// Names the window after the session, or its folder.
    pub(crate) fn set_title(&mut self) {
        let folder = self.places.environment.cwd.file_name();
        let folder = folder.map(|name| name.to_string_lossy().into_owned());
        let name = self.session.title.clone().or(folder).unwrap_or_default();
        let title = self.screen.inline.title(&format!("{name} · lathe"));
        self.screen.pending.push_str(&title);
    }

    fn not_opened(&mut self, error: &OpenError) {
        self.engine.opening = false;
        if let Some(back) = self.engine.fallback.take() {
            self.engine.options = back.options;
            self.conversation.cells = back.cells;
            self.conversation.todos = back.todos;
            self.engine.returned = true;
            self.warn(format!("{error}\nThe current conversation stays open."));
            self.open_session();
            return;
        }
        self.exit.failure = Some(error.to_string());
        if matches!(error, OpenError::NoCredentials) && !self.engine.starts_in_background() {
            welcome::without_key(self);
            no_key::look(self);
            return;
        }
        self.exit.leave = Some(match error {
            OpenError::NoCredentials => Leave::NoCredentials,
            OpenError::Usage(_) | OpenError::Mode(_) | OpenError::NoSandbox { .. } => Leave::Usage,
            OpenError::Session(_) | OpenError::Model(_) => Leave::Failed,
        });
    }
}
