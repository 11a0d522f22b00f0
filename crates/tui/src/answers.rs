//! What dialogs' answers do, and the commands that list and look.

use crate::app::App;
use crate::dialog::{Dialog, Form, Item, Outcome, Picker, Purpose};
use crate::jobs::Found;
use crate::style::Line;
use lathe_engine::SessionChoice;
use lathe_protocol::command::BuiltinCommand;
use lathe_protocol::elicitation::ElicitationReply;
use lathe_protocol::op::Op;
use lathe_protocol::permission::{Behavior, PermissionUpdate, RuleSource};
use lathe_protocol::record::Record;
use lathe_session::cli::RewindWhat;
use lathe_session::{RewindMode, SessionStore};
use lathe_settings::Source;
use lathe_settings::write::Edit;
use serde_json::Value;

impl App {
    pub(crate) fn dialog_done(&mut self, outcome: Outcome) {
        let Some(dialog) = self.dialog.take() else {
            return;
        };
        match (&dialog, outcome) {
            (dialog, Outcome::Answered(answer)) => {
                // First the comment: it is to reach the model with the result of the call, however soon
                // that is there.
                if let Some(comment) = answer.comment {
                    self.submit_content(&comment, comment.clone().into());
                }
                if let Some(request_id) = dialog.request_id().cloned() {
                    self.send(Op::PermissionReply {
                        request_id,
                        reply: answer.reply,
                    });
                }
            }
            (Dialog::Elicitation(dialog), Outcome::Elicited(reply)) => {
                if let (Some(url), ElicitationReply::Accept { .. }) = (dialog.url(), &reply) {
                    self.open_page(url);
                }
                self.send(Op::ElicitationReply {
                    request_id: dialog.request.request_id.clone(),
                    reply,
                });
            }
            (_, Outcome::Cancelled) => self.stepped_back(&dialog),
            (_, Outcome::Chosen(value)) => {
                if let Some(purpose) = dialog.purpose().cloned() {
                    match &dialog {
                        Dialog::Form(_) if value.is_empty() => self.stepped_back(&dialog),
                        Dialog::Form(_) => self.filled(purpose, &value),
                        _ => self.chosen(purpose, &value),
                    }
                    self.went_on_from(dialog);
                }
            }
            (_, Outcome::Other { value, key }) => {
                if let Some(purpose) = dialog.purpose().cloned() {
                    self.other(purpose, &value, key);
                    self.went_on_from(dialog);
                }
            }
            _ => {}
        }
        self.next_question();
    }

    /// A dialog was left without an answer: the one from which it was opened comes back.
    fn stepped_back(&mut self, dialog: &Dialog) {
        self.dialog = self.parents.pop();
        match dialog.purpose() {
            Some(Purpose::Trust) => self.trust_answered("leave"),
            Some(Purpose::Theme) => {
                let name = self.theme_name.clone();
                self.set_theme(&name);
            }
            Some(Purpose::Memory { text }) => {
                self.editor.set_text(&format!("# {text}"));
                self.edited();
            }
            Some(Purpose::Resume) if self.session.is_none() && !self.opening => {
                self.open_session();
            }
            Some(Purpose::PluginConfirm) => self.prepared = None,
            _ => {}
        }
    }

    /// Something was done in a dialog. If that opened another one, Esc there comes back to this one,
    /// unless it is this one again or one that was left behind on the way.
    fn went_on_from(&mut self, dialog: Dialog) {
        let Some(next) = self.dialog.as_ref().and_then(Dialog::purpose).cloned() else {
            self.parents.clear();
            return;
        };
        let same = |known: &Dialog| known.purpose() == Some(&next) && next != Purpose::Reading;
        if let Some(at) = self.parents.iter().position(same) {
            self.parents.truncate(at);
        } else if !same(&dialog)
            && dialog.purpose() != Some(&Purpose::Fetching)
            && !matches!(dialog, Dialog::Form(_))
        {
            // What was filled in is done with.
            self.parents.push(dialog);
        }
    }

    fn chosen(&mut self, purpose: Purpose, value: &str) {
        match purpose {
            Purpose::Trust => self.trust_answered(value),
            Purpose::Model => self.command(BuiltinCommand::Model.name(), value),
            Purpose::Effort => self.set_effort(value),
            Purpose::Theme => {
                self.set_theme(value);
                self.save_setting("theme", value.into());
                self.remark(format!("theme: {value}"));
            }
            Purpose::Resume => self.command(BuiltinCommand::Resume.name(), value),
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
            Purpose::Mcp => self.mcp_server(value),
            Purpose::Agents => {
                self.editor.insert(&format!("@agent-{value} "));
                self.edited();
            }
            Purpose::Skills => {
                self.editor.set_text(&format!("/{value} "));
                self.edited();
            }
            Purpose::OutputStyle => self.output_style(value),
            Purpose::Tasks => self.task_answer(value),
            Purpose::McpServer { name } => self.mcp_do(value, &name),
            Purpose::Config => self.edit_setting(value),
            Purpose::ConfigValue { key } => self.set_setting(&key, value),
            Purpose::Hooks => self.show_hook(value),
            Purpose::Plugins => self.plugin_chosen(value),
            Purpose::Plugin { id } => self.plugin_do(value, &id),
            Purpose::PluginInstall => self.fetch_plugin(value),
            Purpose::PluginConfirm => self.install_plugin(value),
            Purpose::Marketplaces => self.marketplace_chosen(value),
            Purpose::Marketplace { name } => self.marketplace_do(value, &name),
            Purpose::Editors => self.connect_editor(value),
            Purpose::Login => self.login_chosen(value),
            Purpose::Logout => self.logout_chosen(value),
            Purpose::Cost => self.cost_answered(value),
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
            Purpose::RenameSession { id } => self.rename_session(&id, value),
            Purpose::AddMarketplace => self.add_marketplace(value),
            Purpose::KeyHelper => self.set_key_helper(value),
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
                self.permissions("");
            }
            (Purpose::Resume, key) => self.sessions_key(value, key),
            (Purpose::Agents, 'o') => self.show_agent(value),
            (Purpose::Skills, 'o') => self.show_skill(value),
            (Purpose::Tasks, 'x') => self.stop_task(value),
            (Purpose::TaskOutput { id }, 'x') => self.stop_task(&id),
            (Purpose::TaskOutput { id }, 'r') => self.task_answer(&id),
            _ => {}
        }
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

    pub(crate) fn ask_rewind(&mut self, to: &str) {
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

    /// Writes a setting of this person. Gives whether that worked; if not, it is said.
    pub(crate) fn save_setting(&mut self, key: &str, value: Value) -> bool {
        let name = key;
        let Ok(key) = key.parse() else {
            return false;
        };
        let edits = [Edit::Set { key, value }];
        match lathe_settings::write::write(&self.places, Source::User, &edits, None) {
            Ok(_) => {
                self.saved_settings.push(name.to_owned());
                true
            }
            Err(error) => {
                self.warn(error.to_string());
                false
            }
        }
    }

    /// Whether a notice only tells of a setting that was saved here a moment ago: that was said then.
    pub(crate) fn saved_here(&mut self, notice: &str) -> bool {
        let Some(change) = notice.strip_prefix("Settings changed: ") else {
            return false;
        };
        let at = self.saved_settings.iter().position(|key| {
            change
                .strip_prefix(key.as_str())
                .is_some_and(|rest| rest.starts_with([' ', ':']))
        });
        let alone = !change.contains(", ");
        at.map(|at| self.saved_settings.swap_remove(at)).is_some() && alone
    }

    pub(crate) fn config(&mut self, arguments: &str) {
        // A value after a blank is kept, one after `=` is for this session; a key alone is shown.
        if let Some((key, value)) = arguments.split_once(|c: char| c == '=' || c.is_whitespace())
            && !value.trim_start().starts_with('=')
            && arguments.as_bytes().get(key.len()) != Some(&b'=')
        {
            self.set_setting(key, value.trim());
            return;
        }
        if !arguments.is_empty() {
            self.engine_command(BuiltinCommand::Config, arguments);
            return;
        }
        let settings = self
            .session
            .as_ref()
            .map(|session| session.settings().json())
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
                "`/config <key> <value>` keeps a value in your settings, `/config <key>=<value>` is for this session.",
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
        let mut settings = self
            .session
            .as_ref()
            .map(|session| session.settings().json())
            .unwrap_or_default();
        settings[key] = value.clone();
        self.save_setting(key, value);
        // Not only when the engine has seen the file: a person who changes something looks at once.
        self.apply_settings(&settings);
        self.remark(format!("{shown} (kept in your settings)"));
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
    (
        "promptSuggestions",
        &["true", "false"],
        "suggest what to say next, in the empty prompt",
    ),
    (
        "awaySummary",
        &["true", "false"],
        "tell what happened while you were away",
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
    (
        "verbose",
        &["true", "false"],
        "show what tools answered unfolded",
    ),
    (
        "costThresholdUsd",
        &[],
        "dollars after which you are asked whether to go on; 0 never asks",
    ),
];

/// How long ago, in words.
pub(crate) fn ago(time: jiff::Timestamp) -> String {
    let seconds = (jiff::Timestamp::now().as_second() - time.as_second()).max(0);
    match seconds {
        0..=59 => "just now".to_owned(),
        60..=3599 => format!("{} min ago", seconds / 60),
        3600..=86_399 => format!("{} h ago", seconds / 3600),
        86_400..=2_591_999 => format!("{} d ago", seconds / 86_400),
        _ => time.to_string().chars().take(10).collect(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_setting_that_was_saved_here_is_not_told_again() {
        let mut app = crate::view_tests::app(80, 24);
        app.saved_settings = vec!["verbose".to_owned(), "theme".to_owned()];
        let table = [
            ("Settings changed: verboseness is now true", false),
            ("Settings changed: verbose is now true", true),
            ("Settings changed: verbose is now false", false),
            (
                "Settings changed: theme is now \"dark\", model is now \"opus\"",
                false,
            ),
            ("something else", false),
        ];
        for (notice, expected) in table {
            assert_eq!(app.saved_here(notice), expected, "{notice}");
        }
    }
}
