//! The host's requests about a session, and their answers.

use super::initialize::{agents, commands, models, skills};
use super::policies::Policies;
use super::{files, listing, window};
use base64::Engine as _;
use lathe_engine::SessionHandle;
use lathe_model::ThinkingDisplay;
use lathe_protocol::ids::RecordId;
use lathe_protocol::permission::PermissionMode;
use lathe_session::checkpoint::RewindMode;
use lathe_settings::Source;
use lathe_settings::key::KeyPath;
use lathe_settings::patch::Edit;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How much of a file `read_file` gives unless told otherwise.
const READ_LIMIT: u64 = 512 * 1024;
/// How much of a background command's output `get_task_output` gives.
const OUTPUT_LIMIT: u64 = 8 * 1024;

/// The requests that are answered in the order in which they came, before anything behind them.
const QUICK: [&str; 22] = [
    "interrupt",
    "set_permission_mode",
    "set_mcp_permission_mode_override",
    "set_model",
    "set_max_thinking_tokens",
    "get_context_usage",
    "get_settings",
    "list_models",
    "get_binary_version",
    "rename_session",
    "cancel_async_message",
    "background_tasks",
    "apply_flag_settings",
    "update_settings",
    "reload_skills",
    "reload_plugins",
    "reload_output_styles",
    "list_permission_rules",
    "get_hooks_listing",
    "get_usage",
    "get_task_output",
    "register_repo_root",
];

/// The requests that may take a moment.
const SLOW: [&str; 12] = [
    "mcp_status",
    "mcp_read_resource",
    "rewind_files",
    "stop_task",
    "read_file",
    "seed_read_state",
    "mcp_reconnect",
    "mcp_toggle",
    "mcp_set_servers",
    "mcp_call",
    "get_session_cost",
    "file_suggestions",
];

/// Whether we know a request.
#[must_use]
pub fn is_known(subtype: &str) -> bool {
    QUICK.contains(&subtype) || SLOW.contains(&subtype)
}

/// Whether a request is answered before anything behind it.
#[must_use]
pub fn is_quick(subtype: &str) -> bool {
    QUICK.contains(&subtype)
}

/// What requests are answered from.
#[derive(Clone)]
pub struct Desk {
    /// The session.
    pub session: Arc<SessionHandle>,
    /// Whether `rewind_files` may be used.
    pub checkpointing: bool,
    /// What the host says about the tools of its servers.
    pub(super) policies: Policies,
}

/// A request, with its fields at hand.
struct Request<'a> {
    subtype: &'a str,
    fields: &'a Value,
}

impl Request<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str)
    }

    fn needed(&self, name: &str) -> Result<&str, String> {
        self.text(name)
            .ok_or_else(|| format!("{}: `{name}` is missing", self.subtype))
    }

    fn record(&self, name: &str) -> Result<RecordId, String> {
        self.needed(name)?
            .parse()
            .map_err(|error| format!("{}: `{name}`: {error}", self.subtype))
    }

    fn flag(&self, name: &str) -> bool {
        let value = self.fields.get(name).and_then(Value::as_bool);
        value.unwrap_or(false)
    }

    fn object(&self, name: &str) -> Result<&Map<String, Value>, String> {
        self.fields
            .get(name)
            .and_then(Value::as_object)
            .ok_or_else(|| format!("{}: `{name}` must be an object", self.subtype))
    }
}

impl Desk {
    /// Answers a request.
    ///
    /// # Errors
    /// In words, when it can't be done.
    pub async fn answer(&self, subtype: &str, fields: &Value) -> Result<Value, String> {
        let request = Request { subtype, fields };
        if is_quick(subtype) {
            return self.quick(&request);
        }
        let session = &self.session;
        match subtype {
            "rewind_files" => {
                if !self.checkpointing {
                    return Err("File rewinding is not enabled.".to_owned());
                }
                let to = request.record("user_message_id")?;
                rewind(session, to, request.flag("dry_run")).await
            }
            "stop_task" => {
                session.tasks().stop(request.needed("task_id")?).await?;
                Ok(json!({}))
            }
            "read_file" => {
                let limit = fields.get("max_bytes").and_then(Value::as_u64);
                read_file(
                    session,
                    request.needed("path")?,
                    limit.unwrap_or(READ_LIMIT),
                    request.text("encoding") == Some("base64"),
                )
            }
            "seed_read_state" => {
                let modified = fields.get("mtime").and_then(Value::as_f64);
                let since = since_epoch(modified.unwrap_or_default())
                    .ok_or("seed_read_state: `mtime` is no number of milliseconds since 1970")?;
                let modified = SystemTime::UNIX_EPOCH + since;
                let known = session
                    .context()
                    .seed_read_state(request.needed("path")?, modified);
                Ok(json!({"seeded": known}))
            }
            "mcp_status" => {
                let mcp = session.mcp();
                mcp.settled().await;
                Ok(json!({"mcpServers": mcp.frames()}))
            }
            "mcp_reconnect" => {
                session
                    .mcp()
                    .reconnect(request.needed("serverName")?)
                    .await?;
                Ok(json!({}))
            }
            "mcp_toggle" => {
                let name = request.needed("serverName")?;
                // What fails then is shown by mcp_status; the switch itself was thrown.
                session
                    .mcp()
                    .set_enabled(name, request.flag("enabled"))
                    .await?;
                Ok(json!({}))
            }
            "mcp_set_servers" => {
                let wanted = request.object("servers")?;
                // Before the tools can be called.
                self.policies.set(session, wanted);
                let (added, removed, errors) = session.mcp().set_servers(wanted).await;
                Ok(json!({"added": added, "removed": removed, "errors": errors}))
            }
            "mcp_call" => {
                let checks = fields.get("check_permissions");
                if checks.is_some_and(|checks| *checks != Value::Bool(false)) {
                    // Better no call than one that the host believes to be checked.
                    return Err(
                        "The tool did not run: calls of a host are not checked here".to_owned()
                    );
                }
                let arguments = fields.get("arguments").cloned();
                let arguments = arguments.unwrap_or_else(|| json!({}));
                session.mcp().call(request.needed("tool")?, arguments).await
            }
            "mcp_read_resource" => {
                let uri = request.needed("uri")?;
                session
                    .mcp()
                    .read_resource(request.needed("serverName")?, uri)
                    .await
            }
            "file_suggestions" => {
                let found = files::suggestions(session, request.needed("query")?).await?;
                Ok(json!({"suggestions": found}))
            }
            "get_session_cost" => {
                let cost = session.history().totals().cost_usd();
                Ok(json!({"text": format!("Total cost: ${cost:.4}")}))
            }
            _ => Err(format!("Unknown control request: {subtype}")),
        }
    }

    fn quick(&self, request: &Request<'_>) -> Result<Value, String> {
        let session = &self.session;
        match request.subtype {
            // The face adds what it holds itself and carries it out.
            "interrupt" => Ok(json!({"still_queued": session.history().queued()})),
            "set_permission_mode" => {
                let mode: PermissionMode = request
                    .needed("mode")?
                    .parse()
                    .map_err(|error| format!("{error}"))?;
                session
                    .permissions()
                    .set_mode(mode)
                    .map_err(|error| error.to_string())?;
                self.policies.follow_mode(session);
                Ok(json!({"mode": mode}))
            }
            "set_mcp_permission_mode_override" => {
                let server = request.needed("serverName")?;
                let mode = request.fields.get("mode").filter(|mode| !mode.is_null());
                self.policies.override_mode(session, server, mode)
            }
            "set_model" => {
                let model = request.text("model").filter(|model| *model != "default");
                Ok(json!({"model": session.model().set(model)}))
            }
            "set_max_thinking_tokens" => set_thinking(session, request),
            "get_context_usage" => Ok(window::usage(session)),
            "get_settings" => Ok(json!({
                "effective": session.settings().json(), "sources": session.settings().layers(),
                "applied": {"model": session.model().current(), "effort": session.model().effort()},
            })),
            "list_models" => Ok(json!({"models": models(session)})),
            "get_binary_version" => {
                Ok(json!({"version": env!("CARGO_PKG_VERSION"), "buildTime": null}))
            }
            "rename_session" => {
                session.history().rename(request.needed("title")?);
                Ok(json!({}))
            }
            "cancel_async_message" => {
                let uuid = request.record("message_uuid")?;
                Ok(json!({"cancelled": session.history().cancel_queued(uuid)}))
            }
            "background_tasks" => {
                let call = request.text("tool_use_id");
                let call = call.map(lathe_protocol::ids::ToolUseId::from);
                let found = session.tasks().send_to_background(call.as_ref());
                Ok(json!({"backgrounded": found || call.is_none()}))
            }
            "apply_flag_settings" => {
                session
                    .settings()
                    .change_flags(request.object("settings")?)?;
                Ok(json!({}))
            }
            "update_settings" => update_settings(session, request),
            "reload_skills" => {
                session.extensions().reload(None);
                Ok(json!({"skills": skills(session)}))
            }
            "reload_plugins" => reload_plugins(session, request),
            "reload_output_styles" => {
                session.extensions().reload(None);
                let (styles, _) = session.extensions().output_styles();
                Ok(json!({"available_output_styles": styles.names()}))
            }
            "list_permission_rules" => Ok(listing::permission_rules(session)),
            "get_hooks_listing" => Ok(listing::hooks(session)),
            "get_usage" => Ok(self.usage()),
            "get_task_output" => {
                let (output, total, truncated) = session
                    .tasks()
                    .output(request.needed("task_id")?, OUTPUT_LIMIT)?;
                Ok(json!({"output": output, "total_bytes": total, "truncated": truncated}))
            }
            "register_repo_root" => {
                let folder = session.context().resolve_path(request.needed("directory")?);
                let real = std::fs::canonicalize(&folder)
                    .map_err(|error| format!("{} can't be used: {error}", folder.display()))?;
                session.permissions().add_root(&real, "register_repo_root");
                Ok(json!({}))
            }
            other => Err(format!("Unknown control request: {other}")),
        }
    }

    fn usage(&self) -> Value {
        let totals = self.session.history().totals();
        let cost = totals.cost_usd();
        json!({
            "session": {
                "total_cost_usd": cost, "total_api_duration_ms": totals.api_duration_ms,
                "total_duration_ms": totals.api_duration_ms + totals.tool_duration_ms,
                "total_lines_added": totals.lines_added,
                "total_lines_removed": totals.lines_removed, "model_usage": totals.models,
            },
            "subscription_type": null, "rate_limits_available": false, "rate_limits": null,
            "behaviors": null,
        })
    }
}

/// Changes how much is thought, and what of it is shown. What isn't said stays.
fn set_thinking(session: &SessionHandle, request: &Request<'_>) -> Result<Value, String> {
    if let Some(tokens) = request.fields.get("max_thinking_tokens") {
        let tokens = tokens.as_u64();
        session.model().set_max_thinking_tokens(
            tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
        );
    }
    let Some(display) = request.fields.get("thinking_display") else {
        return Ok(json!({}));
    };
    let display = match display.as_str() {
        Some("summarized") => Some(ThinkingDisplay::Summarized),
        Some("omitted") => Some(ThinkingDisplay::Omitted),
        None if display.is_null() => None,
        _ => {
            return Err(format!(
                "set_max_thinking_tokens: `thinking_display` can't be {display}; summarized and omitted can be had"
            ));
        }
    };
    session.model().set_thinking_display(display);
    Ok(json!({}))
}

/// Loads the plugins again, and those that are named with the request. Where the host says so, it is left
/// alone if that would change the tools of a conversation that has begun.
fn reload_plugins(session: &SessionHandle, request: &Request<'_>) -> Result<Value, String> {
    let mut more = Vec::new();
    let entries = request.fields.get("add_plugins").and_then(Value::as_array);
    for entry in entries.into_iter().flatten() {
        let path = entry.get("path").and_then(Value::as_str).map(PathBuf::from);
        let path = path
            .filter(|path| path.is_absolute())
            .ok_or("reload_plugins: each of `add_plugins` needs an absolute `path`")?;
        let skips = entry.get("skipMcpDiscovery") == Some(&Value::Bool(true));
        more.push((path, !skips));
    }
    let mut fields = Map::new();
    if request.flag("hold_on_cache_impact") {
        let with_servers = more.iter().filter(|(_, servers)| *servers);
        let folders: Vec<PathBuf> = with_servers.map(|(path, _)| path.clone()).collect();
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
    for (path, with_servers) in &more {
        session.plugins().add_folder(path, *with_servers);
    }
    session.plugins().reload();
    Ok(plugin_frames(session, fields))
}

/// What there is with the plugins as they are.
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
fn update_settings(session: &SessionHandle, request: &Request<'_>) -> Result<Value, String> {
    let source = match request.needed("source")? {
        "localSettings" => Source::Local,
        "userSettings" => Source::User,
        other => return Err(format!("update_settings: {other} is not written by hosts")),
    };
    let mut edits = Vec::new();
    for (key, value) in request.object("settings")? {
        let path = KeyPath(vec![key.clone()]);
        edits.push(if value.is_null() {
            Edit::Unset { key: path }
        } else {
            lathe_settings::write::check(&path, value).map_err(|error| error.to_string())?;
            Edit::Set {
                key: path,
                value: value.clone(),
            }
        });
    }
    lathe_settings::write::write(session.settings().places(), source, &edits, None)
        .map_err(|error| error.to_string())?;
    Ok(json!({}))
}

async fn rewind(session: &SessionHandle, to: RecordId, dry_run: bool) -> Result<Value, String> {
    // A host decides for its user: what changed since is overwritten, as hosts expect.
    let mode = if dry_run {
        RewindMode::Preview
    } else {
        RewindMode::Overwrite
    };
    let report = session
        .history()
        .rewind_files(to, mode)
        .await
        .map_err(|error| error.to_string())?;
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

/// A time in milliseconds, as hosts give it. By way of whole microseconds: seconds as a fraction would lose a
/// millisecond now and then, and a file would seem to have changed.
fn since_epoch(milliseconds: f64) -> Option<Duration> {
    /// Beyond this (the year 33658) a number of milliseconds is none.
    const LAST: f64 = 1e15;
    if !(0.0..=LAST).contains(&milliseconds) {
        return None;
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 1e18"
    )]
    let microseconds = (milliseconds * 1000.0).round() as u64;
    Some(Duration::from_micros(microseconds))
}

fn read_file(
    session: &SessionHandle,
    path: &str,
    limit: u64,
    as_base64: bool,
) -> Result<Value, String> {
    use std::io::Read as _;
    let path = session.context().resolve_path(path);
    if !session.permissions().may_read(&path) {
        return Err(format!(
            "{} is not read without a person's word",
            path.display()
        ));
    }
    let failed = |error: std::io::Error| format!("{} can't be read: {error}", path.display());
    let file = std::fs::File::open(&path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    let contents = if as_base64 {
        base64::engine::general_purpose::STANDARD.encode(&bytes)
    } else {
        String::from_utf8_lossy(&bytes).into_owned()
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
            #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
            let since = since_epoch(milliseconds as f64).unwrap();
            assert_eq!(since.as_millis(), u128::from(milliseconds));
        }
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(since_epoch(wrong), None);
        }
    }
}
