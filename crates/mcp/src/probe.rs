//! `lathe mcp probe`: inspects one server with the same client as sessions.
//!
//! It connects with the real manager, runs the given operations in order, and reports the results
//! as text or JSON lines. Nothing here is specific to a server or a test suite, so the observed
//! behaviour is that of sessions.

use crate::auth::{Browser, BrowserError};
use crate::handlers::{
    Elicitation, ElicitationAnswer, ElicitationKind, Handlers, Offers, Root, SamplingRefused,
    form_defaults,
};
use crate::manager::{CallOptions, Manager, Options, ServerItem};
use crate::server::ServerConfig;
use crate::status::{Change, State};
use crate::text;
use futures::future::BoxFuture;
use indexmap::IndexMap;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};

/// The result of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Well,
    NotConnected,
    Failed,
}

/// An operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    Call {
        tool: String,
        arguments: Value,
    },
    /// Call every tool with the minimal arguments of its schema.
    CallAll,
    /// Get a prompt.
    Prompt {
        name: String,
        arguments: Value,
    },
    Read {
        uri: String,
    },
    /// Read the first listed resource.
    ReadFirst,
    Pause(Duration),
    WaitNotification {
        method: String,
    },
}

/// How to answer the server's questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Elicit {
    /// Accept with the defaults of the form.
    AcceptDefaults,
    #[default]
    Decline,
    Cancel,
}

/// The plan of a probe.
#[derive(Debug, Clone)]
pub struct Plan {
    pub name: String,
    pub config: ServerConfig,
    /// The operations in order.
    pub operations: Vec<Operation>,
    pub elicit: Elicit,
    /// The time limit of one operation.
    pub timeout: Duration,
}

/// The channel for lines of the report.
pub type Report = mpsc::UnboundedSender<Value>;

/// Reports requests from the server and answers them according to the plan.
struct Answers {
    elicit: Elicit,
    report: Report,
    roots: Vec<Root>,
}

impl Handlers for Answers {
    fn offers(&self) -> Offers {
        Offers {
            roots: true,
            sampling: false,
            elicitation_form: true,
            elicitation_url: true,
        }
    }

    fn roots(&self) -> Vec<Root> {
        self.roots.clone()
    }

    fn elicit<'a>(
        &'a self,
        _server: &'a str,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitationAnswer> {
        let answer = match (self.elicit, &question.kind) {
            (Elicit::AcceptDefaults, ElicitationKind::Form { schema }) => {
                ElicitationAnswer::Accept(form_defaults(schema))
            }
            (Elicit::AcceptDefaults, ElicitationKind::Url { .. }) => {
                ElicitationAnswer::Accept(json!({}))
            }
            (Elicit::Decline, _) => ElicitationAnswer::Decline,
            (Elicit::Cancel, _) => ElicitationAnswer::Cancel,
        };
        self.line(
            "elicitation",
            &json!({"params": question.params, "action": answer.action()}),
        );
        Box::pin(async move { answer })
    }

    fn sample<'a>(
        &'a self,
        _server: &'a str,
        _request: Value,
    ) -> BoxFuture<'a, Result<Value, SamplingRefused>> {
        Box::pin(async { Err(SamplingRefused("a probe has no model".to_owned())) })
    }
}

impl Answers {
    fn line(&self, kind: &str, fields: &Value) {
        let _ = self.report.send(line(kind, fields));
    }
}

/// Reports pages before opening them.
struct Shown {
    browser: Arc<dyn Browser>,
    report: Report,
}

impl Browser for Shown {
    fn open<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), BrowserError>> {
        let _ = self.report.send(line("authorize", &json!({"url": url})));
        self.browser.open(url)
    }
}

/// One line of a report: its type first, then the fields.
fn line(kind: &str, fields: &Value) -> Value {
    let mut line = json!({"type": kind});
    if let (Some(line), Some(fields)) = (line.as_object_mut(), fields.as_object()) {
        line.extend(fields.clone());
    }
    line
}

/// Runs a plan. Lines are sent to `report` as they occur.
pub async fn run(plan: Plan, mut options: Options, report: Report) -> Outcome {
    let say = |kind: &str, fields: Value| {
        let _ = report.send(line(kind, &fields));
    };
    if let Some(browser) = options.browser.take() {
        options.browser = Some(Arc::new(Shown {
            browser,
            report: report.clone(),
        }));
    }
    options.timeouts.start = plan.timeout;
    let uri = url::Url::from_directory_path(&options.environment.cwd).ok();
    let handlers = Arc::new(Answers {
        elicit: plan.elicit,
        report: report.clone(),
        roots: uri
            .map(|uri| Root {
                uri: uri.to_string(),
                name: None,
            })
            .into_iter()
            .collect(),
    });
    let manager = Manager::new(options, handlers);
    let mut changes = manager.changes();
    let told = lathe_spawn::task(tell(manager.changes(), report.clone()));
    manager.set_servers(IndexMap::from([(plan.name.clone(), plan.config.clone())]));
    // The user's time at a browser must not count as start-up time, which is limited elsewhere.
    manager.settled(Duration::from_secs(600)).await;
    let outcome = match manager.server(&plan.name) {
        Some(status) if status.state == State::Connected => {
            let description = status.description.clone().unwrap_or_default();
            say(
                "connected",
                json!({
                    "server": description.info,
                    "protocolVersion": description.protocol_version,
                    "capabilities": description.capabilities,
                    "transport": status.transport,
                }),
            );
            lists(&manager, &report);
            for remark in &status.remarks {
                say("remark", json!({"text": remark.to_string()}));
            }
            let probe = Probe {
                manager: &manager,
                plan: &plan,
                report: &report,
            };
            probe.operations(&mut changes).await
        }
        status => {
            let reason = match status.map(|status| status.state) {
                Some(State::Failed { reason }) => reason,
                Some(State::NeedsAuth) => {
                    "it requires a sign-in, which is not possible here".to_owned()
                }
                other => other.map_or("gone", |state| state.word()).to_owned(),
            };
            say("failed", json!({"error": reason}));
            Outcome::NotConnected
        }
    };
    manager.shutdown().await;
    told.abort();
    say("closed", json!({}));
    outcome
}

fn lists(manager: &Manager, report: &Report) {
    let items = |items: Vec<ServerItem>| -> Vec<Value> {
        items.into_iter().map(|item| item.item).collect()
    };
    for (kind, items) in [
        ("tools", items(manager.tools())),
        ("resources", items(manager.resources())),
        ("resourceTemplates", items(manager.resource_templates())),
        ("prompts", items(manager.prompts())),
    ] {
        let _ = report.send(line(kind, &json!({"items": items})));
    }
}

/// Report notifications as they arrive.
async fn tell(mut changes: broadcast::Receiver<Change>, report: Report) {
    loop {
        match changes.recv().await {
            Ok(Change::Notification { method, params, .. }) => {
                let _ = report.send(line(
                    "notification",
                    &json!({"method": method, "params": params}),
                ));
            }
            Ok(Change::Notice { text, .. }) => {
                let _ = report.send(line("notice", &json!({"text": text})));
            }
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

struct Probe<'a> {
    manager: &'a Manager,
    plan: &'a Plan,
    report: &'a Report,
}

impl Probe<'_> {
    fn say(&self, kind: &str, fields: &Value) {
        let _ = self.report.send(line(kind, fields));
    }

    async fn operations(&self, changes: &mut broadcast::Receiver<Change>) -> Outcome {
        let mut outcome = Outcome::Well;
        for operation in &self.plan.operations {
            if !self.operation(operation, changes).await {
                outcome = Outcome::Failed;
            }
        }
        outcome
    }

    /// Runs one operation; returns false on failure.
    async fn operation(
        &self,
        operation: &Operation,
        changes: &mut broadcast::Receiver<Change>,
    ) -> bool {
        let server = &self.plan.name;
        match operation {
            Operation::Call { tool, arguments } => self.call(tool, arguments.clone()).await,
            Operation::CallAll => {
                let mut well = true;
                for tool in self.manager.tools() {
                    let name = tool
                        .item
                        .get("name")
                        .and_then(Value::as_str)
                        .unwrap_or_default();
                    let schema = tool.item.get("inputSchema").cloned().unwrap_or_default();
                    well &= self.call(name, least(&schema, 0)).await;
                }
                well
            }
            Operation::Prompt { name, arguments } => {
                let answer = self.manager.get_prompt(server, name, arguments.clone());
                self.finish("prompt", &json!({"name": name}), answer).await
            }
            Operation::Read { uri } => {
                let answer = self.manager.read_resource(server, uri);
                self.finish("resource", &json!({"uri": uri}), answer).await
            }
            Operation::ReadFirst => match self.manager.resources().first() {
                Some(resource) => {
                    let uri = resource
                        .item
                        .get("uri")
                        .and_then(Value::as_str)
                        .unwrap_or_default();
                    let answer = self.manager.read_resource(server, uri);
                    self.finish("resource", &json!({"uri": uri}), answer).await
                }
                None => {
                    self.say(
                        "resource",
                        &json!({"ok": false, "error": "the server has no resources"}),
                    );
                    false
                }
            },
            Operation::Pause(time) => {
                tokio::time::sleep(*time).await;
                true
            }
            Operation::WaitNotification { method } => {
                let wait = async {
                    loop {
                        match changes.recv().await {
                            Ok(Change::Notification { method: seen, .. }) if seen == *method => {
                                return true;
                            }
                            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                            Err(broadcast::error::RecvError::Closed) => return false,
                        }
                    }
                };
                let seen = tokio::time::timeout(self.plan.timeout, wait).await;
                if seen != Ok(true) {
                    self.say(
                        "notification",
                        &json!({"method": method, "ok": false, "error": "it didn't come"}),
                    );
                }
                seen == Ok(true)
            }
        }
    }

    async fn call(&self, tool: &str, arguments: Value) -> bool {
        let (progress, mut told) = mpsc::channel(64);
        let options = CallOptions {
            progress: Some(progress),
            timeout: Some(self.plan.timeout),
            ..CallOptions::default()
        };
        let report = self.report.clone();
        let name = tool.to_owned();
        let following = lathe_spawn::task(async move {
            while let Some(step) = told.recv().await {
                let fields = json!({
                    "tool": name, "progress": step.progress, "total": step.total, "message": step.message,
                });
                let _ = report.send(line("progress", &fields));
            }
        });
        let answer = self
            .manager
            .call_tool(&self.plan.name, tool, arguments, options)
            .await;
        // Report progress before the result.
        let _ = following.await;
        let (ok, fields) = match answer {
            Ok(result) => {
                let ok = result.get("isError") != Some(&Value::Bool(true));
                (ok, json!({"tool": tool, "ok": ok, "result": result}))
            }
            Err(error) => (
                false,
                json!({"tool": tool, "ok": false, "error": error.to_string()}),
            ),
        };
        self.say("call", &fields);
        ok
    }

    async fn finish(
        &self,
        kind: &str,
        what: &Value,
        answer: impl Future<Output = Result<Value, crate::McpError>>,
    ) -> bool {
        let answer = tokio::time::timeout(self.plan.timeout, answer).await;
        let (ok, field, value) = match answer {
            Ok(Ok(result)) => (true, "result", result),
            Ok(Err(error)) => (false, "error", Value::from(error.to_string())),
            Err(_) => (false, "error", Value::from("it took too long")),
        };
        let mut fields = what.clone();
        fields["ok"] = ok.into();
        fields[field] = value;
        self.say(kind, &fields);
        ok
    }
}

/// A minimal value for a schema: required fields, with defaults, first choices, or the simplest
/// value of the type.
#[must_use]
pub fn least(schema: &Value, depth: usize) -> Value {
    if let Some(value) = schema.get("default").or_else(|| schema.get("const")) {
        return value.clone();
    }
    if let Some(first) = schema.get("enum").and_then(|choices| choices.get(0)) {
        return first.clone();
    }
    if let Some(first) = schema
        .get("anyOf")
        .or_else(|| schema.get("oneOf"))
        .and_then(|any| any.get(0))
    {
        return least(first, depth + 1);
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        Some(kind) => kind.as_str(),
        None => schema.get("properties").map(|_| "object"),
    };
    match kind {
        Some("object") if depth < 8 => {
            let mut value = serde_json::Map::new();
            let required = schema.get("required").and_then(Value::as_array);
            for name in required.into_iter().flatten().filter_map(Value::as_str) {
                let property = schema.get("properties").and_then(|all| all.get(name));
                value.insert(
                    name.to_owned(),
                    least(property.unwrap_or(&Value::Null), depth + 1),
                );
            }
            Value::Object(value)
        }
        Some("array") => json!([]),
        Some("integer") => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        Some("number") => schema.get("minimum").cloned().unwrap_or_else(|| 1.0.into()),
        Some("boolean") => true.into(),
        Some("null") => Value::Null,
        Some("object") => json!({}),
        _ => "test".into(),
    }
}

/// A line of a report as text.
#[must_use]
pub fn words(line: &Value) -> String {
    let field = |name: &str| line.get(name).cloned().unwrap_or_default();
    let word = |name: &str| match field(name) {
        Value::String(word) => word,
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let names = || {
        let items = field("items");
        let items = items.as_array().into_iter().flatten();
        let names = items.filter_map(|item| {
            let name = item
                .get("name")
                .or_else(|| item.get("uri"))
                .or_else(|| item.get("uriTemplate"))?;
            name.as_str().map(str::to_owned)
        });
        names.collect::<Vec<_>>()
    };
    let outcome = || {
        let (mark, rest) = if field("ok") == Value::Bool(false) {
            (
                "failed",
                if line.get("error").is_some() {
                    word("error")
                } else {
                    word("result")
                },
            )
        } else {
            ("ok", word("result"))
        };
        format!("{mark}: {rest}")
    };
    let text = match word("type").as_str() {
        "connected" => format!(
            "connected to {} {} over {}, protocol {}",
            field("server")
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or("a server without a name"),
            field("server")
                .get("version")
                .and_then(Value::as_str)
                .unwrap_or_default(),
            word("transport"),
            word("protocolVersion")
        ),
        "failed" => format!("not connected: {}", word("error")),
        kind @ ("tools" | "resources" | "resourceTemplates" | "prompts") => {
            let names = names();
            format!("{kind} ({}): {}", names.len(), names.join(", "))
        }
        "call" => format!("call {}: {}", word("tool"), outcome()),
        "prompt" => format!("prompt {}: {}", word("name"), outcome()),
        "resource" => format!("resource {}: {}", word("uri"), outcome()),
        "elicitation" => format!("elicitation, answered with {}", word("action")),
        "progress" => format!(
            "progress {} of {} {}",
            word("progress"),
            word("total"),
            word("message")
        ),
        "notification" => format!("notification {} {}", word("method"), word("error")),
        "authorize" => format!("open this page if no browser does: {}", word("url")),
        "remark" | "notice" => word("text"),
        kind => kind.to_owned(),
    };
    text::clean(text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_value_of_a_schema_is_what_it_requires() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": {"type": "integer", "minimum": 3}, "b": {"type": "string"},
                "c": {"enum": ["x", "y"]}, "d": {"type": "number", "default": 2.5},
                "e": {"type": "object", "properties": {"f": {"type": ["boolean", "null"]}}, "required": ["f"]},
                "unused": {"type": "string"},
            },
            "required": ["a", "b", "c", "d", "e", "gone"],
        });
        assert_eq!(
            least(&schema, 0),
            json!({"a": 3, "b": "test", "c": "x", "d": 2.5, "e": {"f": true}, "gone": "test"})
        );
        assert_eq!(least(&json!({}), 0), "test");
    }

    #[test]
    fn words_hold_no_escapes() {
        let line = json!({"type": "call", "tool": "t", "ok": false, "error": "a\u{1b}[31mb"});
        assert_eq!(words(&line), "call t: failed: ab");
    }
}
