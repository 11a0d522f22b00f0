//! Commands that list and look: what is set up, what runs, what changed.

use crate::app::App;
use crate::dialog::{ChangesDialog, Dialog, Item, Page, Picker, Purpose};
use crate::jobs::Found;
use crate::style::{Line, Style};
use crate::theme::Theme;
use lathe_doctor::{Diagnosis, DoctorOptions, Severity, TerminalFacts, diagnose};
use lathe_hooks::registry::HookListing;
use lathe_memory::AutoMemory;
use lathe_session::export::ExportFormat;
use lathe_shell::run::BackgroundCommand;
use lathe_tools::host::AgentTask;

impl App {
    /// The instruction files that are loaded and what is proposed to be remembered; `accept` and `reject`
    /// with a name decide about a proposal.
    pub(crate) fn memory(&mut self, arguments: &str) {
        let Some(session) = &self.session else {
            return;
        };
        let memory = AutoMemory::of(&self.places.config_home, &self.places.project);
        if let Some((what, name)) = arguments.split_once(char::is_whitespace) {
            let done = match what {
                "accept" => memory
                    .accept(name.trim())
                    .map(|path| format!("remembered in {}", path.display())),
                "reject" => memory
                    .reject(name.trim())
                    .map(|()| format!("'{}' is not remembered", name.trim())),
                _ => {
                    self.warn("/memory knows accept and reject, each with a name.");
                    return;
                }
            };
            match done {
                Ok(text) => self.remark(text),
                Err(error) => self.warn(error.to_string()),
            }
            return;
        }
        let theme = self.theme();
        let files = session.context().usage().instruction_files;
        let mut lines = vec![Line::styled("Instruction files", theme.heading)];
        if files.is_empty() {
            lines.push(Line::styled(
                "  none; /init writes one for this project, # adds a line",
                theme.muted,
            ));
        }
        for (path, scope, count) in files {
            lines.push(
                Line::styled(format!("  {scope:<8}"), theme.muted)
                    .with(path.display().to_string(), Style::PLAIN)
                    .with(
                        format!(" · {} tokens", crate::text::tokens(count)),
                        theme.muted,
                    ),
            );
        }
        let proposals = memory.proposals();
        if !proposals.is_empty() {
            lines.push(Line::empty());
            lines.push(Line::styled("Perhaps worth remembering", theme.heading));
            for topic in proposals {
                lines.push(
                    Line::styled(
                        format!("  {} ", crate::text::clean(&topic.name)),
                        theme.accent,
                    )
                    .with(crate::text::clean(&topic.description), Style::PLAIN),
                );
            }
            lines.push(Line::styled(
                "  /memory accept <name> keeps one, /memory reject <name> drops it",
                theme.muted,
            ));
        }
        self.answer(lines);
    }

    /// The hooks that are set up; Enter shows one.
    pub(crate) fn hooks(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let picker = hooks_picker(&session.hooks().list(), &self.theme);
        self.dialog = Some(Dialog::Picker(picker));
    }

    /// One hook, with everything that is known about it.
    pub(crate) fn show_hook(&mut self, index: &str) {
        let Some(session) = &self.session else {
            return;
        };
        let hooks = session.hooks().list();
        let Some(hook) = index.parse().ok().and_then(|index: usize| hooks.get(index)) else {
            return;
        };
        self.dialog = Some(Dialog::Page(hook_page(hook, &self.theme)));
    }

    pub(crate) fn tools(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let theme = self.theme();
        let mut lines = vec![Line::styled("Tools", theme.heading)];
        lines.extend(
            session
                .context()
                .tool_names()
                .into_iter()
                .map(|name| Line::plain(format!("  {name}"))),
        );
        self.answer(lines);
    }

    /// What runs, or ran, in the background: agents and commands.
    pub(crate) fn tasks(&mut self) {
        self.tasks_at(None);
    }

    fn tasks_at(&mut self, selected: Option<&str>) {
        let Some(session) = &self.session else {
            return;
        };
        let (agents, commands) = (session.tasks().agents(), session.tasks().commands());
        if agents.is_empty() && commands.is_empty() {
            self.dialog = None;
            self.remark("nothing runs in the background");
            return;
        }
        let mut picker = tasks_picker(agents, commands, &self.theme);
        if let Some(selected) = selected {
            picker = picker.at(selected);
        }
        self.dialog = Some(Dialog::Picker(picker));
    }

    /// What a task has written, from its end.
    pub(crate) fn task_answer(&mut self, id: &str) {
        let Some(session) = &self.session else {
            return;
        };
        let mut lines: Vec<Line> = match session.tasks().output(id, 200_000) {
            Ok((text, _, _)) => crate::text::terminal_lines(text.trim_end())
                .into_iter()
                .map(Line::plain)
                .collect(),
            // What has written nothing has no file yet; what is no task any more says so.
            Err(error) => vec![Line::styled(crate::text::clean(&error), self.theme.muted)],
        };
        if lines.is_empty() {
            lines.push(Line::styled("  nothing yet", self.theme.muted));
        }
        let purpose = Purpose::TaskOutput { id: id.to_owned() };
        let page = Page::of_lines(purpose, format!("What {id} wrote"), lines)
            .with_key('r', "read again")
            .with_key('x', "stop")
            .at_the_end();
        self.dialog = Some(Dialog::Page(page));
    }

    /// Stops a command or an agent in the background, and shows what still runs.
    pub(crate) fn stop_task(&mut self, id: &str) {
        let Some(session) = &self.session else {
            return;
        };
        let (id, stopped) = (id.to_owned(), id.to_owned());
        let stop = session.tasks().stop_later(&id);
        self.jobs.task(async move {
            Some(Found::Stopped(
                stop.await.map(|()| format!("{stopped} is stopped")),
            ))
        });
        self.tasks_at(Some(&id));
    }

    /// A task was stopped: the list shows it, if it is still looked at.
    pub(crate) fn task_stopped(&mut self, said: Result<String, String>) {
        match said {
            Ok(text) => self.remark(text),
            Err(error) => self.warn(error),
        }
        let selected = match &self.dialog {
            Some(Dialog::Picker(picker)) if picker.purpose == Purpose::Tasks => picker.selected(),
            _ => return,
        };
        self.tasks_at(selected.as_deref());
    }

    pub(crate) fn todos(&mut self) {
        self.show_todos = !self.show_todos;
        if self.conversation.todos.is_empty() {
            self.remark("there is no task list yet");
        }
    }

    /// Gathers what changed; the viewer opens when it is known.
    pub(crate) fn diff(&mut self) {
        let folder = self.session.as_ref().map_or_else(
            || self.places.environment.cwd.clone(),
            |session| session.context().working_folder(),
        );
        let session = self
            .session
            .as_ref()
            .map(|session| session.history().changed_files());
        let cwd = self.places.environment.cwd.clone();
        self.jobs.task(async move {
            let session = match session {
                Some(session) => session.await,
                None => Err("the session is being opened".to_owned()),
            };
            let commit = lathe_spawn::blocking(move || crate::changes::since_commit(&folder)).await;
            Some(Found::Changes {
                commit: commit.unwrap_or_else(|error| Err(error.to_string())),
                session: session.map(|files| crate::changes::of_session(&files, &cwd)),
            })
        });
    }

    pub(crate) fn changes_found(
        &mut self,
        commit: crate::changes::Changes,
        session: crate::changes::Changes,
    ) {
        let dialog = ChangesDialog::new(commit, session);
        self.bring(Dialog::Changes(Box::new(dialog)));
    }

    pub(crate) fn export(&mut self, arguments: &str) {
        let Some(session) = &self.session else {
            return;
        };
        let path = session.transcript().to_owned();
        let name = if arguments.is_empty() {
            format!("conversation-{}.md", &session.session_id().to_string()[..8])
        } else {
            arguments.to_owned()
        };
        let target = self.places.environment.resolve(&name);
        let format = match target.extension().and_then(|extension| extension.to_str()) {
            Some("json") => ExportFormat::Json,
            Some("txt") => ExportFormat::Text,
            _ => ExportFormat::Markdown,
        };
        self.jobs.blocking(move || {
            let exported = lathe_session::store::info(&path)
                .ok_or_else(|| "nothing was said yet".to_owned())
                .and_then(|info| {
                    let loaded = lathe_session::load(&path).map_err(|error| error.to_string())?;
                    let text = lathe_session::export::export(&info, &loaded, format);
                    std::fs::write(&target, text)
                        .map_err(|error| format!("{} can't be written: {error}", target.display()))
                });
            Some(Found::Said(
                exported.map(|()| format!("written to {}", target.display())),
            ))
        });
    }

    pub(crate) fn status_answer(&mut self) {
        let theme = self.theme();
        let mut facts = vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("folder", self.places.environment.cwd.display().to_string()),
        ];
        if let Some(session) = &self.session {
            facts.push(("session", session.session_id().to_string()));
            facts.push(("transcript", session.transcript().display().to_string()));
            facts.push(("model", self.model.clone()));
            facts.push(("key from", session.settings().key_source().to_owned()));
            facts.push(("mode", self.mode.to_string()));
            facts.push(("tools", session.context().tool_names().len().to_string()));
        } else {
            facts.push(("session", "is being opened".to_owned()));
        }
        facts.push(("settings", self.places.config_home.display().to_string()));
        facts.push(("theme", self.theme_name.clone()));
        facts.push((
            "terminal",
            format!(
                "{}×{}, {}",
                self.columns,
                self.rows,
                self.wishes.depth.words()
            ),
        ));
        let mut lines = vec![Line::styled("Status", theme.heading)];
        lines.extend(facts.into_iter().map(|(name, value)| {
            Line::styled(format!("  {name:<11}"), theme.muted).with(value, Style::PLAIN)
        }));
        self.answer(lines);
    }

    /// Looks at everything that a session is opened with, as `lathe doctor` does.
    pub(crate) fn doctor(&mut self) {
        let environment = self.places.environment.clone();
        let size = u16::try_from(self.columns)
            .ok()
            .zip(u16::try_from(self.rows).ok());
        let options = DoctorOptions {
            settings_flags: self.options.settings_flags.clone(),
            setting_sources: self.options.setting_sources.clone(),
            plugin_folders: self.options.plugin_folders.clone(),
            terminal: TerminalFacts {
                is_terminal: true,
                size,
            },
            ..DoctorOptions::default()
        };
        self.jobs.task(async move {
            let diagnosis = Box::pin(diagnose(&environment, &options)).await;
            Some(Found::Diagnosis(Box::new(diagnosis)))
        });
    }

    pub(crate) fn diagnosed(&mut self, diagnosis: &Diagnosis) {
        // The key bindings are the terminal's own business.
        let (_, problems) =
            crate::keymap::Keymap::load(&self.places.config_home.join("keybindings.json"));
        let page = diagnosis_page(diagnosis, &problems, &self.theme);
        self.bring(Dialog::Page(page));
    }

    /// Shows a dialog that took a while to make: over whatever the person looks at now, below a question.
    pub(crate) fn bring(&mut self, dialog: Dialog) {
        match &self.dialog {
            Some(open) if open.request_id().is_some() => self.dialog_below = Some(dialog),
            _ => self.parents.extend(self.dialog.replace(dialog)),
        }
    }

    pub(crate) fn feedback(&mut self, words: &str) {
        let target = self.places.environment.resolve("lathe-feedback.md");
        let session = self
            .session
            .as_ref()
            .map_or_else(String::new, |session| session.session_id().to_string());
        let text = format!(
            "# Feedback on Lathe {}\n\nSession: {session}\nModel: {}\nTerminal: {}×{} {}\n\n## What happened\n\n{words}\n\n## What should have happened\n\n",
            env!("CARGO_PKG_VERSION"),
            self.model,
            self.columns,
            self.rows,
            self.places.environment.foreign("TERM").unwrap_or_default(),
        );
        match std::fs::write(&target, text) {
            Ok(()) => self.remark(format!(
                "{} is prepared; nothing was sent",
                target.display()
            )),
            Err(error) => self.warn(format!("{} can't be written: {error}", target.display())),
        }
    }
}

/// The hooks, by event.
pub(crate) fn hooks_picker(hooks: &[HookListing], theme: &Theme) -> Picker {
    let items: Vec<Item> = hooks
        .iter()
        .enumerate()
        .map(|(index, hook)| {
            let matcher = hook
                .matcher
                .as_ref()
                .filter(|matcher| !matcher.is_empty())
                .map_or_else(String::new, |matcher| format!("({matcher})"));
            let mut detail = hook.hook.clone();
            if let Some(off) = &hook.off {
                detail = format!("off: {off} · {detail}");
            }
            Item::new(
                index.to_string(),
                format!("{}{matcher}", hook.event),
                detail,
            )
        })
        .collect();
    let words = if items.is_empty() {
        "There are none. `hooks` in settings.json sets them up; /update-config does it for you."
    } else {
        "Enter shows one. `hooks` in settings.json sets them up; `lathe hooks test` tries them."
    };
    Picker::new(Purpose::Hooks, "Hooks", items)
        .explained(vec![Line::styled(words, theme.muted)])
        .filterable()
}

/// One hook, with everything that is known about it.
pub(crate) fn hook_page(hook: &HookListing, theme: &Theme) -> Page {
    let mut facts = vec![
        ("event", hook.event.to_string()),
        ("when", hook.event.description().to_owned()),
    ];
    facts.extend(hook.matcher.clone().map(|matcher| ("matches", matcher)));
    facts.extend(hook.condition.clone().map(|rule| ("if", rule)));
    facts.push(("limit", format!("{} s", hook.timeout)));
    facts.extend(
        hook.file
            .as_ref()
            .map(|file| ("file", file.display().to_string())),
    );
    facts.extend(hook.off.clone().map(|off| ("off", off)));
    let mut lines: Vec<Line> = facts
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| {
            Line::styled(format!("{name:<9}"), theme.muted)
                .with(crate::text::clean(&value), Style::PLAIN)
        })
        .collect();
    lines.push(Line::empty());
    lines.extend(
        crate::text::reveal(&hook.hook)
            .lines()
            .map(|line| Line::styled(line, theme.code)),
    );
    let title = format!("Hook on {}", hook.event);
    Page::of_lines(Purpose::Reading, title, lines)
}

/// Agents and commands in the background.
pub(crate) fn tasks_picker(
    agents: Vec<AgentTask>,
    commands: Vec<BackgroundCommand>,
    theme: &Theme,
) -> Picker {
    let mut items: Vec<Item> = agents
        .into_iter()
        .map(|agent| {
            let mut facts = vec![
                agent.id.to_string(),
                agent.status.word().to_owned(),
                agent.agent_type.clone(),
                format!("{} tokens", crate::text::tokens(agent.usage.total_tokens)),
            ];
            facts.extend(agent.last_tool.clone());
            let mut item = Item::new(
                agent.id.to_string(),
                agent.description.lines().next().unwrap_or_default(),
                facts.join(" · "),
            );
            item.preview = if agent.result.is_empty() {
                tail_of(&agent.output_file)
            } else {
                agent.result.lines().take(5).map(str::to_owned).collect()
            };
            item
        })
        .collect();
    items.extend(commands.into_iter().map(|task| {
        let what = if task.description.is_empty() {
            task.command.clone()
        } else {
            task.description.clone()
        };
        let mut item = Item::new(
            task.id.to_string(),
            what.lines().next().unwrap_or_default(),
            format!(
                "{} · {} · {}",
                task.id,
                task.status.word(),
                crate::text::duration(task.elapsed)
            ),
        );
        item.preview = tail_of(&task.output_file);
        item
    }));
    Picker::new(Purpose::Tasks, "In the background", items)
        .explained(vec![Line::styled(
            "Enter shows what one wrote. ctrl+x ctrl+k in the prompt stops all agents.",
            theme.muted,
        )])
        .with_key('x', "stop")
}

/// What was found, the worst first.
pub(crate) fn diagnosis_page(diagnosis: &Diagnosis, problems: &[String], theme: &Theme) -> Page {
    let mut lines = Vec::new();
    let mut check = |severity: Severity, area: &str, what: &str, fix: Option<&str>| {
        let (mark, style) = match severity {
            Severity::Fine => ("✓ ", theme.success),
            Severity::Note => ("· ", theme.muted),
            Severity::Warning => ("⚠ ", theme.warning),
            Severity::Error => ("✗ ", theme.error),
        };
        let what = crate::text::clean(what).replace('\n', " ");
        lines.push(
            Line::styled(mark, style)
                .with(format!("{area}: "), theme.muted)
                .with(what, Style::PLAIN),
        );
        if let Some(fix) = fix {
            let fix = crate::text::clean(fix).replace('\n', " ");
            lines.push(Line::styled(format!("    {fix}"), theme.muted));
        }
    };
    if problems.is_empty() {
        check(Severity::Fine, "keys", "the key bindings are fine", None);
    }
    for problem in problems {
        let fix = "/keybindings lists contexts and actions";
        check(Severity::Error, "keys", problem, Some(fix));
    }
    let mut findings: Vec<_> = diagnosis.findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    for finding in findings {
        check(
            finding.severity,
            finding.area,
            &finding.what,
            finding.fix.as_deref(),
        );
    }
    let title = match (
        diagnosis.count(Severity::Error) + problems.len(),
        diagnosis.count(Severity::Warning),
    ) {
        (0, 0) => "Check: everything is as it should be".to_owned(),
        (errors, warnings) => format!(
            "Check: {}, {}",
            crate::text::counted(errors, "error"),
            crate::text::counted(warnings, "warning")
        ),
    };
    Page::of_lines(Purpose::Reading, title, lines)
}

/// The last lines of a file.
fn tail_of(path: &std::path::Path) -> Vec<String> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let Ok(mut file) = std::fs::File::open(path) else {
        return Vec::new();
    };
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let _ = file.seek(SeekFrom::Start(length.saturating_sub(2000)));
    let mut bytes = Vec::new();
    let _ = file.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines = crate::text::terminal_lines(&text);
    lines
        .into_iter()
        .rev()
        .take(5)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect()
}
