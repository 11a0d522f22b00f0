//! Properties of the proxy's readers that hold for any bytes of a command: they end, and the server gets one request for
//! the host that was judged.

use crate::http::{self, Request};
use crate::socks;
use futures::FutureExt as _;

/// Any bytes as a request to the proxy: the head that is sent on is read the same way again.
#[expect(clippy::missing_panics_doc, reason = "panicking is how a target fails")]
pub fn fuzz_proxy_request(bytes: &[u8]) {
    if let Ok(Request::Forward {
        host,
        port,
        head,
        body,
    }) = http::parse(bytes)
    {
        let end = head.windows(4).position(|four| four == b"\r\n\r\n");
        assert_eq!(end, Some(head.len() - 4), "a second request in the head");
        let again = http::parse_inner(&head, &host, port);
        let again = again.unwrap_or_else(|error| unreachable_head(&head, &error));
        assert_eq!(again.body, http::Body::Length(body));
        assert!(!again.upgrades, "the connection may become something else");
    }
    fuzz_socks(bytes);
}

/// A failure that shows the head.
#[expect(clippy::panic, reason = "panicking is how a target fails")]
fn unreachable_head(head: &[u8], error: &http::BadRequest) -> ! {
    panic!("{error}: {:?}", String::from_utf8_lossy(head))
}

/// Any bytes as a SOCKS client: never waits for more than the message has, and never allows a port that isn't one.
fn fuzz_socks(bytes: &[u8]) {
    let mut answers = Vec::new();
    let mut stream = tokio::io::join(bytes, &mut answers);
    let wanted = socks::accept(&mut stream).now_or_never();
    if let Some(Ok(Some((_, port)))) = wanted {
        assert!(port > 0);
        assert!(bytes.starts_with(&[5]));
    }
    assert!(answers.len() <= 12, "{answers:?}");
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_bytes_are_read_as_a_request() {
        let words = [
            "CONNECT ",
            "GET http://",
            " HTTP/1.1\r\n",
            "Host: a.com\r\n",
            "\r\n\r\n",
            "Content-Length: 3\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Upgrade: websocket\r\n",
            "Connection: upgrade\r\n",
            "@",
            "[::1]",
            ":80",
            "?#",
            "\u{5}\u{1}\u{0}",
            "\u{5}\u{1}\u{0}\u{3}\u{5}a.com\u{0}\u{50}",
        ];
        lathe_fuzzing::run("proxy_request", 20_000, &words, super::fuzz_proxy_request);
    }
}
