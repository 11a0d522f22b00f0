//! Config: reads and changes settings of the session.
//!
//! Only preferences: what grants rights, names programs or holds keys stays in the hands of the user. Every change is a
//! question to the user, whatever the rules.

use crate::context::{CallContext, ToolContext};
use crate::tool::{CallTraits, InterruptBehavior, Tool, ToolError, ToolOutput};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The tool's name.
pub const NAME: &str = "Config";

/// The settings that it knows.
pub const SETTINGS: [&str; 18] = [
    "alwaysThinkingEnabled",
    "autoCompact",
    "autoCompactWindow",
    "awaySummary",
    "editorMode",
    "effort",
    "fallbackModel",
    "language",
    "lspDiagnostics",
    "model",
    "notifications",
    "outputStyle",
    "prefersReducedMotion",
    "promptSuggestions",
    "respectGitignore",
    "smallModel",
    "theme",
    "verbose",
];

/// Reads and changes settings.
pub struct Config;

/// Which setting, and its new value.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The setting's name; all if it is left out.
    #[serde(default)]
    setting: Option<String>,
    /// The new value; null takes a change back. Without it the setting is read.
    #[serde(default, deserialize_with = "present")]
    value: Option<Value>,
}

/// A field that is there, also with null.
fn present<'de, D: serde::Deserializer<'de>>(given: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(given).map(Some)
}

impl Tool for Config {
    type Input = Input;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &str {
        include_str!("config.md")
    }

    fn deferred(&self) -> bool {
        true
    }

    fn traits(&self, input: &Input) -> CallTraits {
        CallTraits {
            read_only: input.value.is_none(),
            concurrency_safe: input.value.is_none(),
            interrupt: InterruptBehavior::Block,
            ..CallTraits::READS
        }
    }

    fn subject(&self, input: &Input, _context: &ToolContext) -> Subject {
        match input.value {
            Some(_) => Subject::Person,
            None => Subject::Nothing,
        }
    }

    fn activity(&self, input: &Input) -> String {
        let setting = input.setting.as_deref().unwrap_or("settings");
        match &input.value {
            Some(value) => format!("Setting {setting} to {value} for this session"),
            None => format!("Reading {setting}"),
        }
    }

    async fn validate(&self, input: &Input, context: &ToolContext) -> Result<(), ToolError> {
        context.needs_host(NAME)?;
        let Some(setting) = &input.setting else {
            return match input.value {
                Some(_) => Err(ToolError::invalid("value requires setting.")),
                None => Ok(()),
            };
        };
        if !SETTINGS.contains(&setting.as_str()) {
            return Err(ToolError::invalid(format!(
                "{setting:?} is not a setting that can be read or changed here: {}. \
                 The user can change others with /config or in the settings file.",
                SETTINGS.join(", ")
            )));
        }
        match &input.value {
            Some(value) if !value.is_null() => check(setting, value),
            _ => Ok(()),
        }
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let host = context.session.needs_host(NAME)?;
        let before = host.settings();
        let Some(setting) = input.setting else {
            let known = SETTINGS.iter().filter_map(|name| {
                let value = before.get(*name)?;
                Some(format!("{name}: {value}"))
            });
            let lines: Vec<String> = known.collect();
            let text = if lines.is_empty() {
                "All settings have their defaults.".to_owned()
            } else {
                lines.join("\n")
            };
            let structured = json!({"success": true, "operation": "get"});
            let display = Display::Text { text: text.clone() };
            return Ok(ToolOutput::new(text, structured, display));
        };
        let present = before.get(&setting).cloned().unwrap_or_default();
        let Some(value) = input.value else {
            let text = match &present {
                Value::Null => format!("{setting} is not set; its default applies."),
                value => format!("{setting}: {value}"),
            };
            let structured = json!({
                "success": true, "operation": "get", "setting": setting, "value": present,
            });
            let display = Display::Text { text: text.clone() };
            return Ok(ToolOutput::new(text, structured, display));
        };
        let mut changes = Map::new();
        changes.insert(setting.clone(), value);
        host.change_settings(&changes)?;
        let now = host.settings().get(&setting).cloned().unwrap_or_default();
        let text = format!("{setting} is {now} for this session.");
        let structured = json!({
            "success": true, "operation": "set", "setting": setting,
            "previousValue": present, "newValue": now,
        });
        let display = Display::Text { text: text.clone() };
        Ok(ToolOutput::new(text, structured, display))
    }
}

fn check(setting: &str, value: &Value) -> Result<(), ToolError> {
    let key = setting
        .parse()
        .map_err(|error| ToolError::invalid(format!("{error}.")))?;
    lathe_settings::write::check(&key, value)
        .map_err(|error| ToolError::invalid(format!("{error}.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_one_and_a_wrong_value_is_refused() {
        for setting in SETTINGS {
            let wrong = check(setting, &json!([[["nothing is this"]]]));
            assert!(wrong.is_err(), "{setting}");
            let text = wrong.unwrap_err().to_string();
            assert!(!text.contains("unknown key"), "{text}");
        }
        assert!(check("autoCompact", &json!(false)).is_ok());
    }

    #[test]
    fn a_null_is_a_value() {
        let input: Input =
            serde_json::from_value(json!({"setting": "model", "value": null})).unwrap();
        assert_eq!(input.value, Some(Value::Null));
        let input: Input = serde_json::from_value(json!({"setting": "model"})).unwrap();
        assert!(input.value.is_none());
    }
}
