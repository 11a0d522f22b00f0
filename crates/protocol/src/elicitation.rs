//! Questions of MCP servers to the user, and the answers.

use crate::ids::RequestId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An MCP server wants something of the user: the fields of a form, or a page to open.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ElicitationRequest {
    /// Names the question.
    #[serde(skip)]
    pub request_id: RequestId,
    /// The server that asks.
    pub mcp_server_name: String,
    /// The message to the user.
    pub message: String,
    /// The message of the server.
    #[serde(flatten)]
    pub kind: ElicitationKind,
}

/// The kind of answer that an MCP server asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
pub enum ElicitationKind {
    /// The fields of a form.
    Form {
        /// A flat JSON schema: an object whose properties are texts, numbers, truth values and choices.
        requested_schema: Value,
    },
    /// A page to open and finish.
    Url {
        /// The page.
        url: String,
        /// The server's id of this question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        elicitation_id: Option<String>,
    },
}

/// The user's answer to a server's question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum ElicitationReply {
    /// Yes, with the form's fields (none for a page).
    Accept {
        /// The fields.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Value>,
    },
    /// No.
    Decline,
    /// Neither: the question was put away.
    Cancel,
}

impl ElicitationReply {
    /// The protocol's word for it.
    #[must_use]
    pub fn action(&self) -> &'static str {
        match self {
            Self::Accept { .. } => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn questions_and_answers_have_the_shape_that_hosts_know() {
        let request = ElicitationRequest {
            request_id: "r".into(),
            mcp_server_name: "s".into(),
            message: "Who?".into(),
            kind: ElicitationKind::Form {
                requested_schema: json!({"type": "object"}),
            },
        };
        assert_eq!(
            serde_json::to_value(&request).unwrap(),
            json!({"mcp_server_name": "s", "message": "Who?", "mode": "form",
                "requested_schema": {"type": "object"}})
        );
        let reply: ElicitationReply =
            serde_json::from_value(json!({"action": "accept", "content": {"name": "A"}})).unwrap();
        assert_eq!(reply.action(), "accept");
        let reply: ElicitationReply = serde_json::from_value(json!({"action": "decline"})).unwrap();
        assert_eq!(reply, ElicitationReply::Decline);
    }
}
