//! Reading a plugin's folder.

use super::*;

use lathe_extensions::plugins::Plugin;
use lathe_extensions::plugins::validate::validate;
use lathe_extensions::{SkillCatalog, Sources};

/// A plugin by `--plugin-dir`, as a session would have it.
fn read(home: &Home, path: &str) -> Plugin {
    let loaded = home.load_with(&[home.root().join(path)]);
    assert_eq!(loaded.plugins.len(), 1, "{:#?}", loaded.listings);
    loaded.plugins[0].clone()
}

fn messages(plugin: &Plugin) -> String {
    plugin
        .problems
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn conventional_folders_are_found_without_a_manifest() {
    let home = Home::new();
    home.write("work/kit/commands/a.md", "a");
    home.write("work/kit/agents/b.md", "b");
    home.write("work/kit/skills/c/SKILL.md", "c");
    home.write("work/kit/output-styles/d.md", "d");
    let plugin = read(&home, "work/kit");
    let root = home.root().join("work/kit");
    assert_eq!(plugin.contribution.name, "kit");
    assert_eq!(plugin.contribution.commands, [root.join("commands").into()]);
    assert_eq!(plugin.contribution.agents, [root.join("agents")]);
    assert_eq!(plugin.contribution.skills, [root.join("skills")]);
    assert_eq!(
        plugin.contribution.output_styles,
        [root.join("output-styles")]
    );
    assert_eq!(plugin.problems, []);
}

#[test]
fn the_manifest_of_our_own_name_wins_over_the_other() {
    let home = Home::new();
    home.write_json(
        "work/x/.claude-plugin/plugin.json",
        &json!({"name": "theirs"}),
    );
    home.write_json("work/x/.lathe-plugin/plugin.json", &json!({"name": "ours"}));
    assert_eq!(read(&home, "work/x").id.name, "ours");
}

#[test]
fn named_commands_replace_the_folder_and_named_skills_add_to_it() {
    let home = Home::new();
    home.write_json(
        "work/x/.claude-plugin/plugin.json",
        &json!({"name": "x", "commands": ["./extra/one.md", "./more/"], "skills": "./extra-skills"}),
    );
    for file in [
        "commands/a.md",
        "extra/one.md",
        "more/two.md",
        "skills/s/SKILL.md",
        "extra-skills/t/SKILL.md",
    ] {
        home.write(&format!("work/x/{file}"), "text");
    }
    let plugin = read(&home, "work/x");
    let root = home.root().join("work/x");
    assert_eq!(
        plugin.contribution.commands,
        [root.join("extra/one.md").into(), root.join("more").into()]
    );
    assert_eq!(
        plugin.contribution.skills,
        [root.join("skills"), root.join("extra-skills")]
    );
}

#[test]
fn commands_that_a_manifest_lists_by_name_have_that_name_and_its_description() {
    let home = Home::new();
    home.write_json(
        "work/x/.claude-plugin/plugin.json",
        &json!({"name": "x", "commands": {
            "about": {"source": "./README.md", "description": "Says what this is", "argumentHint": "[topic]",
                "model": "haiku", "allowedTools": ["Bash(git log:*)"]},
            "inline": {"content": "---\nallowed-tools: Read\n---\nGreet $ARGUMENTS.", "description": "Greets"},
            "empty": {"description": "no source"}
        }}),
    );
    home.write("work/x/README.md", "About $ARGUMENTS");
    let plugin = read(&home, "work/x");
    assert!(messages(&plugin).contains("commands.empty"), "{plugin:?}");
    let [command, inline] = plugin.contribution.commands.as_slice() else {
        panic!("{plugin:?}");
    };
    assert_eq!(command.path, home.root().join("work/x/README.md"));
    let named = command.named.as_ref().unwrap();
    assert_eq!(named.name, "about");
    let sources = Sources::default().with_plugins(vec![plugin.contribution.clone()]);
    let catalog = SkillCatalog::load(&sources);
    let skill = catalog.get("x:about").unwrap();
    assert_eq!(skill.description, "Says what this is");
    assert_eq!(skill.argument_hint.as_deref(), Some("[topic]"));
    assert_eq!(skill.run.model.as_deref(), Some("haiku"));
    assert_eq!(skill.run.allowed_tools, ["Bash(git log:*)"]);
    assert!(catalog.get("x:README").is_none());
    assert_eq!(
        inline.path,
        home.root().join("work/x/.claude-plugin/plugin.json")
    );
    let inline = catalog.get("x:inline").unwrap();
    assert_eq!(inline.description, "Greets");
    assert_eq!(inline.run.allowed_tools, ["Read"]);
    assert_eq!(inline.body().unwrap().trim(), "Greet $ARGUMENTS.");
}

#[test]
fn hooks_come_from_the_file_from_paths_and_from_the_manifest_itself() {
    let home = Home::new();
    let hook = |command: &str| json!([{"hooks": [{"type": "command", "command": command}]}]);
    home.write_json(
        "work/x/.claude-plugin/plugin.json",
        &json!({"name": "x", "hooks": ["./hooks/hooks.json", "./more.json", {"Stop": hook("inline")}]}),
    );
    home.write_json(
        "work/x/hooks/hooks.json",
        &json!({"description": "d", "hooks": {"Stop": hook("file")}}),
    );
    home.write_json("work/x/more.json", &json!({"Stop": hook("path")}));
    let plugin = read(&home, "work/x");
    let commands: Vec<&str> = plugin.contribution.hooks["Stop"]
        .iter()
        .flat_map(|group| &group.hooks)
        .map(|hook| hook.command.as_deref().unwrap())
        .collect();
    assert_eq!(commands, ["file", "path", "inline"]);
}

#[test]
fn a_hook_that_can_t_be_read_costs_itself_only() {
    let home = Home::new();
    home.write_json(
        "work/x/hooks/hooks.json",
        &json!({"hooks": {
            "Stop": [{"hooks": [
                {"type": "command", "command": "good"},
                {"type": "nonsense", "command": "bad"},
                {"type": "callback", "callbackId": "c"},
            ]}, {"matcher": "no hooks here"}],
            "Nonsense": [],
        }}),
    );
    let plugin = read(&home, "work/x");
    assert_eq!(plugin.contribution.hooks["Stop"].len(), 1);
    assert_eq!(plugin.contribution.hooks["Stop"][0].hooks.len(), 1);
    let messages = messages(&plugin);
    for word in ["hooks[1]", "callback", "Nonsense", "needs \"hooks\""] {
        assert!(messages.contains(word), "{word} in {messages}");
    }
}

#[test]
fn servers_know_where_the_plugin_lies() {
    let home = Home::new();
    home.tool("work/tool", "1.0.0");
    let plugin = read(&home, "work/tool");
    let root = home.root().join("work/tool").display().to_string();
    let server = &plugin.contribution.mcp_servers["db"];
    assert_eq!(server["command"], format!("{root}/server"));
    assert_eq!(server["env"]["CLAUDE_PLUGIN_ROOT"], root.as_str());
    assert_eq!(server["env"]["LATHE_PLUGIN_ROOT"], root.as_str());
    let command = &plugin.contribution.hooks["PostToolUse"][0].hooks[0].command;
    assert_eq!(
        command.as_deref(),
        Some(format!("{root}/format.sh").as_str())
    );
}

#[test]
fn a_folder_with_an_odd_name_is_left_to_the_shell() {
    let home = Home::new();
    home.tool("work/a $(touch evil) b/tool", "1.0.0");
    let plugin = read(&home, "work/a $(touch evil) b/tool");
    let command = &plugin.contribution.hooks["PostToolUse"][0].hooks[0].command;
    assert_eq!(command.as_deref(), Some("${CLAUDE_PLUGIN_ROOT}/format.sh"));
}

#[test]
fn a_bundle_that_is_broken_or_elsewhere_costs_itself() {
    let home = Home::new();
    home.write("work/x/server.mcpb", "PK");
    home.write_json(
        "work/x/.claude-plugin/plugin.json",
        &json!({"name": "x", "mcpServers": ["./server.mcpb", "https://example.com/server.mcpb", "../y.mcpb",
            {"good": {"command": "x"}}]}),
    );
    let plugin = read(&home, "work/x");
    assert_eq!(plugin.contribution.mcp_servers.len(), 1);
    let told = messages(&plugin);
    for words in [
        "not a valid zip archive",
        "would have to be fetched",
        "leads out",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[test]
fn servers_and_language_servers_that_can_t_be_right_are_left_out() {
    let home = Home::new();
    home.write_json(
        "work/x/.claude-plugin/plugin.json",
        &json!({"name": "x",
            "mcpServers": {"good": {"url": "https://example.com/mcp"}, "b/ad": {"command": "x"}, "empty": {}, "text": "x"},
            "lspServers": {
                "go": {"command": "gopls", "extensionToLanguage": {".go": "go"}},
                "odd": {"command": "x", "extensionToLanguage": {}, "surprise": 1},
                "lacking": {"command": "x"},
            }}),
    );
    let plugin = read(&home, "work/x");
    assert_eq!(
        plugin.contribution.mcp_servers.keys().collect::<Vec<_>>(),
        ["good"]
    );
    assert_eq!(
        plugin.contribution.lsp_servers.keys().collect::<Vec<_>>(),
        ["go"]
    );
    assert_eq!(plugin.problems.len(), 5, "{}", messages(&plugin));
}

#[test]
fn only_harmless_settings_can_be_preset() {
    let home = Home::new();
    home.write_json(
        "work/x/settings.json",
        &json!({"agent": "lead", "permissions": {"allow": ["Bash"]}, "apiKeyHelper": "evil"}),
    );
    home.write("work/x/agents/lead.md", "lead");
    let loaded = home.load_with(&[home.root().join("work/x")]);
    assert_eq!(
        loaded.plugins[0].contribution.session.settings,
        Some(json!({"agent": "lead"}))
    );
    assert_eq!(loaded.preset("agent"), Some("lead"));
    assert_eq!(loaded.preset("apiKeyHelper"), None);
    assert_eq!(loaded.plugins[0].problems.len(), 2);
}

#[test]
fn unknown_and_wrong_keys_are_reported_and_ignored() {
    let home = Home::new();
    home.write_json(
        "work/x/.claude-plugin/plugin.json",
        &json!({"name": "x", "comands": "./c", "agents": 7, "description": ["no"], "channels": []}),
    );
    let plugin = read(&home, "work/x");
    let messages = messages(&plugin);
    assert!(messages.contains("did you mean commands?"), "{messages}");
    for word in [
        "agents: must be a path",
        "description: must be a text",
        "channels: is not used",
    ] {
        assert!(messages.contains(word), "{word} in {messages}");
    }
}

#[test]
fn options_reach_servers_and_secrets_reach_nothing_else() {
    let mut home = Home::new();
    home.write_json(
        "work/market/x/.claude-plugin/plugin.json",
        &json!({"name": "x",
            "userConfig": {
                "url": {"type": "string", "title": "Address", "required": true},
                "token": {"type": "string", "sensitive": true},
                "level": {"type": "number", "default": 3},
                "odd": {"surprise": 1},
            },
            "mcpServers": {"s": {"url": "${user_config.url}", "headers": {"authorization": "${user_config.token}", "level": "${user_config.level}"}}}}),
    );
    let market = home.marketplace("market", &json!([{"name": "x", "source": "./x"}]));
    home.add_folder(&market);
    home.install("x@market").unwrap();
    let loaded = home.load();
    assert!(
        messages(&loaded.plugins[0]).contains("userConfig.url: is not filled in"),
        "{:?}",
        loaded.plugins[0].problems
    );
    home.trust = Trust::Trusted;
    let file = home.root().join("home/.lathe/settings.json");
    let mut settings = read_json(&file);
    settings["pluginConfigs"] =
        json!({"x@market": {"options": {"url": "https://e.org", "token": "hunter2"}}});
    std::fs::write(&file, settings.to_string()).unwrap();
    let loaded = home.load();
    let contribution = &loaded.plugins[0].contribution;
    assert_eq!(
        contribution.mcp_servers["s"],
        json!({"url": "https://e.org", "headers": {"authorization": "hunter2", "level": "3"}})
    );
    assert!(
        !contribution
            .user_config
            .values()
            .any(|value| value == "hunter2")
    );
    assert!(!format!("{:?}", loaded.listings).contains("hunter2"));
}

#[test]
fn validation_reports_problems_to_the_author() {
    let home = Home::new();
    home.write_json(
        "work/x/.claude-plugin/plugin.json",
        &json!({"name": "My_Plugin", "commands": "./gone"}),
    );
    home.write("work/x/.claude-plugin/agents/a.md", "a");
    let found = validate(&home.root().join("work/x")).unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].is_valid());
    let text = lathe_extensions::plugins::cli::validations(&found);
    for word in [
        "call it my-plugin",
        "version: is missing",
        "\"./gone\" is not there",
        "move agents/",
    ] {
        assert!(text.contains(word), "{word} in {text}");
    }
    home.write("work/x/.claude-plugin/plugin.json", "{\"name\": \n oops");
    let broken = validate(&home.root().join("work/x/.claude-plugin/plugin.json")).unwrap();
    assert!(!broken[0].is_valid());
    assert_eq!(broken[0].problems[0].line, Some(2));
    assert!(validate(&home.project()).is_err());
}

#[test]
fn validating_names_tools_that_no_session_has_and_what_replaces_them() {
    let home = Home::new();
    home.write_json(
        "work/x/.claude-plugin/plugin.json",
        &json!({"name": "x", "version": "1", "description": "d"}),
    );
    home.write(
        "work/x/agents/a.md",
        "---\nname: a\ndescription: d\ntools: Read, LS\n---\nPrompt",
    );
    home.write(
        "work/x/commands/c.md",
        "---\ndescription: d\nallowed-tools: SlashCommand(/x:*), Bash(ls:*)\n---\nBody",
    );
    let found = validate(&home.root().join("work/x")).unwrap();
    let text = lathe_extensions::plugins::cli::validations(&found);
    for words in [
        "no session has the tool LS (use Glob, or Bash(ls:*))",
        "no session has the tool SlashCommand (use Skill)",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert_eq!(found[0].problems.len(), 2, "{text}");
}

#[test]
fn a_skill_beside_the_manifest_is_the_plugins_own() {
    let home = Home::new();
    home.write_json("work/x/.claude-plugin/plugin.json", &json!({"name": "kit"}));
    home.write(
        "work/x/SKILL.md",
        "---\nname: other\ndescription: d\n---\nBody",
    );
    let loaded = home.load_with(&[home.root().join("work/x")]);
    let sources = Sources::default().with_plugins(loaded.contributions());
    let skills = SkillCatalog::load(&sources);
    assert_eq!(skills.get("other").unwrap().name, "kit:other");
    let brings = &loaded.listings[0].brings;
    assert!(brings.iter().any(|line| line.contains("kit")), "{brings:?}");
}

#[test]
fn validating_a_marketplace_looks_at_its_plugins_too() {
    let home = Home::new();
    let market = home.usual();
    home.write_json(
        "work/market/.claude-plugin/marketplace.json",
        &json!({"name": "market", "plugins": [
            {"name": "tool", "source": "./tool"},
            {"name": "gone", "source": "./gone"},
            {"name": "out", "source": "../out"},
        ]}),
    );
    let found = validate(&market).unwrap();
    assert_eq!(
        found.iter().map(|one| one.kind).collect::<Vec<_>>(),
        ["marketplace", "plugin"]
    );
    assert!(!found[0].is_valid());
    assert!(found[1].is_valid());
    let text = lathe_extensions::plugins::cli::validations(&found);
    for word in ["owner.name: is missing", "gone", "leads out"] {
        assert!(text.contains(word), "{word} in {text}");
    }
}

#[test]
fn a_plugin_may_have_dots_in_its_name_and_blanks_in_those_of_its_servers() {
    let home = Home::new();
    home.write_json(
        "work/x/.claude-plugin/plugin.json",
        &json!({"name": "acme.tools", "mcpServers": {"google calendar": {"command": "x"}}}),
    );
    let plugin = read(&home, "work/x");
    assert_eq!(messages(&plugin), "");
    assert_eq!(plugin.manifest.name, "acme.tools");
    let servers = plugin.contribution.mcp_servers.keys();
    assert_eq!(servers.collect::<Vec<_>>(), ["google calendar"]);
}

#[test]
fn monitors_and_themes_are_found_by_convention_and_by_name() {
    let home = Home::new();
    home.write_json("work/x/.claude-plugin/plugin.json", &json!({"name": "x"}));
    let monitors = r#"[
        // A comment.
        {"name": "log", "command": "\"${CLAUDE_PLUGIN_ROOT}\"/log.sh", "description": "the log"},
        {"name": "late", "command": "tail -f y", "description": "y", "when": "on-skill-invoke:look"},
        {"name": "odd", "command": "true", "description": "z", "every": 5},
        {"name": "when", "command": "true", "description": "z", "when": "now"},
        {"name": "secret", "command": "echo ${user_config.token}", "description": "z"},
        {"name": "bare", "command": "true"}
    ]"#;
    home.write("work/x/monitors/monitors.json", monitors);
    home.write("work/x/themes/night.json", "{}");
    let plugin = read(&home, "work/x");
    let parts = &plugin.contribution.session;
    let names: Vec<&str> = parts.monitors.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["log", "late"]);
    assert!(!parts.monitors[0].command.contains("${"), "{parts:?}");
    let look = lathe_extensions::plugin::MonitorStart::OnSkill("look".to_owned());
    assert_eq!(parts.monitors[1].when, look);
    assert!(parts.themes[0].ends_with("themes"));
    let messages = messages(&plugin);
    for words in [
        "monitors.odd",
        "\"every\"",
        "monitors.when",
        "monitors.secret",
        "needs \"description\"",
    ] {
        assert!(messages.contains(words), "{words} in {messages}");
    }
    let runs: Vec<String> = plugin.runs().iter().map(ToString::to_string).collect();
    assert_eq!(runs.len(), 2, "{runs:?}");

    home.write_json(
        "work/y/.claude-plugin/plugin.json",
        &json!({"name": "y", "experimental": {"themes": ["./a.json"], "monitors": "./m.json", "more": 1}}),
    );
    home.write("work/y/a.json", "{}");
    home.write("work/y/themes/b.json", "{}");
    home.write(
        "work/y/m.json",
        r#"{"monitors": [{"name": "m", "command": "true", "description": "d"}]}"#,
    );
    let plugin = read(&home, "work/y");
    let parts = &plugin.contribution.session;
    assert!(parts.themes.len() == 1 && parts.themes[0].ends_with("a.json"));
    assert_eq!(parts.monitors.len(), 1);
    assert!(self::messages(&plugin).contains("experimental.more"));
}
