//! Adding, refreshing and removing marketplaces on this machine.

use super::*;

#[test]
fn a_folder_can_be_a_marketplace() {
    let home = Home::new();
    let folder = home.usual();
    assert_eq!(home.add("../work/market").unwrap(), "market");
    let known = read_json(&home.plugins().join("known_marketplaces.json"));
    assert_eq!(
        known["market"]["source"],
        json!({"source": "directory", "path": folder})
    );
    assert_eq!(known["market"]["installLocation"], json!(folder));
    let listed = home.manager().marketplaces().unwrap();
    assert_eq!(listed[0].plugins, ["tool"]);
    assert_eq!(home.leftovers(), Vec::<String>::new());
}

#[test]
fn a_list_alone_can_be_a_marketplace() {
    let home = Home::new();
    home.usual();
    let file = home
        .root()
        .join("work/market/.claude-plugin/marketplace.json");
    home.add(&file.display().to_string()).unwrap();
    home.install("tool@market").unwrap();
}

#[test]
fn adding_the_same_twice_is_fine_and_another_of_that_name_is_not() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    home.add_folder(&folder);
    home.write_json(
        "work/other/.claude-plugin/marketplace.json",
        &json!({"name": "market", "owner": {"name": "Eve"}, "plugins": []}),
    );
    let error = home
        .add(&home.root().join("work/other").display().to_string())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("there is a marketplace market already"),
        "{error}"
    );
    assert_eq!(home.manager().marketplaces().unwrap()[0].plugins, ["tool"]);
}

#[test]
fn a_folder_without_a_list_and_a_broken_list_are_refused() {
    let home = Home::new();
    let error = home
        .add(&home.root().join("work").display().to_string())
        .unwrap_err();
    assert!(error.to_string().contains("marketplace.json"), "{error}");
    home.write(
        "work/bad/.claude-plugin/marketplace.json",
        "{\"name\": \"bad\", \"plugins\": 7}",
    );
    let error = home
        .add(&home.root().join("work/bad").display().to_string())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("plugins: is missing or not a list"),
        "{error}"
    );
    assert!(
        home.add(&home.root().join("nowhere").display().to_string())
            .is_err()
    );
    assert_eq!(home.manager().marketplaces().unwrap(), []);
}

#[test]
fn one_bad_entry_doesn_t_cost_the_others() {
    let home = Home::new();
    home.usual();
    let folder = home.marketplace(
        "market",
        &json!([
            {"name": "../up", "source": "./tool"},
            {"name": "tool", "source": "./tool"},
            {"name": "tool", "source": "./elsewhere"},
            {"name": "away", "source": {"source": "ftp"}},
            {"source": "./tool"},
        ]),
    );
    home.add_folder(&folder);
    let listed = &home.manager().marketplaces().unwrap()[0];
    assert_eq!(listed.plugins, ["tool"]);
    assert_eq!(listed.problems.len(), 4, "{:#?}", listed.problems);
    assert!(listed.problems.iter().all(|problem| problem.line.is_some()));
    home.install("tool@market").unwrap();
    let error = home.install("away@market").unwrap_err();
    assert!(error.to_string().contains("ftp"), "{error}");
}

#[test]
fn plugins_are_found_by_name_alone_where_that_is_enough() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    assert!(home.install("tool").is_ok());
    let error = home.install("toll").unwrap_err();
    assert!(error.to_string().contains("did you mean tool?"), "{error}");
    let second = home.marketplace("second", &json!([{"name": "tool", "source": "./tool"}]));
    home.tool("work/second/tool", "1");
    home.add_folder(&second);
    let error = home.install("tool").unwrap_err();
    assert!(
        error.to_string().contains("tool@market, tool@second"),
        "{error}"
    );
    let error = home.install("tool@sekond").unwrap_err();
    assert!(
        error.to_string().contains("did you mean second?"),
        "{error}"
    );
}

#[test]
fn removing_a_marketplace_removes_what_came_from_it() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    let path = home.install("tool@market").unwrap();
    let gone = home.manager().remove_marketplace("market").unwrap();
    assert_eq!(gone.len(), 1);
    assert!(!path.exists());
    assert!(folder.exists(), "the person's own folder stays");
    assert_eq!(home.manager().marketplaces().unwrap(), []);
    assert_eq!(home.load().listings, []);
    assert!(home.manager().remove_marketplace("market").is_err());
}

#[test]
fn a_marketplace_that_settings_name_is_added_when_it_is_needed() {
    let home = Home::new();
    let folder = home.usual();
    home.write_json(
        "project/.lathe/settings.json",
        &json!({"extraKnownMarketplaces": {"market": {"source": {"source": "directory", "path": folder}}, "wrong": {"source": {"source": "directory", "path": folder}}}}),
    );
    let listed = home.manager().marketplaces().unwrap();
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|one| one.install_location.is_none()));
    home.install("tool@market").unwrap();
    let error = home.install("tool@wrong").unwrap_err();
    assert!(error.to_string().contains("found market"), "{error}");
}

#[test]
fn a_marketplace_in_the_settings_of_an_untrusted_folder_is_ignored() {
    let mut home = Home::new();
    let folder = home.usual();
    home.write_json(
        "project/.lathe/settings.json",
        &json!({"extraKnownMarketplaces": {"market": {"source": {"source": "directory", "path": folder}}}}),
    );
    home.trust = Trust::Untrusted;
    assert_eq!(home.manager().marketplaces().unwrap(), []);
    assert!(home.install("tool@market").is_err());
}

#[test]
fn policy_decides_which_marketplaces_may_be_used() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    home.install("tool@market").unwrap();
    assert_eq!(home.load().plugins.len(), 1);
    let policy = |value: Value| {
        home.write_json("managed/managed-settings.json", &value);
    };
    policy(json!({"blockedMarketplaces": [{"source": "directory", "path": folder}]}));
    let loaded = home.load();
    assert_eq!(loaded.plugins.len(), 0);
    assert!(
        listing(&loaded, "tool@market")
            .reason
            .as_ref()
            .unwrap()
            .contains("blocked by your organisation")
    );
    assert!(matches!(
        home.install("tool@market"),
        Err(PluginError::Policy(_))
    ));
    assert!(matches!(
        home.add(&folder.display().to_string()),
        Err(PluginError::Policy(_))
    ));
    policy(json!({"strictKnownMarketplaces": [{"source": "github", "repo": "acme/tools"}]}));
    assert_eq!(home.load().plugins.len(), 0);
    assert!(matches!(
        home.add(&folder.display().to_string()),
        Err(PluginError::Policy(_))
    ));
    policy(
        json!({"strictKnownMarketplaces": [{"source": "pathPattern", "pathPattern": ".*/work/.*"}]}),
    );
    assert_eq!(home.load().plugins.len(), 1);
    // Only policy can say so.
    std::fs::remove_file(home.root().join("managed/managed-settings.json")).unwrap();
    home.write_json(
        "project/.lathe/settings.json",
        &json!({"strictKnownMarketplaces": []}),
    );
    assert_eq!(home.load().plugins.len(), 1);
}

#[test]
fn broken_records_are_reported_and_never_overwritten() {
    let home = Home::new();
    let folder = home.usual();
    home.add_folder(&folder);
    home.install("tool@market").unwrap();
    let file = home.plugins().join("installed_plugins.json");
    std::fs::write(&file, "{ half").unwrap();
    let loaded = home.load();
    assert_eq!(loaded.plugins.len(), 0);
    assert!(
        loaded.problems[0].to_string().contains("is broken"),
        "{:?}",
        loaded.problems
    );
    let error = home.install("tool@market").unwrap_err();
    assert!(matches!(error, PluginError::Broken { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{ half");
}
