//! The agents' part of opening a session: which agents there are, the tools that need a session, and the
//! agent that the main conversation runs as.

use crate::agents::{self, Agents, Host, Seed, ToolFilter};
use crate::context::git::Git;
use crate::context::prompt::PromptParts;
use crate::conversation::records::reminder;
use crate::conversation::{Conversation, ConversationShared, Fixed};
use crate::open::options::{OpenError, SessionOptions};
use crate::worktree;
use lathe_extensions::{AgentCatalog, AgentDefinition, AgentMcpServer, ExtensionSource};
use lathe_hooks::{HookRegistry, HookSource};
use lathe_permissions::Permissions;
use lathe_protocol::diagnostic::Diagnostic;
use lathe_protocol::permission::PermissionMode;
use lathe_session::paths::file_stem_of;
use lathe_session::{SessionPaths, WriterOptions};
use lathe_settings::{Environment, Places, Variable};
use lathe_tools::ToolRegistry;
use lathe_tools::agent::Agent;
use lathe_tools::ask_user_question::AskUserQuestion;
use lathe_tools::config::Config;
use lathe_tools::cron::{CronCreate, CronDelete, CronList};
use lathe_tools::list_agents::ListAgents;
use lathe_tools::monitor::Monitor;
use lathe_tools::plan_mode::{EnterPlanMode, ExitPlanMode};
use lathe_tools::report_findings::ReportFindings;
use lathe_tools::send_message::SendMessage;
use lathe_tools::task_list::{TaskCreate, TaskGet, TaskList, TaskUpdate};
use lathe_tools::task_store::TaskStore;
use lathe_tools::team_create::TeamCreate;
use lathe_tools::team_delete::TeamDelete;
use lathe_tools::wakeup::ScheduleWakeup;
use lathe_tools::workflow::Workflow;
use lathe_tools::worktree::{EnterWorktree, ExitWorktree};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long the end of a session that nobody watches waits for its background agents.
const USUAL_PATIENCE: Duration = Duration::from_secs(600);

/// The agent that the main conversation runs as. Its model, mode and effort are used where
/// the caller said nothing.
///
/// # Errors
/// When there is no such agent.
pub(crate) fn main_agent(
    catalog: &AgentCatalog,
    options: &mut SessionOptions,
) -> Result<Option<AgentDefinition>, OpenError> {
    let Some(name) = &options.extensions.agent else {
        return Ok(None);
    };
    let Some(definition) = catalog.get(name) else {
        let known: Vec<&str> = catalog.iter().map(|agent| agent.name.as_str()).collect();
        return Err(OpenError::Usage(format!(
            "--agent: there is no agent {name}; agents: {}",
            known.join(", ")
        )));
    };
    if options.model.name.is_none() {
        options.model.name.clone_from(&definition.model);
    }
    // bypassPermissions takes a flag of its own: the agent may be one that the folder's settings chose.
    if options.permissions.mode.is_none() {
        options.permissions.mode = definition
            .permission_mode
            .filter(|mode| *mode != PermissionMode::BypassPermissions);
    }
    if options.limits.max_turns.is_none() {
        options.limits.max_turns = definition.run.max_turns;
    }
    if options.model.effort.is_none() {
        options.model.effort = definition
            .run
            .effort
            .and_then(|effort| serde_json::to_value(effort).ok())
            .and_then(|effort| effort.as_str().map(str::to_owned));
    }
    add_servers(definition, options);
    Ok(Some(definition.clone()))
}

/// The servers that the main conversation's agent brings are the session's. What the command line declares
/// counts more, and alone where it says so.
fn add_servers(definition: &AgentDefinition, options: &mut SessionOptions) {
    if options.mcp.strict && definition.source != ExtensionSource::Flag {
        return;
    }
    for server in &definition.mcp_servers {
        if let AgentMcpServer::Inline(servers) = server {
            let document = serde_json::json!({"mcpServers": servers});
            options.mcp.configs.insert(0, document.to_string());
        }
    }
}

/// The system prompt of a main conversation that runs as an agent.
pub(crate) fn main_prompt(parts: PromptParts, definition: &AgentDefinition) -> PromptParts {
    if parts.replacement.is_some() {
        // The caller's own prompt takes precedence.
        return parts;
    }
    let mut around = parts.clone();
    if definition.run.omit_instructions {
        around.instructions = String::new();
    }
    let mut appended = around.varying();
    if let Some(more) = &parts.appended {
        appended.push_str("\n\n");
        appended.push_str(more);
    }
    PromptParts {
        replacement: Some(definition.prompt.clone()),
        appended: Some(appended),
        varying_apart: false,
        ..around
    }
}

/// The hooks of the main conversation's agent.
pub(crate) fn main_hooks(
    registry: &HookRegistry,
    definition: &AgentDefinition,
    remarks: &mut Vec<Diagnostic>,
) {
    if !definition.hooks.is_empty() {
        let root = definition.path.as_ref().and_then(|path| path.parent());
        let (_, problems) = registry.add(&HookSource::Session, root, &definition.hooks);
        remarks.extend(problems);
    }
}

/// Adds the tools that need a session. Of the two task lists one is offered; a list of tools by name may ask for
/// either.
pub(crate) fn add_tools(
    registry: &mut ToolRegistry,
    catalog: &AgentCatalog,
    options: &SessionOptions,
    environment: &Environment,
    model: &str,
) {
    registry.add(agent_tool(catalog, None, true));
    registry.add(SendMessage);
    registry.add(ListAgents);
    registry.add(TeamCreate);
    registry.add(TeamDelete);
    let html = environment.get(Variable::QuestionPreviewFormat) == Some("html");
    registry.add(AskUserQuestion::new(html));
    registry.add(EnterPlanMode);
    registry.add(ExitPlanMode);
    registry.add(Monitor);
    registry.add(Workflow);
    registry.add(Config);
    registry.add(CronCreate);
    registry.add(CronList);
    registry.add(CronDelete);
    registry.add(ScheduleWakeup);
    registry.add(ReportFindings::default());
    registry.add(EnterWorktree);
    registry.add(ExitWorktree);
    registry.add(TaskCreate);
    registry.add(TaskGet);
    registry.add(TaskUpdate);
    registry.add(TaskList);
    if options.tools.only.is_none() {
        super::task_tools::offer_one(registry, environment, model);
    }
}

/// The Agent tool with the agents that may be started.
pub(crate) fn agent_tool(
    catalog: &AgentCatalog,
    types: Option<&[String]>,
    with_fork: bool,
) -> Agent {
    let list = agents::listed(catalog, types, with_fork);
    Agent::new(
        list.iter()
            .map(|(name, purpose)| (name.as_str(), purpose.as_str())),
    )
}

/// Describes the agents anew where the prefix is new anyway.
pub(crate) fn describe_agents(conversation: &mut Conversation) {
    let mut registry = conversation.shared.toolbox.registry.write();
    if conversation.shared.role.place().is_some()
        || registry.find(lathe_tools::agent::NAME).is_none()
    {
        return;
    }
    let with_fork = !conversation.shared.coordinates();
    let catalog = conversation.shared.session.agents.described();
    let tool = agent_tool(&catalog, None, with_fork);
    registry.retain(|tool| tool.name() != lathe_tools::agent::NAME);
    registry.add(tool);
}

/// The task list's file: the session's own, or one that several sessions share by its name.
pub(crate) fn task_store(
    places: &Places,
    environment: &Environment,
    paths: &SessionPaths,
    persist: bool,
) -> Arc<TaskStore> {
    let shared = environment.get(Variable::TaskListId).map(|name| {
        let name = file_stem_of(name, 80);
        places
            .config_home
            .join("tasks")
            .join(format!("{name}.json"))
    });
    let file: Option<PathBuf> =
        shared.or_else(|| persist.then(|| paths.session_folder().join("tasks.json")));
    Arc::new(TaskStore::new(file))
}

/// The session's agents.
pub(crate) fn agents(
    catalog: Arc<AgentCatalog>,
    paths: SessionPaths,
    writer: Option<WriterOptions>,
    environment: &Environment,
    options: &SessionOptions,
) -> Arc<Agents> {
    let mut agents = Agents::new(catalog, paths, writer);
    agents.elsewhere.clone_from(&options.elsewhere);
    if !options.interactive {
        let ceiling = environment
            .get(Variable::PrintBackgroundWait)
            .and_then(|text| text.trim().parse().ok())
            .map_or(USUAL_PATIENCE, Duration::from_millis);
        agents.wait_at_end(ceiling);
    }
    Arc::new(agents)
}

/// The configuration that agents of the main conversation start with.
pub(crate) fn seed(fixed: &Fixed, parts: &PromptParts, git_branch: Option<&str>) -> Arc<Seed> {
    Arc::new(Seed {
        prompt: parts.clone(),
        limits: fixed.limits,
        policy: fixed.policy.clone(),
        betas: fixed.betas.clone(),
        max_output_tokens: fixed.max_output_tokens,
        extra: fixed.extra.clone(),
        cache: fixed.cache,
        git_branch: git_branch.unwrap_or_default().to_owned(),
    })
}

/// Narrows the permissions to those of the main conversation's agent.
pub(crate) fn narrow_main(permissions: &Permissions, definition: &AgentDefinition) {
    let filter = ToolFilter::of(definition);
    permissions
        .update_context(|context| agents::narrow(context, &filter, definition.read_only, None));
}

/// The beginning of a new conversation that runs as an agent: the skills that the agent knows, and its
/// first words.
pub(crate) fn brief_main(conversation: &mut Conversation, definition: &AgentDefinition) {
    let skills = agents::preloaded(&conversation.shared, definition);
    if !skills.is_empty() {
        let record = conversation
            .records
            .meta(conversation.tip, reminder(&skills.join("\n\n")));
        conversation.append(record);
    }
    if let Some(text) = definition.run.initial_prompt.clone() {
        let record = conversation.records.meta(conversation.tip, text);
        conversation.append(record);
    }
}

/// Lets the session's tools find it, and takes its agents up where it continues.
pub(crate) async fn connect(
    conversation: &mut Conversation,
    shared: &Arc<ConversationShared>,
    resumed: bool,
) -> Vec<Diagnostic> {
    shared.tools.set_host(Arc::new(Host::new(shared)));
    let folder = shared.tools.working_folder.read().clone();
    let trusted = Git::new(&shared.permissions.snapshot(), &folder);
    if let Ok(git) = &trusted {
        let (git, settings) = (git.clone(), worktree::settings_of(shared));
        lathe_spawn::task(async move {
            for path in worktree::sweep(&git, &settings, worktree::PATIENCE).await {
                tracing::info!(path = %path.display(), "removing a stale worktree");
            }
        });
    }
    if !resumed {
        return Vec::new();
    }
    let messages = conversation.request_messages();
    let was_told = |id: &lathe_protocol::ids::AgentId| {
        let tag = format!("<task-id>{id}</task-id>");
        messages
            .iter()
            .any(|message| memchr::memmem::find(&message.bytes, tag.as_bytes()).is_some())
    };
    let (told, interrupted) = shared
        .session
        .agents
        .restore(
            &shared.tools.results_folder,
            trusted.ok().as_ref(),
            was_told,
        )
        .await;
    conversation.context.since_interruption = told;
    let interrupted = (interrupted > 0).then(|| {
        Diagnostic::note(format!(
            "{interrupted} agent(s) of this session were interrupted when it ended; SendMessage resumes one"
        ))
    });
    let team = agents::team::attach(shared).await;
    interrupted.into_iter().chain(team).collect()
}
