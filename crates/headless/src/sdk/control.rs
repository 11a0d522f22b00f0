//! The host's requests about a session, and their answers.

use lathe_engine::SessionHandle;
use lathe_protocol::ids::RecordId;
use lathe_protocol::permission::PermissionMode;
use lathe_session::checkpoint::RewindMode;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// How much of a file `read_file` gives unless told otherwise.
const READ_LIMIT: u64 = 512 * 1024;

/// The requests that are answered without waiting for anything.
const QUICK: [&str; 13] = [
    "interrupt",
    "set_permission_mode",
    "set_model",
    "set_max_thinking_tokens",
    "mcp_status",
    "mcp_set_servers",
    "get_context_usage",
    "get_settings",
    "list_models",
    "get_binary_version",
    "rename_session",
    "cancel_async_message",
    "background_tasks",
];

/// The requests that may take a moment.
const SLOW: [&str; 6] = [
    "rewind_files",
    "stop_task",
    "read_file",
    "seed_read_state",
    "mcp_reconnect",
    "mcp_toggle",
];

/// Whether we know a request.
#[must_use]
pub fn is_known(subtype: &str) -> bool {
    QUICK.contains(&subtype) || SLOW.contains(&subtype)
}

/// Whether a request is answered without waiting for anything.
#[must_use]
pub fn is_quick(subtype: &str) -> bool {
    QUICK.contains(&subtype)
}

/// Answers a request.
///
/// # Errors
/// In words, when it can't be done.
pub async fn answer(
    session: &SessionHandle,
    subtype: &str,
    request: &Value,
    checkpointing: bool,
) -> Result<Value, String> {
    let text = |name: &str| request.get(name).and_then(Value::as_str);
    let needed = |name: &str| text(name).ok_or_else(|| format!("{subtype}: `{name}` is missing"));
    match subtype {
        "interrupt" => Ok(json!({"still_queued": session.queued()})),
        "set_permission_mode" => {
            let mode: PermissionMode = needed("mode")?
                .parse()
                .map_err(|error| format!("{error}"))?;
            session
                .set_permission_mode(mode)
                .map_err(|error| error.to_string())?;
            Ok(json!({"mode": mode}))
        }
        "set_model" => Ok(json!({"model": session.set_model(text("model"))})),
        "set_max_thinking_tokens" => {
            let tokens = request.get("max_thinking_tokens").and_then(Value::as_u64);
            session.set_max_thinking_tokens(
                tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
            );
            Ok(json!({}))
        }
        "mcp_status" => Ok(json!({"mcpServers": []})),
        "mcp_set_servers" => {
            let wanted = request.get("servers").and_then(Value::as_object);
            let errors: serde_json::Map<String, Value> = wanted
                .into_iter()
                .flat_map(|servers| servers.keys())
                .map(|name| {
                    (
                        name.clone(),
                        "MCP servers are not supported in this version".into(),
                    )
                })
                .collect();
            Ok(json!({"added": [], "removed": [], "errors": errors}))
        }
        "mcp_reconnect" | "mcp_toggle" => Err(format!(
            "Server not found: {}",
            text("serverName").unwrap_or_default()
        )),
        "get_context_usage" => Ok(context_usage(session)),
        "get_settings" => Ok(json!({
            "effective": session.settings(), "sources": [],
            "applied": {"model": session.model(), "effort": null},
        })),
        "list_models" => {
            let models: Vec<Value> = session
                .models()
                .into_iter()
                .map(|(value, name)| json!({"value": value, "displayName": name, "description": name}))
                .collect();
            Ok(json!({"models": models}))
        }
        "get_binary_version" => {
            Ok(json!({"version": env!("CARGO_PKG_VERSION"), "buildTime": null}))
        }
        "rename_session" => {
            session.rename(needed("title")?);
            Ok(json!({}))
        }
        "cancel_async_message" => {
            let uuid: RecordId = needed("message_uuid")?
                .parse()
                .map_err(|error| format!("message_uuid: {error}"))?;
            Ok(json!({"cancelled": session.cancel_queued(uuid)}))
        }
        "background_tasks" => {
            let call = text("tool_use_id").map(lathe_protocol::ids::ToolUseId::from);
            session.send_to_background(call.as_ref());
            Ok(json!({}))
        }
        "rewind_files" => {
            if !checkpointing {
                return Err("File rewinding is not enabled.".to_owned());
            }
            let to: RecordId = needed("user_message_id")?
                .parse()
                .map_err(|error| format!("user_message_id: {error}"))?;
            let dry_run = request
                .get("dry_run")
                .and_then(Value::as_bool)
                .unwrap_or(false);
            rewind(session, to, dry_run).await
        }
        "stop_task" => session
            .stop_task(needed("task_id")?)
            .await
            .map(|()| json!({})),
        "read_file" => {
            let limit = request
                .get("max_bytes")
                .and_then(Value::as_u64)
                .unwrap_or(READ_LIMIT);
            read_file(session, needed("path")?, limit)
        }
        "seed_read_state" => {
            let modified = request
                .get("mtime")
                .and_then(Value::as_f64)
                .unwrap_or_default();
            let modified =
                SystemTime::UNIX_EPOCH + Duration::from_secs_f64(modified.max(0.0) / 1000.0);
            let known = session.seed_read_state(needed("path")?, modified);
            Ok(json!({"seeded": known}))
        }
        _ => Err(format!("Unknown control request: {subtype}")),
    }
}

async fn rewind(session: &SessionHandle, to: RecordId, dry_run: bool) -> Result<Value, String> {
    // A host decides for its user: what changed since is overwritten, as hosts expect.
    let mode = if dry_run {
        RewindMode::Preview
    } else {
        RewindMode::Overwrite
    };
    let report = session
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

fn read_file(session: &SessionHandle, path: &str, limit: u64) -> Result<Value, String> {
    use std::io::Read as _;
    let path = session.resolve_path(path);
    if !session.may_read(&path) {
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
    let mut answer = json!({
        "contents": String::from_utf8_lossy(&bytes), "absPath": path.display().to_string(),
    });
    if size > limit
        && let Some(fields) = answer.as_object_mut()
    {
        fields.insert("truncated".to_owned(), true.into());
    }
    Ok(answer)
}

fn context_usage(session: &SessionHandle) -> Value {
    let usage = session.context_usage();
    let used = usage.system + usage.tools + usage.messages;
    let reserve = usage.max_output.min(20_000) + 13_000;
    let free = usage.window.saturating_sub(used + reserve);
    let part = |name: &str, tokens: u64, color: &str, kind: &str| json!({"name": name, "tokens": tokens, "color": color, "kind": kind});
    #[allow(
        clippy::cast_precision_loss,
        reason = "token counts are far below 2^52"
    )]
    let percentage = if usage.window == 0 {
        0.0
    } else {
        (used as f64 / usage.window as f64 * 100.0).min(100.0)
    };
    let files: Vec<Value> = usage
        .instruction_files
        .iter()
        .map(|(path, scope, tokens)| json!({"path": path, "type": scope, "tokens": tokens}))
        .collect();
    json!({
        "categories": [
            part("System prompt", usage.system, "gray", "used"),
            part("System tools", usage.tools, "blue", "used"),
            part("Messages", usage.messages, "purple", "used"),
            part("Free space", free, "white", "free"),
            part("Autocompact buffer", reserve, "yellow", "buffer"),
        ],
        "totalTokens": used, "maxTokens": usage.window, "rawMaxTokens": usage.window,
        "percentage": percentage, "model": usage.model,
        "isAutoCompactEnabled": usage.auto_compact,
        "autoCompactThreshold": usage.window.saturating_sub(reserve),
        "memoryFiles": files, "mcpTools": [], "agents": [], "gridRows": [], "apiUsage": null,
    })
}
