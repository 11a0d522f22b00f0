//! The host's requests about a session, and their answers.

use super::initialize::{agents, commands, models, skills};
use super::policies::Policies;
use super::{files, listing, window};
use base64::Engine as _;
use lathe_engine::{SessionHandle, SwitchSource};
use lathe_protocol::control::{
    ControlRequest, FileEncoding, ReloadPlugins, SettingsFile, ThinkingDisplay,
};
use lathe_protocol::ids::{RecordId, TaskId, ToolUseId};
use lathe_protocol::permission::PermissionMode;
use lathe_session::checkpoint::RewindMode;
use lathe_settings::Source;
use lathe_settings::key::KeyPath;
use lathe_settings::patch::Edit;
use serde_json::{Map, Value, json};
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How much of a file `read_file` gives unless told otherwise.
const READ_LIMIT: u64 = 512 * 1024;
/// How much of a background command's output `get_task_output` gives.
const OUTPUT_LIMIT: u64 = 8 * 1024;

/// Answers the host's requests about a session.
#[derive(Clone)]
pub struct Requests {
    /// The session.
    pub session: Arc<SessionHandle>,
    /// Whether `rewind_files` may be used.
    pub checkpointing: bool,
    /// Policies of the host for the tools of its servers.
    pub(super) policies: Policies,
}

/// A request that failed. The host gets the text.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// `rewind_files` without checkpoints.
    #[error("File rewinding is not enabled.")]
    NoCheckpoints,
    /// `set_model` with a model that settings or hooks don't allow.
    #[error(transparent)]
    Model(#[from] lathe_engine::SwitchError),
    /// `mcp_call` with a check that isn't made here.
    #[error("The tool did not run: calls of a host are not checked here")]
    UncheckedCall,
    /// `seed_read_state` with a time that is none.
    #[error("seed_read_state: `mtime` is no number of milliseconds since 1970")]
    NoTime,
    /// `set_max_thinking_tokens` with a display that isn't known.
    #[error(
        "set_max_thinking_tokens: `thinking_display` can't be {0}; it can be summarized or omitted"
    )]
    ThinkingDisplay(Value),
    /// `reload_plugins` with a folder that isn't absolute.
    #[error("reload_plugins: each of `add_plugins` needs an absolute `path`")]
    RelativePlugin,
    /// A file that the permission rules don't let the model read.
    #[error("{} is not read without confirmation", path.display())]
    NotAllowed {
        /// The file.
        path: PathBuf,
    },
    /// A file that can't be read.
    #[error("{} can't be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A folder that can't be used.
    #[error("{} can't be used: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A request that is about the connection and not about a session.
    #[error("not supported in a session")]
    NotOfSession,
    /// An error that the session reports, as text.
    #[error("{0}")]
    Session(String),
}

/// An error of the session, for the host.
fn failed(error: impl Display) -> RequestError {
    RequestError::Session(error.to_string())
}

impl Requests {
    /// Answers a request: one arm for each.
    ///
    /// # Errors
    /// When it can't be done; the text says why.
    pub async fn answer(&self, request: ControlRequest) -> Result<Value, RequestError> {
        use ControlRequest as C;
        let session = &*self.session;
        Ok(match request {
            C::Initialize(_) | C::Unknown => return Err(RequestError::NotOfSession),
            // The face adds the prompts that it holds itself, and interrupts.
            C::Interrupt { .. } => json!({"still_queued": session.history().queued()}),
            C::SetPermissionMode { mode } => self.set_permission_mode(mode)?,
            C::SetMcpPermissionModeOverride { server_name, mode } => {
                self.policies.override_mode(session, &server_name, mode)
            }
            C::SetModel { model } => {
                let model = model.filter(|model| model != "default");
                let switching = session.model().switch(model.as_deref(), SwitchSource::Sdk);
                json!({"model": switching.await?})
            }
            C::SetMaxThinkingTokens {
                max_thinking_tokens,
                thinking_display,
            } => set_thinking(session, max_thinking_tokens, thinking_display)?,
            C::GetContextUsage => window::usage(session),
            C::GetSettings => settings(session),
            C::ListModels => json!({"models": models(session)}),
            C::GetBinaryVersion => json!({"version": env!("CARGO_PKG_VERSION"), "buildTime": null}),
            C::RenameSession { title } => {
                session.history().rename(&title);
                json!({})
            }
            C::CancelAsyncMessage { message_uuid } => {
                json!({"cancelled": session.history().cancel_queued(message_uuid)})
            }
            C::BackgroundTasks { tool_use_id } => to_background(session, tool_use_id.as_ref()),
            C::ApplyFlagSettings { settings } => {
                session.settings().change_flags(&settings).map_err(failed)?;
                json!({})
            }
            C::UpdateSettings { source, settings } => update_settings(session, source, &settings)?,
            C::ReloadSkills => {
                session.extensions().reload(None);
                json!({"skills": skills(session)})
            }
            C::ReloadPlugins(plugins) => reload_plugins(session, plugins)?,
            C::ReloadOutputStyles => {
                session.extensions().reload(None);
                json!({"available_output_styles": session.extensions().output_styles().0.names()})
            }
            C::ListPermissionRules => listing::permission_rules(session),
            C::GetHooksListing => listing::hooks(session),
            C::GetUsage => usage(session),
            C::GetTaskOutput { task_id } => task_output(session, &task_id)?,
            C::RegisterRepoRoot { directory } => add_root(session, &directory)?,
            C::RewindFiles {
                user_message_id,
                dry_run,
            } => self.rewind(user_message_id, dry_run).await?,
            C::StopTask { task_id } => stop_task(session, &task_id).await?,
            C::ReadFile {
                path,
                max_bytes,
                encoding,
            } => read_file(session, &path, max_bytes, encoding)?,
            C::SeedReadState { path, mtime } => seed_read_state(session, &path, mtime)?,
            C::SetHasSubscribers => json!({}),
            C::GetSessionCost => session_cost(session),
            C::FileSuggestions { query } => suggestions(session, &query).await?,
            C::McpStatus => server_status(session).await,
            C::McpReconnect { server_name } => {
                session
                    .mcp()
                    .reconnect(&server_name)
                    .await
                    .map_err(failed)?;
                json!({})
            }
            C::McpToggle {
                server_name,
                enabled,
            } => toggle(session, &server_name, enabled).await?,
            C::McpSetServers { servers } => self.set_servers(&servers).await,
            C::McpCall {
                check_permissions: true,
                ..
            } => return Err(RequestError::UncheckedCall),
            C::McpCall {
                tool, arguments, ..
            } => call_tool(session, &tool, arguments).await?,
            C::McpReadResource { server_name, uri } => {
                let mcp = session.mcp();
                mcp.read_resource(&server_name, &uri)
                    .await
                    .map_err(failed)?
            }
        })
    }

    fn set_permission_mode(&self, mode: PermissionMode) -> Result<Value, RequestError> {
        self.session.permissions().set_mode(mode).map_err(failed)?;
        self.policies.follow_mode(&self.session);
        Ok(json!({"mode": mode}))
    }

    async fn rewind(&self, to: RecordId, dry_run: bool) -> Result<Value, RequestError> {
        if !self.checkpointing {
            return Err(RequestError::NoCheckpoints);
        }
        // A host decides for its user: what changed since is overwritten, as hosts expect.
        let mode = if dry_run {
            RewindMode::Preview
        } else {
            RewindMode::Overwrite
        };
        let report = self
            .session
            .history()
            .rewind_files(to, mode)
            .await
            .map_err(failed)?;
        let files: Vec<String> = report
            .files
            .iter()
            .map(|file| file.path.display().to_string())
            .collect();
        Ok(json!({
            "canRewind": true, "filesChanged": files,
            "insertions": report.insertions, "deletions": report.deletions,
        }))
    }

    async fn set_servers(&self, servers: &Map<String, Value>) -> Value {
        // Before the tools can be called.
        self.policies.set(&self.session, servers);
        let (added, removed, errors) = self.session.mcp().set_servers(servers).await;
        json!({"added": added, "removed": removed, "errors": errors})
    }
}

fn settings(session: &SessionHandle) -> Value {
    json!({
        "effective": session.settings().json(), "sources": session.settings().layers(),
        "applied": {"model": session.model().current(), "effort": session.model().effort()},
    })
}

fn usage(session: &SessionHandle) -> Value {
    let totals = session.history().totals();
    json!({
        "session": {
            "total_cost_usd": totals.cost_usd(), "total_api_duration_ms": totals.api_duration_ms,
            "total_duration_ms": totals.api_duration_ms + totals.tool_duration_ms,
            "total_lines_added": totals.lines_added,
            "total_lines_removed": totals.lines_removed, "model_usage": totals.models,
        },
        "subscription_type": null, "rate_limits_available": false, "rate_limits": null,
        "behaviors": null,
    })
}

fn to_background(session: &SessionHandle, call: Option<&ToolUseId>) -> Value {
    let found = session.tasks().send_to_background(call);
    json!({"backgrounded": found || call.is_none()})
}

async fn stop_task(session: &SessionHandle, task: &TaskId) -> Result<Value, RequestError> {
    session.tasks().stop(task.as_str()).await.map_err(failed)?;
    Ok(json!({}))
}

async fn suggestions(session: &SessionHandle, query: &str) -> Result<Value, RequestError> {
    let found = files::suggestions(session, query).await?;
    Ok(json!({"suggestions": found}))
}

async fn server_status(session: &SessionHandle) -> Value {
    let mcp = session.mcp();
    mcp.settled().await;
    json!({"mcpServers": mcp.frames()})
}

async fn toggle(session: &SessionHandle, server: &str, on: bool) -> Result<Value, RequestError> {
    // A connection that fails afterwards is shown by mcp_status; the server is switched on all the same.
    session
        .mcp()
        .set_enabled(server, on)
        .await
        .map_err(failed)?;
    Ok(json!({}))
}

async fn call_tool(
    session: &SessionHandle,
    tool: &str,
    arguments: Option<Value>,
) -> Result<Value, RequestError> {
    let arguments = arguments.unwrap_or_else(|| json!({}));
    session.mcp().call(tool, arguments).await.map_err(failed)
}

fn session_cost(session: &SessionHandle) -> Value {
    json!({"text": format!("Total cost: ${:.4}", session.history().totals().cost_usd())})
}

fn task_output(session: &SessionHandle, task: &TaskId) -> Result<Value, RequestError> {
    let (output, total, truncated) = session
        .tasks()
        .output(task.as_str(), OUTPUT_LIMIT)
        .map_err(failed)?;
    Ok(json!({"output": output, "total_bytes": total, "truncated": truncated}))
}

fn add_root(session: &SessionHandle, folder: &str) -> Result<Value, RequestError> {
    let path = session.context().resolve_path(folder);
    match std::fs::canonicalize(&path) {
        Ok(real) => {
            session.permissions().add_root(&real, "register_repo_root");
            Ok(json!({}))
        }
        Err(source) => Err(RequestError::Folder { path, source }),
    }
}

/// Changes how much the model thinks, and what of it is shown. An absent field changes nothing.
fn set_thinking(
    session: &SessionHandle,
    tokens: Option<Option<u64>>,
    display: Option<Option<ThinkingDisplay>>,
) -> Result<Value, RequestError> {
    if let Some(tokens) = tokens {
        let tokens = tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
        session.model().set_max_thinking_tokens(tokens);
    }
    if let Some(display) = display {
        let display = match display {
            None => None,
            Some(ThinkingDisplay::Summarized) => Some(lathe_model::ThinkingDisplay::Summarized),
            Some(ThinkingDisplay::Omitted) => Some(lathe_model::ThinkingDisplay::Omitted),
            Some(ThinkingDisplay::Unknown(word)) => {
                return Err(RequestError::ThinkingDisplay(word));
            }
        };
        session.model().set_thinking_display(display);
    }
    Ok(json!({}))
}

/// Loads the plugins again, and those that are named with the request. Where the host says so, they are
/// left alone if that would change the tools of a conversation that has begun.
fn reload_plugins(session: &SessionHandle, request: ReloadPlugins) -> Result<Value, RequestError> {
    let more = request.add_plugins.unwrap_or_default();
    if !more.iter().all(|plugin| plugin.path.is_absolute()) {
        return Err(RequestError::RelativePlugin);
    }
    let mut fields = Map::new();
    if request.hold_on_cache_impact {
        let with_servers = more.iter().filter(|plugin| !plugin.skip_mcp_discovery);
        let folders: Vec<PathBuf> = with_servers.map(|plugin| plugin.path.clone()).collect();
        let (added, removed) = session.plugins().servers_after_reload(&folders);
        let begun = !session.history().totals().models.is_empty();
        let held = begun && (!added.is_empty() || !removed.is_empty());
        fields.insert("held".to_owned(), held.into());
        if held {
            let impact = json!({
                "mcp_servers_added": added, "mcp_servers_removed": removed, "lsp_tool_change": null,
            });
            fields.insert("cache_impact".to_owned(), impact);
            return Ok(plugin_frames(session, fields));
        }
    }
    for plugin in &more {
        session
            .plugins()
            .add_folder(&plugin.path, !plugin.skip_mcp_discovery);
    }
    session.plugins().reload();
    Ok(plugin_frames(session, fields))
}

/// The answer to `reload_plugins`: what the session has with the plugins as they are.
fn plugin_frames(session: &SessionHandle, mut fields: Map<String, Value>) -> Value {
    let plugins = session.plugins().loaded();
    let errors = plugins.error_frames();
    for (name, value) in [
        ("commands", commands(session)),
        ("agents", agents(session)),
        ("plugins", json!(plugins.frames())),
        ("mcpServers", json!(session.mcp().frames())),
        ("error_count", errors.len().into()),
        ("errors", json!(errors)),
    ] {
        fields.insert(name.to_owned(), value);
    }
    Value::Object(fields)
}

/// Changes the user's or the project's own settings file.
fn update_settings(
    session: &SessionHandle,
    file: SettingsFile,
    settings: &Map<String, Value>,
) -> Result<Value, RequestError> {
    let source = match file {
        SettingsFile::LocalSettings => Source::Local,
        SettingsFile::UserSettings => Source::User,
    };
    let mut edits = Vec::new();
    for (key, value) in settings {
        let path = KeyPath(vec![key.clone()]);
        edits.push(if value.is_null() {
            Edit::Unset { key: path }
        } else {
            lathe_settings::write::check(&path, value).map_err(failed)?;
            Edit::Set {
                key: path,
                value: value.clone(),
            }
        });
    }
    lathe_settings::write::write(session.settings().places(), source, &edits, None)
        .map_err(failed)?;
    Ok(json!({}))
}

fn seed_read_state(
    session: &SessionHandle,
    path: &str,
    milliseconds: Option<f64>,
) -> Result<Value, RequestError> {
    let since = since_epoch(milliseconds.unwrap_or_default()).ok_or(RequestError::NoTime)?;
    let known = session
        .context()
        .seed_read_state(path, SystemTime::UNIX_EPOCH + since);
    Ok(json!({"seeded": known}))
}

/// A time in milliseconds, as hosts give it. By way of whole microseconds: seconds as a fraction would lose a
/// millisecond now and then, and a file would seem to have changed.
fn since_epoch(milliseconds: f64) -> Option<Duration> {
    /// Beyond this (the year 33658) a number of milliseconds is none.
    const LAST: f64 = 1e15;
    if !(0.0..=LAST).contains(&milliseconds) {
        return None;
    }
    // Between 0 and 1e18.
    let microseconds = (milliseconds * 1000.0).round() as u64;
    Some(Duration::from_micros(microseconds))
}

fn read_file(
    session: &SessionHandle,
    path: &str,
    limit: Option<u64>,
    encoding: Option<FileEncoding>,
) -> Result<Value, RequestError> {
    use std::io::Read as _;
    let limit = limit.unwrap_or(READ_LIMIT);
    let path = session.context().resolve_path(path);
    if !session.permissions().may_read(&path) {
        return Err(RequestError::NotAllowed { path });
    }
    let failed = |source| RequestError::Read {
        path: path.clone(),
        source,
    };
    let file = std::fs::File::open(&path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    let contents = match encoding {
        Some(FileEncoding::Base64) => base64::engine::general_purpose::STANDARD.encode(&bytes),
        Some(FileEncoding::Text) | None => String::from_utf8_lossy(&bytes).into_owned(),
    };
    let mut answer = json!({
        "contents": contents, "absPath": path.display().to_string(),
    });
    if size > limit
        && let Some(fields) = answer.as_object_mut()
    {
        fields.insert("truncated".to_owned(), true.into());
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_milliseconds_loses_none() {
        for milliseconds in (1_763_264_523_000_u64..).take(1_000) {
            // Far below 2^52.
            let since = since_epoch(milliseconds as f64).unwrap();
            assert_eq!(since.as_millis(), u128::from(milliseconds));
        }
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(since_epoch(wrong), None);
        }
    }
}
