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
fn has_token(request: &Request<Incoming>, token: &str) -> bool {
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
