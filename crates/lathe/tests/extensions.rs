//! Skills, custom commands, built-in commands and output styles on the real binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, Reply};
use lathe_testkit::stream_json::StreamJson;
use lathe_testkit::{TestHome, server};
use serde_json::{Value, json};

/// Everything that a request said, as text.
fn said(server: &BlockingServer, request: usize) -> String {
    server.requests()[request].body["messages"].to_string()
}

/// The answer to a control request.
fn ask(session: &mut StreamJson, subtype: &str) -> Value {
    session.control(&json!({"subtype": subtype}))["response"]["response"].clone()
}

const TRUSTED: [&str; 2] = ["--setting-sources", "user,project,local"];

fn run(home: &TestHome, arguments: &[&str]) -> lathe_testkit::run::Output {
    let all: Vec<&str> = ["-p"]
        .into_iter()
        .chain(arguments.iter().copied())
        .collect();
    home.run(all, "")
}

#[test]
fn the_model_sees_a_list_of_skills_and_gets_the_body_when_it_uses_one() {
    let server = server([
        Reply::tool_use("Skill", json!({"skill": "greet", "args": "Ada 7"})),
        Reply::text("Hello."),
    ]);
    let home = TestHome::with_server(&server);
    home.write(
        ".claude/skills/greet/SKILL.md",
        "---\nname: greet\ndescription: Greets someone\n---\nSay hello to $1, $2 times. Look into ${CLAUDE_SKILL_DIR}/names.md.\n",
    );
    let output = run(&home, &["greet Ada", "--output-format", "json"]);
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert!(
        said(&server, 0).contains("- greet: Greets someone"),
        "{}",
        said(&server, 0)
    );
    assert!(!said(&server, 0).contains("Say hello"));
    let second = said(&server, 1);
    assert!(second.contains("Say hello to Ada, 7 times."), "{second}");
    assert!(second.contains("skills/greet/names.md"), "{second}");
    assert_eq!(output.stderr, "");
    server.finish();
}

#[test]
fn requests_of_a_session_with_skills_continue_each_other() {
    let server = server([
        Reply::tool_use("Skill", json!({"skill": "one"})),
        Reply::tool_use("Read", json!({"file_path": "src/a.rs"})),
        Reply::text("Done."),
    ]);
    let home = TestHome::with_server(&server);
    home.write("src/a.rs", "fn a() {}\n");
    home.write(
        ".lathe/skills/one/SKILL.md",
        "---\ndescription: One\n---\nFirst.\n",
    );
    home.write(
        ".lathe/skills/rusty/SKILL.md",
        "---\ndescription: For Rust files\npaths: '*.rs'\n---\nRust.\n",
    );
    home.write(
        "src/.lathe/skills/inner/SKILL.md",
        "---\ndescription: For this folder\n---\nInner.\n",
    );
    assert_eq!(run(&home, &["go"]).code(), Some(0));
    assert!(!said(&server, 1).contains("rusty"));
    let last = said(&server, 2);
    assert!(last.contains("- rusty: For Rust files"), "{last}");
    assert!(last.contains("- inner: For this folder"), "{last}");
    let requests = server.requests();
    for pair in requests.windows(2) {
        assert_eq!(pair[0].body["system"], pair[1].body["system"]);
        assert_eq!(pair[0].body["tools"], pair[1].body["tools"]);
        let (before, after) = (&pair[0].body["messages"], &pair[1].body["messages"]);
        // Cache markers move; the words before them stay.
        let plain = |value: &Value| {
            value
                .to_string()
                .replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
        };
        let before = plain(before);
        let before = before.trim_end_matches(['}', ']']);
        assert!(plain(after).starts_with(before), "{before}");
    }
    server.finish();
}

#[test]
fn a_command_in_a_file_is_filled_in_for_the_model() {
    let server = server([Reply::text("Fixed."), Reply::text("ok")]);
    let home = TestHome::with_server(&server);
    home.write("notes.md", "the attached words\n");
    home.write(
        ".claude/commands/team/fix.md",
        "---\ndescription: Fix an issue\nargument-hint: [number]\n---\nFix issue #$1 as in @notes.md. All: $ARGUMENTS\n",
    );
    assert_eq!(run(&home, &["/team:fix 42 now"]).stdout, "Fixed.\n");
    let text = said(&server, 0);
    assert!(
        text.contains("Fix issue #42 as in @notes.md. All: 42 now"),
        "{text}"
    );
    assert!(text.contains("the attached words"), "{text}");
    assert!(text.contains("/team:fix 42 now"));
    // A path is no command.
    assert_eq!(run(&home, &["/tmp/x is full"]).stdout, "ok\n");
    server.finish();
}

#[test]
fn commands_in_files_run_only_where_the_folder_is_trusted_and_rules_let_them() {
    let server = server([Reply::text("ok"), Reply::text("ok")]);
    let home = TestHome::with_server(&server);
    home.write(
        ".lathe/commands/state.md",
        "---\nallowed-tools: Bash(echo:*)\n---\nA: !`echo out-$((40+2))`\nB: !`rm -rf keep`\n",
    );
    home.write("keep", "x");
    assert_eq!(run(&home, &["/state"]).code(), Some(0));
    let untrusted = said(&server, 0);
    assert!(untrusted.contains("!`echo out-$((40+2))`"), "{untrusted}");
    assert!(!untrusted.contains("out-42"), "{untrusted}");
    let [flag, sources] = TRUSTED;
    assert_eq!(run(&home, &["/state", flag, sources]).code(), Some(0));
    let trusted = said(&server, 1);
    assert!(trusted.contains("A: out-42"), "{trusted}");
    assert!(trusted.contains("`rm -rf keep` was not run"), "{trusted}");
    assert_eq!(home.read("keep"), "x");
    server.finish();
}

#[test]
fn allow_rules_of_a_skill_apply_to_its_turn_and_never_override_a_deny_rule() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": "touch allowed.txt"})),
        Reply::tool_use("Bash", json!({"command": "touch denied.txt"})),
        Reply::text("Done."),
        Reply::tool_use("Bash", json!({"command": "touch later.txt"})),
        Reply::text("Done."),
    ]);
    let home = TestHome::with_server(&server);
    home.write(
        ".lathe/skills/toucher/SKILL.md",
        "---\ndescription: d\nallowed-tools: Bash(touch *)\n---\nTouch things.\n",
    );
    let [flag, sources] = TRUSTED;
    let mut session = StreamJson::start(
        &home,
        [flag, sources, "--disallowedTools", "Bash(touch denied.txt)"],
    );
    session.prompt("/toucher");
    session.wait_for_result();
    assert!(home.project().join("allowed.txt").exists());
    assert!(!home.project().join("denied.txt").exists());
    session.prompt("again");
    session.wait_for_result();
    assert!(!home.project().join("later.txt").exists());
    assert_eq!(session.close().code(), Some(0));
    server.finish();
}

#[test]
fn model_and_effort_of_a_skill_hold_for_its_turn() {
    let server = server([Reply::text("one"), Reply::text("two")]);
    let home = TestHome::with_server(&server);
    home.write(
        ".lathe/skills/deep/SKILL.md",
        "---\ndescription: d\nmodel: opus\neffort: max\n---\nThink.\n",
    );
    let mut session = StreamJson::start(&home, ["--model", "haiku"]);
    session.prompt("/deep");
    session.wait_for_result();
    session.prompt("plain");
    session.wait_for_result();
    assert_eq!(session.close().code(), Some(0));
    let requests = server.requests();
    assert!(requests[0].body["model"].as_str().unwrap().contains("opus"));
    assert_eq!(requests[0].body["output_config"]["effort"], "max");
    assert!(
        requests[1].body["model"]
            .as_str()
            .unwrap()
            .contains("haiku")
    );
    assert!(requests[1].body.get("output_config").is_none());
    server.finish();
}

#[test]
fn hooks_of_a_skill_run_while_it_is_in_use() {
    let server = server([
        Reply::tool_use("Read", json!({"file_path": "a.txt"})),
        Reply::text("one"),
        Reply::tool_use("Read", json!({"file_path": "a.txt"})),
        Reply::text("two"),
    ]);
    let home = TestHome::with_server(&server);
    home.write("a.txt", "x\n");
    home.write(
        ".lathe/skills/watched/SKILL.md",
        "---\ndescription: d\nhooks:\n  PreToolUse:\n    - matcher: Read\n      hooks:\n        - type: command\n          command: echo hooked >> hooked.txt\n---\nRead.\n",
    );
    let [flag, sources] = TRUSTED;
    let mut session = StreamJson::start(&home, [flag, sources]);
    session.prompt("/watched");
    session.wait_for_result();
    session.prompt("again");
    session.wait_for_result();
    assert_eq!(session.close().code(), Some(0));
    assert_eq!(home.read("hooked.txt"), "hooked\n");
    server.finish();
}

#[test]
fn a_skill_for_people_is_refused_to_the_model_and_one_for_the_model_to_people() {
    let server = server([
        Reply::tool_use("Skill", json!({"skill": "mine"})),
        Reply::tool_use("Skill", json!({"skill": "greeet"})),
        Reply::text("No."),
    ]);
    let home = TestHome::with_server(&server);
    home.write(
        ".lathe/skills/mine/SKILL.md",
        "---\ndescription: d\ndisable-model-invocation: true\n---\nSecret steps.\n",
    );
    home.write(
        ".lathe/skills/greet/SKILL.md",
        "---\ndescription: d\nuser-invocable: false\n---\nGreeting.\n",
    );
    assert_eq!(run(&home, &["go"]).code(), Some(0));
    assert!(!said(&server, 0).contains("- mine"));
    assert!(said(&server, 1).contains("Only the user can run"));
    assert!(said(&server, 2).contains("Did you mean greet?"));
    assert!(!said(&server, 2).contains("Secret steps"));
    let refused = run(&home, &["/greet"]);
    assert_eq!(refused.code(), Some(1), "{refused:#?}");
    assert!(
        refused
            .stderr
            .contains("/greet can only be used by the model"),
        "{}",
        refused.stderr
    );
    server.finish();
}

#[test]
fn every_bundled_skill_reaches_the_model_filled_in() {
    let names = [
        "commit",
        "review",
        "simplify",
        "verify",
        "debug",
        "batch",
        "schedule",
        "skillify",
        "init",
        "remember",
        "update-config",
        "keybindings",
        "security-review",
        "pr-comments",
    ];
    let server = server(names.map(|name| Reply::text(format!("did {name}"))));
    let home = TestHome::with_server(&server);
    home.git_init();
    home.write("new.txt", "x\n");
    let mut session = StreamJson::start(&home, [""; 0]);
    for (index, name) in names.into_iter().enumerate() {
        session.prompt(&format!("/{name} the-argument"));
        let result = session.wait_for_result();
        assert_eq!(result["result"], format!("did {name}"));
        let messages = server.requests()[index].body["messages"].clone();
        let text = messages.as_array().unwrap().last().unwrap()["content"].to_string();
        assert!(text.contains(&format!("The user ran /{name}.")), "{text}");
        assert!(
            text.contains("the-argument") && !text.contains("$ARGUMENTS"),
            "{text}"
        );
    }
    let commit = said(&server, 0);
    assert!(
        commit.contains("new.txt"),
        "the state of git is filled in: {commit}"
    );
    assert_eq!(session.close().code(), Some(0));
    server.finish();
}

#[test]
fn commands_that_answer_themselves_do_so_without_the_model() {
    let server = server([]);
    let home = TestHome::with_server(&server);
    home.write(
        ".claude/commands/mine.md",
        "---\ndescription: My own\n---\nDo it.\n",
    );
    home.git_init();
    // `/diff` runs git, and the folder must be trusted for that.
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    home.write("a.txt", "new\n");
    for (command, expected) in [
        ("/help", "/compact"),
        ("/help mine", "My own"),
        ("/context", "tokens"),
        ("/cost", "Total cost"),
        ("/usage", "Total cost"),
        ("/stats", "Total cost"),
        ("/model", "The model is"),
        ("/model opus", "opus"),
        ("/effort", "effort"),
        ("/permissions", "Mode: default"),
        ("/mode", "acceptEdits"),
        ("/plan", "plan"),
        ("/hooks", "no hooks"),
        ("/mcp", "No MCP servers"),
        ("/agents", "general-purpose"),
        ("/skills", "mine"),
        ("/plugin", "no plugins"),
        ("/tools", "Read"),
        ("/memory", "AGENTS.md"),
        ("/output-style", "* default"),
        ("/output-style learning", "Learning"),
        ("/rename A title", "A title"),
        ("/tag work", "work"),
        ("/tasks", "No background tasks"),
        ("/todos", "empty"),
        ("/status", "transcript"),
        ("/doctor", "installation"),
        ("/version", env!("CARGO_PKG_VERSION")),
        ("/release-notes", "Added"),
        ("/config", "{"),
        ("/fallback", "fallbackModel"),
        ("/fallback haiku", "is used when the model is overloaded"),
        ("/effort high", "The effort is high"),
        ("/effort 4,000", "4000 tokens"),
        ("/config permissions.defaultMode=plan", "is set"),
        ("/sandbox", "sandbox"),
        ("/add-dir .", "working folder"),
        ("/cd .", "working folder"),
        ("/diff", "a.txt"),
    ] {
        let output = run(&home, &[command]);
        assert!(
            output.stdout.contains(expected),
            "{command}: {} {}",
            output.stdout,
            output.stderr
        );
        assert_eq!(output.code(), Some(0), "{command}");
        assert_eq!(output.stderr, "", "{command}");
    }
    for (command, expected) in [
        ("/comit", "Did you mean /commit"),
        ("/theme dark", "needs a terminal"),
        ("/vim", "needs a terminal"),
        ("/ide", "needs a terminal"),
        ("/copy", "needs a terminal"),
        ("/rewind", "needs a terminal"),
        ("/statusline", "statusLine"),
        ("/login", "ANTHROPIC_API_KEY"),
        ("/logout", "apiKeyHelper"),
        ("/feedback", "needs a terminal"),
        ("/exit", "needs a terminal"),
        ("/branch", "--fork-session"),
        ("/resume", "--resume"),
        ("/rename", "which title"),
        ("/cd /", "outside"),
        ("/output-style none", "no output style"),
        ("/effort extreme", "xhigh"),
        ("/config modle=x", "did you mean model"),
        ("/config effort=extreme", "effort"),
        ("/config modle", "did you mean model"),
        ("/tasks all", "takes nothing after its name"),
        ("/plan the change", "takes nothing after its name"),
    ] {
        let output = run(&home, &[command]);
        assert!(
            output.stderr.contains(expected),
            "{command}: {}",
            output.stderr
        );
        assert_eq!(output.code(), Some(1), "{command}");
    }
    server.finish();
}

#[test]
fn a_host_gets_commands_skills_and_styles_and_runs_them() {
    let server = server([Reply::text("did it")]);
    let home = TestHome::with_server(&server);
    home.write(
        ".claude/commands/mine.md",
        "---\ndescription: My own\nargument-hint: <what>\n---\nDo $ARGUMENTS.\n",
    );
    home.write(
        ".claude/skills/own/SKILL.md",
        "---\ndescription: Own skill\n---\nBody.\n",
    );
    home.write(
        ".claude/output-styles/pirate.md",
        "---\nname: pirate\ndescription: Arr\n---\nTalk like a pirate.\n",
    );
    let mut session = StreamJson::start(&home, [""; 0]);
    let answer = ask(&mut session, "initialize");
    let commands = answer["commands"].as_array().unwrap();
    let mine = commands
        .iter()
        .find(|command| command["name"] == "mine")
        .unwrap();
    assert_eq!(mine["description"], "My own");
    assert_eq!(mine["argumentHint"], "<what>");
    assert!(commands.iter().any(|command| command["name"] == "own"));
    assert!(commands.iter().any(|command| command["name"] == "compact"));
    assert!(!commands.iter().any(|command| command["name"] == "theme"));
    assert_eq!(answer["output_style"], "default");
    assert_eq!(
        answer["available_output_styles"],
        json!(["default", "Explanatory", "Learning", "pirate"])
    );
    session.prompt("/cost");
    let init = session.wait_for(|frame| frame["subtype"] == "init");
    assert!(
        init["slash_commands"]
            .as_array()
            .unwrap()
            .contains(&json!("mine"))
    );
    assert!(init["skills"].as_array().unwrap().contains(&json!("own")));
    assert_eq!(init["output_style"], "default");
    // Many hosts show answers and not results.
    let spoken = session.wait_for(|frame| frame["type"] == "assistant");
    assert_eq!(spoken["message"]["model"], "<synthetic>");
    let result = session.wait_for_result();
    assert!(result["result"].as_str().unwrap().contains("Total cost"));
    assert_eq!(spoken["message"]["content"][0]["text"], result["result"]);
    home.write(
        ".claude/skills/late/SKILL.md",
        "---\ndescription: Late\n---\nBody.\n",
    );
    let reloaded = ask(&mut session, "reload_skills");
    let skills = reloaded["skills"].as_array().unwrap();
    assert!(
        skills.iter().any(|skill| skill["name"] == "late"),
        "{reloaded}"
    );
    session.prompt("/output-style pirate");
    session.wait_for_result();
    session.prompt("/mine work");
    assert_eq!(session.wait_for_result()["result"], "did it");
    let body = &server.requests()[0].body;
    assert!(body["system"].to_string().contains("Talk like a pirate."));
    assert!(body["messages"].to_string().contains("Do work."));
    assert!(body["messages"].to_string().contains("- late: Late"));
    let usage = ask(&mut session, "get_context_usage");
    let categories = usage["categories"].as_array().unwrap();
    assert!(
        categories.iter().any(|part| part["name"] == "Skills"),
        "{usage}"
    );
    assert_eq!(session.close().code(), Some(0));
    server.finish();
}

#[test]
fn a_host_chooses_which_skills_count() {
    let server = server([Reply::text("ok")]);
    let home = TestHome::with_server(&server);
    for name in ["one", "two"] {
        home.write(
            format!(".claude/skills/{name}/SKILL.md"),
            "---\ndescription: d\n---\nBody.\n",
        );
    }
    let mut session = StreamJson::start(&home, [""; 0]);
    session.control(&json!({"subtype": "initialize", "skills": ["two"]}));
    session.prompt("hi");
    let init = session.wait_for(|frame| frame["subtype"] == "init");
    assert_eq!(init["skills"], json!(["two"]));
    session.wait_for_result();
    assert_eq!(session.close().code(), Some(0));
    server.finish();
}

#[test]
fn an_output_style_of_settings_is_in_the_system_prompt() {
    let server = server([Reply::text("ok"), Reply::text("ok"), Reply::text("ok")]);
    let home = TestHome::with_server(&server);
    let system = |index: usize| server.requests()[index].body["system"].to_string();
    assert_eq!(run(&home, &["hi"]).code(), Some(0));
    let settings = r#"{"outputStyle": "Explanatory"}"#;
    assert_eq!(run(&home, &["hi", "--settings", settings]).code(), Some(0));
    home.write(
        ".lathe/output-styles/terse.md",
        "---\nname: terse\n---\nOne word.\n",
    );
    let settings = r#"{"outputStyle": "terse"}"#;
    assert_eq!(run(&home, &["hi", "--settings", settings]).code(), Some(0));
    let coding = "Use the libraries the project already uses";
    assert!(!system(0).contains("Insight") && system(0).contains(coding));
    assert!(system(1).contains("Insight") && system(1).contains(coding));
    assert!(system(2).contains("One word.") && !system(2).contains(coding));
    server.finish();
}

#[test]
fn the_style_that_settings_name_is_reported_also_without_a_file() {
    let server = server([Reply::text("ok")]);
    let home = TestHome::with_server(&server);
    let settings = r#"{"outputStyle": "Nonesuch"}"#;
    let mut session = StreamJson::start(&home, ["--settings", settings]);
    session.prompt("hi");
    let init = session.wait_for(|frame| frame["subtype"] == "init");
    assert_eq!(init["output_style"], "Nonesuch");
    session.wait_for_result();
    let closed = session.close();
    assert!(
        closed.stderr.contains("there is no style \"Nonesuch\""),
        "{}",
        closed.stderr
    );
    server.finish();
}

#[test]
fn skills_in_use_come_back_after_a_compaction() {
    let server = server([
        Reply::text("one"),
        Reply::text("<summary>short</summary>"),
        Reply::text("two"),
    ]);
    let home = TestHome::with_server(&server);
    home.write(
        ".lathe/skills/steps/SKILL.md",
        "---\ndescription: d\n---\nThe steps to follow: alpha, beta.\n",
    );
    let mut session = StreamJson::start(&home, [""; 0]);
    session.prompt(&format!("/steps {}", "words ".repeat(400)));
    session.wait_for_result();
    session.prompt("/compact");
    session.wait_for_result();
    session.prompt("go on");
    session.wait_for_result();
    assert_eq!(session.close().code(), Some(0));
    let after = said(&server, 2);
    assert!(after.contains("The skill steps was used before"), "{after}");
    assert!(after.contains("alpha, beta"), "{after}");
    assert!(after.contains("- steps: d"), "{after}");
    server.finish();
}

#[test]
fn a_resumed_session_does_not_list_the_same_skills_again() {
    let server = server([Reply::text("one"), Reply::text("two")]);
    let home = TestHome::with_server(&server);
    home.write(
        ".lathe/skills/old/SKILL.md",
        "---\ndescription: d\n---\nBody.\n",
    );
    assert_eq!(run(&home, &["hi"]).code(), Some(0));
    home.write(
        ".lathe/skills/fresh/SKILL.md",
        "---\ndescription: d\n---\nBody.\n",
    );
    assert_eq!(run(&home, &["--continue", "again"]).code(), Some(0));
    let text = said(&server, 1);
    assert_eq!(text.matches("- old: d").count(), 1, "{text}");
    assert_eq!(text.matches("- fresh: d").count(), 1, "{text}");
    server.finish();
}

#[test]
fn changes_of_files_count_while_the_session_runs() {
    let server = server([Reply::text("one"), Reply::text("two").forever()]);
    let home = TestHome::with_server(&server);
    home.write(
        ".lathe/skills/first/SKILL.md",
        "---\ndescription: d\n---\nBody.\n",
    );
    let mut session = StreamJson::start(&home, [""; 0]);
    session.prompt("hi");
    session.wait_for_result();
    home.write(
        ".lathe/skills/second/SKILL.md",
        "---\ndescription: Came later\n---\nBody.\n",
    );
    // Watching takes its time; the session is asked until it knows.
    let mut tries = 0;
    loop {
        session.prompt("/skills");
        let answer = session.wait_for_result();
        if answer["result"].as_str().unwrap().contains("second") {
            break;
        }
        tries += 1;
        assert!(tries < 2_000, "the change was never seen");
    }
    session.prompt("again");
    session.wait_for_result();
    assert_eq!(session.close().code(), Some(0));
    let last = server.requests().len() - 1;
    assert!(said(&server, last).contains("- second: Came later"));
}

#[test]
fn broken_files_cost_only_themselves_and_are_named() {
    let server = server([Reply::text("ok")]);
    let home = TestHome::with_server(&server);
    home.write(".lathe/agents/bad.md", "---\nname: bad\n---\nPrompt\n");
    home.write(".lathe/skills/empty/SKILL.md", "---\ndescription: d\n---\n");
    home.write(
        ".lathe/skills/good/SKILL.md",
        "---\ndescription: a: b\n---\nBody\n",
    );
    let output = run(&home, &["hi"]);
    assert_eq!((output.stdout.as_str(), output.code()), ("ok\n", Some(0)));
    assert!(output.stderr.contains("agents/bad.md"), "{}", output.stderr);
    // A skill without a body has a description, which is what is listed.
    assert!(said(&server, 0).contains("- empty: d"));
    assert!(said(&server, 0).contains("- good: a: b"));

    let agents = home.run(["agents", "validate"], "");
    assert_eq!(agents.code(), Some(1));
    assert!(agents.stdout.contains("description"), "{}", agents.stdout);
    let skills = home.run(["skills", "validate", "--json"], "");
    assert_eq!(skills.code(), Some(0), "{}", skills.stdout);
    let found: Value = serde_json::from_str(&skills.stdout).unwrap();
    assert_eq!(found["problems"].as_array().unwrap().len(), 1, "{found}");
    server.finish();
}

#[test]
fn agents_and_skills_are_listed_and_shown() {
    let home = TestHome::new();
    home.write(
        ".claude/agents/reviewer.md",
        "---\nname: reviewer\ndescription: Reviews\ntools: Read, Grep\nmodel: opus\n---\nYou review.\n",
    );
    let list = home.run(["agents", "list"], "");
    assert!(
        list.stdout.contains("reviewer") && list.stdout.contains("Explore"),
        "{}",
        list.stdout
    );
    let json: Value =
        serde_json::from_str(&home.run(["agents", "list", "--json"], "").stdout).unwrap();
    let agents = json["agents"].as_array().unwrap();
    assert_eq!(agents.last().unwrap()["source"], "project");
    let show = home.run(["agents", "show", "reviewer"], "");
    assert!(show.stdout.contains("tools: Read, Grep") && show.stdout.contains("You review."));
    let near = home.run(["agents", "show", "reviewr"], "");
    assert_eq!(near.code(), Some(1));
    assert!(
        near.stderr.contains("did you mean reviewer"),
        "{}",
        near.stderr
    );
    let given = r#"{"extra": {"description": "d", "prompt": "p"}}"#;
    assert!(
        home.run(["agents", "--agents", given], "")
            .stdout
            .contains("extra")
    );
    let skills = home.run(["skills"], "");
    assert!(skills.stdout.contains("commit") && skills.stdout.contains("built-in"));
    let show = home.run(["skills", "show", "review"], "");
    assert!(show.stdout.contains("Review a change"), "{}", show.stdout);
}

#[test]
fn a_workspace_is_prepared_by_hooks_before_the_session_starts() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": "echo \"have $PREPARED\""})),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&server);
    let command = r#"cat >> asked.txt; echo >> asked.txt; echo 'export PREPARED=yes' >> "$CLAUDE_ENV_FILE"; echo '{"hookSpecificOutput":{"hookEventName":"Setup","additionalContext":"The tools are built."}}'"#;
    let settings = json!({"hooks": {
        "Setup": [
            {"matcher": "init", "hooks": [{"type": "command", "command": command}]},
            {"matcher": "maintenance", "hooks": [{"type": "command", "command": "echo maintained >> asked.txt"}]},
        ],
        "SessionStart": [{"hooks": [{"type": "command", "command": "echo started >> asked.txt"}]}],
        "DirectoryAdded": [{"hooks": [{"type": "command", "command": "cat > added.json"}]}],
    }});
    home.write(home.config().join("settings.json"), settings.to_string());

    let only = home.run(["--init-only"], "");
    assert_eq!(only.code(), Some(0), "{}", only.stderr);
    assert_eq!((only.stdout.as_str(), only.stderr.as_str()), ("", ""));
    let asked = home.read("asked.txt");
    assert!(asked.contains(r#""trigger":"init""#), "{asked}");
    assert!(asked.trim_end().ends_with("started"), "{asked}");
    assert!(server.requests().is_empty());

    std::fs::remove_file(home.project().join("asked.txt")).unwrap();
    let maintained = run(&home, &["/add-dir /tmp", "--maintenance"]);
    assert_eq!(maintained.code(), Some(0), "{}", maintained.stderr);
    assert_eq!(home.read("asked.txt"), "maintained\nstarted\n");

    let output = run(&home, &["go", "--init", "--allowedTools", "Bash"]);
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert!(said(&server, 0).contains("The tools are built."));
    assert!(
        said(&server, 1).contains("have yes"),
        "{}",
        said(&server, 1)
    );
    server.finish();
}

#[test]
fn hooks_hear_of_a_folder_that_was_added() {
    let server = server([]);
    let home = TestHome::with_server(&server);
    let added = home.root().join("beside");
    std::fs::create_dir_all(&added).unwrap();
    let settings = json!({"hooks": {"DirectoryAdded": [{"hooks": [
        {"type": "command", "command": "cat > heard.tmp; mv heard.tmp heard.json"}
    ]}]}});
    let settings = settings.to_string();
    let mut host = StreamJson::start(&home, ["--settings", &settings]);
    let answer = host.control(&json!({"subtype": "register_repo_root", "directory": added}));
    assert_eq!(answer["response"]["subtype"], "success", "{answer}");
    let file = home.project().join("heard.json");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while !file.exists() {
        assert!(std::time::Instant::now() < deadline, "no hook was told");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let heard: Value = serde_json::from_str(&home.read("heard.json")).unwrap();
    assert_eq!(heard["source"], "register_repo_root");
    assert_eq!(heard["directory"], json!(added.canonicalize().unwrap()));
}

#[test]
fn hooks_that_do_not_run_are_named_with_the_reason() {
    let home = TestHome::new();
    home.write(
        ".claude/settings.json",
        r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "notify-me"}]}], "Stpo": []}}"#,
    );
    let listed = home.run(["hooks", "list"], "");
    assert_eq!(listed.stdout, "no hooks are configured\n");
    let said = &listed.stderr;
    assert!(
        said.contains("not trusted") && said.contains("notify-me") && said.contains("Stpo"),
        "{said}"
    );
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    let listed = home.run(["hooks", "list"], "");
    assert!(listed.stdout.contains("notify-me"), "{}", listed.stdout);
    assert!(!listed.stderr.contains("not trusted"), "{}", listed.stderr);
    let forgotten = home.run(["trust", "remove", "."], "");
    let folder = home.project().canonicalize().unwrap();
    assert!(
        forgotten
            .stdout
            .starts_with(&format!("{} is no longer trusted", folder.display())),
        "{}",
        forgotten.stdout
    );
}

#[test]
fn the_window_is_measured_before_anything_was_asked() {
    let server = server([]);
    let home = TestHome::with_server(&server);
    let shown = run(&home, &["/context"]);
    assert!(
        shown.stdout.contains("System prompt") && shown.stdout.contains("System tools"),
        "{}",
        shown.stdout
    );
    let mut host = StreamJson::start(&home, [""; 0]);
    let usage = ask(&mut host, "get_context_usage");
    assert!(usage["totalTokens"].as_u64().unwrap() > 1_000, "{usage}");
    assert_eq!(usage["isAutoCompactEnabled"], true);
    assert!(server.requests().is_empty());
}
