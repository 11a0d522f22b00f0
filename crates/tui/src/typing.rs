//! Keys and pastes: to the dialog, the transcript or the prompt.

use crate::app::{App, Leave, Queued};
use crate::completion::Wanted;
use crate::dialog::{Dialog, Item, Outcome, Picker, Purpose};
use crate::editor::{Attached, Attachment, Editor};
use crate::input::Input;
use crate::key::{Code, Key};
use crate::keymap::{Action, Context, Found};
use crate::terminal;
use lathe_extensions::commands::{Invocation, parse};
use lathe_protocol::command::BuiltinCommand;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::op::{Op, Prompt};
use std::time::{Duration, Instant};

/// How long 'press again to leave' counts.
const LEAVE_WINDOW: Duration = Duration::from_secs(2);

impl App {
    pub(crate) fn input(&mut self, input: Input) {
        match input {
            Input::Key(key) => {
                self.away.is_here();
                self.key(key);
            }
            Input::Paste(text) => {
                self.away.is_here();
                self.paste(&text);
            }
            Input::FocusGained => {
                self.focused = true;
                self.came_back();
            }
            Input::FocusLost => {
                self.focused = false;
                self.away.left(Instant::now());
            }
            Input::KittyKeyboard => terminal::switch_kitty_on(),
            Input::Background(light) => {
                let light = light > 127;
                if light != self.wishes.light_background {
                    self.wishes.light_background = light;
                    if self.theme_name == "auto" {
                        self.set_theme("auto");
                    }
                }
            }
        }
    }

    fn paste(&mut self, text: &str) {
        if let Some(dialog) = &mut self.dialog {
            dialog.paste(text);
            return;
        }
        if self.transcript.is_some() {
            return;
        }
        if let Some((media_type, data)) = image_path(text, &self.places.environment) {
            self.editor.attach_image(media_type, data);
        } else {
            self.editor.paste(text);
        }
        self.edited();
    }

    fn key(&mut self, key: Key) {
        // 'Press it again' is about the next key.
        let repeats = key == Key::ctrl('c') || key == Key::ctrl('d') || key.is(Code::Esc);
        if !repeats {
            self.leave_hint = None;
        }
        if key == Key::ctrl('c') {
            self.interrupt_or_leave();
            return;
        }
        if self.transcript.is_some() {
            self.transcript_key(key);
            return;
        }
        if key == Key::ctrl('z') {
            self.suspend();
            return;
        }
        if self.dialog.is_some() {
            self.dialog_key(key);
            return;
        }
        if key == Key::ctrl('d') {
            if self.editor.is_empty() {
                self.leave_or_hint("press ctrl+d again to leave");
            } else {
                self.editor
                    .apply(Action::DeleteForward, self.prompt_columns());
                self.edited();
            }
            return;
        }
        if let Some(vim) = &mut self.vim
            && self.chord.is_empty()
            && !(vim.inserting() && key.is(Code::Esc) && self.completion.is_some())
            && vim.key(key, &mut self.editor)
        {
            self.edited();
            return;
        }
        self.chord.push(key);
        match self.keymap.find(Context::Prompt, &self.chord) {
            Found::Wait => return,
            Found::Action(action) => {
                self.chord.clear();
                self.action(action);
                return;
            }
            Found::Nothing => {}
        }
        let was_chord = self.chord.len() > 1;
        self.chord.clear();
        if was_chord {
            return;
        }
        if let Some(c) = crate::keymap::typed(key) {
            self.typed(c);
        }
    }

    fn typed(&mut self, c: char) {
        if c == '?' && self.editor.is_empty() {
            self.show_help = !self.show_help;
            return;
        }
        self.editor.insert(&c.to_string());
        self.edited();
    }

    /// The prompt changed.
    pub(crate) fn edited(&mut self) {
        self.show_help = false;
        self.suggestion.drop_it();
        self.completion_closed = false;
        self.history.reset();
        self.text_changed();
        self.update_completion();
    }

    pub(crate) fn action(&mut self, action: Action) {
        match action {
            Action::Up | Action::Down if self.completion.is_some() => {
                if let Some(completion) = &mut self.completion {
                    completion.next(action == Action::Up);
                }
            }
            Action::Up => self.up(),
            Action::Down => self.down(),
            Action::Submit => self.enter(),
            Action::Complete if self.completion.is_none() && self.accept_suggestion() => {}
            Action::Right if self.editor.is_empty() && self.accept_suggestion() => {}
            Action::Complete => {
                self.accept_completion();
            }
            Action::Cancel => self.escape(),
            Action::Transcript => self.open_transcript(),
            Action::Todos => self.show_todos = !self.show_todos,
            Action::Background => self.send(Op::Background { tool_use_id: None }),
            Action::StopAgents => self.stop_agents(),
            Action::Redraw => {
                let clear = self.screen.clear();
                self.pending_output.push_str(&clear);
            }
            Action::Suspend => self.suspend(),
            Action::CycleMode => self.cycle_mode(),
            Action::ModelPicker => self.command(BuiltinCommand::Model.name(), ""),
            Action::Stash => self.stash(),
            Action::HistorySearch => self.search_history(),
            Action::ExternalEditor => self.external_editor(),
            Action::PasteImage => self.paste_image(),
            Action::Help => self.show_help = !self.show_help,
            Action::Rewind => self.command(BuiltinCommand::Rewind.name(), ""),
            action => {
                if self.editor.apply(action, self.prompt_columns()) {
                    self.edited();
                }
            }
        }
    }

    fn up(&mut self) {
        if self.editor.vertical(self.prompt_columns(), -1) {
            return;
        }
        // What still waits can be taken back and changed.
        let command_is_last = self
            .queued
            .last()
            .is_none_or(|queued| queued.after < self.waiting_commands.len());
        if self.editor.is_empty()
            && command_is_last
            && let Some((name, arguments)) = self.waiting_commands.pop()
        {
            self.editor
                .set_text(&crate::commands::as_typed(&name, &arguments));
            self.text_changed();
            return;
        }
        if self.editor.is_empty()
            && let Some(queued) = self.queued.last()
        {
            let taken_back = !queued.sent
                || self
                    .session
                    .as_ref()
                    .is_some_and(|session| session.history().cancel_queued(queued.uuid));
            if taken_back && let Some(queued) = self.queued.pop() {
                self.editor.set_text(&queued.text);
                self.text_changed();
                return;
            }
        }
        let typed = self.editor.text().to_owned();
        if let Some(text) = self.history.previous(&typed) {
            self.editor.set_text(&text);
            self.completion = None;
            self.text_changed();
        }
    }

    fn down(&mut self) {
        if self.editor.vertical(self.prompt_columns(), 1) {
            return;
        }
        if let Some(text) = self.history.next() {
            self.editor.set_text(&text);
            self.completion = None;
            self.text_changed();
        }
    }

    fn enter(&mut self) {
        if self.completion.is_some() {
            let is_command = self
                .completion
                .as_ref()
                .is_some_and(|completion| matches!(completion.place.wanted, Wanted::Command(_)));
            let exact = self.completion.as_ref().is_some_and(|completion| {
                completion
                    .chosen()
                    .is_some_and(|offer| offer.insert.trim() == self.editor.text())
            });
            if !exact {
                self.accept_completion();
                if !is_command {
                    return;
                }
            }
            self.completion = None;
        }
        if self.editor.text().ends_with('\\') && self.editor.cursor() == self.editor.text().len() {
            let at = self.editor.text().len();
            self.editor.replace_range(at - 1..at, "\n");
            self.edited();
            return;
        }
        if self.editor.text().trim().is_empty() {
            return;
        }
        let (text, attachments) = self.editor.take();
        self.completion = None;
        self.submit_text(&text, &attachments);
        self.draft_due = Some(Instant::now());
        self.save_draft();
    }

    /// Sends what was typed: a command, a shell command, something to remember, or a prompt.
    pub(crate) fn submit_text(&mut self, text: &str, attachments: &[Attachment]) {
        let trimmed = text.trim();
        self.history.add(trimmed);
        if let Some(Invocation { name, arguments }) = parse(trimmed) {
            self.command(name, arguments);
            return;
        }
        if let Some(command) = trimmed
            .strip_prefix('!')
            .filter(|command| !command.trim().is_empty())
        {
            self.run_shell(command.trim());
            return;
        }
        if let Some(memory) = trimmed
            .strip_prefix('#')
            .filter(|memory| !memory.trim().is_empty() && !memory.starts_with('#'))
        {
            self.ask_memory(memory.trim());
            return;
        }
        let expanded = Editor::expand(trimmed, attachments);
        let images: Vec<ContentBlock> = attachments
            .iter()
            .filter(|attachment| trimmed.contains(&attachment.label))
            .filter_map(|attachment| match &attachment.what {
                Attached::Image { media_type, data } => {
                    Some(ContentBlock::image(media_type.clone(), data.clone()))
                }
                Attached::Text { .. } => None,
            })
            .collect();
        let content = if images.is_empty() {
            Content::from(expanded)
        } else {
            let mut blocks = vec![ContentBlock::text(expanded)];
            blocks.extend(images);
            Content::Blocks(blocks)
        };
        self.submit_content(trimmed, content);
    }

    /// Sends words to the model; `shown` is what stands on the screen for them.
    pub(crate) fn submit_content(&mut self, shown: &str, content: Content) {
        self.away.drop_it();
        let mut prompt = Prompt::new(content);
        prompt.origin = Some(serde_json::json!({"kind": "human"}));
        let after = if self.from_waiting {
            0
        } else {
            self.waiting_commands.len()
        };
        self.queued.push(Queued {
            uuid: prompt.uuid,
            text: shown.to_owned(),
            prompt,
            sent: false,
            after,
        });
        self.send_unsent();
    }

    /// Sends what was said and is not behind a command that still waits.
    pub(crate) fn send_unsent(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        for queued in &mut self.queued {
            if !queued.sent && queued.after == 0 {
                queued.sent = true;
                session.send(Op::Prompt(queued.prompt.clone()));
            }
        }
    }

    fn escape(&mut self) {
        if self.completion.is_some() {
            self.completion = None;
            self.completion_closed = true;
            return;
        }
        if self.show_help {
            self.show_help = false;
            return;
        }
        if let Some(run) = &self.shell_run {
            run.cancel.cancel();
            return;
        }
        if self.busy() {
            self.interrupt();
            return;
        }
        let again = self
            .last_escape
            .is_some_and(|last| last.elapsed() < Duration::from_millis(900));
        self.last_escape = Some(Instant::now());
        if again {
            self.last_escape = None;
            self.leave_hint = None;
            if self.editor.is_empty() {
                self.command(BuiltinCommand::Rewind.name(), "");
            } else {
                let _ = self.editor.take();
                self.edited();
            }
        } else if !self.editor.is_empty() {
            self.leave_hint = Some(("press esc again to clear", Instant::now() + LEAVE_WINDOW));
        }
    }

    /// Stops the turn. Prompts that wait come back into the editor.
    pub(crate) fn interrupt(&mut self) {
        self.interrupting = true;
        self.send(Op::Interrupt { drop_queued: false });
    }

    fn interrupt_or_leave(&mut self) {
        if self.transcript.is_some() {
            self.close_transcript();
            return;
        }
        if let Some(run) = &self.shell_run {
            run.cancel.cancel();
            return;
        }
        if self.busy() && !self.interrupting {
            if self
                .dialog
                .as_ref()
                .is_some_and(|dialog| dialog.request_id().is_some())
            {
                self.dialog = None;
            }
            self.interrupt();
            return;
        }
        if self.dialog.is_some()
            && !matches!(&self.dialog, Some(Dialog::Picker(picker)) if picker.purpose == Purpose::Trust)
        {
            self.dialog = None;
            self.parents.clear();
            return;
        }
        if !self.editor.is_empty() {
            let _ = self.editor.take();
            self.edited();
            return;
        }
        self.leave_or_hint("press ctrl+c again to leave");
    }

    fn leave_or_hint(&mut self, words: &'static str) {
        if self
            .leave_hint
            .is_some_and(|(hint, until)| hint == words && until > Instant::now())
        {
            self.leaving = Some(Leave::Asked);
        } else {
            self.leave_hint = Some((words, Instant::now() + LEAVE_WINDOW));
        }
    }

    fn cycle_mode(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let mode = session.permissions().next_mode();
        match session.permissions().set_mode(mode) {
            Ok(()) => self.mode = mode,
            Err(error) => self.warn(error.to_string()),
        }
    }

    fn stash(&mut self) {
        if self.editor.is_empty() {
            if let Some(text) = self.stash.take() {
                self.editor.set_text(&text);
            }
        } else {
            let (text, attachments) = self.editor.take();
            let expanded = Editor::expand(&text, &attachments);
            let before = self.stash.replace(expanded);
            if let Some(before) = before {
                self.editor.set_text(&before);
            }
        }
        self.edited();
    }

    pub(crate) fn search_history(&mut self) {
        if !self.history.is_read() {
            self.history_wanted = true;
            return;
        }
        let items: Vec<Item> = self
            .history
            .all()
            .into_iter()
            .map(|text| Item::new(text.clone(), text.replace('\n', " ⏎ "), ""))
            .collect();
        if items.is_empty() {
            self.leave_hint = Some(("there is no history yet", Instant::now() + LEAVE_WINDOW));
            return;
        }
        let mut picker = Picker::new(Purpose::History, "Prompts before", items).filterable();
        if !self.editor.is_empty() {
            picker.paste(self.editor.text());
        }
        self.dialog = Some(Dialog::Picker(picker));
    }

    fn dialog_key(&mut self, key: Key) {
        if key == Key::ctrl('d') {
            self.leave_or_hint("press ctrl+d again to leave");
            return;
        }
        let asked = self
            .dialog
            .as_ref()
            .is_some_and(|dialog| dialog.request_id().is_some());
        if key == Key::ctrl('o') && asked {
            self.open_transcript();
            return;
        }
        if key == Key::ctrl('g') && matches!(self.dialog, Some(Dialog::Plan(_))) {
            self.edit_plan();
            return;
        }
        if let Some(dialog) = &mut self.dialog
            && !dialog.armed()
        {
            // Meant for the prompt, not for a question that has just come up.
            match key.code {
                Code::Enter | Code::Up | Code::Down | Code::Tab | Code::Esc => dialog.arm(true),
                _ => {
                    crate::dialog::form::edit(&mut self.editor, &self.keymap, key);
                    self.text_changed();
                }
            }
            return;
        }
        let Some(dialog) = &mut self.dialog else {
            return;
        };
        let outcome = dialog.key(key);
        let theme_preview = match dialog {
            Dialog::Picker(picker) if picker.purpose == Purpose::Theme => picker.selected(),
            _ => None,
        };
        if let Some(name) = theme_preview
            && outcome == Outcome::Stay
        {
            let (theme, _) = crate::theme::Theme::load(
                &name,
                self.wishes.light_background,
                &self.places.config_home,
            );
            self.theme = theme;
            self.changed_now();
        }
        if outcome != Outcome::Stay {
            self.dialog_done(outcome);
        }
    }
}

/// An image that a pasted or dropped path names.
fn image_path(
    text: &str,
    environment: &lathe_settings::Environment,
) -> Option<(&'static str, String)> {
    let path = text.trim().trim_matches(['\'', '"']).replace("\\ ", " ");
    if path.contains('\n') || path.len() > 1000 {
        return None;
    }
    let extension = std::path::Path::new(&path)
        .extension()?
        .to_str()?
        .to_ascii_lowercase();
    let media_type = match extension.as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        _ => return None,
    };
    let file = environment.resolve(&path);
    let metadata = std::fs::metadata(&file).ok()?;
    if !metadata.is_file() || metadata.len() > 5_000_000 {
        return None;
    }
    let bytes = std::fs::read(&file).ok()?;
    Some((
        media_type,
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_key_takes_the_offer_to_leave_back() {
        let mut app = crate::view_tests::app(80, 24);
        let press = |app: &mut App, key: Key| app.input(Input::Key(key));
        press(&mut app, Key::ctrl('c'));
        assert!(app.leave_hint.is_some());
        for key in crate::key::keys("words") {
            press(&mut app, key);
        }
        assert!(app.leave_hint.is_none());
        // The first clears, the second only says what a third would do.
        press(&mut app, Key::ctrl('c'));
        assert!(app.editor.is_empty());
        press(&mut app, Key::ctrl('c'));
        assert!(app.leaving.is_none() && app.leave_hint.is_some());
    }
}
