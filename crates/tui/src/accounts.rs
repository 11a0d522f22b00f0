//! `/login` and `/logout`: where the key for the model comes from.
//!
//! Lathe keeps no key itself and shows none. A key is given by the environment or printed by a program of
//! the person's (`apiKeyHelper`), which is what can be set and taken away here.

use crate::app::App;
use crate::dialog::{Dialog, Form, Item, Picker, Purpose};
use crate::style::Line;
use crate::theme::Theme;
use lathe_settings::Source;
use lathe_settings::write::Edit;

/// The setting that names the program.
const HELPER: &str = "apiKeyHelper";

impl App {
    fn helper(&self) -> Option<String> {
        let settings = self.session.as_ref()?.settings().json();
        settings.get(HELPER)?.as_str().map(str::to_owned)
    }

    /// Says where the key comes from, and lets a program be named that prints one.
    pub(crate) fn login(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let picker = login_picker(
            session.settings().key_source(),
            self.helper().is_some(),
            &self.theme,
        );
        self.dialog = Some(Dialog::Picker(picker));
    }

    pub(crate) fn login_chosen(&mut self, what: &str) {
        match what {
            "helper" => {
                let present = self.helper().unwrap_or_default();
                self.dialog = Some(Dialog::Form(Form::new(
                    Purpose::KeyHelper,
                    "A command that prints the key, such as `pass show anthropic`",
                    &present,
                )));
            }
            "logout" => self.logout(),
            _ => self.doctor(),
        }
    }

    /// Names the program that prints the key, for this person.
    pub(crate) fn set_key_helper(&mut self, command: &str) {
        if self.save_setting(HELPER, command.into()) {
            self.remark(
                "the program is named in your settings; sessions that are opened from now on ask it for the key",
            );
        }
    }

    /// Takes the program away, or says how the key was given.
    pub(crate) fn logout(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        if self.helper().is_none() {
            let source = session.settings().key_source().to_owned();
            self.remark(format!(
                "Lathe keeps no key, so there is none to forget. This session's comes from {source}: unset it where you set it. /mcp signs out of servers."
            ));
            return;
        }
        let picker = logout_picker(session.settings().key_source(), &self.theme);
        self.dialog = Some(Dialog::Picker(picker));
    }

    pub(crate) fn logout_chosen(&mut self, what: &str) {
        if what != "forget" {
            return;
        }
        let Ok(key) = HELPER.parse() else {
            return;
        };
        match lathe_settings::write::write(&self.places, Source::User, &[Edit::Unset { key }], None) {
            Ok(_) => self.remark(
                "the program is forgotten; a settings file that a folder or your organisation brings may still name one (/doctor tells)",
            ),
            Err(error) => self.warn(error.to_string()),
        }
    }
}

fn key_lines(source: &str, theme: &Theme) -> Vec<Line> {
    vec![
        Line::styled(
            format!("The key of this session comes from {source}."),
            theme.muted,
        ),
        Line::styled(
            "Lathe keeps no keys: give one as ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN) when you start it, or name a program that prints one.",
            theme.muted,
        ),
    ]
}

/// Where the key comes from, and what can be done about it.
pub(crate) fn login_picker(source: &str, has_helper: bool, theme: &Theme) -> Picker {
    let mut items = vec![Item::new(
        "helper",
        "Name a program that prints the key …",
        "apiKeyHelper in your settings",
    )];
    if has_helper {
        items.push(Item::new("logout", "Forget the program", "as /logout does"));
    }
    items.push(Item::new(
        "doctor",
        "Check the installation",
        "as /doctor does",
    ));
    Picker::new(Purpose::Login, "The key for the model", items).explained(key_lines(source, theme))
}

/// The question whether to forget the program that prints the key.
pub(crate) fn logout_picker(source: &str, theme: &Theme) -> Picker {
    let items = vec![
        Item::new(
            "forget",
            "Forget the program that prints the key",
            "apiKeyHelper goes from your settings",
        ),
        Item::new("keep", "Keep it", ""),
    ];
    Picker::new(Purpose::Logout, "Forget where the key comes from?", items)
        .explained(key_lines(source, theme))
}
