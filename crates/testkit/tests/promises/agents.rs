//! Keys of the files of agents, skills, commands and output styles.

use super::{Run, run_in};
use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::{StreamJson, TestHome};
use serde_json::{Value, json};

/// A run in which the model starts the agent `helper`, whose file has these lines and whose answers are these.
fn with_agent(lines: &str, answers: Vec<Reply>, flags: &[&str]) -> Run {
    let home = TestHome::new();
    home.write("AGENTS.md", "Words of the project.\n");
    let text = format!("---\nname: helper\ndescription: helps\n{lines}\n---\nYou help.\n");
    home.write(home.config().join("agents/helper.md"), text);
    let order = json!({"description": "help", "prompt": "Help.", "subagent_type": "helper",
        "run_in_background": false});
    let mut replies = vec![Reply::tool_use("Agent", order)];
    replies.extend(answers);
    replies.push(Reply::text("done"));
    let run = run_in(home, replies, flags);
    assert_eq!(run.output.code(), Some(0), "{}", run.output.stderr);
    run
}

/// The text of the agent's first request.
fn told(run: &Run) -> String {
    let body = &run.requests[1].body;
    format!("{}{}", body["system"], body["messages"])
}

#[test]
fn an_agent_has_the_tools_that_its_file_lists_under_either_name() {
    for key in ["tools", "allowedTools"] {
        let run = with_agent(&format!("{key}: Read, Grep"), vec![Reply::text("ok")], &[]);
        assert_eq!(run.requests[1].tool_names(), ["Grep", "Read"], "{key}");
    }
    let run = with_agent("disallowedTools: Bash, Edit", vec![Reply::text("ok")], &[]);
    let names = run.requests[1].tool_names();
    assert!(names.contains(&"Read") && !names.contains(&"Bash") && !names.contains(&"Edit"));
}

#[test]
fn an_agent_may_do_without_the_instructions_of_the_project() {
    let has =
        |line: &str| told(&with_agent(line, vec![Reply::text("ok")], &[])).contains("Words of");
    assert!(has("color: red"));
    for key in ["omitInstructions", "omitClaudeMd"] {
        assert!(!has(&format!("{key}: true")), "{key}");
    }
}

#[test]
fn an_agent_works_in_the_permission_mode_of_its_file() {
    let made = |line: &str| {
        let write = json!({"file_path": "made.txt", "content": "x"});
        let answers = vec![Reply::tool_use("Write", write), Reply::text("ok")];
        let run = with_agent(line, answers, &[]);
        run.home.project().join("made.txt").exists()
    };
    assert!(made("permissionMode: acceptEdits"));
    assert!(!made("permissionMode: default"));
}

#[test]
fn a_main_agent_brings_its_first_prompt_and_its_own_words() {
    let home = TestHome::new();
    let text = "---\nname: helper\ndescription: helps\ninitialPrompt: Begin with the clocks.\n---\nYou help with clocks.\n";
    home.write(home.config().join("agents/helper.md"), text);
    let run = run_in(home, vec![Reply::text("fine")], &["--agent", "helper"]);
    assert_eq!(run.output.code(), Some(0), "{}", run.output.stderr);
    assert!(
        run.requests[0]
            .system_text()
            .contains("You help with clocks.")
    );
    assert!(
        run.told().contains("Begin with the clocks."),
        "{}",
        run.told()
    );
}

#[test]
fn agents_of_the_command_line_have_a_description_and_a_prompt() {
    let agents =
        json!({"watcher": {"description": "watches the tower clock", "prompt": "You watch."}});
    let agents = agents.to_string();
    let order = json!({"description": "watch", "prompt": "Go.", "subagent_type": "watcher",
        "run_in_background": false});
    let replies = vec![
        Reply::tool_use("Agent", order),
        Reply::text("seen"),
        Reply::text("done"),
    ];
    let run = run_in(TestHome::new(), replies, &["--agents", &agents]);
    assert_eq!(run.output.code(), Some(0), "{}", run.output.stderr);
    let tools = run.body()["tools"].to_string();
    assert!(tools.contains("watches the tower clock"));
    assert!(run.requests[1].system_text().contains("You watch."));
}

/// The first request after `/sweep`, a skill whose file has these lines.
fn with_skill(lines: &str, body: &str, prompt: &str, replies: Vec<Reply>) -> Run {
    let server = lathe_testkit::server(replies);
    let home = TestHome::with_server(&server);
    let text = format!("---\n{lines}\n---\n{body}\n");
    home.write(home.config().join("skills/sweep/SKILL.md"), text);
    let output = home.run(["-p", prompt], "");
    Run {
        home,
        output,
        requests: server.message_requests(),
    }
}

#[test]
fn a_skill_is_offered_with_when_to_use_it_unless_it_is_only_for_people() {
    let lines = "name: sweep\ndescription: how floors are swept\nwhen_to_use: before guests come";
    let run = with_skill(lines, "Sweep.", "hi", vec![Reply::text("ok")]);
    assert!(
        run.told().contains("how floors are swept"),
        "{}",
        run.told()
    );
    assert!(run.told().contains("before guests come"));
    let hidden = format!("{lines}\ndisable-model-invocation: true");
    let run = with_skill(&hidden, "Sweep.", "hi", vec![Reply::text("ok")]);
    assert!(!run.told().contains("how floors are swept"));
    let called = vec![
        Reply::tool_use("Skill", json!({"skill": "sweep"})),
        Reply::text("ok"),
    ];
    let run = with_skill(&hidden, "Sweep.", "hi", called);
    assert!(
        run.last_result().contains("as /sweep"),
        "{}",
        run.last_result()
    );
    let run = with_skill(
        &hidden,
        "Sweep the floor.",
        "/sweep",
        vec![Reply::text("ok")],
    );
    assert!(run.told().contains("Sweep the floor."));
}

#[test]
fn a_skill_that_is_not_for_people_is_no_command() {
    let lines = "name: sweep\ndescription: d\nuser-invocable: false";
    let run = with_skill(
        lines,
        "Sweep the floor.",
        "/sweep",
        vec![Reply::text("ok").optional()],
    );
    let asked = run.requests.first().map(|request| request.body.to_string());
    assert!(!asked.unwrap_or_default().contains("Sweep the floor."));
}

#[test]
fn the_tools_that_a_skill_allows_run_without_a_question() {
    let made = |lines: &str| {
        let replies = vec![
            Reply::tool_use("Bash", json!({"command": "touch made"})),
            Reply::text("ok"),
        ];
        let lines = format!("name: sweep\ndescription: d\n{lines}");
        let run = with_skill(&lines, "Sweep.", "/sweep", replies);
        run.home.project().join("made").exists()
    };
    assert!(made("allowed-tools: Bash(touch:*)"));
    assert!(!made("allowed-tools: Bash(mkdir:*)"));
}

#[test]
fn a_skill_chooses_model_and_effort_also_where_it_runs_in_an_agent() {
    let lines = "name: sweep\ndescription: d\nmodel: claude-haiku-4-5\neffort: low";
    let run = with_skill(lines, "Sweep.", "/sweep", vec![Reply::text("ok")]);
    assert_eq!(run.requests[0].model(), "claude-haiku-4-5");
    assert_eq!(run.body()["output_config"]["effort"], "low");
    let forked = "name: sweep\ndescription: d\neffort: low\ncontext: fork\nagent: explore";
    let replies = vec![
        Reply::tool_use("Skill", json!({"skill": "sweep"})),
        Reply::text("swept"),
        Reply::text("ok"),
    ];
    let run = with_skill(forked, "Sweep every corner.", "/sweep", replies);
    let agent = run.requests.iter().find(|request| {
        request.messages()[0]
            .to_string()
            .contains("Sweep every corner.")
    });
    let agent = agent.unwrap_or_else(|| panic!("{:#?}", run.output));
    assert_eq!(agent.body["output_config"]["effort"], "low");
    // The agent that it names only reads.
    let tools = agent.body["tools"].to_string();
    assert!(tools.contains(r#""Read""#) && !tools.contains(r#""Edit""#));
    assert_eq!(run.body()["output_config"]["effort"], Value::Null);
}

#[test]
fn facts_of_a_skill_are_shown_and_checked() {
    let home = TestHome::new();
    let text = "---\nname: sweep\ndescription: how floors are swept\nlicense: Apache-2.0\ncompatibility: needs a broom\nmetadata:\n  by: us\nversion: 1.2.3\nargument-hint: \"[room]\"\narguments: room\n---\nSweep the $room.\n";
    home.write(home.config().join("skills/sweep/SKILL.md"), text);
    let shown = home.run(["skills", "show", "sweep"], "");
    assert_eq!(shown.code(), Some(0), "{}", shown.stderr);
    for fact in ["Apache-2.0", "needs a broom", "1.2.3", "[room]", "by: us"] {
        assert!(shown.stdout.contains(fact), "{fact}: {}", shown.stdout);
    }
    let server = lathe_testkit::server([Reply::text("ok")]);
    let home = home.server(&server);
    let _ = home.run(["-p", "/sweep kitchen"], "");
    let body = server.message_requests()[0].body.to_string();
    assert!(body.contains("Sweep the kitchen."), "{body}");
}

#[test]
fn a_skill_with_paths_is_offered_when_such_a_file_is_touched() {
    let home = TestHome::new();
    home.write("notes.txt", "notes");
    home.write("dial.clock", "ticks");
    let text = "---\nname: oiling\ndescription: how clocks are oiled\npaths: \"**/*.clock\"\n---\nOne drop.\n";
    home.write(".lathe/skills/oiling/SKILL.md", text);
    let read = |file: &str| Reply::tool_use("Read", json!({"file_path": file}));
    let server = lathe_testkit::server([
        read("notes.txt"),
        Reply::text("ok"),
        read("dial.clock"),
        Reply::text("ok"),
        Reply::text("ok"),
    ]);
    let home = home.server(&server);
    let mut session = StreamJson::start(&home, [] as [&str; 0]);
    for _ in 0..3 {
        session.prompt("go");
        session.wait_for_result();
    }
    let _ = session.close();
    let requests = server.message_requests();
    let told = |index: usize| {
        let body = requests[index].body.to_string();
        body.contains("how clocks are oiled")
    };
    assert!(!told(0) && !told(2) && told(4));
}

#[test]
fn an_output_style_replaces_what_is_said_of_code_unless_it_keeps_it() {
    let prompt = |lines: &str| {
        let home = TestHome::new();
        let text =
            format!("---\nname: Verse\ndescription: in verse\n{lines}---\nSpeak in verse.\n");
        home.write(home.config().join("output-styles/rhyme.md"), text);
        let flags = ["--settings", r#"{"outputStyle": "Verse"}"#];
        let run = run_in(home, vec![Reply::text("fine")], &flags);
        assert_eq!(run.output.code(), Some(0), "{}", run.output.stderr);
        let listed = run.home.run(["-p", "/output-style"], "").stdout;
        assert!(listed.contains("Verse: in verse"), "{listed}");
        let system = run.requests[0].system_text();
        assert!(system.contains("Speak in verse."));
        system
    };
    let (alone, beside) = (prompt(""), prompt("keep-coding-instructions: true\n"));
    assert!(
        beside.len() > alone.len() + 500,
        "{} {}",
        beside.len(),
        alone.len()
    );
}

#[test]
fn an_agent_of_the_background_leaves_the_conversation_free() {
    let result = |line: &str| {
        let home = TestHome::new();
        let text = format!("---\nname: helper\ndescription: helps\n{line}\n---\nYou help.\n");
        home.write(home.config().join("agents/helper.md"), text);
        let order = json!({"description": "help", "prompt": "HELP-NOW", "subagent_type": "helper"});
        let scenario = Scenario::new().responder(move |request| {
            let of_agent = request.messages()[0].to_string().contains("HELP-NOW");
            match request.last_results().is_empty() {
                true if of_agent => Reply::text("the answer of the agent"),
                // The report of an agent of the background comes as a prompt.
                true if request.last_user_text().contains("task-notification") => {
                    Reply::text("noted")
                }
                true => Reply::tool_use("Agent", order.clone()),
                false => Reply::text("done"),
            }
        });
        let server = BlockingServer::start(scenario).unwrap();
        let home = home.server(&server);
        assert_eq!(home.run(["-p", "go"], "").code(), Some(0));
        let requests = server.message_requests();
        let told = requests
            .iter()
            .find(|request| !request.last_results().is_empty());
        told.unwrap().last_tool_result()
    };
    assert!(!result("background: true").contains("the answer of the agent"));
    assert!(result("background: false").contains("the answer of the agent"));
}

#[test]
fn an_agent_knows_the_skills_of_its_file_from_the_start() {
    let home = TestHome::new();
    let skill = "---\nname: oiling\ndescription: d\n---\nOne drop for every wheel.\n";
    home.write(home.config().join("skills/oiling/SKILL.md"), skill);
    let text = "---\nname: helper\ndescription: helps\nskills: oiling\n---\nYou help.\n";
    home.write(home.config().join("agents/helper.md"), text);
    let order = json!({"description": "help", "prompt": "Help.", "subagent_type": "helper",
        "run_in_background": false});
    let replies = vec![
        Reply::tool_use("Agent", order),
        Reply::text("ok"),
        Reply::text("done"),
    ];
    let run = run_in(home, replies, &[]);
    assert!(
        told(&run).contains("One drop for every wheel."),
        "{}",
        told(&run)
    );
}
