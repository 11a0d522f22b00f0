//! Commands that list and look: what is set up, what runs, what changed.

use crate::app::App;
use crate::dialog::{Dialog, Item, Picker, Purpose};
use crate::diff;
use crate::jobs::Found;
use crate::style::{Line, Style};
use lathe_engine::memory::AutoMemory;
use lathe_session::export::ExportFormat;

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
        let mut items: Vec<Item> = session
            .agents()
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
        items.extend(session.background_tasks().into_iter().map(|task| {
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
        if items.is_empty() {
            self.remark("nothing runs in the background");
            return;
        }
        self.dialog = Some(Dialog::Picker(
            Picker::new(Purpose::Tasks, "In the background", items).with_key('x', "stop"),
        ));
    }

    /// What a task has written.
    pub(crate) fn task_answer(&mut self, id: &str) {
        let Some(session) = &self.session else {
            return;
        };
        match session.task_output(id, 20_000) {
            Ok((text, _, _)) => {
                let theme = self.theme();
                let mut lines = vec![Line::styled(format!("What {id} wrote"), theme.heading)];
                let written = crate::text::terminal_lines(text.trim_end());
                let skipped = written.len().saturating_sub(200);
                if skipped > 0 {
                    lines.push(Line::styled(
                        format!("  … {} before", crate::text::counted(skipped, "line")),
                        theme.muted,
                    ));
                }
                lines.extend(
                    written
                        .into_iter()
                        .skip(skipped)
                        .map(|line| Line::plain(format!("  {line}"))),
                );
                self.answer(lines);
            }
            Err(error) => self.warn(error),
        }
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
