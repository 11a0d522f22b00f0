//! The tool by which the model uses a skill.

use super::prompts::is_prompt;
use super::using::Invoker;
use crate::conversation::ConversationShared;
use lathe_extensions::{ExtensionSource, Skill};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use lathe_tools::host::{AgentOrder, AgentReport, AgentStatus};
use lathe_tools::{
    CallContext, CallTraits, Tool, ToolContext, ToolError, ToolOutput, ToolRegistry,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::{Arc, Weak};

/// The tool's name.
pub(crate) const NAME: &str = "Skill";

/// Uses a skill.
pub(crate) struct SkillTool {
    shared: Weak<ConversationShared>,
}

/// Adds the tool to a list. It does nothing until [`bind`] gives it its conversation.
pub(crate) fn offer(registry: &mut ToolRegistry) {
    registry.add(SkillTool {
        shared: Weak::new(),
    });
}

/// Gives the tool of a conversation, where it has one, that conversation.
pub(crate) fn bind(shared: &Arc<ConversationShared>) {
    let mut registry = shared.toolbox.registry.write();
    if registry.find(NAME).is_none() {
        return;
    }
    let tool = SkillTool {
        shared: Arc::downgrade(shared),
    };
    registry.retain(|tool| tool.name() != NAME);
    registry.add(tool);
}

/// Which skill, and what for.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Input {
    /// The skill's name, as it was listed.
    skill: String,
    /// The arguments, as they would be typed after `/name`.
    #[serde(default)]
    args: Option<String>,
}

impl SkillTool {
    fn shared(&self) -> Result<Arc<ConversationShared>, ToolError> {
        self.shared
            .upgrade()
            .ok_or_else(|| ToolError::failed("There are no skills in this conversation."))
    }

    /// The skill, if the model may use it. Files go before prompts of servers.
    fn find(shared: &ConversationShared, name: &str) -> Result<Skill, ToolError> {
        let skills = shared.integrations.extensions.skills();
        let name = plain(name);
        let Some(skill) = skills.get(name) else {
            if let Some((_, skill)) = shared.prompt_skill(name) {
                return Ok(skill);
            }
            if let Some(why) = shared.missing_prompt(name) {
                return Err(ToolError::invalid(why));
            }
            let prompts = shared.prompt_skills();
            let usable: Vec<&str> = skills
                .iter()
                .chain(&prompts)
                .filter(|skill| skill.model_invocable)
                .map(|skill| skill.name.as_str())
                .collect();
            let near = lathe_settings::nearest::nearest(name, usable.iter().copied());
            return Err(ToolError::invalid(match near {
                Some(near) => format!("There is no skill {name}. Did you mean {near}?"),
                None if usable.len() <= 30 => {
                    format!("There is no skill {name}. Skills: {}.", usable.join(", "))
                }
                None => format!("There is no skill {name}."),
            }));
        };
        if !skill.model_invocable && !shared.integrations.extensions.is_asked_for(&skill.name) {
            return Err(ToolError::invalid(format!(
                "Only the user can run the skill {name}, as /{name}. Suggest it if it would help."
            )));
        }
        Ok(skill.clone())
    }
}

/// A name without what people write around it.
fn plain(name: &str) -> &str {
    name.trim().trim_start_matches('/')
}

impl Tool for SkillTool {
    type Input = Input;

    fn name(&self) -> &'static str {
        NAME
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["SlashCommand"]
    }

    fn description(&self) -> &'static str {
        include_str!("../../prompts/skill.md").trim_ascii_end()
    }

    fn field_aliases(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("name", "skill"),
            ("command", "skill"),
            ("arguments", "args"),
        ]
    }

    fn traits(&self, _: &Input) -> CallTraits {
        CallTraits {
            concurrency_safe: false,
            ..CallTraits::READS
        }
    }

    fn subject(&self, input: &Input, _: &ToolContext) -> Subject {
        let found = self
            .shared()
            .and_then(|shared| Ok((Self::find(&shared, &input.skill)?, shared)));
        let (name, harmless) = match found {
            // Words alone are harmless; what allows or hooks into something is the user's decision,
            // unless the user asked for it a moment ago.
            Ok((skill, shared)) if is_prompt(&skill) => {
                let arguments = input.args.as_deref().unwrap_or_default();
                let harmless = shared.may_use_prompt(&skill.name, arguments);
                (skill.name, harmless)
            }
            Ok((skill, shared)) => (
                skill.name.clone(),
                skill.source == ExtensionSource::Builtin
                    || shared.integrations.extensions.is_asked_for(&skill.name)
                    || (skill.run.allowed_tools.is_empty() && skill.run.hooks.is_empty()),
            ),
            Err(_) => (input.skill.clone(), false),
        };
        Subject::Named { name, harmless }
    }

    fn activity(&self, input: &Input) -> String {
        format!("Using the skill {}", input.skill)
    }

    async fn validate(&self, input: &Input, _: &ToolContext) -> Result<(), ToolError> {
        let shared = self.shared()?;
        shared.await_prompt(plain(&input.skill)).await;
        let skill = Self::find(&shared, &input.skill)?;
        let arguments = input.args.as_deref().unwrap_or_default();
        match shared.prompt_skill(&skill.name) {
            Some((prompt, _)) if is_prompt(&skill) => prompt
                .check(arguments)
                .map_err(|missing| ToolError::invalid(missing.for_model())),
            _ => Ok(()),
        }
    }

    fn result_limit(&self) -> Option<usize> {
        None
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let shared = self.shared()?;
        let skill = Self::find(&shared, &input.skill)?;
        let arguments = input.args.unwrap_or_default();
        if is_prompt(&skill) {
            return from_server(&shared, &skill, &arguments, &context).await;
        }
        let text = shared
            .skill_text(
                &skill,
                &arguments,
                Invoker::Model,
                context.turn,
                &context.cancel,
            )
            .await
            .map_err(|problem| ToolError::failed(problem.to_string()))?;
        if skill.run.fork {
            return in_agent(&skill, text, context).await;
        }
        let structured = json!({"success": true, "commandName": skill.name});
        let display = Display::Text {
            text: format!("The skill {} is in use.", skill.name),
        };
        Ok(ToolOutput::new(text, structured, display))
    }
}

/// Gives what a server's prompt says.
async fn from_server(
    shared: &ConversationShared,
    skill: &Skill,
    arguments: &str,
    context: &CallContext,
) -> Result<ToolOutput, ToolError> {
    let name = &skill.name;
    let Some((prompt, _)) = shared.prompt_skill(name) else {
        let why = shared.missing_prompt(name).unwrap_or_default();
        return Err(ToolError::failed(why));
    };
    let blocks = shared
        .prompt_text(&prompt, arguments, &context.cancel)
        .await
        .map_err(|error| ToolError::failed(error.to_string()))?;
    let structured = json!({"success": true, "commandName": name});
    let display = Display::Text {
        text: format!(
            "The skill {name} of the MCP server {} is in use.",
            prompt.server
        ),
    };
    Ok(ToolOutput::blocks(blocks, structured, display))
}

/// Runs a skill in an agent of its own and gives what it said.
async fn in_agent(
    skill: &Skill,
    text: String,
    context: CallContext,
) -> Result<ToolOutput, ToolError> {
    let host = context.session.needs_host(NAME)?;
    let order = AgentOrder {
        description: format!("Skill {}", skill.name),
        prompt: text,
        agent_type: skill.run.agent.clone(),
        model: skill.run.model.clone(),
        effort: skill.run.effort.map(|effort| effort.name().to_owned()),
        background: Some(skill.run.background),
        ..AgentOrder::default()
    };
    match host.run_agent(order, context).await? {
        AgentReport::Finished(task) => {
            let display = Display::Text {
                text: task.result.clone(),
            };
            let structured = json!({
                "success": task.status == AgentStatus::Completed, "commandName": skill.name,
                "status": "forked", "agentId": task.id, "result": task.result,
            });
            let mut output = ToolOutput::new(
                format!(
                    "The skill {} ran in an agent. Its report:\n{}",
                    skill.name, task.result
                ),
                structured,
                display,
            );
            output.is_error = task.status != AgentStatus::Completed;
            Ok(output)
        }
        AgentReport::Started(task) => Ok(ToolOutput::new(
            format!(
                "The skill {} continues in the background as {}; you get a notification when it ends.",
                skill.name,
                task.id.as_str()
            ),
            json!({"success": true, "commandName": skill.name, "status": "background", "agentId": task.id}),
            Display::None,
        )),
    }
}
