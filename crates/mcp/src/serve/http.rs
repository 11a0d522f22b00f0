//! Serves over HTTP at `/mcp`.

use super::{Handler, Identity, ServeError, Served};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const PATH: &str = "/mcp";
/// The maximum size of a request.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// A bound server that is not serving yet.
pub struct BoundServer {
    listener: TcpListener,
    pub address: SocketAddr,
    token: Arc<str>,
}

/// Binds a local address. Clients must send the token: everyone on this machine can connect.
///
/// # Errors
/// If the address is not local, or taken.
pub async fn bind(address: SocketAddr, token: &str) -> Result<BoundServer, ServeError> {
    if !address.ip().is_loopback() {
        return Err(ServeError::NotLocal(address));
    }
    let failed = |error| ServeError::Address { address, error };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(BoundServer {
        listener,
        address,
        token: token.into(),
    })
}

impl BoundServer {
    /// The address for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    pub async fn serve(
        self,
        served: Arc<dyn Served>,
        identity: Identity,
        cancel: CancellationToken,
    ) {
        let port = self.address.port();
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(["localhost", "127.0.0.1", "::1"])
            .with_allowed_origins([
                format!("http://localhost:{port}"),
                format!("http://127.0.0.1:{port}"),
                format!("http://[::1]:{port}"),
            ])
            .with_max_request_body_bytes(MOST_BYTES)
            .with_cancellation_token(cancel.child_token());
        let handler = Handler::new(served, identity);
        let service = StreamableHttpService::new(
            move || Ok(handler.clone()),
            Arc::new(LocalSessionManager::default()),
            config,
        );
        let mut connections = JoinSet::new();
        loop {
            let stream = tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        continue;
                    }
                },
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                () = cancel.cancelled() => break,
            };
            let (service, token) = (service.clone(), self.token.clone());
            connections.spawn(async move {
                let answer = service_fn(move |request: Request<Incoming>| {
                    let (service, token) = (service.clone(), token.clone());
                    async move { Ok::<_, Infallible>(answer(&service, &token, request).await) }
                });
                let connection = Builder::new(TokioExecutor::new());
                // Errors are ignored: the client may have disconnected.
                let _ = connection
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
        }
        connections.shutdown().await;
    }
}

/// Whether a request has the token. Takes as long for a wrong one as for a right one.
fn has_token<B>(request: &Request<B>, token: &str) -> bool {
    let header = request
        .headers()
        .get(hyper::header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    // For clients that can't send headers.
    let query = || {
        let query = request.uri().query()?;
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix("token="))
    };
    let given = header.or_else(query).unwrap_or_default().trim();
    let differences = given
        .bytes()
        .zip(token.bytes())
        .fold(0, |found, (a, b)| found | (a ^ b));
    !token.is_empty() && given.len() == token.len() && differences == 0
}

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

async fn answer(
    service: &StreamableHttpService<Handler, LocalSessionManager>,
    token: &str,
    request: Request<Incoming>,
) -> Response<Body> {
    if !has_token(&request, token) {
        let words = "The header `Authorization: Bearer TOKEN` is missing or wrong; the server printed its token when it started.\n";
        let mut response = Response::new(Full::new(Bytes::from(words)).boxed());
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        let scheme = hyper::header::HeaderValue::from_static("Bearer");
        response
            .headers_mut()
            .insert(hyper::header::WWW_AUTHENTICATE, scheme);
        return response;
    }
    if request.uri().path().trim_end_matches('/') != PATH {
        let words = Full::new(Bytes::from(format!("The server is at {PATH}.\n")));
        let mut response = Response::new(words.boxed());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    service.handle(request).await
}

#[cfg(test)]
mod tests {
    use super::has_token;
    use hyper::Request;

    const TOKEN: &str = "b1946ac92492d2347c6235b4d2611184";

    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 >> 33).unwrap() % limit
        }

        fn one<'a>(&mut self, words: &[&'a str]) -> &'a str {
            words[self.below(words.len())]
        }

        /// Something that resembles the token.
        fn resembling(&mut self) -> String {
            let at = self.below(TOKEN.len());
            match self.below(10) {
                0 => String::new(),
                1 => TOKEN[..at].to_owned(),
                2 => TOKEN[at..].to_owned(),
                3 => format!("{TOKEN}{TOKEN}"),
                4 => format!("{TOKEN}0"),
                5 => TOKEN.to_uppercase(),
                6 => TOKEN.chars().rev().collect(),
                7 => format!("{}{}", &TOKEN[..at], "0".repeat(TOKEN.len() - at)),
                8 => format!("{} {}", &TOKEN[..at], &TOKEN[at..]),
                _ => "*".to_owned(),
            }
        }
    }

    /// Requests without the token, or with something like it in a header, the query or somewhere else, don't get in.
    #[test]
    fn no_made_up_request_without_the_token_gets_in() {
        let mut random = Random(20_261_116);
        for _ in 0..5_000 {
            let (header, given) = (random.resembling(), random.resembling());
            // Blanks around it don't matter.
            if header.trim() == TOKEN || given.trim() == TOKEN {
                continue;
            }
            let scheme = random.one(&[
                "Bearer ", "bearer ", "Bearer", "Basic ", "Token ", "", "Bearer  ",
            ]);
            let key = random.one(&[
                "token",
                "Token",
                "access_token",
                "xtoken",
                "token2",
                "TOKEN",
            ]);
            let method = random.one(&["GET", "POST", "DELETE", "OPTIONS", "HEAD", "PUT"]);
            let path = random.one(&["/mcp", "/", "/mcp/", "//mcp", "/MCP", "/mcp/x"]);
            let mut builder = Request::builder().method(method);
            builder = match random.below(4) {
                0 => builder.uri(path),
                1 => builder.uri(format!("{path}?{key}={}", given.replace(' ', "%20"))),
                2 => builder.uri(format!(
                    "{path}?a=b&{key}={}&token",
                    given.replace(' ', "+")
                )),
                // Only the parameter with this very name is looked at.
                _ => builder.uri(format!("{path}?x{key}={TOKEN}")),
            };
            builder = match random.below(4) {
                0 => builder,
                1 => builder.header("authorization", format!("{scheme}{header}")),
                2 => builder.header("x-authorization", format!("Bearer {TOKEN}")),
                _ => builder.header("cookie", format!("token={TOKEN}")),
            };
            let Ok(request) = builder.body(()) else {
                continue;
            };
            assert!(!has_token(&request, TOKEN), "{request:?}");
            assert!(!has_token(&request, ""), "{request:?}");
        }
        let right = Request::builder()
            .uri("/mcp")
            .header("authorization", format!("Bearer {TOKEN}"));
        assert!(has_token(&right.body(()).unwrap(), TOKEN));
    }
}
