//! `lathe context`, `lathe cost`, `lathe memory` and `lathe debug prompt` on the real binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::TestHome;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

#[test]
fn a_sessions_window_and_cost_are_shown_by_part() {
    let scenario = Scenario::new().reply(Reply::text("Fine."));
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server);
    home.write("AGENTS.md", "Mind the gap.\n");
    assert_eq!(home.run(["-p", "hello"], "").code(), Some(0));

    let shown = home.run(["context"], "");
    assert_eq!(shown.code(), Some(0), "{shown:#?}");
    for wanted in [
        "System prompt",
        "System tools",
        "Messages",
        "Free space",
        "AGENTS.md",
    ] {
        assert!(shown.stdout.contains(wanted), "{}", shown.stdout);
    }
    let usage = json(&home.run(["context", "--json"], "").stdout);
    assert_eq!(usage["counted"], true);
    let parts: u64 = usage["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["tokens"].as_u64().unwrap())
        .sum();
    assert_eq!(Some(parts), usage["window"].as_u64());

    let shown = home.run(["cost"], "");
    assert!(shown.stdout.starts_with("Total: $"), "{shown:#?}");
    assert!(shown.stdout.contains("conversation: 1 call,"));
    let cost = json(&home.run(["cost", "--json"], "").stdout);
    assert!(cost["totalCostUSD"].as_f64().unwrap() > 0.0);
    assert_eq!(cost["parts"]["main"]["calls"], 1);
    assert_eq!(home.run(["cost", "no-such-session"], "").code(), Some(1));
    // Looking changes nothing: the session still continues.
    server.finish();
}

#[test]
fn a_folder_without_sessions_says_so() {
    let home = TestHome::new();
    let shown = home.run(["cost"], "");
    assert_eq!(shown.code(), Some(1));
    assert!(shown.stderr.contains("no session"), "{shown:#?}");
    let shown = home.run(["context"], "");
    assert_eq!(shown.code(), Some(0), "{shown:#?}");
    assert!(shown.stdout.contains("estimated"));
}

#[test]
fn memory_is_added_listed_shown_and_edited() {
    let home = TestHome::new().variable("EDITOR", "echo edited >>");
    assert_eq!(home.run(["memory", "show"], "").code(), Some(1));
    let added = home.run(["memory", "add", "use", "tabs"], "");
    assert_eq!(added.code(), Some(0), "{added:#?}");
    assert_eq!(home.run(["memory", "show"], "").stdout, "- use tabs\n");
    let edited = home.run(["memory", "edit"], "");
    assert_eq!(edited.code(), Some(0), "{edited:#?}");
    let text = home.run(["memory", "show"], "").stdout;
    assert_eq!(text, "- use tabs\nedited\n");
    let path = home.run(["memory", "path"], "").stdout;
    let folder = std::path::Path::new(path.trim());
    std::fs::write(
        folder.join("clock.md"),
        "---\nname: clock\ndescription: how it ticks\ntype: reference\n---\nTick.\n",
    )
    .unwrap();
    let listed = json(&home.run(["memory", "list", "--json"], "").stdout);
    assert_eq!(listed[0]["description"], "how it ticks");
    assert!(
        home.run(["memory", "show", "clock"], "")
            .stdout
            .contains("Tick.")
    );
    let shown = home.run(["debug", "prompt"], "").stdout;
    assert!(shown.contains("use tabs"), "{shown}");
}

#[test]
fn a_prompts_mentions_are_shown_before_it_is_sent() {
    let home = TestHome::new();
    home.write("notes.txt", "the very note\n");
    let shown = home.run(["debug", "prompt", "look at @notes.txt", "--json"], "");
    assert_eq!(shown.code(), Some(0), "{shown:#?}");
    let shown = json(&shown.stdout);
    let messages = &shown["request"]["messages"];
    assert!(messages.to_string().contains("the very note"));
    // Every part has its size, and the whole is made of them.
    let parts = shown["parts"].as_array().unwrap();
    let sum = |field: &str, kinds: &[&str]| -> u64 {
        parts
            .iter()
            .filter(|part| kinds.contains(&part["kind"].as_str().unwrap()))
            .map(|part| part[field].as_u64().unwrap())
            .sum()
    };
    let whole = ["tool", "system", "message"];
    assert_eq!(Some(sum("tokens", &whole)), shown["tokens"].as_u64());
    let bytes = shown["bytes"].as_u64().unwrap();
    assert!(sum("bytes", &whole) < bytes && sum("bytes", &whole) + 500 > bytes);
    let tools = shown["request"]["tools"].as_array().unwrap().len();
    let named = parts.iter().filter(|part| part["kind"] == "tool").count();
    assert_eq!(named, tools);
    let text = home.run(["debug", "prompt", "hello"], "").stdout;
    assert!(
        text.contains(" tokens  Bash\n") && text.contains("whole request: "),
        "{text}"
    );
}

#[test]
fn the_request_that_is_shown_is_the_one_that_is_sent() {
    let scenario = Scenario::new().reply(Reply::text("ok"));
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server);
    home.write("AGENTS.md", "Use tabs.\n");
    home.write(
        ".lathe/skills/steps/SKILL.md",
        "---\ndescription: the steps to take\n---\nOne, two.\n",
    );
    home.write(home.config().join("settings.json"), r#"{"effort": "low"}"#);
    let shown = home.run(["debug", "prompt", "hello there", "--json"], "");
    let shown = json(&shown.stdout);
    let run = home.run(["-p", "hello there"], "");
    assert_eq!(run.code(), Some(0), "{run:#?}");
    let sent = &server.message_requests()[0].body;
    for (field, value) in sent.as_object().unwrap() {
        if field != "metadata" {
            assert_eq!(&shown["request"][field], value, "{field}");
        }
    }
    assert!(sent.to_string().contains("the steps to take"));
    server.finish();
}

#[test]
fn a_proposal_for_the_memory_is_saved_when_it_is_accepted() {
    let found = r#"[{"name": "tabs", "type": "feedback", "description": "how they like it", "text": "They want tabs."}, {"name": "tea", "text": "They drink tea."}]"#;
    let scenario = Scenario::new().responder(move |request| {
        if request
            .last_user_text()
            .contains("later sessions should know")
        {
            Reply::text(found)
        } else {
            Reply::text("fine")
        }
    });
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server);
    let long = "use tabs ".repeat(3_000);
    assert_eq!(home.run(["-p", &long], "").code(), Some(0));
    let waiting = json(&home.run(["memory", "proposals", "--json"], "").stdout);
    assert_eq!(
        waiting,
        serde_json::json!([]),
        "print mode looks only where it was asked to"
    );
    let home = home.variable("LATHE_MEMORY_EXTRACTION", "propose");
    assert_eq!(home.run(["-p", &long], "").code(), Some(0));
    let shown = home.run(["memory", "proposals"], "").stdout;
    assert!(
        shown.contains("── tabs") && shown.contains("They drink tea."),
        "{shown}"
    );
    let accepted = home.run(["memory", "accept", "tabs"], "");
    assert_eq!(accepted.code(), Some(0), "{accepted:#?}");
    assert_eq!(home.run(["memory", "accept", "tabs"], "").code(), Some(1));
    assert_eq!(home.run(["memory", "reject", "--all"], "").code(), Some(0));
    assert_eq!(
        home.run(["memory", "proposals"], "").stdout,
        "there are no proposals\n"
    );
    assert!(
        home.run(["memory", "show"], "")
            .stdout
            .contains("[tabs](tabs.md)")
    );
    let cost = json(&home.run(["cost", "--json"], "").stdout);
    assert_eq!(cost["parts"]["side"]["calls"], 1, "{cost}");
}

fn git(home: &TestHome, arguments: &[&str]) {
    let status = std::process::Command::new("git")
        .args(["-c", "user.name=T", "-c", "user.email=t@example.invalid"])
        .args(arguments)
        .current_dir(home.project())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .status()
        .unwrap();
    assert!(status.success(), "git {arguments:?}");
}

#[test]
fn messages_for_commits_and_pull_requests_are_suggested() {
    let scenario = Scenario::new()
        .reply(Reply::text("```\nMend the clock\n\nIt was late.\n```"))
        .reply(Reply::text("A clock that is on time\n\nMends the clock."));
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server).variable("ANTHROPIC_SMALL_FAST_MODEL", "tiny");
    // Git is run only in a folder that the user trusts.
    let untrusted = home.run(["suggest", "commit"], "");
    assert_eq!(untrusted.code(), Some(1));
    assert!(
        untrusted.stderr.contains("lathe trust add"),
        "{untrusted:#?}"
    );
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    let nothing = home.run(["suggest", "commit"], "");
    assert_eq!(nothing.code(), Some(1));
    assert!(
        nothing.stderr.contains("not in a git repository"),
        "{nothing:#?}"
    );
    git(&home, &["init", "-q", "-b", "main"]);
    home.write("clock.txt", "late\n");
    git(&home, &["add", "."]);
    git(&home, &["commit", "-q", "-m", "A clock"]);
    let nothing = home.run(["suggest", "commit"], "");
    assert!(
        nothing.stderr.contains("nothing has changed"),
        "{nothing:#?}"
    );
    git(&home, &["switch", "-q", "-c", "mend"]);
    home.write("clock.txt", "on time\n");
    let settings = r#"{"attribution": {"commit": "Signed-off-by: Us", "pr": ""}}"#;
    std::fs::create_dir_all(home.config()).unwrap();
    std::fs::write(home.config().join("settings.json"), settings).unwrap();
    let words = home.run(["suggest", "commit"], "");
    assert_eq!(words.code(), Some(0), "{words:#?}");
    assert_eq!(
        words.stdout,
        "Mend the clock\n\nIt was late.\n\nSigned-off-by: Us\n"
    );
    git(&home, &["commit", "-q", "-am", "Mend it"]);
    let words = home.run(["suggest", "pr"], "");
    assert_eq!(
        words.stdout, "A clock that is on time\n\nMends the clock.\n",
        "{words:#?}"
    );
    let unknown = home.run(["suggest", "pr", "--base", "no-such-branch"], "");
    assert_eq!(unknown.code(), Some(1));
    server.finish();
    let requests = server.message_requests();
    assert_eq!(requests[0].model(), "tiny");
    let asked = requests[0].last_user_text();
    assert!(
        asked.contains("+on time") && asked.contains("A clock"),
        "{asked}"
    );
    assert!(requests[1].last_user_text().contains("- Mend it"));
}

#[test]
fn every_flag_has_its_line_in_the_docs() {
    let home = TestHome::new();
    let help = home.run(["--help"], "").stdout;
    let page = lathe_testkit::workspace_root().join("docs/flags.md");
    let page = std::fs::read_to_string(page).unwrap();
    let documented: Vec<&str> = page
        .split(|c: char| !c.is_ascii_alphabetic() && c != '-')
        .collect();
    let flags: Vec<&str> = help
        .lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with('-'))
        .flat_map(|line| line.split([' ', ',', '[', '=']))
        .filter(|word| word.starts_with("--") && *word != "--help")
        .collect();
    assert!(flags.len() > 40, "{help}");
    for flag in flags {
        assert!(documented.contains(&flag), "{flag} is not in docs/flags.md");
    }
}

/// The command lines of a page: in backticks, or on lines of their own, without the comment after them.
fn command_lines(page: &str) -> Vec<String> {
    let alone = page.lines().map(str::trim);
    let alone = alone.filter(|line| line.starts_with("lathe "));
    let quoted = page.split('`').filter(|part| !part.contains('\n'));
    let quoted = quoted.filter(|part| part.starts_with("lathe "));
    let without_comment = |line: &str| {
        let end = [line.find("   "), line.find(" # ")];
        let end = end.into_iter().flatten().min().unwrap_or(line.len());
        line[..end].replace(['[', ']', '`'], "")
    };
    alone.chain(quoted).map(without_comment).collect()
}

/// The names below "Commands:" in a help text.
fn subcommands(help: &str) -> Vec<&str> {
    let list = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let list = list.split("\n\n").next().unwrap_or_default().lines();
    list.filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

#[test]
fn every_command_line_in_the_docs_is_one_that_lathe_knows() {
    let home = TestHome::new();
    let mut helps: BTreeMap<Vec<String>, String> = BTreeMap::new();
    let mut help = |path: &[String]| {
        let ask = || {
            let words = path.iter().map(String::as_str).chain(["--help"]);
            home.run(words, "").stdout
        };
        helps.entry(path.to_vec()).or_insert_with(ask).clone()
    };
    let root = lathe_testkit::workspace_root();
    let pages = std::fs::read_dir(root.join("docs")).unwrap().flatten();
    let mut pages: Vec<PathBuf> = pages.map(|page| page.path()).collect();
    pages.retain(|page| page.extension().is_some_and(|kind| kind == "md"));
    pages.push(root.join("README.md"));
    let mut checked = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for line in command_lines(&text) {
            let mut path: Vec<String> = Vec::new();
            for (index, word) in line.split_whitespace().skip(1).enumerate() {
                if word == "--" {
                    break;
                }
                let here = help(&path);
                if subcommands(&here).contains(&word) {
                    path.push(word.to_owned());
                } else if word.starts_with("--") {
                    let flag = word.split(['=', '|', '…']).next().unwrap();
                    let known = |help: &str| {
                        let mut words = help.split(|c: char| !c.is_alphanumeric() && c != '-');
                        words.any(|known| known == flag)
                    };
                    let known = known(&here) || known(&help(&[]));
                    assert!(known, "{}: {line}: {flag}", page.display());
                } else if index == 0 && word.bytes().all(|byte| byte.is_ascii_lowercase()) {
                    // The page on flags shows what happens to words that look like commands.
                    let shown = matches!(word, "docter" | "upgrade");
                    assert!(shown, "{}: {line}", page.display());
                }
            }
            checked += 1;
        }
    }
    assert!(checked > 200, "only {checked} were found");
}
