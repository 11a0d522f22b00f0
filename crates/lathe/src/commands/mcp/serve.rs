//! `lathe mcp serve`: offers the built-in tools to other programs.
//!
//! The tools run in the folder that the server was started in, under its permission rules and hooks. There is no
//! user to ask: a call that needs confirmation is refused, and the refusal names the rule that would allow it.

use super::ServeArguments;
use crate::commands::{places, stopped_by_signals};
use crate::error::{Kinded as _, Outcome, notice};
use futures::future::BoxFuture;
use lathe_engine::{PermissionOptions, SessionOptions, SessionTools, ToolAnswer, ToolOptions};
use lathe_headless::exit::Exit;
use lathe_mcp::serve::{self, Identity, Served, ServedCall};
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::event::{Event, NoticeLevel};
use lathe_settings::{Environment, Variable};
use lathe_tools::ToolDefinition;
use serde_json::{Value, json};
use std::sync::Arc;

/// Instructions for clients.
const INSTRUCTIONS: &str = "Tools that read, search and change files and run commands in one folder. They follow the permission rules of that folder; a refusal names the rule that would allow the call.";
/// Tools that change nothing.
const READING: [&str; 4] = ["Glob", "Grep", "Read", "TaskOutput"];

struct Tools {
    session: SessionTools,
    list: Vec<ToolDefinition>,
}

impl Served for Tools {
    fn tools(&self) -> Vec<Value> {
        let entry = |tool: &ToolDefinition| {
            let reads = READING.contains(&tool.name.as_str());
            json!({
                "name": tool.name, "description": tool.description,
                "inputSchema": tool.input_schema, "annotations": {"readOnlyHint": reads},
            })
        };
        self.list.iter().map(entry).collect()
    }

    fn call<'a>(&'a self, call: ServedCall<'a>) -> BoxFuture<'a, Option<Value>> {
        Box::pin(async move {
            (call.progress)(format!("{} runs", call.tool));
            let answer = self.session.call(call.tool, call.arguments, call.cancel);
            Some(result(answer.await?))
        })
    }
}

/// A `CallToolResult`.
fn result(answer: ToolAnswer) -> Value {
    let content: Vec<Value> = match answer.content {
        Content::Text(text) => vec![json!({"type": "text", "text": text})],
        Content::Blocks(blocks) => blocks.iter().map(block).collect(),
    };
    json!({"content": content, "isError": answer.is_error})
}

fn block(block: &ContentBlock) -> Value {
    let value = serde_json::to_value(block).unwrap_or_default();
    match block {
        ContentBlock::Text(text) => json!({"type": "text", "text": text.text}),
        ContentBlock::Image(_) => json!({
            "type": "image",
            "data": value.pointer("/source/data").cloned().unwrap_or_default(),
            "mimeType": value.pointer("/source/media_type").cloned().unwrap_or_default(),
        }),
        ContentBlock::Document(_) => json!({"type": "resource", "resource": {
            "uri": "document:",
            "mimeType": value.pointer("/source/media_type").cloned().unwrap_or_default(),
            "blob": value.pointer("/source/data").cloned().unwrap_or_default(),
        }}),
        _ => json!({"type": "text", "text": value.to_string()}),
    }
}

/// Serves until the client disconnects or a signal arrives.
pub(super) async fn run(environment: Environment, arguments: ServeArguments) -> Outcome {
    let options = SessionOptions {
        tools: ToolOptions {
            only: arguments.tools.as_ref().map(|names| {
                let names = names.split([',', ' ']).map(str::trim);
                names
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned)
                    .collect()
            }),
            ..ToolOptions::default()
        },
        permissions: PermissionOptions {
            allow: arguments.allowed_tools,
            deny: arguments.disallowed_tools,
            mode: arguments.permission_mode,
            folders: arguments.add_dir,
            ..PermissionOptions::default()
        },
        ..SessionOptions::default()
    };
    let environment = places(environment).environment;
    let given = environment.get(Variable::McpServeToken).map(str::to_owned);
    let is_new = given.is_none();
    let token = given.unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
    let (session, mut events, remarks) =
        SessionTools::open(environment, options).await.or_usage()?;
    for remark in &remarks {
        notice(&remark.to_string());
    }
    let telling = lathe_spawn::task(async move {
        while let Some(event) = events.next().await {
            if let Event::Notice {
                level: NoticeLevel::Warning | NoticeLevel::Error,
                text,
                ..
            } = event
            {
                notice(&text);
            }
        }
    });
    let cancel = stopped_by_signals()?;
    let identity = Identity {
        name: "lathe".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: INSTRUCTIONS.to_owned(),
    };
    let list = session.tools().await;
    let tools = Arc::new(Tools { session, list });
    let outcome = match arguments.http {
        None => serve::stdio(tools.clone(), identity, cancel).await,
        Some(address) => match serve::bind(address, &token).await {
            Ok(server) => {
                notice(&format!("serving MCP at {}", server.url()));
                if is_new {
                    notice(&format!(
                        "clients send the header Authorization: Bearer {token}"
                    ));
                }
                server.serve(tools.clone(), identity, cancel).await;
                Ok(())
            }
            Err(error) => Err(error),
        },
    };
    if let Ok(tools) = Arc::try_unwrap(tools).map_err(drop) {
        tools.session.finish().await;
    }
    telling.abort();
    outcome.or_failure()?;
    Ok(Exit::Success)
}
