//! Prompts of servers as skills: what the model is told of them, and what comes of using one.

use super::*;
use lathe_testkit::StreamJson;

const GREET: &str = "mcp__local__greet";

/// The text of the fixture's prompt for the model.
const LISTED: &str = "- mcp__local__greet: (args: <who>) a prompt of the MCP server local";

fn skill(name: &str, args: &str) -> Reply {
    Reply::tool_use("Skill", json!({"skill": name, "args": args}))
}

/// A session whose servers are all connected.
fn connected(home: &TestHome, servers: &Value, more: &[&str]) -> StreamJson {
    let servers = config(servers);
    let mut arguments = vec!["--mcp-config", &servers];
    arguments.extend(more);
    let mut session = StreamJson::start(home, arguments);
    control(&mut session, &json!({"subtype": "mcp_status"}));
    session
}

/// The messages of a request without the marks of the cache, which move on.
fn messages(model: &BlockingServer, request: usize) -> Vec<Value> {
    fn unmarked(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.remove("cache_control");
                map.values_mut().for_each(unmarked);
            }
            Value::Array(list) => list.iter_mut().for_each(unmarked),
            _ => {}
        }
    }
    let mut all = model.requests()[request].body["messages"].clone();
    unmarked(&mut all);
    all.as_array().unwrap().clone()
}

#[test]
fn a_prompt_of_a_server_is_a_skill_that_the_model_uses() {
    let model = model([
        skill(GREET, "Ada").with_tool_use(
            "Skill",
            json!({"skill": "local:greet", "args": "\"Grace !`touch ran.txt` $1\""}),
        ),
        skill(GREET, ""),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&model);
    let servers = json!({"local": fixture(&[])});
    let rule = ["--allowedTools", "Skill(mcp__local__greet)"];
    let mut session = connected(&home, &servers, &rule);
    session.prompt("go");
    assert_eq!(session.wait_for_result()["result"], "done");
    assert_eq!(
        sent(&model, 0).matches(LISTED).count(),
        1,
        "{}",
        sent(&model, 0)
    );
    let said = sent(&model, 1);
    assert!(said.contains("\"Greet Ada\""), "{said}");
    // What comes from a server is words: nothing in it is filled in or run.
    assert!(said.contains("Greet Grace !`touch ran.txt` $1"), "{said}");
    assert!(!home.project().join("ran.txt").exists());
    let said = sent(&model, 2);
    assert!(
        said.contains("needs who") && said.contains("in args"),
        "{said}"
    );
    assert_eq!(said.matches(LISTED).count(), 1, "told once: {said}");
    assert_eq!(session.close().code(), Some(0));
    model.finish();
    nothing_left(&home);
}

#[test]
fn prompts_of_an_official_server_take_their_arguments_by_position() {
    let model = model([
        skill("mcp__everything__args-prompt", "\"New York\" NY")
            .with_tool_use("Skill", json!({"skill": "everything:simple-prompt"})),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&model);
    let servers = json!({"everything": official("server-everything", &["stdio"])});
    // A rule for the server is a word for its prompts too.
    let mut session = connected(&home, &servers, &["--allowedTools", "mcp__everything"]);
    session.prompt("go");
    session.wait_for_result();
    let listed = sent(&model, 0);
    assert!(
        listed.contains("- mcp__everything__args-prompt: (args: <city> [state]) "),
        "{listed}"
    );
    let said = sent(&model, 1);
    assert!(said.contains("weather in New York, NY"), "{said}");
    assert!(said.contains("simple prompt without arguments"), "{said}");
    assert_eq!(session.close().code(), Some(0));
    model.finish();
    nothing_left(&home);
}

#[test]
fn arguments_for_a_server_need_a_rule_and_a_denial_is_final() {
    for (rules, allowed) in [
        (&[][..], false),
        (&["--allowedTools", "Skill(mcp__local__greet)"][..], true),
        (&["--allowedTools", "mcp__local"][..], true),
        (
            &[
                "--allowedTools",
                "Skill",
                "--disallowedTools",
                "Skill(mcp__local__greet)",
            ][..],
            false,
        ),
    ] {
        let model = model([skill("local:greet", "Ada"), Reply::text("done")]);
        let home = TestHome::with_server(&model);
        let mut session = connected(&home, &json!({"local": fixture(&[])}), rules);
        session.prompt("go");
        let result = session.wait_for_result();
        let said = sent(&model, 1);
        assert_eq!(said.contains("Greet Ada"), allowed, "{rules:?}: {said}");
        let denials = result["permission_denials"].as_array().unwrap();
        assert_eq!(denials.is_empty(), allowed, "{rules:?}: {result}");
        assert_eq!(session.close().code(), Some(0));
        model.finish();
    }
}

#[test]
fn a_server_that_comes_late_and_goes_takes_its_prompts_with_it() {
    let model = model([
        Reply::text("without"),
        skill(GREET, "Ada"),
        Reply::text("with"),
        skill(GREET, "Ada"),
        skill("local:greet", "Ada"),
        Reply::text("gone"),
    ]);
    let home = TestHome::with_server(&model);
    let servers = json!({"local": fixture(&[])});
    let mut session = connected(&home, &servers, &["--allowedTools", "Skill"]);
    let toggle =
        |enabled: bool| json!({"subtype": "mcp_toggle", "serverName": "local", "enabled": enabled});
    control(&mut session, &toggle(false));
    session.prompt("first");
    session.wait_for_result();
    assert!(!sent(&model, 0).contains(GREET), "{}", sent(&model, 0));

    control(&mut session, &toggle(true));
    control(&mut session, &json!({"subtype": "mcp_status"}));
    session.prompt("second");
    session.wait_for_result();
    let told = sent(&model, 1);
    assert_eq!(told.matches(LISTED).count(), 1, "{told}");
    // It is told at the end: what was sent before stays as it was.
    let (before, after) = (messages(&model, 0), messages(&model, 1));
    assert!(after.starts_with(&before), "{before:#?} {after:#?}");
    assert!(sent(&model, 2).contains("Greet Ada"), "{}", sent(&model, 2));

    control(&mut session, &toggle(false));
    session.prompt("third");
    session.wait_for_result();
    let told = sent(&model, 3);
    let gone = "Removed skills: mcp__local__greet.";
    assert_eq!(told.matches(gone).count(), 1, "{told}");
    assert!(messages(&model, 3).starts_with(&messages(&model, 2)));
    let said = sent(&model, 5);
    let why = "is not available: its MCP server local is disabled";
    assert_eq!(said.matches(why).count(), 2, "{said}");
    assert_eq!(session.close().code(), Some(0));
    model.finish();
    nothing_left(&home);
}

#[test]
fn servers_that_are_denied_or_not_approved_have_no_prompts() {
    let model = model([
        skill("mcp__shared__greet", "Ada"),
        Reply::text("done"),
        skill(GREET, "Ada"),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&model);
    home.write(".mcp.json", config(&json!({"shared": fixture(&[])})));
    let output = home.run(["-p", "hi", "--allowedTools", "Skill"], "");
    assert_eq!(output.stdout, "done\n", "{}", output.stderr);
    assert!(
        !sent(&model, 0).contains("mcp__shared"),
        "{}",
        sent(&model, 0)
    );
    let said = sent(&model, 1);
    assert!(
        said.contains("no connected MCP server has such a prompt"),
        "{said}"
    );
    let rules = ["--allowedTools", "Skill", "--disallowedTools", "mcp__local"];
    let mut session = connected(&home, &json!({"local": fixture(&[])}), &rules);
    session.prompt("go");
    session.wait_for_result();
    assert!(!sent(&model, 2).contains(GREET), "{}", sent(&model, 2));
    assert!(
        !sent(&model, 3).contains("Greet Ada"),
        "{}",
        sent(&model, 3)
    );
    assert_eq!(session.close().code(), Some(0));
    model.finish();
}

#[test]
fn a_resumed_session_is_not_informed_twice() {
    let model = model([Reply::text("one"), Reply::text("two")]);
    let home = TestHome::with_server(&model);
    let servers = json!({"local": fixture(&[])});
    for (request, more) in [&[][..], &["--continue"][..]].into_iter().enumerate() {
        let mut session = connected(&home, &servers, more);
        session.prompt("go");
        session.wait_for_result();
        assert_eq!(session.close().code(), Some(0));
        let told = sent(&model, request);
        assert_eq!(told.matches(GREET).count(), 1, "{told}");
    }
    model.finish();
}

#[test]
fn a_server_with_endless_prompts_stays_in_its_share_and_shortens_no_skill() {
    let model = model([Reply::text("ok")]);
    let home = TestHome::with_server(&model);
    let words = "Tells how releases are made here, in all the words that it takes.";
    std::fs::create_dir_all(home.config().join("skills/release")).unwrap();
    std::fs::write(
        home.config().join("skills/release/SKILL.md"),
        format!("---\nname: release\ndescription: {words}\n---\nDo it."),
    )
    .unwrap();
    let mut session = connected(&home, &json!({"local": fixture(&["prompts"])}), &[]);
    session.prompt("go");
    session.wait_for_result();
    let request = &model.requests()[0].body["messages"];
    let texts: Vec<&str> = request
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message["content"].as_array())
        .flatten()
        .filter_map(|block| block["text"].as_str())
        .collect();
    let listing = texts
        .iter()
        .find(|text| text.contains("Skills that you can use"))
        .unwrap();
    assert!(
        listing.contains(&format!("- release: {words}")),
        "{listing}"
    );
    assert!(listing.contains("- mcp__local__p499: (args: "), "{listing}");
    // A hundredth of a window of a million tokens, and a tenth of that more for what comes last: five
    // hundred descriptions of 250 characters don't fit.
    assert!(listing.chars().count() < 45_000, "{}", listing.len());
    assert!(
        !listing.contains('\u{1b}') && !listing.contains("\n- all:"),
        "{listing}"
    );
    assert!(!listing.contains("\n- b"), "{listing}");
    assert_eq!(session.close().code(), Some(0));
    model.finish();
}

/// Has an agent of that type use a skill, and gives what it was told before and after.
fn in_agent(kind: &str, agents: &Value, name: &str) -> (String, String) {
    let task = json!({"description": "d", "prompt": "greet", "subagent_type": kind, "run_in_background": false});
    let model = model([
        Reply::tool_use("Agent", task),
        skill(name, "Ada"),
        Reply::text("greeted"),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&model);
    let servers = json!({"local": fixture(&[])});
    let agents = agents.to_string();
    let rules = ["--agents", &agents, "--allowedTools", "Skill"];
    let mut session = connected(&home, &servers, &rules);
    session.prompt("go");
    assert_eq!(session.wait_for_result()["result"], "done");
    assert_eq!(session.close().code(), Some(0));
    let told = (sent(&model, 1), sent(&model, 2));
    model.finish();
    nothing_left(&home);
    told
}

#[test]
fn an_agent_uses_prompts_of_the_session_s_servers_unless_its_definition_forbids_it() {
    let agents = json!({
        "worker": {"description": "d", "prompt": "You work.", "tools": ["Read", "Skill"]},
        "closed": {"description": "d", "prompt": "You work.", "disallowedTools": ["mcp__local"]},
    });
    // A fork knows what it is a copy of, and isn't told again.
    for kind in ["worker", "fork"] {
        let (before, after) = in_agent(kind, &agents, GREET);
        assert_eq!(before.matches(LISTED).count(), 1, "{kind}: {before}");
        assert!(!after.contains("Removed skills"), "{kind}: {after}");
        assert!(after.contains("Greet Ada"), "{kind}: {after}");
    }
    let (before, after) = in_agent("closed", &agents, GREET);
    assert!(!before.contains(GREET), "{before}");
    assert!(
        after.contains("There is no skill mcp__local__greet"),
        "{after}"
    );
}

#[test]
fn prompts_of_a_server_that_only_an_agent_has_are_its_skills() {
    let own = json!({"private": fixture(&[])});
    let agents = json!({"owner": {"description": "d", "prompt": "You work.", "mcpServers": [own]}});
    let (before, after) = in_agent("owner", &agents, "mcp__private__greet");
    for name in [GREET, "mcp__private__greet"] {
        assert_eq!(
            before.matches(&format!("- {name}: ")).count(),
            1,
            "{before}"
        );
    }
    assert!(after.contains("Greet Ada"), "{after}");
}
