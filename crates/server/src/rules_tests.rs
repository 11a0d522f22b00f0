//! Every row of the rules.

use super::*;

fn user(content: Value) -> Value {
    let mut message = json!({"type": "user", "uuid": "u1", "message": {"role": "user"}});
    message["message"]["content"] = content;
    message
}

fn with(mut value: Value, name: &str, field: Value) -> Value {
    value[name] = field;
    value
}

#[test]
fn what_is_sent() {
    let result = json!({"type": "tool_result", "tool_use_id": "t", "content": "x"});
    let words = json!({"type": "text", "text": "x"});
    for (name, message, sent) in [
        ("a prompt", user("x".into()), true),
        ("a prompt in blocks", user(json!([words])), true),
        (
            "an answer",
            json!({"type": "assistant", "message": {}}),
            true,
        ),
        (
            "a local command",
            json!({"type": "system", "subtype": "local_command"}),
            true,
        ),
        (
            "another system message",
            json!({"type": "system", "subtype": "init"}),
            false,
        ),
        (
            "a virtual prompt",
            with(user("x".into()), "isVirtual", true.into()),
            false,
        ),
        (
            "a virtual answer",
            json!({"type": "assistant", "isVirtual": true}),
            false,
        ),
        ("a tool result alone", user(json!([result])), false),
        (
            "a tool result with words",
            user(json!([result, words])),
            true,
        ),
        ("progress", json!({"type": "progress"}), false),
        ("no type", json!({}), false),
    ] {
        assert_eq!(outbound(&message), sent, "{name}");
    }
}

#[test]
fn what_a_title_is_made_from() {
    let result = json!({"type": "tool_result", "tool_use_id": "t", "content": "x"});
    for (name, message, wanted) in [
        ("a string", user(" fix it ".into()), Some("fix it")),
        (
            "the first text block",
            user(
                json!([{"type": "image"}, {"type": "text", "text": "this"}, {"type": "text", "text": "not this"}]),
            ),
            Some("this"),
        ),
        (
            "display tags are stripped",
            user("<system-reminder>a</system-reminder>fix".into()),
            Some("fix"),
        ),
        (
            "an open tag takes the rest",
            user("fix <system-reminder>a".into()),
            Some("fix"),
        ),
        (
            "only tags",
            user("<command-name>/x</command-name>".into()),
            None,
        ),
        ("empty", user("  ".into()), None),
        ("meta", with(user("x".into()), "isMeta", true.into()), None),
        (
            "a compaction summary",
            with(user("x".into()), "isCompactSummary", true.into()),
            None,
        ),
        (
            "a tool result",
            user(json!([result, {"type": "text", "text": "x"}])),
            None,
        ),
        (
            "a task notice",
            user("<task-notification>done</task-notification>".into()),
            None,
        ),
        (
            "another origin",
            with(user("x".into()), "origin", "session".into()),
            None,
        ),
        (
            "a person",
            with(user("x".into()), "origin", "human".into()),
            Some("x"),
        ),
        (
            "a person at a session",
            with(user("x".into()), "origin", json!({"kind": "human"})),
            Some("x"),
        ),
        (
            "a channel",
            with(user("x".into()), "origin", json!({"kind": "channel"})),
            None,
        ),
        (
            "a virtual prompt",
            with(user("x".into()), "isVirtual", true.into()),
            None,
        ),
        (
            "an answer",
            json!({"type": "assistant", "message": {"content": "x"}}),
            None,
        ),
    ] {
        assert_eq!(title_text(&message).as_deref(), wanted, "{name}");
    }
}

#[test]
fn what_is_done_with_a_frame() {
    let mut inbound = Inbound::default();
    inbound.posted.note("mine");
    let dropped = |why| Taken::Dropped(why);
    let prompt = |id: &str| json!({"type": "user", "uuid": id, "message": {"content": "x"}});
    for (name, line, wanted) in [
        ("not JSON", "{".to_owned(), dropped("not an object")),
        ("not an object", "[]".to_owned(), dropped("not an object")),
        ("no type", "{}".to_owned(), dropped("no type")),
        (
            "a type that is no string",
            r#"{"type":7}"#.to_owned(),
            dropped("no type"),
        ),
        (
            "a permission answer",
            json!({"type": "control_response", "response": {"requestId": "r"}}).to_string(),
            Taken::PermissionAnswer(
                json!({"type": "control_response", "response": {"request_id": "r"}}),
            ),
        ),
        (
            "a control request in camel case",
            json!({"type": "control_request", "requestId": "r", "request": {"subtype": "x"}})
                .to_string(),
            Taken::Control(
                json!({"type": "control_request", "request_id": "r", "request": {"subtype": "x"}}),
            ),
        ),
        // An answer is taken before any id is looked at.
        (
            "an answer with a known id",
            json!({"type": "control_response", "uuid": "mine"}).to_string(),
            Taken::PermissionAnswer(json!({"type": "control_response", "uuid": "mine"})),
        ),
        ("an echo", prompt("mine").to_string(), dropped("an echo")),
        (
            "a prompt",
            prompt("a").to_string(),
            Taken::Prompt(prompt("a")),
        ),
        (
            "again",
            prompt("a").to_string(),
            dropped("delivered before"),
        ),
        (
            "another",
            prompt("b").to_string(),
            Taken::Prompt(prompt("b")),
        ),
        (
            "an answer of the model",
            json!({"type": "assistant", "uuid": "c"}).to_string(),
            dropped("not for this side"),
        ),
        (
            "after a dirty frame",
            prompt("d").to_string(),
            Taken::Prompt(prompt("d")),
        ),
    ] {
        assert_eq!(inbound.take(&line), wanted, "{name}");
    }
}

#[test]
fn rings_forget_the_oldest_and_are_refilled_from_a_transcript() {
    let mut ring = IdRing::refilled((0..RING).map(|number| number.to_string()));
    assert!(ring.has("0"));
    ring.note("0");
    ring.note("new");
    assert!(!ring.has("0") && ring.has("1") && ring.has("new"));
    let mut inbound = Inbound {
        received: IdRing::refilled(["seen".to_owned()]),
        ..Inbound::default()
    };
    let line = json!({"type": "user", "uuid": "seen", "message": {"content": "x"}}).to_string();
    assert_eq!(
        inbound.take(&line),
        Taken::Dropped("delivered before"),
        "after a restart"
    );
}

#[test]
fn how_control_requests_are_answered() {
    let policy = |mode: &str| match mode {
        "bypassPermissions" => Some("not from elsewhere".to_owned()),
        _ => None,
    };
    let ask = |request: Value, view_only| {
        let frame = json!({"type": "control_request", "request_id": "r", "request": request});
        match control(&frame, view_only, policy) {
            ControlAnswer::Do(_) => Ok(()),
            ControlAnswer::Refuse(answer) => {
                assert_eq!(answer["response"]["subtype"], "error");
                assert_eq!(answer["response"]["request_id"], "r");
                Err(answer["response"]["error"].as_str().unwrap().to_owned())
            }
        }
    };
    for (request, wanted, viewer) in [
        (json!({"subtype": "initialize"}), Ok(()), Ok(())),
        (json!({"subtype": "interrupt"}), Ok(()), Err("view-only")),
        (
            json!({"subtype": "set_model", "model": "opus"}),
            Ok(()),
            Err("view-only"),
        ),
        (
            json!({"subtype": "set_model", "model": 7}),
            Err("must be"),
            Err("view-only"),
        ),
        (
            json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 1024}),
            Ok(()),
            Err("view-only"),
        ),
        (
            json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": "x"}),
            Err("must be"),
            Err("view-only"),
        ),
        (
            json!({"subtype": "set_permission_mode", "mode": "plan"}),
            Ok(()),
            Err("view-only"),
        ),
        (
            json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"}),
            Err("not from elsewhere"),
            Err("view-only"),
        ),
        (
            json!({"subtype": "set_permission_mode"}),
            Err("missing"),
            Err("view-only"),
        ),
        (
            json!({"subtype": "mcp_message"}),
            Err("not a request"),
            Err("view-only"),
        ),
        (json!({}), Err("not a request"), Err("view-only")),
    ] {
        for (view_only, wanted) in [(false, wanted), (true, viewer)] {
            match (ask(request.clone(), view_only), wanted) {
                (Ok(()), Ok(())) => {}
                (Err(error), Err(part)) => assert!(error.contains(part), "{request}: {error}"),
                (got, wanted) => panic!("{request}: {got:?}, wanted {wanted:?}"),
            }
        }
    }
}

#[test]
fn images_get_their_type_or_become_text() {
    let image = |source: Value| user(json!([{"type": "image", "source": source}]));
    for (name, source, wanted) in [
        (
            "named",
            json!({"type": "base64", "media_type": "image/png", "data": "x"}),
            Some("image/png"),
        ),
        (
            "the client's name",
            json!({"type": "base64", "mediaType": "image/gif", "data": "x"}),
            Some("image/gif"),
        ),
        (
            "png",
            json!({"type": "base64", "data": "iVBORw0KGgoAAAA"}),
            Some("image/png"),
        ),
        (
            "jpeg",
            json!({"type": "base64", "data": "/9j/4AAQ"}),
            Some("image/jpeg"),
        ),
        (
            "gif",
            json!({"type": "base64", "data": "R0lGODlh"}),
            Some("image/gif"),
        ),
        (
            "webp",
            json!({"type": "base64", "data": "UklGRiQA"}),
            Some("image/webp"),
        ),
        ("unknown", json!({"type": "base64", "data": "AAAA"}), None),
    ] {
        let mut frame = image(source);
        repair_images(&mut frame);
        let block = &frame["message"]["content"][0];
        match wanted {
            Some(kind) => {
                assert_eq!(block["source"]["media_type"], kind, "{name}");
                assert!(block["source"].get("mediaType").is_none(), "{name}");
            }
            None => assert_eq!(block["type"], "text", "{name}"),
        }
    }
}

#[test]
fn attachments_stay_in_their_folder() {
    let home = Path::new("/c");
    for (name, wanted) in [
        ("a.png", "12345678_a.png"),
        ("../../etc/passwd", "12345678_passwd"),
        ("..\\..\\x.txt", "12345678_x.txt"),
        ("a b;c$.txt", "12345678_a_b_c_.txt"),
        ("", "12345678_file"),
        ("..", "12345678_file"),
        ("übung", "12345678__bung"),
    ] {
        let path = upload_path(home, "session", "123456789", name);
        assert_eq!(path, Path::new("/c/uploads/session").join(wanted), "{name}");
    }
    assert_eq!(
        upload_path(home, "../..", "a/../b", "x"),
        Path::new("/c/uploads/_____/a____b_x")
    );
    let paths = ["/c/a".into(), "/c/b c".into()];
    assert_eq!(with_attachments("look", &paths), "@/c/a @\"/c/b c\" look");
    assert_eq!(
        with_attachments("look", &[]),
        "look",
        "a failure does not block the message"
    );
}

#[test]
fn the_gate_holds_hands_out_drops_and_keeps() {
    let mut gate = FlushGate::new();
    assert!(!gate.enqueue([1]), "open");
    gate.start();
    assert!(gate.enqueue([1, 2]) && gate.enqueue([3]));
    assert_eq!(gate.end(), (vec![1, 2, 3], 0));
    assert!(!gate.enqueue([4]), "open again");
    gate.start();
    assert!(gate.enqueue([5, 6]));
    assert_eq!(gate.drop_held(), 2);
    assert_eq!(gate.end(), (vec![], 0));
    gate.start();
    assert!(gate.enqueue([7]));
    gate.deactivate();
    assert!(!gate.enqueue([8]), "the next transport begins");
    assert_eq!(gate.end(), (vec![7], 0), "what waited is kept for it");
    gate.start();
    assert!(gate.enqueue(0..GATE + 5));
    let (held, lost) = gate.end();
    assert_eq!((held.len(), held[0], lost), (GATE, 5, 5), "bounded");
}

#[test]
fn a_name_is_made_until_there_are_enough_words() {
    let long = "make the parser faster without changing what it accepts, please";
    for (name, offered, wanted) in [
        (
            "enough",
            vec!["fix the parser"],
            vec![Some("fix the parser")],
        ),
        (
            "a greeting is not enough",
            vec!["hi", "fix the parser", "and test it well"],
            vec![Some("hi"), Some("fix the parser"), None],
        ),
        (
            "the first line",
            vec!["\n fix the parser\nnow"],
            vec![Some("fix the parser")],
        ),
        (
            "cut between words",
            vec![long],
            vec![Some(
                "make the parser faster without changing what it accepts,…",
            )],
        ),
    ] {
        let mut titler = Titler::default();
        let made: Vec<Option<String>> = offered.iter().map(|words| titler.offer(words)).collect();
        let made: Vec<Option<&str>> = made.iter().map(Option::as_deref).collect();
        assert_eq!(made, wanted, "{name}");
    }
    let mut titler = Titler::default();
    titler.settle();
    assert_eq!(
        titler.offer("fix the parser"),
        None,
        "the session has a name"
    );
}

#[test]
fn attachments_are_named_in_front_of_the_words() {
    let files = |list: Value| attachments(&json!({"file_attachments": list}));
    let pair = |id: &str, name: &str| (id.to_owned(), name.to_owned());
    for (name, list, wanted) in [
        ("none", Value::Null, vec![]),
        (
            "snake and camel case",
            json!([{"file_uuid": "a", "file_name": "x"}, {"fileUuid": "b", "fileName": "y"}]),
            vec![pair("a", "x"), pair("b", "y")],
        ),
        (
            "without a name",
            json!([{"file_uuid": "a"}]),
            vec![pair("a", "")],
        ),
        (
            "without an id, or no object",
            json!([{"file_name": "x"}, 7, {"file_uuid": ""}]),
            vec![],
        ),
    ] {
        assert_eq!(files(list), wanted, "{name}");
    }
    let many: Vec<Value> = (0..100)
        .map(|number| json!({"file_uuid": number.to_string()}))
        .collect();
    assert_eq!(files(many.into()).len(), 32, "bounded");
    let paths = [PathBuf::from("/c/a")];
    for (name, mut content, wanted) in [
        ("a string", json!("look"), json!("@/c/a look")),
        (
            "blocks",
            json!([{"type": "image"}, {"type": "text", "text": "look"}]),
            json!([{"type": "image"}, {"type": "text", "text": "@/c/a look"}]),
        ),
        (
            "an image alone",
            json!([{"type": "image"}]),
            json!([{"type": "text", "text": "@/c/a"}, {"type": "image"}]),
        ),
    ] {
        attach(&mut content, &paths);
        assert_eq!(content, wanted, "{name}");
    }
}

#[test]
fn messages_are_sent_without_what_only_a_terminal_shows() {
    let message = json!({"type": "user", "uuid": "u", "message": {"content": "x"}, "tool_use_result": {"stdout": "y"},
        "isReplay": true, "origin": {"kind": "human"}});
    let wanted = json!({"type": "user", "uuid": "u", "message": {"content": "x"}, "origin": {"kind": "human"}});
    assert_eq!(converted(message), wanted);
}

#[test]
fn ids_are_noted_before_messages_are_sent() {
    let (mut inbound, mut gate) = (Inbound::default(), FlushGate::new());
    let messages = vec![user("x".into()), json!({"type": "progress", "uuid": "p"})];
    let sent = post(messages.clone(), &mut inbound, &mut gate, |_| {});
    assert_eq!(sent, [user("x".into())]);
    assert!(inbound.posted.has("u1") && !inbound.posted.has("p"));
    let echo = inbound.take(&sent[0].to_string());
    assert_eq!(echo, Taken::Dropped("an echo"));
    // Their words are offered for a title also if they are held back, and ids are noted when they go.
    let mut inbound = Inbound::default();
    gate.start();
    let mut words = Vec::new();
    let offer = |text: &str| words.push(text.to_owned());
    assert!(post(messages, &mut inbound, &mut gate, offer).is_empty());
    assert_eq!(words, ["x"]);
    assert!(!inbound.posted.has("u1"));
    assert_eq!(flush(&mut inbound, &mut gate).0.len(), 1);
    assert!(inbound.posted.has("u1"));
}
