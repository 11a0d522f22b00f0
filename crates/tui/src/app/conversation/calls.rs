//! Calls of tools: shown in the order in which they began, runs of looks gathered into one line.

use super::pictures::KEPT;
use super::{Asked, Conversation, Picture, results};
use crate::render::cell::{Call, CallState, Cell, only_reads, subject};
use crate::render::markdown::Look;
use crate::render::shell_edit;
use lathe_protocol::content::{Content, ToolResultBlock};
use lathe_protocol::display::Display;
use lathe_protocol::ids::ToolUseId;
use lathe_protocol::record::MessageRecord;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

impl Conversation {
    pub(crate) fn call_started(
        &mut self,
        id: &ToolUseId,
        tool: &str,
        activity: &str,
        look: Look<'_>,
    ) {
        if !only_reads(tool) {
            self.end_run(look);
        }
        let input = self
            .inputs
            .get(id)
            .map(|asked| asked.input.clone())
            .unwrap_or_default();
        self.calls.push(Call {
            id: id.clone(),
            tool: tool.to_owned(),
            input,
            activity: activity.to_owned(),
            state: CallState::Running,
            display: Display::None,
            elapsed: Duration::ZERO,
        });
    }

    pub(crate) fn call_progress(&mut self, id: &ToolUseId, display: Display, elapsed: Duration) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == *id) {
            call.display = display;
            call.elapsed = elapsed;
        }
    }

    pub(crate) fn call_finished(
        &mut self,
        id: &ToolUseId,
        tool: &str,
        display: Display,
        is_error: bool,
        elapsed: Duration,
        look: Look<'_>,
    ) {
        if let Display::Todos { items } = &display {
            self.todos.clone_from(items);
        }
        if !self.calls.iter().any(|call| call.id == *id) {
            self.call_started(id, tool, "", look);
        }
        let display = self.edited(id, display, is_error);
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == *id) {
            call.display = display;
            call.elapsed = elapsed;
            call.state = if is_error {
                CallState::Failed
            } else {
                CallState::Done
            };
        }
        self.commit_calls(look);
    }

    /// The result of a shell command that edited a file as it was known before, as the change that it made.
    fn edited(&self, id: &ToolUseId, display: Display, is_error: bool) -> Display {
        let is_silent =
            matches!(&display, Display::Terminal { output, .. } if output.trim().is_empty());
        let asked = self.inputs.get(id).filter(|_| is_silent && !is_error);
        let Some(edit) = asked.and_then(|asked| asked.edit.as_ref()) else {
            return display;
        };
        let is_done = std::fs::read_to_string(&edit.path).is_ok_and(|text| text == edit.new);
        if !is_done {
            return display;
        }
        Display::Diff {
            path: edit.path.clone(),
            hunks: crate::render::diff::hunks(&edit.old, &edit.new),
        }
    }

    /// Calls are shown in the order in which they began.
    pub(super) fn commit_calls(&mut self, look: Look<'_>) {
        while self
            .calls
            .first()
            .is_some_and(|call| call.state != CallState::Running)
        {
            let call = self.calls.remove(0);
            self.shown.insert(call.id.clone());
            if only_reads(&call.tool) && call.state == CallState::Done {
                self.run.push(call);
            } else {
                self.push(Cell::Call(call), look);
            }
        }
    }

    /// A call was refused without a question.
    pub(crate) fn refused(
        &mut self,
        id: &ToolUseId,
        tool: &str,
        input: &Value,
        reason: &str,
        look: Look<'_>,
    ) {
        self.calls.retain(|call| call.id != *id);
        if !self.shown.insert(id.clone()) {
            return;
        }
        self.push(
            Cell::Call(Call {
                id: id.clone(),
                tool: tool.to_owned(),
                input: input.clone(),
                activity: String::new(),
                state: CallState::Refused,
                display: Display::Text {
                    text: reason.to_owned(),
                },
                elapsed: Duration::ZERO,
            }),
            look,
        );
    }

    /// The model asked for a call.
    pub(super) fn asked(&mut self, id: ToolUseId, tool: &str, input: &Value, at: &str) {
        let command = input.get("command").and_then(Value::as_str);
        let command = command.filter(|_| tool == "Bash" && !self.quiet);
        let asked = Asked {
            tool: tool.to_owned(),
            input: input.clone(),
            at: at.parse().ok(),
            edit: command.and_then(|command| shell_edit::of_command(command, &self.cwd)),
        };
        self.inputs.insert(id, asked);
    }

    /// A result in the transcript: shown only if nothing else showed the call.
    pub(super) fn result(
        &mut self,
        result: &ToolResultBlock,
        record: &MessageRecord,
        look: Look<'_>,
    ) {
        self.call_result(result, record, look);
        self.pictures(result, look);
    }

    /// The pictures of a result, below its call.
    fn pictures(&mut self, result: &ToolResultBlock, look: Look<'_>) {
        let asked = self.inputs.get(&result.tool_use_id);
        let name = asked.map_or_else(String::new, |asked| {
            subject(&asked.tool, &asked.input, &self.cwd)
        });
        let is_read = asked.is_some_and(|asked| asked.tool == "Read");
        let pictures = Picture::of_result(result, &name, is_read);
        for picture in pictures {
            self.push(Cell::Picture(Arc::new(picture)), look);
        }
        let shown = self.cells.iter_mut().rev().filter_map(|cell| match cell {
            Cell::Picture(picture) => Some(picture),
            _ => None,
        });
        for old in shown.skip(KEPT).take_while(|old| old.data.is_some()) {
            *old = Arc::new(old.without_data());
        }
    }

    fn call_result(&mut self, result: &ToolResultBlock, record: &MessageRecord, look: Look<'_>) {
        let id = &result.tool_use_id;
        if self.shown.contains(id)
            || self
                .calls
                .iter()
                .any(|call| call.id == *id && call.state != CallState::Running)
        {
            return;
        }
        let asked = self.inputs.get(id).cloned().unwrap_or_else(|| Asked {
            tool: "Tool".to_owned(),
            ..Asked::default()
        });
        self.calls.retain(|call| call.id != *id);
        self.shown.insert(id.clone());
        let is_error = result.is_error == Some(true);
        let text = result
            .content
            .as_ref()
            .map(Content::text)
            .unwrap_or_default();
        let structured = record.tool_use_result.as_ref().filter(|_| !is_error);
        let display = results::display(&asked.tool, structured, text);
        if let Display::Todos { items } = &display {
            self.todos.clone_from(items);
        }
        let elapsed = record.duration().unwrap_or_default();
        let call = Call {
            id: id.clone(),
            tool: asked.tool,
            input: asked.input,
            activity: String::new(),
            state: if is_error {
                CallState::Failed
            } else {
                CallState::Done
            },
            display,
            elapsed,
        };
        if only_reads(&call.tool) && !is_error {
            self.run.push(call);
        } else {
            self.push(Cell::Call(call), look);
        }
    }

    /// Calls of which no result was recorded: the program ended before. Says whether there are any.
    pub(super) fn unfinished(&mut self, look: Look<'_>) -> bool {
        let mut open: Vec<(ToolUseId, Asked)> = self
            .inputs
            .iter()
            .filter(|(id, _)| !self.shown.contains(*id))
            .map(|(id, asked)| (id.clone(), asked.clone()))
            .collect();
        open.sort_by(|(a, first), (b, second)| (first.at, a).cmp(&(second.at, b)));
        let found = !open.is_empty();
        for (id, asked) in open {
            self.shown.insert(id.clone());
            self.push(
                Cell::Call(Call {
                    id,
                    tool: asked.tool,
                    input: asked.input,
                    activity: String::new(),
                    state: CallState::Failed,
                    display: Display::Text {
                        text: "Lathe exited before this finished; its effects remain.".to_owned(),
                    },
                    elapsed: Duration::ZERO,
                }),
                look,
            );
        }
        found
    }
}
