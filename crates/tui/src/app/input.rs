//! Keys and pastes: to the top layer, or to the prompt.

use crate::app::{App, Leave, agents as agent_views, answers, away, keyboard, queue, settings};
use crate::commands::{agents, mode, theme};
use crate::layers::transcript::Transcript;
use crate::layers::{Layer as _, Outcome, Picker, PlanDialog, Purpose};
use crate::prompt::clipboard::image_path;
use crate::prompt::completion::Wanted;
use crate::prompt::dialog_keys::DialogMatch;
use crate::prompt::keymap::{Action, Context, KeyMatch};
use crate::prompt::{clipboard, completion, external_editor, history, suggestion};
use crate::terminal::full_screen::FullScreen;
use crate::terminal::input::Input;
use crate::terminal::key::{Code, Key};
use crate::{commands, terminal};
use lathe_protocol::command::BuiltinCommand;
use lathe_protocol::op::Op;
use std::time::Instant;

impl App {
    pub(crate) fn input(&mut self, input: Input) {
        match input {
            Input::Key(key) => {
                self.alarms.user_is_active();
                self.key(key);
            }
            Input::Paste(text) => {
                self.alarms.user_is_active();
                self.paste(&text);
            }
            Input::FocusGained => {
                self.alarms.focused = true;
                away::came_back(self);
            }
            Input::FocusLost => {
                self.alarms.focused = false;
                self.alarms.away.left(Instant::now());
            }
            Input::KittyKeyboard => terminal::switch_kitty_on(),
            Input::KittyGraphics => self.screen.graphics.speaks_kitty(),
            Input::CellSize(height, width) => self.screen.graphics.cell_size(height, width),
            Input::Attributes { sixel } => self.screen.graphics.answered(sixel),
            Input::Background(light) => {
                let light = light > 127;
                if light != self.look.light_background {
                    self.look.light_background = light;
                    if self.look.theme_name == "auto" {
                        settings::set_theme(self, "auto");
                    }
                }
            }
        }
    }

    fn paste(&mut self, text: &str) {
        if self.screen.full.is_some() {
            return;
        }
        let unseen = self.layers.is_unseen();
        if let Some(dialog) = self.layers.dialog_mut()
            && !unseen
            && dialog.armed()
        {
            dialog.paste(text);
            return;
        }
        if let Some((media_type, data)) = image_path(text, &self.places.environment) {
            self.prompt.editor.attach_image(media_type, data);
        } else {
            self.prompt.editor.paste(text);
        }
        self.edited();
    }

    fn key(&mut self, key: Key) {
        // 'Press it again' is about the next key.
        let repeats = key == Key::ctrl('c') || key == Key::ctrl('d') || key.is(Code::Esc);
        if !repeats {
            self.alarms.hint = None;
        }
        if !key.is(Code::Esc) {
            self.alarms.last_escape = None;
        }
        if keyboard::key(self, key) {
            return;
        }
        if key == Key::ctrl('c') {
            self.interrupt_or_leave();
            return;
        }
        if self.layers.transcript().is_some() {
            self.transcript_key(key);
            return;
        }
        if key == Key::ctrl('z') {
            self.suspend();
            return;
        }
        // What was typed before a dialog appeared is not meant for it.
        if self.layers.dialog().is_some() && !self.layers.is_unseen() {
            self.dialog_key(key);
            return;
        }
        if key == Key::ctrl('d') {
            if self.prompt.editor.is_empty() {
                self.leave_or_hint('d');
            } else {
                self.prompt
                    .editor
                    .apply(Action::DeleteForward, self.screen.prompt_columns());
                self.edited();
            }
            return;
        }
        if let Some(vim) = &mut self.prompt.vim
            && self.prompt.chord.is_empty()
            && !(vim.inserting() && key.is(Code::Esc) && self.layers.completion().is_some())
            && vim.key(key, &mut self.prompt.editor)
        {
            self.edited();
            return;
        }
        self.prompt.chord.push(key);
        match self.prompt.keymap.find(Context::Prompt, &self.prompt.chord) {
            KeyMatch::Wait => return,
            KeyMatch::Action(action) => {
                self.prompt.chord.clear();
                self.action(action);
                return;
            }
            KeyMatch::Nothing => {}
        }
        let was_chord = self.prompt.chord.len() > 1;
        self.prompt.chord.clear();
        if was_chord {
            return;
        }
        if let Some(c) = crate::prompt::keymap::typed(key) {
            self.typed(c);
        }
    }

    fn typed(&mut self, c: char) {
        if c == '?' && self.prompt.editor.is_empty() {
            self.layers.toggle_help();
            return;
        }
        self.prompt.editor.insert(&c.to_string());
        self.edited();
    }

    /// The prompt changed.
    pub(crate) fn edited(&mut self) {
        self.layers.close_help();
        self.prompt.suggestion.cancel();
        self.prompt.completion_closed = false;
        self.prompt.history.reset();
        self.prompt.text_changed();
        completion::update(self);
    }

    pub(crate) fn action(&mut self, action: Action) {
        if self.below_prompt_action(action) {
            return;
        }
        match action {
            Action::Up => self.up(),
            Action::Down => self.down(),
            Action::Submit => self.enter(queue::When::Now),
            Action::Queue if self.session.busy() && !self.prompt.editor.is_empty() => {
                self.enter(queue::When::AfterTurn);
            }
            Action::Queue => self.action(Action::Newline),
            Action::Right if self.prompt.editor.is_empty() && suggestion::accept(self) => {}
            Action::Complete => {
                suggestion::accept(self);
            }
            Action::Cancel => self.escape(),
            Action::Transcript => self.open_transcript(),
            Action::Todos => self.look.show_todos = !self.look.show_todos,
            Action::Keyboard if keyboard::take(self) => {}
            Action::Keyboard => self.action(Action::Right),
            Action::Background => self.engine.send(Op::Background { tool_use_id: None }),
            Action::StopAgents => agents::stop_all(self),
            Action::NextAgent => agent_views::turn(self, true),
            Action::PreviousAgent => agent_views::turn(self, false),
            Action::Redraw => {
                let clear = self.screen.inline.clear();
                self.screen.pending.push_str(&clear);
            }
            Action::Suspend => self.suspend(),
            Action::CycleMode => mode::cycle(self),
            Action::ModelPicker => commands::run_own(self, BuiltinCommand::Model, ""),
            Action::Stash => {
                self.prompt.swap_stash();
                self.edited();
            }
            Action::HistorySearch => history::search(self),
            Action::ExternalEditor => external_editor::edit_prompt(self),
            Action::PasteImage => clipboard::paste_image(self),
            Action::Help => self.layers.toggle_help(),
            Action::Rewind => commands::run_own(self, BuiltinCommand::Rewind, ""),
            Action::Command(number) => {
                if let Some(command) = self.prompt.keymap.command(number).map(str::to_owned) {
                    let (name, arguments) = command.split_once(' ').unwrap_or((&command, ""));
                    commands::run(self, name, arguments);
                }
            }
            action => {
                if self
                    .prompt
                    .editor
                    .apply(action, self.screen.prompt_columns())
                {
                    self.edited();
                }
            }
        }
    }

    fn up(&mut self) {
        if self
            .prompt
            .editor
            .vertical(self.screen.prompt_columns(), -1)
        {
            return;
        }
        // The last entry of the queue can be taken back and changed.
        let engine = &self.engine;
        if self.prompt.editor.is_empty()
            && let Some(typed) = self.queue.take_back(|uuid| engine.cancel_queued(uuid))
        {
            self.prompt.editor.restore(&typed.text, typed.attachments);
            self.prompt.text_changed();
            return;
        }
        let typed = self.prompt.editor.text().to_owned();
        if let Some(text) = self.prompt.history.previous(&typed) {
            self.prompt.editor.set_text(&text);
            self.layers.close_completion();
            self.prompt.text_changed();
        }
    }

    fn down(&mut self) {
        if self.prompt.editor.vertical(self.screen.prompt_columns(), 1) {
            return;
        }
        if let Some(text) = self.prompt.history.next() {
            self.prompt.editor.set_text(&text);
            self.layers.close_completion();
            self.prompt.text_changed();
        }
    }

    fn enter(&mut self, when: queue::When) {
        if self.layers.completion().is_some() {
            let is_command = self
                .layers
                .completion()
                .is_some_and(|completion| matches!(completion.place.wanted, Wanted::Command(_)));
            let exact = self.layers.completion().is_some_and(|completion| {
                completion
                    .chosen()
                    .is_some_and(|offer| offer.insert.trim() == self.prompt.editor.text())
            });
            if !exact {
                completion::accept(self);
                if !is_command {
                    return;
                }
            }
            self.layers.close_completion();
        }
        if self.prompt.editor.text().ends_with('\\')
            && self.prompt.editor.cursor() == self.prompt.editor.text().len()
        {
            let at = self.prompt.editor.text().len();
            self.prompt.editor.replace_range(at - 1..at, "\n");
            self.edited();
            return;
        }
        if self.prompt.editor.text().trim().is_empty() {
            return;
        }
        let typed = self.prompt.editor.begins_typed();
        let (text, attachments) = self.prompt.editor.take();
        self.layers.close_completion();
        queue::submit(self, &text, &attachments, typed, when);
        self.prompt.draft.due = Some(Instant::now());
        self.prompt.save_draft();
    }

    fn escape(&mut self) {
        if let Some(run) = &self.session.shell_run {
            run.cancel.cancel();
            return;
        }
        if self.session.busy() || !self.session.hooks.is_empty() {
            self.interrupt();
            return;
        }
        if self.alarms.escape() {
            self.alarms.hint = None;
            if self.prompt.editor.is_empty() {
                commands::run_own(self, BuiltinCommand::Rewind, "");
            } else {
                let _ = self.prompt.editor.take();
                self.edited();
            }
        } else if !self.prompt.editor.is_empty() {
            let key = self.prompt.keymap.key(Context::Prompt, Action::Cancel);
            let by_default = key.as_deref() == Some("esc");
            self.alarms.show(if by_default {
                "press esc again to clear"
            } else {
                "press it again to clear"
            });
        }
    }

    /// Stops the turn. Prompts that wait come back into the editor.
    pub(crate) fn interrupt(&mut self) {
        self.session.turn.interrupting = true;
        let engine = &self.engine;
        if let Some(typed) = self.queue.take_all_back(|uuid| engine.cancel_queued(uuid)) {
            self.prompt
                .editor
                .put_before(&typed.text, typed.attachments);
            self.prompt.text_changed();
        }
        self.engine.send(Op::Interrupt { drop_queued: false });
    }

    fn interrupt_or_leave(&mut self) {
        if self.screen.full.is_some() {
            self.close_transcript();
            return;
        }
        if let Some(run) = &self.session.shell_run {
            run.cancel.cancel();
            return;
        }
        if self.session.busy() && !self.session.turn.interrupting {
            if self.layers.asks() {
                self.layers.close_dialog();
            }
            self.interrupt();
            return;
        }
        if self.layers.dialog().is_some() && self.layers.purpose() != Some(&Purpose::Trust) {
            if self.layers.asks() {
                // Nothing runs but the agent that asks: it gets a no.
                self.dialog_key(Key::new(Code::Esc));
            }
            self.layers.close_dialogs();
            return;
        }
        if !self.prompt.editor.is_empty() {
            let _ = self.prompt.editor.take();
            self.edited();
            return;
        }
        self.leave_or_hint('c');
    }

    /// Leaves if the key was pressed twice. Work in the background ends with the program: that is said first.
    fn leave_or_hint(&mut self, key: char) {
        let words = match (key, self.session.works_in_background()) {
            ('d', false) => "press ctrl+d again to exit",
            ('d', true) => "background work will stop: press ctrl+d again to exit",
            (_, false) => "press ctrl+c again to exit",
            (_, true) => "background work will stop: press ctrl+c again to exit",
        };
        if self.alarms.confirmed(words) {
            self.exit.leave = Some(Leave::Asked);
        }
    }

    /// Offers an action to the completion or the help. Returns whether it was used there.
    fn below_prompt_action(&mut self, action: Action) -> bool {
        let Some(layer) = self.layers.below_prompt_mut() else {
            return false;
        };
        match layer.action(action) {
            Outcome::Ignored => return false,
            Outcome::Chosen(_) => completion::accept(self),
            Outcome::Cancelled if self.layers.shows_help() => self.layers.close_help(),
            Outcome::Cancelled => {
                self.layers.close_completion();
                self.prompt.completion_closed = true;
            }
            _ => {}
        }
        true
    }

    pub(crate) fn open_transcript(&mut self) {
        terminal::alternate(true);
        self.screen.full = Some(FullScreen::default());
        self.layers
            .open(Transcript::new(self.prompt.keymap.clone()));
        self.screen.changed_now();
    }

    pub(crate) fn close_transcript(&mut self) {
        terminal::alternate(false);
        self.layers.close_transcript();
        if let Some(full) = self.screen.full.take() {
            self.screen.pending.push_str(&full.after);
        }
        self.screen.changed_now();
    }

    fn transcript_key(&mut self, key: Key) {
        let Some(transcript) = self.layers.transcript() else {
            return;
        };
        match transcript.key(key) {
            Outcome::Cancelled => self.close_transcript(),
            Outcome::Do(Action::Suspend) => self.suspend(),
            Outcome::Do(_) => {
                let text = self.conversation.last_answer().map(str::to_owned);
                transcript.say(match &text {
                    Some(_) => "copied the last answer",
                    None => "no answer yet",
                });
                if let Some(text) = text {
                    let _ = terminal::write(&commands::copy::clipboard_sequence(&text));
                    commands::copy::fill_clipboard(self, &text);
                }
            }
            _ => {}
        }
    }

    /// The key that the dialog gets for one that was pressed, by the user's bindings. `None` if it gets nothing.
    fn key_of_dialog(&mut self, key: Key) -> Option<Key> {
        let dialog = self.layers.dialog()?;
        let is_text = dialog.takes_text() && crate::prompt::keymap::typed(key).is_some();
        if !dialog.armed() || is_text && self.prompt.chord.is_empty() {
            return Some(key);
        }
        self.prompt.chord.push(key);
        let found = self
            .prompt
            .keymap
            .find_in_dialog(dialog.contexts(), &self.prompt.chord);
        if found == DialogMatch::Wait {
            return None;
        }
        let was_chord = self.prompt.chord.len() > 1;
        self.prompt.chord.clear();
        match found {
            DialogMatch::Key(own) => Some(own),
            DialogMatch::Unbound if !was_chord => Some(key),
            _ => None,
        }
    }

    fn dialog_key(&mut self, pressed: Key) {
        if pressed == Key::ctrl('d') {
            self.leave_or_hint('d');
            return;
        }
        let Some(key) = self.key_of_dialog(pressed) else {
            return;
        };
        if key == Key::ctrl('o') && self.layers.asks() {
            self.open_transcript();
            return;
        }
        if key == Key::ctrl('g') && self.layers.shown::<PlanDialog>().is_some() {
            external_editor::edit_plan(self);
            return;
        }
        if let Some(dialog) = self.layers.dialog_mut()
            && !dialog.armed()
        {
            // Meant for the prompt, not for a question that has just come up.
            match key.code {
                Code::Enter | Code::Up | Code::Down | Code::Tab | Code::Esc => dialog.arm(true),
                _ => {
                    crate::layers::form::edit(&mut self.prompt.editor, &self.prompt.keymap, key);
                    self.prompt.text_changed();
                }
            }
            return;
        }
        if agent_views::key(self, key) {
            return;
        }
        let Some(dialog) = self.layers.dialog_mut() else {
            return;
        };
        let outcome = dialog.key(key);
        if outcome == Outcome::Ignored
            && key == pressed
            && crate::prompt::keymap::typed(key).is_some()
        {
            // Words, not an answer: the user is typing.
            dialog.arm(false);
            crate::layers::form::edit(&mut self.prompt.editor, &self.prompt.keymap, key);
            self.prompt.text_changed();
            return;
        }
        let picker = self.layers.shown::<Picker>();
        let theme_preview = picker
            .filter(|picker| picker.purpose == Purpose::Theme)
            .and_then(Picker::selected);
        if let Some(name) = theme_preview
            && outcome == Outcome::Stay
        {
            theme::preview(self, &name);
        }
        if outcome != Outcome::Stay {
            answers::done(self, outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_key_takes_the_offer_to_leave_back() {
        let mut app = crate::render::view_tests::app(80, 24);
        let press = |app: &mut App, key: Key| app.input(Input::Key(key));
        press(&mut app, Key::ctrl('c'));
        assert!(app.alarms.hint.is_some());
        for key in terminal::key::keys("words") {
            press(&mut app, key);
        }
        assert!(app.alarms.hint.is_none());
        // The first clears, the second only says what a third would do.
        press(&mut app, Key::ctrl('c'));
        assert!(app.prompt.editor.is_empty());
        press(&mut app, Key::ctrl('c'));
        assert!(app.exit.leave.is_none() && app.alarms.hint.is_some());
    }
}
