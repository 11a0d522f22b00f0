//! The secret of a client goes to the authorisation server that it was stored for, and to no other one.

use lathe_testkit::{Peer, PeerReply, TestHome};
use serde_json::json;
use std::sync::{Arc, Mutex};

const SECRET: &str = "canary-51c0de";

/// An authorisation server that grants everything.
fn authority() -> Peer {
    Peer::start(|request, _| {
        let base = format!("http://{}", request.header("host").unwrap_or_default());
        let path = request.path.split('?').next().unwrap_or_default();
        match path {
            "/.well-known/oauth-authorization-server" => PeerReply::json(&json!({
                "issuer": base,
                "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": format!("{base}/token"),
                "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
                "code_challenge_methods_supported": ["S256"],
            })),
            "/token" => PeerReply::json(&json!({
                "access_token": "granted", "token_type": "Bearer", "expires_in": 3600,
            })),
            _ => PeerReply::not_found(),
        }
    })
}

/// A server that wants a token of the authority that it names at the moment.
fn protected(named: &Arc<Mutex<String>>) -> Peer {
    let named = Arc::clone(named);
    Peer::start(move |request, _| {
        let base = format!("http://{}", request.header("host").unwrap_or_default());
        if request
            .path
            .starts_with("/.well-known/oauth-protected-resource")
        {
            return PeerReply::json(&json!({
                "resource": format!("{base}/mcp"),
                "authorization_servers": [*named.lock().unwrap()],
            }));
        }
        if request.path != "/mcp" {
            return PeerReply::not_found();
        }
        let metadata = format!("{base}/.well-known/oauth-protected-resource/mcp");
        PeerReply::new(401, "application/json", "{}").header(
            "www-authenticate",
            &format!("Bearer resource_metadata=\"{metadata}\""),
        )
    })
}

/// Everything that an authority was told, headers included.
fn told(authority: &Peer) -> String {
    format!("{:?}", authority.requests())
        + &authority
            .requests()
            .iter()
            .map(lathe_testkit::PeerRequest::text)
            .collect::<String>()
}

#[test]
fn a_server_that_names_another_authority_does_not_get_the_secret_sent_there() {
    let (own, other) = (authority(), authority());
    let named = Arc::new(Mutex::new(own.url()));
    let server = protected(&named);
    let home = TestHome::new();
    // A browser whose person agrees: it goes right to where the answer is expected.
    let browser = home.write(
        home.root().join("browser.py"),
        "import sys, urllib.parse, urllib.request\n\
         query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(sys.argv[1]).query))\n\
         back = query['redirect_uri'] + '?' + urllib.parse.urlencode({'code': 'c', 'state': query['state']})\n\
         urllib.request.build_opener(urllib.request.ProxyHandler({})).open(back, timeout=60).read()\n",
    );
    let home = home
        .variable("BROWSER", format!("python3 {}", browser.display()))
        .variable("LATHE_MCP_CREDENTIALS", "file")
        .variable("MCP_CLIENT_SECRET", SECRET);
    let url = format!("{}/mcp", server.url());
    let added = home.run(
        [
            "mcp",
            "add",
            "-s",
            "user",
            "--transport",
            "http",
            "remote",
            &url,
            "--client-id",
            "me",
            "--client-secret",
        ],
        "",
    );
    assert_eq!(added.code(), Some(0), "{}", added.stderr);
    let first = home.run(["mcp", "login", "remote"], "");
    assert!(
        told(&own).contains("me")
            && own
                .requests()
                .iter()
                .any(|request| request.path == "/token"),
        "{first:#?} {}",
        told(&own)
    );
    *named.lock().unwrap() = other.url();
    let _ = home.run(["mcp", "logout", "remote"], "");
    let second = home.run(["mcp", "login", "remote"], "");
    assert_ne!(second.code(), Some(0), "{second:#?}");
    assert!(
        second.stderr.contains(&own.url()),
        "it says who the secret is for: {}",
        second.stderr
    );
    assert!(!other.requests().is_empty(), "the other one was looked at");
    assert!(!told(&other).contains(SECRET), "{}", told(&other));
    let encoded = "bWU6Y2FuYXJ5LTUxYzBkZQ";
    assert!(!told(&other).contains(encoded), "{}", told(&other));
    let sent = told(&own);
    assert!(sent.contains(SECRET) || sent.contains(encoded), "{sent}");
}
