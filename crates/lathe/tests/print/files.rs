//! Files that people have, unchanged: what commands, skills, agents and instruction files do in a session.

use super::server;
use lathe_scripted::{BlockingServer, Reply, When};
use lathe_testkit::stream_json::StreamJson;
use lathe_testkit::{TestHome, run::Output};
use serde_json::json;

const TRUSTED: [&str; 2] = ["--setting-sources", "user,project,local"];

fn said(server: &BlockingServer, request: usize) -> String {
    server.requests()[request].body["messages"].to_string()
}

fn run(home: &TestHome, arguments: &[&str]) -> Output {
    let all = ["-p"].into_iter().chain(TRUSTED);
    home.run(all.chain(arguments.iter().copied()).collect::<Vec<_>>(), "")
}

#[test]
fn what_a_skill_disallows_is_refused_until_the_turn_is_over() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": "touch first.txt"})),
        Reply::text("Done."),
        Reply::tool_use("Bash", json!({"command": "touch second.txt"})),
        Reply::text("Done."),
    ]);
    let home = TestHome::with_server(&server);
    home.write(
        ".claude/skills/careful/SKILL.md",
        "---\ndescription: d\ndisallowed-tools: Bash(touch *)\n---\nLook only.\n",
    );
    let mut session = StreamJson::start(&home, ["--allowedTools", "Bash"]);
    session.prompt("/careful");
    session.wait_for_result();
    session.prompt("again");
    session.wait_for_result();
    assert_eq!(session.close().code(), Some(0));
    assert!(!home.project().join("first.txt").exists());
    assert!(home.project().join("second.txt").exists());
    server.finish();
}

#[test]
fn a_forked_skill_runs_as_its_agent_and_in_the_background_if_it_says_so() {
    let server = server([
        Reply::tool_use("Skill", json!({"skill": "survey"})),
        Reply::text("surveyed").when(When::system_contains("You are a surveyor")),
        Reply::text("Started.").when(When::tool_result_for("Skill")),
        Reply::text("Noted.").forever().optional(),
    ]);
    let home = TestHome::with_server(&server);
    home.write(
        ".claude/agents/surveyor.md",
        "---\nname: surveyor\ndescription: d\n---\nYou are a surveyor.\n",
    );
    home.write(
        ".claude/skills/survey/SKILL.md",
        "---\ndescription: d\ncontext: fork\nagent: surveyor\nbackground: true\n---\nMeasure.\n",
    );
    let output = run(&home, &["go"]);
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let requests = server.requests();
    let result = requests
        .iter()
        .map(|request| request.body["messages"].to_string())
        .find(|text| text.contains("continues in the background"));
    assert!(result.is_some(), "{requests:#?}");
}

#[test]
fn a_command_knows_the_project_and_the_effort() {
    let server = server([Reply::text("ok")]);
    let home = TestHome::with_server(&server);
    home.write(
        ".claude/commands/where.md",
        "in ${CLAUDE_PROJECT_DIR} with ${CLAUDE_EFFORT} effort for $1, costs $20\n",
    );
    let output = run(&home, &["/where us", "--effort", "low"]);
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let text = said(&server, 0);
    let project = home.project().display().to_string();
    let expected = format!("in {project} with low effort for us, costs $20");
    assert!(text.contains(&expected), "{text}");
    server.finish();
}

#[test]
fn a_command_whose_name_has_a_blank_is_typed_with_a_hyphen() {
    let server = server([Reply::text("ok")]);
    let home = TestHome::with_server(&server);
    home.write(".claude/commands/Fix It.md", "Mend $ARGUMENTS.\n");
    let output = run(&home, &["/Fix-It the door"]);
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert!(said(&server, 0).contains("Mend the door."));
    server.finish();
}

#[test]
fn hooks_hear_of_instructions_that_come_with_a_touched_file() {
    let server = server([
        Reply::tool_use("Read", json!({"file_path": "sub/a.txt"})),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&server);
    home.write("sub/a.txt", "x\n");
    home.write("sub/CLAUDE.md", "Mind the sub.\n");
    home.write(
        ".claude/rules/r.md",
        "---\npaths: sub/**\n---\nA rule for it.\n",
    );
    let hook = json!({"hooks": {"InstructionsLoaded": [{"hooks": [
        {"type": "command", "command": "cat >> loaded.jsonl; echo >> loaded.jsonl"}
    ]}]}});
    home.write(home.config().join("settings.json"), hook.to_string());
    let output = run(&home, &["go"]);
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let loaded = home.read("loaded.jsonl");
    let reasons: Vec<(String, String)> = loaded
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            let file = event["file_path"].as_str().unwrap().to_owned();
            let touched = event["trigger_file_path"].as_str().unwrap();
            assert!(touched.ends_with("sub/a.txt"), "{event}");
            (file, event["load_reason"].as_str().unwrap().to_owned())
        })
        .collect();
    let ends = |index: usize, file: &str, reason: &str| {
        reasons[index].0.ends_with(file) && reasons[index].1 == reason
    };
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(ends(0, "sub/CLAUDE.md", "nested_traversal"), "{reasons:?}");
    assert!(ends(1, "rules/r.md", "path_glob_match"), "{reasons:?}");
    server.finish();
}

#[test]
fn an_agent_that_stops_is_not_among_the_running_ones_that_its_hooks_hear_of() {
    let server = server([
        Reply::tool_use(
            "Agent",
            json!({"description": "d", "prompt": "p", "subagent_type": "helper", "run_in_background": false}),
        ),
        Reply::text("helped").when(When::system_contains("You fold paper")),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&server);
    home.write(
        ".claude/agents/helper.md",
        "---\nname: helper\ndescription: d\n---\nYou fold paper.\n",
    );
    let hook = json!({"hooks": {"SubagentStop": [{"hooks": [
        {"type": "command", "command": "cat > stopped.json"}
    ]}]}});
    home.write(home.config().join("settings.json"), hook.to_string());
    let output = run(&home, &["go"]);
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let event: serde_json::Value = serde_json::from_str(&home.read("stopped.json")).unwrap();
    assert_eq!(event["agent_type"], "helper");
    assert_eq!(event["background_tasks"], json!([]));
    server.finish();
}

#[test]
fn allowed_tools_of_an_agent_are_its_tools_and_it_may_leave_instructions_out() {
    for omits in ["omitClaudeMd", "omitInstructions"] {
        let order = json!({
            "description": "d", "prompt": "p", "subagent_type": "reader", "run_in_background": false,
        });
        let server = server([
            Reply::tool_use("Agent", order),
            Reply::text("read").when(When::system_contains("You read")),
            Reply::text("ok"),
        ]);
        let home = TestHome::with_server(&server);
        home.write("CLAUDE.md", "Speak of walruses.\n");
        let keys = format!("name: reader\ndescription: d\nallowedTools: Read, Grep\n{omits}: true");
        home.write(
            ".claude/agents/reader.md",
            format!("---\n{keys}\n---\nYou read.\n"),
        );
        let output = run(&home, &["go"]);
        assert_eq!(output.code(), Some(0), "{}", output.stderr);
        let requests = server.requests();
        assert!(requests[0].body.to_string().contains("walruses"));
        let agent = &requests[1].body;
        assert!(!agent.to_string().contains("walruses"), "{agent}");
        let names = agent["tools"].as_array().unwrap().iter();
        let mut names: Vec<&str> = names.map(|tool| tool["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["Grep", "Read"]);
        server.finish();
    }
}
