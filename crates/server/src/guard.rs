//! Whether a request may be looked at at all. Pure: a function of its head.
//!
//! Browsers send requests of any page to this address. They are told apart by `Host` (a name that was rebound to this
//! address), `Origin` and `Sec-Fetch-Site` (another page), and by what a page can't send without being asked first:
//! a bearer token, or a body of JSON. No cookie is read, no header of a proxy is believed, no CORS header is sent.

use crate::devices::DeviceScope;
use crate::problem::Problem;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use lathe_protocol::permission::{PermissionMode, PermissionReply};
use lathe_wire::WireOp;

/// The subprotocol of the wire.
pub const PROTOCOL: &str = "lathe.v1";
/// The beginning of the subprotocol that carries a token.
pub const TOKEN_PROTOCOL: &str = "lathe.token.";

/// The addresses that this server answers to.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// `host:port` of each.
    hosts: Vec<String>,
}

impl Addresses {
    /// Those with these `Host` headers.
    #[must_use]
    pub fn new(hosts: Vec<String>) -> Self {
        Self { hosts }
    }

    fn has(&self, host: &str) -> bool {
        self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host))
    }

    fn has_origin(&self, origin: &str) -> bool {
        let host = origin
            .strip_prefix("http://")
            .filter(|host| host.starts_with("127.0.0.1:") || host.starts_with("localhost:"))
            .or_else(|| origin.strip_prefix("https://"));
        host.is_some_and(|host| self.has(host))
    }
}

fn only<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

/// Checks where a request comes from.
///
/// # Errors
/// 421 for another host, 403 for another page, 405 and 415 for requests that a form could send.
pub fn check(
    addresses: &Addresses,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    let host = only(headers, &header::HOST).ok().flatten();
    let authority = uri.authority().map(http::uri::Authority::as_str);
    if !host.is_some_and(|host| addresses.has(host))
        || authority.is_some_and(|authority| !addresses.has(authority))
    {
        return Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "this server does not answer to that host name",
        ));
    }
    let foreign = || Problem::new(StatusCode::FORBIDDEN, "requests of other pages are refused");
    match only(headers, &header::ORIGIN) {
        Ok(None) => {}
        Ok(Some(origin)) if addresses.has_origin(origin) => {}
        _ => return Err(foreign()),
    }
    let site = headers
        .get("sec-fetch-site")
        .map(http::HeaderValue::as_bytes);
    let top = is_page(uri.path()) && *method == Method::GET;
    match site {
        None | Some(b"same-origin") => {}
        // Typed into the address bar, or opened by a link: only the page itself, which has no secrets.
        Some(_) if top => {}
        Some(_) => return Err(foreign()),
    }
    check_method(method, uri, headers)
}

fn check_method(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    match *method {
        Method::GET | Method::DELETE => Ok(()),
        Method::POST => {
            let kind = only(headers, &header::CONTENT_TYPE).ok().flatten();
            let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim());
            let upload = uri.path().ends_with("/uploads");
            match kind {
                Some("application/json") if !upload => Ok(()),
                Some("application/octet-stream") if upload => Ok(()),
                _ => Err(Problem::new(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    if upload {
                        "uploads are application/octet-stream"
                    } else {
                        "bodies are application/json"
                    },
                )),
            }
        }
        _ => Err(Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("{method} is not used here"),
        )),
    }
}

/// True for the files of the page, which anyone may read.
#[must_use]
pub fn is_page(path: &str) -> bool {
    matches!(
        path,
        "/" | "/app.js" | "/relay.js" | "/app.css" | "/icon.svg"
    ) || is_session_page(path)
}

/// True for the address of a session on the page, `/s/ID`.
#[must_use]
pub fn is_session_page(path: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    path.strip_prefix("/s/")
        .is_some_and(|id| !id.is_empty() && id.len() <= 64 && id.bytes().all(fine))
}

/// The token of a request: a bearer token, or the subprotocol of a WebSocket. Never the address.
#[must_use]
pub fn token(headers: &HeaderMap) -> Option<&str> {
    if let Some(value) = only(headers, &header::AUTHORIZATION).ok()? {
        return value.strip_prefix("Bearer ").map(str::trim);
    }
    protocols(headers).find_map(|word| word.strip_prefix(TOKEN_PROTOCOL))
}

/// The subprotocols that a client offers.
pub(crate) fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(str::trim))
}

/// The scope that an operation needs.
#[must_use]
pub fn scope_of(op: &WireOp) -> DeviceScope {
    match op {
        WireOp::Prompt { .. }
        | WireOp::CancelPrompt { .. }
        | WireOp::Interrupt { .. }
        | WireOp::SetModel { .. }
        | WireOp::SetThinking { .. }
        | WireOp::Rename { .. }
        | WireOp::Message { .. }
        | WireOp::Stop => DeviceScope::Prompt,
        WireOp::PermissionReply { .. }
        | WireOp::ElicitationReply { .. }
        | WireOp::SetMode { .. } => DeviceScope::Approve,
    }
}

/// True if an operation lets later calls run without a question: a mode, rules, folders.
#[must_use]
pub fn widens(op: &WireOp) -> bool {
    match op {
        WireOp::SetMode { mode } => !matches!(mode, PermissionMode::Default | PermissionMode::Plan),
        WireOp::PermissionReply {
            reply:
                PermissionReply::Allow {
                    updated_permissions,
                    ..
                },
            ..
        } => !updated_permissions.is_empty(),
        _ => false,
    }
}

/// Whether a device may ask for an operation.
///
/// # Errors
/// 403, saying what it lacks.
pub fn permit(scope: DeviceScope, op: &WireOp, may_widen: bool) -> Result<(), Problem> {
    let refused = |detail: String| Err(Problem::new(StatusCode::FORBIDDEN, detail));
    if scope == DeviceScope::View {
        return refused("this device is view-only".to_owned());
    }
    let needed = scope_of(op);
    if scope < needed {
        let (has, needs) = (scope.name(), needed.name());
        return refused(format!(
            "this needs the scope {needs}, and this device has {has}"
        ));
    }
    if widens(op) && (scope < DeviceScope::Admin || !may_widen) {
        return refused(
            "widening permissions from elsewhere needs the scope admin, and `lathe serve --allow-widening` on this machine"
                .to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn status(method: &str, path: &str, headers: &[(&'static str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let uri: Uri = path.parse().unwrap();
        let listen = crate::listen::Listen {
            proxy: Some("box.example".to_owned()),
            ..crate::listen::Listen::default()
        };
        let hosts = listen.hosts(4077);
        match check(&Addresses::new(hosts), &method, &uri, &map) {
            Ok(()) => 200,
            Err(problem) => problem.status,
        }
    }

    #[test]
    fn requests_of_other_hosts_and_pages_are_refused() {
        const HOST: (&str, &str) = ("host", "127.0.0.1:4077");
        let json = ("content-type", "application/json");
        for (method, path, headers, wanted) in [
            ("GET", "/v1/sessions", vec![HOST], 200),
            ("GET", "/v1/sessions", vec![("host", "localhost:4077")], 200),
            ("GET", "/v1/sessions", vec![("host", "LOCALHOST:4077")], 200),
            ("GET", "/v1/sessions", vec![("host", "box.example")], 200),
            // DNS rebinding, another port, no host, two hosts, an address in the line.
            (
                "GET",
                "/v1/sessions",
                vec![("host", "evil.example:4077")],
                421,
            ),
            ("GET", "/v1/sessions", vec![("host", "127.0.0.1")], 421),
            ("GET", "/v1/sessions", vec![("host", "127.0.0.1:80")], 421),
            (
                "GET",
                "/v1/sessions",
                vec![("host", "127.0.0.1.evil.example:4077")],
                421,
            ),
            ("GET", "/v1/sessions", vec![], 421),
            (
                "GET",
                "/v1/sessions",
                vec![HOST, ("host", "evil.example")],
                421,
            ),
            ("GET", "http://evil.example/v1/sessions", vec![HOST], 421),
            // A proxy's words are not believed.
            (
                "GET",
                "/v1/sessions",
                vec![
                    ("host", "evil.example"),
                    ("x-forwarded-host", "127.0.0.1:4077"),
                ],
                421,
            ),
            // Origins.
            (
                "GET",
                "/v1/sessions",
                vec![HOST, ("origin", "http://127.0.0.1:4077")],
                200,
            ),
            (
                "GET",
                "/v1/sessions",
                vec![HOST, ("origin", "https://box.example")],
                200,
            ),
            (
                "GET",
                "/v1/sessions",
                vec![HOST, ("origin", "http://box.example")],
                403,
            ),
            ("GET", "/v1/sessions", vec![HOST, ("origin", "null")], 403),
            (
                "GET",
                "/v1/sessions",
                vec![HOST, ("origin", "http://127.0.0.1:80")],
                403,
            ),
            (
                "GET",
                "/v1/sessions",
                vec![HOST, ("origin", "http://127.0.0.1:4077.evil.example")],
                403,
            ),
            (
                "GET",
                "/v1/sessions",
                vec![HOST, ("origin", "http://evil.example")],
                403,
            ),
            (
                "GET",
                "/v1/sessions",
                vec![HOST, ("origin", "file://")],
                403,
            ),
            (
                "GET",
                "/v1/sessions",
                vec![
                    HOST,
                    ("origin", "http://127.0.0.1:4077"),
                    ("origin", "http://evil.example"),
                ],
                403,
            ),
            (
                "GET",
                "/v1/sessions",
                vec![HOST, ("sec-fetch-site", "cross-site")],
                403,
            ),
            (
                "GET",
                "/v1/sessions",
                vec![HOST, ("sec-fetch-site", "same-site")],
                403,
            ),
            (
                "GET",
                "/v1/sessions",
                vec![HOST, ("sec-fetch-site", "none")],
                403,
            ),
            (
                "GET",
                "/v1/sessions",
                vec![HOST, ("sec-fetch-site", "same-origin")],
                200,
            ),
            ("GET", "/", vec![HOST, ("sec-fetch-site", "none")], 200),
            (
                "GET",
                "/s/6f2a-8c1e",
                vec![HOST, ("sec-fetch-site", "none")],
                200,
            ),
            (
                "GET",
                "/s/../v1/sessions",
                vec![HOST, ("sec-fetch-site", "none")],
                403,
            ),
            (
                "GET",
                "/",
                vec![HOST, ("sec-fetch-site", "cross-site")],
                200,
            ),
            // What a form can send.
            ("POST", "/v1/sessions", vec![HOST], 415),
            (
                "POST",
                "/v1/sessions",
                vec![HOST, ("content-type", "text/plain")],
                415,
            ),
            (
                "POST",
                "/v1/sessions",
                vec![HOST, ("content-type", "application/x-www-form-urlencoded")],
                415,
            ),
            (
                "POST",
                "/v1/sessions",
                vec![HOST, ("content-type", "multipart/form-data; boundary=x")],
                415,
            ),
            ("POST", "/v1/sessions", vec![HOST, json], 200),
            ("POST", "/v1/sessions/x/uploads", vec![HOST, json], 415),
            ("OPTIONS", "/v1/sessions", vec![HOST], 405),
            ("PUT", "/v1/sessions", vec![HOST, json], 405),
            ("TRACE", "/v1/sessions", vec![HOST], 405),
        ] {
            assert_eq!(
                status(method, path, &headers),
                wanted,
                "{method} {path} {headers:?}"
            );
        }
    }

    #[test]
    fn a_token_is_read_from_the_header_or_the_subprotocol_only() {
        let token_in = |name: &'static str, value: &str| {
            let mut map = HeaderMap::new();
            map.insert(name, HeaderValue::from_str(value).unwrap());
            token(&map).map(str::to_owned)
        };
        assert_eq!(
            token_in("authorization", "Bearer abc").as_deref(),
            Some("abc")
        );
        assert_eq!(token_in("authorization", "Basic abc"), None);
        assert_eq!(token_in("cookie", "token=abc"), None);
        let offered = "lathe.v1, lathe.token.abc";
        assert_eq!(
            token_in("sec-websocket-protocol", offered).as_deref(),
            Some("abc")
        );
    }

    #[test]
    fn scopes_and_widening() {
        let op = |text: &str| -> WireOp { serde_json::from_str(text).unwrap() };
        let prompt = op(r#"{"type":"prompt","content":"x"}"#);
        let allow =
            op(r#"{"type":"permission_reply","request_id":"r","reply":{"behavior":"allow"}}"#);
        let rule = op(
            r#"{"type":"permission_reply","request_id":"r","reply":{"behavior":"allow","updatedPermissions":[{"type":"setMode","mode":"acceptEdits","destination":"session"}]}}"#,
        );
        let bypass = op(r#"{"type":"set_mode","mode":"bypassPermissions"}"#);
        let plan = op(r#"{"type":"set_mode","mode":"plan"}"#);
        use DeviceScope::{Admin, Approve, Prompt, View};
        for (scope, op, may_widen, wanted) in [
            (View, &prompt, true, false),
            (View, &plan, true, false),
            (Prompt, &prompt, false, true),
            (Prompt, &allow, false, false),
            (Prompt, &plan, false, false),
            (Approve, &allow, false, true),
            (Approve, &plan, false, true),
            (Approve, &rule, true, false),
            (Admin, &rule, false, false),
            (Admin, &rule, true, true),
            (Admin, &bypass, false, false),
            (Admin, &bypass, true, true),
            (Approve, &bypass, true, false),
        ] {
            assert_eq!(
                permit(scope, op, may_widen).is_ok(),
                wanted,
                "{scope:?} {op:?}"
            );
        }
        let words = permit(View, &prompt, true).unwrap_err().detail;
        assert!(words.contains("view-only"), "{words}");
    }
}
