//! Words from the harness that go with a request, always at its end: never between what was sent before.

use crate::call::tool_search;
use crate::context::git::{self, Git};
use crate::context::restoration;
use crate::conversation::language;
use crate::conversation::plan;
use crate::conversation::records::reminder;
use crate::conversation::{Conversation, RunningTurn};
use crate::mcp::offer;
use crate::session::ledger::Totals;
use crate::turn::decide::Limits;
use lathe_permissions::PermissionContext;
use lathe_protocol::event::{News, NoticeLevel, Priority};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Model calls without a look at the task list before the model is reminded of it.
const STALE_AFTER: u32 = 10;
/// How long the first request waits for git. It has been asked since the session was opened.
const GIT_PATIENCE: Duration = Duration::from_millis(5);
/// Shares of a budget at which a word is due, in percent.
const BUDGET_MARKS: [u64; 2] = [75, 90];

/// The reminders that are due at some time.
#[derive(Debug, Default)]
pub(crate) struct Reminders {
    /// Model calls since the task list was touched.
    pub(crate) since_todo: u32,
    /// How many marks of the budget were passed.
    budget_marks: usize,
    git: Option<tokio::task::JoinHandle<Option<String>>>,
    /// The repository that was asked about last.
    repository: Option<PathBuf>,
}

impl Reminders {
    /// Asks git, beside everything else, if the user trusted the repository.
    pub(crate) fn ask_git(&mut self, context: &PermissionContext, folder: &Path) {
        if context.tells_git_status
            && let Ok(git) = Git::new(context, folder)
        {
            self.repository = git::repository_of(folder);
            self.git = Some(lathe_spawn::task(async move { git.state().await }));
        }
    }

    /// The state of the repository, once.
    async fn git_state(&mut self) -> Option<String> {
        let asked = self.git.as_mut()?;
        match tokio::time::timeout(GIT_PATIENCE, asked).await {
            Ok(answer) => {
                self.git = None;
                answer.ok().flatten()
            }
            Err(_) => None,
        }
    }
}

/// Puts what is due at the end of the conversation.
pub(crate) async fn remind(conversation: &mut Conversation, turn: &RunningTurn) {
    let mut texts = Vec::new();
    look_at_folder(conversation);
    texts.extend(conversation.context.reminders.git_state().await);
    texts.extend(language::language_news(conversation, turn).await);
    texts.extend(crate::editor::editor_news(conversation).await);
    texts.extend(offer::mcp_news(conversation));
    texts.extend(tool_search::waiting_tools(conversation));
    if let Some(text) = conversation.context.since_interruption.take() {
        conversation.shared.session.agents.told_of_earlier();
        texts.push(text);
    }
    texts.extend(agent_news(conversation));
    texts.extend(plan::plan_reminder(conversation));
    texts.extend(stale_todos(conversation));
    texts.extend(budget_left(conversation));
    let place = conversation.shared.role.place();
    texts.extend(place.and_then(|place| place.reminder.clone()));
    if !texts.is_empty() {
        let record = conversation
            .records
            .meta(conversation.tip, reminder(&texts.join("\n\n")));
        conversation.append(record);
    }
}

/// Agents that came, went or changed.
fn agent_news(conversation: &Conversation) -> Option<String> {
    let is_main = conversation.shared.role.place().is_none();
    let registry = conversation.shared.toolbox.registry.read();
    if !is_main || registry.find(lathe_tools::agent::NAME).is_none() {
        return None;
    }
    let types = conversation.shared.role.filter();
    conversation
        .shared
        .session
        .agents
        .news(types.and_then(|filter| filter.types.as_deref()))
}

/// Asks git again when the work has moved into another repository.
fn look_at_folder(conversation: &mut Conversation) {
    let folder = conversation.shared.tools.working_folder.read().clone();
    let context = conversation.shared.permissions.snapshot();
    let known = conversation.context.reminders.repository.is_some();
    let inside = context.roots.iter().any(|root| folder.starts_with(root));
    if !known || !inside {
        return;
    }
    let repository = git::repository_of(&folder);
    if repository.is_some() && repository != conversation.context.reminders.repository {
        conversation.context.reminders.ask_git(&context, &folder);
    }
}

fn stale_todos(conversation: &mut Conversation) -> Option<String> {
    conversation.context.reminders.since_todo += 1;
    if conversation.context.reminders.since_todo <= STALE_AFTER {
        return None;
    }
    conversation.context.reminders.since_todo = 0;
    let list =
        restoration::todo_text(conversation).or_else(|| restoration::task_text(conversation))?;
    let tool = if conversation
        .shared
        .toolbox
        .registry
        .read()
        .find("TodoWrite")
        .is_some()
    {
        "TodoWrite"
    } else {
        "TaskUpdate"
    };
    Some(format!(
        "The task list has not changed for a while. Update it with {tool} if it is out of date; don't mention this to the user.\n{list}"
    ))
}

/// A word when much of what may be spent is spent: to the model, and to the user.
fn budget_left(conversation: &mut Conversation) -> Option<String> {
    let limits = conversation.fixed.limits;
    let share = spent_percent(conversation.ledger.totals(), &limits)?;
    let marks = BUDGET_MARKS.iter().filter(|mark| share >= **mark).count();
    if marks <= conversation.context.reminders.budget_marks {
        return None;
    }
    conversation.context.reminders.budget_marks = marks;
    let text = format!("About {share} % of this session's budget is used.");
    conversation.shared.events.news(
        News::of("budget", Priority::High),
        NoticeLevel::Warning,
        text.clone(),
    );
    Some(format!(
        "{text} Finish what matters most and say what is left."
    ))
}

/// The share of the budget that is spent, in percent; the greater one where there are two.
fn spent_percent(totals: &Totals, limits: &Limits) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share in percent, never negative"
    )]
    let of_dollars = limits
        .max_budget_usd
        .filter(|limit| *limit > 0.0)
        .map(|limit| (limits.spent_in_run(totals.cost_usd()) / limit * 100.0) as u64);
    let of_tokens = limits
        .max_tokens
        .filter(|limit| *limit > 0)
        .map(|limit| totals.tokens() * 100 / limit);
    of_dollars.max(of_tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_protocol::event::ModelUsage;

    #[test]
    fn the_greater_share_of_two_budgets_counts() {
        let mut totals = Totals::default();
        totals.models.insert(
            "m".into(),
            ModelUsage {
                input_tokens: 400,
                output_tokens: 100,
                cost_usd: 0.9,
                ..ModelUsage::default()
            },
        );
        let mut limits = Limits::default();
        assert_eq!(spent_percent(&totals, &limits), None);
        limits.max_budget_usd = Some(1.0);
        assert_eq!(spent_percent(&totals, &limits), Some(90));
        limits.spent_before_usd = 0.5;
        assert_eq!(spent_percent(&totals, &limits), Some(40));
        limits.max_tokens = Some(1_000);
        assert_eq!(spent_percent(&totals, &limits), Some(50));
    }
}
