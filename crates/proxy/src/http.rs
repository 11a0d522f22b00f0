//! The head of a request to the proxy, read strictly: what two readers could read differently is refused.

use lathe_sandbox::Host;

/// The longest head that is read.
pub(crate) const LONGEST_HEAD: usize = 64 * 1024;

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// A tunnel.
    Connect { host: Host, port: u16 },
    /// One request, to be sent on.
    Forward {
        host: Host,
        port: u16,
        /// The head as the server gets it.
        head: Vec<u8>,
        /// How long its body is.
        body: u64,
    },
}

/// Why a head is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadRequest(pub(crate) &'static str);

/// Headers that are about the connection to the proxy, not about the request.
const OWN: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "host",
];

/// The first line of a head, and its headers.
struct Head<'a> {
    method: &'a str,
    target: &'a str,
    headers: Vec<(&'a str, &'a str)>,
}

/// Reads a head: everything up to the empty line, which it includes.
pub(crate) fn parse(head: &[u8]) -> Result<Request, BadRequest> {
    let Head {
        method,
        target,
        headers,
    } = read(head)?;
    if method == "CONNECT" {
        let (host, port) = authority(target)?;
        let port = port.ok_or(BadRequest("there is no port"))?;
        check_host(&headers, &host, port)?;
        return Ok(Request::Connect { host, port });
    }
    let rest = strip_scheme(target).ok_or(BadRequest("the target is not an absolute http URL"))?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (name, path) = rest.split_at(end);
    let (host, port) = authority(name)?;
    let port = port.unwrap_or(80);
    check_host(&headers, &host, port)?;
    let Body::Length(body) = body_of(&headers)? else {
        return Err(BadRequest(
            "a body without a length is not forwarded; use https",
        ));
    };
    let path = match path.split('#').next().unwrap_or_default() {
        "" => "/".to_owned(),
        path if path.starts_with('?') => format!("/{path}"),
        path => path.to_owned(),
    };
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n");
    for (name, value) in &headers {
        if !OWN.contains(&name.to_ascii_lowercase().as_str()) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head.push_str("\r\n");
    Ok(Request::Forward {
        host,
        port,
        head: head.into_bytes(),
        body,
    })
}

/// How long the body of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Length(u64),
    /// In pieces, each with its length.
    Chunked,
}

/// A request in a connection that the proxy looks into.
#[derive(Debug)]
pub(crate) struct Inner<'a> {
    pub(crate) first: String,
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    pub(crate) body: Body,
    /// Whether something else than HTTP may follow.
    pub(crate) upgrades: bool,
}

/// Reads the head of a request to a host that the connection is for. One that is for another host, as some servers
/// would take it, is refused: it would get what is for this one.
pub(crate) fn parse_inner<'a>(
    head: &'a [u8],
    host: &Host,
    port: u16,
) -> Result<Inner<'a>, BadRequest> {
    let Head {
        method,
        target,
        headers,
    } = read(head)?;
    let is_path = target.starts_with('/') || (target == "*" && method == "OPTIONS");
    if method == "CONNECT" || !is_path {
        return Err(BadRequest("the target is no path"));
    }
    let named = |wanted: &str| {
        let mut all = headers.iter();
        all.any(|(name, _)| name.eq_ignore_ascii_case(wanted))
    };
    if !named("host") {
        return Err(BadRequest("there is no Host header"));
    }
    check_host(&headers, host, port)?;
    let (body, upgrades) = (body_of(&headers)?, named("upgrade"));
    Ok(Inner {
        first: format!("{method} {target} HTTP/1.1\r\n"),
        headers,
        body,
        upgrades,
    })
}

fn read(head: &[u8]) -> Result<Head<'_>, BadRequest> {
    let text = std::str::from_utf8(head).map_err(|_| BadRequest("the request is not text"))?;
    let text = text
        .strip_suffix("\r\n\r\n")
        .ok_or(BadRequest("the request has no end"))?;
    let odd = |character: char| character.is_control() && character != '\t';
    let mut lines = text.split("\r\n");
    if text.split("\r\n").any(|line| line.contains(odd)) {
        return Err(BadRequest("the request has control characters"));
    }
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(BadRequest("the request line doesn't have three parts"));
    };
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(BadRequest("only HTTP/1.1 and HTTP/1.0 are supported"));
    }
    if method.is_empty()
        || !method
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'-')
    {
        return Err(BadRequest("the method is invalid"));
    }
    Ok(Head {
        method,
        target,
        headers: headers(lines)?,
    })
}

fn strip_scheme(target: &str) -> Option<&str> {
    let (scheme, rest) = target.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case("http://").then_some(rest)
}

fn headers<'a>(
    lines: impl Iterator<Item = &'a str>,
) -> Result<Vec<(&'a str, &'a str)>, BadRequest> {
    let mut headers = Vec::new();
    for line in lines {
        if line.starts_with([' ', '\t']) {
            return Err(BadRequest("a header continues on the next line"));
        }
        let (name, value) = line
            .split_once(':')
            .ok_or(BadRequest("a header has no colon"))?;
        let is_name = !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
        if !is_name {
            return Err(BadRequest("a header name is invalid"));
        }
        headers.push((name, value.trim()));
    }
    Ok(headers)
}

/// A host, and its port if it has one. No user, no path, nothing else.
fn authority(text: &str) -> Result<(Host, Option<u16>), BadRequest> {
    let wrong = BadRequest("the host is neither a name nor an address");
    if text.contains('@') {
        return Err(BadRequest("the address has a user in it"));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !text.ends_with(']') => {
            let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let port = port.parse().ok().filter(|port| digits && *port > 0);
            let port: u16 = port.ok_or(BadRequest("the port is not a number"))?;
            (host, Some(port))
        }
        _ => (text, None),
    };
    // Without brackets, a colon in the host could be the port's.
    if host.contains(':') && !host.starts_with('[') {
        return Err(wrong);
    }
    Ok((Host::parse(host).ok_or(wrong)?, port))
}

/// The `Host` header, if there is one, must name what is asked for.
fn check_host(headers: &[(&str, &str)], host: &Host, port: u16) -> Result<(), BadRequest> {
    let named: Vec<&str> = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
        .map(|(_, value)| *value)
        .collect();
    match named.as_slice() {
        [] => Ok(()),
        [value] => {
            let (named, named_port) = authority(value)?;
            // A tunnel's header often leaves the port out.
            if named == *host && named_port.is_none_or(|named| named == port) {
                Ok(())
            } else {
                Err(BadRequest("the Host header names another host"))
            }
        }
        _ => Err(BadRequest("there are two Host headers")),
    }
}

fn body_of(headers: &[(&str, &str)]) -> Result<Body, BadRequest> {
    let all = |wanted: &'static str| {
        let named = move |(name, _): &&(&str, &str)| name.eq_ignore_ascii_case(wanted);
        headers.iter().filter(named).map(|(_, value)| *value)
    };
    let (mut lengths, mut codings) = (all("content-length"), all("transfer-encoding"));
    let unclear = Err(BadRequest("the length of the body is not clear"));
    match (
        lengths.next(),
        lengths.next(),
        codings.next(),
        codings.next(),
    ) {
        (None, _, None, _) => Ok(Body::Length(0)),
        (None, _, Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => {
            Ok(Body::Chunked)
        }
        (Some(value), None, None, _)
            if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            let length = value.parse().map(Body::Length);
            length.map_err(|_| BadRequest("the length of the body is not a number"))
        }
        _ => unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Host {
        Host::parse(name).unwrap()
    }

    #[test]
    fn tunnels_and_requests_are_read() {
        let request =
            parse(b"CONNECT Example.COM.:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n").unwrap();
        assert_eq!(
            request,
            Request::Connect {
                host: host("example.com"),
                port: 443
            }
        );
        let request = parse(b"CONNECT [::1]:443 HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(
            request,
            Request::Connect {
                host: host("::1"),
                port: 443
            }
        );
        let text = b"POST http://a.com:8080/x?y HTTP/1.1\r\nHost: a.com:8080\r\nProxy-Connection: keep-alive\r\nContent-Length: 3\r\nX: y\r\n\r\n";
        let Request::Forward {
            host: found,
            port,
            head,
            body,
        } = parse(text).unwrap()
        else {
            panic!("not forwarded");
        };
        assert_eq!((found, port, body), (host("a.com"), 8080, 3));
        let head = String::from_utf8(head).unwrap();
        assert_eq!(
            head,
            "POST /x?y HTTP/1.1\r\nHost: a.com:8080\r\nConnection: close\r\nContent-Length: 3\r\nX: y\r\n\r\n"
        );
    }

    #[test]
    fn a_request_in_a_connection_must_be_for_its_host() {
        let read = |text: &str| parse_inner(text.as_bytes(), &host("a.com"), 443).map(|it| it.body);
        assert_eq!(
            read("GET /x HTTP/1.1\r\nHost: A.com\r\n\r\n"),
            Ok(Body::Length(0))
        );
        assert_eq!(
            read("PUT /x HTTP/1.1\r\nHost: a.com:443\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Ok(Body::Chunked)
        );
        for text in [
            "GET /x HTTP/1.1\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: b.com\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a.com\r\nHost: b.com\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: a.com:444\r\n\r\n",
            "GET https://b.com/x HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "CONNECT b.com:443 HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "PUT /x HTTP/1.1\r\nHost: a.com\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "PUT /x HTTP/1.1\r\nHost: a.com\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "PUT /x HTTP/1.1\r\nHost: a.com\r\nContent-Length: \r\n\r\n",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for text in [
            "GET / HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nHost: b.com\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\nHost: b.com\r\n\r\n",
            "GET http://b.com@a.com/ HTTP/1.1\r\n\r\n",
            "GET http://a.com@b.com/ HTTP/1.1\r\n\r\n",
            "GET https://a.com/ HTTP/1.1\r\n\r\n",
            "GET http://a.com\0.b.com/ HTTP/1.1\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nX: a\rb\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\nX: a\nHost: b.com\r\n\r\n",
            "GET http://a.com/ HTTP/1.1\r\n folded\r\n\r\n",
            "GET http://2130706433/ HTTP/1.1\r\n\r\n",
            "GET http://0x7f.1/ HTTP/1.1\r\n\r\n",
            "GET http://127.1/ HTTP/1.1\r\n\r\n",
            "GET http://a.com:80:80/ HTTP/1.1\r\n\r\n",
            "GET http://a.com:/ HTTP/1.1\r\n\r\n",
            "GET http://a.com:+80/ HTTP/1.1\r\n\r\n",
            "GET http://a.com/ HTTP/2.0\r\n\r\n",
            "GET  http://a.com/ HTTP/1.1\r\n\r\n",
            "CONNECT a.com HTTP/1.1\r\n\r\n",
            "CONNECT a.com:443 HTTP/1.1\r\nHost: b.com:443\r\n\r\n",
            "CONNECT user@a.com:443 HTTP/1.1\r\n\r\n",
            "CONNECT ::1:443 HTTP/1.1\r\n\r\n",
            "CONNECT a.com:0 HTTP/1.1\r\n\r\n",
            "CONNECT a.com:99999 HTTP/1.1\r\n\r\n",
            "POST http://a.com/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST http://a.com/ HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
            "POST http://a.com/ HTTP/1.1\r\nContent-Length: -3\r\n\r\n",
            "POST http://a.com/ HTTP/1.1\r\nBad Name: x\r\n\r\n",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
