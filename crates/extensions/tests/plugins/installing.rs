//! Installing, updating, switching and removing.

use super::*;
use lathe_extensions::plugins::{PluginId, PluginState};

fn id() -> PluginId {
    "tool@market".parse().unwrap()
}

#[test]
fn an_install_is_copied_recorded_and_switched_on() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    let path = home.install("tool@market").unwrap();
    assert_eq!(path, home.plugins().join("cache/market/tool/1.0.0"));
    assert!(path.join("commands/tidy.md").is_file());
    let record = read_json(&home.plugins().join("installed_plugins.json"));
    assert_eq!(record["version"], 2);
    let entry = &record["plugins"]["tool@market"][0];
    assert_eq!(entry["scope"], "user");
    assert_eq!(entry["version"], "1.0.0");
    assert_eq!(entry["installPath"], json!(path));
    let settings = read_json(&home.root().join("home/.lathe/settings.json"));
    assert_eq!(settings["enabledPlugins"]["tool@market"], true);
    assert_eq!(home.leftovers(), Vec::<String>::new());
    // From now on the copy is used.
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!(home.load().plugins.len(), 1);
}

#[test]
fn preparing_installs_nothing() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    let manager = home.manager();
    let prepared = run(manager.prepare("tool@market")).unwrap();
    let text = lathe_extensions::plugins::cli::confirmation(&prepared);
    for word in [
        "tool@market 1.0.0",
        "runs automatically",
        "PostToolUse (Write)",
        "${CLAUDE_PLUGIN_ROOT}/format.sh",
        "db",
        "--fast",
        "commands: tidy",
    ] {
        assert!(text.contains(word), "{word} in {text}");
    }
    drop(prepared);
    assert!(!home.plugins().join("cache").exists());
    assert!(!home.plugins().join("installed_plugins.json").exists());
    assert_eq!(home.load().listings, []);
    assert_eq!(home.leftovers(), Vec::<String>::new());
}

#[test]
fn staging_folders_of_dead_processes_are_deleted_and_those_of_live_ones_are_not() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    home.write("home/.lathe/plugins/.staging-dead/half/of/it", "x");
    let manager = home.manager();
    let live = run(manager.prepare("tool@market")).unwrap();
    assert_eq!(home.leftovers().len(), 1, "{:?}", home.leftovers());
    let second = run(manager.prepare("tool@market")).unwrap();
    assert_eq!(home.leftovers().len(), 2);
    manager.install(live, Source::User).unwrap();
    drop(second);
    assert_eq!(home.leftovers(), Vec::<String>::new());
}

#[test]
fn two_concurrent_installs_are_both_recorded() {
    let home = Home::new();
    let names: Vec<String> = (0..6).map(|number| format!("tool{number}")).collect();
    let entries: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "source": format!("./{name}")}))
        .collect();
    for name in &names {
        home.write(&format!("work/market/{name}/commands/a.md"), "a");
    }
    let folder = home.marketplace("market", &json!(entries));
    home.add_folder(&folder);
    std::thread::scope(|scope| {
        for name in &names {
            let home = &home;
            scope.spawn(move || home.install(&format!("{name}@market")).unwrap());
        }
    });
    assert_eq!(home.load().plugins.len(), 6);
}

#[test]
fn a_plugin_is_used_only_within_its_scope() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    home.install_for("tool@market", Source::Project).unwrap();
    let settings = read_json(&home.project().join(".lathe/settings.json"));
    assert_eq!(settings["enabledPlugins"]["tool@market"], true);
    assert_eq!(
        settings.get("extraKnownMarketplaces"),
        None,
        "a folder of this machine is no use to others"
    );
    assert_eq!(home.load().plugins.len(), 1);
    // The same settings in another project, where it is not confirmed.
    let mut elsewhere = home.places();
    elsewhere.environment.cwd = home.root().join("other");
    home.write_json("other/.lathe/settings.json", &settings);
    let elsewhere = Places::with_managed(elsewhere.environment, home.root().join("managed"));
    let options = LoadOptions {
        trust: Trust::Trusted,
        ..LoadOptions::default()
    };
    let loaded = load(&elsewhere, &lathe_settings::load(&elsewhere, &options), &[]);
    assert_eq!(loaded.plugins.len(), 0);
    assert_eq!(
        listing(&loaded, "tool@market").state,
        PluginState::NotInstalled
    );
}

#[test]
fn a_project_that_is_not_trusted_is_listed_and_runs_nothing() {
    let mut home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    home.install_for("tool@market", Source::Project).unwrap();
    home.trust = Trust::Untrusted;
    let loaded = home.load();
    assert_eq!(loaded.plugins.len(), 0);
    let listing = loaded
        .listings
        .iter()
        .find(|one| one.state == PluginState::NotTrusted)
        .unwrap();
    assert_eq!(listing.id, "tool@market");
    assert!(listing.reason.as_ref().unwrap().contains("lathe trust add"));
    assert_eq!(loaded.listings.len(), 1, "it is listed once");
}

#[test]
fn a_plugin_that_a_project_requests_does_not_run_before_it_is_installed() {
    let home = Home::new();
    home.write_json(
        "project/.lathe/settings.json",
        &json!({"enabledPlugins": {"tool@market": true}}),
    );
    let loaded = home.load();
    assert_eq!(loaded.plugins.len(), 0);
    let listing = listing(&loaded, "tool@market");
    assert_eq!(listing.state, PluginState::NotInstalled);
    assert!(
        listing
            .reason
            .as_ref()
            .unwrap()
            .contains("lathe plugin install tool@market")
    );
    assert_eq!(loaded.remarks().len(), 1);
}

#[test]
fn versions_lie_side_by_side_and_an_update_moves_on() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    let old = home.install("tool@market").unwrap();
    assert!(
        run(home.manager().prepare_update(&id(), None))
            .unwrap()
            .is_none()
    );
    home.tool("work/market/tool", "2.0.0");
    let manager = home.manager();
    let (prepared, installed) = run(manager.prepare_update(&id(), None)).unwrap().unwrap();
    assert_eq!(installed.version, "1.0.0");
    let done = manager.install(prepared, Source::User).unwrap();
    assert_eq!(done.replaced.as_deref(), Some("1.0.0"));
    assert!(old.is_dir(), "a running session may still use it");
    let loaded = home.load();
    assert_eq!(
        loaded.plugins[0].contribution.version.as_deref(),
        Some("2.0.0")
    );
    assert_eq!(loaded.plugins[0].contribution.root, done.path);
}

#[test]
fn a_change_without_a_new_version_is_an_update_too() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    home.install("tool@market").unwrap();
    home.write("work/market/tool/commands/more.md", "more");
    let manager = home.manager();
    let (prepared, _) = run(manager.prepare_update(&id(), None)).unwrap().unwrap();
    manager.install(prepared, Source::User).unwrap();
    assert!(
        home.plugins()
            .join("cache/market/tool/1.0.0/commands/more.md")
            .is_file()
    );
}

#[test]
fn an_update_leaves_alone_whether_a_plugin_is_on() {
    let mut home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    home.install_for("tool@market", Source::Project).unwrap();
    // The settings of an untrusted folder are not visible.
    home.trust = Trust::Untrusted;
    home.tool("work/market/tool", "2.0.0");
    let manager = home.manager();
    let (prepared, _) = run(manager.prepare_update(&id(), None)).unwrap().unwrap();
    let done = manager.update(prepared, Source::Project).unwrap();
    assert_eq!(done.version, "2.0.0");
    let file = home.project().join(".lathe/settings.json");
    assert_eq!(read_json(&file)["enabledPlugins"]["tool@market"], true);
    home.manager()
        .set_enabled(&id(), Some(Source::Project), false)
        .unwrap();
    home.tool("work/market/tool", "3.0.0");
    let manager = home.manager();
    let (prepared, _) = run(manager.prepare_update(&id(), None)).unwrap().unwrap();
    manager.update(prepared, Source::Project).unwrap();
    assert_eq!(read_json(&file)["enabledPlugins"]["tool@market"], false);
}

#[test]
fn a_plugin_without_a_version_gets_one_from_its_content() {
    let home = Home::new();
    home.write("work/market/bare/commands/a.md", "a");
    let folder = home.marketplace("market", &json!([{"name": "bare", "source": "./bare"}]));
    home.add_folder(&folder);
    let first = home.install("bare@market").unwrap();
    assert_eq!(home.install("bare@market").unwrap(), first);
    home.write("work/market/bare/commands/b.md", "b");
    assert_ne!(home.install("bare@market").unwrap(), first);
}

#[test]
fn switching_off_and_on_keeps_it_installed() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    home.install("tool@market").unwrap();
    home.manager().set_enabled(&id(), None, false).unwrap();
    let loaded = home.load();
    assert_eq!(loaded.plugins.len(), 0);
    assert_eq!(listing(&loaded, "tool@market").state, PluginState::Off);
    home.manager().set_enabled(&id(), None, true).unwrap();
    assert_eq!(home.load().plugins.len(), 1);
    let other: PluginId = "tool@elsewhere".parse().unwrap();
    assert!(home.manager().set_enabled(&other, None, true).is_err());
}

#[test]
fn a_project_can_switch_off_what_the_person_has_on() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    home.install("tool@market").unwrap();
    home.manager()
        .set_enabled(&id(), Some(Source::Local), false)
        .unwrap();
    assert_eq!(home.load().plugins.len(), 0);
    let user = read_json(&home.root().join("home/.lathe/settings.json"));
    assert_eq!(user["enabledPlugins"]["tool@market"], true);
}

#[test]
fn managed_settings_decide_which_plugins_are_on() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    home.install("tool@market").unwrap();
    home.write_json(
        "managed/managed-settings.json",
        &json!({"enabledPlugins": {"tool@market": false}}),
    );
    assert_eq!(home.load().plugins.len(), 0);
    let error = home.manager().set_enabled(&id(), None, true).unwrap_err();
    assert!(matches!(error, PluginError::Policy(_)), "{error}");
}

#[test]
fn uninstalling_takes_files_settings_and_data_away() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    let path = home.install("tool@market").unwrap();
    home.install_for("tool@market", Source::Local).unwrap();
    let data = home.plugins().join("data/tool-market");
    std::fs::write(data.join("kept"), "x").unwrap();
    home.manager()
        .uninstall(&id(), Some(Source::User), false)
        .unwrap();
    assert!(path.is_dir(), "the other scope still has it");
    assert!(data.join("kept").is_file());
    home.manager().uninstall(&id(), None, false).unwrap();
    assert!(!path.exists());
    assert!(!data.exists());
    let settings = read_json(&home.root().join("home/.lathe/settings.json"));
    assert_eq!(settings["enabledPlugins"].get("tool@market"), None);
    let error = home.manager().uninstall(&id(), None, false).unwrap_err();
    assert!(error.to_string().contains("is not installed"), "{error}");
}

#[test]
fn uninstalling_also_removes_the_users_settings_about_it_in_this_folder() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    home.install("tool@market").unwrap();
    for scope in [Source::Local, Source::Project] {
        let manager = home.manager();
        manager.set_enabled(&id(), Some(scope), true).unwrap();
    }
    home.manager().uninstall(&id(), None, false).unwrap();
    let said = |file: &str| {
        let settings = read_json(&home.project().join(".lathe").join(file));
        settings["enabledPlugins"].get("tool@market").cloned()
    };
    assert_eq!(said("settings.local.json"), None);
    assert_eq!(
        said("settings.json"),
        Some(json!(true)),
        "what is for everybody stays"
    );
}

#[test]
fn a_lenient_entry_adds_to_the_manifest_and_a_strict_one_stands_alone() {
    let home = Home::new();
    for file in ["skills/a/SKILL.md", "skills/b/SKILL.md", "extra/c.md"] {
        home.write(&format!("work/market/{file}"), "text");
    }
    home.tool("work/market/tool", "1.0.0");
    let folder = home.marketplace(
        "market",
        &json!([
            {"name": "only-a", "source": "./", "strict": false, "skills": ["./skills/a"], "version": "3.1"},
            {"name": "tool", "source": "./tool", "description": "not this one", "commands": "./commands", "agents": [], "keywords": ["x"]},
            {"name": "both", "source": "./both", "strict": false, "commands": "./c"},
        ]),
    );
    home.write_json(
        "work/market/both/.claude-plugin/plugin.json",
        &json!({"name": "both", "agents": "./a"}),
    );
    home.add_folder(&folder);
    let path = home.install("only-a@market").unwrap();
    assert!(path.ends_with("only-a/3.1"));
    home.install("tool@market").unwrap();
    let loaded = home.load();
    let find = |name: &str| {
        loaded
            .plugins
            .iter()
            .find(|plugin| plugin.id.name == name)
            .unwrap()
    };
    assert_eq!(find("only-a").contribution.skills, [path.join("skills/a")]);
    assert_eq!(
        find("tool").manifest.description.as_deref(),
        Some("Formats what is written")
    );
    assert_eq!(find("tool").contribution.commands.len(), 1);
    assert_eq!(find("tool").contribution.hooks.len(), 1);
    let error = home.install("both@market").unwrap_err();
    assert!(error.to_string().contains("strict"), "{error}");
}

#[test]
fn an_entry_that_is_not_strict_and_names_no_parts_leaves_them_to_the_plugin() {
    let home = Home::new();
    home.write(
        "work/market/both/a/x.md",
        "---\ndescription: d\n---\nPrompt",
    );
    home.write_json(
        "work/market/both/.claude-plugin/plugin.json",
        &json!({"name": "both", "agents": "./a"}),
    );
    let folder = home.marketplace(
        "market",
        &json!([{"name": "both", "source": "./both", "strict": false}]),
    );
    home.add_folder(&folder);
    let path = home.install("both@market").unwrap();
    let loaded = home.load();
    assert_eq!(loaded.plugins[0].contribution.agents, [path.join("a")]);
}

#[test]
fn records_of_the_first_format_are_read_and_fields_of_others_are_kept() {
    let home = Home::new();
    let folder = home.usual();
    home.tool("work/elsewhere", "0.9");
    home.write_json(
        "home/.lathe/plugins/installed_plugins.json",
        &json!({"version": 1, "someday": 5, "plugins": {"tool@market": {
            "version": "0.9", "installedAt": "2025-01-01T00:00:00Z", "lastUpdated": "2025-01-01T00:00:00Z",
            "installPath": home.root().join("work/elsewhere"), "isLocal": true,
        }}}),
    );
    home.write_json(
        "home/.lathe/settings.json",
        &json!({"enabledPlugins": {"tool@market": true}}),
    );
    let loaded = home.load();
    assert_eq!(
        loaded.plugins[0].contribution.version.as_deref(),
        Some("0.9")
    );
    home.add_folder(&folder);
    home.install("tool@market").unwrap();
    let record = read_json(&home.plugins().join("installed_plugins.json"));
    assert_eq!(record["someday"], 5);
    let entry = &record["plugins"]["tool@market"][0];
    assert_eq!(entry["installedAt"], "2025-01-01T00:00:00Z");
    assert_eq!(entry["isLocal"], true);
    assert_eq!(entry["version"], "1.0.0");
}

#[test]
fn comments_in_settings_survive_an_install() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    home.write(
        "home/.lathe/settings.json",
        "{\n  // mine\n  \"model\": \"opus\"\n}\n",
    );
    home.install("tool@market").unwrap();
    let text = std::fs::read_to_string(home.root().join("home/.lathe/settings.json")).unwrap();
    assert!(text.contains("// mine"), "{text}");
    assert_eq!(home.load().plugins.len(), 1);
}

#[test]
fn a_plugin_that_wants_to_wait_is_installed_and_off() {
    let home = Home::new();
    let folder = home.marketplace(
        "market",
        &json!([{"name": "tool", "source": "./tool", "defaultEnabled": false}]),
    );
    home.tool("work/market/tool", "1.0.0");
    home.add_folder(&folder);
    home.install("tool@market").unwrap();
    assert_eq!(listing(&home.load(), "tool@market").state, PluginState::Off);
    home.manager().set_enabled(&id(), None, true).unwrap();
    assert_eq!(home.load().plugins.len(), 1);
}

#[test]
fn renamed_and_removed_plugins_are_reported() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    home.install("tool@market").unwrap();
    home.write_json(
        "work/market/.claude-plugin/marketplace.json",
        &json!({
            "name": "market", "owner": {"name": "Ada"},
            "plugins": [{"name": "newest", "source": "./tool"}],
            "renames": {"tool": "newer", "newer": "newest", "gone": null, "a": "b", "b": "a"},
        }),
    );
    let manager = home.manager();
    let error = run(manager.prepare_update(&id(), None))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("was renamed to newest") && error.contains("stays"),
        "{error}"
    );
    for (name, expected) in [
        ("newer", "lathe plugin install newest@market"),
        ("gone", "has removed gone"),
        ("a", "has removed a"),
        ("other", "doesn't list other"),
    ] {
        let error = home.install(&format!("{name}@market")).unwrap_err();
        assert!(error.to_string().contains(expected), "{name}: {error}");
    }
}
