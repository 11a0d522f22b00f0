//! Using a skill: its words with everything filled in, and what holds while it is in use.

use super::{Extensions, Use};
use crate::call::{CallEnvironment, Stage};
use crate::conversation::records::reminder;
use crate::conversation::{Conversation, ConversationShared, RunningTurn};
use crate::session::monitors;
use crate::turn::frozen;
use crate::turn::models;
use lathe_extensions::expand::{Segment, expand};
use lathe_extensions::{ExtensionSource, Problem, Skill};
use lathe_hooks::HookSource;
use lathe_model::estimate;
use lathe_permissions::Rule;
use lathe_protocol::command::Invocation;
use lathe_protocol::content::{ContentBlock, ToolUseBlock};
use lathe_protocol::event::{Event, News, NoticeLevel, Priority};
use lathe_protocol::ids::{RecordId, ToolUseId};
use lathe_protocol::permission::{Behavior, RuleSource};
use lathe_protocol::record::{MessageRecord, RecordMessage};
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Where the record of the user's use keeps what was used.
const USE: &str = "skillUse";
/// Tokens of one skill that come back after a compaction, and of all of them.
const TOKENS_PER_SKILL: u64 = 5_000;
const TOKENS_IN_ALL: u64 = 25_000;

/// Who uses a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Invoker {
    /// The user, by `/name`.
    Person,
    /// The model, by the Skill tool.
    Model,
}

impl ConversationShared {
    /// Why the file of a skill may not be read: what comes with a project is held to the rules for reading.
    pub(crate) fn hidden_file_of(&self, skill: &Skill) -> Option<String> {
        if skill.source != ExtensionSource::Project {
            return None;
        }
        self.permissions.why_hidden(skill.path.as_deref()?)
    }

    /// The words of a skill with everything filled in. What it allows, hooks into and chooses holds from
    /// now on until the turn is over.
    ///
    /// # Errors
    /// When its file can no longer be read.
    pub(crate) async fn skill_text(
        self: &Arc<Self>,
        skill: &Skill,
        arguments: &str,
        invoker: Invoker,
        turn: RecordId,
        cancel: &CancellationToken,
    ) -> Result<String, Problem> {
        if let Some(why) = self.hidden_file_of(skill) {
            let file = skill.path.clone().unwrap_or_default();
            return Err(Problem::fatal(&file, why));
        }
        let body = skill.body()?;
        // What comes with Lathe may be used by the model without a question, so its rules are for
        // people who ask for it themselves, and who trust the folder: git obeys its configuration.
        let comes_with_lathe = skill.source == ExtensionSource::Builtin;
        let is_trusted = self.permissions.snapshot().trusted;
        if !comes_with_lathe || invoker == Invoker::Person && is_trusted {
            self.add_rules_of(skill, &skill.allowed_tools(), Behavior::Allow);
        }
        self.add_rules_of(skill, &skill.disallowed_tools(), Behavior::Deny);
        if !skill.run.hooks.is_empty() {
            self.add_hooks_of(skill);
        }
        if !skill.run.fork {
            let mut state = self.integrations.extensions.state.lock();
            if let Some(model) = &skill.run.model {
                let present = || self.choices.read().model.clone();
                state.model = Some(models::choose_model_or(self, model, present));
            }
            state.effort = skill.run.effort.or(state.effort);
        }
        let session_id = self.session.id.to_string();
        let effort = skill
            .run
            .effort
            .map_or_else(|| self.hooks.effort(), |effort| effort.name().to_owned());
        let segments = expand(&body, &skill.values(arguments, &session_id, &effort));
        let mut text = String::new();
        if let Some(folder) = &skill.folder {
            text.push_str(&format!(
                "Base directory for this skill: {}\n\n",
                folder.display()
            ));
        }
        for segment in segments {
            match segment {
                Segment::Text(words) => text.push_str(&words),
                Segment::Shell { command, written } => {
                    if skill.trusted && !matches!(skill.source, ExtensionSource::Mcp(_)) {
                        text.push_str(&self.command_output(&command, turn, cancel).await);
                    } else {
                        text.push_str(&written);
                    }
                }
            }
        }
        let text = text.trim_end().to_owned();
        self.integrations.extensions.note_use(&skill.name, &text);
        monitors::skill_used(self, &skill.name);
        Ok(text)
    }

    /// The rules of a skill hold from now on. Deny and ask rules stay stronger than what it allows.
    fn add_rules_of(&self, skill: &Skill, rules: &[String], behavior: Behavior) {
        let key = if behavior == Behavior::Deny {
            "disallowed-tools"
        } else {
            "allowed-tools"
        };
        for text in rules {
            let parsed = lathe_permissions::parse_rule_list(text);
            for rule in parsed {
                let added = rule.and_then(|rule| {
                    let context = self.permissions.snapshot();
                    let anchors = context.anchors(RuleSource::Command);
                    Rule::new(rule, behavior, RuleSource::Command, &anchors)
                });
                match added {
                    Ok(rule) => {
                        self.integrations
                            .extensions
                            .state
                            .lock()
                            .rules
                            .push(rule.text());
                        self.permissions
                            .update_context(|context| context.rules.add(rule));
                    }
                    Err(error) => self.events.notice(
                        NoticeLevel::Warning,
                        format!("{}: {key}: {error}", skill.name),
                    ),
                }
            }
        }
    }

    fn add_hooks_of(&self, skill: &Skill) {
        let mut state = self.integrations.extensions.state.lock();
        if state.hooks.iter().any(|(name, _)| *name == skill.name) {
            return;
        }
        let source = HookSource::Skill(skill.name.clone());
        let (handle, problems) =
            self.hooks
                .registry
                .add(&source, skill.folder.as_deref(), &skill.run.hooks);
        state.hooks.push((skill.name.clone(), handle));
        for problem in problems {
            self.events
                .notice(NoticeLevel::Warning, problem.to_string());
        }
    }

    /// The output of a command of a skill. It goes through the pipeline of every call: hooks, rules, a question where
    /// someone can answer. A command that may not run is replaced by the reason.
    async fn command_output(
        self: &Arc<Self>,
        command: &str,
        turn: RecordId,
        cancel: &CancellationToken,
    ) -> String {
        let environment = Arc::new(CallEnvironment {
            registry: self.toolbox.registry.read().clone(),
            tools: self.tools.clone(),
            permissions: self.permissions.clone(),
            hooks: self.hooks.clone(),
            questions: self.questions.clone(),
            events: self.events.clone(),
            turn,
            agent_id: self.hooks.agent.as_ref().map(|(id, _)| id.clone()),
            backgrounds: self.toolbox.backgrounds.clone(),
            undo: self.toolbox.undo.clone(),
            language_servers: self.integrations.language.servers.clone(),
            network: self.toolbox.network.clone(),
            editor: self.integrations.editor.clone(),
        });
        let block = ToolUseBlock {
            id: ToolUseId::from(format!("skill-{}", RecordId::random())),
            name: "Bash".to_owned(),
            input: json!({"command": command, "description": "Command of a skill"}),
            extra: lathe_protocol::Extra::new(),
        };
        let incoming = environment.prepare(&block, None);
        let result = match incoming.stage {
            Stage::Ready(call) => environment.run(block.id, call, cancel.child_token()).await,
            Stage::Refused(result) => *result,
        };
        let text = result.content.text();
        if result.denial.is_some() {
            format!("[`{command}` was not run: {}]", text.trim())
        } else {
            text.trim_end().to_owned()
        }
    }

    /// The turn is over: what skills allowed, hooked into and chose ends with it.
    pub(crate) fn end_skills(&self) {
        let mut state = self.integrations.extensions.state.lock();
        state.model = None;
        state.effort = None;
        state.asked_for = None;
        let rules = std::mem::take(&mut state.rules);
        if !rules.is_empty() {
            self.permissions.update_context(|context| {
                context.rules.retain(|rule| {
                    rule.source != RuleSource::Command || !rules.contains(&rule.text())
                });
            });
        }
        for (_, handle) in std::mem::take(&mut state.hooks) {
            self.hooks.registry.remove(handle);
        }
    }
}

impl Extensions {
    pub(super) fn note_use(&self, name: &str, text: &str) {
        let mut state = self.state.lock();
        state.used.retain(|used| used.name != name);
        state.used.push(Use {
            name: name.to_owned(),
            text: text.to_owned(),
        });
    }

    /// The user asked for a skill that runs in an agent; the model may start it.
    fn ask_for(&self, name: &str) {
        self.state.lock().asked_for = Some(name.to_owned());
    }

    pub(crate) fn is_asked_for(&self, name: &str) -> bool {
        self.state.lock().asked_for.as_deref() == Some(name)
    }

    /// Takes over which skills an earlier run of the session used.
    pub(super) fn replay_use(&self, record: &MessageRecord, hidden: &dyn Fn(&Skill) -> bool) {
        if record.is_compact_boundary() {
            self.state.lock().used.clear();
        }
        let mut uses: Vec<(String, String)> = Vec::new();
        let words = |value: Option<&serde_json::Value>| {
            value
                .and_then(serde_json::Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        if let Some(used) = record.extra.get(USE) {
            uses.push((words(used.get("name")), words(used.get("arguments"))));
        }
        if let Some(RecordMessage::Assistant(message)) = &record.message {
            for call in message.content.iter().filter_map(ContentBlock::as_tool_use) {
                if call.name == super::tool::NAME {
                    uses.push((
                        words(call.input.get("skill")),
                        words(call.input.get("args")),
                    ));
                }
            }
        }
        let skills = self.skills();
        for (name, arguments) in uses {
            if let Some(skill) = skills
                .get(&name)
                .filter(|skill| !skill.run.fork && !hidden(skill))
                && let Ok(body) = skill.body()
            {
                let segments = expand(&body, &skill.values(&arguments, "", ""));
                self.note_use(&name, &lathe_extensions::expand::without_running(&segments));
            }
        }
    }
}

/// The texts of used skills for the conversation after a compaction.
pub(super) fn restored(used: &[Use]) -> Vec<String> {
    let mut left = TOKENS_IN_ALL;
    let mut texts = Vec::new();
    for used in used.iter().rev() {
        let most = TOKENS_PER_SKILL.min(left);
        let tokens = estimate::text(&used.text);
        let text = if tokens <= most {
            used.text.clone()
        } else {
            let characters = usize::try_from(most * 3).unwrap_or(usize::MAX);
            let cut: String = used.text.chars().take(characters).collect();
            format!("{cut}\n[The rest was omitted; use the skill again to see it.]")
        };
        left = left.saturating_sub(tokens.min(most));
        texts.push(format!(
            "The skill {} was used before. Its instructions:\n{text}",
            used.name
        ));
        if left == 0 {
            break;
        }
    }
    texts.reverse();
    texts
}

/// A command that a hook refuses.
#[derive(Debug, thiserror::Error)]
#[error("/{name} was refused by a hook: {reason}")]
pub(crate) struct HookRefused {
    name: String,
    reason: String,
}

/// The user's `/name`, as words for the model: they are put after the prompt. Gives them where the
/// prompt was a command.
///
/// # Errors
/// When a hook refuses them.
pub(crate) async fn expand_command(
    conversation: &mut Conversation,
    command: Option<&Invocation>,
    turn: &RunningTurn,
) -> Result<Option<String>, HookRefused> {
    let Some(Invocation { name, arguments }) = command else {
        return Ok(None);
    };
    let skills = conversation.shared.integrations.extensions.skills();
    match skills.get(name).filter(|skill| skill.user_invocable) {
        Some(skill) => use_for_person(conversation, skill, arguments, turn).await,
        None => Ok(None),
    }
}

/// Where a command comes from, in the words of the ecosystem.
fn command_source(source: &ExtensionSource) -> &'static str {
    match source {
        ExtensionSource::Builtin => "builtin",
        ExtensionSource::Plugin(_) => "plugin",
        ExtensionSource::Mcp(_) => "mcp",
        ExtensionSource::User => "userSettings",
        ExtensionSource::Project => "projectSettings",
        ExtensionSource::Flag => "flagSettings",
        ExtensionSource::Managed => "policySettings",
    }
}

async fn use_for_person(
    conversation: &mut Conversation,
    skill: &Skill,
    arguments: &str,
    turn: &RunningTurn,
) -> Result<Option<String>, HookRefused> {
    let name = &skill.name;
    if skill.run.fork
        && conversation
            .shared
            .toolbox
            .registry
            .read()
            .find(super::tool::NAME)
            .is_some()
    {
        conversation.shared.integrations.extensions.ask_for(name);
        let text = format!(
            "The user asks for the skill {name}, which runs in its own agent. Call the Skill tool with skill {name:?} and args {arguments:?}, and then report the result."
        );
        let record = conversation.records.meta(conversation.tip, reminder(&text));
        conversation.append(record);
        return Ok(Some(arguments.to_owned()));
    }
    let used = conversation
        .shared
        .skill_text(skill, arguments, Invoker::Person, turn.prompt, &turn.cancel)
        .await;
    match used {
        Ok(words) => {
            let verdict = conversation
                .shared
                .hooks
                .user_prompt_expansion(
                    name,
                    arguments,
                    command_source(&skill.source),
                    &words,
                    &turn.cancel,
                )
                .await;
            if let Some(reason) = verdict.block.or(verdict.stop) {
                return Err(HookRefused {
                    name: name.clone(),
                    reason,
                });
            }
            let text = format!("The user ran /{name}. Its instructions:\n\n{words}");
            let mut record = conversation.records.meta(conversation.tip, text);
            record
                .extra
                .insert(USE.into(), json!({"name": name, "arguments": arguments}));
            conversation.append(record);
            if !verdict.additional_context.is_empty() {
                let text = reminder(&verdict.additional_context.join("\n\n"));
                let record = conversation.records.meta(conversation.tip, text);
                conversation.append(record);
            }
            Ok(Some(words))
        }
        Err(error) => {
            conversation
                .shared
                .events
                .notice(NoticeLevel::Warning, format!("/{name}: {error}"));
            Ok(None)
        }
    }
}

/// Takes over what was chosen since the last request: a model, the model of a skill in use, an output style.
pub(crate) fn follow_choices(conversation: &mut Conversation) {
    frozen::take_chosen_model(conversation);
    if let (Some(model), _) = conversation.shared.integrations.extensions.choices()
        && conversation.model != model
    {
        conversation.model.clone_from(&model);
        conversation.history.set_model(&model);
        conversation
            .context
            .prefix
            .expect("a skill chose another model");
    }
    if conversation.shared.hooks.agent.is_none()
        && let Some(style) = conversation.shared.integrations.extensions.changed_style()
    {
        conversation.fixed.prompt.style = style.prompt;
        conversation.fixed.prompt.style_alone = !style.keep_coding_instructions;
        conversation.fixed.system = conversation.fixed.prompt.encode();
        conversation
            .context
            .prefix
            .expect("another output style was chosen");
    }
}

impl ConversationShared {
    /// Files of agents, skills, commands or output styles changed.
    pub(crate) fn extensions_changed(&self) {
        let before = self.integrations.extensions.problems();
        self.integrations.extensions.reload(&self.session.agents);
        for problem in self.integrations.extensions.problems() {
            if !before.contains(&problem) {
                let news = News::new(Priority::High);
                self.events
                    .news(news, NoticeLevel::Warning, problem.to_string());
            }
        }
        self.events.send(Event::CommandsChanged);
    }
}
