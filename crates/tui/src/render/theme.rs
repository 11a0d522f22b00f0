//! Themes: what each role looks like. Built-in ones, and files (`theme_files`) that change some roles of a built-in
//! one.

use crate::render::style::{Color, Style};
use crate::render::theme_files::{self, ThemeFile};
use serde_json::Value;
use std::path::Path;

/// The style of each role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Theme {
    pub(crate) name: String,
    pub(crate) muted: Style,
    pub(crate) accent: Style,
    pub(crate) prompt: Style,
    pub(crate) success: Style,
    pub(crate) warning: Style,
    pub(crate) error: Style,
    pub(crate) heading: Style,
    pub(crate) code: Style,
    pub(crate) link: Style,
    pub(crate) quote: Style,
    pub(crate) selected: Style,
    pub(crate) syntax: SyntaxStyles,
    pub(crate) diff: DiffStyles,
    pub(crate) modes: ModeStyles,
}

/// Highlighted code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxStyles {
    pub(crate) keyword: Style,
    pub(crate) string: Style,
    pub(crate) number: Style,
    pub(crate) comment: Style,
    pub(crate) function: Style,
    pub(crate) type_name: Style,
}

/// Changed lines, and the changed words in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiffStyles {
    pub(crate) added: Style,
    pub(crate) removed: Style,
    pub(crate) added_word: Style,
    pub(crate) removed_word: Style,
}

/// The prompt and the footer in a mode (`!`, plan mode, accepting edits), and what was said in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModeStyles {
    pub(crate) shell: Style,
    pub(crate) plan: Style,
    pub(crate) accept: Style,
    pub(crate) said: Style,
}

/// The built-in themes and what they are for.
pub(crate) const BUILT_IN: &[(&str, &str)] = &[
    ("auto", "dark or light, matching the terminal's background"),
    ("dark", "for dark backgrounds"),
    ("light", "for light backgrounds"),
    (
        "dark-colorblind",
        "dark, blue and orange instead of green and red",
    ),
    (
        "light-colorblind",
        "light, blue and orange instead of green and red",
    ),
    ("ansi", "the terminal's own sixteen colours"),
    ("ansi-light", "the same, for light backgrounds"),
];

/// Names of some of them in this ecosystem's settings and files.
const OTHER_NAMES: [&str; 4] = [
    "dark-daltonized",
    "light-daltonized",
    "dark-ansi",
    "light-ansi",
];

const fn rgb(hex: u32) -> Style {
    Style::fg(color(hex))
}

pub(super) const fn color(hex: u32) -> Color {
    Color::Rgb(
        (hex >> 16) as u8,
        (hex >> 8 & 0xff) as u8,
        (hex & 0xff) as u8,
    )
}

impl Theme {
    /// A built-in theme; `auto` and unknown names go by the background.
    pub(crate) fn built_in(name: &str, light_background: bool) -> Self {
        match name {
            "dark" => Self::dark(),
            "light" => Self::light(),
            "dark-colorblind" | "dark-daltonized" => Self::dark().colorblind(false),
            "light-colorblind" | "light-daltonized" => Self::light().colorblind(true),
            "ansi" => Self::ansi(light_background),
            "dark-ansi" => Self::ansi(false),
            "ansi-light" | "light-ansi" => Self::ansi(true),
            _ if light_background => Self::light(),
            _ => Self::dark(),
        }
    }

    /// A theme by name: a built-in one, or one of the files. Gives what was wrong with the file.
    pub(crate) fn load(
        name: &str,
        light_background: bool,
        files: &[ThemeFile],
    ) -> (Self, Vec<String>) {
        let is_built_in = |(known, _): &(&str, &str)| *known == name;
        if OTHER_NAMES.contains(&name) || BUILT_IN.iter().any(is_built_in) {
            return (Self::built_in(name, light_background), Vec::new());
        }
        let auto = || Self::built_in("auto", light_background);
        let Some(file) = theme_files::find(files, name) else {
            let names = BUILT_IN.map_names();
            let problem = format!(
                "unknown theme '{name}': neither built in ({names}) nor a file of the folder themes or of a plugin"
            );
            return (auto(), vec![problem]);
        };
        let path = &file.path;
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                let problem = format!("the theme {} can't be read: {error}", path.display());
                return (auto(), vec![problem]);
            }
        };
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => Self::from_value(name, &value, light_background, path),
            Err(error) => (
                auto(),
                vec![format!("the theme {} is not JSON: {error}", path.display())],
            ),
        }
    }

    fn from_value(name: &str, value: &Value, light: bool, file: &Path) -> (Self, Vec<String>) {
        let base = value.get("base").and_then(Value::as_str).unwrap_or("auto");
        let mut theme = Self::built_in(base, light);
        name.clone_into(&mut theme.name);
        let mut problems = Vec::new();
        for (role, look) in value.as_object().into_iter().flatten() {
            if matches!(role.as_str(), "base" | "$schema" | "name") {
                continue;
            }
            if let ("overrides", Some(tokens)) = (role.as_str(), look.as_object()) {
                let wrong = theme_files::apply(&mut theme, tokens);
                problems.extend(wrong.into_iter().map(|token| {
                    format!(
                        "{}: overrides.{token} is not a color such as \"#d7875f\", \"rgb(215,135,95)\" or \"ansi:cyan\"",
                        file.display()
                    )
                }));
                continue;
            }
            let parsed = look.as_str().and_then(parse_look);
            match (theme.role(role), parsed) {
                (Some(slot), Some(style)) => *slot = style,
                (None, _) => problems.push(format!(
                    "{}: unknown role '{role}'; roles: {}",
                    file.display(),
                    ROLES.join(", ")
                )),
                (_, None) => problems.push(format!(
                    "{}: {role} is not a style such as \"#d7875f bold\" or \"ansi:4 on #202020\"",
                    file.display()
                )),
            }
        }
        (theme, problems)
    }

    fn role(&mut self, name: &str) -> Option<&mut Style> {
        Some(match name {
            "muted" => &mut self.muted,
            "accent" => &mut self.accent,
            "prompt" => &mut self.prompt,
            "success" => &mut self.success,
            "warning" => &mut self.warning,
            "error" => &mut self.error,
            "heading" => &mut self.heading,
            "code" => &mut self.code,
            "link" => &mut self.link,
            "quote" => &mut self.quote,
            "shell" => &mut self.modes.shell,
            "plan" => &mut self.modes.plan,
            "accept" => &mut self.modes.accept,
            "said" => &mut self.modes.said,
            "added" => &mut self.diff.added,
            "removed" => &mut self.diff.removed,
            "addedWord" => &mut self.diff.added_word,
            "removedWord" => &mut self.diff.removed_word,
            "keyword" => &mut self.syntax.keyword,
            "string" => &mut self.syntax.string,
            "number" => &mut self.syntax.number,
            "comment" => &mut self.syntax.comment,
            "function" => &mut self.syntax.function,
            "type" => &mut self.syntax.type_name,
            "selected" => &mut self.selected,
            _ => return None,
        })
    }

    fn dark() -> Self {
        Self {
            name: "dark".to_owned(),
            muted: rgb(0x8a8f98),
            accent: rgb(0xd7a65f),
            prompt: rgb(0xe6c384).bold(),
            success: rgb(0x8fbf7f),
            warning: rgb(0xe5b567),
            error: rgb(0xe06c75),
            heading: rgb(0xe6c384).bold(),
            code: rgb(0x9cc4e4),
            link: rgb(0x7aa2f7).underline(),
            quote: rgb(0x9aa0a8).italic(),
            selected: rgb(0xe6c384).bold(),
            syntax: SyntaxStyles {
                keyword: rgb(0xc792ea),
                string: rgb(0xa5c98a),
                number: rgb(0xe5a06a),
                comment: rgb(0x7c828c).italic(),
                function: rgb(0x82aaff),
                type_name: rgb(0x7fd0c4),
            },
            diff: DiffStyles {
                added: Style::PLAIN.on(color(0x1c3324)),
                removed: Style::PLAIN.on(color(0x3d2024)),
                added_word: Style::PLAIN.on(color(0x2f6b42)),
                removed_word: Style::PLAIN.on(color(0x7d3038)),
            },
            modes: ModeStyles {
                shell: rgb(0xd787af),
                plan: rgb(0x5fafaf),
                accept: rgb(0xaf87ff),
                said: Style::PLAIN.on(color(0x2c3038)).bold(),
            },
        }
    }

    fn light() -> Self {
        Self {
            name: "light".to_owned(),
            muted: rgb(0x6a6f78),
            accent: rgb(0x9a5b00),
            prompt: rgb(0x8a4b00).bold(),
            success: rgb(0x2e7d32),
            warning: rgb(0x9a6700),
            error: rgb(0xb3261e),
            heading: rgb(0x7a4100).bold(),
            code: rgb(0x1f5f99),
            link: rgb(0x1a56c4).underline(),
            quote: rgb(0x5f6570).italic(),
            selected: rgb(0x8a4b00).bold(),
            syntax: SyntaxStyles {
                keyword: rgb(0x8b2fb0),
                string: rgb(0x2f6f1f),
                number: rgb(0xa14a00),
                comment: rgb(0x747a84).italic(),
                function: rgb(0x1f4fb0),
                type_name: rgb(0x00696b),
            },
            diff: DiffStyles {
                added: Style::PLAIN.on(color(0xdcf5e0)),
                removed: Style::PLAIN.on(color(0xfbe3e4)),
                added_word: Style::PLAIN.on(color(0x9fe0ad)),
                removed_word: Style::PLAIN.on(color(0xf3aeb2)),
            },
            modes: ModeStyles {
                shell: rgb(0xa0336e),
                plan: rgb(0x00695f),
                accept: rgb(0x6a35c9),
                said: Style::PLAIN.on(color(0xe9ecf0)).bold(),
            },
        }
    }

    /// The terminal's own colours. Yellow can't be read on a light background.
    fn ansi(light: bool) -> Self {
        let ansi = |index| Style::fg(Color::Ansi(index));
        let strong = if light { ansi(4) } else { ansi(3) };
        Self {
            name: if light { "ansi-light" } else { "ansi" }.to_owned(),
            muted: Style::PLAIN.dim(),
            accent: strong,
            prompt: strong.bold(),
            success: ansi(2),
            warning: if light { ansi(5) } else { ansi(3) },
            error: ansi(1),
            heading: Style::PLAIN.bold(),
            code: ansi(6),
            link: ansi(4).underline(),
            quote: Style::PLAIN.italic(),
            selected: strong.bold(),
            syntax: SyntaxStyles {
                keyword: ansi(5),
                string: ansi(2),
                number: strong,
                comment: Style::PLAIN.dim(),
                function: ansi(4),
                type_name: ansi(6),
            },
            diff: DiffStyles {
                added: ansi(2),
                removed: ansi(1),
                added_word: ansi(2).underline(),
                removed_word: ansi(1).underline(),
            },
            modes: ModeStyles {
                shell: ansi(5),
                plan: ansi(6),
                accept: ansi(5),
                said: Style::PLAIN.bold(),
            },
        }
    }

    fn colorblind(mut self, light: bool) -> Self {
        self.name.push_str("-colorblind");
        let (blue, orange) = if light {
            (0x1f5fbf, 0xa84300)
        } else {
            (0x6cb0ff, 0xffa657)
        };
        self.success = rgb(blue);
        self.error = rgb(orange).bold();
        if light {
            self.diff.added = Style::PLAIN.on(color(0xd9e9ff));
            self.diff.removed = Style::PLAIN.on(color(0xffe6d1));
            self.diff.added_word = Style::PLAIN.on(color(0x9cc7ff));
            self.diff.removed_word = Style::PLAIN.on(color(0xffbf8a));
        } else {
            self.diff.added = Style::PLAIN.on(color(0x16304f));
            self.diff.removed = Style::PLAIN.on(color(0x46290e));
            self.diff.added_word = Style::PLAIN.on(color(0x285d99));
            self.diff.removed_word = Style::PLAIN.on(color(0x8a4d14));
        }
        self.syntax.string = rgb(blue);
        self
    }
}

trait MapNames {
    fn map_names(&self) -> String;
}

impl MapNames for [(&str, &str)] {
    fn map_names(&self) -> String {
        self.iter()
            .map(|(name, _)| *name)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

const ROLES: &[&str] = &[
    "muted",
    "accent",
    "prompt",
    "success",
    "warning",
    "error",
    "heading",
    "code",
    "link",
    "quote",
    "shell",
    "plan",
    "accept",
    "said",
    "added",
    "removed",
    "addedWord",
    "removedWord",
    "keyword",
    "string",
    "number",
    "comment",
    "function",
    "type",
    "selected",
];

/// Reads `#rrggbb`, `ansi:4`, `bold`, `dim`, `italic`, `underline`, `reverse`, `on <colour>`.
/// The look of a color that files of agents name: one of the usual names, or `#rgb` and `#rrggbb`.
pub(crate) fn named_color(name: &str) -> Option<Style> {
    let ansi = |number| Some(Style::fg(Color::Ansi(number)));
    match name {
        "red" => ansi(1),
        "green" => ansi(2),
        "yellow" => ansi(3),
        "blue" => ansi(4),
        "purple" => ansi(5),
        "cyan" => ansi(6),
        "orange" => Some(rgb(0xff_88_00)),
        "pink" => Some(rgb(0xff_69_b4)),
        hex => {
            let digits = hex.strip_prefix('#')?;
            let full = match digits.len() {
                3 => digits.chars().flat_map(|digit| [digit, digit]).collect(),
                _ => digits.to_owned(),
            };
            u32::from_str_radix(&full, 16).ok().map(rgb)
        }
    }
}

fn parse_look(text: &str) -> Option<Style> {
    let mut style = Style::PLAIN;
    let mut background = false;
    for word in text.split_whitespace() {
        match word {
            "bold" => style = style.bold(),
            "dim" => style = style.dim(),
            "italic" => style = style.italic(),
            "underline" => style = style.underline(),
            "reverse" => style = style.reverse(),
            "on" => background = true,
            word => {
                let parsed = if let Some(hex) = word.strip_prefix('#') {
                    if hex.len() != 6 {
                        return None;
                    }
                    color(u32::from_str_radix(hex, 16).ok()?)
                } else {
                    Color::Ansi(
                        word.strip_prefix("ansi:")?
                            .parse()
                            .ok()
                            .filter(|n| *n < 16)?,
                    )
                };
                if background {
                    style.background = Some(parsed);
                } else {
                    style.foreground = Some(parsed);
                }
                background = false;
            }
        }
    }
    Some(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_theme_changes_roles_and_names_mistakes() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("themes")).unwrap();
        std::fs::write(
            folder.path().join("themes/mine.json"),
            r##"{"base": "light", "accent": "#ff0000 bold on ansi:4", "nonsense": "bold", "error": "purple"}"##,
        )
        .unwrap();
        let home = folder.path().to_owned();
        let files = theme_files::own([&home]);
        let (theme, problems) = Theme::load("mine", false, &files);
        assert_eq!(theme.accent, rgb(0xff0000).bold().on(Color::Ansi(4)));
        assert_eq!(theme.error, Theme::light().error);
        assert_eq!(problems.len(), 2);
        assert!(problems[0].contains("nonsense") && problems[0].contains("accent"));
        let (_, problems) = Theme::load("absent", false, &files);
        assert!(problems[0].contains("dark-colorblind"), "{problems:?}");
    }

    #[test]
    fn every_role_can_be_set() {
        let mut theme = Theme::dark();
        for role in ROLES {
            assert!(theme.role(role).is_some(), "{role}");
        }
    }
}
