use super::*;
use crate::test_folders::{TestFolders, write};
use lathe_settings::Trust;
use serde_json::json;

fn agent(description: &str) -> String {
    format!("---\nname: worker\ndescription: {description}\n---\nPrompt of {description}.\n")
}

fn load(at: &TestFolders, trust: &Trust, flags: &[Value]) -> AgentCatalog {
    AgentCatalog::load(&Sources::new(&at.places, trust, None), flags)
}

#[test]
fn the_built_in_agents_are_whole_and_small() {
    let catalog = AgentCatalog::builtin();
    assert_eq!(catalog.problems, []);
    let names: Vec<&str> = catalog.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "general-purpose",
            "Explore",
            "Plan",
            "verification",
            "guide",
            "statusline-setup"
        ]
    );
    let explore = catalog.get("explore").unwrap();
    assert_eq!(explore.model.as_deref(), Some(SMALL_MODEL));
    assert!(explore.run.omit_instructions);
    assert!(explore.disallowed_tools.contains(&"Write".to_owned()));
    assert_eq!(
        catalog.get("verification").unwrap().run.background,
        Some(true)
    );
    let total: usize = BUILTIN.iter().map(|(_, text)| text.len()).sum();
    assert!(total <= 7_168, "the built-in agents have {total} bytes");
    for (name, text) in BUILTIN {
        assert!(text.len() <= 1_536, "{name} has {} bytes", text.len());
    }
}

#[test]
fn the_definition_with_the_highest_precedence_is_used() {
    let at = TestFolders::new("repo/inner");
    let root = &at.root;
    let look = |flags: &[Value]| {
        load(&at, &Trust::Trusted, flags)
            .get("worker")
            .map(|agent| (agent.description.clone(), agent.source.clone()))
    };
    assert_eq!(look(&[]), None);
    let steps = [
        (
            "home/.claude/agents/w.md",
            "home-claude",
            ExtensionSource::User,
        ),
        (
            "home/.lathe/agents/w.md",
            "home-lathe",
            ExtensionSource::User,
        ),
        (
            "repo/.claude/agents/deep/w.md",
            "repo-claude",
            ExtensionSource::Project,
        ),
        (
            "repo/.lathe/agents/w.md",
            "repo-lathe",
            ExtensionSource::Project,
        ),
        (
            "repo/inner/.claude/agents/w.md",
            "inner",
            ExtensionSource::Project,
        ),
    ];
    for (file, description, source) in steps {
        write(root, file, &agent(description));
        assert_eq!(look(&[]), Some((description.to_owned(), source)));
    }
    let first = json!({"worker": {"description": "flag-1", "prompt": "x"}});
    let second = json!({"worker": {"description": "flag-2", "prompt": "x"}});
    assert_eq!(
        look(&[first.clone(), second]),
        Some(("flag-2".to_owned(), ExtensionSource::Flag))
    );
    write(root, "managed/agents/w.md", &agent("managed"));
    let catalog = load(&at, &Trust::Trusted, &[first]);
    assert_eq!(catalog.get("worker").unwrap().description, "managed");
    assert_eq!(catalog.hidden.len(), 6);
    assert_eq!(catalog.problems, []);
}

#[test]
fn every_key_is_read() {
    let at = TestFolders::new("repo/inner");
    write(
        &at.root,
        "repo/.lathe/agents/full.md",
        "---\nname: full\ndescription: \"All: keys\"\ntools: Read, Bash(git log:*), Agent(a, b)\ndisallowed-tools: [Write]\nmodel: opus\npermissionMode: acceptEdits\nmaxTurns: 7\nskills: [one, two]\nmcpServers:\n  - github\n  - own:\n      command: serve\nhooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n        - type: command\n          command: check\nmemory: project\nisolation: worktree\nbackground: true\ncolor: Blue\neffort: high\nomitInstructions: true\n---\nDo it.\n",
    );
    let catalog = load(&at, &Trust::Trusted, &[]);
    assert_eq!(catalog.problems, []);
    let agent = catalog.get("full").unwrap();
    assert_eq!(
        agent.tools.as_deref().unwrap(),
        ["Read", "Bash(git log:*)", "Agent(a, b)"]
    );
    assert_eq!(agent.disallowed_tools, ["Write"]);
    assert_eq!(agent.model.as_deref(), Some("opus"));
    assert_eq!(agent.permission_mode, Some(PermissionMode::AcceptEdits));
    assert_eq!(agent.run.max_turns, Some(7));
    assert_eq!(agent.skills, ["one", "two"]);
    assert_eq!(agent.mcp_servers[0], AgentMcpServer::Named("github".into()));
    assert!(
        matches!(&agent.mcp_servers[1], AgentMcpServer::Inline(map) if map["own"]["command"] == "serve")
    );
    assert_eq!(agent.hooks["PreToolUse"].len(), 1);
    assert_eq!(agent.run.memory, Some(AgentMemory::Project));
    assert_eq!(agent.run.isolation, Some(Isolation::Worktree));
    assert_eq!(agent.run.background, Some(true));
    assert_eq!(agent.color.as_deref(), Some("blue"));
    assert_eq!(agent.run.effort, Some(Effort::High));
    assert!(agent.run.omit_instructions);
    assert_eq!(agent.prompt, "Do it.");
}

#[test]
fn nothing_of_an_untrusted_folder_runs_or_widens_anything() {
    let at = TestFolders::new("repo/inner");
    write(
        &at.root,
        "repo/.lathe/agents/x.md",
        "---\nname: x\ndescription: d\npermissionMode: bypassPermissions\nmcpServers: {own: {command: evil}}\nhooks: {Stop: [{hooks: [{type: command, command: evil}]}]}\n---\nPrompt\n",
    );
    let catalog = load(&at, &Trust::Untrusted, &[]);
    let agent = catalog.get("x").unwrap();
    assert!(agent.hooks.is_empty() && agent.mcp_servers.is_empty());
    assert_eq!(agent.permission_mode, None);
    assert_eq!(catalog.problems.len(), 3);
    assert!(catalog.problems.iter().all(|problem| !problem.fatal));
}

#[test]
fn a_bad_field_is_reported_with_its_line_and_the_rest_is_used() {
    let at = TestFolders::new("repo/inner");
    write(
        &at.root,
        "repo/.lathe/agents/x.md",
        "---\nname: x\ndescription: d\nmaxTurns: many\nmemory: everywhere\nbackground: perhaps\ncolor: octarine\neffort: huge\nmodel: inherit\ntools: '*'\n---\nPrompt\n",
    );
    let catalog = load(&at, &Trust::Trusted, &[]);
    let agent = catalog.get("x").unwrap();
    assert_eq!(
        (agent.run.max_turns, agent.run.memory, agent.run.background),
        (None, None, None)
    );
    assert_eq!((&agent.model, &agent.tools), (&None, &None));
    let found: Vec<(&str, Option<usize>)> = catalog
        .problems
        .iter()
        .map(|problem| (problem.field.as_str(), problem.line))
        .collect();
    assert_eq!(
        found,
        [
            ("maxTurns", Some(4)),
            ("memory", Some(5)),
            ("background", Some(6)),
            ("color", Some(7)),
            ("effort", Some(8))
        ]
    );
}

#[test]
fn notes_are_ignored_and_incomplete_agents_are_reported() {
    let at = TestFolders::new("repo/inner");
    let root = &at.root;
    write(
        root,
        "repo/.lathe/agents/README.md",
        "# Our agents\n\nNotes.\n",
    );
    write(
        root,
        "repo/.lathe/agents/note.md",
        "---\ntitle: 'a: b\n---\nNot an agent.\n",
    );
    write(
        root,
        "repo/.lathe/agents/a.md",
        "---\nname: a\n---\nPrompt\n",
    );
    write(
        root,
        "repo/.lathe/agents/b.md",
        "---\nname: b\ndescription: d\n---\n\n",
    );
    write(
        root,
        "repo/.lathe/agents/c.md",
        "---\nname: 'c/../d'\ndescription: d\n---\nPrompt\n",
    );
    write(root, "repo/.lathe/agents/d.txt", &agent("not markdown"));
    let catalog = load(&at, &Trust::Trusted, &[]);
    assert_eq!(catalog.len(), AgentCatalog::builtin().len() + 1);
    let fields: Vec<(&str, bool)> = catalog
        .problems
        .iter()
        .map(|problem| (problem.field.as_str(), problem.fatal))
        .collect();
    // An agent without instructions works by its description.
    assert_eq!(
        fields,
        [("description", true), ("prompt", false), ("name", true)]
    );
    assert!(catalog.problems.iter().all(|problem| problem.fix.is_some()));
    assert_eq!(catalog.get("b").unwrap().prompt, "");
}

#[test]
fn of_two_agents_of_one_name_in_a_folder_the_first_file_counts() {
    let at = TestFolders::new("repo/inner");
    for (file, words) in [("a", "first"), ("b", "second")] {
        write(
            &at.root,
            &format!("repo/.claude/agents/{file}.md"),
            &format!("---\nname: twin\ndescription: {words}\n---\nPrompt\n"),
        );
    }
    let catalog = load(&at, &Trust::Trusted, &[]);
    assert_eq!(catalog.get("twin").unwrap().description, "first");
    assert_eq!(catalog.hidden.len(), 1);
}

#[test]
fn json_of_the_command_line_is_held_to_the_same_rules() {
    let at = TestFolders::new("repo/inner");
    let flags = json!({
        "good": {"description": "d", "prompt": "p", "tools": ["Read"], "maxTurns": 3, "background": false, "model": "inherit"},
        "no-prompt": {"description": "d"},
        "not-an-object": 5,
        "odd": {"description": "d", "prompt": 7}
    });
    let catalog = load(&at, &Trust::Untrusted, &[flags, json!([])]);
    let good = catalog.get("good").unwrap();
    assert_eq!(good.tools.as_deref().unwrap(), ["Read"]);
    assert_eq!(
        (good.run.max_turns, good.run.background),
        (Some(3), Some(false))
    );
    assert_eq!(catalog.problems.len(), 4);
    assert!(catalog.problems[0].to_string().contains("no-prompt.prompt"));
}

#[test]
fn a_server_without_command_or_url_is_reported_and_the_others_are_used() {
    let at = TestFolders::new("repo/inner");
    write(
        &at.root,
        "repo/.claude/agents/a.md",
        "---\nname: a\ndescription: d\nmcpServers:\n  - named\n  - good: {command: x}\n    bad: {args: [y]}\n  - worse: 5\n---\nPrompt\n",
    );
    let sources = Sources::new(&at.places, &Trust::Trusted, None);
    let catalog = AgentCatalog::load(&sources, &[]);
    let servers = serde_json::to_value(&catalog.get("a").unwrap().mcp_servers).unwrap();
    assert_eq!(
        servers,
        serde_json::json!(["named", {"good": {"command": "x"}}])
    );
    let problems: Vec<String> = catalog.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("bad has neither"), "{problems:?}");
}

#[test]
fn agents_of_plugins_have_a_prefix_and_can_not_widen_permissions() {
    let at = TestFolders::new("repo/inner");
    let root = &at.root;
    write(
        root,
        "plugin/agents/r.md",
        "---\nname: reviewer\ndescription: d\npermissionMode: bypassPermissions\n---\nRead ${CLAUDE_PLUGIN_ROOT}/guide.md\n",
    );
    write(
        root,
        "secret.md",
        "---\nname: stolen\ndescription: d\n---\nPrompt\n",
    );
    std::os::unix::fs::symlink(root.join("secret.md"), root.join("plugin/agents/link.md")).unwrap();
    let sources =
        Sources::new(&at.places, &Trust::Trusted, None).with_plugins(vec![PluginContribution {
            name: "tools".into(),
            root: root.join("plugin"),
            agents: vec![root.join("plugin/agents")],
            trusted: true,
            ..PluginContribution::default()
        }]);
    let catalog = AgentCatalog::load(&sources, &[]);
    let agent = catalog.get("reviewer").unwrap();
    assert_eq!(agent.name, "tools:reviewer");
    assert_eq!(
        agent.prompt,
        format!("Read {}/guide.md", root.join("plugin").display())
    );
    assert_eq!(agent.permission_mode, None);
    assert!(catalog.get("stolen").is_none());
    assert_eq!(catalog.problems.len(), 2);
}

#[test]
fn agents_are_read_as_other_programs_write_them() {
    let at = TestFolders::new("repo/inner");
    write(
        &at.root,
        "repo/.claude/agents/t.md",
        "---\nname: _trio\ndescription: Use this: \"always\".\\n\\n<example>\nallowedTools: Read, Grep\n---\nPrompt\n",
    );
    let catalog = load(&at, &Trust::Trusted, &[]);
    let agent = catalog.get("_trio").unwrap();
    assert_eq!(agent.description, "Use this: \"always\".\n\n<example>");
    assert_eq!(agent.tools.as_deref().unwrap(), ["Read", "Grep"]);
    let keys: Vec<&str> = catalog.problems.iter().map(|it| &*it.field).collect();
    assert_eq!(keys, ["description"], "{:?}", catalog.problems);
}

#[test]
fn an_agent_of_a_plugin_without_a_name_has_that_of_its_file() {
    let at = TestFolders::new("repo/inner");
    let root = &at.root;
    write(
        root,
        "plugin/agents/tester.md",
        "---\ndescription: d\n---\nPrompt\n",
    );
    write(root, "plugin/agents/plain.md", "Only instructions.\n");
    write(
        root,
        "plugin/agents/web/inner.md",
        "---\nname: css\ndescription: d\n---\nPrompt\n",
    );
    let plugin = PluginContribution {
        name: "kit".into(),
        root: root.join("plugin"),
        agents: vec![root.join("plugin/agents")],
        trusted: true,
        ..PluginContribution::default()
    };
    let sources = Sources::new(&at.places, &Trust::Trusted, None).with_plugins(vec![plugin]);
    let catalog = AgentCatalog::load(&sources, &[]);
    assert_eq!(catalog.get("tester").unwrap().name, "kit:tester");
    assert_eq!(catalog.len(), AgentCatalog::builtin().len() + 3);
    // Folders are part of the name, and a file without front matter is an agent too.
    assert_eq!(catalog.get("css").unwrap().name, "kit:web:css");
    let plain = catalog.get("kit:plain").unwrap();
    assert_eq!(plain.prompt, "Only instructions.");
    assert_eq!(plain.description, "An agent of the plugin kit");
    let reported: Vec<(&str, bool)> = catalog
        .problems
        .iter()
        .map(|problem| (problem.field.as_str(), problem.fatal))
        .collect();
    assert_eq!(reported, [("description", false)]);
}

#[test]
fn a_misspelt_key_is_reported_and_keys_of_other_programs_are_not() {
    let here = TestFolders::new("repo/inner");
    write(
        &here.root,
        "repo/.lathe/agents/a.md",
        "---\nname: a\ndescription: d\ntool: Read\ndissallowed_tools: Write\npermision-mode: plan\nmode: subagent\nversion: 2\ncategory: x\n---\nPrompt\n",
    );
    let sources = Sources::new(&here.places, &Trust::Trusted, None);
    let catalog = AgentCatalog::load(&sources, &[]);
    let said: Vec<(Option<usize>, &str, Option<&str>)> = catalog
        .problems
        .iter()
        .map(|problem| {
            let fix = problem.fix.as_deref();
            (problem.line, problem.field.as_str(), fix)
        })
        .collect();
    assert_eq!(
        said,
        [
            (Some(4), "tool", Some("did you mean tools?")),
            (
                Some(5),
                "dissallowed_tools",
                Some("did you mean disallowedTools?")
            ),
            (
                Some(6),
                "permision-mode",
                Some("did you mean permissionMode?")
            ),
        ]
    );
    assert!(catalog.get("a").is_some());
}

#[test]
fn the_page_of_agents_names_every_key_and_every_built_in_agent() {
    let page = include_str!("../../../../docs/agents.md");
    // `prompt` is a key of JSON; in a file it is the body.
    let keys = read::KEYS.iter().filter(|key| **key != "prompt");
    for key in keys {
        let written = [format!("`{key}`"), format!("`{key}: ")];
        assert!(written.iter().any(|key| page.contains(key)), "{key}");
    }
    for (name, _) in BUILTIN {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}

/// Whatever a project writes into its agents, and however it spells it, none of them skips the permission checks.
#[test]
fn no_agent_of_a_project_brings_the_mode_that_asks_nothing() {
    let mut state: u64 = 20_261_116;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % limit
    };
    let at = TestFolders::new("repo/inner");
    for number in 0..5_000 {
        let key = [
            "permissionMode",
            "permissionMode ",
            "'permissionMode'",
            "\"permissionMode\"",
            "\"permission\\u004dode\"",
            "permission_mode",
            "permission-mode",
            "PermissionMode",
            "mode",
        ][below(9)];
        let value = [
            "bypassPermissions",
            "'bypassPermissions'",
            "\"bypassPermissions\"",
            "\"bypass\\x50ermissions\"",
            "  bypassPermissions  ",
            "bypassPermissions # x",
            "!!str bypassPermissions",
            ">-\n  bypassPermissions",
            "|-\n  bypassPermissions",
            "[bypassPermissions]",
            "{bypassPermissions: true}",
            "&a bypassPermissions",
            "BypassPermissions",
            "bypass",
        ][below(14)];
        let more = [
            "",
            "permissionMode: default\n",
            "permissionMode: plan\n",
            "<<: {permissionMode: bypassPermissions}\n",
            "hooks: {}\n",
        ][below(5)];
        let folder = [
            "repo/.lathe/agents",
            "repo/.claude/agents",
            "repo/inner/.lathe/agents",
            "repo/.lathe/agents/deep/er",
        ][below(4)];
        let line = format!("{key}: {value}\n");
        let (first, second) = if below(2) == 0 {
            (line.as_str(), more)
        } else {
            (more, line.as_str())
        };
        let text =
            format!("---\nname: agent-{number}\ndescription: d\n{first}{second}---\nPrompt\n");
        write(&at.root, &format!("{folder}/agent-{number}.md"), &text);
    }
    for trust in [Trust::Trusted, Trust::Untrusted] {
        let catalog = load(&at, &trust, &[]);
        assert!(catalog.iter().count() > 1_000, "{}", catalog.iter().count());
        for agent in catalog.iter() {
            assert_ne!(
                agent.permission_mode,
                Some(PermissionMode::BypassPermissions),
                "{}",
                agent.name
            );
        }
    }
}

#[test]
fn tools_without_a_value_are_no_tools_and_not_all_of_them() {
    for (written, expected) in [
        ("tools:\n", Some(0)),
        ("tools: ~\n", Some(0)),
        ("tools: []\n", Some(0)),
        ("tools: \"\"\n", Some(0)),
        ("tools:\n  -\n", Some(0)),
        ("allowedTools:\n", Some(0)),
        ("tools: \"*\"\n", None),
        ("model: haiku\n", None),
        ("tools: Read\n", Some(1)),
    ] {
        let at = TestFolders::new("repo");
        write(
            &at.root,
            "repo/.lathe/agents/x.md",
            &format!("---\nname: x\ndescription: d\n{written}---\nPrompt\n"),
        );
        let catalog = load(&at, &Trust::Trusted, &[]);
        let agent = catalog.get("x").unwrap();
        assert_eq!(agent.tools.as_ref().map(Vec::len), expected, "{written:?}");
    }
}

#[test]
fn names_of_agents_have_pictures_and_signs_but_nothing_invisible() {
    for name in ["emoji-🚀", "c++", "f#", "_trio", "Team Lead", "研究"] {
        assert!(read::is_name(name), "{name}");
    }
    for name in [
        "",
        "a/b",
        "a\nb",
        "a\u{202e}b",
        "a\u{200b}b",
        "Agent(x)",
        "a,b",
        "*",
    ] {
        assert!(!read::is_name(name), "{name:?}");
    }
}
