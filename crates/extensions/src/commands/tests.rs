use super::*;
use crate::Sources;

#[test]
fn built_in_commands_do_not_hide_bundled_skills() {
    let seen = builtin_names();
    let skills = SkillCatalog::load(&Sources::default());
    for skill in skills.iter() {
        assert!(!seen.contains(skill.name.as_str()), "{}", skill.name);
    }
}

#[test]
fn every_command_of_the_manual_is_there() {
    let registry = CommandRegistry::new(&SkillCatalog::load(&Sources::default()), &[]);
    for name in "help clear compact context cost usage config model fallback effort permissions hooks mcp agents skills plugin memory init resume rename tag fork branch rewind diff review security-review commit pr-comments export copy status statusline doctor theme vim keybindings output-style add-dir cd tasks todos plan sandbox ide login logout release-notes feedback stats version exit".split(' ') {
        assert!(registry.find(name).is_some(), "{name}");
    }
}

#[test]
fn a_mistyped_name_finds_its_neighbours() {
    let registry = CommandRegistry::new(&SkillCatalog::load(&Sources::default()), &[]);
    assert_eq!(registry.nearest("hlep"), ["help"]);
    assert!(registry.nearest("entirely-other").is_empty());
    assert!(registry.unknown("comit").contains("/commit"));
}

#[test]
fn every_command_that_people_expect_is_there() {
    let registry = CommandRegistry::new(&SkillCatalog::load(&Sources::default()), &[]);
    for name in [
        "help",
        "clear",
        "compact",
        "context",
        "cost",
        "usage",
        "config",
        "model",
        "fallback",
        "effort",
        "permissions",
        "hooks",
        "mcp",
        "agents",
        "skills",
        "plugin",
        "memory",
        "init",
        "resume",
        "rename",
        "tag",
        "fork",
        "branch",
        "rewind",
        "diff",
        "review",
        "security-review",
        "commit",
        "pr-comments",
        "export",
        "copy",
        "status",
        "statusline",
        "doctor",
        "theme",
        "vim",
        "keybindings",
        "output-style",
        "add-dir",
        "cd",
        "tasks",
        "todos",
        "plan",
        "sandbox",
        "ide",
        "login",
        "logout",
        "release-notes",
        "feedback",
        "stats",
        "version",
        "exit",
    ] {
        let command = registry
            .find(name)
            .unwrap_or_else(|| panic!("there is no /{name}"));
        assert!(!command.description.is_empty(), "{name}");
    }
}

#[test]
fn a_file_replaces_a_built_in_command_of_its_name_which_stays_reachable() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    for name in ["plan", "reset"] {
        let file = home.join(".lathe/commands").join(format!("{name}.md"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "---\ndescription: mine\n---\nwords").unwrap();
    }
    let environment = lathe_settings::Environment {
        home: Some(home),
        cwd: folder.path().to_path_buf(),
        ..lathe_settings::Environment::default()
    };
    let places = lathe_settings::Places::with_managed(environment, folder.path().join("managed"));
    let sources = Sources::new(&places, &lathe_settings::Trust::Trusted, None);
    let skills = SkillCatalog::load(&sources);
    let registry = CommandRegistry::new(&skills, &[]);
    let own = registry.find("plan").unwrap();
    assert_eq!(
        (own.action, &*own.description),
        (CommandAction::Prompt, "mine")
    );
    let builtin = registry.find("lathe:plan").unwrap();
    assert_eq!(builtin.action, CommandAction::Builtin(BuiltinCommand::Plan));
    assert_eq!(builtin.name, "lathe:plan");
    // An alias gives way too, and the command keeps its name.
    let reset = registry.find("reset").unwrap();
    assert_eq!(reset.action, CommandAction::Prompt);
    let clear = registry.find("clear").unwrap();
    assert_eq!(registry.find("lathe:clear"), Some(clear));
    let listed = registry.listed().filter(|command| command.headless);
    let listed: Vec<String> = listed.map(|command| command.name.clone()).collect();
    assert_eq!(
        CommandRegistry::names_without_terminal(&skills, &[]),
        listed
    );
}

#[test]
fn an_untrusted_project_does_not_replace_built_in_commands() {
    for (source, trusted, replaces) in [
        (ExtensionSource::User, true, true),
        (ExtensionSource::Project, true, true),
        (ExtensionSource::Project, false, false),
        (ExtensionSource::Plugin("p".to_owned()), true, false),
        (ExtensionSource::Mcp("s".to_owned()), false, false),
    ] {
        assert_eq!(replaces_builtin(&source, trusted), replaces, "{source}");
    }
}

#[test]
fn names_for_hosts_are_those_of_the_registry() {
    let folder = tempfile::tempdir().unwrap();
    for (name, more) in [
        ("clear", ""),
        ("own", ""),
        ("hidden", "user-invocable: false\n"),
    ] {
        let place = folder.path().join("skills").join(name);
        std::fs::create_dir_all(&place).unwrap();
        let text = format!("---\nname: {name}\ndescription: d\n{more}---\nwords");
        std::fs::write(place.join("SKILL.md"), text).unwrap();
    }
    let plugin = crate::PluginContribution {
        name: "p".to_owned(),
        root: folder.path().to_path_buf(),
        skills: vec![folder.path().join("skills")],
        trusted: true,
        ..crate::PluginContribution::default()
    };
    let skills = SkillCatalog::load(&Sources::default().with_plugins(vec![plugin]));
    let prompt = Command::from(&Skill::of_server("s", "mcp__s__x", "d".to_owned(), None));
    let registry = CommandRegistry::new(&skills, std::slice::from_ref(&prompt));
    let listed = registry.listed().filter(|command| command.headless);
    let listed: Vec<String> = listed.map(|command| command.name.clone()).collect();
    assert!(listed.contains(&"p:own".to_owned()) && listed.contains(&"mcp__s__x".to_owned()));
    assert!(!listed.contains(&"p:hidden".to_owned()));
    let names = CommandRegistry::names_without_terminal(&skills, &[prompt]);
    assert_eq!(names, listed);
    // A plugin's name alone matches its commands.
    assert_eq!(registry.nearest("p")[..2], ["p:clear", "p:own"]);
}

#[test]
fn the_page_of_commands_names_every_built_in_one() {
    let page = include_str!("../../../../docs/commands.md");
    let missing: Vec<&str> = BuiltinCommand::ALL
        .iter()
        .map(|command| command.declaration())
        .filter(|declared| !declared.hidden)
        .map(|declared| declared.name)
        .filter(|name| {
            let ends = ["`", " "].map(|end| format!("`/{name}{end}"));
            !ends.iter().any(|written| page.contains(written))
        })
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}
