use super::listing::{budget, listing};
use super::*;
use crate::commands::CommandRegistry;
use crate::expand::{expand, without_running};
use crate::test_folders::{TestFolders, write};
use lathe_settings::Trust;

fn sources(at: &TestFolders) -> Sources {
    Sources::new(&at.places, &Trust::Trusted, None)
}

fn of_users(catalog: &SkillCatalog) -> Vec<&str> {
    catalog
        .iter()
        .filter(|skill| skill.source != ExtensionSource::Builtin)
        .map(|skill| skill.name.as_str())
        .collect()
}

#[test]
fn the_bundled_skills_are_whole() {
    let catalog = SkillCatalog::load(&Sources::default());
    assert_eq!(catalog.problems, []);
    assert_eq!(catalog.len(), BUILTIN.len());
    for (skill, (name, text)) in catalog.iter().zip(BUILTIN) {
        assert_eq!(skill.name, name);
        assert!(skill.description.chars().count() <= 200, "{name}");
        assert!(skill.argument_hint.is_some(), "{name}");
        assert!(text.len() <= 1_600, "{name} has {} bytes", text.len());
        assert!(skill.body().unwrap().contains("$ARGUMENTS"), "{name}");
    }
}

#[test]
fn a_switch_may_be_written_as_yes_or_off_and_one_that_restricts_holds_even_if_misspelt() {
    let at = TestFolders::new("repo");
    for (name, line) in [
        ("yes", "disable-model-invocation: yes"),
        ("on", "disable-model-invocation: \"On\""),
        ("odd", "disable-model-invocation: always"),
        ("no", "disable-model-invocation: no"),
        ("hidden", "user-invocable: off"),
        ("hint", "argument-hint: [issue: number, other]"),
    ] {
        write(
            &at.root,
            &format!("repo/.claude/skills/{name}/SKILL.md"),
            &format!("---\ndescription: d\n{line}\n---\nBody\n"),
        );
    }
    let catalog = SkillCatalog::load(&sources(&at));
    let skill = |name: &str| catalog.get(name).unwrap();
    for (name, for_the_model) in [("yes", false), ("on", false), ("odd", false), ("no", true)] {
        assert_eq!(skill(name).model_invocable, for_the_model, "{name}");
    }
    assert!(!skill("hidden").user_invocable);
    assert_eq!(
        skill("hint").argument_hint.as_deref(),
        Some("[issue: number, other]")
    );
    let told = |problem: &Problem| problem.file.ends_with("odd/SKILL.md");
    assert_eq!(
        catalog
            .problems
            .iter()
            .filter(|problem| told(problem))
            .count(),
        1
    );
}

#[test]
fn skills_and_commands_of_every_source_are_found_and_precedence_holds() {
    let at = TestFolders::new("repo");
    let root = &at.root;
    let text = |words: &str| format!("---\ndescription: {words}\n---\nBody of {words}\n");
    for (file, words) in [
        ("home/.agents/skills/shared/SKILL.md", "agents"),
        ("home/.claude/skills/mine/SKILL.md", "home claude"),
        ("home/.lathe/skills/mine/SKILL.md", "home lathe"),
        ("home/.lathe/commands/deep/er/do.md", "nested command"),
        ("repo/.agents/skills/team/SKILL.md", "team"),
        ("repo/.claude/commands/mine.md", "project command"),
        ("repo/.claude/commands/team.md", "hidden by the skill"),
        ("managed/skills/policy/SKILL.md", "managed"),
    ] {
        write(root, file, &text(words));
    }
    let catalog = SkillCatalog::load(&sources(&at));
    assert_eq!(catalog.problems, []);
    assert_eq!(
        of_users(&catalog),
        ["policy", "team", "mine", "shared", "deep:er:do"]
    );
    assert_eq!(catalog.get("mine").unwrap().description, "project command");
    assert_eq!(catalog.get("team").unwrap().description, "team");
    assert_eq!(
        catalog.get("/team").unwrap().body().unwrap(),
        "Body of team"
    );
    assert_eq!(catalog.hidden.len(), 3);
}

#[test]
fn a_file_reached_by_several_paths_is_loaded_once() {
    let at = TestFolders::new("repo");
    write(
        &at.root,
        "home/.lathe/skills/one/SKILL.md",
        "---\nname: one\ndescription: d\n---\nBody\n",
    );
    std::fs::create_dir_all(at.root.join("repo/.lathe")).unwrap();
    std::os::unix::fs::symlink(
        at.root.join("home/.lathe/skills"),
        at.root.join("repo/.lathe/skills"),
    )
    .unwrap();
    std::os::unix::fs::symlink(
        at.root.join("home/.lathe/skills/one"),
        at.root.join("home/.lathe/skills/two"),
    )
    .unwrap();
    let catalog = SkillCatalog::load(&sources(&at));
    assert_eq!(of_users(&catalog), ["one"]);
    assert!(catalog.hidden.is_empty());
}

#[test]
fn every_key_of_a_skill_is_read() {
    let at = TestFolders::new("repo");
    write(
        &at.root,
        "repo/.claude/skills/full/SKILL.md",
        "---\nname: full\ndescription: d\nwhen_to_use: often\nlicense: MIT\ncompatibility: needs git\nmetadata:\n  author: me\n  version: 2\nallowed-tools: Read Bash(git status:*) Grep\nargument-hint: [file] [line]\narguments: [file, line]\nmodel: haiku\neffort: low\ncontext: fork\nagent: Explore\npaths: \"src/**/*.rs, docs/\"\nhooks:\n  Stop:\n    - hooks: [{type: command, command: x}]\ndisable-model-invocation: true\nuser-invocable: false\nversion: 1.2\n---\nBody $file:$line\n",
    );
    let catalog = SkillCatalog::load(&sources(&at));
    let skill = catalog.get("full").unwrap();
    assert_eq!(skill.summary(), "d - often");
    assert_eq!(skill.about.license.as_deref(), Some("MIT"));
    assert_eq!(skill.about.compatibility.as_deref(), Some("needs git"));
    assert_eq!(skill.about.metadata["version"], "2");
    assert_eq!(
        skill.run.allowed_tools,
        ["Read", "Bash(git status:*)", "Grep"]
    );
    assert_eq!(skill.argument_hint.as_deref(), Some("[file] [line]"));
    assert_eq!(skill.run.arguments, ["file", "line"]);
    assert_eq!(skill.run.model.as_deref(), Some("haiku"));
    assert_eq!(skill.run.effort, Some(Effort::Low));
    assert!(skill.run.fork);
    assert_eq!(skill.run.agent.as_deref(), Some("Explore"));
    assert_eq!(skill.run.hooks["Stop"].len(), 1);
    assert!(!skill.model_invocable && !skill.user_invocable);
    assert_eq!(skill.about.version.as_deref(), Some("1.2"));
    let repo = at.root.join("repo");
    assert!(skill.covers(&repo.join("src/a/b.rs")));
    assert!(skill.covers(&repo.join("docs/x/y.md")));
    assert!(!skill.covers(&repo.join("other/b.rs")));
    assert!(!skill.covers(&at.root.join("elsewhere/src/b.rs")));
    let segments = expand(
        &skill.body().unwrap(),
        &skill.values("a.rs 7", "s1", "high"),
    );
    assert_eq!(without_running(&segments), "Body a.rs:7");
}

#[test]
fn variables_of_folders_are_expanded_in_the_body_and_in_allowed_tools() {
    let at = TestFolders::new("repo");
    write(
        &at.root,
        "repo/.claude/skills/deploy/SKILL.md",
        "---\ndescription: d\nallowed-tools: Bash(${CLAUDE_SKILL_DIR}/run.sh:*), Read(${CLAUDE_PROJECT_DIR}/**)\n---\nIn ${CLAUDE_PROJECT_DIR}\n",
    );
    let catalog = SkillCatalog::load(&sources(&at));
    let skill = catalog.get("deploy").unwrap();
    let project = skill.values("", "s", "high").variables;
    let project = &project
        .iter()
        .find(|(name, _)| name == "CLAUDE_PROJECT_DIR")
        .unwrap()
        .1;
    assert_eq!(
        skill.allowed_tools(),
        [
            format!(
                "Bash({}/run.sh:*)",
                at.root.join("repo/.claude/skills/deploy").display()
            ),
            format!("Read({project}/**)"),
        ]
    );
    let segments = expand(&skill.body().unwrap(), &skill.values("", "s", "high"));
    assert_eq!(without_running(&segments), format!("In {project}"));
}

#[test]
fn a_broken_file_does_not_affect_others() {
    let at = TestFolders::new("repo");
    let root = &at.root;
    let skills = "repo/.lathe/skills";
    write(
        root,
        &format!("{skills}/good/SKILL.md"),
        "---\ndescription: d\n---\nBody\n",
    );
    write(
        root,
        &format!("{skills}/colon/SKILL.md"),
        "---\ndescription: Use: when\n---\nBody\n",
    );
    write(
        root,
        &format!("{skills}/plain/SKILL.md"),
        "# Title\n\nJust words.\n",
    );
    write(
        root,
        &format!("{skills}/other-name/SKILL.md"),
        "---\nname: renamed\ndescription: d\n---\nBody\n",
    );
    write(
        root,
        &format!("{skills}/bad-name/SKILL.md"),
        "---\nname: 'Not a Name!'\ndescription: d\n---\nBody\n",
    );
    write(
        root,
        &format!("{skills}/empty/SKILL.md"),
        "---\ndescription: d\n---\n",
    );
    write(root, &format!("{skills}/nothing/SKILL.md"), "");
    write(root, &format!("{skills}/no skill here/README.md"), "x");
    write(root, &format!("{skills}/loose.md"), "x");
    write(
        root,
        &format!("{skills}/huge/SKILL.md"),
        &"x".repeat(600 * 1024),
    );
    std::fs::create_dir_all(root.join(format!("{skills}/folder/SKILL.md"))).unwrap();
    write(root, &format!("{skills}/latin/SKILL.md"), "");
    std::fs::write(
        root.join(format!("{skills}/latin/SKILL.md")),
        b"---\ndescription: caf\xe9\n---\nBody\n",
    )
    .unwrap();
    let catalog = SkillCatalog::load(&sources(&at));
    assert_eq!(
        of_users(&catalog),
        [
            "bad-name",
            "colon",
            "empty",
            "good",
            "latin",
            "nothing",
            "other-name",
            "plain"
        ]
    );
    assert_eq!(catalog.get("nothing").unwrap().description, "nothing");
    assert_eq!(catalog.get("plain").unwrap().description, "Title");
    assert_eq!(catalog.get("colon").unwrap().description, "Use: when");
    let mut files: Vec<String> = catalog
        .problems
        .iter()
        .map(|problem| {
            let folder = problem.file.parent().unwrap().file_name().unwrap();
            format!(
                "{}{}",
                folder.to_string_lossy(),
                if problem.fatal { "!" } else { "" }
            )
        })
        .collect();
    files.sort();
    assert_eq!(
        files,
        ["colon", "folder!", "huge!", "latin", "nothing", "plain"]
    );
}

#[test]
fn a_skill_is_typed_by_its_folder_and_shown_by_its_name() {
    let at = TestFolders::new("repo");
    for (folder, name) in [
        ("deploy", "Deploy: to production"),
        ("research.attention.probe", "research.attention.probe"),
        ("My Skill", "my/skill"),
        ("same", "same"),
    ] {
        write(
            &at.root,
            &format!("repo/.lathe/skills/{folder}/SKILL.md"),
            &format!("---\nname: \"{name}\"\ndescription: d\n---\nBody\n"),
        );
    }
    let catalog = SkillCatalog::load(&sources(&at));
    assert_eq!(catalog.problems, []);
    assert_eq!(
        of_users(&catalog),
        ["My Skill", "deploy", "research.attention.probe", "same"]
    );
    let shown = |name: &str| catalog.get(name).unwrap().about.display_name.clone();
    assert_eq!(shown("deploy").as_deref(), Some("Deploy: to production"));
    assert_eq!(shown("same"), None);
    // The model may use the name that it was shown, and a blank is typed as a hyphen.
    for name in ["my/skill", "My-Skill", "/My-Skill"] {
        assert_eq!(catalog.get(name).unwrap().name, "My Skill", "{name}");
    }
    let commands = CommandRegistry::new(&catalog, &[]);
    assert_eq!(commands.find("My-Skill").unwrap().name, "My Skill");
}

#[test]
fn commands_may_have_blanks_and_letters_of_every_language_in_their_names() {
    let at = TestFolders::new("repo");
    for file in ["With Space", "prüfen", "提交"] {
        let file = format!("repo/.claude/commands/{file}.md");
        write(&at.root, &file, "# Words\n");
    }
    let catalog = SkillCatalog::load(&sources(&at));
    assert_eq!(catalog.problems, []);
    assert_eq!(of_users(&catalog), ["With Space", "prüfen", "提交"]);
    let commands = CommandRegistry::new(&catalog, &[]);
    for (typed, name) in [
        ("With-Space", "With Space"),
        ("prüfen", "prüfen"),
        ("提交", "提交"),
    ] {
        assert_eq!(commands.find(typed).unwrap().name, name);
    }
}

#[test]
fn a_skill_that_a_plugin_points_to_has_the_name_of_its_front_matter() {
    let at = TestFolders::new("repo");
    let root = &at.root;
    let skill = |name: &str| format!("---\nname: {name}\ndescription: d\n---\nBody\n");
    write(root, "plugin/SKILL.md", &skill("at-the-root"));
    write(root, "plugin/other/SKILL.md", &skill("Other Name"));
    write(root, "plugin/skills/by.folder/SKILL.md", &skill("shown"));
    let plugin = PluginContribution {
        name: "kit".into(),
        root: root.join("plugin"),
        skills: ["", "other", "skills"]
            .map(|path| root.join("plugin").join(path))
            .into(),
        trusted: true,
        ..PluginContribution::default()
    };
    let catalog = SkillCatalog::load(&sources(&at).with_plugins(vec![plugin]));
    assert_eq!(
        of_users(&catalog),
        ["kit:at-the-root", "kit:Other-Name", "kit:by-folder"]
    );
}

#[test]
fn what_a_skill_disallows_and_where_it_runs_is_read() {
    let at = TestFolders::new("repo");
    write(
        &at.root,
        "repo/.claude/skills/look/SKILL.md",
        "---\ndescription: d\ndisallowed-tools: Write, Bash(rm *)\ncontext: fork\nbackground: true\n---\nBody\n",
    );
    let catalog = SkillCatalog::load(&sources(&at));
    let skill = catalog.get("look").unwrap();
    assert_eq!(skill.disallowed_tools(), ["Write", "Bash(rm *)"]);
    assert!(skill.run.fork && skill.run.background);
}

#[test]
fn without_a_description_the_first_line_counts_up_to_a_hundred_characters() {
    let at = TestFolders::new("repo");
    write(
        &at.root,
        "repo/.claude/commands/a.md",
        "\n## Short title\n\ntext\n",
    );
    let long = "word ".repeat(40);
    write(&at.root, "repo/.claude/commands/b.md", &long);
    let catalog = SkillCatalog::load(&sources(&at));
    assert_eq!(catalog.get("a").unwrap().description, "Short title");
    let cut = &catalog.get("b").unwrap().description;
    assert_eq!(*cut, format!("{}...", &long[..97]));
}

#[test]
fn a_command_of_markup_and_one_with_signs_in_its_name_are_offered() {
    let at = TestFolders::new("repo");
    let commands = "repo/.claude/commands";
    write(
        &at.root,
        &format!("{commands}/page.md"),
        "<!-- of the site -->\n<b>$ARGUMENTS</b>\n",
    );
    write(&at.root, &format!("{commands}/c++.md"), "Port to C++.\n");
    let catalog = SkillCatalog::load(&sources(&at));
    assert_eq!(catalog.problems, []);
    let page = catalog.get("page").unwrap();
    assert_eq!(page.description, "<b>$ARGUMENTS</b>");
    assert_eq!(catalog.get("c++").unwrap().typed_name(), None);
}

#[test]
fn commands_have_the_names_of_their_files() {
    let at = TestFolders::new("repo");
    for file in ["speckit.plan", "5why", "1st", "_x"] {
        let file = format!("repo/.claude/commands/{file}.md");
        write(&at.root, &file, "# Asks why\n\nDo it.\n");
    }
    let catalog = SkillCatalog::load(&sources(&at));
    assert_eq!(catalog.problems, []);
    assert_eq!(of_users(&catalog), ["1st", "5why", "_x", "speckit.plan"]);
    // Without a description, the first heading is used.
    assert_eq!(catalog.get("5why").unwrap().description, "Asks why");
}

#[test]
fn a_pipe_in_the_place_of_a_file_does_not_hang() {
    let at = TestFolders::new("repo");
    let folder = at.root.join("repo/.lathe/skills/pipe");
    std::fs::create_dir_all(&folder).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(folder.join("SKILL.md"))
        .status()
        .unwrap();
    assert!(made.success());
    let catalog = SkillCatalog::load(&sources(&at));
    assert_eq!(of_users(&catalog), Vec::<&str>::new());
    assert!(catalog.problems[0].message.contains("regular file"));
}

#[test]
fn files_of_an_untrusted_folder_are_text_only_and_links_out_of_it_are_ignored() {
    let at = TestFolders::new("repo");
    write(
        &at.root,
        "repo/.lathe/skills/x/SKILL.md",
        "---\ndescription: d\nallowed-tools: Bash\nhooks: {Stop: [{hooks: [{type: command, command: x}]}]}\n---\nBody\n",
    );
    write(
        &at.root,
        "outside/SKILL.md",
        "---\ndescription: d\n---\nSecret\n",
    );
    std::os::unix::fs::symlink(
        at.root.join("outside"),
        at.root.join("repo/.lathe/skills/out"),
    )
    .unwrap();
    let untrusted = Sources::new(&at.places, &Trust::Untrusted, None);
    let catalog = SkillCatalog::load(&untrusted);
    assert_eq!(of_users(&catalog), ["x"]);
    let skill = catalog.get("x").unwrap();
    assert!(!skill.trusted && skill.run.allowed_tools.is_empty() && skill.run.hooks.is_empty());
    let trusted = SkillCatalog::load(&sources(&at));
    assert_eq!(of_users(&trusted), ["out", "x"]);
}

#[test]
fn a_link_of_a_project_leads_to_markdown_only() {
    let at = TestFolders::new("repo");
    write(&at.root, "repo/.env", "KEY=secret\n");
    write(&at.root, "outside/notes.txt", "secret\n");
    write(
        &at.root,
        "outside/shared.md",
        "---\ndescription: d\n---\nBody\n",
    );
    for (target, name) in [
        ("repo/.env", "skills/key/SKILL.md"),
        ("outside/notes.txt", "commands/notes.md"),
        ("outside/shared.md", "commands/shared.md"),
    ] {
        let link = at.root.join("repo/.lathe").join(name);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(at.root.join(target), link).unwrap();
    }
    let trusted = SkillCatalog::load(&sources(&at));
    assert_eq!(of_users(&trusted), ["shared"]);
    let untrusted = SkillCatalog::load(&Sources::new(&at.places, &Trust::Untrusted, None));
    assert!(of_users(&untrusted).is_empty());
}

#[test]
fn sources_that_were_not_asked_for_are_not_read() {
    let at = TestFolders::new("repo");
    write(
        &at.root,
        "repo/.lathe/skills/p/SKILL.md",
        "---\ndescription: d\n---\nBody\n",
    );
    write(
        &at.root,
        "home/.lathe/skills/u/SKILL.md",
        "---\ndescription: d\n---\nBody\n",
    );
    let read = |named: &[lathe_settings::Source]| {
        let sources = Sources::new(&at.places, &Trust::Trusted, Some(named));
        let catalog = SkillCatalog::load(&sources);
        of_users(&catalog).join(",")
    };
    assert_eq!(read(&[]), "");
    assert_eq!(read(&[lathe_settings::Source::User]), "u");
    assert_eq!(read(&[lathe_settings::Source::Project]), "p");
}

#[test]
fn skills_of_nested_folders_are_found_once_a_file_there_is_touched() {
    let at = TestFolders::new("repo");
    let root = &at.root;
    write(
        root,
        "repo/.lathe/skills/deploy/SKILL.md",
        "---\ndescription: all\n---\nBody\n",
    );
    write(
        root,
        "repo/apps/web/.claude/skills/deploy/SKILL.md",
        "---\ndescription: web\n---\nBody\n",
    );
    write(
        root,
        "repo/apps/web/.claude/skills/pixel/SKILL.md",
        "---\ndescription: web\n---\nBody\n",
    );
    let sources = sources(&at);
    let mut catalog = SkillCatalog::load(&sources);
    assert_eq!(of_users(&catalog), ["deploy"]);
    let touched = root.join("repo/apps/web/src/main.ts");
    assert_eq!(
        catalog.discover(&touched, &sources),
        ["web:deploy", "pixel"]
    );
    assert!(catalog.discover(&touched, &sources).is_empty());
    assert!(
        catalog
            .discover(Path::new("/elsewhere/x"), &sources)
            .is_empty()
    );
    assert_eq!(catalog.get("deploy").unwrap().description, "all");
}

#[test]
fn skills_and_commands_of_plugins_have_a_prefix() {
    let at = TestFolders::new("repo");
    let root = &at.root;
    write(
        root,
        "plugin/skills/a/SKILL.md",
        "---\ndescription: d\n---\nSee ${CLAUDE_PLUGIN_ROOT} ${user_config.key}\n",
    );
    write(
        root,
        "plugin/single/SKILL.md",
        "---\ndescription: d\n---\nBody\n",
    );
    write(root, "plugin/commands/x/y.md", "Do $ARGUMENTS\n");
    write(root, "plugin/extra.md", "Extra\n");
    let sources = sources(&at).with_plugins(vec![PluginContribution {
        name: "kit".into(),
        root: root.join("plugin"),
        skills: vec![root.join("plugin/skills"), root.join("plugin/single")],
        commands: vec![
            root.join("plugin/commands").into(),
            root.join("plugin/extra.md").into(),
        ],
        user_config: [("key".to_owned(), "value".to_owned())].into(),
        trusted: true,
        ..PluginContribution::default()
    }]);
    let catalog = SkillCatalog::load(&sources);
    assert_eq!(
        of_users(&catalog),
        ["kit:a", "kit:single", "kit:x:y", "kit:extra"]
    );
    let skill = catalog.get("a").unwrap();
    let segments = expand(&skill.body().unwrap(), &skill.values("", "s", "high"));
    assert_eq!(
        without_running(&segments),
        format!("See {} value", root.join("plugin").display())
    );
}

fn many(at: &TestFolders, count: usize, description: &str) -> SkillCatalog {
    for index in 0..count {
        write(
            &at.root,
            &format!("repo/.lathe/skills/skill-{index:03}/SKILL.md"),
            &format!("---\nname: skill-{index:03}\ndescription: {description}\n---\nBody\n"),
        );
    }
    SkillCatalog::load(&sources(at))
}

#[test]
fn the_listing_keeps_to_its_budget_and_shortens_bundled_skills_last() {
    let at = TestFolders::new("repo");
    let catalog = many(&at, 40, &"words that say a lot about it ".repeat(12));
    let skills: Vec<&Skill> = catalog.iter().collect();
    let all = budget(200_000);
    assert_eq!(all, 8_000);
    let text = listing(&skills, all);
    let length = text.chars().count();
    assert!(length <= all, "{length}");
    assert!(length > all * 8 / 10, "{length}");
    let bundled = text
        .lines()
        .find(|line| line.starts_with("- verify:"))
        .unwrap();
    assert!(!bundled.contains('…'), "{bundled}");
    let others: Vec<usize> = text
        .lines()
        .filter(|line| line.starts_with("- skill-"))
        .map(|line| line.chars().count())
        .collect();
    assert_eq!(others.len(), 40);
    assert!(
        others.iter().all(|length| *length == others[0]),
        "{others:?}"
    );
    let roomy = listing(&skills, 1_000_000);
    // Where there is room, descriptions are whole, up to the limit of the format.
    let cut = |line: &str| line.starts_with("- skill-") && line.contains('…');
    assert!(!roomy.lines().any(cut), "{roomy}");
    let long = many(&at, 1, &"x".repeat(5_000));
    let long = listing(&[long.get("skill-000").unwrap()], 1_000_000);
    assert_eq!(long.chars().count(), "- skill-000: ".len() + 1_536);
    for small in [0, 10, 100, 400, 700, 1_500] {
        assert!(
            listing(&skills, small).chars().count() <= small.max(30),
            "{small}"
        );
    }
}

#[test]
fn five_hundred_skills_stay_within_the_budget() {
    let at = TestFolders::new("repo");
    let catalog = many(&at, 500, "does one of the many things that are done here");
    assert_eq!(catalog.problems, []);
    let skills: Vec<&Skill> = catalog.iter().collect();
    let text = listing(&skills, budget(200_000));
    assert!(text.chars().count() <= budget(200_000));
    assert!(text.contains("- skill-000"));
    assert!(text.contains("- skill-499") || text.contains("more, not listed"));
}

#[test]
fn the_page_of_skills_names_every_key_and_every_bundled_skill() {
    let page = include_str!("../../../../docs/skills.md");
    let source = include_str!("read.rs");
    // A key is read by one of the methods of `Fields`.
    let keys: Vec<&str> = source
        .split("fields")
        .skip(1)
        .filter_map(|part| part.trim_start().strip_prefix('.'))
        .filter(|call| !call.starts_with("report"))
        .filter_map(|call| call.split_once("(\"")?.1.split('"').next())
        .collect();
    assert!(keys.len() > 15, "{keys:?}");
    for key in keys.iter().filter(|key| !key.contains(char::is_whitespace)) {
        let written = [format!("`{key}`"), format!("`{key}: ")];
        assert!(written.iter().any(|key| page.contains(key)), "{key}");
    }
    for (name, _) in BUILTIN {
        assert!(page.contains(&format!("`/{name}`")), "{name}");
    }
}
