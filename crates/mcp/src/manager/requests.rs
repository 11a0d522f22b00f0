//! Requests to servers: tools, resources, prompts, completions, subscriptions.

use super::entry::{AUTHORISATIONS, ManagedServer, Order, PATIENCE};
use super::{CallOptions, Manager};
use crate::connection::{CallError, Connection, Rounds};
use crate::error::McpError;
use crate::status::State;
use futures::future::BoxFuture;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, CompleteRequest, GetPromptRequest,
    GetPromptRequestParams, ReadResourceRequest, ReadResourceRequestParams,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How long a call waits for lists that the server announced as changed before its answer.
const LISTS_AFTER_CALL: Duration = Duration::from_secs(2);

impl Manager {
    /// Calls a tool and returns the server's `CallToolResult`. Dropping the future cancels the call
    /// at the server.
    ///
    /// # Errors
    /// If the server can't be reached or answers with a protocol error. A failed tool is a result
    /// with `isError`.
    pub async fn call_tool(
        &self,
        server: &str,
        tool: &str,
        arguments: Value,
        options: CallOptions,
    ) -> Result<Value, McpError> {
        let arguments = object(server, arguments)?;
        let entry = self.entry(server)?;
        let limit = options.timeout.or(entry.config.tool_timeout).or(self
            .inner
            .options
            .timeouts
            .tool);
        let make = move |rounds: Option<Rounds>| {
            let mut params =
                CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments.clone());
            (params.input_responses, params.request_state) = Rounds::split(rounds);
            ClientRequest::CallToolRequest(CallToolRequest::new(params))
        };
        let calling = self.with(&entry, |connection| {
            let (make, progress) = (&make, options.progress.clone());
            let meta = options.meta.as_ref();
            Box::pin(async move { connection.ask(make, progress, meta).await })
        });
        let outcome = tokio::select! {
            biased;
            () = options.cancel.cancelled() => return Err(McpError::Cancelled),
            outcome = limited(server, limit, calling) => outcome,
        };
        // A tool that the call added can be used with the next request.
        entry.shared.lists_current(LISTS_AFTER_CALL).await;
        outcome
    }

    /// Reads a resource and returns the server's `ReadResourceResult`.
    ///
    /// # Errors
    /// If the server can't be reached or answers with an error.
    pub async fn read_resource(&self, server: &str, uri: &str) -> Result<Value, McpError> {
        let make = |rounds: Option<Rounds>| {
            let mut params = ReadResourceRequestParams::new(uri);
            (params.input_responses, params.request_state) = Rounds::split(rounds);
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
        };
        self.ask(server, make).await
    }

    /// Gets a prompt and returns the server's `GetPromptResult`.
    ///
    /// # Errors
    /// If the server can't be reached or answers with an error.
    pub async fn get_prompt(
        &self,
        server: &str,
        name: &str,
        arguments: Value,
    ) -> Result<Value, McpError> {
        let arguments = object(server, arguments)?;
        let make = |rounds: Option<Rounds>| {
            let mut params = GetPromptRequestParams::new(name);
            params.arguments = (!arguments.is_empty()).then(|| arguments.clone());
            (params.input_responses, params.request_state) = Rounds::split(rounds);
            ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
        };
        self.ask(server, make).await
    }

    /// Requests completions: `reference` is `{"type": "ref/prompt", "name": …}` or `{"type":
    /// "ref/resource", "uri": …}`. Returns the server's `CompleteResult`.
    ///
    /// # Errors
    /// If the server can't be reached or answers with an error.
    pub async fn complete(
        &self,
        server: &str,
        reference: Value,
        argument: &str,
        value: &str,
    ) -> Result<Value, McpError> {
        let params = json!({"ref": reference, "argument": {"name": argument, "value": value}});
        let params: rmcp::model::CompleteRequestParams =
            serde_json::from_value(params).map_err(|error| McpError::Protocol {
                server: server.to_owned(),
                reason: format!("not a valid reference for completion ({error})"),
            })?;
        let make = |_: Option<Rounds>| {
            ClientRequest::CompleteRequest(CompleteRequest::new(params.clone()))
        };
        self.ask(server, make).await
    }

    /// Subscribes to changes of a resource ([`crate::Change::ResourceUpdated`]).
    ///
    /// # Errors
    /// If the server can't be reached or doesn't support it.
    pub async fn subscribe(&self, server: &str, uri: &str) -> Result<(), McpError> {
        let entry = self.entry(server)?;
        let uri = uri.to_owned();
        self.with(&entry, move |connection| {
            let uri = uri.clone();
            Box::pin(async move { connection.watch(&uri).await })
        })
        .await
    }

    /// Unsubscribes from changes of a resource.
    ///
    /// # Errors
    /// If the server can't be reached.
    pub async fn unsubscribe(&self, server: &str, uri: &str) -> Result<(), McpError> {
        let entry = self.entry(server)?;
        let uri = uri.to_owned();
        self.with(&entry, move |connection| {
            let uri = uri.clone();
            Box::pin(async move { connection.unwatch(&uri).await })
        })
        .await
    }

    /// Notifies servers of changed roots.
    pub async fn roots_changed(&self) {
        for entry in self.entries() {
            let connection = entry.live.lock().connection.clone();
            if let Some(connection) = connection {
                connection.roots_changed().await;
            }
        }
    }

    async fn ask(
        &self,
        server: &str,
        make: impl Fn(Option<Rounds>) -> ClientRequest + Send + Sync,
    ) -> Result<Value, McpError> {
        let entry = self.entry(server)?;
        let limit = entry
            .config
            .tool_timeout
            .or(self.inner.options.timeouts.tool);
        let asking = self.with(&entry, |connection| {
            let make = &make;
            Box::pin(async move { connection.ask(make, None, None).await })
        });
        limited(server, limit, asking).await
    }

    /// Runs a request on a server's connection: waits for a connecting server, authorises if
    /// required, and repeats requests that the server can't have received.
    async fn with<'a, T>(
        &'a self,
        entry: &'a Arc<ManagedServer>,
        run: impl Fn(Arc<Connection>) -> BoxFuture<'a, Result<T, CallError>> + Send + Sync,
    ) -> Result<T, McpError> {
        let mut authorisations = 0;
        let mut repeated = false;
        loop {
            let connection = self.connection(entry).await?;
            match run(connection.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(CallError::Auth(challenge)) => {
                    let Some(authoriser) = &entry.authoriser else {
                        return Err(CallError::Auth(challenge).into_error(&entry.name));
                    };
                    if authorisations == AUTHORISATIONS {
                        return Err(McpError::Auth(format!(
                            "{} still refuses this after signing in {AUTHORISATIONS} times",
                            entry.name
                        )));
                    }
                    authorisations += 1;
                    let outcome = authoriser.authorise(&challenge).await;
                    if let Err(McpError::NeedsAuth(_)) = &outcome {
                        let _ = entry.orders.send(Order::NeedsAuth);
                    }
                    outcome?;
                }
                Err(CallError::Lost { reason, unsent }) => {
                    let _ = entry.orders.send(Order::Lost(connection, reason.clone()));
                    if !unsent || repeated {
                        return Err(CallError::Lost { reason, unsent }.into_error(&entry.name));
                    }
                    repeated = true;
                    self.lost(entry).await;
                }
                Err(error) => return Err(error.into_error(&entry.name)),
            }
        }
    }

    /// Waits until the keeper has noticed a lost connection, so that the next attempt doesn't use
    /// it.
    async fn lost(&self, entry: &Arc<ManagedServer>) {
        let mut pulse = self.inner.pulse.subscribe();
        let seen = async {
            loop {
                pulse.mark_unchanged();
                if entry.live.lock().state != State::Connected || pulse.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(PATIENCE, seen).await;
    }

    /// The connection of a server; waits while it is connecting.
    async fn connection(&self, entry: &Arc<ManagedServer>) -> Result<Arc<Connection>, McpError> {
        let mut pulse = self.inner.pulse.subscribe();
        let found = async {
            loop {
                pulse.mark_unchanged();
                let (state, connection) = {
                    let live = entry.live.lock();
                    (live.state.clone(), live.connection.clone())
                };
                match (state, connection) {
                    (State::Connected, Some(connection)) => return Some(connection),
                    (State::Pending, _) => {}
                    _ => return None,
                }
                if pulse.changed().await.is_err() {
                    return None;
                }
            }
        };
        let start = entry
            .config
            .start_timeout
            .unwrap_or(self.inner.options.timeouts.start);
        match tokio::time::timeout(start + PATIENCE, found).await {
            Ok(Some(connection)) => Ok(connection),
            Ok(None) | Err(_) => Err(entry.not_connected()),
        }
    }
}

async fn limited<T>(
    server: &str,
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, McpError>>,
) -> Result<T, McpError> {
    let Some(limit) = limit else {
        return work.await;
    };
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        Err(McpError::Timeout {
            server: server.to_owned(),
            limit,
        })
    })
}

fn object(server: &str, arguments: Value) -> Result<Map<String, Value>, McpError> {
    match arguments {
        Value::Null => Ok(Map::new()),
        Value::Object(fields) => Ok(fields),
        _ => Err(McpError::Protocol {
            server: server.to_owned(),
            reason: "arguments must be a JSON object".to_owned(),
        }),
    }
}
