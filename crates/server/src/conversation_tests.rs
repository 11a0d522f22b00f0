//! Every way of a message, a question and a request through a conversation.

use super::*;

#[derive(Default)]
struct Rights {
    view_only: bool,
    refuses: Option<&'static str>,
    files: Vec<(&'static str, &'static str)>,
}

impl Authority for Rights {
    fn is_view_only(&self) -> bool {
        self.view_only
    }

    fn permit(&self, _: &WireOp) -> Result<(), Problem> {
        let refused = |why: &str| Err(Problem::new(http::StatusCode::FORBIDDEN, why));
        match (self.view_only, self.refuses) {
            (true, _) => refused("this device is view-only"),
            (_, Some(why)) => refused(why),
            _ => Ok(()),
        }
    }

    fn fetch(&self, id: &str, _: &str) -> Option<PathBuf> {
        let found = self.files.iter().find(|(known, _)| *known == id);
        found.map(|(_, path)| PathBuf::from(path))
    }
}

const ID: &str = "6f1c1d5e-0d6e-4c1c-9a3f-1a2b3c4d5e6f";

fn user(id: &str, text: &str) -> Value {
    json!({"type": "user", "uuid": id, "message": {"role": "user", "content": text}})
}

fn assistant(id: &str) -> Value {
    json!({"type": "assistant", "uuid": id, "message": {"role": "assistant", "content": []}})
}

fn snapshot(records: Vec<Value>, questions: Vec<Value>, title: Option<&str>) -> Snapshot {
    let (records, questions) = (Value::from(records), Value::from(questions));
    let value = json!({"epoch": "e", "seq": 10, "state": "idle", "session_id": ID, "title": title,
        "records": records, "questions": questions, "init": {"model": "opus", "permissionMode": "plan"}});
    serde_json::from_value(value).unwrap()
}

fn question(id: &str, subtype: &str) -> Value {
    json!({"type": "control_request", "request_id": id, "request": {"subtype": subtype}})
}

/// A conversation whose history was written.
fn begun() -> Conversation {
    let mut conversation = Conversation::default();
    conversation.attached(None);
    conversation.snapshot(&snapshot(vec![], vec![], Some("named")));
    assert!(conversation.flushed().is_empty());
    conversation
}

fn sent(acts: Vec<Act>) -> Vec<Value> {
    let frame = |act| match act {
        Act::Send(frame) => frame,
        Act::Ask { .. } => panic!("{act:?}"),
    };
    acts.into_iter().map(frame).collect()
}

fn ids(acts: Vec<Act>) -> Vec<String> {
    let id = |frame: &Value| frame["uuid"].as_str().unwrap_or("-").to_owned();
    sent(acts).iter().map(id).collect()
}

fn asked(acts: Vec<Act>) -> (OpId, WireOp, bool) {
    let mut acts = acts.into_iter();
    match (acts.next(), acts.next()) {
        (Some(Act::Ask { id, op, is_control }), None) => (id, *op, is_control),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_history_comes_first_and_what_comes_meanwhile_waits() {
    let mut conversation = Conversation::default();
    conversation.attached(None);
    let records = vec![
        user("a", "fix the parser"),
        json!({"type": "user", "uuid": "r", "message": {"content": [{"type": "tool_result"}]}}),
        assistant("b"),
    ];
    let history = sent(conversation.snapshot(&snapshot(records.clone(), vec![], None)));
    let names: Vec<&str> = history
        .iter()
        .filter_map(|it| it["uuid"].as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(history[2]["title"], "fix the parser", "{history:?}");
    assert!(conversation.event(11, assistant("c")).is_empty(), "held");
    assert!(
        conversation.event(11, assistant("c")).is_empty(),
        "by its number"
    );
    assert_eq!(ids(conversation.flushed()), ["c"]);
    assert_eq!(
        ids(conversation.event(12, assistant("d"))),
        ["d"],
        "the gate is open"
    );
    // After a loss the session sends a snapshot; the device gets what it has not had.
    let mut more = records;
    more.extend([assistant("c"), assistant("d"), assistant("e")]);
    assert_eq!(
        ids(conversation.snapshot(&snapshot(more, vec![], Some("x")))),
        ["e"]
    );
}

#[test]
fn a_device_that_comes_back_gets_what_follows_its_last_message() {
    let records = || vec![user("a", "x"), assistant("b"), assistant("c")];
    for (after, wanted) in [
        (None, vec!["a", "b", "c"]),
        (Some("b"), vec!["c"]),
        (Some("c"), vec![]),
        (Some("unknown"), vec!["a", "b", "c"]),
    ] {
        let mut conversation = begun();
        conversation.detached();
        conversation.attached(after.map(str::to_owned));
        let got = ids(conversation.snapshot(&snapshot(records(), vec![], Some("x"))));
        assert_eq!(got, wanted, "{after:?}");
    }
    // What the gate held is kept for the next connection, and comes once.
    let mut conversation = begun();
    conversation.attached(None);
    assert!(conversation.event(11, assistant("old")).is_empty());
    assert!(conversation.event(12, assistant("c")).is_empty());
    conversation.detached();
    conversation.attached(Some("b".to_owned()));
    assert_eq!(
        ids(conversation.snapshot(&snapshot(records(), vec![], Some("x")))),
        ["c"]
    );
    assert_eq!(ids(conversation.flushed()), ["old"]);
    // Or given up.
    conversation.attached(None);
    assert!(conversation.event(13, assistant("d")).is_empty());
    assert_eq!(conversation.dropped(), 1);
    assert!(conversation.flushed().is_empty());
}

#[test]
fn messages_beyond_the_gate_are_given_up_and_counted() {
    let mut conversation = Conversation::default();
    conversation.attached(None);
    conversation.snapshot(&snapshot(vec![], vec![], Some("x")));
    for number in 0..rules::GATE as u64 + 3 {
        conversation.event(11 + number, assistant(&number.to_string()));
    }
    let flushed = sent(conversation.flushed());
    assert_eq!(flushed[0]["subtype"], "messages_dropped");
    assert_eq!(flushed[0]["count"], 3);
    assert_eq!(
        (flushed.len(), &flushed[1]["uuid"]),
        (rules::GATE + 1, &json!("3"))
    );
}

#[test]
fn questions_are_asked_withdrawn_and_answered() {
    let mut conversation = begun();
    let asked_question = sent(conversation.event(11, question("q", "can_use_tool")));
    assert_eq!(asked_question[0]["request_id"], "q");
    let resolved = json!({"type": "question_resolved", "request_id": "q", "by": "phone", "reply": {"behavior": "allow"}});
    let cancelled = sent(conversation.event(12, resolved.clone()));
    assert_eq!(cancelled[0]["type"], "control_cancel_request");
    assert_eq!(cancelled[0]["by"], "phone");
    assert!(
        conversation.event(13, resolved).is_empty(),
        "not asked here"
    );
    // A snapshot has the open ones only.
    conversation.event(14, question("old", "can_use_tool"));
    let open = vec![question("new", "elicitation")];
    let frames = sent(conversation.snapshot(&snapshot(vec![], open, Some("x"))));
    let words: Vec<(&str, &str)> = frames
        .iter()
        .map(|it| {
            (
                it["type"].as_str().unwrap(),
                it["request_id"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        words,
        [
            ("control_request", "new"),
            ("control_cancel_request", "old")
        ]
    );

    let answer = |id: &str, reply: Value| {
        json!({"type": "control_response", "response": {"subtype": "success", "requestId": id, "response": reply}}).to_string()
    };
    let rights = Rights::default();
    let (id, op, is_control) =
        asked(conversation.line(&answer("q", json!({"behavior": "allow"})), &rights));
    assert!(
        matches!(op, WireOp::PermissionReply { .. }) && !is_control,
        "{op:?}"
    );
    assert!(conversation.done(id).is_empty());
    let (id, op, _) =
        asked(conversation.line(&answer("new", json!({"action": "decline"})), &rights));
    assert!(matches!(op, WireOp::ElicitationReply { .. }), "{op:?}");
    // Somebody was first.
    let nak = json!({"nak": id, "why": "phone answered first", "code": "answered", "by": "phone", "reply": {"action": "accept"}});
    let late = sent(conversation.refused(&serde_json::from_value(nak).unwrap()));
    assert_eq!(
        (&late[0]["subtype"], &late[0]["by"]),
        (&json!("answer_refused"), &json!("phone"))
    );
    for (name, line, rights, wanted) in [
        ("wrong", answer("q", json!({"behavior": "perhaps"})), Rights::default(), Some("wrong")),
        (
            "view-only",
            answer("q", json!({"behavior": "allow"})),
            Rights { view_only: true, ..Rights::default() },
            Some("view-only"),
        ),
        (
            "beyond its scope",
            answer("q", json!({"behavior": "allow"})),
            Rights { refuses: Some("needs the scope approve"), ..Rights::default() },
            Some("scope"),
        ),
        (
            "an error of the device",
            json!({"type": "control_response", "response": {"subtype": "error", "request_id": "q"}}).to_string(),
            Rights::default(),
            None,
        ),
        ("no id", json!({"type": "control_response"}).to_string(), Rights::default(), None),
    ] {
        let frames = sent(conversation.line(&line, &rights));
        match wanted {
            None => assert!(frames.is_empty(), "{name}: {frames:?}"),
            Some(part) => assert!(frames[0]["error"].as_str().unwrap().contains(part), "{name}: {frames:?}"),
        }
    }
}

#[test]
fn control_requests_become_operations_and_are_answered_by_what_the_session_says() {
    let line = |request: Value| {
        json!({"type": "control_request", "request_id": "r", "request": request}).to_string()
    };
    for (request, wanted) in [
        (
            json!({"subtype": "interrupt"}),
            json!({"type": "interrupt", "drop_queued": false}),
        ),
        (
            json!({"subtype": "set_model", "model": "opus"}),
            json!({"type": "set_model", "model": "opus"}),
        ),
        (
            json!({"subtype": "set_model", "model": null}),
            json!({"type": "set_model", "model": "default"}),
        ),
        (
            json!({"subtype": "set_max_thinking_tokens", "maxThinkingTokens": 7}),
            json!({"type": "set_thinking", "max_thinking_tokens": 7}),
        ),
        (
            json!({"subtype": "set_permission_mode", "mode": "plan"}),
            json!({"type": "set_mode", "mode": "plan"}),
        ),
    ] {
        let mut conversation = begun();
        let rights = Rights::default();
        let mut ask = || asked(conversation.line(&line(request.clone()), &rights));
        let (done, op, is_control) = ask();
        assert_eq!(serde_json::to_value(op).unwrap(), wanted, "{request}");
        assert!(is_control, "{request}");
        let (refused, ..) = ask();
        let (silent, ..) = ask();
        let nak = json!({"nak": refused, "why": "no such model"});
        let answers = [
            conversation.done(done),
            conversation.refused(&serde_json::from_value(nak).unwrap()),
            conversation.expired(silent),
        ];
        let answers = answers.map(|acts| sent(acts)[0]["response"].clone());
        let subtypes = answers.clone().map(|answer| answer["subtype"].clone());
        assert_eq!(subtypes, ["success", "error", "error"], "{request}");
        assert!(answers.iter().all(|answer| answer["request_id"] == "r"));
        // Whatever the session says afterwards: one answer.
        assert!(conversation.done(silent).is_empty());
        assert!(conversation.expired(done).is_empty());
    }
    let ask = |request: Value, rights: &Rights| {
        sent(begun().line(&line(request), rights))[0]["response"].clone()
    };
    let about = ask(json!({"subtype": "initialize"}), &Rights::default());
    assert_eq!(
        about["response"],
        json!({"session_id": ID, "title": "named", "model": "opus", "permission_mode": "plan"})
    );
    let viewer = Rights {
        view_only: true,
        ..Rights::default()
    };
    assert_eq!(
        ask(json!({"subtype": "initialize"}), &viewer)["subtype"],
        "success"
    );
    assert!(
        ask(json!({"subtype": "interrupt"}), &viewer)["error"]
            .as_str()
            .unwrap()
            .contains("view-only")
    );
    let bound = Rights {
        refuses: Some("needs the scope approve"),
        ..Rights::default()
    };
    for request in [
        json!({"subtype": "set_permission_mode", "mode": "plan"}),
        json!({"subtype": "interrupt"}),
    ] {
        assert!(
            ask(request, &bound)["error"]
                .as_str()
                .unwrap()
                .contains("scope")
        );
    }
    for (request, part) in [
        (
            json!({"subtype": "set_permission_mode", "mode": "wild"}),
            "wild",
        ),
        (json!({"subtype": "rm_rf"}), "not a request"),
    ] {
        assert!(
            ask(request, &Rights::default())["error"]
                .as_str()
                .unwrap()
                .contains(part)
        );
    }
}

#[test]
fn prompts_are_handed_on_once_with_what_was_attached() {
    let rights = Rights {
        files: vec![("f1", "/c/f1_a.png")],
        ..Rights::default()
    };
    let mut conversation =
        Conversation::refilled([(true, "p0".to_owned()), (false, "a0".to_owned())]);
    conversation.attached(None);
    for (name, id) in [("in the transcript", "p0"), ("an answer's", "a0")] {
        assert!(
            conversation
                .line(&user(id, "x").to_string(), &rights)
                .is_empty(),
            "{name}"
        );
    }
    let mut frame = user(ID, "look");
    frame["file_attachments"] =
        json!([{"file_uuid": "f1", "file_name": "a.png"}, {"file_uuid": "lost", "file_name": "b"}]);
    let (id, op, is_control) = asked(conversation.line(&frame.to_string(), &rights));
    assert_eq!(id.to_string(), ID);
    assert!(!is_control);
    let wanted = json!({"type": "prompt", "content": "@/c/f1_a.png look", "uuid": ID});
    assert_eq!(serde_json::to_value(op).unwrap(), wanted);
    assert!(
        conversation.line(&frame.to_string(), &rights).is_empty(),
        "delivered again"
    );
    // The session shows it to the device, and the device's echo of that is dropped.
    conversation.snapshot(&snapshot(vec![], vec![], Some("x")));
    conversation.flushed();
    let own = "0b9f6c1a-6d7e-4a55-9a7e-2f0f9d1f7c11";
    conversation.event(11, user(own, "typed at the terminal"));
    assert!(
        conversation
            .line(&user(own, "typed at the terminal").to_string(), &rights)
            .is_empty(),
        "an echo"
    );
    let nak = json!({"nak": id, "why": "a hook may have stopped it"});
    let refused = sent(conversation.refused(&serde_json::from_value(nak).unwrap()));
    assert_eq!(
        (&refused[0]["subtype"], &refused[0]["uuid"]),
        (&json!("message_refused"), &json!(ID))
    );
    for (name, frame, rights, part) in [
        ("not a UUID", user("7", "x"), Rights::default(), "UUID"),
        (
            "no content",
            json!({"type": "user"}),
            Rights::default(),
            "content",
        ),
        (
            "view-only",
            json!({"type": "user", "message": {"content": "x"}}),
            Rights {
                view_only: true,
                ..Rights::default()
            },
            "view-only",
        ),
    ] {
        let frames = sent(conversation.line(&frame.to_string(), &rights));
        assert!(
            frames[0]["error"].as_str().unwrap().contains(part),
            "{name}: {frames:?}"
        );
    }
}
