//! Being a server: the protocol side. What is served is handed in ([`Served`]); here it is put on the wire, in
//! both eras of the protocol, over standard input and output ([`stdio`]) or HTTP (`http`).
//!
//! Over HTTP only this machine's own programs are meant to get in: the name in the `Host` header must be this
//! machine's, and a page in a browser (which sends an `Origin`) is refused unless it is served from here.

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

/// What is served.
pub trait Served: Send + Sync + 'static {
    /// The tools, entries of `tools/list`.
    fn tools(&self) -> Vec<Value>;

    /// Calls one and gives a `CallToolResult`; `None` when there is none of that name. A tool that failed is a
    /// result with `isError`.
    fn call<'a>(&'a self, call: ServedCall<'a>) -> BoxFuture<'a, Option<Value>>;
}

/// A call of a client.
pub struct ServedCall<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Its arguments.
    pub arguments: Value,
    /// The client gave the call up.
    pub cancel: CancellationToken,
    /// Takes what is being done, in a line.
    pub progress: Arc<dyn Fn(String) + Send + Sync>,
}

/// How the server introduces itself.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it tells the model of a client.
    pub instructions: String,
}

/// Why it can't be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client's first words are not in the protocol, or it went away.
    #[error("the client could not be served: {0}")]
    Client(String),
    /// The address can't be used.
    #[error("{address} can't be served on: {error}")]
    Address {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// Serving to other machines is not offered.
    #[error(
        "{0} is not an address of this machine; serve on 127.0.0.1 or [::1], since whoever reaches the port can use the tools"
    )]
    NotLocal(std::net::SocketAddr),
}

/// One client's side.
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

/// Tells the client how a call goes on, if it wants to know.
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
            // A client that is gone needs no progress.
            let _ = peer.notify_progress(said).await;
        });
    })
}

/// Serves one client over standard input and output, until it closes them.
///
/// # Errors
/// When the client doesn't speak the protocol.
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
