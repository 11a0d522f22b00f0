//! What extends a session, as a person sees it: agents, skills, output styles, and the commands that come
//! with them or that the engine answers itself.

use crate::app::App;
use crate::dialog::{Dialog, Item, Page, Picker, Purpose};
use crate::style::{Line, Style};
use crate::text::{clean, counted};
use futures::FutureExt as _;
use lathe_commands::CommandOutcome;
use lathe_protocol::command::BuiltinCommand;
use std::path::Path;

impl App {
    /// Sends a command that becomes words for the model: the engine fills it in.
    pub(crate) fn prompt_command(&mut self, name: &str, arguments: &str) {
        let text = format!("/{name} {arguments}").trim().to_owned();
        if self.busy() {
            // What follows a skill is a turn of its own.
            self.remark(format!("/{name} comes after this turn"));
        }
        self.submit_content(&text, text.clone().into());
    }

    /// Runs a command that the engine answers.
    pub(crate) fn engine_command(&mut self, command: BuiltinCommand, arguments: &str) {
        let Some(session) = &self.session else {
            return;
        };
        // The engine knows the answer at once; only git and files make it wait, and the commands that
        // need those are the terminal's own.
        match lathe_commands::run_builtin(session, command, arguments).now_or_never() {
            Some(CommandOutcome::Answer(answer)) if command == BuiltinCommand::ReleaseNotes => {
                self.dialog = Some(Dialog::Page(Page::of_markdown(
                    Purpose::Reading,
                    "What is new",
                    answer,
                )));
            }
            Some(CommandOutcome::Answer(answer)) => {
                let lines: Vec<Line> = answer
                    .lines()
                    .map(|line| Line::plain(clean(line)))
                    .collect();
                if lines.len() * 2 > self.rows {
                    self.read(command.to_string(), lines);
                } else {
                    self.answer(lines);
                }
            }
            Some(CommandOutcome::Refused(why)) => self.warn(why),
            Some(CommandOutcome::Clear) => self.command(BuiltinCommand::Clear.name(), ""),
            Some(CommandOutcome::Compact(words)) => {
                self.command(BuiltinCommand::Compact.name(), &words.unwrap_or_default());
            }
            Some(CommandOutcome::Prompt) => self.prompt_command(command.name(), arguments),
            None => self.warn(format!(
                "{command} takes longer than the terminal can wait."
            )),
        }
        self.mode = self
            .session
            .as_ref()
            .map_or(self.mode, |session| session.permissions().mode());
    }

    /// Opens a page to read.
    pub(crate) fn read(&mut self, title: impl Into<String>, lines: Vec<Line>) {
        self.dialog = Some(Dialog::Page(Page::of_lines(Purpose::Reading, title, lines)));
    }

    /// The agents that work can be given to, and those at work.
    pub(crate) fn agents(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let catalog = session.extensions().agents();
        let items: Vec<Item> = catalog
            .iter()
            .map(|agent| {
                let mut facts = vec![agent.source.name().to_owned()];
                facts.extend(agent.model.clone());
                if let Some(tools) = &agent.tools {
                    facts.push(counted(tools.len(), "tool"));
                }
                let mut item = Item::new(agent.name.clone(), agent.name.clone(), facts.join(" · "));
                item.preview = agent
                    .description
                    .lines()
                    .take(4)
                    .map(str::to_owned)
                    .collect();
                if let Some(path) = &agent.path {
                    item.preview.push(path.display().to_string());
                }
                item
            })
            .collect();
        let words = "Enter names one in the prompt, ctrl+o shows it. Files in .lathe/agents/ add more; /tasks shows who is at work.";
        self.choose_extension(Purpose::Agents, "Agents", items, words);
    }

    /// The skills and custom commands.
    pub(crate) fn skills(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let catalog = session.extensions().skills();
        let items: Vec<Item> = catalog
            .iter()
            .filter(|skill| skill.user_invocable)
            .map(|skill| {
                let hint = skill.argument_hint.clone().unwrap_or_default();
                let mut item = Item::new(
                    skill.name.clone(),
                    format!("/{} {hint}", skill.name).trim_end().to_owned(),
                    skill.source.name(),
                );
                item.preview = skill
                    .description
                    .lines()
                    .take(4)
                    .map(str::to_owned)
                    .collect();
                if let Some(path) = &skill.path {
                    item.preview.push(path.display().to_string());
                }
                item
            })
            .collect();
        let words = "Enter puts one into the prompt, ctrl+o shows it. Folders in .lathe/skills/ and files in .lathe/commands/ add more.";
        self.choose_extension(Purpose::Skills, "Skills and commands", items, words);
    }

    fn choose_extension(&mut self, purpose: Purpose, title: &str, items: Vec<Item>, words: &str) {
        let mut lines = vec![Line::styled(words.to_owned(), self.theme.muted)];
        let problems = self
            .session
            .as_ref()
            .map(|session| session.extensions().problems())
            .unwrap_or_default();
        for problem in problems.iter().take(4) {
            lines.push(Line::styled(
                format!("{}: {}", problem.file.display(), clean(&problem.message)),
                self.theme.warning,
            ));
        }
        self.dialog = Some(Dialog::Picker(
            Picker::new(purpose, title, items)
                .filterable()
                .explained(lines)
                .with_key('o', "show"),
        ));
    }

    /// Shows an agent's definition.
    pub(crate) fn show_agent(&mut self, name: &str) {
        let Some(session) = &self.session else {
            return;
        };
        let catalog = session.extensions().agents();
        let Some(agent) = catalog.iter().find(|agent| agent.name == name) else {
            return;
        };
        let facts = [
            ("from", agent.source.name().to_owned()),
            ("model", agent.model.clone().unwrap_or_default()),
            (
                "tools",
                agent
                    .tools
                    .as_ref()
                    .map_or_else(|| "all".to_owned(), |tools| tools.join(", ")),
            ),
        ];
        let (path, prompt) = (agent.path.clone(), agent.prompt.clone());
        let description = agent.description.clone();
        self.show_definition(name, &facts, path.as_deref(), &description, &prompt);
    }

    /// Shows what a skill or a custom command says.
    pub(crate) fn show_skill(&mut self, name: &str) {
        let Some(session) = &self.session else {
            return;
        };
        let catalog = session.extensions().skills();
        let Some(skill) = catalog.iter().find(|skill| skill.name == name) else {
            return;
        };
        let facts = [
            ("from", skill.source.name().to_owned()),
            ("model", skill.run.model.clone().unwrap_or_default()),
            ("takes", skill.argument_hint.clone().unwrap_or_default()),
        ];
        let (path, description) = (skill.path.clone(), skill.description.clone());
        let body = path
            .as_deref()
            .and_then(|path| std::fs::read_to_string(path).ok())
            .unwrap_or_default();
        self.show_definition(name, &facts, path.as_deref(), &description, &body);
    }

    fn show_definition(
        &mut self,
        name: &str,
        facts: &[(&str, String)],
        path: Option<&Path>,
        description: &str,
        body: &str,
    ) {
        let theme = self.theme();
        let mut lines = Vec::new();
        let path = path.map(|path| path.display().to_string());
        let facts = facts
            .iter()
            .map(|(name, value)| (*name, value.clone()))
            .chain(path.map(|path| ("file", path)));
        for (what, value) in facts.filter(|(_, value)| !value.is_empty()) {
            lines.push(
                Line::styled(format!("{what:<8}"), theme.muted).with(clean(&value), Style::PLAIN),
            );
        }
        for text in [description, body] {
            if !text.trim().is_empty() {
                lines.push(Line::empty());
                lines.extend(text.trim().lines().map(|line| Line::plain(clean(line))));
            }
        }
        self.read(clean(name), lines);
    }

    /// Chooses how the model talks.
    pub(crate) fn output_style(&mut self, wanted: &str) {
        let Some(session) = &self.session else {
            return;
        };
        if !wanted.is_empty() {
            match session.extensions().set_output_style(wanted) {
                Ok(name) => {
                    self.save_setting("outputStyle", name.clone().into());
                    self.remark(format!("output style: {name}, from the next turn on"));
                }
                Err(error) => self.warn(error),
            }
            return;
        }
        let (styles, present) = session.extensions().output_styles();
        let items = styles
            .iter()
            .map(|style| {
                Item::new(
                    style.name.clone(),
                    style.name.clone(),
                    format!("{} · {}", style.source.name(), style.description),
                )
            })
            .collect();
        self.dialog = Some(Dialog::Picker(
            Picker::new(Purpose::OutputStyle, "How should the model talk?", items).marked(&present),
        ));
    }

    /// Stops every agent at work.
    pub(crate) fn stop_agents(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let stopped = session.tasks().kill_agents();
        self.agents.clear();
        self.remark(if stopped == 0 {
            "no agent is at work".to_owned()
        } else {
            format!("{} stopped", counted(stopped, "agent"))
        });
    }

    /// Plan mode; the plan, when it is on already.
    pub(crate) fn plan(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let plan = session.tasks().plan();
        if !plan.active {
            self.set_mode(lathe_protocol::permission::PermissionMode::Plan);
            return;
        }
        let theme = self.theme();
        let mut lines = vec![Line::styled(
            format!("The plan ({})", plan.file.display()),
            theme.heading,
        )];
        if plan.text.trim().is_empty() {
            lines.push(Line::styled("  nothing is written yet", theme.muted));
        } else {
            let look = crate::markdown::Look {
                theme: &theme,
                columns: self.width(),
            };
            lines.extend(crate::markdown::render(&plan.text, look));
        }
        self.answer(lines);
    }
}
