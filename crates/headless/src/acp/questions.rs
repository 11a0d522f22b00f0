//! Questions of a session that the editor's user answers: permissions, questions of the model, and of MCP servers.

use super::capabilities::ClientCapabilities;
use super::client::Client;
use super::tool_calls;
use super::wire::RpcError;
use lathe_protocol::Extra;
use lathe_protocol::elicitation::{ElicitationKind, ElicitationReply, ElicitationRequest};
use lathe_protocol::permission::{
    PermissionMode, PermissionReply, PermissionRequest, PermissionUpdate, RuleSource,
};
use lathe_tools::ask_user_question::{self, Question};
use serde_json::{Map, Value, json};

/// An answer of the user. The error is the answer of an editor that could not ask and is the only one that can.
pub(super) type Answered<T> = Result<T, T>;

/// Takes a permission question to the client.
pub(super) async fn permission(
    client: &Client,
    able: ClientCapabilities,
    id: &str,
    request: &PermissionRequest,
) -> Answered<PermissionReply> {
    let asked = (request.tool_name == ask_user_question::NAME)
        .then(|| ask_user_question::questions(&request.input))
        .flatten();
    match asked {
        Some(questions) if able.forms => ask_model_questions(client, id, request, &questions).await,
        Some(questions) if questions.len() == 1 && questions.iter().all(|it| !it.multi_select) => {
            ask_one_question(client, id, request, &questions).await
        }
        Some(_) => Err(deny(
            "This editor shows no forms; ask one question with one answer at a time.",
            false,
        )),
        None => ask_permission(client, id, request).await,
    }
}

fn could_not_ask(error: &RpcError) -> PermissionReply {
    deny(&format!("The editor could not ask: {error}"), false)
}

fn deny(message: &str, interrupt: bool) -> PermissionReply {
    PermissionReply::Deny {
        message: message.to_owned(),
        interrupt,
        extra: Extra::new(),
    }
}

fn allow(updates: Vec<PermissionUpdate>) -> PermissionReply {
    PermissionReply::Allow {
        updated_input: None,
        updated_permissions: updates,
        extra: Extra::new(),
    }
}

/// The parameters of `session/request_permission`.
#[must_use]
pub(super) fn permission_params(
    session: &str,
    request: &PermissionRequest,
    options: &[Value],
) -> Value {
    let (tool, input) = (request.tool_name.as_str(), &request.input);
    let mut content = tool_calls::proposal(tool, input);
    if let Some(agent) = &request.agent {
        content.push(tool_calls::text_content(&format!(
            "Asked by {}",
            agent.line()
        )));
    }
    for words in [&request.decision_reason, &request.description] {
        if let Some(words) = words.as_deref().filter(|words| !words.is_empty()) {
            content.push(tool_calls::text_content(words));
        }
    }
    let title = match tool {
        // The whole command: what is allowed must be read first.
        "Bash" => input["command"].as_str().map(str::to_owned),
        _ => None,
    };
    json!({
        "sessionId": session,
        "toolCall": {
            "toolCallId": request.tool_use_id,
            "title": title.unwrap_or_else(|| tool_calls::title(tool, input)),
            "name": tool,
            "kind": tool_calls::kind(tool),
            "status": "pending",
            "rawInput": input,
            "locations": tool_calls::locations(input),
            "content": content,
        },
        "options": options,
    })
}

/// The answers that a permission question has.
#[must_use]
pub(super) fn permission_options(request: &PermissionRequest) -> Vec<Value> {
    let option =
        |id: &str, name: &str, kind: &str| json!({"optionId": id, "name": name, "kind": kind});
    if request.tool_name == "ExitPlanMode" {
        return vec![
            option("allow", "Yes, and ask before each edit", "allow_once"),
            option(
                "accept-edits",
                "Yes, and accept edits from now on",
                "allow_always",
            ),
            option("reject", "No, keep planning", "reject_once"),
        ];
    }
    let mut options = vec![option("allow", "Yes", "allow_once")];
    if !request.permission_suggestions.is_empty() {
        let rules = request.permission_suggestions.iter().map(describe);
        let rules: Vec<String> = rules.collect();
        let name = format!("Yes, and from now on: {}", rules.join(", "));
        options.push(option("always", &name, "allow_always"));
    }
    options.push(option("reject", "No", "reject_once"));
    options
}

/// A suggested change in words.
fn describe(update: &PermissionUpdate) -> String {
    match update {
        PermissionUpdate::AddRules { rules, .. } | PermissionUpdate::ReplaceRules { rules, .. } => {
            let rules = rules.iter().map(|rule| match &rule.rule_content {
                Some(content) => format!("{}({content})", rule.tool_name),
                None => rule.tool_name.clone(),
            });
            format!("allow {}", rules.collect::<Vec<_>>().join(", "))
        }
        PermissionUpdate::SetMode { mode, .. } => format!("mode {mode}"),
        PermissionUpdate::AddDirectories { directories, .. } => {
            let folders = directories
                .iter()
                .map(|folder| folder.display().to_string());
            format!("work in {}", folders.collect::<Vec<_>>().join(", "))
        }
        PermissionUpdate::RemoveRules { .. } | PermissionUpdate::RemoveDirectories { .. } => {
            "remove rules".to_owned()
        }
    }
}

/// The option that was chosen; `None` if the question was put away.
fn chosen(answer: &Value) -> Option<&str> {
    let outcome = &answer["outcome"];
    (outcome["outcome"] == "selected").then(|| outcome["optionId"].as_str())?
}

async fn ask_permission(
    client: &Client,
    session: &str,
    request: &PermissionRequest,
) -> Answered<PermissionReply> {
    let options = permission_options(request);
    let params = permission_params(session, request, &options);
    let answer = client.request("session/request_permission", &params).await;
    let answer = answer.map_err(|error| could_not_ask(&error))?;
    Ok(permission_reply(request, chosen(&answer)))
}

/// The reply that an option stands for. An option that was not offered is a no.
#[must_use]
pub(super) fn permission_reply(
    request: &PermissionRequest,
    option: Option<&str>,
) -> PermissionReply {
    match option {
        Some("allow") => allow(Vec::new()),
        Some("always") if !request.permission_suggestions.is_empty() => {
            allow(request.permission_suggestions.clone())
        }
        Some("accept-edits") if request.tool_name == "ExitPlanMode" => {
            allow(vec![PermissionUpdate::SetMode {
                mode: PermissionMode::AcceptEdits,
                destination: RuleSource::Session,
            }])
        }
        Some(_) => deny("The user refused.", false),
        // The client took the whole turn back.
        None => deny("The user cancelled.", true),
    }
}

/// A question of the model with one choice, as a permission question whose options are the answers.
async fn ask_one_question(
    client: &Client,
    session: &str,
    request: &PermissionRequest,
    questions: &[Question],
) -> Answered<PermissionReply> {
    let Some(question) = questions.first() else {
        return Err(deny("There is no question.", false));
    };
    let mut options: Vec<Value> = question
        .options
        .iter()
        .enumerate()
        .map(|(index, option)| {
            let id = format!("answer-{index}");
            json!({"optionId": id, "name": option.label, "kind": "allow_once"})
        })
        .collect();
    options.push(json!({"optionId": "reject", "name": "Don't answer", "kind": "reject_once"}));
    let mut params = permission_params(session, request, &options);
    params["toolCall"]["title"] = question.question.clone().into();
    let answer = client.request("session/request_permission", &params).await;
    let answer = answer.map_err(|error| could_not_ask(&error))?;
    let picked = chosen(&answer)
        .and_then(|id| id.strip_prefix("answer-"))
        .and_then(|index| index.parse::<usize>().ok())
        .and_then(|index| question.options.get(index));
    Ok(match picked {
        Some(option) => {
            let answers = [(question.question.clone(), option.label.clone())];
            ask_user_question::answer(&request.input, &answers)
        }
        None => permission_reply(request, chosen(&answer).map(|_| "reject")),
    })
}

/// The form that asks the model's questions.
#[must_use]
pub(super) fn question_form(questions: &[Question]) -> Value {
    let mut properties = Map::new();
    for (index, question) in questions.iter().enumerate() {
        let choices = question.options.iter().map(|option| {
            json!({"const": option.label, "title": option.label, "description": option.description})
        });
        let choices: Vec<Value> = choices.collect();
        let field = if question.multi_select {
            json!({"type": "array", "title": question.header, "description": question.question,
                "items": {"anyOf": choices}})
        } else {
            json!({"type": "string", "title": question.header, "description": question.question,
                "oneOf": choices})
        };
        properties.insert(format!("question_{index}"), field);
    }
    let required: Vec<&String> = properties.keys().collect();
    json!({"type": "object", "required": required, "properties": properties})
}

async fn ask_model_questions(
    client: &Client,
    session: &str,
    request: &PermissionRequest,
    questions: &[Question],
) -> Answered<PermissionReply> {
    let message = questions.iter().map(|question| question.question.as_str());
    let params = json!({
        "sessionId": session, "toolCallId": request.tool_use_id, "mode": "form",
        "message": message.collect::<Vec<_>>().join("\n"),
        "requestedSchema": question_form(questions),
    });
    let answer = client.request("elicitation/create", &params).await;
    let answer = answer.map_err(|error| could_not_ask(&error))?;
    Ok(match answer["action"].as_str() {
        Some("accept") => {
            let answers: Vec<(String, String)> = questions
                .iter()
                .enumerate()
                .filter_map(|(index, question)| {
                    let value = answer["content"].get(format!("question_{index}"))?;
                    let words = match value {
                        Value::Array(several) => {
                            let words = several.iter().filter_map(Value::as_str);
                            words.collect::<Vec<_>>().join(", ")
                        }
                        other => other.as_str()?.to_owned(),
                    };
                    Some((question.question.clone(), words))
                })
                .collect();
            ask_user_question::answer(&request.input, &answers)
        }
        Some("cancel") => deny("The user cancelled.", true),
        _ => deny("The user did not answer.", false),
    })
}

/// Takes a question of an MCP server to the client. One that can't show it declines.
pub(super) async fn elicitation(
    client: &Client,
    able: ClientCapabilities,
    id: &str,
    request: &ElicitationRequest,
) -> Answered<ElicitationReply> {
    let message = format!("{}: {}", request.mcp_server_name, request.message);
    let params = match &request.kind {
        ElicitationKind::Form { requested_schema } if able.forms => Some(json!({
            "sessionId": id, "mode": "form", "message": message,
            "requestedSchema": requested_schema,
        })),
        ElicitationKind::Url {
            url,
            elicitation_id,
        } if able.pages => Some(json!({
            "sessionId": id, "mode": "url", "message": message, "url": url,
            "elicitationId": elicitation_id.clone().unwrap_or_else(|| request.request_id.to_string()),
        })),
        _ => None,
    };
    let Some(params) = params else {
        return Err(ElicitationReply::Decline);
    };
    let answer = client.request("elicitation/create", &params).await;
    let answer = answer.map_err(|_| ElicitationReply::Cancel)?;
    serde_json::from_value(answer).map_err(|_| ElicitationReply::Cancel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_protocol::permission::{AskingAgent, Behavior, RuleValue};

    fn request(tool: &str, input: &Value, suggestions: Vec<PermissionUpdate>) -> PermissionRequest {
        let mut request: PermissionRequest = serde_json::from_value(json!({
            "request_id": "r", "tool_name": tool, "input": input, "tool_use_id": "t",
            "decision_reason": "it writes",
        }))
        .unwrap();
        request.permission_suggestions = suggestions;
        request
    }

    fn kinds(request: &PermissionRequest) -> Vec<String> {
        let options = permission_options(request);
        options
            .iter()
            .map(|option| option["kind"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn always_is_offered_only_where_there_is_a_rule_for_it() {
        let rule = PermissionUpdate::AddRules {
            rules: vec![RuleValue {
                tool_name: "Bash".into(),
                rule_content: Some("make:*".into()),
            }],
            behavior: Behavior::Allow,
            destination: RuleSource::LocalSettings,
        };
        let without = request("Bash", &json!({"command": "make"}), Vec::new());
        assert_eq!(kinds(&without), ["allow_once", "reject_once"]);
        let with = request("Bash", &json!({"command": "make"}), vec![rule.clone()]);
        assert_eq!(kinds(&with), ["allow_once", "allow_always", "reject_once"]);
        let name = permission_options(&with)[1]["name"].clone();
        assert_eq!(name, "Yes, and from now on: allow Bash(make:*)");
        assert_eq!(permission_reply(&with, Some("always")), allow(vec![rule]));
        // An answer that was not offered is a no.
        for option in ["always", "accept-edits", "answer-0", ""] {
            let reply = permission_reply(&without, Some(option));
            assert!(matches!(
                reply,
                PermissionReply::Deny {
                    interrupt: false,
                    ..
                }
            ));
        }
        let cancelled = permission_reply(&without, None);
        assert!(matches!(
            cancelled,
            PermissionReply::Deny {
                interrupt: true,
                ..
            }
        ));
    }

    #[test]
    fn the_whole_command_and_the_reason_are_shown() {
        let command = format!("echo {}\nrm -r x", "a".repeat(500));
        let mut request = request("Bash", &json!({"command": command}), Vec::new());
        request.agent = Some(AskingAgent {
            agent_type: "Explore".to_owned(),
            agent_name: None,
            agent_task: "tidy up".to_owned(),
            agent_color: None,
        });
        let params = permission_params("s", &request, &[]);
        assert_eq!(params["toolCall"]["title"], command);
        let texts = params["toolCall"]["content"].to_string();
        assert!(texts.contains("rm -r x") && texts.contains("it writes"));
        assert!(texts.contains("Asked by agent Explore: tidy up"), "{texts}");
    }

    #[test]
    fn questions_of_the_model_become_a_form() {
        let questions = ask_user_question::questions(&json!({"questions": [
            {"question": "Which?", "header": "Store", "options": [{"label": "A"}, {"label": "B"}]},
            {"question": "And?", "header": "More", "multiSelect": true, "options": [{"label": "C"}, {"label": "D"}]},
        ]}))
        .unwrap();
        let form = question_form(&questions);
        assert_eq!(form["required"], json!(["question_0", "question_1"]));
        assert_eq!(form["properties"]["question_0"]["oneOf"][1]["const"], "B");
        assert_eq!(
            form["properties"]["question_1"]["items"]["anyOf"][0]["const"],
            "C"
        );
    }
}
