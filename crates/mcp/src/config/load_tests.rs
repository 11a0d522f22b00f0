//! Loading of servers and their status, with real files.

use super::*;
use crate::server::TransportConfig;
use lathe_settings::Trust;
use lathe_settings::load as load_settings;
use serde_json::json;
use std::fs;

struct Folder {
    folder: tempfile::TempDir,
    variables: BTreeMap<String, String>,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home/.lathe", "project/.lathe", "managed"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Self {
            folder,
            variables: BTreeMap::new(),
        }
    }

    fn write(&self, name: &str, value: &Value) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value.to_string()).unwrap();
    }

    fn places(&self) -> Places {
        let root = fs::canonicalize(self.folder.path()).unwrap();
        let environment = Environment {
            variables: self.variables.clone(),
            home: Some(root.join("home")),
            cwd: root.join("project"),
            ..Environment::default()
        };
        Places::with_managed(environment, root.join("managed"))
    }

    fn load_with(
        &self,
        options: &LoadOptions,
        flags: &[String],
        strict: bool,
        plugins: &[PluginServers],
    ) -> Servers {
        let places = self.places();
        let settings = load_settings(&places, options);
        load(Request {
            places: &places,
            settings: &settings,
            options,
            environment: &places.environment,
            flags,
            strict,
            plugins,
        })
    }

    fn load(&self, trust: Trust) -> Servers {
        let options = LoadOptions {
            trust,
            ..LoadOptions::default()
        };
        self.load_with(&options, &[], false, &[])
    }
}

fn remarks(servers: &Servers) -> String {
    let remarks = servers.remarks();
    let lines: Vec<String> = remarks.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

fn command(word: &str) -> Value {
    json!({"command": word})
}

fn file(servers: &Value) -> Value {
    json!({"mcpServers": servers})
}

fn stands(servers: &Servers, name: &str) -> String {
    let server = servers.find(name).unwrap();
    let word = match &server.standing {
        Standing::Ready(config) => match &config.transport {
            TransportConfig::Stdio(program) => format!("ready {}", program.command),
            other => format!("ready {}", other.kind()),
        },
        Standing::Disabled(_) => "disabled".to_owned(),
        Standing::NeedsApproval => "needs approval".to_owned(),
        Standing::Refused => "refused".to_owned(),
        Standing::Untrusted => "untrusted".to_owned(),
        Standing::Denied(_) => "denied".to_owned(),
        Standing::Broken(_) => "broken".to_owned(),
    };
    format!("{} {word}", server.scope)
}

#[test]
fn the_scope_with_the_highest_precedence_is_used() {
    let folder = Folder::new();
    folder.write(
        "home/.lathe/settings.json",
        &file(&json!({"s": command("user"), "only-user": command("u")})),
    );
    folder.write(
        "project/.mcp.json",
        &file(&json!({"s": command("project")})),
    );
    let pre_approved = json!({"enableAllProjectMcpServers": true});
    folder.write("project/.lathe/settings.json", &pre_approved);
    assert_eq!(
        stands(&folder.load(Trust::Trusted), "s"),
        "project ready project"
    );
    folder.write(
        "project/.lathe/settings.local.json",
        &file(&json!({"s": command("local")})),
    );
    let servers = folder.load(Trust::Trusted);
    assert_eq!(stands(&servers, "s"), "local ready local");
    assert_eq!(servers.hidden.len(), 2);
    assert_eq!(stands(&servers, "only-user"), "user ready u");

    let options = LoadOptions {
        trust: Trust::Trusted,
        ..LoadOptions::default()
    };
    let flag = file(&json!({"s": command("flag")})).to_string();
    let with_flag = folder.load_with(&options, std::slice::from_ref(&flag), false, &[]);
    assert_eq!(stands(&with_flag, "s"), "dynamic ready flag");
    let strict = folder.load_with(&options, std::slice::from_ref(&flag), true, &[]);
    assert_eq!(strict.list.len(), 1);
    folder.write(
        "managed/managed-mcp.json",
        &file(&json!({"s": command("managed")})),
    );
    let managed = folder.load_with(&options, &[flag], true, &[]);
    assert_eq!(stands(&managed, "s"), "managed ready managed");
}

#[test]
fn a_projects_server_needs_trust_and_approval() {
    let folder = Folder::new();
    let entry = json!({"command": "x", "args": ["1"]});
    folder.write("project/.mcp.json", &file(&json!({"p": entry})));
    assert_eq!(
        stands(&folder.load(Trust::Untrusted), "p"),
        "project untrusted"
    );
    let waiting = folder.load(Trust::Trusted);
    assert_eq!(stands(&waiting, "p"), "project needs approval");
    assert!(
        waiting.remarks()[0].text.contains("lathe mcp enable p"),
        "{:?}",
        waiting.remarks()
    );

    let choices = Choices::new(&folder.places());
    choices.decide("p", &entry, true).unwrap();
    assert_eq!(stands(&folder.load(Trust::Trusted), "p"), "project ready x");
    // Approving doesn't trust the folder.
    assert_eq!(
        stands(&folder.load(Trust::Untrusted), "p"),
        "project untrusted"
    );
    // The approved configuration has changed.
    folder.write(
        "project/.mcp.json",
        &file(&json!({"p": {"command": "x", "args": ["2"]}})),
    );
    assert_eq!(
        stands(&folder.load(Trust::Trusted), "p"),
        "project needs approval"
    );
    choices.decide("p", &entry, false).unwrap();
    assert_eq!(stands(&folder.load(Trust::Trusted), "p"), "project refused");
    assert_eq!(choices.reset().unwrap(), ["p"]);
    assert_eq!(
        stands(&folder.load(Trust::Trusted), "p"),
        "project needs approval"
    );

    // Settings approve and refuse in advance.
    folder.write(
        "home/.lathe/settings.json",
        &json!({"enabledMcpjsonServers": ["p"]}),
    );
    assert_eq!(stands(&folder.load(Trust::Trusted), "p"), "project ready x");
    folder.write(
        "project/.lathe/settings.local.json",
        &json!({"disabledMcpjsonServers": ["p"]}),
    );
    assert_eq!(stands(&folder.load(Trust::Trusted), "p"), "project refused");
}

#[test]
fn a_caller_that_names_the_project_answers_for_it() {
    let folder = Folder::new();
    folder.write("project/.mcp.json", &file(&json!({"p": command("x")})));
    let named = |sources: &[Source]| LoadOptions {
        sources: Some(sources.to_vec()),
        trust: Trust::Headless {
            named: sources.to_vec(),
        },
        ..LoadOptions::default()
    };
    let servers = folder.load_with(&named(&[Source::Project]), &[], false, &[]);
    assert_eq!(stands(&servers, "p"), "project ready x");
    assert!(
        folder
            .load_with(&named(&[Source::User]), &[], false, &[])
            .list
            .is_empty()
    );
    assert_eq!(
        stands(&folder.load(Trust::Headless { named: Vec::new() }), "p"),
        "project untrusted"
    );
}

#[test]
fn in_an_untrusted_folder_only_local_servers_that_the_user_added_are_used() {
    let folder = Folder::new();
    folder.write(
        "project/.lathe/settings.local.json",
        &file(&json!({"theirs": command("evil")})),
    );
    let places = folder.places();
    super::super::edit::add(&places, Scope::Local, "mine", &command("good")).unwrap();
    let servers = folder.load(Trust::Untrusted);
    assert_eq!(stands(&servers, "theirs"), "local untrusted");
    assert_eq!(stands(&servers, "mine"), "local ready good");
    // Changing an added server invalidates its approval.
    folder.write(
        "project/.lathe/settings.local.json",
        &file(&json!({"mine": command("evil")})),
    );
    assert_eq!(
        stands(&folder.load(Trust::Untrusted), "mine"),
        "local untrusted"
    );
}

#[test]
fn adding_and_removing_leaves_the_rest_of_a_file_alone() {
    let folder = Folder::new();
    let places = folder.places();
    let path = folder.folder.path().join("home/.lathe/settings.json");
    fs::write(&path, "{\n  // mine\n  \"model\": \"m\"\n}\n").unwrap();
    super::super::edit::add(
        &places,
        Scope::User,
        "s",
        &json!({"command": "x", "args": ["a"]}),
    )
    .unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("// mine") && text.contains("\"command\": \"x\""),
        "{text}"
    );
    assert_eq!(stands(&folder.load(Trust::Trusted), "s"), "user ready x");
    assert!(
        super::super::edit::remove(&places, Scope::User, "s")
            .unwrap()
            .1
    );
    assert!(
        !super::super::edit::remove(&places, Scope::User, "s")
            .unwrap()
            .1
    );
    assert!(
        !super::super::edit::remove(&places, Scope::Project, "s")
            .unwrap()
            .1
    );
    assert!(!folder.folder.path().join("project/.mcp.json").exists());
    assert!(folder.load(Trust::Trusted).list.is_empty());
    let error = super::super::edit::add(&places, Scope::User, "a__b", &command("x")).unwrap_err();
    assert!(error.to_string().contains("a__b"), "{error}");

    // Adding a server to the project approves it.
    super::super::edit::add(&places, Scope::Project, "p", &command("x")).unwrap();
    assert_eq!(stands(&folder.load(Trust::Trusted), "p"), "project ready x");
}

#[test]
fn policies_refuse_and_switches_switch_off() {
    let folder = Folder::new();
    folder.write(
        "home/.lathe/settings.json",
        &file(&json!({
        "a": command("good"), "b": command("bad"), "c": {"type": "http", "url": "https://h/x"}})),
    );
    folder.write(
        "managed/managed-settings.json",
        &json!({
        "deniedMcpServers": [{"serverCommand": ["bad"]}],
        "allowedMcpServers": [{"serverName": "a"}, {"serverName": "b"}],
        "mcpServers": {"m": command("company")}}),
    );
    let servers = folder.load(Trust::Trusted);
    assert_eq!(stands(&servers, "a"), "user ready good");
    assert_eq!(stands(&servers, "b"), "user denied");
    assert_eq!(stands(&servers, "c"), "user denied");
    assert_eq!(stands(&servers, "m"), "managed ready company");
    let choices = Choices::new(&folder.places());
    choices.switch("a", false).unwrap();
    choices.switch("m", false).unwrap();
    let servers = folder.load(Trust::Trusted);
    assert_eq!(stands(&servers, "a"), "user disabled");
    assert_eq!(stands(&servers, "m"), "managed ready company");
    assert!(servers.configs()["a"].disabled);
}

#[test]
fn only_the_commands_that_a_policy_allows_are_started() {
    let folder = Folder::new();
    folder.write(
        "home/.lathe/settings.json",
        &file(&json!({"a": command("good"), "b": command("other")})),
    );
    folder.write(
        "managed/managed-settings.json",
        &json!({"allowedMcpServers": [{"serverCommand": ["good"]}]}),
    );
    let servers = folder.load(Trust::Trusted);
    assert_eq!(stands(&servers, "a"), "user ready good");
    assert_eq!(stands(&servers, "b"), "user denied");
}

#[test]
fn a_plugins_server_that_is_configured_already_is_dropped() {
    let folder = Folder::new();
    folder.write(
        "home/.lathe/settings.json",
        &file(&json!({
        "a": {"command": "npx", "args": ["x"]}, "b": {"type": "http", "url": "https://h/mcp/"}})),
    );
    let plugin = PluginServers {
        plugin: "tools".to_owned(),
        servers: json!({
            "same": {"command": "npx", "args": ["x"]},
            "there": {"type": "http", "url": "https://h/mcp"},
            "new": {"command": "${CLAUDE_PLUGIN_ROOT}/run"}})
        .as_object()
        .unwrap()
        .clone(),
        variables: BTreeMap::from([("CLAUDE_PLUGIN_ROOT".to_owned(), "/plug".to_owned())]),
    };
    let options = LoadOptions {
        trust: Trust::Trusted,
        ..LoadOptions::default()
    };
    let servers = folder.load_with(&options, &[], false, &[plugin]);
    assert_eq!(servers.list.len(), 3);
    assert_eq!(
        stands(&servers, "plugin:tools:new"),
        "plugin ready /plug/run"
    );
}

#[test]
fn a_server_finds_the_project_in_its_environment() {
    let folder = Folder::new();
    folder.write(
        "home/.lathe/settings.json",
        &file(&json!({"a": {"command": "${CLAUDE_PROJECT_DIR}/run"}})),
    );
    let servers = folder.load(Trust::Trusted);
    let project = folder.places().project.display().to_string();
    assert_eq!(stands(&servers, "a"), format!("user ready {project}/run"));
    let config = servers.find("a").unwrap().config().unwrap();
    let TransportConfig::Stdio(program) = config.transport else {
        panic!("not a program");
    };
    assert_eq!(program.env["CLAUDE_PROJECT_DIR"], project);
}

#[test]
fn of_two_servers_with_the_same_tool_names_the_stronger_one_is_used() {
    let folder = Folder::new();
    folder.write(
        "home/.lathe/settings.json",
        &file(&json!({"my server": command("x"), "other": command("y")})),
    );
    let options = LoadOptions {
        trust: Trust::Trusted,
        ..LoadOptions::default()
    };
    let flag = file(&json!({"my_server": command("z")})).to_string();
    let servers = folder.load_with(&options, &[flag], false, &[]);
    assert_eq!(stands(&servers, "my_server"), "dynamic ready z");
    assert_eq!(stands(&servers, "other"), "user ready y");
    let refused = servers.find("my server").unwrap().why_not().unwrap();
    assert!(refused.contains("those of my_server"), "{refused}");
}

#[test]
fn a_name_that_hides_where_the_server_ends_is_refused() {
    let folder = Folder::new();
    folder.write(
        "home/.lathe/settings.json",
        &file(&json!({"google calendar": command("x"), "github__evil": command("x")})),
    );
    let servers = folder.load(Trust::Trusted);
    assert_eq!(stands(&servers, "google calendar"), "user ready x");
    let remarks = remarks(&servers);
    assert!(
        remarks.contains("github__evil") && remarks.contains("separates"),
        "{remarks}"
    );
}

#[test]
fn broken_entries_are_reported_and_the_rest_is_used() {
    let mut folder = Folder::new();
    folder.variables.insert("SET".to_owned(), "yes".to_owned());
    folder.write(
        "home/.lathe/settings.json",
        &file(&json!({
        "good": command("${SET}"), "gone": {"command": "x", "env": {"K": "${UNSET_THING}"}}})),
    );
    fs::write(
        folder.folder.path().join("project/.mcp.json"),
        "{\n \"mcpServers\": {,}\n}",
    )
    .unwrap();
    let servers = folder.load(Trust::Trusted);
    assert_eq!(stands(&servers, "good"), "user ready yes");
    // A variable that is not set is a warning: the server may not need it.
    assert_eq!(stands(&servers, "gone"), "user ready x");
    let remarks = remarks(&servers);
    assert!(remarks.contains(".mcp.json:2:"), "{remarks}");
    for words in [
        "the MCP server gone",
        "settings.json",
        "mcpServers.gone.env.K",
        "UNSET_THING",
    ] {
        assert!(remarks.contains(words), "{remarks}");
    }

    let places = folder.places();
    for (flag, words) in [
        ("{", "--mcp-config:1:"),
        ("{}", "mcpServers"),
        (r#"{"mcpServers":{"a":1}}"#, "mcpServers.a"),
        ("missing.json", "missing.json"),
        (".lathe", "folder"),
    ] {
        let error = read_flags(&[flag.to_owned()], &places.environment).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(words), "{error}");
        assert!(error.matches("--mcp-config").count() <= 1, "{error}");
    }
}

#[test]
fn the_nearest_file_of_a_repository_takes_precedence() {
    let folder = Folder::new();
    folder.write(
        "project/.mcp.json",
        &file(&json!({"s": command("top"), "t": command("t")})),
    );
    folder.write(
        "project/inner/.mcp.json",
        &file(&json!({"s": command("inner")})),
    );
    fs::create_dir_all(folder.folder.path().join("project/.git")).unwrap();
    folder.write(
        "home/.lathe/settings.json",
        &json!({"enableAllProjectMcpServers": true}),
    );
    let mut places = folder.places();
    places.environment.cwd = places.project.join("inner");
    let options = LoadOptions {
        trust: Trust::Trusted,
        ..LoadOptions::default()
    };
    let settings = load_settings(&places, &options);
    let servers = load(Request {
        places: &places,
        settings: &settings,
        options: &options,
        environment: &places.environment,
        flags: &[],
        strict: false,
        plugins: &[],
    });
    assert_eq!(stands(&servers, "s"), "project ready inner");
    assert_eq!(stands(&servers, "t"), "project ready t");
}

fn names_of(servers: &Servers) -> Vec<(String, Scope)> {
    let list = servers.list.iter();
    list.map(|server| (server.name.clone(), server.scope))
        .collect()
}

#[test]
fn the_servers_of_claude_json_are_the_users_and_the_folders() {
    let world = Folder::new();
    let project = world.places().environment.cwd.display().to_string();
    world.write(
        "home/.claude.json",
        &json!({
            "numStartups": 3,
            "oauthAccount": {"accessToken": "never read"},
            "mcpServers": {"mine": {"command": "a"}, "both": {"command": "theirs"}, "off": {"command": "x"}},
            "projects": {
                (project): {
                    "mcpServers": {"here": {"command": "b"}},
                    "disabledMcpServers": ["off"],
                },
                "/elsewhere": {"mcpServers": {"there": {"command": "c"}}},
                "/odd": [1],
            },
        }),
    );
    world.write(
        "home/.lathe/settings.json",
        &json!({"mcpServers": {"both": {"command": "ours"}}}),
    );
    let servers = world.load(Trust::Untrusted);
    assert_eq!(servers.problems, []);
    let mut names = names_of(&servers);
    names.sort();
    assert_eq!(
        names,
        [
            ("both".to_owned(), Scope::User),
            ("here".to_owned(), Scope::Local),
            ("mine".to_owned(), Scope::User),
        ]
    );
    assert_eq!(servers.find("both").unwrap().entry["command"], "ours");
    for server in &servers.list {
        assert!(matches!(server.standing, Standing::Ready(_)), "{server:?}");
    }
    let only = |sources: &[Source]| LoadOptions {
        sources: Some(sources.to_vec()),
        ..LoadOptions::default()
    };
    let names = |sources: &[Source]| names_of(&world.load_with(&only(sources), &[], false, &[]));
    assert_eq!(names(&[]), []);
    assert_eq!(names(&[Source::Local]), [("here".to_owned(), Scope::Local)]);
    let strict = world.load_with(&LoadOptions::default(), &[], true, &[]);
    assert_eq!(names_of(&strict), []);
}

#[test]
fn a_broken_claude_json_is_reported_and_costs_nothing_else() {
    let world = Folder::new();
    let file = world
        .places()
        .environment
        .home
        .unwrap()
        .join(".claude.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "{\"mcpServers\": ").unwrap();
    world.write(
        "home/.lathe/settings.json",
        &json!({"mcpServers": {"ours": {"command": "x"}}}),
    );
    let servers = world.load(Trust::Untrusted);
    assert_eq!(names_of(&servers), [("ours".to_owned(), Scope::User)]);
    let told = servers.problems.first().unwrap().to_string();
    assert!(told.contains(".claude.json"), "{told}");
}

/// A program that starts in a folder obeys the files there, so one's own servers start elsewhere until it is trusted.
#[test]
fn own_servers_start_outside_of_an_untrusted_folder() {
    let folder = Folder::new();
    folder.write(
        "home/.lathe/settings.json",
        &file(&json!({"plain": command("u"), "placed": {"command": "u", "cwd": "/srv"}})),
    );
    folder.write("home/.claude.json", &file(&json!({"other": command("u")})));
    let plugins = [PluginServers {
        plugin: "p".to_owned(),
        servers: [("q".to_owned(), command("v"))].into_iter().collect(),
        variables: BTreeMap::new(),
    }];
    let starts = |trust: Trust| {
        let options = LoadOptions {
            trust,
            ..LoadOptions::default()
        };
        let servers = folder.load_with(&options, &[], false, &plugins);
        ["plain", "placed", "plugin:p:q"].map(|name| {
            let Standing::Ready(config) = &servers.find(name).unwrap().standing else {
                panic!("{name} is not ready");
            };
            let TransportConfig::Stdio(program) = &config.transport else {
                panic!("{name} is no program");
            };
            program.cwd.clone()
        })
    };
    let home = folder.places().environment.home;
    let placed = Some("/srv".into());
    assert_eq!(
        starts(Trust::Untrusted),
        [home.clone(), placed.clone(), home]
    );
    assert_eq!(starts(Trust::Trusted), [None, placed, None]);
}
