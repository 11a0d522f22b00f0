//! Theme files: a user's own in `<config home>/themes` (and `~/.claude/themes`), and those of plugins.
//!
//! A file is written in the roles of [`Theme`], or in the ecosystem's form: `{"name", "base", "overrides": {token:
//! color}}`. Of its tokens those count that have a role here.

use super::style::{Color, Style};
use super::theme::{Theme, color};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The mark of a theme that is not built in, in settings of this ecosystem.
const CUSTOM: &str = "custom:";

/// A theme in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThemeFile {
    /// Its name in settings and `/theme`: its file's name; for a plugin's `custom:<plugin>:<file>`.
    pub(crate) name: String,
    /// Its own name.
    pub(crate) label: String,
    /// Whose it is.
    pub(crate) origin: String,
    pub(crate) path: PathBuf,
}

/// A user's own themes; of two with one name the one of the first home counts.
pub(crate) fn own<'a>(homes: impl IntoIterator<Item = &'a PathBuf>) -> Vec<ThemeFile> {
    let mut files: Vec<ThemeFile> = Vec::new();
    for home in homes {
        for path in json_files(&home.join("themes")) {
            let Some(name) = stem(&path) else { continue };
            if files.iter().all(|known| known.name != name) {
                files.push(ThemeFile {
                    label: label(&path).unwrap_or_else(|| name.clone()),
                    name,
                    origin: "your own".to_owned(),
                    path,
                });
            }
        }
    }
    files
}

/// The themes of a plugin.
pub(crate) fn of_plugin(plugin: &str, paths: &[PathBuf]) -> Vec<ThemeFile> {
    let files = paths.iter().flat_map(|path| {
        if path.is_dir() {
            json_files(path)
        } else {
            vec![path.clone()]
        }
    });
    files
        .filter_map(|path| {
            let file = stem(&path)?;
            Some(ThemeFile {
                label: label(&path).unwrap_or_else(|| file.clone()),
                name: format!("{CUSTOM}{plugin}:{file}"),
                origin: format!("plugin {plugin}"),
                path,
            })
        })
        .collect()
}

/// The file of a name, with or without `custom:`.
pub(crate) fn find<'a>(files: &'a [ThemeFile], name: &str) -> Option<&'a ThemeFile> {
    let bare = |name: &str| name.strip_prefix(CUSTOM).unwrap_or(name).to_owned();
    let wanted = bare(name);
    files.iter().find(|file| bare(&file.name) == wanted)
}

/// Whether a name is one of a plugin, which is known when the session is open.
pub(crate) fn is_of_plugin(name: &str) -> bool {
    name.strip_prefix(CUSTOM)
        .is_some_and(|rest| rest.contains(':'))
}

fn json_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "json"))
        .collect();
    files.sort();
    files
}

fn stem(path: &Path) -> Option<String> {
    Some(path.file_stem()?.to_str()?.to_owned())
}

fn label(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    let name = value.get("name")?.as_str()?;
    Some(super::text::one_line(&super::text::clean(name)))
}

/// Applies the tokens of the ecosystem's form. Gives those whose value is no color.
pub(super) fn apply(theme: &mut Theme, tokens: &Map<String, Value>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (token, value) in tokens {
        match value.as_str().and_then(any_color) {
            Some(color) => set(theme, token, color),
            None => wrong.push(token.clone()),
        }
    }
    wrong
}

/// The meaning of a token here. Most of the ecosystem's tokens are about things that Lathe doesn't draw.
fn set(theme: &mut Theme, token: &str, color: Color) {
    let letters = |style: &mut Style| style.foreground = Some(color);
    let ground = |style: &mut Style| style.background = Some(color);
    match token {
        "claude" => {
            letters(&mut theme.accent);
            letters(&mut theme.heading);
        }
        "promptBorder" => letters(&mut theme.prompt),
        "permission" => letters(&mut theme.selected),
        "suggestion" => {
            letters(&mut theme.link);
            letters(&mut theme.code);
        }
        "inactive" => {
            letters(&mut theme.muted);
            letters(&mut theme.quote);
            letters(&mut theme.syntax.comment);
        }
        "success" => letters(&mut theme.success),
        "warning" => letters(&mut theme.warning),
        "error" => letters(&mut theme.error),
        "bashBorder" => letters(&mut theme.modes.shell),
        "planMode" => letters(&mut theme.modes.plan),
        "autoAccept" => letters(&mut theme.modes.accept),
        "userMessageBackground" => ground(&mut theme.modes.said),
        "diffAdded" => theme.diff.added = Style::PLAIN.on(color),
        "diffRemoved" => theme.diff.removed = Style::PLAIN.on(color),
        "diffAddedWord" => theme.diff.added_word = Style::PLAIN.on(color),
        "diffRemovedWord" => theme.diff.removed_word = Style::PLAIN.on(color),
        _ => {}
    }
}

/// Reads `#rgb`, `#rrggbb`, `rgb(1,2,3)`, `ansi256(8)` and `ansi:cyanBright`.
fn any_color(text: &str) -> Option<Color> {
    let inside = |name: &str| {
        text.strip_prefix(name)?
            .strip_prefix('(')?
            .strip_suffix(')')
    };
    if let Some(digits) = text.strip_prefix('#') {
        let full: String = match digits.len() {
            3 => digits.chars().flat_map(|digit| [digit, digit]).collect(),
            6 => digits.to_owned(),
            _ => return None,
        };
        return u32::from_str_radix(&full, 16).ok().map(color);
    }
    if let Some(name) = text.strip_prefix("ansi:") {
        return ansi(name);
    }
    if let Some(number) = inside("ansi256") {
        return number.trim().parse().ok().map(indexed);
    }
    let parts: Vec<u8> = inside("rgb")?
        .split(',')
        .map(|part| part.trim().parse().ok())
        .collect::<Option<_>>()?;
    match parts[..] {
        [red, green, blue] => Some(Color::Rgb(red, green, blue)),
        _ => None,
    }
}

fn ansi(name: &str) -> Option<Color> {
    const NAMES: [&str; 8] = [
        "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white",
    ];
    let (name, bright) = match name.strip_suffix("Bright") {
        Some(name) => (name, 8),
        None => (name, 0),
    };
    let index = NAMES.iter().position(|known| *known == name)?;
    Some(Color::Ansi(u8::try_from(index).ok()? + bright))
}

/// One of the usual 256 colours.
fn indexed(index: u8) -> Color {
    match index {
        0..=15 => Color::Ansi(index),
        16..=231 => {
            let level = |step: u8| if step == 0 { 0 } else { 55 + step * 40 };
            let index = index - 16;
            Color::Rgb(level(index / 36), level(index / 6 % 6), level(index % 6))
        }
        232.. => {
            let gray = 8 + (index - 232) * 10;
            Color::Rgb(gray, gray, gray)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_read_in_every_form() {
        let table = [
            ("#f00", Some(Color::Rgb(255, 0, 0))),
            ("#0a0b0c", Some(Color::Rgb(10, 11, 12))),
            ("rgb(1, 2,3)", Some(Color::Rgb(1, 2, 3))),
            ("ansi:cyanBright", Some(Color::Ansi(14))),
            ("ansi:red", Some(Color::Ansi(1))),
            ("ansi256(9)", Some(Color::Ansi(9))),
            ("ansi256(196)", Some(Color::Rgb(255, 0, 0))),
            ("ansi256(255)", Some(Color::Rgb(238, 238, 238))),
            ("rgb(1,2)", None),
            ("rgb(1,2,300)", None),
            ("ansi:mauve", None),
            ("#12", None),
            ("purple", None),
        ];
        for (text, expected) in table {
            assert_eq!(any_color(text), expected, "{text}");
        }
    }

    #[test]
    fn a_theme_of_the_ecosystem_is_read_from_home_and_plugin() {
        let folder = tempfile::tempdir().unwrap();
        let themes = folder.path().join("themes");
        std::fs::create_dir(&themes).unwrap();
        let text = r##"{"name": "Night", "base": "light-ansi", "overrides": {"claude": "rgb(1,2,3)", "diffAdded": "#040506", "rainbow_red": "#fff", "error": "mauve"}}"##;
        std::fs::write(themes.join("night.json"), text).unwrap();
        let home = folder.path().to_owned();
        let mut files = own([&home]);
        files.extend(of_plugin("sky", std::slice::from_ref(&themes)));
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["night", "custom:sky:night"]);
        assert_eq!(files[0].label, "Night");
        for name in ["night", "custom:night", "custom:sky:night"] {
            let (theme, problems) = Theme::load(name, false, &files);
            assert_eq!(theme.accent.foreground, Some(Color::Rgb(1, 2, 3)));
            assert_eq!(theme.diff.added, Style::PLAIN.on(Color::Rgb(4, 5, 6)));
            assert_eq!(theme.success, Theme::built_in("ansi-light", false).success);
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems[0].contains("error"), "{problems:?}");
        }
    }
}
