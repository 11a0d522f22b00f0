//! Events of the engine that change the conversation.

use super::Conversation;
use crate::render::markdown::Look;
use lathe_protocol::event::Event;

impl Conversation {
    /// Applies an event. Messages of sub-agents are kept for the view of the whole conversation; below the prompt
    /// stands their progress.
    pub(crate) fn event(&mut self, event: Event, look: Look<'_>) {
        match event {
            Event::Stream {
                event,
                parent_tool_use_id: None,
            } => self.stream(&event.event, look),
            Event::Stream {
                event,
                parent_tool_use_id: Some(call),
            } => self.agent_mut(call).stream(&event.event, look),
            Event::Record {
                record,
                parent_tool_use_id: None,
            } => self.record(&record, look),
            Event::Record {
                record,
                parent_tool_use_id: Some(call),
            } => self.agent_mut(call).record(&record, look),
            Event::Retracted { reason, .. } => self.retract(&reason, look),
            Event::CallStarted {
                tool_use_id,
                tool_name,
                activity,
            } => self.call_started(&tool_use_id, &tool_name, &activity, look),
            Event::CallProgress {
                tool_use_id,
                display,
                elapsed,
                ..
            } => self.call_progress(&tool_use_id, display, elapsed),
            Event::CallFinished {
                tool_use_id,
                tool_name,
                display,
                is_error,
                elapsed,
            } => self.call_finished(&tool_use_id, &tool_name, display, is_error, elapsed, look),
            Event::PermissionDenied { denial, reason, .. } => self.refused(
                &denial.tool_use_id,
                &denial.tool_name,
                &denial.tool_input,
                &reason,
                look,
            ),
            _ => {}
        }
    }
}
