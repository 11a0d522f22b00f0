//! The parts that a session is put together from: its files, what it may do, its tools. [`crate::open`]
//! says in which order.

use crate::conversation::hook_moment::DEFAULT_EFFORT;
use crate::conversation::undo::Undo;
use crate::open::options::{OpenError, SessionChoice, SessionOptions};
use crate::open::web::WebTools;
use crate::session::events::EventSink;
use lathe_permissions::settings::SettingsStore;
use lathe_permissions::{ModeGates, Permissions, PermissionsConfig, Rule, RuleError};
use lathe_protocol::diagnostic::Diagnostic;
use lathe_protocol::event::NoticeLevel;
use lathe_protocol::ids::SessionId;
use lathe_protocol::permission::{Behavior, PermissionMode, RuleSource};
use lathe_session::{Loaded, SessionPaths, SessionStore, TranscriptWriter, WriterOptions};
use lathe_settings::{Environment, Places, Resolved, Trust, Variable};
use lathe_tools::{ToolContext, ToolRegistry};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A session's files.
pub(crate) struct Transcript {
    pub(crate) session_id: SessionId,
    pub(crate) paths: SessionPaths,
    pub(crate) writer: TranscriptWriter,
    pub(crate) history: Option<Loaded>,
}

/// How transcripts of the session are written.
pub(crate) fn writer_options(options: &SessionOptions, events: &EventSink) -> WriterOptions {
    let events = events.clone();
    WriterOptions {
        on_problem: Some(Arc::new(move |problem| {
            events.notice(NoticeLevel::Warning, problem.to_string());
        })),
        observer: options
            .history
            .observer
            .as_ref()
            .map(|observer| observer.0.clone()),
        ..WriterOptions::default()
    }
}

pub(crate) fn transcript(
    places: &Places,
    options: &SessionOptions,
    events: &EventSink,
) -> Result<Transcript, OpenError> {
    let store = SessionStore::new(&places.config_home);
    let cwd = &places.environment.cwd;
    let found = match &options.history.session {
        SessionChoice::New => None,
        SessionChoice::Continue => store.newest(cwd),
        SessionChoice::Resume(wanted) => Some(store.resolve(wanted, cwd)?),
    };
    let resuming = found.is_some();
    if options.history.session_id.is_some() && resuming && !options.history.fork {
        return Err(OpenError::Usage(
            "--session-id names a new session; together with --continue or --resume it needs --fork-session".to_owned(),
        ));
    }
    let writer_options = writer_options(options, events);
    let Some(found) = found else {
        let session_id = options.history.session_id.unwrap_or_else(SessionId::random);
        let paths = SessionPaths::new(&places.config_home, cwd, session_id);
        let writer = if options.history.persist {
            TranscriptWriter::create(&paths.transcript(), writer_options)?
        } else {
            TranscriptWriter::disabled(&paths.transcript())
        };
        return Ok(Transcript {
            session_id,
            paths,
            writer,
            history: None,
        });
    };
    if let (Some(at), Some(turn)) = (options.history.resume_at, options.history.resume_drops_turn) {
        lathe_session::load(&found.path)?.check_dropped_turn(at, turn)?;
    }
    let (session_id, path) = if options.history.fork {
        let id = options.history.session_id.unwrap_or_else(SessionId::random);
        let target = SessionPaths::new(&places.config_home, cwd, id);
        lathe_session::fork::fork(&found.path, &target, id, options.history.resume_at)?;
        (id, target.transcript())
    } else if let Some(to) = found.moved {
        let id = found.id.to_string();
        return Err(lathe_session::SessionError::Moved { id, to }.into());
    } else {
        (found.id, found.path.clone())
    };
    let paths = SessionPaths::of_transcript(&path);
    let writer = if options.history.persist {
        TranscriptWriter::open_append(&path, writer_options)?
    } else {
        TranscriptWriter::disabled(&path)
    };
    let history = match options.history.resume_at {
        // The record may lie before a compaction.
        Some(record) if !options.history.fork => lathe_session::load_to(&path, record)?,
        _ => lathe_session::load_tail(&path)?,
    };
    Ok(Transcript {
        session_id,
        paths,
        writer,
        history: Some(history),
    })
}

pub(crate) fn permissions(
    places: &Places,
    settings: &Resolved,
    trust: &Trust,
    options: &SessionOptions,
    paths: &SessionPaths,
    store: SettingsStore,
    remarks: &mut Vec<Diagnostic>,
) -> Result<Permissions, OpenError> {
    let environment = &places.environment;
    let trusted = trust.covers_folder();
    let (mut context, problems) =
        lathe_permissions::settings::context_of(places, settings, trusted);
    remarks.extend(problems.into_iter().map(Diagnostic::error));
    if settings.settings.include_git_instructions == Some(false) {
        context.tells_git_status = false;
    }
    context.files.readable_paths.push(paths.tool_results());
    if settings.settings.auto_memory != Some(false) {
        // The model keeps its memory with its ordinary tools; nothing else there is its own.
        let homes = [
            places.config_home.clone(),
            std::fs::canonicalize(&places.config_home)
                .unwrap_or_else(|_| places.config_home.clone()),
        ];
        for home in homes {
            let memory = lathe_memory::AutoMemory::of(&home, &places.project);
            context.files.session_paths.push(memory.folder().to_owned());
        }
    }
    for (list, behavior, flag) in [
        (
            &options.permissions.allow,
            Behavior::Allow,
            "--allowedTools",
        ),
        (
            &options.permissions.deny,
            Behavior::Deny,
            "--disallowedTools",
        ),
    ] {
        for text in list {
            for rule in lathe_permissions::parse_rule_list(text) {
                let rule =
                    rule.map_err(|error: RuleError| OpenError::Usage(format!("{flag}: {error}")))?;
                let anchors = context.anchors(RuleSource::CliArg);
                let rule = Rule::new(rule, behavior, RuleSource::CliArg, &anchors)
                    .map_err(|error| OpenError::Usage(format!("{flag}: {error}")))?;
                context.rules.add(rule);
            }
        }
    }
    for folder in &options.permissions.folders {
        let folder = environment.resolve(&folder.to_string_lossy());
        if !folder.is_dir() {
            return Err(OpenError::Usage(format!(
                "--add-dir: {} is not a folder",
                folder.display()
            )));
        }
        context
            .roots
            .push(std::fs::canonicalize(&folder).unwrap_or(folder));
    }
    if let Some(mode) = options.permissions.mode {
        context.mode = mode;
    }
    context.bypass_available =
        options.permissions.allow_bypass || context.mode == PermissionMode::BypassPermissions;
    let mut gates = ModeGates::of(environment);
    gates.take_from(settings);
    Ok(Permissions::new(PermissionsConfig {
        context,
        gates,
        store: Some(Box::new(store)),
    })?)
}

/// The variables that shell commands get.
pub(crate) fn command_variables(
    environment: &Environment,
    session: SessionId,
    effort: Option<&str>,
) -> BTreeMap<String, String> {
    let mut variables = environment.variables.clone();
    for name in Variable::SessionId.declaration().names() {
        variables.insert(name.to_owned(), session.to_string());
    }
    let effort = effort.unwrap_or(DEFAULT_EFFORT).to_owned();
    variables.insert(Variable::EffortOfSession.name().to_owned(), effort);
    variables
}

pub(crate) fn tool_context(
    places: &Places,
    environment: &Environment,
    permissions: &Arc<Permissions>,
    opened: &Transcript,
    effort: Option<&str>,
) -> ToolContext {
    let cwd = places.environment.cwd.clone();
    let home = environment.home.clone().unwrap_or_else(|| cwd.clone());
    let roots = permissions.snapshot().roots.clone();
    let secrets = {
        let permissions = permissions.clone();
        move |path: &Path| permissions.is_secret(path)
    };
    let variables = command_variables(environment, opened.session_id, effort);
    ToolContext::new(
        opened.session_id,
        home,
        cwd,
        roots,
        opened.paths.tool_results(),
        Arc::new(secrets),
        variables,
    )
}

/// Undo for the session; without it, there is a remark.
pub(crate) fn undo(
    opened: &Transcript,
    permissions: &Arc<Permissions>,
    events: &EventSink,
    remarks: &mut Vec<Diagnostic>,
) -> Option<Arc<Undo>> {
    let guard = crate::conversation::undo::write_guard({
        let permissions = permissions.clone();
        move || permissions.snapshot()
    });
    match lathe_session::checkpoint::FileHistory::new(opened.writer.clone(), guard) {
        Ok(history) => Some(Arc::new(Undo {
            history: Arc::new(history),
            runtime: tokio::runtime::Handle::current(),
            events: events.clone(),
            excluded: vec![opened.paths.project_folder().to_owned()],
        })),
        Err(error) => {
            remarks.push(Diagnostic::warning(format!(
                "changes to files can't be undone in this session: {error}"
            )));
            None
        }
    }
}

/// The fields of a request beside the conversation.
pub(crate) fn output_config(
    options: &SessionOptions,
) -> serde_json::Map<String, serde_json::Value> {
    let mut config = serde_json::Map::new();
    if let Some(tokens) = options.model.task_budget {
        config.insert(
            "task_budget".to_owned(),
            serde_json::json!({"type": "tokens", "total": tokens}),
        );
    }
    let mut extra = serde_json::Map::new();
    if !config.is_empty() {
        extra.insert("output_config".to_owned(), config.into());
    }
    extra
}

pub(crate) fn offered(
    options: &SessionOptions,
    agents: &lathe_extensions::AgentCatalog,
    environment: &Environment,
    language: &mut crate::conversation::language::Language,
    web: WebTools,
    model: &str,
) -> Result<ToolRegistry, OpenError> {
    let mut registry = lathe_tools::registry::builtin();
    registry.add(web.fetch);
    if let Some(search) = web.search {
        registry.add(search);
    }
    language.offer(&mut registry, options.tools.only.as_deref());
    crate::skills::tool::offer(&mut registry);
    for tool in options.tools.custom.iter() {
        registry.add_dyn(tool.clone());
    }
    crate::open::agents::add_tools(&mut registry, agents, options, environment, model);
    if let Some(names) = &options.tools.only {
        for name in names {
            // There may be no language servers here; a list that names the tool is valid all the same.
            let of_servers = [lathe_tools::lsp::NAME, lathe_tools::lsp_edit::NAME];
            if registry.find(name).is_none() && !of_servers.contains(&name.as_str()) {
                let known: Vec<&str> = registry.names().collect();
                return Err(OpenError::Usage(format!(
                    "--tools: there is no tool {name}; tools: {}",
                    known.join(", ")
                )));
            }
        }
        registry.retain(|tool| {
            names
                .iter()
                .any(|name| name == tool.name() || tool.aliases().contains(name))
        });
    }
    Ok(registry)
}
