//! The user's view in the editor: the selection or the open file, which goes with the next prompt,
//! and lines that they send to it.

use super::{EditorLink, SHORT};
use crate::conversation::records::reminder;
use crate::conversation::{Conversation, ConversationShared, Role};
use lathe_protocol::event::{EditorNotice, Event, News, NoticeLevel, Priority};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many characters of a selection the model gets.
const LONGEST: usize = 20_000;

/// The open file, and what is selected in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) path: PathBuf,
    selected: Option<Selected>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Selected {
    text: String,
    /// First and last line, from 1.
    lines: (u64, u64),
}

impl Shown {
    pub(super) fn selected_lines(&self) -> usize {
        self.selected.as_ref().map_or(0, |selected| {
            let (first, last) = selected.lines;
            usize::try_from(last - first + 1).unwrap_or(usize::MAX)
        })
    }

    /// Its text for the model.
    fn words(&self, shown: &str, editor: &str) -> String {
        match &self.selected {
            Some(Selected { text, lines }) => {
                let (first, last) = lines;
                let kept: String = text.chars().take(LONGEST).collect();
                let cut = if kept.len() < text.len() {
                    "\n… (the rest is omitted)"
                } else {
                    ""
                };
                format!(
                    "The user has selected lines {first} to {last} of {shown} in {editor}:\n{kept}{cut}\n\nThis may or may not have to do with their message."
                )
            }
            None => format!(
                "The user has {shown} open in {editor}. This may or may not have to do with their message."
            ),
        }
    }
}

/// Reads `selection_changed`, and the answers of `getLatestSelection` and `getCurrentSelection`.
fn shown_by(params: &Value) -> Option<Shown> {
    let path = params["filePath"]
        .as_str()
        .filter(|path| !path.is_empty())?;
    let path = PathBuf::from(path.strip_prefix("file://").unwrap_or(path));
    if !path.is_absolute() {
        return None;
    }
    let text = params["text"].as_str().unwrap_or_default();
    let selection = &params["selection"];
    let number = |at: &str| selection.pointer(at).and_then(Value::as_u64);
    let selected = match (number("/start/line"), number("/end/line")) {
        (Some(start), Some(end)) if !text.is_empty() && selection["isEmpty"] != true => {
            // A selection that ends before the first character of a line doesn't reach into it.
            let inside = number("/end/character") != Some(0) || end <= start;
            let last = if inside { end } else { end - 1 };
            Some(Selected {
                text: text.to_owned(),
                lines: (start + 1, last.max(start) + 1),
            })
        }
        _ => None,
    };
    Some(Shown { path, selected })
}

/// Reads `at_mentioned`: the file and its lines.
fn mention_of(params: &Value) -> Option<(PathBuf, Option<(u64, u64)>)> {
    let path = params["filePath"]
        .as_str()
        .filter(|path| !path.is_empty())?;
    let lines = match (params["lineStart"].as_u64(), params["lineEnd"].as_u64()) {
        (Some(first), Some(last)) if first >= 1 && last >= first => Some((first, last)),
        (Some(first), _) if first >= 1 => Some((first, first)),
        _ => None,
    };
    Some((PathBuf::from(path), lines))
}

fn written(shown: &str, lines: Option<(u64, u64)>) -> String {
    let place = match lines {
        Some((first, last)) if first == last => format!("{shown}#L{first}"),
        Some((first, last)) => format!("{shown}#L{first}-{last}"),
        None => shown.to_owned(),
    };
    if place.contains(char::is_whitespace) {
        format!("@\"{place}\" ")
    } else {
        format!("@{place} ")
    }
}

impl EditorLink {
    /// Takes a notification of the editor.
    pub(crate) fn notified(&self, shared: &ConversationShared, method: &str, params: &Value) {
        if self.name().is_none() {
            return;
        }
        match method {
            "selection_changed" => self.show(shared, shown_by(params)),
            "at_mentioned" => {
                let Some((path, lines)) = mention_of(params) else {
                    return;
                };
                let name = shared.tools.shown(&path);
                if let Some(why) = shared.permissions.why_hidden(&path) {
                    let text = format!("@{name} was not put into the prompt: {why}.");
                    shared.events.news(
                        News::of("editor", Priority::Medium),
                        NoticeLevel::Warning,
                        text,
                    );
                    return;
                }
                let notice = EditorNotice::Mentioned(written(&name, lines));
                shared.events.send(Event::Editor(notice));
            }
            _ => {}
        }
    }

    /// The user has something else before them. What a rule closes is not looked at.
    fn show(&self, shared: &ConversationShared, shown: Option<Shown>) {
        let open = |path: &Path| shared.permissions.why_hidden(path).is_none();
        let shown = shown.filter(|shown| open(&shown.path));
        {
            let mut state = self.state.lock();
            if state.shown == shown {
                return;
            }
            state.shown = shown;
        }
        self.tell(shared);
    }

    /// The part that the model has not seen yet.
    fn take_news(&self) -> Option<(Shown, String)> {
        let mut state = self.state.lock();
        let shown = state.shown.clone().filter(|_| state.live)?;
        if state.told.as_ref() == Some(&shown) {
            return None;
        }
        state.told = Some(shown.clone());
        let name = state.editor.as_ref()?.name.clone();
        Some((shown, name))
    }
}

/// Asks an editor that was just connected which folders it has open now and what the user has before them. Diffs
/// that a session left open when it was killed are closed; closing a tab is no answer.
pub(super) fn look(shared: &Arc<ConversationShared>) {
    let shared = shared.clone();
    lathe_spawn::task(async move {
        let link = &shared.integrations.editor;
        if link.offers("closeAllDiffTabs") {
            let _ = link.call("closeAllDiffTabs", json!({}), SHORT).await;
        }
        let answer = link.ask("getWorkspaceFolders", json!({})).await;
        if let Some(folders) = answer.as_ref().and_then(folders_in) {
            link.has_open(folders);
        }
        let mut found = None;
        for tool in ["getCurrentSelection", "getLatestSelection"] {
            found = link.ask(tool, json!({})).await.as_ref().and_then(shown_by);
            if found.is_some() {
                break;
            }
        }
        if found.is_none() {
            let editors = link.ask("getOpenEditors", json!({})).await;
            found = editors.as_ref().and_then(active_file);
        }
        // What the editor said by itself meanwhile is newer.
        if found.is_some() && link.state.lock().shown.is_none() {
            link.show(&shared, found);
        }
    });
}

/// The folders in the answer of `getWorkspaceFolders`: paths, or objects with a path or an address.
fn folders_in(answer: &Value) -> Option<Vec<PathBuf>> {
    let all = ["folders", "workspaceFolders"].iter();
    let all = all.filter_map(|field| answer.get(field)).next();
    let all = all.unwrap_or(answer).as_array()?;
    let folders: Vec<PathBuf> = all
        .iter()
        .filter_map(|folder| {
            let fields = ["path", "uri"].iter();
            let mut named = fields.filter_map(|field| folder.get(field));
            named.next().unwrap_or(folder).as_str()
        })
        .filter_map(|folder| match url::Url::parse(folder) {
            Ok(address) => address.to_file_path().ok(),
            Err(_) => Some(PathBuf::from(folder)),
        })
        .filter(|folder| folder.is_absolute())
        .collect();
    (!folders.is_empty()).then_some(folders)
}

/// The active tab of `getOpenEditors`.
fn active_file(answer: &Value) -> Option<Shown> {
    let tabs = answer.get("tabs").unwrap_or(answer).as_array()?;
    let active = tabs.iter().find(|tab| tab["isActive"] == true)?;
    let address = active["uri"].as_str().or(active["fileName"].as_str())?;
    let path = url::Url::parse(address)
        .ok()
        .and_then(|url| url.to_file_path().ok())
        .unwrap_or_else(|| PathBuf::from(address));
    path.is_absolute().then_some(Shown {
        path,
        selected: None,
    })
}

/// Attaches what the user has before them in the editor, once for each change. An editor that was started since is
/// connected for the next time.
pub(crate) fn attach(conversation: &mut Conversation) {
    if !matches!(conversation.shared.role, Role::Main { .. }) {
        return;
    }
    let shared = conversation.shared.clone();
    super::control::search_again(&shared);
    let Some((shown, editor)) = shared.integrations.editor.take_news() else {
        return;
    };
    // Rules may have changed since it was shown.
    if shared.permissions.why_hidden(&shown.path).is_some() {
        return;
    }
    let words = shown.words(
        &shared.tools.shown(&shown.path),
        &lathe_tools::mcp_result::clean(&editor),
    );
    let attachment = json!({
        "type": "editor", "path": shown.path.display().to_string(), "content": reminder(&words),
    });
    let record = conversation
        .records
        .attachment(conversation.tip, attachment);
    conversation.append(record);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(start: (u64, u64), end: (u64, u64), text: &str) -> Value {
        json!({
            "text": text, "filePath": "/w/x.rs", "fileUrl": "file:///w/x.rs",
            "selection": {
                "start": {"line": start.0, "character": start.1},
                "end": {"line": end.0, "character": end.1}, "isEmpty": text.is_empty(),
            },
        })
    }

    #[test]
    fn lines_are_counted_as_a_person_counts_them() {
        for (start, end, text, lines) in [
            ((0, 0), (0, 5), "hello", 1),
            ((9, 0), (20, 3), "…", 12),
            // Whole lines: the end is before the first character of the next one.
            ((9, 0), (12, 0), "…", 3),
            ((4, 2), (4, 2), "", 0),
        ] {
            let shown = shown_by(&selection(start, end, text)).unwrap();
            assert_eq!(shown.selected_lines(), lines, "{start:?} {end:?}");
        }
        let shown = shown_by(&selection((9, 0), (12, 0), "a\nb\nc\n")).unwrap();
        let words = shown.words("x.rs", "VS Code");
        assert!(
            words.starts_with("The user has selected lines 10 to 12 of x.rs in VS Code:\na\nb")
        );
        assert!(shown_by(&json!({"filePath": ""})).is_none());
        assert!(shown_by(&json!({"filePath": "relative.rs"})).is_none());
    }

    #[test]
    fn a_long_selection_is_cut() {
        let text = "é".repeat(LONGEST + 1);
        let shown = shown_by(&selection((0, 0), (9, 1), &text)).unwrap();
        assert!(shown.words("x", "E").contains("the rest is omitted"));
    }

    #[test]
    fn mentions_are_written_as_the_prompt_reads_them() {
        let mention = |params: Value| {
            let (path, lines) = mention_of(&params).unwrap();
            written(&path.display().to_string(), lines)
        };
        let lines = json!({"filePath": "/w/x.rs", "lineStart": 10, "lineEnd": 20});
        assert_eq!(mention(lines), "@/w/x.rs#L10-20 ");
        let one = json!({"filePath": "/w/my file.rs", "lineStart": 3, "lineEnd": 3});
        assert_eq!(mention(one), "@\"/w/my file.rs#L3\" ");
        assert_eq!(mention(json!({"filePath": "/w/x.rs"})), "@/w/x.rs ");
        assert!(mention_of(&json!({})).is_none());
    }

    #[test]
    fn folders_are_read_in_every_shape_that_editors_give() {
        let expected = Some(vec![PathBuf::from("/w/a b"), PathBuf::from("/w/c")]);
        for answer in [
            json!({"success": true, "folders": [
                {"name": "a b", "uri": "file:///w/a%20b", "path": "/w/a b"}, {"uri": "file:///w/c"}]}),
            json!({"workspaceFolders": ["/w/a b", "/w/c"]}),
            json!(["file:///w/a%20b", "/w/c", "relative", 7]),
        ] {
            assert_eq!(folders_in(&answer), expected, "{answer}");
        }
        assert_eq!(folders_in(&json!({"folders": []})), None);
    }

    #[test]
    fn the_active_tab_is_the_open_file() {
        let answer = json!({"tabs": [
            {"uri": "file:///w/a.rs", "isActive": false}, {"uri": "file:///w/b%20c.rs", "isActive": true}]});
        let shown = active_file(&answer).unwrap();
        assert_eq!(shown.path, Path::new("/w/b c.rs"));
        assert_eq!(shown.words("b c.rs", "E").lines().count(), 1);
    }
}
