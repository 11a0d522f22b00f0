//! Every attack on the server fails, and it still serves afterwards.
use crate::support::Site;
use lathe_server::{DeviceScope, ServeError, Server};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const JSON: &str = "Content-Type: application/json\r\n";

async fn serves(site: &Site) {
    let answer = site.get(DeviceScope::View, "/v1/sessions").await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

fn upgrade(protocols: &str) -> String {
    format!(
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: {protocols}\r\n"
    )
}

#[tokio::test]
async fn without_a_token_nothing_is_said_anywhere() {
    let site = Site::new().await;
    let token = &site.tokens[&DeviceScope::Admin];
    let id = site.session;
    let wire = format!("/v1/wire?session={id}");
    for (method, path) in [
        ("GET", "/openapi.json".to_owned()),
        ("GET", "/v1/sessions".to_owned()),
        ("POST", "/v1/sessions".to_owned()),
        ("GET", "/v1/search?q=x".to_owned()),
        ("GET", format!("/v1/sessions/{id}")),
        ("GET", format!("/v1/sessions/{id}/records")),
        ("GET", format!("/v1/sessions/{id}/diff")),
        ("GET", format!("/v1/sessions/{id}/events")),
        ("POST", format!("/v1/sessions/{id}/ops")),
        ("POST", format!("/v1/sessions/{id}/questions/r")),
        ("GET", wire.clone()),
        ("GET", format!("/v1/messages?session={id}")),
        ("GET", format!("/v1/sessions/{id}/files?path=x")),
        ("GET", "/v1/nothing".to_owned()),
    ] {
        let query = if path.contains('?') { '&' } else { '?' };
        for (path, headers) in [
            (path.clone(), JSON.to_owned()),
            (
                path.clone(),
                format!("{JSON}Authorization: Bearer wrong\r\n"),
            ),
            (path.clone(), format!("{JSON}Cookie: token={token}\r\n")),
            (
                path.clone(),
                format!("{JSON}X-Forwarded-For: 127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\n"),
            ),
            (
                format!("{path}{query}token={token}&access_token={token}"),
                JSON.to_owned(),
            ),
        ] {
            let answer = site.raw(method, &path, &headers, b"").await;
            assert_eq!(answer.status, 401, "{method} {path} {headers}: {answer:?}");
            assert!(
                answer.head.contains("application/problem+json"),
                "{answer:?}"
            );
        }
    }
    let upload = format!("/v1/sessions/{id}/uploads?name=x&token={token}");
    let bytes = "Content-Type: application/octet-stream\r\n";
    let answer = site.raw("POST", &upload, bytes, b"x").await;
    assert_eq!(answer.status, 401, "{answer:?}");
    for protocols in [
        "lathe.v1",
        "lathe.v1, lathe.token.wrong",
        "lathe.v1, lathe.token.",
    ] {
        for path in [&wire, &wire.replace("wire", "messages")] {
            let answer = site.raw("GET", path, &upgrade(protocols), b"").await;
            assert_eq!(answer.status, 401, "{path} {protocols}: {answer:?}");
        }
    }
    serves(&site).await;
}

#[tokio::test]
async fn other_hosts_and_pages_are_refused_also_with_a_token() {
    let site = Site::new().await;
    let token = format!(
        "Authorization: Bearer {}\r\n",
        site.tokens[&DeviceScope::Admin]
    );
    let mut stream = site.connect().await;
    let request = format!(
        "GET /v1/sessions HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n{token}\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    let look_alike = format!("http://{}.evil.example", site.host_header());
    for origin in [
        "null",
        "http://evil.example",
        "http://127.0.0.1:1",
        &look_alike,
    ] {
        let headers = format!("{token}Origin: {origin}\r\n");
        let answer = site.raw("GET", "/v1/sessions", &headers, b"").await;
        assert_eq!(answer.status, 403, "{origin}");
        assert!(!answer.head.contains("access-control"), "{answer:?}");
        // A WebSocket is not bound by the same-origin policy: the check is the server's.
        let protocols = format!("lathe.v1, lathe.token.{}", site.tokens[&DeviceScope::Admin]);
        let headers = format!("{}Origin: {origin}\r\n", upgrade(&protocols));
        let wire = format!("/v1/wire?session={}", site.session);
        assert_eq!(
            site.raw("GET", &wire, &headers, b"").await.status,
            403,
            "{origin}"
        );
    }
    // A preflight is never answered, and a form can't post.
    let preflight = "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n";
    assert_eq!(
        site.raw("OPTIONS", "/v1/sessions", preflight, b"")
            .await
            .status,
        403
    );
    let form = format!("{token}Content-Type: text/plain\r\n");
    assert_eq!(
        site.raw("POST", "/v1/sessions", &form, b"{}").await.status,
        415
    );
}

#[tokio::test]
async fn every_response_has_the_strict_headers_and_no_cors() {
    let site = Site::new().await;
    for path in ["/", "/app.js", "/app.css", "/v1/sessions", "/nothing"] {
        let answer = site.get(DeviceScope::View, path).await;
        for part in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "x-frame-options: deny",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(answer.head.contains(part), "{path} {part}: {}", answer.head);
        }
        assert!(
            !answer.head.contains("access-control") && !answer.head.contains("set-cookie"),
            "{path}"
        );
    }
    let page = ["/", "/app.js", "/app.css"];
    let mut bytes = 0;
    for path in page {
        let text = site.get(DeviceScope::View, path).await.text;
        for never in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "localStorage",
            "http://cdn",
            "https://cdn",
        ] {
            assert!(!text.contains(never), "{path} has {never}");
        }
        bytes += text.len();
    }
    assert!(bytes < 100 * 1024, "{bytes}");
}

#[tokio::test]
async fn a_code_works_once_and_a_revoked_device_not_at_all() {
    let site = Site::new().await;
    let code = site.devices().code(DeviceScope::Prompt).unwrap();
    let body = json!({"code": code, "name": "phone", "scope": "admin"});
    let declared = site
        .raw("POST", "/v1/pair", JSON, body.to_string().as_bytes())
        .await;
    assert_eq!(
        declared.status, 400,
        "a client names no scope: {declared:?}"
    );
    let body = json!({"code": code, "name": "phone"}).to_string();
    let paired = site.raw("POST", "/v1/pair", JSON, body.as_bytes()).await;
    assert_eq!(paired.status, 200, "{paired:?}");
    assert_eq!(paired.json()["scope"], "prompt");
    let again = site.raw("POST", "/v1/pair", JSON, body.as_bytes()).await;
    assert_eq!(again.status, 401, "{again:?}");
    let headers = format!(
        "Authorization: Bearer {}\r\n",
        paired.json()["token"].as_str().unwrap()
    );
    assert_eq!(
        site.raw("GET", "/v1/sessions", &headers, b"").await.status,
        200
    );
    assert_eq!(site.devices().revoke("phone").unwrap(), 1);
    assert_eq!(
        site.raw("GET", "/v1/sessions", &headers, b"").await.status,
        401
    );
}

#[tokio::test]
async fn scopes_are_those_of_the_token() {
    use DeviceScope::{Admin, Approve, Prompt, View};
    let site = Site::new().await;
    let ops = format!("/v1/sessions/{}/ops", site.session);
    let question = format!("/v1/sessions/{}/questions/", site.session);
    let prompt = json!({"op": {"type": "prompt", "content": "x"}});
    let bypass = json!({"op": {"type": "set_mode", "mode": "bypassPermissions"}});
    let allow = json!({"reply": {"behavior": "allow"}});
    let rule = json!({"reply": {"behavior": "allow", "updatedPermissions": [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]}});
    for (scope, path, body, wanted) in [
        (View, ops.clone(), &prompt, 403),
        (Prompt, ops.clone(), &prompt, 200),
        (Prompt, format!("{question}a"), &allow, 403),
        (Approve, format!("{question}a"), &allow, 200),
        (Approve, format!("{question}b"), &rule, 403),
        (Admin, format!("{question}c"), &rule, 403),
        (Admin, ops.clone(), &bypass, 403),
    ] {
        let answer = site.post(scope, &path, body).await;
        assert_eq!(answer.status, wanted, "{scope:?} {path} {body}: {answer:?}");
    }
    let widening = Site::with(true).await;
    let ops = format!("/v1/sessions/{}/ops", widening.session);
    assert_eq!(widening.post(Approve, &ops, &bypass).await.status, 403);
    assert_eq!(widening.post(Admin, &ops, &bypass).await.status, 200);
    // The session is told the name of the device, whatever the client says.
    let ops = site.peer.ops.lock();
    assert!(
        ops.iter()
            .all(|(_, by)| by.as_deref() == Some("prompt") || by.as_deref() == Some("approve")),
        "{ops:?}"
    );
}

#[tokio::test]
async fn paths_lead_nowhere_else() {
    let site = Site::new().await;
    std::fs::write(site.home.path().join("secret"), "planted").unwrap();
    for path in [
        "/../secret",
        "/..%2fsecret",
        "/v1/sessions/..%2f..%2fsecret/records",
        "/v1/sessions/../../../secret",
        "/server/devices.json",
        "/v1/sessions/x/files?path=/etc/passwd",
        "//etc/passwd",
    ] {
        let answer = site.get(DeviceScope::Admin, path).await;
        assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
        assert!(!answer.text.contains("planted"), "{path}");
    }
    let headers = format!(
        "Authorization: Bearer {}\r\nContent-Type: application/octet-stream\r\n",
        site.tokens[&DeviceScope::Prompt]
    );
    let path = format!(
        "/v1/sessions/{}/uploads?name=..%2F..%2Fserver%2Fdevices.json",
        site.session
    );
    let stored = site.raw("POST", &path, &headers, b"content").await.json();
    let stored = std::path::PathBuf::from(stored["path"].as_str().unwrap());
    let uploads = site
        .home
        .path()
        .join("config/uploads")
        .join(site.session.to_string());
    assert_eq!(stored.parent(), Some(uploads.as_path()));
    assert_eq!(std::fs::read(&stored).unwrap(), b"content");
    assert!(
        site.devices()
            .list()
            .is_ok_and(|devices| devices.len() == 4)
    );
}

#[tokio::test]
async fn huge_slow_and_many_are_borne() {
    let site = Site::new().await;
    // A huge head.
    let mut stream = site.connect().await;
    let head = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nX: {}\r\n\r\n",
        site.host_header(),
        "x".repeat(64 * 1024)
    );
    let _ = stream.write_all(head.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(
        !answer.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    // A huge body.
    let ops = format!("/v1/sessions/{}/ops", site.session);
    let headers = format!(
        "Authorization: Bearer {}\r\n{JSON}",
        site.tokens[&DeviceScope::Admin]
    );
    let huge = vec![b' '; 2 * 1024 * 1024];
    let answer = site.raw("POST", &ops, &headers, &huge).await;
    assert!(matches!(answer.status, 413 | 0), "{answer:?}");
    // A thousand sockets that say nothing, or half a head.
    let mut sockets = Vec::new();
    for number in 0..1000 {
        let Ok(mut socket) = tokio::net::TcpStream::connect(site.server.address()).await else {
            break;
        };
        if number % 2 == 0 {
            let _ = socket.write_all(b"GET / HTTP/1.1\r\nHost: ").await;
        }
        sockets.push(socket);
        if sockets.len() >= 400 {
            // This process has few descriptors itself.
            sockets.drain(..100);
        }
        if number % 100 == 0 {
            serves(&site).await;
        }
    }
    serves(&site).await;
}

/// A browser says where a request comes from: another site gets the page at most.
#[tokio::test]
async fn requests_that_another_site_made_the_browser_send_are_refused() {
    let site = Site::new().await;
    let token = &site.tokens[&DeviceScope::Admin];
    let wire = format!("/v1/wire?session={}", site.session);
    let protocols = format!("lathe.v1, lathe.token.{token}");
    for from in ["cross-site", "same-site", "none"] {
        for (method, path) in [
            ("GET", "/v1/sessions"),
            ("POST", "/v1/sessions"),
            ("POST", "/v1/pair"),
            ("POST", "/v1/links"),
            ("POST", "/v1/links/use"),
            ("GET", "/openapi.json"),
        ] {
            let headers =
                format!("Authorization: Bearer {token}\r\n{JSON}Sec-Fetch-Site: {from}\r\n");
            let answer = site.raw(method, path, &headers, b"{}").await;
            assert_eq!(answer.status, 403, "{from} {method} {path}: {answer:?}");
        }
        let headers = format!("{}Sec-Fetch-Site: {from}\r\n", upgrade(&protocols));
        assert_eq!(
            site.raw("GET", &wire, &headers, b"").await.status,
            403,
            "{from}"
        );
        let page = site
            .raw("GET", "/", &format!("Sec-Fetch-Site: {from}\r\n"), b"")
            .await;
        assert_eq!(page.status, 200, "the page has no secrets");
    }
    serves(&site).await;
}

/// Requests that a form or an image of another page could send without a preflight, and other methods.
#[tokio::test]
async fn simple_requests_and_other_methods_change_nothing() {
    let site = Site::new().await;
    let token = format!(
        "Authorization: Bearer {}\r\n",
        site.tokens[&DeviceScope::Admin]
    );
    let ops = format!("/v1/sessions/{}/ops", site.session);
    let prompt = json!({"op": {"type": "prompt", "content": "x"}}).to_string();
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "",
    ] {
        let headers = format!("{token}Content-Type: {kind}\r\n");
        let answer = site.raw("POST", &ops, &headers, prompt.as_bytes()).await;
        assert_eq!(answer.status, 415, "{kind}: {answer:?}");
    }
    for method in [
        "PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "CONNECT", "PROPFIND",
    ] {
        let headers = format!("{token}{JSON}");
        let answer = site.raw(method, &ops, &headers, prompt.as_bytes()).await;
        assert!(matches!(answer.status, 405 | 421), "{method}: {answer:?}");
        assert!(!answer.head.contains("access-control"), "{method}");
    }
    // An address alone does nothing.
    for method in ["GET", "DELETE"] {
        let path = format!("{ops}?op=%7B%22type%22%3A%22stop%22%7D");
        let answer = site.raw(method, &path, &token, b"").await;
        assert_eq!(answer.status, 404, "{method}: {answer:?}");
    }
    assert!(
        site.peer.ops.lock().is_empty(),
        "{:?}",
        site.peer.ops.lock()
    );
}

/// Connections that say half a head, or half a body, for ever: the oldest go when there are too many, and nobody waits for them.
#[tokio::test]
async fn connections_that_never_finish_make_room_for_others() {
    let site = Site::new().await;
    let mut oldest = site.connect().await;
    oldest
        .write_all(b"GET /v1/sessions HTTP/1.1\r\nHost: ")
        .await
        .unwrap();
    let mut others = Vec::new();
    for _ in 0..210 {
        let mut other = site.connect().await;
        other.write_all(b"P").await.unwrap();
        others.push(other);
    }
    let mut bytes = Vec::new();
    // Closed, or reset because of what it had said.
    let _ = oldest.read_to_end(&mut bytes).await;
    assert!(!bytes.starts_with(b"HTTP/1.1 200"));
    let mut slow = site.connect().await;
    let head = format!(
        "POST /v1/sessions/{}/ops HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n{JSON}Content-Length: 1000\r\n\r\n{{",
        site.session,
        site.host_header(),
        site.tokens[&DeviceScope::Admin]
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    serves(&site).await;
    assert!(site.peer.ops.lock().is_empty());
}

/// Random bytes for every endpoint of the API, by itself and with a token; `LATHE_GARBAGE_SECONDS` says for how long.
#[tokio::test]
async fn garbage_leaves_it_serving() {
    let site = Site::new().await;
    let seed = std::env::var("LATHE_GARBAGE_SEED").map_or(1, |text| text.parse().unwrap());
    let seconds = std::env::var("LATHE_GARBAGE_SECONDS").ok();
    let until = seconds.map(|text| {
        std::time::Instant::now() + std::time::Duration::from_secs(text.parse().unwrap())
    });
    let mut random = fastrand::Rng::with_seed(seed);
    let document = site.get(DeviceScope::View, "/openapi.json").await.json();
    let token = &site.tokens[&DeviceScope::Admin];
    let socket = upgrade(&format!("lathe.v1, lathe.token.{token}"));
    let mut starts = vec![String::new()];
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path
            .replace("{id}", &site.session.to_string())
            .replace("{request}", "q");
        for method in methods.as_object().unwrap().keys() {
            let begin = format!(
                "{} {path}?session={} HTTP/1.1\r\nHost: {}\r\n",
                method.to_uppercase(),
                site.session,
                site.host_header()
            );
            let rest = match path.as_str() {
                "/v1/wire" | "/v1/messages" => socket.clone(),
                _ => format!("Authorization: Bearer {token}\r\n{JSON}Content-Length: 60\r\n"),
            };
            starts.extend([
                format!("{begin}{rest}\r\n"),
                format!("{begin}Last-Event-ID: "),
            ]);
        }
    }
    assert!(starts.len() > 30, "every endpoint: {}", starts.len());
    let mut round = 0;
    while round < starts.len() * 6 || until.is_some_and(|until| std::time::Instant::now() < until) {
        let mut stream = site.connect().await;
        let mut bytes = starts[round % starts.len()].clone().into_bytes();
        match random.u8(0..3) {
            0 => bytes.extend((0..random.usize(0..600)).map(|_| random.u8(..))),
            // A frame of a WebSocket, or JSON that is nearly right.
            1 => bytes.extend([
                0x81,
                0x85,
                1,
                2,
                3,
                4,
                random.u8(..),
                random.u8(..),
                5,
                6,
                7,
            ]),
            _ => {
                let words = [
                    "{\"op\":",
                    "{\"type\":\"prompt\"",
                    "[",
                    "null",
                    "1e999",
                    "\\ud800",
                    "}",
                ];
                for _ in 0..random.usize(0..12) {
                    bytes.extend(words[random.usize(..words.len())].bytes());
                }
                bytes.extend([b' '; 60]);
            }
        }
        let _ = stream.write_all(&bytes).await;
        if round % 50 == 0 {
            serves(&site).await;
        }
        round += 1;
    }
    serves(&site).await;
}

#[tokio::test]
async fn two_servers_do_not_share_a_folder() {
    let site = Site::new().await;
    let second = Server::start(site.options()).await;
    assert!(
        matches!(second, Err(ServeError::Running { address: Some(_) })),
        "{second:?}"
    );
    let address = site.server.url().to_owned();
    let config = site.home.path().join("config");
    assert_eq!(lathe_server::running(&config), Some(address));
    serves(&site).await;
}

#[tokio::test]
async fn tokens_are_in_no_file() {
    let site = Site::new().await;
    serves(&site).await;
    let mut folders = vec![site.home.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(bytes) = std::fs::read(&path) {
                let text = String::from_utf8_lossy(&bytes);
                assert!(
                    site.tokens.values().all(|token| !text.contains(token)),
                    "{}",
                    path.display()
                );
            }
        }
    }
}
