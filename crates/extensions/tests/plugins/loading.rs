//! Plugins as a session loads them.

use super::*;
use lathe_extensions::plugins::PluginState;

#[test]
fn one_broken_plugin_doesn_t_disturb_another() {
    let home = Home::new();
    home.usual();
    for name in ["gone", "broken"] {
        home.write(&format!("work/market/{name}/commands/a.md"), "a");
    }
    let folder = home.marketplace(
        "market",
        &json!([
            {"name": "broken", "source": "./broken"},
            {"name": "gone", "source": "./gone"},
            {"name": "tool", "source": "./tool"},
        ]),
    );
    home.add_folder(&folder);
    let broken = home.install("broken@market").unwrap();
    let gone = home.install("gone@market").unwrap();
    home.install("tool@market").unwrap();
    std::fs::write(broken.join(".lathe-plugin/plugin.json"), "{").unwrap();
    std::fs::remove_dir_all(gone).unwrap();
    let loaded = home.load();
    assert_eq!(loaded.plugins.len(), 1);
    assert_eq!(loaded.plugins[0].id.name, "tool");
    assert_eq!(listing(&loaded, "broken@market").state, PluginState::Failed);
    assert_eq!(listing(&loaded, "gone@market").state, PluginState::Failed);
    assert!(
        listing(&loaded, "gone@market")
            .reason
            .as_ref()
            .unwrap()
            .contains("reinstall it")
    );
    assert_eq!(loaded.error_frames().len(), 2);
    assert_eq!(loaded.frames()[0]["name"], "tool");
}

#[test]
fn a_folder_that_is_named_for_the_session_needs_no_install() {
    let home = Home::new();
    home.tool("work/tool", "5");
    let loaded = home.load_with(&[PathBuf::from("../work/tool")]);
    assert_eq!(loaded.plugins[0].id.to_string(), "tool@inline");
    assert!(loaded.plugins[0].contribution.trusted);
    assert_eq!(loaded.mcp_servers()[0].0, "tool");
    assert!(!home.plugins().exists(), "nothing is written");
}

#[test]
fn a_missing_plugin_folder_is_reported_and_others_are_loaded() {
    let home = Home::new();
    home.tool("work/tool", "5");
    let folders = ["work/nowhere", "work", "work/tool"].map(|path| home.root().join(path));
    let loaded = home.load_with(&folders);
    assert_eq!(loaded.plugins.len(), 1);
    let remarks: Vec<String> = loaded.remarks().iter().map(ToString::to_string).collect();
    let remarks = remarks.join("\n");
    assert!(remarks.contains("is not a folder"), "{remarks}");
    assert!(remarks.contains("there is no plugin in"), "{remarks}");
}

#[test]
fn a_host_hears_of_parts_that_a_loaded_plugin_lacks() {
    let home = Home::new();
    home.write_json(
        "work/half/.claude-plugin/plugin.json",
        &json!({"name": "half", "hooks": "./none.json", "commands": "./none", "colour": "red"}),
    );
    let loaded = home.load_with(&[home.root().join("work/half"), home.root().join("work/none")]);
    assert_eq!(loaded.frames()[0]["name"], "half");
    let errors = loaded.error_frames();
    let told: Vec<_> = errors
        .iter()
        .map(|error| {
            (
                error["plugin"].as_str().unwrap(),
                error["type"].as_str().unwrap(),
            )
        })
        .collect();
    let missing = home.root().join("work/none").display().to_string();
    assert_eq!(
        told,
        [
            ("half@inline", "component-failed"),
            ("half@inline", "component-failed"),
            (missing.as_str(), "load-failed"),
        ]
    );
    assert!(
        errors[0]["message"]
            .as_str()
            .unwrap()
            .contains("is not there")
    );
    assert_eq!(errors[2]["path"], missing);
}

#[test]
fn of_two_plugins_with_one_name_the_first_is_on() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    home.install("tool@market").unwrap();
    home.tool("work/mine", "9");
    let loaded = home.load_with(&[home.root().join("work/mine")]);
    assert_eq!(loaded.plugins.len(), 1);
    assert_eq!(loaded.plugins[0].id.marketplace, "inline");
    let listing = listing(&loaded, "tool@market");
    assert_eq!(listing.state, PluginState::Failed);
    assert!(
        listing
            .reason
            .as_ref()
            .unwrap()
            .contains("tool@inline is already enabled")
    );
}

#[test]
fn a_missing_dependency_is_named() {
    let home = Home::new();
    home.write_json(
        "work/x/.claude-plugin/plugin.json",
        &json!({"name": "x", "dependencies": ["tool", {"name": "y", "marketplace": "m"}]}),
    );
    home.tool("work/tool", "1");
    let loaded = home.load_with(&[home.root().join("work/x"), home.root().join("work/tool")]);
    let problems = &listing(&loaded, "x@inline").problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].to_string().contains("it needs the plugin y@m"));
}

#[test]
fn language_servers_are_kept_under_the_plugin_s_name() {
    let home = Home::new();
    home.write_json(
        "work/go/.lsp.json",
        &json!({"gopls": {"command": "gopls", "extensionToLanguage": {".go": "go"}}}),
    );
    home.write_json(
        "work/alike/.lsp.json",
        &json!({
            "mine": {"command": "gopls", "extensionToLanguage": {".go": "go"}},
            "own": {
                "command": "${CLAUDE_PLUGIN_ROOT}/server",
                "args": ["--log", "${LATHE_PLUGIN_ROOT}/log"],
                "extensionToLanguage": {".own": "own"},
                "env": {"MODE": "quiet"},
            },
        }),
    );
    let folders = ["work/go", "work/alike"].map(|path| home.root().join(path));
    let servers = home.load_with(&folders).lsp_servers();
    let names: Vec<&str> = servers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["plugin:go:gopls", "plugin:alike:own"],
        "the second plugin's gopls is the first's"
    );
    let root = home.root().join("work/alike").display().to_string();
    let own = &servers[1].1;
    assert_eq!(own["command"], format!("{root}/server"));
    assert_eq!(own["args"][1], format!("{root}/log"));
    assert_eq!(own["env"]["MODE"], "quiet");
    assert_eq!(own["env"]["CLAUDE_PLUGIN_ROOT"], root);
}

#[test]
fn without_setting_sources_no_plugin_is_on() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    home.install("tool@market").unwrap();
    let options = LoadOptions {
        sources: Some(Vec::new()),
        trust: Trust::Trusted,
        ..LoadOptions::default()
    };
    let settings = lathe_settings::load(&home.places(), &options);
    assert_eq!(load(&home.places(), &settings, &[]).plugins.len(), 0);
}

#[test]
fn invalid_values_in_enabled_plugins_are_reported() {
    let home = Home::new();
    home.write_json(
        "home/.lathe/settings.json",
        &json!({"enabledPlugins": {"no-marketplace": true, "a@b": "yes", "../x@m": true}}),
    );
    let loaded = home.load();
    assert_eq!(loaded.plugins.len(), 0);
    assert!(
        loaded
            .listings
            .iter()
            .all(|listing| listing.state == PluginState::Failed)
    );
    assert_eq!(loaded.listings.len(), 3, "{:#?}", loaded.listings);
}
