//! Marketplaces and plugins from git and from the web.

use super::*;
use base64::Engine as _;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha512};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// Status and body, by path.
type Pages = Arc<Mutex<BTreeMap<String, (String, Vec<u8>)>>>;

/// A web server on this machine that answers from a table.
struct Web {
    address: String,
    pages: Pages,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Web {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let pages: Pages = Arc::default();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let (table, log) = (pages.clone(), seen.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let mut head = String::new();
                let mut reader = BufReader::new(&stream);
                while reader.read_line(&mut head).is_ok_and(|count| count > 2) {}
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                log.lock().unwrap().push(head.clone());
                let page = table.lock().unwrap().get(&path).cloned();
                let (status, body) =
                    page.unwrap_or_else(|| ("404 Not Found".to_owned(), Vec::new()));
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(head.as_bytes());
                let _ = stream.write_all(&body);
            }
        });
        Self {
            address,
            pages,
            seen,
        }
    }

    fn page(&self, path: &str, body: impl Into<Vec<u8>>) {
        self.answer(path, "200 OK", body);
    }

    fn answer(&self, path: &str, status: &str, body: impl Into<Vec<u8>>) {
        let mut pages = self.pages.lock().unwrap();
        pages.insert(path.to_owned(), (status.to_owned(), body.into()));
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }
}

fn file_url(folder: &Path) -> String {
    format!("file://{}", folder.display())
}

#[test]
fn a_git_repository_can_be_a_marketplace_and_is_fetched_again() {
    let home = Home::new();
    let folder = home.usual();
    home.commit(&folder);
    home.add(&file_url(&folder)).unwrap();
    let copy = home.plugins().join("marketplaces/market");
    assert!(copy.join(".claude-plugin/marketplace.json").is_file());
    home.install("tool@market").unwrap();
    home.tool("work/market/tool", "2.0.0");
    home.commit(&folder);
    run(home.manager().update_marketplace("market")).unwrap();
    let manager = home.manager();
    let id = "tool@market".parse().unwrap();
    let (prepared, _) = run(manager.prepare_update(&id, None)).unwrap().unwrap();
    assert_eq!(prepared.version, "2.0.0");
    assert_eq!(
        home.git(&copy, &["rev-list", "--count", "HEAD"]),
        "1",
        "one commit deep"
    );
}

#[test]
fn a_branch_is_fetched_when_one_is_named() {
    let home = Home::new();
    let folder = home.usual();
    home.commit(&folder);
    home.git(&folder, &["checkout", "-q", "-b", "next"]);
    home.tool("work/market/tool", "3.0.0-next");
    home.commit(&folder);
    home.git(&folder, &["checkout", "-q", "main"]);
    home.add(&format!("{}#next", file_url(&folder))).unwrap();
    assert!(home.install("tool@market").unwrap().ends_with("3.0.0-next"));
    let error = home
        .add(&format!("{}#nowhere", file_url(&folder)))
        .unwrap_err();
    assert!(matches!(error, PluginError::Fetch { .. }), "{error}");
}

#[test]
fn a_failed_update_keeps_the_installed_version() {
    let home = Home::new();
    let folder = home.usual();
    home.commit(&folder);
    home.add(&file_url(&folder)).unwrap();
    home.write("work/market/.claude-plugin/marketplace.json", "{ broken");
    home.commit(&folder);
    assert!(run(home.manager().update_marketplace("market")).is_err());
    std::fs::remove_dir_all(&folder).unwrap();
    let error = run(home.manager().update_marketplace("market")).unwrap_err();
    assert!(matches!(error, PluginError::Fetch { .. }), "{error}");
    assert_eq!(home.manager().marketplaces().unwrap()[0].plugins, ["tool"]);
    home.install("tool@market").unwrap();
    assert_eq!(home.leftovers(), Vec::<String>::new());
}

#[test]
fn a_github_name_is_fetched_from_github() {
    let mut home = Home::new();
    let folder = home.usual();
    home.commit(&folder);
    // Git maps this address to that folder; nothing leaves the machine.
    home.variables.extend(
        [
            ("GIT_CONFIG_COUNT", "1".to_owned()),
            (
                "GIT_CONFIG_KEY_0",
                format!("url.{}.insteadOf", file_url(&folder)),
            ),
            (
                "GIT_CONFIG_VALUE_0",
                "https://github.com/acme/tools.git".to_owned(),
            ),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    assert_eq!(home.add("acme/tools").unwrap(), "market");
    let known = read_json(&home.plugins().join("known_marketplaces.json"));
    assert_eq!(
        known["market"]["source"],
        json!({"source": "github", "repo": "acme/tools"})
    );
    // For a project, others are told where it is.
    home.install_for("tool@market", Source::Project).unwrap();
    let settings = read_json(&home.project().join(".lathe/settings.json"));
    assert_eq!(
        settings["extraKnownMarketplaces"]["market"]["source"]["repo"],
        "acme/tools"
    );
}

/// A repository with two states of a plugin, `tool`, in a folder `inner`; returns the commits.
fn repository(home: &Home) -> (PathBuf, String, String) {
    let folder = home.root().join("work/repository");
    home.tool("work/repository/inner", "1.0.0");
    let first = home.commit(&folder);
    home.git(&folder, &["tag", "v1"]);
    home.tool("work/repository/inner", "2.0.0");
    let second = home.commit(&folder);
    (folder, first, second)
}

#[test]
fn a_plugin_comes_from_a_folder_of_a_repository_at_a_tag_or_a_commit() {
    let home = Home::new();
    let (folder, first, second) = repository(&home);
    let url = file_url(&folder);
    let market = home.marketplace(
        "market",
        &json!([
            {"name": "newest", "source": {"source": "git-subdir", "url": url, "path": "inner"}},
            {"name": "tagged", "source": {"source": "git-subdir", "url": url, "path": "./inner", "ref": "v1"}},
            {"name": "pinned", "source": {"source": "git-subdir", "url": url, "path": "inner", "sha": first}},
            {"name": "wrong", "source": {"source": "url", "url": url, "sha": "0".repeat(40)}},
            {"name": "astray", "source": {"source": "git-subdir", "url": url, "path": "elsewhere"}},
        ]),
    );
    home.add_folder(&market);
    assert!(
        home.install("newest@market")
            .unwrap()
            .ends_with("newest/2.0.0")
    );
    assert!(
        home.install("tagged@market")
            .unwrap()
            .ends_with("tagged/1.0.0")
    );
    assert!(
        home.install("pinned@market")
            .unwrap()
            .ends_with("pinned/1.0.0")
    );
    let record = read_json(&home.plugins().join("installed_plugins.json"));
    assert_eq!(
        record["plugins"]["newest@market"][0]["gitCommitSha"],
        second.as_str()
    );
    assert_eq!(
        record["plugins"]["pinned@market"][0]["gitCommitSha"],
        first.as_str()
    );
    let error = home.install("wrong@market").unwrap_err();
    assert!(error.to_string().contains("no commit 0000"), "{error}");
    let error = home.install("astray@market").unwrap_err();
    assert!(error.to_string().contains("no folder elsewhere"), "{error}");
}

#[test]
fn a_plugin_without_a_version_is_known_by_its_commit() {
    let home = Home::new();
    let folder = home.root().join("work/repository");
    home.write("work/repository/commands/a.md", "a");
    let commit = home.commit(&folder);
    let market = home.marketplace(
        "market",
        &json!([{"name": "bare", "source": {"source": "url", "url": file_url(&folder)}}]),
    );
    home.add_folder(&market);
    let path = home.install("bare@market").unwrap();
    assert!(path.ends_with(&commit[..12]), "{}", path.display());
    assert!(!path.join(".git").exists());
}

#[test]
fn a_stranger_s_list_has_no_business_on_this_machine() {
    let home = Home::new();
    let web = Web::new();
    let (folder, ..) = repository(&home);
    web.page(
        "/marketplace.json",
        json!({"name": "market", "owner": {"name": "x"}, "plugins": [
            {"name": "local", "source": {"source": "url", "url": file_url(&folder)}},
            {"name": "helper", "source": {"source": "url", "url": "ext::sh -c evil"}},
            {"name": "relative", "source": "./here"},
        ]})
        .to_string(),
    );
    home.add(&web.url("/marketplace.json")).unwrap();
    let listed = &home.manager().marketplaces().unwrap()[0];
    assert_eq!(listed.plugins, ["relative"]);
    assert_eq!(listed.problems.len(), 2, "{:?}", listed.problems);
    let error = home.install("relative@market").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("only the list of market was fetched"),
        "{error}"
    );
}

#[test]
fn lists_from_the_web_are_stored_and_failures_are_reported() {
    let home = Home::new();
    let web = Web::new();
    let (folder, ..) = repository(&home);
    drop(folder);
    let error = home.add(&web.url("/gone.json")).unwrap_err();
    assert!(error.to_string().contains("404"), "{error}");
    web.page("/m.json", "not a list");
    assert!(home.add(&web.url("/m.json")).is_err());
    web.page("/m.json", "x".repeat(9 * 1024 * 1024));
    assert!(
        home.add(&web.url("/m.json"))
            .unwrap_err()
            .to_string()
            .contains("larger than 8 MB")
    );
    web.page(
        "/m.json",
        json!({"name": "a.market", "owner": {"name": "x"}, "plugins": []}).to_string(),
    );
    home.add(&web.url("/m.json")).unwrap();
    assert!(home.plugins().join("marketplaces/a.market.json").is_file());
    home.manager().remove_marketplace("a.market").unwrap();
    assert!(!home.plugins().join("marketplaces/a.market.json").exists());
}

#[test]
fn headers_of_settings_are_sent() {
    let home = Home::new();
    let web = Web::new();
    web.page(
        "/m.json",
        json!({"name": "market", "owner": {"name": "x"}, "plugins": []}).to_string(),
    );
    home.write_json(
        "home/.lathe/settings.json",
        &json!({"extraKnownMarketplaces": {"market": {"source": {"source": "url", "url": web.url("/m.json"), "headers": {"x-token": "t"}}}}}),
    );
    let error = home.install("tool@market").unwrap_err();
    assert!(error.to_string().contains("doesn't list tool"), "{error}");
    assert!(web.seen.lock().unwrap()[0].contains("x-token: t"));
}

/// A package as a registry has it.
fn package(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (name, content) in files {
        let mut header = [0_u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = b'0';
        header[148..156].copy_from_slice(b"        ");
        let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        tar.extend(header);
        tar.extend(content.as_bytes());
        tar.resize(tar.len().div_ceil(512) * 512, 0);
    }
    tar.extend([0; 1024]);
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&tar).unwrap();
    encoder.finish().unwrap()
}

fn registry(web: &Web, bytes: &[u8], integrity: Option<&str>) {
    let right = format!(
        "sha512-{}",
        base64::engine::general_purpose::STANDARD.encode(Sha512::digest(bytes))
    );
    web.page(
        "/@acme%2ftool",
        json!({"dist-tags": {"latest": "1.4.0"}, "versions": {"1.4.0": {"dist": {
            "tarball": web.url("/tool.tgz"), "integrity": integrity.unwrap_or(&right),
        }}}})
        .to_string(),
    );
    web.page("/tool.tgz", bytes);
}

#[test]
fn a_plugin_comes_from_a_registry_and_nothing_of_it_runs() {
    let home = Home::new();
    let web = Web::new();
    let files = [
        (
            "package/package.json",
            "{\"scripts\": {\"install\": \"touch /tmp/never\"}}",
        ),
        ("package/commands/a.md", "a"),
    ];
    registry(&web, &package(&files), None);
    let npm = |version: &str| json!({"source": "npm", "package": "@acme/tool", "version": version, "registry": web.address});
    let market = home.marketplace(
        "market",
        &json!([{"name": "tool", "source": npm("latest")}, {"name": "range", "source": npm("^1.0")}]),
    );
    home.add_folder(&market);
    let path = home.install("tool@market").unwrap();
    assert!(path.ends_with("tool/1.4.0"));
    assert!(path.join("commands/a.md").is_file());
    let error = home.install("range@market").unwrap_err();
    assert!(error.to_string().contains("ranges"), "{error}");
}

#[test]
fn a_package_that_is_not_what_the_registry_says_is_refused() {
    let home = Home::new();
    let web = Web::new();
    let source = json!({"source": "npm", "package": "@acme/tool", "registry": web.address});
    let market = home.marketplace("market", &json!([{"name": "tool", "source": source}]));
    home.add_folder(&market);
    registry(
        &web,
        &package(&[("package/commands/a.md", "a")]),
        Some("sha512-AAAA"),
    );
    let error = home.install("tool@market").unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
    registry(&web, &package(&[("package/../../evil", "a")]), None);
    let error = home.install("tool@market").unwrap_err();
    assert!(error.to_string().contains("leads out"), "{error}");
    assert_eq!(home.leftovers(), Vec::<String>::new());
}

#[test]
fn a_bomb_in_a_package_is_refused_and_leaves_nothing() {
    let home = Home::new();
    let web = Web::new();
    let source = json!({"source": "npm", "package": "@acme/tool", "registry": web.address});
    let market = home.marketplace("market", &json!([{"name": "tool", "source": source}]));
    home.add_folder(&market);
    // 51 MB of one letter are a few hundred kilobytes on the way.
    let zeros = "0".repeat(51 * 1024 * 1024);
    let bomb = package(&[("package/commands/a.md", "a"), ("package/bomb", &zeros)]);
    assert!(bomb.len() < 1024 * 1024, "{}", bomb.len());
    registry(&web, &bomb, None);
    let error = home.install("tool@market").unwrap_err();
    assert!(matches!(error, PluginError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("larger than 50 MB"), "{error}");
    assert!(!home.plugins().join("cache").exists());
    assert_eq!(home.leftovers(), Vec::<String>::new());
    for name in ["/etc/evil", "package/../../evil"] {
        registry(&web, &package(&[(name, "a")]), None);
        let error = home.install("tool@market").unwrap_err();
        assert!(matches!(error, PluginError::Refused { .. }), "{error}");
    }
    assert_eq!(home.leftovers(), Vec::<String>::new());
}

#[test]
fn a_repository_that_holds_too_much_is_refused_and_leaves_nothing() {
    let home = Home::new();
    // Small in the repository, large in the folder.
    let folder = home.root().join("work/repository");
    home.tool("work/repository", "1.0.0");
    let huge = std::fs::File::create(folder.join("huge")).unwrap();
    huge.set_len(51 * 1024 * 1024).unwrap();
    home.commit(&folder);
    let source = json!({"source": "url", "url": file_url(&folder)});
    let market = home.marketplace("market", &json!([{"name": "tool", "source": source}]));
    home.add_folder(&market);
    let error = home.install("tool@market").unwrap_err();
    assert!(matches!(error, PluginError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("larger than 50 MB"), "{error}");
    assert!(!home.plugins().join("cache").exists());
    assert_eq!(home.leftovers(), Vec::<String>::new());
}

#[test]
fn hooks_of_a_repository_and_filters_don_t_run_while_it_is_fetched() {
    let home = Home::new();
    let folder = home.usual();
    let mark = home.root().join("ran");
    home.write("work/market/.gitattributes", "* filter=evil\n");
    home.write(
        "work/market/.githooks/post-checkout",
        format!("#!/bin/sh\ntouch {}\n", mark.display()),
    );
    home.commit(&folder);
    home.add(&file_url(&folder)).unwrap();
    assert!(!mark.exists());
}

#[test]
fn a_submodule_is_not_followed() {
    let home = Home::new();
    let folder = home.usual();
    home.write(
        "work/market/.gitmodules",
        "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c evil\n",
    );
    home.commit(&folder);
    home.add(&file_url(&folder)).unwrap();
    home.install("tool@market").unwrap();
}
