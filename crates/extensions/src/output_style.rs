//! Output styles: how the model talks, chosen by name.
//!
//! A style is a Markdown file in `output-styles/` whose body goes into the system prompt. Without
//! `keep-coding-instructions: true` it replaces the prompt's instructions about writing code.

use crate::fields::Fields;
use crate::files::{self, Reach};
use crate::front_matter;
use crate::problem::Problem;
use crate::source::{ExtensionSource, Kind, Sources};
use indexmap::IndexMap;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The name of the style that changes nothing.
pub const DEFAULT: &str = "default";

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputStyle {
    pub name: String,
    pub description: String,
    /// The text for the system prompt; empty for the default style.
    pub prompt: String,
    /// True if the instructions about writing code stay in the system prompt.
    pub keep_coding_instructions: bool,
    /// True if a plugin's style applies while the plugin is on, overriding the user's choice.
    pub force_for_plugin: bool,
    pub source: ExtensionSource,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

impl Default for OutputStyle {
    fn default() -> Self {
        Self {
            name: DEFAULT.to_owned(),
            description: "Does the work and reports briefly".to_owned(),
            prompt: String::new(),
            keep_coding_instructions: true,
            force_for_plugin: false,
            source: ExtensionSource::Builtin,
            path: None,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct OutputStyles {
    styles: IndexMap<String, OutputStyle>,
    pub problems: Vec<Problem>,
}

impl OutputStyles {
    /// Loads every source; of several styles with one name, the one with the highest precedence is
    /// used.
    #[must_use]
    pub fn load(sources: &Sources) -> Self {
        let mut styles = Self::default();
        styles
            .styles
            .insert(DEFAULT.to_owned(), OutputStyle::default());
        for (name, text) in BUILTIN {
            let file = PathBuf::from(format!("built-in:{name}"));
            styles.add_text(&file, text, &ExtensionSource::Builtin, "");
        }
        for plugin in &sources.plugins {
            let source = ExtensionSource::Plugin(plugin.name.clone());
            let reach = Reach::inside(&plugin.root);
            for path in &plugin.output_styles {
                let files = if path.is_dir() {
                    let files = files::markdown_files(path, &mut styles.problems);
                    files.into_iter().map(|file| path.join(file)).collect()
                } else {
                    vec![path.clone()]
                };
                for file in files {
                    if let Some(text) = files::read(&file, &reach, &mut styles.problems) {
                        styles.add_text(&file, &plugin.expand(&text), &source, &plugin.name);
                    }
                }
            }
        }
        for folder in sources.folders(Kind::OutputStyles).into_iter().rev() {
            let reach = Reach::of(folder.trusted, &folder.source, &folder.base);
            for file in files::markdown_files(&folder.path, &mut styles.problems) {
                let file = folder.path.join(file);
                if let Some(text) = files::read(&file, &reach, &mut styles.problems) {
                    styles.add_text(&file, &text, &folder.source, "");
                }
            }
        }
        styles
    }

    fn add_text(&mut self, file: &Path, text: &str, source: &ExtensionSource, prefix: &str) {
        let mut document = front_matter::parse(file, text, &mut self.problems);
        let prompt = std::mem::take(&mut document.body);
        let mut fields = Fields::new(
            file,
            std::mem::take(&mut document.fields),
            &mut self.problems,
        );
        let stem = || {
            file.file_stem()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default()
        };
        let mut name = fields.text("name").unwrap_or_else(stem);
        if !prefix.is_empty() {
            name = format!("{prefix}:{name}");
        }
        if prompt.trim().is_empty() {
            fields.report_fatal(
                "",
                format!("the output style {name} is empty, so it is ignored"),
                "write the instructions below the front matter",
            );
            return;
        }
        if name.eq_ignore_ascii_case(DEFAULT) {
            // A style of the user's own under this name applies where none is chosen.
            DEFAULT.clone_into(&mut name);
        }
        let forced = fields.flag("force-for-plugin").unwrap_or(false);
        if forced && prefix.is_empty() {
            fields.report(
                "force-for-plugin",
                "is only effective in plugins",
                Some("choose the style with outputStyle in settings.json"),
            );
        }
        let style = OutputStyle {
            force_for_plugin: forced && !prefix.is_empty(),
            description: fields.text("description").unwrap_or_default(),
            keep_coding_instructions: fields.flag("keep-coding-instructions").unwrap_or(false),
            prompt,
            source: source.clone(),
            path: file.is_absolute().then(|| file.to_path_buf()),
            name: name.clone(),
        };
        self.styles.insert(name, style);
    }

    /// The style of a name, ignoring case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OutputStyle> {
        self.styles.get(name).or_else(|| {
            self.styles
                .values()
                .find(|style| style.name.eq_ignore_ascii_case(name))
        })
    }

    /// The first style that a plugin forces while it is on.
    #[must_use]
    pub fn forced(&self) -> Option<&OutputStyle> {
        self.styles.values().find(|style| style.force_for_plugin)
    }

    /// All styles, the default first.
    pub fn iter(&self) -> impl Iterator<Item = &OutputStyle> {
        self.styles.values()
    }

    /// Their names, the default first.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.styles.keys().cloned().collect()
    }
}

const BUILTIN: [(&str, &str); 2] = [
    (
        "explanatory",
        include_str!("../prompts/styles/explanatory.md"),
    ),
    ("learning", include_str!("../prompts/styles/learning.md")),
];
