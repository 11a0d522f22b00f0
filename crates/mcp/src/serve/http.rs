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
}

/// Binds a local address.
///
/// # Errors
/// If the address is not local, or taken.
pub async fn bind(address: SocketAddr) -> Result<BoundServer, ServeError> {
    if !address.ip().is_loopback() {
        return Err(ServeError::NotLocal(address));
    }
    let failed = |error| ServeError::Address { address, error };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(BoundServer { listener, address })
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
            let service = service.clone();
            connections.spawn(async move {
                let answer = service_fn(move |request: Request<Incoming>| {
                    let service = service.clone();
                    async move { Ok::<_, Infallible>(answer(&service, request).await) }
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

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

async fn answer(
    service: &StreamableHttpService<Handler, LocalSessionManager>,
    request: Request<Incoming>,
) -> Response<Body> {
    if request.uri().path().trim_end_matches('/') != PATH {
        let words = Full::new(Bytes::from(format!("The server is at {PATH}.\n")));
        let mut response = Response::new(words.boxed());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    service.handle(request).await
}
