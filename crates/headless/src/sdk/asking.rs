//! Questions of the session that the host answers, or a tool that it names.

use super::host::Host;
use crate::permission_tool;
use lathe_engine::SessionHandle;
use lathe_protocol::elicitation::{ElicitationReply, ElicitationRequest};
use lathe_protocol::frame::HostError;
use lathe_protocol::op::Op;
use lathe_protocol::permission::PermissionRequest;
use serde_json::Value;
use std::sync::Arc;

/// Passes a permission question to the host or the tool, and the answer to the session.
pub(super) async fn ask(
    host: Host,
    tool: Option<String>,
    session: Arc<SessionHandle>,
    request: Arc<PermissionRequest>,
) {
    let reply = match &tool {
        Some(tool) => permission_tool::ask(&session.mcp(), tool, &request).await,
        None => permission_tool::reply_of(ask_host(&host, &session, &request).await),
    };
    session.send(Op::PermissionReply {
        request_id: request.request_id.clone(),
        reply,
    });
}

async fn ask_host(
    host: &Host,
    session: &SessionHandle,
    request: &PermissionRequest,
) -> Result<Value, HostError> {
    /// Tools whose permission question is the question that the user answers.
    const INTERACTIVE: [&str; 2] = ["AskUserQuestion", "ExitPlanMode"];
    let mut question = serde_json::to_value(request).unwrap_or_default();
    if let Some(fields) = question.as_object_mut() {
        fields.shift_remove("request_id");
        fields.insert("subtype".to_owned(), "can_use_tool".into());
        if let Some(server) = session.mcp().provenance(&request.tool_name) {
            fields.insert("mcp_server".to_owned(), server);
        }
        if INTERACTIVE.contains(&request.tool_name.as_str()) {
            fields.insert("requires_user_interaction".to_owned(), true.into());
        }
    }
    host.ask(request.request_id.clone(), question).await
}

/// Takes a question of an MCP server to the host. One that doesn't know such questions declines.
pub(super) async fn elicit(
    host: Host,
    session: Arc<SessionHandle>,
    request: Arc<ElicitationRequest>,
) {
    let mut question = serde_json::to_value(&*request).unwrap_or_default();
    question["subtype"] = "elicitation".into();
    let answer = host.ask(request.request_id.clone(), question).await;
    let reply = answer
        .ok()
        .and_then(|answer| serde_json::from_value::<ElicitationReply>(answer).ok())
        .unwrap_or(ElicitationReply::Decline);
    session.send(Op::ElicitationReply {
        request_id: request.request_id.clone(),
        reply,
    });
}
