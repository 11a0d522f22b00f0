//! How one file or flag becomes a layer: read, parsed, held to the schema, freed of what it may not
//! say. The other half of [`crate::load`].

use crate::document::{Document, Position, pointer_to_key};
use crate::load::{Layer, LoadOptions, Resolved};
use crate::merge::merge;
use crate::nearest::nearest;
use crate::paths::Places;
use crate::schema::{
    ALIASES, ANY_TRUE, FINAL, INNER_ALIASES, MANAGED_ONLY, PERSONAL, RESTRICTING, Settings, WORDS,
    foreign_key,
};
use crate::source::{Problem, Severity, Source};
use crate::trust::withhold;
use crate::validate::{Finding, FindingKind, validate};
use lathe_protocol::hook::HookEvent;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::io::ErrorKind;
use std::path::Path;

/// Reads a file's text; `None` when it isn't there and needn't be.
pub(crate) type Reader<'a> = dyn FnMut(&Path, Presence) -> Result<Option<String>, ReadError> + 'a;

/// Why a settings file could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("no such file")]
    Missing,
    #[error("can't be read: {0}")]
    Unreadable(String),
    #[error("is not a file")]
    NotAFile,
    #[error("is larger than {} MB", LARGEST / 1024 / 1024)]
    TooLarge,
    #[error("is not UTF-8 text")]
    NotText,
}

impl From<std::io::Error> for ReadError {
    fn from(error: std::io::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}

/// Whether a file has to be there.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Presence {
    Optional,
    Required,
}

impl Resolved {
    pub(crate) fn load_flag(
        &mut self,
        source: Source,
        flag: &str,
        places: &Places,
        options: &LoadOptions,
        read: &mut Reader<'_>,
    ) {
        let text = flag.trim();
        if text.starts_with('{') && text.ends_with('}') {
            self.load_text(source, None, text, places, options);
        } else if text.starts_with('{') {
            self.report(
                source,
                None,
                None,
                "",
                "it starts like JSON but doesn't end with }".into(),
                None,
            );
        } else {
            let path = places.environment.resolve(text);
            self.load_file(source, &path, places, options, Presence::Required, read);
        }
    }

    pub(crate) fn load_file(
        &mut self,
        source: Source,
        path: &Path,
        places: &Places,
        options: &LoadOptions,
        presence: Presence,
        read: &mut Reader<'_>,
    ) {
        match read(path, presence) {
            Ok(Some(text)) => self.load_text(source, Some(path), &text, places, options),
            Ok(None) => {}
            Err(error) => {
                let fix = Some(match presence {
                    Presence::Required => {
                        "give --settings a readable file, or JSON in braces".to_owned()
                    }
                    Presence::Optional => "nothing in it applies until it can be read".to_owned(),
                });
                self.report(source, Some(path), None, "", error.to_string(), fix);
            }
        }
    }

    pub(crate) fn load_text(
        &mut self,
        source: Source,
        path: Option<&Path>,
        text: &str,
        places: &Places,
        options: &LoadOptions,
    ) {
        let document = match Document::parse(text) {
            Ok(document) => document,
            Err(error) => {
                let fix = Some("nothing in this file applies until it is fixed".to_owned());
                self.report(source, path, Some(error.position), "", error.message, fix);
                return;
            }
        };
        let (value, findings) = validate(&with_our_words(document.value.clone()));
        for pointer in &document.duplicates {
            self.warn(
                source,
                path,
                &document,
                pointer,
                "is set twice; the last value applies",
                None,
            );
        }
        for finding in &findings {
            self.report_finding(source, path, &document, finding);
        }
        let mut value = with_canonical_keys(value);
        self.strip_foreign_keys(source, path, &document, &mut value);
        self.check_hook_events(source, path, &document, &value);
        let (value, withheld) = if options.trust.covers(source) {
            (value, Vec::new())
        } else {
            withhold(&value)
        };
        let folder = match source {
            Source::User => places
                .claude_home
                .as_ref()
                .filter(|home| path.is_some_and(|path| path.starts_with(home)))
                .unwrap_or(&places.config_home)
                .clone(),
            Source::Project | Source::Local => places.project.clone(),
            Source::Flag | Source::Managed => path
                .and_then(Path::parent)
                .map_or_else(|| places.environment.cwd.clone(), Path::to_path_buf),
        };
        self.layers.push(Layer {
            source,
            path: path.map(Path::to_path_buf),
            folder,
            value,
            withheld,
            document,
        });
    }

    /// Takes out keys that only policy may set, and modes that a folder may not choose for the user.
    fn strip_foreign_keys(
        &mut self,
        source: Source,
        path: Option<&Path>,
        document: &Document,
        value: &mut Value,
    ) {
        if source != Source::Managed {
            for key in MANAGED_ONLY {
                let pointer = format!("/{}", key.replace('.', "/"));
                if value
                    .pointer(&pointer)
                    .is_some_and(|value| !value.is_null())
                {
                    remove_pointer(value, &pointer);
                    let message = "only effective in managed settings; ignored here";
                    self.warn(source, path, document, &pointer, message, None);
                    if let Some(problem) = self.problems.last_mut() {
                        problem.restriction_lost = restricts(key);
                    }
                }
            }
        }
        if source.comes_with_the_folder() {
            for key in PERSONAL {
                let pointer = format!("/{}", key.replace('.', "/"));
                if value.pointer(&pointer).is_some() {
                    remove_pointer(value, &pointer);
                    let message = "not allowed in the files of a folder; ignored";
                    let fix = "set it in your own settings";
                    self.warn(source, path, document, &pointer, message, Some(fix.into()));
                }
            }
        }
        for key in FINAL {
            let pointer = format!("/{}", key.replace('.', "/"));
            if value.pointer(&pointer).is_some_and(Value::is_null) {
                remove_pointer(value, &pointer);
                let message = "null can't take away what other files deny; ignored";
                self.warn(source, path, document, &pointer, message, None);
            }
        }
        let mode = "/permissions/defaultMode";
        if source.comes_with_the_folder()
            && value.pointer(mode).and_then(Value::as_str) == Some("bypassPermissions")
        {
            remove_pointer(value, mode);
            let fix =
                "start with --permission-mode bypassPermissions, or set it in your own settings";
            let message = "bypassPermissions is not allowed in the files of a folder; ignored";
            self.warn(source, path, document, mode, message, Some(fix.into()));
        }
    }

    fn check_hook_events(
        &mut self,
        source: Source,
        path: Option<&Path>,
        document: &Document,
        value: &Value,
    ) {
        for event in value
            .get("hooks")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
        {
            if event.parse::<HookEvent>().is_err() {
                let near = nearest(event, HookEvent::ALL.iter().map(|event| event.name()));
                let fix = near.map(|near| format!("did you mean {near}?"));
                let message = "no such hook event; its hooks never run";
                let mut pointer = "/hooks".to_owned();
                crate::document::push_pointer(&mut pointer, event);
                self.warn(source, path, document, &pointer, message, fix);
            }
        }
    }

    pub(crate) fn finish(&mut self) {
        self.value = merge(self.layers.iter().map(|layer| &layer.value));
        for key in ANY_TRUE {
            let pointer = format!("/{}", key.replace('.', "/"));
            let is_true = |value: &Value| value.pointer(&pointer) == Some(&Value::Bool(true));
            if self.layers.iter().any(|layer| is_true(&layer.value)) {
                put_pointer(&mut self.value, &pointer, Value::Bool(true));
            }
        }
        self.settings =
            Settings::deserialize(&self.value).unwrap_or_else(|_| self.settings_by_key());
    }

    /// Each key was checked alone, and merging keeps kinds apart, so this is not expected to be
    /// needed; if it ever is, one odd key must not cost all others.
    fn settings_by_key(&mut self) -> Settings {
        let mut sound = Map::new();
        for (key, value) in self.value.as_object().into_iter().flatten() {
            let mut alone = Map::new();
            alone.insert(key.clone(), value.clone());
            match Settings::deserialize(&Value::Object(alone)) {
                Ok(_) => {
                    sound.insert(key.clone(), value.clone());
                }
                Err(error) => self.problems.push(Problem {
                    severity: Severity::Error,
                    source: Source::User,
                    file: None,
                    line: None,
                    column: None,
                    key: key.clone(),
                    message: format!("the sources can't be merged: {error}"),
                    fix: None,
                    restriction_lost: restricts(key),
                }),
            }
        }
        let settings = Settings::deserialize(&Value::Object(sound.clone())).unwrap_or_default();
        self.value = Value::Object(sound);
        settings
    }

    fn report_finding(
        &mut self,
        source: Source,
        path: Option<&Path>,
        document: &Document,
        finding: &Finding,
    ) {
        let position = document.position(&finding.pointer);
        let key = pointer_to_key(&finding.pointer);
        match &finding.kind {
            FindingKind::Wrong {
                expected,
                found,
                fix,
            } => {
                let message = format!("expected {expected}, found {found}; ignored");
                self.report(source, path, position, &key, message, fix.clone());
            }
            FindingKind::Missing { key: missing } => {
                let message = format!("the key \"{missing}\" is missing; the entry is ignored");
                self.report(
                    source,
                    path,
                    position,
                    &key,
                    message,
                    Some(format!("add \"{missing}\"")),
                );
            }
            FindingKind::Unknown { .. } if foreign_key(&key).is_some() => {
                self.report_foreign(source, path, document, &finding.pointer, &key);
            }
            FindingKind::Unknown {
                nearest: Some(nearest),
            } => {
                let fix = format!("did you mean {nearest}?");
                self.warn(
                    source,
                    path,
                    document,
                    &finding.pointer,
                    "unknown key; kept, no effect",
                    Some(fix),
                );
            }
            FindingKind::Unknown { nearest: None } => {
                self.warn(
                    source,
                    path,
                    document,
                    &finding.pointer,
                    "unknown key; kept, no effect",
                    None,
                );
                if let Some(problem) = self.problems.last_mut() {
                    problem.severity = Severity::Note;
                }
            }
        }
    }

    /// Reports a key of the ecosystem that means nothing here.
    fn report_foreign(
        &mut self,
        source: Source,
        path: Option<&Path>,
        document: &Document,
        pointer: &str,
        key: &str,
    ) {
        let Some(foreign) = foreign_key(key) else {
            return;
        };
        let message = format!("known, but without effect here: {}", foreign.why);
        self.warn(source, path, document, pointer, &message, None);
        if let Some(problem) = self.problems.last_mut() {
            problem.restriction_lost = foreign.restricts;
            if !foreign.restricts {
                problem.severity = Severity::Note;
            }
        }
    }

    fn report(
        &mut self,
        source: Source,
        path: Option<&Path>,
        position: Option<Position>,
        key: &str,
        message: String,
        fix: Option<String>,
    ) {
        self.problems.push(Problem {
            severity: Severity::Error,
            source,
            file: path.map(Path::to_path_buf),
            line: position.map(|position| position.line),
            column: position.map(|position| position.column),
            key: key.to_owned(),
            message,
            fix,
            restriction_lost: restricts(key),
        });
    }

    fn warn(
        &mut self,
        source: Source,
        path: Option<&Path>,
        document: &Document,
        pointer: &str,
        message: &str,
        fix: Option<String>,
    ) {
        let position = document.position(pointer);
        self.problems.push(Problem {
            severity: Severity::Warning,
            source,
            file: path.map(Path::to_path_buf),
            line: position.map(|position| position.line),
            column: position.map(|position| position.column),
            key: pointer_to_key(pointer),
            message: message.to_owned(),
            fix,
            restriction_lost: false,
        });
    }
}

/// Whether ignoring a key loses a restriction. A whole file may hold some.
fn restricts(key: &str) -> bool {
    key.is_empty()
        || RESTRICTING.iter().any(|restricting| {
            key.strip_prefix(restricting)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
                || restricting
                    .strip_prefix(key)
                    .is_some_and(|rest| rest.starts_with('.'))
        })
}

/// Files larger than this are no settings.
const LARGEST: u64 = 8 * 1024 * 1024;

pub(crate) fn read(path: &Path, presence: Presence) -> Result<Option<String>, ReadError> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if missing(&error) && presence == Presence::Optional => return Ok(None),
        Err(error) if missing(&error) => return Err(ReadError::Missing),
        Err(error) => return Err(error.into()),
    };
    // A pipe given on the command line (`--settings <(…)`) is fine; one lying in a folder would
    // make the start wait for ever.
    if metadata.is_dir() || (!metadata.is_file() && presence == Presence::Optional) {
        return Err(ReadError::NotAFile);
    }
    if metadata.len() > LARGEST {
        return Err(ReadError::TooLarge);
    }
    String::from_utf8(std::fs::read(path)?)
        .map(Some)
        .map_err(|_| ReadError::NotText)
}

fn missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Replaces the ecosystem's other words for values by ours.
fn with_our_words(mut value: Value) -> Value {
    for (key, word, ours) in WORDS {
        let found = value.pointer_mut(&format!("/{}", key.replace('.', "/")));
        if let Some(found) = found.filter(|found| found.as_str() == Some(word)) {
            *found = (*ours).into();
        }
    }
    for (alias, key) in INNER_ALIASES {
        let alias = format!("/{}", alias.replace('.', "/"));
        let key = format!("/{}", key.replace('.', "/"));
        if let Some(found) = value.pointer(&alias).cloned()
            && value.pointer(&key).is_none()
        {
            remove_pointer(&mut value, &alias);
            put_pointer(&mut value, &key, found);
        }
    }
    if let Some(map) = value.as_object_mut() {
        if let Some(Value::Bool(on)) = map.get("autoUpdates") {
            let word = if *on { "on" } else { "off" };
            map.insert("autoUpdates".into(), word.into());
        }
        match map.get("attribution") {
            Some(Value::Bool(true)) => {
                map.shift_remove("attribution");
            }
            Some(Value::Bool(false)) => {
                map["attribution"] = serde_json::json!({"commit": "", "pr": ""});
            }
            _ => {}
        }
    }
    value
}

/// Renames the ecosystem's other names for keys to ours; where both are set, ours applies.
fn with_canonical_keys(value: Value) -> Value {
    let Value::Object(mut map) = value else {
        return value;
    };
    for (alias, key) in ALIASES {
        if let Some(value) = map.shift_remove(*alias) {
            map.entry((*key).to_owned()).or_insert(value);
        }
    }
    move_pricing(&mut map);
    move_overrides(&mut map);
    Value::Object(map)
}

/// Reads `modelPricing.overrides` as `prices`; where both name a model, `prices` applies.
fn move_pricing(map: &mut Map<String, Value>) {
    let Some(Value::Object(mut pricing)) = map.shift_remove("modelPricing") else {
        return;
    };
    let Some(Value::Object(overrides)) = pricing.shift_remove("overrides") else {
        return;
    };
    let prices = map
        .entry("prices")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Some(prices) = prices.as_object_mut() {
        for (model, price) in overrides {
            prices.entry(model).or_insert(price);
        }
    }
}

/// Reads `modelOverrides` as `models.<model>.name`; where both name a model, `models` applies.
fn move_overrides(map: &mut Map<String, Value>) {
    let Some(Value::Object(overrides)) = map.shift_remove("modelOverrides") else {
        return;
    };
    let models = map
        .entry("models")
        .or_insert_with(|| Value::Object(Map::new()));
    let Some(models) = models.as_object_mut() else {
        return;
    };
    for (model, name) in overrides {
        let facts = models
            .entry(model)
            .or_insert_with(|| Value::Object(Map::new()));
        if let Some(facts) = facts.as_object_mut() {
            facts.entry("name").or_insert(name);
        }
    }
}

/// Sets a value, making the objects around it where they are missing.
fn put_pointer(value: &mut Value, pointer: &str, new: Value) {
    let mut place = value;
    for name in pointer.split('/').skip(1) {
        let Value::Object(map) = place else { return };
        place = map.entry(name).or_insert_with(|| Value::Object(Map::new()));
    }
    *place = new;
}

fn remove_pointer(value: &mut Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else {
        return;
    };
    if let Some(Value::Object(map)) = value.pointer_mut(parent) {
        map.shift_remove(key);
    }
}
