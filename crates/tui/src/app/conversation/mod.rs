//! The conversation as the face knows it: finished cells, and what is going on.
//!
//! Events of the engine come in; lines for the scrollback come out, in the order in which things are
//! finished. What has been given out can't be taken back: an answer that is withdrawn is said to be.

pub(crate) mod agents;
mod calls;
mod events;
mod pictures;
mod results;
mod resume;

use crate::render::cell::{self, Call, CallState, Cell, Fold};
use crate::render::markdown::{Look, MarkdownStream};
use crate::render::shell_edit::ShellEdit;
use crate::render::style::{Line, Style};
use agents::AgentWork;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::display::{Display, TodoItem};
use lathe_protocol::event::NoticeLevel;
use lathe_protocol::ids::ToolUseId;
use lathe_protocol::record::{MessageRecord, Record, RecordKind, RecordMessage};
use lathe_protocol::stream::{Delta, StreamEvent};
pub(crate) use pictures::Picture;
use pictures::Printed;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The block that the model is writing.
enum Writing {
    Nothing,
    Text {
        text: String,
        markdown: MarkdownStream,
        /// Whether the first line is in the scrollback.
        begun: bool,
    },
    Thinking {
        text: String,
        since: Instant,
    },
    Call {
        tool: String,
    },
}

/// A tool call.
#[derive(Debug, Clone, Default)]
struct Asked {
    tool: String,
    input: Value,
    /// When, as the record says.
    at: Option<jiff::Timestamp>,
    /// The edit of a shell command that is known before it runs.
    edit: Option<ShellEdit>,
}

/// The conversation.
pub(crate) struct Conversation {
    pub(crate) cells: Vec<Cell>,
    cwd: PathBuf,
    writing: Writing,
    calls: Vec<Call>,
    inputs: HashMap<ToolUseId, Asked>,
    shown: HashSet<ToolUseId>,
    run: Vec<Call>,
    out: Printed,
    /// Whether something stands above, so that a blank line is due.
    gap: bool,
    /// How what tools answered goes into the scrollback.
    fold: Fold,
    /// Whether cells are only kept, not printed: while a conversation is being loaded.
    quiet: bool,
    pub(crate) todos: Vec<TodoItem>,
    /// The work of agents, by the call that started each.
    agents: HashMap<ToolUseId, AgentWork>,
    /// Tokens that the model wrote in this turn: counted by the API, and the estimate since.
    pub(crate) counted_tokens: u64,
    pub(crate) pending_bytes: u64,
}

impl Conversation {
    pub(crate) fn new(cwd: &Path) -> Self {
        Self {
            cells: Vec::new(),
            cwd: cwd.to_owned(),
            writing: Writing::Nothing,
            calls: Vec::new(),
            inputs: HashMap::new(),
            shown: HashSet::new(),
            run: Vec::new(),
            out: Printed::default(),
            gap: false,
            fold: Fold::Folded,
            quiet: false,
            todos: Vec::new(),
            agents: HashMap::new(),
            counted_tokens: 0,
            pending_bytes: 0,
        }
    }

    /// Continues in another folder, with nothing said yet.
    pub(crate) fn moved_to(&mut self, cwd: &Path) {
        cwd.clone_into(&mut self.cwd);
        self.cells.clear();
        self.todos.clear();
    }

    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Whether what tools answered is shown whole.
    pub(crate) fn set_verbose(&mut self, verbose: bool) {
        self.fold = if verbose {
            Fold::Unfolded
        } else {
            Fold::Folded
        };
    }

    /// The lines that are finished since the last time, up to a picture.
    pub(crate) fn take_finished(&mut self) -> Vec<Line> {
        self.out.take()
    }

    /// The picture that stands before all further lines.
    pub(crate) fn due_picture(&self) -> Option<Arc<Picture>> {
        self.out.first_picture().cloned()
    }

    /// Shows these lines for a picture.
    pub(crate) fn place_picture(&mut self, picture: &Arc<Picture>, lines: Vec<Line>) {
        self.out.place(picture, lines);
    }

    /// Whether a call of this id is known to run.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Call> {
        self.calls
            .iter()
            .filter(|call| call.state == CallState::Running)
    }

    /// The words of the last answer.
    pub(crate) fn last_answer(&self) -> Option<&str> {
        self.cells.iter().rev().find_map(|cell| match cell {
            Cell::Assistant(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// Whether nothing happened yet. Remarks on how the session was opened don't count.
    pub(crate) fn is_new(&self) -> bool {
        let mut cells = self.cells.iter();
        cells.all(|cell| matches!(cell, Cell::Remark(_)))
    }

    /// Prints lines that are no part of the conversation.
    pub(crate) fn say_above(&mut self, lines: Vec<Line>) {
        self.line_gap();
        self.out.extend(lines);
    }

    /// The work of the agent that a call started.
    pub(crate) fn agent(&self, call: &ToolUseId) -> Option<&AgentWork> {
        self.agents.get(call)
    }

    fn agent_mut(&mut self, call: ToolUseId) -> &mut AgentWork {
        let cwd = &self.cwd;
        self.agents
            .entry(call)
            .or_insert_with(|| AgentWork::new(cwd))
    }

    /// Takes over what an agent said and did before, unless it is known.
    pub(crate) fn load_agent(&mut self, call: &ToolUseId, records: &[Arc<Record>], look: Look<'_>) {
        if self.agents.contains_key(call) {
            return;
        }
        let work = self.agent_mut(call.clone());
        for record in records {
            if let Record::Message(message) = &**record {
                work.record(message, look);
            }
        }
    }

    /// The answer that is being written.
    fn written(&self) -> Option<&str> {
        match &self.writing {
            Writing::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    fn agent_message(&mut self, record: &MessageRecord, look: Look<'_>) {
        let before = self.cells.len();
        self.record(record, look);
        self.end_run(look);
        // A result takes the place of the call that waits for it.
        for cell in self.cells.split_off(before) {
            let done: Vec<Call> = match cell {
                Cell::Call(call) => vec![call],
                Cell::Run(calls) => calls,
                other => {
                    self.cells.push(other);
                    continue;
                }
            };
            for call in done {
                let place = self
                    .cells
                    .iter_mut()
                    .find(|cell| matches!(cell, Cell::Call(known) if known.id == call.id));
                match place {
                    Some(place) => *place = Cell::Call(call),
                    None => self.cells.push(Cell::Call(call)),
                }
            }
        }
        let calls = record.message.iter().flat_map(RecordMessage::blocks);
        for block in calls {
            if let ContentBlock::ToolUse(call) = block {
                self.cells.push(Cell::Call(Call {
                    id: call.id.clone(),
                    tool: call.name.clone(),
                    input: call.input.clone(),
                    activity: String::new(),
                    state: CallState::Running,
                    display: Display::None,
                    elapsed: Duration::ZERO,
                }));
            }
        }
    }

    /// Messages and calls of the agent of a call, beside a line.
    pub(crate) fn agent_lines(&self, call: &ToolUseId, look: Look<'_>, fold: Fold) -> Vec<Line> {
        let inner = Look {
            columns: look.columns.saturating_sub(4).max(8),
            ..look
        };
        let Some(work) = self.agents.get(call) else {
            return Vec::new();
        };
        let mut lines = work.lines(inner, fold);
        lines.extend(work.writing(inner));
        lines
            .into_iter()
            .map(|line| line.behind("  │ ", look.theme.muted))
            .collect()
    }

    fn line_gap(&mut self) {
        if self.gap {
            self.out.push(Line::empty());
        }
        self.gap = true;
    }

    /// Adds a finished cell.
    pub(crate) fn push(&mut self, cell: Cell, look: Look<'_>) {
        self.end_run(look);
        self.print(cell, look);
    }

    fn print(&mut self, cell: Cell, look: Look<'_>) {
        if self.quiet {
            self.cells.push(cell);
            return;
        }
        if let Cell::Picture(picture) = &cell {
            self.out.picture(picture.clone());
            self.cells.push(cell);
            return;
        }
        let lines = cell::lines(&cell, look, self.fold, &self.cwd);
        let quiet = matches!(cell, Cell::Call(_) | Cell::Run(_))
            && matches!(self.cells.last(), Some(Cell::Call(_) | Cell::Run(_)))
            && lines.len() == 1;
        if !lines.is_empty() {
            if quiet {
                self.gap = true;
            } else {
                self.line_gap();
            }
            self.out.extend(lines);
        }
        self.cells.push(cell);
    }

    fn end_run(&mut self, look: Look<'_>) {
        if !self.run.is_empty() {
            let run = std::mem::take(&mut self.run);
            self.print(Cell::Run(run), look);
        }
    }

    /// Says something.
    pub(crate) fn notice(&mut self, level: NoticeLevel, text: impl Into<String>, look: Look<'_>) {
        self.push(
            Cell::Notice {
                level,
                text: text.into(),
            },
            look,
        );
    }

    /// An event of the model's stream.
    pub(crate) fn stream(&mut self, event: &StreamEvent, look: Look<'_>) {
        match event {
            StreamEvent::ContentBlockStart { content_block, .. } => match content_block {
                ContentBlock::Text(block) => {
                    self.end_run(look);
                    self.writing = Writing::Text {
                        text: String::new(),
                        markdown: MarkdownStream::default(),
                        begun: false,
                    };
                    self.more_text(&block.text, look);
                }
                ContentBlock::Thinking(block) => {
                    self.writing = Writing::Thinking {
                        text: block.thinking.clone(),
                        since: Instant::now(),
                    };
                }
                ContentBlock::ToolUse(block) => {
                    self.writing = Writing::Call {
                        tool: block.name.clone(),
                    }
                }
                _ => {}
            },
            StreamEvent::ContentBlockDelta { delta, .. } => match delta {
                Delta::TextDelta { text } => self.more_text(text, look),
                Delta::ThinkingDelta { thinking } => {
                    self.pending_bytes += thinking.len() as u64;
                    if let Writing::Thinking { text, .. } = &mut self.writing {
                        text.push_str(thinking);
                    }
                }
                Delta::InputJsonDelta { partial_json } => {
                    self.pending_bytes += partial_json.len() as u64;
                }
                _ => {}
            },
            StreamEvent::MessageDelta { usage, .. } => {
                self.counted_tokens += usage.output_tokens;
                self.pending_bytes = 0;
            }
            _ => {}
        }
    }

    fn more_text(&mut self, more: &str, look: Look<'_>) {
        self.pending_bytes += more.len() as u64;
        let inner = Look {
            columns: look.columns.saturating_sub(2),
            ..look
        };
        let Writing::Text {
            text,
            markdown,
            begun,
        } = &mut self.writing
        else {
            return;
        };
        text.push_str(more);
        let lines = markdown.push(more, inner);
        let was_begun = *begun;
        *begun |= !lines.is_empty();
        self.answer_lines(lines, was_begun, look);
    }

    /// Prints again what is finished of the answer that is being written.
    fn write_again(&mut self, look: Look<'_>) {
        let Writing::Text { text, .. } = &mut self.writing else {
            return;
        };
        let text = std::mem::take(text);
        let bytes = self.pending_bytes;
        self.writing = Writing::Text {
            text: String::new(),
            markdown: MarkdownStream::default(),
            begun: false,
        };
        self.more_text(&text, look);
        self.pending_bytes = bytes;
    }

    fn answer_lines(&mut self, lines: Vec<Line>, begun: bool, look: Look<'_>) {
        if lines.is_empty() {
            return;
        }
        if !begun {
            self.line_gap();
        }
        for (index, line) in lines.into_iter().enumerate() {
            self.out
                .push(cell::bullet(line, look.theme.accent, !begun && index == 0));
        }
    }

    /// A record was added.
    pub(crate) fn record(&mut self, record: &MessageRecord, look: Look<'_>) {
        let Some(message) = &record.message else {
            return;
        };
        match (record.kind, message) {
            (RecordKind::Assistant, RecordMessage::Assistant(message)) => {
                for block in &message.content {
                    if let ContentBlock::ToolUse(call) = block {
                        self.asked(call.id.clone(), &call.name, &call.input, &record.timestamp);
                    }
                    self.assistant_block(block, record.is_api_error_message, look);
                }
            }
            (RecordKind::User, _) => {
                for block in message.blocks() {
                    if let Some(result) = block.as_tool_result() {
                        self.result(result, record, look);
                    }
                }
            }
            _ => {}
        }
    }

    fn assistant_block(&mut self, block: &ContentBlock, is_api_error: bool, look: Look<'_>) {
        match block {
            ContentBlock::Text(block) if is_api_error => {
                self.writing = Writing::Nothing;
                self.notice(NoticeLevel::Error, block.text.clone(), look);
            }
            ContentBlock::Text(block) => self.finish_text(&block.text, look),
            ContentBlock::Thinking(block) => {
                let took = match &self.writing {
                    Writing::Thinking { since, .. } => since.elapsed(),
                    _ => Duration::ZERO,
                };
                self.writing = Writing::Nothing;
                if !block.thinking.trim().is_empty() {
                    self.push(
                        Cell::Thinking {
                            text: block.thinking.clone(),
                            took,
                        },
                        look,
                    );
                }
            }
            ContentBlock::ToolUse(block) => {
                if matches!(self.writing, Writing::Call { .. }) {
                    self.writing = Writing::Nothing;
                }
                if let Some(call) = self.calls.iter_mut().find(|call| call.id == block.id) {
                    call.input = block.input.clone();
                }
            }
            _ => {}
        }
    }

    /// The answer as it stands in the transcript. The streamed part is in the scrollback already.
    fn finish_text(&mut self, whole: &str, look: Look<'_>) {
        let inner = Look {
            columns: look.columns.saturating_sub(2),
            ..look
        };
        match std::mem::replace(&mut self.writing, Writing::Nothing) {
            Writing::Text {
                text,
                mut markdown,
                begun,
            } if whole.starts_with(&text) => {
                let mut lines = markdown.push(&whole[text.len()..], inner);
                lines.extend(markdown.finish(inner));
                self.answer_lines(lines, begun, look);
                if !whole.trim().is_empty() {
                    self.cells.push(Cell::Assistant(whole.to_owned()));
                }
            }
            _ if whole.trim().is_empty() => {}
            _ => self.push(Cell::Assistant(whole.to_owned()), look),
        }
    }

    /// The stream broke off: what was written of an answer stays as it is.
    pub(crate) fn end_writing(&mut self, look: Look<'_>) {
        if let Writing::Text { text, .. } = &self.writing {
            let text = text.clone();
            self.finish_text(&text, look);
        }
        self.writing = Writing::Nothing;
    }

    /// Withdraws everything that was shown since the request.
    pub(crate) fn retract(&mut self, reason: &str, look: Look<'_>) {
        let begun = matches!(&self.writing, Writing::Text { begun: true, .. });
        self.writing = Writing::Nothing;
        self.pending_bytes = 0;
        if begun {
            self.push(
                Cell::Remark(format!("↺ the answer above was withdrawn: {reason}")),
                look,
            );
        }
    }

    /// The turn is over: nothing is open any more.
    pub(crate) fn end_turn(&mut self, look: Look<'_>) {
        self.end_writing(look);
        for call in &mut self.calls {
            if call.state == CallState::Running {
                call.state = CallState::Failed;
            }
        }
        self.commit_calls(look);
        self.end_run(look);
        self.counted_tokens = 0;
        self.pending_bytes = 0;
    }

    /// The current activity, in a few words.
    pub(crate) fn activity(&self) -> Option<String> {
        if let Some(call) = self.running().last() {
            let activity = crate::render::text::clean(&call.activity);
            return Some(activity.lines().next().unwrap_or(&call.tool).to_owned());
        }
        match &self.writing {
            Writing::Text { .. } => Some("Writing".to_owned()),
            Writing::Thinking { .. } => Some("Thinking".to_owned()),
            Writing::Call { tool } => Some(format!("Preparing {tool}")),
            Writing::Nothing => None,
        }
    }

    /// The live part: the unfinished end of the answer and the calls that run.
    pub(crate) fn live(&self, look: Look<'_>) -> Vec<Line> {
        let Writing::Text {
            markdown, begun, ..
        } = &self.writing
        else {
            return self.live_with(Vec::new(), look);
        };
        let inner = Look {
            columns: look.columns.saturating_sub(2),
            ..look
        };
        let lines = markdown.tail(inner).into_iter().enumerate();
        let answer =
            lines.map(|(index, line)| cell::bullet(line, look.theme.accent, !begun && index == 0));
        self.live_with(answer.collect(), look)
    }

    /// The live part with all of the answer, also what is finished of it.
    pub(crate) fn whole_live(&self, look: Look<'_>) -> Vec<Line> {
        let answer = match &self.writing {
            Writing::Text { text, .. } if !text.trim().is_empty() => {
                let answer = Cell::Assistant(text.clone());
                cell::lines(&answer, look, self.fold, &self.cwd)
            }
            _ => Vec::new(),
        };
        self.live_with(answer, look)
    }

    fn live_with(&self, answer: Vec<Line>, look: Look<'_>) -> Vec<Line> {
        let mut out = Vec::new();
        if !self.run.is_empty() {
            out.extend(cell::lines(
                &Cell::Run(self.run.clone()),
                look,
                self.fold,
                &self.cwd,
            ));
        }
        out.extend(answer);
        for call in &self.calls {
            out.push(crate::render::text::truncate_line(
                &cell::call_head(call, look, &self.cwd),
                look.columns,
            ));
            if call.state == CallState::Running
                && let Display::Terminal { output, .. } = &call.display
            {
                let lines = crate::render::ansi::lines(output.trim_end(), look.theme.muted);
                for line in lines.into_iter().rev().take(4).rev() {
                    let line = line.behind("  ", Style::PLAIN);
                    out.push(crate::render::text::truncate_line(&line, look.columns));
                }
            }
        }
        out
    }

    /// Whether a blank line stands between the scrollback and the live part.
    pub(crate) fn live_gap(&self) -> bool {
        self.gap && !matches!(&self.writing, Writing::Text { begun: true, .. })
    }
}
