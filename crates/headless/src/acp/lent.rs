//! Services of the client for the tools of a session: files with their unsaved changes, and terminals.

use super::capabilities::ClientCapabilities;
use super::client::Client;
use super::tool_calls;
use futures::future::BoxFuture;
use lathe_tools::editor::{Editor, EditorError, Lends, TerminalCommand, TerminalEnd, TerminalRun};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::OnceLock;

/// The client, as the tools of one session see it.
pub(super) struct Lent {
    client: Client,
    lends: Lends,
    /// Known once the session is open; no tool runs before.
    session: OnceLock<String>,
}

impl Lent {
    pub(super) fn new(client: Client, able: ClientCapabilities) -> Self {
        Self {
            client,
            lends: able.lends,
            session: OnceLock::new(),
        }
    }

    pub(super) fn opened(&self, session: &str) {
        let _ = self.session.set(session.to_owned());
    }

    /// Asks the client something about this session.
    async fn ask(&self, method: &str, mut params: Value) -> Result<Value, EditorError> {
        if let Some(fields) = params.as_object_mut() {
            let session = self.session.get().cloned().unwrap_or_default();
            fields.insert("sessionId".to_owned(), session.into());
        }
        self.client
            .request(method, &params)
            .await
            .map_err(|error| EditorError::Refused(error.to_string()))
    }

    async fn run_in_terminal(
        &self,
        command: TerminalCommand<'_>,
    ) -> Result<TerminalRun, EditorError> {
        let variables: Vec<Value> = command
            .variables
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        let params = json!({
            "command": command.program, "args": command.arguments, "env": variables,
            "cwd": command.folder, "outputByteLimit": command.output_limit,
        });
        let created = self.ask("terminal/create", params).await?;
        let Some(id) = created["terminalId"].as_str() else {
            let why = "terminal/create was answered without a terminalId";
            return Err(EditorError::Refused(why.to_owned()));
        };
        let terminal = Terminal { lent: self, id };
        if let Some(session) = self.session.get() {
            let update = json!({
                "sessionUpdate": "tool_call_update", "toolCallId": command.call,
                "content": [tool_calls::terminal_content(id)],
            });
            self.client.update(session, &update);
        }
        let named = || json!({"terminalId": id});
        let end = tokio::select! {
            biased;
            () = command.cancel.cancelled() => Some(TerminalEnd::Cancelled),
            exit = self.ask("terminal/wait_for_exit", named()) => exit_of(&exit?),
            () = tokio::time::sleep(command.timeout) => Some(TerminalEnd::TimedOut),
        };
        if matches!(end, Some(TerminalEnd::Cancelled | TerminalEnd::TimedOut)) {
            self.ask("terminal/kill", named()).await?;
        }
        let output = self.ask("terminal/output", named()).await?;
        let end = end.or_else(|| exit_of(&output["exitStatus"]));
        drop(terminal);
        Ok(TerminalRun {
            terminal: id.to_owned(),
            output: output["output"].as_str().unwrap_or_default().to_owned(),
            truncated: output["truncated"] == true,
            end: end.unwrap_or(TerminalEnd::Exited(0)),
        })
    }
}

impl Editor for Lent {
    fn lends(&self) -> Lends {
        self.lends
    }

    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, EditorError>> {
        Box::pin(async move {
            let answer = self.ask("fs/read_text_file", json!({"path": path})).await?;
            let text = answer["content"].as_str().map(str::to_owned);
            text.ok_or_else(|| EditorError::Refused("there is no content".to_owned()))
        })
    }

    fn write<'a>(
        &'a self,
        path: &'a Path,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), EditorError>> {
        Box::pin(async move {
            let params = json!({"path": path, "content": text});
            self.ask("fs/write_text_file", params).await.map(drop)
        })
    }

    fn run<'a>(
        &'a self,
        command: TerminalCommand<'a>,
    ) -> BoxFuture<'a, Result<TerminalRun, EditorError>> {
        Box::pin(self.run_in_terminal(command))
    }
}

/// How a command ended; `None` where the client doesn't say.
fn exit_of(status: &Value) -> Option<TerminalEnd> {
    let signal = status["signal"].as_str().filter(|name| !name.is_empty());
    if let Some(signal) = signal {
        return Some(TerminalEnd::Signalled(signal.to_owned()));
    }
    let code = status["exitCode"].as_i64()?;
    Some(TerminalEnd::Exited(i32::try_from(code).unwrap_or(-1)))
}

/// A terminal that is given back, whatever happens: that ends what still runs in it.
struct Terminal<'a> {
    lent: &'a Lent,
    id: &'a str,
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let client = self.lent.client.clone();
        let session = self.lent.session.get().cloned().unwrap_or_default();
        let params = json!({"sessionId": session, "terminalId": self.id});
        lathe_spawn::task(async move {
            let _ = client.request("terminal/release", &params).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_command_is_a_code_or_a_signal() {
        for (status, end) in [
            (
                json!({"exitCode": 3, "signal": null}),
                Some(TerminalEnd::Exited(3)),
            ),
            (
                json!({"exitCode": null, "signal": "SIGKILL"}),
                Some(TerminalEnd::Signalled("SIGKILL".to_owned())),
            ),
            (json!({}), None),
            (Value::Null, None),
        ] {
            assert_eq!(exit_of(&status), end, "{status}");
        }
    }
}
