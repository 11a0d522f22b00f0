//! Commands that choose: model, thinking, permissions, mode, folders, title, theme.

use crate::app::App;
use crate::dialog::{Dialog, Item, Picker, Purpose};
use crate::style::Line;
use crate::theme::Theme;
use lathe_protocol::permission::{Behavior, PermissionMode, PermissionUpdate, RuleSource};

impl App {
    pub(crate) fn choose_model(&mut self, wanted: &str) {
        let Some(session) = &self.session else {
            return;
        };
        if !wanted.is_empty() {
            self.model = session.model().set(Some(wanted));
            // It is meant for what follows in this terminal, too: /clear and /fork don't take it back.
            self.options.model = Some(wanted.to_owned());
            let model = self.model.clone();
            self.remark(format!("model: {model}"));
            return;
        }
        let picker = models_picker(session.model().known(), &self.model, &self.theme);
        self.dialog = Some(Dialog::Picker(picker));
    }

    pub(crate) fn choose_effort(&mut self, wanted: &str) {
        if wanted.is_empty() {
            let items = [
                ("default", "as the session began"),
                ("low", "quick answers"),
                ("medium", "balanced"),
                ("high", "thorough"),
                ("xhigh", "more thorough"),
                ("max", "as much as the model can"),
                ("off", "no thinking"),
            ];
            let items = items
                .map(|(level, words)| Item::new(level, level, words))
                .to_vec();
            let mut picker = Picker::new(Purpose::Effort, "How hard should the model try?", items)
                .explained(vec![Line::styled(
                    "/effort <tokens> bounds how much it thinks at a time.",
                    self.theme.muted,
                )]);
            let now = self.session.as_ref();
            let now = now.and_then(|session| session.model().effort());
            if let Some(now) = now {
                picker = picker.marked(&now);
            }
            self.dialog = Some(Dialog::Picker(picker));
            return;
        }
        self.set_effort(wanted);
    }

    pub(crate) fn set_effort(&mut self, wanted: &str) {
        let Some(session) = &self.session else {
            return;
        };
        if session.model().set_effort(Some(wanted)).is_ok() {
            self.remark(format!("effort: {wanted}"));
            return;
        }
        match wanted {
            "default" => {
                // Both as the session began; taking a level back can't fail.
                let _ = session.model().set_effort(None);
                session.model().set_max_thinking_tokens(None);
            }
            "off" => session.model().set_max_thinking_tokens(Some(0)),
            number => match number.parse() {
                Ok(number) => session.model().set_max_thinking_tokens(Some(number)),
                Err(_) => {
                    self.warn(format!(
                        "/effort wants low, medium, high, xhigh or max, a number of tokens, off, or default, not '{wanted}'."
                    ));
                    return;
                }
            },
        }
        self.remark(format!("thinking: {wanted}"));
    }

    pub(crate) fn permissions(&mut self, arguments: &str) {
        let Some(session) = &self.session else {
            return;
        };
        if !arguments.is_empty() {
            self.add_rule(arguments);
            return;
        }
        let picker = rules_picker(session.permissions().rules(), self.mode, &self.theme);
        self.dialog = Some(Dialog::Picker(picker));
    }

    /// Adds `[allow|ask|deny] rule` for this person in this project.
    pub(crate) fn add_rule(&mut self, text: &str) {
        let (behavior, rule) = match text.split_once(' ') {
            Some(("allow", rest)) => (Behavior::Allow, rest),
            Some(("ask", rest)) => (Behavior::Ask, rest),
            Some(("deny", rest)) => (Behavior::Deny, rest),
            _ => (Behavior::Allow, text),
        };
        match crate::dialog::permission::check_rule(rule.trim()) {
            Ok(rule) => {
                let shown = lathe_permissions::format_rule(&rule);
                let update = PermissionUpdate::AddRules {
                    rules: vec![rule],
                    behavior,
                    destination: RuleSource::LocalSettings,
                };
                self.apply_update(
                    &update,
                    format!("rule added to your settings of this project: {shown}"),
                );
            }
            Err(error) => self.warn(error),
        }
    }

    pub(crate) fn apply_update(&mut self, update: &PermissionUpdate, said: String) {
        let Some(session) = &self.session else {
            return;
        };
        match session.permissions().apply(update) {
            Ok(()) => self.remark(said),
            Err(error) => self.warn(error.to_string()),
        }
    }

    pub(crate) fn choose_mode(&mut self, wanted: &str) {
        if !wanted.is_empty() {
            match wanted.parse() {
                Ok(mode) => self.set_mode(mode),
                Err(error) => self.warn(error.to_string()),
            }
            return;
        }
        let items = PermissionMode::ALL
            .into_iter()
            .map(|mode| {
                let what = match mode {
                    PermissionMode::Default => "asks before anything that changes something",
                    PermissionMode::AcceptEdits => "changes files in the project without asking",
                    PermissionMode::Plan => "only looks, and makes a plan",
                    PermissionMode::DontAsk => "what would ask is refused",
                    PermissionMode::BypassPermissions => "never asks; only in a sandbox",
                    PermissionMode::Auto => "a classifier answers the questions",
                };
                Item::new(mode.name(), mode.name(), what)
            })
            .collect();
        let picker = Picker::new(Purpose::Mode, "Permission mode", items).marked(self.mode.name());
        self.dialog = Some(Dialog::Picker(picker));
    }

    pub(crate) fn set_mode(&mut self, mode: PermissionMode) {
        let Some(session) = &self.session else {
            return;
        };
        match session.permissions().set_mode(mode) {
            Ok(()) => self.mode = mode,
            Err(error) => self.warn(error.to_string()),
        }
    }

    pub(crate) fn add_directory(&mut self, path: &str) {
        let folder = self.places.environment.resolve(path);
        if !folder.is_dir() {
            self.warn(format!("{} is not a folder.", folder.display()));
            return;
        }
        let update = PermissionUpdate::AddDirectories {
            directories: vec![folder.clone()],
            destination: RuleSource::Session,
        };
        self.apply_update(&update, format!("work in {} is allowed", folder.display()));
    }

    pub(crate) fn rename(&mut self, title: &str) {
        if let Some(session) = &self.session {
            session.history().rename(title);
            let title = self.screen.title(&format!("{title} · lathe"));
            self.pending_output.push_str(&title);
            self.remark("the session has a new title");
        }
    }

    pub(crate) fn choose_theme(&mut self, wanted: &str) {
        if !wanted.is_empty() {
            self.set_theme(wanted);
            self.save_setting("theme", wanted.into());
            return;
        }
        let mut items: Vec<Item> = crate::theme::BUILT_IN
            .iter()
            .map(|(name, what)| Item::new(*name, *name, *what))
            .collect();
        for entry in std::fs::read_dir(self.places.config_home.join("themes"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
                && let Some(name) = path.file_stem().and_then(|name| name.to_str())
            {
                items.push(Item::new(name, name, "your own"));
            }
        }
        let picker = Picker::new(Purpose::Theme, "Theme", items).marked(&self.theme_name);
        self.dialog = Some(Dialog::Picker(picker));
    }
}

/// The rules that count, and the way to one more.
pub(crate) fn rules_picker(
    rules: Vec<(Behavior, String, RuleSource)>,
    mode: PermissionMode,
    theme: &Theme,
) -> Picker {
    let mut items: Vec<Item> = vec![Item::new("", "Add a rule …", "")];
    for (behavior, rule, source) in rules {
        let behavior = match behavior {
            Behavior::Allow => "allow",
            Behavior::Ask => "ask",
            Behavior::Deny => "deny",
        };
        let name = serde_json::to_value(source)
            .ok()
            .and_then(|value| value.as_str().map(str::to_owned))
            .unwrap_or_default();
        items.push(Item::new(
            format!("{behavior}\n{name}\n{rule}"),
            format!("{behavior:<6}{rule}"),
            lathe_permissions::cli::source_word(source),
        ));
    }
    Picker::new(Purpose::PermissionRule, "Permission rules", items)
        .explained(vec![Line::styled(format!("mode: {mode}"), theme.muted)])
        .filterable()
        .with_key('x', "remove")
}

/// The models that have a short name.
pub(crate) fn models_picker(models: Vec<(String, String)>, now: &str, theme: &Theme) -> Picker {
    let items = models
        .into_iter()
        .map(|(alias, name)| Item::new(alias.clone(), alias, name))
        .collect();
    let words = format!("now: {now}. /model <id> takes any id.");
    Picker::new(Purpose::Model, "Which model?", items)
        .explained(vec![Line::styled(words, theme.muted)])
}
