//! What extends a session, as a person sees it: agents, skills, plugins, output styles, and the commands
//! that come with them or that the engine answers itself.

use crate::app::App;
use crate::commands;
use crate::dialog::{Dialog, Item, Picker, Purpose};
use crate::style::{Line, Style};
use crate::text::{clean, counted};
use futures::FutureExt as _;
use lathe_engine::CommandOutcome;
use lathe_extensions::{Command, CommandKind};

impl App {
    /// The commands of the session that are not the terminal's own: skills, custom commands, prompts of
    /// servers, and what the engine answers.
    pub(crate) fn session_commands(&self) -> Vec<Command> {
        let Some(session) = &self.session else {
            return Vec::new();
        };
        session
            .commands()
            .listed()
            .filter(|command| {
                command.kind != CommandKind::Dialog && !commands::is_known(&command.name)
            })
            .cloned()
            .collect()
    }

    /// Runs a command that is not the terminal's own. `false` when there is none of that name.
    pub(crate) fn session_command(&mut self, name: &str, arguments: &str) -> bool {
        let Some(session) = &self.session else {
            return false;
        };
        let registry = session.commands();
        let Some(command) = registry.find(name) else {
            return false;
        };
        let text = format!("/{name} {arguments}").trim().to_owned();
        if command.kind == CommandKind::Prompt {
            if self.busy() {
                // What follows a skill is a turn of its own.
                self.remark(format!("/{name} comes after this turn"));
            }
            self.submit_content(&text, text.clone().into());
            return true;
        }
        // What the engine answers itself it knows at once; only git and files make it wait, and the
        // commands that need those are the terminal's own.
        match session.run_command(&text).now_or_never() {
            Some(CommandOutcome::Answer(answer)) => {
                let lines = answer
                    .lines()
                    .map(|line| Line::plain(clean(line)))
                    .collect();
                self.answer(lines);
            }
            Some(CommandOutcome::Refused(why)) => self.warn(why),
            Some(CommandOutcome::Clear) => self.command("clear", ""),
            Some(CommandOutcome::Compact(words)) => {
                self.command("compact", &words.unwrap_or_default());
            }
            Some(CommandOutcome::Prompt) => self.submit_content(&text, text.clone().into()),
            None => self.warn(format!("/{name} takes longer than the terminal can wait.")),
        }
        true
    }

    /// The agents that work can be given to, and those at work.
    pub(crate) fn agents(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let catalog = session.agent_definitions();
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
        let words = "Enter names one in the prompt. Files in .lathe/agents/ add more; /tasks shows who is at work.";
        self.choose_extension(Purpose::Agents, "Agents", items, words);
    }

    /// The skills and custom commands.
    pub(crate) fn skills(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let catalog = session.skills();
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
        let words = "Enter puts one into the prompt. Folders in .lathe/skills/ and files in .lathe/commands/ add more.";
        self.choose_extension(Purpose::Skills, "Skills and commands", items, words);
    }

    fn choose_extension(&mut self, purpose: Purpose, title: &str, items: Vec<Item>, words: &str) {
        let mut lines = vec![Line::styled(words.to_owned(), self.theme.muted)];
        let problems = self
            .session
            .as_ref()
            .map(lathe_engine::SessionHandle::extension_problems)
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
                .explained(lines),
        ));
    }

    /// What plugins bring.
    pub(crate) fn plugins(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let theme = self.theme();
        let plugins = session.plugins();
        let mut lines = vec![Line::styled("Plugins", theme.heading)];
        if plugins.is_empty() {
            lines.push(Line::styled("  none is on", theme.muted));
        }
        for plugin in &plugins {
            let name = plugin.id.as_ref().unwrap_or(&plugin.name);
            let mut line = Line::styled(format!("  {} ", clean(name)), theme.accent);
            line.push(plugin.version.clone().unwrap_or_default(), Style::PLAIN);
            if !plugin.trusted {
                line.push(
                    " · not confirmed: what it would run doesn't count",
                    theme.warning,
                );
            }
            lines.push(line);
            let brings: Vec<String> = [
                (plugin.agents.len(), "agent"),
                (plugin.skills.len(), "skill"),
                (plugin.commands.len(), "command"),
                (plugin.output_styles.len(), "output style"),
                (plugin.hooks.len(), "hook"),
                (plugin.mcp_servers.len(), "MCP server"),
                (plugin.lsp_servers.len(), "language server"),
            ]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| counted(count, what))
            .collect();
            lines.push(Line::styled(
                format!("    brings {}", brings.join(", ")),
                theme.muted,
            ));
            lines.push(Line::styled(
                format!("    {}", plugin.root.display()),
                theme.muted,
            ));
        }
        lines.push(Line::styled(
            "`lathe plugin` installs, switches and removes them; /reload-plugins makes that count here.",
            theme.muted,
        ));
        self.answer(lines);
    }

    /// Chooses how the model talks.
    pub(crate) fn output_style(&mut self, wanted: &str) {
        let Some(session) = &self.session else {
            return;
        };
        if !wanted.is_empty() {
            match session.set_output_style(wanted) {
                Ok(name) => {
                    self.save_setting("outputStyle", name.clone().into());
                    self.remark(format!("output style: {name}, from the next turn on"));
                }
                Err(error) => self.warn(error),
            }
            return;
        }
        let (styles, present) = session.output_styles();
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
        let stopped = session.kill_agents();
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
        let plan = session.plan();
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
