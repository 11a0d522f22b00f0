//! The page in a real browser: list, open, stream, approve, deny with words, interrupt, upload, a server that restarts,
//! two tabs, a phone. `PAGE_PICTURES=FOLDER` keeps the pictures for the docs.
use crate::support::Site;
use lathe_server::DeviceScope;
use lathe_testkit::browser::Browser;
use lathe_wire::WireOp;
use serde_json::{Value, json};

fn question(id: &str) -> Value {
    json!({"type": "control_request", "request_id": id, "request": {"subtype": "can_use_tool", "tool_name": "Edit",
        "input": {"file_path": "src/lib.rs", "old_string": "let a = 1;\nlet b = 2;", "new_string": "let a = 1;\nlet b = 3;"}}})
}

fn records() -> Vec<Value> {
    vec![
        json!({"type": "user", "uuid": "00000000-0000-4000-8000-000000000001", "message": {"role": "user", "content": "Fix the failing test"}}),
        json!({"type": "assistant", "uuid": "00000000-0000-4000-8000-000000000002", "message": {"role": "assistant", "content": [
            {"type": "text", "text": "## Plan\n\nThe **sum** is wrong in `lib.rs`:\n\n- read it\n- fix it\n\n```rust\nlet b = 3;\n```"},
            {"type": "tool_use", "id": "t1", "name": "TodoWrite", "input": {"todos": [
                {"content": "Read the test", "status": "completed"}, {"content": "Fix the sum", "status": "in_progress"}]}},
            {"type": "tool_use", "id": "t2", "name": "Bash", "input": {"command": "cargo test", "description": "Run the tests"}}]}}),
        json!({"type": "user", "uuid": "00000000-0000-4000-8000-000000000003", "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t2", "content": "1 failed", "is_error": true}]}}),
    ]
}

fn ops(site: &Site, wanted: impl Fn(&WireOp) -> bool) -> usize {
    site.peer
        .ops
        .lock()
        .iter()
        .filter(|(op, _)| wanted(op))
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_works_in_a_browser() {
    let site = Site::new().await;
    *site.peer.records.lock() = records();
    let code = site.devices().code(DeviceScope::Approve).unwrap();
    let browser = Browser::start();
    let base = format!("http://{}", site.host_header());

    // The list.
    browser.open(&format!("{base}/#c={code}"));
    browser.wait_text("needs you");
    assert_eq!(
        browser.run("return location.hash"),
        json!(""),
        "the code does not stay in the address"
    );
    // Open: Markdown, a diff, tasks; nothing of it is markup.
    browser.run("document.querySelector('#sessions button').click()");
    browser.wait_text("Fix the failing test");
    browser.wait("document.querySelector('#log strong')?.textContent === 'sum'");
    browser.wait("document.querySelector('#todos li.in_progress')");
    // Approve.
    site.peer.ask(&question("q1"));
    browser.wait("document.querySelector('.question .diff .add')");
    browser.picture("page-question.png");
    // Hostile text stays text.
    let hostile = "<img src=x onerror=\"document.title='hacked'\"> \u{1b}[31mred \u{202e}txt.exe [a](javascript:alert(1))";
    site.peer.emit(&json!({"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": hostile}]}}));
    browser.wait_text("txt.exe");
    assert_eq!(
        browser.run("return document.querySelectorAll('#log img').length"),
        json!(0)
    );
    assert_eq!(
        browser.run("return document.querySelectorAll('a[href^=javascript]').length"),
        json!(0)
    );
    let text = browser.run("return document.getElementById('log').textContent");
    let text = text.as_str().unwrap();
    assert!(
        text.contains("<img src=x") && text.contains("red txt.exe"),
        "{text}"
    );
    assert!(
        !text.contains('\u{1b}') && !text.contains('\u{202e}'),
        "{text}"
    );
    // So do names, paths and differences in a question.
    let mark = "<img src=x onerror=\"document.title='hacked'\">\u{1b}[31m\u{202e}";
    site.peer.ask(&json!({"type": "control_request", "request_id": "hostile", "request": {"subtype": "can_use_tool",
        "tool_name": mark, "title": mark, "input": {"file_path": mark, "old_string": mark, "new_string": format!("{mark}b")}}}));
    browser.wait("document.querySelectorAll('.question').length === 2");
    let shown = browser.run("const box = document.getElementById('questions'); return [box.querySelectorAll('img').length, box.textContent]");
    assert_eq!(shown[0], json!(0));
    let text = shown[1].as_str().unwrap();
    assert!(
        text.contains("<img src=x") && !text.contains('\u{1b}') && !text.contains('\u{202e}'),
        "{text}"
    );
    browser.run("[...document.querySelectorAll('.question')].at(-1).querySelector('.yes').click()");
    browser.wait("document.querySelectorAll('.question').length === 1");
    browser.run("document.querySelector('.question .yes').click()");
    browser.wait("!document.querySelector('.question')");
    browser.wait_text("Allowed by");
    // Deny with words.
    site.peer.ask(&question("q2"));
    browser.wait("document.querySelector('.question input[type=text]')");
    browser.run("document.querySelector('.question input[type=text]').value = 'use the other file'; [...document.querySelectorAll('.question button')].find(b => b.textContent === 'No').click()");
    browser.wait_text("use the other file");
    // Stream.
    browser.type_prompt("go on");
    browser
        .wait("[...document.querySelectorAll('#log strong')].some(b => b.textContent === 'words')");
    // Interrupt.
    site.peer
        .emit(&json!({"type": "stream_event", "event": {"type": "message_start"}}));
    browser.wait("!document.getElementById('interrupt').hidden");
    browser.run("document.getElementById('interrupt').click()");
    browser.wait("document.getElementById('interrupt').hidden");
    assert_eq!(ops(&site, |op| matches!(op, WireOp::Interrupt { .. })), 1);
    // Upload, by the file list of the input.
    browser.run("const files = new DataTransfer(); files.items.add(new File(['hello'], 'notes.txt')); const input = document.getElementById('attach'); input.files = files.files; input.dispatchEvent(new Event('change'));");
    browser.wait("document.querySelector('#files li')");
    browser.type_prompt("look");
    browser.wait_text("_notes.txt look");
    // A restart of the server: the page comes back by itself, with the same token.
    let site = site.restart().await;
    browser.type_prompt("after the restart");
    browser.wait_text("after the restart");
    browser.wait("document.getElementById('state').textContent !== 'reconnecting'");
    assert_eq!(
        ops(
            &site,
            |op| matches!(op, WireOp::Prompt { content, .. } if content.text().contains("after the restart"))
        ),
        1
    );
    let title = browser.run("return document.title");
    assert!(title.as_str().unwrap().contains("the session"), "{title}");
    browser.picture("page.png");
    // A phone.
    browser.resize(400, 800);
    browser.wait("getComputedStyle(document.getElementById('list')).display === 'none'");
    assert_eq!(
        browser.run("return document.documentElement.scrollWidth <= innerWidth"),
        json!(true),
        "nothing is wider than the screen"
    );
    site.peer.ask(&question("q3"));
    browser.wait("document.querySelector('.question .yes')");
    browser.picture("page-phone.png");
    browser.run("document.getElementById('back').click()");
    browser.wait("getComputedStyle(document.getElementById('list')).display !== 'none'");
}

/// Names in the list, and what a server of the Model Context Protocol asks, whose form is answered here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_names_and_questions_of_servers_stay_text() {
    let site = Site::new().await;
    let mark = "<img src=x onerror=\"document.title='hacked'\">\u{1b}[31m\u{202e}\u{200b}name";
    let description = site.home.path().join("config/run");
    for entry in std::fs::read_dir(description).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "json") {
            let mut info: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            info["title"] = mark.into();
            info["activity"] = mark.into();
            std::fs::write(path, info.to_string()).unwrap();
        }
    }
    let code = site.devices().code(DeviceScope::Approve).unwrap();
    let browser = Browser::start();
    browser.open(&format!("http://{}/#c={code}", site.host_header()));
    browser.wait("document.querySelector('#sessions button')");
    browser.run("document.querySelector('#sessions button').click()");
    browser.wait("document.getElementById('state').textContent === 'needs you'");
    site.peer.ask(&json!({"type": "control_request", "request_id": "form", "request": {"subtype": "elicitation",
        "mcp_server_name": mark, "message": mark, "mode": "form", "requested_schema": {"type": "object", "required": ["name"],
        "properties": {"name": {"type": "string", "title": mark}, "many": {"type": "integer"}, "sure": {"type": "boolean"},
        "colour": {"type": "string", "enum": ["red", "blue"]}}}}}));
    browser.wait("document.querySelector('.question form')");
    let shown = browser.run("return [document.querySelectorAll('img').length, document.body.textContent, document.title]");
    assert_eq!(shown[0], json!(0));
    let (text, title) = (shown[1].as_str().unwrap(), shown[2].as_str().unwrap());
    assert!(text.matches("<img src=x").count() > 3, "{text}");
    for hidden in ['\u{1b}', '\u{202e}', '\u{200b}'] {
        assert!(
            !text.contains(hidden) && !title.contains(hidden),
            "{hidden:?}"
        );
    }
    assert_ne!(title, "hacked");
    // A field that is needed is missing: nothing is sent.
    browser.run("document.querySelector('.question .yes').click()");
    assert_eq!(
        ops(&site, |op| matches!(op, WireOp::ElicitationReply { .. })),
        0
    );
    browser.run("const [name, many, sure] = document.querySelectorAll('.question input'); name.value = 'Ada'; many.value = '3'; sure.checked = true; document.querySelector('.question select').value = 'blue'; document.querySelector('.question .yes').click()");
    browser.wait("!document.querySelector('.question')");
    let sent = site.peer.ops.lock().iter().find_map(|(op, _)| match op {
        WireOp::ElicitationReply { reply, .. } => serde_json::to_value(reply).ok(),
        _ => None,
    });
    let wanted = json!({"action": "accept", "content": {"name": "Ada", "many": 3, "sure": true, "colour": "blue"}});
    assert_eq!(sent, Some(wanted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_tabs_one_wins_and_the_other_is_told() {
    let site = Site::new().await;
    let base = format!("http://{}", site.host_header());
    let tabs = [Browser::start(), Browser::start()];
    for tab in &tabs {
        let code = site.devices().code(DeviceScope::Approve).unwrap();
        tab.open(&format!("{base}/#c={code}"));
        tab.wait("document.querySelector('#sessions button')");
        tab.run("document.querySelector('#sessions button').click()");
        tab.wait("document.getElementById('state').textContent === 'needs you'");
    }
    site.peer.ask(&question("race"));
    for tab in &tabs {
        tab.wait("document.querySelector('.question .yes')");
    }
    std::thread::scope(|scope| {
        for tab in &tabs {
            scope.spawn(|| tab.run("document.querySelector('.question .yes')?.click()"));
        }
    });
    for tab in &tabs {
        tab.wait("!document.querySelector('.question')");
        tab.wait_text("Allowed by");
    }
    let replies = ops(&site, |op| matches!(op, WireOp::PermissionReply { .. }));
    assert!((1..=2).contains(&replies), "{replies}");
}
