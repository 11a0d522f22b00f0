//! Questions in the plain mode: each is asked in lines and answered by one line, or by one line for each
//! of its parts.

use super::{ask, say};
use crate::layers::PermissionDialog;
use crate::layers::elicitation::error::FieldError;
use crate::layers::permission::{beside_rules, change_of, is_dangerous, worth_keeping};
use crate::render::cell;
use crate::render::text::{clean, reveal};
use lathe_permissions::format_rule;
use lathe_protocol::elicitation::{ElicitationKind, ElicitationReply, ElicitationRequest};
use lathe_protocol::ids::RequestId;
use lathe_protocol::op::Op;
use lathe_protocol::permission::{
    PermissionMode, PermissionReply, PermissionRequest, PermissionUpdate,
};
use lathe_tools::ask_user_question::{self, Question};
use lathe_tools::plan_mode;
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::Arc;

/// A question, and how far the user is with it.
pub(super) enum Asking {
    Permission(Arc<PermissionRequest>),
    Questions {
        request: Arc<PermissionRequest>,
        questions: Vec<Question>,
        answers: Vec<(String, String)>,
    },
    Plan(Arc<PermissionRequest>),
    Form {
        request: Arc<ElicitationRequest>,
        /// The fields to fill in: name, schema, whether it is required.
        left: Vec<(String, Value, bool)>,
        content: Map<String, Value>,
        problem: Option<String>,
    },
    Page(Arc<ElicitationRequest>),
}

impl Asking {
    /// The question of a call.
    pub(super) fn of_call(request: Arc<PermissionRequest>) -> Self {
        if request.tool_name == ask_user_question::NAME
            && let Some(questions) = ask_user_question::questions(&request.input)
            && !questions.is_empty()
        {
            return Self::Questions {
                request,
                questions,
                answers: Vec::new(),
            };
        }
        if request.tool_name == plan_mode::EXIT && plan_mode::plan_of(&request.input).is_some() {
            return Self::Plan(request);
        }
        Self::Permission(request)
    }

    /// The question of an MCP server.
    pub(super) fn of_server(request: Arc<ElicitationRequest>) -> Self {
        let ElicitationKind::Form { requested_schema } = &request.kind else {
            return Self::Page(request);
        };
        let required: Vec<&str> = requested_schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let left = requested_schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, schema)| {
                (
                    name.clone(),
                    schema.clone(),
                    required.contains(&name.as_str()),
                )
            })
            .collect();
        Self::Form {
            request,
            left,
            content: Map::new(),
            problem: None,
        }
    }

    pub(super) fn id(&self) -> &RequestId {
        match self {
            Self::Permission(request) | Self::Plan(request) | Self::Questions { request, .. } => {
                &request.request_id
            }
            Self::Form { request, .. } | Self::Page(request) => &request.request_id,
        }
    }

    /// Says what has to be answered next.
    pub(super) fn ask(&self, cwd: &Path) {
        match self {
            Self::Permission(request) => {
                say(&format!(
                    "\nAllow {}: {}",
                    request.tool_name,
                    reveal(&cell::subject(&request.tool_name, &request.input, cwd))
                ));
                for line in in_full(request) {
                    say(&format!("    {line}"));
                }
                if is_dangerous(request) {
                    say("  this is dangerous");
                }
                for reason in PermissionDialog::new(request.clone(), cwd).reasons() {
                    say(&format!("  why it asks: {}", clean(&reason)));
                }
                for rule in rules_of(request) {
                    say(&format!("  a saves the rule: allow {}", reveal(&rule)));
                }
                for words in worth_keeping(request).iter().filter_map(beside_rules) {
                    say(&format!("  a means: {}", clean(&words)));
                }
                ask(if worth_keeping(request).is_empty() {
                    "  y yes, n no, or say why not: "
                } else {
                    "  y yes, a always, n no, or say why not: "
                });
            }
            Self::Questions {
                questions, answers, ..
            } => {
                let Some(question) = questions.get(answers.len()) else {
                    return;
                };
                say(&format!("\n{}", clean(&question.question)));
                for (index, option) in question.options.iter().enumerate() {
                    say(&format!(
                        "  {}. {}: {}",
                        index + 1,
                        clean(&option.label),
                        clean(&option.description)
                    ));
                }
                ask(if question.multi_select {
                    "  numbers separated by commas, or your own answer: "
                } else {
                    "  a number, or your own answer: "
                });
            }
            Self::Plan(request) => {
                let plan = plan_mode::plan_of(&request.input).unwrap_or_default();
                say(&format!("\nThe plan:\n{}", clean(plan)));
                ask(
                    "  y go ahead, a go ahead and accept edits from now on, n not yet, or say what to change: ",
                );
            }
            Self::Form {
                request,
                left,
                content,
                problem,
            } => {
                if content.is_empty() && problem.is_none() {
                    say(&format!(
                        "\nThe MCP server {} asks: {}",
                        clean(&request.mcp_server_name),
                        clean(&request.message)
                    ));
                    say("  an empty line accepts the default, a single . declines");
                }
                if let Some(problem) = problem {
                    say(&format!("  {}", clean(problem)));
                }
                if let Some((name, schema, required)) = left.first() {
                    ask(&field_words(name, schema, *required));
                } else {
                    ask("  y send, n don't: ");
                }
            }
            Self::Page(request) => {
                let url = match &request.kind {
                    ElicitationKind::Url { url, .. } => reveal(url),
                    ElicitationKind::Form { .. } => String::new(),
                };
                say(&format!(
                    "\nThe MCP server {} asks: {}\n  open this page: {url}",
                    clean(&request.mcp_server_name),
                    clean(&request.message)
                ));
                ask("  y done, n don't: ");
            }
        }
    }

    /// Takes a line as an answer. Gives what to tell the engine when the question is answered; `None` when
    /// more has to be asked.
    pub(super) fn answer(&mut self, line: &str) -> Option<Op> {
        let line = line.trim();
        match self {
            Self::Permission(request) => {
                let reply = match line {
                    "y" | "yes" => PermissionReply::allow(),
                    "a" | "always" if worth_keeping(request).is_empty() => {
                        say("  No rule would fit again; y allows it this once.");
                        return None;
                    }
                    "a" | "always" => always(request),
                    "" | "n" | "no" => PermissionReply::deny(
                        "The user refused this. Stop and wait for their next message.",
                    ),
                    words => {
                        PermissionReply::deny(format!("The user refused this and said: {words}"))
                    }
                };
                Some(permission(request, reply))
            }
            Self::Questions {
                request,
                questions,
                answers,
            } => {
                let question = questions.get(answers.len())?;
                if line.is_empty() {
                    return None;
                }
                answers.push((question.question.clone(), chosen(question, line)));
                if answers.len() < questions.len() {
                    return None;
                }
                let reply = ask_user_question::answer(&request.input, answers);
                Some(permission(request, reply))
            }
            Self::Plan(request) => {
                let reply = match line {
                    "y" | "yes" => plan_mode::approve(PermissionMode::Default),
                    "a" => plan_mode::approve(PermissionMode::AcceptEdits),
                    "" | "n" | "no" => plan_mode::keep_planning(""),
                    words => plan_mode::keep_planning(words),
                };
                Some(permission(request, reply))
            }
            Self::Form {
                request,
                left,
                content,
                problem,
            } => {
                *problem = None;
                if line == "." {
                    return Some(elicited(request, ElicitationReply::Cancel));
                }
                let Some((name, schema, required)) = left.first() else {
                    let reply = if matches!(line, "y" | "yes") {
                        ElicitationReply::Accept {
                            content: Some(Value::Object(content.clone())),
                        }
                    } else {
                        ElicitationReply::Decline
                    };
                    return Some(elicited(request, reply));
                };
                match value_of(schema, *required, line) {
                    Ok(value) => {
                        if let Some(value) = value {
                            content.insert(name.clone(), value);
                        }
                        left.remove(0);
                    }
                    Err(error) => *problem = Some(error.to_string()),
                }
                None
            }
            Self::Page(request) => {
                let reply = if matches!(line, "y" | "yes") {
                    ElicitationReply::Accept { content: None }
                } else {
                    ElicitationReply::Decline
                };
                Some(elicited(request, reply))
            }
        }
    }
}

/// The whole command, or the whole change, line by line.
fn in_full(request: &PermissionRequest) -> Vec<String> {
    let command = request.input.get("command").and_then(Value::as_str);
    if let Some(command) = command {
        return command.lines().map(reveal).collect();
    }
    change_of(&request.tool_name, &request.input)
        .iter()
        .flat_map(|hunk| hunk.lines.iter())
        .map(|line| reveal(line))
        .collect()
}

/// The rules that "always" would save.
fn rules_of(request: &PermissionRequest) -> Vec<String> {
    worth_keeping(request)
        .iter()
        .flat_map(|update| match update {
            PermissionUpdate::AddRules { rules, .. } => rules.iter().map(format_rule).collect(),
            _ => Vec::new(),
        })
        .collect()
}

fn permission(request: &PermissionRequest, reply: PermissionReply) -> Op {
    Op::PermissionReply {
        request_id: request.request_id.clone(),
        reply,
    }
}

fn elicited(request: &ElicitationRequest, reply: ElicitationReply) -> Op {
    Op::ElicitationReply {
        request_id: request.request_id.clone(),
        reply,
    }
}

fn always(request: &PermissionRequest) -> PermissionReply {
    let mut reply = PermissionReply::allow();
    if let PermissionReply::Allow {
        updated_permissions,
        ..
    } = &mut reply
    {
        *updated_permissions = worth_keeping(request);
    }
    reply
}

/// The offered answers that the numbers name; a line that is no numbers is the answer itself.
fn chosen(question: &Question, line: &str) -> String {
    let named: Option<Vec<&str>> = line
        .split(',')
        .map(|part| {
            let number: usize = part.trim().parse().ok()?;
            let option = question.options.get(number.checked_sub(1)?)?;
            Some(option.label.as_str())
        })
        .collect();
    match named {
        Some(labels) if labels.len() == 1 || question.multi_select => labels.join(", "),
        _ => line.to_owned(),
    }
}

/// The question for a field.
fn field_words(name: &str, schema: &Value, required: bool) -> String {
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    let mut words = format!("  {}", clean(text("title").unwrap_or(name)));
    if let Some(description) = text("description") {
        words.push_str(&format!(" ({})", clean(description).replace('\n', " ")));
    }
    let choices = choices(schema);
    if !choices.is_empty() {
        let labels: Vec<String> = choices.iter().map(|(_, label)| clean(label)).collect();
        words.push_str(&format!(" [{}]", labels.join(", ")));
    } else if text("type") == Some("boolean") {
        words.push_str(" [y, n]");
    }
    if let Some(default) = schema.get("default") {
        words.push_str(&format!(" default {}", clean(&default.to_string())));
    } else if required {
        words.push_str(" (required)");
    }
    format!("{words}: ")
}

/// The values that a field offers, with their names.
fn choices(schema: &Value) -> Vec<(Value, String)> {
    let items = schema.get("items").unwrap_or(schema);
    let label = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    if let Some(offered) = ["oneOf", "anyOf"]
        .iter()
        .find_map(|key| items.get(key).and_then(Value::as_array))
    {
        return offered
            .iter()
            .filter_map(|choice| {
                let value = choice.get("const")?;
                let title = choice.get("title").and_then(Value::as_str);
                Some((
                    value.clone(),
                    title.map_or_else(|| label(value), str::to_owned),
                ))
            })
            .collect();
    }
    items
        .get("enum")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|value| (value.clone(), label(value)))
        .collect()
}

/// A line as the value of a field; `Ok(None)` when it stays empty.
fn value_of(schema: &Value, required: bool, line: &str) -> Result<Option<Value>, FieldError> {
    if line.is_empty() {
        return match schema.get("default") {
            Some(default) => Ok(Some(default.clone())),
            None if required => Err(FieldError::Required),
            None => Ok(None),
        };
    }
    let choices = choices(schema);
    let choice = |text: &str| {
        let found = choices
            .iter()
            .find(|(value, label)| label == text || value.as_str() == Some(text));
        found
            .map(|(value, _)| value.clone())
            .ok_or_else(|| FieldError::NotOffered(text.to_owned()))
    };
    let value = match schema.get("type").and_then(Value::as_str) {
        Some("array") => Value::Array(
            line.split(',')
                .map(|part| choice(part.trim()))
                .collect::<Result<_, _>>()?,
        ),
        _ if !choices.is_empty() => choice(line)?,
        Some("boolean") => match line {
            "y" | "yes" | "true" => Value::Bool(true),
            "n" | "no" | "false" => Value::Bool(false),
            _ => return Err(FieldError::YesOrNo),
        },
        Some("number" | "integer") => serde_json::from_str(line)
            .ok()
            .filter(Value::is_number)
            .ok_or_else(|| FieldError::NotANumber(line.to_owned()))?,
        _ => Value::String(line.to_owned()),
    };
    if let Ok(checker) = lathe_schema::Schema::new(schema.clone())
        && let Some(problem) = checker.problems(&value).into_iter().next()
    {
        return Err(FieldError::schema(&problem));
    }
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_become_values_that_fit_the_schema() {
        let labels = json!({"type": "array", "items": {"type": "string", "enum": ["bug", "idea"]}});
        let team =
            json!({"type": "string", "oneOf": [{"const": "c", "title": "Core"}], "default": "c"});
        type Expected = Result<Option<Value>, &'static str>;
        let table: &[(&Value, bool, &str, Expected)] = &[
            (
                &json!({"type": "string"}),
                true,
                "words",
                Ok(Some(json!("words"))),
            ),
            (
                &json!({"type": "string"}),
                true,
                "",
                Err("this is required"),
            ),
            (&json!({"type": "string"}), false, "", Ok(None)),
            (
                &json!({"type": "integer", "default": 3}),
                true,
                "",
                Ok(Some(json!(3))),
            ),
            (
                &json!({"type": "integer"}),
                true,
                "seven",
                Err("'seven' is not a number"),
            ),
            (
                &json!({"type": "boolean"}),
                true,
                "y",
                Ok(Some(json!(true))),
            ),
            (
                &json!({"type": "boolean"}),
                true,
                "maybe",
                Err("answer y or n"),
            ),
            (&team, true, "Core", Ok(Some(json!("c")))),
            (&team, true, "Docs", Err("'Docs' is not offered")),
            (&labels, true, "bug, idea", Ok(Some(json!(["bug", "idea"])))),
        ];
        for (schema, required, line, expected) in table {
            let value = value_of(schema, *required, line);
            assert_eq!(
                value.map_err(|error| error.to_string()),
                expected.clone().map_err(str::to_owned),
                "{schema} {line}"
            );
        }
        let short = value_of(&json!({"type": "string", "minLength": 5}), true, "abc");
        assert!(short.is_err(), "{short:?}");
    }
}
