//! The results of jobs that one command started and only that command uses.

use crate::app::jobs::Report;
use crate::app::{App, agents};
use crate::commands::tree::Branch;
use crate::commands::{btw, insights, search, surgery, tree};
use lathe_engine::{BesideError, TaskError};
use lathe_protocol::ids::ToolUseId;
use lathe_protocol::record::Record;
use lathe_session::contents::ContextItem;
use lathe_session::insights::Insights;
use lathe_session::search::{FoundSession, QueryError};
use std::sync::Arc;

/// The result of a job of a command.
pub(crate) enum CommandResult {
    /// The answer to `/btw`.
    Beside {
        question: String,
        answer: Result<String, BesideError>,
    },
    /// The prompts of the session, on all branches.
    Tree(Vec<Branch>),
    /// The conversation continues from another place.
    WentTo(Report),
    /// The conclusions of a branch.
    Conclusions {
        name: String,
        conclusions: Option<String>,
    },
    /// Messages with these words.
    Found {
        words: String,
        found: Result<Vec<FoundSession>, QueryError>,
    },
    /// The results in the context.
    Contents(Vec<ContextItem>),
    /// A summary of one of them.
    Condensed {
        id: ToolUseId,
        row: String,
        summary: Option<String>,
    },
    Insights(Box<Insights>),
    /// The words and calls of an agent so far.
    AgentRecords {
        call: ToolUseId,
        records: Result<Vec<Arc<Record>>, TaskError>,
    },
    /// Words for an agent were delivered, or not.
    AgentWritten {
        id: String,
        text: String,
        sent: Result<(), TaskError>,
    },
}

pub(crate) fn finished(app: &mut App, result: CommandResult) {
    match result {
        CommandResult::Beside { question, answer } => btw::answered(app, &question, answer),
        CommandResult::Tree(branches) => tree::show(app, branches),
        CommandResult::WentTo(report) => tree::went(app, report),
        CommandResult::Conclusions { name, conclusions } => tree::merged(app, &name, conclusions),
        CommandResult::Found { words, found } => search::found(app, &words, found),
        CommandResult::Contents(items) => surgery::show(app, items),
        CommandResult::Condensed { id, row, summary } => {
            surgery::condensed(app, &id, &row, summary);
        }
        CommandResult::Insights(insights) => insights::show(app, *insights),
        CommandResult::AgentRecords { call, records } => agents::loaded(app, &call, records),
        CommandResult::AgentWritten { id, text, sent } => agents::written(app, &id, &text, sent),
    }
}
