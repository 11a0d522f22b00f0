//! Every command that prints, on a terminal, with names and texts that try to control it.

use super::server;
use lathe_scripted::Reply;
use lathe_testkit::{TestHome, transcript};
use serde_json::json;
use std::collections::BTreeSet;

/// Sequences that a terminal obeys, and characters that turn or hide text.
const ESCAPES: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[8mhid\u{9b}31m\u{9d}52;c;eA==\u{9c}\u{202e}\u{2066}\u{200b}back\rfront\u{8}";

/// Commands that print nothing that comes from outside of the program, or that speak a protocol.
const OTHERS: &[&[&str]] = &[
    &["acp"],
    &["browser", "host"],
    &["completions"],
    &["demo"],
    &["man"],
    &["mcp", "serve"],
];

/// The sequences of a name or a text that reached a terminal.
fn attacks(shown: &str) -> Vec<&'static str> {
    [
        ("a title", "\u{1b}]0"),
        ("a clear screen", "\u{1b}[2J"),
        ("hidden text", "\u{1b}[8m"),
        ("an 8-bit sequence", "\u{9b}"),
        ("an 8-bit string", "\u{9d}"),
        ("a turned text", "\u{202e}"),
        ("an isolate", "\u{2066}"),
        ("a hidden blank", "\u{200b}"),
        ("a bare return", "back\r"),
        ("a backspace", "front\u{8}"),
    ]
    .into_iter()
    .filter(|(_, bytes)| shown.contains(bytes))
    .map(|(name, _)| name)
    .collect()
}

/// Every sub-command without sub-commands of its own, as the completion script writes it.
fn leaves(home: &TestHome) -> BTreeSet<String> {
    let script = home.run(["completions", "bash"], "").stdout;
    let all: BTreeSet<String> = script
        .lines()
        .filter_map(|line| line.trim().strip_prefix("cmd=\"lathe__"))
        .map(|rest| rest.trim_end_matches('"').to_owned())
        .collect();
    assert!(all.len() > 60, "{all:?}");
    let names: BTreeSet<String> = all
        .iter()
        .map(|name| name.replace("subcmd__", ""))
        .filter(|name| !name.split("__").any(|part| part == "help"))
        .collect();
    names
        .iter()
        .filter(|name| {
            let inner = format!("{name}__");
            !names.iter().any(|other| other.starts_with(&inner))
        })
        .cloned()
        .collect()
}

/// The name of a command as the completion script writes it.
fn key(words: &[&str]) -> String {
    words.join("__").replace('-', "__")
}

/// A home in which every name and text that a command can show is hostile.
fn hostile_home(server: &lathe_scripted::BlockingServer, name: &str) -> TestHome {
    let home = TestHome::with_server(server)
        .variable("EDITOR", "true")
        .variable("BROWSER", "true");
    let title = format!("a title {ESCAPES}");
    home.write(format!("src/{name}/a.txt"), "x\n");
    let agent = format!(
        "---\nname: agent\ndescription: {}\n---\n{title}\n",
        json!(title)
    );
    for folder in [home.project().join(".lathe"), home.config()] {
        home.write(folder.join(format!("agents/{name}.md")), &agent);
        home.write(
            folder.join(format!("agents/bad{name}.md")),
            "---\nname: [\n---\n",
        );
        let skill = format!(
            "---\nname: skill\ndescription: {}\n---\n{title}\n",
            json!(title)
        );
        home.write(folder.join(format!("skills/{name}/SKILL.md")), skill);
        home.write(
            folder.join(format!("skills/bad{name}/SKILL.md")),
            "---\nname: [\n---\n",
        );
        home.write(folder.join(format!("commands/{name}.md")), &title);
        let settings = json!({
            name: true,
            "model": title,
            "env": {"SOME": title},
            "permissions": {"allow": [format!("Bash({name}"), name, format!("Bash({title})")]},
            "hooks": {
                "PreToolUse": [{"matcher": title, "hooks": [{"type": "command", "command": title}]}],
                "Stop": [{"hooks": [{"type": "command", "command": format!("printf '%s' '{ESCAPES}'")}]}],
            },
            "providers": {name: {"type": "openai-chat", "baseUrl": title}},
            "enabledPlugins": {format!("{name}@{name}"): true},
            "extraKnownMarketplaces": {name: {"source": {"source": "directory", "path": name}}},
        });
        home.write(folder.join("settings.json"), settings.to_string());
        home.write(folder.join("AGENTS.md"), &title);
    }
    home.write("AGENTS.md", format!("{title}\n@{name}\n"));
    home.write(
        ".mcp.json",
        json!({"mcpServers": {name: {"command": "x", "args": [title]}}}).to_string(),
    );
    home
}

/// The commands, with hostile words where they take some.
fn commands<'a>(
    name: &'a str,
    session: &'a str,
    prompt: &'a str,
) -> Vec<(Vec<&'a str>, Vec<&'a str>)> {
    let table: Vec<(&str, Vec<&str>)> = vec![
        ("sessions list", vec![]),
        ("sessions show", vec![session]),
        ("sessions show", vec![name]),
        ("sessions export", vec![session]),
        ("sessions rename", vec![session, name]),
        ("sessions tag", vec![session, name]),
        ("sessions rewind", vec![session, prompt]),
        ("sessions delete", vec![name]),
        ("config get", vec!["model"]),
        ("config get", vec![name]),
        ("config set", vec![name, name]),
        ("config unset", vec![name]),
        ("config list", vec![]),
        ("config path", vec![]),
        ("config edit", vec![]),
        ("config schema", vec![]),
        ("config doctor", vec![]),
        ("config env", vec![]),
        ("trust list", vec![]),
        ("trust add", vec![name]),
        ("trust remove", vec![name]),
        ("hooks list", vec![]),
        ("hooks test", vec!["Stop"]),
        ("hooks test", vec![name]),
        ("permissions list", vec![]),
        ("permissions add", vec!["allow", name]),
        ("permissions remove", vec!["allow", name]),
        ("permissions explain", vec!["--", name]),
        ("permissions test", vec![name]),
        ("sandbox run", vec!["--", name]),
        ("sandbox status", vec![]),
        ("sandbox log", vec![]),
        ("sandbox explain", vec!["--", name]),
        ("plugin list", vec![]),
        ("plugin install", vec![name]),
        ("plugin uninstall", vec![name]),
        ("plugin enable", vec![name]),
        ("plugin disable", vec![name]),
        ("plugin update", vec![name]),
        ("plugin validate", vec![name]),
        ("plugin marketplace add", vec![name]),
        ("plugin marketplace list", vec![]),
        ("plugin marketplace remove", vec![name]),
        ("plugin marketplace update", vec![name]),
        ("mcp add", vec![name, name]),
        ("mcp add-json", vec![name, name]),
        ("mcp list", vec![]),
        ("mcp get", vec![name]),
        ("mcp enable", vec![name]),
        ("mcp disable", vec![name]),
        ("mcp login", vec![name]),
        ("mcp logout", vec![name]),
        ("mcp reset-project-choices", vec![]),
        ("mcp import", vec![]),
        ("mcp add-from-claude-desktop", vec![]),
        ("mcp logs", vec![name]),
        ("mcp tools", vec![name]),
        ("mcp resources", vec![name]),
        ("mcp prompts", vec![name]),
        ("mcp call", vec![name, name]),
        ("mcp probe", vec![name]),
        ("mcp remove", vec![name]),
        ("doctor", vec![]),
        ("models list", vec![]),
        ("models test", vec![name]),
        ("models update", vec![name]),
        ("login", vec![name]),
        ("logout", vec![name]),
        ("status", vec![]),
        ("agents list", vec![]),
        ("agents show", vec!["agent"]),
        ("agents show", vec![name]),
        ("agents validate", vec![]),
        ("skills list", vec![]),
        ("skills show", vec!["skill"]),
        ("skills show", vec![name]),
        ("skills validate", vec![]),
        ("debug prompt", vec![name]),
        ("context", vec![session]),
        ("cost", vec![session]),
        ("cost", vec![name]),
        ("memory add", vec![name]),
        ("memory list", vec![]),
        ("memory show", vec![name]),
        ("memory edit", vec![name]),
        ("memory proposals", vec![]),
        ("memory accept", vec![name]),
        ("memory reject", vec![name]),
        ("memory path", vec![]),
        ("suggest commit", vec![]),
        ("eval run", vec![name]),
        ("eval check", vec![name]),
        ("replay", vec![name]),
        ("suggest pr", vec!["--base", name]),
    ];
    table
        .into_iter()
        .map(|(command, words)| (command.split(' ').collect(), words))
        .collect()
}

#[test]
fn no_command_sends_what_a_name_or_a_text_holds_to_a_terminal() {
    let name = format!("odd{ESCAPES}name");
    let server = server((0..20).map(|_| Reply::text(format!("an answer {ESCAPES} and its end"))));
    let home = hostile_home(&server, &name);
    let prompt = format!("look at @src/{name}/a.txt {ESCAPES}");
    assert_eq!(home.run(["-p", &prompt], "").code(), Some(0));
    let file = transcript::of_home(&home).pop().unwrap();
    let session = file.file_stem().unwrap().to_string_lossy().into_owned();
    let commands = commands(&name, &session, &name);

    let shown: BTreeSet<String> = commands.iter().map(|(command, _)| key(command)).collect();
    let others: BTreeSet<String> = OTHERS.iter().map(|command| key(command)).collect();
    // A command without a case of its own gets a hostile word, and is interrupted if it serves.
    let others: Vec<String> = leaves(&home)
        .into_iter()
        .filter(|leaf| !shown.contains(leaf) && !others.contains(leaf))
        .collect();
    let others = others
        .iter()
        .map(|leaf| (leaf.split("__").collect::<Vec<&str>>(), vec![name.as_str()]));
    let cases = commands
        .iter()
        .cloned()
        .map(|case| (case, "\u{4}"))
        .chain(others.map(|case| (case, "\u{4}\u{3}")));

    let mut wrong = Vec::new();
    for ((command, words), keys) in cases {
        let mut arguments = command.clone();
        arguments.extend(words);
        let mut terminal = home.terminal(&arguments, 200, 50);
        // Questions of commands that ask are left unanswered.
        terminal.send(keys);
        let _ = terminal.ended();
        let raw = terminal.raw();
        let attacks = attacks(&raw);
        if !attacks.is_empty() {
            wrong.push(format!("{}: {attacks:?}: {raw:?}", command.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn print_mode_sends_no_sequences_in_any_format() {
    let name = format!("odd{ESCAPES}name");
    let server = server((0..8).map(|_| Reply::text(format!("an answer {ESCAPES} and its end"))));
    let home = hostile_home(&server, &name);
    for arguments in [
        &["-p", &name][..],
        &["-p", "hi", "--output-format", "json"],
        &["-p", "hi", "--output-format", "stream-json", "--verbose"],
        &["-p", "hi", "--agent", &name],
        &["-p", "hi", "--model", &name],
        &["-p", "hi", "--permission-mode", &name],
        &["-p", "hi", "--resume", &name],
        &["-p", "hi", "--allowedTools", &name],
        &["-p", "hi", "--add-dir", &name],
        &["-p", "hi", "--output-style", &name],
        &["-p", "hi", &format!("--{name}")],
        &[&name, "x"],
        &["-p", "/help"],
        &["-p", &format!("/{name}")],
    ] {
        let mut terminal = home.terminal(arguments, 200, 50);
        terminal.send("\u{4}");
        let _ = terminal.ended();
        let raw = terminal.raw();
        assert!(
            attacks(&raw).is_empty(),
            "{arguments:?}: {:?} {raw:?}",
            attacks(&raw)
        );
    }
}
