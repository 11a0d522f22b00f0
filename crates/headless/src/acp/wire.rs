//! JSON-RPC 2.0 in lines: what a client's line is, and the lines that answer it.

use serde_json::{Value, json};

/// A line of the client.
#[derive(Debug, PartialEq)]
pub enum Message {
    /// Wants an answer.
    Request {
        /// A number or a text, given back as it came.
        id: Value,
        /// The method.
        method: String,
        /// The parameters; null if there are none.
        params: Value,
    },
    /// Wants none.
    Notification {
        /// The method.
        method: String,
        /// The parameters; null if there are none.
        params: Value,
    },
    /// Answers a request of ours.
    Response {
        /// The id of our request.
        id: Value,
        /// The answer.
        outcome: Result<Value, RpcError>,
    },
}

/// An error of JSON-RPC.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// The kind of error.
    pub code: i64,
    /// The problem and its fix.
    pub message: String,
}

/// The line isn't JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The line is no request, notification or response.
pub const INVALID_REQUEST: i64 = -32600;
/// There is no such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters don't fit the method.
pub const INVALID_PARAMS: i64 = -32602;
/// The request failed.
pub const INTERNAL_ERROR: i64 = -32603;
/// There is no key for the model.
pub const AUTH_REQUIRED: i64 = -32000;
/// There is no such session or file.
pub const NOT_FOUND: i64 = -32002;
/// The client took the request back.
pub const CANCELLED: i64 = -32800;

impl RpcError {
    /// An error of a kind.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// Parameters that don't fit the method.
    pub fn params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// A failure that the client can't do anything about.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(INTERNAL_ERROR, message)
    }
}

/// Reads a line.
///
/// # Errors
/// The error to answer with, and the id to answer to (null if it can't be told).
pub fn parse(line: &str) -> Result<Message, (Value, RpcError)> {
    let mut value: Value = serde_json::from_str(line).map_err(|error| {
        let why = format!("the line isn't JSON: {error}");
        (Value::Null, RpcError::new(PARSE_ERROR, why))
    })?;
    let Some(fields) = value.as_object_mut() else {
        let why = "a message is a JSON object; batches are not supported";
        return Err((Value::Null, RpcError::new(INVALID_REQUEST, why)));
    };
    let id = fields.remove("id");
    if let Some(method) = fields.get("method").and_then(Value::as_str) {
        let method = method.to_owned();
        let params = fields.remove("params").unwrap_or(Value::Null);
        return match id {
            None => Ok(Message::Notification { method, params }),
            Some(id) if id.is_string() || id.is_number() || id.is_null() => {
                Ok(Message::Request { id, method, params })
            }
            Some(_) => Err(invalid(Value::Null, "`id` is a number or a text")),
        };
    }
    let Some(id) = id else {
        return Err(invalid(Value::Null, "a message has a `method` or an `id`"));
    };
    let outcome = match (fields.remove("result"), fields.remove("error")) {
        (_, Some(error)) if !error.is_null() => Err(RpcError {
            code: error["code"].as_i64().unwrap_or(INTERNAL_ERROR),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
        }),
        (Some(result), _) => Ok(result),
        _ => return Err(invalid(id, "a response has a `result` or an `error`")),
    };
    Ok(Message::Response { id, outcome })
}

fn invalid(id: Value, why: &str) -> (Value, RpcError) {
    (id, RpcError::new(INVALID_REQUEST, why))
}

/// The answer to a request.
#[must_use]
pub fn response(id: &Value, outcome: Result<Value, RpcError>) -> Value {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(RpcError { code, message }) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
        }
    }
}

/// A request of ours.
#[must_use]
pub fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A message of ours that wants no answer.
#[must_use]
pub fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_notifications_and_responses_are_told_apart() {
        let parsed = parse(r#"{"jsonrpc":"2.0","id":"a","method":"m","params":{"x":1}}"#);
        let request = Message::Request {
            id: json!("a"),
            method: "m".into(),
            params: json!({"x": 1}),
        };
        assert_eq!(parsed, Ok(request));
        let parsed = parse(r#"{"method":"session/cancel"}"#);
        let notification = Message::Notification {
            method: "session/cancel".into(),
            params: Value::Null,
        };
        assert_eq!(parsed, Ok(notification));
        let parsed = parse(r#"{"id":3,"result":null}"#);
        let response = Message::Response {
            id: json!(3),
            outcome: Ok(Value::Null),
        };
        assert_eq!(parsed, Ok(response));
        let parsed = parse(r#"{"id":3,"error":{"code":-32800,"message":"no"}}"#);
        let response = Message::Response {
            id: json!(3),
            outcome: Err(RpcError::new(CANCELLED, "no")),
        };
        assert_eq!(parsed, Ok(response));
    }

    #[test]
    fn lines_that_are_no_messages_are_answered_with_the_kind_of_error() {
        for (line, id, code) in [
            ("{", Value::Null, PARSE_ERROR),
            ("[]", Value::Null, INVALID_REQUEST),
            ("3", Value::Null, INVALID_REQUEST),
            ("{}", Value::Null, INVALID_REQUEST),
            (r#"{"id":7}"#, json!(7), INVALID_REQUEST),
            (r#"{"id":{},"method":"m"}"#, Value::Null, INVALID_REQUEST),
        ] {
            let (answered, error) = parse(line).unwrap_err();
            assert_eq!((answered, error.code), (id, code), "{line}");
        }
    }
}
