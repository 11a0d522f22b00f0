//! The protocol side of serving. The tools are provided by [`Served`]; this module implements both
//! eras of the protocol over standard input and output ([`stdio`]) or HTTP (`http`).
//!
//! Over HTTP, only local programs have access: the `Host` header must name this machine, and pages
//! in a browser (which send an `Origin`) are refused unless they are local.

mod http;

pub use http::{BoundServer, bind};

use futures::future::BoxFuture;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt as _};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio_util::sync::CancellationToken;

/// The tools to serve.
pub trait Served: Send + Sync + 'static {
    /// Entries of `tools/list`.
    fn tools(&self) -> Vec<Value>;

    /// Calls a tool and returns a `CallToolResult`; `None` if there is no such tool. A failed tool
    /// is a result with `isError`.
    fn call<'a>(&'a self, call: ServedCall<'a>) -> BoxFuture<'a, Option<Value>>;
}

pub struct ServedCall<'a> {
    pub tool: &'a str,
    pub arguments: Value,
    /// Cancelled by the client.
    pub cancel: CancellationToken,
    /// Receives progress as a line of text.
    pub progress: Arc<dyn Fn(String) + Send + Sync>,
}

#[derive(Debug, Clone)]
pub struct Identity {
    pub name: String,
    pub version: String,
    /// Instructions for the client's model.
    pub instructions: String,
}

/// Why serving failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client violated the protocol, or disconnected.
    #[error("the client could not be served: {0}")]
    Client(String),
    #[error("{address} can't be served on: {error}")]
    Address {
        address: std::net::SocketAddr,
        error: std::io::Error,
    },
    /// Serving to other machines is not supported.
    #[error(
        "{0} is not an address of this machine; serve on 127.0.0.1 or [::1], since everyone who can reach the port can use the tools"
    )]
    NotLocal(std::net::SocketAddr),
}

#[derive(Clone)]
pub(crate) struct Handler {
    served: Arc<dyn Served>,
    identity: Arc<Identity>,
}

impl Handler {
    fn new(served: Arc<dyn Served>, identity: Identity) -> Self {
        Self {
            served,
            identity: Arc::new(identity),
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let said = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": self.identity.name, "version": self.identity.version},
            "instructions": self.identity.instructions,
        });
        serde_json::from_value(said).unwrap_or_default()
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut list = ListToolsResult::default();
        for tool in self.served.tools() {
            let tool = serde_json::from_value(tool).map_err(|error| {
                ErrorData::internal_error(format!("a tool can't be described: {error}"), None)
            })?;
            list.tools.push(tool);
        }
        Ok(list)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.to_string();
        let progress = progress_of(&context);
        let result = self
            .served
            .call(ServedCall {
                tool: &name,
                arguments: Value::Object(request.arguments.unwrap_or_default()),
                cancel: context.ct.clone(),
                progress,
            })
            .await;
        let Some(result) = result else {
            return Err(ErrorData::invalid_params(
                format!("there is no tool {name}"),
                None,
            ));
        };
        let result: CallToolResult = serde_json::from_value(result).map_err(|error| {
            ErrorData::internal_error(format!("the result can't be sent: {error}"), None)
        })?;
        Ok(result.into())
    }
}

/// Sends progress to the client, if it asked for it.
fn progress_of(context: &RequestContext<RoleServer>) -> Arc<dyn Fn(String) + Send + Sync> {
    let Some(token) = context.meta.get_progress_token() else {
        return Arc::new(|_| {});
    };
    let peer = context.peer.clone();
    let count = AtomicU64::new(0);
    Arc::new(move |message| {
        let step = count.fetch_add(1, Ordering::Relaxed) + 1;
        let said = json!({"progressToken": token, "progress": step, "message": message});
        let Ok(said) = serde_json::from_value::<ProgressNotificationParam>(said) else {
            return;
        };
        let peer = peer.clone();
        lathe_spawn::task(async move {
            // Errors are ignored: the client may be gone.
            let _ = peer.notify_progress(said).await;
        });
    })
}

/// Serves one client over standard input and output until it closes them.
///
/// # Errors
/// If the client violates the protocol.
pub async fn stdio(
    served: Arc<dyn Served>,
    identity: Identity,
    cancel: CancellationToken,
) -> Result<(), ServeError> {
    let handler = Handler::new(served, identity);
    let serving = handler.serve(rmcp::transport::io::stdio());
    let running = tokio::select! {
        running = serving => running.map_err(|error| ServeError::Client(error.to_string()))?,
        () = cancel.cancelled() => return Ok(()),
    };
    let ending = running.cancellation_token();
    tokio::select! {
        ended = running.waiting() => {
            ended.map_err(|error| ServeError::Client(error.to_string()))?;
        }
        () = cancel.cancelled() => ending.cancel(),
    }
    Ok(())
}
