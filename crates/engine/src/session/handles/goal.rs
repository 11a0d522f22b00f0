//! The goal of a session.

use crate::conversation::ConversationShared;
use crate::conversation::goal::{self, BadGoal, Goal};
use std::sync::Arc;

/// The goal of a session: what its turns go on for.
#[derive(Clone, Copy)]
pub struct GoalHandle<'a> {
    pub(in crate::session) shared: &'a Arc<ConversationShared>,
}

impl GoalHandle<'_> {
    /// The goal, if there is one.
    #[must_use]
    pub fn current(self) -> Option<Goal> {
        self.shared.state.goal.lock().clone()
    }

    /// Sets the goal: a condition, or a command after `!`. Turns are judged by it from now on, the running one too.
    ///
    /// # Errors
    /// When there is nothing to judge.
    pub fn set(self, condition: &str) -> Result<Goal, BadGoal> {
        let goal = Goal::new(condition)?;
        goal::set(self.shared, Some(goal.clone()));
        Ok(goal)
    }

    /// Ends the goal. Returns whether there was one.
    #[must_use]
    pub fn clear(self) -> bool {
        let had = self.shared.state.goal.lock().is_some();
        if had {
            goal::set(self.shared, None);
        }
        had
    }
}
