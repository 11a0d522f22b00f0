//! What dialogs' answers do, and the commands that list and look.

use crate::app::App;
use crate::cell::Cell;
use crate::dialog::{Dialog, Form, Item, Outcome, Picker, Purpose};
use crate::diff;
use crate::jobs::Found;
use crate::style::{Line, Style};
use lathe_engine::SessionChoice;
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::permission::{Behavior, PermissionUpdate, RuleSource};
use lathe_protocol::record::Record;
use lathe_session::cli::RewindWhat;
use lathe_session::export::ExportFormat;
use lathe_session::{RewindMode, SessionInfo, SessionStore};
use lathe_settings::Source;
use lathe_settings::write::Edit;
use serde_json::Value;

impl App {
    pub(crate) fn dialog_done(&mut self, outcome: Outcome) {
        let Some(dialog) = self.dialog.take() else {
            return;
        };
        match (dialog, outcome) {
            (Dialog::Permission(dialog), Outcome::Answered(answer)) => {
                self.send(Op::PermissionReply {
                    request_id: dialog.request.request_id.clone(),
                    reply: answer.reply,
                });
                if let Some(comment) = answer.comment {
                    self.submit_content(&comment, comment.clone().into());
                }
            }
            (Dialog::Picker(picker), Outcome::Chosen(value)) => self.chosen(picker.purpose, &value),
            (Dialog::Form(form), Outcome::Chosen(value)) if !value.is_empty() => {
                self.filled(form.purpose, &value);
            }
            (Dialog::Picker(picker), Outcome::Other { value, key }) => {
                self.other(picker.purpose, &value, key);
            }
            (Dialog::Picker(picker), Outcome::Cancelled) => match picker.purpose {
                Purpose::Trust => self.trust_answered("leave"),
                Purpose::Theme => {
                    let name = self.theme_name.clone();
                    self.set_theme(&name);
                }
                Purpose::Memory { text } => {
                    self.editor.set_text(&format!("# {text}"));
                    self.edited();
                }
                Purpose::Resume if self.session.is_none() && !self.opening => self.open_session(),
                _ => {}
            },
            _ => {}
        }
        self.next_question();
    }

    fn chosen(&mut self, purpose: Purpose, value: &str) {
        match purpose {
            Purpose::Trust => self.trust_answered(value),
            Purpose::Model => self.command("model", value),
            Purpose::Effort => self.set_effort(value),
            Purpose::Theme => {
                self.set_theme(value);
                self.save_setting("theme", value.into());
                self.remark(format!("theme: {value}"));
            }
            Purpose::Resume => self.command("resume", value),
            Purpose::RewindTo => self.ask_rewind(value),
            Purpose::RewindWhat { to } => self.rewind(&to, value),
            Purpose::Mode => {
                if let Ok(mode) = value.parse() {
                    self.set_mode(mode);
                }
            }
            Purpose::Memory { text } => self.remember(&text, value),
            Purpose::History => {
                self.editor.set_text(value);
                self.edited();
            }
            Purpose::Config => self.edit_setting(value),
            Purpose::ConfigValue { key } => self.set_setting(&key, value),
            Purpose::PermissionRule if value.is_empty() => {
                self.dialog = Some(Dialog::Form(Form::new(
                    Purpose::AddRule,
                    "A rule such as Bash(cargo test:*), with allow, ask or deny in front",
                    "allow ",
                )));
            }
            _ => {}
        }
    }

    fn filled(&mut self, purpose: Purpose, value: &str) {
        match purpose {
            Purpose::AddDirectory => self.add_directory(value),
            Purpose::Rename => self.rename(value),
            Purpose::AddRule => self.add_rule(value),
            Purpose::ConfigValue { key } => self.set_setting(&key, value),
            _ => {}
        }
    }

    fn other(&mut self, purpose: Purpose, value: &str, key: char) {
        match (purpose, key) {
            (Purpose::PermissionRule, 'x') => {
                let mut parts = value.splitn(3, '\n');
                let (Some(behavior), Some(source), Some(rule)) =
                    (parts.next(), parts.next(), parts.next())
                else {
                    return;
                };
                let behavior = match behavior {
                    "allow" => Behavior::Allow,
                    "ask" => Behavior::Ask,
                    _ => Behavior::Deny,
                };
                let source: Option<RuleSource> =
                    serde_json::from_value(Value::String(source.to_owned())).ok();
                if let (Ok(rule_value), Some(destination)) =
                    (crate::dialog::permission::check_rule(rule), source)
                {
                    let update = PermissionUpdate::RemoveRules {
                        rules: vec![rule_value],
                        behavior,
                        destination,
                    };
                    self.apply_update(&update, format!("rule removed: {rule}"));
                }
            }
            (Purpose::Resume, 'a') => self.list_sessions(true),
            (Purpose::Resume, 'p') => self.list_sessions(false),
            (Purpose::Tasks, 'x') => {
                let id = value.to_owned();
                if let Some(session) = &self.session {
                    let stop = session.stop_task_later(&id);
                    self.jobs.task(async move {
                        Some(Found::Said(stop.await.map(|()| format!("stopped {id}"))))
                    });
                }
            }
            _ => {}
        }
    }

    pub(crate) fn show_sessions(&mut self, sessions: &[SessionInfo], everywhere: bool) {
        if sessions.is_empty() && (everywhere || self.session.is_none()) {
            self.remark("there are no sessions yet");
            if self.session.is_none() && !self.opening {
                self.open_session();
            }
            return;
        }
        let present = self
            .session
            .as_ref()
            .map(lathe_engine::SessionHandle::session_id);
        let items: Vec<Item> = sessions
            .iter()
            .filter(|info| Some(info.id) != present)
            .map(|info| {
                let title = info
                    .title
                    .clone()
                    .or_else(|| info.first_prompt.clone())
                    .unwrap_or_else(|| "(nothing was said)".to_owned());
                let mut facts = vec![ago(info.modified)];
                facts.extend(info.branch.clone().filter(|branch| !branch.is_empty()));
                if everywhere && let Some(cwd) = &info.cwd {
                    facts.push(cwd.display().to_string());
                }
                facts.extend(info.tag.clone().map(|tag| format!("#{tag}")));
                let mut item = Item::new(
                    info.id.to_string(),
                    title.lines().next().unwrap_or_default(),
                    facts.join(" · "),
                );
                item.preview = info
                    .first_prompt
                    .iter()
                    .flat_map(|prompt| prompt.lines().take(4))
                    .map(str::to_owned)
                    .collect();
                item
            })
            .collect();
        let picker = Picker::new(
            Purpose::Resume,
            if everywhere {
                "Go on with (all folders)"
            } else {
                "Go on with"
            },
            items,
        )
        .filterable()
        .with_key('a', "all folders")
        .with_key('p', "this project");
        self.dialog = Some(Dialog::Picker(picker));
    }

    pub(crate) fn list_prompts(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let path = session.transcript().to_owned();
        self.jobs.blocking(move || {
            let loaded = match lathe_session::load(&path) {
                Ok(loaded) => loaded,
                Err(error) => return Some(Found::Said(Err(error.to_string()))),
            };
            let prompts = loaded
                .prompts()
                .into_iter()
                .rev()
                .filter_map(|record| match &*record {
                    Record::Message(message) => Some((
                        message.uuid.to_string(),
                        message.message.as_ref()?.text(),
                        message.timestamp.clone(),
                    )),
                    _ => None,
                })
                .collect();
            Some(Found::Prompts(prompts))
        });
    }

    pub(crate) fn show_prompts(&mut self, prompts: &[(String, String, String)]) {
        if prompts.is_empty() {
            self.remark("there is nothing to go back to yet");
            return;
        }
        let items = prompts
            .iter()
            .map(|(id, text, time)| {
                let when = time
                    .parse::<jiff::Timestamp>()
                    .map_or_else(|_| String::new(), ago);
                Item::new(id.clone(), text.lines().next().unwrap_or_default(), when)
            })
            .collect();
        self.dialog = Some(Dialog::Picker(
            Picker::new(Purpose::RewindTo, "Go back to before which prompt?", items).filterable(),
        ));
    }

    fn ask_rewind(&mut self, to: &str) {
        let items = vec![
            Item::new("both", "Conversation and files", ""),
            Item::new(
                "conversation",
                "Only the conversation",
                "files stay as they are",
            ),
            Item::new("files", "Only the files", "the conversation stays"),
        ];
        self.dialog = Some(Dialog::Picker(Picker::new(
            Purpose::RewindWhat { to: to.to_owned() },
            "What should go back?",
            items,
        )));
    }

    fn rewind(&mut self, to: &str, what: &str) {
        let Some(session) = self.session.take() else {
            return;
        };
        self.events = None;
        let id = session.session_id().to_string();
        let what = match what {
            "both" => RewindWhat::Both,
            "files" => RewindWhat::Files,
            _ => RewindWhat::Conversation,
        };
        let store = SessionStore::new(&self.places.config_home);
        let cwd = self.places.environment.cwd.clone();
        let to = to.to_owned();
        self.options.session = SessionChoice::Resume(id.clone());
        self.options.fork = false;
        self.options.session_id = None;
        self.opening = true;
        // The transcript is free for the rewind only after the session has let go of it.
        self.jobs.task(async move {
            session.finish().await;
            let outcome =
                lathe_session::cli::rewind(&store, &id, &cwd, &to, what, RewindMode::Apply).await;
            Some(Found::Rewound(match outcome {
                Ok(outcome) => Ok(lathe_session::cli::rewind_text(&outcome, RewindMode::Apply)),
                Err(error) => Err(error.to_string()),
            }))
        });
    }

    pub(crate) fn rewound(&mut self, result: Result<String, String>) {
        self.conversation.cells.clear();
        match result {
            Ok(text) => {
                self.remark(text.trim_end().to_owned());
                self.remark("── the conversation as it now stands ──");
            }
            Err(error) => self.warn(error),
        }
        self.conversation.cells.clear();
        self.reopen();
    }

    pub(crate) fn ask_memory(&mut self, text: &str) {
        let project = &self.places.project;
        let existing = ["AGENTS.md", "CLAUDE.md"]
            .iter()
            .find(|name| project.join(name).is_file())
            .unwrap_or(&"AGENTS.md");
        let user = self.user_memory();
        let items = vec![
            Item::new(
                project.join(existing).display().to_string(),
                "For this project",
                format!("{existing}, shared with everybody"),
            ),
            Item::new(
                user.display().to_string(),
                "For all your projects",
                user.display().to_string(),
            ),
        ];
        let picker = Picker::new(
            Purpose::Memory {
                text: text.to_owned(),
            },
            "Where should this be remembered?",
            items,
        )
        .explained(vec![Line::plain(format!("  {text}"))]);
        self.dialog = Some(Dialog::Picker(picker));
    }

    fn user_memory(&self) -> std::path::PathBuf {
        let home = &self.places.config_home;
        ["AGENTS.md", "LATHE.md", "CLAUDE.md"]
            .iter()
            .map(|name| home.join(name))
            .find(|path| path.is_file())
            .unwrap_or_else(|| home.join("AGENTS.md"))
    }

    fn remember(&mut self, text: &str, file: &str) {
        let path = std::path::Path::new(file);
        let before = std::fs::read_to_string(path).unwrap_or_default();
        let gap = if before.is_empty() || before.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        let result = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(path, format!("{before}{gap}- {text}\n")));
        match result {
            Ok(()) => {
                self.remark(format!("remembered in {}", path.display()));
                let mut prompt = Prompt::new(format!(
                    "The user asked to remember this, and it was added to {}: {text}",
                    path.display()
                ));
                prompt.context_only = true;
                prompt.is_meta = true;
                self.own_context.insert(prompt.uuid);
                self.send(Op::Prompt(prompt));
            }
            Err(error) => self.warn(format!("{} can't be written: {error}", path.display())),
        }
    }

    /// Writes a setting of this person.
    pub(crate) fn save_setting(&mut self, key: &str, value: Value) {
        let Ok(key) = key.parse() else {
            return;
        };
        if let Err(error) = lathe_settings::write::write(
            &self.places,
            Source::User,
            &[Edit::Set { key, value }],
            None,
        ) {
            self.warn(error.to_string());
        }
    }

    pub(crate) fn config(&mut self, arguments: &str) {
        if let Some((key, value)) = arguments.split_once(char::is_whitespace) {
            self.set_setting(key, value.trim());
            return;
        }
        let settings = self
            .session
            .as_ref()
            .map(lathe_engine::SessionHandle::settings)
            .unwrap_or_default();
        let items = CONFIG
            .iter()
            .map(|(key, choices, what)| {
                let value = settings.get(key).map_or_else(
                    || "not set".to_owned(),
                    |value| {
                        value
                            .as_str()
                            .map_or_else(|| value.to_string(), str::to_owned)
                    },
                );
                let choices = if choices.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", choices.join(", "))
                };
                Item::new(*key, format!("{key}: {value}"), format!("{what}{choices}"))
            })
            .collect();
        let picker = Picker::new(Purpose::Config, "Settings", items)
            .explained(vec![Line::styled(
                "`/config <key> <value>` sets any key; `lathe config` knows all of them.",
                self.theme.muted,
            )])
            .filterable();
        self.dialog = Some(Dialog::Picker(picker));
    }

    fn edit_setting(&mut self, key: &str) {
        let Some((key, choices, what)) = CONFIG.iter().find(|(known, ..)| *known == key) else {
            return;
        };
        let purpose = Purpose::ConfigValue {
            key: (*key).to_owned(),
        };
        self.dialog = Some(if choices.is_empty() {
            Dialog::Form(Form::new(purpose, format!("{key}: {what}"), ""))
        } else {
            let items = choices
                .iter()
                .map(|choice| Item::new(*choice, *choice, ""))
                .collect();
            Dialog::Picker(Picker::new(purpose, format!("{key}: {what}"), items))
        });
    }

    fn set_setting(&mut self, key: &str, text: &str) {
        let value =
            serde_json::from_str::<Value>(text).unwrap_or_else(|_| Value::String(text.to_owned()));
        let path = match key.parse() {
            Ok(path) => path,
            Err(error) => {
                self.warn(format!("{error}"));
                return;
            }
        };
        if let Err(error) = lathe_settings::write::check(&path, &value) {
            self.warn(error.to_string());
            return;
        }
        let shown = format!("{key}: {value}");
        self.save_setting(key, value);
        match key {
            "theme" => self.set_theme(text),
            "editorMode" => self.vim = (text == "vim").then(crate::editor::vim::Vim::default),
            _ => {}
        }
        self.remark(format!("{shown} (kept in your settings)"));
    }

    pub(crate) fn memory(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let theme = self.theme();
        let files = session.context_usage().instruction_files;
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
        self.answer(lines);
    }

    pub(crate) fn hooks(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let theme = self.theme();
        let mut lines = vec![Line::styled("Hooks", theme.heading)];
        let hooks = session.hooks().list();
        if hooks.is_empty() {
            lines.push(Line::styled("  none", theme.muted));
        }
        for hook in hooks {
            let matcher = hook
                .matcher
                .map_or_else(String::new, |matcher| format!("({matcher})"));
            let mut line = Line::styled(format!("  {:?}{matcher} ", hook.event), theme.accent)
                .with(crate::text::clean(&hook.hook), Style::PLAIN);
            if let Some(off) = hook.off {
                line.push(format!(" · off: {off}"), theme.warning);
            }
            if let Some(file) = hook.file {
                line.push(format!(" · {}", file.display()), theme.muted);
            }
            lines.push(line);
        }
        self.answer(lines);
    }

    pub(crate) fn tools(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let theme = self.theme();
        let mut lines = vec![Line::styled("Tools", theme.heading)];
        lines.extend(
            session
                .tool_names()
                .into_iter()
                .map(|name| Line::plain(format!("  {name}"))),
        );
        self.answer(lines);
    }

    pub(crate) fn tasks(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let items: Vec<Item> = session
            .background_tasks()
            .into_iter()
            .map(|task| {
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
            })
            .collect();
        if items.is_empty() {
            self.remark("nothing runs in the background");
            return;
        }
        self.dialog = Some(Dialog::Picker(
            Picker::new(Purpose::Tasks, "In the background", items).with_key('x', "stop"),
        ));
    }

    pub(crate) fn todos(&mut self) {
        self.show_todos = !self.show_todos;
        if self.conversation.todos.is_empty() {
            self.remark("there is no task list yet");
        }
    }

    pub(crate) fn diff(&mut self) {
        let cwd = self.places.environment.cwd.clone();
        let theme = self.theme();
        self.jobs.blocking(move || {
            let output = std::process::Command::new("git")
                .args(["-c", "color.ui=false", "diff", "--no-ext-diff", "HEAD"])
                .env("GIT_OPTIONAL_LOCKS", "0")
                .env("LC_ALL", "C")
                .current_dir(&cwd)
                .output();
            let text = match output {
                Ok(output) if output.status.success() => {
                    String::from_utf8_lossy(&output.stdout).into_owned()
                }
                Ok(output) => {
                    return Some(Found::Said(Err(format!(
                        "git diff: {}",
                        String::from_utf8_lossy(&output.stderr).trim()
                    ))));
                }
                Err(error) => return Some(Found::Said(Err(format!("git can't be run: {error}")))),
            };
            if text.trim().is_empty() {
                return Some(Found::Said(Ok(
                    "nothing differs from the last commit".to_owned()
                )));
            }
            Some(Found::Lines(git_diff(&text, &theme)))
        });
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
            facts.push(("key from", session.key_source().to_owned()));
            facts.push(("mode", self.mode.to_string()));
            facts.push(("tools", session.tool_names().len().to_string()));
        } else {
            facts.push(("session", "is being opened".to_owned()));
        }
        facts.push(("settings", self.places.config_home.display().to_string()));
        facts.push(("theme", self.theme_name.clone()));
        facts.push((
            "terminal",
            format!(
                "{}×{}, colours: {:?}",
                self.columns, self.rows, self.wishes.depth
            ),
        ));
        let mut lines = vec![Line::styled("Status", theme.heading)];
        lines.extend(facts.into_iter().map(|(name, value)| {
            Line::styled(format!("  {name:<11}"), theme.muted).with(value, Style::PLAIN)
        }));
        self.answer(lines);
    }

    pub(crate) fn doctor(&mut self) {
        let theme = self.theme();
        let mut lines = vec![Line::styled("Check", theme.heading)];
        let mut check = |fine: bool, what: String| {
            let (mark, style) = if fine {
                ("  ✓ ", theme.success)
            } else {
                ("  ✗ ", theme.error)
            };
            lines.push(Line::styled(mark, style).with(what, Style::PLAIN));
        };
        let home = &self.places.config_home;
        check(
            std::fs::create_dir_all(home).is_ok(),
            format!("the config home {} can be written", home.display()),
        );
        let git = std::process::Command::new("git")
            .arg("--version")
            .output()
            .is_ok_and(|output| output.status.success());
        check(git, "git can be run".to_owned());
        check(self.session.is_some(), "a session is open".to_owned());
        let (_, problems) = crate::keymap::Keymap::load(&home.join("keybindings.json"));
        check(
            problems.is_empty(),
            if problems.is_empty() {
                "the key bindings are fine".to_owned()
            } else {
                problems.join("; ")
            },
        );
        self.answer(lines);
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
            self.places.environment.variable("TERM").unwrap_or_default(),
        );
        match std::fs::write(&target, text) {
            Ok(()) => self.remark(format!(
                "{} is prepared; nothing was sent",
                target.display()
            )),
            Err(error) => self.warn(format!("{} can't be written: {error}", target.display())),
        }
    }

    /// Runs the person's shell command.
    pub(crate) fn run_shell(&mut self, command: &str) {
        let Some(session) = &self.session else {
            self.warn("The session is being opened; try again in a moment.");
            return;
        };
        if self.shell_run.is_some() {
            self.warn("A shell command runs already; esc stops it.");
            return;
        }
        let shell = session.shell();
        let cancel = tokio_util::sync::CancellationToken::new();
        self.shell_run = Some(crate::app::ShellRun {
            command: command.to_owned(),
            tail: String::new(),
            cancel: cancel.clone(),
        });
        let command = command.to_owned();
        let sender = self.jobs.sender();
        let progress = self.jobs.sender();
        tokio::spawn(async move {
            let options = lathe_shell::run::RunOptions {
                timeout: std::time::Duration::from_secs(600),
                cancel,
                progress: Some(std::sync::Arc::new(
                    move |so_far: lathe_shell::run::Progress| {
                        let _ = progress.send(Found::ShellProgress(so_far.last_lines));
                    },
                )),
                ..lathe_shell::run::RunOptions::default()
            };
            let found = match shell.run(&command, options).await {
                Ok(finished) => {
                    let exit_code = match finished.exit {
                        lathe_shell::run::Exit::Exited(code) => Some(code),
                        _ => None,
                    };
                    Found::ShellFinished {
                        command,
                        output: finished.output.text,
                        exit_code,
                        failed: None,
                    }
                }
                Err(error) => Found::ShellFinished {
                    command,
                    output: String::new(),
                    exit_code: None,
                    failed: Some(error.to_string()),
                },
            };
            let _ = sender.send(found);
        });
    }

    pub(crate) fn shell_finished(
        &mut self,
        command: &str,
        output: String,
        exit_code: Option<i32>,
        failed: Option<String>,
    ) {
        self.shell_run = None;
        if let Some(error) = failed {
            self.warn(error);
            return;
        }
        let mut told = format!(
            "The user ran a shell command.\n<bash-input>{command}</bash-input>\n<bash-output>{}</bash-output>",
            crate::text::terminal_lines(&output).join("\n")
        );
        if let Some(code) = exit_code.filter(|code| *code != 0) {
            told.push_str(&format!("\n<exit-code>{code}</exit-code>"));
        }
        let cell = Cell::Shell {
            command: command.to_owned(),
            output,
            exit_code,
        };
        self.with_look(|conversation, look| conversation.push(cell, look));
        let mut prompt = Prompt::new(told);
        prompt.context_only = true;
        self.own_context.insert(prompt.uuid);
        self.send(Op::Prompt(prompt));
    }
}

/// The settings that `/config` offers: key, choices, what it is.
const CONFIG: &[(&str, &[&str], &str)] = &[
    ("model", &[], "the model to talk to"),
    (
        "theme",
        &[
            "auto",
            "dark",
            "light",
            "dark-colorblind",
            "light-colorblind",
            "ansi",
        ],
        "colours",
    ),
    ("editorMode", &["normal", "vim"], "how the prompt is edited"),
    (
        "notifications",
        &["auto", "bell", "desktop", "off"],
        "how you are told that something waits",
    ),
    (
        "autoCompact",
        &["true", "false"],
        "summarise before the window is full",
    ),
    (
        "prefersReducedMotion",
        &["true", "false"],
        "no moving spinner",
    ),
    (
        "spinnerTipsEnabled",
        &["true", "false"],
        "hints while waiting",
    ),
    ("language", &[], "the language of the answers"),
    ("outputStyle", &[], "the style of the answers"),
    (
        "cleanupPeriodDays",
        &[],
        "days after which unused sessions are deleted",
    ),
    (
        "respectGitignore",
        &["true", "false"],
        "leave ignored files out of @ completion",
    ),
];

/// How long ago, in words.
fn ago(time: jiff::Timestamp) -> String {
    let seconds = (jiff::Timestamp::now().as_second() - time.as_second()).max(0);
    match seconds {
        0..=59 => "just now".to_owned(),
        60..=3599 => format!("{} min ago", seconds / 60),
        3600..=86_399 => format!("{} h ago", seconds / 3600),
        86_400..=2_591_999 => format!("{} d ago", seconds / 86_400),
        _ => time.to_string().chars().take(10).collect(),
    }
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

/// What git printed, as our own diffs look.
fn git_diff(text: &str, theme: &crate::theme::Theme) -> Vec<Line> {
    let mut out = Vec::new();
    let mut path = std::path::PathBuf::new();
    let mut hunk: Option<lathe_protocol::display::Hunk> = None;
    let flush = |hunk: &mut Option<lathe_protocol::display::Hunk>,
                 path: &std::path::Path,
                 out: &mut Vec<Line>| {
        if let Some(hunk) = hunk.take() {
            out.extend(diff::lines(path, &[hunk], theme, 400));
        }
    };
    for line in text.lines() {
        if line.starts_with("diff --git") {
            flush(&mut hunk, &path, &mut out);
        } else if let Some(name) = line.strip_prefix("+++ ") {
            path = name.trim_start_matches("b/").into();
            out.push(Line::styled(name.trim_start_matches("b/"), theme.heading));
        } else if let Some(rest) = line.strip_prefix("@@ -") {
            flush(&mut hunk, &path, &mut out);
            let start = |text: &str| {
                text.split([',', ' '])
                    .next()
                    .and_then(|number| number.parse().ok())
                    .unwrap_or(1)
            };
            let new = rest.split('+').nth(1).map_or(1, start);
            hunk = Some(lathe_protocol::display::Hunk {
                old_start: start(rest),
                old_lines: 0,
                new_start: new,
                new_lines: 0,
                lines: Vec::new(),
            });
        } else if let Some(hunk) = &mut hunk {
            hunk.lines.push(line.to_owned());
            hunk.old_lines += 1;
            hunk.new_lines += 1;
        }
    }
    flush(&mut hunk, &path, &mut out);
    out
}
